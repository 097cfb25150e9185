"""Weights of models along C."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from blocklinear.figures import canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw_path(
    costs: Sequence[float],
    weights: NDArray[np.float64],
    names: Sequence[str],
    used: Sequence[int],
    what: str,
    ax: "Axes | None" = None,
) -> "Figure":
    """Draw a line for each feature, and above them how many weights are not 0.

    Parameters
    ----------
    costs : sequence of float           in ascending order
    weights : float64[n_costs, k]
    names : sequence of str   of the k features
    used : sequence of int    weights that are not 0, of each C
    what : str                a weight above 0 speaks for
    """
    figure, ax = canvas.axes_of(ax, width=8.0)
    for k, name in enumerate(names):
        ax.plot(
            costs, weights[:, k], marker="o", markersize=3, label=canvas.plain(name),
            color=canvas.shade(k, len(names)),
        )  # fmt: skip
    ax.set_xscale("log")
    ax.set_xlabel("C")
    ax.set_ylabel(canvas.plain(f"weight {what}".rstrip(), canvas.LONGEST_LABEL))
    ax.axhline(0.0, color=canvas.GREY, linewidth=0.8)
    ax.grid(alpha=0.3)
    above = ax.secondary_xaxis("top")
    above.set_xticks(list(costs), [str(count) for count in used], fontsize="small")
    above.tick_params(which="minor", length=0)
    above.set_xlabel("weights that are not 0", fontsize="small")
    if names:
        ax.legend(fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))
    else:
        ax.text(0.5, 0.5, "all weights are 0", transform=ax.transAxes, ha="center", va="center")
    return figure
