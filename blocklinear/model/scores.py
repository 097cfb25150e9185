"""Scores of predictions held in memory, as cross-validation compares them."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from blocklinear.errors import UsageError
from blocklinear.numerals import format_number

Floats = NDArray[np.float64]


def accuracy(labels: Floats, predicted: Floats) -> float:
    """Return the share of rows whose label is predicted; NaN without rows."""
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


def positive_class(classes: Sequence[float], asked: float | None = None) -> float | None:
    """Return the positive class of two, whose precision, recall and F1 are reported.

    It is the larger label, in whatever order the data have them, unless another is given.

    Parameters
    ----------
    classes : sequence of float
    asked : float or None

    Returns
    -------
    float or None
        None of other than two classes.

    Raises
    ------
    UsageError
        If a class is asked for that is none of two.
    """
    if len(classes) != 2:
        if asked is not None:
            raise UsageError(
                f"a positive class is for two classes, and there are {len(classes)}",
                "leave out --positive",
            )
        return None
    if asked is not None and asked not in classes:
        names = ", ".join(map(format_number, classes))
        raise UsageError(
            f"class {format_number(asked)} is not one of {names}: it cannot be the positive class",
            "change --positive",
        )
    return max(classes) if asked is None else asked


def f1(
    labels: Floats,
    predicted: Floats,
    classes: tuple[float, ...],
    positive: float | None = None,
) -> float:
    """Return the harmonic mean of precision and recall; NaN without rows.

    Of two classes it is that of the positive one, by default the larger label; of more
    the mean over the classes that have rows or predictions.

    Parameters
    ----------
    labels, predicted : float64[n]
    classes : tuple of float
        In any order.
    positive : float or None
        One of two classes.

    Raises
    ------
    UsageError
        If `positive` is not one of two classes.
    """
    positive = positive_class(classes, positive)
    scores = []
    for label in classes if positive is None else (positive,):
        hits = int(np.count_nonzero((labels == label) & (predicted == label)))
        either = int(np.count_nonzero(labels == label)) + int(np.count_nonzero(predicted == label))
        if either:
            scores.append(2.0 * hits / either)
    if len(labels) and not scores:
        return 0.0
    # rounded once: the same for any order of the classes
    return math.fsum(scores) / len(scores) if scores else float("nan")


def mean_squared_error(targets: Floats, predicted: Floats) -> float:
    """Return the mean of the squared differences; NaN without rows."""
    return float(np.mean((targets - predicted) ** 2)) if len(targets) else float("nan")


def mean_absolute_error(targets: Floats, predicted: Floats) -> float:
    """Return the mean size of the differences; NaN without rows."""
    return float(np.mean(np.abs(targets - predicted))) if len(targets) else float("nan")
