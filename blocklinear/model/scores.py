"""Scores of predictions held in memory, as cross-validation compares them.

Rows may have weights, float64[n]: a row of weight 2 then counts as two rows.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklinear.classes import Classes, given_labels
from blocklinear.errors import UsageError
from blocklinear.numerals import format_number

Floats = NDArray[np.float64]


def _mean(values: NDArray[Any], weights: Floats | None) -> float:
    """Return the mean over the rows; NaN without rows, or where all have weight 0."""
    if weights is not None:
        total = float(weights.sum())
        return float((values * weights).sum()) / total if total else float("nan")
    return float(np.mean(values)) if len(values) else float("nan")


def accuracy(labels: Floats, predicted: Floats, weights: Floats | None = None) -> float:
    """Return the share of rows whose label is predicted; NaN without rows."""
    return _mean(labels == predicted, weights)


def auc(positive: NDArray[np.bool_], decisions: Floats, weights: Floats | None = None) -> float:
    """Return the area under the ROC curve: how often a positive row is above a negative one.

    Rows of the same decision value count half (Mann-Whitney). NaN where a class has no rows.

    Parameters
    ----------
    positive : bool[n]
    decisions : float64[n]
    weights : float64[n] or None
    """
    _, place = np.unique(decisions, return_inverse=True)
    weights = np.ones(len(place)) if weights is None else weights
    of_positive = np.bincount(place, weights * positive)  # of each distinct value
    of_negative = np.bincount(place, weights * ~positive)
    pairs = float(of_positive.sum()) * float(of_negative.sum())
    below = np.cumsum(of_negative) - 0.5 * of_negative
    return float((of_positive * below).sum()) / pairs if pairs else float("nan")


def positive_class(
    classes: Sequence[float], asked: float | None = None, named: Classes | None = None
) -> float | None:
    """Return the positive class of two, whose precision, recall and F1 are reported.

    It is the larger label, of text the last in the order of its characters, in whatever order the
    data have them, unless another is given.

    UsageError is raised if a class is asked for that is none of two.

    Parameters
    ----------
    named : mapping of float to str or int, optional
        Labels as they were given, where these are others.

    Returns
    -------
    float or None
        None of other than two classes.
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
    if asked is not None:
        return asked
    given = given_labels(classes, named or {})
    return classes[given.index(max(given))]


def f1(
    labels: Floats,
    predicted: Floats,
    classes: tuple[float, ...],
    positive: float | None = None,
    weights: Floats | None = None,
) -> float:
    """Return the harmonic mean of precision and recall; NaN without rows.

    Of two classes it is that of the positive one, by default the larger label; of more
    the mean over the classes that have rows or predictions.

    UsageError is raised if `positive` is not one of two classes.

    Parameters
    ----------
    labels, predicted : float64[n]
    classes : tuple of float  in any order
    positive : float or None  one of two classes
    weights : float64[n] or None
    """
    positive = positive_class(classes, positive)
    scores = []
    weights = np.ones(len(labels)) if weights is None else weights
    for label in classes if positive is None else (positive,):
        of_class, chosen = labels == label, predicted == label
        either = float(weights[of_class].sum() + weights[chosen].sum())
        if either:
            scores.append(2.0 * float(weights[of_class & chosen].sum()) / either)
    if weights.any() and not scores:
        return 0.0
    # rounded once: the same for any order of the classes
    return math.fsum(scores) / len(scores) if scores else float("nan")


def mean_squared_error(targets: Floats, predicted: Floats, weights: Floats | None = None) -> float:
    """Return the mean of the squared differences; NaN without rows."""
    return _mean((targets - predicted) ** 2, weights)


def mean_absolute_error(targets: Floats, predicted: Floats, weights: Floats | None = None) -> float:
    """Return the mean size of the differences; NaN without rows."""
    return _mean(np.abs(targets - predicted), weights)
