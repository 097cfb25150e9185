"""How good each C was in a cross-validation."""

from typing import TYPE_CHECKING, Any

import numpy as np

from blocklinear.figures import canvas
from blocklinear.numerals import format_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


METRIC_NAMES = {
    "accuracy": "accuracy",
    "auc": "area under the ROC curve",
    "f1": "F1",
    "mean_squared_error": "mean squared error",
    "mean_absolute_error": "mean absolute error",
}
"""Metrics of a cross-validation, for people."""


def plot_costs(
    found: dict[str, Any], metric: str | None = None, ax: "Axes | None" = None
) -> "Figure":
    """Draw the mean of a metric against C, with its spread over the folds and each fold.

    Parameters
    ----------
    found : dict              as `ValidationReport.as_dict` or a log has it
    metric : str or None      None is the one that chose the best C
    """
    metric, best = metric or found["metric"], found["best_C"]
    figure, ax = canvas.axes_of(ax)
    scores = np.array(
        [[fold.get(metric) for fold in cost["folds"]] for cost in found["costs"]], np.float64
    )  # NaN where a fold has none
    known = np.ma.masked_invalid(scores)
    mean = known.mean(axis=1).filled(np.nan)
    several = np.ma.count(known, axis=1) > 1
    spread = np.where(several, known.std(axis=1, ddof=1).filled(0.0), 0.0)
    x = np.array([cost["C"] for cost in found["costs"]], np.float64)
    places = np.repeat(x[:, None], scores.shape[1], axis=1)
    ax.plot(
        places.ravel(), scores.ravel(), linestyle="none", marker="o", markersize=3, alpha=0.5,
        color=canvas.GREY, label="one fold",
    )  # fmt: skip
    ax.fill_between(
        x, mean - spread, mean + spread, color=canvas.colour(0), alpha=0.2, linewidth=0,
        label="mean ± standard deviation",
    )  # fmt: skip
    ax.plot(x, mean, marker="o", markersize=4, color=canvas.colour(0))
    if len(x) == 1:
        ax.errorbar(x, mean, spread, color=canvas.colour(0), capsize=4)
    at = int(np.flatnonzero(x == best)[0])
    ax.plot(
        [best], [mean[at]], linestyle="none", marker="D", markersize=8, color=canvas.colour(1),
        label=f"best: C = {format_number(best)}",
    )  # fmt: skip
    ax.set_xscale("log")
    ax.set_xlabel("C")
    ax.set_ylabel(METRIC_NAMES.get(metric, metric))
    ax.grid(alpha=0.3)
    ax.legend(fontsize="small")
    return figure
