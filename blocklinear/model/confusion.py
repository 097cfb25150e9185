"""Confusion matrix of a stream of rows: precision, recall and F1 of each class."""

import math
from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt

from blocklinear.classes import Classes, code_text, given_labels
from blocklinear.markup import table_html
from blocklinear.model.scores import positive_class
from blocklinear.numerals import counted

Floats = npt.NDArray[np.float64]

_SHARES = ("precision", "recall", "f1")
CLASS_HEADER = ("class", "precision", "recall", "F1", "rows")
MOST_SHOWN = 20
"""Classes of which a matrix is still readable."""


class Confusion:
    """Counts of rows by their label and by the label predicted.

    Parameters
    ----------
    labels : tuple of float
        The classes of the model, in any order; they are reported in ascending order, those that
        have names in the order in which they first appeared. Rows of any other label are counted
        together.
    positive : float or None
        The class of two whose F1 is returned; None is the larger label.
    classes : mapping of float to str or int
        Labels as they were given, where these are others: they are reported so.

    Raises
    ------
    UsageError
        If `positive` is not one of two classes.
    """

    def __init__(
        self,
        labels: tuple[float, ...],
        positive: float | None = None,
        classes: Classes | None = None,
    ) -> None:
        self._named = classes or {}
        self.labels = tuple(sorted(labels))
        self.positive = positive_class(labels, positive, classes)
        self._table = np.array(self.labels)
        self._counts: Counter[tuple[int, int]] = Counter()

    def add(self, labels: Floats, predicted: Floats) -> None:
        """Count some rows.

        Parameters
        ----------
        labels, predicted : ndarray of float64, shape (n_rows,)
        """
        pairs = self._codes(labels) * (len(self.labels) + 1) + self._codes(predicted)
        for pair, count in zip(*np.unique(pairs, return_counts=True), strict=True):
            self._counts[divmod(int(pair), len(self.labels) + 1)] += int(count)

    def _codes(self, labels: Floats) -> npt.NDArray[np.int64]:
        """Return the number of the class of each row; for unknown labels the number of classes."""
        place = np.searchsorted(self._table, labels).clip(max=len(self.labels) - 1)
        known = self._table[place] == labels
        return np.where(known, place, len(self.labels)).astype(np.int64)

    def matrix(self) -> npt.NDArray[np.int64]:
        """Return the counts, int64[K + 1, K]: labels, unknown ones last, by predictions."""
        counts = np.zeros((len(self.labels) + 1, len(self.labels)), np.int64)
        for (label, predicted), count in self._counts.items():
            counts[label, predicted] = count
        return counts

    def classes(self) -> list[dict[str, float]]:
        """Return label, precision, recall, F1 and rows of each class; 0 where nothing is counted.

        Precision is the share of the rows predicted as the class that are of it, recall the share
        of its rows that are predicted so, F1 their harmonic mean.
        """
        hits, rows, predicted = Counter[int](), Counter[int](), Counter[int]()
        for (label, chosen), count in self._counts.items():
            rows[label] += count
            predicted[chosen] += count
            hits[label] += count if label == chosen else 0
        return [
            {
                "label": label,
                "precision": hits[k] / max(predicted[k], 1),
                "recall": hits[k] / max(rows[k], 1),
                "f1": 2 * hits[k] / max(predicted[k] + rows[k], 1),
                "rows": rows[k],
            }
            for k, label in enumerate(self.labels)
        ]

    def _occurring(self) -> list[dict[str, float]]:
        """Return the classes that have rows or predictions, as `classes` does."""
        numbers = {number for pair in self._counts for number in pair}
        return [metrics for k, metrics in enumerate(self.classes()) if k in numbers]

    def means(self) -> dict[str, float]:
        """Return the means of precision, recall and F1 over the classes that occur.

        These have rows or predictions, as in scikit-learn's macro averages; NaN if none has.
        """
        found = self._occurring()
        return {
            name: math.fsum(metrics[name] for metrics in found) / len(found) if found else math.nan
            for name in _SHARES
        }

    @property
    def f1(self) -> float:
        """F1 of the positive class of two; of more the mean. NaN without rows."""
        if not self._counts or self.positive is None:
            return self.means()["f1"]
        return self.classes()[self.labels.index(self.positive)]["f1"]

    def summary(self) -> str:
        """Return a line with F1 and its class."""
        if self.positive is not None:
            return f"F1 = {self.f1:g} (positive class {code_text(self.positive, self._named)})"
        return f"F1 = {self.f1:g} (mean of {counted(len(self._occurring()), 'class', 'classes')})"

    def as_dict(self) -> dict[str, Any]:
        """Return ``positive``, ``f1``, ``classes``, and ``confusion``.

        The last are lists of label, prediction and rows. ``positive`` is the class whose F1
        is ``f1``, None for the mean over more than two; ``f1`` is None without rows.
        A label that the model does not know is None; pairs without rows are omitted.
        """
        given = given_labels(self.labels, self._named)
        names = [*given, None]
        positive = None if self.positive is None else given[self.labels.index(self.positive)]
        classes: list[dict[str, Any]] = [dict(metrics) for metrics in self.classes()]
        for metrics, label in zip(classes, given, strict=True):
            metrics["label"] = label
        pairs = sorted(self._counts.items())
        confusion = [[names[label], names[chosen], count] for (label, chosen), count in pairs]
        return {
            "positive": positive,
            "f1": self.f1 if self._counts else None,
            "classes": classes,
            "confusion": confusion,
        }

    def class_rows(self, most: int = MOST_SHOWN) -> list[tuple[str, ...]]:
        """Return class, precision, recall, F1 and rows of each class, as text.

        Parameters
        ----------
        most : int
            Of more classes, those with the most rows.
        """
        found = self.classes()
        order = sorted(range(len(found)), key=lambda k: -found[k]["rows"])[:most]
        return [
            (
                code_text(self.labels[k], self._named),
                *(f"{found[k][share]:.3f}" for share in _SHARES),
                f"{found[k]['rows']:,}",
            )
            for k in sorted(order)
        ]

    def _repr_html_(self) -> str:
        n = len(self.labels)
        title = f"The {MOST_SHOWN} classes with the most rows, of {n:,}" if n > MOST_SHOWN else ""
        classes = table_html(title, CLASS_HEADER, self.class_rows(), numbers=range(1, 5))
        if n > MOST_SHOWN:
            return classes
        names = [code_text(label, self._named) for label in self.labels]
        counts = self.matrix()
        rows = [
            (name, *(f"{count:,}" for count in line))
            for name, line in zip([*names, "other"], counts.tolist(), strict=True)
            if name in names or counts[-1].any()
        ]
        title = "Rows by their class (down) and by the class predicted (across)"
        return classes + table_html(title, ["", *names], rows, numbers=range(1, n + 1))

    def table(self) -> str:
        """Return a table as text, with the matrix for up to `MOST_SHOWN` classes."""
        found, names = self.classes(), [code_text(label, self._named) for label in self.labels]
        width = max(12, *map(len, names))
        lines = [f"{'class':>{width}} {'precision':>10} {'recall':>10} {'F1':>10} {'rows':>10}"]
        for name, metrics in zip(names, found, strict=True):
            shares = " ".join(f"{metrics[share]:10.6g}" for share in _SHARES)
            lines.append(f"{name:>{width}} {shares} {metrics['rows']:>10}")
        means = self.means().values()
        rows = sum(self._counts.values())
        lines.append(
            f"{'mean':>{width}} " + " ".join(f"{mean:10.6g}" for mean in means) + f" {rows:>10}"
        )
        return "\n".join(
            lines + (self._matrix_lines(names, width) if len(found) <= MOST_SHOWN else [])
        )

    def _matrix_lines(self, names: list[str], margin: int) -> list[str]:
        counts = self.matrix()
        if not counts[-1].any():
            counts = counts[:-1]
        width = max(len(str(counts.max(initial=0))), *map(len, names))
        lines = ["", "rows by their class (down) and by the class predicted (across)"]
        lines.append(" " * (margin + 1) + " ".join(name.rjust(width) for name in names))
        for name, line in zip([*names, "other"], counts.tolist(), strict=False):
            lines.append(f"{name:>{margin}} " + " ".join(str(count).rjust(width) for count in line))
        return lines
