"""What all estimators have in common: writing a store, training it, and the linear function."""

import contextlib
import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import normalize
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval
from sklearn.utils.extmath import row_norms, safe_sparse_dot
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from blocklinear.api.calling import telling, warn_caller
from blocklinear.arguments import batches_of, check_name, check_sparse
from blocklinear.batches.tables import as_table
from blocklinear.batches.writer import StoreWriter
from blocklinear.errors import BlocklinearWarning, BusyError, InputError
from blocklinear.estimators.one_pass import OnePass
from blocklinear.events import Event, OneLabel, SlowlyConverging, Warned
from blocklinear.memory import default_budget, parse_size, spare_bytes
from blocklinear.model.linear import LinearModel
from blocklinear.options import (
    BIAS_BOUND,
    MOST_THREADS,
    SplitOptions,
    TextOptions,
    TrainOptions,
)
from blocklinear.store.changes import AnyStore
from blocklinear.store.files import held, temporary_folder
from blocklinear.store.store import BlockStore
from blocklinear.training.loop import train

_SHARED_MEMORY = Path("/dev/shm")
_ROOM = 4
"""A temporary store lies in memory if there is so many times the room that its rows take."""

_BLOCK_BYTES = 4 << 20
"""Of rows in memory, to a block."""
_FEW = 1 << 16
"""Entries, zeros included, of rows that are few."""

PARAMETERS = """
    tol : float
        Stop when the violation is at most this, LIBLINEAR's ``-e``; unless `gap` is given. Newton's
        method, where that is cheaper or coordinate descent is slow, ends at a gap of this size.
    fit_intercept : bool
    intercept_scaling : float
        Value of the feature whose weight is the intercept; that is regularised.
    max_iter : int
        Outer iterations at most.
    random_state : int, RandomState or None
        None is 0: fits are repeatable.
    verbose : int
        Above 0, `fit` shows a progress bar.
    memory : int, str or None
        Budget of the process without X, in bytes or as "512M"; None is half of the machine's.
    gap : float or None
        Stop when the certified relative duality gap is at most this, instead of by `tol`.
    store : path or None
        Where the rows are written, and kept: a store there is replaced. None is a temporary folder;
        so is a path that another fit is writing to, as in a search with ``n_jobs``.
    n_jobs : int or None
        Threads; None and -1 are as many as there are processors.

    Attributes
    ----------
    coef_, intercept_ :       weights
    n_iter_ : int             outer iterations
    dual_gap_ : float         the certified relative duality gap: how far from the optimum, at most;
                              NaN after `partial_fit`, and with ``refit=False``
    n_samples_seen_ : int     rows of a weight above 0, those of `partial_fit` included
    n_features_in_ : int
    feature_names_in_ : ndarray of str, where X has names
"""
"""The part of docstrings that is the same for all estimators."""


ABOVE_0 = Interval(Real, 0, None, closed="neither")
"""A finite number above 0."""


@dataclass(eq=False, repr=False)
class BlockLinear(BaseEstimator, ABC):  # type: ignore[misc]
    """Writes and trains a store, and applies the weights; its fields are its parameters."""

    _: KW_ONLY
    tol: float = 1e-4
    fit_intercept: bool = True
    intercept_scaling: float = 1.0
    max_iter: int = 1000
    random_state: Any = None
    verbose: int = 0
    memory: int | str | None = None
    gap: float | None = None
    store: str | os.PathLike[str] | None = None
    n_jobs: int | None = None

    _normalized = False
    """Whether rows are divided by their norm: those of the store that was fitted were."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "C": [ABOVE_0],
        "Cs": [Interval(Integral, 1, None, closed="left"), "array-like", None],
        "epsilon": [Interval(Real, 0, None, closed="left")],
        "fit_intercept": ["boolean"],
        "gap": [ABOVE_0, None],
        "intercept_scaling": [Real],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "memory": [Interval(Integral, 1, None, closed="left"), str, None],
        "n_jobs": [Integral, None],
        "nu": [Interval(Real, 0, 1, closed="right")],
        "random_state": ["random_state"],
        "refit": ["boolean"],
        "store": [str, os.PathLike, None],
        "tol": [ABOVE_0],
        "verbose": ["verbose"],
    }

    @abstractmethod
    def _solver(self) -> int:
        """Return LIBLINEAR's number of the problem."""

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
        self._fit_rows(X, y, sample_weight)
        return self

    @abstractmethod
    def _fit_rows(self, X: Any, y: Any, sample_weight: Any) -> None:
        """Check rows in memory, write and train a store of them, and keep the model."""

    def fit_store(self, store: AnyStore) -> Self:
        """Fit to the rows of a store.

        Parameters
        ----------
        store : BlockStore or path
            If it divides rows by their norm, the estimator does so too.

        Returns
        -------
        self
        """
        self._fit_stored(BlockStore.of(store))
        return self

    @abstractmethod
    def _fit_stored(self, store: BlockStore) -> None:
        """Train a store, and keep the model."""

    def _validated(self, X: Any, **how: Any) -> Any:
        """Return rows that may be fitted to, and the `y` given, checked by scikit-learn."""
        return validate_data(
            self, X, accept_sparse="csr", dtype=[np.float64, np.float32], accept_large_sparse=True,
            **how,
        )  # fmt: skip

    def _text_options(self) -> TextOptions:
        self._validate_params()
        memory = self.memory
        budget = default_budget() if memory is None else memory
        size = parse_size(budget) if isinstance(budget, str) else int(budget)
        jobs: dict[str, Any] = {} if self.n_jobs in (None, -1) else {"threads": int(self.n_jobs)}
        if jobs and not 1 <= jobs["threads"] <= MOST_THREADS:
            raise ValueError(
                f"n_jobs is {self.n_jobs}, but must be None, -1, or from 1 to {MOST_THREADS}"
            )
        return TextOptions(memory_bytes=size, unsorted="sort", duplicates="sum", **jobs)

    @contextlib.contextmanager
    def _folder(self, n_bytes: int) -> Iterator[Path]:
        """Hand out the path of the store to write."""
        place = _SHARED_MEMORY if self._fits_in_memory(n_bytes) else None
        with contextlib.ExitStack() as stack:
            if self.store is not None:
                check_name(self.store)  # as a Path it would be this folder, whose store is replaced
                path = Path(self.store).absolute()
                place = path.parent
                try:  # another fit would replace the rows before they are trained on
                    if place.is_dir():  # others are refused by the writer
                        stack.enter_context(held(place / f".{path.name}.fitting"))
                except BusyError:
                    warn_caller(
                        f"{path}: another fit is writing to it, so that rows of this one are not "
                        "kept there", BlocklinearWarning,
                    )  # fmt: skip
                else:
                    yield path
                    return
            yield stack.enter_context(temporary_folder(place)) / "store"

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
            self._heard,
        )

    @contextlib.contextmanager
    def _stored(
        self, X: Any, y: NDArray[Any], weights: NDArray[np.float64] | None
    ) -> Iterator[BlockStore]:
        """Hand out a store of the rows, which has the names of their features too."""
        n_bytes = 16 * (X.nnz if hasattr(X, "nnz") else X.size)
        table = as_table(X)
        if hasattr(self, "feature_names_in_"):
            table.names = tuple(self.feature_names_in_)
        with self._folder(n_bytes) as path:
            with self._writer(path, n_bytes, hasattr(X, "nnz")) as writer:
                writer.append(table, y, weights)
            yield writer.store

    def _rows(
        self, X: Any, y: NDArray[Any], sample_weight: Any
    ) -> tuple[Any, NDArray[Any], NDArray[np.float64] | None]:
        """Return the rows to be written, and their weights; count them."""
        return self._weighed_rows(X, y, sample_weight)[:3]

    def _weighed_rows(
        self, X: Any, y: NDArray[Any], sample_weight: Any, folds: NDArray[np.int32] | None = None
    ) -> tuple[Any, NDArray[Any], NDArray[np.float64] | None, NDArray[np.int32]]:
        """Return rows without those of weight 0, with weights and folds; count them.

        Few rows are put in one order, and merged where they are equal: then a row of weight 2 and
        the same row given twice, or in another place, are one problem, and have one model, to the
        last bit.

        Parameters
        ----------
        X, y, sample_weight :     of `fit`
        folds : int32[n_rows] or None
            Rows of different folds are not merged.
        """
        _refuse_malformed(X)
        folds = np.zeros(X.shape[0], np.int32) if folds is None else folds
        weights = checked_weights(sample_weight, X)
        used = np.flatnonzero(weights > 0)
        self._begin(len(used))
        if not len(used):
            raise InputError("all rows have sample_weight 0", "give some row a weight")
        if len(used) < len(weights):
            X, y, weights, folds = X[used], y[used], weights[used], folds[used]
        _refuse_large(X, used)
        if X.shape[0] * X.shape[1] <= _FEW:
            dense = X.toarray() if hasattr(X, "toarray") else X
            table = np.column_stack([folds, np.unique(y, return_inverse=True)[1], dense])
            _, first, which = np.unique(table, axis=0, return_index=True, return_inverse=True)
            X, y, folds = X[first], y[first], folds[first]
            weights = np.bincount(which.ravel(), weights).astype(np.float64)
        return X, y, None if (weights == 1).all() else weights, folds

    def _begin(self, n_rows: int) -> None:
        """Forget what `partial_fit` keeps; count the rows to be fitted."""
        self.__dict__.pop("_one_pass", None)
        self._normalized = False
        self.n_samples_seen_ = n_rows

    def _train_options(self, **options: Any) -> TrainOptions:
        """Return the parameters as options, with more of these."""
        text = self._text_options()
        scaling = float(self.intercept_scaling)
        if self.fit_intercept and not 0.0 < scaling < BIAS_BOUND:
            raise ValueError(
                f"intercept_scaling is {scaling}, but must be above 0 and below 1e153 where "
                "fit_intercept is true"
            )
        bound: dict[str, Any] = (
            {"tolerance": float(self.tol)} if self.gap is None else {"gap": float(self.gap)}
        )
        shared: dict[str, Any] = {
            "solver": self._solver(),
            "method": "auto",
            "bias": scaling if self.fit_intercept else -1.0,
            "max_outer": int(self.max_iter),
            "seed": self._seed(),
            "threads": text.threads,
            "memory_bytes": text.memory_bytes,
            "checkpoint_s": float("inf"),
            "restart": True,
        }
        if "cost" not in options:
            shared["cost"] = self._cost()
        return TrainOptions(**(shared | bound | options))

    def _cost(self) -> float:
        return float(self.C)

    def _seed(self) -> int:
        state = self.random_state
        if state is None:
            return 0
        if isinstance(state, (int, np.integer)):
            return int(state)
        return int(check_random_state(state).randint(1 << 31))

    def _train(self, store: BlockStore, options: dict[str, Any]) -> LinearModel | None:
        """Train a store; keep what there is to tell of the run. None if that is not wanted."""
        how = self._train_options(**options)
        with telling(self._heard, bool(self.verbose), how.gap) as tell:
            model = train(store, how, tell)
        self.n_iter_ = int(model.metadata["outer_iterations"])
        self.dual_gap_ = float(model.metadata["certificate"]["gap"] or 0.0)
        if not self._is_optimum(model):
            warn_caller(
                f"{type(self).__name__} did not converge ({model.metadata['stopped']}): the "
                f"duality gap is {self.dual_gap_:.3g}; raise max_iter, or scale the data",
                ConvergenceWarning,
            )
        return model

    def _is_optimum(self, model: LinearModel) -> bool:
        """Say whether a model is as near to the optimum as was asked for."""
        return bool(model.metadata["stopped"] == "converged")

    def _weights(self, model: LinearModel, n_features: int) -> tuple[NDArray[np.float64], Any]:
        """Return the weights of all features of X, one row a column of the model, and the bias."""
        coef = np.zeros((model.n_columns, n_features))
        known = min(model.n_features, n_features)
        coef[:, :known] = model.weights[:known].T
        return coef, np.asarray(model.intercept, np.float64) + 0.0

    def _learn(
        self, X: Any, targets: NDArray[np.float64], weights: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Learn from a batch; return the weights and the intercepts of all columns.

        Parameters
        ----------
        X : ndarray or CSR matrix, shape (n_rows, n_features)
        targets : float64[n_columns, n_rows]
        weights : float64[n_columns, n_rows]
            What multiplies C.
        """
        options = self._train_options()
        bias = max(options.bias, 0.0)
        state: OnePass | None = self.__dict__.get("_one_pass")
        if state is None and hasattr(self, "coef_"):
            weight = np.ravel(self.intercept_) / (bias or 1.0)
            state = OnePass.after(np.atleast_2d(self.coef_), weight, self.n_samples_seen_)
        elif state is None:
            state = OnePass(len(targets), self.n_features_in_)
        state.learn(self._scaled(X), targets, weights * options.cost, options)
        self._one_pass = state
        self.n_samples_seen_, self.n_iter_, self.dual_gap_ = state.n_rows, 1, float("nan")
        average = state.average()
        return average[:, :-1].copy(), average[:, -1] * bias

    def _scaled(self, X: Any) -> Any:
        """Return rows as the weights apply to them; check what scikit-learn does not."""
        _refuse_malformed(X)
        return normalize(X) if self._normalized else X

    def _products(self, X: Any) -> NDArray[np.float64]:
        """Return w'x of rows, float64[n_rows, n_columns]."""
        check_is_fitted(self, "coef_")
        X = self._scaled(validate_data(self, X, accept_sparse="csr", reset=False))
        found: NDArray[np.float64] = safe_sparse_dot(
            X, np.atleast_2d(self.coef_).T, dense_output=True
        )
        return found

    def _values(self, X: Any) -> NDArray[np.float64]:
        values: NDArray[np.float64] = self._products(X) + self.intercept_
        return values.ravel() if values.shape[1] == 1 else values

    def _take_features(self, store: BlockStore) -> None:
        """Tell the features of a store as `fit` tells those of X; note if they are normalised."""
        self.n_features_in_ = store.manifest.dimension
        names = store.feature_names()
        if names is not None and len(names) == self.n_features_in_:
            self.feature_names_in_ = np.array(names, object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        zeros = store.manifest.weights["zeros"]
        self._begin(store.manifest.n_rows - zeros)
        self._normalized = store.manifest.normalize == "l2"

    def fit_batches(self, batches: Iterable[tuple[Any, ...]]) -> Self:
        """Fit to batches of rows: (X, y) or (X, y, sample_weight) each, as for `StoreWriter`."""
        with self._folder(0 if self.store is not None else 1 << 60) as path:
            with self._writer(path, None) as writer:
                for batch in batches_of(batches, 2):
                    writer.append(*batch)
            return self.fit_store(writer.store)

    def _heard(self, event: Event) -> None:
        """Give a warning as one of Python's; what is said of convergence, `_train` gives.

        One label is what a regression may have, and a classifier refuses.
        """
        if isinstance(event, Warned) and not isinstance(event, SlowlyConverging | OneLabel):
            warn_caller(event.message, BlocklinearWarning)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def checked_weights(sample_weight: Any, X: Any) -> NDArray[np.float64]:
    """Return the weights of rows, float64[n_rows]; 1 where none are given."""
    weights: NDArray[np.float64] = np.ones(X.shape[0])
    if sample_weight is not None:
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64)
    if (weights < 0).any():
        raise InputError("sample_weight has values below 0", "weights are 0 or more")
    return weights


def _refuse_malformed(X: Any) -> None:
    """Refuse a sparse matrix with columns that it does not have: kernels would write there."""
    if hasattr(X, "nnz"):
        check_sparse(X)


def _refuse_large(X: Any, numbers: NDArray[np.intp]) -> None:
    """Refuse a row whose squares overflow, by its number, before rows are in another order.

    Nearly always the largest value tells that there is none, and of float32 always.
    """
    values = X.data if hasattr(X, "nnz") else X
    if not values.size:
        return
    largest = max(-float(values.min()), float(values.max()))
    if np.isfinite(X.shape[1] * largest * largest):
        return
    with np.errstate(over="ignore"):
        bad = ~np.isfinite(row_norms(X, squared=True))
    if bad.any():
        raise InputError(f"row {numbers[bad][0]}: its squares overflow", "scale the data")


def chosen(name: str, value: Any, known: dict[str, Any]) -> Any:
    """Return what a parameter stands for.

    Raises
    ------
    ValueError
        If its value is none of those that are known.
    """
    if value not in list(known):  # which need not have a hash
        raise ValueError(f"{name} is {value!r}, but must be one of {', '.join(map(str, known))}")
    return known[value]
