"""Alpha between two rounds: what it was and what each part made of it, in files of the run.

A part writes one file a round; the alpha that a run starts warm from is there likewise, as that of
a round before the first. Which step along the change is taken is known only when all parts have
ended: readers take it. So nothing has to be written twice, and a part that is worked on again, on
another worker, writes the same bits.

A file has int64 numbers: a mark, the round, the number of the part, its blocks, the columns of
alpha; then of each block its rows and the CRC-32 of its alpha before and after; then the CRC-32 of
all these. The alpha of each block follows, before and after, float64[rows, columns] each.
"""

import math
import re
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BufferedIOBase, BufferedReader, FileIO
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from blocklinear.errors import DamagedError, storage_errors
from blocklinear.store.files import atomic_write, opened

Floats = NDArray[np.float64]
T = TypeVar("T")
_MARK = int.from_bytes(b"BLalpha1", "little")
_NAME = re.compile(r"alpha\.(\d+)\.\d+$")
SHOWS_UP_S = 10.0
"""Seconds after which a file that another machine wrote is visible on a shared file system."""


def once_there(read: Callable[[], T], missing: type[Exception]) -> T:
    """Return what was written, maybe on another machine a moment ago.

    What reads it is called again, for a while, if it raises an error of type `missing`.
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
    """Open a file as `opened` does, which may have been written elsewhere a moment ago."""
    return once_there(lambda: opened(path), FileNotFoundError)


@dataclass(frozen=True)
class AlphaFile:
    """What one part made of alpha in a round.

    Attributes
    ----------
    folder : Path             of the run
    round : int               the number of the round's files
    part : int
    sizes : sequence of int   rows of each block of the part, which lie one after another
    columns : int             of alpha
    """

    folder: Path
    round: int
    part: int
    sizes: Sequence[int]
    columns: int

    @property
    def _path(self) -> Path:
        return self.folder / f"alpha.{self.round}.{self.part}"

    @property
    def _head(self) -> list[int]:
        """The numbers before those of blocks."""
        return [_MARK, self.round, self.part, len(self.sizes), self.columns]

    def write(self, before: Floats, after: Floats) -> None:
        """Write alpha of all its rows, float64[n_rows, columns] both."""
        ends = np.cumsum(self.sizes)[:-1]
        blocks = list(zip(np.split(before, ends), np.split(after, ends), strict=True))
        crcs = [[len(old), _crc(old), _crc(new)] for old, new in blocks]
        table = np.concatenate((self._head, *crcs), dtype=np.int64)
        with atomic_write(self._path) as stream:
            for array in (table, np.array([_crc(table)], np.int64), *chain(*blocks)):
                stream.write(array.data)

    def read(self, places: Sequence[int]) -> list[Floats]:
        """Return alpha of some of its blocks before and after, float64[2, rows, columns] each.

        Raises
        ------
        DamagedError
            If the file is not what was written, or does not show up.
        StorageError
        """
        path, head = self._path, self._head
        with storage_errors(path, "read"), BufferedReader(opened_late(path)) as stream:
            n_numbers = len(head) + 3 * len(self.sizes) + 1
            raw = self._numbers(stream, n_numbers).view(np.int64)
            blocks = raw[len(head) : -1].reshape(-1, 3)
            if _crc(raw[:-1]) != raw[-1] or raw[: len(head)].tolist() != head:
                raise damaged(path, "it is not of this part of this round")
            if blocks[:, 0].tolist() != list(self.sizes):
                raise damaged(path, "it is of other blocks")
            starts, found = np.cumsum([0, *self.sizes]).tolist(), []
            for place in places:
                stream.seek(8 * (n_numbers + 2 * starts[place] * self.columns))
                shape = 2, self.sizes[place], self.columns
                alpha = self._numbers(stream, math.prod(shape)).reshape(shape)
                if [*map(_crc, alpha)] != blocks[place, 1:].tolist():
                    raise damaged(path, "a checksum is wrong")
                found.append(alpha)
            return found

    def _numbers(self, stream: BufferedIOBase, n: int) -> Floats:
        """Return so many of the file's numbers, writable."""
        found = np.empty(n)
        if stream.readinto(found.data.cast("B")) < found.nbytes:
            raise damaged(self._path, "it ends early")
        return found


def files_of_rounds(folder: Path) -> dict[Path, int]:
    """Return the files of alpha in the folder of a run, and of which round each is."""
    matches = ((path, _NAME.match(path.name)) for path in folder.glob("alpha.*.*"))
    return {path: int(found[1]) for path, found in matches if found}


def _crc(array: NDArray[Any]) -> int:
    """Return the CRC-32 of an array in C order."""
    return zlib.crc32(array.data)


def damaged(path: Path, why: str) -> DamagedError:
    """Return the error that says what is wrong with a file of a run."""
    return DamagedError(f"{path}: {why}", "train with --restart, which starts the run anew")
