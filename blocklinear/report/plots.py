"""Figures of run logs: how far from the optimum a run was, and when."""

import math
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blocklinear.errors import InputError, UsageError
from blocklinear.figures import canvas
from blocklinear.numerals import format_number
from blocklinear.outputs import Output
from blocklinear.report.records import RunRecords, best_primal, read_log

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

QUANTITIES = {
    "gap": "relative duality gap",
    "primal": "relative difference to best primal",
    "violation": "violation",
}
"""What may be drawn, and the label of its axis."""
AXIS_LABELS = {
    "seconds": "seconds since training began",
    "passes": "passes over the data",
    "bytes": "MiB read from block files",
}
_SCORES = {"accuracy": "accuracy", "mean_squared_error": "mean squared error"}
_LEGEND_INSIDE = 6
"""So many lines have their legend inside; of more it goes below."""
_LONGEST_LABEL, _LONGEST_OF_TWO = 60, 40
"""Characters of a label in a legend, and of those that fit side by side in the narrowest figure."""
_MOST_MARKERS = 40
_BELOW_GOAL = 0.01
"""The axis ends there below a goal: some C end many orders of magnitude below theirs."""
_MARKERS = "osv^D<>Pph*"


class NothingToShow(InputError):
    """No outer iteration of some logs has a value that can be drawn."""


def plot_logs(
    logs: Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str] | Output,
    quantity: str = "gap",
    axes: Sequence[str] = ("seconds",),
) -> None:
    """Draw run logs, a line for each run or for each C of it; below it scores, if any.

    UsageError is raised if matplotlib is not installed, or an argument breaks its rule; InputError
    if a file is not a run log, or has nothing to show. Raises StorageError, too.

    Parameters
    ----------
    output : str, path or Output
        The suffix is the format: ``.png``, ``.svg`` or ``.pdf``.
    quantity : {"gap", "primal", "violation"}
        The relative duality gap; by which fraction the primal objective exceeds the lowest that
        was proven in these logs, which should then be of one problem; or the violation.
    axes : sequence of {"seconds", "passes", "bytes"}
        What it is drawn against, a column of the figure each.
    """
    place = figure_output(logs, output, quantity, axes)
    draw([read_log(log) for log in logs], place, quantity, axes)


def figure_output(
    logs: Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str] | Output,
    quantity: str,
    axes: Sequence[str],
) -> Output:
    """Check the arguments of a figure before logs are read; return where it goes.

    UsageError is raised if one breaks its rule.
    """
    if not logs:
        raise UsageError("there is no log to plot", "name at least one")
    _check_names(quantity, axes)
    place = Output.of(output, logs)
    if Path(place.name).suffix.lower() not in canvas.METADATA:
        raise UsageError(
            f"{place.name}: is neither .png, .svg nor .pdf", "give the figure such a name"
        )
    return place


def _check_names(quantity: str, axes: Sequence[str]) -> None:
    if quantity not in QUANTITIES:
        raise UsageError(f"quantity is {quantity!r}, but must be one of {', '.join(QUANTITIES)}")
    for axis in axes:
        if axis not in AXIS_LABELS:
            raise UsageError(f"axis is {axis!r}, but must be one of {', '.join(AXIS_LABELS)}")


def draw(curves: Sequence[RunRecords], output: Output, quantity: str, axes: Sequence[str]) -> None:
    """Draw the curves of logs to a file; see `plot_logs`, which checks the arguments.

    Raises
    ------
    UsageError
        If matplotlib is not installed.
    NothingToShow
        If no value can be drawn.
    StorageError
    """
    canvas.save(figure_of(curves, quantity, axes), output)


def figure_of(
    curves: Sequence[RunRecords],
    quantity: str = "gap",
    axes: Sequence[str] = ("seconds",),
    width: float | None = None,
) -> "Figure":
    """Return the curves of runs as a figure; see `plot_logs`.

    Parameters
    ----------
    width : float or None     inches of each column; of a page, where names are short in legends

    Raises
    ------
    UsageError
        If matplotlib is not installed, or an argument breaks its rule.
    NothingToShow
        If no value can be drawn.
    """
    _check_names(quantity, axes)
    canvas.check_installed()
    runs = _named(curves)
    lines = [line for run in runs for line in (run.by_cost() if quantity == "gap" else [run])]
    scores = [name for name in _SCORES if any(_points(run, name, "seconds")[0] for run in runs)]
    n_rows = 1 + len(scores)
    longest = canvas.LONGEST_NAME if width else _LONGEST_LABEL
    labels = _labels(lines, longest)
    n_columns = 1 if max(map(len, labels)) > _LONGEST_OF_TWO else 2
    below = -(-len(lines) // n_columns) if len(lines) > _LEGEND_INSIDE else 0
    across = (width or (7.5 if len(axes) == 1 else 5.0)) * len(axes)
    figure = canvas.new_figure(across, 1.0 + (width or 5.0) * 0.68 * n_rows + 0.25 * below)
    grid = figure.subplots(n_rows, len(axes), sharex="col", sharey="row", squeeze=False)
    handles: list[Any] = []
    for axis, column in zip(axes, grid.T, strict=True):
        handles = _draw_quantity(column[0], lines, labels, quantity, axis)
        for ax, name in zip(column[1:], scores, strict=True):
            for run in runs:
                number = next(k for k, line in enumerate(lines) if line.name == run.name)
                ax.plot(*_points(run, name, axis), **_style(number, len(lines), False))
        column[-1].set_xlabel(AXIS_LABELS[axis])
        column[-1].set_xlim(left=0)
        column[-1].locator_params(axis="x", nbins=6)
        for ax in column:
            ax.grid(alpha=0.3)
    for ax, label in zip(
        grid[:, 0], [QUANTITIES[quantity], *(f"held-out {_SCORES[name]}" for name in scores)],
        strict=True,
    ):  # fmt: skip
        ax.set_ylabel(label)
    if below:
        figure.legend(
            handles=handles, loc="outside lower center", ncols=n_columns, fontsize="small"
        )
    else:
        grid[0, 0].legend(handles=handles, fontsize="small")
    return figure


def _named(curves: Sequence[RunRecords]) -> list[RunRecords]:
    """Give logs of the same file name that of their folder as well."""
    names = [curve.name for curve in curves]
    return [
        curve
        if names.count(curve.name) == 1
        else replace(curve, name=f"{curve.folder}/{curve.name}")
        for curve in curves
    ]


def _points(
    curve: RunRecords, name: str, axis: str, above: float = -math.inf, certified: bool = False
) -> tuple[list[float], list[float]]:
    """Return places on an axis and values, of the outer iterations that have a finite value.

    Parameters
    ----------
    name : str                of the value
    above : float             values that are not larger are left out
    certified : bool          whether only outer iterations whose gap was certified count
    """
    unit = 1 << 20 if axis == "bytes" else 1
    found = [
        (place / unit, value)
        for place, value, event in zip(
            curve.positions(axis), curve.values(name), curve.events, strict=True
        )
        if value is not None and value > above and (event.get("certified") or not certified)
    ]
    return [place for place, _ in found], [value for _, value in found]


def _style(number: int, count: int, is_grid: bool) -> dict[str, Any]:
    """Return colour and marker of a line.

    Colours repeat after ten lines, and not everybody can distinguish all: so there are markers.
    The C of one run are in order, and so are their colours.
    """
    colour = canvas.shade(number, count) if is_grid else canvas.colour(number)
    marker = _MARKERS[number % len(_MARKERS)]
    return {"color": colour, "marker": marker, "markersize": 4}


def _is_grid(curves: Sequence[RunRecords]) -> bool:
    """Return whether these are the C of one run."""
    return curves[0].cost is not None and len({curve.name for curve in curves}) == 1


def _labels(curves: Sequence[RunRecords], longest: int) -> list[str]:
    """Return what a legend calls each line, in up to `longest` characters."""
    is_grid = _is_grid(curves)
    labels = []
    for curve in curves:
        cost = "" if curve.cost is None else f"C = {format_number(curve.cost)}"
        name = cost if is_grid else f"{curve.name}, {cost}" if cost else curve.name
        labels.append(canvas.plain(name, longest))
    return labels


def _draw_quantity(
    ax: "Axes", curves: Sequence[RunRecords], labels: Sequence[str], quantity: str, axis: str
) -> list[Any]:
    """Draw a quantity of each run, and the goals of the runs; return what the legend has.

    A marker is filled where the gap was certified.
    """
    best, handles, n_points = best_primal(curves), [], 0
    is_grid = _is_grid(curves)
    for number, (curve, label) in enumerate(zip(curves, labels, strict=True)):
        shown = _distances(curve, best) if quantity == "primal" else curve
        style = _style(number, len(curves), is_grid)
        places, values = _points(shown, quantity, axis, above=0.0)
        n_points += len(values)
        handles += ax.plot(
            places, values, label=label, markerfacecolor="white",
            markevery=max(1, len(values) // _MOST_MARKERS), **style,
        )  # fmt: skip
        proven = _points(shown, quantity, axis, above=0.0, certified=True)
        ax.plot(*proven, linestyle="none", **style)
    if not n_points:
        raise NothingToShow(
            "no outer iteration of these logs is above 0 and finite, as a logarithmic scale needs",
            "plot logs of longer runs, or another --quantity",
        )
    handles += ax.plot([], [], "o", color=canvas.GREY, markersize=4, label="certified")
    goals = sorted({goal for curve in curves if (goal := curve.goal(quantity)) is not None})
    for goal in goals:
        line = ax.axhline(
            goal, color=canvas.GREY, linestyle="--", linewidth=1, label=f"goal {goal:g}"
        )
        handles.append(line)
    ax.set_yscale("log")
    if goals and ax.get_ylim()[0] < goals[0] * _BELOW_GOAL:
        ax.set_ylim(bottom=goals[0] * _BELOW_GOAL)
    return handles


def _distances(curve: RunRecords, best: float) -> RunRecords:
    """Return the curve with the relative difference to the best primal in place of the primal."""
    primal = curve.values("primal")
    away = [None if p is None else (p - best) / abs(best) if best else 0.0 for p in primal]
    pairs = zip(curve.events, away, strict=True)
    return replace(curve, events=[event | {"primal": distance} for event, distance in pairs])
