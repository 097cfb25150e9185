"""The working set: rows kept in memory between block steps, and how often they are passed over.

Near the optimum few rows decide: most alpha are at a bound. Where loading is dear, those that are
free, strictly inside their bounds, pay for more passes than the rest (selective block minimization,
Chang and Roth, KDD 2011; dual cached loops, Matsushima et al., KDD 2012). To keep all whose alpha
has changed takes up to twice the work (60,000 blogs to 2e-4: 13.5 epochs and not 9.6).

One model also keeps rows at a bound, if the free ones leave room: those that press against it by
less than the mean size of projected gradients, as w moves about as far until their next turn.
Measured, hinge loss to 1e-3, blocks read: 0.88 to 1 after warm starts, 0.97 to 1 in
cold runs (blogs, source code). Where all rows are in memory it takes up to 1.2 times the work.
"""

import math
import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest

import numpy as np
from numpy.typing import ArrayLike, NDArray

from blocklinear.kernels.blocks import packed_rows
from blocklinear.options import TrainOptions
from blocklinear.store.groups import Group, RowView
from blocklinear.store.manifest import Manifest

Floats = NDArray[np.float64]
Packed = tuple[NDArray[np.int64], int, int, Floats]
"""Rows of a working set: the first four arguments of `packed_rows.unpack_rows`."""
_WORD = 8
ROW_BYTES = _WORD * (packed_rows.TABLE_WORDS + packed_rows.HEADER_WORDS + 1)
"""What a row of the working set takes but for its entries, at most."""
ROWS_AT_ONCE, ENTRIES_AT_ONCE = 1 << 12, 1 << 15
"""Rows looked up, and entries unpacked, in one call: few enough for the caches of a thread."""
WARM_PASSES = 4
"""Passes over the rows in memory in the first outer iteration after a warm start, which is near the
optimum; twice as many over a working set, as loading is dear: with 8 instead of 4 hinge loss reads
0.79 to 1 of the blocks (blogs, film reviews, source code; a tenth of the rows new or gone, to a gap
of 1e-3). There are more where the run before ended with more, the geometric mean of both: 1.3
million file names, where that is 256 and 1,024, read 0.49 of the blocks of a cold run, not 0.70."""
MOST_PASSES, MOST_EPOCHS = 1024, 16
"""The most passes of an outer iteration, and the most epochs that they take, as it must end. Epochs
are of all rows. Where few rows decide, many passes are cheap, and may be all that pays: 700,000
file names, C = 100, to 1e-3 in memory take 55 seconds with 64 passes at most, and 21 so."""
SAMPLED_ROWS = 2048
"""How many rows a sample has, at least, if there are so many and they fit. Measured, of what 500,
1,000 and 2,000 rows say: 0.07 to 0.3, 0.05 to 0.25 and 0.03 to 0.13 of it (60,000 blogs, film
reviews, source code); more where it is small."""
_RESIDENT_SHARE, _RESIDENT_ROWS = 8, 1024
"""Where all rows are in memory, one in so many is sampled, but at least so many rows."""
PAUSE = 2
"""A sample of n rows is asked again when each model has had `PAUSE` n steps, in the mean."""
STANDARD_ERRORS = 2.0
"""A gap is taken to be too large if a part of a sample shows it by so many of these."""
_FIRST_PART = 16
"""The first part of a sample has one row in so many; out of core, no part has more."""


def next_passes(number: int, first: tuple[float, float], passes: tuple[float, float]) -> int:
    """Return how many passes over the working set the next outer iteration has.

    Twice as many as this one had, if they raised the dual value more for each entry worked on than
    the first steps on all rows did; else half as many, at least one. Early on most rows move, and
    a step on a row that was not seen for a while pays more; near the optimum few rows decide. So
    the first outer iteration has one.

    Measured, epochs of work in all: 60,000 blogs in 224 MB take 6.6 to a gap of 1e-3, with 16
    passes in each outer iteration 18.1. Of 34 runs on text, with C, loss, gap, memory and seed
    varied, one pass at first takes 0.91 of the work of 4 (geometric mean; 0.8 to 1.14).

    Parameters
    ----------
    number : int              passes in the outer iteration that ends
    first, passes : (float, float)      gain of the dual and what it cost, in entries, in the
                              first steps on rows and in passes
    """
    (gain, cost), (pass_gain, pass_cost) = first, passes
    if not pass_cost:
        return number
    if pass_gain * cost > gain * pass_cost:
        most = int(min(MOST_PASSES, MOST_EPOCHS * cost * number / pass_cost))
        return max(min(2 * number, most), 1)
    return max(number // 2, 1)


def has_passes(options: TrainOptions) -> bool:
    """Return whether there are passes over a working set."""
    return options.selection == "active" and options.method == "dual" and not options.average


class WorkingSet:
    """Rows copied out of the groups that pass, packed without loss.

    Every block has a region of its own, at first in proportion to its entries; what does not fit
    there is left out, the rows of the lowest priority first. Where blocks differ, as those of a
    sorted file do, some regions overflow while others are half empty: between outer iterations
    these are divided anew. Measured, hinge loss in 96 MB: 1.4 million sorted file names read 0.84
    to 0.91 of the bytes, film reviews 1 to 1.06; where all lack room nothing changes.

    Parameters
    ----------
    capacity : int            entries for which there is memory as they are loaded; packed, up to
                              twice as many fit
    lent : int                numbers for which `lend` must have memory
    """

    def __init__(self, manifest: Manifest, capacity: int, lent: int = 0) -> None:
        share = capacity / max(manifest.nnz, 1)
        sizes = [working_set_bytes(manifest, of.rows, of.nnz) for of in manifest.blocks]
        self._shares = np.array(sizes) / max(sum(sizes), 1)
        self._bounds = _bounds(np.array(sizes) * (share / _WORD))
        # of each region: rows; as of the last turn of its block, words in use, and words for all
        # rows strictly inside their bounds
        self._counts, self._used, self._wanted = np.zeros((3, len(sizes)), np.int64)
        self._manifest = manifest
        self._words = np.empty(max(self._bounds[-1], lent))  # pages only where there are rows
        self._integers = self._words.view(np.int64)
        self._planes = sum(manifest.n_features > 1 << bits for bits in (16, 24))
        self._longest = 0  # entries of a row

    def __len__(self) -> int:
        return int(self._counts.sum())

    @property
    def state(self) -> list[list[int]]:
        """The words of each region, those in use, and those wanted, as JSON."""
        found = np.transpose([np.diff(self._bounds), self._used, self._wanted])
        return [list(map(int, of)) for of in found]

    @state.setter
    def state(self, state: list[list[int]]) -> None:
        sizes, used, wanted = zip(*state, strict=True)
        fit = len(state) == len(self._shares) and all(map(operator.le, used, sizes))
        if not fit or max(sum(sizes), *wanted) > len(self._words):
            raise ValueError("the regions are those of another working set")
        self._bounds = _bounds(sizes)
        self._used[:], self._wanted[:] = used, wanted

    def replace(
        self, group: Group, chosen: NDArray[np.int64], priority: Floats
    ) -> NDArray[np.bool_]:
        """Replace the rows of a group's blocks by chosen ones; return which fit, bool[n_rows].

        Parameters
        ----------
        chosen : int64[k]     rows of the group, ascending
        priority : float64[k] which to prefer where there is no room for all, for their length;
                              negative for rows at a bound
        """
        rows, packed = group.rows, np.zeros(group.n_rows, np.bool_)
        lengths = rows.lengths
        self._longest = max(self._longest, int(lengths.max(initial=0)))
        mantissas = np.empty(self._longest, np.int32)
        cuts = np.searchsorted(chosen, group.starts)
        weights = np.empty(0) if rows.weights is None else rows.weights
        for block, start, stop in zip(group.blocks, cuts[:-1], cuts[1:], strict=True):
            own, (begin, end) = chosen[start:stop], self._bounds[block : block + 2].tolist()
            density = priority[start:stop] / np.maximum(lengths[own], 1)
            own, n_free = own[np.argsort(-density, kind="stable")], int((density >= 0.0).sum())
            n = packed_rows.pack_rows(
                rows.arrays, rows.positions, rows.labels, weights, own, begin, end, mantissas,
                self._planes, self._words, packed,
            )  # fmt: skip
            table = self._table(begin, n)
            used = table.size + _words_of_rows(table, end)
            unpacked, free = (
                working_set_bytes(self._manifest, k, int(lengths[own[:k]].sum()))
                for k in (n, n_free)
            )
            wanted = used * free // unpacked if n else free // _WORD  # as compressible as these
            self._counts[block], self._used[block] = n, used
            self._wanted[block] = min(wanted, len(self._words))
            table[:] = table[np.argsort(table[:, 0])]  # by position
        return packed

    def _table(self, begin: int, n: int) -> NDArray[np.int64]:
        """Return the table of a region that begins at a word and has so many rows."""
        table = self._integers[begin : begin + packed_rows.TABLE_WORDS * n]
        return table.reshape(-1, packed_rows.TABLE_WORDS)

    def lend(self, n: int) -> tuple[Floats, int]:
        """Return n zeros in the memory, float64[n], and how many rows of the store were there.

        These are the first rows of the store, and are dropped from the working set.
        """
        lost = int(np.searchsorted(self._bounds[:-1], n))
        self._counts[:lost] = 0
        self._words[:n] = 0.0
        return self._words[:n], int(self._manifest.first_positions[lost])

    def divide_anew(self) -> None:
        """Enlarge the regions that had no room for all rows strictly inside their bounds.

        They get what other regions do not use, and no row has to go. If all lack room, nothing
        changes. What is left over is divided as at first.
        """
        lack = self._wanted > np.diff(self._bounds)
        if lack.all() or not lack.any():
            return
        more = np.maximum(self._wanted - self._used, 0)
        unused = len(self._words) - self._used.sum()
        sizes = self._used + more * min(unused / more.sum(), 1.0)
        sizes += max(unused - more.sum(), 0) * self._shares
        blocks = range(len(more))
        self._move(_bounds(self._used), blocks)
        self._move(_bounds(sizes), reversed(blocks))

    def _move(self, bounds: NDArray[np.int64], blocks: Iterable[int]) -> None:
        """Move regions, one after the other: first all to the front, or then all to the back."""
        for block in blocks:
            begin, end = self._bounds[block : block + 2].tolist()
            to, to_end = bounds[block : block + 2].tolist()
            table = self._table(begin, int(self._counts[block]))
            n = _words_of_rows(table, end)
            table[:, 1] += to_end - end
            moves = [(to, begin, table.size), (to_end - n, end - n, n)]
            for target, source, size in moves if to <= begin else reversed(moves):
                self._words[target : target + size] = self._words[source : source + size]
        self._bounds[:] = bounds

    def in_part(
        self, key: NDArray[np.uint64], ranges: NDArray[np.uint16], first: float, last: float
    ) -> NDArray[np.int64]:
        """Return the rows that have their turn in a part of a pass, as `rows` takes them.

        Over all parts, from 0 to 1, each row has it once, whatever other rows come and go: that
        follows from the key of the pass. Of `ranges`, of all rows, those that have 0 are left out.
        """
        places = np.empty(len(self), np.int64)
        n = packed_rows.rows_in_part(
            key, self._bounds, self._counts, self._integers, ranges, first, last, places
        )
        return places[:n]

    def outside(self, ranges: NDArray[np.uint16]) -> NDArray[np.int64]:
        """Return the rows that have 0 of uint16[n_rows], as `rows` takes them."""
        before = np.cumsum(self._counts) - self._counts
        first = self._bounds[:-1] - packed_rows.TABLE_WORDS * before
        numbers = np.arange(len(self))
        places = np.repeat(first, self._counts) + packed_rows.TABLE_WORDS * numbers
        return np.asarray(places[ranges[self._integers[places]] == 0])

    def above(self, which: NDArray[np.int64], limits: Floats) -> NDArray[np.bool_]:
        """Return of which rows x_i' x_i is above the limit of their block, float64[n_blocks]."""
        positions, headers = self._integers[which], self._integers[which + 1]
        blocks = np.searchsorted(self._manifest.first_positions, positions, "right") - 1
        return np.asarray(self._words[headers] > limits[blocks])

    def rows(self, which: NDArray[np.int64]) -> Iterator[tuple[RowView, Packed]]:
        """Yield rows in the order given, some at a time, to be `unpacked`."""
        words, integers = self._words, self._integers
        room = max(self._longest, ENTRIES_AT_ONCE)
        indices, values = np.empty(room, np.uint32), np.empty(room, self._manifest.dtype)
        for start in range(0, len(which), ROWS_AT_ONCE):
            some = which[start : start + ROWS_AT_ONCE]
            first = integers[some + 1]
            sq_norm, labels, weights = words[first + np.arange(packed_rows.HEADER_WORDS)[:, None]]
            starts, stops = np.empty((2, len(some)), np.int64)
            rows = RowView(
                integers[some], starts, stops, sq_norm, labels, indices, values,
                weights if self._manifest.weighted else None,
            )  # fmt: skip
            yield rows, (some, ENTRIES_AT_ONCE, self._planes, words)


def unpacked(rows: RowView, packed: Packed) -> Iterator[NDArray[np.int64]]:
    """Unpack rows of a working set, some at a time; yield which rows these are, int64[].

    Their entries are there until the next ones, in memory that is used again.
    """
    (which, *memory), done = packed, 0
    while done < len(which):
        n = packed_rows.unpack_rows(
            which[done:], *memory, rows.starts[done:], rows.stops[done:], rows.indices, rows.values
        )
        yield np.arange(done, done + n)
        done += n


@dataclass(frozen=True)
class Stratum:
    """Some rows, drawn at random of others.

    Attributes
    ----------
    n, drawn : int
        Of how many rows; and how many.
    parts : iterable of (RowView, float64[k, width] or None)
        The rows drawn, in random order, and their alpha: None for what was stored of them last. The
        entries of a part are there until the next one.
    """

    n: int
    drawn: int
    parts: Iterable[tuple[RowView, Floats | None]]


def alternately(strata: Sequence[Stratum]) -> Iterator[tuple[int, RowView, Floats | None]]:
    """Yield the parts of strata in turn, and of which they are."""
    for parts in zip_longest(*(of.parts for of in strata)):
        for k, part in enumerate(parts):
            if part is not None:
                yield k, *part


def total(
    of: Sequence[int], parts: Iterable[tuple[int, int, Floats]], enough: Floats | float
) -> Floats | None:
    """Estimate what all rows of some strata add, float64[k, m], from those that were drawn.

    Return None as soon as it is surely more than enough, for all k and one of the m: how much parts
    differ tells how far off the estimate may be.

    Parameters
    ----------
    of : list of int          rows that each stratum stands for
    parts : iterable of (int, int, float64[k, m])
        Of which stratum some rows are, how many, and what they add.
    enough : float64[m]
    """
    heard: list[tuple[list[int], list[Floats]]] = [([], []) for _ in of]
    estimates: dict[int, tuple[Floats, Floats]] = {}
    for k, n, sums in parts:
        sizes, added = heard[k]
        sizes.append(n)
        added.append(sums)
        estimates[k] = _estimate(of[k], np.array(sizes, float), np.array(added))
        if len(estimates) < len(of):
            continue
        found, variance = (np.sum(each, axis=0) for each in zip(*estimates.values(), strict=True))
        if ((found - STANDARD_ERRORS * np.sqrt(variance)).min(axis=0) > enough).any():
            return None
    return np.asarray(found)


def _estimate(n: int, sizes: Floats, sums: Floats) -> tuple[Floats, Floats]:
    """Estimate what n rows add from parts of them, by sizes and sums; and its variance."""
    drawn, mean = sizes.sum(), sums.sum(axis=0) / sizes.sum()
    if drawn == n:
        return n * mean, np.zeros(mean.shape)
    if len(sizes) == 1:
        return n * mean, np.full(mean.shape, np.inf)
    sizes = sizes.reshape(-1, 1, 1)
    variance = ((sums - sizes * mean) ** 2 / sizes).sum(axis=0) / (len(sizes) - 1)
    return n * mean, variance * n * (n - drawn) / drawn


def sample_entries(manifest: Manifest, room: int, options: TrainOptions) -> int:
    """Return for how many entries, as they are loaded, a sample has memory.

    Packed they take half, or more where values are no decimals: some do not fit then. With passes
    over a working set it has a sixteenth of the room for rows in memory, or as much as its least
    number of rows needs, but no more than an eighth.

    Parameters
    ----------
    room : int                for so many entries there is memory in all
    """
    needed = manifest.nnz
    if manifest.n_rows > SAMPLED_ROWS:
        needed = SAMPLED_ROWS * needed // (2 * manifest.n_rows)
    return min(max(needed, room // 16), room // 8) if has_passes(options) else min(needed, room)


class Sample:
    """A sample of all rows that stays in memory, to estimate at any time what all add to P - D.

    Rows that had their turn last add the least, those that wait for it the longest add most, and
    how much they differ depends on the data and on how far w has moved. So the sample has rows of
    all blocks, and a row that is drawn stays. Which are drawn follows from their positions; rows
    that do not fit are left out at random, too, as blocks may be sorted. The working set, which is
    in memory anyway, is sampled apart: where most rows add nothing, its few may add most. So may
    large rows, see `large_from`, which are all drawn, and sampled apart, too.

    Parameters
    ----------
    capacity : int            entries for which there is memory, as for `WorkingSet`

    Attributes
    ----------
    size : int                rows that are drawn; of the working set so many to twice as many
    """

    def __init__(self, manifest: Manifest, capacity: int) -> None:
        self._rows, self._n_rows = WorkingSet(manifest, capacity), manifest.n_rows
        fit = 2 * capacity * manifest.n_rows // max(manifest.nnz, 1)
        self.size = max(fit, min(SAMPLED_ROWS, manifest.n_rows))
        self._taken = np.zeros(len(manifest.blocks), np.bool_)
        # of each block: from which x_i' x_i on all rows are drawn, and how many these are
        self._large_from = np.full(len(manifest.blocks), np.inf)
        self._n_large = np.zeros(len(manifest.blocks), np.int64)
        self._all: RowView | None = None

    def take(self, group: Group, wanted: NDArray[np.bool_]) -> None:
        """Copy rows of those blocks of a group that are wanted, bool[n_blocks], and are not there.

        Of a group of all rows, which stays in memory, nothing is copied.
        """
        self._all = group.rows if group.n_rows == self._n_rows else None
        if self._all is None and not self._taken[list(group.blocks)].all():
            drawn, large = _draws(group.rows.positions), np.zeros(group.n_rows, np.bool_)
            every = self._n_rows / self.size
            for block, ends in zip(group.blocks, pairwise(group.starts.tolist()), strict=True):
                rows = slice(*ends)
                if wanted[block]:  # of others no row counts, in the working set either
                    self._large_from[block] = large_from(group.sq_norm[rows], every)
                large[rows] = group.sq_norm[rows] > self._large_from[block]
                self._n_large[block] = large[rows].sum()
            self._taken[list(group.blocks)] = wanted[list(group.blocks)]
            own = large | (drawn * self._n_rows < self.size)
            own &= np.repeat(wanted[list(group.blocks)], np.diff(group.starts))
            chosen = np.flatnonzero(own)
            density = 1.0 - drawn[chosen] + large[chosen]
            self._rows.replace(group, chosen, density * group.rows.lengths[chosen])

    def strata(self, working_set: WorkingSet, ranges: NDArray[np.uint16], n: int) -> list[Stratum]:
        """Return rows that are in the working set, and rows that are not, of n in all.

        `ranges`, of all rows, have 0 for those that are not.
        """
        if self._all is not None:
            return one_in_few(self._all)
        if not len(self._rows):
            return []
        within = working_set.in_part(np.zeros(1, np.uint64), ranges, 0.0, 1.0)
        others, n_large, found = self._rows.outside(ranges), int(self._n_large.sum()), []
        for of, which, n_all in (
            (working_set, within, len(within)), (self._rows, others, n - len(within)),
        ):  # fmt: skip
            large = np.zeros(len(which), np.bool_)
            if n_large:
                large = of.above(which, self._large_from)
            n_own = int(large.sum() if of is working_set else n_large * large.any())
            n_large -= n_own
            for own, n_rows in ((which[large], n_own), (which[~large], n_all - n_own)):
                drawn = own[:: max(len(own) // self.size, 1)]
                mixed = drawn[np.concatenate(_halves(len(drawn)))]  # of blocks
                parts = _parts_of(of.rows(mixed), -(-len(drawn) // _FIRST_PART))
                if len(drawn):
                    found.append(Stratum(n_rows, len(drawn), parts))
        return found


def _draws(positions: NDArray[np.int64]) -> Floats:
    """Return numbers from 0 to below 1, float64[n], which follow from the positions of rows alone.

    They are mixed as by half of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
    """
    x = positions.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ x >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    return np.asarray((x >> np.uint64(11)) * 2.0**-53)


def n_sampled(n: int) -> int:
    """Return how many rows are sampled where all n are in memory, if there are so many."""
    return max(n // _RESIDENT_SHARE, _RESIDENT_ROWS)


def large_from(sq_norm: Floats, every: float) -> float:
    """Return from which x_i' x_i on all rows are drawn, of rows of which one in `every` is.

    Drawn with chances in proportion to |x_i|, rows larger than `every` times the mean would be for
    sure. They may add nearly all to P - D: of counts of words in 25,000 files, ten rows 75 to 99.9
    percent, and samples without them said a hundredth of it.
    """
    mean = np.sqrt(sq_norm).sum() / max(len(sq_norm), 1)
    return float((every * mean) ** 2) if every > 1.0 else math.inf


def one_in_few(rows: RowView, alpha: Floats | None = None) -> list[Stratum]:
    """Return a sample of rows that are all in memory.

    Large ones are all in it, see `large_from`.
    """
    every = max(len(rows) // n_sampled(len(rows)), 1)
    large, strata = rows.sq_norm > large_from(rows.sq_norm, every), []
    for of, step in ((np.flatnonzero(large), 1), (np.flatnonzero(~large), every)):
        drawn = of[::step]
        parts = [
            (rows.some(drawn[k]), None if alpha is None else alpha[drawn[k]])
            for k in _halves(len(drawn)) if len(k)
        ]  # fmt: skip
        if parts:
            strata.append(Stratum(len(of), len(drawn), parts))
    return strata


def _halves(n: int) -> list[NDArray[np.int64]]:
    """Divide the numbers below n: every sixteenth, then as many in between, then twice as many.

    What is given up after some of them has taken at most twice what it had to, in few calls.
    """
    parts = [np.arange(0, n, _FIRST_PART)]
    every = _FIRST_PART
    while every > 1:
        parts.append(np.arange(every // 2, n, every))
        every //= 2
    return parts


def _parts_of(some: Iterable[tuple[RowView, Packed]], most: int) -> Iterator[tuple[RowView, None]]:
    """Yield rows as `WorkingSet.rows` does, at most so many at a time, with their entries."""
    for rows, packed in some:
        for run in unpacked(rows, packed):
            for part in np.array_split(run, -(-len(run) // most)):
                yield rows.some(part), None


def _words_of_rows(table: NDArray[np.int64], end: int) -> int:
    """Return how many words rows take at the end of a region, without their table."""
    return end - int(table[:, 1].min(initial=end))


def _bounds(sizes: ArrayLike) -> NDArray[np.int64]:
    """Return where regions of so many words begin, and where the last one ends."""
    return np.concatenate(([0], np.cumsum(np.floor(sizes)))).astype(np.int64)


def working_set_bytes(manifest: Manifest, rows: int, nnz: int) -> int:
    """Return what rows of a store take as a working set, packed, at most."""
    return entry_bytes(manifest) * nnz + ROW_BYTES * rows


def entry_bytes(manifest: Manifest) -> int:
    """Return what an entry takes as it is loaded: its column and its value."""
    return 4 + np.dtype(manifest.dtype).itemsize
