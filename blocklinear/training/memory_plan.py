"""How many blocks a group has, and how many stay in memory, under the memory budget."""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from blocklinear.errors import MemoryBudgetError
from blocklinear.memory import (
    PROCESS_BYTES,
    WEIGHT_VECTORS,
    RowsHeldOut,
    default_budget,
    enough,
    exact_size,
    format_size,
)
from blocklinear.numerals import counted
from blocklinear.objectives.problems import CRAMMER_SINGER, SOLVERS
from blocklinear.objectives.tasks import make_task
from blocklinear.options import TrainOptions
from blocklinear.solvers.l1.columns import bytes_with_all, column_type
from blocklinear.solvers.sharing import models_by_pass
from blocklinear.solvers.working_set import (
    ENTRIES_AT_ONCE,
    entry_bytes,
    has_passes,
    sample_entries,
    working_set_bytes,
)
from blocklinear.store.manifest import Manifest
from blocklinear.store.prefetch import DECODED_AT_ONCE

NEWTON_VECTORS = 10
"""What Newton's method needs of a model: points, gradient, diagonal, directions, sums of a pass."""
_HESSIANS_OF_WORKER = 4
"""Its own, that of another one, the sum of both, and one that is being sent."""
_LOADED_ROW_BYTES = 32  # a row in a buffer: pointer, label, norm, number
_WEIGHT_BYTES = 8  # and its weight, if it has one
_MODEL_ROW_BYTES = 24  # and for every model but one: alpha, once more while it is written
_SOLVED_ROW_BYTES = 96  # a row being worked on: position, target, C, alpha, span, order
L1_VECTORS = 5
"""What an L1-regularised model needs: weights, pulls, where columns are, and choosing them."""
_L1_ROW_BYTES = 120
"""Of all rows: label, weight, size, length, target, C, what descent moves, where it was before."""
_L1_MODEL_ROW_BYTES = 16  # and for each model: alpha, decision value
ENOUGH_BLOCKS = 16
"""Larger groups no longer converge in fewer outer iterations; memory pins blocks instead."""
WORKING_SET_SHARE = 2
"""The working set has at most one in so many entries."""
RARE_SHARE = 8
"""Descent on a loss without a gradient is rarely slow: Hessians of Newton steps get at most one in
so many of the bytes that are left."""


@dataclass(frozen=True)
class MemoryPlan:
    """How the budget is used."""

    group: int  # blocks in a group
    pin_bytes: int  # for decoded blocks that stay in memory
    spare_bytes: int  # for held-out rows
    newton: bool  # whether there is room for Newton steps, where descent may need them
    hessian: bool  # whether there is room for the Hessian of each model
    working_set_entries: int  # of rows that are copied, the sample's too; of columns if L1


def plan_memory(
    manifest: Manifest, options: TrainOptions, width: int = 1, others: int = 0, url_bytes: int = 0,
    held_out: RowsHeldOut | None = None, facts: Mapping[str, Any] | None = None,
    of_worker: bool = False,
) -> MemoryPlan:  # fmt: skip
    """Divide the budget.

    A group has the blocks that were asked for, or all blocks if they fit, or up to `ENOUGH_BLOCKS`;
    one block for L1 regularisation, which holds columns instead.

    There is room for the `width` weight vectors that are trained, for `others` that the caller
    has, and for `url_bytes`, which reading a store on a URL takes. These are taken from `pin_bytes`
    if that is enough: then training goes as on a store of this machine.

    Held-out rows have half of what is left next to the group, so that others of them change
    nothing. If they are known to take more, `held_out` has what they need, and is taken first.

    The budget may be that `of_worker`, one of several, which add up what their rows contribute to
    Newton steps; the vectors of these are elsewhere.

    The `facts` of a run that is resumed have what decides its course.

    If the budget does not hold what is needed, MemoryBudgetError says what takes how much.
    """
    sizes = manifest, options, width, others
    needs, plan = _Needs(*sizes, url_bytes, held_out, of_worker), None
    if facts is not None:
        return needs.again(facts)
    if url_bytes:
        plan = plan_that_fits(*sizes, 0, held_out, of_worker)
    room = options.memory_bytes - needs.fixed
    if plan is not None and plan.pin_bytes >= url_bytes and needs.group(plan.group) <= room:
        return replace(plan, pin_bytes=plan.pin_bytes - url_bytes)
    n_blocks, solver, whole = len(manifest.blocks), SOLVERS[options.solver], needs.copy
    copied = whole // WORKING_SET_SHARE if has_passes(options) else 0
    copied = whole if solver.l1 else copied + needs.sampled(copied or whole)
    if options.group is not None:
        group = min(options.group, n_blocks)
    else:
        least, room = needs.least_group(), room - needs.mapped
        group = max(needs.largest_group(room - (whole if solver.l1 else 0)), least)
        if solver.l1 and group < n_blocks:
            group = 1
        elif group < n_blocks:
            shared = needs.largest_group(room - min(room // 2, copied))
            group = max(least, min(shared, ENOUGH_BLOCKS))
        if solver.one_class:  # alpha get from block to block within a group
            group = max(group, min(n_blocks, 2))
    spare = needs.spare(group)
    primal = options.method == "newton" and not solver.l1
    descends = options.method == "dual" and not options.average
    alone = not solver.one_class and options.solver != CRAMMER_SINGER
    newton = descends and alone and needs.newton <= spare
    left = spare - needs.newton if newton else spare
    share = 2 if solver.smooth or primal else RARE_SHARE
    hessian = (newton or primal) and needs.hessian <= left // share
    # vectors of many models would take the rows' room, and proximal points many products
    newton = newton and (hessian or (width == 1 and solver.smooth))
    spare -= needs.steps(newton, hessian)
    for_rows, spare = needs.share_of_rows(spare)
    if not solver.l1:
        spare = max(spare - needs.mapped, 0)
        room = max(spare - needs.with_copies, 0)
        holds_w = room - needs.sampled(room) >= needs.recomputed
        copied = min(room, copied) if group < n_blocks and holds_w else 0
        spare -= needs.copies(copied)
    else:  # all columns only where products of many of them, and descent on all of them, fit, too
        full = whole + needs.with_columns
        copied = full if spare >= full else max(min(spare, whole - 1), 0)
        spare -= copied
        copied = min(copied, whole)
    entries = int(copied * manifest.nnz // max(whole, 1))
    return MemoryPlan(group, spare, for_rows, newton, hessian, entries)


def plan_that_fits(
    manifest: Manifest, options: TrainOptions, width: int = 1, others: int = 0, url_bytes: int = 0,
    held_out: RowsHeldOut | None = None, of_worker: bool = False,
) -> MemoryPlan | None:  # fmt: skip
    """Divide the budget as `plan_memory` does; None if it does not hold what is needed."""
    try:
        return plan_memory(manifest, options, width, others, url_bytes, held_out, None, of_worker)
    except MemoryBudgetError:
        return None


def budget_for_newton(
    manifest: Manifest, options: TrainOptions, width: int = 1, others: int = 0, url_bytes: int = 0
) -> int | None:
    """Return the least budget, from that of the options on, that has room for Newton steps.

    None if this machine has not so much memory. Arguments are as for `plan_memory`.
    """

    def has_room(mib: int) -> bool:
        larger = replace(options, memory_bytes=mib << 20)
        plan = plan_that_fits(manifest, larger, width, others, url_bytes)
        return plan is not None and plan.newton

    budgets = range(options.memory_bytes >> 20, 1 + (2 * default_budget() >> 20))
    found = bisect_left(budgets, True, key=has_room)
    return budgets[found] << 20 if found < len(budgets) else None


def group_bytes(manifest: Manifest, options: TrainOptions, n: int, width: int) -> int:
    """Return what a group of any `n` blocks takes, with the one that is loaded ahead."""
    return _Needs(manifest, options, width, 0, 0, None).group(n)


def weight_bytes(manifest: Manifest) -> int:
    """Return what a weight vector takes in training."""
    return 8 * (manifest.n_features + 1)


def model_bytes(manifest: Manifest) -> int:
    """Return what a weight vector takes in a model, which has all features of the input."""
    return 8 * (manifest.dimension + 1)


def bytes_of_models(manifest: Manifest, options: TrainOptions) -> tuple[int, int]:
    """Return what the models of all costs take, and the weight vectors of each."""
    n = len(make_task(manifest, options))
    return n * model_bytes(manifest), n // max(len(options.costs), 1)


class _Needs:
    """Bytes that a training takes; arguments are as for `plan_memory`.

    Attributes
    ----------
    fixed : int               what does not depend on the group: the program; weight vectors, but
                              for Newton steps; what L1 regularisation has of all rows
    newton, hessian : int     vectors of Newton steps, and Hessians of all models
    least : int               what is needed before and after training: `final_models`, or the
                              program while held-out rows are read
    final_models : int        the program, while it makes models of what was trained, if features
                              were renumbered: with their indices, a sorted copy, and their file
    mapped : int              alpha, and which models have a row in their working set: files, of
                              which pages that are read again and again must stay in memory
    copy : int                a copy of all rows; for L1 regularisation, of all columns
    with_copies : int         what is added where rows are copied: those that threads unpack at a
                              time, for the most threads that can be used, as results must not
                              depend on them; less the average of w, which is not taken then, and w
                              recomputed, which is in memory of the working set
    with_columns : int        what is added where memory holds all columns
    recomputed : int          w recomputed: the working set is as large, at least
    """

    def __init__(
        self,
        manifest: Manifest,
        options: TrainOptions,
        width: int,
        others: int,
        url_bytes: int,
        held_out: RowsHeldOut | None,
        of_worker: bool = False,
    ) -> None:
        self._manifest, self._options, self._width, self._others = manifest, options, width, others
        self._sizes = [b.rows for b in manifest.blocks], [b.nnz for b in manifest.blocks]
        solver, n, d = SOLVERS[options.solver], manifest.n_rows, manifest.n_features
        trained = width * weight_bytes(manifest)
        self._models = (width + others) * model_bytes(manifest)
        of_newton = NEWTON_VECTORS + (not solver.smooth)  # one more steps to proximal points
        if options.method == "newton" and not of_worker:
            vectors = L1_VECTORS if solver.l1 else of_newton + 1
        else:
            vectors = WEIGHT_VECTORS + options.average + (width > 1)  # what was certified
        vectors += options.patience is not None
        # the manifest, as it was opened and once it is locked, has counts of labels in each block
        counts = 2 * 8 * len(manifest.labels or ()) * len(manifest.blocks) & -(1 << 20)
        self._program = PROCESS_BYTES + url_bytes + counts
        self._trained = vectors * width
        self._vectors = vectors * trained + others * model_bytes(manifest)
        self._rows_known, self._held_out = held_out is not None, held_out.bytes if held_out else 0
        self.fixed = self._program + self._vectors + self._held_out
        self.newton = 0 if of_worker else of_newton * trained
        self.hessian = 8 * (d + 1) ** 2 * width * (_HESSIANS_OF_WORKER if of_worker else 1)
        one_cost = self._models // len(options.costs) if options.costs else 0  # see `Outcome`
        made_from = max(trained + 12 * d, one_cost)
        self._made_from = self._models + made_from if manifest.renumbered else 0
        self.final_models = self._program + self._held_out + self._made_from
        reading = self._program - url_bytes + held_out.reading_bytes if held_out else 0
        self.least = max(self.final_models, reading)
        self.mapped = 0 if solver.l1 else (8 * width + 2 * has_passes(options)) * n
        self.copy = working_set_bytes(manifest, n, manifest.nnz)
        if solver.l1:
            entry = 2 + np.dtype(column_type(manifest, options)).itemsize
            self.fixed += (_L1_ROW_BYTES + width * _L1_MODEL_ROW_BYTES + 2 * entry) * n
            self.copy = entry * manifest.nnz
            self.with_columns = bytes_with_all(manifest, width)
        unpacked = len(models_by_pass(width)) * entry_bytes(manifest) * ENTRIES_AT_ONCE
        asked = options.gap is not None and options.method != "newton"
        self._samples = asked and not (solver.l1 or options.average)
        self.recomputed = trained if has_passes(options) else 0
        self.with_copies = unpacked - 2 * self.recomputed

    def copies(self, rows: int) -> int:
        """Return what rows that are copied take, with all that is added for them."""
        if not rows:
            return 0
        sampled = self.sampled(rows)
        return max(rows - sampled, self.recomputed) + sampled + self.with_copies

    def sampled(self, rows: int) -> int:
        """Return how many of the bytes of rows that are copied are a sample."""
        entries = rows * self._manifest.nnz // max(self.copy, 1)
        found = sample_entries(self._manifest, entries, self._options) if self._samples else 0
        return found * self.copy // max(self._manifest.nnz, 1)

    def share_of_rows(self, spare: int) -> tuple[int, int]:
        """Return what held-out rows have, and what is left of `spare`.

        What they need was taken before if it is known; else they have half of what is spare.
        """
        if self._options.evaluate is None or self._rows_known:
            return self._held_out, spare
        return spare // 2, spare - spare // 2

    def steps(self, newton: bool, hessian: bool) -> int:
        """Return what Newton steps take, and the Hessian, as far as there is room for them."""
        return (self.newton if newton else 0) + (self.hessian if hessian else 0)

    def group(self, n: int) -> int:
        """Return what any `n` blocks take, in two buffers unless one group holds all.

        A buffer, which holds one group after another, has room for the rows of those blocks that
        have the most, and for the entries of those that have the most.
        """
        manifest, blocks = self._manifest, self._manifest.blocks
        rows, nnz = (sum(sorted(of, reverse=True)[:n]) for of in self._sizes)
        loaded_row_bytes = _LOADED_ROW_BYTES + manifest.weighted * _WEIGHT_BYTES
        buffers = 1 if n >= len(blocks) else 2
        loaded = entry_bytes(manifest) * nnz + loaded_row_bytes * rows
        stored = max((block.bytes for block in blocks), default=0)
        reading = (min(n, DECODED_AT_ONCE) + 1) * stored  # one is read ahead
        row_bytes = _SOLVED_ROW_BYTES + _MODEL_ROW_BYTES * (self._width - 1)
        return buffers * loaded + row_bytes * rows + reading

    def largest_group(self, room: int) -> int:
        """Return how many blocks a group has that takes no more than there is room for."""
        n_blocks = len(self._manifest.blocks)
        if self.group(n_blocks) <= room:
            return n_blocks
        return bisect_right(range(1, n_blocks), room, key=self.group)

    def least_group(self) -> int:
        """Return how many blocks a group has that takes least: all where others are small."""
        return min(1, len(self._manifest.blocks), key=self.group)

    def spare(self, group: int) -> int:
        """Return what the budget leaves, with groups of so many blocks.

        MemoryBudgetError is raised if it does not hold them, or what models are made from.
        """
        manifest, n_blocks = self._manifest, len(self._manifest.blocks)
        budget, blocks = self._options.memory_bytes, self.group(group)
        needed = self.fixed + blocks
        rows = f"held-out rows {format_size(self._held_out)}, " if self._held_out else ""
        too_small = (
            f"the budget of {exact_size(budget)} is too small: the program takes "
            f"{format_size(self._program)}, "
        )
        if needed > budget:
            others = f" and {self._others} of {manifest.dimension}" if self._others else ""
            smaller = ", or split into more blocks"
            if self._options.group is not None and group > self.least_group():
                smaller = ", or a smaller --group"
            if self.fixed > budget:  # whatever blocks take
                smaller = ""
            raise MemoryBudgetError(
                f"{too_small}{rows}{self._trained} weight vectors of "
                f"{counted(manifest.n_features, 'feature')}{others} {format_size(self._vectors)}, "
                f"and {group} of {counted(n_blocks, 'block')} in a group, with those of "
                f"the next group, {format_size(blocks)}",
                f"give --memory {enough(max(needed, self.least))} or more" + smaller,
            )
        if self.final_models > budget:
            raise MemoryBudgetError(
                f"{too_small}{rows}{self._width + self._others} weight vectors of a model of "
                f"{counted(manifest.dimension, 'feature')} {format_size(self._models)}, and what "
                f"they are made from, of the {manifest.n_features} features that occur, "
                f"{format_size(self._made_from - self._models)}",
                f"give --memory {enough(self.least)} or more, or split with --hash-bits",
            )
        if self.least > budget:
            raise MemoryBudgetError(
                f"{too_small}and held-out rows, while they are read, "
                f"{format_size(self.least - self._program)}",
                f"give --memory {enough(self.least)} or more",
            )
        return budget - needed

    def again(self, facts: Mapping[str, Any]) -> MemoryPlan:
        """Return the plan of a run that is resumed, see `plan_memory`."""
        group, newton, hessian = facts["group"], facts["newton"], facts["hessian"]
        entries, nnz = facts["working_set_entries"], self._manifest.nnz
        least = self.fixed + self.group(group)
        copied = -(-entries * self.copy // max(nnz, 1))
        if not SOLVERS[self._options.solver].l1:
            copied = self.copies(copied)
        elif entries >= nnz:
            copied += self.with_columns
        needed = max(least + self.steps(newton, hessian) + copied, least, self.least)
        budget = self._options.memory_bytes
        if needed > budget:
            raise MemoryBudgetError(
                f"the budget of {exact_size(budget)} is less than the {enough(needed)} that the "
                "run to resume needs",
                f"give --memory {enough(needed)} or more, or give --restart instead of --resume",
            )
        for_rows, spare = self.share_of_rows(budget - needed)
        return MemoryPlan(group, max(spare - self.mapped, 0), for_rows, newton, hessian, entries)
