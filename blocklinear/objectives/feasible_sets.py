"""Feasible sets of alpha, and the signs of rows in w: what a warm start must know of a task."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from blocklinear.objectives.models import Models
from blocklinear.objectives.problems import LabelledRows, weighted

Floats = NDArray[np.float64]
_UNBALANCED = 1e-9
"""Relative to the largest alpha of a row: a sum of this size is no rounding."""


class FeasibleSet:
    """The feasible set of the alpha of M weight vectors that start together.

    Of models that do not depend on each other: [0, C_i], or [-C_i, C_i]; unbounded if squared.

    Attributes
    ----------
    classes : tuple of float  in LIBLINEAR's order; none for values
    labels : tuple of float or None     for each, the class that is +1, or its own; None for values
    costs : float64[M, 2]     C of rows of weight 1: of that class, and of all others
    bounded : bool            whether C is a bound
    coupled : bool            whether the alpha of a row sum to 0
    """

    coupled: ClassVar[bool] = False

    def __init__(self, models: Models) -> None:
        self._models, self.classes, self.costs = models, models.labels, models.pairs
        self.labels = tuple(self.classes[k] if self.classes else None for k in models.positive)
        self.bounded = models.solver.bounded

    def holds(self, column: int, costs: Sequence[float], bounded: bool) -> bool:
        """Return whether all alpha that are feasible for other costs are so for a column."""
        wider = bool((np.asarray(costs) <= self.costs[column]).all())
        return not self.bounded or (bounded and wider)

    def signs(self, labels: Floats) -> Floats:
        """Return s_i of rows of any classes, float64[n, M]: 1 where w is the sum of alpha_i x_i."""
        if not self.classes:
            return np.ones((len(labels), len(self.labels)))
        return np.where(labels[:, None] == np.array(self.labels, np.float64), 1.0, -1.0)

    def fit(self, rows: LabelledRows, alpha: Floats) -> Floats:
        """Return the point of the set closest to alpha, or one nearby, float64[n, M]."""
        if not self.bounded:
            return alpha
        bound = self._models.bounds(rows)
        fitted: Floats = np.clip(alpha, -bound, bound)  # that of classes is not negative
        return fitted


class AllClasses(FeasibleSet):
    """The set of Crammer and Singer's problem (Fan, Eqs. 16 and 17)."""

    coupled = True

    def signs(self, labels: Floats) -> Floats:
        """Return 1: the sign is in alpha."""
        return np.ones((len(labels), len(self.labels)))

    def fit(self, rows: LabelledRows, alpha: Floats) -> Floats:
        """Return alpha with a sum of 0, scaled to the bound.

        If a class was removed, the alpha of the row's own class takes over what is missing.
        """
        code, place = self._models.codes(rows.labels), np.arange(len(alpha))
        fitted, total = alpha.copy(), alpha.sum(axis=1)
        wrong = np.abs(total) > _UNBALANCED * np.abs(alpha).max(axis=1, initial=0.0)
        fitted[place[wrong], code[wrong]] -= total[wrong]
        alpha_of_class, bound = fitted[place, code], weighted(self._models.cost[code, 1], rows)
        above = alpha_of_class > bound
        fitted[above] *= (bound[above] / alpha_of_class[above])[:, None]
        fitted[place[above], code[above]] = bound[above]
        return fitted


def inside(models: Models, rows: LabelledRows, alpha: Floats) -> NDArray[np.bool_]:
    """Return which alpha of separate models are strictly inside their bounds, bool[n, M]."""
    free: NDArray[np.bool_] = alpha != 0.0
    return free & (np.abs(alpha) != models.bounds(rows)) if models.solver.bounded else free
