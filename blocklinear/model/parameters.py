"""What a linear model is: its weights and what they mean, as the model files hold them."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from blocklinear.classes import Classes, code_text, named_labels
from blocklinear.solver_types import SOLVERS_BY_NAME

Floats = npt.NDArray[np.float64]


def expected_columns(solver: str, n_labels: int) -> int:
    """Return how many decision values a model of this kind has (1 if `solver` is no classifier).

    Parameters
    ----------
    solver : str              a key of `SOLVERS_BY_NAME`
    """
    return max(n_labels, 1) if n_labels != 2 or solver == "MCSVM_CS" else 1


@dataclass(frozen=True)
class WeightsToRead:
    """What a model file is known to hold before its weights are read."""

    n_bytes: int  # that the weights take
    n_columns: int  # decision values of a row
    of_tables: bool  # whether rows are made of tables, by a recipe


@dataclass(frozen=True, eq=False)
class ModelParameters:
    """The contents of a model file, as they were read: `LinearModel` checks them."""

    weights: Floats  # float64[n_features, n_columns]
    bias_weights: Floats  # float64[n_columns]
    bias: float
    labels: tuple[float, ...]
    solver: str  # a key of `SOLVERS_BY_NAME`
    index_base: int = 1
    metadata: dict[str, Any] = field(default_factory=dict)
    rho: float = 0.0
    # labels as they were given, where `labels` are numbers that stand for them
    classes: Classes = field(default_factory=dict)
    feature_names: tuple[str, ...] | None = None  # of the first features

    @property
    def n_features(self) -> int:
        """Number of features, without the bias."""
        return len(self.weights)

    @property
    def hash_bits(self) -> int:
        """Bits of the hashes that features are; 0 if they are as written."""
        bits: int = self.metadata.get("hash_bits", 0)
        return bits

    @property
    def normalize(self) -> str:
        """Whether rows are divided by their Euclidean norm: "l2", or "none"."""
        name: str = self.metadata.get("normalize", "none")
        return name

    @property
    def n_columns(self) -> int:
        """Number of decision values of a row."""
        return len(self.bias_weights)

    @property
    def is_classifier(self) -> bool:
        """Whether `labels` name classes: neither regression nor one-class."""
        return SOLVERS_BY_NAME[self.solver].classifies

    @property
    def is_regressor(self) -> bool:
        """Whether the decision value itself is the prediction."""
        return SOLVERS_BY_NAME[self.solver].regression

    @property
    def is_logistic(self) -> bool:
        """Whether decision values have a meaning as probabilities."""
        return SOLVERS_BY_NAME[self.solver].loss == "logistic"

    @property
    def outcomes(self) -> tuple[float, ...]:
        """What `predict` may return: the labels, or 1 and -1; empty for regression."""
        return (1.0, -1.0) if self.solver == "ONECLASS_SVM" else self.labels

    @property
    def outcome_names(self) -> list[str]:
        """The outcomes as people read them."""
        return [code_text(outcome, self.named) for outcome in self.outcomes]

    @property
    def named(self) -> Classes:
        """Labels as they are named, by their numbers: `classes`, or false and true of a table.

        None if the target is ignored: 1 and -1 are no values of it.
        """
        if not self.is_classifier:
            return {}
        return named_labels(self.metadata.get("recipe"), self.classes)

    @property
    def intercept(self) -> Floats:
        """What is added to each decision value, shape (n_columns,)."""
        return max(self.bias, 0.0) * self.bias_weights - self.rho
