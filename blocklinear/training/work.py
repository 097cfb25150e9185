"""Rows while one model is trained on them."""

import numpy as np
from numpy.typing import NDArray

from blocklinear.options import TrainOptions
from blocklinear.training.active import Rows
from blocklinear.training.problems import Problem
from blocklinear.training.schedule import drawn_rows, row_order, row_schedule

Floats = NDArray[np.float64]


class Work:
    """Rows while they are worked on: all of a group, or active ones.

    Attributes
    ----------
    rows : Rows
    target, cost : float64[n_rows]
    alpha : float64[n_rows]
    preference : float32[n_rows]        of adaptive frequencies; of shrinking: 0 for rows that stay
    """

    def __init__(
        self, rows: Rows, problem: Problem, alpha: Floats, preference: NDArray[np.float32]
    ) -> None:
        self.rows, self.alpha, self.preference = rows, alpha, preference
        self.target, self.cost = problem.targets(rows.labels), problem.costs(rows)
        self._bounded = problem.bounded

    def moving(self, before: Floats, rows: NDArray[np.int64] | slice) -> NDArray[np.bool_]:
        """Say of which rows alpha has changed and is strictly inside its bounds."""
        alpha = self.alpha[rows]
        moving: NDArray[np.bool_] = (alpha != before[rows]) & (alpha != 0.0)
        if self._bounded:
            moving &= np.abs(alpha) != self.cost[rows]
        return moving

    def order(
        self, options: TrainOptions, outer: int, epoch: int, blocks: tuple[int, ...]
    ) -> NDArray[np.int64]:
        """Return the rows of an epoch over some blocks in their order; the first one takes all."""
        key = (options.seed, outer, epoch, blocks)
        order = np.empty(len(self.alpha), np.int64)
        if options.selection == "online":
            drawn_rows(*key, order)
        elif options.selection == "avsf" and epoch:
            row_schedule(*key, self.preference, order)
        elif options.selection == "shrink" and epoch:
            staying = np.flatnonzero(self.preference == 0.0)
            order = np.empty(len(staying), np.int64)
            row_order(*key, order)
            order = staying[order]
        else:
            row_order(*key, order)
        return order
