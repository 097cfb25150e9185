"""What is seen of rows when they are touched, and what follows from it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from blocklinear.kernels import dual as kernels


@dataclass(frozen=True)
class Estimate:
    """What an outer iteration saw; `dual` is exact, the rest is as of the first touch of rows.

    `primal` is `dual` and what the rows then added to P - D: more than they do at the end. Of
    several models it has the sums, and of those that stay the largest violation, the largest gap
    and, because half of them leave once it is small enough, the middle one. `foretold` says that
    `primal` is not as of the first touch of rows, but as of the end.
    """

    primal: float
    dual: float
    violation: float
    n_sv: int
    steps: int
    gap: float | None = None
    middle_gap: float | None = None
    foretold: bool = False


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
