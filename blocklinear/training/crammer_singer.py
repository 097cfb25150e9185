"""Crammer and Singer's multi-class SVM on the groups of a store (Fan, appendix E)."""

import math
from collections.abc import Callable, Iterable
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklinear.kernels import crammer_singer as kernels
from blocklinear.options import TrainOptions
from blocklinear.store.groups import Group
from blocklinear.store.manifest import Manifest
from blocklinear.store.prefetch import Loaded
from blocklinear.training.certificate import Certificate, prove
from blocklinear.training.descent import Abandoned, Floats
from blocklinear.training.models import Models
from blocklinear.training.problems import LabelledRows, weighted
from blocklinear.training.sight import Sight, Spans, Touch, Visit
from blocklinear.training.swept import (
    SWEEPS,
    Proof,
    Swept,
    column_distances,
    column_norms,
    squared_norm,
)
from blocklinear.training.tally import Estimate, rises
from blocklinear.training.together import Together

_Roles = tuple[NDArray[np.int32], Floats]
"""Class and C of each row."""


FACTOR = 1.5
"""How much longer steps are in sweeps of the active rows."""
SMOOTHING = 4
"""Sweeps with steps of plain length that follow a leap: it raises the dual, but W is rough after
it, and the primal value is what rough weights are bad for."""
LOOK = 16.0
"""P is computed where that what rows add to P - D is so many times the gap asked for, or less."""


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
        super().__init__(len(models), manifest, options, folder, "")
        self._together = Together(manifest, options, active_entries, SWEEPS)
        self.models, self.bias = models, self._bias
        self._class_cost = models.cost[:, 1]
        self._touch, self._later = np.zeros(kernels.N_TOUCH), np.zeros(kernels.N_TOUCH)
        self._terms, self._steps = np.zeros(kernels.N_TERMS), np.zeros(1)
        self._scratch = np.zeros((kernels.N_SCRATCH, self.width))
        self._primal = np.zeros(1)  # of the better candidate, where it was computed
        self._lists = np.zeros((kernels.N_LISTS, self.width), np.int64)

    def __len__(self) -> int:
        return 1

    @property
    def state(self) -> dict[str, Any]:
        """What a warm start must know of the weight vectors, as JSON."""
        labels, costs = list(self.models.labels), self.models.pairs.tolist()
        return {"labels": labels, "costs": costs, "columns": self.W.shape[1]}

    @state.setter
    def state(self, state: dict[str, Any]) -> None:
        pass

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that a checkpoint must keep, by name."""
        own = {"touch": self._touch, "later": self._later, "terms": self._terms}
        return super().arrays | own | {"steps": self._steps, "primal": self._primal}

    def restore(self, stream: Iterable[Loaded]) -> None:
        """Fetch what is kept in memory only, after `arrays` were filled from a checkpoint."""
        self._together.restore([self], stream)

    def begin(self) -> None:
        """Start an outer iteration."""
        super().begin()
        for tally in (self._touch, self._later):
            tally[:] = 0.0
            tally[kernels.VIOLATION] = -np.inf
        self._steps[:] = self._primal[:] = 0.0

    def _roles(self, rows: LabelledRows, positions: tuple[int, ...] | NDArray[np.int64]) -> _Roles:
        code = self.models.codes(rows.labels)
        return code, weighted(self._class_cost[code], rows)

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
        before = None if touch.active else alpha[order]
        kernels.cs_epoch(
            sight.starts, sight.stops, sight.indices, sight.values, sight.sq_norm, *roles, order,
            self._bias, alpha, self.W, not touch.wide,
            FACTOR if touch.long else 1.0, self._scratch, self._lists,
            self._touch if touch.first else self._later,
        )  # fmt: skip
        self._steps += len(order)
        if before is not None:
            step = alpha[order] - before
            spans[order] = np.where(step.any(axis=1), self.whole, 0)
            worth[order] = (step * step).sum(axis=1) * sight.sq_norm[order]

    def visit(
        self, group: Group, outer: int, number: int, visits: int, halt: Callable[[], bool]
    ) -> None:
        """Work on one group; look how good W is, where the group is all rows and it may be so."""
        self._together.visit(lambda do: [do(self)], group, outer, number, visits, halt)
        goal = (self._options.gap or 0.0) * self._dual()
        if visits == 1 and 0.0 < self._touch[kernels.EXCESS] <= LOOK * goal:
            self.finish()
            proof = self.proof()
            self.certify_group(group, proof)
            self._primal[0] = self._proven(proof).primal

    def _epochs(self, visit: Visit) -> None:
        """Where the group is the only one, go on in the direction in which the epochs went."""
        if not (visit.resident and self._sweeping and visit.outer > 1):
            super()._epochs(visit)
            return
        alpha_before, W_before = visit.alpha.copy(), self.W.copy()
        super()._epochs(visit)
        self._leap(visit.sight, visit.alpha, alpha_before, W_before)
        del alpha_before, W_before
        for sweep in range(SWEEPS, SWEEPS + SMOOTHING):
            if visit.halt():
                raise Abandoned
            self._sweep_group(visit, 0, sweep, long=False)

    def _leap(self, sight: Sight, alpha: Floats, d: Floats, V: Floats) -> None:
        """Go on from an earlier alpha and W, `d` and `V`, through the present ones.

        As far as the dual rises along that line; rows that meet a bound stop there, and along what
        is then left of the direction the dual is maximised again, so that it never falls.
        """
        code, cost = sight.roles
        way = (self._count_terms(sight, alpha) - self._count_terms(sight, d))[kernels.DUAL]
        np.subtract(self.W, V, out=V)
        factor = self._best_step(float(way), V)
        if factor <= 0.0:
            return
        V *= factor
        kernels.cs_extrapolate(
            sight.starts, sight.stops, sight.indices, sight.values, code, cost, self._bias,
            factor, alpha, d, V, self._scratch, self._lists,
        )  # fmt: skip
        t = min(self._best_step(float(kernels.cs_slope(code, d)), V), 1.0)
        d *= t
        V *= t
        alpha += d
        self.W += V
        rows = np.arange(len(code))  # rounding may have gone past a bound
        own = np.minimum(alpha[rows, code], cost)
        np.minimum(alpha, 0.0, out=alpha)
        alpha[rows, code] = own

    def _best_step(self, linear: float, V: Floats) -> float:
        """Return the t >= 0 that maximises t linear - 1/2 |W + t V|^2; 0 if there is none."""
        cross, square = kernels.cs_products(self.W, V)
        step = (linear - cross) / square if square > 0.0 else 0.0
        return step if 0.0 < step < np.inf else 0.0

    def _add_terms(self, sight: Sight, alpha: Floats, sign: float) -> None:
        self._terms += sign * self._count_terms(sight, alpha)

    def _count_terms(self, sight: Sight, alpha: Floats) -> Floats:
        terms: Floats = np.zeros(kernels.N_TERMS)
        code, cost = sight.roles
        kernels.cs_add_dual_terms(code, cost, alpha, self._scratch, terms)
        return terms

    def estimate(self) -> Estimate:
        """Return what the outer iteration saw."""
        self.finish()
        dual, primal = self._dual(), float(self._primal[0])
        gain = self._touch[kernels.GAIN] + self._later[kernels.GAIN]
        return Estimate(
            primal=primal or dual + float(self._touch[kernels.EXCESS]),
            dual=dual,
            violation=max(float(self._touch[kernels.VIOLATION]), 0.0),
            n_sv=int(self._terms[kernels.N_SUPPORT]),
            steps=int(self._steps[0]),
            foretold=primal > 0.0,
            rise=rises(np.array([gain]), np.array([dual])),
        )

    def _dual(self) -> float:
        return float(self._terms[kernels.DUAL] - 0.5 * squared_norm(self.W))

    def proof(self) -> Proof:
        """Return a certificate to be, before any row was added."""
        return Proof(self, 1)

    def certify_group(self, group: Group, proof: Proof) -> None:
        """Add what a group contributes to the certificate."""
        sight, alpha = self.sight(group), self.lines(group)
        roles: _Roles = sight.roles
        kernels.cs_certify_rows(
            group.indptr, group.indices, group.values, group.sq_norm, *roles, self._bias, alpha,
            self.W, self.average, self.averaged, proof.norms.max(axis=1), proof.recomputed,
            self._scratch, self._lists, proof.sums[:, :, 0], proof.reach[:, 0],
        )  # fmt: skip
        proof.n += group.n_rows

    def certify(self, stream: Iterable[Loaded]) -> Certificate:
        """Pass over the data once; say how good the better of `W` and `average` is."""
        proof = self.proof()
        for loaded in stream:
            self.certify_group(loaded.group, proof)
        return self._proven(proof)

    def _proven(self, proof: Proof) -> Certificate:
        """Return the certificate of the better candidate, once all groups were added."""
        norm = math.sqrt(math.fsum(column_norms(proof.recomputed)))
        distances = [math.fsum(column_distances(v, proof.recomputed)) for v in proof.candidates]
        drift = math.sqrt(distances[0]) / norm if norm else 0.0
        return min(
            (
                prove(
                    math.fsum(proof.squares[k]), distance, proof.sums[k, :, 0], proof.reach[:, 0],
                    proof.n, drift, average=k == 1, n_classes=self.width,
                )
                for k, distance in enumerate(distances)
            ),
            key=attrgetter("primal"),
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
