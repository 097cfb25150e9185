"""Visits of weight vectors that are swept side by side: active rows are kept once for all."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from blocklinear.options import TrainOptions
from blocklinear.store.groups import Group
from blocklinear.store.manifest import Manifest
from blocklinear.store.prefetch import Loaded
from blocklinear.training.active import ActiveRows
from blocklinear.training.descent import Floats
from blocklinear.training.schedule import parts_of_sweeps
from blocklinear.training.swept import Swept

LEAST, MOST = 2, 16
"""Sweeps of the active rows in an outer iteration, where their number adapts; 8 or 32 at most take
a twentieth to a tenth more time (measured, five folds of six costs)."""
Each = Callable[[Callable[[Any], Any]], list[Any]]


class Together:
    """The active rows of several `Swept`: those that move any of their weight vectors.

    Parameters
    ----------
    manifest : Manifest
    options : TrainOptions
    active_entries : int
        As for `Descent`.

    Attributes
    ----------
    sweeps : int              of the active rows, between the visits of an outer iteration
    """

    def __init__(
        self, manifest: Manifest, options: TrainOptions, active_entries: int, sweeps: int = LEAST
    ) -> None:
        self._sweeping = options.selection == "active"
        self._kept = ActiveRows(manifest, active_entries if self._sweeping else 0)
        self.sweeps = sweeps

    def adapt(self, gains: Floats) -> None:
        """Sweep twice as often from now on if that gained more, for its work, than first touches.

        At first all rows move, and to sweep some of them once more is worth little; near the
        optimum it is worth ten times as much.

        Parameters
        ----------
        gains : float64[2, 2]
            Gain of the dual and entries worked on, at first touches and in sweeps.
        """
        (gain, entries), (gain_swept, entries_swept) = gains.tolist()
        if gain_swept * entries > gain * entries_swept:
            self.sweeps = min(2 * self.sweeps, MOST)

    def visit(
        self,
        each: Each,
        group: Group,
        outer: int,
        number: int,
        visits: int,
        halt: Callable[[], bool],
    ) -> None:
        """Work on one group, visit `number` (from 0) of `visits`, then sweep the active rows.

        Parameters
        ----------
        each : callable
            Calls a function with each `Swept`, and returns what it returned.

        Raises
        ------
        Abandoned
            If `halt` returned true between two parts of it.
        """
        resident = visits == 1
        found = each(lambda swept: (swept, *swept.work(group, outer, resident, halt)))
        moving = np.any([spans > 0 for _, spans, _ in found], axis=0)
        if self._sweeping and not resident:
            chosen = np.flatnonzero(moving)
            worth = np.sum([worth for _, _, worth in found], axis=0)
            moving[:] = False
            moving[self._kept.replace(group, chosen, worth[chosen])] = True
        for swept, spans, _ in found:
            swept.keep(group, np.where(moving, spans, np.uint16(0)))
        rows = self._kept.rows()
        if rows is not None:
            parts = parts_of_sweeps(self.sweeps, number, visits)
            each(lambda swept: [swept.sweep(rows, outer, *part) for part in parts])

    def restore(self, all_swept: Sequence[Swept], stream: Iterable[Loaded]) -> None:
        """Fetch the active rows, after the spans were filled from a checkpoint."""
        for loaded in stream:
            spans = [swept.spans(loaded.group) for swept in all_swept]
            chosen = np.flatnonzero(np.any(spans, axis=0))
            self._kept.replace(loaded.group, chosen, np.zeros(len(chosen)))
