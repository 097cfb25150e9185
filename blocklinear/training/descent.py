"""Dual coordinate descent on the groups of a store: what one visit does (Yu, Algorithm 2)."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklinear.kernels import dual as kernels
from blocklinear.kernels.sums import dot
from blocklinear.options import TrainOptions
from blocklinear.store.groups import Group
from blocklinear.store.manifest import Manifest
from blocklinear.store.prefetch import Loaded
from blocklinear.training.active import ActiveRows, Rows, whole_group
from blocklinear.training.passes import Done, Passes
from blocklinear.training.problems import Problem
from blocklinear.training.rows import RowArray
from blocklinear.training.schedule import active_schedule, having_turn, parts_of_sweeps
from blocklinear.training.single import SingleModel
from blocklinear.training.tally import (
    Estimate,
    fresh_touch,
    merge,
    rises,
    threshold,
    violations,
    width,
)
from blocklinear.training.work import Work

AVERAGED_POINTS = 8
"""The running average of w takes at least so many points of an outer iteration."""
MOST_EPOCHS = 100
"""Epochs of a visit that goes on until its tolerance holds."""
LONGEST_PART = 1 << 25
"""Entries worked on before a request to stop is looked at again, a quarter of a second."""
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
        self._counted = False  # whether they were of all rows before the first visit
        self._adapt = np.zeros(kernels.N_ADAPT)
        self._passes = Passes()  # over the active rows
        self._points = np.zeros(1)  # in the average so far
        self._first_violation = np.zeros(1)  # LIBLINEAR's measure for regression is relative

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that a checkpoint must keep, by name."""
        return {
            "w": self.w, "average": self.average, "alpha": self.alpha.all,
            "preference": self._preference.all, "active": self._active.all, "touch": self._touch,
            "later": self._later, "terms": self._terms, "adapt": self._adapt,
            "passes": self._passes.state, "points": self._points, "first": self._first_violation,
        }  # fmt: skip

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
        self._passes.begin()
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
        work = Work(
            whole_group(group),
            self.problem,
            self.alpha.read(group.blocks),
            self._preferences(group),
        )
        before = work.alpha.copy()
        resident = visits == 1
        flags = np.zeros(group.n_rows, np.bool_)
        if self._sweeping and resident:
            flags[:] = self._active.read(group.blocks)
        if self._counted or outer > 1:
            self._add_terms(work.target, work.cost, work.alpha, -1.0)
        self._epochs(group, work, flags, outer, visits, halt)
        self._add_terms(work.target, work.cost, work.alpha, 1.0)
        self.alpha.write(group.blocks, work.alpha)
        self._preference.write(group.blocks, work.preference)
        if self._sweeping and not resident:
            flags[self._keep(group, work, before)] = True
        self._active.write(group.blocks, flags)
        if self._sweeping and not resident:
            self._sweep_between(group, outer, number, visits, halt)

    def _epochs_of(self, group: Group, outer: int) -> int | None:
        """Return how many epochs a visit has, None for as many as it takes."""
        return self._options.epochs

    def _epochs(
        self,
        group: Group,
        work: Work,
        flags: NDArray[np.bool_],
        outer: int,
        visits: int,
        halt: Callable[[], bool],
    ) -> None:
        options, epochs = self._options, self._epochs_of(group, outer)
        sweeping = self._sweeping and visits == 1
        points = -(-AVERAGED_POINTS // (visits * (epochs or 1)))
        parts = max(points, -(-len(group.indices) // LONGEST_PART))
        if sweeping:
            parts = max(parts, self._passes.number)
        self._adapt[kernels.THRESHOLD] = np.inf  # nothing is shrunk before it was measured
        for epoch in range(epochs or MOST_EPOCHS):
            order = work.order(options, outer, epoch, group.blocks)
            seen = fresh_touch()
            for number, part in enumerate(np.array_split(order, parts)):
                if (epoch or number) and halt():
                    raise Abandoned
                before = work.alpha.copy() if sweeping else work.alpha
                self._descend(work, part, seen)
                if not sweeping:
                    continue
                flags[part] = work.moving(before, part)
                for sweep in share(self._passes.number, number, parts):
                    again = np.flatnonzero(flags)
                    again = again[self._scheduled(work.preference[again], outer, epoch, sweep)]
                    if self._passes.add(self._pass(work, again)):
                        break
                    if halt():
                        raise Abandoned
            merge(seen, self._touch if epoch == 0 else self._later)
            if epoch == 0:
                self._passes.add_first(seen[kernels.GAIN], len(group.indices))
            if self._selection == kernels.AVSF and self._adapt[kernels.MEAN_GAIN] == 0.0:
                self._adapt[kernels.MEAN_GAIN] = seen[kernels.GAIN] / max(len(order), 1)
            self._adapt[kernels.THRESHOLD] = threshold(seen)
            if epochs is None and width(seen) <= options.inner_tolerance:
                if self._selection != kernels.SHRINK or len(order) == group.n_rows:
                    break
                work.preference[:] = 0.0  # all rows again before the visit may end

    def _descend(self, work: Work, order: NDArray[np.int64], seen: NDArray[np.float64]) -> None:
        """Visit rows in an order."""
        rows, problem = work.rows, self.problem
        kernels.dcd_epoch(
            rows.starts, rows.stops, rows.indices, rows.values, rows.sq_norm, work.target,
            work.cost, order, problem.kind, problem.epsilon, self.bias, work.alpha, self.w, seen,
            self._selection, work.preference, self._adapt,
        )  # fmt: skip
        self.average += self.w
        self._points += 1

    def _pass(self, work: Work, order: NDArray[np.int64]) -> Done:
        """Visit active rows in an order."""
        rows, later = work.rows, self._later
        gain, excess = float(later[kernels.GAIN]), float(later[kernels.EXCESS])
        self._descend(work, order, later)
        entries = int((rows.stops[order] - rows.starts[order]).sum())
        return Done(
            float(later[kernels.GAIN]) - gain, entries, float(later[kernels.EXCESS]) - excess
        )

    def _keep(self, group: Group, work: Work, before: Floats) -> NDArray[np.int64]:
        """Make the rows of a group that are moving the active ones; return those kept."""
        worth = (work.alpha - before) ** 2 * group.sq_norm
        chosen = np.flatnonzero(work.moving(before, slice(None)))
        return self._kept.replace(group, chosen, worth[chosen])

    def _sweep_between(
        self, group: Group, outer: int, number: int, visits: int, halt: Callable[[], bool]
    ) -> None:
        """Sweep the active rows after a visit."""
        rows = self._kept.rows()
        for sweep, first, last in parts_of_sweeps(self._passes.number, number, visits):
            if rows is None:
                break
            if self._passes.add(self._sweep(rows, outer, sweep, first, last), last - first):
                break
            if halt():
                raise Abandoned

    def _sweep(
        self, rows: Rows, outer: int, sweep: int, first: float = 0.0, last: float = 1.0
    ) -> Done:
        """Visit active rows once, or those with their turn in a part of that."""
        turn = having_turn(self._options.seed, outer, sweep, rows.positions, first, last)
        preference = self._preference.all[rows.positions]
        work = Work(rows, self.problem, self.alpha.all[rows.positions], preference)
        order = turn[self._scheduled(preference[turn], outer, 0, sweep)]
        self._add_terms(work.target, work.cost, work.alpha, -1.0)
        done = self._pass(work, order)
        self._preference.all[rows.positions] = preference
        self._add_terms(work.target, work.cost, work.alpha, 1.0)
        self.alpha.all[rows.positions] = work.alpha
        return done

    def _scheduled(
        self, preference: NDArray[np.float32], outer: int, epoch: int, sweep: int
    ) -> NDArray[np.int64]:
        order = np.empty(len(preference), np.int64)
        active_schedule(self._options.seed, outer, epoch, sweep, preference, order)
        return order

    def _dual(self) -> float:
        return float(self._terms[kernels.DUAL] - 0.5 * dot(self.w, self.w))

    def _add_terms(self, target: Floats, cost: Floats, alpha: Floats, sign: float) -> None:
        """Add what rows contribute to the dual value, or take it away."""
        self._terms += sign * self.problem.dual_terms(target, cost, alpha)

    def _preferences(self, group: Group) -> NDArray[np.float32]:
        if self._selection == kernels.SHRINK:  # they last as long as the visit
            return np.zeros(group.n_rows, np.float32)
        return self._preference.read(group.blocks)

    def estimate(self) -> Estimate:
        """Return what the outer iteration saw."""
        self.average /= max(self._points[0], 1.0)
        self._points[:] = 1.0
        dual, regression = self._dual(), self.problem.solver.regression
        self._passes.aim_at((self._options.gap or 0.0) * dual)
        gain = self._touch[kernels.GAIN] + self._later[kernels.GAIN]
        violation = violations(self._touch[None], regression, self._first_violation)
        return Estimate(
            primal=dual + float(self._touch[kernels.EXCESS]),
            dual=dual,
            violation=float(violation[0]),
            n_sv=int(self._terms[kernels.N_SUPPORT]),
            steps=int(self._touch[kernels.STEPS] + self._later[kernels.STEPS]),
            rise=rises(np.array([gain]), np.array([dual])),
        )

    def discard(self) -> None:
        """Delete the scratch files."""
        for lines in (self.alpha, self._preference, self._active):
            lines.discard()


def share(total: int, part: int, parts: int) -> range:
    """Return which of `total` things, numbered, fall to one of equal parts."""
    return range(part * total // parts, (part + 1) * total // parts)
