"""The figures of a report, as elements of its page."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from blocklinear.errors import InputError, UsageError
from blocklinear.figures import canvas
from blocklinear.figures.costs import METRIC_NAMES, plot_costs
from blocklinear.markup import escaped
from blocklinear.model.evaluation import Evaluation
from blocklinear.model.linear import LinearModel
from blocklinear.report.plots import AXIS_LABELS, figure_of
from blocklinear.report.records import RunRecords, is_number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_WIDTH = 4.8
MOST_IN_MATRIX = 20
"""Classes of a matrix that can be read on a page."""


class Pictures:
    """Makes the figures of one page; none where matplotlib is not installed.

    Attributes
    ----------
    missing : str
        Why there are no figures; empty if there are.
    """

    def __init__(self) -> None:
        self._number, self.missing = 0, ""
        try:
            canvas.check_installed()
        except UsageError as error:
            self.missing = f"{error.what}: {error.fix}"

    def of_run(self, history: RunRecords) -> list[str]:
        """Return the gap against seconds and passes, and bytes if they were read in several."""
        read = history.positions("bytes")
        axes = [axis for axis in AXIS_LABELS if axis != "bytes" or read[0] < read[-1]]
        return self._made(
            (f"Gap by {AXIS_LABELS[axis]}", partial(figure_of, [history], "gap", [axis], _WIDTH))
            for axis in axes
        )

    def of_weights(self, model: LinearModel, names: Any, top: int) -> list[str]:
        """Return the largest weights of a model with one column."""
        used = int(np.count_nonzero(model.weights))
        title = f"The {top} largest weights" if used > top else "All weights that are not 0"
        return self._made([(title, lambda: model.plot_weights(names, top))])

    def of_costs(self, validated: dict[str, Any], metrics: list[str]) -> list[str]:
        """Return a curve for each metric of a cross-validation."""
        titles = [METRIC_NAMES.get(metric, metric) for metric in metrics]
        drawn = [partial(plot_costs, validated, metric) for metric in metrics]
        pairs = zip(titles, drawn, strict=True)
        return self._made((f"{title[0].upper()}{title[1:]} by C", draw) for title, draw in pairs)

    def of_evaluation(self, found: Evaluation) -> list[str]:
        """Return ROC, precision and recall, calibration and confusion, as far as there are any."""
        drawn: list[tuple[str, Callable[[], Figure]]] = []
        if found.curves_are_kept:
            if any(is_number(curve.area) for curve in found.roc()):
                drawn.append(("ROC curve", found.plot_roc))
            if any(is_number(curve.area) for curve in found.precision_recall()):
                drawn.append(("Precision and recall", found.plot_precision_recall))
            if found.is_logistic:
                drawn.append(("Calibration", found.plot_calibration))
        if found.confusion is not None and len(found.confusion.labels) <= MOST_IN_MATRIX:
            drawn.append(("Rows by class and predicted class", found.plot_confusion))
        return self._made(drawn)

    def _made(self, drawn: Any) -> list[str]:
        if self.missing:
            return []
        figures = []
        for title, draw in drawn:
            try:
                figure = draw()
            except InputError:  # nothing that can be drawn
                continue
            self._number += 1
            svg = canvas.inline_svg(figure, f"f{self._number}", title)
            figures.append(f"<figure><figcaption>{escaped(title)}</figcaption>{svg}</figure>")
        return figures
