"""Model files: read and write either format, recognise both."""

import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from typing import IO, Literal

from blocklinear.errors import DamagedError, StorageError, UsageError, storage_errors
from blocklinear.inputs.urls import is_url, shown_name
from blocklinear.model import liblinear, native
from blocklinear.model.parameters import ModelParameters, WeightsToRead
from blocklinear.outputs import Output

Format = Literal["native", "liblinear"]


@contextlib.contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file for reading; wait for nobody, as a pipe would."""

    def at_once(name: str, how: int) -> int:
        return os.open(name, how | os.O_NONBLOCK)

    if is_url(path):
        raise UsageError(
            f"{shown_name(path)}: models are read from files of this machine, not from URLs",
            "fetch the file first",
        )
    if os.path.isdir(path):
        raise StorageError(
            f"{os.fspath(path)}: is a folder, not a model", "name the file that `train` wrote"
        )
    with storage_errors(path, "read"), open(path, "rb", opener=at_once) as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise StorageError(
                f"{os.fspath(path)}: is not a regular file",
                "save what a pipe gives to a file, and name that",
            )
        yield stream


def recognise(path: str | os.PathLike[str]) -> Format | None:
    """Return the format of a model file, by its first bytes; None if it is neither.

    UsageError is raised if it is a URL; StorageError if the file cannot be read, or is a pipe or a
    device.

    Returns
    -------
    {"native", "liblinear"} or None
    """
    with _opened(path) as stream:
        return _format_of(stream)


def _format_of(stream: IO[bytes]) -> Format | None:
    """Return the format of what a stream begins with."""
    head = stream.read(64)
    if native.matches(head):
        return "native"
    return "liblinear" if liblinear.matches(head) else None


def check_replaceable(output: Output) -> None:
    """Refuse to replace a file that is not a model: the name is probably mistyped.

    UsageError is raised if a file is there that is neither a model nor empty; StorageError if it
    cannot be read.
    """
    target = output.target
    if target is None or not output.is_file or not target.stat().st_size:
        return
    if recognise(target) is None:
        raise UsageError(
            f"{output.name}: exists and is not a model", "choose another name, or delete it first"
        )


def write_model(model: ModelParameters, output: Output, format: Format) -> None:
    """Write a model, whole or not at all.

    UsageError is raised if the output holds something that is not a model, `format` is unknown, or
    the model cannot be expressed in LIBLINEAR's text; StorageError if writing fails.

    Parameters
    ----------
    format : {"native", "liblinear"}
    """
    if format not in ("native", "liblinear"):
        raise UsageError(f"format {format!r} is unknown", "use 'native' or 'liblinear'")
    if format == "liblinear":
        liblinear.check_writable(model)
    check_replaceable(output)
    with output.open() as stream:
        if format == "liblinear":
            liblinear.write(model, stream)
        elif output.target is not None:
            native.write(model, stream)
        else:  # an archive needs a stream that can seek
            with tempfile.TemporaryFile() as whole:
                native.write(model, whole)
                whole.seek(0)
                shutil.copyfileobj(whole, stream, 1 << 20)


def read_model(
    path: str | os.PathLike[str], admit: Callable[[WeightsToRead], None]
) -> ModelParameters:
    """Read a model of either format, recognised by its first bytes.

    DamagedError is raised if the file is not a whole model; MismatchError if a newer version of the
    program wrote it; MemoryBudgetError if the weights cannot fit the memory of this machine;
    UsageError if it is a URL; StorageError if the file cannot be read, or is a pipe or a device.

    Parameters
    ----------
    admit : callable          called before the weights are read, and may raise
    """
    name = os.fspath(path)
    with _opened(path) as stream:
        kind = _format_of(stream)
        if kind is None:
            raise DamagedError(
                f"{name}: this is not a model",
                "give a file written by `blocklinear train` or by LIBLINEAR",
            )
        stream.seek(0)
        read = native.read if kind == "native" else liblinear.read
        return read(name, stream, admit)
