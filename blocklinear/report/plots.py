"""Figures of run logs: how far from the optimum a run was, and when."""

import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blocklinear.errors import InputError, UsageError, storage_errors
from blocklinear.outputs import Output

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMATS = (".png", ".svg")
QUANTITIES = ("gap", "primal")
_SCORES = {"accuracy": "accuracy", "mean_squared_error": "mean squared error"}
_LEGEND_INSIDE = 6
"""So many lines have their legend inside; of more it goes below."""


@dataclass(frozen=True)
class RunCurve:
    """The outer iterations of the last run in a log.

    Attributes
    ----------
    name : str
    events : list of dict
        In order; ``seconds`` count from where the run began, stops left out.
    """

    name: str
    events: list[dict[str, Any]] = field(default_factory=list)

    def points(self, quantity: str) -> tuple[list[float], list[float]]:
        """Return the seconds and values of the iterations that have a finite one."""
        found = [
            (event["seconds"], event[quantity])
            for event in self.events
            if isinstance(event.get(quantity), int | float)
        ]
        return [seconds for seconds, _ in found], [value for _, value in found]


def read_log(path: str | os.PathLike[str]) -> RunCurve:
    """Read the last run of a run log.

    A run that was resumed is one: its seconds go on where the checkpoint was. A line that a crash
    cut short is passed over.

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
    place = os.fspath(path)
    with storage_errors(path, "read"), open(path, encoding="utf-8", errors="replace") as stream:
        lines = stream.read().splitlines()
    curve, before = RunCurve(Path(path).name.removesuffix(".jsonl")), 0.0
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
    if not curve.events:
        raise InputError(
            f"{place}: has no outer iteration", "name a log of a run that finished one"
        )
    return curve


def _check(event: dict[str, Any], place: str) -> None:
    for name in ("outer", "seconds", "primal", "gap"):
        value = event.get(name)
        missing = name not in event or (value is None and name in ("outer", "seconds"))
        if missing or not _is_number_or_none(value):
            raise InputError(f"{place}: {name!r} is missing or not a number", "write the log anew")


def _integer(text: str) -> int | float:
    """Read an integer of JSON; one of many digits as a float, which may be infinite."""
    return int(text) if len(text) < 16 else float(text)


def _is_number_or_none(value: object) -> bool:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return math.isfinite(value)
    return value is None


def best_primal(curves: Sequence[RunCurve]) -> float:
    """Return the lowest proven primal objective of all runs; if none is, the lowest estimate."""
    seen = [event for curve in curves for event in curve.events if event["primal"] is not None]
    proven = [event["primal"] for event in seen if event.get("certified")]
    return float(min(proven or [event["primal"] for event in seen], default=math.nan))


def plot_logs(
    logs: Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str] | Output,
    quantity: str = "gap",
) -> None:
    """Draw run logs, one line each, against seconds; scores on held-out rows below, if any.

    Parameters
    ----------
    logs : sequence of path
    output : str, path or Output
        The suffix says the format: ``.png`` or ``.svg``.
    quantity : {"gap", "primal"}
        The relative duality gap; or by which fraction the primal objective exceeds the lowest that
        was proven in these logs, which should then be of one problem.

    Raises
    ------
    UsageError
        If matplotlib is not installed, or an argument breaks its rule.
    InputError
        If a file is not a run log, or has nothing to show.
    StorageError
    """
    if not logs:
        raise UsageError("there is no log to plot", "name at least one")
    if quantity not in QUANTITIES:
        raise UsageError(f"quantity is {quantity!r}, but must be one of {', '.join(QUANTITIES)}")
    name = output.name if isinstance(output, Output) else os.fspath(output)
    suffix = Path(name).suffix.lower()
    if suffix not in FORMATS:
        raise UsageError(f"{name}: is neither .png nor .svg", "give the figure such a name")
    place = Output.of(output, logs)
    curves = [read_log(log) for log in logs]
    _draw(_named(curves, logs), place, suffix, quantity)


def _named(curves: list[RunCurve], logs: Sequence[str | os.PathLike[str]]) -> list[RunCurve]:
    """Give logs of the same file name that of their folder as well."""
    names = [curve.name for curve in curves]
    return [
        RunCurve(f"{Path(log).absolute().parent.name}/{curve.name}", curve.events)
        if names.count(curve.name) > 1
        else curve
        for curve, log in zip(curves, logs, strict=True)
    ]


def _draw(curves: list[RunCurve], output: Output, suffix: str, quantity: str) -> None:
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UsageError(
            f"figures need matplotlib, which cannot be imported ({error})",
            "pip install 'blocklinear[plot]'",
        ) from error

    scores = [name for name in _SCORES if any(curve.points(name)[0] for curve in curves)]
    n_rows = 1 + len(scores)
    below = -(-len(curves) // 2) if len(curves) > _LEGEND_INSIDE else 0
    figure = Figure(figsize=(7.5, 1.0 + 3.4 * n_rows + 0.25 * below), layout="constrained")
    axes = figure.subplots(n_rows, 1, sharex=True, squeeze=False)[:, 0]
    lines = _draw_distance(axes[0], curves, quantity)
    for ax, name in zip(axes[1:], scores, strict=True):
        for number, curve in enumerate(curves):
            seconds, values = curve.points(name)
            ax.plot(seconds, values, color=f"C{number}", marker=_marker(number), markersize=3.5)
        ax.set_ylabel(f"held-out {_SCORES[name]}")
        ax.grid(alpha=0.3)
    axes[-1].set_xlabel("seconds since training began")
    if below:
        figure.legend(handles=lines, loc="outside lower center", ncols=2, fontsize="small")
    else:
        axes[0].legend(handles=lines, fontsize="small")
    # the same logs make the same bytes
    with mpl.rc_context({"svg.hashsalt": "blocklinear"}), output.open() as stream:
        metadata = {"Date": None} if suffix == ".svg" else {"Software": None}
        figure.savefig(stream, format=suffix[1:], dpi=150, metadata=metadata)


def _marker(number: int) -> str:
    """Return a marker: colours repeat after ten lines, and not everybody tells all apart."""
    return "osv^Dx+*<>P"[number % 11]


def _draw_distance(ax: "Axes", curves: list[RunCurve], quantity: str) -> list[Any]:
    """Draw how far from the optimum each run was; return the lines."""
    best, lines, n_points = best_primal(curves), [], 0
    for number, curve in enumerate(curves):
        seconds, values = curve.points(quantity)
        if quantity == "primal":
            values = [(value - best) / abs(best) if best else 0.0 for value in values]
        shown = [(s, value) for s, value in zip(seconds, values, strict=True) if value > 0]
        n_points += len(shown)
        lines += ax.plot(
            [s for s, _ in shown], [value for _, value in shown], color=f"C{number}",
            marker=_marker(number), markersize=3.5, label=curve.name.replace("$", r"\$"),
        )  # fmt: skip
    if not n_points:
        raise InputError(
            "no outer iteration of these logs is above 0 and finite, as a logarithmic scale needs",
            "plot logs of longer runs, or the other --quantity",
        )
    ax.set_yscale("log")
    ax.set_ylabel(
        "relative duality gap" if quantity == "gap" else "relative difference to best primal"
    )
    ax.grid(alpha=0.3)
    return lines
