"""Durable files: the only place that renames, syncs or locks.

A file appears under its final name whole or not at all: it is written under a temporary name
next to its target, synced, renamed, and the directory is synced. A failed sync is final; the
temporary is dropped and the error surfaces with its path.

A store may come from anywhere. So what is written or locked in it is never reached through a link:
a link would let it lead to a file that is not part of it.
"""

import contextlib
import errno
import fcntl
import os
import secrets
import shutil
import stat
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from io import FileIO
from mmap import PAGESIZE
from pathlib import Path
from typing import IO

from blocklinear.errors import BusyError, DamagedError, storage_errors

TEMPORARY_PREFIX = ".tmp-"
_FOLDER_PREFIX = ".blocklinear-temporary-"
LOCK_NAME = "lock"
_LOCK_TEXT = b"pid "
_NOT_REGULAR = (errno.ELOOP, errno.EISDIR, errno.ENXIO)
"""What opening a link, a folder, or a pipe or socket with nobody at its other end gives."""


def open_regular(path: Path, flags: int = os.O_RDONLY) -> int:
    """Open a file of a store; return its descriptor.

    DamagedError is raised if it is a link, a folder, a pipe or a device; OSError if it cannot be
    opened, as when it is not there.

    Parameters
    ----------
    flags : int               of `os.open`
    """
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o666)
    except OSError as error:
        if error.errno in _NOT_REGULAR:
            raise _not_regular(path) from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _not_regular(path)
    return descriptor


def read_past_cache(descriptor: int, memory: memoryview) -> int:
    """Read the front of a file without the page cache; return how many bytes.

    0 where the file system cannot, or on an error, which is left to be found by who reads the rest.

    Parameters
    ----------
    descriptor : int          of a file that is open for reading
    memory : memoryview       begins with a page; as many whole pages as it has are read at most
    """
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETFL, os.O_DIRECT)
        return os.preadv(descriptor, [memory[: len(memory) & -PAGESIZE]], 0)
    except OSError:
        return 0
    finally:
        fcntl.fcntl(descriptor, fcntl.F_SETFL, 0)


def _not_regular(path: Path) -> DamagedError:
    return DamagedError(
        f"{path}: is a link, a folder or a device, where a file of the store is to be",
        "remove it, or restore the store",
    )


def created(path: Path) -> FileIO:
    """Create a file for reading and writing, without a buffer, in place of what has its name.

    A link of that name is deleted, and what it leads to stays as it is; so does another name of
    the same file.

    Raises OSError.
    """
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    how = os.O_RDWR | os.O_CREAT | os.O_EXCL
    return FileIO(path, "r+", opener=lambda name, flags: open_regular(path, how))


def opened(path: Path) -> FileIO:
    """Open a file of a store for reading, without a buffer.

    DamagedError is raised if it is a link, a folder, a pipe or a device; OSError if it cannot be
    opened, as when it is not there.
    """
    return FileIO(path, opener=lambda name, flags: open_regular(path))


def read_regular(path: Path, most_bytes: int) -> bytes:
    """Return the content of a file of a store.

    DamagedError is raised if it is a link, a folder, a pipe or a device, or longer than
    `most_bytes`; OSError if it cannot be read, as when it is not there.
    """
    with opened(path) as stream:
        if os.fstat(stream.fileno()).st_size > most_bytes:
            raise DamagedError(
                f"{path}: damaged: larger than any {path.name}", "remove it, or restore the store"
            )
        return stream.readall()


def make_folder(path: Path, within: Path) -> None:
    """Make a folder in the folder `within`, with those that are missing between them.

    DamagedError is raised if one of them is a link. Raises StorageError, too.
    """
    with storage_errors(path, "create"):
        part = within
        for name in path.relative_to(within).parts:
            part = part / name
            try:
                os.mkdir(part)
            except FileExistsError:
                mode = os.lstat(part).st_mode
                if stat.S_ISLNK(mode):
                    raise DamagedError(
                        f"{part}: is a link, which could lead anywhere",
                        "remove it, or put the folder itself there",
                    ) from None
                if not stat.S_ISDIR(mode):
                    raise


def remove_if_empty(path: Path, within: Path) -> None:
    """Remove a folder that `make_folder` made, and those between, as far as nothing is in them."""
    with contextlib.suppress(OSError):
        while path != within:
            os.rmdir(path)
            path = path.parent


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable."""
    _sync(path, os.O_RDONLY | os.O_DIRECTORY)


def sync_file(path: Path) -> None:
    """Make the contents of a file that was written and closed durable."""
    _sync(path, os.O_RDONLY)


def _sync(path: Path, flags: int) -> None:
    with storage_errors(path, "sync"):
        descriptor = os.open(path, flags)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def check_creatable(target: Path) -> None:
    """Refuse a file that `atomic_write` could not make in its folder.

    Raises StorageError.
    """
    with storage_errors(target.parent, "write"):
        stream, temporary = _create_temporary(target)
        with stream:
            os.unlink(temporary)


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file for writing that takes the name `path` only when the block ends well.

    What processes that were killed while they wrote to `path` left next to it is deleted.

    StorageError is raised if writing, syncing or renaming fails; nothing is left behind then.
    """
    target = Path(path)
    with storage_errors(target, "write"):
        for leftover in target.parent.glob(f"{_prefix(target)}*"):
            _remove_abandoned(leftover)
        stream, temporary = _create_temporary(target)
    try:
        with storage_errors(target, "write"), stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
            os.rename(temporary, target)  # as long as it is open, nobody takes it for abandoned
        sync_directory(target.parent)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


def _prefix(target: Path) -> str:
    """Return how the names of temporary files of `target` begin."""
    return f"{TEMPORARY_PREFIX}{zlib.crc32(os.fsencode(target.name)):08x}-"


def _create_temporary(target: Path) -> tuple[IO[bytes], Path]:
    """Create a file next to `target` that is locked as long as it is open."""
    while True:
        temporary = target.with_name(f"{_prefix(target)}{secrets.token_hex(8)}")
        stream = open(temporary, "xb")  # noqa: SIM115
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # somebody takes it for abandoned, and deletes it
            stream.close()
            continue
        except OSError:  # no locks here: then nobody deletes anything
            return stream, temporary
        if _is_at(stream.fileno(), temporary):
            return stream, temporary
        stream.close()


def _remove_abandoned(temporary: Path) -> None:
    """Delete a temporary file whose process has ended, which nobody has locked then."""
    with contextlib.suppress(OSError, DamagedError):
        descriptor = open_regular(temporary)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(temporary)
        finally:
            os.close(descriptor)


def _is_at(descriptor: int, path: Path) -> bool:
    """Say whether `path` is still the file that is open: its folder may be a new one."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    return False


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[FileIO]:
    """Create a file as `created` does; it is deleted again if the block, or closing it, fails.

    On a full disk it would take the room that the next command needs.

    Raises OSError.
    """
    try:
        with created(path) as stream:
            yield stream
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(path)
        raise


def write_whole(path: Path, pieces: Iterable[bytes | memoryview]) -> None:
    """Write a file that nothing refers to yet, durably, in place of what has its name."""
    with storage_errors(path, "write"), new_file(path) as stream:
        for piece in pieces:
            write_all(stream, piece)
        os.fsync(stream.fileno())


@contextlib.contextmanager
def scratch_file(path: Path) -> Iterator[FileIO]:
    """Open a file for writing that takes the name `path` when the block ends well, without a sync.

    Several processes may write the same at a time: the last one has the name. What one that is
    killed leaves goes with the folder.

    Raises StorageError.
    """
    temporary = path.with_name(f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}")
    with storage_errors(path, "write"), new_file(temporary) as stream:
        yield stream
        move_file(temporary, path)


def write_all(stream: FileIO, data: bytes | memoryview) -> None:
    """Write all of `data` to a stream without a buffer.

    Raises OSError.
    """
    done = 0
    while done < len(data):
        done += stream.write(data[done:]) or 0


def move_file(source: Path, target: Path) -> None:
    """Give a file another name, in place of what has it; what is lost by a power cut may be both.

    Raises StorageError.
    """
    with storage_errors(target, "rename"):
        os.rename(source, target)


def retire_folder(folder: Path, gone: Path) -> None:
    """Delete a folder of ours into which others may still write: they do not find it any more."""
    with contextlib.suppress(OSError):
        os.rename(folder, gone)
    remove_tree(gone)
    remove_tree(folder)


def place_folder(source: Path, target: Path) -> None:
    """Give a finished folder the name `target`, durably; what has that name gets that of `source`.

    Whenever this process is killed, one of the two has the name `target`. Only where the file
    system cannot exchange two names, there is a moment when none has: `recover_name` then gives it
    back to the folder that had it.

    StorageError is raised if it fails; what had the name has it then.
    """
    sync_directory(source)
    with storage_errors(target, "rename"):
        if not os.path.lexists(target):
            os.rename(source, target)
            sync_directory(target.parent)
            return
        _exchange(source, target)
        try:
            sync_directory(target.parent)
        except BaseException:
            _exchange(source, target)  # a power cut may undo it: what had the name must stay
            raise


def recover_name(target: Path) -> Path | None:
    """Give a folder its name back that was killed out of it while another was to get it.

    Raises StorageError.

    Returns
    -------
    Path or None
        The folder that lost the name for good, if both are there: it is to be deleted.
    """
    aside = aside_name(target)
    if not os.path.lexists(aside):
        return None
    if os.path.lexists(target):
        return aside
    with storage_errors(target, "rename"):
        os.rename(aside, target)
    sync_directory(target.parent)
    return None


def aside_name(target: Path) -> Path:
    """Return the name that `target` has while names are exchanged one by one."""
    target = target.absolute()  # "." and "/" have no name of their own
    return target.parent / f".{target.name}.replaced"


def _exchange(source: Path, target: Path) -> None:
    """Exchange the names of two folders: at once, or where that is unknown, one by one."""
    if _exchange_at_once(source, target):
        return
    aside = aside_name(target)
    os.rename(target, aside)
    try:
        os.rename(source, target)
        os.rename(aside, source)
    except BaseException:
        if not os.path.lexists(source):
            os.rename(target, source)
        os.rename(aside, target)
        raise


def _exchange_at_once(source: Path, target: Path) -> bool:
    """Exchange two names; return False where the system or the file system cannot."""
    import ctypes  # late: only this needs it

    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    if renameat2(here, os.fsencode(source), here, os.fsencode(target), exchange) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM):
        return False
    raise OSError(number, os.strerror(number), source, None, target)


def remove_tree(path: Path) -> None:
    """Delete a directory of ours; what is already gone does not matter."""
    shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def temporary_folder(parent: str | os.PathLike[str] | None = None) -> Iterator[Path]:
    """Hand out a folder in `parent`, or where TMPDIR says, that is removed at the end.

    It is locked meanwhile. So those of processes of this machine that were killed, as for want of
    memory, are known by that they are not, and are removed first.
    """
    place = tempfile.gettempdir() if parent is None else os.fspath(parent)
    prefix = f"{_FOLDER_PREFIX}{zlib.crc32(os.uname().nodename.encode()):08x}-"
    with contextlib.suppress(OSError):
        for name in os.listdir(place):
            if name.startswith(prefix):
                _remove_abandoned_folder(Path(place, name))
    folder, descriptor = _create_folder(place, prefix)
    try:
        yield folder
    finally:
        remove_tree(folder)
        os.close(descriptor)


def _create_folder(place: str, prefix: str) -> tuple[Path, int]:
    """Create a folder that is locked as long as the descriptor is open."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=place))
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:  # somebody took it for abandoned
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # as somebody does now
            os.close(descriptor)
            continue
        except OSError:  # no locks here: then nobody deletes anything
            return folder, descriptor
        if _is_at(descriptor, folder):
            return folder, descriptor
        os.close(descriptor)


def _remove_abandoned_folder(folder: Path) -> None:
    """Delete a temporary folder of this user whose process has ended."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            if os.fstat(descriptor).st_uid == os.geteuid():
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove_tree(folder)
        finally:
            os.close(descriptor)


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


def _holder() -> bytes:
    """Return what a lock that this process holds has for people."""
    return _LOCK_TEXT + f"{os.getpid()} on {os.uname().nodename}".encode()


class Lock:
    """An exclusive `flock`, held while the object is open; it dies with the process.

    BusyError is raised if another process holds it; the message says which, if that is known.
    DamagedError is raised if it is no regular file, or not one made by locking. Raises
    StorageError, too.
    """

    def __init__(self, path: Path) -> None:
        with storage_errors(path, "lock"):
            self._descriptor = open_regular(path, os.O_RDWR | os.O_CREAT)
            try:
                self._take(path)
            except BaseException:
                self.release()
                raise

    def _take(self, path: Path) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._descriptor, 80, 0)
            known = holder.decode(errors="replace").strip() or "unknown"
            own = holder == _holder()
            raise BusyError(
                f"{path.parent}: {'this' if own else 'another'} process is writing to it ({known})",
                "end what it does there first" if own else "wait until it ends, or stop it",
            ) from None
        if not _is_at(self._descriptor, path):
            raise BusyError(f"{path.parent}: another process put something else there", "try again")
        found = os.pread(self._descriptor, len(_LOCK_TEXT), 0)
        if found.strip(b"\0") not in (b"", _LOCK_TEXT):  # another name, perhaps, of somebody's file
            raise DamagedError(
                f"{path}: is not a lock, which holds the number of a process",
                "remove it, or restore the store",
            )
        text = _holder()
        # for people only: a full disk is no reason not to lock, least of all to one who frees it
        with contextlib.suppress(OSError):
            os.pwrite(self._descriptor, text, 0)
            os.ftruncate(self._descriptor, len(text))

    def fileno(self) -> int:
        """Return the descriptor that is locked."""
        return self._descriptor

    def release(self) -> None:
        """Let the next writer in."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __enter__(self) -> "Lock":
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()


@contextlib.contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold a lock whose file is there only meanwhile.

    Errors are those of `Lock`.
    """
    with Lock(path):
        try:
            yield
        finally:
            path.unlink(missing_ok=True)
