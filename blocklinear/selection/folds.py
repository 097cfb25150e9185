"""Which fold of a cross-validation each row is in: a pure function of the seed and the row."""

import numpy as np
from numpy.typing import NDArray

from blocklinear.kernels.blocks.routing import hash_rows
from blocklinear.store.row_arrays import RowArray

_SALT = np.uint64(0x5851F42D4C957F2D)


def hashes(seed: int, row_numbers: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return 64 well mixed bits for each row (the finaliser of SplitMix64, twice)."""
    out = np.empty(len(row_numbers), np.uint64)
    hash_rows(np.uint64(seed) ^ _SALT, row_numbers, out)
    return out


def stratify_folds(
    folds: RowArray, numbers: RowArray, labels: NDArray[np.float64], v: int, seed: int
) -> None:
    """Deal the rows of each class to `v` folds in turn, in the order of their hashes.

    The folds then have as many rows of a class as each other, give or take one.
    """
    turn = 0
    for label in np.unique(labels):
        rows = np.flatnonzero(labels == label)
        rows = rows[np.argsort(hashes(seed, numbers.all[rows]), kind="stable")]
        folds.all[rows] = (np.arange(turn, turn + len(rows)) % v).astype(np.int32)
        turn += len(rows)  # the next class begins where this one ended: folds fill evenly
