"""A store on a URL is read through a folder of this machine, its mirror.

The folder is that of a store, but for files that were not read yet: whoever misses one has it
`fetched`. A note in it says where they come from.
"""

import contextlib
import errno
import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from blocklinear.errors import (
    BlocklinearError,
    DamagedError,
    StorageError,
    UsageError,
    storage_errors,
)
from blocklinear.inputs.ahead import ReadAhead
from blocklinear.inputs.objects import LIBRARY_BYTES
from blocklinear.inputs.urls import joined, shown_name
from blocklinear.store.files import atomic_write, make_folder, read_regular

NOTE = "origin.json"
_MOST_NOTE_BYTES = 1 << 16
_COPY_BYTES = 1 << 20
_AHEAD_BYTES = 20 << 20
FETCHES = 2
"""Files that may be fetched at a time."""
FETCHING_BYTES = LIBRARY_BYTES + FETCHES * _AHEAD_BYTES
"""What it takes in memory that files may be fetched at any time."""
_fetching = threading.BoundedSemaphore(FETCHES)
_coming: dict[Path, int] = {}
"""Files that are being fetched, and their bytes; changed under a lock."""
_counting = threading.Lock()
_RESTORE = "restore the store that it comes from"
_POLL_S = 0.1  # between looks at whether reading was stopped
_IN_USE = 8
"""So many blocks that come or came last are kept in any case: they may be about to be read."""


@dataclass(frozen=True)
class Mirror:
    """A folder in the cache for a store on a URL."""

    folder: Path
    url: str
    limit: int | None  # bytes that its blocks may have

    @classmethod
    def make(cls, url: str, cache: Path | None, limit: int | None) -> Self:
        """Make the folder for `url` in the folder `cache`, that of the user if None.

        Raises StorageError.
        """
        root = user_cache() / "stores" if cache is None else cache
        mirror = cls(root / _folder_name(url), url, limit)
        try:
            with storage_errors(mirror.folder, "create"):
                mirror.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except StorageError as error:
            raise StorageError(error.what, f"{error.fix}; --cache names another folder") from error
        make_folder(mirror.folder / "blocks", mirror.folder)
        if cls.at(mirror.folder) != mirror:
            with atomic_write(mirror.folder / NOTE) as stream:
                stream.write(json.dumps({"url": url, "limit": limit}).encode())
        return mirror

    @classmethod
    def at(cls, folder: Path) -> Self | None:
        """Return the mirror that a folder is; None if it is a store of its own.

        A folder of another name than a mirror of the URL has is none: a store may come from
        anywhere, and must not make whoever opens it ask for any URL that it names.

        DamagedError is raised if its note is not one, StorageError if it cannot be read.
        """
        try:
            with storage_errors(folder / NOTE, "read"):
                try:
                    raw = read_regular(folder / NOTE, _MOST_NOTE_BYTES)
                except (FileNotFoundError, NotADirectoryError):
                    return None
            note = json.loads(raw)
            url, limit = note["url"], note["limit"]
            if type(url) is not str or not (limit is None or type(limit) is int):
                raise ValueError("its fields are of another type")
        except (ValueError, TypeError, KeyError) as error:
            raise DamagedError(
                f"{folder / NOTE}: damaged: {error}", "delete the folder: it is made again"
            ) from error
        return cls(folder, url, limit) if folder.name == _folder_name(url) else None

    def fetch(self, path: Path, check: Callable[[], object], halt: Callable[[], bool]) -> None:
        """Put a file of the store where it belongs; `check` refuses one that is not intact.

        BlocklinearError is raised if it cannot be read, `check` raises that, or `halt` said so
        while nothing came; there is no file then.
        """
        make_folder(path.parent, self.folder)
        url = joined(self.url, path.relative_to(self.folder).as_posix())
        with _may_fetch(url, halt):
            file = ReadAhead(url, _AHEAD_BYTES, halt=halt)
            try:
                with _counting:
                    _coming[path] = file.size
                    self._make_room()
                self._copy(file, path)
            finally:
                with _counting:
                    _coming.pop(path, None)
                file.close()
        try:
            check()
        except BlocklinearError as error:
            path.unlink(missing_ok=True)
            if isinstance(error, DamagedError):
                raise DamagedError(error.what, _RESTORE) from error
            raise

    def _copy(self, file: ReadAhead, path: Path) -> None:
        buffer = memoryview(bytearray(_COPY_BYTES))
        with full_disk_advice(), atomic_write(path) as stream:
            while n := file.readinto(buffer):
                stream.write(buffer[:n])
            file.refuse_change()

    def _make_room(self) -> None:
        """Delete blocks until there is room for the files that are being fetched.

        The last that came go first: passes read all blocks, in another order each time, so that
        those that came first are needed as soon as any.
        """
        if self.limit is None:
            return
        found = []
        for path in (self.folder / "blocks").glob("*.blk"):  # and nothing half written
            if path in _coming:
                continue
            with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
                state = path.stat()
                found.append((state.st_mtime_ns, path, state.st_size))
        coming = [size for path, size in _coming.items() if self.folder in path.parents]
        n_bytes = sum(coming) + sum(size for _, _, size in found)
        for _, path, size in sorted(found, reverse=True)[max(_IN_USE - len(coming), 0) :]:
            if n_bytes <= self.limit:
                break
            path.unlink(missing_ok=True)
            n_bytes -= size


@contextlib.contextmanager
def full_disk_advice() -> Iterator[None]:
    """Say, where the disk of the cache is full, how to take less of it, or another one."""
    try:
        yield
    except StorageError as error:
        cause = error.__cause__
        if isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StorageError(
                error.what,
                "free some space, name a folder on another disk with --cache, or limit what is "
                "kept with --cache-size",
            ) from error
        raise


@contextlib.contextmanager
def _may_fetch(url: str, halt: Callable[[], bool]) -> Iterator[None]:
    """Wait until fewer than `FETCHES` files are being fetched."""
    while not _fetching.acquire(timeout=_POLL_S):
        if halt():
            raise StorageError(f"{url}: reading was stopped")
    try:
        yield
    finally:
        _fetching.release()


def _folder_name(url: str) -> str:
    """Return the name of the folder of a URL in the cache."""
    return hashlib.sha256(url.encode()).hexdigest()[:32]


def fetched(
    path: Path, check: Callable[[], object], halt: Callable[[], bool] = lambda: False
) -> bool:
    """Fetch a file of a store that is not there, if the store is a mirror; say whether it was.

    BlocklinearError is raised if it is not intact, or cannot be read; or if `halt` said so.

    Parameters
    ----------
    path : Path               in a folder of the store, or in its own
    check : callable          raises a `BlocklinearError` unless the file that is there now is
                              intact
    halt : callable           whether to give up: asked while there is no answer
    """
    if path.exists() or (mirror := _mirror_of(path)) is None:
        return False
    mirror.fetch(path, check, halt)
    return True


def fix_of_damage(path: Path, fix: str) -> str:
    """Return what to do about a damaged file of a store; `fix` is that where it is no mirror."""
    return fix if _mirror_of(path) is None else "delete the file: it is fetched again"


def _mirror_of(path: Path) -> Mirror | None:
    """Return the mirror that has a file, in its folder or in one of that."""
    return next(filter(None, map(Mirror.at, path.parents[:2])), None)


def refuse_secrets(url: str) -> None:
    """Refuse the URL of a store that holds what gives access: it would be written to disk.

    Raises UsageError.
    """
    if shown_name(url) != url:
        raise UsageError(
            f"{shown_name(url)}: the URL of a store must not hold a password or a query",
            "give credentials as the library for such URLs takes them",
        )


def check_sha256(path: Path, digest: str) -> None:
    """Refuse a file that is not the one a manifest names.

    Raises DamagedError and StorageError.
    """
    found = hashlib.sha256()
    with storage_errors(path, "read"), open(path, "rb") as stream:
        while piece := stream.read(_COPY_BYTES):
            found.update(piece)
    if found.hexdigest() != digest:
        raise DamagedError(f"{path}: damaged: it is not the file that the manifest names", _RESTORE)


def user_cache() -> Path:
    """Return the folder of this program in the cache of the user."""
    root = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(root) / "blocklinear"
