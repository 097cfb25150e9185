"""Where rows wait for their chunk to fill: one slot a block, and a few more being encoded."""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from blocklinear.kernels.blocks import routing
from blocklinear.pages import Pages
from blocklinear.store.codec import Chunk
from blocklinear.text import Rows

ENTRY_BYTES = 4 + 8 + 1
ROW_BYTES = 8 + 8 + 8 + 1
ENTRIES_PER_ROW = 8
"""A slot has room for one row per so many entries; shorter rows fill it by their number."""
SLOT_ENTRY_BYTES = ENTRY_BYTES + ROW_BYTES / ENTRIES_PER_ROW
WEIGHT_ENTRY_BYTES = 8 / ENTRIES_PER_ROW
"""What an entry takes more where rows have weights."""
_NONE = np.empty(0)


def draw_blocks(seed: int, first_row: int, n_rows: int, n_blocks: int) -> NDArray[np.int64]:
    """Draw a block for each row: hash(seed, row) mod n_blocks, int64[n_rows]."""
    hashes = np.empty(n_rows, np.uint64)
    routing.hash_rows(np.uint64(seed), np.arange(first_row, first_row + n_rows), hashes)
    hashes %= np.uint64(n_blocks)
    return hashes.view(np.int64)


class Arena:
    """Slots of equal size, all allocated at once; chunks are handed out without copying.

    Small text fills little of every slot, so memory comes in small pages, as slots are filled. In
    large ones the first rows took all of it, which the system may have to gather from small ones.

    Parameters
    ----------
    blocks : int              open blocks
    spare : int               slots that may be away, being encoded, at a time
    entries : int             room of a slot
    weighted : bool           whether rows have weights
    """

    def __init__(self, blocks: int, spare: int, entries: int, weighted: bool = False) -> None:
        n, rows = blocks + spare, max(entries // ENTRIES_PER_ROW, 1)
        self.entries, self._rows = entries, rows
        self._slots = np.arange(blocks)
        self._free = deque(range(blocks, n))
        self._fill = (np.zeros(blocks, np.int64), np.zeros(blocks, np.int64))
        self._arrays: tuple[NDArray[Any], ...] = (
            _paged(n, rows, np.int64),  # row number
            _paged(n, rows, np.int64),  # entries of the row
            _paged(n, rows, np.int64),  # label mantissa
            _paged(n, rows, np.uint8),  # label exponent
            _paged(n, entries, np.uint32),
            _paged(n, entries, np.int64),
            _paged(n, entries, np.uint8),
            _paged(n, rows if weighted else 0, np.float64),
        )
        self._weighted = weighted

    def append(
        self, rows: Rows, first_row: int, block: NDArray[np.int64], start: int, stop: int
    ) -> int:
        """Append rows start..stop-1 to their blocks until one does not fit; return its position.

        Parameters
        ----------
        first_row : int           number of row 0
        block : int64[n_rows]     block of each row
        """
        labels, decimals = rows.label_decimals, rows.decimals
        weights = rows.weights if rows.weights is not None else _NONE
        position: int = routing.scatter(
            start, stop, block, first_row, rows.indptr, rows.indices, decimals.mantissa,
            decimals.exponent, labels.mantissa, labels.exponent, weights, self._slots, *self._fill,
            *self._arrays,
        )  # fmt: skip
        return position

    def append_numbered(
        self, rows: Rows, numbers: NDArray[np.int64], b: int, start: int, stop: int
    ) -> int:
        """Append rows start..stop-1 to block `b` until one does not fit; return its position.

        Parameters
        ----------
        numbers : int64[n_rows]   of the rows
        """
        slot, filled = int(self._slots[b]), int(self._fill[0][b])
        position = self.append(rows, 0, np.full(rows.n_rows, b, np.int64), start, stop)
        self._arrays[0][slot, filled : filled + position - start] = numbers[start:position]
        return position

    def take(self, b: int) -> tuple[int, Chunk] | None:
        """Hand out what block `b` has gathered, and the slot it lies in; None if that is nothing.

        The slot must be given back; there must be a free one.
        """
        n_rows, nnz = int(self._fill[0][b]), int(self._fill[1][b])
        if n_rows == 0:
            return None
        slot = int(self._slots[b])
        sizes = (n_rows,) * 4 + (nnz,) * 3 + (n_rows,) * self._weighted
        parts = [array[slot, :n] for array, n in zip(self._arrays, sizes, strict=False)]
        self._slots[b] = self._free.popleft()
        self._fill[0][b] = self._fill[1][b] = 0
        return slot, Chunk(*parts)

    def gather(self, blocks: Sequence[int]) -> Iterator[Chunk]:
        """Take out what some blocks have gathered, as if it were one: rows in order of number.

        Chunks lie in memory of their own, and are as long as a slot allows.
        """
        columns = [array.reshape(-1) for array in self._arrays]
        places, firsts = [], []
        for b in blocks:
            slot, n_rows = int(self._slots[b]), int(self._fill[0][b])
            places.append(slot * self._rows + np.arange(n_rows))
            lengths = columns[1][places[-1]]
            firsts.append(slot * self.entries + np.cumsum(lengths) - lengths)
            self._fill[0][b] = self._fill[1][b] = 0
        place, first = np.concatenate(places), np.concatenate(firsts)
        order = np.argsort(columns[0][place])
        place, first = place[order], first[order]
        lengths = columns[1][place]
        ends, start = np.cumsum(lengths), 0
        while start < len(place):
            base = ends[start] - lengths[start]
            stop = int(np.searchsorted(ends, base + self.entries, "right"))
            part = slice(start, min(stop, start + self._rows))
            begins = ends[part] - lengths[part] - base
            entries = np.repeat(first[part] - begins, lengths[part])
            entries += np.arange(len(entries))
            where = (place[part],) * 4 + (entries,) * 3 + (place[part],) * self._weighted
            yield Chunk(*(array[at] for array, at in zip(columns, where, strict=False)))
            start = part.stop

    def give_back(self, slot: int) -> None:
        """Say that the chunk in `slot` is encoded (from any thread)."""
        self._free.append(slot)


def _paged(n: int, length: int, dtype: DTypeLike) -> NDArray[Any]:
    size = n * length * np.dtype(dtype).itemsize
    return Pages(size).array.view(dtype).reshape(n, length)
