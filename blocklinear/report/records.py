"""What a run reported: read from its log, or collected while it goes on."""

import json
import math
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeGuard

from blocklinear.errors import InputError, storage_errors
from blocklinear.events import (
    Event,
    GoesOver,
    MethodChosen,
    OuterIteration,
    RunEnded,
    RunStarted,
    Validated,
    WarmStarted,
    Warned,
)
from blocklinear.inputs.urls import shown_name

SCORES = ("accuracy", "mean_squared_error")
NAMES: dict[type, str] = {
    OuterIteration: "outer", Warned: "warning", MethodChosen: "method", GoesOver: "goes_over",
    WarmStarted: "warm_start", RunStarted: "start", RunEnded: "end", Validated: "cross_validation",
}  # fmt: skip
"""What the lines of a log are called, of events of a kind or a narrower one."""
_LONGEST_LINE = 1 << 26
PHASES = ("wait_s", "solve_s", "certify_s", "score_s", "save_s")
"""Fields of an outer iteration that add up to its seconds, but for what is not measured."""


def record_of(event: Event) -> dict[str, Any] | None:
    """Return an event as a line of a log has it; None of what logs do not have."""
    name = next((name for kind, name in NAMES.items() if isinstance(event, kind)), None)
    if name is None:
        return None
    fields: dict[str, Any] = {"event": name, **asdict(event)}
    if isinstance(event, OuterIteration):
        pairs = fields.pop("gaps")
        fields = {
            name: value for name, value in fields.items() if not (name in SCORES and value is None)
        }
        if pairs:
            fields["costs"], fields["gaps"] = map(list, zip(*pairs, strict=True))
    return fields


@dataclass
class RunRecords:
    """What the last run of a log reported, or what training reported to its caller."""

    name: str  # of the file
    # outer iterations in order, as logged; ``seconds`` count from where the run began, stops left
    # out. Of a cross-validation in parts, those of the last part
    events: list[dict[str, Any]] = field(default_factory=list)
    # the C whose models the events are of, where the run trained several C
    cost: float | None = None
    folder: str = ""  # of the file
    # what was reported when the run started; None if nothing was
    started: dict[str, Any] | None = None
    ended: dict[str, Any] | None = None  # as `started`, of its end
    # what a cross-validation found: of this run, or of the one just before it, whose best C it
    # trains
    validated: dict[str, Any] | None = None
    warnings: list[str] = field(default_factory=list)
    warm_start: dict[str, Any] | None = None
    # seconds of each of `PHASES`, and in ``seconds``, of all outer iterations
    spent: dict[str, float] = field(default_factory=dict)
    _before: float = 0.0

    def hear(self, event: Event, goals: dict[str, float] | None = None) -> None:
        """Take what a run reports, as a listener does.

        Parameters
        ----------
        goals : dict              ``gap_goal`` and ``violation_goal``, if known
        """
        record = record_of(event)
        if record is not None:
            outer = isinstance(event, OuterIteration)
            self.add(record | goals if outer and goals else record)

    def add(self, record: dict[str, Any]) -> None:
        """Take a line of a log."""
        match record.get("event"):
            case "start":
                self._start(record)
            case "outer":
                self._outer(record)
            case "end":
                self.ended = record
            case "cross_validation" if isinstance(record.get("result"), dict):
                self.validated = record["result"]
            case "warning" if isinstance(record.get("message"), str):
                self.warnings.append(record["message"])
            case "warm_start":
                self.warm_start = record

    def _start(self, record: dict[str, Any]) -> None:
        resumes = _dict_in(record, "options").get("resume") is True
        refits = (self.started or {}).get("task") == "cross-validation" and not resumes
        self.validated = self.validated if refits or resumes else None
        self.started, self.ended = record, None
        if not resumes:
            self.warm_start = None
            self.events.clear()
            self.warnings.clear()
            self.spent.clear()
            self._before = 0.0

    def _outer(self, record: dict[str, Any]) -> None:
        if self.ended is not None:  # a run of a version that did not report when it started
            self.started = self.ended = self.validated = None
        if record["outer"] == 1:
            self.events.clear()
            self._before = 0.0
            if self.started is None:
                self.spent.clear()
        elif self.events and record["seconds"] + self._before < self.events[-1]["seconds"]:
            while self.events and self.events[-1]["outer"] >= record["outer"]:
                self.events.pop()
            self._before = self.events[-1]["seconds"] if self.events else 0.0
        seconds = record["seconds"] + self._before
        took = {phase: record.get(phase) for phase in PHASES}
        took["seconds"] = seconds - (self.events[-1]["seconds"] if self.events else 0.0)
        for name, value in took.items():
            self.spent[name] = self.spent.get(name, 0.0) + (value if is_number(value) else 0.0)
        self.events.append(record | {"seconds": seconds})

    @property
    def options(self) -> dict[str, Any]:
        """The options of the run; empty if they were not reported."""
        return _dict_in(self.started, "options")

    @property
    def store(self) -> dict[str, Any]:
        """What the run is trained on; empty if it was not reported."""
        return _dict_in(self.started, "store")

    @property
    def seconds(self) -> float:
        """Seconds that training took, or has taken so far."""
        return self.spent.get("seconds", 0.0)

    @property
    def peak_bytes(self) -> int:
        """The largest resident memory that was reported; 0 if none was."""
        values = [event.get("peak_bytes") for event in self.events]
        values.append((self.ended or {}).get("peak_bytes"))
        return int(max(filter(is_number, values), default=0))

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
        if axis == "seconds":
            return [event["seconds"] for event in self.events]
        if axis == "bytes":
            return self._summed("bytes_read")
        certificates = self._summed("certificates")
        return [event["outer"] + n for event, n in zip(self.events, certificates, strict=True)]

    def _summed(self, name: str) -> list[float]:
        return list(accumulate(value or 0.0 for value in self.values(name)))

    def goal(self, name: str) -> float | None:
        """Return the gap or the violation at which the run was to end, None if not known."""
        last = self.events[-1] if self.events else {}
        goal = last.get(f"{name}_goal")
        return float(goal) if is_number(goal) else None

    @property
    def has_ended(self) -> bool:
        """Whether the run came to a model, or its last outer iteration to what it was to reach."""
        if self.ended is not None and self.ended.get("outer") is not None:
            return True
        goals = {name: self.goal(name) for name in ("gap", "violation")}
        asked = {name: goal for name, goal in goals.items() if goal is not None}
        if not asked or not self.events[-1].get("certified"):
            return False
        reached = {name: self.values(name)[-1] for name in asked}
        return all(found is not None and found <= asked[name] for name, found in reached.items())

    def by_cost(self) -> "list[RunRecords]":
        """Return a curve for the models of each C; the curve itself if there is but one."""
        costs = self.events[-1].get("costs") if self.events else None
        if not isinstance(costs, list) or len(costs) < 2 or not all(map(is_number, costs)):
            return [self]
        return [
            replace(self, events=[event | _of_cost(event, k) for event in self.events], cost=cost)
            for k, cost in enumerate(costs)
        ]


def _dict_in(line: dict[str, Any] | None, name: str) -> dict[str, Any]:
    found = (line or {}).get(name)
    return found if isinstance(found, dict) else {}


def _of_cost(event: dict[str, Any], k: int) -> dict[str, Any]:
    """Return the fields of an outer iteration that are those of the models of one C."""
    gaps = event.get("gaps")
    gap = gaps[k] if isinstance(gaps, list) and k < len(gaps) else None
    return {"gap": gap, "primal": None, "violation": None}


def read_log(path: str | os.PathLike[str]) -> RunRecords:
    """Read the last run of a run log, as `blocklinear.read_log` does."""
    history = read_events(path)
    if not history.events:
        raise InputError(
            f"{os.fspath(path)}: {'' if history.started is None else 'its last run '}has no outer "
            "iteration",
            "name a log whose last run finished one",
        )
    return history


def read_events(path: str | os.PathLike[str]) -> RunRecords:
    """Read the last run of a run log as `read_log` does; there may be no outer iteration yet."""
    place = os.fspath(path)
    file = Path(path).absolute()
    history = RunRecords(file.name.removesuffix(".jsonl"), folder=file.parent.name)
    for number, line in enumerate(_lines(path), 1):
        if not line.startswith("{"):
            raise InputError(
                f"{place}:{number}: is not a line of a run log",
                "name a file written by `blocklinear train --log`",
            )
        try:
            event = json.loads(line, parse_int=_integer)
        except (ValueError, RecursionError):
            continue
        if event.get("event") == "outer":
            _check_event(event, f"{place}:{number}")
        history.add(event)
    return history


def _lines(path: str | os.PathLike[str]) -> Iterator[str]:
    """Yield the lines of a file; those of what is no log, which may be of any length, in parts."""
    with (
        storage_errors(shown_name(path), "read"),
        open(path, encoding="utf-8", errors="replace") as stream,
    ):
        while line := stream.readline(_LONGEST_LINE):
            yield line


def _check_event(event: dict[str, Any], place: str) -> None:
    for name in ("outer", "seconds", "primal", "gap"):
        value = event.get(name)
        missing = name not in event or (value is None and name in ("outer", "seconds"))
        if missing or not (value is None or is_number(value)):
            raise InputError(f"{place}: {name!r} is missing or not a number", "write the log anew")


def _integer(text: str) -> int | float:
    """Read an integer of JSON; one too large for a float64 as that, infinite."""
    return int(text) if len(text) <= sys.float_info.max_10_exp else float(text)


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value of a log is a finite number."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return math.isfinite(value)
    return False


def best_primal(curves: Sequence[RunRecords]) -> float:
    """Return the lowest proven primal objective of all runs; if none is, the lowest estimate."""
    seen = [event for curve in curves for event in curve.events if event["primal"] is not None]
    proven = [event["primal"] for event in seen if event.get("certified")]
    return float(min(proven or [event["primal"] for event in seen], default=math.nan))
