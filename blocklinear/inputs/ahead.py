"""A file on a URL, read from its start to its end by several requests at a time."""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial

from blocklinear.inputs.objects import LIBRARY_BYTES, RemoteObject, begun

_REQUESTS = 4
"""Asked for at a time: with 8 MiB each and 50 ms to wait for the first byte, that is 640 MB/s."""
_MOST_PART_BYTES, _LEAST_PART_BYTES = 8 << 20, 256 << 10


class ReadAhead:
    """The bytes of a file on a URL, in order; what follows is asked for before it is needed.

    UsageError and StorageError are raised if it cannot be read, or reading was stopped.

    Parameters
    ----------
    ahead_bytes : int         what may be held in memory of parts that were asked for
    start, stop : int         the bytes to read; a `stop` of None is the end
    halt : callable           whether to give up: asked while there is no answer

    Attributes
    ----------
    name : str
    size : int
    mtime_ns : None
    version : tuple           what changes when the file does
    memory_bytes : int        what reading takes in memory
    """

    mtime_ns = None

    def __init__(
        self,
        url: str,
        ahead_bytes: int,
        start: int = 0,
        stop: int | None = None,
        halt: Callable[[], bool] = lambda: False,
    ) -> None:
        self._object = RemoteObject(url, halt)
        self.name, self.size = self._object.name, self._object.size
        self.version: tuple[object, ...] = self._object.version
        self._stop = self.size if stop is None else stop
        part_bytes = ahead_bytes // (_REQUESTS + 1)  # one more is being handed out
        self._part_bytes = min(max(part_bytes, _LEAST_PART_BYTES), _MOST_PART_BYTES)
        self.memory_bytes = LIBRARY_BYTES + (_REQUESTS + 1) * self._part_bytes
        if start or self._stop - start > self._part_bytes:
            self._object.require_parts()
        self._asked = start  # bytes
        self._coming: deque[Future[bytes]] = deque()
        self._part = memoryview(b"")

    def readinto(self, buffer: memoryview) -> int:
        """Fill `buffer` from the front; return the number of bytes, 0 at the end."""
        if not self._part:
            self._part = memoryview(self._next_part())
        n = min(len(buffer), len(self._part))
        buffer[:n] = self._part[:n]
        self._part = self._part[n:]
        return n

    def _next_part(self) -> bytes:
        while self._asked < self._stop and len(self._coming) < _REQUESTS:
            n_bytes = min(self._part_bytes, self._stop - self._asked)
            self._coming.append(begun(partial(self._object.read, self._asked, n_bytes)))
            self._asked += n_bytes
        if not self._coming:
            return b""
        return self._object.answer(self._coming.popleft())

    def refuse_change(self) -> None:
        """Raise StorageError if the file is not the one that was opened."""
        self._object.refuse_change()

    def stop(self) -> None:
        """Make a `readinto` that waits in another thread give up."""
        self._object.stop()

    def close(self) -> None:
        """Ask for nothing more."""
        self._object.stop()
