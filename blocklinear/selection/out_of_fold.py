"""Cross-validation over a grid of C: all folds, all C, all classes in the same passes (Yu, 6.2)."""

import json
import math
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklinear.classes import Classes, code_text, given_labels
from blocklinear.kernels.margins import decision_values
from blocklinear.markup import table_html
from blocklinear.model import scores
from blocklinear.numerals import as_json, format_number
from blocklinear.store.groups import Group
from blocklinear.store.prefetch import Loaded
from blocklinear.store.row_arrays import RowArray

Floats = NDArray[np.float64]
CLASS_METRICS: tuple[str, ...] = ("accuracy", "auc", "f1")
VALUE_METRICS: tuple[str, ...] = ("mean_squared_error", "mean_absolute_error")
_VALUES_AT_A_TIME = 1 << 18  # decision values, of all threads
_ALL = slice(None)


@dataclass(frozen=True)
class Scores:
    """How one C did."""

    cost: float
    folds: list[dict[str, float]]  # metrics of each fold, by name, with its number of rows
    gap: float  # largest certified gap of the models of this C

    def mean(self, metric: str) -> float:
        """Return the mean over the folds that have the metric; NaN if none has."""
        found = self._of(metric)
        return float(np.mean(found)) if len(found) else float("nan")

    def spread(self, metric: str) -> float:
        """Return the standard deviation over the folds (n - 1 below); NaN with fewer than two."""
        found = self._of(metric)
        return float(np.std(found, ddof=1)) if len(found) > 1 else float("nan")

    def _of(self, metric: str) -> Floats:
        found = [fold[metric] for fold in self.folds if math.isfinite(fold.get(metric, math.nan))]
        return np.array(found, np.float64)


@dataclass(frozen=True)
class ValidationReport:
    """What a cross-validation found."""

    metric: str  # by which the best C was chosen
    scores: list[Scores]  # in the order of C
    rows: int
    n_folds: int
    outer_iterations: int
    positive: float | None = None  # the class that f1 is that of; None of other than two
    named: Classes = field(default_factory=dict)  # labels as they are named, where they have names

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics there are."""
        names = [name for fold in self.scores[0].folds for name in fold if name != "rows"]
        return tuple(dict.fromkeys(names))

    @property
    def best(self) -> Scores:
        """The best C; the smallest of those that are equally good."""
        sign = -1.0 if self.metric in VALUE_METRICS else 1.0

        def rank(found: Scores) -> tuple[float, float]:
            mean = found.mean(self.metric)
            return (-math.inf if math.isnan(mean) else sign * mean, -found.cost)

        return max(self.scores, key=rank)

    def to_dict(self, folds: bool = False) -> dict[str, list[float]]:
        """Return columns: C, mean and standard deviation of each metric, the largest gap.

        Parameters
        ----------
        folds : bool
            A row for each C and fold, with its number of rows, instead of one for each C.

        Returns
        -------
        dict of list
            All of the same length; NaN where a metric is undefined.
        """
        if folds:
            found = [(s, k, fold) for s in self.scores for k, fold in enumerate(s.folds)]
            columns: dict[str, list[float]] = {
                "C": [s.cost for s, _, _ in found],
                "fold": [k for _, k, _ in found],
                "rows": [fold["rows"] for _, _, fold in found],
            }
            return columns | {
                name: [fold.get(name, math.nan) for _, _, fold in found] for name in self.metrics
            }
        columns = {"C": [found.cost for found in self.scores]}
        for name in self.metrics:
            columns[name] = [found.mean(name) for found in self.scores]
            columns[f"{name}_std"] = [found.spread(name) for found in self.scores]
        return columns | {"gap": [found.gap for found in self.scores]}

    def _repr_html_(self) -> str:
        title = self.table().split("\n")[0]
        names = self.metrics
        rows = [
            [format_number(found.cost)]
            + [f"{found.mean(name):.6g} ± {found.spread(name):.3g}" for name in names]
            for found in self.scores
        ]
        best = next(k for k, found in enumerate(self.scores) if found is self.best)
        return table_html(title, ["C", *names], rows, best, range(len(names) + 1))

    def to_json(self) -> str:
        """Return one JSON object."""
        return json.dumps(self.as_dict())

    def as_dict(self) -> dict[str, Any]:
        """Return what `to_json` writes; None where a metric is undefined."""
        costs = [
            {
                "C": found.cost,
                "gap": found.gap,
                "folds": [{k: as_json(v) for k, v in fold.items()} for fold in found.folds],
                "mean": {name: as_json(found.mean(name)) for name in self.metrics},
                "spread": {name: as_json(found.spread(name)) for name in self.metrics},
            }
            for found in self.scores
        ]
        positive = None if self.positive is None else given_labels([self.positive], self.named)[0]
        return {
            "metric": self.metric,
            **({} if positive is None else {"positive": positive}),
            "best_C": self.best.cost,
            "rows": self.rows,
            "folds": self.n_folds,
            "outer_iterations": self.outer_iterations,
            "costs": costs,
        }

    def table(self) -> str:
        """Return lines for people: mean and spread of every metric for every C."""
        names = self.metrics
        costs = [format_number(found.cost) for found in self.scores]
        width = max(10, *map(len, costs))
        head = f"{'C':>{width}} " + " ".join(f"{name:>25}" for name in names)
        title = f"{self.n_folds}-fold cross-validation of {self.rows} rows"
        if self.positive is not None:
            title += f"; positive class {code_text(self.positive, self.named)}"
        lines = [title, head]
        for cost, found in zip(costs, self.scores, strict=True):
            cells = (f"{found.mean(n):14.6g} ± {found.spread(n):8.3g}" for n in names)
            mark = "  <- best" if found is self.best else ""
            lines.append(f"{cost:>{width}} " + " ".join(cells) + mark)
        return "\n".join(lines)


@dataclass(frozen=True)
class Unit:
    """The models of one C and one fold: those of all classes, side by side in the weights."""

    cost: int
    fold: int


class Predictions:
    """What the model that did not see a row says of it, for every C.

    Parameters
    ----------
    labels : tuple of float   the classes; empty for regression
    folds : RowArray          the fold of each row
    decisions : RowArray      float64, a column for each C; written: the decision value of two
                              classes or of regression, else the number of the class
    positive : float or None  the class of two that f1 is that of
    precedence : sequence of float      the classes, in the order in which they are chosen where
                              decision values are equal; empty is that of LIBLINEAR: the order of
                              `labels`, but of two classes the second comes first
    """

    def __init__(
        self,
        labels: tuple[float, ...],
        n_folds: int,
        folds: RowArray,
        decisions: RowArray,
        positive: float | None = None,
        precedence: Sequence[float] = (),
    ) -> None:
        self._positive = positive
        order = precedence or (labels[::-1] if len(labels) == 2 else labels)
        self._precedence = np.array([labels.index(label) for label in order], np.int64)
        self._labels, self._n_folds = labels, n_folds
        self._folds, self._decisions = folds, decisions
        self.columns = len(labels) if len(labels) > 2 else 1

    def collect(
        self,
        stream: Iterable[Loaded],
        units: Sequence[Unit],
        weights: Floats,
        bias: float,
        threads: int = 1,
    ) -> None:
        """Pass over all groups once with the weights of some units, next to each other.

        The stream has every block once; the bias feature has the value `bias`, 0 for none.
        """
        step = max(1, _VALUES_AT_A_TIME // (threads * weights.shape[1]))
        costs = sorted({unit.cost for unit in units})
        places = [(unit.fold, costs.index(unit.cost)) for unit in units]
        with ThreadPoolExecutor(threads, "decide") as pool:
            for loaded in stream:
                group = loaded.group
                lines = self._decisions.read_columns(group.blocks, costs)
                fold = self._folds.read(group.blocks)
                parts = [slice(start, start + step) for start in range(0, group.n_rows, step)]
                jobs = [
                    pool.submit(
                        self._decide, group, part, fold[part], places, weights, bias, lines[part]
                    )
                    for part in parts
                ]
                for job in jobs:
                    job.result()
                self._decisions.write_columns(group.blocks, costs, lines)

    def _decide(
        self,
        group: Group,
        part: slice,
        fold: NDArray[np.int32],
        places: Sequence[tuple[int, int]],
        weights: Floats,
        bias: float,
        lines: Floats,
    ) -> None:
        """Write what units, each of a fold, say of its rows to their columns of `lines`."""
        out = np.empty((len(fold), weights.shape[1]))
        indptr = group.indptr[part.start : part.start + len(fold) + 1]
        decision_values(
            indptr, group.indices, group.values, 0, weights[:-1], bias * weights[-1], out
        )
        for k, (own_fold, column) in enumerate(places):
            rows = np.flatnonzero(fold == own_fold)
            decided = out[rows, k * self.columns : (k + 1) * self.columns]
            if self.columns > 1:
                decided = self._precedence[decided[:, self._precedence].argmax(axis=1)][:, None]
            lines[rows, column] = decided[:, 0]

    def labels_of(self, cost: int, rows: slice | NDArray[np.int64] = _ALL) -> Floats:
        """Return what is predicted of some rows of the store for one C."""
        return self._labels_from(self._decisions_of(cost)[rows])

    def _labels_from(self, found: Floats) -> Floats:
        if not self._labels:
            return found
        classes: Floats = np.array(self._labels, np.float64)
        if self.columns == 1:
            first = found >= 0.0 if self._precedence[0] == 0 else found > 0.0
            return np.asarray(np.where(first, classes[0], classes[1]), np.float64)
        return np.asarray(classes[found.astype(np.int64)], np.float64)

    def _decisions_of(self, cost: int) -> Floats:
        decisions: Floats = self._decisions.table[:, cost]
        return decisions

    def scores(
        self, cost: int, labels: Floats, weights: Floats | None = None
    ) -> list[dict[str, float]]:
        """Return the metrics of each fold for one C; rows count by their weights, if given."""
        results = []
        for fold in range(self._n_folds):
            rows = np.flatnonzero(self._folds.all == fold)
            counts = None if weights is None else weights[rows]
            found = self._decisions_of(cost)[rows]
            metrics = self._metrics(labels[rows], self._labels_from(found), found, counts)
            results.append({"rows": len(rows), **metrics})
        return results

    def _metrics(
        self, labels: Floats, predicted: Floats, decisions: Floats, weights: Floats | None
    ) -> dict[str, float]:
        if not self._labels:
            return {
                "mean_squared_error": scores.mean_squared_error(labels, predicted, weights),
                "mean_absolute_error": scores.mean_absolute_error(labels, predicted, weights),
            }
        metrics = {"accuracy": scores.accuracy(labels, predicted, weights)}
        if len(self._labels) == 2:
            known = np.isin(labels, self._labels)  # others have weight 0: they are of neither class
            counts = None if weights is None else weights[known]
            metrics["auc"] = scores.auc(labels[known] == self._labels[0], decisions[known], counts)
        return metrics | {"f1": scores.f1(labels, predicted, self._labels, self._positive, weights)}
