"""What a file that is to be read or replaced as a model holds."""

import os
from typing import Literal

from blocklinear.errors import UsageError, storage_errors
from blocklinear.model import liblinear, native
from blocklinear.outputs import Output


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


def check_replaceable(output: Output) -> None:
    """Refuse to replace a file that is not a model: most likely a mistyped argument.

    Raises
    ------
    UsageError
        If a file is there that is neither a model nor empty.
    StorageError
        If it cannot be read.
    """
    target = output.target
    if target is None or not output.is_file or not target.stat().st_size:
        return
    if recognise(target) is None:
        raise UsageError(
            f"{output.name}: exists and is not a model", "choose another name, or delete it first"
        )
