"""Dual coordinate descent on the groups of a store: what one visit does (Yu, Algorithm 2)."""

from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklinear.kernels import dual as kernels
from blocklinear.options import TrainOptions
from blocklinear.store.groups import Group
from blocklinear.store.manifest import Manifest
from blocklinear.store.prefetch import Loaded
from blocklinear.training.active import ActiveRows, Rows
from blocklinear.training.problems import Problem
from blocklinear.training.rows import RowArray
from blocklinear.training.schedule import active_schedule, having_turn, parts_of_sweeps
from blocklinear.training.settling import (
    CLOSE,
    NEAR,
    SETTLED,
    SETTLING_STEP,
    SETTLING_SWEEPS,
    distances,
    excess,
    settles,
    whole_group,
)
from blocklinear.training.single import SingleModel
from blocklinear.training.tally import Estimate, fresh_touch, merge, threshold, width
from blocklinear.training.work import Work

AVERAGED_POINTS = 8
"""The running average of w takes at least so many points of an outer iteration."""
MOST_EPOCHS = 100
"""Epochs of a visit that goes on until its tolerance holds."""
LONGEST_PART = 1 << 25
"""Entries worked on before a request to stop is looked at again, a quarter of a second."""
SWEEPS = 16
"""How often an outer iteration sweeps the active rows."""
NEW_EPOCHS = 4
"""Epochs over new blocks at the beginning of a warm start."""
STALE = 1.0 / 3.0
"""What rows add to the gap, of what those add that were visited longest ago: about the square of
how far w has gone since."""
LEAST = 1.0 / 32.0
"""Of what rows add to the gap at their first touch, what they add at least at the end of the outer
iteration: among few rows there may be none that do."""
PROMISING = 0.7
"""Of the gap asked for, what may be foreseen where an outer iteration is cut short."""
Floats = NDArray[np.float64]
_SELECTIONS = {
    "active": kernels.AVSF,
    "permute": kernels.PERMUTE,
    "online": kernels.PERMUTE,
    "shrink": kernels.SHRINK,
    "avsf": kernels.AVSF,
}


class Abandoned(Exception):
    """A visit was given up because a stop was asked for: w and alpha no longer fit together."""


class Descent(SingleModel):
    """One model and its alpha.

    Parameters
    ----------
    manifest : Manifest
    problem : Problem
    options : TrainOptions
    folder : Path
        Where alpha is kept.
    active_entries : int
        Entries of active rows that may be kept in memory; they are not copied where one group holds
        all blocks.

    Attributes
    ----------
    w, average : float64[n_features + 1]        the model; its average over the outer iteration
    alpha : RowArray
    """

    def __init__(
        self,
        manifest: Manifest,
        problem: Problem,
        options: TrainOptions,
        folder: Path,
        active_entries: int = 0,
    ) -> None:
        super().__init__(manifest, problem, options, folder)
        self._selection = _SELECTIONS[options.selection]
        self._sweeping = options.selection == "active" and not options.average
        adaptive, active = int(self._selection == kernels.AVSF), int(self._sweeping)
        self._preference = RowArray(folder / "preference.work", manifest, np.float32, adaptive)
        self._active = RowArray(folder / "active.work", manifest, np.uint8, active)
        self._kept = ActiveRows(manifest, active_entries if active else 0)
        self._touch = np.zeros(kernels.N_TOUCH)
        self._later = np.zeros(kernels.N_TOUCH)  # not of the first epoch of a visit
        self._terms = np.zeros(kernels.N_TERMS)  # of all rows, kept up to date
        self._adapt = np.zeros(kernels.N_ADAPT)
        self._points = np.zeros(1)  # in the average so far
        self._new: frozenset[int] = frozenset()  # see `settle`
        self.settling = False
        self._settled = 0.0  # what active rows add to P - D
        self._foreseen: float | None = None  # and what the others do, if it was looked at
        self._first_violation = np.zeros(1)  # LIBLINEAR's measure for regression is relative

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that a checkpoint must keep, by name."""
        return {
            "w": self.w, "average": self.average, "alpha": self.alpha.all,
            "preference": self._preference.all, "active": self._active.all, "touch": self._touch,
            "later": self._later, "terms": self._terms, "adapt": self._adapt,
            "points": self._points, "first": self._first_violation,
        }  # fmt: skip

    @property
    def state(self) -> dict[str, Any]:
        """What a checkpoint must know before it can fill `arrays`, as JSON."""
        return super().state | {
            "settling": self.settling, "new": sorted(self._new),
            "settled": self._settled, "foreseen": self._foreseen,
        }  # fmt: skip

    @state.setter
    def state(self, state: dict[str, Any]) -> None:
        self.settling, self._new = state["settling"], frozenset(state["new"])
        self._settled, self._foreseen = state["settled"], state["foreseen"]

    def settle(self, new: Collection[int]) -> None:
        """Sweep the active rows at the end of every outer iteration, until they are solved.

        A warm start, not far from the optimum, so gets there in few outer iterations, which cost
        more than the sweeps where blocks have to be read. The first of them begins with the `new`
        blocks, whose alpha has farthest to go.
        """
        self.settling, self._new = self._sweeping and settles(self.problem), frozenset(new)

    @property
    def hints(self) -> dict[str, RowArray]:
        """What is known of rows beside alpha, by the names of a checkpoint; it may all be 0."""
        return {"preference": self._preference, "active": self._active}

    @property
    def first_violation(self) -> float:
        """The sum of violations that others are compared with, for regression; 0 before any."""
        return float(self._first_violation[0])

    @first_violation.setter
    def first_violation(self, total: float) -> None:
        self._first_violation[0] = total

    def restore(self, stream: Iterable[Loaded]) -> None:
        """Fetch what is kept in memory only, after `arrays` were filled from a checkpoint."""
        if not self._active.all.any():
            return
        for loaded in stream:
            group = loaded.group
            chosen = np.flatnonzero(self._active.read(group.blocks))
            self._kept.replace(group, chosen, np.zeros(len(chosen)))

    def begin(self) -> None:
        """Start an outer iteration."""
        self._settled, self._foreseen = 0.0, None
        for tally in (self._touch, self._later):
            tally[:] = fresh_touch()
        self._points[:] = 0.0
        self.average[:] = 0.0

    def visit(
        self, group: Group, outer: int, number: int, visits: int, halt: Callable[[], bool]
    ) -> None:
        """Work on one group, visit `number` (from 0) of `visits`; its first epoch measures.

        Raises
        ------
        Abandoned
            If `halt` returned true between two parts of it.
        """
        work = Work(group, self.problem, self.alpha.read(group.blocks), self._preferences(group))
        before = work.alpha.copy()
        resident = visits == 1
        flags = np.zeros(group.n_rows, np.bool_)
        if self._sweeping and resident:
            flags[:] = self._active.read(group.blocks)
        if outer > 1:  # before, no row was counted, also where a warm start gave it an alpha
            self._add_terms(work.target, work.cost, work.alpha, -1.0)
        new = self.settling and outer == 1 and self._new.issuperset(group.blocks)
        epochs = NEW_EPOCHS if new and self._options.epochs == 1 else self._options.epochs
        self._epochs(work, flags, outer, visits, epochs, halt)
        self._add_terms(work.target, work.cost, work.alpha, 1.0)
        self.alpha.write(group.blocks, work.alpha)
        self._preference.write(group.blocks, work.preference)
        if self._sweeping and not resident:
            self._keep(work, before, flags)
        self._active.write(group.blocks, flags)
        if self._sweeping and not resident:
            if self.settling:  # whole ones: it ends in fewer outer iterations
                for sweep in range(SWEEPS) if new else share(SWEEPS, number, visits):
                    self._sweep(self._kept.rows(), outer, sweep)
            else:
                for part in parts_of_sweeps(SWEEPS, number, visits):
                    self._sweep(self._kept.rows(), outer, *part)
            if self.settling and number == visits - 1:
                self._settle(outer, halt)

    def _epochs(
        self,
        work: Work,
        flags: NDArray[np.bool_],
        outer: int,
        visits: int,
        epochs: int | None,
        halt: Callable[[], bool],
    ) -> None:
        options, group = self._options, work.group
        sweeping = self._sweeping and visits == 1
        points = SWEEPS if sweeping else -(-AVERAGED_POINTS // (visits * (epochs or 1)))
        parts = max(points, -(-len(group.indices) // LONGEST_PART))
        self._adapt[kernels.THRESHOLD] = np.inf  # nothing is shrunk before it was measured
        for epoch in range(epochs or MOST_EPOCHS):
            order = work.order(options, outer, epoch)
            seen = fresh_touch()
            for number, part in enumerate(np.array_split(order, parts)):
                if (epoch or number) and halt():
                    raise Abandoned
                before = work.alpha.copy() if sweeping else work.alpha
                self._descend(work, part, seen)
                if sweeping:
                    flags[part] = work.moving(before, part)
                    for sweep in share(SWEEPS, number, parts):
                        again = np.flatnonzero(flags)
                        again = again[self._scheduled(work.preference[again], outer, epoch, sweep)]
                        self._descend(work, again, self._later)
            merge(seen, self._touch if epoch == 0 else self._later)
            if self._selection == kernels.AVSF and self._adapt[kernels.MEAN_GAIN] == 0.0:
                self._adapt[kernels.MEAN_GAIN] = seen[kernels.GAIN] / max(len(order), 1)
            self._adapt[kernels.THRESHOLD] = threshold(seen)
            if epochs is None and width(seen) <= options.inner_tolerance:
                if self._selection != kernels.SHRINK or len(order) == group.n_rows:
                    break
                work.preference[:] = 0.0  # all rows again before the visit may end

    def _descend(self, work: Work, order: NDArray[np.int64], seen: NDArray[np.float64]) -> None:
        """Visit rows of a group in an order."""
        group, problem = work.group, self.problem
        kernels.dcd_epoch(
            group.indptr[:-1], group.indptr[1:], group.indices, group.values, group.sq_norm,
            work.target, work.cost, order, problem.kind, problem.epsilon, self.bias, work.alpha,
            self.w, seen, self._selection, work.preference, self._adapt,
        )  # fmt: skip
        self.average += self.w
        self._points += 1

    def _keep(self, work: Work, before: NDArray[np.float64], flags: NDArray[np.bool_]) -> None:
        """Keep the rows of a group that are moving, and flag them.

        While settling, rows near the margin too: what they will do shows only later.
        """
        moving, group = work.moving(before, slice(None)), work.group
        worth = (work.alpha - before) ** 2 * group.sq_norm
        if self.settling and self.problem.bounded:
            distance = distances(group, work.target, self.w, self.bias)
            worth = np.where(moving, np.inf, -distance)
            moving |= (distance < NEAR) & (work.cost > 0.0)
        chosen = np.flatnonzero(moving)
        flags[self._kept.replace(group, chosen, worth[chosen])] = True

    def foresee(self, group: Group, n_rows: int, stalest: bool = False) -> None:
        """Estimate what so many rows but the active ones add to P - D, by those of a group.

        Of the group that was visited longest ago they add more.
        """
        rows, alpha = whole_group(group), self.alpha.read(group.blocks)
        added, _ = excess(rows, self.problem, alpha, self.w, self.bias)
        others = float(added[self._active.read(group.blocks) == 0].sum())
        self._foreseen = others * (STALE if stalest else 1.0) * n_rows / max(group.n_rows, 1)

    def look_ahead(self, group: Group, n_rows: int, outer: int, halt: Callable[[], bool]) -> None:
        """Foresee by the next group what is left of the gap at the end of an outer iteration.

        Where active rows are all that separates it from the gap asked for, they are swept.
        """
        self.foresee(group, n_rows, stalest=self.settling and outer == 1)
        if self.settling:  # they were swept
            return
        self._settled, _ = self._restless()
        goal, others = self._goal(), self._foreseen or 0.0
        if others <= PROMISING * goal and goal < others + self._settled <= CLOSE * goal:
            self._settle(outer, halt)
            self.foresee(group, n_rows)

    def enough(self, group: Group, n_rows: int, outer: int, halt: Callable[[], bool]) -> bool:
        """Say whether so many rows, `group` those visited longest ago, need no visit any more."""
        limit = PROMISING * self._goal()
        self.foresee(group, n_rows, stalest=True)
        if (self._foreseen or 0.0) > limit:
            return False
        self._settle(outer, halt)
        self.foresee(group, n_rows, stalest=True)
        return (self._foreseen or 0.0) + self._settled <= limit

    def _settle(self, outer: int, halt: Callable[[], bool]) -> None:
        """Sweep the active rows until they are as good as is asked for."""
        for sweep in range(SETTLING_SWEEPS):
            if sweep % SETTLING_STEP == 0:
                self._settled, rows = self._restless()
            if self._settled <= SETTLED * self._goal():
                break
            if halt():
                raise Abandoned
            self._sweep(rows, outer, SWEEPS + sweep)

    def _goal(self) -> float:
        """Return what P - D may be, by the gap asked for."""
        return (self._options.gap or 0.0) * self._dual()

    def _restless(self) -> tuple[float, Rows | None]:
        """Return what the active rows add to P - D, and those that do not rest at a bound."""
        rows = self._kept.rows()
        if rows is None:
            return 0.0, None
        alpha = self.alpha.all[rows.positions]
        added, restless = excess(rows, self.problem, alpha, self.w, self.bias)
        return float(added.sum()), rows.some(restless)

    def _dual(self) -> float:
        return float(self._terms[kernels.DUAL] - 0.5 * kernels.squared_norm(self.w))

    def _sweep(
        self, rows: Rows | None, outer: int, sweep: int, first: float = 0.0, last: float = 1.0
    ) -> None:
        """Visit active rows once, or those with their turn in a part of that."""
        problem = self.problem
        if rows is None:
            return
        turn = having_turn(self._options.seed, outer, sweep, rows.positions, first, last)
        target, cost = problem.targets(rows.labels), problem.costs(rows)
        alpha = self.alpha.all[rows.positions]
        preference = self._preference.all[rows.positions]
        order = turn[self._scheduled(preference[turn], outer, 0, sweep)]
        self._add_terms(target, cost, alpha, -1.0)
        kernels.dcd_epoch(
            rows.starts, rows.stops, rows.indices, rows.values, rows.sq_norm, target, cost,
            order, problem.kind, problem.epsilon, self.bias,
            alpha, self.w, self._later, self._selection, preference, self._adapt,
        )  # fmt: skip
        self._preference.all[rows.positions] = preference
        self._add_terms(target, cost, alpha, 1.0)
        self.alpha.all[rows.positions] = alpha
        self.average += self.w
        self._points += 1

    def _scheduled(
        self, preference: NDArray[np.float32], outer: int, epoch: int, sweep: int
    ) -> NDArray[np.int64]:
        order = np.empty(len(preference), np.int64)
        active_schedule(self._options.seed, outer, epoch, sweep, preference, order)
        return order

    def _add_terms(self, target: Floats, cost: Floats, alpha: Floats, sign: float) -> None:
        """Add what rows contribute to the dual value, or take it away."""
        terms = np.zeros(kernels.N_TERMS)
        problem = self.problem
        kernels.add_dual_terms(target, cost, problem.kind, problem.epsilon, alpha, terms)
        self._terms += sign * terms

    def _preferences(self, group: Group) -> NDArray[np.float32]:
        if self._selection == kernels.SHRINK:  # they last as long as the visit
            return np.zeros(group.n_rows, np.float32)
        return self._preference.read(group.blocks)

    def estimate(self) -> Estimate:
        """Return what the outer iteration saw."""
        self.average /= max(self._points[0], 1.0)
        self._points[:] = 1.0
        dual = self._dual()
        added = float(self._touch[kernels.EXCESS])
        if self._foreseen is not None:
            added = max(self._settled + self._foreseen, 0.0 if self.settling else LEAST * added)
        return Estimate(
            primal=dual + added,
            dual=dual,
            violation=self._violation(),
            n_sv=int(self._terms[kernels.N_SUPPORT]),
            steps=int(self._touch[kernels.STEPS] + self._later[kernels.STEPS]),
            foretold=self._foreseen is not None,
        )

    def _violation(self) -> float:
        """Return what LIBLINEAR's ``-e`` is compared with."""
        if self.problem.solver.regression:
            total = float(self._touch[kernels.PG_SUM])
            self._first_violation[0] = self._first_violation[0] or total
            return total / self._first_violation[0] if total else 0.0
        return width(self._touch)

    def discard(self) -> None:
        """Delete the scratch files."""
        for lines in (self.alpha, self._preference, self._active):
            lines.discard()


def share(total: int, part: int, parts: int) -> range:
    """Return which of `total` things, numbered, fall to one of equal parts."""
    return range(part * total // parts, (part + 1) * total // parts)
