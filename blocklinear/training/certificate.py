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
- sums of n non-negative terms are taken to be too small by n u of their size.

Not covered: C times the weights of class and row, x_i itself (as stored, or as divided by its norm)
and x_i'x_i are taken as they are in float64; numbers below 2.2e-308, where float64 loses digits, as
if it did not; exp, log, expm1 and log1p are taken to be right to 4 units in the last place. P, by
which the bound is divided, is computed with compensated sums, but with v'x_i as they are.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklinear.kernels import dual as kernels
from blocklinear.kernels.sums import dot, squared_distance
from blocklinear.store.groups import Group
from blocklinear.store.prefetch import Loaded
from blocklinear.training.problems import Problem
from blocklinear.training.rows import RowArray

Floats = NDArray[np.float64]
_OF_PRIMAL = 1e-9
"""Relative error granted to P, where the bound is divided by it."""
_OF_NORMS = 2.0**-40
"""And to norms, which are computed with compensated sums, and to sums of a few terms."""
Watch = Callable[[Group, Floats, Floats], None]


@dataclass(frozen=True)
class Certificate:
    """P of a model and a bound of P*, both computed in one pass over the data.

    Attributes
    ----------
    primal : float            P of the model: 1/2 w'w + sum C_i loss_i
    dual : float              P less the largest that P - D(alpha) may be, given how the numbers
                              were rounded: P* >= D(alpha) >= dual
    gap : float               that difference over P, or a little more, so that P - P* <= gap * P
    drift : float             |w - w'| / |w'| of the w that coordinate descent maintains; 0 after
                              Newton steps, which maintain none
    average : bool            whether the model is the running average of w
    """

    primal: float
    dual: float
    gap: float
    drift: float
    average: bool

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, for JSON."""
        return asdict(self)


def relative_gap(primal: float, dual: float) -> float:
    """Return (P - D) / P of two estimates, at least 0."""
    if primal <= 0.0:  # no row has a loss and w = 0: that is the optimum
        return 0.0
    return max((primal - dual) / primal, 0.0)


def norms_above(squares: Floats | float) -> Floats:
    """Return norms, or a little more, of their squares, float64[...]."""
    norms: Floats = np.sqrt(squares) * (1.0 + _OF_NORMS)
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
) -> Certificate:
    """Return what a pass over all rows proves of a candidate v; nothing where numbers overflowed.

    Parameters
    ----------
    square, distance : float  |v|**2 and |v - w'|**2
    sums, reach : float64[N_SUMS], float64[N_REACHES]
        As the kernels leave them, for example `kernels.dual.certify_rows`.
    n : int
        Rows.
    n_classes : int
        Of rows whose alpha sum to 0 but for rounding.
    drift, average :
        As in `Certificate`.
    """
    loss, lost, gaps = map(float, sums)
    size, terms = map(float, reach)
    primal = 0.5 * float(square) + (loss + lost)
    if primal == 0.0:  # no row has a loss and w = 0: that is the optimum
        return Certificate(0.0, 0.0, 0.0, drift, average)
    apart = math.sqrt(distance) + 1.01 * kernels.UNIT * (terms + n_classes + 4.0) * size
    rows = gaps * (1.0 + 2.0 * kernels.UNIT * n)
    left = (rows + 0.5 * apart * apart) * (1.0 + _OF_NORMS)
    gap = left / primal * (1.0 + _OF_PRIMAL) + 4.0 * kernels.UNIT
    if not (math.isfinite(primal) and math.isfinite(left)):
        gap = math.inf
    return Certificate(primal, primal - left, gap, drift, average)


def joined(certificates: list[Certificate]) -> Certificate:
    """Return what certificates of several models say of all: sums, and the largest gap."""
    return Certificate(
        primal=sum(c.primal for c in certificates),
        dual=sum(c.dual for c in certificates),
        gap=max(c.gap for c in certificates),
        drift=max(c.drift for c in certificates),
        average=any(c.average for c in certificates),
    )


def ignore(group: Group, alpha: Floats, decisions: Floats) -> None:
    """Do nothing with the rows of a group."""


def certify(
    visits: Iterable[Loaded],
    problem: Problem,
    alpha: RowArray,
    bias: float,
    w: NDArray[np.float64],
    average: NDArray[np.float64],
    watch: Watch = ignore,
) -> tuple[Certificate, NDArray[np.float64]]:
    """Pass over all groups once; return the certificate of the better of `w` and `average`.

    Parameters
    ----------
    visits : iterable of Loaded
        Every block once.
    problem : Problem
    alpha : RowArray
        Of the dual; what counts is the feasible point next to it.
    bias : float
        Value of the bias feature, 0 for none.
    w, average : float64[n_features + 1]
        Candidates; P(any w) - D(alpha) bounds P(w) - P*.
    watch : callable
        Shown each group, its alpha and its decisions w'x_i.

    Returns
    -------
    certificate : Certificate
    recomputed : float64[n_features + 1]
        w' = sum s_i alpha_i x_i.
    """
    candidates, recomputed, n = (w, average), np.zeros_like(w), 0
    squares = np.array([dot(v, v) for v in candidates])
    norms = norms_above(squares)
    sums, reach = np.zeros((2, kernels.N_SUMS)), np.zeros(kernels.N_REACHES)
    for loaded in visits:
        group = loaded.group
        target, cost = problem.targets(group.labels), problem.costs(group)
        lines, decisions = alpha.read(group.blocks), np.zeros(group.n_rows)
        kernels.certify_rows(
            group.indptr, group.indices, group.values, group.sq_norm, target, cost, problem.kind,
            problem.epsilon, bias, lines, w, average, norms, recomputed, sums, reach, decisions,
        )  # fmt: skip
        watch(group, lines, decisions)
        n += group.n_rows
    distances = [squared_distance(v, recomputed) for v in candidates]
    norm = math.sqrt(dot(recomputed, recomputed))
    drift = math.sqrt(distances[0]) / norm if norm else 0.0
    of_w, of_average = (
        prove(square, distance, of, reach, n, drift, average=k == 1)
        for k, (square, distance, of) in enumerate(zip(squares, distances, sums, strict=True))
    )
    return (of_average if of_average.primal < of_w.primal else of_w), recomputed
