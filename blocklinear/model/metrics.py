"""How good predictions are, accumulated over a stream with LIBLINEAR's formulas."""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


class Score(Protocol):
    """A score of predictions, to which rows are added in parts."""

    def add(self, labels: Floats, predicted: Floats) -> None:
        """Count some rows.

        Parameters
        ----------
        labels, predicted : ndarray of float64, shape (n_rows,)
        """

    def summary(self) -> str:
        """Return the result as LIBLINEAR prints it."""

    def as_dict(self) -> dict[str, float | int | None]:
        """Return the result by name; None where it is undefined."""

    @property
    def rank_value(self) -> float:
        """A number that is larger for a better result; minus infinity where it is undefined."""


@dataclass
class AccuracyCounter:
    """The share of rows whose label is predicted."""

    correct: int = 0
    rows: int = 0

    def add(self, labels: Floats, predicted: Floats) -> None:
        """Count some rows."""
        self.correct += int(np.count_nonzero(labels == predicted))
        self.rows += len(labels)

    @property
    def accuracy(self) -> float:
        """From 0 to 1; NaN without rows."""
        return self.correct / self.rows if self.rows else float("nan")

    @property
    def rank_value(self) -> float:
        """The accuracy; minus infinity without rows."""
        return self.accuracy if self.rows else -math.inf

    def summary(self) -> str:
        """Return ``Accuracy = 84.4444% (228/270)``."""
        percent = 100.0 * self.correct / self.rows if self.rows else float("nan")
        return f"Accuracy = {percent:g}% ({self.correct}/{self.rows})"

    def as_dict(self) -> dict[str, float | int | None]:
        """Return ``accuracy`` (0 to 1), ``correct`` and ``rows``."""
        accuracy = self.accuracy if self.rows else None
        return {"accuracy": accuracy, "correct": self.correct, "rows": self.rows}


@dataclass
class OutlierCounter(AccuracyCounter):
    """How many rows a one-class SVM has for outliers; the accuracy, if all labels are 1 or -1."""

    outliers: int = 0
    labelled: bool = True

    def add(self, labels: Floats, predicted: Floats) -> None:
        """Count some rows."""
        super().add(labels, predicted)
        self.outliers += int(np.count_nonzero(predicted < 0.0))
        self.labelled = self.labelled and bool((np.abs(labels) == 1.0).all())

    def summary(self) -> str:
        """Return ``Accuracy = 84.4444% (228/270)``, or ``Outliers = 10% (27/270)``."""
        if self.labelled:
            return super().summary()
        percent = 100.0 * self.outliers / self.rows
        return f"Outliers = {percent:g}% ({self.outliers}/{self.rows})"

    def as_dict(self) -> dict[str, float | int | None]:
        """Return ``outliers`` and what `AccuracyCounter` does, None of labels other than 1, -1."""
        found = super().as_dict() | {"outliers": self.outliers}
        return found if self.labelled else found | {"accuracy": None, "correct": None}


@dataclass
class RegressionErrors:
    """Mean squared error and squared correlation coefficient.

    With predictions p, targets t and l rows: ``mse = sum (p - t)^2 / l`` and
    ``r2 = S_pt^2 / (S_pp S_tt)``, where ``S_pt = sum (p - mean p) (t - mean t)``. That is
    LIBLINEAR's ``(l sum pt - sum p sum t)^2 / (...)``, whose sums cancel where values are far from
    0. Here means and S are updated part by part (Chan, Golub and LeVeque 1983, Eq. 2.1).
    Values are counted from those of the first row, so that a constant has exactly S = 0.
    """

    rows: int = 0
    squared: float = 0.0
    first: tuple[float, float] = (0.0, 0.0)
    means: tuple[float, float] = (0.0, 0.0)
    spread_p: float = 0.0
    spread_t: float = 0.0
    spread_pt: float = 0.0

    def add(self, labels: Floats, predicted: Floats) -> None:
        """Count some rows."""
        n = len(labels)
        if n == 0:
            return
        if self.rows == 0:
            self.first = float(predicted[0]), float(labels[0])
        with np.errstate(over="ignore", invalid="ignore"):  # inf and NaN are reported as None
            self.squared += _sum_of_products(predicted - labels, predicted - labels)
            p, t = predicted - self.first[0], labels - self.first[1]
            mean_p, mean_t = float(p.mean()), float(t.mean())
            p, t = p - mean_p, t - mean_t
            between = self.rows * (n / (self.rows + n))
            away_p, away_t = mean_p - self.means[0], mean_t - self.means[1]
            self.spread_p += _sum_of_products(p, p) + away_p * away_p * between
            self.spread_t += _sum_of_products(t, t) + away_t * away_t * between
            self.spread_pt += _sum_of_products(p, t) + away_p * away_t * between
        self.rows += n
        share = n / self.rows
        self.means = self.means[0] + away_p * share, self.means[1] + away_t * share

    @property
    def mean_squared_error(self) -> float:
        """NaN without rows."""
        return self.squared / self.rows if self.rows else float("nan")

    @property
    def squared_correlation(self) -> float:
        """From 0 to 1; NaN where predictions or targets are all the same."""
        if not (self.spread_p > 0.0 and self.spread_t > 0.0):
            return float("nan")
        # divided by one root after the other: the product of the spreads may overflow
        correlation = self.spread_pt / math.sqrt(self.spread_p) / math.sqrt(self.spread_t)
        return min(correlation * correlation, 1.0) if math.isfinite(correlation) else float("nan")

    @property
    def rank_value(self) -> float:
        """The mean squared error, negated; minus infinity where it is undefined."""
        mse = self.mean_squared_error
        return -mse if math.isfinite(mse) else -math.inf

    def summary(self) -> str:
        """Return LIBLINEAR's two lines."""
        return (
            f"Mean squared error = {self.mean_squared_error:g} (regression)\n"
            f"Squared correlation coefficient = {self.squared_correlation:g} (regression)"
        )

    def as_dict(self) -> dict[str, float | int | None]:
        """Return ``mean_squared_error``, ``squared_correlation`` and ``rows``."""
        mse, r2 = self.mean_squared_error, self.squared_correlation
        return {
            "mean_squared_error": mse if np.isfinite(mse) else None,
            "squared_correlation": r2 if np.isfinite(r2) else None,
            "rows": self.rows,
        }


def _sum_of_products(a: Floats, b: Floats) -> float:
    """Return sum a_i b_i, added pairwise: a product of vectors depends on the threads of BLAS."""
    return float((a * b).sum())
