"""Statistics of the steps on rows, and what follows from them."""

import numpy as np
from numpy.typing import NDArray

from blocklinear.kernels import dual as kernels


def no_stats() -> NDArray[np.float64]:
    """Return the statistics of no rows, float64[N_STATS]."""
    stats = np.zeros(kernels.N_STATS)
    stats[kernels.PG_MAX], stats[kernels.PG_MIN] = -np.inf, np.inf
    return stats


def add_stats(seen: NDArray[np.float64], into: NDArray[np.float64]) -> None:
    """Add statistics of some rows, float64[..., N_STATS], to those of others."""
    largest = np.maximum(seen[..., kernels.PG_MAX], into[..., kernels.PG_MAX])
    smallest = np.minimum(seen[..., kernels.PG_MIN], into[..., kernels.PG_MIN])
    into[..., kernels.PG_SUM :] += seen[..., kernels.PG_SUM :]  # a NaN stays one, and is noticed
    into[..., kernels.PG_MAX], into[..., kernels.PG_MIN] = largest, smallest


def width(stats: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the largest minus the smallest projected gradient, either counted as 0 if better."""
    low, high = stats[..., kernels.PG_MIN], stats[..., kernels.PG_MAX]
    return np.asarray(np.maximum(high, 0.0) - np.minimum(low, 0.0))


def violations(
    stats: NDArray[np.float64],
    regression: bool,
    first: NDArray[np.float64],
    added: NDArray[np.float64] | None,
    n_rows: int,
) -> NDArray[np.float64]:
    """Return what LIBLINEAR's ``-e`` is compared with, float64[M].

    The largest minus the smallest projected gradient, either counted as 0 if better; for regression
    the sum of the sizes of all, as a part of what it was in the first outer iteration. Or what the
    next correction of a free bias adds, if that is more.

    Parameters
    ----------
    stats : float64[M, N_STATS]
    first : float64[M]        the first sum of each model; 0 before, then written
    added : float64[M] or None          what the next correction adds to each of the `n_rows`
                              decision values; None if the bias is regularised
    """
    found = width(stats)
    if regression:
        total = stats[:, kernels.PG_SUM]
        first[first == 0.0] = total[first == 0.0]
        found = np.asarray(total / np.where(first != 0.0, first, 1.0))
    if added is None:
        return found
    sums = n_rows / np.where(first > 0.0, first, np.inf) if regression else 1.0
    return np.maximum(found, np.abs(added) * sums)


def middle(gaps: NDArray[np.float64]) -> float:
    """Return the middle one of some gaps, the smaller of two."""
    return float(np.sort(gaps)[(len(gaps) - 1) // 2])


def rises(gain: NDArray[np.float64], dual: NDArray[np.float64]) -> float:
    """Return the largest of the gains of the dual values of some models, as parts of them.

    A dual value that fell has fallen by rounding, and counts as 0: it may itself be 0.
    """
    with np.errstate(all="ignore"):  # what is infinite, or no number, is the caller's to notice
        parts = gain / np.abs(dual)
    parts[gain <= 0.0] = 0.0
    return float(parts.max())


def threshold(stats: NDArray[np.float64]) -> float:
    """Return the projected gradient from which rows may be shrunk; infinite if none is violated."""
    largest = max(stats[kernels.PG_MAX], -stats[kernels.PG_MIN])
    return float(largest) if largest > 0.0 else np.inf
