"""Cross-validation over a grid of C: all folds, all C, all classes in the same sweeps (Yu, 6.2)."""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from blocklinear.kernels.margins import decision_values
from blocklinear.model import scores
from blocklinear.store.groups import Group
from blocklinear.store.prefetch import Loaded
from blocklinear.training.models import Models
from blocklinear.training.rows import RowArray

Floats = NDArray[np.float64]
CLASS_METRICS = ("accuracy", "auc", "f1")
VALUE_METRICS = ("mean_squared_error", "mean_absolute_error")


@dataclass(frozen=True)
class Scores:
    """How one C did.

    Attributes
    ----------
    cost : float
    folds : list of dict      metrics of each fold, by name, with its number of rows
    gap : float               largest certified gap of the models of this C
    """

    cost: float
    folds: list[dict[str, float]]
    gap: float

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
    """What a cross-validation found.

    Attributes
    ----------
    metric : str              by which the best C was chosen
    scores : list of Scores   in the order of C
    rows, n_folds : int
    outer_iterations : int
    """

    metric: str
    scores: list[Scores]
    rows: int
    n_folds: int
    outer_iterations: int

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

    def to_json(self) -> str:
        """Return one JSON object."""
        costs = [
            {
                "C": found.cost,
                "gap": found.gap,
                "folds": [{k: _plain(v) for k, v in fold.items()} for fold in found.folds],
                "mean": {name: _plain(found.mean(name)) for name in self.metrics},
                "spread": {name: _plain(found.spread(name)) for name in self.metrics},
            }
            for found in self.scores
        ]
        whole = {
            "metric": self.metric,
            "best_C": self.best.cost,
            "rows": self.rows,
            "folds": self.n_folds,
            "outer_iterations": self.outer_iterations,
            "costs": costs,
        }
        return json.dumps(whole)

    def table(self) -> str:
        """Return lines for people: mean and spread of every metric for every C."""
        names = self.metrics
        head = f"{'C':>10} " + " ".join(f"{name:>25}" for name in names)
        lines = [f"{self.n_folds}-fold cross-validation of {self.rows} rows", head]
        for found in self.scores:
            cells = (f"{found.mean(n):14.6g} ± {found.spread(n):8.3g}" for n in names)
            mark = "  <- best" if found is self.best else ""
            lines.append(f"{found.cost:10g} " + " ".join(cells) + mark)
        return "\n".join(lines)


def _plain(value: float) -> float | None:
    return value if math.isfinite(value) else None


class Predictions:
    """What the model that did not see a row says of it, for every C.

    Parameters
    ----------
    models : Models
        All C, folds and classes, in this order.
    n_folds : int
    folds : RowArray
        The fold of each row.
    decisions : RowArray
        float64, a column for each C; written: the decision value of two classes or of regression,
        else the number of the class.
    """

    def __init__(self, models: Models, n_folds: int, folds: RowArray, decisions: RowArray) -> None:
        self._models, self._folds, self._decisions = models, folds, decisions
        self._columns = max(1, len(models.labels)) if len(models.labels) > 2 else 1
        self._n_folds = n_folds
        self._n_costs = len(models) // (n_folds * self._columns)

    def collect(self, stream: Iterable[Loaded], W: Floats, bias: float) -> None:
        """Pass over all groups once with the weights, float64[n_features + 1, M]."""
        for loaded in stream:
            group = loaded.group
            lines = np.empty((group.n_rows, self._n_costs))
            fold = self._folds.read(group.blocks)
            for start in range(0, group.n_rows, _ROWS_AT_A_TIME):
                part = slice(start, min(start + _ROWS_AT_A_TIME, group.n_rows))
                lines[part] = self._decide(group, part, fold[part], W, bias)
            self._decisions.write(
                group.blocks, lines.reshape(self._decisions.shape_of(group.n_rows))
            )

    def _decide(
        self, group: Group, part: slice, fold: NDArray[np.int32], W: Floats, bias: float
    ) -> Floats:
        n = part.stop - part.start
        out = np.empty((n, W.shape[1]))
        indptr = group.indptr[part.start : part.stop + 1]
        decision_values(indptr, group.indices, group.values, 0, W[:-1], bias * W[-1], out)
        own: Floats = out.reshape(n, self._n_costs, self._n_folds, self._columns)[
            np.arange(n), :, fold
        ]
        if self._columns == 1:
            return np.asarray(own[:, :, 0], np.float64)
        return np.asarray(own.argmax(axis=2), np.float64)

    def labels_of(self, number: int) -> Floats:
        """Return the predicted label, or value, of each row for one C."""
        found = self.decisions_of(number)
        classes: Floats = np.array(self._models.labels, np.float64)
        if not len(classes):
            return found
        if self._columns == 1:
            return np.asarray(np.where(found > 0, classes[0], classes[1]), np.float64)
        return np.asarray(classes[found.astype(np.int64)], np.float64)

    def decisions_of(self, number: int) -> Floats:
        """Return the decision values for one C; with more than two classes the class numbers."""
        decisions: Floats = self._decisions.all.reshape(-1, self._n_costs)[:, number]
        return decisions

    def scores(self, number: int, labels: Floats) -> list[dict[str, float]]:
        """Return the metrics of each fold for one C."""
        found, predicted = self.decisions_of(number), self.labels_of(number)
        classes, results = self._models.labels, []
        for fold in range(self._n_folds):
            rows = np.flatnonzero(self._folds.all == fold)
            truth, guess = labels[rows], predicted[rows]
            if not classes:
                own = {
                    "mean_squared_error": scores.mean_squared_error(truth, guess),
                    "mean_absolute_error": scores.mean_absolute_error(truth, guess),
                }
            else:
                own = {"accuracy": scores.accuracy(truth, guess)}
                if len(classes) == 2:
                    own["auc"] = scores.auc(truth == classes[0], found[rows])
                own["f1"] = scores.f1(truth, guess, classes)
            results.append({"rows": len(rows), **own})
        return results


_ROWS_AT_A_TIME = 1 << 13


def cost_grid(text: Sequence[float]) -> tuple[float, ...]:
    """Return costs in ascending order, each once."""
    return tuple(sorted(set(text)))
