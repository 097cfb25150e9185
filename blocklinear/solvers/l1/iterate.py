"""One L1-regularised model on its way: descent on columns, and what a pass over rows proves.

The dual point of a certificate has to be feasible: |sum_i s_i alpha_i x_ij| <= 1 for every feature
j. The alpha of the primal violate that by as much as the weights are off, and to scale them down by
the worst of all features costs far more of the dual value than the primal is off. So first they are
pulled to what is feasible, along the features that violate it most: coordinate descent, again, on

    min_u  |u|_1 - v'u + 1/2 sum_i h_i (x_i'u)**2,     alpha_i - s_i h_i x_i'u

the second of which is the point; what is still violated is then scaled away.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklinear.kernels import l1 as kernels
from blocklinear.kernels.losses import N_SUMS, UNIT
from blocklinear.kernels.orders import permutation
from blocklinear.kernels.sums import dot
from blocklinear.objectives.certificate import Certificate, bound, norms_above
from blocklinear.solvers.l1.columns import ColumnCache

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
_GROWTH = 2  # the working set has so many times the features in use (Massias et al. 2018)
_FORCING = 0.1  # a step, or a pulled alpha, is good enough once so much is left of what is wrong
_LAST_GAIN = 0.03  # passes over the columns go on while one gains so much of what all did
_MOST_PASSES = 30
_SUFFICIENT, _LEAST_STEP = 0.01, 1e-6  # of the line search
_DIFFERENCE = 1e-12  # of P, what rounding may do to a difference of two values


@dataclass(frozen=True)
class Rows:
    """What a model needs of all rows of the store.

    Attributes
    ----------
    kind : int                the loss, as kernels number it
    epsilon : float
    target, cost : float64[n_rows]      t_i and C_i
    size : float64[n_rows]    |x_i|, the bias feature included
    length : int32[n_rows]    entries
    """

    kind: int
    epsilon: float
    target: Floats
    cost: Floats
    size: Floats
    length: NDArray[np.int32]

    @property
    def loss(self) -> tuple[int, float, Floats, Floats]:
        """What kernels need for values of the loss."""
        return self.kind, self.epsilon, self.target, self.cost


class L1Iterate:
    """Weights, a dual point, and what to work on next.

    Parameters
    ----------
    w, pull : float64[n_features + 1]   zeros, kept by the caller: the weights, and
                              sum_i s_i alpha_i x_i as of the last pass
    step : float64[n_rows]    zeros: s_i alpha_i of the dual point
    decision : float64[n_rows]          zeros: w'x_i
    free_bias : bool          whether the weight of the bias is not regularised
    goal : float              the gap that is asked for; 0 where dual points are not to be improved
    key : int                 of random orders

    Attributes
    ----------
    certificate : Certificate or None   of `w`
    n_sv : int                rows with an alpha that is not 0
    violation, first_violation : float  sum over all features, now and at first
    new, final : bool         whether the last pass saw other weights; whether rounding ends it
    """

    def __init__(
        self,
        w: Floats,
        pull: Floats,
        step: Floats,
        decision: Floats,
        free_bias: bool,
        goal: float,
        key: int,
    ) -> None:
        self.w, self.pull, self.step, self.decision = w, pull, step, decision
        self._free_bias, self._goal, self._key = free_bias, goal, key
        self.certificate: Certificate | None = None
        self.n_sv, self.violation, self.first_violation = 0, 0.0, 0.0
        self.new, self.final = False, False
        self._dual, self._orders, self._idle = -math.inf, 0, 0

    @property
    def state(self) -> dict[str, Any]:
        """All but arrays, as JSON."""
        return {
            "certificate": self.certificate and self.certificate.to_dict(), "n_sv": self.n_sv,
            "violation": self.violation, "first": self.first_violation, "new": self.new,
            "final": self.final, "dual": self._dual if self.certificate else None,
            "orders": self._orders, "idle": self._idle,
        }  # fmt: skip

    @state.setter
    def state(self, state: dict[str, Any]) -> None:
        self.certificate = state["certificate"] and Certificate(**state["certificate"])
        self.n_sv, self.new, self.final = state["n_sv"], state["new"], state["final"]
        self.violation, self.first_violation = state["violation"], state["first"]
        self._dual = -math.inf if state["dual"] is None else state["dual"]
        self._orders, self._idle = state["orders"], state["idle"]

    def _balance(self) -> None:
        """Make sum_i s_i alpha_i vanish, as a free bias asks, by less of the heavier side."""
        if not self._free_bias:
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
        scale = self._scale(wrong)
        sums, norm = np.zeros(N_SUMS), float(norms_above(dot(self.w, self.w)))
        kernels.certify_rows(
            *rows.loss, self.decision, self.step, scale, rows.size, rows.length, norm, sums
        )
        penalty = 0.0 if self._free_bias else 1.0
        left = kernels.certify_weights(self.w, self.pull, penalty, scale, wrong)
        size = float(np.abs(self.w[:-1]).sum()) + penalty * float(abs(self.w[-1]))
        found = bound(size, sums, left, len(rows.target))
        self._dual = max(self._dual, found.dual)
        self.certificate = self._improved(found)
        self.violation = self._violations()
        self.first_violation = self.first_violation or self.violation

    def _improved(self, found: Certificate) -> Certificate:
        """Return the certificate with the best dual value seen; D(0) = 0, too, is one."""
        dual = max(self._dual, 0.0) - _DIFFERENCE * found.primal
        if not dual > found.dual or not math.isfinite(found.primal):
            return found
        gap = (found.primal - dual) / found.primal * (1.0 + 1e-9)
        return Certificate(found.primal, dual, min(gap, found.gap), 0.0, False)

    def _scale(self, wrong: float) -> float:
        """Return what makes the dual point feasible, each `pull` being wrong by at most so much."""
        pulls = self.pull[:-1] if self._free_bias else self.pull
        if self._free_bias and abs(math.fsum(self.step)) > 8.0 * UNIT * np.abs(self.step).sum():
            return 0.0  # not balanced: nothing but alpha = 0 is known to be feasible
        most = max(float(pulls.max(initial=0.0)), -float(pulls.min(initial=0.0))) + wrong
        return (1.0 - 8.0 * UNIT) / most if most > 1.0 else 1.0

    def _violations(self) -> float:
        """Return the sum of violations of the optimality conditions over all features."""
        total = 0.0
        for at in range(0, len(self.w), _CHUNK):
            w, v = self.w[at : at + _CHUNK], self.pull[at : at + _CHUNK]
            total += float(violations(w, v).sum())
        if self._free_bias:
            total += abs(self.pull[-1]) - float(violations(self.w[-1:], self.pull[-1:])[0])
        return total

    def wanted(self, counts: NDArray[np.int32]) -> Integers:
        """Return the features to work on, those that violate optimality most first.

        They are those in use and those that violate it; and so many more, with the largest pulls,
        that there are twice as many as are in use.
        """
        in_use = np.flatnonzero(self.w)
        worst = np.flatnonzero(np.abs(self.pull) >= 1.0)
        needed = np.union1d(in_use, worst)
        if self._free_bias:
            needed = np.union1d(needed, [len(self.w) - 1])
        needed = needed[counts[needed] > 0]
        found = needed[np.argsort(-violations(self.w[needed], self.pull[needed]), kind="stable")]
        more = _GROWTH * len(in_use) - len(found)
        return np.concatenate([found, self._next(found, more, counts)]) if more > 0 else found

    def ahead(self, wanted: Integers, counts: NDArray[np.int32]) -> Integers:
        """Return as many features as are wanted that may be wanted next."""
        return self._next(wanted, (_GROWTH - 1) * len(wanted), counts)

    def _next(self, found: Integers, more: int, counts: NDArray[np.int32]) -> Integers:
        sizes = np.abs(self.pull).astype(np.float32)
        sizes[found] = -1.0
        sizes[counts == 0] = -1.0
        more = min(more, int(np.count_nonzero(sizes > 0.0)))
        if more == 0:
            return np.zeros(0, np.int64)
        limit = np.partition(sizes, len(sizes) - more)[len(sizes) - more]
        candidates = np.flatnonzero(sizes >= limit)
        return candidates[np.argsort(-sizes[candidates], kind="stable")][:more]

    def improved(
        self, rows: Rows, columns: ColumnCache, features: Integers, halt: Callable[[], None]
    ) -> Callable[[], None]:
        """Take Newton steps on features whose columns are in memory, and pull alpha after them.

        Parameters
        ----------
        rows : Rows
        columns : ColumnCache
        features : int64[m]
        halt : callable
            Called between passes over the columns, to raise what ends it.

        Returns
        -------
        callable
            Takes over what was reached; before, nothing has changed.
        """
        descent = _Descent(self, rows, columns, features, halt)
        value, gains = descent.value, []
        while True:
            gain = descent.newton_step()
            gains.append(gain)
            if gain <= max(_FORCING * gains[0], _FORCING * self._goal * value):
                break
        descent.expand()
        good = gains[-1] <= self._goal * descent.value
        moved = descent.pulled() if self._goal and good else descent.step

        def adopt() -> None:
            gained = value - descent.value
            self._idle = self._idle + 1 if gained <= 4.0 * UNIT * value else 0
            self.final = self._idle > 2
            self.w[features], self.decision[:] = descent.w, descent.decision
            self.step[:], self._orders, self.new = moved, descent.orders, True
            self._balance()

        return adopt

    def order(self, number: int, out: Integers) -> None:
        """Write a random order."""
        permutation(np.array([self._key, number], np.uint64), out)


_CHUNK = 1 << 16  # features at a time, where all are looked at


def violations(w: Floats, v: Floats) -> Floats:
    """Return by how much each feature violates optimality: |v_j| <= 1, v_j = sign(w_j) in use."""
    return np.where(w == 0.0, np.maximum(np.abs(v) - 1.0, 0.0), np.abs(v - np.sign(w)))


class _Descent:
    """Newton steps on some columns, apart from the iterate until they are done."""

    def __init__(
        self,
        iterate: L1Iterate,
        rows: Rows,
        columns: ColumnCache,
        features: Integers,
        halt: Callable[[], None],
    ) -> None:
        self._iterate, self._rows, self._halt = iterate, rows, halt
        self._columns = columns.starts, columns.rows, columns.values
        self._chosen = columns.slots[features].astype(np.int64)
        self.w, self.decision = iterate.w[features], iterate.decision.copy()
        self._elsewhere = float(np.abs(iterate.w[:-1]).sum()) + float(
            0.0 if iterate._free_bias else abs(iterate.w[-1])
        )
        self._penalty = np.ones(len(features))
        if iterate._free_bias:
            self._penalty[features == len(iterate.w) - 1] = 0.0
        self._elsewhere -= self._size(self.w)
        n = len(self.decision)
        self.step, self._state = np.empty(n), np.empty((n, 2))
        self.orders = iterate._orders
        self._v, self._h = np.empty(len(features)), np.empty(len(features))
        self.value = self._value(0.0, self.w)

    def _size(self, w: Floats) -> float:
        return float(dot(self._penalty, np.abs(w)))

    def _value(self, length: float, w: Floats) -> float:
        """Return P, moved by `length` times what has moved."""
        if length == 0.0:
            self._state[:] = 0.0
        loss = kernels.total_loss(*self._rows.loss, self.decision, length, self._state)
        return float(loss) + max(self._elsewhere, 0.0) + self._size(w)

    def expand(self) -> None:
        """Expand the primal where it is: alpha, curvature, derivatives."""
        kernels.expand(*self._rows.loss, self.decision, self.step, self._state)
        kernels.derivatives(*self._columns, self._chosen, self.step, self._state, self._v, self._h)

    def newton_step(self) -> float:
        """Minimise the quadratic model, and go as far along as the primal falls enough.

        Returns
        -------
        float
            By how much it fell.
        """
        self.expand()
        d, order = np.zeros(len(self.w)), np.empty(len(self.w), np.int64)
        fallen = 0.0
        for _ in range(_MOST_PASSES):
            self._halt()
            self._iterate.order(self.orders, order)
            self.orders += 1
            fell = self._descend(order, self._penalty, self.w, d)
            fallen += fell
            if fell <= _LAST_GAIN * fallen:
                break
        slope = -float(dot(self._v, d)) + self._size(self.w + d) - self._size(self.w)
        length = 1.0
        while length >= _LEAST_STEP:
            w = self.w + length * d
            value = self._value(length, w)
            if value <= self.value + _SUFFICIENT * length * slope:
                gain = self.value - value
                self.w, self.value = w, value
                self.decision += length * self._state[:, kernels.MOVED]
                return gain
            length /= 2.0
        return 0.0

    def _descend(self, order: Integers, penalty: Floats, w: Floats, d: Floats) -> float:
        return float(
            kernels.descend(
                *self._columns, self._chosen, order, penalty, self._v, self._h, w, d, self._state
            )
        )

    def pulled(self) -> Floats:
        """Return the best dual point found near that of the primal, s_i alpha_i; float64[n_rows].

        Cycles end once scaling costs no more than what is not due to it, or when one brings less
        than the one before did not.
        """
        rows, best = self._rows, self.step
        u, moved = np.zeros(len(self.w)), np.empty(len(self.step))
        nothing, all_of_u = np.zeros(len(u)), np.ones(len(u))
        v, top = self._v.copy(), self._top(self._v)
        least = self.value - self._dual(self.step, top)
        step = self.step
        while True:
            lost = self._dual(step, 1.0) - self._dual(step, top)
            if lost <= 0.5 * (self.value - self._dual(step, top)):
                return best
            limit = 1.0 + _FORCING * (top - 1.0)
            some = np.flatnonzero((np.abs(v) > limit) & (self._penalty > 0.0) | (u != 0.0))
            for _ in range(_CYCLE):
                self._halt()
                before = u[some].copy()
                self._descend(some, all_of_u, nothing, u)
                change = np.abs(u[some] - before) * self._h[some]
                if change.max(initial=0.0) <= _FORCING * (top - 1.0):
                    break
            kernels.move_alpha(rows.kind, rows.target, rows.cost, self.step, self._state, moved)
            kernels.pulls(*self._columns, self._chosen, moved, v)
            top, step = self._top(v), moved
            left = self.value - self._dual(moved, top)
            if left < least:
                best = moved.copy()
            if not left < least - 0.1 * abs(least):
                return best
            least = left

    def _top(self, v: Floats) -> float:
        return max(float((np.abs(v) * (self._penalty > 0.0)).max(initial=0.0)), 1.0)

    def _dual(self, step: Floats, top: float) -> float:
        return float(kernels.dual_value(*self._rows.loss, step, 1.0 / top))


_CYCLE = 5  # passes over the features that violate most, before all are looked at
