"""Entries on their way from rows to columns, in scratch files: a bucket for a range of features."""

import os
from dataclasses import dataclass
from pathlib import Path

from blocklinear.errors import StorageError, storage_errors
from blocklinear.store.blocks import checksum_of
from blocklinear.store.files import open_regular, remove_files


@dataclass(frozen=True)
class _PieceRecord:
    """Where a piece is in the file of its bucket."""

    start: int
    size: int
    rows: int
    nnz: int
    checksum: int


class Bucket:
    """A scratch file of encoded chunks of rows; it means nothing to anyone else.

    Attributes
    ----------
    pieces : list             in the order they were added
    """

    def __init__(self, path: Path) -> None:
        self._path, self._bytes = path, 0
        self.pieces: list[_PieceRecord] = []

    def append(self, data: bytes, rows: int, nnz: int) -> None:
        """Add an encoded chunk."""
        with storage_errors(self._path, "write"):
            descriptor = open_regular(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            try:
                done = 0
                while done < len(data):
                    done += os.write(descriptor, memoryview(data)[done:])
            finally:
                os.close(descriptor)
        self.pieces.append(_PieceRecord(self._bytes, len(data), rows, nnz, checksum_of(data)))
        self._bytes += len(data)

    def read(self, piece: _PieceRecord) -> memoryview:
        """Return an encoded chunk.

        StorageError is raised if it is not what was written.
        """
        with storage_errors(self._path, "read"):
            descriptor = open_regular(self._path)
            try:
                data = bytearray(piece.size)
                filled = 0
                while filled < piece.size and (
                    n := os.preadv(descriptor, [memoryview(data)[filled:]], piece.start + filled)
                ):
                    filled += n
            finally:
                os.close(descriptor)
        if filled < piece.size or checksum_of(memoryview(data)) != piece.checksum:
            raise StorageError(
                f"{self._path}: the disk gave back other bytes than were written",
                "check the disk, and give the command again",
            )
        return memoryview(data)

    def delete(self) -> None:
        """Delete the file."""
        remove_files([self._path])
