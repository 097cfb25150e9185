"""In which order blocks and rows are visited: pure functions of the seed (Yu, 5.2)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from blocklinear.kernels import orders

_BLOCKS, _ROWS = 1, 2


def _key(*words: int) -> NDArray[np.uint64]:
    return np.array(words, np.uint64)


def visits(seed: int, outer: int, n_blocks: int, group: int) -> list[tuple[int, ...]]:
    """Return the groups of an outer iteration, in order.

    Blocks are permuted anew and cut into groups of `group`; the sizes of the groups differ by at
    most one. When one group holds all blocks they stay in place: only the order of rows matters.

    Parameters
    ----------
    seed, outer : int
        The order depends on these alone; `outer` counts from 1.
    n_blocks, group : int
        Blocks in the store, and at most so many in a group.
    """
    if group >= n_blocks:
        return [tuple(range(n_blocks))]
    order = np.empty(n_blocks, np.int64)
    orders.permutation(_key(seed, _BLOCKS, outer), order)
    n_groups = -(-n_blocks // group)
    return [tuple(part.tolist()) for part in np.array_split(order, n_groups)]


def row_order(
    seed: int, outer: int, epoch: int, blocks: Sequence[int], out: NDArray[np.int64]
) -> None:
    """Write the order in which the rows of a group are visited, int64[n_rows].

    It depends on the seed, the outer iteration, the epoch (from 0) and the blocks of the group.
    """
    orders.permutation(_key(seed, _ROWS, outer, epoch, *blocks), out)
