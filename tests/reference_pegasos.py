"""A dense reference for the Pegasos kernel: slow, one line per equation, and independent of it.

`X` is dense, float64[n, d], with the bias feature as its last column; `y` is +1 or -1. Equations
and letters are those of Yu et al. (TKDD 2012), Section 4, where the loss of a row also has a
`weight`: C_i = C * weight_i.
"""

from dataclasses import dataclass

import numpy as np


@dataclass
class Outcome:
    """Where the updates end, and what was seen on the way."""

    w: np.ndarray
    t: int
    loss: float = 0.0  # sum of C_i loss_i, each before the update that its row takes part in
    violators: int = 0
    projections: int = 0
    shrinkage: float = 0.0  # log10 of the product of all factors that w was scaled by
    nearest: float = np.inf  # the smallest |1 - y w'x|: below rounding, B+ is a matter of luck


def partition(order, batch):
    """B^1, B^2, ...: sets of `batch` rows, in the order given."""
    return [order[first : first + batch] for first in range(0, len(order), batch)]


def updates(X, y, C, weight, l, radius, partition, t, w):  # noqa: E741
    """Algorithm 3, step 3.2: one update, (13)-(15), for each set of a partition.

    `l` counts the rows of all blocks; `radius` is that of the ball in (15); `t` counts from 1.
    """
    seen, lam = Outcome(w, t), 1 / (l * C)
    for B in partition:
        seen.t += 1
        margin = y[B] * (X[B] @ seen.w)
        plus = B[margin < 1]
        nabla = lam * seen.w - X[plus].T @ (weight[plus] * y[plus]) / len(B)  # (14)
        w_bar = seen.w - 1 / (lam * seen.t) * nabla  # (13)
        norm = np.linalg.norm(w_bar)
        shrink = min(1.0, radius / norm) if norm else 1.0
        seen.w = shrink * w_bar  # (15)

        seen.loss += C * weight[B] @ np.maximum(0.0, 1 - margin)
        seen.violators += len(plus)
        seen.projections += shrink < 1
        seen.shrinkage += np.log10(shrink * (1 - 1 / seen.t)) if seen.t > 1 else 0.0
        seen.nearest = min(seen.nearest, *np.abs(1 - margin))
    return seen
