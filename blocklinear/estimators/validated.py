"""Estimators that choose C by cross-validation, all folds and all C in the same passes."""

from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import check_cv

from blocklinear.api.calling import telling, warn_caller
from blocklinear.errors import BlocklinearWarning
from blocklinear.estimators.base import PARAMETERS, BlockLinear, chosen
from blocklinear.estimators.classification import (
    LOGISTIC,
    LOSSES,
    BlockLinearClassifier,
    LogisticMixin,
    sorted_classes,
)
from blocklinear.estimators.regression import BlockLinearRegressor
from blocklinear.events import Event, SlowlyConverging, Warned
from blocklinear.model.linear import LinearModel
from blocklinear.objectives.problems import class_labels
from blocklinear.selection.cross_validation import MOST_FOLDS, cross_validate
from blocklinear.selection.out_of_fold import VALUE_METRICS
from blocklinear.store.store import BlockStore

_PARAMETERS = """

    Parameters
    ----------
    Cs : int, array_like of float or None
        Values of C, or how many of them from 1e-4 to 1e4, at equal ratios. None searches as
        LIBLINEAR's ``-C``: from a C so small that all rows are support vectors, doubled until
        nothing changes any more.
    cv : int, splitter of scikit-learn or iterable of (train, test)
        Folds, as scikit-learn makes them: of a number, those of `{folds}`. `fit_store` and
        `fit_batches` take a number, and deal {spread} to the folds,
        by a hash.
    scoring : {scoring} or None
        None is {default}.
        Rows count by their weights, as in scikit-learn's `LogisticRegressionCV`.
    refit : bool
        Fit to all rows with the best C; without it there are no `coef_`.
{more}"""
_OF_CLASSES = {
    "folds": "StratifiedKFold",
    "spread": "the rows of every class evenly",
    "scoring": '{"accuracy", "roc_auc", "f1", "f1_macro"}',
    "default": "accuracy. roc_auc and f1 are for two classes, f1_macro for more. F1 is that of\n"
    "        class 1, as in scikit-learn, or where there is none of the second class",
    "more": '    class_weight : dict, "balanced" or None\n',
}
_OF_VALUES = {
    "folds": "KFold",
    "spread": "rows",
    "scoring": '{"neg_mean_squared_error", "neg_mean_absolute_error"}',
    "default": "the first. Both are larger where a model is better",
    "more": "    epsilon : float\n",
}
_ATTRIBUTES = """    C_ : float                the best of `Cs_`, the smallest of equals
    Cs_ : float64[n_Cs]       in ascending order
    scores_ : float64[n_folds, n_Cs]
"""


@dataclass(eq=False, repr=False)
class _Choice:
    """The parameters of choosing C."""

    Cs: Any = 10
    _: KW_ONLY
    cv: Any = 5
    scoring: str | None = None
    refit: bool = True


class _Validated(_Choice, BlockLinear):
    """Chooses C before it trains with it."""

    _assigned: tuple[int, NDArray[np.int32]] | None = None
    _of_classes = False

    @abstractmethod
    def _metric(self, store: BlockStore) -> tuple[str, float]:
        """Return what chooses C, and what it is multiplied by to be larger where it is better."""

    def _fit_rows(self, X: Any, y: Any, sample_weight: Any) -> None:
        try:
            super()._fit_rows(X, y, sample_weight)  # type: ignore[safe-super]  # a subclass has one
        finally:
            self.__dict__.pop("_assigned", None)

    def _rows(
        self, X: Any, y: NDArray[Any], sample_weight: Any
    ) -> tuple[Any, NDArray[Any], NDArray[np.float64] | None]:
        splits = list(check_cv(self.cv, y, classifier=self._of_classes).split(X, y))
        X, y, weights, folds = self._weighed_rows(X, y, sample_weight, _folds(splits, len(y)))
        self._assigned = len(splits), folds
        return X, y, weights

    def _positive(self, store: BlockStore) -> float | None:
        """Return the label of the class whose F1 chooses C; None is the larger one."""
        return None

    def _train(self, store: BlockStore, options: dict[str, Any]) -> LinearModel | None:
        n_folds, assigned = self._assigned or (5 if self.cv is None else self.cv, None)
        if not isinstance(n_folds, Integral):
            raise ValueError(f"cv of a store is a number of folds, not {n_folds!r}")
        metric, sign = self._metric(store)
        precedence = sorted_classes(store.manifest)[0] if self._of_classes else []
        how = self._train_options(**(options | {"cost": 1.0}))
        with telling(_heard, bool(self.verbose), how.gap) as tell:
            found = cross_validate(
                store, how, n_folds=int(n_folds), costs=self._costs(), stratify=self._of_classes,
                metric=metric, positive=self._positive(store), assigned=assigned,
                weigh_scores=True, precedence=precedence, listener=tell,
            )  # fmt: skip
        scores = found.report.scores
        self.Cs_ = np.array([score.cost for score in scores])
        self.scores_ = np.array(
            [[sign * fold.get(metric, np.nan) for fold in score.folds] for score in scores]
        ).T
        self.C_ = found.best_cost
        if self.refit:
            return super()._train(store, options)
        self.n_iter_, self.dual_gap_ = found.report.outer_iterations, float("nan")
        for name in {"coef_", "intercept_"} & set(vars(self)):
            delattr(self, name)
        return None

    def _costs(self) -> list[float] | None:
        if self.Cs is None:
            return None
        if isinstance(self.Cs, Integral):
            return [float(cost) for cost in np.logspace(-4, 4, int(self.Cs))]
        return [float(cost) for cost in np.ravel(self.Cs)]

    def _cost(self) -> float:
        return float(self.C_)


def _heard(event: Event) -> None:
    """Give a warning of ours as one of Python's."""
    if isinstance(event, Warned):
        slow = isinstance(event, SlowlyConverging)
        warn_caller(event.message, ConvergenceWarning if slow else BlocklinearWarning)


def _folds(splits: list[tuple[Any, Any]], n_rows: int) -> NDArray[np.int32]:
    """Return the fold of each row, int32[n_rows].

    Raises
    ------
    ValueError
        If the splits are no folds: then their models cannot share the passes.
    """
    places = np.arange(n_rows)
    splits = [(places[train], places[test]) for train, test in splits]  # of masks, too
    if len(splits) > MOST_FOLDS:
        raise ValueError(f"cv makes {len(splits)} folds, and there may be at most {MOST_FOLDS}")
    folds = np.full(n_rows, -1, np.int32)
    for k, (_, test) in enumerate(splits):
        folds[test] = k
    for k, (train, test) in enumerate(splits):
        in_fold = folds == k
        if (
            (folds < 0).any()
            or in_fold.sum() != len(test)
            or in_fold[train].any()
            or (len(np.unique(train)) + len(test) != n_rows)
        ):
            raise ValueError(
                "cv has splits that are no folds: each row must be in the test set of one, and in "
                "the training sets of all others"
            )
    return folds


class _ValidatedClassifier(_Validated, BlockLinearClassifier):
    """Chooses C by how many labels are predicted, or how well rows are ranked."""

    _of_classes = True

    def _metric(self, store: BlockStore) -> tuple[str, float]:
        two = len(class_labels(store.manifest)) == 2
        known: dict[Any, str] = {None: "accuracy", "accuracy": "accuracy"}
        known |= {"roc_auc": "auc", "f1": "f1"} if two else {"f1_macro": "f1"}
        return chosen("scoring", self.scoring, known), 1.0

    def _positive(self, store: BlockStore) -> float | None:
        labels, classes = sorted_classes(store.manifest)
        return labels[0] if len(labels) == 2 and classes.tolist()[0] == 1 else None


@dataclass(eq=False, repr=False)
class BlockLinearSVCCV(_ValidatedClassifier):
    """Support vector classification with C chosen by cross-validation.

    The models of all folds, all C and all classes are trained in the same passes over the data, one
    store for all.

    With `loss`, "squared_hinge" or "hinge".
    """

    _: KW_ONLY
    loss: str = "squared_hinge"

    def _solver(self) -> int:
        return int(chosen("loss", self.loss, LOSSES))


@dataclass(eq=False, repr=False)
class BlockLogisticRegressionCV(LogisticMixin, _ValidatedClassifier):
    """Logistic regression with C chosen by cross-validation.

    The models of all folds, all C and all classes are trained in the same passes over the data, one
    store for all. More than two classes go one against the rest.
    """

    def _solver(self) -> int:
        return LOGISTIC


@dataclass(eq=False, repr=False)
class BlockLinearSVRCV(_Validated, BlockLinearRegressor):
    """Support vector regression with C chosen by cross-validation.

    The models of all folds and all C are trained in the same passes over the data, one store for
    all.

    With `loss`, "epsilon_insensitive" or "squared_epsilon_insensitive".
    """

    def _metric(self, store: BlockStore) -> tuple[str, float]:
        known: dict[Any, str] = {None: "mean_squared_error"}
        known |= {f"neg_{metric}": metric for metric in VALUE_METRICS}
        return chosen("scoring", self.scoring, known), -1.0


for _estimator, _words in (
    (BlockLinearSVCCV, _OF_CLASSES),
    (BlockLogisticRegressionCV, _OF_CLASSES),
    (BlockLinearSVRCV, _OF_VALUES),
):
    _own = (_estimator.__doc__ or "").rstrip() + _PARAMETERS.format(**_words).rstrip()
    _estimator.__doc__ = f"{_own}{PARAMETERS}{_ATTRIBUTES}"
