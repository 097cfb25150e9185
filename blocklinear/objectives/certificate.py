"""The proof of how far a model can be from the optimum.

For any v and any feasible alpha, with w' = sum s_i alpha_i x_i,

    P(v) - P* <= P(v) - D(alpha)
               = sum_i (C_i loss_i + s_i alpha_i v'x_i - g_i(alpha_i)) + 1/2 |v - w'|**2

(Crammer and Singer's problem has the same with other terms, see its kernels). Every term is >= 0
and is computed so that nothing cancels; so the bound does not depend on the difference of two large
sums, P and D, whose rounding errors may be larger than it. What rounding may do is added:

- alpha is moved to the next feasible point where a row is certified, whoever wrote it;
- v'x_i of n entries is known to within (n + 2) u |v|'|x_i|, u = 2**-53, however it was added up,
  and each term counts at its largest within that;
- w' is known to within N u sum |alpha_i| |x_i|, N being the number of alpha_i that are not 0;
- if the weight of the bias is free, the sum of s_i alpha_i must be 0: alpha on the heavier side are
  made smaller, and what rounding leaves of the sum counts, see `balance` and `prove`;
- sums of n non-negative terms are taken to be too small by n u of their size.

Not covered: C times the weights of class and row, x_i itself (as stored, or as divided by its norm)
and x_i'x_i are taken as they are in float64; numbers below 2.2e-308, where float64 loses digits, as
if it did not; exp, log, expm1 and log1p are taken to be right to 4 units in the last place. P, by
which the bound is divided, is computed with compensated sums, but with v'x_i as they are; its error
is in `primal` and `dual` alike, and not in the gap.
"""

import math
from dataclasses import asdict, dataclass, replace
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklinear.kernels import losses as kernels
from blocklinear.kernels.sums import add_squared_distances, dot, squared_distance
from blocklinear.pages import Pages

Floats = NDArray[np.float64]
OF_PRIMAL = 1e-9
"""Relative error granted to P, where the bound is divided by it."""
OF_NORMS = 2.0**-40
"""And to norms, which are computed with compensated sums, and to sums of a few terms."""


@dataclass(frozen=True)
class Certificate:
    """P of a model and a bound of P*, both computed in one pass over the data."""

    primal: float  # P of the model: 1/2 w'w + sum C_i loss_i
    # P less the largest that P - D(alpha) may be, given how the numbers were rounded: P* >=
    # D(alpha) >= dual, but for the rounding of P
    dual: float
    gap: float  # that difference over P, or a little more, so that P - P* <= gap * P
    # |w - w'| / |w'| of the w that coordinate descent maintains; 0 after Newton steps, which
    # maintain none
    drift: float
    average: bool  # whether the model is the running average of w
    rho: float | None = None  # of a one-class SVM; None of all others
    rounding: float | None = None  # how much `primal` may be wrong; None where it is not known

    @property
    def least_optimum(self) -> float:
        """What P* is at least, whatever rounding did to P: 0, if no more is known."""
        if self.rounding is None or not math.isfinite(self.gap):
            return 0.0
        return max(0.0, self.dual - self.rounding)

    def against(self, known: float) -> "Certificate":
        """Return what is proven if P* is known to be so much at least, 0 or a `least_optimum`."""
        if self.rounding is None or not math.isfinite(self.gap):
            return self
        left = max(min(self.primal + self.rounding - known, self.primal), 0.0)
        gap = min(_relative(left, self.primal), 1.0)
        return replace(self, dual=self.primal - left, gap=gap) if gap < self.gap else self

    @property
    def of_zero(self) -> bool:
        """Whether the optimum of a one-class SVM is 0, as far as numbers tell."""
        size = max(abs(self.primal), abs(self.dual))
        measured = (1.01 * self.gap + OF_PRIMAL) * size
        return self.rho is not None and self.primal - self.dual > measured

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, for JSON; without those that the problem does not have."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def relative_gaps(dual: Floats, left: Floats) -> Floats:
    """Return (P - D) / P of estimates of D and P - D, at least 0; float64[M] all."""
    with np.errstate(all="ignore"):  # what is infinite, or no number, is the caller's to notice
        primal = dual + left  # not above 0: no row has a loss and w = 0, and that is the optimum
        return np.maximum(left / np.where(primal > 0.0, primal, np.inf), 0.0)


def norms_above(squares: Floats | float) -> Floats:
    """Return norms, or a little more, of their squares, float64[...]."""
    norms: Floats = np.sqrt(squares) * (1.0 + OF_NORMS)
    return norms


def prove(
    square: float,
    distance: float,
    sums: Floats,
    reach: Floats,
    n: int,
    drift: float,
    average: bool,
    n_classes: int = 0,
    free_bias: bool = False,
) -> Certificate:
    """Return what a pass over all rows proves of a candidate v; nothing where numbers overflowed.

    If the weight of the bias is free, the dual has a constraint: sum s_i alpha_i = 0. It holds once
    the alpha on the heavier side are multiplied by the ratio r < 1 of both sides. What a row adds
    to P - D is convex in r, at most C_i loss_i at r = 0; and w' moves by (1 - r) times the sum of
    |alpha_i| |x_i| at most. The sums of both sides are rounded, so r may be smaller by that.

    Parameters
    ----------
    square, distance : float  |v|**2 and |v - w'|**2, without the weight of the bias if it is free
    sums, reach : float64[N_SUMS], float64[N_REACHES]       as the kernels leave them
    n : int                   rows
    n_classes : int           of rows whose alpha sum to 0 but for rounding
    drift, average, free_bias           as in `Certificate`; whether the weight of the bias is free
    """
    size, terms, plus, minus = map(float, reach)
    apart = math.sqrt(distance)
    if free_bias:
        heavier = max(plus, minus)
        removed = 1.0 - min(plus, minus) / heavier if heavier > 0.0 else 0.0
        removed += 1.01 * kernels.UNIT * (terms + 8.0)
        apart += removed * size
        sums = sums.copy()
        sums[kernels.GAP_TERM_BOUND] += removed * (sums[kernels.LOSS] + sums[kernels.LOW])
    apart += 1.01 * kernels.UNIT * (terms + n_classes + 4.0) * size
    return bound(0.5 * float(square), sums, 0.5 * apart * apart, n, drift, average)


def bound(
    penalty: float, sums: Floats, left: float, n: int, drift: float = 0.0, average: bool = False
) -> Certificate:
    """Return what a pass over all rows proves; nothing where numbers overflowed.

    Parameters
    ----------
    penalty : float           what P has besides the losses
    sums : float64[N_SUMS]    as for `prove`
    left : float              what P - D has besides the terms of rows
    n, drift, average :       as for `prove`
    """
    loss, lost, gaps, wrong = map(float, sums)
    primal = penalty + (loss + lost)
    if primal == 0.0:  # no row has a loss and w = 0: that is the optimum
        return Certificate(0.0, 0.0, 0.0, drift, average)
    more = 1.0 + 2.0 * kernels.UNIT * n
    left = (gaps * more + left) * (1.0 + OF_NORMS)
    wrong = wrong * more + OF_NORMS * primal
    if not (math.isfinite(primal) and math.isfinite(left)):
        return Certificate(primal, primal - left, math.inf, drift, average)
    return Certificate(
        primal, primal - left, _relative(left, primal), drift, average, rounding=wrong
    )


def _relative(left: float, primal: float) -> float:
    """Return the gap: so much of P, or a little more."""
    return left / primal * (1.0 + OF_PRIMAL) + 4.0 * kernels.UNIT


def balance(plus: Floats, minus: Floats) -> Floats:
    """Return what positive and negative s_i alpha_i are to be multiplied by for a sum of 0.

    These numbers, float64[2, M], are from 0 to 1: alpha stay in their domain. One of the two is 1,
    if neither sum is 0.

    Parameters
    ----------
    plus, minus : float64[M]  sums of the positive ones, and of the others with their sign changed;
                              where rows came and went, rounding may have left less than 0 of either
    """
    sides = np.maximum(np.stack([plus, minus]), 0.0)
    return np.asarray(sides.min(axis=0) / np.where(sides > 0.0, sides, 1.0))


def joined(certificates: list[Certificate]) -> Certificate:
    """Return what certificates of several models say of all: sums, and the largest gap."""
    known = [c.rounding for c in certificates if c.rounding is not None]
    return Certificate(
        primal=sum(c.primal for c in certificates),
        dual=sum(c.dual for c in certificates),
        gap=max(c.gap for c in certificates),
        drift=max(c.drift for c in certificates),
        average=any(c.average for c in certificates),
        rounding=sum(known) if len(known) == len(certificates) else None,
    )


class Proof:
    """What a pass over rows adds up, for certificates of weight vectors that share it.

    Attributes
    ----------
    candidates : list         of float64[n_features + 1, columns]: the weights W, their average, or
                              both
    squares, norms : float64[2, columns]        of the columns of candidates; the second, or more;
                              0 if `recomputed` is left out
    recomputed : float64[n_features + 1, columns]   sum of s_i alpha_i x_i: zeros of new memory if
                              None is given; where it is of size 0, there are no certificates
    sums : float64[2, N_SUMS, n_problems]       for each candidate, as the kernels leave them
    reach : float64[N_REACHES, n_problems]
    n : int                   rows so far
    balance : float64[2, n_problems]    what positive and negative s_i alpha_i are multiplied by,
                              given where the weight of the bias is free
    """

    def __init__(
        self,
        W: Floats,
        candidates: list[Floats],
        n_problems: int,
        recomputed: Floats | None = None,
        balance: Floats | None = None,
    ) -> None:
        self._free = balance is not None
        self.balance = np.ones((2, n_problems)) if balance is None else balance
        self._W, self.candidates = W, candidates
        self.squares = np.zeros((2, W.shape[1]))
        self.recomputed = aligned_zeros(*W.shape) if recomputed is None else recomputed
        for k, v in enumerate(candidates if self.recomputed.size else ()):
            self.squares[k] = column_norms(v)
        self.norms = norms_above(self.squares)
        if self._free and self.recomputed.size:
            self.squares = np.array([column_norms(self._penalised(v)) for v in self.pair])
        self.sums = np.zeros((2, kernels.N_SUMS, n_problems))
        self.reach, self.n = np.zeros((kernels.N_REACHES, n_problems)), 0

    def _penalised(self, V: Floats) -> Floats:
        """Return the weights that are regularised."""
        return V[:-1] if self._free else V

    @property
    def pair(self) -> tuple[Floats, Floats]:
        """The first and the last candidate, as kernels take them."""
        return self.candidates[0], self.candidates[-1]

    def include(self, sums: Floats, reach: Floats, recomputed: Floats, n: int) -> None:
        """Add what `n` rows contribute to a proof of the same candidates elsewhere."""
        self.sums += sums
        self.reach += reach
        self.recomputed += recomputed
        self.n += n

    def remaining(self, n_rows: int) -> Floats:
        """Return what P - D is as far as the rows so far tell of `n_rows`, float64[k, n_problems].

        Of each of the k candidates; W is taken to be what a pass would make of alpha.
        """
        found = [
            n_rows / max(self.n, 1) * self.sums[k, kernels.GAP_TERM_BOUND]
            + 0.5 * self._of_problems(self._distances(v, self._W))
            for k, v in enumerate(self.candidates)
        ]
        return np.array(found)

    def least(self) -> Floats:
        """Return what P - D is at least, whatever other rows add, float64[n_problems]."""
        return np.asarray(self.sums[: len(self.candidates), kernels.GAP_TERM_BOUND].min(axis=0))

    def certificates(self, n_classes: int = 0) -> list[Certificate]:
        """Return the certificate of each problem, of its better candidate, once all rows are in.

        `n_classes` is as for `prove`.
        """
        norms = np.sqrt(self._of_problems(column_norms(self._penalised(self.recomputed))))
        drifted = self._of_problems(self._distances(self._W, self.recomputed))
        drift = np.sqrt(drifted) / np.where(norms > 0.0, norms, np.inf)
        found: list[list[Certificate]] = [[] for _ in norms]  # of each problem
        for k, v in enumerate(self.candidates):
            distances, averaged = drifted, v is not self._W
            if averaged:
                distances = self._of_problems(self._distances(v, self.recomputed))
            squares = self._of_problems(self.squares[k])
            for j, proofs in enumerate(found):
                proof = prove(
                    squares[j], distances[j], self.sums[k, :, j], self.reach[:, j], self.n,
                    float(drift[j]), averaged, n_classes, self._free,
                )  # fmt: skip
                proofs.append(proof)
        return [min(proofs, key=attrgetter("primal")) for proofs in found]

    def _distances(self, V: Floats, W: Floats) -> Floats:
        if V is W:
            return np.zeros(V.shape[1])
        return column_distances(self._penalised(V), self._penalised(W))

    def _of_problems(self, of_columns: Floats) -> Floats:
        return of_problems(of_columns, self.sums.shape[2])


def of_problems(of_columns: Floats, n_problems: int) -> Floats:
    """Return the sum over columns for one problem, else each column's, float64[n_problems]."""
    return np.array([math.fsum(of_columns)]) if n_problems == 1 else of_columns[:n_problems]


def column_norms(W: Floats) -> Floats:
    """Return the squared norm of each column, without a temporary of the size of `W`."""
    if W.shape[1] == 1:  # a fifth of the time
        return np.array([dot(W.reshape(-1), W.reshape(-1))])
    return column_distances(np.zeros((1, W.shape[1])), W)


def column_distances(V: Floats, W: Floats) -> Floats:
    """Return the squared norm of each column of V - W, without that difference."""
    if W.shape[1] == 1:
        return np.array([squared_distance(V.reshape(-1), W.reshape(-1))])
    norms = np.zeros(W.shape[1])
    add_squared_distances(V, W, norms)
    return norms


def aligned_zeros(n: int, m: int) -> Floats:
    """Return zeros, float64[n, m], that begin with a cache line and are read at random places."""
    return Pages(8 * n * m, large=True).array.view(np.float64).reshape(n, m)
