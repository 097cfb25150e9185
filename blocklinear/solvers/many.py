"""Several models that share every pass: classes, folds, costs."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from blocklinear.kernels import dual
from blocklinear.kernels.sums import copy_columns
from blocklinear.objectives.certificate import Proof, aligned_zeros
from blocklinear.objectives.feasible_sets import Separate
from blocklinear.objectives.models import Models
from blocklinear.options import TrainOptions
from blocklinear.solvers.columns import padded
from blocklinear.solvers.weight_vectors import PASS, BlockStep, WeightVectors
from blocklinear.store.groups import RowView
from blocklinear.store.manifest import Manifest

_PIECE = 1 << 20
Floats = NDArray[np.float64]
_Data = tuple[Floats, NDArray[np.int32], NDArray[np.int32], Floats]
"""Target, class, fold and weight of each row."""


class ManyModels(WeightVectors):
    """Models with a weight vector each."""

    def __init__(
        self, models: Models, manifest: Manifest, options: TrainOptions, folder: Path, name: str
    ) -> None:
        n = len(models)
        super().__init__(n, n, manifest, options, folder, name, padded(n))
        self.models = models

    @property
    def feasible_set(self) -> Separate:
        """Where alpha may be."""
        return Separate(self.models)

    @property
    def all_models(self) -> int:
        """The range of all models."""
        return self.width << 8

    @property
    def _problem(self) -> tuple[NDArray[np.int32], NDArray[np.int32], Floats, int, float]:
        models = self.models
        return models.positive, models.held_out, models.cost, models.kind, models.epsilon

    def _data(self, rows: RowView) -> _Data:
        return self.models.data(rows)

    def _descend(
        self, step: BlockStep, order: NDArray[np.int64], why: int, number: int = 0
    ) -> None:
        rows, priority = step.rows, step.priority
        data: _Data = step.data
        if why == PASS:
            priority = np.empty(len(rows))
        dual.dcd_many(
            rows.starts, rows.stops, rows.indices, rows.values, rows.sq_norm, *data, order,
            *self._problem, self.bias, step.alpha, self.W,
            self.stats[why], step.ranges, priority,
        )  # fmt: skip

    def _terms_of(self, data: _Data, alpha: Floats) -> Floats:
        terms = np.zeros_like(self.terms)
        dual.add_many_dual_terms(*data, *self._problem, alpha, terms)
        return terms

    def _certify(self, rows: RowView, data: _Data, alpha: Floats, proof: Proof) -> None:
        dual.certify_many(
            rows.starts, rows.stops, rows.indices, rows.values, rows.sq_norm, *data,
            *self._problem, self.bias, alpha, proof.balance, *proof.pair,
            len(proof.candidates) > 1, proof.norms, proof.recomputed, proof.sums,
            proof.reach,
        )  # fmt: skip

    def drop(self, kept: NDArray[np.bool_], averaged: NDArray[np.bool_]) -> None:
        """Go on with some of the models only.

        Alpha of the others stays where it is. A warm start wants the weights that belong to it,
        too: they are kept where those that were certified are the average.
        """
        left, kept_columns = np.flatnonzero(~kept & averaged), np.flatnonzero(kept)
        if len(left):
            self._keep_apart(left)
        self.places, self.width = self.places[kept], int(kept.sum())
        self.W = self._some(self.W, kept_columns)
        if self.averaged:
            self.average = self._some(self.average, kept_columns)
        else:
            self.average = self._front(self.average)
        self._renumber(kept)
        self.models = self.models.some(kept)
        self.stats, self.terms = self.stats[:, kept].copy(), self.terms[kept]  # in C order
        self._remaining, self._goals = self._remaining[:, kept].copy(), self._goals[kept]
        self._reported, self._multiplier = self._reported[kept], self._multiplier[:, kept].copy()

    def _keep_apart(self, left: NDArray[np.int64]) -> None:
        """Keep columns of W next to those that were kept before, in the order of alpha."""
        before, new = self._averaged_places, self.places[left]
        places = self._averaged_places = np.sort(np.concatenate([before, new]))
        weights = aligned_zeros(len(self.W), len(places))
        copy_columns(
            self.dropped_weights, np.arange(len(before)), weights, np.searchsorted(places, before)
        )
        copy_columns(self.W, left, weights, np.searchsorted(places, new))
        self.dropped_weights = weights

    def _some(self, weights: Floats, columns: NDArray[np.int64]) -> Floats:
        """Return columns of weights, then zeros, in the same memory: new pages take longer."""
        some = self._front(weights)
        copy_columns(weights, columns, some, np.arange(len(columns)))
        some[:, len(columns) :] = 0.0
        return some

    def _front(self, weights: Floats) -> Floats:
        """Return as much of the memory of weights as is needed now."""
        n, width = len(weights), padded(self.width)
        return weights.reshape(-1)[: n * width].reshape(n, width)

    def _renumber(self, kept: NDArray[np.bool_]) -> None:
        """Renumber the ranges for the models that are kept."""
        number = np.concatenate(([0], np.cumsum(kept))).astype(np.uint16)
        ranges = self._ranges.all
        for start in range(0, len(ranges), _PIECE):  # of all rows they would not fit the budget
            piece = ranges[start : start + _PIECE]
            first, last = number[piece & 255], number[piece >> 8]
            piece[:] = np.where(first < last, last << 8 | first, 0)
