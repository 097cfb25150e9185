"""Rows as kernels take them: those of a group, or some of them, or rows copied out of groups."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from blocklinear.store.groups import Group
from blocklinear.store.manifest import Manifest

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class RowView:
    """Some rows of a store.

    Attributes
    ----------
    positions : int64[n]      in the store, block after block
    starts, stops : int64[n]  where the entries of a row are in `indices` and `values`
    sq_norm, labels : float64[n]
    indices : uint32[]
    values : float64[] or float32[]
    weights : float64[n] or None
    """

    positions: NDArray[np.int64]
    starts: NDArray[np.int64]
    stops: NDArray[np.int64]
    sq_norm: Floats
    labels: Floats
    indices: NDArray[np.uint32]
    values: NDArray[np.floating]
    weights: Floats | None = None

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Entries of each row, int64[n]."""
        return self.stops - self.starts

    def some(self, which: NDArray[np.bool_] | NDArray[np.int64] | slice) -> "RowView":
        """Return some of the rows."""
        weights = None if self.weights is None else self.weights[which]
        return RowView(
            self.positions[which], self.starts[which], self.stops[which], self.sq_norm[which],
            self.labels[which], self.indices, self.values, weights,
        )  # fmt: skip


def first_positions(manifest: Manifest) -> NDArray[np.int64]:
    """Return the position in the store of the first row of each block, and the number of rows."""
    rows = [block.rows for block in manifest.blocks]
    return np.concatenate(([0], np.cumsum(rows))).astype(np.int64)


def rows_of(group: Group, first: NDArray[np.int64]) -> RowView:
    """Return all rows of a group, `first` being the `first_positions` of the store."""
    blocks = [np.arange(first[b], first[b + 1]) for b in group.blocks]
    return RowView(
        np.concatenate(blocks), group.indptr[:-1], group.indptr[1:], group.sq_norm, group.labels,
        group.indices, group.values, group.weights,
    )  # fmt: skip
