"""One-class support vector machines."""

from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import OutlierMixin

from blocklinear.estimators.base import BlockLinear
from blocklinear.model.linear import LinearModel
from blocklinear.objectives.certificate import Certificate
from blocklinear.options import TrainOptions
from blocklinear.store.store import BlockStore


@dataclass(eq=False, repr=False)
class BlockLinearOneClassSVM(OutlierMixin, BlockLinear):  # type: ignore[misc]
    """One-class support vector machine, as `sklearn.svm.OneClassSVM` with ``kernel="linear"``.

    Outliers are rows on the side of 0 of a plane that separates 0 from the others; features whose
    mean is 0 have no such plane. Labels are not used.

    Parameters
    ----------
    nu : float
        Above 0, at most 1: at most this share of the rows, by their weights, are outliers.
    tol : float
        Stop when the violation is at most this, LIBLINEAR's ``-e``; unless `gap` is given.
    max_iter, random_state, verbose, memory, gap, store, n_jobs :     as for `BlockLinearSVC`

    Attributes
    ----------
    coef_, intercept_ :       w, of shape (1, n_features), and -rho, of shape (1,)
    offset_ : float           rho
    n_iter_ : int             outer iterations
    dual_gap_ : float         the certified relative duality gap: how far from the optimum, at most
    n_samples_seen_ : int     rows of a weight above 0
    n_features_in_ : int
    feature_names_in_ : ndarray of str, where X has names
    """

    _: KW_ONLY
    nu: float = 0.5
    tol: float = 1e-3
    fit_intercept: bool = field(default=False, init=False)
    intercept_scaling: float = field(default=1.0, init=False)

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit to rows in memory.

        Parameters
        ----------
        X : array_like or sparse matrix, shape (n_rows, n_features)
        y : ignored
        sample_weight : array_like, shape (n_rows,), optional
            A row of weight 2 counts as often as two rows.

        Returns
        -------
        self
        """
        return super().fit(X, y, sample_weight)

    def _fit_rows(self, X: Any, y: Any, sample_weight: Any) -> None:
        X = self._validated(X)
        X, labels, weights = self._rows(X, np.zeros(X.shape[0]), sample_weight)
        with self._stored(X, labels, weights) as store:
            self._take(self._train(store, {}))

    def _fit_stored(self, store: BlockStore) -> None:
        self._take_features(store)
        self._take(self._train(store, {}))

    def score_samples(self, X: Any) -> NDArray[np.float64]:
        """Return w'x of each row: the smaller, the more of an outlier."""
        return self._products(X).ravel()

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return w'x less `offset_` of each row: below 0 for outliers."""
        found: NDArray[np.float64] = self.score_samples(X) - self.offset_
        return found

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Return -1 for outliers and 1 for others."""
        return np.where(self.decision_function(X) >= 0.0, 1, -1)

    def _solver(self) -> int:
        return 21

    def _cost(self) -> float:
        return 1.0

    def _train_options(self, **options: Any) -> TrainOptions:
        return super()._train_options(nu=float(self.nu), **options)

    def _is_optimum(self, model: LinearModel) -> bool:
        zero = Certificate(**model.metadata["certificate"]).of_zero  # which another warning says
        return zero or super()._is_optimum(model)

    def _take(self, model: LinearModel | None) -> None:
        if model is not None:
            self.coef_, self.intercept_ = self._weights(model, self.n_features_in_)
            self.offset_ = float(model.rho)
