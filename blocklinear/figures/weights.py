"""The largest weights of a model as bars."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from blocklinear.figures import canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw_weights(
    names: Sequence[str], weights: Sequence[float], what: str, ax: "Axes | None" = None
) -> "Figure":
    """Draw weights as bars, the first at the top.

    Parameters
    ----------
    what : str                a weight above 0 speaks for
    """
    figure, ax = canvas.axes_of(ax, height=1.1 + 0.22 * max(len(names), 4))
    colours = [canvas.colour(0 if weight > 0 else 1) for weight in weights]
    ax.barh(range(len(names)), weights, color=colours, height=0.7)
    ax.set_yticks(range(len(names)), [canvas.plain(name) for name in names], fontsize="small")
    ax.invert_yaxis()
    ax.axvline(0.0, color=canvas.GREY, linewidth=0.8)
    ax.margins(y=0.02)
    ax.locator_params(axis="x", nbins=6)
    ax.set_xlabel(canvas.plain(f"weight {what}".rstrip(), canvas.LONGEST_LABEL))
    ax.grid(axis="x", alpha=0.3)
    if not len(names):
        ax.text(0.5, 0.5, "all weights are 0", transform=ax.transAxes, ha="center", va="center")
    return figure
