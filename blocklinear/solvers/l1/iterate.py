"""One L1-regularised model on its way: which features it works on, and what a pass proves.

The dual point of a certificate has to be feasible: |sum_i s_i alpha_i x_ij| <= 1 for every feature
j. What of that is violated is scaled away. With a ridge every point is feasible.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from blocklinear.kernels import l1 as kernels
from blocklinear.kernels.losses import N_SUMS, UNIT
from blocklinear.kernels.sums import dot
from blocklinear.objectives.certificate import Certificate, balance, bound, norms_above
from blocklinear.solvers.certified import Iterate
from blocklinear.solvers.l1.columns import ColumnCache
from blocklinear.solvers.l1.descent import DIFFERENCE, ROUGH, Descent, Rows
from blocklinear.solvers.l1.penalty import CHUNK, Penalty, violations
from blocklinear.solvers.protocol import CutShort

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
_GROWTH = 2  # the working set has so many times the features in use (Massias et al. 2018)
_LAST_GAIN = 0.1  # steps go on while one gains so much of the first gain, or of the gap asked for
_LITTLE = 1e-3  # of P: what steps gain that get nowhere
_FAR = 2.0  # the largest |v_j| over p_j where they are
_RISE, _LEAST_RISE = 10.0, 1.5  # of C; at first, and once it was too much several times
_MOST_STAGES = 30
"""After these C only rises. Of 48 runs with 60 rows of 100 integers, C = 1e2 to 1e8, to gaps of
1e-3 and 9e-6, 46 end within 20 outer iterations, and all within 34; else, with C = 1e6, none of 12
did within 100."""


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
    idle : int                how many times in a row nothing moved
    misled : bool             whether columns that are rounded lead to no smaller gap
    starved : bool            whether nothing moved twice in a row, and columns were missing: the
                              pass in between did not bring them, as others took all the room
    """

    saved = (
        *Iterate.saved, "_least_optimum", "_orders", "idle", "_forcing", "work", "_spent",
        "_continued",
    )  # fmt: skip

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
        self._least_optimum, self._orders, self.idle, self._forcing = 0.0, 0, 0, ROUGH
        self.starved = self.misled = False
        self.work = self._spent = self._continued = 0

    def go_on(self) -> None:
        """Go on where rounding ended it, as columns are more precise from now on."""
        self.final, self.idle = False, 0

    def _balance(self) -> None:
        """Make sum_i s_i alpha_i vanish, as a free bias asks, by less of the heavier side."""
        if not self._penalty.free_bias:
            return
        positive = self.step > 0.0
        sums = math.fsum(self.step[positive]), -math.fsum(self.step[~positive])
        by_plus, by_minus = balance(np.array(sums[:1]), np.array(sums[1:]))[:, 0]
        self.step *= np.where(positive, by_plus, by_minus)

    def evaluated(self, rows: Rows) -> None:
        """Certify the weights, once a pass over all rows has added `pull` and `decision` up."""
        used = self.step != 0.0
        self.n_sv = int(np.count_nonzero(used))
        reach = float(dot(np.abs(self.step), rows.size))
        wrong = 1.01 * UNIT * (self.n_sv + 8.0) * reach
        found = self._proof(rows, self._scale(wrong), wrong)
        self._least_optimum = max(self._least_optimum, found.least_optimum)
        self.certificate = found.against(self._least_optimum)
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

    def _scale(self, wrong: float) -> float:
        """Return how much of the dual point is feasible: with a ridge, and balanced, all of it."""
        penalty, free = self._penalty, self._penalty.free_bias
        pulls = self.pull[:-1] if free else self.pull
        if free and abs(math.fsum(self.step)) > 8.0 * UNIT * np.abs(self.step).sum():
            return 0.0  # not balanced: nothing but alpha = 0 is known to be feasible
        most = max(float(pulls.max(initial=0.0)), -float(pulls.min(initial=0.0))) + wrong
        if penalty.ridge or most <= penalty.l1:
            return 1.0
        return (1.0 - 8.0 * UNIT) * penalty.l1 / most

    def needed(self, counts: NDArray[np.int32]) -> Integers:
        """Return the features in use, and those that violate optimality, in their order."""
        penalty = self._penalty
        needed = (self.w != 0.0) | (self.pull > penalty.l1) | (self.pull < -penalty.l1)
        needed[-1] |= penalty.free_bias
        return np.flatnonzero(needed & (counts > 0))

    def _wrong(self, features: Integers) -> Floats:
        """Return by how much features violate optimality."""
        ridge, wrong = self._penalty.ridge, np.empty(len(features))
        for at in range(0, len(features), CHUNK):
            some = features[at : at + CHUNK]
            v = self.pull[some] - ridge * self.w[some]
            wrong[at : at + CHUNK] = violations(self.w[some], v, self._penalty.l1)
        return wrong

    def wanted(self, counts: NDArray[np.int32]) -> Integers:
        """Return the features to work on: those in use and those that violate optimality, first.

        They come in the order of their violations, a free bias first, without which all others
        wait; then so many more, with the largest pulls, that there are twice as many as are in use.
        `counts` has the entries of each.
        """
        found = self.needed(counts)
        wrong = self._wrong(found)
        if self._penalty.free_bias:  # it is balanced after each step, and so violates nothing
            wrong[found == len(self.w) - 1] = np.inf
        order = np.argsort(np.negative(wrong, out=wrong), kind="stable")
        del wrong  # of many features
        found = found[order]
        del order
        with np.errstate(over="ignore"):  # what float32 cannot hold is infinite, and first
            others = self.pull.astype(np.float32)
        np.abs(others, out=others)
        others[counts == 0] = others[found] = 0.0
        more = _GROWTH * int(np.count_nonzero(self.w)) - len(found)
        more = min(more, int(np.count_nonzero(others)))
        if more <= 0:
            return found
        least = np.partition(others, -more)[-more]
        largest = np.flatnonzero(others >= least)
        largest = largest[np.argsort(-others[largest], kind="stable")]
        return np.concatenate([found, largest[:more]])

    def _at_rounding(self, descent: Descent) -> bool:
        """Return whether the gap is no more than what columns are wrong about the dual point.

        What a feature exceeds its limit by is taken off the dual value, as a share of it. So this
        much of the gap is left by chance, if it is more than is asked for.
        """
        wrong, proof = descent.mistaken(self.step, self.pull), self.certificate
        return wrong > self._goal and proof is not None and proof.gap <= wrong

    def _steps(self, descent: Descent, missing: bool, cut_short: CutShort) -> float:
        """Take Newton steps until one gains little; return how much.

        Once they have taken as long as the interior point method would, that goes on from there.
        With a ridge, they go on until alpha cost little of the dual value, unless columns are
        `missing`.
        """
        value, gains = descent.value, []
        while True:
            if self._spent + descent.spent >= descent.work_inside:
                descent.go_inside()
                self._spent = -descent.spent
                if descent.solved:
                    return 0.0
            gain = descent.newton_step()
            gains.append(gain)
            small = gain <= _LAST_GAIN * max(gains[0], self._goal * value)
            hidden = gain <= DIFFERENCE * value
            if small and (missing or hidden or descent.lost <= 0.5 * self._goal * value):
                return gain
            if cut_short():
                return gain

    def _beyond_the_model(
        self, descent: Descent, steps: Callable[[], float], gain: float, cut_short: CutShort
    ) -> float:
        """Go on where quadratic models lead nowhere; return what the last step gained.

        Through smaller costs as long as these have not taken more than all else, or if there is
        nothing else; then on the primal itself.
        """
        before = descent.spent
        if self.idle or 2 * self._continued <= self._spent + before:
            gain = through_smaller_costs(descent, steps, gain, cut_short)
            self._continued += descent.spent - before
        if descent.shortened:
            gain = max(gain, descent.descend_on_primal())
        return gain

    def improve(
        self, rows: Rows, columns: ColumnCache, features: Integers, cut_short: CutShort
    ) -> None:
        """Take Newton steps on features whose columns are in memory, and pull alpha after them.

        Alpha are pulled where no feature that violated optimality is without its column.
        `cut_short` is asked between parts of passes over the columns.
        """
        descent = Descent(
            rows, columns, features, self.w, self.decision, self._penalty, self._goal,
            self._forcing, self._key, self._orders, cut_short,
        )  # fmt: skip
        needed = self.needed(columns.counts)
        missing = len(needed) > len(features) or not columns.complete(needed).all()
        del needed
        self.misled = columns.rounded and self._at_rounding(descent)
        value = descent.value

        def steps() -> float:
            return self._steps(descent, missing, cut_short)

        gain = steps()
        if descent.work_inside == math.inf:
            gain = self._beyond_the_model(descent, steps, gain, cut_short)
        self.w[descent.features] = descent.w
        self.work += descent.work
        self._spent += descent.spent
        pulls = self._goal and not missing and gain <= self._goal * descent.value
        self.step[:] = descent.pulled(self.work) if pulls else descent.step
        self._orders, self._forcing, self.new = descent.orders, descent.forcing, True
        if value - descent.value > 4.0 * UNIT * value:
            self.idle = 0
        elif not cut_short():
            self.idle += 1
        self.final = self.idle > 2 and not missing
        self.starved = self.idle > 1 and missing
        self._balance()


def through_smaller_costs(
    descent: Descent, steps: Callable[[], float], gain: float, cut_short: CutShort
) -> float:
    """Take steps at smaller costs if those so far got nowhere, and go back if P is larger then.

    Where a plane separates the rows and C is large, few rows have a loss. The quadratic model knows
    no others, so each step ends at the margin of one more row and gains next to nothing, while
    alpha violate what makes them feasible many times over. With a smaller C more rows have a loss,
    and steps are long. So C falls until alpha are nearly feasible where steps come to, and rises
    from there: each optimum is close to the one before (continuation: Hale, Yin and Zhang, SIAM
    Journal on Optimization 2008).

    Parameters
    ----------
    steps : callable          takes Newton steps, and returns what the last one gained
    gain : float              by the last one so far

    Returns
    -------
    float
        What the last step gained.
    """
    if not _gets_nowhere(descent, gain) or cut_short():
        return gain
    before, gain_before = descent.place, gain
    share, rise, stage, risen = 1.0, _RISE, 0, False
    while not cut_short():
        if stage < _MOST_STAGES and _gets_nowhere(descent, gain):
            share /= descent.top
            rise = max(rise**0.5, _LEAST_RISE) if risen else rise
        elif share < 1.0:
            share, risen = min(rise * share, 1.0), True
        else:
            break
        descent.take_cost(share)
        gain, stage = steps(), stage + 1
    if share < 1.0:
        descent.take_cost(1.0)
    if descent.value > before.value:
        descent.go_to(before)
        return gain_before
    return gain


def _gets_nowhere(descent: Descent, gain: float) -> bool:
    return gain <= _LITTLE * descent.value and descent.top > _FAR
