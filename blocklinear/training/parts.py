"""Models that do not fit the memory budget together: they are trained one part after another."""

import dataclasses
import time
from collections.abc import Callable

import numpy as np

from blocklinear.errors import MemoryBudgetError
from blocklinear.events import Listener, Warned
from blocklinear.objectives.certificate import Certificate, joined
from blocklinear.objectives.models import Models
from blocklinear.options import TrainOptions
from blocklinear.solvers.sharing import n_columns
from blocklinear.store.store import BlockStore
from blocklinear.training.memory_plan import plan_memory
from blocklinear.training.outcome import Outcome

_SHORTEST_S = 1e-9


def split_to_fit(
    store: BlockStore,
    options: TrainOptions,
    n_units: int,
    listener: Listener,
    unit: int = 1,
    kept: int = 0,
) -> list[slice]:
    """Divide units of models into as few equal parts as fit the memory budget, with a warning.

    Parameters
    ----------
    listener : callable
        Called with `Warned` where there is more than one part.
    unit : int
        Models that must be trained together.
    kept : int
        Weight vectors kept with those that are trained, where there is more than one part.

    Raises
    ------
    MemoryBudgetError
        If the budget does not hold a single unit.
    """
    for n_parts in range(1, n_units + 1):
        size = -(-n_units // n_parts)
        width, others = n_columns(size * unit), kept if n_parts > 1 else 0
        try:
            plan_memory(store.manifest, options, width, others, store.fetching_bytes)
        except MemoryBudgetError:
            if size == 1:
                raise
            continue
        parts = [slice(at, min(at + size, n_units)) for at in range(0, n_units, size)]
        if len(parts) > 1:
            listener(
                Warned(
                    f"{n_units * unit} models do not fit the memory budget together: they are "
                    f"trained in {len(parts)} parts, each with passes of its own"
                )
            )
        return parts
    return []


def train_in_parts(
    store: BlockStore,
    options: TrainOptions,
    models: Models,
    listener: Listener,
    train: Callable[[TrainOptions, Models, str, int], Outcome],
) -> Outcome:
    """Train models together, or in parts.

    Parameters
    ----------
    listener : callable
        Called with `Warned` where there is more than one part.
    train : callable
        Trains models by options, and keeps what it needs under a name that is to be added to that
        of the run; the last argument is how many weight vectors are kept meanwhile.

    Raises
    ------
    MemoryBudgetError
        If the budget does not hold a single one.
    """
    n = len(models)
    parts = split_to_fit(store, options, n, listener, kept=n)
    if len(parts) == 1:
        return train(options, models, "", 0)
    W = np.empty((store.manifest.dimension + 1, n))
    outer, newton, stopped, began = 0, 0, "converged", time.monotonic()
    certificates: list[Certificate] = []
    for number, part in enumerate(parts, 1):
        left_s = max(options.time_limit_s - (time.monotonic() - began), _SHORTEST_S)
        own = dataclasses.replace(options, time_limit_s=left_s)
        outcome = train(own, models.some(part), f".part{number}of{len(parts)}", n)
        W[:, part] = outcome.weights
        certificates += outcome.certificates
        outer, newton = outer + outcome.outer, newton + outcome.newton
        stopped = outcome.stopped if stopped == "converged" else stopped
    return Outcome(W, joined(certificates), certificates, outer, newton, stopped)
