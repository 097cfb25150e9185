"""The run log: one JSON object a line, for scripts."""

import json
import math
import os
from dataclasses import asdict
from types import TracebackType
from typing import Any, Self

from blocklinear.errors import UsageError, storage_errors
from blocklinear.events import Event, OuterIteration, SplitProgress, Visited, WarmStarted, Warned

_SCORES = {"accuracy", "mean_squared_error"}
_NAMES = {OuterIteration: "outer", Warned: "warning", WarmStarted: "warm_start"}


class RunLog:
    """A listener that appends events to a JSONL file, each line flushed as it is written.

    What an earlier run logged stays; the outer iterations of each run are counted from where it
    began.

    Raises
    ------
    UsageError
        If the file is there and holds something else, or is ``-``.
    StorageError
        If it cannot be written.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = path
        if os.fspath(path) == "-":
            raise UsageError("standard output is for the result, not for the log", "name a file")
        with storage_errors(path, "open"):
            is_cut = os.path.isfile(path) and _is_cut(path)
            self._stream = open(path, "a", encoding="utf-8")  # noqa: SIM115
            self._stream.write("\n" * is_cut)

    def __call__(self, event: Event) -> None:
        """Write one event."""
        if isinstance(event, SplitProgress | Visited):
            return
        fields: dict[str, Any] = {"event": _NAMES[type(event)], **asdict(event)}
        finite = {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in fields.items()
            if not (name in _SCORES and value is None)
        }
        with storage_errors(self._path, "write"):
            self._stream.write(json.dumps(finite) + "\n")
            self._stream.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._stream.close()


def _is_cut(path: str | os.PathLike[str]) -> bool:
    """Say whether the last line of a log was cut short by a crash; refuse what is not a log."""
    with open(path, "rb") as stream:
        if stream.read(1) not in (b"", b"{"):
            raise UsageError(
                f"{os.fspath(path)}: exists and is not a log", "choose another name for the log"
            )
        stream.seek(max(os.path.getsize(path) - 1, 0))
        return stream.read(1) not in (b"", b"\n")
