"""Open the files and streams that results are written to.

A name stands for one of three things:

* a stream: ``-``, a descriptor of this process (``/dev/stdout``, ``/dev/fd/3``, a process
  substitution), a character device or a named pipe. It is written to as it is.
* a regular file, or none yet: it appears whole or not at all, in place of the file that has the
  name. Symbolic links are followed.
* anything else, as a folder or a disk: it is refused.

Files that are read, files of a store and the file behind standard output are never replaced.
"""

import contextlib
import io
import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from blocklinear.errors import StorageError, UsageError, storage_errors
from blocklinear.inputs.urls import is_url, shown_name
from blocklinear.store.contents import store_around
from blocklinear.store.files import atomic_write, check_creatable

_DESCRIPTOR = re.compile(r"/proc/(\d+)(?:/task/\d+)?/fd")
_MOST_LINKS = 40

Name = str | os.PathLike[str]


class Output:
    """A place that results go to, checked before the work that makes them.

    UsageError is raised if the name is empty or a URL, or that of something that must not be
    overwritten or cannot be replaced; StorageError if it cannot be written to.

    Parameters
    ----------
    name : str or path        the str ``-`` is standard output; a `Path` is always a file
    inputs : iterable of (str or path)  what is read: files, ``-`` for standard input, or a store
                              that is to be made
    appends : bool            whether a file that is there is appended to: its folder may then not
                              be writable

    Attributes
    ----------
    name : str                as given, for messages
    target : Path or None     the regular file, links followed; None for a stream
    descriptor : int or None  of this process, where it is one
    """

    def __init__(self, name: Name, inputs: Iterable[Name] = (), appends: bool = False) -> None:
        self.name = os.fspath(name)
        if not self.name:
            raise UsageError("the name of the file to write is empty", "name a file")
        if self.name.endswith("/"):  # a file of that name without it would be written
            raise UsageError(f"{self.name}: is the name of a folder", "name a file")
        if is_url(name):
            raise UsageError(
                f"{shown_name(name)}: results are written to this machine, not to URLs",
                "name a file, and copy it there",
            )
        self.target: Path | None = None
        self.descriptor: int | None = None
        self._inputs, self._appends = tuple(inputs), appends
        with storage_errors(self.name, "open"):
            place = 1 if name == "-" else _resolved(self.name)
            if isinstance(place, int):
                self.descriptor = place
            else:
                self._resolve(place)
        self.check()

    @classmethod
    def of(
        cls, output: "Name | Output", inputs: Iterable[Name] = (), appends: bool = False
    ) -> "Output":
        """Return an output as it is, or make one of a name."""
        return output if isinstance(output, Output) else cls(output, inputs, appends)

    def _resolve(self, place: Path) -> None:
        """Distinguish a stream from a file."""
        found = _stat(place)
        mode = 0 if found is None else found.st_mode
        if found is None or stat.S_ISREG(mode):
            self.target = place
        elif not (stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)):
            raise UsageError(f"{self.name}: not a regular file", "choose another name")

    @property
    def is_stdout(self) -> bool:
        """Whether what is printed to standard output would be mixed with it."""
        if self.descriptor is None:
            return False
        if self.descriptor == 1:
            return True
        with contextlib.suppress(OSError):  # standard output is closed
            return os.path.samestat(os.fstat(self.descriptor), os.fstat(1))
        return False

    def is_at(self, other: "Output") -> bool:
        """Return whether what is written to one would be mixed with, or replaced by, the other."""
        if self.target is not None:
            return self.target == other.target
        return self.is_stdout and other.is_stdout

    @property
    def is_file(self) -> bool:
        """Whether it is a regular file that is there."""
        return self.target is not None and self.target.is_file()

    def check(self) -> None:
        """Refuse what must not be overwritten, and what cannot be written to.

        UsageError and StorageError are raised as when it was made.
        """
        with storage_errors(self.name, "open"):
            found = self._found()
            for path in self._inputs:
                if self._is(path, found):
                    raise UsageError(
                        f"{self.name}: is both input and output", "name another output"
                    )
            if self.target is not None:
                self._check_target(self.target, found)
            elif self.descriptor is not None and not _is_writable(self.descriptor):
                raise StorageError(f"{self.name}: is not open for writing", "open it with `>`")
            elif self.descriptor is None and not os.access(self.name, os.W_OK):
                raise StorageError(f"{self.name}: may not be written to", "check its permissions")

    def _found(self) -> os.stat_result | None:
        """Return the status of the place, None if there is nothing yet."""
        if self.descriptor == 1:  # may be closed, or not be descriptor 1 in this process
            with contextlib.suppress(OSError):
                return os.fstat(1)
            return None
        if self.descriptor is not None:
            return os.fstat(self.descriptor)
        return _stat(self.target or Path(self.name))

    def _is(self, path: Name, found: os.stat_result | None) -> bool:
        """Return whether an input would be overwritten, or is a folder to be made around it."""
        if path == "-":
            return _is_regular(found) and _same(_fstat(0), found)
        with contextlib.suppress(OSError):
            if _is_regular(found) and _same(os.stat(path), found):
                return True
        if self.target is None:
            return False
        resolved = Path(os.path.realpath(path))
        inside = resolved in self.target.parents and not resolved.exists()
        return resolved == self.target or inside

    def _check_target(self, target: Path, found: os.stat_result | None) -> None:
        store = store_around(target)
        if store is not None:
            raise UsageError(
                f"{self.name}: is in the store {store}, where nothing else is written",
                "choose a place outside of it",
            )
        for number, stream in ((1, "standard output"), (2, "standard error")):
            if found is not None and _same(_fstat(number), found):
                raise UsageError(
                    f"{self.name}: {stream} goes there", "choose another name, or write - for it"
                )
        folder = target.parent
        if not folder.is_dir():
            what = "is not a folder" if os.path.lexists(folder) else "no such folder"
            raise StorageError(f"{folder}: {what}", "make it first")
        if found is None or not self._appends:
            check_creatable(target)

    @contextlib.contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """Open it for writing; a file takes its name only when the block ends well.

        UsageError is raised if meanwhile something is there that must not be overwritten.
        StorageError is raised if writing fails; a file is as it was then. BrokenPipeError is raised
        if the reader of standard output went away.
        """
        self.check()
        if self.target is not None:
            with atomic_write(self.target) as stream:
                yield stream
        elif self.descriptor == 1:
            with _standard_output() as stream:
                yield stream
        else:
            with storage_errors(self.name, "write"), open(self._source(), "wb") as stream:
                yield stream

    def append(self) -> IO[bytes]:
        """Open it for appending, unbuffered; the caller closes it.

        Raises StorageError.
        """
        with storage_errors(self.name, "open"):
            return open(self.target or self._source(), "ab", buffering=0)

    def writing(self) -> contextlib.AbstractContextManager[None]:
        """Turn an OSError of writing to what `append` opened into a `StorageError`.

        That the reader of standard output went away remains a BrokenPipeError.
        """
        return _stdout_errors() if self.is_stdout else storage_errors(self.name, "write")

    def _source(self) -> str | int:
        """Return what to open of a stream."""
        if self.descriptor is None:
            return self.name
        if self.descriptor == 1:
            sys.stdout.flush()
        return os.dup(self.descriptor)  # shares its position


def _resolved(name: str) -> Path | int:
    """Follow symbolic links as far as a descriptor of this process, or to the end.

    Opened by its name, ``/dev/stdout`` is another file than standard output, and writes over it.
    """
    path = name
    for _ in range(_MOST_LINKS):
        folder, last = os.path.split(path)
        inside = _DESCRIPTOR.fullmatch(os.path.realpath(folder or "."))
        if inside and int(inside[1]) == os.getpid() and last.isdigit():
            return int(last)
        if not os.path.islink(path):
            break
        path = os.path.join(folder, os.readlink(path))
    with contextlib.suppress(FileNotFoundError):  # the system refuses an endless chain of links
        os.stat(path)
    return Path(os.path.realpath(path))


def _is_writable(descriptor: int) -> bool:
    """Return whether a descriptor of this process can be written to."""
    if descriptor == 1:  # need not be that of `sys.stdout`; Python notes whether it was closed
        return sys.__stdout__ is not None
    return bool(os.lstat(f"/proc/self/fd/{descriptor}").st_mode & stat.S_IWUSR)


def _stat(path: Path) -> os.stat_result | None:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _fstat(descriptor: int) -> os.stat_result | None:
    try:
        return os.fstat(descriptor)
    except OSError:
        return None


def _is_regular(found: os.stat_result | None) -> bool:
    return found is not None and stat.S_ISREG(found.st_mode)


def _same(one: os.stat_result | None, other: os.stat_result | None) -> bool:
    return one is not None and other is not None and os.path.samestat(one, other)


@contextlib.contextmanager
def _whole_writes(stream: Any) -> Iterator[IO[bytes]]:
    """Buffer a stream that is not, as PYTHONUNBUFFERED makes stdout: its writes may be partial."""
    if not isinstance(stream, io.RawIOBase):
        yield stream
        return
    buffered = open(stream.fileno(), "wb", closefd=False)  # noqa: SIM115
    try:
        yield buffered
    finally:
        with contextlib.suppress(OSError):  # what could not be written was reported by `flush`
            buffered.close()


@contextlib.contextmanager
def _standard_output() -> Iterator[IO[bytes]]:
    with _stdout_errors():
        sys.stdout.flush()
        with _whole_writes(sys.stdout.buffer) as stream:
            yield stream
            stream.flush()


@contextlib.contextmanager
def _stdout_errors() -> Iterator[None]:
    try:
        yield
    except (BrokenPipeError, StorageError):
        raise  # the reader went away: `main` reports that
    except OSError as error:
        raise StorageError(
            f"standard output: write failed: {error.strerror}", "check what it goes to"
        ) from error
