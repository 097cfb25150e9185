"""In which order rows are worked on: pure functions of the seed (Hsieh, 3.1; Yu, 5.2)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from blocklinear.kernels import orders

BLOCKS, _ROWS, _DRAWS, _SCHEDULE, _ACTIVE, _TURNS = 1, 2, 3, 4, 5, 6


def key(*words: int) -> NDArray[np.uint64]:
    """Return what a permutation follows from: the seed, what is permuted, and where, uint64[n]."""
    return np.array(words, np.uint64)


def permuted(n: int, *words: int) -> NDArray[np.int64]:
    """Return a permutation of 0..n-1 that follows from the words of a key, int64[n]."""
    order = np.empty(n, np.int64)
    orders.permutation(key(*words), order)
    return order


def row_order(
    n: int, seed: int, outer: int, epoch: int, blocks: Sequence[int]
) -> NDArray[np.int64]:
    """Return the order in which the `n` rows of a group are worked on, int64[n].

    It depends on the seed, the outer iteration, the epoch (from 0) and the blocks of the group.
    """
    return permuted(n, seed, _ROWS, outer, epoch, *blocks)


def drawn_rows(
    n: int, seed: int, outer: int, epoch: int, blocks: Sequence[int]
) -> NDArray[np.int64]:
    """Return rows drawn with replacement, int64[n] (Hsieh, Algorithm 2)."""
    order = np.empty(n, np.int64)
    orders.draws(key(seed, _DRAWS, outer, epoch, *blocks), order)
    return order


def row_schedule(
    preference: NDArray[np.float32], seed: int, outer: int, epoch: int, blocks: Sequence[int]
) -> NDArray[np.int64]:
    """Return rows in numbers that follow float32[n] log preferences (AVSF, Algorithm 4)."""
    order = np.empty(len(preference), np.int64)
    orders.schedule(key(seed, _SCHEDULE, outer, epoch, *blocks), preference, order)
    return order


def pass_order(n: int, seed: int, outer: int, epoch: int, number: int) -> NDArray[np.int64]:
    """Return the order of `n` rows in a pass over the working set."""
    return permuted(n, seed, _ACTIVE, outer, epoch, number)


def turns(seed: int, outer: int, number: int) -> NDArray[np.uint64]:
    """Return the key of the turns that rows have in a pass over the working set."""
    return key(seed, _TURNS, outer, number)


def parts_of_passes(
    total: int, number: int, steps: int, late: int = 0
) -> list[tuple[int, float, float]]:
    """Return what follows one of equal block steps: passes, and from where to where in each.

    Of the passes as many as are to be `late` follow the last one.
    """
    found, total = [], total - late
    for k in range(number * total // steps, -(-(number + 1) * total // steps)):
        first = max(number * total / steps - k, 0.0)
        last = min((number + 1) * total / steps - k, 1.0)
        found.append((k, first, last))
    if number + 1 == steps:
        found += [(k, 0.0, 1.0) for k in range(total, total + late)]
    return found
