"""The rows of a group while one model is trained on them."""

import numpy as np
from numpy.typing import NDArray

from blocklinear.options import TrainOptions
from blocklinear.store.groups import Group
from blocklinear.training.problems import Problem
from blocklinear.training.schedule import drawn_rows, row_order, row_schedule

Floats = NDArray[np.float64]


class Work:
    """The rows of a group while they are worked on.

    Attributes
    ----------
    group : Group
    target, cost : float64[n_rows]
    alpha : float64[n_rows]
    preference : float32[n_rows]        of adaptive frequencies; of shrinking: 0 for rows that stay
    """

    def __init__(
        self, group: Group, problem: Problem, alpha: Floats, preference: NDArray[np.float32]
    ) -> None:
        self.group, self.alpha, self.preference = group, alpha, preference
        self.target, self.cost = problem.targets(group.labels), problem.costs(group)
        self._bounded = problem.bounded

    def moving(self, before: Floats, rows: NDArray[np.int64] | slice) -> NDArray[np.bool_]:
        """Say of which rows alpha has changed and is strictly inside its bounds."""
        alpha = self.alpha[rows]
        moving: NDArray[np.bool_] = (alpha != before[rows]) & (alpha != 0.0)
        if self._bounded:
            moving &= np.abs(alpha) != self.cost[rows]
        return moving

    def order(self, options: TrainOptions, outer: int, epoch: int) -> NDArray[np.int64]:
        """Return the rows of an epoch in their order; the first epoch of a visit takes all."""
        key = (options.seed, outer, epoch, self.group.blocks)
        order = np.empty(self.group.n_rows, np.int64)
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
