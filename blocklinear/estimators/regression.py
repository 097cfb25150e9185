"""Support vector regression."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin

from blocklinear.estimators.base import (
    PARAMETERS,
    BlockLinear,
    checked_weights,
    chosen,
)
from blocklinear.model.linear import LinearModel
from blocklinear.options import TrainOptions
from blocklinear.store.store import BlockStore


@dataclass(eq=False, repr=False)
class BlockLinearRegressor(RegressorMixin, BlockLinear):  # type: ignore[misc]
    """A support vector regressor, of one target a row."""

    _: KW_ONLY
    epsilon: float = 0.0
    loss: str = "epsilon_insensitive"

    def _fit_rows(self, X: Any, y: Any, sample_weight: Any) -> None:
        X, y = self._checked(X, y)
        X, y, weights = self._rows(X, y, sample_weight)
        with self._stored(X, np.asarray(y, np.float64), weights) as store:
            self._take(self._train(store, {}))

    def _fit_stored(self, store: BlockStore) -> None:
        self._take_features(store)
        self._take(self._train(store, {}))

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return the predicted value of each row."""
        return self._values(X)

    def _checked(self, X: Any, y: Any, reset: bool = True) -> Any:
        return self._validated(X, y=y, y_numeric=True, reset=reset)

    def _solver(self) -> int:
        known = {"epsilon_insensitive": 13, "squared_epsilon_insensitive": 12}
        return int(chosen("loss", self.loss, known))

    def _train_options(self, **options: Any) -> TrainOptions:
        return super()._train_options(epsilon=float(self.epsilon), **options)

    def _take(self, model: LinearModel | None) -> None:
        if model is not None:
            coef, self.intercept_ = self._weights(model, self.n_features_in_)
            self.coef_ = coef[0]


@dataclass(eq=False, repr=False)
class BlockLinearSVR(BlockLinearRegressor):
    """Support vector regression, as `sklearn.svm.LinearSVR` with ``dual=True``.

    Parameters
    ----------
    C : float
    epsilon : float
    loss : {"epsilon_insensitive", "squared_epsilon_insensitive"}
    """

    C: float = 1.0

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from a batch of rows, in one pass, and forget it.

        The problem is that of `fit` on all rows given so far, with the same C, and rows given twice
        count twice. It is solved approximately: each row takes one step of dual coordinate descent,
        and the weights are a mean of those after each row, later ones counting more. `tol`, `gap`
        and `max_iter` have no effect. After `fit`, it goes on from the fitted weights; `fit` starts
        afresh.

        Parameters
        ----------
        X : array_like or sparse matrix, shape (n_rows, n_features)
        y : array_like, shape (n_rows,)
        sample_weight : array_like, shape (n_rows,), optional
            Multiplies C of each row.

        Returns
        -------
        self
        """
        X, y = self._checked(X, y, reset=not hasattr(self, "coef_"))
        weights = checked_weights(sample_weight, X)
        used = np.flatnonzero(weights > 0)
        targets = np.asarray(y[used], np.float64)[None]
        coef, self.intercept_ = self._learn(X[used], targets, weights[None, used])
        self.coef_ = coef[0]
        return self


BlockLinearSVR.__doc__ = f"{(BlockLinearSVR.__doc__ or '').rstrip()}{PARAMETERS}"
