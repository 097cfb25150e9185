"""The numbers that features have in a store.

Files number features alphabetically or at random, so that almost every entry of w that a row needs
is a cache miss. A store numbers them by how often they occur in the first rows, most often first,
and then in the order in which they appear: then the entries that rows have in common lie together,
and gaps between numbers take fewer bytes. Nothing outside a store shows these numbers.
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from blocklinear.errors import MemoryBudgetError
from blocklinear.kernels.blocks import features
from blocklinear.memory import PROCESS_BYTES, enough, exact_size, format_size, spare_bytes
from blocklinear.options import TextOptions
from blocklinear.pages import Pages
from blocklinear.text import Decimals, Rows

Indices = NDArray[np.uint32]
COUNTED_ROWS = 3000
"""Rows whose features are counted: exact counts gained no more, on real text."""
MAP_SHARE = 0.2
"""Of what the program leaves of the budget: the table of numbers may take so much. Weight vectors
of features that are numbered densely take six times as much in training."""
LEAST_MAP_BYTES = 1 << 20
UNKNOWN = 0xFFFFFFFF
"""No number of a feature."""
_PAGE_BYTES = 4 * features.PAGE
_INDICES_AT_A_TIME = 1 << 18
_NONE = np.empty(0, np.uint32)


def map_bytes(memory_bytes: int) -> int:
    """Return what the table of numbers may take of a budget."""
    return max(LEAST_MAP_BYTES, int(MAP_SHARE * spare_bytes(memory_bytes)))


class NumberTable:
    """Which number a feature has, by its index as written.

    One thread gives numbers, and others may look them up meanwhile.

    TableFullError is raised if those that are known take more; MemoryBudgetError if the system does
    not give so many addresses.

    Parameters
    ----------
    indices : uint32[n]       of the features that have numbers, by these; used up
    stop : int                all indices are below
    capacity_bytes : int      what it may take
    """

    def __init__(self, indices: Indices, stop: int, capacity_bytes: int) -> None:
        self._most_pages = capacity_bytes // _PAGE_BYTES
        self._state = np.zeros(features.N_STATE, np.int64)
        try:  # one entry more, which stays 0
            self._table = Pages(4 * (stop + 1), sparse=True).array.view(np.uint32)
            self._written = Pages((stop >> features.PAGE_BITS) + 1, sparse=True).array
        except (OSError, ValueError) as error:
            raise MemoryBudgetError(
                f"the system gives no addresses for the numbers of {stop} features",
                "give fewer --max-features, or raise the limit of addresses (ulimit -v)",
            ) from error
        self.extend(indices)

    def __len__(self) -> int:
        return int(self._state[features.FEATURES])

    @property
    def stop(self) -> int:
        """All indices are below."""
        return len(self._table) - 1

    def extend(self, indices: Indices, chosen: Indices | None = None) -> None:
        """Replace indices by numbers, in place; features that have none get the next ones.

        TableFullError is raised if the table would take more than it may.

        Parameters
        ----------
        indices : uint32[n]
        chosen : uint32[k] or None          the positions to look at; None is all
        """
        some = indices if chosen is None else indices[chosen]
        done = features.number(some, self._table, self._written, self._most_pages, self._state)
        if done < len(some):
            raise TableFullError
        if chosen is not None:
            indices[chosen] = some

    def look_up(self, indices: Indices) -> Indices:
        """Replace indices by numbers, in place; return the positions of those that have none."""
        missing = np.empty(len(indices), np.uint32)
        n = features.look_up(indices, self._table, missing)
        return missing[:n].copy()

    def known(self, indices: Indices) -> Indices:
        """Return the numbers of any features, `UNKNOWN` for those that have none."""
        numbers = np.minimum(indices, np.uint32(min(self.stop, UNKNOWN)))
        numbers[self.look_up(numbers)] = UNKNOWN
        return numbers

    def put_in_order(self, order: NDArray[np.int64]) -> Indices:
        """Give features other numbers: `order`, int64[n], is those so far, in the new order.

        Nobody may look numbers up meanwhile. Return the new numbers, by those so far.
        """
        indices, new = self.indices(), np.empty(len(order), np.uint32)
        new[order] = np.arange(len(order), dtype=np.uint32)
        self._table[indices] = new + np.uint32(1)
        return new

    def indices(self, first: int = 0) -> Indices:
        """Return the indices of the features from number `first` on, uint32[n]."""
        found = np.empty(len(self) - first, np.uint32)
        features.numbered(self._table, self._written, first, found)
        return found


def table_of(indices: Indices | None) -> NumberTable | None:
    """Return the table of features whose indices are given by their numbers; None of None."""
    if indices is None:
        return None
    return NumberTable(indices, _stop(indices), _table_bytes(indices))


def _table_bytes(indices: Indices) -> int:
    """Return what the table of features of such indices takes."""
    pages = np.zeros((_stop(indices) >> features.PAGE_BITS) + 1, np.bool_)
    for start in range(0, len(indices), _INDICES_AT_A_TIME):
        piece = indices[start : start + _INDICES_AT_A_TIME]
        pages[piece >> np.uint32(features.PAGE_BITS)] = True
    return int(np.count_nonzero(pages)) * _PAGE_BYTES


def _stop(indices: Indices) -> int:
    return int(indices.max()) + 1 if len(indices) else 0


class TableFullError(Exception):
    """A table of numbers has no more pages."""


class Numbering:
    """Gives numbers to the features of rows, in the order of the rows.

    MemoryBudgetError is raised if the table of those that are known takes more than the budget
    leaves for it.

    Parameters
    ----------
    text : TextOptions        budget of the process; rows with indices that these options refuse are
                              not to be given
    known : uint32[n] or None           indices of the features that have a number, by these; used
                              up. None where a store begins: then the first rows are held back until
                              their features are counted
    most_held : int           entries that may be held back
    """

    def __init__(
        self, text: TextOptions, known: Indices | None = None, most_held: int = 1 << 20
    ) -> None:
        self._text, self._most_held = text, most_held
        self._held: list[Rows] | None = [] if known is None else None
        self._n_rows = self._nnz = 0
        self.n_known = 0 if known is None else len(known)
        indices, capacity = _NONE if known is None else known, map_bytes(text.memory_bytes)
        needed_bytes = _table_bytes(indices)
        if needed_bytes > capacity:
            raise self._too_large(self.n_known, needed_bytes)
        self._table = NumberTable(indices, max(text.index_stop, _stop(indices)), capacity)

    def __len__(self) -> int:
        return len(self._table)

    def look_up(self, rows: Rows) -> Rows:
        """Replace indices by numbers where features have one (in any thread)."""
        if not self.counted or rows.max_index >= self._table.stop:  # the reader refuses the latter
            return rows
        least = rows.min_index
        return replace(rows, missing=self._table.look_up(rows.indices), least_zero=least)

    def numbered(self, rows: Rows) -> Iterator[Rows]:
        """Yield rows with numbers for indices; the first ones only when enough were counted."""
        if self._held is None:
            self._number(rows)
            yield rows
            return
        stop = self._room(rows)
        if stop:
            self._hold(_cut(rows, 0, stop))
        if stop < rows.n_rows or self._n_rows == COUNTED_ROWS:
            yield from self.rest()
        if stop < rows.n_rows:
            rows = _cut(rows, stop, rows.n_rows) if stop else rows
            self._number(rows)
            yield rows

    def rest(self) -> Iterator[Rows]:
        """Yield the rows held back, if there are any."""
        held = self._held or []
        if held:
            counts = np.bincount(np.concatenate([rows.indices for rows in held]))
            new = self._table.put_in_order(np.argsort(-counts, kind="stable"))
            for rows in held:
                rows.indices[:] = new[rows.indices]
        self._held = None
        yield from held

    def new_indices(self) -> Indices:
        """Return the indices of the features that got numbers here, in the order of these."""
        return self._table.indices(self.n_known)

    def _room(self, rows: Rows) -> int:
        """Return how many of the rows are to be held back."""
        ends = rows.indptr[1 : COUNTED_ROWS - self._n_rows + 1] - rows.indptr[0]
        return int(np.searchsorted(ends, self._most_held - self._nnz, "right"))

    def _hold(self, rows: Rows) -> None:
        """Hold rows back, with numbers in the order of their appearance."""
        assert self._held is not None
        self._n_rows += rows.n_rows
        self._nnz += rows.nnz
        self._held.append(_copy(rows))
        self.extend(self._held[-1].indices)

    @property
    def counted(self) -> bool:
        """Whether the features of the first rows have been counted, and have numbers."""
        return self._held is None

    def _number(self, rows: Rows) -> None:
        self.extend(rows.indices, rows.missing)

    def extend(self, indices: Indices, chosen: Indices | None = None) -> None:
        """Replace indices by numbers, in place; features that have none get the next ones.

        Raises MemoryBudgetError.

        Parameters
        ----------
        indices : uint32[n]
        chosen : uint32[k] or None          the positions to look at; None is all
        """
        try:
            self._table.extend(indices, chosen)
        except TableFullError:
            capacity = map_bytes(self._text.memory_bytes)
            raise self._too_large(len(self), capacity, 2 * capacity) from None

    def _too_large(self, n_features: int, needed: int, wanted: int = 0) -> MemoryBudgetError:
        """Return what says that a table takes too much, and a budget that holds `wanted` of it.

        It also names the budget that holds whatever follows, which is the only one for hashes: they
        are in all parts of the table.
        """
        least = PROCESS_BYTES + max(needed, wanted) / MAP_SHARE
        said, fits_all = "all that" if wanted else "more than", _budget_of_all(self._text)
        all_held = "holds the numbers of all features that there may be"
        advice = f"{enough(fits_all)}, which {all_held}"
        if not self._text.hash_bits and fits_all > least:
            follow = "as rows that follow may have other features"
            advice = f"{enough(least)} or more, {follow}: {enough(fits_all)} {all_held}"
        return MemoryBudgetError(
            f"after {n_features} features the table of their numbers takes {format_size(needed)}, "
            f"{said} the budget of {exact_size(self._text.memory_bytes)} leaves for it next to the "
            f"program, which takes {format_size(PROCESS_BYTES)}, and the rows on their way",
            f"give --memory {advice}; or split with --hash-bits, or fewer of them",
        )


def _budget_of_all(text: TextOptions) -> int:
    """Return the least budget, in whole MiB, whose table holds all features that it allows."""

    def holds(mib: int) -> bool:
        larger = replace(text, memory_bytes=mib << 20)
        n_pages = -(-larger.index_stop // features.PAGE)
        return map_bytes(larger.memory_bytes) >= n_pages * _PAGE_BYTES

    return bisect_left(range(1 << 20), True, lo=1, key=holds) << 20


def _cut(rows: Rows, start: int, stop: int) -> Rows:
    """Return some of the rows; all of their indices are as written."""
    first, last = int(rows.indptr[start]), int(rows.indptr[stop])
    return replace(
        rows,
        indptr=rows.indptr[start : stop + 1] - first,
        indices=rows.indices[first:last],
        decimals=rows.decimals[first:last],
        label_decimals=rows.label_decimals[start:stop],
        weights=None if rows.weights is None else rows.weights[start:stop],
        missing=None,
    )


def _copy(rows: Rows) -> Rows:
    """Return rows in memory of their own."""
    values, labels = rows.decimals, rows.label_decimals
    return replace(
        rows,
        indptr=rows.indptr.copy(),
        indices=rows.indices.copy(),
        decimals=Decimals(values.mantissa.copy(), values.exponent.copy()),
        label_decimals=Decimals(labels.mantissa.copy(), labels.exponent.copy()),
        weights=None if rows.weights is None else rows.weights.copy(),
    )
