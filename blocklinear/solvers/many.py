"""Several models that share every pass: classes, folds, costs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklinear.kernels import dual
from blocklinear.kernels.sums import copy_columns
from blocklinear.objectives.certificate import Proof, aligned_zeros
from blocklinear.objectives.models import Models
from blocklinear.options import TrainOptions
from blocklinear.pages import give_back
from blocklinear.solvers.sharing import padded
from blocklinear.solvers.weight_vectors import PASS, BlockStep, WeightVectors
from blocklinear.store.groups import RowView
from blocklinear.store.manifest import Manifest

_PIECE = 1 << 20
Floats = NDArray[np.float64]
Places = NDArray[np.int64]
_Data = tuple[Floats, NDArray[np.int32], NDArray[np.int32], Floats]
"""Target, class, fold and weight of each row."""


@dataclass(frozen=True)
class Dropped:
    """Weights of models that were dropped."""

    weights: Floats  # float64[n_features + 1, k]
    places: Places  # int64[k]: their columns of alpha, ascending

    def joined(self, source: Floats, columns: Places, places: Places) -> "Dropped":
        """Return these and columns of others, whose columns of alpha are at `places`."""
        if not len(columns):
            return self
        both = np.sort(np.concatenate([self.places, places]))
        weights = aligned_zeros(len(source), len(both))
        self.copy(weights, np.searchsorted(both, np.arange(both[-1] + 1)))
        copy_columns(source, columns, weights, np.searchsorted(both, places))
        return Dropped(weights, both)

    def copy(self, weights: Floats, to: Places) -> None:
        """Copy all columns to those of other weights, `to` for each column of alpha."""
        copy_columns(self.weights, np.arange(len(self.places)), weights, to[self.places])


class ManyModels(WeightVectors):
    """Models with a weight vector each.

    Attributes
    ----------
    certified : Dropped       weights that were certified, of models that were dropped
    apart : Dropped           where these are an average, the w of alpha, for a warm start
    """

    def __init__(
        self, models: Models, manifest: Manifest, options: TrainOptions, folder: Path, name: str
    ) -> None:
        super().__init__(models, manifest, options, folder, name)
        self.certified = self.apart = Dropped(np.zeros((len(self.W), 0)), np.zeros(0, np.int64))

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that a checkpoint must keep, by name."""
        dropped = {"certified": self.certified.weights, "apart": self.apart.weights}
        return super().arrays | {name: weights for name, weights in dropped.items() if weights.size}

    @property
    def all_models(self) -> int:
        """The range of all models."""
        return self.width << 8

    def _data(self, rows: RowView) -> _Data:
        return self.models.data(rows)

    def _descend(
        self, step: BlockStep, order: NDArray[np.int64], why: int, number: int = 0
    ) -> None:
        priority = np.empty(len(step.rows)) if why == PASS else step.priority
        dual.dcd_many(
            step.rows.arrays, step.data, order, self.models.arguments, self.bias, step.alpha,
            self.W, self.stats[why], step.ranges, priority,
        )  # fmt: skip

    def _terms_of(self, data: _Data, alpha: Floats) -> Floats:
        terms = np.zeros_like(self.terms)
        dual.add_many_dual_terms(data, self.models.arguments, alpha, terms)
        return terms

    def _certify(self, rows: RowView, data: _Data, alpha: Floats, proof: Proof) -> None:
        dual.certify_many(
            rows.arrays, data, self.models.arguments, self.bias, alpha, proof.balance, *proof.pair,
            len(proof.candidates) > 1, proof.norms, proof.recomputed, proof.sums, proof.reach,
        )  # fmt: skip

    def drop(self, staying: NDArray[np.bool_], averaged: NDArray[np.bool_]) -> None:
        """Go on with some of the models only.

        The others keep their alpha, and go to `certified` and `apart`. The weights of those that
        stay move to the front of their memory, and the rest of it is given back: to allocate new
        memory takes longer. Of those `averaged` the average was certified; bool[width] both.
        """
        places, columns = self.places, np.flatnonzero(staying)
        for source, of in ((self.W, ~staying & ~averaged), (self.average, ~staying & averaged)):
            self.certified = self.certified.joined(source, np.flatnonzero(of), places[of])
        apart = ~staying & averaged
        self.apart = self.apart.joined(self.W, np.flatnonzero(apart), places[apart])
        self.places, self.width = places[staying], len(columns)
        if self.averaged:
            self.average = self._some(self.average, columns)
        else:
            give_back(self.average)
            self.average = self._front(self.average)
        self.W = self._some(self.W, columns)
        self._renumber(staying)
        self.models = self.models.some(staying)
        self.stats, self.terms = self.stats[:, staying].copy(), self.terms[staying]  # in C order
        self._remaining = self._remaining[:, staying].copy()
        self.goals, self._reported = self.goals[staying], self._reported[staying]
        self._multiplier = self._multiplier[:, staying].copy()

    def copy_certified(self, averaged: NDArray[np.bool_], weights: Floats, to: Places) -> None:
        """Copy what was certified of all models, of those `averaged` the average, bool[width].

        It goes to columns of `weights`, `to` for each column of alpha.
        """
        self.certified.copy(weights, to)
        for source, of in ((self.W, ~averaged), (self.average, averaged)):
            columns = np.flatnonzero(of)
            copy_columns(source, columns, weights, to[self.places[columns]])

    def _some(self, weights: Floats, columns: Places) -> Floats:
        """Return columns of weights, then zeros, in the same memory; give the rest of it back."""
        some = self._front(weights)
        copy_columns(weights, columns, some, np.arange(len(columns)))
        some[:, len(columns) :] = 0.0
        give_back(weights.reshape(-1)[some.size :])
        return some

    def _front(self, weights: Floats) -> Floats:
        """Return as much of the memory of weights as is needed now."""
        n, width = len(weights), padded(self.width)
        return weights.reshape(-1)[: n * width].reshape(n, width)

    def _renumber(self, staying: NDArray[np.bool_]) -> None:
        """Renumber the ranges for the models that are still trained."""
        number = np.concatenate(([0], np.cumsum(staying))).astype(np.uint16)
        ranges = self._ranges.all
        for start in range(0, len(ranges), _PIECE):  # of all rows they would not fit the budget
            piece = ranges[start : start + _PIECE]
            first, last = number[piece & 255], number[piece >> 8]
            piece[:] = np.where(first < last, last << 8 | first, 0)
