"""Prediction as a stream: rows in, one line a row out, in memory that does not grow."""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from blocklinear.classes import as_given
from blocklinear.errors import (
    InputError,
    MemoryBudgetError,
    UsageError,
)
from blocklinear.events import Listener, TextProgress, ignore
from blocklinear.kernels.blocks.scaling import normalize_rows
from blocklinear.kernels.margins import decision_values
from blocklinear.markup import facts_html
from blocklinear.memory import PROCESS_BYTES, enough, exact_size, format_size
from blocklinear.model.confusion import Confusion
from blocklinear.model.evaluation import Evaluation, score_of
from blocklinear.model.linear import LinearModel
from blocklinear.model.metrics import Score
from blocklinear.model.probability import probabilities
from blocklinear.outputs import Output
from blocklinear.text import RowReader, Rows, TextOptions
from blocklinear.text.faults import TooManyFeatures

Floats = npt.NDArray[np.float64]
Formatter = Callable[[Any, Floats], bytes]
"""From chosen outcomes (None in regression) and decision values to lines."""

_VALUES_PER_STEP = 1 << 18  # decision values held, and formatted, at a time
_LEAST_TEXT_BYTES = 16 << 20


@dataclass(frozen=True)
class PredictionReport:
    """The result of a prediction.

    Parameters
    ----------
    rows : int
        Rows read, and lines written for them.
    unknown_values : int
        Stored values ignored because the model has no weight for their feature.
    unknown_labels : int
        Rows whose label the model does not have; they count as wrong.
    score : Score
        Accuracy, or the errors of a regression.
    notes : tuple of str
        Warnings about the inputs, a sentence each.
    confusion : Confusion or None
        Counts of labels and predictions, if asked for.
    """

    rows: int
    unknown_values: int
    unknown_labels: int
    score: Score
    notes: tuple[str, ...] = ()
    confusion: Confusion | None = None

    def summary(self) -> str:
        """Return the score as LIBLINEAR prints it, without a final newline; or ``no rows``."""
        return self.score.summary() if self.rows else "no rows"

    def __str__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        facts = {"rows": str(self.rows), "score": self.summary()}
        if self.unknown_values:
            facts["ignored values of unknown features"] = str(self.unknown_values)
        if self.unknown_labels:
            facts["rows of unknown labels"] = str(self.unknown_labels)
        if self.notes:
            facts["notes"] = "\n".join(self.notes)
        counts = self.confusion if self.rows else None
        matrix = "" if counts is None else counts._repr_html_()
        return facts_html("Prediction", facts) + matrix

    def to_json(self) -> str:
        """Return one JSON object."""
        counts = {"unknown_values": self.unknown_values, "unknown_labels": self.unknown_labels}
        classes = {} if self.confusion is None else self.confusion.as_dict()
        return json.dumps({**self.score.as_dict(), **counts, **classes})


class PredictionCounts:
    """How many rows were predicted, and how well.

    UsageError is raised if classes are to be counted and the model has none, or if `positive` is
    not one of two classes that are counted.

    Parameters
    ----------
    classes : bool            count labels and predictions in a `Confusion`
    positive : float or None  of the model's two classes, the one whose F1 is reported; None is the
                              larger label
    """

    def __init__(self, model: LinearModel, classes: bool, positive: float | None) -> None:
        if classes and not model.is_classifier:
            raise UsageError(
                f"the model has no classes: it is {model.solver}", "leave out --report"
            )
        if positive is not None and not classes:
            raise UsageError("a positive class is used with --report", "leave out --positive")
        self.rows = self.labelled = self.unknown_labels = 0
        self.score = score_of(model)
        self.confusion = Confusion(model.labels, positive, model.named) if classes else None
        self._model, self._outcomes = model, np.array(model.outcomes)

    def add(
        self, labels: Floats | None, decisions: Floats, chosen: npt.NDArray[np.intp] | None
    ) -> None:
        """Count some rows, of which `chosen` are the outcomes; without labels only their number."""
        self.rows += len(decisions)
        if labels is None:
            return
        self.labelled += len(labels)
        predicted = decisions[:, 0] if chosen is None else self._outcomes[chosen]
        self.score.add(labels, predicted)
        if self._model.is_classifier:
            self.unknown_labels += int(np.count_nonzero(~np.isin(labels, self._outcomes)))
        if self.confusion is not None:
            self.confusion.add(labels, predicted)


def predict_stream(
    model: LinearModel,
    inputs: Sequence[str],
    output: str | os.PathLike[str] | Output,
    *,
    text_options: TextOptions | None = None,
    decision: bool = False,
    probability: bool = False,
    strict: bool = False,
    classes: bool = False,
    positive: float | None = None,
    listener: Listener = ignore,
) -> PredictionReport:
    """Predict every row of some LIBSVM files, in order, one line each.

    UsageError, InputError and StorageError are raised as by `blocklinear.predict`. Features are
    hashed, and rows normalised, as the model's were, whatever the options say.

    Parameters
    ----------
    inputs : sequence of str  files; ``-`` is stdin
    output : str, path or Output        appears whole or not at all, unless it is a stream: ``-``
                              (stdout), a pipe or a device
    text_options, strict      as for `blocklinear.predict`
    decision : bool           write all decision values of a row (``%.17g``, separated by blanks)
                              instead of its label
    probability : bool        write LIBLINEAR's ``-b 1`` form: a line ``labels ...``, then label and
                              probabilities
    classes, positive         as for `PredictionCounts`
    listener : callable       called with `TextProgress` after some rows
    """
    head, format_rows = _formatter(model, decision, probability)
    counts = PredictionCounts(model, classes, positive)
    place = Output.of(output, inputs)
    reader, base = _reader(model, inputs, text_options or TextOptions(), strict)
    unknown_values = 0
    with place.open() as stream:
        stream.write(head)
        rows = _known_rows(model, reader, strict)
        for labels, decisions, unknown in decided(model, rows, base):
            chosen = None if model.is_regressor else model.class_indices(decisions)
            stream.write(format_rows(chosen, decisions))
            counts.add(labels, decisions, chosen)
            unknown_values += unknown
            listener(TextProgress(reader.bytes_read, reader.bytes_total, counts.rows))
    notes = reader.notes if counts.rows else [*reader.notes, f"{reader.names}: no rows"]
    return PredictionReport(
        counts.rows,
        unknown_values,
        counts.unknown_labels,
        counts.score,
        tuple(notes),
        counts.confusion,
    )


def predict_text(
    model: LinearModel,
    inputs: Sequence[str],
    *,
    text_options: TextOptions,
    decision: bool = False,
    probability: bool = False,
    strict: bool = False,
) -> npt.NDArray[Any]:
    """Predict every row of some LIBSVM files, in order, into an array.

    UsageError, InputError and StorageError are raised as by `predict_stream`.

    Parameters
    ----------
    model, inputs, text_options, decision, probability, strict
        As for `predict_stream`.

    Returns
    -------
    ndarray
        As `predicted` returns it.
    """
    check_form(model, decision, probability)
    parts = [np.empty((0, model.n_columns))]
    reader, base = _reader(model, inputs, text_options, strict)
    rows = _known_rows(model, reader, strict)
    parts += [decisions.copy() for _, decisions, _ in decided(model, rows, base)]
    return predicted(model, np.concatenate(parts), decision=decision, probability=probability)


def evaluate_text(
    model: LinearModel,
    inputs: Sequence[str],
    *,
    text_options: TextOptions,
    positive: float | None = None,
    listener: Listener = ignore,
) -> Evaluation:
    """Compare the labels of some LIBSVM files with what a model says of their rows.

    UsageError, InputError and StorageError are raised as by `predict_stream`; also if there are no
    rows.

    Parameters
    ----------
    model, inputs, text_options         as for `predict_stream`
    positive : float or None  the class of two that curves and F1 are of; None is the larger label
    listener : callable       called with a `TextProgress` after each piece of text
    """
    found = Evaluation(model, positive)
    reader, base = _reader(model, inputs, text_options, False)
    for labels, decisions, _ in decided(model, _known_rows(model, reader, False), base):
        found.add(labels, decisions)
        listener(TextProgress(reader.bytes_read, reader.bytes_total, found.rows))
    if not found.rows:
        raise InputError(f"{reader.names}: no rows", "check the input")
    return found


def predicted(
    model: LinearModel, decisions: Floats, *, decision: bool = False, probability: bool = False
) -> npt.NDArray[Any]:
    """Return what decision values mean.

    UsageError is raised if both are asked for, or the model has no probabilities.

    Parameters
    ----------
    decisions : ndarray of float64, shape (n_rows, n_columns)
    decision : bool           return them as they are, of one column as a vector
    probability : bool        return probabilities, float64[n_rows, n_classes]

    Returns
    -------
    ndarray, shape (n_rows,)
        Labels as they were given, or the values of a regression, if neither is asked for.
    """
    check_form(model, decision, probability)
    if probability:
        return probabilities(decisions, len(model.outcomes))
    if decision or model.is_regressor:
        return decisions[:, 0] if model.n_columns == 1 else decisions
    table = as_given(np.array(model.outcomes), model.classes)
    return table[model.class_indices(decisions)]


def check_form(model: LinearModel, decision: bool, probability: bool) -> None:
    """Refuse two forms at once, and probabilities of a model that has none.

    Raises UsageError.
    """
    if decision and probability:
        raise UsageError("decision values and probabilities are wanted at once", "ask for one")
    if probability and not model.is_logistic:
        raise UsageError(
            "probability output is only supported for logistic regression",
            f"leave out -b 1: the model is {model.solver}",
        )


def _reader(
    model: LinearModel, inputs: Sequence[str], options: TextOptions, strict: bool
) -> tuple[RowReader, int]:
    """Return a reader of rows as the model takes them, and their smallest index."""
    if "recipe" in model.metadata:
        raise UsageError(
            "the model was trained on tables, and text has no columns to make its features of",
            "predict tables by the command blocklinear predict, or rows by TablePredictor",
        )
    options = replace(options, hash_bits=model.hash_bits)
    if options.index_base is None:
        options = replace(options, index_base=model.index_base, base_of="the model")
    if options.seeks_base:
        raise UsageError("rows are predicted before their index base is known", "give 0 or 1")
    if strict:
        options = replace(options, max_features=max(model.n_features, 1))
    return RowReader(inputs, options, fleeting=True), options.smallest_index


def _known_rows(model: LinearModel, reader: RowReader, strict: bool) -> Iterator[Rows]:
    """Yield the rows; with a bound of their features refuse those the model does not have."""
    try:
        yield from reader
    except TooManyFeatures as error:
        if not strict:
            raise InputError(
                f"{error.place}: index {error.index} makes more features than max_features allows",
                "give a larger max_features, or none",
            ) from None
        raise InputError(
            f"{error.place}: index {error.index} is not one of the {model.n_features} features of "
            "the model",
            "predict data like that of the training, or leave out --strict to ignore such values",
        ) from None


def text_memory(
    n_bytes: int,
    n_columns: int,
    memory_bytes: int,
    least: int = _LEAST_TEXT_BYTES,
    what: str = "text",
) -> int:
    """Return the budget for process and text: the memory less what a model, or several, take.

    MemoryBudgetError is raised if that is too little; the message has the smallest budget that
    would do.

    Parameters
    ----------
    n_bytes : int             of weights
    n_columns : int           decision values of a row
    memory_bytes : int        the budget of the whole process
    least : int               what text must have
    what : str                what is read in its place
    """
    step_bytes = taken_by_model(n_bytes, n_columns) - n_bytes
    other_bytes = PROCESS_BYTES + n_bytes + step_bytes
    if memory_bytes - other_bytes < least:
        raise MemoryBudgetError(
            f"memory budget of {exact_size(memory_bytes)}: the program takes "
            f"{format_size(PROCESS_BYTES)}, weights {format_size(n_bytes)}, "
            f"decision values {format_size(step_bytes)}, {what} at least {format_size(least)}",
            f"give it --memory {enough(other_bytes + least)} or more",
        )
    return memory_bytes - other_bytes + PROCESS_BYTES


def taken_by_model(n_bytes: int, n_columns: int) -> int:
    """Return what weights of `n_bytes` take of a budget, with the decision values of a step."""
    return n_bytes + 16 * max(_VALUES_PER_STEP, n_columns)


def decided(
    model: LinearModel, batches: Iterable[Rows], index_base: int, n_before: int = 0
) -> Iterator[tuple[Floats, Floats, int]]:
    """Yield labels, decision values and the number of ignored values of some rows at a time.

    The decision values are overwritten by the next. InputError is raised if one overflows; the
    message counts rows from those `n_before`.
    """
    intercept, step = model.intercept, max(1, _VALUES_PER_STEP // model.n_columns)
    for batch in batches:
        values, labels = batch.values(), batch.labels()
        if model.normalize == "l2":
            normalize_rows(np.diff(batch.indptr), values, np.empty(batch.n_rows))
        out = np.empty((min(step, batch.n_rows), model.n_columns))
        for start in range(0, batch.n_rows, step):
            stop = min(start + step, batch.n_rows)
            decisions = out[: stop - start]
            unknown = decision_values(
                batch.indptr[start : stop + 1],
                batch.indices,
                values,
                index_base,
                model.weights,
                intercept,
                decisions,
            )
            model.check_decisions(decisions, first_row=n_before + start + 1)
            yield labels[start:stop], decisions, int(unknown)
        n_before += batch.n_rows


def _formatter(model: LinearModel, decision: bool, probability: bool) -> tuple[bytes, Formatter]:
    """Return the first line of the output, and the function that formats rows."""
    check_form(model, decision, probability)
    names = model.outcome_names
    if probability:
        head = f"labels {' '.join(names)}\n".encode()
        return head, _probability_lines(model)
    if decision or model.is_regressor:
        return b"", _decision_lines
    lines = np.array([f"{name}\n".encode() for name in names], dtype=object)

    def label_lines(chosen: Any, decisions: Floats) -> bytes:
        return b"".join(lines[chosen].tolist())

    return b"", label_lines


def _decision_lines(chosen: Any, decisions: Floats) -> bytes:
    line = " ".join(["%.17g"] * decisions.shape[1]) + "\n"
    return (line * len(decisions) % tuple(decisions.ravel().tolist())).encode("ascii")


def _probability_lines(model: LinearModel) -> Formatter:
    names = np.array(model.outcome_names, dtype=object)
    line = "%s" + " %g" * len(names) + "\n"

    def lines(chosen: Any, decisions: Floats) -> bytes:
        shares = probabilities(decisions, len(names))
        cells = np.column_stack([names[chosen], shares.astype(object)])
        return (line * len(shares) % tuple(cells.ravel().tolist())).encode()

    return lines
