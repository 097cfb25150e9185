"""Several weight vectors trained together: the flow of a visit, whatever the problem."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklinear.kernels.dual import N_REACHES, N_SUMS
from blocklinear.kernels.sums import add_squared_distances, add_squares, dot
from blocklinear.options import TrainOptions
from blocklinear.store.groups import Group
from blocklinear.store.manifest import Manifest
from blocklinear.training.active import Rows
from blocklinear.training.certificate import norms_above
from blocklinear.training.descent import LONGEST_PART, Abandoned, Floats, share
from blocklinear.training.problems import LabelledRows
from blocklinear.training.rows import RowArray
from blocklinear.training.schedule import active_schedule, having_turn, row_order
from blocklinear.training.sight import Sight, Spans, Touch, Visit

_CACHE_LINE = 64
SWEEPS = 8
"""Of the active rows in an outer iteration, where their number does not adapt."""
WIDE = 4
"""One sweep of active rows in so many is for all weight vectors."""
WORK_A_POINT = 32
"""Steps along an entry of a row, for each weight, between two points of the average."""


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

    Attributes
    ----------
    W, average : float64[n_features + 1, columns]   weights, a column for each, then zeros; their
                              average over the outer iteration, if it is `averaged`
    alpha : RowArray          float64, a column for each, also for those that have left
    places : int64[width]     the columns of alpha of those that stay
    parted : float64[n_features + 1, M - width]     weights of those that have left, as they did
    """

    def __init__(
        self,
        width: int,
        manifest: Manifest,
        options: TrainOptions,
        folder: Path,
        name: str,
    ) -> None:
        self._manifest, self._options = manifest, options
        self._bias = max(options.bias, 0.0)
        self.width = width
        self.W = aligned_zeros(manifest.n_features + 1, self.columns_of(width))
        self.average = aligned_zeros(*self.W.shape)
        self.alpha = RowArray(folder / f"alpha{name}.work", manifest, np.float64, width)
        self.places = np.arange(width)
        self.parted = np.zeros((len(self.W), 0))
        self._name = name
        self._sweeping = options.selection == "active"
        self._spans = RowArray(folder / f"spans{name}.work", manifest, np.uint16)
        self._points = np.zeros(2)  # points of the average so far; steps since the last one

    @staticmethod
    def columns_of(width: int) -> int:
        """Return how many columns so many weight vectors take."""
        return width

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that a checkpoint must keep, by name."""
        return {
            "w": self.W, "average": self.average, "alpha": self.alpha.all,
            "spans": self._spans.all, "points": self._points,
        } | ({"parted": self.parted} if self.parted.size else {})  # fmt: skip

    @property
    def hints(self) -> dict[str, RowArray]:
        """What is known of rows beside alpha, by the names of a checkpoint; it may all be 0."""
        return {f"spans{self._name}": self._spans}

    @property
    def whole(self) -> int:
        """The span of all weight vectors, or of any where they are not told apart."""
        return 1 << 8

    def spans(self, group: Group) -> Spans:
        """Return which weight vectors move the rows of a group, uint16[n_rows]."""
        return np.asarray(self._spans.read(group.blocks))

    def keep(self, group: Group, spans: Spans) -> None:
        """Say which weight vectors move the rows of a group, from now on."""
        self._spans.write(group.blocks, spans)

    def begin(self) -> None:
        """Start an outer iteration."""
        self.forget_average()

    @abstractmethod
    def _roles(self, rows: LabelledRows, positions: tuple[int, ...] | NDArray[np.int64]) -> Any:
        """Return what the problem must know of rows: of blocks, or at positions in the store."""

    @abstractmethod
    def _descend(
        self,
        sight: Sight,
        order: NDArray[np.int64],
        alpha: Floats,
        touch: Touch,
        spans: Spans,
        worth: Floats,
    ) -> None:
        """Visit rows in an order, for the weight vectors in their spans.

        Leave the spans of those that are moving, and what the steps were worth.
        """

    @abstractmethod
    def _add_terms(self, sight: Sight, alpha: Floats, sign: float) -> None:
        """Add what rows contribute to the dual value, or take it away."""

    @abstractmethod
    def certify_group(self, group: Group, proof: "Proof") -> None:
        """Add what a group contributes to certificates."""

    def proof(self) -> "Proof":
        """Return certificates to be, before any row was added."""
        return Proof(self, self.width)

    def sight(self, group: Group) -> Sight:
        """Return the rows of a group."""
        return Sight(
            group.indptr[:-1], group.indptr[1:], group.indices, group.values, group.sq_norm,
            group.labels, self._roles(group, group.blocks),
        )  # fmt: skip

    def lines(self, group: Group) -> Floats:
        """Return a copy of the alpha of a group, float64[n_rows, width]."""
        return self._own(self.alpha.read(group.blocks))

    def _own(self, stored: Floats) -> Floats:
        """Return what lines of `alpha` say of the weight vectors that stay, float64[n, width]."""
        lines = stored.reshape(-1, self.width + self.parted.shape[1])
        if not self.parted.size:
            return lines
        own: Floats = np.take(lines, self.places, axis=1)  # in C order, unlike lines[:, places]
        return own

    def work(
        self, group: Group, outer: int, resident: bool, halt: Callable[[], bool]
    ) -> tuple[Spans, Floats]:
        """Work on one group, which may hold all rows; return what moves them, and their worth.

        Raises
        ------
        Abandoned
            If `halt` returned true between two parts of it.
        """
        sight, alpha, worth = self.sight(group), self.lines(group), np.zeros(group.n_rows)
        spans = self.spans(group)
        if outer > 1:  # before, no row was counted, also where a warm start gave it an alpha
            self._add_terms(sight, alpha, -1.0)
        else:  # those that a warm start has are spans of other weight vectors
            spans[spans > 0] = self.whole
        self._epochs(Visit(sight, group.blocks, alpha, spans, worth, outer, resident, halt))
        self._add_terms(sight, alpha, 1.0)
        self._write(group.blocks, alpha)
        return spans, worth

    def _write(self, blocks: tuple[int, ...], alpha: Floats) -> None:
        if self.parted.size:
            lines: Floats = self.alpha.read(blocks)
            lines[:, self.places] = alpha
            alpha = lines
        self.alpha.write(blocks, alpha.reshape(self.alpha.shape_of(len(alpha))))

    def _epochs(self, visit: Visit) -> None:
        """Work on a group, with the active rows in between where it is the only one."""
        for epoch in range(self._options.epochs or 1):
            self._epoch(visit, epoch)

    def _epoch(self, visit: Visit, epoch: int) -> None:
        """Visit all rows of a group; where it is the only one, sweep the active ones in between."""
        sight, spans, sweeping = visit.sight, visit.spans, visit.resident and self._sweeping
        order = np.empty(len(spans), np.int64)
        row_order(self._options.seed, visit.outer, epoch, visit.blocks, order)
        parts = max(SWEEPS if sweeping else 1, -(-len(sight.indices) * self.width // LONGEST_PART))
        for number, part in enumerate(np.array_split(order, parts)):
            if (number or epoch) and visit.halt():
                raise Abandoned
            spans[part] = self.whole
            touch = Touch(first=epoch == 0)
            self._descend(sight, part, visit.alpha, touch, spans, visit.worth)
            self._average(sight, part)
            for sweep in share(SWEEPS, number, parts) if sweeping else ():
                self._sweep_group(visit, epoch, sweep)

    def _sweep_group(self, visit: Visit, epoch: int, sweep: int, long: bool = True) -> None:
        """Visit the active rows of the only group."""
        touch = Touch(active=True, wide=sweep % WIDE == 0, long=long)
        again = np.flatnonzero(visit.spans)
        again = again[self._permuted(len(again), visit.outer, epoch, sweep)]
        worth = np.empty(len(visit.spans))
        self._descend(visit.sight, again, visit.alpha, touch, visit.spans, worth)
        self._average(visit.sight, again)

    def sweep(self, kept: Rows, outer: int, sweep: int, first: float, last: float) -> None:
        """Visit those active rows of all groups that have their turn in a part of a sweep.

        A row that comes to rest is left alone until its group is visited.
        """
        turn = having_turn(self._options.seed, outer, sweep, kept.positions, first, last)
        spans: Spans = self._spans.all[kept.positions[turn]]
        rows, spans = kept.some(turn[spans > 0]), spans[spans > 0]
        sight = self._sight_kept(rows)
        alpha = self._own(self.alpha.all[rows.positions])
        self._add_terms(sight, alpha, -1.0)
        order = self._permuted(len(spans), outer, 0, sweep)
        touch = Touch(active=True, wide=sweep % WIDE == 0, long=True)
        self._descend(sight, order, alpha, touch, spans, np.empty(len(spans)))
        self._average(sight, order)
        self._add_terms(sight, alpha, 1.0)
        self._spans.all[rows.positions] = spans
        lines = self.alpha.all.reshape(-1, self.width + self.parted.shape[1])
        lines[rows.positions[:, None], self.places] = alpha

    def _sight_kept(self, rows: Rows) -> Sight:
        return Sight(
            rows.starts, rows.stops, rows.indices, rows.values, rows.sq_norm, rows.labels,
            self._roles(rows, rows.positions),
        )  # fmt: skip

    def _average(self, sight: Sight, order: NDArray[np.int64]) -> None:
        """Take a point of the average, once so much was done that its cost does not matter."""
        self._points[1] += self.width * int((sight.stops[order] - sight.starts[order]).sum())
        if self._points[1] >= WORK_A_POINT * self.W.size:
            if self.averaged:
                self.average += self.W
            else:
                self.average[:] = self.W
            self._points += 1.0, -self._points[1]

    @property
    def averaged(self) -> bool:
        """Whether so much was done that there is an average beside `W`."""
        return bool(self._points[0] > 0.0)

    def forget_average(self) -> None:
        """Let `W` stand for its average."""
        self._points[:] = 0.0

    def _permuted(self, n: int, outer: int, epoch: int, sweep: int) -> NDArray[np.int64]:
        order = np.empty(n, np.int64)
        alike = np.zeros(n, np.float32)
        active_schedule(self._options.seed, outer, epoch, sweep, alike, order)
        return order

    def finish(self) -> None:
        """End an outer iteration: make the average one."""
        if self._points[0] > 1.0:
            self.average /= self._points[0]
            self._points[:] = 1.0, 0.0

    def leave(self, staying: NDArray[np.bool_]) -> None:
        """Go on with some of the weight vectors only.

        Alpha of the others stays where it is, and their weights are kept as they belong to it,
        which is not always what was certified: a warm start wants both.
        """
        before = np.setdiff1d(np.arange(self.width + self.parted.shape[1]), self.places)
        order = np.argsort(np.concatenate([before, self.places[~staying]]))
        leaving = self.W[:, np.flatnonzero(~staying)]
        self.parted = np.hstack([self.parted, leaving])[:, order].copy()
        self.places = self.places[staying]
        self.width = len(self.places)
        self.W = self._some(self.W, staying)
        average = aligned_zeros(*self.W.shape)  # no pages until it is written to
        self.average = self._some(self.average, staying) if self.averaged else average

    def _some(self, weights: Floats, staying: NDArray[np.bool_]) -> Floats:
        some = aligned_zeros(len(weights), self.columns_of(self.width))
        for column, before in enumerate(np.flatnonzero(staying)):
            some[:, column] = weights[:, before]
        return some

    def discard(self) -> None:
        """Delete the scratch files."""
        self.alpha.discard()
        self._spans.discard()


class Proof:
    """Sums for certificates.

    Attributes
    ----------
    candidates : list         of float64[n_features + 1, columns]: `W`, and its average if any
    squares, norms : float64[2, columns]        of the columns of candidates; the second, or more
    recomputed : float64[n_features + 1, columns]   sum of s_i alpha_i x_i
    sums : float64[2, N_SUMS, n_problems]       for each candidate, as the kernels leave them
    reach : float64[N_REACHES, n_problems]
    n : int                   rows so far

    Parameters
    ----------
    swept : Swept
    n_problems : int
        Problems that the weight vectors are of.
    """

    def __init__(self, swept: Swept, n_problems: int) -> None:
        self.candidates = [swept.W, swept.average] if swept.averaged else [swept.W]
        self.squares = np.zeros((2, swept.W.shape[1]))
        for k, v in enumerate(self.candidates):
            self.squares[k] = column_norms(v)
        self.norms = norms_above(self.squares)
        self.recomputed = aligned_zeros(*swept.W.shape)
        self.sums = np.zeros((2, N_SUMS, n_problems))
        self.reach, self.n = np.zeros((N_REACHES, n_problems)), 0


def column_norms(W: Floats) -> Floats:
    """Return the squared norm of each column, without a temporary of the size of `W`."""
    norms = np.zeros(W.shape[1])
    add_squares(W, norms)
    return norms


def squared_norm(array: Floats) -> float:
    """Return the sum of the squares of all numbers of an array."""
    flat = np.ascontiguousarray(array).reshape(-1)
    return float(dot(flat, flat))


def column_distances(V: Floats, W: Floats) -> Floats:
    """Return the squared norm of each column of V - W, without that difference."""
    norms = np.zeros(W.shape[1])
    add_squared_distances(V, W, norms)
    return norms


def aligned_zeros(n: int, m: int) -> Floats:
    """Return zeros, float64[n, m], that begin with a cache line."""
    buffer = np.zeros(n * m + _CACHE_LINE // 8)
    start = -buffer.ctypes.data % _CACHE_LINE // 8
    return buffer[start : start + n * m].reshape(n, m)
