"""Estimators for scikit-learn, which train from disk (extra ``sklearn``).

Parameters are named as in scikit-learn's `LinearSVC`, `LogisticRegression` and `LinearSVR`, and
mean the same: the problems are LIBLINEAR's, more than two classes go one against the rest.
`fit` writes a store in a temporary folder and trains it; `fit_store` trains one that is there, and
`fit_batches` takes what does not fit in memory.
"""

import contextlib
import os
import shutil
import tempfile
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state, compute_class_weight
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from blocklinear.batches.writer import StoreWriter
from blocklinear.classes import as_given
from blocklinear.errors import InputError
from blocklinear.memory import default_budget, parse_size, spare_bytes
from blocklinear.model.linear import LinearModel
from blocklinear.options import SplitOptions, TextOptions, TrainOptions
from blocklinear.store.changes import AnyStore
from blocklinear.store.store import BlockStore
from blocklinear.training.loop import train

_SHARED_MEMORY = Path("/dev/shm")
_ROOM = 4
"""A temporary store lies in memory if there is so many times the room that its rows take."""

_BLOCK_BYTES = 4 << 20
"""Of rows in memory, to a block."""
_FEW = 1 << 16
"""Entries, zeros included, of rows that are few."""


class _BlockLinear(BaseEstimator, ABC):  # type: ignore[misc]
    """What all have in common: writing a store, training it, and the linear function."""

    @abstractmethod
    def _solver(self) -> int:
        """Return LIBLINEAR's number of the problem."""

    def _text_options(self) -> TextOptions:
        memory = self.memory
        budget = default_budget() if memory is None else memory
        size = budget if isinstance(budget, int) else parse_size(budget)
        jobs: dict[str, Any] = {} if self.n_jobs in (None, -1) else {"threads": int(self.n_jobs)}
        return TextOptions(memory_bytes=size, unsorted="sort", duplicates="sum", **jobs)

    @contextlib.contextmanager
    def _folder(self, n_bytes: int) -> Iterator[Path]:
        """Hand out the path of the store to write."""
        if self.store is not None:
            yield Path(self.store)
            return
        place = _SHARED_MEMORY if self._fits_in_memory(n_bytes) else None
        with tempfile.TemporaryDirectory(prefix="blocklinear-", dir=place) as folder:
            yield Path(folder) / "store"

    def _fits_in_memory(self, n_bytes: int) -> bool:
        """Say whether a temporary store may lie in memory: it counts there as the process does."""
        if n_bytes > self._text_options().memory_bytes // 8:
            return False
        try:
            return shutil.disk_usage(_SHARED_MEMORY).free >= _ROOM * n_bytes
        except OSError:  # there is none
            return False

    def _writer(self, path: Path, n_bytes: int | None, renumber: bool = True) -> StoreWriter:
        """Return what writes the rows, which take `n_bytes` in memory, if that is known."""
        text, blocks = self._text_options(), None
        if n_bytes is not None and n_bytes < spare_bytes(text.memory_bytes) // 8:
            blocks = min(max(n_bytes // _BLOCK_BYTES, 1), 32)  # fewer than are open by default
        compression = "none" if self.store is None else "zstd:1"
        return StoreWriter(
            path,
            SplitOptions(
                text=text, compression=compression, renumber=renumber, force=True, blocks=blocks
            ),
        )

    def _fit_rows(
        self, X: Any, y: NDArray[Any], weights: NDArray[np.float64] | None, options: dict[str, Any]
    ) -> LinearModel:
        n_bytes = 16 * (X.nnz if hasattr(X, "nnz") else X.size)
        with self._folder(n_bytes) as path:
            with self._writer(path, n_bytes, hasattr(X, "nnz")) as writer:
                writer.append(X, y, weights)
            return self._train(writer.store, options)

    def _train(self, store: BlockStore, options: dict[str, Any]) -> LinearModel:
        """Train a store; keep what there is to tell of the run."""
        text = self._text_options()
        scaling = float(self.intercept_scaling)
        if self.fit_intercept and scaling <= 0:
            raise ValueError(
                f"intercept_scaling is {scaling}, but must be above 0 where fit_intercept is true"
            )
        state = self.random_state
        seed = state if isinstance(state, (int, np.integer)) else 0
        if state is not None and not isinstance(state, (int, np.integer)):
            seed = check_random_state(state).randint(1 << 31)
        bound: dict[str, Any] = (
            {"tolerance": float(self.tol)} if self.gap is None else {"gap": float(self.gap)}
        )
        model = train(
            store,
            TrainOptions(
                solver=self._solver(),
                cost=float(self.C),
                bias=scaling if self.fit_intercept else -1.0,
                max_outer=int(self.max_iter),
                seed=int(seed),
                threads=text.threads,
                memory_bytes=text.memory_bytes,
                checkpoint_s=float("inf"),
                restart=True,
                **bound,
                **options,
            ),
        )
        self.n_iter_ = int(model.metadata["outer_iterations"])
        self.dual_gap_ = float(model.metadata["certificate"]["gap"] or 0.0)
        if model.metadata["stopped"] != "converged":
            warnings.warn(
                f"{type(self).__name__} did not converge ({model.metadata['stopped']}): the "
                f"duality gap is {self.dual_gap_:.3g}; raise max_iter, or scale the data",
                ConvergenceWarning,
                stacklevel=3,
            )
        return model

    def _weights(self, model: LinearModel, n_features: int) -> tuple[NDArray[np.float64], Any]:
        """Return the weights of all features of X, one row a column of the model, and the bias."""
        coef = np.zeros((model.n_columns, n_features))
        known = min(model.n_features, n_features)
        coef[:, :known] = model.weights[:known].T
        return coef, np.asarray(model.intercept, np.float64) + 0.0

    def _values(self, X: Any) -> NDArray[np.float64]:
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", reset=False)
        found = safe_sparse_dot(X, np.atleast_2d(self.coef_).T, dense_output=True)
        values: NDArray[np.float64] = found + self.intercept_
        return values.ravel() if values.shape[1] == 1 else values

    def _take_names(self, store: BlockStore) -> None:
        """Tell the features of a store as `fit` tells those of X."""
        self.n_features_in_ = store.manifest.dimension
        names = store.feature_names()
        if names is not None and len(names) == self.n_features_in_:
            self.feature_names_in_ = np.array(names, object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def fit_batches(self, batches: Iterable[tuple[Any, ...]]) -> Self:
        """Fit to batches of rows: (X, y) or (X, y, sample_weight) each, as for `StoreWriter`."""
        with self._folder(0 if self.store is not None else 1 << 60) as path:
            with self._writer(path, None) as writer:
                for batch in batches:
                    writer.append(*batch)
            return self.fit_store(writer.store)

    @abstractmethod
    def fit_store(self, store: AnyStore) -> Self:
        """Fit to the rows of a store."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class _BlockLinearClassifier(ClassifierMixin, _BlockLinear):  # type: ignore[misc]
    """A classifier; of two classes the second is the positive one."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to rows in memory.

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
        X, y = validate_data(
            self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32],
            accept_large_sparse=True,
        )  # fmt: skip
        check_classification_targets(y)
        X, y, weights = _weighed_rows(X, y, sample_weight)
        classes, codes = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(
                f"{type(self).__name__} needs rows of 2 classes at least; here is the one class "
                f"{classes[0]!r}"
            )
        labels = 2.0 * codes - 1.0 if len(classes) == 2 else codes.astype(np.float64)
        numbers = [-1.0, 1.0] if len(classes) == 2 else np.arange(float(len(classes))).tolist()
        model = self._fit_rows(X, labels, weights, self._class_weights(classes, y, numbers))
        self._take(model, classes, dict(zip(numbers, range(len(classes)), strict=True)))
        return self

    def fit_store(self, store: AnyStore) -> Self:
        """Fit to the rows of a store.

        Parameters
        ----------
        store : BlockStore or path

        Returns
        -------
        self
        """
        store = BlockStore.of(store)
        if self.class_weight not in (None, "balanced"):
            raise ValueError("class_weight of a store is None or 'balanced'")
        self._take_names(store)
        model = self._train(store, {"balanced": self.class_weight == "balanced"})
        given = as_given(np.array(model.labels), model.classes)
        order = np.argsort(given, kind="stable")
        places = {model.labels[k]: place for place, k in enumerate(order.tolist())}
        self._take(model, given[order], places)
        return self

    def _class_weights(
        self, classes: NDArray[Any], y: NDArray[Any], numbers: list[float]
    ) -> dict[str, Any]:
        if self.class_weight is None:
            return {}
        weights = compute_class_weight(self.class_weight, classes=classes, y=y)
        return {"class_weights": tuple(zip(numbers, map(float, weights), strict=True))}

    def _take(self, model: LinearModel, classes: NDArray[Any], places: dict[float, int]) -> None:
        """Keep a model; `places` has the place in `classes` of each of its labels."""
        coef, intercept = self._weights(model, self.n_features_in_)
        if model.n_columns == 1:
            if places[model.labels[0]] == 0:  # the second class is the positive one
                coef, intercept = -coef, -intercept + 0.0
        else:
            order = np.argsort([places[label] for label in model.labels])
            coef, intercept = coef[order], intercept[order]
        self.classes_, self.coef_, self.intercept_ = classes, coef, intercept

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return the decision values of rows, shape (n_rows,) or (n_rows, n_classes)."""
        return self._values(X)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of each row."""
        values = self.decision_function(X)
        chosen = (values > 0).astype(int) if values.ndim == 1 else values.argmax(axis=1)
        found: NDArray[Any] = self.classes_[chosen]
        return found


class _BlockLinearRegressor(RegressorMixin, _BlockLinear):  # type: ignore[misc]
    """A regressor."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to rows in memory.

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
        X, y = validate_data(
            self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], y_numeric=True,
            accept_large_sparse=True,
        )  # fmt: skip
        X, y, weights = _weighed_rows(X, y, sample_weight)
        self._take(self._fit_rows(X, np.asarray(y, np.float64), weights, self._options()))
        return self

    def fit_store(self, store: AnyStore) -> Self:
        """Fit to the rows of a store.

        Parameters
        ----------
        store : BlockStore or path

        Returns
        -------
        self
        """
        store = BlockStore.of(store)
        self._take_names(store)
        self._take(self._train(store, self._options()))
        return self

    def _options(self) -> dict[str, Any]:
        return {"epsilon": float(self.epsilon)}

    def _take(self, model: LinearModel) -> None:
        coef, self.intercept_ = self._weights(model, self.n_features_in_)
        self.coef_ = coef[0]

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return the predicted value of each row."""
        return self._values(X)


def _weighed_rows(
    X: Any, y: NDArray[Any], sample_weight: Any
) -> tuple[Any, NDArray[Any], NDArray[np.float64] | None]:
    """Return rows with their weights, without those of weight 0, few of them in one order.

    Few rows are merged where they are equal, and sorted: then a row of weight 2 and the same row
    given twice, or in another place, are one problem, and have one model, to the last bit.
    """
    weights = np.ones(X.shape[0])
    if sample_weight is not None:
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64)
    if (weights < 0).any():
        raise InputError("sample_weight has values below 0", "weights are 0 or more")
    used = np.flatnonzero(weights > 0)
    if not len(used):
        raise InputError("all rows have sample_weight 0", "give some row a weight")
    if len(used) < len(weights):
        X, y, weights = X[used], y[used], weights[used]
    if X.shape[0] * X.shape[1] <= _FEW:
        dense = X.toarray() if hasattr(X, "toarray") else X
        table = np.column_stack([np.unique(y, return_inverse=True)[1], dense])
        _, first, which = np.unique(table, axis=0, return_index=True, return_inverse=True)
        X, y, weights = X[first], y[first], np.bincount(which.ravel(), weights)
    return X, y, None if (weights == 1).all() else weights


_PARAMETERS = """
    tol : float
        Stop when the violation is at most this, LIBLINEAR's ``-e``; unless `gap` is given.
    fit_intercept : bool
    intercept_scaling : float
        Value of the feature whose weight is the intercept; that is regularised.
    max_iter : int
        Outer iterations at most.
    random_state : int, RandomState or None
        None is 0: fits are repeatable.
    verbose : int
        Has no effect.
    memory : int, str or None
        Budget of the process without X, in bytes or as "512M"; None is half of the machine's.
    gap : float or None
        Stop when the certified relative duality gap is at most this, instead of by `tol`.
    store : path or None
        Where the rows are written, and kept: a store there is replaced. None is a temporary folder.
    n_jobs : int or None
        Threads; None and -1 are as many as there are processors.

    Attributes
    ----------
    coef_, intercept_ :       weights
    n_iter_ : int             outer iterations
    dual_gap_ : float         the certified relative duality gap: how far from the optimum, at most
    n_features_in_ : int
    feature_names_in_ : ndarray of str, where X has names
"""


class BlockLinearSVC(_BlockLinearClassifier):
    """Support vector classification, as `sklearn.svm.LinearSVC` with ``dual=True``.

    Parameters
    ----------
    C : float
    loss : {"squared_hinge", "hinge"}
    class_weight : dict, "balanced" or None
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
        loss: str = "squared_hinge",
        tol: float = 1e-4,
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        class_weight: Any = None,
        max_iter: int = 1000,
        random_state: Any = None,
        verbose: int = 0,
        memory: int | str | None = None,
        gap: float | None = None,
        store: str | os.PathLike[str] | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.C, self.loss, self.tol, self.fit_intercept = C, loss, tol, fit_intercept
        self.intercept_scaling, self.class_weight = intercept_scaling, class_weight
        self.max_iter, self.random_state, self.verbose = max_iter, random_state, verbose
        self.memory, self.gap, self.store, self.n_jobs = memory, gap, store, n_jobs

    def _solver(self) -> int:
        return _chosen("loss", self.loss, {"squared_hinge": 1, "hinge": 3})


class BlockLogisticRegression(_BlockLinearClassifier):
    """Logistic regression, as `sklearn.linear_model.LogisticRegression` with its solver liblinear.

    More than two classes go one against the rest.

    Parameters
    ----------
    C : float
    class_weight : dict, "balanced" or None
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
        tol: float = 1e-4,
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        class_weight: Any = None,
        max_iter: int = 1000,
        random_state: Any = None,
        verbose: int = 0,
        memory: int | str | None = None,
        gap: float | None = None,
        store: str | os.PathLike[str] | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.C, self.tol, self.fit_intercept = C, tol, fit_intercept
        self.intercept_scaling, self.class_weight = intercept_scaling, class_weight
        self.max_iter, self.random_state, self.verbose = max_iter, random_state, verbose
        self.memory, self.gap, self.store, self.n_jobs = memory, gap, store, n_jobs

    def _solver(self) -> int:
        return 7

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probabilities of the classes, shape (n_rows, n_classes).

        Of more than two classes those of one against the rest are divided by their sum.
        """
        values = self.decision_function(X)
        with np.errstate(over="ignore"):
            shares: NDArray[np.float64] = 1.0 / (1.0 + np.exp(-values))
        if values.ndim == 1:
            return np.column_stack([1.0 - shares, shares])
        totals = shares.sum(axis=1, keepdims=True)
        return np.where(totals > 0, shares / np.where(totals > 0, totals, 1), 1 / values.shape[1])

    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the logarithms of the probabilities."""
        with np.errstate(divide="ignore"):
            found: NDArray[np.float64] = np.log(self.predict_proba(X))
        return found


class BlockLinearSVR(_BlockLinearRegressor):
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

    def _solver(self) -> int:
        known = {"epsilon_insensitive": 13, "squared_epsilon_insensitive": 12}
        return _chosen("loss", self.loss, known)


for _estimator in (BlockLinearSVC, BlockLogisticRegression, BlockLinearSVR):
    _estimator.__doc__ = f"{(_estimator.__doc__ or '').rstrip()}{_PARAMETERS}"


def _chosen(name: str, value: Any, known: dict[str, int]) -> int:
    if value not in known:
        raise ValueError(f"{name} is {value!r}, but must be one of {', '.join(known)}")
    return known[value]
