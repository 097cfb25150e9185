"""What is seen of rows when they are touched, and what follows from it."""

import numpy as np
from numpy.typing import NDArray

from blocklinear.kernels import dual as kernels


def fresh_touch() -> NDArray[np.float64]:
    """Return a tally of no rows."""
    touch = np.zeros(kernels.N_TOUCH)
    touch[kernels.PG_MAX], touch[kernels.PG_MIN] = -np.inf, np.inf
    return touch


def merge(seen: NDArray[np.float64], into: NDArray[np.float64]) -> None:
    """Add the tally of some rows to another."""
    largest = max(seen[kernels.PG_MAX], into[kernels.PG_MAX])
    smallest = min(seen[kernels.PG_MIN], into[kernels.PG_MIN])
    into += np.where(np.isfinite(seen), seen, 0.0)
    into[kernels.PG_MAX], into[kernels.PG_MIN] = largest, smallest


def width(touch: NDArray[np.float64]) -> float:
    """Return the largest minus the smallest projected gradient, either counted as 0 if better."""
    return float(max(touch[kernels.PG_MAX], 0.0) - min(touch[kernels.PG_MIN], 0.0))


def threshold(touch: NDArray[np.float64]) -> float:
    """Return the pressure from which a row may be shrunk; infinite when nothing is violated."""
    largest = max(touch[kernels.PG_MAX], -touch[kernels.PG_MIN])
    return float(largest) if largest > 0.0 else np.inf
