"""Training on a cluster: the outer loop of one machine, with rounds for outer iterations."""

import contextlib
import dataclasses
import secrets
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from blocklinear.arguments import check_count
from blocklinear.cluster import worker
from blocklinear.cluster.connect import DASK_BYTES, budget_of_worker, check_client
from blocklinear.cluster.descent import DistributedDescent
from blocklinear.cluster.engine import Engine
from blocklinear.cluster.job import FOLDS, Job, check_supported
from blocklinear.cluster.newton import DistributedNewton
from blocklinear.errors import MemoryBudgetError
from blocklinear.events import Listener, OuterIteration, Warned, ignore
from blocklinear.memory import RowsHeldOut, enough, format_size
from blocklinear.numerals import counted
from blocklinear.objectives.certificate import Certificate
from blocklinear.objectives.models import Models
from blocklinear.options import TrainOptions
from blocklinear.solvers.newton import costs
from blocklinear.solvers.protocol import Estimate
from blocklinear.solvers.sharing import n_columns
from blocklinear.store.files import make_folder, write_whole
from blocklinear.store.manifest import Manifest
from blocklinear.store.store import BlockStore
from blocklinear.training.loop import begin_anew, converge, plan_with_rows, resumed, stopping
from blocklinear.training.memory_plan import (
    MemoryPlan,
    plan_memory,
    weight_bytes,
)
from blocklinear.training.outcome import Outcome
from blocklinear.training.previous import Previous, find_previous
from blocklinear.training.run import Halt, Run, Times
from blocklinear.training.warm_start import warm_started

_MORE_VECTORS = 9
"""Weight vectors on a worker besides its own: w, average, curvature, a change, sums of two; and the
average that a round is certified with and the w that is recomputed, for which plans with a working
set have no room."""
_PART_ROW_BYTES = 32
"""A row of a part: label, alpha before and after, once more while it is written."""


@dataclasses.dataclass(eq=False)
class DistributedRun(Run):
    """A run whose outer iterations are rounds of a cluster.

    Each is committed before anything follows from it.
    """

    solver: DistributedDescent | DistributedNewton

    def _facts(self) -> dict[str, Any]:
        facts = super()._facts()
        facts["course"] |= {"parts": facts["method"]["parts"]}
        return facts

    def start(self, previous: Previous) -> None:
        """Start from the alpha of an earlier run, whose checkpoint is still there.

        Abandoned is raised if a stop was asked for; what the earlier run left is intact then.
        """
        found = self.solver.start(previous, self.overdue)
        self.slow_after = previous.slow_after(self.options.solver)
        self.listener(
            warm_started(
                previous, self.manifest, "recomputed", len(self.manifest.blocks), found.bytes_read
            )
        )

    def iterate(self) -> None:
        """Do a round."""
        if self.solver.unsaved:
            self.decided = self.outer > 0
            self.save()
            self.solver.unsaved = False
        self.decided = False
        self.times, self._begun = self._begun, Times()
        self.solver.advance(self.overdue)
        self.outer = self.solver.outer
        self.save()  # workers read it from there

    def report(self) -> tuple[OuterIteration, Estimate]:
        """Return the report of the round and its estimate; times are sums over workers."""
        if self.options.gap is not None and isinstance(self.solver, DistributedDescent):
            self.solver.sample_gap(self.overdue)
        self.times = self.times.plus(self.solver.spent)
        return super().report()

    def _prove(self, enough: float | None) -> Certificate:
        return self.solver.certify(self.overdue)

    def resume(self, facts: dict[str, Any]) -> None:
        """Go back to the last round that was committed."""
        super().resume(facts)
        self.solver.go_on_after(self.outer)


class Cluster:
    """Trains on the workers of a client.

    Parameters
    ----------
    client : distributed.Client
    parts : int or None       parts that the blocks are divided into, anew in each round; None is
                              one for each worker, but at most half as many as there are blocks
    """

    def __init__(self, client: Any, parts: int | None = None) -> None:
        check_client(client)
        self._client, self._parts = client, None if parts is None else check_count("parts", parts)

    def budget(self) -> int:
        """Return the memory that a worker may take where nothing else is said, in bytes."""
        return budget_of_worker(self._client)

    def plan(
        self, store: BlockStore, options: TrainOptions, task: Models
    ) -> tuple[MemoryPlan | None, int]:
        """Return how a worker's budget is divided, as `Elsewhere` says."""
        manifest, plan = store.manifest, None
        n_blocks, engine = len(manifest.blocks), Engine(self._client, "plan")
        n_parts = _number_of_parts(self._asked(n_blocks), engine, n_blocks, ignore)
        with contextlib.suppress(MemoryBudgetError):
            plan = plan_worker(manifest, options, task, n_parts, store.fetching_bytes)
        return plan, n_parts

    def _asked(self, n_blocks: int) -> int | None:
        return self._parts and min(self._parts, n_blocks)

    def optimise(
        self,
        store: BlockStore,
        options: TrainOptions,
        task: Models,
        folder: Path,
        listener: Listener,
        halt: Halt,
        others: int = 0,
        spent_s: float = 0.0,
    ) -> Outcome:
        """Train what a task asks for, as `training.loop.optimise` does; the store is locked."""
        check_supported(options)
        manifest, engine = store.manifest, Engine(self._client, secrets.token_hex(4))
        make_folder(folder, store.folder)
        asked = self._asked(len(manifest.blocks))
        facts = resumed(folder, manifest, options, listener, parts=asked)
        if facts is not None:
            n_parts = facts["course"]["parts"]
        else:
            n_parts = _number_of_parts(asked, engine, len(manifest.blocks), listener)
        sizes = n_parts, store.fetching_bytes, facts
        plan, held_out = plan_with_rows(
            partial(plan_worker, manifest, options, task, *sizes), store, task, options
        )
        if facts is not None:
            options = dataclasses.replace(options, group=facts["course"]["group"])
        previous = find_previous(folder, options, listener)
        folds, task = task.folds, dataclasses.replace(task, folds=None)
        job = Job(
            engine.name, store.folder.resolve(), manifest.fingerprint, options, task, n_parts,
            plan, folder.resolve(), folds is not None,
        )  # fmt: skip
        engine.check_workers(
            "all workers need this version of blocklinear, and the store by the same path",
            worker.can_read, job,
        )  # fmt: skip
        if facts is None and previous is None:
            begin_anew(folder, options)
        if folds is not None:
            write_whole(folder / FOLDS, [np.ascontiguousarray(folds.all, np.int32).data.cast("B")])
        solver = _solver(job, manifest, engine)
        run = DistributedRun(manifest, options, plan, solver, held_out, folder, listener, halt)
        run.stopping.spent_s = spent_s
        try:
            with stopping(run):
                if facts is not None:
                    run.resume(facts)
                elif previous is not None:
                    run.start(previous)
                outcome = converge(run)
        finally:
            engine.end(worker.forget, job.name)
        cluster = {"workers": engine.n_workers, "parts": n_parts, "rounds": run.outer}
        return dataclasses.replace(outcome, cluster=cluster)


def _solver(job: Job, manifest: Manifest, engine: Engine) -> DistributedDescent | DistributedNewton:
    if job.options.method != "newton":
        return DistributedDescent(job, manifest, engine)
    enough_products = costs.enough_products(manifest, job.plan.hessian)
    return DistributedNewton(job, manifest, engine, job.options, enough_products)


def _number_of_parts(asked: int | None, engine: Engine, n_blocks: int, listener: Listener) -> int:
    """Return the number of parts: if there are as many as blocks, they always stay the same."""
    most = max(n_blocks // 2, 1)
    if asked is None:
        engine.await_workers()
        return min(max(engine.n_workers, 1), most)
    if asked > most:
        message = (
            f"{counted(n_blocks, 'block')} in {counted(asked, 'part')} meet few others, and "
            f"may not converge: give at most {most} --parts, or split into more --blocks"
        )
        listener(Warned(message))
    return asked


def worst_part(manifest: Manifest, n_parts: int) -> Manifest:
    """Return the manifest of what takes as much as any part: its blocks are those of no store.

    Some blocks have the most rows, others the most entries, and others the most bytes on disk.
    """
    n = -(-len(manifest.blocks) // n_parts)
    sizes = {
        name: sorted((getattr(block, name) for block in manifest.blocks), reverse=True)[:n]
        for name in ("rows", "nnz", "bytes")
    }
    blocks = [
        dataclasses.replace(block, **dict(zip(sizes, of, strict=True)))
        for block, *of in zip(manifest.blocks[:n], *sizes.values(), strict=True)
    ]
    rows, nnz = sum(sizes["rows"]), sum(sizes["nnz"])
    return dataclasses.replace(manifest, blocks=blocks, n_rows=rows, nnz=nnz)


def plan_worker(
    manifest: Manifest,
    options: TrainOptions,
    task: Models,
    n_parts: int,
    url_bytes: int = 0,
    facts: Mapping[str, Any] | None = None,
    held_out: RowsHeldOut | None = None,
) -> MemoryPlan:
    """Divide the budget of a worker, which may have any blocks in one of the rounds.

    Held-out rows, which are in memory of the client, count as if they were in a worker's;
    `url_bytes` are as for `plan_memory`. A run that is resumed has `facts`, as for `plan_memory`.
    Raises MemoryBudgetError.
    """
    width = n_columns(len(task))
    part = worst_part(manifest, n_parts)
    more = DASK_BYTES + _MORE_VECTORS * width * weight_bytes(manifest)
    more += _PART_ROW_BYTES * width * part.n_rows
    if facts is not None:
        return plan_memory(
            part, options, width, 0, url_bytes + more, held_out, facts, of_worker=True
        )
    room = max(options.memory_bytes - more, 1 << 20)
    try:
        own = dataclasses.replace(options, memory_bytes=room)
        return plan_memory(part, own, width, 0, url_bytes, held_out, of_worker=True)
    except MemoryBudgetError as error:
        raise MemoryBudgetError(
            f"a worker has {format_size(options.memory_bytes)}, of which Dask, sums of weights and "
            f"alpha of one of {counted(n_parts, 'part')} take {format_size(more)}; "
            f"then {error.what}",
            f"{error.fix} for that and {enough(more)} for the rest; or more --parts",
        ) from error
