"""Coordinate descent on a loss with a margin, which can tell how much of the gap is left.

Rows beyond the margin rest (see `training.settling`). So the gap at the end of an outer iteration
is what active rows add to it, which are in memory, and what others do, which a group of them tells.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklinear.kernels.dual import HINGE, SQUARED_HINGE
from blocklinear.kernels.sums import row_values
from blocklinear.options import TrainOptions
from blocklinear.store.groups import Group
from blocklinear.store.manifest import Manifest
from blocklinear.store.prefetch import Loaded
from blocklinear.training.active import Rows, whole_group
from blocklinear.training.certificate import Certificate
from blocklinear.training.descent import Abandoned, Descent, share
from blocklinear.training.near import NearWriter
from blocklinear.training.passes import SOLVED
from blocklinear.training.problems import Problem
from blocklinear.training.settling import NEAR, RESTLESS, Standing, standing
from blocklinear.training.tally import Estimate
from blocklinear.training.work import Work

NEW_EPOCHS = 4
"""Epochs over new blocks at the beginning of a warm start."""
SWEEPS = 16
"""How often an outer iteration of a warm start sweeps the active rows, before it solves them."""
PRIMED_SWEEPS = 2
"""Sweeps of active rows after each of these visits, where those of old blocks are there already."""
LEFT = {HINGE: 0.25, SQUARED_HINGE: 0.5}
"""Of all entries, what rows near the margin that are left to a warm start may have."""
LEFT_TIMES = 2.0
"""And of the active rows of a run, which has less room for them than a warm start."""
SETTLING_SWEEPS = 64
"""How often at most active rows are swept to settle them, at the end of an outer iteration."""
SETTLING_STEP = 8
"""After so many sweeps it is seen whether they are solved."""
CLOSE = 8.0
"""They are swept when the gap is no more than so many times the one asked for; if warm, always."""
FEW = 8
"""With squared hinge loss one entry in so many must be that of an active row to settle them."""
STALE = {HINGE: 1.0 / 3.0, SQUARED_HINGE: 0.55}
"""What rows add to the gap, of what those add that were visited longest ago. With hinge loss about
the square of how far w has gone since; with its square, alpha of most rows moves without end."""
VISITED = 0.1
"""What rows visited in this outer iteration of a warm start add, of what others do, and new
ones of what they did before. Measured: 0.01 to 0.05 with hinge loss."""
VISITED_UNKEPT = 0.75
"""With squared hinge loss so much for each entry that is not kept, less those kept. Measured: 0.05,
0.17 and 0.34 where 0.5, 0.39 and 0.26 of the entries are."""
LEAST = 1.0 / 32.0
"""Of what rows add to the gap at their first touch, what they add at least at the end of the outer
iteration: among few rows there may be none that do."""
LEARNED_ROWS = 8000.0
"""A group of so many rows counts as much as those before it in telling what others add."""
PROMISING = 0.7
"""Of the gap asked for, what may be foreseen where an outer iteration is cut short."""
Floats = NDArray[np.float64]


class MarginDescent(Descent):
    """One model and its alpha, with a hinge loss or its square.

    Parameters
    ----------
    manifest, problem, options, folder, active_entries :        as for `Descent`

    Attributes
    ----------
    settling : bool           whether active rows are swept, until they are solved, at the end of
                              every outer iteration
    holds_new : bool          whether all rows of blocks that are new to a warm start stay active
    """

    def __init__(
        self,
        manifest: Manifest,
        problem: Problem,
        options: TrainOptions,
        folder: Path,
        active_entries: int = 0,
    ) -> None:
        super().__init__(manifest, problem, options, folder, active_entries)
        self.settling = self.holds_new = False
        self._leaving: NearWriter | None = None
        if self._sweeping and active_entries > 0 and options.checkpoint_s < np.inf:
            most = min(LEFT[problem.kind], LEFT_TIMES * active_entries / manifest.nnz)
            self._leaving = NearWriter(folder / "near.work", manifest, most)
        self._stale, self._visited = STALE[problem.kind], VISITED
        if not problem.bounded:
            unkept = 1.0 - 2.0 * active_entries / max(manifest.nnz, 1)
            self._visited = max(VISITED, VISITED_UNKEPT * unkept)
        self._holds_many = problem.bounded or FEW * active_entries >= manifest.nnz
        self._rows = [block.rows for block in manifest.blocks]
        self._new: frozenset[int] = frozenset()
        self._fresh: dict[int, float] = {}  # what rows of new blocks added, but for active ones
        self._settled = 0.0  # what active rows add to P - D
        self._foreseen: float | None = None  # and what the others do, if it was looked at
        self._told: float | None = None  # of a row, by the groups so far

    @property
    def new_last(self) -> bool:
        """Whether new blocks need a visit least when the first outer iteration is over.

        Where alpha of most rows moves it ends with them, when w is less far from solved, or they
        are held.
        """
        return self.settling and not self.problem.bounded

    @property
    def revisits_new(self) -> bool:
        """Whether the first outer iteration visits new blocks twice."""
        return self.primed and self.settling and not self.holds_new

    @property
    def primed(self) -> bool:
        """Whether a warm start has found rows near the margin, and the dual value of all rows."""
        return self._counted

    @property
    def state(self) -> dict[str, Any]:
        """What a checkpoint must know before it can fill `arrays`, as JSON."""
        return super().state | {
            "settling": self.settling, "primed": self._counted, "new": sorted(self._new),
            "fresh": sorted(self._fresh.items()), "settled": self._settled,
            "foreseen": self._foreseen, "told": self._told,
            "places": self._leaving.places if self._leaving else [],
        }  # fmt: skip

    @state.setter
    def state(self, state: dict[str, Any]) -> None:
        self.settling, self._counted = state["settling"], state["primed"]
        self._learn_of(state["new"])
        self._fresh = dict(state["fresh"])
        self._settled, self._foreseen = state["settled"], state["foreseen"]
        self._told = state["told"]

    def settle(self, new: Collection[int]) -> None:
        """Sweep the active rows at the end of every outer iteration, until they are solved.

        A warm start, not far from the optimum, so gets there in few outer iterations, which cost
        more than the sweeps where blocks have to be read. The first of them begins with the `new`
        blocks, whose alpha has farthest to go. Where alpha of most rows moves and few of them are
        in memory, to solve those draws w away from the others: then the sweeps stay as they are.
        """
        self.settling = self._sweeping and self._holds_many
        self._learn_of(new)

    def _learn_of(self, new: Collection[int]) -> None:
        """Hold all rows of new blocks, if there is room, where alpha of most of them moves."""
        self._new = frozenset(new)
        self.holds_new = self.settling and not self.problem.bounded and self._kept.hold(new)

    def prime(self, terms: Floats, near: Iterable[tuple[int, Rows]]) -> None:
        """Take over rows near the margin as active ones, and the terms of D(alpha) of all rows.

        Parameters
        ----------
        terms : float64[N_TERMS]
        near : iterable of int, Rows
            Blocks, by position in the manifest, and rows of each; their positions are lines in it.
        """
        self._terms[:], self._counted = terms, True
        for block, rows in near:
            lines = rows.positions
            alpha, flags = self.alpha.read((block,)), self._active.read((block,))
            worth = self._standing(rows, alpha[lines]).worth
            flags[lines[self._kept.put(block, lines, rows, worth)]] = 1
            self._active.write((block,), flags)

    def left_behind(self) -> dict[str, Sequence[NDArray[Any]]]:
        """Return the rows that the last certificate has found near the margin, for `Previous`.

        Raises
        ------
        StorageError
            If they could not be kept.
        """
        return {"near": [self._leaving.left()]} if self._leaving is not None else {}

    def begin(self) -> None:
        """Start an outer iteration."""
        super().begin()
        self._settled, self._foreseen = 0.0, None

    def _is_new(self, group: Group, outer: int) -> bool:
        return outer == 1 and self._new.issuperset(group.blocks)

    def _epochs_of(self, group: Group, outer: int) -> int | None:
        if self._is_new(group, outer) and self._options.epochs == 1:
            return NEW_EPOCHS
        return self._options.epochs

    def visit(
        self, group: Group, outer: int, number: int, visits: int, halt: Callable[[], bool]
    ) -> None:
        """Work on one group, as `Descent.visit`."""
        if self.primed and self._is_new(group, outer) and not self.holds_new:
            self._fresh[group.blocks[0]] = self._others(group)
        super().visit(group, outer, number, visits, halt)

    def _keep(self, group: Group, work: Work, before: Floats) -> NDArray[np.int64]:
        """Make the rows of a group that are moving the active ones; return those kept.

        While settling, rows near the margin too: what they will do shows only later. All of new
        blocks where they are held.
        """
        if self.holds_new and self._new.issuperset(group.blocks):
            every = np.arange(group.n_rows)
            return self._kept.replace(group, every, np.zeros(len(every)))
        if not (self.settling and self.problem.bounded):
            return super()._keep(group, work, before)
        seen, moving = self._standing_of(group), work.moving(before, slice(None))
        worth = np.where(moving, RESTLESS, seen.worth)
        chosen = np.flatnonzero(moving | (seen.distance < NEAR))
        return self._kept.replace(group, chosen, worth[chosen])

    def _sweep_between(
        self, group: Group, outer: int, number: int, visits: int, halt: Callable[[], bool]
    ) -> None:
        if not self.settling:
            super()._sweep_between(group, outer, number, visits, halt)
            return
        sweeps = share(SWEEPS, number, visits)  # whole ones: it ends in fewer outer iterations
        if self._is_new(group, outer):
            sweeps = range(PRIMED_SWEEPS if self.primed else SWEEPS)
        rows = self._kept.rows()
        for sweep in sweeps:
            if rows is not None:
                self._sweep(rows, outer, sweep)
        if number == visits - 1:
            self._settle(outer, halt)

    def _standing(self, rows: Rows, alpha: Floats) -> Standing:
        decisions = np.empty(len(alpha))
        row_values(rows.starts, rows.stops, rows.indices, rows.values, self.bias, self.w, decisions)
        return standing(rows, self.problem, alpha, decisions)

    def _standing_of(self, group: Group) -> Standing:
        return self._standing(whole_group(group), self.alpha.read(group.blocks))

    def _others(self, group: Group) -> float:
        """Return what the rows of a group but the active ones add to P - D."""
        added = self._standing_of(group).added
        return float(added[self._active.read(group.blocks) == 0].sum())

    def look_ahead(self, group: Group, n_rows: int, outer: int, halt: Callable[[], bool]) -> None:
        """Foresee by the next group what is left of the gap at the end of an outer iteration.

        Where active rows are all that separates it from the gap asked for, they are swept.
        """
        self._foreseen = self._told_by(group, n_rows)
        if self.settling:  # they were swept
            self._foreseen *= self._stale if outer == 1 else 1.0
            return
        self._settled, _ = self._restless()
        goal, others = self._goal(), self._foreseen
        if others <= PROMISING * goal and goal < others + self._settled <= CLOSE * goal:
            self._settle(outer, halt)
            self._foreseen = self._told_by(group, n_rows)

    def enough(self, group: Group, n_rows: int, outer: int, halt: Callable[[], bool]) -> bool:
        """Say whether so many rows need no visit any more, by `group`, visited longest ago.

        In the first outer iteration, after the new blocks, `group` was not visited yet. A group of
        few rows tells nothing.
        """
        if 2.0 * group.n_rows < np.mean(self._rows) * len(group.blocks):
            return False
        left, old, fresh = self._stale * n_rows, sum(self._rows), 0.0
        if outer == 1:
            if not self.primed or self._is_new(group, outer):
                return False
            left, old = n_rows, old - sum(self._rows[b] for b in self._new)
            fresh = self._visited * sum(self._fresh.values())
            if not self._settled:
                self._settle(outer, halt)
        like = left + self._visited * (old - n_rows)
        limit, told = PROMISING * self._goal(), self._told_by(group, like)
        scale = 1.0
        if outer == 1 and told > 0.0:  # one group among many may promise little by chance
            of_row, weight = told / like, group.n_rows / (group.n_rows + LEARNED_ROWS)
            before = of_row if self._told is None else self._told
            self._told = before + weight * (of_row - before)
            scale = max(1.0, self._told / of_row)
        self._foreseen = scale * told + fresh
        if self._foreseen > limit:
            return False
        self._settle(outer, halt)
        self._foreseen = scale * self._told_by(group, like) + fresh
        return self._foreseen + self._settled <= limit

    def _told_by(self, group: Group, n_rows: float) -> float:
        """Estimate what so many rows but the active ones add to P - D, by those of a group."""
        return self._others(group) * n_rows / max(group.n_rows, 1)

    def _settle(self, outer: int, halt: Callable[[], bool]) -> None:
        """Sweep the active rows until they are as good as is asked for."""
        for sweep in range(SETTLING_SWEEPS):
            if sweep % SETTLING_STEP == 0:
                self._settled, rows = self._restless()
            if rows is None or self._settled <= SOLVED * self._goal():
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
        seen = self._standing(rows, self.alpha.all[rows.positions])
        return float(seen.added.sum()), rows.some(seen.restless)

    def estimate(self) -> Estimate:
        """Return what the outer iteration saw."""
        seen = super().estimate()
        if self._foreseen is None:
            return seen
        least = 0.0 if self.settling else LEAST * (seen.primal - seen.dual)
        primal = seen.dual + max(self._settled + self._foreseen, least)
        return replace(seen, primal=primal, foretold=True)

    def certify(self, stream: Iterable[Loaded]) -> Certificate:
        """Pass over the data once, as `SingleModel.certify`; find the rows near the margin."""
        if self._leaving is not None:
            self._leaving.begin()
        return super().certify(stream)

    def _watch(self, group: Group, alpha: Floats, decisions: Floats) -> None:
        """Make rows near the margin take the place of the active ones in memory; leave them, too.

        With them a warm start will begin. A run that goes on goes on with them, too; one that is
        resumed from its end, where an unbroken one makes no certificate, with those that were
        active.
        """
        if self._leaving is not None:
            seen = standing(group, self.problem, alpha, decisions)
            chosen = np.flatnonzero(seen.near)
            self._kept.replace(group, chosen, seen.worth[chosen])
            self._leaving.add(group, chosen, seen.worth[chosen])

    def let_go(self) -> None:
        """Go on after a certificate."""
        if self._leaving is not None:
            rows, self._active.all[:] = self._kept.rows(), 0
            if rows is not None:
                self._active.all[rows.positions] = 1

    def discard(self) -> None:
        """Delete the scratch files."""
        super().discard()
        if self._leaving is not None:
            self._leaving.discard()
