"""One L1-regularised model on its way: which features it works on, and what a pass proves.

The dual point of a certificate has to be feasible: |sum_i s_i alpha_i x_ij| <= 1 for every feature
j. What of that is violated is scaled away. With a ridge every point is feasible; where scaling
raises the dual value, as far from the optimum, the point is scaled, too.
"""

import math
from collections.abc import Callable
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from blocklinear.kernels import l1 as kernels
from blocklinear.kernels.losses import N_SUMS, UNIT
from blocklinear.kernels.sums import dot
from blocklinear.objectives.certificate import Certificate, bound, norms_above
from blocklinear.solvers.certified import Iterate
from blocklinear.solvers.l1.columns import ColumnCache
from blocklinear.solvers.l1.descent import DIFFERENCE, ROUGH, Descent, Rows
from blocklinear.solvers.l1.penalty import Penalty, in_chunks, violations

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
_GROWTH = 2  # the working set has so many times the features in use (Massias et al. 2018)
_LAST_GAIN = (
    0.1  # steps go on while one gains so much of what the first did, or of the gap asked for
)


class L1Iterate(Iterate):
    """Weights, a dual point, and what to work on next.

    Parameters
    ----------
    w, pull : float64[n_features + 1]   zeros, kept by the caller: the weights, and
                              sum_i s_i alpha_i x_i as of the last pass
    step : float64[n_rows]    zeros: s_i alpha_i of the dual point
    decision : float64[n_rows]          zeros: w'x_i
    goal : float              the gap that is asked for; 0 where dual points are not to be improved
    key : int                 of random orders

    Attributes
    ----------
    violation, first_violation : float  sums over all features
    work : int                entries processed for steps so far
    """

    kept = (*Iterate.kept, "_dual", "_orders", "_idle", "_forcing", "work", "_fall")

    def __init__(
        self,
        w: Floats,
        pull: Floats,
        step: Floats,
        decision: Floats,
        penalty: Penalty,
        goal: float,
        key: int,
    ) -> None:
        super().__init__()
        self.w, self.pull, self.step, self.decision = w, pull, step, decision
        self._penalty, self._goal, self._key = penalty, goal, key
        self._dual, self._orders, self._idle, self._forcing = -math.inf, 0, 0, ROUGH
        self.work = 0
        self._fall = 0.0  # of P in the last steps, relative to it

    def _balance(self) -> None:
        """Make sum_i s_i alpha_i vanish, as a free bias asks, by less of the heavier side."""
        if not self._penalty.free_bias:
            return
        of_plus = math.fsum(self.step[self.step > 0.0])
        of_minus = -math.fsum(self.step[self.step < 0.0])
        least = min(of_plus, of_minus)
        if of_plus > least:
            self.step[self.step > 0.0] *= least / of_plus
        elif of_minus > least:
            self.step[self.step < 0.0] *= least / of_minus

    def evaluated(self, rows: Rows) -> None:
        """Certify the weights, once a pass over all rows has added `pull` and `decision` up."""
        used = self.step != 0.0
        self.n_sv = int(np.count_nonzero(used))
        reach = float(dot(np.abs(self.step), rows.size))
        wrong = 1.01 * UNIT * (self.n_sv + 8.0) * reach
        found = max(
            (self._proof(rows, scale, wrong) for scale in self._scales(wrong)),
            key=attrgetter("dual"),
        )
        self._dual = max(self._dual, found.dual)
        self.certificate = self._improved(found)
        self.violation = self._penalty.violation(self.w, self.pull)
        self.first_violation = self.first_violation or self.violation

    def _proof(self, rows: Rows, scale: float, wrong: float) -> Certificate:
        """Return what so much of the dual point proves, each `pull` being wrong by so much."""
        sums, norm = np.zeros(N_SUMS), float(norms_above(dot(self.w, self.w)))
        kernels.certify_rows(
            *rows.loss, self.decision, self.step, scale, rows.size, rows.length, norm, sums
        )
        penalty = self._penalty
        left = kernels.certify_weights(
            self.w, self.pull, penalty.l1, penalty.ridge, penalty.free_bias, scale, wrong
        )
        return bound(penalty.of(self.w), sums, left, len(rows.target))

    def _improved(self, found: Certificate) -> Certificate:
        """Return the certificate with the best dual value seen; D(0) = 0, too, is one."""
        dual = max(self._dual, 0.0) - DIFFERENCE * found.primal
        if not dual > found.dual or not math.isfinite(found.primal):
            return found
        gap = (found.primal - dual) / found.primal * (1.0 + 1e-9)
        return Certificate(found.primal, dual, min(gap, found.gap), 0.0, False)

    def _scales(self, wrong: float) -> tuple[float, ...]:
        """Return what may make a good dual point of this one; without a ridge, what is feasible."""
        penalty, free = self._penalty, self._penalty.free_bias
        pulls = self.pull[:-1] if free else self.pull
        if free and abs(math.fsum(self.step)) > 8.0 * UNIT * np.abs(self.step).sum():
            return (0.0,)  # not balanced: nothing but alpha = 0 is known to be feasible
        most = max(float(pulls.max(initial=0.0)), -float(pulls.min(initial=0.0))) + wrong
        if most <= penalty.l1:
            return (1.0,)
        within = (1.0 - 8.0 * UNIT) * penalty.l1 / most
        return (within, 1.0) if penalty.ridge else (within,)

    def needed(self, counts: NDArray[np.int32]) -> Integers:
        """Return the features in use, and those that violate optimality, in their order."""
        penalty = self._penalty
        needed = (self.w != 0.0) | (self.pull > penalty.l1) | (self.pull < -penalty.l1)
        needed[-1] |= penalty.free_bias
        return np.flatnonzero(needed & (counts > 0))

    def _wrong(self, features: Integers) -> Floats:
        """Return by how much features violate optimality."""
        w, ridge = self.w[features], self._penalty.ridge
        return violations(w, self.pull[features] - ridge * w, self._penalty.l1)

    def ready(self, wanted: Integers, columns: ColumnCache) -> bool:
        """Return whether features whose columns are there violate optimality most, in sum."""
        there, wrong = columns.complete(wanted), self._wrong(wanted)
        return bool(wrong[there].sum() >= wrong[~there].sum())

    def wanted(self, counts: NDArray[np.int32], in_turn: bool = True) -> tuple[Integers, Integers]:
        """Return the features to work on, and as many that may be wanted next.

        The first are those in use and those that violate optimality; and so many more, with the
        largest pulls, that there are twice as many as are in use.

        Parameters
        ----------
        counts : int32[n_features + 1]      entries of each
        in_turn : bool
            Whether those that violate optimality most are to be first.
        """
        found = self.needed(counts)
        if in_turn:
            found = found[np.argsort(-self._wrong(found), kind="stable")]
        size = max(_GROWTH * int(np.count_nonzero(self.w)), len(found))
        more = size - len(found)
        largest = self._next(found, more + (_GROWTH - 1) * size, counts)
        return np.concatenate([found, largest[:more]]), largest[more:]

    def _next(self, found: Integers, more: int, counts: NDArray[np.int32]) -> Integers:
        """Return so many features with the largest pulls, but those found; the largest first.

        Which ones they are is decided by the leading 16 bits of float32, so to 1 in 256: to sort
        the pulls would take several copies of all.
        """
        ranks, bins = np.zeros(len(self.pull), np.uint16), np.zeros(1 << 16, np.int64)
        for at, pull in in_chunks(self.pull):
            some = slice(at, at + len(pull))
            ranks[some] = np.where(counts[some] > 0, _ranks(pull), 0)
        ranks[found] = 0
        for _, part in in_chunks(ranks):
            bins += np.bincount(part, minlength=len(bins))
        bins[0] = 0
        at_least = np.cumsum(bins[::-1])[::-1]
        more = min(more, int(at_least[0]))
        if more <= 0:
            return np.zeros(0, np.int64)
        limit = int(np.flatnonzero(at_least >= more)[-1])
        last = more - int(at_least[limit] - bins[limit])  # of those at the limit, the first ones
        at_limit = np.flatnonzero(ranks == limit)[:last]
        chosen = np.sort(np.concatenate([np.flatnonzero(ranks > limit), at_limit]))
        return chosen[np.argsort(-np.abs(self.pull[chosen]), kind="stable")]

    def improved(
        self,
        rows: Rows,
        columns: ColumnCache,
        features: Integers,
        halt: Callable[[], None],
    ) -> Callable[[], None]:
        """Take Newton steps on features whose columns are in memory, and pull alpha after them.

        Alpha are pulled where no other feature is expected to be worth a further step: the columns
        of all are there; or of those that violated optimality, and P is about to fall by less than
        the gap asked for, as it does if each outer iteration brings the same share of the last.

        Parameters
        ----------
        features : int64[m]
        halt : callable
            Called between passes over the columns, to raise what ends it.

        Returns
        -------
        callable
            Takes over what was reached; before, nothing has changed.
        """
        descent = Descent(
            rows, columns, features, self.w, self.decision.copy(), self._penalty, self._goal,
            self._forcing, self._key, self._orders, halt,
        )  # fmt: skip
        missing = not columns.complete(self.needed(columns.counts)).all()
        value, gains = descent.value, []
        while True:
            gain = descent.newton_step()
            gains.append(gain)
            small = gain <= _LAST_GAIN * max(gains[0], self._goal * value)
            hidden = gain <= DIFFERENCE * value
            if small and (missing or hidden or descent.lost <= 0.5 * self._goal * value):
                break
        fall = (value - descent.value) / value
        stable = columns.whole or (not missing and fall**2 <= self._goal * self._fall)
        work = self.work + descent.work
        moved = descent.step
        if self._goal and stable and gain <= self._goal * descent.value:
            moved = descent.pulled(work)
        descent.close()

        def adopt() -> None:
            gained = value - descent.value
            self._idle = self._idle + 1 if gained <= 4.0 * UNIT * value else 0
            self.final = self._idle > 2
            self.w[descent.features], self.decision[:] = descent.w, descent.decision
            self.step[:], self._orders, self.new = moved, descent.orders, True
            self._forcing = descent.forcing
            self.work, self._fall = work, fall
            self._balance()

        return adopt


def _ranks(pull: Floats) -> NDArray[np.uint32]:
    """Return the leading 16 bits of |pull| as float32, which are in the order of these."""
    with np.errstate(over="ignore"):  # what float32 cannot hold is infinite, and first
        return np.abs(pull).astype(np.float32).view(np.uint32) >> np.uint32(15)
