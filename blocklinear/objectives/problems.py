"""The problems there are, and what C and classes of a store make of them."""

import math
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from blocklinear.classes import code_text
from blocklinear.errors import InputError, LabelError, OneLabelError, UsageError
from blocklinear.kernels import losses
from blocklinear.numerals import DISTINCT_INTEGERS, format_number
from blocklinear.options import TrainOptions
from blocklinear.solver_types import CRAMMER_SINGER as CRAMMER_SINGER
from blocklinear.solver_types import ONE_CLASS as ONE_CLASS
from blocklinear.solver_types import SOLVER_TYPES, SolverType
from blocklinear.store.manifest import Manifest

Floats = NDArray[np.float64]
LEAST_COST = 1e-308
"""Of C times the weight of a row: below, 1 / (2 C) overflows."""
_REGRESS = "check the labels, or train a regression: solver 12 or 13, or BlockLinearSVR"


_KINDS = {
    "hinge": losses.HINGE,
    "squared hinge": losses.SQUARED_HINGE,
    "logistic": losses.LOGISTIC,
    "epsilon-insensitive": losses.L1_SVR,
    "squared epsilon-insensitive": losses.L2_SVR,
    "Crammer and Singer": losses.HINGE,
    "one-class": losses.HINGE,
}


class Problem(SolverType):
    """One of LIBLINEAR's problems, with the number that kernels have for its loss."""

    @property
    def kind(self) -> int:
        """The loss, as in `kernels.losses`."""
        return _KINDS[self.loss]


SOLVERS = {number: Problem(**vars(solver)) for number, solver in SOLVER_TYPES.items()}


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


def label_order(labels: list[float]) -> list[float]:
    """Return labels in LIBLINEAR's order: by first appearance, but ``-1 1`` becomes ``1 -1``."""
    return [1.0, -1.0] if labels == [-1.0, 1.0] else labels


def checked_cost(cost: float, name: str, manifest: Manifest) -> float:
    """Return `cost` if it leaves room to compute with, whatever the weight of a row.

    InputError is raised if no row has a weight, UsageError if it does not.
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

    Balanced ones count a row as often as its weight says. Errors are those of `class_labels`.
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

    InputError is raised if its labels are not classes, or all the same.
    """
    labels = manifest.labels
    if labels is None:
        what = "the store has more than 10000 distinct labels: these are not classes"
        raise LabelError(what, _REGRESS, None)
    refuse_weightless(manifest)
    found = zip(labels, manifest.weights["sums"], strict=True)
    present = label_order([label for label, weight in found if weight])
    broken = next((label for label in present if label != int(label)), None)
    if broken is not None:
        what = f"label {format_number(broken)} is not an integer: not a class"
        raise LabelError(what, _REGRESS, broken)
    merged = next((label for label in present if abs(label) >= DISTINCT_INTEGERS), None)
    if merged is not None:
        raise LabelError(
            f"label {format_number(merged)} may stand for several integers: not a class",
            "number the classes by integers below 2**53",
            merged,
        )
    if len(present) == 1:
        raise OneLabelError(present[0], code_text(present[0], manifest.given))
    return present
