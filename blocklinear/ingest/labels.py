"""The distinct labels of a store, and how many rows of a block have each.

What there is to know of a label takes memory, so nothing is kept once there are too many labels to
be those of classes.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from blocklinear.store.manifest import MAX_LABELS
from blocklinear.store.records import BlockRecord
from blocklinear.store.weight_stats import WeightStats

FEW_LABELS = 4


@dataclass(frozen=True)
class LabelCounts:
    """How often labels occur in some rows."""

    labels: NDArray[np.float64]  # float64[k]: distinct, increasing
    rows: NDArray[np.int64]  # int64[k]
    # float64[k]: sums of the weights of their rows, 0 where rows have none
    weights: NDArray[np.float64]

    @classmethod
    def none(cls) -> "LabelCounts":
        """Return the counts of no rows."""
        return cls(np.empty(0), np.empty(0, np.int64), np.empty(0))

    @classmethod
    def of(cls, values: NDArray[np.float64], weights: NDArray[np.float64] | None) -> "LabelCounts":
        """Count the labels of rows; sorting would take longer where they are few."""
        counts, found = cls.none(), list[tuple[float, int, float]]()
        while len(values) and len(found) < FEW_LABELS:
            same, value = values == values[0], float(values[0])
            weight = 0.0 if weights is None else float(weights[same].sum())
            found.append((value, int(np.count_nonzero(same)), weight))
            values, weights = values[~same], None if weights is None else weights[~same]
        if len(values):
            labels, rows = np.unique(values, return_counts=True)
            sums = np.zeros(len(labels))
            if weights is not None:
                sums = np.bincount(np.searchsorted(labels, values), weights).astype(np.float64)
            counts = cls(labels, rows, sums)
        few = [np.array(column) for column in zip(*sorted(found), strict=True)]
        return counts.plus(cls(*few)) if few else counts

    def plus(self, other: "LabelCounts") -> "LabelCounts":
        """Return the counts of the rows of both."""
        if not len(self.labels) or not len(other.labels):
            return other if len(other.labels) else self
        if np.array_equal(self.labels, other.labels):
            rows, weights = self.rows + other.rows, self.weights + other.weights
            return LabelCounts(self.labels, rows, weights)
        labels = np.union1d(self.labels, other.labels)
        rows, weights = np.zeros(len(labels), np.int64), np.zeros(len(labels))
        for part in (self, other):
            places = np.searchsorted(labels, part.labels)
            rows[places] += part.rows
            weights[places] += part.weights
        return LabelCounts(labels, rows, weights)

    def in_order(self, table: NDArray[np.float64]) -> tuple[list[int], list[float]]:
        """Return rows and sums of weights of each label of `table`, 0 for those not here."""
        if not len(self.labels):
            return [0] * len(table), [0.0] * len(table)
        places = np.searchsorted(self.labels, table).clip(max=len(self.labels) - 1)
        has_rows = self.labels[places] == table
        rows, weights = self.rows[places], self.weights[places]
        return np.where(has_rows, rows, 0).tolist(), np.where(has_rows, weights, 0.0).tolist()


class LabelTable:
    """The distinct labels in order of first appearance; gives up past `MAX_LABELS`.

    Parameters
    ----------
    labels : list[float] or None        known from earlier batches; None when there are too many

    Attributes
    ----------
    labels : list[float] or None
    """

    def __init__(self, labels: list[float] | None) -> None:
        self.labels = labels

    def note(self, values: NDArray[np.float64]) -> None:
        """Take in the labels of the next rows."""
        if self.labels is None:
            return
        known = set(self.labels)
        if len(known) <= 2:  # a shortcut for two classes
            among = [values == label for label in self.labels]
            if among and np.logical_or(among[0], among[-1]).all():
                return
        found, first = np.unique(values, return_index=True)
        new = [(i, float(v)) for v, i in zip(found, first, strict=True) if float(v) not in known]
        self.labels = self.labels + [value for _, value in sorted(new)]
        if len(self.labels) > MAX_LABELS:
            self.labels = None

    def record(
        self, record: BlockRecord, counts: LabelCounts, weight_stats: WeightStats
    ) -> BlockRecord:
        """Return a block's record with what was counted, in the order of the table."""
        rows, sums = counts.in_order(np.array(self.labels or (), np.float64))
        return replace(
            record, label_counts=rows, weights=weight_stats and weight_stats | {"sums": sums}
        )
