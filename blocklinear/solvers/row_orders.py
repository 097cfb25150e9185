"""In which order rows are worked on: pure functions of the seed (Hsieh, 3.1; Yu, 5.2)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from blocklinear.kernels import orders

BLOCKS, _ROWS, _DRAWS, _SCHEDULE, _ACTIVE, _TURNS = 1, 2, 3, 4, 5, 6


def key(*words: int) -> NDArray[np.uint64]:
    """Return what a permutation follows from: the seed, what is permuted, and where, uint64[n]."""
    return np.array(words, np.uint64)


def row_order(
    seed: int, outer: int, epoch: int, blocks: Sequence[int], out: NDArray[np.int64]
) -> None:
    """Write the order in which the rows of a group are worked on, int64[n_rows].

    It depends on the seed, the outer iteration, the epoch (from 0) and the blocks of the group.
    """
    orders.permutation(key(seed, _ROWS, outer, epoch, *blocks), out)


def drawn_rows(
    seed: int, outer: int, epoch: int, blocks: Sequence[int], out: NDArray[np.int64]
) -> None:
    """Write rows drawn with replacement, int64[n_rows] (Hsieh, Algorithm 2)."""
    orders.draws(key(seed, _DRAWS, outer, epoch, *blocks), out)


def row_schedule(
    seed: int,
    outer: int,
    epoch: int,
    blocks: Sequence[int],
    preference: NDArray[np.float32],
    out: NDArray[np.int64],
) -> None:
    """Write rows in numbers that follow float32[n_rows] log preferences (AVSF, Algorithm 4)."""
    orders.schedule(key(seed, _SCHEDULE, outer, epoch, *blocks), preference, out)


def pass_order(seed: int, outer: int, epoch: int, number: int, n: int) -> NDArray[np.int64]:
    """Return the order of `n` rows in a pass over the working set."""
    order = np.empty(n, np.int64)
    orders.permutation(key(seed, _ACTIVE, outer, epoch, number), order)
    return order


def turns(seed: int, outer: int, number: int) -> NDArray[np.uint64]:
    """Return the key of the turns that rows have in a pass over the working set."""
    return key(seed, _TURNS, outer, number)


def parts_of_passes(total: int, number: int, steps: int) -> list[tuple[int, float, float]]:
    """Return what follows one of equal block steps: passes, and from where to where in each."""
    found = []
    for k in range(number * total // steps, -(-(number + 1) * total // steps)):
        first = max(number * total / steps - k, 0.0)
        last = min((number + 1) * total / steps - k, 1.0)
        found.append((k, first, last))
    return found
