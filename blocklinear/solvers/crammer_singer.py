"""Crammer and Singer's multi-class SVM on the groups of a store (Fan, appendix E)."""

import numpy as np
from numpy.typing import NDArray

from blocklinear.kernels import crammer_singer
from blocklinear.kernels.losses import UNIT
from blocklinear.kernels.sums import dot
from blocklinear.objectives.certificate import Certificate, Proof
from blocklinear.objectives.problems import weighted
from blocklinear.solvers.weight_vectors import (
    NO_PRIORITY,
    NO_RANGES,
    PASS,
    BlockStep,
    Floats,
    WeightVectors,
)
from blocklinear.store.groups import RowView

_Data = tuple[NDArray[np.int32], Floats]
"""Class and C of each row."""
WIDE = 4
"""One pass over the working set in so many is for all classes, others for those with an alpha.

With none for all, 52 classes in little memory (Reuters) read 1.1 times the bytes to a gap of 1e-3,
and take 1.3 times the entries to 1e-4; with all for all, in memory, 1.3 times as many to 1e-3."""
FACTOR = 1.5
"""How much longer steps are in passes over the working set."""
SMOOTHING = 4
"""Passes with steps of plain length after an extrapolation, which raises the dual value but also,
as it leaves W rough, the primal value."""
_ROUNDING = 64.0 * UNIT
"""A slope below this share of its two terms may be rounding. To a gap of 1e-9, 150 rows of 120
features and six classes take 54 outer iterations; without this bound 1,000 end at 1e-5."""


class CrammerSinger(WeightVectors):
    """One problem with a weight vector for each class, whose weight multiplies C for its rows."""

    extrapolates = True
    _factor = FACTOR  # of steps in passes

    def _data(self, rows: RowView) -> _Data:
        code = self.models.codes(rows.labels)
        return code, weighted(self.models.cost[code, 1], rows)

    def _descend(
        self, step: BlockStep, order: NDArray[np.int64], why: int, number: int = 0
    ) -> None:
        noted = why != PASS
        crammer_singer.cs_epoch(
            step.rows.arrays, step.data, order, self.bias, step.alpha, self.W,
            not noted and number % WIDE > 0, 1.0 if noted else self._factor, self.stats[why, 0],
            step.ranges if noted else NO_RANGES, step.priority if noted else NO_PRIORITY,
        )  # fmt: skip

    def _epochs(self, step: BlockStep) -> None:
        """After passes over the group, go on in the direction in which they went."""
        if step.passes == 0 or step.outer == 1:
            super()._epochs(step)
            return
        alpha_before, W_before = step.alpha.copy(), self.W.copy()
        super()._epochs(step)
        if self._ended(step):
            return
        self._extrapolate(step, alpha_before, W_before)
        del alpha_before, W_before
        self._factor = 1.0
        for number in range(step.passes, step.passes + SMOOTHING):
            if step.cut_short():
                break
            self._pass_over_group(step, 0, number)
        self._factor = FACTOR

    def _extrapolate(self, step: BlockStep, d: Floats, V: Floats) -> None:
        """Go on from an earlier alpha and W, `d` and `V`, through the present ones.

        As far as the dual rises along that line; rows that meet a bound stop there, and along what
        is then left of the direction the dual is maximised again, so that it never falls.
        """
        alpha, (code, cost) = step.alpha, step.data
        places = np.arange(len(code))  # as each row of alpha sums to 0, its own class tells of all
        way = float((alpha[places, code] - d[places, code]).sum())
        np.subtract(self.W, V, out=V)
        factor = self._best_step(alpha[places, code], way, V)
        if factor <= 0.0:
            return
        V *= factor
        crammer_singer.cs_extrapolate(step.rows.arrays, step.data, self.bias, factor, alpha, d, V)
        t = min(self._best_step(alpha[places, code], float(d[places, code].sum()), V), 1.0)
        d *= t
        V *= t
        alpha += d
        self.W += V
        own = np.minimum(alpha[places, code], cost)  # rounding may have gone past a bound
        np.minimum(alpha, 0.0, out=alpha)
        alpha[places, code] = own

    def _best_step(self, own: Floats, linear: float, V: Floats) -> float:
        """Return the t >= 0 that maximises t linear - 1/2 |W + t V|^2; 0 if there is none.

        Nor if rounding may be all that is left of the slope at t = 0, as near the optimum. `own`,
        float64[n_rows], are alpha of the classes of rows.
        """
        w, v = self.W.reshape(-1), V.reshape(-1)
        slope, square = linear - dot(w, v), dot(v, v)
        if not slope > _ROUNDING * (float(own.sum()) + dot(w, w)):
            return 0.0
        step = slope / square if square > 0.0 else 0.0
        return float(step) if step < np.inf else 0.0

    def _terms_of(self, data: _Data, alpha: Floats) -> Floats:
        terms = np.zeros_like(self.terms)
        crammer_singer.cs_add_dual_terms(data, alpha, terms[0])
        return terms

    def _certify(self, rows: RowView, data: _Data, alpha: Floats, proof: Proof) -> None:
        crammer_singer.cs_certify_rows(
            rows.arrays, data, self.bias, alpha, *proof.pair,
            len(proof.candidates) > 1, proof.norms.max(axis=1), proof.recomputed,
            proof.sums[:, :, 0], proof.reach[:, 0],
        )  # fmt: skip

    def certificates(self, proof: Proof) -> list[Certificate]:
        """Return the certificate of the problem, once all groups were added."""
        return proof.certificates(n_classes=self.width)
