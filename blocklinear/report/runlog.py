"""Write run logs: one JSON object a line."""

import json
import os
from collections.abc import Sequence
from typing import IO, Self

from blocklinear.errors import UsageError, storage_errors
from blocklinear.events import Event, OuterIteration, RunEnded
from blocklinear.numerals import as_json
from blocklinear.outputs import Output
from blocklinear.report.records import record_of


class RunLog:
    """A listener that appends events to a JSONL file, each line flushed as it is written.

    What an earlier run logged stays; the outer iterations of each run are counted from where it
    began. The file is made when there is something to write.

    UsageError is raised if the file is there and holds something else, or is in a store;
    StorageError if it cannot be written.

    Parameters
    ----------
    path : str, path or Output          a stream, as the str ``-`` for standard output, a pipe or a
                              device, is written to as it is
    gap_goal, violation_goal : float or None      at which the run is to end. They are written with
                              each outer iteration
    models : sequence of str  the files that it writes its models to; they are written with its end
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | Output,
        gap_goal: float | None = None,
        violation_goal: float | None = None,
        models: Sequence[str] = (),
    ) -> None:
        self._models = list(models)
        goals = {"gap_goal": gap_goal, "violation_goal": violation_goal}
        self._goals = {name: goal for name, goal in goals.items() if goal is not None}
        self._output = Output.of(path, appends=True)
        self._before = "\n" * check_log(self._output)
        self._stream: IO[bytes] | None = None

    def __call__(self, event: Event) -> None:
        """Write an event, unless it is progress within an outer iteration."""
        record = record_of(event)
        if record is None:
            return
        if isinstance(event, OuterIteration):
            record |= self._goals
        if isinstance(event, RunEnded) and self._models:
            record["models"] = self._models
        self._write(json.dumps(as_json(record)) + "\n")

    def _write(self, text: str) -> None:
        with self._output.writing():
            if self._stream is None:
                self._stream, text = self._output.append(), self._before + text
            raw = text.encode("utf-8")
            while raw:
                raw = raw[self._stream.write(raw) :]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._stream is not None:
            self._stream.close()


def check_log(output: Output) -> bool:
    """Return whether the last line of a log is incomplete; refuse what is not a log.

    StorageError is raised if it cannot be read, or written to. Raises UsageError, too.
    """
    if output.target is None or not output.is_file:
        return False
    with storage_errors(output.name, "open"), open(output.target, "r+b") as stream:
        if stream.read(1) not in (b"", b"{"):
            raise UsageError(
                f"{output.name}: exists and is not a log", "choose another name for the log"
            )
        stream.seek(max(os.path.getsize(output.target) - 1, 0))
        return stream.read(1) not in (b"", b"\n")
