"""Pegasos on the groups of a store (Yu, Algorithm 3)."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklinear.kernels import pegasos
from blocklinear.kernels.sums import dot
from blocklinear.objectives.models import Models
from blocklinear.options import TrainOptions
from blocklinear.solvers.row_orders import row_order
from blocklinear.solvers.single import SingleModel
from blocklinear.solvers.weight_vectors import (
    AVERAGED_POINTS,
    FIRST,
    LONGEST_PART,
    BlockStep,
    Floats,
)
from blocklinear.store.manifest import Manifest


class Pegasos(SingleModel):
    """One model trained by subgradient steps.

    How often each row had a loss gives a feasible point of the dual, and so a certificate. What is
    estimated during the work is not exact.
    """

    def __init__(
        self, models: Models, manifest: Manifest, options: TrainOptions, folder: Path
    ) -> None:
        super().__init__(models, manifest, options, folder)
        self._used_rows = manifest.n_rows - manifest.weights["zeros"]
        sums = dict(zip(manifest.labels or (), manifest.weights["sums"], strict=True))
        costs = zip(models.labels, models.pairs[0].tolist(), strict=True)
        self._radius_sq = float(sum(sums[label] * cost for label, cost in costs))  # of all C_i
        self._lost = np.zeros(pegasos.N_STATS)
        self.updates: Floats = np.zeros(1)

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that a checkpoint must keep, by name."""
        return super().arrays | {"lost": self._lost, "updates": self.updates}

    def begin(self, goal: float) -> None:
        """Start an outer iteration."""
        super().begin(goal)
        self._lost[:] = 0.0

    def _epochs(self, step: BlockStep) -> None:
        """Go over the rows of a group, in batches."""
        rows, options = step.rows, self._options
        batch = min(options.pegasos_batch or len(rows), len(rows)) or 1  # no row at all
        for epoch in range(options.epochs or 1):
            order = row_order(len(rows), options.seed, step.outer, epoch, step.blocks)
            for k, part in enumerate(_parts(order, batch, step.steps, len(rows.indices))):
                if (epoch or k) and step.cut_short() and epoch:
                    return
                self.updates[0] = pegasos.pegasos_epoch(
                    rows.arrays, step.data, part, batch, self._used_rows, self._radius_sq,
                    self.bias, int(self.updates[0]), self.W.reshape(-1), self._lost,
                    step.alpha.reshape(-1), 1.0 / step.outer,
                )  # fmt: skip
                self.entries[FIRST] += rows.lengths[part].sum()
                self._take_point()

    def primal(self, dual: Floats) -> Floats:
        """Return the estimate of the last sample; without one, of losses when rows were used."""
        w = self.W.reshape(-1)
        lost = self._lost[pegasos.LOSS] / (self._options.epochs or 1)
        seen = np.array([0.5 * dot(w, w) + lost])
        return seen if np.isnan(self._remaining[0]).any() else dual + np.fmin(*self._remaining)

    @property
    def gain(self) -> Floats:
        """Nothing is known of it: infinity, float64[1]."""
        return np.full(1, np.inf)

    @property
    def steps(self) -> int:
        """Rows worked on."""
        return self._n_rows * (self._options.epochs or 1)

    def violations(self) -> Floats:
        """Return infinity, float64[1]: they are not known."""
        return np.full(1, np.inf)


def _parts(
    order: NDArray[np.int64], batch: int, n_steps: int, n_entries: int
) -> list[NDArray[np.int64]]:
    """Cut an epoch at multiples of the batch, into about as many parts as the average wants."""
    wanted = max(-(-AVERAGED_POINTS // n_steps), -(-n_entries // LONGEST_PART))
    n_batches = -(-len(order) // batch)
    n_parts = max(min(wanted, n_batches), 1)
    cuts = [n_batches * part // n_parts * batch for part in range(1, n_parts)]
    return np.split(order, cuts)
