"""Weight vectors that share each pass over rows, and their alpha: what is done on a block step."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklinear.kernels import dual, losses
from blocklinear.kernels.sums import add_to_mean, copy_columns
from blocklinear.objectives.certificate import (
    Certificate,
    Proof,
    aligned_zeros,
    balance,
    column_norms,
    of_problems,
    relative_gaps,
)
from blocklinear.objectives.feasible_sets import AllClasses, FeasibleSet, inside
from blocklinear.objectives.models import Models
from blocklinear.objectives.multiplier import moved, nothing_seen
from blocklinear.objectives.problems import SOLVERS
from blocklinear.options import TrainOptions
from blocklinear.solvers.pass_statistics import no_stats, violations
from blocklinear.solvers.protocol import CutShort
from blocklinear.solvers.row_orders import pass_order, row_order, turns
from blocklinear.solvers.sharing import padded
from blocklinear.solvers.working_set import (
    PAUSE,
    Packed,
    Sample,
    Stratum,
    WorkingSet,
    alternately,
    n_sampled,
    one_in_few,
    total,
    unpacked,
)
from blocklinear.store.groups import Group, RowView
from blocklinear.store.manifest import Manifest
from blocklinear.store.row_arrays import RowArray

FIRST, AGAIN, PASS = 0, 1, 2
"""Why a row is worked on: for the first time in an outer iteration; in a further epoch of its block
step; in a pass over the working set."""
NO_RANGES, NO_PRIORITY = np.empty(0, np.uint16), np.empty(0)
"""For kernels that are to note neither, as in passes over the working set."""
SOLVED = 0.1
"""The working set is solved once it adds no more than this share of the gap asked for."""
LONGEST_PART = 1 << 25
"""Entries worked on before a request to stop is looked at again, a quarter of a second."""
AVERAGED_POINTS = 8
"""The running average of w has at least so many points in an outer iteration, where w is short."""
WORK_A_POINT = 8
"""Entries worked on, for each weight, between two points of the average: one costs 2 % of that."""
MOST_EPOCHS = 100
"""Epochs of a block step that goes on until its tolerance holds."""
_ROWS_AT_ONCE = 1 << 16
Floats = NDArray[np.float64]
ModelRanges = NDArray[np.uint16]
"""For each row, the weight vectors for which passes work on it, as its alpha is free or near a
bound: the first, plus 256 times one past the last; 0 for none."""


@dataclass(frozen=True)
class BlockStep:
    """A group while it is worked on."""

    rows: RowView
    data: Any  # what the problem must know of each row, see `WeightVectors`
    blocks: tuple[int, ...]  # of the group
    alpha: Floats  # float64[n_rows, M]: updated, as are `ranges` and `priority`
    ranges: ModelRanges  # uint16[n_rows]
    priority: Floats  # float64[n_rows]: of rows for the working set
    outer: int
    steps: int  # block steps of the outer iteration
    passes: int  # over the working set, where the group holds all rows
    cut_short: CutShort  # asked between two parts of the work, see `CutShort`


class WeightVectors(ABC):
    """Weight vectors that share every pass, and their alpha, a column for each.

    Parameters
    ----------
    models : Models           one for each weight vector; of one problem for all, if they are not
                              separable
    folder, name : Path, str  where alpha is kept, and under which name

    Attributes
    ----------
    models : Models           those still trained
    W, average : float64[n_features + 1, columns]   weights, a column for each, then zeros; their
                              average over the outer iteration, if it is `averaged`
    alpha : RowArray          float64, a column for each, also for those that were dropped
    bias : float              value of the bias feature, 0 for none
    free_bias : bool          whether its weight is not regularised
    places : int64[width]     the columns of alpha of those still trained
    stats : float64[3, n_problems, N_STATS]     statistics of steps, by why rows were worked on
    entries : float64[3]      worked on, likewise
    parts : float64[1]        calls of kernels that this took
    terms : float64[n_problems, N_TERMS]        what rows contribute to the dual values
    goals : float64[n_problems]         what P - D may be at the end of the outer iteration, as rows
                              tell
    known : float             the share of all rows that `terms` tell of, where others have an alpha
    first_violation : float64[n_problems]       what violations of a regression are compared with;
                              also of those that were dropped
    """

    averages = True
    """Whether an average of w over the outer iteration is taken: not where rows are copied. Passes
    over these leave w the better one, and there is memory for more of them. Measured, three losses,
    C and gap varied, 96 to 256 MB: 70 runs on text read 1.000 of the bytes without averages; with
    their memory hinge loss reads 0.86 to 1 of the blocks, after warm starts 0.77 to 0.95."""
    extrapolates = False
    """Whether work on a group ends with an extrapolation, without which convergence may be endless.
    Where no rows are copied, the passes are over the group then."""
    updates: Floats | None = None
    """Updates of w done, float64[1], where the next ones depend on it: a warm start is from w."""

    def __init__(
        self,
        models: Models,
        manifest: Manifest,
        options: TrainOptions,
        folder: Path,
        name: str = "-0",
    ) -> None:
        self.models, self._options, width = models, options, len(models)
        n_problems = width if models.separable else 1
        columns = padded(width) if models.separable else width
        self.bias, self.free_bias = max(options.bias, 0.0), not options.regularize_bias
        self.width = width
        self.W = aligned_zeros(manifest.n_features + 1, columns)
        self.average = aligned_zeros(*self.W.shape)  # no pages until it is written to
        self.alpha = RowArray(folder / f"alpha{name}.work", manifest, np.float64, width)
        self.places = np.arange(width)
        self._name = name
        self._ranges = RowArray(folder / f"ranges{name}.work", manifest, np.uint16)
        self._n_rows = manifest.n_rows
        self._points = np.zeros(2)  # points of the average so far; entries worked on since
        self.stats = np.zeros((3, n_problems, dual.N_STATS))
        self.terms, self.known = np.zeros((n_problems, dual.N_TERMS)), 1.0
        self.entries, self.parts = np.zeros(3), np.zeros(1)
        self.first_violation = np.zeros(n_problems)
        self._remaining = np.full((2, n_problems), np.nan)  # P - D of both candidates, as sampled
        self._multiplier = nothing_seen(n_problems)  # of a free bias
        self.goals = np.zeros(n_problems)
        self._reported = np.zeros(n_problems)  # what rows first worked on added to it before
        self._since = np.zeros(2)  # such rows worked on since; and steps before

    @property
    def feasible_set(self) -> FeasibleSet:
        """Where alpha may be."""
        return FeasibleSet(self.models) if self.models.separable else AllClasses(self.models)

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that a checkpoint must keep, by name."""
        return {
            "w": self.W, "alpha": self.alpha.all,
            "ranges": self._ranges.all, "points": self._points, "stats": self.stats,
            "terms": self.terms, "entries": self.entries, "parts": self.parts,
            "remaining": self._remaining, "goals": self.goals, "reported": self._reported,
            "since": self._since, "first": self.first_violation,
        } | {
            name: array for name, array, saved in (
                ("average", self.average, self.averages),
                ("multiplier", self._multiplier, self.free_bias),
            ) if saved
        }  # fmt: skip

    @property
    def row_arrays(self) -> dict[str, RowArray]:
        """What is known of rows other than alpha, by the names of a checkpoint; it may all be 0."""
        return {f"ranges{self._name}": self._ranges}

    @property
    def all_models(self) -> int:
        """The range of all weight vectors; of any, where there is one range for all."""
        return dual.ONE_MODEL

    def ranges(self, group: Group) -> ModelRanges:
        """Return the ranges of the rows of a group, uint16[n_rows]."""
        return np.asarray(self._ranges.read(group.blocks))

    def set_ranges(self, group: Group, ranges: ModelRanges) -> None:
        """Store the ranges of the rows of a group, uint16[n_rows]."""
        self._ranges.write(group.blocks, ranges)

    def forget_ranges(self, n: int) -> None:
        """Take the first n rows of the store out of the working set."""
        self._ranges.all[:n] = 0

    def find_free(self, group: Group) -> None:
        """Mark the rows of a group that have an alpha strictly inside its bounds."""
        rows, alpha = group.rows, self.lines(group)
        ranges = np.zeros(len(rows), np.uint16)
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            some = slice(start, start + _ROWS_AT_ONCE)
            free = inside(self.models, rows.some(some), alpha[some])
            ranges[some] = np.where(free.any(axis=1), self.all_models, 0)
        self.set_ranges(group, ranges)

    def begin(self, goal: float) -> None:
        """Start an outer iteration, which may end at a relative gap of `goal`, as rows tell.

        What P - D may be then follows from the dual values so far: there are none in the first one.

        The weight of a free bias is the multiplier of a constraint, sum s_i alpha_i = 0. Descent is
        on the augmented Lagrangian (Hestenes 1969; Powell 1969; Rockafellar 1976), in which steps
        change the weight as they change a regularised one. What it was when an outer iteration
        began is the multiplier; the next one is that plus the imbalance of alpha at its end, or
        farther in that direction, see `moved`.
        """
        self.aim(goal)
        if self.free_bias:
            move, self._multiplier[:] = self._next_move()
            self.W[-1, : self.width] += move
        self.forget_average()
        self.stats[:], self.entries[:], self.parts[:] = no_stats(), 0.0, 0.0
        self.forget_sample()
        self._reported[:] = self._since[:] = 0.0

    def _next_move(self) -> tuple[Floats, Floats]:
        """Return how far the multipliers move, and what is known of them then."""
        return moved(self.W[-1, : self.width], self.bias * self._imbalance, self._multiplier)

    @property
    def _balancing(self) -> Floats:
        """What the next move of the multipliers takes from the dual values, float64[n_problems].

        The Lagrangian is taken to be a parabola along the move: its slope is the pull, then 0.
        """
        if not self.free_bias:
            return np.zeros(len(self.terms))
        return np.asarray(0.5 * self.bias * self._imbalance * self._next_move()[0])

    @property
    def _imbalance(self) -> Floats:
        """The sums of s_i alpha_i, float64[n_problems]."""
        return np.asarray(self.terms[:, dual.PLUS] - self.terms[:, dual.MINUS])

    @abstractmethod
    def _data(self, rows: RowView) -> Any:
        """Return what the problem must know of rows."""

    @abstractmethod
    def _descend(
        self, step: BlockStep, order: NDArray[np.int64], why: int, number: int = 0
    ) -> None:
        """Work on rows in an order, for the weight vectors in their ranges.

        Why is `FIRST`, `AGAIN` or `PASS`, which has a number in the outer iteration. Except in
        passes, write the new ranges and priorities of the rows.
        """

    @abstractmethod
    def _terms_of(self, data: Any, alpha: Floats) -> Floats:
        """Return what rows contribute to the dual values, float64[n_problems, N_TERMS]."""

    @abstractmethod
    def _certify(self, rows: RowView, data: Any, alpha: Floats, proof: Proof) -> None:
        """Add what rows contribute to certificates."""

    def violations(self) -> Floats:
        """Return what LIBLINEAR's ``-e`` is compared with, float64[n_problems]."""
        regression = SOLVERS[self._options.solver].regression
        own = self.places[: len(self.terms)]
        first = self.first_violation[own]
        added = self.bias**2 * self._imbalance if self.free_bias else None
        found = violations(self.stats[FIRST], regression, first, added, self._n_rows)
        self.first_violation[own] = first
        return found

    def work(
        self, group: Group, outer: int, steps: int, passes: int, cut_short: CutShort,
        counted: NDArray[np.bool_],
    ) -> tuple[ModelRanges, Floats]:  # fmt: skip
        """Work on one group, of `steps`; return the ranges and the priorities of its rows.

        Passes are over the rows of the group, or those of the working set where it holds all rows.
        Of the rows `counted`, bool[n], `terms` have what they add; they will have that of all.
        """
        rows, alpha, ranges = group.rows, self.lines(group), self.ranges(group)
        data = self._data(rows)
        if counted.any():
            known = alpha if counted.all() else np.where(counted[:, None], alpha, 0.0)
            self.terms -= self._terms_of(data, known)
        if outer == 1:  # ranges from a warm start are those of other weight vectors
            ranges[ranges > 0] = self.all_models
        step = BlockStep(
            rows, data, group.blocks, alpha, ranges, np.zeros(len(rows)), outer, steps, passes,
            cut_short,
        )  # fmt: skip
        self._epochs(step)
        self.terms += self._terms_of(data, alpha)
        self.alpha.write_columns(group.blocks, self.places, alpha)
        return ranges, step.priority

    def _epochs(self, step: BlockStep) -> None:
        """Go over the rows of a group, as often as is asked for."""
        for epoch in range(self._options.epochs or MOST_EPOCHS):
            if epoch and step.cut_short():
                break
            order = self._order(step, epoch)
            self._epoch(step, epoch, order)
            if self._ended(step) or self._enough_epochs(step, epoch, order):
                break

    def _ended(self, step: BlockStep) -> bool:
        """Return whether the gap is small enough, as rows tell that are all in memory."""
        return step.steps == 1 and self.reached

    def _order(self, step: BlockStep, epoch: int) -> NDArray[np.int64]:
        return row_order(len(step.rows), self._options.seed, step.outer, epoch, step.blocks)

    def _enough_epochs(self, step: BlockStep, epoch: int, order: NDArray[np.int64]) -> bool:
        """Return whether a block step may end before its last epoch."""
        return False

    def _epoch(self, step: BlockStep, epoch: int, order: NDArray[np.int64]) -> None:
        """Work on rows in an order; pass over the working set in between if one group holds all.

        A row that comes last in a pass violates nothing when it is worked on next. That must not
        hold for all rows: a working set of no more rows than parts waits until the last part.
        """
        points = -(-AVERAGED_POINTS // (step.steps * (self._options.epochs or 1)))
        longest = -(-len(step.rows.indices) * self.width // LONGEST_PART)
        parts, done = min(max(step.passes, points, longest), max(len(order), 1)), 0
        members = np.flatnonzero(step.ranges > 0)  # of bool, in a third of the time
        for number, part in enumerate(np.array_split(order, parts)):
            late = (number > 0 or epoch > 0) and step.cut_short()
            if late and epoch:
                break
            others = part[step.ranges[part] == 0]
            step.ranges[part] = self.all_models
            self._descend(step, part, AGAIN if epoch else FIRST)
            self._count(step.rows.entries(part), len(part), AGAIN if epoch else FIRST)
            members = _merged(members, others, step.ranges)
            due = (number + 1) * step.passes // parts
            if late or (number < parts - 1 and len(members) <= parts):
                due = done
            for again in range(done, due):
                if not len(members):
                    break
                members = self._pass_over_group(step, epoch, again, members)
            done = due
            resident = step.steps == 1 and number < parts - 1
            if resident and self._is_due(n_sampled(len(order))):
                self.sample_gap(one_in_few(step.rows, step.alpha))
                if self.reached:
                    break

    def _pass_over_group(
        self, step: BlockStep, epoch: int, number: int, members: NDArray[np.int64] | None = None
    ) -> NDArray[np.int64]:
        """Pass over the working set of a group that holds all rows; return its rows after that.

        `members` are its rows before, if known.
        """
        members = np.flatnonzero(step.ranges > 0) if members is None else members
        order = members[pass_order(len(members), self._options.seed, step.outer, epoch, number)]
        self._descend(step, order, PASS, number)
        self._count(step.rows.entries(members), len(order), PASS)  # in order they are read faster
        return members[step.ranges[members] > 0]

    def pass_over(
        self, working_set: WorkingSet, outer: int, number: int, first: float, last: float
    ) -> bool:
        """Work on those rows of the working set that have their turn in a part of a pass.

        Return whether the working set is solved: whether it added little enough to the gap.
        """
        seed, before = self._options.seed, self.stats[PASS, :, dual.GAP_TERM].copy()
        which = working_set.in_part(turns(seed, outer, number), self._ranges.all, first, last)
        if not len(which):  # of the others nothing is known
            return False
        which = which[pass_order(len(which), seed, outer, 0, number)]
        for rows, packed in working_set.rows(which):
            at, data = rows.positions, self._data(rows)
            alpha, ranges = self.alpha.at(at, self.places), self._ranges.all[at]
            self.terms -= self._terms_of(data, alpha)
            step = BlockStep(rows, data, (), alpha, ranges, np.empty(0), outer, 0, 0, bool)
            self._pass_unpacking(step, packed, number)
            self._count(int(rows.lengths.sum()), len(rows), PASS)
            self.terms += self._terms_of(data, alpha)
            self._ranges.all[at] = ranges
            self.alpha.table[at[:, None], self.places] = alpha
        added = self.stats[PASS, :, dual.GAP_TERM] - before
        return bool((added <= (last - first) * SOLVED * self.goals).all())

    def _pass_unpacking(self, step: BlockStep, packed: Packed, number: int) -> None:
        """Work on rows of the working set in their order."""
        for run in unpacked(step.rows, packed):
            self._descend(step, run, PASS, number)

    def _count(self, entries: int, n_rows: int, why: int) -> None:
        """Count what was worked on; take a point of the average if enough was since the last."""
        self.entries[why] += entries
        self.parts += 1.0
        self._since[0] += n_rows * (why == FIRST)
        self._points[1] += entries
        if self.averages and self._points[1] >= WORK_A_POINT * len(self.W):
            self._take_point()

    @property
    def ends_early(self) -> bool:
        """Whether samples may tell that an outer iteration need not go on.

        Not if a violation is asked for, which is one of all rows; nor if the bias is free, as no
        row shows the imbalance of alpha.
        """
        return self._options.tolerance is None and not self.free_bias

    def _is_due(self, n: int) -> bool:
        """Return whether a sample of n rows may be asked: enough was done since it was last."""
        done = self.steps - self._since[1]
        due = done >= PAUSE * n * len(self.terms)
        return bool(due and self.ends_early and self.goals.any())

    @property
    def reached(self) -> bool:
        """Whether P - D, as sampled last, has reached its goal, if samples may tell so."""
        return self.ends_early and bool((np.fmin(*self._remaining) <= self.goals).all())

    def forget_sample(self) -> None:
        """Forget what was sampled last, as w has changed."""
        self._remaining[:] = np.nan

    def _take_point(self) -> None:
        self._points += 1.0, -self._points[1]
        add_to_mean(self.W, self._points[0], self.average)

    @property
    def averaged(self) -> bool:
        """Whether so much was done that there is an average of several points of `W`."""
        return bool(self._points[0] > 1.0)

    @property
    def _better(self) -> NDArray[np.bool_]:
        """Of which problems the average is better than `W`, as sampled last."""
        return np.asarray(self._remaining[1] < self._remaining[0])

    def forget_average(self) -> None:
        """Let `W` stand for its average."""
        self._points[:] = 0.0

    def lines(self, group: Group) -> Floats:
        """Return a copy of the alpha of a group, float64[n_rows, width]."""
        return self.alpha.read_columns(group.blocks, self.places)

    def look(
        self, sample: Sample, working_set: WorkingSet, unseen: int, goal: float | None, last: bool
    ) -> None:
        """Estimate P - D from a sample, if enough was done since the one before, or if `last`.

        The sample is of all rows but those `unseen`, see `sample_gap`. In the first outer iteration
        after a warm start a `goal` is given, which is relative to the dual value as far as known.
        """
        self.forget_sample()
        if goal is not None:
            self.aim(goal)
        if last or self._is_due(sample.size):
            strata = sample.strata(working_set, self._ranges.all, self._n_rows - unseen)
            self.sample_gap(strata, unseen, whole=last)

    def sample_gap(self, strata: Sequence[Stratum], unseen: int = 0, whole: bool = False) -> None:
        """Estimate from samples of rows what all contribute to P - D.

        Unless the `whole` sample is to be used, it is given up as soon as a part of it shows that
        P - D is above its goal. Rows `unseen`, which are not sampled, are taken to add what those
        added that were worked on for the first time since the sample before.
        """
        self.forget_sample()
        gap_terms = self.stats[FIRST, :, dual.GAP_TERM]
        others = unseen * (gap_terms - self._reported) / max(float(self._since[0]), 1.0)
        self._reported[:], self._since[:] = gap_terms, (0.0, self.steps)
        found = self._left(strata, np.inf if whole else self.goals - others) if strata else None
        if found is not None:
            self._remaining[: len(found)] = found + others

    def _left(self, strata: Sequence[Stratum], enough: Floats | float) -> Floats | None:
        """Return P - D of the candidates, float64[k, n_problems], as some rows tell.

        None if it is more than `enough` for one of the problems, see `total`.
        """
        proof = self.proof(recompute=False)
        sums = proof.sums[: len(proof.candidates), losses.GAP_TERM_BOUND]

        def parts() -> Iterator[tuple[int, int, Floats]]:
            for k, rows, alpha in alternately(strata):
                proof.sums[:] = 0.0
                self._certify(rows, self._data(rows), self._alpha_of(rows, alpha), proof)
                yield k, len(rows), sums.copy()

        found = total([of.n for of in strata], parts(), enough)
        if found is None:
            return None
        sums[:], proof.n = found, 1
        return proof.remaining(1)

    def _alpha_of(self, rows: RowView, alpha: Floats | None) -> Floats:
        """Return alpha of rows, float64[n, width]: those given, or else those stored."""
        return self.alpha.at(rows.positions, self.places) if alpha is None else alpha

    def proof(self, recompute: bool = True, memory: Floats | None = None) -> Proof:
        """Return certificates to be, before any row was added.

        Each problem has the candidate that is better in the last sample; both where there was none.
        Where problems share a pass, W is copied to the average of those for which W is better. If
        the average is no candidate it is forgotten, and W is recomputed in its memory, as new pages
        take longer; or in other `memory`, zeros of the shape of W.
        """
        candidates = [self.W]
        if self.averaged:
            if not recompute or np.isnan(self._remaining[1]).any():
                candidates = [self.W, self.average]
            elif self._better.any():
                own = np.flatnonzero(~self._better)
                if len(own):
                    copy_columns(self.W, own, self.average, own)
                candidates = [self.average]
        recomputed = None if recompute else self.W[:0]
        if recompute and candidates[-1] is self.W:
            self.forget_average()
            recomputed = memory
            if recomputed is None:
                recomputed = self.average
                recomputed[:] = 0.0
        sides = None
        if self.free_bias:
            sides = balance(self.terms[:, dual.PLUS], self.terms[:, dual.MINUS])
        return Proof(self.W, candidates, len(self.terms), recomputed, sides)

    def certify_group(self, group: Group, proof: Proof, every: int = 1) -> None:
        """Add what a group contributes to certificates, or one row in so many of it."""
        rows, alpha = group.rows, self.lines(group)
        if every > 1:
            some = np.arange(0, len(rows), every)
            rows, alpha = rows.some(some), alpha[some]
        self._certify(rows, self._data(rows), alpha, proof)
        proof.n += len(rows)

    def dual_terms(self, rows: RowView, alpha: Floats) -> Floats:
        """Return what rows with alpha, float64[n, width], add to `terms`; of the same shape."""
        return self._terms_of(self._data(rows), alpha)

    def certificates(self, proof: Proof) -> list[Certificate]:
        """Return the certificate of each problem, once all groups were added."""
        found = proof.certificates()
        if proof.candidates[0] is self.W:
            return found
        better = self._better.tolist()  # see `proof`
        return [replace(c, average=own) for c, own in zip(found, better, strict=True)]

    def candidate(self, certificate: Certificate) -> Floats:
        """Return the weights that a certificate of one problem is about."""
        return self.average if certificate.average else self.W

    @property
    def duals(self) -> Floats:
        """The dual values, as far as `known`, float64[n_problems].

        Of the Lagrangian where the bias is free.
        """
        squares = column_norms(self.W[:-1] if self.free_bias else self.W)
        norms = of_problems(squares, len(self.terms))
        values = np.asarray(self.terms[:, dual.DUAL] / self.known - 0.5 * norms)
        if self.free_bias:
            values -= self.bias * self.W[-1, : self.width] * self._imbalance + self._balancing
        return values

    @property
    def gain(self) -> Floats:
        """What the work of an outer iteration added to the dual values, float64[n_problems]."""
        return np.asarray(self.stats[:, :, dual.GAIN].sum(axis=0))

    @property
    def n_sv(self) -> int:
        """Rows with an alpha that is not 0, as far as `known`, summed over problems."""
        return round(float(self.terms[:, dual.N_SUPPORT].sum()) / self.known)

    @property
    def steps(self) -> int:
        """Rows worked on, for each problem."""
        return int(self.stats[:, :, dual.STEPS].sum())

    def primal(self, duals: Floats) -> Floats:
        """Return estimates of the primal values, float64[n_problems].

        They are those of the last sample; without one, sums over rows as they were when first
        worked on, which are larger than at the end of the outer iteration.
        """
        first = self.stats[FIRST, :, dual.GAP_TERM]
        left = np.where(np.isnan(self._remaining[0]), first, np.fmin(*self._remaining))
        return duals + left + self._balancing

    def relative_gaps(self, dual: Floats, left: Floats) -> Floats:
        """Return the relative gaps that estimates of D and P - D make, float64[n_problems] all."""
        return relative_gaps(dual, left)

    def count(self, group: Group, left: NDArray[np.bool_]) -> None:
        """Add to `terms` the rows of a group that are `left`, bool[n]."""
        alpha = np.where(left[:, None], self.lines(group), 0.0)
        self.terms += self.dual_terms(group.rows, alpha)

    def aim_with(self, group: Group, goal: float) -> None:
        """Set the goals of P - D by the dual values that alpha have, of a group of all rows."""
        self.terms += self.dual_terms(group.rows, self.lines(group))
        self.aim(goal)
        self.terms[:] = 0.0  # no row was counted yet, see `work`

    def aim(self, goal: float) -> None:
        """Set the goals of P - D by a relative gap and the dual values."""
        self.goals[:] = goal * np.maximum(self.duals, 0.0)

    def discard(self) -> None:
        """Delete the scratch files."""
        for array in (self.alpha, *self.row_arrays.values()):
            array.discard()


def _merged(
    members: NDArray[np.int64], others: NDArray[np.int64], ranges: ModelRanges
) -> NDArray[np.int64]:
    """Return those of some sorted rows, and of others, that have a range; sorted, too."""
    found = np.concatenate((members[ranges[members] > 0], np.sort(others[ranges[others] > 0])))
    found.sort(kind="stable")  # merges the two
    return found
