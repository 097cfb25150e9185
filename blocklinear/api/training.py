"""Stores to models."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from blocklinear.api.calling import options_of, takes, telling
from blocklinear.arguments import Default
from blocklinear.errors import UsageError
from blocklinear.events import Event, Listener
from blocklinear.model.linear import LinearModel
from blocklinear.options import TrainOptions
from blocklinear.report.history import RunHistory
from blocklinear.selection import cross_validation
from blocklinear.selection.cross_validation import CrossValidation
from blocklinear.store.store import BlockStore
from blocklinear.training import loop
from blocklinear.training.parts import Elsewhere
from blocklinear.training.run import Halt

Store = BlockStore | str | os.PathLike[str]


def _recording(history: RunHistory, options: TrainOptions, listener: Listener) -> Listener:
    """Return a listener that keeps what it hears, too."""
    goals = {"gap_goal": options.gap, "violation_goal": options.tolerance}
    known = {name: goal for name, goal in goals.items() if goal is not None}

    def hear(event: Event) -> None:
        history.hear(event, known)
        listener(event)

    return hear


def _with_cluster(
    store: Store,
    client: Any,
    parts: int | None,
    options: TrainOptions | None,
    settings: dict[str, Any],
    by: Callable[..., Any],
) -> tuple[TrainOptions, Elsewhere | None]:
    """Return the options of a function, and what trains a task on a cluster if one is given.

    Classes are called as they were given, so the store has to say which number each one has.
    """
    weights = settings.get("class_weights")
    if isinstance(weights, Mapping):
        found = BlockStore.of(store)
        settings["class_weights"] = tuple((found.code_of(k), w) for k, w in weights.items())
    if client is None:
        if parts is not None:
            raise UsageError("parts are those of a cluster, and there is none", "give a client")
        return options_of(TrainOptions, options, settings, by), None
    from blocklinear.cluster.job import check_supported  # late: Dask belongs to an extra
    from blocklinear.cluster.run import Cluster

    cluster = Cluster(client, parts)
    chosen = options_of(TrainOptions, options, settings, by)
    if isinstance(chosen.memory_bytes, Default):
        chosen = replace(chosen, memory_bytes=cluster.budget())
    check_supported(chosen)
    return chosen, cluster


@takes(TrainOptions)
def train(
    store: Store,
    options: TrainOptions | None = None,
    listener: Listener | None = None,
    halt: Halt = lambda: False,
    keep: Callable[[LinearModel], object] = lambda model: None,
    *,
    client: Any = None,
    parts: int | None = None,
    verbose: bool = False,
    **settings: Any,
) -> LinearModel:
    """Train a linear model on a store, out of core, to a certified optimum.

    Parameters
    ----------
    store : BlockStore or path
    options : TrainOptions
    listener : callable
        Called with an `OuterIteration` after each of these, and `Warned`; without one, a `Warned`
        is a Python warning.
    halt : callable
        Called between block steps, and within long ones; when it returns true, the run is saved
        and ends with `StoppedError`.
    keep : callable
        Called with the model, to write it, before the run counts as finished: if that fails, or the
        process ends there, `resume` comes to the same model.
    client : distributed.Client or None
        Of a Dask cluster whose workers are to train; they reach the folder of the store by the same
        path. Memory is that of each worker then: what was given, or else half of what the least of
        them has.
    parts : int or None
        Parts that a cluster works on side by side; None is one for each worker, but at most half as
        many as there are blocks. The model depends on their number, not on that of the workers.
    verbose : bool
        Show a progress bar.
    **settings
        Fields of `TrainOptions`; they replace those of `options`. ``C`` is ``cost``, ``memory`` is
        the budget as a size, and ``class_weights`` may be a dict, of
        classes as they were given.

    Returns
    -------
    LinearModel
        ``metadata["certificate"]`` bounds its distance from the optimum, however training ended.
        Its `history` is a `RunHistory`, which `plot_training` draws.

    Raises
    ------
    WrongTypeError
        If an argument is of the wrong type, or an option is unknown.
    InputError
        If the labels do not fit the solver, or the numbers overflow.
    MemoryBudgetError
        If the budget is too small.
    MismatchError
        If the run to resume was one of other options or of another store; or if a run of this name
        was broken off, and is neither to be resumed nor restarted nor to be started from.
    BusyError
        If another process works on the store.
    StoppedError
        If `halt` said so.
    ClusterError
        If a cluster cannot do the work, or is gone.
    DamagedError, StorageError

    Examples
    --------
    >>> import blocklinear
    >>> store = blocklinear.split("rows.svm", "store", blocks=4, force=True)
    >>> model = blocklinear.train(store, C=0.5, gap=1e-4, class_weights={1: 2.0})
    >>> model.metadata["certificate"]["gap"] <= 1e-4
    True
    >>> model
    LinearModel(L2R_L1LOSS_SVC_DUAL, classes 1 -1, 13 features, C 0.5)
    """
    chosen, by = _with_cluster(store, client, parts, options, settings, train)
    with telling(listener, verbose, chosen.gap) as tell:
        history = RunHistory(chosen.run)
        model = loop.train(store, chosen, _recording(history, chosen, tell), halt, keep, by)
        return replace(model, history=history)


@takes(TrainOptions)
def train_grid(
    store: Store,
    options: TrainOptions | None = None,
    listener: Listener | None = None,
    halt: Halt = lambda: False,
    keep: Callable[[list[LinearModel]], object] = lambda models: None,
    *,
    client: Any = None,
    parts: int | None = None,
    verbose: bool = False,
    **settings: Any,
) -> list[LinearModel]:
    """Train a model for each of several C, out of core, each to a certified optimum.

    Parameters
    ----------
    store : BlockStore or path
    options : TrainOptions
        Its `costs` are the grid.
    listener, halt, client, parts, verbose
        As for `train`.
    keep : callable
        Called with the models, to write them, before the run counts as finished.
    **settings
        As for `train`.

    Returns
    -------
    list of LinearModel
        In the order of `costs`.

    Raises
    ------
    WrongTypeError
        If an argument is of the wrong type, or an option is unknown.
    UsageError
        If there is no grid, or an option does not fit one.
    BlocklinearError
        As `train` does.

    Examples
    --------
    >>> import blocklinear
    >>> store = blocklinear.split("rows.svm", "store", blocks=4, force=True)
    >>> models = blocklinear.train_grid(store, costs=[0.1, 1, 10])
    >>> [model.metadata["C"] for model in models]
    [0.1, 1.0, 10.0]
    """
    chosen, by = _with_cluster(store, client, parts, options, settings, train_grid)
    if not chosen.costs:
        raise UsageError("there is no grid of C", "give costs, or call train")
    with telling(listener, verbose, chosen.gap) as tell:
        history = RunHistory(chosen.run)
        hear = _recording(history, chosen, tell)
        models = loop.train_models(BlockStore.of(store), chosen, hear, halt, keep, by)
        return [replace(model, history=history) for model in models]


@takes(TrainOptions)
def cross_validate(
    store: Store,
    options: TrainOptions | None = None,
    *,
    costs: Sequence[float] | None = None,
    folds: int | None = None,
    n_folds: int | None = None,
    first_cost: float | None = None,
    stratify: bool = False,
    metric: str | None = None,
    positive: float | str | None = None,
    listener: Listener | None = None,
    halt: Halt = lambda: False,
    client: Any = None,
    parts: int | None = None,
    verbose: bool = False,
    **settings: Any,
) -> CrossValidation:
    """Compare costs by cross-validation, out of core (Yu, 6.2).

    Parameters
    ----------
    store : BlockStore or path
    options : TrainOptions
        Of all models; its `cost` is not used.
    costs : sequence of float or None
        The grid of C; None takes that of `options`. Without any, C is searched, as LIBLINEAR's
        ``-C`` does: from one so small that all rows are support vectors, doubled until neither
        predictions nor norms of weights change any more.
    folds : int
        A row is in fold hash(seed, row number) mod folds; 5 unless said otherwise. `n_folds` is the
        same.
    first_cost : float or None
        C from which a search begins instead.
    stratify : bool
        Deal the rows of every class evenly to the folds.
    metric : str or None
        By which the best C is chosen: accuracy, auc or f1 (accuracy unless said otherwise);
        mean_squared_error or mean_absolute_error for regression.
    positive : number, str or None
        Which of two classes f1 is that of, as it was given; None is the larger label.
    listener, halt, client, parts, verbose
        As for `train`; the folds and the predictions are made here, in two passes over the data.
    **settings
        As for `train`, but for C.

    Returns
    -------
    CrossValidation
        A table with a row for each C: `to_dict`, `to_pandas`; `best_cost` is the best of them.
        `plot` draws the scores against C.

    Raises
    ------
    WrongTypeError
        If an argument is of the wrong type, or an option is unknown.
    UsageError
        If the folds, costs, metric or positive class do not fit the data.
    InputError, MemoryBudgetError, BusyError, StoppedError, DamagedError, StorageError
        As `train` does.

    Examples
    --------
    >>> import blocklinear
    >>> store = blocklinear.split("rows.svm", "store", blocks=4, force=True)
    >>> found = blocklinear.cross_validate(store, costs=[0.01, 0.1, 1], folds=3)
    >>> found.to_dict()["C"]
    [0.01, 0.1, 1]
    >>> model = blocklinear.train(store, C=found.best_cost)
    """
    for name in {"C", "cost"} & settings.keys():
        raise UsageError(
            f"{name} is {settings[name]}, but costs are what is compared",
            f"give costs={np.ravel(settings[name]).tolist()}, or no C at all to search for one",
        )
    chosen, by = _with_cluster(store, client, parts, options, settings, cross_validate)
    if folds is not None and n_folds is not None:
        raise UsageError("folds and n_folds are the same option", "give one of them")
    number = folds if folds is not None else n_folds if n_folds is not None else 5
    costs = (chosen.costs or None) if costs is None else costs
    with telling(listener, verbose, chosen.gap) as tell:
        store, history = BlockStore.of(store), RunHistory("cross-validation")
        found = cross_validation.cross_validate(
            store, chosen, n_folds=number, costs=costs, first_cost=first_cost, stratify=stratify,
            metric=metric, positive=store.code_of(positive), halt=halt,
            listener=_recording(history, chosen, tell), by=by,
        )  # fmt: skip
        return replace(found, history=history)
