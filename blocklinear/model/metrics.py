"""How good predictions are, accumulated over a stream with LIBLINEAR's formulas."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


class Score(Protocol):
    """What is learnt from comparing predictions with labels, part by part."""

    def add(self, labels: Floats, predicted: Floats) -> None:
        """Take in some more rows.

        Parameters
        ----------
        labels, predicted : ndarray of float64, shape (n_rows,)
        """

    def summary(self) -> str:
        """Return the result in LIBLINEAR's words."""

    def as_dict(self) -> dict[str, float | int | None]:
        """Return the result by name; None where it is undefined."""


@dataclass
class AccuracyCounter:
    """The share of rows whose predicted label is theirs."""

    correct: int = 0
    rows: int = 0

    def add(self, labels: Floats, predicted: Floats) -> None:
        """Take in some more rows.

        Parameters
        ----------
        labels, predicted : ndarray of float64, shape (n_rows,)
        """
        self.correct += int(np.count_nonzero(labels == predicted))
        self.rows += len(labels)

    @property
    def accuracy(self) -> float:
        """From 0 to 1; NaN without rows."""
        return self.correct / self.rows if self.rows else float("nan")

    def summary(self) -> str:
        """Return ``Accuracy = 84.4444% (228/270)``."""
        percent = 100.0 * self.correct / self.rows if self.rows else float("nan")
        return f"Accuracy = {percent:g}% ({self.correct}/{self.rows})"

    def as_dict(self) -> dict[str, float | int | None]:
        """Return ``accuracy`` (0 to 1), ``correct`` and ``rows``."""
        accuracy = self.accuracy if self.rows else None
        return {"accuracy": accuracy, "correct": self.correct, "rows": self.rows}


@dataclass
class RegressionErrors:
    """Mean squared error and squared correlation coefficient.

    With predictions p, targets t and l rows:
    ``mse = sum (p - t)^2 / l`` and
    ``r2 = (l sum pt - sum p sum t)^2 / ((l sum p^2 - (sum p)^2) (l sum t^2 - (sum t)^2))``.
    """

    rows: int = 0
    squared: float = 0.0
    sum_p: float = 0.0
    sum_t: float = 0.0
    sum_pp: float = 0.0
    sum_tt: float = 0.0
    sum_pt: float = 0.0

    def add(self, labels: Floats, predicted: Floats) -> None:
        """Take in some more rows.

        Parameters
        ----------
        labels, predicted : ndarray of float64, shape (n_rows,)
        """
        error = predicted - labels
        self.rows += len(labels)
        self.squared += float(error @ error)
        self.sum_p += float(predicted.sum())
        self.sum_t += float(labels.sum())
        self.sum_pp += float(predicted @ predicted)
        self.sum_tt += float(labels @ labels)
        self.sum_pt += float(predicted @ labels)

    @property
    def mean_squared_error(self) -> float:
        """NaN without rows."""
        return self.squared / self.rows if self.rows else float("nan")

    @property
    def squared_correlation(self) -> float:
        """NaN where predictions or targets are all the same."""
        spread_p = self.rows * self.sum_pp - self.sum_p**2
        spread_t = self.rows * self.sum_tt - self.sum_t**2
        covariance = self.rows * self.sum_pt - self.sum_p * self.sum_t
        spread = spread_p * spread_t
        return covariance**2 / spread if spread != 0.0 else float("nan")

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
