"""Rows and a model to predictions."""

import os
from collections.abc import Sequence
from typing import Any, overload

from numpy.typing import NDArray

from blocklinear.api.calling import options_of, takes, telling
from blocklinear.arguments import Path, described, path_list
from blocklinear.errors import UsageError, WrongTypeError
from blocklinear.events import Listener
from blocklinear.model.evaluation import Evaluation
from blocklinear.model.linear import LinearModel
from blocklinear.model.predict import (
    PredictionReport,
    evaluate_text,
    predict_stream,
    predict_text,
    predicted,
)
from blocklinear.options import TextOptions

Model = LinearModel | str | os.PathLike[str]


@overload
def predict(
    rows: Any,
    model: Model,
    output: None = None,
    *,
    decision: bool = False,
    probability: bool = False,
    strict: bool = False,
    report: bool = False,
    positive: Any = None,
    options: TextOptions | None = None,
    listener: Listener | None = None,
    verbose: bool = False,
    **settings: Any,
) -> NDArray[Any]: ...


@overload
def predict(
    rows: Path | Sequence[Path],
    model: Model,
    output: str | os.PathLike[str],
    *,
    decision: bool = False,
    probability: bool = False,
    strict: bool = False,
    report: bool = False,
    positive: Any = None,
    options: TextOptions | None = None,
    listener: Listener | None = None,
    verbose: bool = False,
    **settings: Any,
) -> PredictionReport: ...


@takes(TextOptions)
def predict(
    rows: Any,
    model: Model,
    output: str | os.PathLike[str] | None = None,
    *,
    decision: bool = False,
    probability: bool = False,
    strict: bool = False,
    report: bool = False,
    positive: Any = None,
    options: TextOptions | None = None,
    listener: Listener | None = None,
    verbose: bool = False,
    **settings: Any,
) -> NDArray[Any] | PredictionReport:
    """Predict the label, or the value in regression, of every row.

    Parameters
    ----------
    rows : path, sequence of paths, SciPy sparse matrix or array
        LIBSVM text, or rows in memory, whose column j is feature j counted from 0.
    model : LinearModel or path
    output : path or None
        For text: where to write a line for each row, ``-`` for standard output. Rows are read
        once, in memory that does not grow. None returns the predictions.
    decision : bool
        Decision values instead of labels.
    probability : bool
        Probabilities of the classes, in the order of ``model.labels``; logistic regression only.
    strict : bool
        Refuse text with features that the model does not know, instead of ignoring them.
    report : bool
        With `output`, count labels and predictions in the `confusion` of what is returned.
    positive : number or str
        With `report`, which of two classes F1 is that of; None is the larger label.
    options : TextOptions
        How text is read; by default with the features numbered as the model's were.
    listener : callable
        Called with `TextProgress`, with `output`.
    verbose : bool
        With `output`, show a progress bar.
    **settings
        Fields of `TextOptions`; they replace those of `options`.

    Returns
    -------
    ndarray, shape (n_rows,) or (n_rows, n_columns)
        Without `output`: float64, but for labels that were given as text or integers.
    PredictionReport
        With it: how good the predictions are.

    Raises
    ------
    WrongTypeError
        If an argument is of the wrong type, or an option is unknown.
    UsageError
        If what is asked for does not go together, or the model cannot give it.
    InputError
        If a line cannot be read, or a decision value overflows.
    StorageError
        If reading or writing fails.

    Examples
    --------
    >>> import blocklinear
    >>> store = blocklinear.split("rows.svm", "store", blocks=4, force=True)
    >>> model = blocklinear.train(store, solver=7)
    >>> report = blocklinear.predict("more.svm", model, "labels.txt")
    >>> print(report)
    Accuracy = 88.8889% (48/54)
    >>> blocklinear.predict("more.svm", model)[:3]
    array([ 1., -1.,  1.])
    >>> blocklinear.predict([[0.7] * 13], model, probability=True).shape
    (1, 2)
    """
    found = model_of(model)
    if not _is_text(rows):
        given = (output, options, positive)
        if any(value is not None for value in given) or settings or strict or report:
            options_of(TextOptions, options, settings, predict)  # names what is unknown
            raise UsageError(
                "rows in memory are predicted without output, report, positive, strict and options "
                "of text",
                "leave them out, or give the path of LIBSVM text",
            )
        decisions = found.decision_function(rows).reshape(-1, found.n_columns)
        return predicted(found, decisions, decision=decision, probability=probability)
    inputs = [os.fspath(path) for path in path_list(rows)]
    text = options_of(TextOptions, options, settings, predict)
    if output is not None:
        with telling(listener, verbose) as tell:
            return predict_stream(
                found, inputs, output, text_options=text, decision=decision,
                positive=found.code_of(positive), probability=probability, strict=strict,
                classes=report, listener=tell,
            )  # fmt: skip
    if report or positive is not None:
        raise UsageError("a report is made where predictions are written", "give output")
    return predict_text(
        found, inputs, text_options=text, decision=decision, probability=probability, strict=strict
    )


@takes(TextOptions)
def evaluate(
    rows: Any,
    model: Model,
    y: Any = None,
    *,
    positive: Any = None,
    options: TextOptions | None = None,
    listener: Listener | None = None,
    verbose: bool = False,
    **settings: Any,
) -> Evaluation:
    """Compare labels with what a model says of their rows: scores, curves, confusion.

    Parameters
    ----------
    rows : path, sequence of paths, SciPy sparse matrix or array
        LIBSVM text, or rows in memory, whose column j is feature j counted from 0.
    model : LinearModel or path
    y : array_like or None
        Labels of rows in memory, as they were given; text has its own.
    positive : number or str
        The class of two that curves and F1 are of; None is the larger label.
    options : TextOptions
        How text is read; by default with the features numbered as the model's were.
    listener : callable
        Called with `TextProgress`, for text.
    verbose : bool
        Show a progress bar, for text.
    **settings
        Fields of `TextOptions`; they replace those of `options`.

    Returns
    -------
    Evaluation
        It keeps the decision values: for a classifier of up to 10 columns 8 bytes for each row and
        column.

    Raises
    ------
    WrongTypeError
        If an argument is of the wrong type, or an option is unknown.
    UsageError
        If what is given does not go together, or `positive` is not one of two classes.
    InputError
        If a line cannot be read, there are no rows, or a decision value overflows.
    StorageError
        If reading fails.

    Examples
    --------
    >>> import blocklinear
    >>> store = blocklinear.split("rows.svm", "store", blocks=4, force=True)
    >>> model = blocklinear.train(store, solver=7)
    >>> found = blocklinear.evaluate("more.svm", model)
    >>> print(found)
    Accuracy = 88.8889% (48/54)
    F1 = ... (positive class 1)
    Area under the ROC curve = ... (positive 1)
    """
    found = model_of(model)
    if not _is_text(rows):
        if y is None or options is not None or settings:
            options_of(TextOptions, options, settings, evaluate)  # names what is unknown
            raise UsageError(
                "rows in memory are evaluated with y, and without options of text",
                "give their labels as y, or the path of LIBSVM text",
            )
        return found.evaluate(rows, y, positive)
    if y is not None:
        raise UsageError("y is given for text, which has labels of its own", "leave it out")
    inputs = [os.fspath(path) for path in path_list(rows)]
    text = options_of(TextOptions, options, settings, evaluate)
    with telling(listener, verbose) as tell:
        return evaluate_text(
            found, inputs, text_options=text, positive=found.code_of(positive), listener=tell
        )


def model_of(model: object) -> LinearModel:
    """Return `model`, or load the one at that path.

    Raises
    ------
    WrongTypeError
        If it is neither.
    """
    if isinstance(model, LinearModel):
        return model
    if not isinstance(model, str | os.PathLike):
        raise WrongTypeError(
            f"model is {described(model)}, but must be a LinearModel or the path of one",
            "give what blocklinear.train returns, or the file it was saved to",
        )
    return LinearModel.load(model)


def _is_text(rows: object) -> bool:
    """Say whether rows are given by the paths of text."""
    if isinstance(rows, list | tuple):
        return bool(rows) and isinstance(rows[0], str | os.PathLike)
    return isinstance(rows, str | os.PathLike)
