"""The proof of how far a model can be from the optimum."""

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklinear.kernels import dual as kernels
from blocklinear.store.groups import Group
from blocklinear.store.prefetch import Loaded
from blocklinear.training.problems import Problem
from blocklinear.training.rows import RowArray

Floats = NDArray[np.float64]
Watch = Callable[[Group, Floats, Floats], None]
ROUNDING = 1e-13
"""Relative rounding error granted to P and D when they are computed (P is a sum of non-negative
terms, and those of D are at most of its size; the error of such a sum is far below this for any
data that fits a disk)."""


@dataclass(frozen=True)
class Certificate:
    """P(w) and D(alpha), both computed in one pass over the data, w' = sum s_i alpha_i x_i in it.

    Attributes
    ----------
    primal : float            P of the model: 1/2 w'w + sum C_i loss_i
    dual : float              D(alpha) with the recomputed w'; P* >= D
    gap : float               (primal - dual) / primal, so that P - P* <= gap * P
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
    """Return (P - D) / P with the rounding errors of both on the safe side."""
    if primal <= 0.0:  # no row has a loss and w = 0: that is the optimum
        return 0.0
    return max((primal - dual) / primal, 0.0) + ROUNDING


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
        A feasible point of the dual.
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
    recomputed = np.zeros_like(w)
    loss, terms = np.zeros(2), np.zeros(kernels.N_TERMS)
    for loaded in visits:
        group = loaded.group
        target, cost = problem.targets(group.labels), problem.costs(group)
        lines, decisions = alpha.read(group.blocks), np.zeros(group.n_rows)
        kernels.certify_rows(
            group.indptr, group.indices, group.values, target, cost, problem.kind,
            problem.epsilon, bias, lines, w, average, recomputed, loss, decisions,
        )  # fmt: skip
        watch(group, lines, decisions)
        terms += problem.dual_terms(target, cost, lines)
    norm = kernels.squared_norm(recomputed)
    dual = float(terms[kernels.DUAL] - 0.5 * norm)
    primal_w = float(0.5 * kernels.squared_norm(w) + loss[0])
    primal_average = float(0.5 * kernels.squared_norm(average) + loss[1])
    primal = min(primal_w, primal_average)
    drift = float(np.sqrt(kernels.squared_norm(w - recomputed) / norm)) if norm else 0.0
    certificate = Certificate(
        primal, dual, relative_gap(primal, dual), drift, primal_average < primal_w
    )
    return certificate, recomputed
