"""What a file that is to be read or replaced as a model holds."""

import contextlib
import os
from pathlib import Path
from typing import Literal

from blocklinear.errors import UsageError, storage_errors
from blocklinear.model import liblinear, native


def recognise(path: str | os.PathLike[str]) -> Literal["native", "liblinear"] | None:
    """Tell from the first bytes of a file which kind of model it is, None if neither.

    Parameters
    ----------
    path : path

    Returns
    -------
    {"native", "liblinear"} or None

    Raises
    ------
    StorageError
        If the file cannot be read.
    """
    with storage_errors(path, "read"), open(path, "rb") as stream:
        head = stream.read(64)
    if native.matches(head):
        return "native"
    return "liblinear" if liblinear.matches(head) else None


def check_replaceable(target: Path) -> None:
    """Refuse to replace anything that is not a model: most likely a mistyped argument.

    Raises
    ------
    UsageError
        If `target` is there and not a model, or is ``-``: a model appears whole or not at all,
        which standard output cannot promise.
    """
    if os.fspath(target) == "-":
        raise UsageError("a model cannot go to standard output", "name a file")
    with contextlib.suppress(FileNotFoundError):
        size = target.stat().st_size
        if not target.is_file():
            raise UsageError(f"{target}: not a regular file", "give the model a name of its own")
        if size and recognise(target) is None:
            raise UsageError(
                f"{target}: exists and is not a model", "choose another name, or delete it first"
            )
