"""Rows that are still moving: kept in memory and swept again between visits.

Near the optimum few rows decide: most alpha rest at a bound. Where loading is dear, those that move
are worth more sweeps than the rest (selective block minimization, Chang and Roth, KDD 2011; dual
cached loops, Matsushima et al., KDD 2012). A row is active when its last step in a visit changed
its alpha and left it strictly inside its bounds.
"""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from blocklinear.kernels.gather import gather_rows
from blocklinear.store.groups import Group
from blocklinear.store.manifest import Manifest

Floats = NDArray[np.float64]
ROW_BYTES = 96
"""What an active row takes beside its entries: its numbers here, and while it is swept."""


@dataclass(frozen=True)
class Rows:
    """Some rows of a store, in the order of the store.

    Attributes
    ----------
    positions : int64[n]      in the store
    starts, stops : int64[n]  where the entries of a row are in `indices` and `values`
    sq_norm, labels : float64[n]
    indices : uint32[]
    values : float64[] or float32[]
    weights : float64[n] or None
    """

    positions: NDArray[np.int64]
    starts: NDArray[np.int64]
    stops: NDArray[np.int64]
    sq_norm: NDArray[np.float64]
    labels: NDArray[np.float64]
    indices: NDArray[np.uint32]
    values: NDArray[np.floating]
    weights: NDArray[np.float64] | None = None

    @classmethod
    def made_of(
        cls, numbers: Floats, indices: NDArray[np.uint32], values: NDArray[np.floating]
    ) -> "Rows":
        """Return rows of their numbers, float64[5 or 6, n] in the order above, and entries."""
        positions, starts, stops = (line.astype(np.int64) for line in numbers[:3])
        weights = numbers[5] if len(numbers) > 5 else None
        return cls(positions, starts, stops, numbers[3], numbers[4], indices, values, weights)

    def some(self, which: NDArray[np.bool_] | NDArray[np.int64]) -> "Rows":
        """Return some of the rows."""
        weights = None if self.weights is None else self.weights[which]
        return Rows(
            self.positions[which], self.starts[which], self.stops[which], self.sq_norm[which],
            self.labels[which], self.indices, self.values, weights,
        )  # fmt: skip


def whole_group(group: Group) -> Rows:
    """Return all rows of a group, by their positions in it."""
    return Rows(
        np.arange(group.n_rows), group.indptr[:-1], group.indptr[1:], group.sq_norm, group.labels,
        group.indices, group.values, group.weights,
    )  # fmt: skip


def fitting(lengths: NDArray[np.int64], worth: Floats, room: float) -> NDArray[np.int64]:
    """Return which rows fit into room for so many entries, those worth most an entry; ascending."""
    if lengths.sum() <= room:
        return np.arange(len(lengths))
    best = np.argsort(-worth / np.maximum(lengths, 1), kind="stable")
    return np.sort(best[np.cumsum(lengths[best]) <= room])


class ActiveRows:
    """Active rows copied out of the groups that pass.

    Every block has a region of its own, in proportion to its entries; what does not fit there is
    left out, the rows that are worth least first. So what is kept never depends on other blocks.

    Parameters
    ----------
    manifest : Manifest
    capacity : int
        Entries kept at most.
    """

    def __init__(self, manifest: Manifest, capacity: int) -> None:
        self._sizes = np.array([block.nnz for block in manifest.blocks], np.float64)
        self._capacity = capacity
        self._bounds = self._regions(self._sizes * capacity / max(self._sizes.sum(), 1.0))
        rows = [block.rows for block in manifest.blocks]
        self._starts = np.concatenate(([0], np.cumsum(rows))).astype(np.int64)
        self._indices = np.empty(capacity, np.uint32)
        self._values = np.empty(capacity, manifest.dtype)
        self._kept = [np.zeros((5 + manifest.weighted, 0))] * len(manifest.blocks)

    @staticmethod
    def _regions(entries: Floats) -> NDArray[np.int64]:
        return np.concatenate(([0], np.cumsum(np.floor(entries)))).astype(np.int64)

    def hold(self, blocks: Collection[int]) -> bool:
        """Make room for all rows of some blocks, while none are kept; say whether there is.

        They may have half of all room at most.
        """
        held = np.isin(np.arange(len(self._sizes)), list(blocks))
        taken, others = self._sizes[held].sum(), self._sizes[~held].sum()
        if not 0.0 < taken <= 0.5 * self._capacity:
            return False
        shares = self._sizes * ((self._capacity - taken) / max(others, 1.0))
        self._bounds = self._regions(np.where(held, self._sizes, np.minimum(shares, self._sizes)))
        return True

    def replace(self, group: Group, chosen: NDArray[np.int64], worth: Floats) -> NDArray[np.int64]:
        """Make the rows `chosen` of a group the active ones of its blocks; return those kept.

        Parameters
        ----------
        group : Group
        chosen : int64[k]     rows of the group, ascending
        worth : float64[k]    which to prefer where there is no room for all
        """
        cuts = np.searchsorted(chosen, group.starts)
        rows, kept = whole_group(group).some(chosen), []
        for place, block in enumerate(group.blocks):
            part = np.arange(cuts[place], cuts[place + 1])
            lines = chosen[part] - group.starts[place]
            kept.append(chosen[part[self.put(block, lines, rows.some(part), worth[part])]])
        return np.concatenate(kept)

    def put(
        self, block: int, lines: NDArray[np.int64], rows: Rows, worth: Floats
    ) -> NDArray[np.int64]:
        """Make rows the active ones of a block; return which were kept, ascending.

        Parameters
        ----------
        block : int           its position in the manifest
        lines : int64[k]      where the rows are in it, ascending
        rows : Rows           their entries; their positions do not matter
        worth : float64[k]    as for `replace`
        """
        begin, end = int(self._bounds[block]), int(self._bounds[block + 1])
        kept = fitting(rows.stops - rows.starts, worth, end - begin)
        rows = rows.some(kept)
        starts, stops = np.empty(len(kept), np.int64), np.empty(len(kept), np.int64)
        gather_rows(
            rows.starts, rows.stops, rows.indices, rows.values, begin, self._indices,
            self._values, starts, stops,
        )  # fmt: skip
        numbers = [lines[kept] + self._starts[block], starts, stops, rows.sq_norm, rows.labels]
        if rows.weights is not None:
            numbers.append(rows.weights)
        self._kept[block] = np.stack([np.asarray(x, np.float64) for x in numbers])
        return kept

    def rows(self) -> Rows | None:
        """Return all active rows, None if there are none."""
        numbers = np.concatenate(self._kept, axis=1)
        if not numbers.shape[1]:
            return None
        return Rows.made_of(numbers, self._indices, self._values)
