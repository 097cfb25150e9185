"""Support vector regression."""

import os
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


class BlockLinearRegressor(RegressorMixin, BlockLinear):  # type: ignore[misc]
    """A support vector regressor, of one target a row."""

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


class BlockLinearSVR(BlockLinearRegressor):
    """Support vector regression, as `sklearn.svm.LinearSVR` with ``dual=True``.

    Parameters
    ----------
    C : float
    epsilon : float
    loss : {"epsilon_insensitive", "squared_epsilon_insensitive"}
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
        epsilon: float = 0.0,
        loss: str = "epsilon_insensitive",
        tol: float = 1e-4,
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        max_iter: int = 1000,
        random_state: Any = None,
        verbose: int = 0,
        memory: int | str | None = None,
        gap: float | None = None,
        store: str | os.PathLike[str] | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.C, self.epsilon, self.loss, self.tol = C, epsilon, loss, tol
        self.fit_intercept, self.intercept_scaling = fit_intercept, intercept_scaling
        self.max_iter, self.random_state, self.verbose = max_iter, random_state, verbose
        self.memory, self.gap, self.store, self.n_jobs = memory, gap, store, n_jobs

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
