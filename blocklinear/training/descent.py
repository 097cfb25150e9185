"""Dual coordinate descent on the groups of a store: what one visit does (Yu, Algorithm 2)."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklinear.kernels import dual as kernels
from blocklinear.options import TrainOptions
from blocklinear.store.groups import Group
from blocklinear.store.manifest import Manifest
from blocklinear.store.prefetch import Loaded
from blocklinear.training.active import ActiveRows
from blocklinear.training.problems import Problem
from blocklinear.training.rows import RowArray
from blocklinear.training.schedule import active_schedule, drawn_rows, row_order, row_schedule
from blocklinear.training.single import SingleModel

AVERAGED_POINTS = 8
"""The running average of w takes at least so many points of an outer iteration."""
MOST_EPOCHS = 100
"""Epochs of a visit that goes on until its tolerance holds."""
LONGEST_PART = 1 << 25
"""Entries worked on before a request to stop is looked at again, a quarter of a second."""
SWEEPS = 16
"""How often an outer iteration sweeps the active rows."""
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


@dataclass(frozen=True)
class Estimate:
    """What an outer iteration saw; `dual` is exact, the rest is as of the first touch of rows.

    Of several models it has the sums, the largest violation, and the largest and the middle gap.
    """

    primal: float
    dual: float
    violation: float
    n_sv: int
    steps: int
    gap: float | None = None
    middle_gap: float | None = None


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
        for tally in (self._touch, self._later):
            tally[:] = _fresh_touch()
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
        work = _Work(group, self.problem, self.alpha.read(group.blocks), self._preferences(group))
        before = work.alpha.copy()
        resident = visits == 1
        flags = np.zeros(group.n_rows, np.bool_)
        if self._sweeping and resident:
            flags[:] = self._active.read(group.blocks)
        self._add_terms(work.target, work.cost, work.alpha, -1.0)
        self._epochs(work, flags, outer, visits, halt)
        self._add_terms(work.target, work.cost, work.alpha, 1.0)
        self.alpha.write(group.blocks, work.alpha)
        self._preference.write(group.blocks, work.preference)
        if self._sweeping and not resident:
            self._keep(work, before, flags)
        self._active.write(group.blocks, flags)
        if self._sweeping and not resident:
            for sweep in share(SWEEPS, number, visits):
                self._sweep_kept(outer, sweep)

    def _epochs(
        self,
        work: "_Work",
        flags: NDArray[np.bool_],
        outer: int,
        visits: int,
        halt: Callable[[], bool],
    ) -> None:
        options, group = self._options, work.group
        sweeping = self._sweeping and visits == 1
        points = SWEEPS if sweeping else -(-AVERAGED_POINTS // (visits * (options.epochs or 1)))
        parts = max(points, -(-len(group.indices) // LONGEST_PART))
        self._adapt[kernels.THRESHOLD] = np.inf  # nothing is shrunk before it was measured
        for epoch in range(options.epochs or MOST_EPOCHS):
            order = self._order(group, outer, epoch, work.preference)
            seen = _fresh_touch()
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
            _merge(seen, self._touch if epoch == 0 else self._later)
            if self._selection == kernels.AVSF and self._adapt[kernels.MEAN_GAIN] == 0.0:
                self._adapt[kernels.MEAN_GAIN] = seen[kernels.GAIN] / max(len(order), 1)
            self._adapt[kernels.THRESHOLD] = _threshold(seen)
            if options.epochs is None and _width(seen) <= options.inner_tolerance:
                if self._selection != kernels.SHRINK or len(order) == group.n_rows:
                    break
                work.preference[:] = 0.0  # all rows again before the visit may end

    def _descend(self, work: "_Work", order: NDArray[np.int64], seen: NDArray[np.float64]) -> None:
        """Visit rows of a group in an order."""
        group, problem = work.group, self.problem
        kernels.dcd_epoch(
            group.indptr[:-1], group.indptr[1:], group.indices, group.values, group.sq_norm,
            work.target, work.cost, order, problem.kind, problem.epsilon, self.bias, work.alpha,
            self.w, seen, self._selection, work.preference, self._adapt,
        )  # fmt: skip
        self.average += self.w
        self._points += 1

    def _keep(self, work: "_Work", before: NDArray[np.float64], flags: NDArray[np.bool_]) -> None:
        """Keep the rows of a group that are moving, and flag them."""
        chosen = np.flatnonzero(work.moving(before, slice(None)))
        step = work.alpha[chosen] - before[chosen]
        kept = self._kept.replace(work.group, chosen, step * step * work.group.sq_norm[chosen])
        flags[kept] = True

    def _sweep_kept(self, outer: int, sweep: int) -> None:
        """Visit the active rows of all groups once."""
        rows, problem = self._kept.rows(), self.problem
        if rows is None:
            return
        target, cost = problem.targets(rows.labels), problem.costs(rows.labels)
        alpha = self.alpha.all[rows.positions]
        preference = self._preference.all[rows.positions]
        self._add_terms(target, cost, alpha, -1.0)
        kernels.dcd_epoch(
            rows.starts, rows.stops, rows.indices, rows.values, rows.sq_norm, target, cost,
            self._scheduled(preference, outer, 0, sweep), problem.kind, problem.epsilon, self.bias,
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

    def _order(
        self, group: Group, outer: int, epoch: int, preference: NDArray[np.float32]
    ) -> NDArray[np.int64]:
        """Return the rows of an epoch in their order; the first epoch of a visit takes all."""
        key = (self._options.seed, outer, epoch, group.blocks)
        order = np.empty(group.n_rows, np.int64)
        if self._options.selection == "online":
            drawn_rows(*key, order)
        elif self._options.selection == "avsf" and epoch:
            row_schedule(*key, preference, order)
        elif self._selection == kernels.SHRINK and epoch:
            order = np.empty(int(np.count_nonzero(preference == 0.0)), np.int64)
            row_order(*key, order)
            order = np.flatnonzero(preference == 0.0)[order]
        else:
            row_order(*key, order)
        return order

    def estimate(self) -> Estimate:
        """Return what the outer iteration saw."""
        self.average /= max(self._points[0], 1.0)
        self._points[:] = 1.0
        norm = kernels.squared_norm(self.w)
        return Estimate(
            primal=float(0.5 * norm + self._touch[kernels.LOSS]),
            dual=float(self._terms[kernels.DUAL] - 0.5 * norm),
            violation=self._violation(),
            n_sv=int(self._terms[kernels.N_SUPPORT]),
            steps=int(self._touch[kernels.STEPS] + self._later[kernels.STEPS]),
        )

    def _violation(self) -> float:
        """Return what LIBLINEAR's ``-e`` is compared with."""
        if self.problem.solver.regression:
            total = float(self._touch[kernels.PG_SUM])
            self._first_violation[0] = self._first_violation[0] or total
            return total / self._first_violation[0] if total else 0.0
        return _width(self._touch)

    def discard(self) -> None:
        """Delete the scratch files."""
        for lines in (self.alpha, self._preference, self._active):
            lines.discard()


class _Work:
    """The rows of a group while they are worked on."""

    def __init__(
        self, group: Group, problem: Problem, alpha: Floats, preference: NDArray[np.float32]
    ) -> None:
        self.group, self.alpha, self.preference = group, alpha, preference
        self.target, self.cost = problem.targets(group.labels), problem.costs(group.labels)
        self._bounded = problem.bounded

    def moving(self, before: Floats, rows: NDArray[np.int64] | slice) -> NDArray[np.bool_]:
        """Say of which rows alpha has changed and is strictly inside its bounds."""
        alpha = self.alpha[rows]
        moving: NDArray[np.bool_] = (alpha != before[rows]) & (alpha != 0.0)
        if self._bounded:
            moving &= np.abs(alpha) != self.cost[rows]
        return moving


class AveragedBlocks(Descent):
    """AvgBlock (Yu, 7.2): each visit solves its rows alone; the model is the mean of their w.

    With alpha divided by the number of visits, w = sum s_i alpha_i x_i still holds, and alpha is
    feasible, so the certificate is one of the whole problem.
    """

    def begin(self) -> None:
        """Start an outer iteration, which owes nothing to the one before."""
        super().begin()
        self.w[:] = self._terms[:] = 0.0
        self.alpha.all[:] = 0.0

    def visit(
        self, group: Group, outer: int, number: int, visits: int, halt: Callable[[], bool]
    ) -> None:
        """Work on one group from zero."""
        total, terms = self.w.copy(), self._terms.copy()
        self.w[:] = 0.0
        super().visit(group, outer, number, visits, halt)
        self.w /= visits
        self.w += total
        alpha = self.alpha.read(group.blocks) / visits
        self.alpha.write(group.blocks, alpha)
        self._terms[:] = terms
        target, cost = self.problem.targets(group.labels), self.problem.costs(group.labels)
        self._add_terms(target, cost, alpha, 1.0)


def share(total: int, part: int, parts: int) -> range:
    """Return which of `total` things, numbered, fall to one of equal parts."""
    return range(part * total // parts, (part + 1) * total // parts)


def _fresh_touch() -> NDArray[np.float64]:
    touch = np.zeros(kernels.N_TOUCH)
    touch[kernels.PG_MAX], touch[kernels.PG_MIN] = -np.inf, np.inf
    return touch


def _merge(seen: NDArray[np.float64], into: NDArray[np.float64]) -> None:
    """Add the tally of some rows to another."""
    largest = max(seen[kernels.PG_MAX], into[kernels.PG_MAX])
    smallest = min(seen[kernels.PG_MIN], into[kernels.PG_MIN])
    into += np.where(np.isfinite(seen), seen, 0.0)
    into[kernels.PG_MAX], into[kernels.PG_MIN] = largest, smallest


def _width(touch: NDArray[np.float64]) -> float:
    """Return the largest minus the smallest projected gradient, either counted as 0 if better."""
    return float(max(touch[kernels.PG_MAX], 0.0) - min(touch[kernels.PG_MIN], 0.0))


def _threshold(touch: NDArray[np.float64]) -> float:
    """Return the pressure from which a row may be shrunk; infinite when nothing is violated."""
    largest = max(touch[kernels.PG_MAX], -touch[kernels.PG_MIN])
    return float(largest) if largest > 0.0 else np.inf
