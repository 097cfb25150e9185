"""Crammer and Singer's multi-class SVM on the groups of a store (Fan, appendix E)."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklinear.kernels import crammer_singer as kernels
from blocklinear.options import TrainOptions
from blocklinear.store.groups import Group
from blocklinear.store.manifest import Manifest
from blocklinear.store.prefetch import Loaded
from blocklinear.training.certificate import Certificate, relative_gap
from blocklinear.training.descent import Floats
from blocklinear.training.models import Models
from blocklinear.training.problems import LabelledRows, weighted
from blocklinear.training.swept import Proof, Sight, Swept
from blocklinear.training.tally import Estimate

_Roles = tuple[NDArray[np.int32], Floats]
"""Class and C of each row."""


class CrammerSinger(Swept):
    """One problem with a weight vector for each class.

    Parameters
    ----------
    models : Models
        One for each class; the weight of a class multiplies C for its rows.
    manifest, options, folder, active_entries :
        As for `Swept`.

    Attributes
    ----------
    bias : float              value of the bias feature, 0 for none
    """

    def __init__(
        self,
        models: Models,
        manifest: Manifest,
        options: TrainOptions,
        folder: Path,
        active_entries: int = 0,
    ) -> None:
        super().__init__(len(models), manifest, options, folder, "", active_entries)
        self.models, self.bias = models, self._bias
        self._class_cost = models.cost[:, 1]
        self._touch, self._later = np.zeros(kernels.N_TOUCH), np.zeros(kernels.N_TOUCH)
        self._terms, self._steps = np.zeros(kernels.N_TERMS), np.zeros(1)
        self._scratch = np.zeros((kernels.N_SCRATCH, self.width))
        self._moved = np.zeros(self.width, np.int64)
        self._whole = np.empty((0, self.width), np.int32), np.empty(0, np.int32)

    def __len__(self) -> int:
        return 1

    @property
    def state(self) -> dict[str, Any]:
        """What a warm start must know of the weight vectors, as JSON."""
        return {"labels": list(self.models.labels), "columns": self.W.shape[1]}

    @state.setter
    def state(self, state: dict[str, Any]) -> None:
        pass

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that a checkpoint must keep, by name."""
        own = {"touch": self._touch, "later": self._later, "terms": self._terms}
        return super().arrays | own | {"steps": self._steps}

    def restore(self, stream: Iterable[Loaded]) -> None:
        """Fetch what is kept in memory only, after `arrays` were filled from a checkpoint."""
        for loaded in stream:
            self.restore_rows(loaded.group)

    def begin(self) -> None:
        """Start an outer iteration."""
        super().begin()
        for tally in (self._touch, self._later):
            tally[kernels.VIOLATION], tally[kernels.EXCESS] = -np.inf, 0.0
        self._steps[:] = 0.0

    def _roles(self, rows: LabelledRows, positions: tuple[int, ...] | NDArray[np.int64]) -> _Roles:
        code = self.models.codes(rows.labels)
        return code, weighted(self._class_cost[code], rows)

    def _descend(
        self,
        sight: Sight,
        order: NDArray[np.int64],
        alpha: Floats,
        first: bool,
        moving: NDArray[np.bool_],
        worth: Floats,
    ) -> None:
        roles: _Roles = sight.roles
        before = alpha[order]
        kernels.cs_epoch(
            sight.starts, sight.stops, sight.indices, sight.values, sight.sq_norm, *roles, order,
            self._bias, alpha, self.W, *self._whole, self._scratch, self._moved,
            self._touch if first else self._later,
        )  # fmt: skip
        step = alpha[order] - before
        moving[order] = step.any(axis=1)
        worth[order] = np.einsum("ij,ij->i", step, step) * sight.sq_norm[order]
        self._steps += len(order)

    def _add_terms(self, sight: Sight, alpha: Floats, sign: float) -> None:
        self._terms += sign * self._count_terms(sight, alpha)

    def _count_terms(self, sight: Sight, alpha: Floats) -> Floats:
        terms = np.zeros(kernels.N_TERMS)
        code: NDArray[np.int32] = sight.roles[0]
        kernels.cs_add_dual_terms(code, alpha, terms)
        return terms

    def estimate(self) -> Estimate:
        """Return what the outer iteration saw."""
        self.finish()
        dual = float(self._terms[kernels.DUAL] - 0.5 * np.vdot(self.W, self.W))
        return Estimate(
            primal=dual + float(self._touch[kernels.EXCESS]),
            dual=dual,
            violation=max(float(self._touch[kernels.VIOLATION]), 0.0),
            n_sv=int(self._terms[kernels.N_SUPPORT]),
            steps=int(self._steps[0]),
        )

    def certify_group(self, group: Group, proof: Proof) -> None:
        """Add what a group contributes to the certificate."""
        sight, alpha = self.sight(group), self.lines(group)
        roles: _Roles = sight.roles
        kernels.cs_certify_rows(
            group.indptr, group.indices, group.values, *roles, self._bias, alpha, self.W,
            self.average, self.averaged, proof.recomputed, self._scratch, self._moved,
            proof.loss[0],
        )  # fmt: skip
        proof.dual[0] += self._count_terms(sight, alpha)[kernels.DUAL]

    def certify(self, stream: Iterable[Loaded]) -> Certificate:
        """Pass over the data once; say how good the better of `W` and `average` is."""
        proof = self.proof()
        for loaded in stream:
            self.certify_group(loaded.group, proof)
        norm = float(np.vdot(proof.recomputed, proof.recomputed))
        dual = float(proof.dual[0]) - 0.5 * norm
        of_w = 0.5 * float(np.vdot(self.W, self.W)) + float(proof.loss[0, 0])
        other = self.average if self.averaged else self.W
        of_average = 0.5 * float(np.vdot(other, other)) + float(proof.loss[0, 1])
        proof.recomputed -= self.W
        drift = float(np.linalg.norm(proof.recomputed))
        primal = min(of_w, of_average)
        return Certificate(
            primal, dual, relative_gap(primal, dual), drift / np.sqrt(norm) if norm else 0.0,
            of_average < of_w,
        )  # fmt: skip

    def let_go(self) -> None:
        """Do nothing: there is one model, and the run ends when it is good enough."""

    def chosen(self, certificate: Certificate) -> Floats:
        """Return the candidate that a certificate is about, float64[n_features + 1, K]."""
        return self.average if certificate.average else self.W

    def proven(self) -> list[Certificate]:
        """Return nothing: the problem is one, and its certificate says all."""
        return []

    def current(self) -> Floats:
        """Return the weights as they are, float64[n_features + 1, K]."""
        return self.W

    def adopt(self, weights: Floats) -> None:
        """Make other weights the candidate."""
        self.W[:] = weights
        self.forget_average()
