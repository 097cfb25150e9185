"""Write run logs: one JSON object a line."""

import json
import math
import os
from dataclasses import asdict
from types import TracebackType
from typing import Any, Self

from blocklinear.errors import UsageError, storage_errors
from blocklinear.events import Event, OuterIteration, SlowlyConverging, WarmStarted, Warned
from blocklinear.outputs import Output

_SCORES = ("accuracy", "mean_squared_error")
_NAMES: dict[type, str] = {
    OuterIteration: "outer",
    Warned: "warning",
    SlowlyConverging: "warning",
    WarmStarted: "warm_start",
}


class RunLog:
    """A listener that appends events to a JSONL file, each line flushed as it is written.

    What an earlier run logged stays; the outer iterations of each run are counted from where it
    began.

    Parameters
    ----------
    path : str, path or Output
        A stream, as the str ``-`` for standard output, a pipe or a device, is written to as it is.
    gap_goal, violation_goal : float or None
        At which the run is to end. They are written with each outer iteration.

    Raises
    ------
    UsageError
        If the file is there and holds something else, or is in a store.
    StorageError
        If it cannot be written.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | Output,
        gap_goal: float | None = None,
        violation_goal: float | None = None,
    ) -> None:
        goals = {"gap_goal": gap_goal, "violation_goal": violation_goal}
        self._goals = {name: goal for name, goal in goals.items() if goal is not None}
        output = Output.of(path)
        self._name = output.name
        is_incomplete = check_log(output)
        self._stream = output.append()
        self._write("\n" * is_incomplete)

    def __call__(self, event: Event) -> None:
        """Write an event, unless it is progress within an outer iteration."""
        name = _NAMES.get(type(event))
        if name is None:
            return
        fields: dict[str, Any] = {"event": name, **asdict(event)}
        if isinstance(event, OuterIteration):
            pairs = fields.pop("gaps")
            scores = {score: fields.pop(score) for score in _SCORES}
            fields |= self._goals | scores
            if pairs:
                fields["costs"], fields["gaps"] = map(list, zip(*pairs, strict=True))
        finite = {
            name: _finite(value)
            for name, value in fields.items()
            if not (name in _SCORES and value is None)
        }
        self._write(json.dumps(finite) + "\n")

    def _write(self, text: str) -> None:
        raw = text.encode("utf-8")
        with storage_errors(self._name, "write"):
            while raw:
                raw = raw[self._stream.write(raw) :]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._stream.close()


def _finite(value: Any) -> Any:
    """Return None in place of numbers that are not finite, which JSON lacks."""
    if isinstance(value, list):
        return list(map(_finite, value))
    return None if isinstance(value, float) and not math.isfinite(value) else value


def check_log(output: Output) -> bool:
    """Return whether the last line of a log is incomplete; refuse what is not a log.

    Raises
    ------
    UsageError
    StorageError
        If it cannot be read.
    """
    if output.target is None or not output.is_file:
        return False
    with storage_errors(output.name, "read"), open(output.target, "rb") as stream:
        if stream.read(1) not in (b"", b"{"):
            raise UsageError(
                f"{output.name}: exists and is not a log", "choose another name for the log"
            )
        stream.seek(max(os.path.getsize(output.target) - 1, 0))
        return stream.read(1) not in (b"", b"\n")
