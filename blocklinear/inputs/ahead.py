"""A file on a URL, read from its start to its end by several requests at a time."""

from collections import deque
from concurrent.futures import Future, wait
from threading import Thread

from blocklinear.errors import StorageError
from blocklinear.inputs.objects import LIBRARY_BYTES, RemoteObject

_REQUESTS = 4
"""Asked for at a time: with 8 MiB each and 50 ms to wait for the first byte, that is 640 MB/s."""
_MOST_PART_BYTES, _LEAST_PART_BYTES = 8 << 20, 256 << 10
_POLL_S = 0.1  # between looks at whether reading was stopped


class ReadAhead:
    """The bytes of a file on a URL, in order; what follows is asked for before it is needed.

    Parameters
    ----------
    url : str
    ahead_bytes : int
        What may be held in memory of parts that were asked for.
    start, stop : int
        The bytes to read; a `stop` of None is the end.

    Attributes
    ----------
    name : str
    size : int
    mtime_ns : None
    version : tuple           what changes when the file does
    memory_bytes : int        what reading takes in memory

    Raises
    ------
    UsageError, StorageError
        If it cannot be read.
    """

    mtime_ns = None

    def __init__(self, url: str, ahead_bytes: int, start: int = 0, stop: int | None = None) -> None:
        self._object = RemoteObject(url)
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
        self._stopped = False

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
            self._coming.append(self._ask(self._asked, n_bytes))
            self._asked += n_bytes
        if not self._coming:
            return b""
        coming = self._coming.popleft()
        while not wait([coming], _POLL_S).done:
            if self._stopped:
                raise StorageError(f"{self.name}: reading was stopped")
        return coming.result()

    def _ask(self, start: int, n_bytes: int) -> Future[bytes]:
        """Ask for a part, in a thread that a program which ends does not wait for."""
        coming: Future[bytes] = Future()

        def fetch() -> None:
            try:
                coming.set_result(self._object.read(start, n_bytes))
            except BaseException as error:
                coming.set_exception(error)

        Thread(target=fetch, name="fetch", daemon=True).start()
        return coming

    def refuse_change(self) -> None:
        """Raise StorageError if the file is not the one that was opened."""
        self._object.refuse_change()

    def stop(self) -> None:
        """Make a `readinto` that waits in another thread give up."""
        self._stopped = True
        self._object.stop()

    def close(self) -> None:
        """Ask for nothing more."""
        self._object.stop()
