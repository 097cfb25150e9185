"""Pegasos on the groups of a store (Yu, Algorithm 3)."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklinear.kernels import pegasos as kernels
from blocklinear.kernels.sums import dot
from blocklinear.options import TrainOptions
from blocklinear.store.groups import Group
from blocklinear.store.manifest import Manifest
from blocklinear.store.prefetch import Loaded
from blocklinear.training.descent import AVERAGED_POINTS, LONGEST_PART, Abandoned
from blocklinear.training.problems import Problem
from blocklinear.training.schedule import row_order
from blocklinear.training.single import SingleModel
from blocklinear.training.tally import Estimate


class Pegasos(SingleModel):
    """One model trained by subgradient steps.

    How often each row had a loss makes a feasible point of the dual, so that this has a certificate
    too.

    Parameters
    ----------
    manifest : Manifest
    problem : Problem
        With hinge loss.
    options : TrainOptions
    folder : Path
        Where alpha is kept.

    Attributes
    ----------
    w, average : float64[n_features + 1]        the model; its average over the outer iteration
    """

    def __init__(
        self,
        manifest: Manifest,
        problem: Problem,
        options: TrainOptions,
        folder: Path,
    ) -> None:
        super().__init__(manifest, problem, options, folder)
        self._n_rows = manifest.n_rows
        self._used_rows = manifest.n_rows - manifest.weights["zeros"]
        self._radius_sq = problem.total_cost(manifest)
        self._touch = np.zeros(kernels.N_TOUCH)
        self._updates = np.zeros(1)
        self._points = np.zeros(1)
        self._dual = np.zeros(2)  # sum alpha_i, and the number of rows where it is not 0

    @property
    def updates(self) -> float:
        """Updates done."""
        return float(self._updates[0])

    @updates.setter
    def updates(self, updates: float) -> None:
        self._updates[0] = updates

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that a checkpoint must keep, by name."""
        return {
            "w": self.w, "average": self.average, "alpha": self.alpha.all, "touch": self._touch,
            "updates": self._updates, "points": self._points, "dual": self._dual,
        }  # fmt: skip

    def restore(self, stream: Iterable[Loaded]) -> None:
        """Fetch nothing: a checkpoint holds all."""

    def begin(self) -> None:
        """Start an outer iteration."""
        self._touch[:] = self._points[:] = self._dual[:] = 0.0
        self.average[:] = 0.0

    def visit(
        self, group: Group, outer: int, number: int, visits: int, halt: Callable[[], bool]
    ) -> None:
        """Work on one group, one of `visits`.

        Raises
        ------
        Abandoned
            If `halt` returned true between two parts of it.
        """
        options, problem = self._options, self.problem
        target, cost = problem.targets(group.labels), problem.costs(group)
        alpha, order = self.alpha.read(group.blocks), np.empty(group.n_rows, np.int64)
        batch = min(options.pegasos_batch or group.n_rows, group.n_rows) or 1  # no row at all
        for epoch in range(options.epochs or 1):
            row_order(options.seed, outer, epoch, group.blocks, order)
            for k, part in enumerate(_parts(order, batch, visits, len(group.indices))):
                if (epoch or k) and halt():
                    raise Abandoned
                self._updates[0] = kernels.pegasos_epoch(
                    group.indptr, group.indices, group.values, target, cost, part, batch,
                    self._used_rows, self._radius_sq, self.bias, int(self._updates[0]), self.w,
                    self._touch, alpha, 1.0 / outer,
                )  # fmt: skip
                self.average += self.w
                self._points += 1
        self.alpha.write(group.blocks, alpha)
        self._dual += alpha.sum(), np.count_nonzero(alpha)

    def estimate(self) -> Estimate:
        """Return what the outer iteration saw; none of it is exact."""
        self.average /= max(self._points[0], 1.0)
        self._points[:] = 1.0
        norm = dot(self.w, self.w)
        return Estimate(
            primal=float(0.5 * norm + self._touch[kernels.LOSS] / (self._options.epochs or 1)),
            dual=float(self._dual[0] - 0.5 * norm),
            violation=float("inf"),
            n_sv=int(self._dual[1]),
            steps=self._n_rows * (self._options.epochs or 1),
        )

    def discard(self) -> None:
        """Delete the scratch file."""
        self.alpha.discard()


def _parts(
    order: NDArray[np.int64], batch: int, n_visits: int, n_entries: int
) -> list[NDArray[np.int64]]:
    """Cut an epoch at multiples of the batch, into about as many parts as the average wants."""
    wanted = max(-(-AVERAGED_POINTS // n_visits), -(-n_entries // LONGEST_PART))
    n_batches = -(-len(order) // batch)
    n_parts = max(min(wanted, n_batches), 1)
    cuts = [n_batches * part // n_parts * batch for part in range(1, n_parts)]
    return np.split(order, cuts)
