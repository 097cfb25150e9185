"""Predictions for rows given as dicts, as for a request to a server."""

import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklinear.arguments import described
from blocklinear.batches.tables import Entries
from blocklinear.classes import as_given
from blocklinear.errors import InputError, UsageError, WrongTypeError
from blocklinear.model.linear import LinearModel
from blocklinear.model.probability import probabilities
from blocklinear.recipe import recipe_of_model
from blocklinear.tables.arrow import arrow
from blocklinear.tables.encode import Encoder
from blocklinear.tables.infer import Differences
from blocklinear.tables.values import FileRows

Row = Mapping[str, Any]
Floats = NDArray[np.float64]


class TablePredictor:
    """Predicts rows with a model that was trained on a table, by the recipe of the model.

    A row is a dict with a value for each column that the model has features of; what it has besides
    is not looked at. None is a missing value, as are NaN and pandas' NA and NaT, which data frames
    have for one. Values that the dictionary of the model does not have are no features.

    Parameters
    ----------
    model : LinearModel, str or path
        Or its file.

    Attributes
    ----------
    classes : ndarray, shape (n_classes,)         as they were given; 1 and -1 of a one-class model;
                              empty for regression

    Raises
    ------
    MismatchError
        If the model was not trained on tables.
    UsageError
        If pyarrow is missing.

    Examples
    --------
    >>> predictor = TablePredictor("clicks.model")  # doctest: +SKIP
    >>> predictor.predict_proba([{"age": 31, "city": "Rome"}])  # doctest: +SKIP
    array([[0.71, 0.29]])
    """

    def __init__(self, model: LinearModel | str | os.PathLike[str]) -> None:
        arrow()
        if not isinstance(model, LinearModel):
            name, model = os.fspath(model), LinearModel.load(model)
        else:
            name = "the model"
        self._model = model
        self._recipe = recipe_of_model(model.metadata, model.n_features, name)
        self._encoder = Encoder(self._recipe, growing=False)
        self.classes = as_given(np.array(model.outcomes), model.classes)

    def decision_function(self, rows: Sequence[Row]) -> Floats:
        """Return decision values, shape (n_rows,), or (n_rows, n_classes) if there are several.

        Raises
        ------
        InputError
            If a row lacks a column, or a value is of another type or cannot be a feature.
        """
        from scipy.sparse import csr_array

        table = self._encoder.table(self._part(rows))
        n_entries = table.n_entries(0, len(rows))
        indptr, indices = np.empty(len(rows) + 1, np.int64), np.empty(n_entries, np.uint32)
        values = np.empty(n_entries)
        table.put(0, len(rows), 0, Entries(indptr, indices, values))
        n_features = max(self._recipe.n_features, 1)
        X = csr_array((values, indices.astype(np.int64), indptr), shape=(len(rows), n_features))
        return self._model.decision_function(X)

    def predict(self, rows: Sequence[Row]) -> NDArray[Any]:
        """Return the label of each row as it was given, or the value in regression; see above."""
        decisions = self.decision_function(rows)
        if self._model.is_regressor:
            return decisions
        decisions = decisions.reshape(len(rows), self._model.n_columns)
        labels: NDArray[Any] = self.classes[self._model.class_indices(decisions)]
        return labels

    def predict_proba(self, rows: Sequence[Row]) -> Floats:
        """Return the probability of each of `classes`, shape (n_rows, n_classes).

        Raises
        ------
        UsageError
            If the model is not of logistic regression.
        InputError
            As `decision_function` does.
        """
        if not self._model.is_logistic:
            raise UsageError(
                "probabilities are only supported for logistic regression",
                f"use predict: the model is {self._model.solver}",
            )
        decisions = self.decision_function(rows).reshape(len(rows), self._model.n_columns)
        return probabilities(decisions, len(self.classes))

    def _part(self, rows: Sequence[Row]) -> FileRows:
        """Return rows as Arrow columns."""
        if not isinstance(rows, Sequence) or not all(isinstance(row, Mapping) for row in rows):
            raise WrongTypeError(
                f"rows is {described(rows)}, but must be a list of dicts", "give a dict for each"
            )
        pa, columns = arrow(), {}
        for column in self._recipe.columns:
            try:
                values = [row[column.name] for row in rows]
            except KeyError:
                row = next(k for k, row in enumerate(rows) if column.name not in row)
                raise InputError(
                    f"row {row} has no column {column.name}", "give None for a missing value"
                ) from None
            kind = None
            if column.kind == "words":
                kind = pa.list_(pa.string())
                text = next((k for k, value in enumerate(values) if isinstance(value, str)), None)
                if text is not None:  # its letters would be the words
                    raise InputError(
                        f"row {text}, column {column.name}: the value is text",
                        "give a list of words",
                    )
            elif column.kind == "timestamp" and len({*map(_has_zone, values)} - {None}) > 1:
                raise InputError(  # which would be read as of UTC
                    f"column {column.name}: of some times the zone is given, and of others not",
                    "give it of all, or of none, as in the table that the model was trained on",
                )
            try:
                array = _array_of(values, kind)
                if pa.types.is_floating(array.type):  # NaN of NumPy's own types
                    array = pa.compute.if_else(pa.compute.is_nan(array), None, array)
                columns[column.name] = array
            except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
                raise InputError(
                    f"column {column.name}: {error}", f"give values of kind {column.kind}"
                ) from error
        differences, schema = Differences(), pa.table(columns).schema
        differences.look_at("the rows", schema, self._recipe)
        differences.refuse("the recipe of the model")
        return FileRows("the rows", 0, columns, len(rows), 0)


def _array_of(values: list[Any], kind: Any) -> Any:
    """Return an Arrow array of an Arrow type; None for the one that the values have."""
    pa = arrow()
    try:
        return pa.array(values, kind, from_pandas=True)
    except OverflowError:  # of Python's integers those of int64 are tried alone
        return pa.array(values, pa.uint64(), from_pandas=True)


def _has_zone(value: Any) -> bool | None:
    """Return whether a time has a zone; None of a missing one, and of what is no time."""
    is_time = isinstance(value, datetime | np.datetime64) and value == value
    return getattr(value, "tzinfo", None) is not None if is_time else None
