"""Rows between the machines that read them and those that write their blocks: files of pieces.

Whoever reads a range of the input draws the slot of each row, which block of those that are open
at a time it goes to. It writes the rows in pieces, each of consecutive rows of one slot, to one
file. Who writes a block reads its pieces of all ranges, in order.

These are the files of range k, in the folder ``shuffle`` of the store that is being made. They are
not synced: if the machine of one of them dies, the command starts again::

    r<k>.rows         the pieces: of each its row numbers, entries per row, labels (mantissas, then
                      exponents), indices, values (mantissas in as few bytes as the widest takes,
                      then exponents, unless all are the same)
    r<k>.entries      uint32 entries of each row, in the order of the input
    r<k>.features     uint32 index of each feature, in order of appearance: in pieces, indices are
                      places in this list. Not there where features are not renumbered
    r<k>.numbers      uint32 number of each of these in the store, plus 1; written when all ranges
                      before are known
"""

from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklinear.errors import StorageError, storage_errors
from blocklinear.ingest.arena import Arena, draw_blocks
from blocklinear.ingest.writer import ROWS_AT_A_TIME, chunk_of_row, some_rows
from blocklinear.store.codec import Chunk
from blocklinear.store.files import write_all
from blocklinear.text import Rows
from blocklinear.text.rows import ParseBuffers
from blocklinear.training.rounds.files import opened_late

FOLDER = "shuffle"
SLOT, ROWS, ENTRIES, OFFSET, WIDTH, EXPONENT = range(6)
"""Columns of a list of pieces, int64[n_pieces, 6]: bytes of a mantissa, and the exponent of all
values, or `_SEVERAL`."""
_SEVERAL = -1
_WIDTHS = (np.int8, np.int16, np.int32, np.int64)
Indices = NDArray[np.uint32]


def path_of(folder: Path, number: int, what: str) -> Path:
    """Return the path of a file of range `number`."""
    return folder / f"r{number:08d}.{what}"


class PieceWriter:
    """Writes rows to pieces.

    Parameters
    ----------
    entries : int             most entries of a piece, but for one of a longer row
    first_row : int           number of the first row
    """

    def __init__(self, stream: FileIO, seed: int, slots: int, entries: int, first_row: int) -> None:
        self._stream, self._seed, self._slots = stream, seed, slots
        self._arena = Arena(slots, 1, entries)
        self._next_row, self._offset = first_row, 0
        self._pieces: list[tuple[int, ...]] = []

    def append(self, rows: Rows) -> None:
        """Take in the next rows; they are used up.

        Raises OSError.
        """
        for start in range(0, rows.n_rows, ROWS_AT_A_TIME):
            self._append(some_rows(rows, start, min(start + ROWS_AT_A_TIME, rows.n_rows)))

    def _append(self, rows: Rows) -> None:
        slot = draw_blocks(self._seed, self._next_row, rows.n_rows, self._slots)
        start = 0
        while start < rows.n_rows:
            start = self._arena.append(rows, self._next_row, slot, start, rows.n_rows)
            if start == rows.n_rows:
                break
            b = int(slot[start])
            self._flush(b)
            if rows.indptr[start + 1] - rows.indptr[start] > self._arena.entries:
                self._write(b, chunk_of_row(rows, start, self._next_row + start))
                start += 1
        self._next_row += rows.n_rows

    def finish(self) -> NDArray[np.int64]:
        """Write what is left; return the list of pieces.

        Raises OSError.
        """
        for b in range(self._slots):
            self._flush(b)
        return np.array(self._pieces, np.int64).reshape(-1, 6)

    def _flush(self, b: int) -> None:
        gathered = self._arena.take(b)
        if gathered is not None:
            self._write(b, gathered[1])
            self._arena.give_back(gathered[0])

    def _write(self, b: int, chunk: Chunk) -> None:
        mantissa, exponent = _narrow(chunk.mantissa), _SEVERAL
        if len(chunk.exponent) and (chunk.exponent == chunk.exponent[0]).all():
            exponent = int(chunk.exponent[0])
        n_rows, nnz = len(chunk.row_numbers), len(chunk.indices)
        self._pieces.append((b, n_rows, nnz, self._offset, mantissa.itemsize, exponent))
        columns: list[NDArray[Any]] = [
            chunk.row_numbers, chunk.lengths, chunk.label_mantissa, chunk.label_exponent,
            chunk.indices, mantissa,
        ]  # fmt: skip
        for column in columns + [chunk.exponent] * (exponent == _SEVERAL):
            data = bytes_of(np.ascontiguousarray(column))
            write_all(self._stream, data)
            self._offset += len(data)


def _narrow(numbers: NDArray[np.int64]) -> NDArray[Any]:
    """Return numbers in the narrowest type that holds all of them."""
    least, most = (int(numbers.min()), int(numbers.max())) if len(numbers) else (0, 0)
    limits = ((kind, np.iinfo(kind)) for kind in _WIDTHS)
    kind = next(kind for kind, limit in limits if limit.min <= least and most <= limit.max)
    return numbers.astype(kind, copy=False)


class PieceReader:
    """Reads pieces of ranges into memory that is used again."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._buffers = folder, ParseBuffers()
        self._numbers, self._narrow = np.empty(0, np.int64), np.empty(0, np.uint8)

    def read(
        self, number: int, pieces: NDArray[np.int64]
    ) -> Iterator[tuple[NDArray[np.int64], Rows]]:
        """Yield the numbers of rows, and rows, of pieces of a range: valid until the next.

        StorageError is raised if the file is gone, or too short.
        """
        path = path_of(self._folder, number, "rows")
        with storage_errors(path, "read"), opened_late(path) as stream:
            for _, n_rows, nnz, offset, width, exponent in pieces.tolist():
                if len(self._numbers) < n_rows:
                    self._numbers = np.empty(2 * n_rows, np.int64)
                numbers = self._numbers[:n_rows]
                indptr, indices, values, labels = self._buffers.take(n_rows, nnz)
                stream.seek(offset)
                for column in (numbers, indptr[1:], labels.mantissa, labels.exponent, indices):
                    _fill(stream, column, path)
                if len(self._narrow) < width * nnz:
                    self._narrow = np.empty(2 * width * nnz, np.uint8)
                narrow = self._narrow[: width * nnz]
                _fill(stream, narrow, path)
                values.mantissa[:] = narrow.view(f"i{width}")
                if exponent == _SEVERAL:
                    _fill(stream, values.exponent, path)
                else:
                    values.exponent[:] = exponent
                indptr[0] = 0
                np.cumsum(indptr[1:], out=indptr[1:])
                yield numbers, Rows(indptr, indices, values, labels, -1)


def read_column(folder: Path, number: int, what: str, n: int) -> Indices:
    """Return a file of range `number` that holds `n` uint32 numbers.

    StorageError is raised if the file is gone, or too short.
    """
    path, column = path_of(folder, number, what), np.empty(n, np.uint32)
    with storage_errors(path, "read"), opened_late(path) as stream:
        _fill(stream, column, path)
    return column


def bytes_of(column: NDArray[Any]) -> memoryview:
    """Return the memory of a column, also of an empty one, which a memoryview does not cast."""
    return column.data.cast("B") if len(column) else memoryview(b"")


def _fill(stream: FileIO, column: NDArray[Any], path: Path) -> None:
    view, done = bytes_of(column), 0
    while done < len(view):
        n = stream.readinto(view[done:])
        if not n:
            raise StorageError(f"{path}: ends early", "check the file system that workers share")
        done += n
