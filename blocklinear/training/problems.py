"""Which problem a run solves: labels to signs, C to bounds."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from blocklinear.errors import InputError, UsageError
from blocklinear.options import TrainOptions
from blocklinear.store.manifest import Manifest

SQUARED_HINGE, HINGE = 1, 3
SOLVER_NAMES = {SQUARED_HINGE: "L2R_L2LOSS_SVC_DUAL", HINGE: "L2R_L1LOSS_SVC_DUAL"}


@dataclass(frozen=True)
class BinaryProblem:
    """One model that separates two classes.

    Attributes
    ----------
    solver : str              LIBLINEAR's name
    labels : tuple[float, float]        the positive class, then the negative, LIBLINEAR's order
    squared : bool            squared hinge loss
    cost, upper, diag : float64[2]      C_i, U_i, D_ii of the negative class, then of the positive
    """

    solver: str
    labels: tuple[float, float]
    squared: bool
    cost: NDArray[np.float64]
    upper: NDArray[np.float64]
    diag: NDArray[np.float64]

    def signs(self, labels: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return +1 for rows of the positive class and -1 for the rest, float64[n]."""
        return np.where(labels == self.labels[0], 1.0, -1.0)


def label_order(labels: list[float]) -> list[float]:
    """Return labels in LIBLINEAR's order: by first appearance, but ``-1 1`` becomes ``1 -1``."""
    return [1.0, -1.0] if labels == [-1.0, 1.0] else labels


def binary_problem(manifest: Manifest, options: TrainOptions) -> BinaryProblem:
    """Return the problem of training on a store.

    Raises
    ------
    InputError
        If the labels of the store are not those of two classes.
    UsageError
        If C times the weight of a class leaves the range of numbers.
    """
    positive, negative = _class_labels(manifest)
    cost = np.array([_class_cost(options, negative), _class_cost(options, positive)])
    squared = options.solver == SQUARED_HINGE
    return BinaryProblem(
        solver=SOLVER_NAMES[options.solver],
        labels=(positive, negative),
        squared=squared,
        cost=cost,
        upper=np.full(2, np.inf) if squared else cost.copy(),
        diag=0.5 / cost if squared else np.zeros(2),
    )


def _class_cost(options: TrainOptions, label: float) -> float:
    """Return C times the weights given for a class; weights given twice multiply."""
    cost = options.cost
    for weighted, weight in options.class_weights:
        cost *= weight if weighted == label else 1.0
    if not 1e-308 <= cost < math.inf:  # below, 1 / (2 C) overflows
        raise UsageError(
            f"C of class {label:g} is {cost:g}, but must be finite and at least 1e-308",
            "change -c or the weight of the class",
        )
    return cost


def _class_labels(manifest: Manifest) -> list[float]:
    labels = manifest.labels
    if labels is None:
        raise InputError(
            "the store has more than 10000 distinct labels: these are not classes",
            "check the labels of the input",
        )
    counted = zip(labels, manifest.label_counts, strict=True)
    present = label_order([label for label, count in counted if count])
    broken = next((label for label in present if label != int(label)), None)
    if broken is not None:
        raise InputError(f"label {broken:g} is not an integer: not a class", "check the labels")
    if len(present) == 1:
        raise InputError(
            f"all rows have the one label {present[0]:g}: there is nothing to separate",
            "check the labels of the input",
        )
    if len(present) > 2:
        shown = ", ".join(f"{label:g}" for label in present[:6])
        raise InputError(
            f"the store has {len(present)} classes ({shown} ...), and two can be separated",
            "split a file with two labels",
        )
    return present
