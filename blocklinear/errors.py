"""Everything that can go wrong, each kind with the exit code a script can act on."""

import contextlib
import copy
import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

_LONGEST_TEXT = 8000


class BlocklinearError(Exception):
    """Base of all errors raised on purpose.

    The text is ``place: what`` and, on a second line, ``fix: ...``. What is not printable, as it
    may be in file names, is escaped.
    """

    exit_code = 1

    def __init__(self, what: str, fix: str = "") -> None:
        self.what, self.fix = what, fix = shown(what), shown(fix)
        super().__init__(f"{what}\n  fix: {fix}" if fix else what)

    def __reduce__(self) -> tuple[object, ...]:  # survive the trip back from a worker
        return type(self), (self.what, self.fix)

    def at(self, place: str) -> "BlocklinearError":
        """Return the same error with where it happened."""
        error = copy.copy(self)
        error.what = f"{shown(place)}: {self.what}"
        error.args = (f"{error.what}\n  fix: {self.fix}" if self.fix else error.what,)
        return error


class UsageError(BlocklinearError, ValueError):
    """An option or argument breaks its rule."""

    exit_code = 2


class WrongTypeError(UsageError, TypeError):
    """An argument of a function is of the wrong type."""


class InputError(BlocklinearError, ValueError):
    """The input data cannot be used."""

    exit_code = 3


class LabelError(InputError):
    """A label, or None for too many of them, is not one of a class."""

    def __init__(self, what: str, fix: str, label: float | None) -> None:
        self.label = label
        super().__init__(what, fix)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.what, self.fix, self.label)


class OneLabelError(InputError):
    """All rows have one label.

    Parameters
    ----------
    label : float
        As it is in blocks.
    name : str
        As it was given.
    """

    def __init__(self, label: float, name: str) -> None:
        self.label, self.name = label, name
        what = f"all rows have the one label {name}: there is nothing to separate"
        super().__init__(what, "check the labels of the input")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.label, self.name)


class InputFormatError(InputError):
    """A line of a LIBSVM file cannot be read."""

    def __init__(self, path: str, line: int, column: int, problem: str, fix: str) -> None:
        self.path, self.line, self.column, self.problem = path, line, column, problem
        super().__init__(f"{path}:{line}:{column}: {problem}", fix)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.path, self.line, self.column, self.problem, self.fix)


class DamagedError(BlocklinearError):
    """A store or a model is not what was written."""

    exit_code = 4


class MismatchError(BlocklinearError):
    """Two intact things do not match: one is stale, of another version or of other options."""

    exit_code = 5


class StorageError(BlocklinearError, OSError):
    """Reading or writing failed, or the disk is full."""

    exit_code = 6


class MemoryBudgetError(BlocklinearError, MemoryError):
    """The work does not fit the memory budget."""

    exit_code = 7


class BusyError(BlocklinearError):
    """Another process is writing to the store."""

    exit_code = 8


class ClusterError(BlocklinearError, ConnectionError):
    """A cluster cannot be reached, cannot do the work, or is gone."""

    exit_code = 9


class StoppedError(BlocklinearError):
    """The caller asked for an early end; a checkpoint is saved."""

    exit_code = 130


class BlocklinearWarning(UserWarning):
    """Something the caller of a public function should know."""


def shown(text: str) -> str:
    """Return `text` fit for a terminal: escaped where not printable, truncated if long."""
    if len(text) > _LONGEST_TEXT:
        text = text[:_LONGEST_TEXT] + "..."
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escape(c) for c in text)


def quoted(raw: bytes | str, limit: int = 40) -> str:
    """Return `raw` for a message: in ASCII, escaped, quoted, truncated to `limit` characters.

    Bytes are escaped byte by byte, as messages name them, and text character by character.
    """
    start = raw[: limit + 1]  # each byte or character makes one or more
    text = start if isinstance(start, str) else start.decode("latin-1")
    return _within([c if " " <= c <= "~" and c != "\\" else _escape(c) for c in text], limit)


def quoted_name(name: str, limit: int = 40) -> str:
    """Return a name in any language as `quoted` does, escaped only where it is not printable."""
    return _within([c if c.isprintable() else _escape(c) for c in name[: limit + 1]], limit)


def _within(pieces: list[str], limit: int) -> str:
    """Return the pieces in quotes, those at the end left out where they exceed `limit`."""
    if sum(map(len, pieces)) <= limit:
        return f"'{''.join(pieces)}'"
    while sum(map(len, pieces)) > limit - 3:
        pieces.pop()
    return f"'{''.join(pieces)}...'"


def _escape(character: str) -> str:
    """Return the escape of a character, or of the byte that Python made a lone surrogate of."""
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    return character.encode("unicode_escape").decode("ascii")


@contextlib.contextmanager
def storage_errors(path: str | os.PathLike[str], doing: str) -> Iterator[None]:
    """Turn an OSError into a `StorageError` that names `path`, and what helps.

    Where memory is what the system does not give, that is a `MemoryBudgetError`.
    """
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        fix = "check the disk, the path and its permissions"
        if error.errno in (errno.EMFILE, errno.ENFILE):
            fix = "allow more open files (ulimit -n)"
        elif error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            fix = "free some space, or write to another disk"
            if _is_device(path):
                fix = "write to another device, or to a file"
            else:
                with contextlib.suppress(OSError):
                    free = shutil.disk_usage(Path(path).absolute().parent).free
                    reason += f" ({free >> 10} KiB free)"
        name = os.fspath(path) or "''"
        if error.errno == errno.ENOMEM:
            fix = "give a smaller --memory, or raise the limit of addresses (ulimit -v)"
            raise MemoryBudgetError(f"{name}: {doing} failed: {reason}", fix) from error
        raise StorageError(f"{name}: {doing} failed: {reason}", fix) from error


def _is_device(path: str | os.PathLike[str]) -> bool:
    """Return whether `path` is there and neither a file nor a folder."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)
