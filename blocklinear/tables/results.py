"""Predictions as a table: Parquet, Arrow or CSV, by the name of the file."""

import contextlib
import os
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from blocklinear.errors import InputError, UsageError
from blocklinear.model.linear import LinearModel
from blocklinear.recipe import Recipe
from blocklinear.tables.arrow import arrow
from blocklinear.tables.values import FileRows

Floats = NDArray[np.float64]


class ResultWriter:
    """Writes columns to a stream, part by part.

    Parameters
    ----------
    stream : binary file
    name : str
        Of the file: ``.parquet``, ``.arrow`` and ``.feather`` say its kind; all else is CSV.
    """

    def __init__(self, stream: IO[bytes], name: str) -> None:
        self._stream = stream
        self._writer: Any = None
        self._kind = os.path.splitext(name)[1].lower()

    def write(self, columns: dict[str, Any]) -> None:
        """Write some rows.

        UsageError is raised if files of this kind cannot have such columns.
        """
        table = arrow().table(columns)
        try:
            if self._writer is None:
                self._writer = self._open(table.schema)
            self._writer.write_table(table)
        except arrow().ArrowException as error:
            fix = "leave it out of --keep"
            if self._kind != ".parquet":
                fix += ", or write Parquet: name the file .parquet"
            what = f"a column of --keep cannot be written to a file of this kind: {error}"
            raise UsageError(what, fix) from error

    def _open(self, schema: Any) -> Any:
        if self._kind == ".parquet":
            import pyarrow.parquet as pq

            return pq.ParquetWriter(self._stream, schema)
        if self._kind in (".arrow", ".feather"):
            import pyarrow.ipc as ipc

            return ipc.new_file(self._stream, schema)
        import pyarrow.csv as csv

        return csv.CSVWriter(self._stream, schema)

    def close(self) -> None:
        """Write what is at the end."""
        if self._writer is not None:
            self._writer.close()

    def abandon(self) -> None:
        """End without a result; else pyarrow would write the end to a stream that is closed."""
        with contextlib.suppress(Exception):
            self.close()


def kind_kept(kind: Any) -> Any:
    """Return the Arrow type that a column is written with, of the one that it is read with.

    Categories are written as their values: a file of Arrow has one dictionary for all parts.
    """
    return kind.value_type if arrow().types.is_dictionary(kind) else kind


def kept(part: FileRows, column: str, start: int, n_rows: int, kind: Any) -> Any:
    """Return some rows of a column as they are written: of one type, however they were read.

    InputError is raised if a value is none of that type.
    """
    pa, array = arrow(), part.columns[column].slice(start, n_rows)
    if hasattr(array, "dictionary"):
        array = array.dictionary_decode()
    try:
        return array if array.type == kind else array.cast(kind)
    except pa.ArrowException as error:
        raise InputError(
            f"{part.at(start)} or after it, column {column}: its type is {array.type}, and {kind} "
            f"in the first file: {' '.join(str(error).split())}",
            f"leave {column} out of --keep, or give the files the same types",
        ) from error


class Outcomes:
    """Makes columns of results of what a model decides."""

    def __init__(self, recipe: Recipe, model: LinearModel) -> None:
        pa, labels = arrow(), [model.classes.get(label, label) for label in model.outcomes]
        self.names = model.outcome_names
        if recipe.target.kind == "boolean" and model.is_classifier:
            labels = [label != 0 for label in labels]
        elif not model.classes and all(float(label).is_integer() for label in model.outcomes):
            labels = [int(label) for label in model.outcomes]
        self._values = None if model.is_regressor else pa.array(labels)

    def predictions(self, chosen: Any, decisions: Floats) -> Any:
        """Return the column of predictions: the classes chosen, or the values of a regression."""
        if self._values is None:
            return arrow().array(decisions[:, 0])
        return self._values.take(arrow().array(chosen))

    def decisions(self, decisions: Floats) -> dict[str, Any]:
        """Return the columns of decision values: one, or one a class."""
        if decisions.shape[1] == 1:
            return {"decision": decisions[:, 0].copy()}
        return {f"decision_{n}": decisions[:, k].copy() for k, n in enumerate(self.names)}

    def probabilities(self, shares: Floats) -> dict[str, Any]:
        """Return the columns of probabilities, one a class."""
        return {f"probability_{n}": shares[:, k].copy() for k, n in enumerate(self.names)}
