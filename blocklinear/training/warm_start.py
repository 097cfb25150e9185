"""Warm starts: alpha of the rows that stayed, 0 for new ones, and the w that goes with it.

Where rows were removed, w follows by Eq. (16) of Yu,

    w <- w - sum over removed rows of s_i alpha_i x_i,

or is added up anew in one pass, whichever reads less; in one pass, too, if alpha may have to give
way to a new bound. Any feasible alpha is a valid start, and the certificate of the run is one of
the whole problem, so the optimum does not depend on it.
"""

import math
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from blocklinear.events import WarmStarted, Warned
from blocklinear.kernels.losses import LOGISTIC, SQUARED_HINGE
from blocklinear.kernels.sums import add_rows
from blocklinear.objectives.certificate import column_norms
from blocklinear.objectives.problems import SOLVERS
from blocklinear.options import TrainOptions
from blocklinear.solvers.certified import CertifiedModels
from blocklinear.solvers.protocol import Abandoned, Solver, Start
from blocklinear.solvers.sharing import n_columns
from blocklinear.solvers.working_set import MOST_PASSES, WARM_PASSES
from blocklinear.store.groups import Group
from blocklinear.store.manifest import Manifest
from blocklinear.store.prefetch import GroupLoader
from blocklinear.store.records import BlockRecord
from blocklinear.store.store import BlockStore
from blocklinear.training.memory_plan import group_bytes
from blocklinear.training.permutations import block_order, by_turns
from blocklinear.training.previous import Previous, PreviousVector, RowRange
from blocklinear.training.run import GroupRun

Floats = NDArray[np.float64]
_Removed = tuple[BlockRecord, list[RowRange]]
_PROBLEM = (
    "solver", "cost", "costs", "class_weights", "balanced", "epsilon", "l1_ratio", "bias",
    "regularize_bias",
)  # fmt: skip
"""Options that say what is minimised."""
CANCELLED = 1e-8
"""Of the square of |w|: with less left after Eq. (16), rounding could show, and w is recomputed."""


def start_warm(run: GroupRun, previous: Previous, store: BlockStore) -> None:
    """Give a run on a store, before its first outer iteration, what an earlier one left.

    That is intact if Abandoned is raised, as a stop was asked for.
    """
    how, read = "kept", list[BlockRecord]()
    if not (run.solver.starts_from_w and previous.has_w):
        start = _Start(run, previous, store)
        how, read = start.find_w(), start.read
        start.carry()
    elif not _go_on_from_w(run.solver, previous, run.options):
        run.listener(Warned("the classes are other ones now: training starts from the beginning"))
        return
    n_bytes = sum(record.bytes for record in read)
    run.listener(warm_started(previous, run.manifest, how, len(read), n_bytes))


def warm_started(
    previous: Previous, manifest: Manifest, how: str, blocks_read: int, bytes_read: int
) -> WarmStarted:
    """Return the report of a warm start; what it counts is as in `WarmStarted`."""
    kept = sum(s.n_rows for s in previous.row_ranges(manifest) if s.block is not None)
    return WarmStarted(
        kept, manifest.n_rows - kept, previous.n_rows - kept, how, blocks_read, bytes_read
    )


def _go_on_from_w(solver: Solver, previous: Previous, options: TrainOptions) -> bool:
    """Go on from w and the number of updates; return false if the classes are other ones.

    Violations are compared with those at w = 0, as in the run before: with those of weights that
    are all but optimal, none would ever be small.
    """
    parts = warm_parts(solver, previous)
    if not any(part.columns for part in parts):
        return False
    for part in parts:
        part.take_w()
    if solver.updates is not None:
        solver.updates[:] = previous.stored_number("updates-0") or 0.0
    compare_violations(solver, previous, options)
    return True


def compare_violations(
    solver: Solver | CertifiedModels, previous: Previous, options: TrainOptions
) -> None:
    """Compare violations with those at w = 0 of an earlier run, if that was of the same problem."""
    was, now = previous.course, options.course()
    if all(name in was and was[name] == now[name] for name in _PROBLEM):
        solver.compare_with(previous.first_violations())


@dataclass(frozen=True)
class WarmPart(Start):
    """Weight vectors that start together."""

    columns: list[tuple[int, PreviousVector]]  # those that start, by number
    bias: float  # value of the bias feature
    same_bias: bool  # whether it had that before

    def take_w(self) -> None:
        """Take over weights; those of features that are new are 0."""
        self.W[:] = 0.0
        for j, column in self.columns:
            if column.w is not None:
                self.W[: len(column.w) - 1, j] = column.sign * column.w[:-1]
        self.take_bias()

    def take_bias(self) -> None:
        """Take over the weight of the bias: where it is free, it is no sum over rows."""
        self.W[-1] = 0.0
        for j, column in self.columns if self.same_bias else ():
            if column.w is not None:
                self.W[-1, j] = column.sign * column.w[-1]

    def take_alpha(self, row_range: RowRange, first: int) -> None:
        """Take over the alpha of some rows, which are in a block whose first row is `first`."""
        lines = self.alpha[row_range.lines(first)]
        for j, column in self.columns:
            lines[:, j] = column.alpha(row_range.old)

    def add_rows(self, group: Group, steps: Floats) -> None:
        """Add the rows of a group to the weights, times a change of alpha, float64[n, M]."""
        steps = self.feasible_set.signs(group.labels) * steps
        add_rows(group.rows.arrays, steps, self.bias, self.W)


def warm_parts(solver: Solver, previous: Previous) -> list[WarmPart]:
    """Return what a solver has to fill, with the columns of an earlier run that it follows."""
    parts = []
    for start in solver.starts:
        labels, classes = start.feasible_set.labels, start.feasible_set.classes
        old = [previous.columns.get(label) for label in labels]
        if old == [None] and len(classes) == 2:  # the same, seen from the second class
            second = previous.columns.get(classes[1])
            old = [second and second.opposite]
        columns = [(j, column) for j, column in enumerate(old) if column is not None]
        same_bias = previous.bias == solver.bias
        parts.append(
            WarmPart(**vars(start), columns=columns, bias=solver.bias, same_bias=same_bias)
        )
    return parts


class _Start:
    """Takes over alpha, and finds the w that goes with it; `read` are the blocks read for that."""

    def __init__(self, run: GroupRun, previous: Previous, store: BlockStore) -> None:
        self._run, self._previous, self._store, self._manifest = run, previous, store, run.manifest
        self._parts, self._blocks = warm_parts(run.solver, previous), run.manifest.blocks
        self._rows = [slice(*pair) for pair in pairwise(run.manifest.first_positions.tolist())]
        self._resident = len(run.block_groups(1)) == 1  # then all blocks are read anyway
        self.read: list[BlockRecord] = []
        ranges = list(previous.row_ranges(run.manifest))
        self._there = [(s, s.block) for s in ranges if s.block is not None]
        self._gone = [s for s in ranges if s.block is None]
        for row_range, block in self._there:  # the outer loop: what a run left is read once
            for part in self._parts:
                part.take_alpha(row_range, self._rows[block].start)
        self._used = {
            b
            for b, rows in enumerate(self._rows)
            if any(part.alpha[rows].any() for part in self._parts)
        }
        drawn = block_order(run.options.seed, 1, len(self._blocks)).tolist()
        run.first = 1, by_turns(drawn, self._new_blocks())

    def _new_blocks(self) -> set[int]:
        """Return the blocks with rows that are not of the earlier run.

        With these first, after 10 % of the rows were added, to a gap of 1e-3: of 60,000 blogs -s 3
        takes 3 outer iterations instead of 4, and -s 1 2 instead of 2.7 (means of six seeds).
        """
        known = np.zeros(len(self._blocks), np.int64)
        for row_range, block in self._there:
            known[block] += row_range.n_rows
        return {b for b, block in enumerate(self._blocks) if known[b] < block.rows}

    @property
    def _must_fit(self) -> bool:
        """Whether alpha may have to change: a bound is narrower, or one of all classes is gone."""
        for part in self._parts:
            fits, previous = part.feasible_set, self._previous
            wide = (fits.holds(j, column.costs, previous.bounded) for j, column in part.columns)
            if not all(wide) or (fits.coupled and previous.columns.keys() - set(fits.labels)):
                return True
        return False

    def find_w(self) -> str:
        """Make alpha feasible, and w its sum: "kept", "changed" by Eq. (16), or "recomputed"."""
        how, options = self._find_w(), self._run.options
        solver = SOLVERS[options.solver]
        shrinks = how != "kept" or solver.kind == SQUARED_HINGE
        if solver.classifies and options.regularize_bias and shrinks:
            for part in self._parts:
                self._shrink(part, solver.kind)
        return how

    def _shrink(self, part: WarmPart, kind: int) -> None:
        """Multiply alpha, and w, by a t, at most 1, with which the dual value is no smaller.

        It is that of the largest, t sum alpha - t^2/2 |w|^2 for hinge loss; if rows differ in their
        C, one that lies between this and 1. Where rows of one class were removed, w leans to the
        other. Steps would correct that with the first blocks alone, and bring all their alpha to a
        bound: many outer iterations would follow. Where features are not scaled, w without some of
        the rows is worse than 0, and so it is with a smaller C (grants, 5,897 rows, squared hinge
        loss, a tenth of the rows removed: P is 6,200 after an outer iteration instead of 5e7).
        """
        sums, squares, entropy = np.zeros((3, part.alpha.shape[1]))
        largest = part.feasible_set.costs.max(axis=1) * self._manifest.weights["largest"]
        for rows in self._rows:
            alpha = np.maximum(part.alpha[rows], 0.0)
            sums += alpha.sum(axis=0)
            squares += (alpha * alpha).sum(axis=0)
            if kind == LOGISTIC:
                ratios = np.divide(largest, alpha, out=np.ones_like(alpha), where=alpha > 0.0)
                entropy += (alpha * np.log(ratios)).sum(axis=0)
        norms = column_norms(part.W)[: len(sums)]
        if part.feasible_set.coupled:
            sums[:], norms[:] = sums.sum(), norms.sum()
        if kind == SQUARED_HINGE:
            norms += squares / np.where(largest > 0.0, 2.0 * largest, np.inf)
        if kind == LOGISTIC:
            factors = np.array([_of_entropy(*of) for of in zip(sums, entropy, norms, strict=True)])
        else:
            factors = np.where(sums < norms, sums / np.where(norms > 0.0, norms, 1.0), 1.0)
        if (factors < 1.0).any():
            for rows in self._rows:
                part.alpha[rows] *= factors
            part.W[:, : len(sums)] *= factors

    def _find_w(self) -> str:
        gone = self._removed()
        if gone is not None and not self._must_fit and self._saves(gone):
            for part in self._parts:
                part.take_w()
            before = [column_norms(part.W).sum() for part in self._parts]
            if gone:
                self._take_out(gone)
            left = [column_norms(part.W).sum() for part in self._parts]
            if all(new >= CANCELLED * old for old, new in zip(before, left, strict=True)):
                return "changed" if gone else "kept"
        for part in self._parts:
            part.W[:] = 0.0
        self._add_up()
        return "recomputed"

    def _removed(self) -> list[_Removed] | None:
        """Return the removed blocks that w has rows of; None if it cannot be changed by these."""
        found: dict[str, _Removed] = {}
        columns = [column for part in self._parts for _, column in part.columns]
        had, has = self._previous.course["regularize_bias"], self._run.options.regularize_bias
        same_bias = self._parts[0].same_bias and (had or not has)
        if not (same_bias and all(column.is_sum for column in columns)):
            return None
        for row_range in self._gone:
            if not any(column.alpha(row_range.old).any() for column in columns):
                continue
            record = row_range.record
            if record is None or not (self._store.blocks_folder / record.name).is_file():
                return None
            found.setdefault(record.name, (record, []))[1].append(row_range)
        return list(found.values())

    def _saves(self, gone: list[_Removed]) -> bool:
        """Say whether Eq. (16) reads less than a pass over the rows that have an alpha.

        Removed blocks, which may be larger than all others, have the memory of groups, and of
        decoded blocks, as there are none yet.
        """
        whole = 0 if self._resident else sum(self._blocks[b].bytes for b in self._used)
        if not gone or sum(record.bytes for record, _ in gone) >= whole:
            return not gone
        run, removed = self._run, replace(self._manifest, blocks=[record for record, _ in gone])
        needed, planned = (
            group_bytes(manifest, run.options, n, n_columns(len(run.solver.task)))
            for manifest, n in ((removed, 1), (self._manifest, run.memory.group))
        )
        return needed <= planned + run.memory.pin_bytes

    def _take_out(self, gone: list[_Removed]) -> None:
        """Take removed rows out of the weights (Eq. 16)."""
        records = [record for record, _ in gone]
        store = BlockStore(self._store.folder, replace(self._manifest, blocks=records))
        with (
            GroupLoader(store, 1, self._run.options.threads) as loader,
            loader.calling(self._run.give_up_if_overdue),
        ):
            order = [(b,) for b in range(len(gone))]
            for (record, row_ranges), loaded in zip(gone, loader.stream(order), strict=True):
                self.read.append(record)
                for part in self._parts:
                    alpha = np.zeros((record.rows, part.alpha.shape[1]))
                    for row_range in row_ranges:
                        for j, column in part.columns:
                            alpha[row_range.lines(0), j] = column.alpha(row_range.old)
                    part.add_rows(loaded.group, -alpha)
                if self._run.halt():
                    raise Abandoned

    def _add_up(self) -> None:
        """Make alpha feasible, and add up the weights."""
        for loaded in self._run.pass_over(self._used):
            group = loaded.group
            self.read += [self._blocks[b] for b in group.blocks if not self._resident]
            positions = group.rows.positions
            for part in self._parts:
                alpha = part.feasible_set.fit(group, part.alpha[positions])
                part.alpha[positions] = alpha
                part.add_rows(group, alpha)

    def carry(self) -> None:
        """Take over a free bias, which is no sum over rows, and what was learned of rows.

        Which alpha are free is taken over only if all rows are in memory: else rows would have to
        be read for the working set. New rows are in it from the start: with a tenth more blogs the
        gap after an outer iteration is 3.0e-3 and not 1.4e-2 (-s 3).
        """
        solver, previous = self._run.solver, self._previous
        solver.started_warm = True
        self._run.slow_after = previous.slow_after(self._run.options.solver)
        if solver.passes is not None:
            least = WARM_PASSES if self._resident else 2 * WARM_PASSES
            before = min(max(least, previous.stored_number("passes") or 0.0), MOST_PASSES)
            solver.passes[:] = int(math.sqrt(least * before))
        for part in self._parts if not self._run.options.regularize_bias else ():
            part.take_bias()
        for name, lines in solver.row_arrays.items():
            old = previous.lines(name)
            fits = len(old) == previous.n_rows and len(lines.all) == self._manifest.n_rows
            if fits and (self._resident or not name.startswith("ranges")):
                if name.startswith("ranges"):
                    lines.all[:] = 1
                for row_range, block in self._there:
                    lines.all[row_range.lines(self._rows[block].start)] = old[row_range.old]
        if solver.first_violation is not None:
            cost = float(solver.starts[0].feasible_set.costs[0, 0])
            solver.first_violation[:] = previous.first_violation(cost)


def _of_entropy(total: float, entropy: float, norm: float) -> float:
    """Return the t, at most 1, where entropy - total log t = t norm.

    For logistic loss the left side is at least the slope of sum C_i H(t alpha_i / C_i).
    """
    if entropy >= norm or total <= 0.0:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(50):
        t = 0.5 * (low + high)
        low, high = (t, high) if entropy - total * math.log(t) > t * norm else (low, t)
    return high
