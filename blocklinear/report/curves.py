"""Read run logs: the outer iterations of the last run in each."""

import json
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeGuard

from blocklinear.errors import InputError, storage_errors

Points = tuple[list[float], list[float]]


@dataclass(frozen=True)
class RunCurve:
    """The outer iterations of the last run in a log.

    Attributes
    ----------
    name, folder : str
        Of the file.
    events : list of dict
        In order, as logged; ``seconds`` count from where the run began, stops left out.
    cost : float or None
        The C whose models the events are of, where the run trained several C.
    """

    name: str
    events: list[dict[str, Any]] = field(default_factory=list)
    cost: float | None = None
    folder: str = ""

    def values(self, name: str) -> list[float | None]:
        """Return a field of each outer iteration; None where it has no finite value."""
        found = (event.get(name) for event in self.events)
        return [value if is_number(value) else None for value in found]

    def positions(self, axis: str) -> list[float]:
        """Return the place of each outer iteration on an axis.

        Parameters
        ----------
        axis : {"seconds", "passes", "bytes"}
            Seconds since training began; passes over the data so far, those of certificates
            included; bytes read from block files so far.
        """
        return AXES[axis](self.events)

    def goal(self, name: str) -> float | None:
        """Return the gap or the violation at which the run was to end, None if not known."""
        last = self.events[-1] if self.events else {}
        goal = last.get(f"{name}_goal")
        return float(goal) if is_number(goal) else None

    @property
    def has_ended(self) -> bool:
        """Whether the last outer iteration reached what the run was to reach."""
        goals = {name: self.goal(name) for name in ("gap", "violation")}
        asked = {name: goal for name, goal in goals.items() if goal is not None}
        if not asked or not self.events[-1].get("certified"):
            return False
        reached = {name: self.values(name)[-1] for name in asked}
        return all(found is not None and found <= asked[name] for name, found in reached.items())

    def by_cost(self) -> "list[RunCurve]":
        """Return a curve for the models of each C; the curve itself if there is but one."""
        costs = self.events[-1].get("costs") if self.events else None
        if not isinstance(costs, list) or len(costs) < 2 or not all(map(is_number, costs)):
            return [self]
        return [
            replace(self, events=[event | _of_cost(event, k) for event in self.events], cost=cost)
            for k, cost in enumerate(costs)
        ]


def _of_cost(event: dict[str, Any], k: int) -> dict[str, Any]:
    """Return the fields of an outer iteration that are those of the models of one C."""
    gaps = event.get("gaps")
    gap = gaps[k] if isinstance(gaps, list) and k < len(gaps) else None
    return {"gap": gap, "primal": None, "violation": None}


def _summed(events: Sequence[dict[str, Any]], name: str) -> list[float]:
    counts = (event.get(name) for event in events)
    return list(accumulate(count if is_number(count) else 0.0 for count in counts))


def _seconds(events: Sequence[dict[str, Any]]) -> list[float]:
    return [event["seconds"] for event in events]


def _passes(events: Sequence[dict[str, Any]]) -> list[float]:
    certificates = _summed(events, "certificates")
    return [event["outer"] + n for event, n in zip(events, certificates, strict=True)]


def _bytes(events: Sequence[dict[str, Any]]) -> list[float]:
    return _summed(events, "bytes_read")


AXES: dict[str, Callable[[Sequence[dict[str, Any]]], list[float]]] = {
    "seconds": _seconds, "passes": _passes, "bytes": _bytes,
}  # fmt: skip


def read_log(path: str | os.PathLike[str]) -> RunCurve:
    """Read the last run of a run log.

    A run that was resumed is one: its seconds go on where the checkpoint was. A line that a crash
    left incomplete is ignored.

    Parameters
    ----------
    path : path
        JSONL, written by `RunLog`.

    Raises
    ------
    InputError
        If it is not a run log, or has no outer iteration.
    StorageError
        If it cannot be read.
    """
    curve = read_events(path)
    if not curve.events:
        raise InputError(
            f"{os.fspath(path)}: has no outer iteration", "name a log of a run that finished one"
        )
    return curve


def read_events(path: str | os.PathLike[str]) -> RunCurve:
    """Read the last run of a run log as `read_log` does; there may be no outer iteration yet."""
    place = os.fspath(path)
    with storage_errors(path, "read"), open(path, encoding="utf-8", errors="replace") as stream:
        lines = stream.read().splitlines()
    file = Path(path).absolute()
    curve, before = RunCurve(file.name.removesuffix(".jsonl"), folder=file.parent.name), 0.0
    for number, line in enumerate(lines, 1):
        if not line.startswith("{"):
            raise InputError(
                f"{place}:{number}: is not a line of a run log",
                "name a file written by `blocklinear train --log`",
            )
        try:
            event = json.loads(line, parse_int=_integer)
        except (ValueError, RecursionError):
            continue
        if event.get("event") != "outer":
            continue
        _check(event, f"{place}:{number}")
        if event["outer"] == 1:
            curve.events.clear()
            before = 0.0
        elif curve.events and event["seconds"] + before < curve.events[-1]["seconds"]:
            while curve.events and curve.events[-1]["outer"] >= event["outer"]:
                curve.events.pop()
            before = curve.events[-1]["seconds"] if curve.events else 0.0
        curve.events.append(event | {"seconds": event["seconds"] + before})
    return curve


def _check(event: dict[str, Any], place: str) -> None:
    for name in ("outer", "seconds", "primal", "gap"):
        value = event.get(name)
        missing = name not in event or (value is None and name in ("outer", "seconds"))
        if missing or not (value is None or is_number(value)):
            raise InputError(f"{place}: {name!r} is missing or not a number", "write the log anew")


def _integer(text: str) -> int | float:
    """Read an integer of JSON; one of many digits as a float, which may be infinite."""
    return int(text) if len(text) < 16 else float(text)


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value of a log is a finite number."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return math.isfinite(value)
    return False


def best_primal(curves: Sequence[RunCurve]) -> float:
    """Return the lowest proven primal objective of all runs; if none is, the lowest estimate."""
    seen = [event for curve in curves for event in curve.events if event["primal"] is not None]
    proven = [event["primal"] for event in seen if event.get("certified")]
    return float(min(proven or [event["primal"] for event in seen], default=math.nan))
