"""`predict` for tables: the recipe of the model makes rows, and the results are a table."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklinear.batches.labels import LabelCoder
from blocklinear.batches.reader import BatchReader
from blocklinear.errors import InputError, UsageError, quoted_name, shown
from blocklinear.events import Listener, TextProgress, ignore
from blocklinear.model.confusion import Confusion
from blocklinear.model.evaluation import Evaluation
from blocklinear.model.linear import LinearModel
from blocklinear.model.metrics import Score
from blocklinear.model.predict import PredictionCounts, check_form, decided, taken_by_model
from blocklinear.model.probability import probabilities
from blocklinear.numerals import counted
from blocklinear.options import TextOptions
from blocklinear.outputs import Output
from blocklinear.recipe import recipe_of_model
from blocklinear.tables.arrow import TableMemory, arrow
from blocklinear.tables.encode import Encoder
from blocklinear.tables.results import Outcomes, ResultWriter, kept, kind_kept
from blocklinear.tables.stream import Skipping, Tables, columns_of, reader_of
from blocklinear.tables.values import Floats


@dataclass(frozen=True)
class TableReport:
    """What came of a prediction."""

    rows: int
    unseen: dict[str, int] = field(default_factory=dict)  # values without a feature, by column
    unknown_labels: int = 0  # rows of a class that the model does not know; they count as wrong
    unlabelled: int = 0  # rows without a label, where the table has a column of these
    score: Score | None = None  # None where no row has a label, unless outliers are counted
    confusion: Confusion | None = None  # which classes were taken for which, if that was asked for

    def summary(self) -> str:
        """Return the score, or how many rows there were."""
        if not self.rows:
            return "no rows"
        return counted(self.rows, "row") if self.score is None else self.score.summary()

    def to_json(self) -> str:
        """Return one JSON object."""
        facts: dict[str, Any] = {"rows": self.rows, "unseen_values": self.unseen}
        if self.unlabelled:
            facts["rows_without_target"] = self.unlabelled
        if self.score is not None:
            score = {**self.score.as_dict(), "unknown_labels": self.unknown_labels}
            facts |= score | {"rows": self.rows}  # of the score are those with a target
        return json.dumps(facts | ({} if self.confusion is None else self.confusion.as_dict()))


def predict_tables(
    model: LinearModel,
    inputs: Sequence[str],
    output: str | os.PathLike[str] | Output,
    *,
    name: str = "the model",
    options: TextOptions | None = None,
    decision: bool = False,
    probability: bool = False,
    keep: Sequence[str] = (),
    strict: bool = False,
    classes: bool = False,
    positive: float | None = None,
    listener: Listener = ignore,
) -> TableReport:
    """Predict every row of some tables, in order.

    Parameters
    ----------
    model : LinearModel       trained on a store of tables
    inputs : sequence of str  files of Parquet, Arrow or CSV, folders of them, or patterns
    output : str, path or Output        Parquet, Arrow or CSV by its name; it appears whole or not
                              at all
    name : str                of the model, for messages
    options : TextOptions, optional     threads, memory and the number of rows expected
    decision, probability : bool        write decision values, or probabilities, too
    keep : sequence of str    columns of the input that are written, too, before those of the
                              results
    strict : bool             refuse values that the model does not know instead of leaving them out
    classes, positive         as for `PredictionCounts`
    listener : callable       receives `TextProgress` after each part, and `Warned`

    Raises
    ------
    UsageError
        If the model cannot give what is asked for, or pyarrow is missing.
    InputError
        If the columns do not fit the recipe, with a list of the differences; or a value cannot be
        a feature, or with `strict` the model does not know it.
    MismatchError
        If the model was not trained on tables.
    StorageError
    """
    options = options or TextOptions()
    recipe = recipe_of_model(model.metadata, model.n_features, name)
    check_form(model, False, probability)
    counts = PredictionCounts(model, classes, positive)
    tables = Tables(inputs, options.threads, _memory(model, options))
    place = Output.of(output, inputs)
    schema = tables.first_schema()[1]
    labelled = recipe.target.name in schema.names
    lacking = [column for column in keep if column not in schema.names]
    if lacking:
        raise UsageError(f"the table has no column {quoted_name(lacking[0])}, which --keep names")
    asked = [recipe.target.name] if labelled else []
    tables.open(recipe, f"the recipe of {name}", asked, listener)
    for source in tables.sources:
        for column in keep:
            if (n := source.schema.names.count(column)) != 1:
                raise InputError(
                    f"{source.path}: {counted(n, 'column') if n else 'no column'} "
                    f"{quoted_name(column)}, which --keep names",
                    "leave it out of --keep, or name one column of each table so",
                )
    kept_kinds = {column: _kind_of(column, tables) for column in keep}
    if classes and not labelled:
        raise InputError(
            f"the table has no column {recipe.target.name}, which is the target",
            "leave out --report",
        )
    encoder, outcomes = Encoder(recipe, growing=False), Outcomes(recipe, model)

    def results_of(decisions: Floats, chosen: NDArray[np.int64] | None) -> dict[str, Any]:
        results = {"prediction": outcomes.predictions(chosen, decisions)}
        if decision:
            results |= outcomes.decisions(decisions)
        if probability:
            results |= outcomes.probabilities(probabilities(decisions, len(outcomes.names)))
        return results

    none = results_of(
        np.empty((0, model.n_columns)), None if model.is_regressor else np.empty(0, np.int64)
    )
    if ambiguous := sorted(none.keys() & set(keep)):
        raise UsageError(
            f"--keep names {ambiguous[0]}, which is also a column of the results",
            "leave it out of --keep, or rename it in the table",
        )
    left = tables.bytes_for_rows(columns_of(recipe, labelled, keep))
    reader, base = _reader(model, options, left)
    a_label = model.classes.get(model.labels[0], model.labels[0]) if model.labels else 0.0
    is_one_class = not (model.is_classifier or model.is_regressor)
    is_other_text = is_one_class and recipe.target.kind == "text"  # neither 1 nor -1
    scores_all = is_one_class and not labelled  # how many are outliers needs no labels
    with place.open() as stream:
        writer = ResultWriter(stream, place.name)
        try:
            for found in tables.encoded(encoder, labelled, keep):
                if strict and encoder.unseen:
                    raise _unknown_values(encoder.unseen)
                start = 0
                labels, known = found.labels, np.full(found.part.n_rows, scores_all or labelled)
                if found.unlabelled is not None:
                    known[found.unlabelled] = False
                if labels is None or is_other_text:
                    labels = np.full(found.part.n_rows, a_label)
                labels[~known] = a_label
                batches = reader.take(found.table, labels, None)
                for given, decisions, _ in decided(model, batches, base, counts.rows):
                    chosen = None if model.is_regressor else model.class_indices(decisions)
                    columns = {
                        column: kept(found.part, column, start, len(given), kind)
                        for column, kind in kept_kinds.items()
                    }
                    writer.write(columns | results_of(decisions, chosen))
                    _count(counts, known[start : start + len(given)], given, decisions, chosen)
                    start += len(given)
                listener(TextProgress(found.bytes_read, tables.bytes_total, counts.rows))
            if not counts.rows:  # the result has its columns all the same
                writer.write({n: arrow().array([], kind) for n, kind in kept_kinds.items()} | none)
            if options.expect_rows not in (None, counts.rows):
                raise InputError(
                    f"{counted(counts.rows, 'row')}, not the {options.expect_rows} expected",
                    "check the input",
                )
            writer.close()
        except BaseException:
            writer.abandon()
            raise
        finally:
            reader.close()
    n_unlabelled = counts.rows - counts.labelled if labelled else 0
    scored = scores_all or (labelled and n_unlabelled < max(counts.rows, 1))
    return TableReport(
        counts.rows,
        encoder.unseen,
        counts.unknown_labels,
        n_unlabelled,
        counts.score if scored else None,
        counts.confusion if scored else None,
    )


def _kind_of(column: str, tables: Tables) -> Any:
    """Return the type that a column is written with, that of the first file with values of it."""
    kinds, is_null = (s.schema.field(column).type for s in tables.sources), arrow().types.is_null
    return kind_kept(next((kind for kind in kinds if not is_null(kind)), arrow().null()))


def _count(
    counts: PredictionCounts,
    known: NDArray[np.bool_],
    labels: Floats,
    decisions: Floats,
    chosen: NDArray[np.int64] | None,
) -> None:
    """Count some rows, with the labels that are known."""
    if known.all():
        counts.add(labels, decisions, chosen)
        return
    counts.add(None, decisions[~known], None)
    if known.any():
        of_known = None if chosen is None else chosen[known]
        counts.add(labels[known], decisions[known], of_known)


def _unknown_values(unseen: Mapping[str, int]) -> InputError:
    counts = ", ".join(f"{shown(name)} {n}" for name, n in unseen.items())
    return InputError(
        f"the table has values that the model does not know: {counts}",
        "predict data like that of the training, or leave out --strict to ignore such values",
    )


def _memory(model: LinearModel, options: TextOptions) -> TableMemory:
    """Return the memory for tables, with what `text_memory` takes off a budget for the model."""
    weights_bytes = taken_by_model(model.weights.nbytes, model.n_columns)
    return TableMemory(options.memory_bytes, weights_bytes=weights_bytes)


def _reader(model: LinearModel, options: TextOptions, memory_bytes: int) -> tuple[BatchReader, int]:
    """Return what makes rows of batches as the model takes them, and their smallest index."""
    coder = LabelCoder(model.classes, model.labels)
    reader = reader_of(coder, options, memory_bytes, model.index_base, "the model")
    return reader, reader.index_base


def evaluate_tables(
    model: LinearModel,
    inputs: Sequence[str],
    *,
    name: str = "the model",
    options: TextOptions | None = None,
    positive: float | None = None,
) -> Evaluation:
    """Compare the targets of some tables with what a model says of the rows that have one.

    UsageError, InputError, MismatchError and StorageError are raised as by `predict_tables`; also
    if the tables have no column of targets, or no row that has one.

    Parameters
    ----------
    model, inputs, name, options        as for `predict_tables`
    positive : float, optional          the class of two that curves and F1 are of; by default the
                              larger label
    """
    options = options or TextOptions()
    recipe = recipe_of_model(model.metadata, model.n_features, name)
    tables = Tables(inputs, options.threads, _memory(model, options))
    if recipe.target.name not in tables.first_schema()[1].names:
        raise InputError(
            f"the table has no column {recipe.target.name}, which is the target",
            "give rows whose targets are known",
        )
    tables.open(recipe, f"the recipe of {name}", [recipe.target.name])
    left = tables.bytes_for_rows(columns_of(recipe, labelled=True))
    encoder, (reader, base) = Encoder(recipe, growing=False), _reader(model, options, left)
    evaluation = Evaluation(model, positive)
    try:
        for found in tables.encoded(encoder, True, skipping=Skipping()):
            batches = reader.take(found.table, found.labels, None)
            for given, decisions, _ in decided(model, batches, base, evaluation.rows):
                evaluation.add(given, decisions)
    finally:
        reader.close()
    if not evaluation.rows:
        raise tables.no_rows()
    evaluation.unlabelled = sum(tables.skipped)
    return evaluation
