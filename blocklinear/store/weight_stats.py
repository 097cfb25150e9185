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

WeightStats = dict[str, Any]
_TYPES = {"zeros": int, "least": float, "largest": float, "total": float, "sums": list}
_ROUNDING = 1e-9
"""Relative difference of sums that were added up in another order."""


def weigh(weights: NDArray[np.float64]) -> WeightStats:
    """Return what there is to say of weights, but for sums by label."""
    used = weights[weights > 0.0]
    return {
        "zeros": len(weights) - len(used),
        "least": float(used.min()) if len(used) else 0.0,
        "largest": float(used.max()) if len(used) else 0.0,
        "total": float(used.sum()),
        "sums": [],
    }


def weight_stats_by_label(
    weights: NDArray[np.float64], labels: NDArray[np.float64], table: Sequence[float]
) -> WeightStats:
    """Return what there is to say of the weights of rows with these labels."""
    return weigh(weights) | {"sums": [float(weights[labels == y].sum()) for y in table]}


def together(parts: Iterable[WeightStats]) -> WeightStats:
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


def with_labels(weight_stats: WeightStats, n: int) -> WeightStats:
    """Return it for a label table that has grown to `n` labels, or is given up."""
    return weight_stats and weight_stats | {"sums": (weight_stats["sums"] + [0.0] * n)[:n]}


def without_labels(weight_stats: WeightStats, kept: Sequence[int]) -> WeightStats:
    """Return it for the labels at some places of the table."""
    return weight_stats and weight_stats | {"sums": [weight_stats["sums"][k] for k in kept]}


def check(weight_stats: WeightStats, rows: int, n_labels: int) -> None:
    """Raise ValueError if it cannot be what holds for so many rows."""
    if {name: type(value) for name, value in weight_stats.items()} != _TYPES:
        raise ValueError("what is said of weights is not of this format")
    numbers = [weight_stats[name] for name in ("least", "largest", "total")] + weight_stats["sums"]
    if not all(type(x) is float and 0.0 <= x < math.inf for x in numbers):
        raise ValueError("a sum of weights is impossible")
    if not 0 <= weight_stats["zeros"] <= rows or weight_stats["least"] > weight_stats["largest"]:
        raise ValueError("the smallest and largest weights contradict each other")
    if (weight_stats["zeros"] < rows) != (weight_stats["least"] > 0.0):
        raise ValueError("the number of weights that are 0 is impossible")
    if len(weight_stats["sums"]) != n_labels:
        raise ValueError("the sums of weights do not fit the labels")


def agree(found: WeightStats, said: WeightStats) -> bool:
    """Say whether two are of the same rows: only sums may differ, by rounding."""
    exact = ("zeros", "least", "largest")
    if [found[name] for name in exact] != [said[name] for name in exact]:
        return False
    sums = [found["total"], *found["sums"]], [said["total"], *said["sums"]]
    return len(sums[0]) == len(sums[1]) and np.allclose(*sums, rtol=_ROUNDING, atol=0.0)
