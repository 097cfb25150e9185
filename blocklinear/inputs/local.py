"""A file of this machine, a pipe or standard input."""

import os
import select
import stat
import sys

from blocklinear.errors import StorageError, UsageError, storage_errors

_POLL_MS = 100  # between looks at whether reading was stopped


class LocalFile:
    """The bytes of a file or stream, in order.

    StorageError is raised if it cannot be opened, or is a folder; UsageError if standard input is a
    terminal.

    Parameters
    ----------
    path : str                ``-`` is standard input
    start, stop : int         the bytes of a file to read; a `stop` of None is its end

    Attributes
    ----------
    name : str                in messages
    size : int or None        None for a stream
    mtime_ns : int or None    None for a stream
    version : tuple           what changes when the file does
    memory_bytes : int        what reading takes in memory
    """

    memory_bytes = 0

    def __init__(self, path: str, start: int = 0, stop: int | None = None) -> None:
        self.name, self._path = path, None if path == "-" else os.path.abspath(path)
        self._stopped = False
        with storage_errors(path, "open"):
            if path == "-":
                if sys.stdin is None or sys.stdin.isatty():
                    what = "closed" if sys.stdin is None else "a terminal"
                    fix = "pipe the data in: `cat FILE | blocklinear ...`"
                    raise UsageError(f"standard input is {what}", fix)
                self._descriptor = os.dup(sys.stdin.fileno())
            else:
                self._descriptor = os.open(path, os.O_RDONLY)
            self._stat = os.fstat(self._descriptor)
            if stat.S_ISDIR(self._stat.st_mode):
                self.close()
                raise StorageError(f"{path}: is a folder", "name a file of text")
        regular = stat.S_ISREG(self._stat.st_mode)
        self.size = self._stat.st_size if regular else None
        self.mtime_ns = self._stat.st_mtime_ns if regular else None
        self.version: tuple[object, ...] = (self.size, self.mtime_ns)
        self._left = None if stop is None else stop - start
        if start:
            os.lseek(self._descriptor, start, os.SEEK_SET)

    def readinto(self, buffer: memoryview) -> int:
        """Fill `buffer` from the front; return the number of bytes, 0 at the end."""
        with storage_errors(self.name, "read"):
            if self.size is None:
                self._await_data()
            if self._left is None:
                return os.readv(self._descriptor, [buffer])
            n = os.readv(self._descriptor, [buffer[: self._left]]) if self._left else 0
            self._left -= n
            return n

    def _await_data(self) -> None:
        """Wait until a pipe has something, but not past `stop`: its writer may never write."""
        waiting = select.poll()  # `select` takes no descriptor above 1023
        waiting.register(self._descriptor, select.POLLIN)
        while not self._stopped and not waiting.poll(_POLL_MS):
            pass
        if self._stopped:
            raise StorageError(f"{self.name}: reading was stopped")

    def stop(self) -> None:
        """Make a `readinto` that waits in another thread give up."""
        self._stopped = True

    def refuse_change(self) -> None:
        """Raise StorageError if a file has changed since it was opened, or been replaced."""
        with storage_errors(self.name, "close"):
            now = os.fstat(self._descriptor)
        before = (self._stat.st_size, self._stat.st_mtime_ns)
        changed = (now.st_size, now.st_mtime_ns) != before or self._is_replaced()
        if self.size is not None and changed:
            raise StorageError(f"{self.name}: the file changed while it was read", "read it again")

    def _is_replaced(self) -> bool:
        """Say whether another file has the name now; it does not matter if none has."""
        if self._path is None:
            return False
        try:
            now = os.stat(self._path)
        except OSError:
            return False
        return (now.st_dev, now.st_ino) != (self._stat.st_dev, self._stat.st_ino)

    def close(self) -> None:
        """Close, if it is still open."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            with storage_errors(self.name, "close"):
                os.close(descriptor)
