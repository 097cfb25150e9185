"""alpha on disk: memory-mapped, never changed in place.

Each block has two slots, one in each of two files. An outer iteration reads a block's alpha from
the current file and writes the new one to the other; `commit` makes that the current one. So the
alpha that belongs to the w of the last finished outer iteration stays whole meanwhile.
"""

import mmap
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from blocklinear.errors import storage_errors
from blocklinear.store.manifest import Manifest


class Duals:
    """The dual variables of one model for every row of a store, zero at first.

    Parameters
    ----------
    folder : Path
        Where the two files ``alpha.0`` and ``alpha.1`` are made, 8 bytes a row each.
    manifest : Manifest
        Says how many rows each block has.

    Raises
    ------
    StorageError
        If there is no space: it is allocated here, so that writing to the map cannot fail.
    """

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        rows = [block.rows for block in manifest.blocks]
        self._starts = np.concatenate(([0], np.cumsum(rows))).astype(np.int64)
        self._slots = [_allocate(folder / f"alpha.{k}", manifest.n_rows) for k in (0, 1)]
        self._current = 0

    def _slices(self, blocks: Sequence[int]) -> list[slice]:
        return [slice(int(self._starts[b]), int(self._starts[b + 1])) for b in blocks]

    def read(self, blocks: Sequence[int]) -> NDArray[np.float64]:
        """Return a private copy of the alpha of a group's rows, float64[n_rows]."""
        slot = self._slots[self._current]
        return np.concatenate([slot[part] for part in self._slices(blocks)])

    def write(self, blocks: Sequence[int], alpha: NDArray[np.float64]) -> None:
        """Write the new alpha of a group's rows; `commit` makes it count."""
        slot, start = self._slots[1 - self._current], 0
        for part in self._slices(blocks):
            length = part.stop - part.start
            slot[part] = alpha[start : start + length]
            start += length

    def commit(self) -> None:
        """Make what was written since the last commit, for every block, the current alpha."""
        self._current = 1 - self._current


def _allocate(path: Path, n_rows: int) -> NDArray[np.float64]:
    """Return a zeroed float64[n_rows] mapped from a new file at `path`."""
    n_bytes = max(8 * n_rows, 1)
    with storage_errors(path, "allocate"):
        path.unlink(missing_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            os.posix_fallocate(descriptor, 0, n_bytes)
            mapped = mmap.mmap(descriptor, n_bytes)
        finally:
            os.close(descriptor)
    return np.frombuffer(mapped, np.float64, n_rows)
