"""The working set: rows kept in memory between block steps, and how often they are passed over.

Near the optimum few rows decide: most alpha are at a bound. Where loading is dear, those that are
free, strictly inside their bounds, pay for more passes than the rest (selective block minimization,
Chang and Roth, KDD 2011; dual cached loops, Matsushima et al., KDD 2012). To keep all whose alpha
has changed takes up to twice the work (60,000 blogs to 2e-4: 13.5 epochs and not 9.6).
"""

import numpy as np
from numpy.typing import NDArray

from blocklinear.kernels.blocks.routing import gather_rows
from blocklinear.store.groups import Group, RowView, first_positions, rows_of
from blocklinear.store.manifest import Manifest

Floats = NDArray[np.float64]
ROW_BYTES = 176
"""What a row of the working set takes but for its entries: its numbers here, and in a pass."""
FIRST_PASSES = 4
"""Passes over the working set in the first outer iteration."""
MOST_PASSES = 64
"""Where the data are badly scaled, passes may be all that pays: outer iterations come to an end."""
LOADED = 2.0
"""What an entry costs that must be read and decoded first, to one that is in memory.

Measured, epochs of work and block steps, where it counts twice and once: blogs to 1e-2 4.2 in 72
and 5.0 in 96, to 1e-3 8.2 in 90 and 8.0 in 108, to 2e-4 13.3 in 168 and 11.6 in 192; film reviews
to 1e-3 9.8 in 70 and 8.9 in 84."""


def next_passes(number: int, first: tuple[float, float], passes: tuple[float, float]) -> int:
    """Return how many passes over the working set the next outer iteration has.

    Twice as many as this one had, if they raised the dual value more for each entry worked on than
    the first steps on all rows did; else half as many, at least one. Early on most rows move, and
    a step on a row that was not seen for a while pays more; near the optimum few rows decide.

    Measured (hinge loss, C = 1, epochs of work in all): 60,000 blogs to a gap of 1e-2 take 5.4 and
    to 1e-3 10.0, where 16 passes each time take 13.1 and 24.2; 25,000 film reviews to 1e-3 7.1
    instead of 15.7.

    Parameters
    ----------
    number : int              passes in the outer iteration that ends
    first, passes : (float, float)      gain of the dual and what it cost, in entries, at the first
                              stats of rows and in passes
    """
    (gain, cost), (pass_gain, pass_cost) = first, passes
    if not pass_cost:
        return number
    if pass_gain * cost > gain * pass_cost:
        return min(2 * number, MOST_PASSES)
    return max(number // 2, 1)


class WorkingSet:
    """Rows copied out of the groups that pass.

    Every block has a region of its own, in proportion to its entries; what does not fit there is
    left out, the rows of the lowest priority first. So what is kept never depends on other blocks.

    Parameters
    ----------
    manifest : Manifest
    capacity : int
        Entries kept at most.
    """

    def __init__(self, manifest: Manifest, capacity: int) -> None:
        sizes = np.array([block.nnz for block in manifest.blocks], np.float64)
        ends = np.cumsum(np.floor(sizes * capacity / max(sizes.sum(), 1.0)))
        self._bounds = np.concatenate(([0], ends)).astype(np.int64)
        self._first = first_positions(manifest)
        self._indices = np.empty(capacity, np.uint32)
        self._values = np.empty(capacity, manifest.dtype)
        self._kept = [np.zeros((5 + manifest.weighted, 0))] * len(manifest.blocks)

    def replace(
        self, group: Group, chosen: NDArray[np.int64], priority: Floats
    ) -> NDArray[np.int64]:
        """Make the rows `chosen` of a group those kept of its blocks; return those that fit.

        Parameters
        ----------
        group : Group
        chosen : int64[k]     rows of the group, ascending
        priority : float64[k] which to prefer where there is no room for all, for their length
        """
        cuts, rows = np.searchsorted(chosen, group.starts), rows_of(group, self._first).some(chosen)
        kept = []
        for place, block in enumerate(group.blocks):
            part = np.arange(cuts[place], cuts[place + 1])
            begin, end = int(self._bounds[block]), int(self._bounds[block + 1])
            part = part[fitting(rows.lengths[part], priority[part], end - begin)]
            self._put(block, begin, rows.some(part))
            kept.append(chosen[part])
        return np.concatenate(kept)

    def _put(self, block: int, begin: int, rows: RowView) -> None:
        starts, stops = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
        gather_rows(
            rows.starts, rows.stops, rows.indices, rows.values, begin, self._indices,
            self._values, starts, stops,
        )  # fmt: skip
        numbers = [rows.positions, starts, stops, rows.sq_norm, rows.labels]
        if rows.weights is not None:
            numbers.append(rows.weights)
        self._kept[block] = np.stack([np.asarray(x, np.float64) for x in numbers])

    def rows(self) -> RowView | None:
        """Return all rows of the working set, None if there are none."""
        numbers = np.concatenate(self._kept, axis=1)
        if not numbers.shape[1]:
            return None
        positions, starts, stops = (line.astype(np.int64) for line in numbers[:3])
        weights = numbers[5] if len(numbers) > 5 else None
        return RowView(
            positions, starts, stops, numbers[3], numbers[4], self._indices, self._values, weights
        )


def fitting(lengths: NDArray[np.int64], priority: Floats, room: float) -> NDArray[np.int64]:
    """Return which rows fit into room for so many entries, by priority an entry; ascending."""
    if lengths.sum() <= room:
        return np.arange(len(lengths))
    best = np.argsort(-priority / np.maximum(lengths, 1), kind="stable")
    return np.sort(best[np.cumsum(lengths[best]) <= room])
