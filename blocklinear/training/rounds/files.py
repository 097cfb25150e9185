"""Alpha between two rounds: what it was and what each part made of it, in files of the run.

A part writes one file a round; the alpha that a run starts warm from is there likewise, as that of
a round before the first. Which step along the change is taken is known only when all parts have
ended: readers take it. So nothing has to be written twice, and a part that is worked on again, on
another worker, writes the same bits.

A file has int64 numbers: a mark, the round, the number of the part, its blocks, the columns of
alpha; then of each block its rows and the CRC-32 of its alpha before and after; then the CRC-32 of
all these. The alpha of each block follows, before and after, float64[rows, columns] each.
"""

import re
import time
import zlib
from collections.abc import Callable, Sequence
from io import BufferedIOBase, BufferedReader, FileIO
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from blocklinear.errors import DamagedError, storage_errors
from blocklinear.store.files import atomic_write, opened

Floats = NDArray[np.float64]
T = TypeVar("T")
_MARK = int.from_bytes(b"BLalpha1", "little")
_HEAD, _OF_BLOCK = 5, 3
_NAME = re.compile(r"alpha\.(\d+)\.\d+$")
SHOWS_UP_S = 10.0
"""Seconds after which a file that another machine wrote is visible on a shared file system."""


def once_there(read: Callable[[], T], missing: type[Exception]) -> T:
    """Return what was written, maybe on another machine a moment ago.

    Parameters
    ----------
    read : callable
        Returns it; called again, for a while, if it raises an error of type `missing`.
    """
    until = time.monotonic() + SHOWS_UP_S
    while True:
        late = time.monotonic() > until
        try:
            return read()
        except missing:
            if late:
                raise
            time.sleep(0.1)


def opened_late(path: Path) -> FileIO:
    """Open a file that may have been written on another machine a moment ago.

    Raises
    ------
    DamagedError
        If it is no regular file.
    OSError
    """
    return once_there(lambda: opened(path), FileNotFoundError)


class AlphaFiles:
    """The files of alpha in a run's folder.

    Parameters
    ----------
    columns : int
        Of alpha.
    """

    def __init__(self, folder: Path, columns: int) -> None:
        self._folder, self._columns = folder, columns

    def _path(self, outer: int, number: int) -> Path:
        return self._folder / f"alpha.{outer}.{number}"

    def write(
        self, outer: int, number: int, sizes: Sequence[int], before: Floats, after: Floats
    ) -> None:
        """Write what a part made of alpha, float64[n_rows, columns] both, in a round.

        Parameters
        ----------
        sizes : sequence of int
            Rows of each of its blocks, which lie one after another.
        """
        stops = np.cumsum(sizes).tolist()
        parts = [slice(stop - size, stop) for size, stop in zip(sizes, stops, strict=True)]
        head = [_MARK, outer, number, len(sizes), self._columns]
        for size, part in zip(sizes, parts, strict=True):
            head += [size, _crc(before[part]), _crc(after[part])]
        table = np.array(head, np.int64)
        with atomic_write(self._path(outer, number)) as stream:
            stream.write(table.data)
            stream.write(np.array([_crc(table)], np.int64).data)
            for part in parts:
                stream.write(before[part].data)
                stream.write(after[part].data)

    def read(
        self, outer: int, number: int, sizes: Sequence[int], places: Sequence[int]
    ) -> list[tuple[Floats, Floats]]:
        """Return alpha before and after a round of some blocks of a part.

        Parameters
        ----------
        sizes : sequence of int
            Rows of each block of the part.
        places : sequence of int
            Of the blocks asked for, among those of the part.

        Raises
        ------
        DamagedError
            If the file is not what was written, or does not show up.
        StorageError
        """
        path = self._path(outer, number)
        with storage_errors(path, "read"), BufferedReader(opened_late(path)) as stream:
            table = self._table(stream, path, outer, number, sizes)
            starts = np.concatenate(([0], np.cumsum(sizes))) * 16 * self._columns
            begin, found = 8 * (len(table) + 1), []
            for place in places:
                stream.seek(begin + int(starts[place]))
                raw = _exactly(stream, 16 * sizes[place] * self._columns, path)
                before, after = np.frombuffer(raw).reshape(2, sizes[place], self._columns)
                crcs = table[_HEAD + _OF_BLOCK * place :][1:3].tolist()
                if [_crc(before), _crc(after)] != crcs:
                    raise damaged(path, "a checksum is wrong")
                found.append((before, after))
            return found

    def _table(
        self, stream: BufferedIOBase, path: Path, outer: int, number: int, sizes: Sequence[int]
    ) -> NDArray[np.int64]:
        """Return the numbers at the beginning of a file, which are those of this part."""
        length = _HEAD + _OF_BLOCK * len(sizes)
        raw = np.frombuffer(_exactly(stream, 8 * (length + 1), path), np.int64)
        table, expected = raw[:-1], [_MARK, outer, number, len(sizes), self._columns]
        if _crc(table) != raw[-1] or table[:_HEAD].tolist() != expected:
            raise damaged(path, "it is not of this part of this round")
        if table[_HEAD::_OF_BLOCK].tolist() != list(sizes):
            raise damaged(path, "it is of other blocks")
        return table


def files_of_rounds(folder: Path) -> dict[Path, int]:
    """Return the files of alpha in the folder of a run, and of which round each is."""
    matches = ((path, _NAME.match(path.name)) for path in folder.glob("alpha.*.*"))
    return {path: int(found[1]) for path, found in matches if found}


def _crc(array: NDArray[Any]) -> int:
    """Return the CRC-32 of an array in C order."""
    return zlib.crc32(array.data)


def _exactly(stream: BufferedIOBase, n_bytes: int, path: Path) -> bytearray:
    """Return so many bytes of a file, writable."""
    raw = bytearray(n_bytes)
    if stream.readinto(raw) < n_bytes:
        raise damaged(path, "it ends early")
    return raw


def damaged(path: Path, why: str) -> DamagedError:
    """Return the error that says what is wrong with a file of a run."""
    return DamagedError(f"{path}: {why}", "train with --restart, which starts the run anew")
