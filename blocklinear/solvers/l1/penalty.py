"""What weights cost besides losses, and how far they are from optimal."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from blocklinear.kernels.sums import dot

Floats = NDArray[np.float64]
CHUNK = 1 << 16  # features at a time, where all are looked at


@dataclass(frozen=True)
class Penalty:
    """Elastic net: p |w|_1 + r/2 |w|**2, which is L1 regularisation where p = 1 and r = 0.

    Attributes
    ----------
    l1, ridge : float         p and r
    free_bias : bool          whether the last weight, that of the bias, costs nothing
    """

    l1: float
    ridge: float
    free_bias: bool

    def of(self, w: Floats) -> float:
        """Return what weights cost; float64[n_features + 1]."""
        w = w[:-1] if self.free_bias else w
        square = float(dot(w, w)) if self.ridge else 0.0
        return self.l1 * float(np.abs(w).sum()) + 0.5 * self.ridge * square

    def of_features(self, features: NDArray[np.int64], last: int) -> tuple[Floats, Floats]:
        """Return p and r of some features, `last` being the bias; float64[m] both."""
        costs = np.where(features == last, 0.0, 1.0) if self.free_bias else np.ones(len(features))
        return self.l1 * costs, self.ridge * costs

    def violation(self, w: Floats, pull: Floats) -> float:
        """Return the sum of violations of all features, `pull` being v; float64[n] both."""
        total = 0.0
        for at in range(0, len(w), CHUNK):
            some = slice(at, at + CHUNK)
            v = pull[some] - self.ridge * w[some]
            total += float(violations(w[some], v, self.l1).sum())
        if self.free_bias:
            last = violations(w[-1:], pull[-1:] - self.ridge * w[-1:], self.l1)
            total += abs(float(pull[-1])) - float(last[0])
        return total


def violations(w: Floats, v: Floats, penalty: Floats | float) -> Floats:
    """Return by how much each feature violates optimality.

    Optimal is |v_j| <= p_j, and v_j = p_j sign(w_j) where w_j is not 0. With a ridge, r_j w_j is
    to be subtracted from v_j before.
    """
    slack = np.maximum(np.abs(v) - penalty, 0.0)
    return np.where(w == 0.0, slack, np.abs(v - penalty * np.sign(w)))
