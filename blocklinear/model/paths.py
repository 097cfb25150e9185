"""Models of several C, compared."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from blocklinear.arguments import check_count
from blocklinear.errors import UsageError
from blocklinear.model.linear import LinearModel, Names

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def plot_path(
    models: Sequence[LinearModel],
    names: Names | None = None,
    top: int = 10,
    label: Any = None,
    ax: "Axes | None" = None,
) -> "Figure":
    """Draw how weights grow with C, and how many are not 0: of L1 regularisation, the path.

    Parameters
    ----------
    models : sequence of LinearModel
        Of the same data and several C, as `train_grid` returns them.
    names, label
        As for `LinearModel.top_weights`.
    top : int
        How many features: those whose weight is largest in any of the models.
    ax : matplotlib Axes or None
        Where to draw; None makes a figure.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    UsageError
        If there are no models, they are not of the same features and classes, one has no C or two
        have the same, or matplotlib is not installed; and as `LinearModel.top_weights` does.

    Examples
    --------
    >>> import blocklinear
    >>> store = blocklinear.split("rows.svm", "store", blocks=4, force=True)
    >>> models = blocklinear.train_grid(store, costs=[0.1, 1, 10], solver=6)
    >>> figure = blocklinear.plot_path(models, top=5)
    """
    from blocklinear.figures.path import draw_path

    top = check_count("top", top)
    if not models:
        raise UsageError("there are no models to compare", "give those that train_grid returned")
    if any("C" not in model.metadata for model in models):
        raise UsageError("a model knows no C", "give those that train_grid returned")
    path = sorted(models, key=lambda model: model.metadata["C"])
    costs = [float(model.metadata["C"]) for model in path]
    if len(set(costs)) < len(costs):
        raise UsageError("two models have the same C", "give models of several C, each once")
    first = path[0]
    if any(
        model.weights.shape != first.weights.shape or model.outcome_names != first.outcome_names
        for model in path
    ):
        raise UsageError(
            "the models are not of the same features and classes",
            "give models that were trained on the same store",
        )
    weights = np.stack([model.weights_for(label) for model in path])
    largest = np.abs(weights).max(axis=0)
    order = np.argsort(-largest, kind="stable")[:top]
    order = order[largest[order] > 0.0]
    used = np.count_nonzero(weights, axis=1).tolist()
    found = [first.feature_name(k, names) for k in order.tolist()]
    return draw_path(costs, weights[:, order], found, used, first.meaning_of_weights(label), ax)
