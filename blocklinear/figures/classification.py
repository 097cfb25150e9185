"""ROC, precision and recall, calibration, confusion: drawn from numbers."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from blocklinear.figures import canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]
Line = tuple[str, str, Floats, Floats]
"""Name, what the legend says of it, x and y."""
_LEGEND_INSIDE = 4
"""Of more lines the legend goes below."""
_MOST_POINTS = 400
_MOST_CELLS_WITH_NUMBERS = 15
_DARK = 0.7
"""Cells of a larger share have numbers of the colour of the paper."""
MOST_CELLS = 60
"""Classes whose cells in a matrix are still seen."""


def draw_roc(lines: Sequence[Line], ax: "Axes | None" = None) -> "Figure":
    """Draw the share of positive rows found against that of negative rows taken for positive."""
    figure, ax, below = _axes(ax, lines)
    _draw_lines(ax, lines, steps=False)
    ax.plot([0, 1], [0, 1], linestyle="--", linewidth=1, color=canvas.GREY, label="by chance")
    _share_axes(ax, "false positive rate", "true positive rate")
    _legend(ax, "lower right", below)
    return figure


def draw_precision_recall(
    lines: Sequence[Line], share: float | None = None, ax: "Axes | None" = None
) -> "Figure":
    """Draw precision against recall.

    Parameters
    ----------
    lines : sequence of (str, str, float64[n], float64[n])
        Name, what the legend says of it, recall, precision.
    share : float or None
        Of the positive rows: the precision of guesses.
    """
    figure, ax, below = _axes(ax, lines)
    _draw_lines(ax, lines, steps=True)
    if share is not None:
        ax.axhline(share, linestyle="--", linewidth=1, color=canvas.GREY, label="by chance")
    _share_axes(ax, "recall", "precision")
    _legend(ax, "lower left", below)
    return figure


def draw_calibration(
    predicted: Floats, observed: Floats, rows: NDArray[np.int64], what: str,
    ax: "Axes | None" = None,
) -> "Figure":  # fmt: skip
    """Draw how often what was predicted with some probability is so.

    Parameters
    ----------
    predicted, observed : float64[n]    mean probability of the rows of a bin, and the share of them
                              in which it is so
    rows : int64[n]           of each bin; the area of its marker follows from it
    what : str                is predicted
    """
    figure, ax = canvas.axes_of(ax)
    ax.plot([0, 1], [0, 1], linestyle="--", linewidth=1, color=canvas.GREY, label="as predicted")
    ax.plot(predicted, observed, color=canvas.colour(0), linewidth=1.5)
    sizes = 12 + 120 * np.asarray(rows) / max(int(np.max(rows, initial=1)), 1)
    ax.scatter(
        predicted, observed, s=sizes, color=canvas.colour(0), label="rows, by area", zorder=3
    )
    label = canvas.plain(f"predicted probability {what}", canvas.LONGEST_LABEL)
    _share_axes(ax, label, "observed share")
    ax.legend(loc="upper left", fontsize="small")
    return figure


def draw_confusion(
    counts: NDArray[np.int64], labels: Sequence[str], predictions: Sequence[str],
    ax: "Axes | None" = None,
) -> "Figure":  # fmt: skip
    """Draw a matrix of counts, each cell as dark as its share of the rows of its class.

    Parameters
    ----------
    counts : int64[n, k]      rows by their class and by the class predicted
    labels, predictions : sequence of str         names of the n and the k
    """
    canvas.check_installed()
    from matplotlib.colors import to_rgba

    n, k = counts.shape
    most = 12 if max(n, k) > 6 else 18
    side = min(3.2 + 0.36 * max(n, k), 9.0)
    figure, ax = canvas.axes_of(ax, side + 0.6, side)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    cells = np.empty((n, k, 4))
    cells[:] = to_rgba(canvas.CELL)
    cells[..., 3] = shares
    ax.pcolormesh(np.arange(k + 1) - 0.5, np.arange(n + 1) - 0.5, cells)
    ax.invert_yaxis()
    ax.set_xticks(range(k), [canvas.plain(name, most) for name in predictions])
    ax.set_yticks(range(n), [canvas.plain(name, most) for name in labels])
    if k > 4 or max(map(len, predictions)) > 6:
        ax.tick_params(axis="x", rotation=90)
    if max(n, k) > _MOST_CELLS_WITH_NUMBERS:
        ax.tick_params(labelsize="x-small")
    else:
        for row in range(n):
            for column in range(k):
                ax.text(
                    column, row, _count(int(counts[row, column])), ha="center", va="center",
                    fontsize="small" if k <= 8 else "x-small",
                    color="#ffffff" if shares[row, column] > _DARK else "#000000",
                )  # fmt: skip
    ax.set_xlabel("predicted class")
    ax.set_ylabel("class")
    return figure


def _count(rows: int) -> str:
    """Return a number of at most five characters, below 10**12."""
    for power, unit in ((9, "G"), (6, "M"), (3, "k")):
        if rows > 99_999 and rows >= 0.9995 * 10**power:
            return f"{rows / 10**power:.3g}{unit}"
    return str(rows)


def _axes(ax: "Axes | None", lines: Sequence[Line]) -> "tuple[Figure, Axes, bool]":
    """Return figure and axes, and whether the legend goes below the axes."""
    below = ax is None and len(lines) > _LEGEND_INSIDE
    figure, ax = canvas.axes_of(ax, height=4.0 + (0.21 * len(lines) if below else 0.0))
    return figure, ax, below


def _legend(ax: "Axes", where: Any, below: bool) -> None:
    if below:
        place: Any = ax.figure
        place.legend(loc="outside lower center", fontsize="small")
    else:
        ax.legend(loc=where, fontsize="small")


def _draw_lines(ax: "Axes", lines: Sequence[Line], steps: bool) -> None:
    for number, (name, fact, x, y) in enumerate(lines):
        places = list(canvas.thinned(len(x), _MOST_POINTS))
        ax.plot(
            np.asarray(x)[places], np.asarray(y)[places], label=f"{canvas.plain(name, 24)}: {fact}",
            color=canvas.colour(number), linewidth=1.5,
            drawstyle="steps-pre" if steps and len(x) <= _MOST_POINTS else "default",
        )  # fmt: skip


def _share_axes(ax: "Axes", x: str, y: str) -> None:
    ax.set_xlim(-0.02, 1.02)
    ax.set_ylim(-0.02, 1.02)
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    ax.grid(alpha=0.3)
