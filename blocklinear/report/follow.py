"""Follow run logs while they are written."""

import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields
from typing import Any

from blocklinear.events import OuterIteration
from blocklinear.report import table
from blocklinear.report.records import RunRecords, read_events

Log = str | os.PathLike[str]
_POLL_S = 0.5


def follow(
    logs: Sequence[Log],
    show: Callable[[list[RunRecords]], object],
    wait: Callable[[], object] = lambda: time.sleep(_POLL_S),
) -> None:
    """Show run logs each time they change, until each run has reached its goal.

    A log need not exist yet. A run that ends without having reached its goal is followed until the
    caller is interrupted: its log may be continued.

    InputError is raised if a file is not a run log; StorageError if one cannot be read.

    Parameters
    ----------
    show : callable           called with the curves of the logs that have an outer iteration
    wait : callable           called between two looks at the files
    """
    before = None
    while True:
        state = [_state(log) for log in logs]
        if state != before:
            before = state
            found = [read_events(log) for log, seen in zip(logs, state, strict=True) if seen]
            curves = [curve for curve in found if curve.events]
            if curves:
                show(curves)
            if len(curves) == len(logs) and all(curve.has_ended for curve in curves):
                return
        wait()


def _state(log: Log) -> tuple[int, int] | None:
    """Return what changes when a log does: its file and its size; None if there is no file."""
    try:
        found = os.stat(log)
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_size


class TableOfLog:
    """Writes the table that training prints, as its log grows.

    Parameters
    ----------
    write : callable          called with each line
    """

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self._written: list[dict[str, Any]] = []

    def __call__(self, curves: Sequence[RunRecords]) -> None:
        """Write the outer iterations of the only curve that were not written yet.

        A run that began anew, or went on from a checkpoint before the last line, has a header.
        """
        (curve,) = curves
        kept = len(self._written)
        if not kept or curve.events[:kept] != self._written:
            kept = 0
            self._write(table.header(_event(curve.events[0])))
        for event in curve.events[kept:]:
            self._write(table.line(_event(event)))
        self._written = list(curve.events)


def _event(logged: dict[str, Any]) -> OuterIteration:
    """Return the event that was logged; what the log has no finite number for is NaN or 0."""
    values: dict[str, Any] = {}
    for member in fields(OuterIteration):
        value = logged.get(member.name)
        if value is None and member.default is MISSING:
            value = math.nan if member.type is float else 0
        if value is not None:
            values[member.name] = value
    return OuterIteration(**values)
