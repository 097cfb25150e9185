"""Columns of the data kept in memory: the features that descent works on."""

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from blocklinear.errors import InputError
from blocklinear.kernels import l1 as kernels
from blocklinear.options import TrainOptions
from blocklinear.solvers.l1.scratch import ScratchArray
from blocklinear.solvers.protocol import each
from blocklinear.store.groups import RowView
from blocklinear.store.manifest import Manifest

Floats = NDArray[np.float64]

Integers = NDArray[np.int64]
_ENOUGH_ENTRIES = 1 << 17  # for a thread: fewer take less time than it does
_PRECISE = 1e-5  # gaps below it need columns in double precision
TOGETHER = 128
"""Features that are solved for together at first: their products cost about one pass."""
PRODUCT_BYTES = 32
"""What a product of two of them takes, while products are made and divided."""
PRODUCTS_BYTES = 8 << 20
"""What the products of all models may take if they are of more features, in memory that holds all
columns. Blogs in 256 MB take 9 outer iterations instead of 7 if columns leave so much to them."""

_COLUMN_BYTES = 32  # besides its entries, while it is collected
DESCENT_BYTES = 160
"""What a feature takes while a model descends on it: some twenty numbers."""
_DESCENT_LEAST = 8 << 20  # of the program's memory, so that few features are never too many


def descent_room(manifest: Manifest, width: int, whole: bool) -> int:
    """Return the bytes that descent may take on features, of so many models at a time.

    Two of the weight vectors of each model are for it. Memory that holds all columns, if `whole`,
    has room for descent of one model on all features, too.
    """
    least = _DESCENT_LEAST + 16 * (manifest.n_features + 1) * width
    return max(DESCENT_BYTES * (manifest.n_features + 1), least) if whole else least


def bytes_with_all(manifest: Manifest, width: int) -> int:
    """Return what memory needs that holds all columns, besides their entries."""
    more = descent_room(manifest, width, True) - descent_room(manifest, width, False)
    return PRODUCTS_BYTES + _COLUMN_BYTES * (manifest.n_features + 1) + more


def column_type(manifest: Manifest, options: TrainOptions) -> type:
    """Return the type of values in columns: single precision where the gap asked for allows it.

    Columns only choose steps: what has come of these is evaluated on rows.
    """
    precise = options.gap is None or options.tolerance is not None or options.gap < _PRECISE
    return np.float64 if precise and manifest.dtype == "float64" else np.float32


def most_together(width: int) -> int:
    """Return how many features may be solved for together, of each of so many models."""
    return max(math.isqrt(PRODUCTS_BYTES // (PRODUCT_BYTES * width)), TOGETHER)


class ColumnCache:
    """Columns of some features, collected in a pass over rows, and kept until others are wanted.

    Where memory does not hold the columns of the features in use, all are kept in a file, to which
    each pass appends what half of the memory holds. They are worked on part by part, as much as
    the other half holds.

    Rows come in their order, and so do the entries of a column: each says how many rows it is after
    the one before, in 2 bytes. The bias feature is a column like others.

    Parameters
    ----------
    bias : float              value of the bias feature, 0 for none
    dtype : type              of values
    capacity : int            entries that there is memory for, besides two columns of all rows. If
                              not for all there are, columns take some for what else they have
    folder : Path             of the file
    threads : int             that share the work on many columns at most
    together : int            features that descent may solve for together

    Attributes
    ----------
    counts : int32[n_features + 1]      entries of each feature, as far as they have been counted
    features : uint32[k]      of the columns, in their order
    starts : int64[k + 1]
    jumps : uint16[]          rows from one entry to the next
    values : float64[] or float32[]
    slots : int32[n_features + 1]       number of the column of a feature; -1 for none
    threads : int             that share the work of one model now
    """

    def __init__(
        self,
        manifest: Manifest,
        bias: float,
        dtype: type,
        capacity: int,
        folder: Path,
        threads: int,
        together: int = TOGETHER,
    ) -> None:
        self.together = together
        n = manifest.n_features
        self._bias, self._n_rows = bias, manifest.n_rows
        self.counts = np.zeros(n + 1, np.int32)
        self.slots = np.full(n + 1, -1, np.int32)
        self.features = np.zeros(0, np.uint32)
        self.starts = np.zeros(1, np.int64)
        self._whole = capacity >= manifest.nnz
        capacity += manifest.n_rows if bias > 0.0 else 0
        self.capacity, self._folder, self._dtype = capacity, folder, np.dtype(dtype)
        self._of_data = np.dtype(manifest.dtype)
        self._files: list[ScratchArray] = []
        self._base = 0  # of those being collected: the entry that `jumps` begins with
        self._make_room(capacity)
        self._pool, self.threads = ThreadPoolExecutor(threads, "columns"), threads
        self._first = 0  # of those that are being collected
        self._fill = self._reached = np.zeros(0, np.int64)
        if bias > 0.0:
            self.counts[n] = manifest.n_rows

    @property
    def collecting(self) -> bool:
        """Whether columns wait for their entries."""
        return self._first < len(self.features)

    def complete(self, features: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which features have a column with all its entries, bool[m]."""
        slots = self.slots[features]
        return np.asarray((slots >= 0) & (slots < self._first))

    @property
    def arrays(self) -> tuple[Integers, NDArray[np.uint16], NDArray[Any]]:
        """Starts, jumps and values, as kernels take them."""
        if self._files:
            jumps, values = self._files
            return self.starts, jumps.all, values.all
        return self.starts, self.jumps, self.values

    @property
    def filed(self) -> bool:
        """Whether columns are in a file."""
        return bool(self._files)

    @property
    def rounded(self) -> bool:
        """Whether values have less than their precision."""
        return self._dtype != self._of_data

    def keep_precision(self) -> None:
        """Drop all columns; those that follow have values in their precision, in as much memory."""
        room, before = self.capacity + 2 * self._n_rows, self._entry_bytes
        self._dtype = self._of_data
        self.capacity = max(room * before // self._entry_bytes - 2 * self._n_rows, 0)
        self._whole = False
        self._drop_all()
        if self.filed:
            self._close_files()
            self.use_file()
        else:
            self._make_room(0)  # two at a time do not fit
            self._make_room(self.capacity)

    def holds(self, chosen: Integers) -> NDArray[np.bool_]:
        """Return which chosen columns memory holds at once, the first ones first; bool[m]."""
        room = self._half if self.filed else int(self.starts[-1])
        return np.asarray(np.cumsum(self.entries(chosen)) <= room)

    def parts(self, chosen: Integers, order: Integers) -> Iterator[Integers]:
        """Yield an order of chosen columns in parts that memory holds, one after another.

        Parts come in the order of their first columns; within one, columns keep theirs.
        """
        if not self.filed:
            yield order
            return
        _, first, of = np.unique(
            self.starts[chosen[order]] // self._half, return_index=True, return_inverse=True
        )
        sorted_ = np.argsort(first[of], kind="stable")
        ends = np.flatnonzero(np.diff(first[of][sorted_])) + 1
        for part in np.split(order[sorted_], ends):
            yield part
            for file in self._files:
                file.release()

    @property
    def _half(self) -> int:
        """Entries that may be collected in a pass, or worked on at once: at least one column's."""
        return max(self.capacity // 2, self._n_rows + self._between + self._more)

    @property
    def _more(self) -> int:
        """What a column is taken to have besides its entries, in these."""
        return 0 if self._whole else -(-_COLUMN_BYTES // self._entry_bytes)

    @property
    def _between(self) -> int:
        """The most entries of 0 in a column, which are between others that are far apart."""
        return max(self._n_rows - 2, 0) // kernels.FARTHEST

    @property
    def _entry_bytes(self) -> int:
        return self.jumps.itemsize + self._dtype.itemsize

    def _make_room(self, size: int) -> None:
        self.jumps = np.zeros(size, np.uint16)
        self.values: NDArray[Any] = np.zeros(size, self._dtype)

    def entries(self, chosen: Integers) -> Integers:
        """Return how many entries chosen columns have; int64[m]."""
        return self.starts[chosen + 1] - self.starts[chosen]

    def derivatives(
        self, chosen: Integers, step: Floats, state: Floats, v: Floats, h: Floats
    ) -> None:
        """Do as the kernel of this name does; threads have about as many entries each."""

        def work(some: slice) -> None:
            kernels.derivatives(self.arrays, chosen[some], step, state, v[some], h[some])

        for some in self.parts(chosen, np.arange(len(chosen))):
            if not len(some):
                continue
            first, reached = int(some[0]), np.cumsum(self.entries(chosen[some]))
            n_entries = int(reached[-1])
            parts = self._parts(n_entries)
            ends = first + np.searchsorted(reached, np.arange(1, parts) * n_entries / parts)
            limits = [first, *ends.tolist(), int(some[-1]) + 1]
            each(self._pool, work, [slice(*pair) for pair in pairwise(limits)])

    def gram(self, chosen: Integers, state: Floats, known: Floats) -> Floats:
        """Return sum_i h_i x_ij x_ik of chosen columns, float64[m, m], computed in threads.

        Those of the first ones are `known`, float64[k, k].
        """
        out, first = np.empty((len(chosen), len(chosen))), len(known)
        out[:first, :first] = known
        parts = self._parts(int(self.entries(chosen).sum()))

        def work(k: int) -> None:
            kernels.gram(self.arrays, chosen, state, first + k, parts, out)

        each(self._pool, work, range(parts))
        upper = np.triu_indices(len(chosen), 1)
        out[upper] = out.T[upper]
        return out

    def _parts(self, n_entries: int) -> int:
        return max(min(self.threads, n_entries // _ENOUGH_ENTRIES), 1)

    def close(self) -> None:
        """End the threads, and give up the file."""
        self._pool.shutdown()
        self._close_files()

    def _close_files(self) -> None:
        for file in self._files:
            file.close()
        self._files = []

    def want(self, features: NDArray[np.int64], used: NDArray[np.int64]) -> None:
        """Make room for columns of features; as many as fit, the first ones first.

        If memory has no room next to the columns there, all are collected anew, as a pass over rows
        follows anyway. If it has none for those in use, a file is begun; none is dropped from it.
        Features are listed once each, in any order where there is room for all.
        """
        more = self._more
        if self._room(used, more).sum() > self.capacity:
            self.use_file()
        room = self._half if self.filed else self.capacity
        most = room // (1 + more) + 1  # others cannot fit
        missing = features[self.slots[features] < 0][:most]
        taken = self.starts[-1] + len(self.features) * more + self._room(missing, more).sum()
        if not self.filed and taken > self.capacity:
            self._drop_all()
            missing = features[:most]
        self._add(missing[np.cumsum(self._room(missing, more)) <= room])

    def _drop_all(self) -> None:
        self.slots[self.features] = -1
        self.features, self.starts, self._first = self.features[:0], self.starts[:1], 0

    def use_file(self) -> None:
        """Keep columns in a file from now on."""
        if self.filed:
            return
        size = int(self.starts[-1])
        jumps, values = self.jumps[:size], self.values[:size]
        self._make_room(0)
        types: dict[str, DTypeLike] = {"jumps": np.uint16, "values": self._dtype}
        self._files = [
            ScratchArray(self._folder / f"column-{name}.work", dtype)
            for name, dtype in types.items()
        ]
        for file, numbers in zip(self._files, (jumps, values), strict=True):
            file.append(numbers)

    def _room(self, features: NDArray[np.int64], more: int = 0) -> NDArray[np.int64]:
        """Return how many entries columns may have, with those of 0 that are between others.

        So many `more` are added to each.
        """
        return self.counts[features].astype(np.int64) + (self._between + more)

    def _add(self, features: NDArray[np.int64]) -> None:
        self._first = len(self.features)
        slots = np.arange(self._first, self._first + len(features), dtype=np.int32)
        self.slots[features] = slots
        self.features = np.concatenate([self.features, features.astype(np.uint32)])
        ends = self.starts[-1] + np.cumsum(self._room(features))
        first, last = int(self.starts[-1]), int(ends[-1] if len(ends) else self.starts[-1])
        if self.filed:
            self._base = first
            self._make_room(last - first)
        else:
            self.jumps[first:last], self.values[first:last] = 0, 0.0
        self.starts = np.concatenate([self.starts, ends])
        self._fill, self._reached = self.starts[:-1] - self._base, np.zeros_like(self.starts[1:])

    def collect(self, rows: RowView) -> None:
        """Copy what rows have of the columns that wait for their entries."""
        kernels.collect_columns(
            rows.arrays, rows.positions, self.slots, self._first, self._fill, self._reached,
            self.jumps, self.values,
        )  # fmt: skip

    def finish(self) -> None:
        """Take note that all rows were there: nothing waits then.

        InputError is raised if a value is too large for single precision.
        """
        first, slot = int(self.starts[self._first]) - self._base, int(self.slots[-1])
        if slot >= self._first:
            start = self.starts[slot] - self._base
            of_bias = slice(start, start + self._n_rows)
            with np.errstate(over="ignore"):  # as of other values: it is infinite then
                self.jumps[of_bias], self.values[of_bias] = 1, self._bias
            self.jumps[start] = 0
        new = self.values[first : int(self.starts[-1]) - self._base]
        if not np.isfinite([new.max(initial=0.0), new.min(initial=0.0)]).all():
            raise InputError(
                "values, or -B, are too large for the single precision that --gap allows",
                f"scale the data, or give a --gap below {_PRECISE:g}",
            )
        self._first = len(self.features)
        self._fill = self._reached = np.zeros(0, np.int64)
        if self.filed:
            for file, numbers in zip(self._files, (self.jumps, self.values), strict=True):
                file.append(numbers)
            self._make_room(0)
