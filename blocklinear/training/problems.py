"""Which problem a run solves: labels to targets, C to the cost of each row."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from blocklinear.errors import InputError, UsageError
from blocklinear.kernels import dual
from blocklinear.options import TrainOptions
from blocklinear.store.manifest import Manifest

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Solver:
    """One of LIBLINEAR's problems: its name there, our loss, and whether it is a regression."""

    name: str
    kind: int
    regression: bool = False


SQUARED_HINGE = 1
SOLVERS = {
    SQUARED_HINGE: Solver("L2R_L2LOSS_SVC_DUAL", dual.SQUARED_HINGE),
    3: Solver("L2R_L1LOSS_SVC_DUAL", dual.HINGE),
    7: Solver("L2R_LR_DUAL", dual.LOGISTIC),
    12: Solver("L2R_L2LOSS_SVR_DUAL", dual.L2_SVR, regression=True),
    13: Solver("L2R_L1LOSS_SVR_DUAL", dual.L1_SVR, regression=True),
}


@dataclass(frozen=True)
class Problem:
    """One model: two classes to tell apart, or a value to predict.

    Attributes
    ----------
    solver : Solver
    epsilon : float           of the losses for regression
    labels : tuple of float   the positive class, then the negative, LIBLINEAR's order; empty for
                              regression
    class_costs : tuple of float        C of these classes; of all rows for regression
    """

    solver: Solver
    epsilon: float
    labels: tuple[float, ...]
    class_costs: tuple[float, ...]

    @property
    def kind(self) -> int:
        """The loss, as the kernels number it."""
        return self.solver.kind

    @property
    def width(self) -> int:
        """Number of weight vectors."""
        return 1

    @property
    def bounded(self) -> bool:
        """Whether C_i bounds the size of alpha_i."""
        return self.kind not in (dual.SQUARED_HINGE, dual.L2_SVR)

    def targets(self, labels: Floats) -> Floats:
        """Return +1 for rows of the positive class and -1 for others, or the value; float64[n]."""
        if self.solver.regression:
            return labels
        return np.where(labels == self.labels[0], 1.0, -1.0)

    def costs(self, labels: Floats) -> Floats:
        """Return C_i, float64[n]."""
        if self.solver.regression:
            return np.full(len(labels), self.class_costs[0])
        positive, negative = self.class_costs
        return np.where(labels == self.labels[0], positive, negative)

    def total_cost(self, manifest: Manifest) -> float:
        """Return the sum of C_i over the rows of a store."""
        if self.solver.regression or manifest.labels is None:
            return manifest.n_rows * self.class_costs[0]
        counts = dict(zip(manifest.labels, manifest.label_counts, strict=True))
        costs = zip(self.labels, self.class_costs, strict=True)
        return float(sum(counts[label] * cost for label, cost in costs))


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
        return Problem(solver, options.epsilon, (), (checked_cost(options.cost, "C"),))
    weights = weights_of_classes(manifest, options)
    costs = tuple(
        checked_cost(options.cost * weight, f"C of class {label:g}")
        for label, weight in weights.items()
    )
    return Problem(solver, 0.0, tuple(weights), costs)


def checked_cost(cost: float, name: str) -> float:
    """Return `cost` if it leaves room to compute with.

    Raises
    ------
    UsageError
    """
    if not 1e-308 <= cost < math.inf:  # below, 1 / (2 C) overflows
        raise UsageError(
            f"{name} is {cost:g}, but must be finite and at least 1e-308",
            "change -c or the weight of the class",
        )
    return cost


def weights_of_classes(manifest: Manifest, options: TrainOptions) -> dict[float, float]:
    """Return what multiplies C for each class, in LIBLINEAR's order; weights given twice multiply.

    Raises
    ------
    InputError
        If the labels are not those of classes.
    """
    labels = class_labels(manifest)
    if options.balanced:
        counts = dict(zip(manifest.labels or (), manifest.label_counts, strict=True))
        return {label: manifest.n_rows / (len(labels) * counts[label]) for label in labels}
    return {
        label: math.prod(weight for weighted, weight in options.class_weights if weighted == label)
        for label in labels
    }


def class_labels(manifest: Manifest) -> list[float]:
    """Return the classes of a store in LIBLINEAR's order.

    Raises
    ------
    InputError
        If its labels are not classes, or all the same.
    """
    labels = manifest.labels
    if labels is None:
        raise InputError(
            "the store has more than 10000 distinct labels: these are not classes",
            "check the labels of the input, or train a regression with -s 12 or -s 13",
        )
    counted = zip(labels, manifest.label_counts, strict=True)
    present = label_order([label for label, count in counted if count])
    broken = next((label for label in present if label != int(label)), None)
    if broken is not None:
        raise InputError(
            f"label {broken:g} is not an integer: not a class",
            "check the labels, or train a regression with -s 12 or -s 13",
        )
    if len(present) == 1:
        raise InputError(
            f"all rows have the one label {present[0]:g}: there is nothing to separate",
            "check the labels of the input",
        )
    return present
