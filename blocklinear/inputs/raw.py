"""The door to all input: a path, ``-`` or a URL becomes bytes, digested as they are read."""

import hashlib
import os
from contextlib import closing
from typing import Any

import xxhash

from blocklinear.errors import StorageError
from blocklinear.inputs.ahead import ReadAhead
from blocklinear.inputs.extents import Extent
from blocklinear.inputs.local import LocalFile
from blocklinear.inputs.objects import RemoteObject
from blocklinear.inputs.urls import is_url

READ_BYTES = 1 << 20
_SLAB_BYTES = 2 << 20  # as much as a slab under usual budgets, in one piece
_AHEAD_BYTES = 40 << 20

Path = str | os.PathLike[str]


def name_of(path: Path) -> str:
    """Return the name of an input: the str ``-`` is standard input, a path ``-`` is a file."""
    name = os.fspath(path)
    return "./-" if name == "-" and not isinstance(path, str) else name


def size_of(path: Path) -> int | None:
    """Return the bytes of an input that is a file, None for a stream or what is not there.

    UsageError and StorageError are raised if a URL cannot be read.
    """
    if isinstance(path, str) and is_url(path):
        return RemoteObject(path).size
    return os.path.getsize(path) if path != "-" and os.path.isfile(path) else None


class RawFile:
    """The bytes of an input as they are stored, digested as they are read.

    StorageError is raised if the file cannot be read, or has changed when `finish` is called;
    UsageError if standard input is a terminal, or what reads URLs is not installed.

    Parameters
    ----------
    path : str                a path, a URL, or ``-`` for standard input
    sha256 : bool             take the SHA-256 too: it is ten times the work of XXH64
    ahead_bytes : int         what may be held in memory of a URL
    extent : Extent or None   which lines of the file at `path` are to be read; None is all of them

    Attributes
    ----------
    path : str                without what gives access to a URL
    size : int or None        None for a stream
    memory_bytes : int        what reading takes in memory
    bytes_read : int
    """

    def __init__(
        self,
        path: str,
        sha256: bool = False,
        ahead_bytes: int = _AHEAD_BYTES,
        extent: Extent | None = None,
    ) -> None:
        part = (0, None) if extent is None else (extent.start, extent.stop)
        self._bytes: ReadAhead | LocalFile = (
            ReadAhead(path, ahead_bytes, *part) if is_url(path) else LocalFile(path, *part)
        )
        if extent is not None:
            self._bytes.name = extent.name
            if self._bytes.version != extent.version:
                self._bytes.close()
                raise StorageError(f"{extent.name}: the file changed meanwhile", "read it again")
        self.path, self.size = self._bytes.name, self._bytes.size
        self.memory_bytes = self._bytes.memory_bytes
        self.bytes_read = 0
        self._xxh64 = xxhash.xxh64()
        self._sha256 = hashlib.sha256() if sha256 else None
        self._pushed_back = b""

    def readinto(self, buffer: memoryview) -> int:
        """Fill `buffer` from the front; return the number of bytes, 0 at the end."""
        if self._pushed_back:
            n = min(len(buffer), len(self._pushed_back))
            buffer[:n] = self._pushed_back[:n]
            self._pushed_back = self._pushed_back[n:]
            return n
        # no more than the processor's cache holds: it is digested there
        n = self._bytes.readinto(buffer[:_SLAB_BYTES])
        self._xxh64.update(buffer[:n])
        if self._sha256 is not None:
            self._sha256.update(buffer[:n])
        self.bytes_read += n
        return n

    def stop(self) -> None:
        """Make a `readinto` that waits in another thread give up."""
        self._bytes.stop()

    @property
    def position(self) -> int:
        """Offset of the byte that `read` returns next."""
        return self.bytes_read - len(self._pushed_back)

    def read(self, n: int = READ_BYTES) -> bytes:
        """Return up to `n` bytes, b"" at the end."""
        buffer = bytearray(n)
        return bytes(buffer[: self.readinto(memoryview(buffer))])

    def peek(self, n: int) -> bytes:
        """Return the next `n` bytes, fewer only at the end, without taking them."""
        head = b""
        while len(head) < n and (more := self.read(n - len(head))):
            head += more
        self._pushed_back = head + self._pushed_back
        return head

    def close(self) -> None:
        """Close, if it is still open."""
        self._bytes.close()

    def read_rest(self) -> dict[str, Any]:
        """Read what is left, for the digests; return what `finish` does."""
        buffer = memoryview(bytearray(READ_BYTES))
        while self.readinto(buffer):
            pass
        return self.finish()

    def finish(self) -> dict[str, Any]:
        """Close; return path, size, mtime_ns and digests of what was read."""
        self._bytes.refuse_change()
        self._bytes.close()
        return {
            "path": self.path,
            "size": self.bytes_read,
            "mtime_ns": self._bytes.mtime_ns,
            "xxh64": self._xxh64.hexdigest(),
            "sha256": self._sha256.hexdigest() if self._sha256 is not None else None,
        }


def digest_of(path: Path, name: str) -> str:
    """Return the digest of a file that `RawFile.finish` calls `name`."""
    with closing(RawFile(name_of(path), name == "sha256")) as raw:
        digest: str = raw.read_rest()[name]
    return digest
