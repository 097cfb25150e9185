"""What active rows still add to the gap: sweeps at the end of an outer iteration settle them.

P - D is the sum over all rows of C_i loss_i + s_i alpha_i f_i - g_i(alpha_i). Rows that rest at a
bound add nothing, as long as their margin stays on its side of 1. So, where groups come one after
the other, most of what is left at the end of an outer iteration is in the rows that move, which are
in memory: where that is all that separates it from the gap asked for, to sweep them saves a pass.
After a warm start the rows near the margin are kept, too; once they are solved, the problem is, but
for those that were taken for settled too early.
"""

import numpy as np
from numpy.typing import NDArray

from blocklinear.kernels import dual as kernels
from blocklinear.kernels.sums import row_values
from blocklinear.store.groups import Group
from blocklinear.training.active import Rows
from blocklinear.training.problems import Problem

SETTLING_SWEEPS = 64
"""How often at most active rows are swept for it, at the end of an outer iteration."""
SETTLING_STEP = 8
"""After so many sweeps it is seen whether they are solved."""
SETTLED = 0.1
"""Of the gap asked for, what they may add to it."""
CLOSE = 8.0
"""They are swept when the gap is no more than so many times the one asked for; if warm, always."""
NEAR = 0.5
"""After a warm start, rows are taken for active ones whose margin is as close to 1."""
Floats = NDArray[np.float64]


def settles(problem: Problem) -> bool:
    """Say whether the loss is one with a margin, beyond which rows rest."""
    return problem.kind in (kernels.HINGE, kernels.SQUARED_HINGE)


def distances(group: Group, target: Floats, w: Floats, bias: float) -> Floats:
    """Return how far the margins of a group are from 1, float64[n_rows]."""
    values = np.empty(group.n_rows)
    row_values(group.indptr[:-1], group.indptr[1:], group.indices, group.values, bias, w, values)
    distance: Floats = np.abs(1.0 - target * values)
    return distance


def whole_group(group: Group) -> Rows:
    """Return all rows of a group."""
    return Rows(
        np.arange(group.n_rows), group.indptr[:-1], group.indptr[1:], group.sq_norm, group.labels,
        group.indices, group.values, group.weights,
    )  # fmt: skip


def excess(
    rows: Rows, problem: Problem, alpha: Floats, w: Floats, bias: float
) -> tuple[Floats, NDArray[np.bool_]]:
    """Return what each row adds to P - D, and which of them do not rest at a bound."""
    values = np.empty(len(alpha))
    row_values(rows.starts, rows.stops, rows.indices, rows.values, bias, w, values)
    target, cost = problem.targets(rows.labels), problem.costs(rows)
    margin = target * values
    loss = np.maximum(0.0, 1.0 - margin)
    gain = alpha
    if problem.kind == kernels.SQUARED_HINGE:
        loss **= 2
        gain = alpha - 0.25 * alpha**2 / np.where(cost > 0.0, cost, np.inf)
    resting = (alpha == 0.0) & (margin >= 1.0)
    if problem.bounded:
        resting |= (alpha == cost) & (margin <= 1.0)
    return cost * loss + alpha * margin - gain, ~resting
