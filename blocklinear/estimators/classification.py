"""Classifiers: support vectors and logistic regression."""

from collections.abc import Iterable, Iterator
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets, unique_labels

from blocklinear.arguments import batches_of
from blocklinear.batches.labels import LabelCoder
from blocklinear.classes import as_given, given_labels
from blocklinear.errors import InputError
from blocklinear.estimators.base import (
    PARAMETERS,
    BlockLinear,
    checked_weights,
    chosen,
)
from blocklinear.model.linear import LinearModel
from blocklinear.numerals import DISTINCT_INTEGERS
from blocklinear.objectives.problems import class_labels
from blocklinear.store.manifest import Manifest
from blocklinear.store.store import BlockStore


@dataclass(eq=False, repr=False)
class BlockLinearClassifier(ClassifierMixin, BlockLinear):  # type: ignore[misc]
    """A classifier; of two classes the second is the positive one."""

    _: KW_ONLY
    class_weight: Any = None
    classes_: NDArray[Any] = field(init=False)

    def _fit_rows(self, X: Any, y: Any, sample_weight: Any) -> None:
        X, y = self._validated(X, y=y)
        check_classification_targets(y)
        X, y, weights = self._rows(X, y, sample_weight)
        classes, codes = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(
                f"{type(self).__name__} needs rows of 2 classes at least; here is the one class "
                f"{classes[:1].tolist()[0]!r}"
            )
        stored = _stored_classes(classes)
        with self._stored(X, stored[codes], weights) as store:
            labels = class_labels(store.manifest)
            place_of = {label: place for place, label in enumerate(stored.tolist())}
            given = given_labels(labels, store.manifest.given)
            places = {label: place_of[g] for label, g in zip(labels, given, strict=True)}
            model = self._train(store, self._class_weights(classes, y, places))
        self._take(model, classes, places)

    def _fit_stored(self, store: BlockStore) -> None:
        if self.class_weight not in (None, "balanced"):
            raise ValueError("class_weight of a store is None or 'balanced'")
        self._take_features(store)
        model = self._train(store, self._balanced())
        labels, classes = sorted_classes(store.manifest)
        self._take(model, classes, {label: place for place, label in enumerate(labels)})

    def fit_batches(self, batches: Iterable[tuple[Any, ...]]) -> Self:
        """Fit to batches of rows: (X, y) or (X, y, sample_weight) each, as for `StoreWriter`."""
        kinds = set()

        def noted() -> Iterator[tuple[Any, ...]]:
            for batch in batches_of(batches, 2):
                kinds.add(np.asarray(batch[1]).dtype)
                yield batch

        super().fit_batches(noted())
        if self.classes_.dtype.kind == "f" and all(kind.kind in "biu" for kind in kinds):
            self.classes_ = self.classes_.astype(np.result_type(*kinds))
        return self

    def _balanced(self) -> dict[str, Any]:
        return {"balanced": self.class_weight is not None}

    def _class_weights(
        self, classes: NDArray[Any], y: NDArray[Any], places: dict[float, int]
    ) -> dict[str, Any]:
        """Return the option; `places` has the place in `classes` of each label of the store."""
        if self.class_weight is None or self.class_weight == "balanced":
            return self._balanced()
        weights = self._factors(classes, y).tolist()
        return {"class_weights": tuple((label, weights[k]) for label, k in places.items())}

    def _factors(self, classes: NDArray[Any], y: NDArray[Any]) -> NDArray[np.float64]:
        """Return what `class_weight`, a dict, multiplies C by for each of the classes."""
        factors: NDArray[np.float64] = np.asarray(
            compute_class_weight(self.class_weight, classes=classes, y=y), np.float64
        )
        for name, factor in zip(classes.tolist(), factors.tolist(), strict=True):
            if not 0.0 < factor < np.inf:
                raise ValueError(
                    f"class_weight of {name!r} is {factor}, but must be finite and above 0"
                )
        return factors

    def _take(
        self, model: LinearModel | None, classes: NDArray[Any], places: dict[float, int]
    ) -> None:
        """Keep a model; `places` has the place in `classes` of each of its labels."""
        self.classes_ = classes
        if model is None:
            return
        coef, intercept = self._weights(model, self.n_features_in_)
        if model.n_columns == 1:
            if places[model.labels[0]] == 0:  # the second class is the positive one
                coef, intercept = -coef, -intercept + 0.0
        else:
            order = np.argsort([places[label] for label in model.labels])
            coef, intercept = coef[order], intercept[order]
        self.coef_, self.intercept_ = coef, intercept

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return the decision values of rows, shape (n_rows,) or (n_rows, n_classes)."""
        return self._values(X)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of each row."""
        values = self.decision_function(X)
        places = (values > 0).astype(int) if values.ndim == 1 else values.argmax(axis=1)
        found: NDArray[Any] = self.classes_[places]
        return found


def sorted_classes(manifest: Manifest) -> tuple[list[float], NDArray[Any]]:
    """Return the labels of a store in the order of their classes, and these, as they were given."""
    labels = np.array(class_labels(manifest))
    given = as_given(labels, manifest.given)
    order = np.argsort(given, kind="stable")
    return labels[order].tolist(), given[order]


def _stored_classes(classes: NDArray[Any]) -> NDArray[Any]:
    """Return classes as a store has them: as they are, or numbered if they are no labels there.

    Dates are none, nor are floats from 2**53 on, nor text that is not printable.
    """
    try:
        codes = LabelCoder({}).codes(classes, len(classes))
    except InputError:
        return np.arange(len(classes))
    return classes if (np.abs(codes) < DISTINCT_INTEGERS).all() else np.arange(len(classes))


class _Streamed(BlockLinearClassifier):
    """A classifier that learns from batches too."""

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
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
        classes : array_like, shape (n_classes,), optional
            All classes there will be; required by the first call, but after `fit`.
        sample_weight : array_like, shape (n_rows,), optional
            Multiplies C of each row.

        Returns
        -------
        self
        """
        first = not hasattr(self, "coef_")
        known = self._known_classes(classes, first)
        if self.class_weight == "balanced":
            raise ValueError("class_weight is 'balanced', which needs all rows: give a dict")
        X, y = self._validated(X, y=y, reset=first)
        check_classification_targets(y)
        unknown = np.setdiff1d(y, known)
        if len(unknown):
            raise ValueError(
                f"y has {unknown.tolist()[0]!r}, which is not one of the classes {known}"
            )
        weights = checked_weights(sample_weight, X)
        used = np.flatnonzero(weights > 0)
        X, codes, weights = X[used], np.searchsorted(known, y[used]), weights[used]
        factors = np.ones(len(known))
        if self.class_weight is not None:
            factors = self._factors(known, known)
        positive = codes == (np.array([[1]]) if len(known) == 2 else np.arange(len(known))[:, None])
        if len(known) == 2:
            weights = (weights * factors[codes])[None]
        else:
            weights = weights * np.where(positive, factors[:, None], 1.0)
        self.classes_ = known
        self.coef_, self.intercept_ = self._learn(X, np.where(positive, 1.0, -1.0), weights)
        return self

    def _known_classes(self, given: Any, first: bool) -> NDArray[Any]:
        """Return the classes, in order."""
        if first and given is None:
            raise ValueError("classes must be passed on the first call to partial_fit.")
        known: NDArray[Any] = self.classes_ if given is None else unique_labels(given)
        if not first and not np.array_equal(known, self.classes_):
            raise ValueError(f"classes are {known}, but were {self.classes_}")
        if len(known) < 2:
            raise ValueError(f"{type(self).__name__} needs 2 classes at least, but has {known}")
        return known


class LogisticMixin:
    """Probabilities of the classes."""

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probabilities of the classes, shape (n_rows, n_classes).

        Of more than two classes those of one against the rest are divided by their sum.
        """
        values = self.decision_function(X)  # type: ignore[attr-defined]
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


LOSSES = {"squared_hinge": 1, "hinge": 3}
LOGISTIC = 7


@dataclass(eq=False, repr=False)
class BlockLinearSVC(_Streamed):
    """Support vector classification, as `sklearn.svm.LinearSVC` with ``dual=True``.

    Parameters
    ----------
    C : float
    loss : {"squared_hinge", "hinge"}
    class_weight : dict, "balanced" or None
    """

    C: float = 1.0
    _: KW_ONLY
    loss: str = "squared_hinge"

    def _solver(self) -> int:
        return int(chosen("loss", self.loss, LOSSES))


@dataclass(eq=False, repr=False)
class BlockLogisticRegression(LogisticMixin, _Streamed):
    """Logistic regression, as `sklearn.linear_model.LogisticRegression` with its solver liblinear.

    More than two classes go one against the rest.

    Parameters
    ----------
    C : float
    class_weight : dict, "balanced" or None
    """

    C: float = 1.0

    def _solver(self) -> int:
        return LOGISTIC


for _estimator in (BlockLinearSVC, BlockLogisticRegression):
    _estimator.__doc__ = f"{(_estimator.__doc__ or '').rstrip()}{PARAMETERS}"
