"""One model: rows of every loss, and the orders of rows that only one model can have."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklinear.kernels import dual
from blocklinear.objectives.certificate import Proof
from blocklinear.objectives.models import Models
from blocklinear.options import TrainOptions
from blocklinear.solvers.pass_statistics import add_stats, no_stats, threshold, width
from blocklinear.solvers.row_orders import drawn_rows, row_order, row_schedule
from blocklinear.solvers.weight_vectors import (
    NO_PRIORITY,
    NO_RANGES,
    PASS,
    BlockStep,
    WeightVectors,
)
from blocklinear.solvers.working_set import Packed
from blocklinear.store.groups import RowView
from blocklinear.store.manifest import Manifest
from blocklinear.store.row_arrays import RowArray

Floats = NDArray[np.float64]
_SELECTIONS = {"shrink": dual.SHRINK, "avsf": dual.AVSF}


class SingleModel(WeightVectors):
    """One model and its alpha."""

    def __init__(
        self, models: Models, manifest: Manifest, options: TrainOptions, folder: Path
    ) -> None:
        super().__init__(models, manifest, options, folder)
        self._selection = _SELECTIONS.get(options.selection, dual.PERMUTE)
        adaptive = int(self._selection == dual.AVSF)
        self._preferences = RowArray(folder / "preference-0.work", manifest, np.float32, adaptive)
        self._preference = np.zeros(0, np.float32)  # of the rows of a group, while it is worked on
        self._adapt = np.zeros(dual.N_ADAPT)
        self._seen = no_stats()  # in an epoch

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that a checkpoint must keep, by name."""
        return super().arrays | {
            "preference": self._preferences.all, "adapt": self._adapt,
        }  # fmt: skip

    @property
    def row_arrays(self) -> dict[str, RowArray]:
        """What is known of rows other than alpha, by the names of a checkpoint; it may all be 0."""
        return super().row_arrays | {"preference-0": self._preferences}

    def _data(self, rows: RowView) -> tuple[Floats, Floats]:
        """Return t_i and C_i."""
        return self.models.of_model(0, rows)

    def _epochs(self, step: BlockStep) -> None:
        if self._selection == dual.SHRINK:  # it lasts as long as the block step
            self._preference = np.zeros(len(step.rows), np.float32)
        else:
            self._preference = self._preferences.read(step.blocks)
        self._adapt[dual.THRESHOLD] = np.inf  # nothing is shrunk before it was measured
        super()._epochs(step)
        if self._selection == dual.AVSF:
            self._preferences.write(step.blocks, self._preference)

    def _order(self, step: BlockStep, epoch: int) -> NDArray[np.int64]:
        """Return the rows of an epoch in their order; the first epoch takes all."""
        key = (self._options.seed, step.outer, epoch, step.blocks)
        if self._options.selection == "shrink" and epoch:
            remaining = np.flatnonzero(self._preference == 0.0)
            return remaining[row_order(len(remaining), *key)]
        if self._options.selection == "online":
            return drawn_rows(len(step.rows), *key)
        if self._options.selection == "avsf" and epoch:
            return row_schedule(self._preference, *key)
        return row_order(len(step.rows), *key)

    def _epoch(self, step: BlockStep, epoch: int, order: NDArray[np.int64]) -> None:
        self._seen[:] = no_stats()
        super()._epoch(step, epoch, order)
        if self._selection == dual.AVSF and self._adapt[dual.MEAN_GAIN] == 0.0:
            self._adapt[dual.MEAN_GAIN] = self._seen[dual.GAIN] / max(len(order), 1)
        self._adapt[dual.THRESHOLD] = threshold(self._seen)

    def _enough_epochs(self, step: BlockStep, epoch: int, order: NDArray[np.int64]) -> bool:
        """Say whether violations are within the tolerance, where it decides."""
        if self._options.epochs is not None or width(self._seen) > self._options.inner_tolerance:
            return False
        if self._selection == dual.SHRINK and len(order) < len(step.rows):
            self._preference[:] = 0.0  # all rows again before the block step may end
            return False
        return True

    def _descend(
        self, step: BlockStep, order: NDArray[np.int64], why: int, number: int = 0
    ) -> None:
        seen = no_stats()
        resident = step.steps == 1  # then a turn of a row at a bound costs no more than a pass
        dual.dcd_epoch(
            step.rows.arrays, step.data, order, self.models.loss, self.bias, step.alpha.reshape(-1),
            self.W.reshape(-1), seen, self._selection, self._preference, self._adapt,
            step.ranges if why != PASS else NO_RANGES,
            step.priority if why != PASS and not resident else NO_PRIORITY,
        )  # fmt: skip
        add_stats(seen, self.stats[why, 0])
        if why != PASS:
            add_stats(seen, self._seen)

    def _pass_unpacking(self, step: BlockStep, packed: Packed, number: int) -> None:
        dual.dcd_packed(
            packed, step.rows.arrays, step.data, self.models.loss, self.bias,
            step.alpha.reshape(-1), self.W.reshape(-1), self.stats[PASS, 0],
        )  # fmt: skip

    def _terms_of(self, data: tuple[Floats, Floats], alpha: Floats) -> Floats:
        terms = np.zeros_like(self.terms)
        dual.add_dual_terms(data, self.models.loss, alpha.reshape(-1), terms[0])
        return terms

    def _certify(
        self, rows: RowView, data: tuple[Floats, Floats], alpha: Floats, proof: Proof
    ) -> None:
        one, other = proof.pair
        dual.certify_rows(
            rows.arrays, data, self.models.loss, self.bias, alpha.reshape(-1),
            proof.balance.reshape(-1), one.reshape(-1), other.reshape(-1),
            len(proof.candidates) > 1, proof.norms[:, 0], proof.recomputed.reshape(-1),
            proof.sums[:, :, 0], proof.reach[:, 0],
        )  # fmt: skip


class AveragedBlocks(SingleModel):
    """AvgBlock (Yu, 7.2): each block step solves its rows alone; the model is the mean of their w.

    With alpha divided by the number of block steps, w = sum s_i alpha_i x_i still holds, and alpha
    is feasible, so the certificate is one of the whole problem.
    """

    def begin(self, goal: float) -> None:
        """Start an outer iteration, which owes nothing to the one before."""
        super().begin(goal)
        self.W[:] = self.terms[:] = 0.0
        self.alpha.all[:] = 0.0

    def _epochs(self, step: BlockStep) -> None:
        """Solve a group from zero."""
        total = self.W.copy()
        self.W[:] = 0.0
        super()._epochs(step)
        np.divide(step.alpha, step.steps, out=step.alpha)
        self.W /= step.steps
        self.W += total
        self.forget_average()
