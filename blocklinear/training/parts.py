"""Models that do not fit the memory budget together: they are trained one part after another."""

import dataclasses
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from blocklinear.errors import MismatchError
from blocklinear.events import Listener, Warned
from blocklinear.objectives.certificate import Certificate
from blocklinear.objectives.models import Models
from blocklinear.options import TrainOptions
from blocklinear.solvers.sharing import n_columns
from blocklinear.store.features import to_input
from blocklinear.store.files import remove_if_empty
from blocklinear.store.manifest import Manifest
from blocklinear.store.store import BlockStore
from blocklinear.training.checkpoint import (
    NAME,
    discard,
    folder_of_part,
    folders_before,
    folders_of,
    parts_of,
)
from blocklinear.training.memory_plan import plan_memory, plan_that_fits
from blocklinear.training.method import Planner
from blocklinear.training.outcome import Outcome
from blocklinear.training.run import Halt

Optimise = Callable[[BlockStore, TrainOptions, Models, Path, Listener, Halt, int, float], Outcome]
"""Trains what a task asks for, as `loop.optimise`; the last are `others` and `spent_s`."""


class Elsewhere(Planner, Protocol):
    """What trains tasks in place of this process: a cluster."""

    @property
    def optimise(self) -> Optimise:
        """Trains what a task asks for."""


class AnotherRun(MismatchError):
    """A checkpoint is not one of the run that is to be resumed."""


def split_to_fit(
    store: BlockStore,
    options: TrainOptions,
    n_units: int,
    listener: Listener,
    unit: int = 1,
    others: int = 0,
) -> list[slice]:
    """Divide units of models into as few equal parts as fit the memory budget; warn of several.

    A unit has `unit` models, which must be trained together. `others` are the weight vectors that
    memory holds next to those that are trained, if there are several parts. MemoryBudgetError is
    raised if the budget does not hold a single unit.
    """
    size = size_that_fits(store.manifest, options, n_units, unit, others, store.fetching_bytes)
    parts = _divided(n_units, size)
    if len(parts) > 1:
        trained = f"they are trained in {len(parts)} parts, each with passes of its own"
        n = n_units * unit
        listener(Warned(f"{n} models do not fit the memory budget together: {trained}"))
    return parts


def discard_others(folder: Path, kept: Sequence[Path], within: Path) -> None:
    """Delete the folders of a run, in that of its store, `within`, but for those `kept`."""
    for other in set(folders_of(folder)).difference(kept):
        discard(other)
        remove_if_empty(other, within)


def _parts(
    store: BlockStore, options: TrainOptions, n: int, folder: Path, listener: Listener
) -> list[slice]:
    """Return the parts of n models: those that a run to resume has, or those that fit.

    AnotherRun is raised if the run to resume has parts of other models, or held-out rows are to be
    scored by all of its models together.
    """
    n_parts = parts_of(folder) if options.resume else None
    if n_parts == 1 or (n_parts is None and options.evaluate is not None):
        return []
    if n_parts is None:
        return split_to_fit(store, options, n, listener, others=n)
    parts, why, instead = _divided(n, -(-n // n_parts)), "", "give"
    if options.evaluate is not None:
        why = "held-out rows are scored by all models together"
        instead = "leave out --eval, or give"
    elif len(parts) != n_parts:
        why = f"there are {n} models now"
    if why:
        raise AnotherRun(
            f"run {options.run!r} is trained in {n_parts} parts, and {why}",
            f"{instead} --restart to delete what it reached, or another --run NAME",
        )
    return parts


def _divided(n: int, size: int) -> list[slice]:
    return [slice(at, min(at + size, n)) for at in range(0, n, size)]


def size_that_fits(
    manifest: Manifest,
    options: TrainOptions,
    n_units: int,
    unit: int = 1,
    others: int = 0,
    url_bytes: int = 0,
) -> int:
    """Return how many units the largest of equal parts has that fits the budget.

    Arguments and errors are as for `split_to_fit`; `url_bytes` are as for `plan_memory`.
    """

    def fits(size: int) -> bool:
        width, more = n_columns(size * unit), others if size < n_units else 0
        plan = plan_that_fits if size > 1 else plan_memory  # which says why it does not fit
        return plan(manifest, options, width, more, url_bytes) is not None

    sizes = (-(-n_units // n_parts) for n_parts in range(1, n_units + 1))
    return next(filter(fits, sizes))


def train_in_parts(
    store: BlockStore,
    options: TrainOptions,
    task: Models,
    folder: Path,
    listener: Listener,
    halt: Halt,
    optimise: Optimise,
) -> tuple[Outcome, list[Path]]:
    """Train a task, in parts if it has to be; return also the folders where these keep files.

    The run has one, and parts have others next to it. `optimise` trains some of the models.
    """
    folders, parts = [folder], []
    if task.separable and not task.alone:
        parts = _parts(store, options, len(task), folder, listener)
    if len(parts) > 1:
        folders = [folder_of_part(folder, k, len(parts)) for k in range(1, len(parts) + 1)]
    if not (options.resume or options.warm_start):
        discard_others(folder, folders[:1], store.folder)  # or a resume would go on with one

    began = time.monotonic()

    def trained(options: TrainOptions, task: Models, part_folder: Path, others: int) -> Outcome:
        spent_s = time.monotonic() - began
        if options.resume and part_folder != folders[0] and not (part_folder / NAME).exists():
            # the run was broken off before this part: it begins as the parts before it did
            warm = bool(folders_before(part_folder))
            options = dataclasses.replace(options, resume=False, warm_start=warm)
        try:
            outcome = optimise(store, options, task, part_folder, listener, halt, others, spent_s)
        except AnotherRun:
            if part_folder == folders[0]:
                raise
            # a part before it was resumed, but this one has to start from what is there
            options = dataclasses.replace(options, resume=False, warm_start=True)
            outcome = optimise(store, options, task, part_folder, listener, halt, others, spent_s)
        finally:
            remove_if_empty(part_folder, store.folder)
        by_column = bool(options.costs)  # they become models of their own
        weights = to_input(outcome.weights, store.folder, store.manifest, by_column)
        return dataclasses.replace(outcome, weights=weights)

    if len(folders) == 1:
        return trained(options, task, folder, 0), folders
    n = len(task)
    W = np.empty((store.manifest.dimension + 1, n), order="F" if options.costs else "C")
    outer, newton, stopped = 0, 0, "converged"
    certificates: list[Certificate] = []
    for part, part_folder in zip(parts, folders, strict=True):
        outcome = trained(options, task.some(part), part_folder, n)
        W[:, part] = outcome.weights
        certificates += outcome.certificates
        outer, newton = outer + outcome.outer, newton + outcome.newton
        stopped = outcome.stopped if stopped == "converged" else stopped
    cluster = outcome.cluster and outcome.cluster | {"rounds": outer}
    found = Outcome(W, certificates, outer, newton, stopped, cluster)
    return found, folders
