"""Models of the kind of `dual_many` that are swept together."""

from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklinear.kernels import dual_many as kernels
from blocklinear.options import TrainOptions
from blocklinear.store.groups import Group
from blocklinear.store.manifest import Manifest
from blocklinear.training.certificate import Certificate, prove
from blocklinear.training.dealing import padded
from blocklinear.training.descent import Floats
from blocklinear.training.models import Models
from blocklinear.training.problems import LabelledRows
from blocklinear.training.sight import Sight, Spans, Touch
from blocklinear.training.swept import Proof, Swept, aligned_zeros, column_distances, column_norms
from blocklinear.training.tally import violations

_PIECE = 1 << 20
_Roles = tuple[Floats, NDArray[np.int32], NDArray[np.int32], Floats]
"""Target, class, fold and weight of each row."""


class Bunch(Swept):
    """Models that are swept together.

    Parameters
    ----------
    models : Models
    numbers : int64[M]
        What the caller calls them.
    manifest, options, folder, name :
        As for `Swept`.
    """

    def __init__(
        self,
        models: Models,
        numbers: NDArray[np.int64],
        manifest: Manifest,
        options: TrainOptions,
        folder: Path,
        name: str,
    ) -> None:
        super().__init__(len(models), manifest, options, folder, name)
        self.models, self.numbers = models, numbers
        self._touch = np.zeros((len(models), kernels.N_TOUCH))
        self._later = np.zeros((len(models), kernels.N_TOUCH))
        self._terms = np.zeros((len(models), kernels.N_TERMS))
        self._entries = np.zeros(2)  # worked on, at the first touch of rows and later
        self._first_violation = np.zeros(len(models))  # as in `Descent`; also of those that left
        self._make_room()

    @staticmethod
    def columns_of(width: int) -> int:
        """Return how many columns so many weight vectors take."""
        return padded(width)

    def _make_room(self) -> None:
        columns = self.columns_of(self.width)
        self._scratch = aligned_zeros(kernels.N_SCRATCH, columns)
        self._moved = np.zeros(columns, np.int64)

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that a checkpoint must keep, by name."""
        own = {
            "touch": self._touch, "later": self._later, "terms": self._terms,
            "entries": self._entries, "first": self._first_violation,
        }  # fmt: skip
        return super().arrays | own

    def begin(self) -> None:
        """Start an outer iteration."""
        super().begin()
        for tally in (self._touch, self._later):
            tally[:] = 0.0
            tally[:, kernels.PG_MAX], tally[:, kernels.PG_MIN] = -np.inf, np.inf
        self._entries[:] = 0.0

    @property
    def whole(self) -> int:
        """The span of all models."""
        return self.width << 8

    @property
    def gains(self) -> Floats:
        """What the dual gained, and entries worked on: at first touches, and in later ones."""
        gains = [tally[:, kernels.GAIN].sum() for tally in (self._touch, self._later)]
        return np.column_stack((gains, self._entries))

    @property
    def _asked(self) -> tuple[NDArray[np.int32], NDArray[np.int32], Floats]:
        return self.models.positive, self.models.held_out, self.models.cost

    @property
    def _rule(self) -> tuple[int, float]:
        return self.models.kind, self.models.epsilon

    def _roles(self, rows: LabelledRows, positions: tuple[int, ...] | NDArray[np.int64]) -> _Roles:
        labels, folds = rows.labels, self.models.folds
        if folds is None:
            fold = np.zeros(len(labels), np.int32)
        elif isinstance(positions, tuple):
            fold = folds.read(positions)
        else:
            fold = folds.all[positions]
        weights = np.ones(len(labels)) if rows.weights is None else rows.weights
        return labels, self.models.codes(labels), fold, weights

    def _descend(
        self,
        sight: Sight,
        order: NDArray[np.int64],
        alpha: Floats,
        touch: Touch,
        spans: Spans,
        worth: Floats,
    ) -> None:
        roles: _Roles = sight.roles
        self._entries[int(not touch.first)] += (sight.stops[order] - sight.starts[order]).sum()
        kernels.dcd_many(
            sight.starts, sight.stops, sight.indices, sight.values, sight.sq_norm, *roles,
            order, *self._asked, *self._rule, self._bias, alpha, self.W, self._scratch,
            self._moved, self._touch if touch.first else self._later, spans, worth,
        )  # fmt: skip

    def _add_terms(self, sight: Sight, alpha: Floats, sign: float) -> None:
        terms = np.zeros_like(self._terms)
        self._count_terms(sight, alpha, terms)
        self._terms += sign * terms

    def _count_terms(self, sight: Sight, alpha: Floats, terms: Floats) -> None:
        roles: _Roles = sight.roles
        kernels.add_many_dual_terms(*roles, *self._asked, *self._rule, alpha, self._scratch, terms)

    def estimates(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Return primal, dual, violation and support vectors of each model, as `Estimate`."""
        self.finish()
        norms = column_norms(self.W)[: self.width]
        dual = self._terms[:, kernels.DUAL] - 0.5 * norms
        first = self._first_violation[self.places]
        violation = violations(self._touch, self.models.solver.regression, first)
        self._first_violation[self.places] = first
        primal, n_sv = dual + self._touch[:, kernels.EXCESS], self._terms[:, kernels.N_SUPPORT]
        return primal, dual, violation, n_sv

    @property
    def gain(self) -> Floats:
        """What the steps of an outer iteration added to the dual of each model."""
        return np.asarray(self._touch[:, kernels.GAIN] + self._later[:, kernels.GAIN])

    @property
    def steps(self) -> int:
        """Rows worked on, for each model."""
        return int(self._touch[:, kernels.STEPS].sum() + self._later[:, kernels.STEPS].sum())

    def certify_group(self, group: Group, proof: Proof) -> None:
        """Add what a group contributes to certificates."""
        sight, alpha = self.sight(group), self.lines(group)
        roles: _Roles = sight.roles
        kernels.certify_many(
            group.indptr, group.indices, group.values, group.sq_norm, *roles, *self._asked,
            *self._rule, self._bias, alpha, self.W, self.average, self.averaged, proof.norms,
            proof.recomputed, self._scratch, self._moved, proof.sums, proof.reach,
        )  # fmt: skip
        proof.n += group.n_rows

    def certificates(self, proof: Proof) -> list[Certificate]:
        """Return the certificate of each model, once all groups were added."""
        norms = np.sqrt(column_norms(proof.recomputed))
        found: list[list[Certificate]] = []
        for k, v in enumerate(proof.candidates):
            distances = column_distances(v, proof.recomputed)
            if k == 0:
                drift = np.sqrt(distances) / np.where(norms > 0.0, norms, np.inf)
            found.append(
                [
                    prove(
                        proof.squares[k, j], distances[j], proof.sums[k, :, j], proof.reach[:, j],
                        proof.n, float(drift[j]), average=k == 1,
                    )
                    for j in range(self.width)
                ]
            )  # fmt: skip
        return [min(of, key=attrgetter("primal")) for of in zip(*found, strict=True)]

    def leave(self, staying: NDArray[np.bool_]) -> None:
        """Go on with some of the models only."""
        super().leave(staying)
        number = np.concatenate(([0], np.cumsum(staying))).astype(np.uint16)
        spans: Spans = self._spans.all
        for start in range(0, len(spans), _PIECE):  # of all rows they would not fit the budget
            piece = spans[start : start + _PIECE]
            first, last = number[piece & 255], number[piece >> 8]
            piece[:] = np.where(first < last, last << 8 | first, 0)
        self.models, self.numbers = self.models.some(staying), self.numbers[staying]
        self._touch, self._later = self._touch[staying], self._later[staying]
        self._terms = self._terms[staying]
        self._make_room()
