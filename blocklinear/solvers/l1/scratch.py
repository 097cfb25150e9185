"""Arrays that grow in scratch files, where memory does not hold them."""

import mmap
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from blocklinear.errors import storage_errors
from blocklinear.store.files import created, write_all


class ScratchArray:
    """An array that is appended to on disk, and mapped to be read.

    The file has no name, so nothing of it is left, however the process ends.

    Parameters
    ----------
    path : Path
        The name that the file has for a moment; tells which disk, and what failed.
    dtype : numpy type

    Attributes
    ----------
    all : array               what was appended

    Raises
    ------
    StorageError
        Also by `append`, if there is no space: reading the map cannot fail then.
    """

    def __init__(self, path: Path, dtype: DTypeLike) -> None:
        self._path = path
        with storage_errors(path, "write"):
            self._stream = created(path)
            path.unlink()
        self._map: mmap.mmap | None = None
        self.all: NDArray[Any] = np.zeros(0, dtype)

    def append(self, numbers: NDArray[Any]) -> None:
        """Append numbers of the type of the array."""
        if not len(numbers):
            return
        size = len(self.all) + len(numbers)
        with storage_errors(self._path, "write"):
            write_all(self._stream, numbers.data.cast("B"))
            # as if it could be written to, as kernels know no other arrays
            length = size * self.all.itemsize
            self._map = mmap.mmap(self._stream.fileno(), length, access=mmap.ACCESS_COPY)
        self.all = np.frombuffer(self._map, self.all.dtype, size)

    def release(self) -> None:
        """Take out of memory what was read; the system may still keep it, if there is room."""
        if self._map is not None:
            self._map.madvise(mmap.MADV_DONTNEED)

    def close(self) -> None:
        """Give up the file."""
        self._stream.close()
