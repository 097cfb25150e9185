"""Models over the same rows: one, or many: classes against the rest, folds, a grid of C."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklinear.errors import InputError
from blocklinear.numerals import format_number
from blocklinear.objectives.problems import (
    CRAMMER_SINGER,
    SOLVERS,
    LabelledRows,
    Problem,
    checked_cost,
    weighted,
    weights_of_classes,
)
from blocklinear.options import TrainOptions
from blocklinear.store.groups import RowView
from blocklinear.store.manifest import Manifest
from blocklinear.store.row_arrays import RowArray

Floats = NDArray[np.float64]
NO_FOLD = -1


@dataclass(frozen=True)
class Models:
    """What each of M models is trained for."""

    solver: Problem
    epsilon: float  # of the losses for regression
    labels: tuple[float, ...]  # the classes, in LIBLINEAR's order; empty for regression
    positive: NDArray[np.int32]  # int32[M]: number of the class that is +1, all others are -1
    # int32[M]: the fold whose rows the model does not see, `NO_FOLD` for none
    held_out: NDArray[np.int32]
    asked: Floats  # float64[M]: C as it was asked for
    cost: Floats  # float64[M, 2]: C of rows of the other classes, and of the positive class
    folds: RowArray | None = None  # the fold of each row, where any model leaves one out
    alone: bool = False  # whether it is one model by itself, which has kernels of its own

    def __len__(self) -> int:
        return len(self.positive)

    @property
    def kind(self) -> int:
        """The loss, as the kernels number it."""
        return self.solver.kind

    @property
    def loss(self) -> tuple[int, float]:
        """The loss, as kernels of one model take it: its number, and epsilon."""
        return self.kind, self.epsilon

    @property
    def arguments(self) -> tuple[NDArray[np.int32], NDArray[np.int32], Floats, int, float]:
        """What each model is for, its costs, and the loss, as kernels of many models take them."""
        return self.positive, self.held_out, self.cost, *self.loss

    @property
    def grid(self) -> list[float]:
        """C of each of many models, as asked for; empty of one problem."""
        found: list[float] = self.asked.tolist() if self.separable and not self.alone else []
        return found

    @property
    def pairs(self) -> Floats:
        """C of rows of the class of a model, and of rows of the others; float64[M, 2]."""
        own_cost = self.cost[:, 1]
        return np.stack([own_cost, self.cost[:, 0] if self.separable else own_cost], axis=1)

    @property
    def facts(self) -> dict[str, Any]:
        """What a checkpoint says of them, as JSON: C, and each one's class and fold."""
        purposes = zip(self.positive.tolist(), self.held_out.tolist(), strict=True)
        return {
            "labels": list(self.labels), "costs": self.pairs.tolist(),
            "asked": self.asked.tolist(),
            "models": [[self.labels[k] if self.labels else None, fold] for k, fold in purposes],
        }  # fmt: skip

    @property
    def separable(self) -> bool:
        """Whether each can be trained without the others."""
        return self.solver is not SOLVERS[CRAMMER_SINGER]

    def some(
        self, which: Sequence[int] | NDArray[np.int64] | NDArray[np.bool_] | slice
    ) -> "Models":
        """Return some of the models."""
        names = "positive", "held_out", "asked", "cost"
        return replace(self, **{name: getattr(self, name)[which] for name in names})

    def data(self, rows: RowView) -> tuple[Floats, NDArray[np.int32], NDArray[np.int32], Floats]:
        """Return target, class, fold and weight of each row, as kernels take them."""
        weights = np.ones(len(rows)) if rows.weights is None else rows.weights
        fold = (
            np.zeros(len(rows), np.int32) if self.folds is None else self.folds.all[rows.positions]
        )
        return rows.labels, self.codes(rows.labels), fold, weights

    def of_model(self, j: int, rows: RowView) -> tuple[Floats, Floats]:
        """Return target and C_i of rows for model j, float64[n] both; C_i is 0 if held out.

        The target is +1 for rows of the positive class and -1 for others, or the value.
        """
        target, (other_cost, own_cost) = rows.labels, self.cost[j].tolist()
        if self.labels:
            target = 2.0 * (target == self.labels[self.positive[j]])
            target -= 1.0
        if own_cost == other_cost:  # which takes a tenth of the time
            cost = weighted(np.full(len(target), own_cost), rows)
        else:
            cost = weighted(np.where(target > 0.0, own_cost, other_cost), rows)
        if self.folds is not None:
            cost[self.folds.all[rows.positions] == self.held_out[j]] = 0.0
        return target, cost

    def bounds(self, rows: LabelledRows) -> Floats:
        """Return C_i of each row and model, float64[n, M]; of a row that is left out, too."""
        is_positive = self.codes(rows.labels)[:, None] == self.positive  # for values all are 0
        return weighted(np.where(is_positive, self.cost[:, 1], self.cost[:, 0]), rows)

    def codes(self, labels: Floats) -> NDArray[np.int32]:
        """Return the number of the class of each row, int32[n]; 0 for regression.

        Labels that are not classes, as all their rows have weight 0, get some number.
        """
        if not self.labels:
            return np.zeros(len(labels), np.int32)
        table = np.array(self.labels)
        order = np.argsort(table)
        place = np.minimum(np.searchsorted(table[order], labels), len(table) - 1)
        return order[place].astype(np.int32)


def make_models(
    manifest: Manifest,
    options: TrainOptions,
    costs: Sequence[float] | None = None,
    folds: Sequence[int] = (NO_FOLD,),
) -> Models:
    """Return one model for each C, fold and class, in this order; two classes need one model.

    Class weights multiply C for rows of the positive class; where one model tells two classes
    apart, for those of the other class too (LIBLINEAR's rule).

    InputError is raised if the labels of the store do not fit the solver, UsageError if C times the
    weight of a class leaves the range of numbers.
    """
    solver, costs = SOLVERS[options.solver], costs or (options.cost,)
    if solver.regression and manifest.classes:
        raise InputError(
            "the labels of the store are text, or integers beyond 2**53: no values to regress "
            "on", "train a classifier, or append the rows again with y of numbers",
        )  # fmt: skip
    weight = {} if solver.regression else weights_of_classes(manifest, options)
    labels = tuple(weight)
    each_class = len(labels) > 2 or options.solver == CRAMMER_SINGER
    positive, held_out, asked, pairs = [], [], [], []
    for cost in costs:
        class_costs = [
            checked_cost(cost * factor, f"C of class {format_number(label)}", manifest)
            for label, factor in weight.items()
        ]
        other_cost = class_costs[1] if len(labels) == 2 else checked_cost(cost, "C", manifest)
        class_costs = class_costs or [other_cost]
        for fold in folds:
            for code in range(len(labels) if each_class else 1):
                positive.append(code)
                held_out.append(fold)
                asked.append(cost)
                pairs.append([other_cost, class_costs[code]])
    return Models(
        solver=solver,
        epsilon=options.epsilon if solver.regression else 0.0,
        labels=labels,
        positive=np.array(positive, np.int32),
        held_out=np.array(held_out, np.int32),
        asked=np.array(asked, np.float64),
        cost=np.array(pairs, np.float64),
    )
