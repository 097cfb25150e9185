"""Which fold of a cross-validation each row is in: a pure function of the seed and the row."""

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from blocklinear.kernels.blocks.routing import hash_rows
from blocklinear.store.prefetch import Loaded
from blocklinear.store.row_arrays import RowArray

_SALT = np.uint64(0x5851F42D4C957F2D)


def hashes(seed: int, row_numbers: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return 64 well mixed bits for each row (the finaliser of SplitMix64, twice)."""
    out = np.empty(len(row_numbers), np.uint64)
    hash_rows(np.uint64(seed) ^ _SALT, row_numbers, out)
    return out


def assign(
    stream: Iterable[Loaded],
    folds: RowArray,
    numbers: RowArray,
    labels: RowArray,
    v: int,
    seed: int,
) -> Iterator[Loaded]:
    """Pass over all groups once; note the fold, the number and the label of each row.

    Parameters
    ----------
    stream : iterable of Loaded
        Every block once.
    folds : RowArray
        int32, written: hash(seed, row number) mod v.
    numbers, labels : RowArray
        int64 and float64, written.
    v : int
        Number of folds.
    seed : int
    """
    for loaded in stream:
        group = loaded.group
        drawn = hashes(seed, group.row_numbers) % np.uint64(v)
        folds.write(group.blocks, drawn.astype(np.int32))
        numbers.write(group.blocks, group.row_numbers)
        labels.write(group.blocks, group.labels)
        yield loaded


def one_row_a_fold(folds: RowArray, numbers: RowArray, seed: int) -> None:
    """Give every row a fold of its own, in the order of their hashes: leave one out."""
    order = np.argsort(hashes(seed, numbers.all), kind="stable")
    folds.all[order] = np.arange(len(order), dtype=np.int32)


def stratify_folds(folds: RowArray, numbers: RowArray, labels: RowArray, v: int, seed: int) -> None:
    """Deal the rows of each class to the folds in turn, in the order of their hashes.

    The folds then have as many rows of a class as each other, give or take one.
    """
    order = hashes(seed, numbers.all)
    turn = 0
    for label in np.unique(labels.all):
        rows = np.flatnonzero(labels.all == label)
        rows = rows[np.argsort(order[rows], kind="stable")]
        folds.all[rows] = (np.arange(turn, turn + len(rows)) % v).astype(np.int32)
        turn += len(rows)  # the next class begins where this one ended: folds fill evenly
