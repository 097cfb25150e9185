"""Which problem a run solves: labels to targets, C to the cost of each row."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from blocklinear.classes import shown
from blocklinear.errors import InputError, LabelError, OneLabelError, UsageError
from blocklinear.kernels import losses
from blocklinear.numerals import DISTINCT_INTEGERS, format_number
from blocklinear.options import TrainOptions
from blocklinear.store.manifest import Manifest

Floats = NDArray[np.float64]
LEAST_COST = 1e-308
"""Of C times the weight of a row: below, 1 / (2 C) overflows."""
_REGRESS = "check the labels, or train a regression: solver 12 or 13, or BlockLinearSVR"


@dataclass(frozen=True)
class SolverType:
    """One of LIBLINEAR's problems.

    Attributes
    ----------
    name : str                there
    kind : int                the loss
    regression : bool
    one_class : bool          whether it is the one-class SVM, which knows no labels
    l1 : bool                 whether the sum of |w_j| takes the place of 1/2 w'w
    """

    name: str
    kind: int
    regression: bool = False
    one_class: bool = False
    l1: bool = False

    @property
    def smooth(self) -> bool:
        """Whether the loss has a derivative, as Newton's method needs."""
        return self.kind in (losses.SQUARED_HINGE, losses.LOGISTIC, losses.L2_SVR)

    @property
    def bounded(self) -> bool:
        """Whether C_i bounds the size of alpha_i."""
        return self.kind not in (losses.SQUARED_HINGE, losses.L2_SVR)


SOLVERS = {
    1: SolverType("L2R_L2LOSS_SVC_DUAL", losses.SQUARED_HINGE),
    3: SolverType("L2R_L1LOSS_SVC_DUAL", losses.HINGE),
    5: SolverType("L1R_L2LOSS_SVC", losses.SQUARED_HINGE, l1=True),
    6: SolverType("L1R_LR", losses.LOGISTIC, l1=True),
    7: SolverType("L2R_LR_DUAL", losses.LOGISTIC),
    12: SolverType("L2R_L2LOSS_SVR_DUAL", losses.L2_SVR, regression=True),
    13: SolverType("L2R_L1LOSS_SVR_DUAL", losses.L1_SVR, regression=True),
    0: SolverType("L2R_LR", losses.LOGISTIC),
    2: SolverType("L2R_L2LOSS_SVC", losses.SQUARED_HINGE),
    11: SolverType("L2R_L2LOSS_SVR", losses.L2_SVR, regression=True),
    21: SolverType("ONECLASS_SVM", losses.HINGE, one_class=True),
}


class LabelledRows(Protocol):
    """What decides the cost of rows: their labels, and their weights if they have any."""

    @property
    def labels(self) -> Floats:
        """float64[n]."""

    @property
    def weights(self) -> Floats | None:
        """float64[n], not negative."""


def weighted(cost: Floats, rows: LabelledRows) -> Floats:
    """Return C_i of rows: `cost`, float64[n, ...], times the weight of each row.

    All C_i come from here, but those of several models, whose kernels multiply themselves.
    """
    if rows.weights is None:
        return cost
    return cost * rows.weights.reshape(-1, *[1] * (cost.ndim - 1))


@dataclass(frozen=True)
class Problem:
    """One model: two classes to distinguish, or a value to predict.

    Attributes
    ----------
    solver : SolverType
    epsilon : float           of the losses for regression
    labels : tuple of float   the positive class, then the negative, LIBLINEAR's order; empty for
                              regression
    class_costs : tuple of float        C of these classes; of all rows for regression
    """

    solver: SolverType
    epsilon: float
    labels: tuple[float, ...]
    class_costs: tuple[float, ...]

    positive: ClassVar = np.zeros(1, np.int32)
    """As many models have it: the number of the class that is +1."""

    def __len__(self) -> int:
        return 1

    def some(self, which: Any) -> "Problem":
        """Return it, the only model."""
        return self

    @property
    def kind(self) -> int:
        """The loss, as the kernels number it."""
        return self.solver.kind

    @property
    def pairs(self) -> Floats:
        """C of rows of the positive class and of others, as of many models; float64[1, 2]."""
        return np.array([[self.class_costs[0], self.class_costs[-1]]])

    @property
    def facts(self) -> dict[str, Any]:
        """What a checkpoint says of it, as JSON."""
        return {"labels": list(self.labels), "costs": self.pairs.tolist()}

    def costs(self, rows: LabelledRows) -> Floats:
        """Return C_i of rows, float64[n]."""
        return self.of_model(0, rows)[1]

    def bounds(self, rows: LabelledRows) -> Floats:
        """Return C_i of rows, as of many models; float64[n, 1]."""
        return self.costs(rows)[:, None]

    def of_model(self, j: int, rows: LabelledRows) -> tuple[Floats, Floats]:
        """Return target and C_i of rows, float64[n] both, as of many models.

        The target is +1 for rows of the positive class and -1 for others, or the value.
        """
        if self.solver.regression:
            return rows.labels, weighted(np.full(len(rows.labels), self.class_costs[0]), rows)
        is_positive = rows.labels == self.labels[0]
        target = 2.0 * is_positive
        target -= 1.0
        positive, negative = self.class_costs
        if positive == negative:  # which takes a tenth of the time
            return target, weighted(np.full(len(target), positive), rows)
        return target, weighted(np.where(is_positive, positive, negative), rows)

    def total_cost(self, manifest: Manifest) -> float:
        """Return the sum of C_i over the rows of a store."""
        weights = manifest.weights
        if self.solver.regression or manifest.labels is None:
            return float(weights["total"] * self.class_costs[0])
        sums = dict(zip(manifest.labels, weights["sums"], strict=True))
        costs = zip(self.labels, self.class_costs, strict=True)
        return float(sum(sums[label] * cost for label, cost in costs))


def label_order(labels: list[float]) -> list[float]:
    """Return labels in LIBLINEAR's order: by first appearance, but ``-1 1`` becomes ``1 -1``."""
    return [1.0, -1.0] if labels == [-1.0, 1.0] else labels


def make_problem(manifest: Manifest, options: TrainOptions) -> Problem:
    """Return the problem of training on a store.

    Raises
    ------
    InputError
        If the labels of the store are not those of two classes, for a classifier.
    UsageError
        If C times the weight of a class leaves the range of numbers.
    """
    solver = SOLVERS[options.solver]
    if solver.regression:
        if manifest.classes:
            raise InputError(
                "the labels of the store are text, or integers beyond 2**53: no values to regress "
                "on", "train a classifier, or append the rows again with y of numbers",
            )  # fmt: skip
        return Problem(solver, options.epsilon, (), (checked_cost(options.cost, "C", manifest),))
    weights = weights_of_classes(manifest, options)
    costs = tuple(
        checked_cost(options.cost * weight, f"C of class {format_number(label)}", manifest)
        for label, weight in weights.items()
    )
    return Problem(solver, 0.0, tuple(weights), costs)


def checked_cost(cost: float, name: str, manifest: Manifest) -> float:
    """Return `cost` if it leaves room to compute with, whatever the weight of a row.

    Raises
    ------
    InputError
        If no row has a weight.
    UsageError
    """
    refuse_weightless(manifest)
    weights = manifest.weights
    for weight in (weights["least"], weights["largest"]):
        if not LEAST_COST <= cost * weight < math.inf:
            times = f" times a weight of {format_number(weight)}" if manifest.weighted else ""
            raise UsageError(
                f"{name}{times} is {format_number(cost * weight)}, but must be finite and at least "
                f"{LEAST_COST}",
                "change -c or the weight of the class",
            )
    return cost


def refuse_weightless(manifest: Manifest) -> None:
    """Refuse a store whose rows all have weight 0."""
    if manifest.n_rows and manifest.weights["zeros"] == manifest.n_rows:
        raise InputError("all rows have weight 0: there is nothing to learn", "check the weights")


def weights_of_classes(manifest: Manifest, options: TrainOptions) -> dict[float, float]:
    """Return what multiplies C for each class, in LIBLINEAR's order; weights given twice multiply.

    Balanced ones count a row as often as its weight says.

    Raises
    ------
    InputError
        If the labels are not those of classes.
    """
    labels = class_labels(manifest)
    if options.balanced:
        weights = manifest.weights
        sums = dict(zip(manifest.labels or (), weights["sums"], strict=True))
        return {label: sum(sums.values()) / (len(labels) * sums[label]) for label in labels}
    return {
        label: math.prod(weight for weighted, weight in options.class_weights if weighted == label)
        for label in labels
    }


def class_labels(manifest: Manifest) -> list[float]:
    """Return the classes of a store in LIBLINEAR's order: those that have a row of some weight.

    Raises
    ------
    InputError
        If its labels are not classes, or all the same.
    """
    labels = manifest.labels
    if labels is None:
        raise LabelError(
            "the store has more than 10000 distinct labels: these are not classes",
            _REGRESS,
            None,
        )
    refuse_weightless(manifest)
    found = zip(labels, manifest.weights["sums"], strict=True)
    present = label_order([label for label, weight in found if weight])
    broken = next((label for label in present if label != int(label)), None)
    if broken is not None:
        raise LabelError(
            f"label {format_number(broken)} is not an integer: not a class",
            _REGRESS,
            broken,
        )
    merged = next((label for label in present if abs(label) >= DISTINCT_INTEGERS), None)
    if merged is not None:
        raise LabelError(
            f"label {format_number(merged)} may stand for several integers: not a class",
            "number the classes by integers below 2**53",
            merged,
        )
    if len(present) == 1:
        raise OneLabelError(present[0], shown(present[0], manifest.given))
    return present
