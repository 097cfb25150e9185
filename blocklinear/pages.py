"""Memory in whole pages from the system, and how many bytes may be held."""

import mmap
import sys
import threading
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

_LINUX_NORESERVE = 0x4000
"""MAP_NORESERVE, which Python does not name before 3.13."""
_LARGE_BYTES = 4 << 20


class Pages:
    """Memory straight from the system, which takes pages only when they are written to.

    OSError is raised if the system does not give so many addresses.

    Parameters
    ----------
    sparse : bool             most of them will never be written to: the system is not to reserve
                              memory for them
    large : bool              read at random places: large pages are asked for, whose addresses are
                              found faster

    Attributes
    ----------
    array : uint8[n_bytes]    zeros at first
    """

    def __init__(self, n_bytes: int, sparse: bool = False, large: bool = False) -> None:
        private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        if sparse and sys.platform == "linux":
            private |= _LINUX_NORESERVE
        self._map = mmap.mmap(-1, max(n_bytes, 1), flags=private)
        if sparse:  # else a byte that is written to may take 2 MiB
            self._advise("MADV_NOHUGEPAGE")
        elif large and n_bytes >= _LARGE_BYTES:
            self._advise("MADV_HUGEPAGE")
        self.array: NDArray[np.uint8] = np.frombuffer(self._map, np.uint8, n_bytes)

    def _advise(self, advice: str) -> None:
        with suppress(AttributeError, OSError):  # the system has no large pages
            self._map.madvise(getattr(mmap, advice))

    def discard(self) -> None:
        """Give the pages back, whoever still refers to them: all bytes are zero from now on."""
        self._map.madvise(mmap.MADV_DONTNEED)


def give_back(numbers: NDArray[Any]) -> None:
    """Give back the pages within an array, one number after the other, of memory from `Pages`.

    Whoever refers to it, its numbers are lost.
    """
    whole = numbers
    while isinstance(whole.base, np.ndarray):
        whole = whole.base
    memory, start = getattr(whole.base, "obj", None), numbers.ctypes.data - whole.ctypes.data
    first, last = -(-start // mmap.PAGESIZE), (start + numbers.nbytes) // mmap.PAGESIZE
    if first < last and isinstance(memory, mmap.mmap):
        memory.madvise(mmap.MADV_DONTNEED, first * mmap.PAGESIZE, (last - first) * mmap.PAGESIZE)


class ByteBudget:
    """How many bytes may be held at a time; one thread asks, and any thread gives back.

    What is asked for alone is always granted, so whoever asks for more than there is waits until
    nothing else is held.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity, self._held, self._closed = capacity, 0, False
        self._changed = threading.Condition()

    def acquire(self, n_bytes: int, instead_of: int = 0) -> int:
        """Wait until so many bytes may be held, in place of some that are; return them."""
        with self._changed:
            self._held -= instead_of
            self._changed.wait_for(
                lambda: self._closed or not self._held or self._held + n_bytes <= self._capacity
            )
            self._held += n_bytes
        return n_bytes

    def release(self, n_bytes: int) -> None:
        """Give back bytes that were acquired."""
        with self._changed:
            self._held -= n_bytes
            self._changed.notify_all()

    def close(self) -> None:
        """Let everyone through: the bytes are not counted any more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
