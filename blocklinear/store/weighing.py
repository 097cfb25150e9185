"""What the manifest says of the weights of the rows of a block: enough to train by, unread.

That is a JSON object: ``zeros``, how many rows have weight 0; ``least`` and ``largest`` of the
others, 0 if there are none; ``total``, the sum; ``sums``, the sum for each label of the store's
label table. It is ``{}`` where rows have no weights.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Weighed = dict[str, Any]
_TYPES = {"zeros": int, "least": float, "largest": float, "total": float, "sums": list}
_ROUNDING = 1e-9
"""Relative difference of sums that were added up in another order."""


def weigh(weights: NDArray[np.float64]) -> Weighed:
    """Return what there is to say of weights, but for sums by label."""
    used = weights[weights > 0.0]
    return {
        "zeros": len(weights) - len(used),
        "least": float(used.min()) if len(used) else 0.0,
        "largest": float(used.max()) if len(used) else 0.0,
        "total": float(used.sum()),
        "sums": [],
    }


def weigh_labels(
    weights: NDArray[np.float64], labels: NDArray[np.float64], table: Sequence[float]
) -> Weighed:
    """Return what there is to say of the weights of rows with these labels."""
    return weigh(weights) | {"sums": [float(weights[labels == y].sum()) for y in table]}


def together(parts: Iterable[Weighed]) -> Weighed:
    """Return what holds for the rows of several parts; one that has no rows is ``{}``."""
    found = [part for part in parts if part]
    if not found:
        return {}
    used = [part for part in found if part["largest"] > 0.0]
    return {
        "zeros": sum(part["zeros"] for part in found),
        "least": min((part["least"] for part in used), default=0.0),
        "largest": max((part["largest"] for part in used), default=0.0),
        "total": sum(part["total"] for part in found),
        "sums": [sum(column) for column in zip(*(p["sums"] for p in found), strict=True)],
    }


def with_labels(weighed: Weighed, n: int) -> Weighed:
    """Return it for a label table that has grown to `n` labels, or is given up."""
    return weighed and weighed | {"sums": (weighed["sums"] + [0.0] * n)[:n]}


def without_labels(weighed: Weighed, kept: Sequence[int]) -> Weighed:
    """Return it for the labels at some places of the table."""
    return weighed and weighed | {"sums": [weighed["sums"][k] for k in kept]}


def check(weighed: Weighed, rows: int, n_labels: int) -> None:
    """Raise ValueError if it cannot be what holds for so many rows."""
    if {name: type(value) for name, value in weighed.items()} != _TYPES:
        raise ValueError("what is said of weights is not of this format")
    numbers = [weighed[name] for name in ("least", "largest", "total")] + weighed["sums"]
    if not all(type(x) is float and 0.0 <= x < math.inf for x in numbers):
        raise ValueError("a sum of weights is impossible")
    if not 0 <= weighed["zeros"] <= rows or weighed["least"] > weighed["largest"]:
        raise ValueError("the smallest and largest weights contradict each other")
    if (weighed["zeros"] < rows) != (weighed["least"] > 0.0):
        raise ValueError("the number of weights that are 0 is impossible")
    if len(weighed["sums"]) != n_labels:
        raise ValueError("the sums of weights do not fit the labels")


def agree(found: Weighed, said: Weighed) -> bool:
    """Say whether two are of the same rows: only sums may differ, by rounding."""
    exact = ("zeros", "least", "largest")
    if [found[name] for name in exact] != [said[name] for name in exact]:
        return False
    sums = [found["total"], *found["sums"]], [said["total"], *said["sums"]]
    return len(sums[0]) == len(sums[1]) and np.allclose(*sums, rtol=_ROUNDING, atol=0.0)
