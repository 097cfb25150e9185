"""A grid of C in one run: the models of all C share each pass over the data."""

import os
from collections.abc import Callable

from blocklinear.arguments import check_options
from blocklinear.errors import UsageError
from blocklinear.events import Listener, ignore
from blocklinear.model.linear import LinearModel
from blocklinear.options import TrainOptions
from blocklinear.store.store import BlockStore
from blocklinear.training.loop import Optimise, train_models
from blocklinear.training.run import Halt


def train_grid(
    store: BlockStore | str | os.PathLike[str],
    options: TrainOptions,
    listener: Listener = ignore,
    halt: Halt = lambda: False,
    keep: Callable[[list[LinearModel]], object] = lambda models: None,
    optimise: Optimise | None = None,
) -> list[LinearModel]:
    """Train a model for each of several C, out of core, each to a certified optimum.

    See `blocklinear.train_grid` for what is not said here, and for the errors.

    Parameters
    ----------
    store : BlockStore or path
    options : TrainOptions
        Its `costs` are the grid.
    listener, halt, optimise : callable
        As for `training.loop.train`.
    keep : callable
    """
    store = BlockStore.of(store)
    check_options(options, TrainOptions)
    if not options.costs:
        raise UsageError("there is no grid of C", "give costs, or call train")
    return train_models(store, options, listener, halt, keep, optimise)
