"""How good a model is on rows whose labels are known: scores, ROC, calibration, confusion."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from blocklinear.classes import as_given
from blocklinear.errors import InputError, UsageError
from blocklinear.figures import classification
from blocklinear.markup import facts_html
from blocklinear.model.confusion import Confusion
from blocklinear.model.metrics import AccuracyCounter, OutlierCounter, RegressionErrors, Score
from blocklinear.model.parameters import ModelParameters
from blocklinear.model.probability import probabilities
from blocklinear.model.scores import auc
from blocklinear.numerals import as_json, counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = npt.NDArray[np.float64]
MOST_CURVES = 10
"""Columns of decision values that are kept: of more there are scores and a confusion matrix."""
_UNKNOWN = -1


@dataclass(frozen=True, eq=False)
class Curve:
    """A curve of two classes, or of one class against the others.

    Attributes
    ----------
    name : str                the positive class
    x, y : float64[n]         false and true positive rate; or recall and precision
    thresholds : float64[n]   rows of at least this decision value are taken for positive
    area : float              under the ROC curve; or the average precision
    """

    name: str
    x: Floats
    y: Floats
    thresholds: Floats
    area: float


@dataclass(frozen=True, eq=False)
class Calibration:
    """Predicted probabilities against what happened, in bins of equal width.

    Attributes
    ----------
    predicted, observed : float64[n]    mean probability of the rows of a bin; the share in which it
                              was so
    rows : int64[n]           of each bin; bins without rows are left out
    error : float             mean of |predicted - observed|, weighted by rows
    """

    predicted: Floats
    observed: Floats
    rows: npt.NDArray[np.int64]
    error: float


class Evaluation:
    """How good decision values are, where labels are known.

    It keeps the decision values of up to `MOST_CURVES` columns: 8 bytes for each row and column,
    and 4 for each row.

    Parameters
    ----------
    model : ModelParameters
        Which has the classes and the meaning of decision values.
    positive : float or None
        The class of two that curves and F1 are of; None is the larger label.

    Attributes
    ----------
    rows : int
    unknown_labels : int      rows of a class that the model does not have; they count as wrong, and
                              have no place in curves
    unlabelled : int          rows of a table without a target, which are left out
    score : Score             accuracy, or the errors of a regression; the number of outliers where
                              a one-class model meets other labels than 1 and -1
    confusion : Confusion or None       None for a regression, and for such labels

    Raises
    ------
    UsageError
        If `positive` is not one of two classes.
    """

    def __init__(self, model: ModelParameters, positive: float | None = None) -> None:
        self._outcomes = np.array(model.outcomes, np.float64)
        self._names, self._logistic = model.outcome_names, model.is_logistic
        self.rows = self.unknown_labels = self.unlabelled = 0
        self.score, regression = score_of(model), model.is_regressor
        if regression and positive is not None:
            raise UsageError(
                f"a positive class is for two classes, and the model has none ({model.solver})",
                "leave out --positive",
            )
        self.confusion = None if regression else Confusion(model.outcomes, positive, model.named)
        self._keeps = not regression and model.n_columns <= MOST_CURVES
        self._parts: list[tuple[npt.NDArray[np.int32], Floats]] = []

    @classmethod
    def from_decisions(
        cls,
        y_true: npt.ArrayLike,
        decisions: npt.ArrayLike,
        *,
        classes: Sequence[Any] | None = None,
        positive: Any = None,
        logistic: bool = False,
    ) -> Self:
        """Evaluate decision values of any classifier.

        Parameters
        ----------
        y_true : array_like, shape (n_rows,)
            Labels: numbers or text.
        decisions : array_like, shape (n_rows,) or (n_rows, n_classes)
            One column: a value above 0 is for `positive`. Several: the largest is chosen; of two
            columns their difference is one.
        classes : sequence or None
            In the order of the columns; by default those of `y_true`, sorted.
        positive : object
            The class of two that curves and F1 are of, and that the values of one column are for:
            by default the last of `classes`.
        logistic : bool
            Whether they are those of logistic regression, so that ``1 / (1 + exp(-d))`` is a
            probability: for the calibration.

        Returns
        -------
        Evaluation

        Raises
        ------
        UsageError
            If classes, labels and decision values do not fit together, or a value is NaN.
        """
        labels, values = np.asarray(y_true), np.asarray(decisions, np.float64)
        names: list[Any] = (np.unique(labels) if classes is None else np.asarray(classes)).tolist()
        if positive is not None and (len(names) != 2 or positive not in names):
            raise UsageError(
                f"positive is {positive!r}, but must be one of two classes, and there are {names}"
            )
        columns = values[:, None] if values.ndim == 1 else values
        wanted = (1, 2) if len(names) == 2 else (len(names),)
        if (
            len(set(names)) != max(len(names), 2) or labels.ndim != 1 or columns.ndim != 2
            or len(columns) != len(labels) or columns.shape[1] not in wanted
        ):  # fmt: skip
            raise UsageError(
                f"labels of shape {labels.shape} and {counted(len(names), 'class', 'classes')}, "
                f"but decision values of shape {values.shape}",
                "give a column for each class, or one for two classes",
            )
        codes = np.arange(len(names), dtype=np.float64)
        if len(names) == 2:  # the positive class comes first
            first = 1 if positive is None else names.index(positive)
            names, codes = [names[first], names[1 - first]], codes[::-1]
            if columns.shape[1] == 2:
                with np.errstate(invalid="ignore"):  # inf less inf is NaN, which is refused
                    columns = columns[:, [first]] - columns[:, [1 - first]]
        if np.isnan(columns).any():
            row = int(np.flatnonzero(np.isnan(columns).any(axis=1))[0])
            raise UsageError(f"row {row}: the decision value is NaN", "leave the row out")
        solver = "L2R_LR" if logistic else "L2R_L2LOSS_SVC"
        model = ModelParameters(
            np.empty((0, columns.shape[1])), np.zeros(columns.shape[1]), -1.0, tuple(codes), solver,
            classes=dict(zip(codes, map(str, names), strict=True)),
        )  # fmt: skip
        found = cls(model, codes[0] if len(names) == 2 else None)
        places = {name: code for name, code in zip(names, codes, strict=True)}
        known = [places.get(label, math.inf) for label in labels.tolist()]
        found.add(np.array(known, np.float64), columns)
        return found

    def add(self, labels: Floats, decisions: Floats) -> None:
        """Count some rows.

        Parameters
        ----------
        labels : float64[n_rows]
            As the model has them; infinite for a class that it does not have.
        decisions : float64[n_rows, n_columns]
        """
        self.rows += len(labels)
        if not len(self._outcomes):
            self.score.add(labels, decisions[:, 0])
            return
        if len(self._outcomes) == 2:  # as LinearModel.class_indices
            chosen = (~(decisions[:, 0] > 0)).astype(np.intp)
        else:
            chosen = np.argmax(decisions, axis=1)
        predicted = self._outcomes[chosen]
        self.score.add(labels, predicted)
        if isinstance(self.score, OutlierCounter) and not self.score.labelled:
            self.confusion, self._keeps, self._parts, self.unknown_labels = None, False, [], 0
        if self.confusion is None:
            return
        self.confusion.add(labels, predicted)
        order = np.argsort(self._outcomes)
        place = order[
            np.searchsorted(self._outcomes, labels, sorter=order).clip(max=len(order) - 1)
        ]
        truth = np.where(self._outcomes[place] == labels, place, _UNKNOWN).astype(np.int32)
        self.unknown_labels += int(np.count_nonzero(truth == _UNKNOWN))
        if self._keeps:
            self._parts.append((truth, decisions.copy()))

    @property
    def curves_are_kept(self) -> bool:
        """Whether there are curves: for classifiers of up to `MOST_CURVES` columns."""
        return self._keeps

    @property
    def is_logistic(self) -> bool:
        """Whether decision values have a meaning as probabilities."""
        return self._logistic

    @property
    def _unlike(self) -> str:
        """What it is where there are no classes."""
        return "a one-class model of unknown outliers" if len(self._names) else "a regression"

    def _kept(self) -> tuple[npt.NDArray[np.int32], Floats]:
        """Return the classes and decision values of all rows of known classes."""
        if not self._keeps:
            what = self._unlike
            if self.confusion is not None:
                what = counted(len(self._names), "class", "classes")
            raise UsageError(
                f"curves are those of a classifier of up to {MOST_CURVES} classes, and this is "
                f"{what}",
                "look at score and confusion",
            )
        if len(self._parts) > 1:
            truths, values = zip(*self._parts, strict=True)
            self._parts = [(np.concatenate(truths), np.concatenate(values))]
        if not self._parts:
            return np.empty(0, np.int32), np.empty((0, len(self._names)))
        truth, decisions = self._parts[0]
        if self.unknown_labels:
            known = truth != _UNKNOWN
            truth, decisions = truth[known], decisions[known]
        return truth, decisions

    def _positives(self) -> list[tuple[str, npt.NDArray[np.bool_], Floats]]:
        """Return name, rows and decision values of each class that curves are of."""
        truth, decisions = self._kept()
        if len(self._names) == 2:
            assert self.confusion is not None
            first = self._outcomes[0] == self.confusion.positive
            ahead = (
                decisions[:, 0] if decisions.shape[1] == 1 else decisions[:, 0] - decisions[:, 1]
            )
            number = 0 if first else 1
            return [(self._names[number], truth == number, ahead if first else -ahead)]
        return [(name, truth == k, decisions[:, k]) for k, name in enumerate(self._names)]

    def roc(self) -> list[Curve]:
        """Return the ROC curve of the positive class, or of each of several against the others.

        Returns
        -------
        list of Curve
            From (0, 0) to (1, 1), a point for each distinct decision value. NaN where a class, or
            all others, have no rows.

        Raises
        ------
        UsageError
            For a regression, or more classes than curves are kept of.
        """
        return [_roc(*found) for found in self._positives()]

    def precision_recall(self) -> list[Curve]:
        """Return precision against recall, of the positive class or of each of several.

        Returns
        -------
        list of Curve
            A point for each distinct decision value, from the largest on; the area is the average
            precision ``sum (R_n - R_(n-1)) P_n``.

        Raises
        ------
        UsageError
            As `roc` does.
        """
        return [_precision_recall(*found) for found in self._positives()]

    def calibration(self, bins: int = 10) -> Calibration:
        """Return how often what is predicted with some probability is so.

        Of two classes it is the probability of the positive one; of more that of the class that is
        predicted.

        Parameters
        ----------
        bins : int
            Of equal width.

        Raises
        ------
        UsageError
            If there are no probabilities: they are those of logistic regression.
        """
        if not self._logistic:
            raise UsageError(
                "there are no probabilities: they are those of logistic regression",
                "train with solver=7",
            )
        truth, decisions = self._kept()
        if len(self._names) == 2:
            ((_, hits, ahead),) = self._positives()
            shares = probabilities(ahead.reshape(-1, 1), 2)[:, 0]
        else:
            table = probabilities(decisions, len(self._names))
            chosen = np.argmax(decisions, axis=1)
            shares, hits = table[np.arange(len(table)), chosen], truth == chosen
        return _calibration(shares, hits, bins)

    def plot_roc(self, ax: "Axes | None" = None) -> "Figure":
        """Draw `roc`, with the areas.

        Parameters
        ----------
        ax : matplotlib Axes or None
            Where to draw; None makes a figure.

        Returns
        -------
        matplotlib.figure.Figure

        Raises
        ------
        UsageError
            As `roc` does, or if matplotlib is not installed.
        """
        lines = [(c.name, _area("area", c), c.x, c.y) for c in self.roc()]
        return classification.draw_roc(lines, ax)

    def plot_precision_recall(self, ax: "Axes | None" = None) -> "Figure":
        """Draw `precision_recall`, with the average precision; see `plot_roc`."""
        curves, share = self.precision_recall(), None
        lines = [(c.name, _area("average", c), c.x, c.y) for c in curves]
        if len(curves) == 1:
            ((_, positive, _),) = self._positives()
            share = float(np.mean(positive)) if len(positive) else None
        return classification.draw_precision_recall(lines, share, ax)

    def plot_calibration(self, bins: int = 10, ax: "Axes | None" = None) -> "Figure":
        """Draw `calibration`; see `plot_roc`."""
        found = self.calibration(bins)
        what = "of the predicted class"
        if len(self._names) == 2:
            what = f"of {self._positives()[0][0]}"
        return classification.draw_calibration(
            found.predicted, found.observed, found.rows, what, ax
        )

    def matrix(self) -> tuple[npt.NDArray[np.int64], list[str], list[str]]:
        """Return rows by their class and by the class predicted, and the names of both.

        Returns
        -------
        counts : int64[n, k]
            With a row for all classes that the model does not have, if any occurred.
        labels, predictions : list of str
            Classes in ascending order, those that have names in that of their appearance.

        Raises
        ------
        UsageError
            For a regression, or if outliers are not known by labels 1 and -1.
        """
        if self.confusion is None:
            raise UsageError(f"{self._unlike} has no classes to compare", "look at score")
        names = dict(zip(self._outcomes.tolist(), self._names, strict=True))
        shown = [names[label] for label in self.confusion.labels]
        counts = self.confusion.matrix()
        if self.unknown_labels:
            return counts, [*shown, "other"], shown
        return counts[:-1], shown, shown

    def plot_confusion(self, ax: "Axes | None" = None) -> "Figure":
        """Draw `matrix`; of more than 60 classes there is no figure.

        Raises
        ------
        UsageError
            For a regression, for so many classes, or if matplotlib is not installed.
        """
        counts, labels, predictions = self.matrix()
        if len(predictions) > classification.MOST_CELLS:
            raise UsageError(
                f"a matrix of {len(predictions)} classes cannot be read",
                "look at the pairs in confusion.as_dict()",
            )
        return classification.draw_confusion(counts, labels, predictions, ax)

    def summary(self) -> str:
        """Return the score as LIBLINEAR prints it, and the areas under the curves."""
        lines = [self.score.summary()]
        if self.confusion is not None:
            lines.append(self.confusion.summary())
        if self._keeps and len(self._names) == 2 and self.rows:
            ((name, positive, ahead),) = self._positives()
            lines.append(f"Area under the ROC curve = {auc(positive, ahead):g} (positive {name})")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return the score, areas, error of the calibration, and the counts of the confusion."""
        facts: dict[str, Any] = {
            **self.score.as_dict(), "rows": self.rows, "unknown_labels": self.unknown_labels,
        }  # fmt: skip
        if self._keeps:
            facts["roc_auc"] = {c.name: as_json(c.area) for c in self.roc()}
            facts["average_precision"] = {c.name: as_json(c.area) for c in self.precision_recall()}
            if self._logistic:
                facts["calibration_error"] = as_json(self.calibration().error)
        return facts if self.confusion is None else facts | self.confusion.as_dict()

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        return f"Evaluation({counted(self.rows, 'row')}: {'; '.join(self.summary().splitlines())})"

    def _repr_html_(self) -> str:
        facts = {"rows": str(self.rows), "score": self.summary()}
        if self.unknown_labels:
            facts["rows of unknown labels"] = str(self.unknown_labels)
        matrix = "" if self.confusion is None else self.confusion._repr_html_()
        return facts_html("Evaluation", facts) + matrix


def score_of(model: ModelParameters) -> Score:
    """Return what counts how good the predictions of a model are."""
    if model.is_regressor:
        return RegressionErrors()
    return AccuracyCounter() if model.is_classifier else OutlierCounter()


def evaluate_rows(model: Any, X: Any, y: npt.ArrayLike, positive: Any = None) -> Evaluation:
    """Compare labels with what a model says of rows in memory; see `LinearModel.evaluate`."""
    found = Evaluation(model, model.code_of(positive))
    given = np.asarray(y)
    decisions = model.decision_function(X).reshape(-1, model.n_columns)
    if given.shape != (len(decisions),):
        raise InputError(
            f"y has shape {given.shape} for {counted(len(decisions), 'row')}", "give a label each"
        )
    if not len(given):
        raise InputError("X has no rows", "give some whose labels are known")
    found.add(_codes(model, given), decisions)
    return found


def _codes(model: Any, given: npt.NDArray[Any]) -> Floats:
    """Return labels as the model has them: infinite where it does not have one."""
    if not model.classes:
        try:
            numbers = np.asarray(given, np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(f"y is not of numbers, as the labels are: {error}") from error
        for row in np.flatnonzero(~np.isfinite(numbers))[:1].tolist():
            raise InputError(f"row {row}: the label is {given[row]}", "leave the row out")
        return numbers
    table = as_given(np.array(model.outcomes), model.classes).tolist()
    kind, what = (str, "text") if isinstance(table[0], str) else (Real, "a number")
    for row, label in enumerate(given.tolist()):
        if not isinstance(label, kind) or label != label:
            raise InputError(
                f"row {row}: the label {label!r} is not {what}, as those of the model are",
                "give labels as they were in training, and leave out rows that have none",
            )
    codes = dict(zip(table, model.outcomes, strict=True))
    return np.array([codes.get(label, math.inf) for label in given.tolist()], np.float64)


def _counts(
    positive: npt.NDArray[np.bool_], ahead: Floats
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Floats]:
    """Return how many positive, and how many other rows have at least each distinct value."""
    order = np.argsort(-ahead, kind="stable")
    values = ahead[order]
    last = np.flatnonzero(np.append(values[1:] != values[:-1], np.ones(min(len(values), 1))))
    hits = np.cumsum(positive[order], dtype=np.int64)[last]
    return hits, last + 1 - hits, values[last]


def _shares(counts: npt.NDArray[np.int64]) -> Floats:
    """Return counts as shares of the last one; NaN if that is 0."""
    total = counts[-1] if len(counts) and counts[-1] else math.nan
    return np.asarray(counts / total, np.float64)


def _area(what: str, curve: Curve) -> str:
    """Return what a legend says of a curve; of a class that is that of no row, or of all, none."""
    return "no curve" if math.isnan(curve.area) else f"{what} {curve.area:.4f}"


def _roc(name: str, positive: npt.NDArray[np.bool_], ahead: Floats) -> Curve:
    hits, misses, thresholds = _counts(positive, ahead)
    x, y = np.append(0.0, _shares(misses)), np.append(0.0, _shares(hits))
    return Curve(name, x, y, np.append(math.inf, thresholds), auc(positive, ahead))


def _precision_recall(name: str, positive: npt.NDArray[np.bool_], ahead: Floats) -> Curve:
    hits, misses, thresholds = _counts(positive, ahead)
    precision, recall = hits / np.maximum(hits + misses, 1), _shares(hits)
    gained = np.diff(np.append(0.0, recall))
    area = float((gained * precision).sum()) if len(recall) else math.nan
    return Curve(name, recall, np.asarray(precision, np.float64), thresholds, area)


def _calibration(shares: Floats, hits: npt.NDArray[np.bool_], bins: int) -> Calibration:
    if type(bins) is not int or not 1 <= bins <= 1000:
        raise UsageError(f"bins is {bins!r}, but must be an integer from 1 to 1000")
    finite = np.isfinite(shares)
    shares, hits = shares[finite], hits[finite]
    place = np.minimum((shares * bins).astype(np.int64), bins - 1)
    rows = np.bincount(place, minlength=bins)
    filled = np.flatnonzero(rows)
    predicted = np.bincount(place, shares, bins)[filled] / rows[filled]
    observed = np.bincount(place, hits, bins)[filled] / rows[filled]
    away = float((np.abs(predicted - observed) * rows[filled]).sum())
    error = away / len(shares) if len(shares) else math.nan
    return Calibration(predicted, observed, rows[filled], error)
