"""One number a row that outlives a block step, such as alpha: mapped from a file."""

import mmap
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from blocklinear.errors import storage_errors
from blocklinear.store.files import new_file
from blocklinear.store.manifest import Manifest

Columns = Sequence[int] | npt.NDArray[np.int64]


class RowArray:
    """An array with a line for each row of a store, block after block, all zeros at first.

    Its file is scratch: it is worked on in place and means nothing after a crash. A checkpoint
    copies it.

    StorageError is raised if there is no space: it is allocated here, so that writing to the map
    cannot fail.

    Parameters
    ----------
    path : Path               the scratch file; what has that name is replaced
    manifest : Manifest       says how many rows each block has
    dtype : numpy type
    columns : int             numbers a row; with 0 it is there, but keeps nothing
    """

    def __init__(
        self, path: Path, manifest: Manifest, dtype: type[np.number] = np.float64, columns: int = 1
    ) -> None:
        self._path, self._manifest = path, manifest
        self._keeps = columns > 0
        flat = _allocate(path, np.dtype(dtype), manifest.n_rows * columns)
        self.all: npt.NDArray[Any] = (
            flat if columns == 1 else flat.reshape(-1, columns) if columns else flat
        )

    def _slices(self, blocks: Sequence[int]) -> list[slice]:
        starts = self._manifest.first_positions
        return [slice(int(starts[b]), int(starts[b + 1])) for b in blocks]

    def read(self, blocks: Sequence[int]) -> npt.NDArray[Any]:
        """Return a copy of the lines of a group's rows."""
        if not self._keeps:
            return self.all
        return np.concatenate([self.all[part] for part in self._slices(blocks)])

    def write(self, blocks: Sequence[int], lines: npt.NDArray[Any]) -> None:
        """Replace the lines of a group's rows; a single column may be lines of one number."""
        start, lines = 0, lines.reshape(len(lines), *self.all.shape[1:])
        for part in self._slices(blocks) if self._keeps else ():
            length = part.stop - part.start
            self.all[part] = lines[start : start + length]
            start += length

    @property
    def table(self) -> npt.NDArray[Any]:
        """All lines, also of one number: a view of `all`, of two dimensions."""
        return self.all if self.all.ndim > 1 else self.all[:, None]

    def at(self, rows: slice | npt.NDArray[np.int64], columns: Columns) -> npt.NDArray[Any]:
        """Return some columns, ascending, of the lines of rows, in C order; of a slice a view."""
        lines = self.table[rows]
        if len(columns) == lines.shape[1]:
            return lines
        some: npt.NDArray[Any] = np.take(lines, columns, axis=1)
        return some

    def read_columns(self, blocks: Sequence[int], columns: Columns) -> npt.NDArray[Any]:
        """Return a copy of some columns, ascending, of the lines of a group's rows, in C order."""
        return np.concatenate([self.at(part, columns) for part in self._slices(blocks)])

    def write_columns(
        self, blocks: Sequence[int], columns: Columns, lines: npt.NDArray[Any]
    ) -> None:
        """Replace some columns, ascending, of the lines of a group's rows."""
        table, start = self.table, 0
        if len(columns) == table.shape[1]:
            return self.write(blocks, lines)
        for part in self._slices(blocks):
            length = part.stop - part.start
            table[part, columns] = lines[start : start + length]
            start += length

    def another(self, name: str) -> "RowArray":
        """Return one of the same shape, all zeros; `name` takes the place of the first word of its.

        So ``alpha-1.work`` leads to ``center-1.work``.
        """
        _, dash, rest = self._path.stem.partition("-")
        path = self._path.with_name(name + dash + rest + self._path.suffix)
        columns = int(np.prod(self.all.shape[1:]))
        return RowArray(path, self._manifest, self.all.dtype.type, columns)

    def rename(self, path: Path) -> None:
        """Give the scratch file the place of another one."""
        self._path = self._path.replace(path)

    def discard(self) -> None:
        """Delete the scratch file."""
        self._path.unlink(missing_ok=True)


def _allocate(path: Path, dtype: np.dtype[np.number], size: int) -> npt.NDArray[Any]:
    """Return a zeroed array mapped from a new file at `path`."""
    n_bytes = max(dtype.itemsize * size, 1)
    with storage_errors(path, "allocate"), new_file(path) as stream:
        os.posix_fallocate(stream.fileno(), 0, n_bytes)
        mapped = mmap.mmap(stream.fileno(), n_bytes)
    return np.frombuffer(mapped, dtype, size)
