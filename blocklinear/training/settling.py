"""What active rows still add to the gap: sweeps at the end of an outer iteration settle them.

P - D is the sum over all rows of C_i loss_i + s_i alpha_i f_i - g_i(alpha_i). Rows that rest at a
bound add nothing, as long as their margin stays on its side of 1. So, where groups come one after
the other, most of what is left at the end of an outer iteration is in the rows that move, which are
in memory: where that is all that separates it from the gap asked for, to sweep them saves a pass.
After a warm start the rows near the margin are kept, too; once they are solved, the problem is, but
for those that were taken for settled too early.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from blocklinear.kernels import dual as kernels
from blocklinear.training.problems import LabelledRows, Problem

NEAR = 0.5
"""Rows whose margin is as close to 1 may move when others do."""
REACH, RESTLESS = 0.08, 8.0
"""A row is worth less the farther from 1 it is, e times by each `REACH`; so much if it moves."""
Floats = NDArray[np.float64]


def settles(problem: Problem) -> bool:
    """Say whether the loss is one with a margin, beyond which rows rest."""
    return problem.kind in (kernels.HINGE, kernels.SQUARED_HINGE)


@dataclass(frozen=True)
class Standing:
    """Where rows stand.

    Attributes
    ----------
    added : float64[n]        what they add to P - D
    restless : bool[n]        whether they do not rest at a bound
    distance : float64[n]     how far their margin is from 1; infinite where C is 0
    """

    added: Floats
    restless: NDArray[np.bool_]
    distance: Floats

    @property
    def near(self) -> NDArray[np.bool_]:
        """Rows that move, or may when others do."""
        return self.restless | (self.distance < NEAR)

    @property
    def worth(self) -> Floats:
        """Which of them to keep first."""
        return np.where(self.restless, RESTLESS, np.exp(-self.distance / REACH))


def standing(rows: LabelledRows, problem: Problem, alpha: Floats, decisions: Floats) -> Standing:
    """Say where rows stand, by alpha and w'x_i, float64[n] each."""
    target, cost = problem.targets(rows.labels), problem.costs(rows)
    margin = target * decisions
    loss = np.maximum(0.0, 1.0 - margin)
    gain = alpha
    if problem.kind == kernels.SQUARED_HINGE:
        loss **= 2
        gain = alpha - 0.25 * alpha**2 / np.where(cost > 0.0, cost, np.inf)
    resting = (alpha == 0.0) & ((margin >= 1.0) | (cost == 0.0))
    if problem.bounded:
        resting |= (alpha == cost) & (margin <= 1.0)
    return Standing(
        added=cost * loss + alpha * margin - gain,
        restless=~resting,
        distance=np.where(cost > 0.0, np.abs(1.0 - margin), np.inf),
    )
