"""Scores of predictions held in memory, as cross-validation compares them."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def accuracy(labels: Floats, predicted: Floats) -> float:
    """Return the share of rows whose predicted label is theirs; NaN without rows."""
    return float(np.mean(labels == predicted)) if len(labels) else float("nan")


def auc(positive: NDArray[np.bool_], decisions: Floats) -> float:
    """Return the area under the ROC curve: how often a positive row is above a negative one.

    Rows of the same decision value count half (Mann-Whitney). NaN where a class has no rows.

    Parameters
    ----------
    positive : bool[n]
    decisions : float64[n]
    """
    n_positive = int(np.count_nonzero(positive))
    n_negative = len(positive) - n_positive
    if not n_positive or not n_negative:
        return float("nan")
    _, place, counts = np.unique(decisions, return_inverse=True, return_counts=True)
    mean_rank = np.cumsum(counts) - 0.5 * (counts - 1)
    above = float(mean_rank[place][positive].sum()) - 0.5 * n_positive * (n_positive + 1)
    return above / (n_positive * n_negative)


def f1(labels: Floats, predicted: Floats, classes: tuple[float, ...]) -> float:
    """Return the harmonic mean of precision and recall; NaN without rows.

    Of two classes it is that of the first, the positive one; of more the mean over the classes that
    have rows or predictions.
    """
    scores = []
    for label in classes[:1] if len(classes) == 2 else classes:
        hits = int(np.count_nonzero((labels == label) & (predicted == label)))
        either = int(np.count_nonzero(labels == label)) + int(np.count_nonzero(predicted == label))
        if either:
            scores.append(2.0 * hits / either)
    if len(labels) and not scores:
        return 0.0
    return float(np.mean(scores)) if scores else float("nan")


def mean_squared_error(targets: Floats, predicted: Floats) -> float:
    """Return the mean of the squared differences; NaN without rows."""
    return float(np.mean((targets - predicted) ** 2)) if len(targets) else float("nan")


def mean_absolute_error(targets: Floats, predicted: Floats) -> float:
    """Return the mean size of the differences; NaN without rows."""
    return float(np.mean(np.abs(targets - predicted))) if len(targets) else float("nan")
