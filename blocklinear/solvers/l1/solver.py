"""L1-regularised models trained together: they share the passes over rows, and the columns.

An outer iteration works on the columns in memory (`L1Iterate.improve`), then evaluates what came of
it in one pass over the rows, in which new columns are collected, too. The first one evaluates
w = 0.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklinear.kernels import l1 as kernels
from blocklinear.kernels.blocks.columns import count
from blocklinear.objectives.feasible_sets import FeasibleSet
from blocklinear.objectives.models import Models
from blocklinear.options import TrainOptions
from blocklinear.solvers.certified import CertifiedPasses
from blocklinear.solvers.l1.columns import (
    DESCENT_BYTES,
    TOGETHER,
    ColumnCache,
    column_type,
    descent_room,
    most_together,
)
from blocklinear.solvers.l1.descent import Rows
from blocklinear.solvers.l1.iterate import L1Iterate
from blocklinear.solvers.l1.penalty import Penalty
from blocklinear.solvers.protocol import CutShort, Start
from blocklinear.store.groups import Group, RowView, rows_without_entries
from blocklinear.store.manifest import Manifest
from blocklinear.store.prefetch import Loaded
from blocklinear.store.row_arrays import RowArray

Floats = NDArray[np.float64]
_LOSSLESS = 800.0
"""A decision value whose logistic loss, log(1 + exp(-800)), is 0 in float64."""
_KNOWN = np.zeros(0), np.zeros(0)
"""In place of targets and costs, where alpha is to stay as it is."""


class L1Regularized(CertifiedPasses):
    """Solves L1-regularised problems, one or many.

    Parameters
    ----------
    folder : Path             where alpha is kept, and columns that memory does not hold
    capacity : int            entries of columns that there is memory for
    """

    permutes = False  # so that columns are collected in the order of rows

    def __init__(
        self, task: Models, manifest: Manifest, options: TrainOptions, folder: Path, capacity: int
    ) -> None:
        super().__init__(task, manifest, options)
        width, n, n_rows = len(task), manifest.n_features + 1, manifest.n_rows
        self._W, self._pulls = np.zeros((width, n)), np.zeros((width, n))
        self._decisions = np.zeros((width, n_rows))
        self._alpha = [
            RowArray(folder / f"alpha-{k}.work", manifest, np.float64) for k in range(width)
        ]
        self._labels, self._sizes = np.zeros(n_rows), np.zeros(n_rows)
        self._weights = np.zeros(n_rows) if manifest.weighted else None
        self._lengths = np.zeros(n_rows, np.int32)
        dtype = column_type(manifest, options)
        whole = capacity >= manifest.nnz
        together = most_together(width) if whole else TOGETHER
        self._most_features = descent_room(manifest, width, whole) // DESCENT_BYTES
        self._columns = ColumnCache(
            manifest, self.bias, dtype, capacity, folder, options.threads, together
        )
        goal = 0.0 if options.gap is None or options.tolerance is not None else options.gap
        ratio = options.l1_ratio
        penalty = Penalty(ratio, 1.0 - ratio, not options.regularize_bias)
        self._models: list[L1Iterate] = [
            L1Iterate(
                self._W[k], self._pulls[k], self._alpha[k].all, self._decisions[k],
                penalty, goal, options.seed,
            )
            for k in range(width)
        ]  # fmt: skip
        self._noted = False  # what is known of rows
        self._active = list(range(width))  # models whose weights the pass evaluates
        self._filed = False  # whether they were in a file

    def _rows(self, k: int) -> Rows:
        """Return what model k needs of all rows."""
        rows = rows_without_entries(self._labels, self._weights)
        target, cost = self.task.of_model(k, rows)
        return Rows(self.task.kind, target, cost, self._sizes, self._lengths)

    @property
    def state(self) -> dict[str, Any]:
        """What a checkpoint must know before it can fill `arrays`, as JSON."""
        own = {
            "noted": self._noted, "active": self._active,
            "filed": self._columns.filed, "rounded": self._columns.rounded,
            "models": [model.state for model in self._models],
        }  # fmt: skip
        shares = self._shares([[k] for k in range(len(self._models))])
        return self.task.facts | {"l1": own} | shares

    @state.setter
    def state(self, state: dict[str, Any]) -> None:
        own = state["l1"]
        self._noted, self._active = own["noted"], list(own["active"])
        if not set(self._active) <= set(range(len(self._models))):
            raise ValueError("the models of the state are not those of the run")
        for model, of in zip(self._models, own["models"], strict=True):
            model.state = of
        self._filed = own["filed"]
        if self._columns.rounded and not own["rounded"]:
            self._columns.keep_precision()

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that a checkpoint must keep, by name."""
        arrays: dict[str, NDArray[Any]] = {
            "pulls": self._pulls, "decisions": self._decisions,
            "counts": self._columns.counts, "slots": self._columns.slots,
            "row-labels": self._labels, "row-sizes": self._sizes, "row-lengths": self._lengths,
        }  # fmt: skip
        if self._weights is not None:
            arrays["row-weights"] = self._weights
        for k, (w, own) in enumerate(zip(self._W, self._alpha, strict=True)):
            arrays |= {f"w-{k}": w, f"alpha-{k}": own.all}
        return arrays

    @property
    def starts(self) -> list[Start]:
        """What a warm start is to fill."""
        return [
            Start(FeasibleSet(self.task.some([k])), own.table, w.reshape(-1, 1))
            for k, (own, w) in enumerate(zip(self._alpha, self._W, strict=True))
        ]

    def restore(self, pass_over: Callable[[], Iterable[Loaded]]) -> None:
        """Collect the columns that there were."""
        columns = self._columns
        features = np.flatnonzero(columns.slots >= 0)
        features = features[np.argsort(columns.slots[features])]
        columns.slots.fill(-1)
        if self._filed:
            columns.use_file()
        while not columns.complete(features).all():
            columns.want(features, features[:0])
            for loaded in pass_over():
                columns.collect(loaded.group.rows)
            columns.finish()

    def step(self, group: Group, outer: int, number: int, steps: int, cut_short: CutShort) -> None:
        """Work on columns before the first group; evaluate and collect in each."""
        if number == 0:
            if self._noted:
                self._prepare(cut_short)
            self._each(lambda k: self._pulls[k].fill(0.0), self._active)
        rows = group.rows
        if not self._noted:
            self._note(group, rows.positions)
        self._each(lambda k: self._add_rows(k, rows), self._active)
        if self._columns.collecting:
            self._columns.collect(rows)
        if number == steps - 1:
            self._conclude()

    def _add_rows(self, k: int, rows: RowView) -> None:
        """Add what rows contribute to what is known of model k."""
        found = self._W[k], self._alpha[k].all, self._decisions[k], self._pulls[k]
        target, cost = _KNOWN if self._noted else self.task.of_model(k, rows)
        kernels.evaluate_rows(
            rows.arrays, rows.positions, self.task.kind, target, cost, self.bias, *found
        )

    def _note(self, group: Group, positions: NDArray[np.int64]) -> None:
        """Remember of rows what is needed when their entries are not in memory."""
        self._labels[positions] = group.labels
        if self._weights is not None and group.weights is not None:
            self._weights[positions] = group.weights
        self._sizes[positions] = np.sqrt(group.sq_norm + self.bias**2) * (1.0 + 2.0**-50)
        self._lengths[positions] = np.diff(group.indptr)
        count(group.indices, self._columns.counts)

    def _prepare(self, cut_short: CutShort) -> None:
        """Work on columns in memory, and choose those to be collected."""
        self._active = np.flatnonzero(self._unsolved()).tolist()
        descending = [k for k in self._active if not self._solved_by_bias(k)]
        columns, counts = self._columns, self._columns.counts
        lists = self._each(lambda k: self._models[k].wanted(counts), descending)
        self._improve(dict(zip(descending, lists, strict=True)), cut_short)
        if any(self._models[k].starved for k in descending):
            columns.use_file()
        own = [self._models[k] for k in descending]
        ended = [model for model in own if model.final or model.misled]
        if ended and columns.rounded:  # by the rounding of columns, it may be
            columns.keep_precision()
            for model in ended:
                model.go_on()
        if any(not columns.complete(features).all() for features in lists):
            used = np.any([self._W[k] != 0.0 for k in descending], axis=0) & (counts > 0)
            columns.want(_in_turn(lists, len(counts)), np.flatnonzero(used))

    def _solved_by_bias(self, k: int) -> bool:
        """Let a free bias alone take all losses of model k away, if it can; say if so.

        It can where all rows that count are of one class, as a fold may leave them: P can be as
        small as one likes, and is 0 in float64 from some bias on.
        """
        if self._options.regularize_bias or self._W[k].any():
            return False
        rows = self._rows(k)
        signs = rows.target[rows.cost > 0.0]
        if not len(signs) or signs.min() < signs.max():
            return False
        self._W[k, -1], self._alpha[k].all[:] = signs[0] * _LOSSLESS / self.bias, 0.0
        self._models[k].new = True
        return True

    def _improve(self, features: Mapping[int, NDArray[np.int64]], cut_short: CutShort) -> None:
        """Work on features of models, as far as their columns are there."""
        most = self._most_features

        def improve(k: int) -> None:
            if not cut_short():
                there = features[k][self._columns.complete(features[k])]
                first = self._models[k].idle * most % len(there) if len(there) > most else 0
                there = there[first : first + most]
                self._models[k].improve(self._rows(k), self._columns, there, cut_short)

        self._columns.threads = max(self._options.threads // max(len(features), 1), 1)
        costs = self.task.asked
        models = sorted(features, key=lambda k: (-self._models[k].work, -costs[k]))
        longest = max(map(len, features.values()), default=0)
        at_once = max(most // max(longest, 1), 1)
        for first in range(0, len(models), at_once):
            self._each(improve, models[first : first + at_once])

    def _conclude(self) -> None:
        """Draw the consequences of a pass."""
        if not self._noted:
            self._W[:, self._columns.counts == 0] = 0.0  # of rows that were removed since
        if self._columns.collecting:
            self._columns.finish()
        self._each(lambda k: self._models[k].evaluated(self._rows(k)), self._active)
        for k, model in enumerate(self._models):
            model.new = model.new and k in self._active
        self._noted = True

    def _evaluate(self, weights: Floats, stream: Iterable[Loaded]) -> None:
        """Certify other weights, float64[n_features + 1, M], by a pass."""
        self._W[:] = weights.T
        self._pulls[:], self._active = 0.0, list(range(len(self._models)))
        for loaded in stream:
            rows = loaded.group.rows
            self._each(lambda k, rows=rows: self._add_rows(k, rows), self._active)
        self._each(lambda k: self._models[k].evaluated(self._rows(k)), self._active)

    def current(self) -> Floats:
        """Return the weights, float64[n_features + 1, M]."""
        return np.ascontiguousarray(self._W.T)

    def discard(self) -> None:
        """Delete the scratch files."""
        self._threads.shutdown()
        self._columns.close()
        for own in self._alpha:
            own.discard()


def _in_turn(lists: Sequence[NDArray[np.int64]], n: int) -> NDArray[np.int64]:
    """Return what any list of numbers below n has, once, the first of each list first."""
    if len(lists) == 1:
        return lists[0]
    place = np.full(n, n)
    for of in lists:
        place[of] = np.minimum(place[of], np.arange(len(of)))
    found = np.flatnonzero(place < n)
    return found[np.argsort(place[found], kind="stable")]
