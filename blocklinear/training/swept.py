"""Several weight vectors trained together: the flow of a visit, whatever the problem."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklinear.options import TrainOptions
from blocklinear.store.groups import Group
from blocklinear.store.manifest import Manifest
from blocklinear.training.active import ActiveRows, Rows
from blocklinear.training.descent import LONGEST_PART, SWEEPS, Abandoned, Floats, share
from blocklinear.training.rows import RowArray
from blocklinear.training.schedule import active_schedule, row_order

_ROWS_AT_A_TIME = 1 << 16


@dataclass(frozen=True)
class Sight:
    """Rows as kernels want them.

    Attributes
    ----------
    starts, stops : int64[n]  where the entries of a row are
    indices, values : arrays of entries
    sq_norm : float64[n]
    labels : float64[n]
    roles : tuple of arrays   what else the problem must know of each row
    """

    starts: NDArray[np.int64]
    stops: NDArray[np.int64]
    indices: NDArray[np.uint32]
    values: NDArray[np.floating]
    sq_norm: Floats
    labels: Floats
    roles: Any


class Swept(ABC):
    """Weight vectors that share every sweep, and their alpha, a column for each.

    Parameters
    ----------
    width : int
        Weight vectors, at least 1.
    manifest : Manifest
    options : TrainOptions
    folder, name : Path, str
        Where alpha is kept, and under which name.
    active_entries : int
        As for `Descent`.

    Attributes
    ----------
    W, average : float64[n_features + 1, width]     weights; their average over the outer iteration
    alpha : RowArray
    """

    def __init__(
        self,
        width: int,
        manifest: Manifest,
        options: TrainOptions,
        folder: Path,
        name: str,
        active_entries: int,
    ) -> None:
        self._manifest, self._options = manifest, options
        self._bias = max(options.bias, 0.0)
        self.width = width
        self.W = np.zeros((manifest.n_features + 1, width))
        self.average = np.zeros_like(self.W)
        self._path = folder / f"alpha{name}.work"
        self.alpha = RowArray(self._path, manifest, np.float64, width)
        self._sweeping = options.selection == "active"
        self._active = RowArray(folder / f"active{name}.work", manifest, np.uint8)
        self._kept = ActiveRows(manifest, active_entries if self._sweeping else 0)
        self._points = np.zeros(1)

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that a checkpoint must keep, by name."""
        return {
            "w": self.W, "average": self.average, "alpha": self.alpha.all,
            "active": self._active.all, "points": self._points,
        }  # fmt: skip

    def restore_rows(self, group: Group) -> None:
        """Fetch the active rows of a group, after `arrays` were filled from a checkpoint."""
        chosen = np.flatnonzero(self._active.read(group.blocks))
        self._kept.replace(group, chosen, np.zeros(len(chosen)))

    def begin(self) -> None:
        """Start an outer iteration."""
        self._points[:] = 0.0
        self.average[:] = 0.0

    @abstractmethod
    def _roles(self, labels: Floats, positions: tuple[int, ...] | NDArray[np.int64]) -> Any:
        """Return what the problem must know of rows: of blocks, or at positions in the store."""

    @abstractmethod
    def _descend(
        self,
        sight: Sight,
        order: NDArray[np.int64],
        alpha: Floats,
        first: bool,
        moving: NDArray[np.bool_],
        worth: Floats,
    ) -> None:
        """Visit rows in an order; say which are moving, and what their steps were worth.

        `first` tells the first touch of rows in an outer iteration from later ones.
        """

    @abstractmethod
    def _add_terms(self, sight: Sight, alpha: Floats, sign: float) -> None:
        """Add what rows contribute to the dual value, or take it away."""

    @abstractmethod
    def certify_group(self, group: Group, proof: "Proof") -> None:
        """Add what a group contributes to certificates."""

    def proof(self) -> "Proof":
        """Return certificates to be, before any row was added."""
        return Proof(self)

    def sight(self, group: Group) -> Sight:
        """Return the rows of a group."""
        return Sight(
            group.indptr[:-1], group.indptr[1:], group.indices, group.values, group.sq_norm,
            group.labels, self._roles(group.labels, group.blocks),
        )  # fmt: skip

    def lines(self, group: Group) -> Floats:
        """Return a copy of the alpha of a group, float64[n_rows, width]."""
        return self.alpha.read(group.blocks).reshape(-1, self.width)

    def visit(
        self, group: Group, outer: int, number: int, visits: int, halt: Callable[[], bool]
    ) -> None:
        """Work on one group, visit `number` (from 0) of `visits`.

        Raises
        ------
        Abandoned
            If `halt` returned true between two parts of it.
        """
        sight, alpha, worth = self.sight(group), self.lines(group), np.zeros(group.n_rows)
        resident = visits == 1
        flags = self._active.read(group.blocks).astype(np.bool_)
        self._add_terms(sight, alpha, -1.0)
        for epoch in range(self._options.epochs or 1):
            self._epoch(sight, group.blocks, alpha, flags, worth, (outer, epoch), resident, halt)
        self._add_terms(sight, alpha, 1.0)
        self.alpha.write(group.blocks, alpha.reshape(self.alpha.shape_of(group.n_rows)))
        if not resident and self._sweeping:
            chosen = np.flatnonzero(flags)
            kept = self._kept.replace(group, chosen, worth[chosen])
            flags[:] = False
            flags[kept] = True
        self._active.write(group.blocks, flags)
        if not resident and self._sweeping:
            for sweep in share(SWEEPS, number, visits):
                self._sweep_kept(outer, sweep)

    def _epoch(
        self,
        sight: Sight,
        blocks: tuple[int, ...],
        alpha: Floats,
        flags: NDArray[np.bool_],
        worth: Floats,
        turn: tuple[int, int],
        resident: bool,
        halt: Callable[[], bool],
    ) -> None:
        """Visit all rows of a group; where it is the only one, sweep the active ones in between."""
        (outer, epoch), sweeping = turn, resident and self._sweeping
        order = np.empty(len(flags), np.int64)
        row_order(self._options.seed, outer, epoch, blocks, order)
        parts = max(SWEEPS if sweeping else 1, -(-len(sight.indices) * self.width // LONGEST_PART))
        for number, part in enumerate(np.array_split(order, parts)):
            if (number or epoch) and halt():
                raise Abandoned
            self._descend(sight, part, alpha, epoch == 0, flags, worth)
            self._average()
            for sweep in share(SWEEPS, number, parts) if sweeping else ():
                again = np.flatnonzero(flags)
                again = again[self._permuted(len(again), outer, epoch, sweep)]
                self._descend(sight, again, alpha, False, flags.copy(), np.empty(len(flags)))
                self._average()

    def _sweep_kept(self, outer: int, sweep: int) -> None:
        """Visit the active rows of all groups once."""
        rows = self._kept.rows()
        if rows is None:
            return
        n = len(rows.positions)
        sight = self._sight_kept(rows)
        alpha = self.alpha.all[rows.positions].reshape(n, self.width)
        self._add_terms(sight, alpha, -1.0)
        order = self._permuted(n, outer, 0, sweep)
        self._descend(sight, order, alpha, False, np.empty(n, np.bool_), np.empty(n))
        self._average()
        self._add_terms(sight, alpha, 1.0)
        self.alpha.all[rows.positions] = alpha.reshape(self.alpha.shape_of(n))

    def _sight_kept(self, rows: Rows) -> Sight:
        return Sight(
            rows.starts, rows.stops, rows.indices, rows.values, rows.sq_norm, rows.labels,
            self._roles(rows.labels, rows.positions),
        )  # fmt: skip

    def _average(self) -> None:
        self.average += self.W
        self._points += 1

    def _permuted(self, n: int, outer: int, epoch: int, sweep: int) -> NDArray[np.int64]:
        order = np.empty(n, np.int64)
        alike = np.zeros(n, np.float32)
        active_schedule(self._options.seed, outer, epoch, sweep, alike, order)
        return order

    def finish(self) -> None:
        """End an outer iteration: make the average one."""
        self.average /= max(self._points[0], 1.0)
        self._points[:] = 1.0

    def leave(self, staying: NDArray[np.bool_]) -> None:
        """Go on with some of the weight vectors only."""
        before, width = self.alpha.all, self.width
        self.width = int(np.count_nonzero(staying))
        self.W, self.average = self.W[:, staying].copy(), self.average[:, staying].copy()
        self.alpha.discard()  # its pages stay as long as they are mapped
        self.alpha = RowArray(self._path, self._manifest, np.float64, max(self.width, 1))
        for start in range(0, len(before) if self.width else 0, _ROWS_AT_A_TIME):
            part = slice(start, start + _ROWS_AT_A_TIME)
            lines = before[part].reshape(-1, width)[:, staying]
            self.alpha.all[part] = lines.reshape(self.alpha.shape_of(len(lines)))

    def discard(self) -> None:
        """Delete the scratch files."""
        self.alpha.discard()
        self._active.discard()


class Proof:
    """Sums for certificates.

    Attributes
    ----------
    recomputed : float64[n_features + 1, width]     sum of s_i alpha_i x_i
    loss : float64[width, 2]  sum of C_i loss_i under W, and under its average
    dual : float64[width]     sum of g_i(alpha_i)
    """

    def __init__(self, swept: Swept) -> None:
        self.recomputed = np.zeros_like(swept.W)
        self.loss, self.dual = np.zeros((swept.width, 2)), np.zeros(swept.width)


def column_norms(W: Floats) -> Floats:
    """Return the squared norm of each column, without a temporary of the size of `W`."""
    norms: Floats = np.einsum("ij,ij->j", W, W)
    return norms
