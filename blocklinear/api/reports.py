"""Runs and models to reports."""

import os
from collections.abc import Sequence

from blocklinear.api.prediction import evaluate, model_of
from blocklinear.arguments import Path, described, path_list
from blocklinear.errors import UsageError, WrongTypeError
from blocklinear.events import Listener
from blocklinear.model.evaluation import Evaluation
from blocklinear.model.linear import LinearModel
from blocklinear.report.history import RunHistory
from blocklinear.report.page import Subject, write_page
from blocklinear.report.records import RunRecords, read_events


def write_report(
    output: str | os.PathLike[str],
    *,
    run: RunHistory | str | os.PathLike[str] | None = None,
    model: LinearModel | str | os.PathLike[str] | None = None,
    test: Path | Sequence[Path] | Evaluation | None = None,
    names: Sequence[str] | None = None,
    title: str | None = None,
    listener: Listener | None = None,
) -> None:
    """Write a page of HTML about a run, a model, or both, which fetches nothing from elsewhere.

    Parameters
    ----------
    output : path
        Appears whole or not at all; ``-`` is standard output.
    run : RunHistory, path or None
        The last run of a log, also one that goes on. None takes the history of `model`, if it was
        trained by this program.
    model : LinearModel, path or None
    test : path, sequence of paths, Evaluation or None
        LIBSVM text that the model is compared with, or what `evaluate` returned.
    names : sequence of str or None
        Of the features, counted from 0; by default those that the model has.
    title : str or None
        By default the name of the run.
    listener : callable
        Called with `TextProgress` while `test` is read.

    Raises
    ------
    WrongTypeError
        If an argument is of the wrong type.
    UsageError
        If there is neither a run nor a model, or `test` is given without a model.
    InputError
        If a log or the text cannot be read.
    StorageError

    Examples
    --------
    >>> import blocklinear
    >>> store = blocklinear.split("rows.svm", "store", blocks=4, force=True)
    >>> model = blocklinear.train(store, C=0.5)
    >>> blocklinear.write_report("report.html", model=model, test="more.svm")
    """
    found = None if model is None else model_of(model)
    if run is None and found is not None:
        run = found.history
    history: RunRecords | None = read_events(run) if isinstance(run, str | os.PathLike) else run
    if not isinstance(history, RunRecords | None):
        raise WrongTypeError(
            f"run is {described(history)}, but must be a RunHistory or the path of a log",
            "give what read_log returns, or the file of train --log",
        )
    evaluation, paths = test if isinstance(test, Evaluation) else None, list[Path]()
    if test is not None and not isinstance(test, Evaluation):
        if found is None:
            raise UsageError("test rows are compared with a model", "give the model")
        evaluation = evaluate(test, found, listener=listener)
        paths = path_list(test)
    if title is None:
        title = f"Run {history.name}" if history is not None else "Model"
        if isinstance(model, str | os.PathLike) and history is None:
            title = os.path.basename(os.fspath(model))
    write_page(Subject(title, history, found, names, evaluation, paths), output)
