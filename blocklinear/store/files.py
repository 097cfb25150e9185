"""Durable files: the only place that renames, syncs or locks.

A file appears under its final name whole or not at all: it is written under a temporary name
beside its target, synced, renamed, and the directory is synced. A failed sync is final; the
temporary is dropped and the error surfaces with its path.
"""

import contextlib
import fcntl
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from blocklinear.errors import BusyError, storage_errors

TEMPORARY_PREFIX = ".tmp-"
LOCK_NAME = "lock"


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable."""
    with storage_errors(path, "sync"):
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def sync_file(path: Path) -> None:
    """Make the contents of a file that was written and closed durable."""
    with storage_errors(path, "sync"):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file for writing that takes the name `path` only when the block ends well.

    Raises
    ------
    StorageError
        If writing, syncing or renaming fails; nothing is left behind then.
    """
    target = Path(path)
    temporary = target.with_name(f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}")
    try:
        with storage_errors(target, "write"):
            with open(temporary, "xb") as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            os.rename(temporary, target)
        sync_directory(target.parent)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


def write_whole(path: Path, pieces: Iterable[bytes | memoryview], sync: bool = True) -> None:
    """Write a file that nothing refers to yet, in place of what has its name, durably if `sync`."""
    with storage_errors(path, "write"), open(path, "wb", buffering=0) as stream:
        for piece in pieces:
            done = 0
            while done < len(piece):
                done += stream.write(piece[done:])
        if sync:
            os.fsync(stream.fileno())


def replace_directory(source: Path, target: Path) -> None:
    """Give a finished directory its final name, durably, in place of what has that name."""
    sync_directory(source)
    old = target.with_name(f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}")
    with storage_errors(target, "rename"):
        if target.exists():
            os.rename(target, old)
        os.rename(source, target)
    sync_directory(target.parent)
    remove_tree(old)


def remove_tree(path: Path) -> None:
    """Delete a directory of ours; what is already gone does not matter."""
    shutil.rmtree(path, ignore_errors=True)


def remove_temporaries(folder: Path) -> None:
    """Delete what a process that was killed while it wrote to `folder` left there.

    Nobody else may be writing there.
    """
    for leftover in folder.glob(f"{TEMPORARY_PREFIX}*"):
        with contextlib.suppress(OSError):
            leftover.unlink()


def remove_files(paths: Iterable[Path]) -> tuple[int, int]:
    """Delete files, but not folders; return how many, and the bytes they had."""
    n_files = n_bytes = 0
    for path in paths:
        with storage_errors(path, "delete"), contextlib.suppress(FileNotFoundError):
            if path.is_dir() and not path.is_symlink():
                continue
            n_bytes += path.lstat().st_size
            path.unlink()
            n_files += 1
    return n_files, n_bytes


class Lock:
    """An exclusive `flock`, held while the object is open; it dies with the process.

    Raises
    ------
    BusyError
        If another process holds it; the message says which, when it can be told.
    """

    def __init__(self, path: Path) -> None:
        with storage_errors(path, "lock"):
            self._stream: IO[Any] = open(path, "a+", encoding="utf-8")  # noqa: SIM115
            try:
                fcntl.flock(self._stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._stream.seek(0)
                holder = self._stream.read(80).strip()
                self._stream.close()
                raise BusyError(
                    f"{path.parent}: another process is writing to it ({holder or 'unknown'})",
                    "wait until it ends, or stop it",
                ) from None
            if not self._is_at(path):
                self._stream.close()
                raise BusyError(
                    f"{path.parent}: another process put something else there", "try again"
                )
            self._stream.truncate(0)
            self._stream.write(f"pid {os.getpid()} on {os.uname().nodename}")
            self._stream.flush()

    def _is_at(self, path: Path) -> bool:
        """Say whether `path` is still the file that is locked: its folder may be a new one."""
        with contextlib.suppress(FileNotFoundError):
            return os.path.samestat(os.fstat(self._stream.fileno()), os.stat(path))
        return False

    def release(self) -> None:
        """Let the next writer in."""
        self._stream.close()

    def __enter__(self) -> "Lock":
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()
