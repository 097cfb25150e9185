"""Rows of batches, as the tokenizer leaves those of text: made in parallel, delivered in order."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from blocklinear.batches.labels import LabelCoder
from blocklinear.batches.tables import Entries, Table, as_table
from blocklinear.errors import InputError, UsageError
from blocklinear.kernels.text import decimals as kernels
from blocklinear.kernels.text import reshape
from blocklinear.memory import PROCESS_BYTES, enough, format_size
from blocklinear.numerals import TOO_LARGE, counted, format_number
from blocklinear.options import TextOptions
from blocklinear.text import Rows, norms
from blocklinear.text.faults import Faults, refuse_many_hashes, too_many_features
from blocklinear.text.provenance import InputCounts
from blocklinear.text.reshape import SORT_BYTES, Merged
from blocklinear.text.rows import ParseBuffers, hashed, in_order, rows_bytes

MOST_PIECE_BYTES = 16 << 20
LEAST_PIECE_BYTES = 256 << 10


@dataclass(frozen=True)
class _Batch:
    """A batch, checked as far as that goes before its values are looked at."""

    number: int
    table: Table
    labels: NDArray[np.float64]
    weights: NDArray[np.float64] | None

    @property
    def place(self) -> str:
        """Which it is, for people."""
        return self.table.place or f"batch {self.number}"

    def refuse(self, problem: str, fix: str) -> NoReturn:
        """Raise the error for something in this batch."""
        raise InputError(f"{self.place}: {problem}", fix)


_Pending = deque[tuple[ParseBuffers, Future[Rows]]]
"""Pieces that are being converted, and where their rows are put."""


class BatchReader:
    """Turns batches into `Rows`, which are used up when the next are asked for.

    Column j of a batch is the feature ``j + index_base`` of text, or ``j + 1`` if features are
    hashed. Whatever text would be refused for is refused here. Of `options` those count that are
    about rows, and not about files.

    Parameters
    ----------
    dtype : {"float64", "float32"}      what values will be rounded to: a row whose squares add up
                              to more than that holds is refused
    coder : LabelCoder        knows the labels of earlier batches
    look_up : callable or None          as for `RowReader`
    pool : ThreadPoolExecutor or None   threads that convert; its own ones if None

    Attributes
    ----------
    n_batches : int           taken so far
    names : tuple of str or None        of the columns, if the first batch has any
    n_columns : int           of the widest batch
    """

    def __init__(
        self,
        options: TextOptions,
        dtype: str,
        coder: LabelCoder,
        look_up: Callable[[Rows], Rows] | None = None,
        pool: ThreadPoolExecutor | None = None,
    ) -> None:
        if options.on_error != "fail":
            raise UsageError(
                "on_error is 'skip', which is for text: a batch with a row that is refused is "
                "refused", "leave out rows that are not to be read",
            )  # fmt: skip
        refuse_many_hashes(options)
        self._options, self._dtype, self._coder, self._look_up = options, dtype, coder, look_up
        self._owns_pool = pool is None
        self._pool = pool or ThreadPoolExecutor(options.threads, "convert")
        self._free_buffers: deque[ParseBuffers] = deque()
        piece_bytes = options.reading_bytes // (4 * (options.threads + 2))
        self._piece_bytes = min(max(piece_bytes, LEAST_PIECE_BYTES), MOST_PIECE_BYTES)
        self._counts = InputCounts()
        self._kinds: dict[str, int] = {}
        self.n_batches = self.n_columns = 0
        self.names: tuple[str, ...] | None = None
        self._width: int | None = None

    def close(self) -> None:
        """Wait for its own threads to end."""
        if self._owns_pool:
            self._pool.shutdown(cancel_futures=True)

    @property
    def index_base(self) -> int:
        """Number of the first feature."""
        return 1 if self._options.seeks_base else self._options.smallest_index

    @property
    def _column_base(self) -> int:
        """Number that column 0 has in text; a store of hashes does not know it, so that is 1."""
        return 1 if self._options.hash_bits else self.index_base

    @property
    def provenance(self) -> dict[str, Any]:
        """What a manifest says of all batches, as if they were one input."""
        kinds = ", ".join(f"{n} x {kind}" for kind, n in self._kinds.items())
        return self._counts.record(
            {"path": f"Python ({kinds})", "size": 0, "mtime_ns": None, "sha256": None, "xxh64": ""}
        ) | {"lines": 0}

    def take(self, X: Any, y: Any, weights: Any) -> Iterator[Rows]:
        """Yield the rows of a batch; see `take_all`."""
        return self.take_all([(X, y, weights)])

    def take_all(self, batches: Iterable[tuple[Any, Any, Any]]) -> Iterator[Rows]:
        """Yield the rows of batches; the next ones are converted meanwhile.

        InputError is raised if a batch, or a row of it, is refused: of several the first;
        TooManyFeatures if one has more columns than there may be features.

        Parameters
        ----------
        batches : iterable of (X, y, weights)         `X` as for `as_table`; `y` array_like, shape
                                  (n_rows,); `weights` array_like of float, shape (n_rows,), or None
        """
        pending: _Pending = deque()
        batches = iter(batches)
        try:
            while True:
                try:
                    batch = self._batch(next(batches))
                except StopIteration:
                    break
                except Exception:
                    yield from self._finished(pending, 0)  # what is wrong there comes first
                    raise
                yield from self._converted(batch, pending)
            yield from self._finished(pending, 0)
        finally:
            for _, job in pending:
                job.cancel()

    def _batch(self, given: tuple[Any, Any, Any]) -> _Batch:
        """Check a batch as a whole."""
        X, y, weights = given
        self.n_batches += 1
        number = self.n_batches
        try:
            table = as_table(X)
            batch = _Batch(
                number, table, self._coder.codes(y, table.n_rows), _weights_of(weights, table)
            )
        except InputError as error:
            raise InputError(f"batch {number}: {error.what}", error.fix) from error
        self._check_columns(batch)
        self._kinds[table.kind] = self._kinds.get(table.kind, 0) + 1
        return batch

    def _check_columns(self, batch: _Batch) -> None:
        """Refuse columns that are too many, or others than those of the batches before."""
        table, options = batch.table, self._options
        stop = table.n_columns + self._column_base
        most = None if options.hash_bits else options.max_features
        if most is not None and table.n_columns > most:
            place = f"{batch.place}: its columns"
            raise too_many_features(place, -1, table.n_columns, options)
        if stop > 1 << 32:
            batch.refuse(f"{table.n_columns} columns are 2**32 or more", "renumber the features")
        if self.names is None and not self._kinds:
            self.names = table.names
        if table.names is not None and self.names is not None and table.names != self.names:
            batch.refuse(*_differences(self.names, table.names))
        fixed = table.names is not None or self.names is not None or not table.any_width
        if fixed and self._width not in (None, table.n_columns):
            batch.refuse(
                f"it has {counted(table.n_columns, 'column')}, and those before have {self._width}",
                "give all batches the same columns",
            )
        if fixed:
            self._width = table.n_columns
        self.n_columns = max(self.n_columns, table.n_columns)

    def _converted(self, batch: _Batch, pending: _Pending) -> Iterator[Rows]:
        """Cut a batch into pieces, which are converted several at a time; yield those before."""
        table, start = batch.table, 0
        most_rows, most_entries = self._piece_bytes // 34, self._piece_bytes // 26
        while start < table.n_rows:
            stop = table.stop_of(start, most_rows, most_entries)
            rest = table.n_rows - start
            stop = start + -(-rest // -(-rest // (stop - start)))  # pieces of about equal size
            if table.n_entries(start, stop) > most_entries:  # one row
                yield from self._finished(pending, 0)
                yield self._counted(self._long_row(batch, start))
            else:
                yield from self._finished(pending, self._options.threads)
                buffers = self._free_buffers.popleft() if self._free_buffers else ParseBuffers()
                job = self._pool.submit(self._convert, batch, start, stop, buffers)
                pending.append((buffers, job))
            start = stop

    def _finished(self, pending: _Pending, leave: int) -> Iterator[Rows]:
        while len(pending) > leave:
            buffers, job = pending.popleft()
            yield self._counted(job.result())
            self._free_buffers.append(buffers)

    def _counted(self, rows: Rows) -> Rows:
        self._counts.add(rows)
        return rows

    def _long_row(self, batch: _Batch, row: int) -> Rows:
        """Convert a row that is longer than a piece, while there is no other on its way."""
        options, n_entries = self._options, batch.table.n_entries(row, row + 1)
        needed = rows_bytes(1, n_entries) + SORT_BYTES * n_entries
        if needed > options.reading_bytes:
            lacking = PROCESS_BYTES + 2 * needed
            batch.refuse(
                f"row {row} has {counted(n_entries, 'entry', 'entries')}: taking it in needs "
                f"{format_size(needed)}, more than the memory budget leaves",
                f"give {enough(lacking)} or more memory",
            )
        return self._convert(batch, row, row + 1, ParseBuffers(), looked_up=False)

    def _convert(
        self, batch: _Batch, start: int, stop: int, buffers: ParseBuffers, looked_up: bool = True
    ) -> Rows:
        """Make rows of a piece (in a worker)."""
        table, options, base = batch.table, self._options, self._column_base
        n_rows, nnz = stop - start, table.n_entries(start, stop)
        indptr, indices, values, labels = buffers.take(n_rows, nnz)
        indptr, indices, values, labels = (
            indptr[: n_rows + 1], indices[:nnz], values[:nnz], labels[:n_rows],
        )  # fmt: skip
        try:
            table.put(start, stop, base, Entries(indptr, indices, values.double))
        except InputError as error:
            batch.refuse(error.what, error.fix)
        lenient = options.unsorted == "sort" or options.duplicates == "sum"
        zeros, least_zero, fault, row, place = map(
            int, kernels.take_rows(indptr, indices, values.mantissa, values.exponent, not lenient)
        )
        if fault:
            _refuse_entry(batch, fault, start + row, place)
        nnz = int(indptr[-1])
        given = batch.labels[start:stop]
        kernels.to_decimals(given, labels.mantissa, labels.exponent)
        rows = Rows(
            indptr,
            indices[:nnz],
            values[:nnz],
            labels,
            max_index=base + table.n_columns - 1,
            n_lines=n_rows,
            n_zeros=zeros,
            least_zero=least_zero,
            weights=None if batch.weights is None else batch.weights[start:stop],
        )
        rows = self._reshaped(batch, rows, start, lenient)
        bad = norms.too_large(
            rows.indptr, rows.decimals.mantissa, rows.decimals.exponent, self._dtype
        )
        if len(bad):
            limit, fix = norms.LIMITS[self._dtype], "scale the data"
            batch.refuse(
                f"row {start + int(bad[0])}: its squares add up to {limit:g} or more",
                fix + (", or give dtype float64" if self._dtype == "float32" else ""),
            )
        return rows if self._look_up is None or not looked_up else self._look_up(rows)

    def _reshaped(self, batch: _Batch, rows: Rows, start: int, lenient: bool) -> Rows:
        """Sort, merge and hash rows, as the options have it."""
        options, max_index = self._options, rows.max_index
        refuse = partial(_refuse_merged, batch, start)
        if lenient:
            if options.unsorted != "sort":
                _refuse_order(batch, rows, start)
            rows = in_order(rows, self._column_base, options.duplicates == "sum", refuse)
            rows = replace(rows, max_index=max_index)
        return hashed(rows, options.hash_bits, refuse) if options.hash_bits else rows


def _differences(known: tuple[str, ...], found: tuple[str, ...]) -> tuple[str, str]:
    """Return how the names of columns differ from those before, and what to do."""
    lacking, new = [n for n in known if n not in set(found)], [n for n in found if n not in known]
    parts = [
        f"{what} {', '.join(map(repr, names[:10]))}{' and more' if len(names) > 10 else ''}"
        for what, names in (("it lacks", lacking), ("it has besides", new))
        if names
    ]
    if not parts:
        parts = ["they are in another order"]
    return (
        f"its columns are not those of the batches before: {'; '.join(parts)}",
        "give all batches the same columns in the same order",
    )


def _weights_of(weights: Any, table: Table) -> NDArray[np.float64] | None:
    """Return weights of rows, checked as those of a file are."""
    if weights is None:
        return None
    try:
        found = np.asarray(weights)
        wrong = found.dtype.kind not in "biufO" or np.ma.is_masked(weights)
        if wrong or (found.dtype == object and any(isinstance(w, str | bytes) for w in found.flat)):
            raise TypeError(found.dtype)
        found = found.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError("sample_weight is not of numbers", "give one number a row") from error
    if found.shape != (table.n_rows,):
        raise InputError(
            f"X has {counted(table.n_rows, 'row')}, and sample_weight the shape {found.shape}",
            "give one number a row",
        )
    bad = np.flatnonzero(~((found >= 0.0) & (found < TOO_LARGE)))
    if len(bad):
        shown = format_number(found[bad[0]]) if np.isfinite(found[bad[0]]) else found[bad[0]]
        raise InputError(
            f"row {bad[0]}: sample_weight is {shown}", "weights are finite, 0 or more, below 1e154"
        )
    return found + 0.0


def _refuse_entry(batch: _Batch, fault: int, row: int, place: int) -> NoReturn:
    """Refuse an entry for what `take_rows` found."""
    table = batch.table
    column = table.column_of(row, place)
    cell = table.cell(row, column)
    if fault == kernels.NOT_FINITE:
        batch.refuse(f"{cell}: the value is NaN or inf", "impute a number, or leave the row out")
    if fault == kernels.TOO_LARGE:
        batch.refuse(
            f"{cell}: the value is too large: its square overflows",
            "scale the data; values are below 1e154",
        )
    if fault == kernels.REPEATED:
        batch.refuse(
            f"{cell}: the column is repeated in the row",
            "X.sum_duplicates(), or TextOptions(duplicates='sum')",
        )
    before = table.column(table.column_of(row, place - 1))
    batch.refuse(
        f"{cell}: it follows {before}, which is larger",
        "X.sort_indices(), or TextOptions(unsorted='sort')",
    )


def _refuse_order(batch: _Batch, rows: Rows, start: int) -> None:
    """Refuse rows whose indices decrease, where only repeated ones are to be added up."""
    falls = np.flatnonzero(np.diff(rows.indices.astype(np.int64)) < 0) + 1
    falls = falls[~np.isin(falls, rows.indptr)]
    if len(falls):
        row = int(np.searchsorted(rows.indptr, falls[0], "right")) - 1
        place = int(falls[0] - rows.indptr[row])
        _refuse_entry(batch, kernels.ORDER, start + row, place)


def _refuse_merged(
    batch: _Batch, start: int, faults: Faults, merged: Merged, hashed: bool
) -> NoReturn:
    """Refuse the first row that cannot be merged."""
    row = int(np.flatnonzero(merged.why)[0])
    index = int(merged.index[row])
    if hashed:
        batch.refuse(
            f"row {start + row}: values whose columns hash to {index} add up to 1e154 or more",
            "scale the data, or give more hash_bits",
        )
    if merged.why[row] == reshape.REPEATED:
        batch.refuse(
            f"row {start + row}: a column is repeated",
            "X.sum_duplicates(), or TextOptions(duplicates='sum')",
        )
    batch.refuse(
        f"row {start + row}: the values of a column add up to 1e154 or more", "scale the data"
    )
