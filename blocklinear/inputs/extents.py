"""Whole lines of an input that are read apart from the rest, perhaps on another machine."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from blocklinear.errors import UsageError, storage_errors
from blocklinear.inputs.objects import RemoteObject
from blocklinear.inputs.urls import is_url, shown_name

_LOOK_BYTES = 64 << 10
"""Read at a time to find the end of a line."""


@dataclass(frozen=True)
class Extent:
    """Whole lines of an input, or all of it."""

    path: str  # absolute, or a URL: what every machine opens
    name: str  # as the user gave it, for messages
    version: tuple[object, ...]  # what changes when the file does
    start: int  # first byte
    stop: int  # the byte after the last
    size: int  # bytes of the whole file

    @property
    def whole(self) -> bool:
        """Whether it is all of the input."""
        return self.stop - self.start == self.size


def whole(path: str) -> Extent:
    """Return all of an input.

    UsageError is raised if it is a stream, which is read once and on one machine. Raises
    StorageError, too.
    """
    if is_url(path):
        remote = RemoteObject(path)
        return Extent(path, shown_name(path), remote.version, 0, remote.size, remote.size)
    if path == "-" or (os.path.exists(path) and not os.path.isfile(path)):
        raise UsageError(
            f"{path}: is no file, and several machines cannot read a stream",
            "give a file, or split on one machine",
        )
    with storage_errors(path, "open"):
        found = os.stat(path)
    size, version = found.st_size, (found.st_size, found.st_mtime_ns)
    return Extent(os.path.abspath(path), path, version, 0, size, size)


def cut(extent: Extent, piece_bytes: int) -> list[Extent]:
    """Cut plain text at line ends into pieces of about `piece_bytes`, a longer line alone.

    StorageError is raised if the text cannot be read.
    """
    starts = [extent.start]
    if extent.size > piece_bytes:
        starts += _line_starts(extent, piece_bytes)
    stops = [*starts[1:], extent.stop]
    pairs = zip(starts, stops, strict=True)
    return [replace(extent, start=start, stop=stop) for start, stop in pairs]


def _line_starts(extent: Extent, piece_bytes: int) -> list[int]:
    """Return where the first line after each multiple of `piece_bytes` begins."""
    if is_url(extent.path):
        return list(_found(RemoteObject(extent.path).read, extent, piece_bytes))
    with storage_errors(extent.name, "read"), open(extent.path, "rb", buffering=0) as stream:

        def read(start: int, n_bytes: int) -> bytes:
            return os.pread(stream.fileno(), n_bytes, start)

        return list(_found(read, extent, piece_bytes))


def _found(read: Callable[[int, int], bytes], extent: Extent, piece_bytes: int) -> Iterator[int]:
    at = extent.start + piece_bytes
    while at < extent.stop:
        data = read(at - 1, min(_LOOK_BYTES, extent.stop - at + 1))
        end = data.find(b"\n")
        if end >= 0:
            if at + end < extent.stop:
                yield at + end
            at += end + piece_bytes
        elif data:
            at += len(data)
        else:
            return  # it has become shorter: whoever reads it says so
