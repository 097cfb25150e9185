"""Rows to columns, in bounded memory: the column store of a store.

A first pass over the rows counts the entries of each feature. From the counts alone follow the
chunks: runs of features of about `CHUNK_ENTRIES` entries; and the files, which are runs of chunks.
So the files depend on nothing but the rows.

A second pass sorts the entries by feature, and within a feature by row: a counting sort in memory.
Where they do not all fit in memory, the pass distributes them to buckets, scratch files of one
range of features each, whose entries do fit, and the buckets are sorted one after the other.
"""

import contextlib
import errno
import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from blocklinear.columns.buckets import Bucket
from blocklinear.columns.manifest import BUILDING, FOLDER, NORMS, ColumnManifest
from blocklinear.columns.store import ColumnStore, intact_columns
from blocklinear.errors import (
    MemoryBudgetError,
    MismatchError,
    StorageError,
)
from blocklinear.events import Listener, TransposeProgress, ignore
from blocklinear.kernels.blocks import columns as kernels
from blocklinear.kernels.blocks import scaling
from blocklinear.memory import PROCESS_BYTES, enough, exact_size, format_size
from blocklinear.store import codec
from blocklinear.store.blocks import COLUMNS, BlockFile, BlockWriter, StoredChunk, checksum_of
from blocklinear.store.changes import remove_columns
from blocklinear.store.files import make_folder, place_folder, write_whole
from blocklinear.store.layout import Layout
from blocklinear.store.records import ColumnRecord
from blocklinear.store.store import BlockStore

CHUNK_ENTRIES, CHUNK_FEATURES = 1 << 13, 1 << 13
"""What a chunk has at most, unless a single feature has more entries. Smaller ones let a sparse
model read less and take longer to decode: on 17.8 M entries of 1.6 M features, chunks of 4096,
8192, 16384 and 32768 entries have 14, 19, 28 and 41 % of the bytes where one of the 460 features is
that ``liblinear-train -s 5 -c 0.1`` uses, and all are decoded in 0.24, 0.19, 0.15 and 0.13 s
(bench/columns.py)."""
BLOCK_ENTRIES, BLOCK_FEATURES = 1 << 19, 1 << 18
"""And a file: 6 MB of entries once decoded, and 5 MB of what there is one of per feature."""
_DECODED_ENTRY_BYTES, _ENCODED_ENTRY_BYTES = 40, 48
"""What an entry takes while its chunk is decoded and distributed, or gathered and encoded."""
_COUNT_BYTES, _PLACE_BYTES = 6, 4
"""What a feature takes: its count; and, where its entries are sorted, the place of the next."""
_USUAL_ENTRIES = 100_000  # of a chunk of rows
MOST_PASSES = 3
"""Rows are read up to so many times, each time for a range of features, rather than put in buckets:
these are written and read, and have more bytes than the rows."""
_PIECE_ENTRIES = 8192
"""Entries a bucket gets at a time: a piece costs as much as some thousands of entries."""
_SYNCING = 8  # threads that wait for the disk
_MOST_LANES = 4  # threads that sort a chunk at a time: each looks at every row
Job = TypeVar("Job")
Result = TypeVar("Result")


def transpose(
    store: BlockStore,
    memory_bytes: int,
    threads: int,
    listener: Listener = ignore,
    force: bool = False,
) -> ColumnStore:
    """Return the column store of a store, made now if there is none; the caller locked the store.

    DamagedError is raised if a block is damaged. MemoryBudgetError is raised if the budget is too
    small; it says what would do. StorageError is raised if there is no room for it, or it cannot be
    written.

    Parameters
    ----------
    memory_bytes : int        budget of the whole process
    threads : int             the result depends neither on it nor on `memory_bytes`
    listener : callable       called with `TransposeProgress`
    force : bool              make it anew, whatever there is
    """
    if not force and (columns := intact_columns(store)) is not None:
        return columns
    building, final = store.folder / BUILDING, store.folder / FOLDER
    try:
        remove_columns(building)
        make_folder(building, store.folder)
        with _with_what_is_needed(store):
            manifest = _Transposition(store, memory_bytes, threads, listener).run(building)
            manifest.save(building)
        if final.is_symlink():
            remove_columns(final)
        place_folder(building, final)
    finally:
        with contextlib.suppress(StorageError):
            remove_columns(building)
    return ColumnStore(final, manifest)


@contextlib.contextmanager
def _with_what_is_needed(store: BlockStore) -> Iterator[None]:
    """Say, where the disk is full, how much room columns need."""
    try:
        yield
    except StorageError as error:
        cause = error.__cause__
        if isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT):
            m = store.manifest
            size = sum(block.bytes for block in m.blocks)
            raise StorageError(
                f"{error.what}; columns take about {format_size(1.2 * size)}, and while they are "
                f"made up to {format_size(1.2 * size + 8 * m.nnz)}",
                error.fix,
            ) from error
        raise


@dataclass(frozen=True)
class _DecimalRows:
    """Rows with their entries as decimals; `numbers` are their places in the store.

    There are units and norms where rows are normalised.
    """

    numbers: NDArray[np.int64]
    lengths: NDArray[np.int64]
    indices: NDArray[np.uint32]
    mantissa: NDArray[np.integer]
    exponent: NDArray[np.uint8]
    scale: NDArray[np.float64] | None = None


@dataclass(frozen=True)
class _FeatureRange:
    """A range of features whose entries are sorted at a time: some chunks to be written."""

    first_chunk: int
    stop_chunk: int
    low: int
    high: int
    nnz: int


class _Transposition:
    """One transposition: what follows from the counts, and the passes."""

    def __init__(
        self,
        store: BlockStore,
        memory_bytes: int,
        threads: int,
        listener: Listener,
    ) -> None:
        self._store, self._m = store, store.manifest
        self._memory_bytes, self._listener = memory_bytes, listener
        self._level = codec.compression_level(self._m.compression)
        m = self._m
        if m.n_rows >= 1 << 32:
            raise MismatchError(
                f"{store.folder}: has {m.n_rows} rows; columns can have 4294967295 at most",
                "choose a solver that works on rows",
            )
        largest = max((block.bytes for block in m.blocks), default=0)
        self._fixed = PROCESS_BYTES + 2 * largest + _COUNT_BYTES * m.n_features
        self._fixed += 16 * m.n_rows if m.normalize == "l2" else 0
        self._threads = threads
        self._largest_chunk = 0
        self._in_int32 = True
        self._done, self._total = 0, 2 * m.nnz

    def run(self, folder: Path) -> ColumnManifest:
        """Write the files to `folder`, and return what they hold."""
        m = self._m
        self._require(0)
        with ThreadPoolExecutor(self._threads, "transpose") as pool:
            self._counts = self._count(pool)
            self._cut()
            self._writer = _ColumnWriter(folder, self._chunk_ends, self._chunk_nnz)
            with self._writer:
                self._sort_all(folder, pool)
                blocks = self._writer.finish()
        norms = None
        if m.normalize == "l2":
            content = self._scale.astype("<f8").tobytes()
            norms = hashlib.sha256(content).hexdigest()
            write_whole(folder / NORMS, [content])
        return ColumnManifest.of(m, norms, blocks)

    # What memory allows

    def _require(self, n_bytes: int) -> int:
        """Return what the budget leaves for entries; refuse a budget that leaves less than that."""
        chunk = _DECODED_ENTRY_BYTES * max(self._largest_chunk, _USUAL_ENTRIES)
        least, counts = self._fixed + 2 * chunk, _COUNT_BYTES * self._m.n_features
        if least + n_bytes > self._memory_bytes:
            raise MemoryBudgetError(
                f"the budget of {exact_size(self._memory_bytes)} is too small for a transposition: "
                f"the program takes {format_size(PROCESS_BYTES)}, counts of {self._m.n_features} "
                f"features {format_size(counts)}, blocks that are read "
                f"{format_size(least - PROCESS_BYTES - counts)}"
                + (f", and the longest columns {format_size(n_bytes)}" if n_bytes else ""),
                f"give --memory {enough(least + max(n_bytes, self._columns_guess()))} or more",
            )
        return self._memory_bytes - least

    def _columns_guess(self) -> int:
        """Return what the longest column may take, while that is not known: for advice."""
        return (_ENCODED_ENTRY_BYTES + 13) * min(self._m.n_rows, _USUAL_ENTRIES)

    def _workers(self, job_bytes: int, spare: int) -> int:
        """Return how many jobs may be under way."""
        return max(1, min(self._threads + 1, spare // max(job_bytes, 1)))

    # Passes over rows

    def _chunks(self) -> Iterator[tuple[BlockFile, StoredChunk, int]]:
        """Yield the chunks of all blocks, with the place of their first row."""
        row = 0
        for record in self._m.blocks:
            block = BlockFile(self._store.blocks_folder, record)
            for chunk in block.chunks():
                yield block, chunk, row
                row += chunk.rows

    def _in_order(
        self,
        pool: ThreadPoolExecutor,
        do: Callable[[Job], Result],
        jobs: Iterable[Job],
        ahead: int,
    ) -> Iterator[Result]:
        """Yield the results of jobs in their order, some of them done ahead."""
        waiting: deque[Future[Result]] = deque()
        try:
            for job in jobs:
                waiting.append(pool.submit(do, job))
                while len(waiting) >= ahead:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()

    def _progress(self, entries: int) -> None:
        self._done += entries
        self._listener(TransposeProgress(self._done, self._total))

    def _count(self, pool: ThreadPoolExecutor) -> NDArray[np.uint32]:
        """Return the entries of each feature; note what the chunks are like."""
        counts = np.zeros(self._m.n_features, np.uint32)
        ahead = self._workers(_DECODED_ENTRY_BYTES * _USUAL_ENTRIES, self._require(0))
        for layout, indices in self._in_order(pool, self._indices_of, self._chunks(), ahead):
            kernels.count(indices, counts)
            self._largest_chunk = max(self._largest_chunk, layout.nnz)
            self._in_int32 &= codec.fits_int32(layout)
            self._progress(layout.nnz)
        return counts

    def _indices_of(
        self, job: tuple[BlockFile, StoredChunk, int]
    ) -> tuple[Layout, NDArray[np.uint32]]:
        block, chunk, _ = job
        buffers = _buffers(chunk.rows, chunk.nnz)
        with codec.decoding(block.damaged):
            layout = codec.decode_indices(
                chunk.data, buffers, self._m.n_features, self._m.column_base
            )
        return layout, buffers.indices

    def _cut(self) -> None:
        """Choose the chunks to write: where their features and entries end."""
        ones = np.ones(len(self._counts), np.uint8)
        ends = np.empty(len(self._counts), np.int64)  # its pages are those written to
        n = kernels.cut(self._counts, ones, CHUNK_ENTRIES, CHUNK_FEATURES, ends)
        self._chunk_ends = np.concatenate(([0], ends[:n]))
        starts = self._chunk_ends[:-1]
        self._chunk_nnz = np.zeros(0, np.int64)
        if len(starts):
            self._chunk_nnz = np.add.reduceat(self._counts, starts, dtype=np.int64)

    def _ranges(self) -> list[_FeatureRange]:
        """Divide the chunks to write so that each part can be sorted in memory."""
        entry_bytes = 5 + (4 if self._in_int32 else 8)
        costs = entry_bytes * self._chunk_nnz + _PLACE_BYTES * np.diff(self._chunk_ends)
        worst = int(costs.max(initial=0))
        encoding = _ENCODED_ENTRY_BYTES * int(self._chunk_nnz.max(initial=0))
        spare = self._require(worst + encoding)
        self._encoders = self._workers(encoding, (spare - worst) // 4)
        capacity = max(worst, spare - self._encoders * encoding)
        capacity = min(capacity, entry_bytes * ((1 << 32) - 1))  # places are counted in 32 bits
        reading = max(spare - int(costs.sum()), spare // 4)
        self._readers = self._workers(_DECODED_ENTRY_BYTES * self._largest_chunk, reading)
        self._most_distributed = reading // (4 * _DECODED_ENTRY_BYTES)
        ends = np.empty(len(costs), np.int64)
        n = kernels.cut(costs, np.zeros(len(costs), np.uint8), capacity, 1, ends)
        ranges, first = [], 0
        for stop in ends[:n].tolist():
            low, high = int(self._chunk_ends[first]), int(self._chunk_ends[stop])
            nnz = int(self._chunk_nnz[first:stop].sum())
            ranges.append(_FeatureRange(first, stop, low, high, nnz))
            first = stop
        return ranges

    def _sort_all(self, folder: Path, pool: ThreadPoolExecutor) -> None:
        """Sort all entries by feature and write them: at once, or bucket by bucket."""
        ranges = self._ranges()
        normalized = self._m.normalize == "l2"
        self._scale = np.ones((2, self._m.n_rows if normalized else 0))
        if len(ranges) <= MOST_PASSES:
            self._total += max(len(ranges) - 1, 0) * self._m.nnz
            for part in ranges:
                rows = self._in_order(pool, self._rows_of, self._chunks(), self._readers)
                self._sort(part, self._noted(rows), pool)
            return
        self._total += self._m.nnz
        buckets = [Bucket(folder / f"bucket{k:06d}.tmp") for k in range(len(ranges))]
        deal = _Distributor([part.high for part in ranges])
        jobs = self._batches(len(ranges))
        for pieces, scale in self._in_order(
            pool, lambda batch: deal.pieces(map(self._rows_of, batch)), jobs, min(self._readers, 2)
        ):
            for bucket, piece in zip(buckets, pieces, strict=True):
                if piece is not None:
                    bucket.append(*piece)
            self._note(scale)
            self._progress(sum(piece[2] for piece in pieces if piece is not None))
        for bucket, part in zip(buckets, ranges, strict=True):
            jobs_of = ((bucket, k) for k in range(len(bucket.pieces)))
            rows = self._in_order(pool, self._piece_of, jobs_of, self._readers)
            self._sort(part, rows, pool)
            bucket.delete()

    def _batches(self, n_buckets: int) -> Iterator[list[tuple[BlockFile, StoredChunk, int]]]:
        """Yield chunks that are distributed together, so that buckets get pieces of some size."""
        wanted = min(_PIECE_ENTRIES * n_buckets, self._most_distributed)
        batch: list[tuple[BlockFile, StoredChunk, int]] = []
        for job in self._chunks():
            if batch and sum(chunk.nnz for _, chunk, _ in batch) >= wanted:
                yield batch
                batch = []
            batch.append(job)
        if batch:
            yield batch

    def _rows_of(self, job: tuple[BlockFile, StoredChunk, int]) -> _DecimalRows:
        """Decode a chunk of rows."""
        block, chunk, first = job
        buffers = _buffers(chunk.rows, chunk.nnz)
        with codec.decoding(block.damaged):
            lengths, mantissa, exponent = codec.decode_decimals(
                chunk.data, buffers, self._m.n_features, self._m.column_base
            )
        numbers = np.arange(first, first + chunk.rows)
        scale = None
        if self._m.normalize == "l2":
            scale = np.empty((2, chunk.rows))
            values = codec.to_values(mantissa, exponent, self._m.dtype)
            scaling.row_norms(lengths, values, scale[0], scale[1])
        return _DecimalRows(numbers, lengths, buffers.indices, mantissa, exponent, scale)

    def _noted(self, rows: Iterable[_DecimalRows]) -> Iterator[_DecimalRows]:
        for piece in rows:
            self._note([(piece.numbers, piece.scale)])
            yield piece

    def _note(self, scales: Iterable[tuple[NDArray[np.int64], NDArray[np.float64] | None]]) -> None:
        """Keep what rows are divided by."""
        for numbers, scale in scales:
            if scale is not None and len(numbers):
                self._scale[:, numbers[0] : numbers[-1] + 1] = scale

    def _piece_of(self, job: "tuple[Bucket, int]") -> _DecimalRows:
        """Decode a piece of a bucket."""
        bucket, number = job
        place = bucket.pieces[number]
        buffers = _buffers(place.rows, place.nnz)
        lengths, mantissa, exponent = codec.decode_decimals(
            bucket.read(place), buffers, self._m.n_features, 0
        )
        return _DecimalRows(buffers.row_numbers, lengths, buffers.indices, mantissa, exponent)

    # Columns

    def _sort(
        self, part: _FeatureRange, rows: Iterable[_DecimalRows], pool: ThreadPoolExecutor
    ) -> None:
        """Sort the entries of a range of features, and write its chunks."""
        counts = self._counts[part.low : part.high]
        at = np.zeros(len(counts), np.uint32)
        np.cumsum(counts[:-1], dtype=np.uint32, out=at[1:])
        column_rows = np.empty(part.nnz, np.uint32)
        mantissa = np.empty(part.nnz, np.int32 if self._in_int32 else np.int64)
        exponent = np.empty(part.nnz, np.uint8)
        with self._lanes(part) as lanes:
            under_way: deque[list[Future[None]]] = deque()
            for piece in rows:
                under_way.append(
                    [
                        lane.submit(
                            kernels.scatter, piece.lengths, piece.numbers, piece.indices,
                            piece.mantissa, piece.exponent, low, high, part.low, at, column_rows,
                            mantissa, exponent,
                        )
                        for lane, low, high in lanes
                    ]
                )  # fmt: skip
                self._progress(len(piece.indices))
                if len(under_way) > 1:
                    _wait(under_way.popleft())
            for jobs in under_way:
                _wait(jobs)
        del at

        def encoded(job: tuple[int, int, int, int]) -> tuple[bytes, int]:
            first, stop, start, end = job
            n = stop - first
            chunk = codec.Chunk(
                np.arange(first, stop),
                self._counts[first:stop].astype(np.int64),
                np.zeros(n, np.int64),
                np.zeros(n, np.uint8),
                column_rows[start:end],
                mantissa[start:end].astype(np.int64),
                exponent[start:end],
            )
            data = codec.encode(chunk, self._level)
            return data, checksum_of(data)

        ends = np.concatenate(
            ([0], np.cumsum(self._chunk_nnz[part.first_chunk : part.stop_chunk]))
        ).tolist()
        features = self._chunk_ends[part.first_chunk : part.stop_chunk + 1].tolist()
        chunks = zip(features[:-1], features[1:], ends[:-1], ends[1:], strict=True)
        for data, checksum in self._in_order(pool, encoded, chunks, self._encoders):
            self._writer.append(data, checksum)

    @contextlib.contextmanager
    def _lanes(self, part: _FeatureRange) -> Iterator[list[tuple[ThreadPoolExecutor, int, int]]]:
        """Hand out threads that sort a share each of the features of a range, row after row."""
        until = np.cumsum(self._chunk_nnz[part.first_chunk : part.stop_chunk])
        n = min(self._threads, _MOST_LANES)
        cuts = np.searchsorted(until, part.nnz * np.arange(1, n) / n, "right") + part.first_chunk
        bounds = [part.low, *self._chunk_ends[cuts].tolist(), part.high]
        with contextlib.ExitStack() as stack:
            yield [
                (stack.enter_context(ThreadPoolExecutor(1, "sort")), low, high)
                for low, high in pairwise(bounds)
                if low < high
            ]


class _Distributor:
    """Distributes rows to buckets, each of the features before the end of its range."""

    def __init__(self, ends: list[int]) -> None:
        self._ends = ends

    def pieces(
        self, parts: Iterable[_DecimalRows]
    ) -> tuple[
        list[tuple[bytes, int, int] | None],
        list[tuple[NDArray[np.int64], NDArray[np.float64] | None]],
    ]:
        """Return for each bucket an encoded chunk, its rows and entries; and the rows' scales."""
        decimals = list(parts)
        scales = [(part.numbers, part.scale) for part in decimals]
        numbers, lengths, indices, exponent = (
            np.concatenate([getattr(part, name) for part in decimals])
            for name in ("numbers", "lengths", "indices", "exponent")
        )
        mantissa = np.concatenate([part.mantissa.astype(np.int64) for part in decimals])
        stops = np.cumsum(lengths)
        cursors, count = stops - lengths, np.empty(len(lengths), np.int64)
        room = np.empty_like(indices), np.empty_like(mantissa), np.empty_like(exponent)
        pieces: list[tuple[bytes, int, int] | None] = []
        for high in self._ends:
            n = int(
                kernels.take_range(stops, indices, mantissa, exponent, high, cursors, count, *room)
            )
            if n == 0:
                pieces.append(None)
                continue
            rows = np.flatnonzero(count)
            chunk = codec.Chunk(
                numbers[rows], count[rows], np.zeros(len(rows), np.int64),
                np.zeros(len(rows), np.uint8), *(part[:n] for part in room),
            )  # fmt: skip
            encoded = b"".join(codec.encode_parts(chunk, None, as_given=True))
            pieces.append((encoded, len(rows), n))
        return pieces, scales


class _ColumnWriter:
    """Writes chunks, in order, to the files they belong to."""

    def __init__(
        self, folder: Path, chunk_ends: NDArray[np.int64], chunk_nnz: NDArray[np.int64]
    ) -> None:
        self._folder, self._features, self._nnz = folder, chunk_ends, chunk_nnz
        ends = np.empty(len(chunk_nnz), np.int64)
        n = kernels.cut(chunk_nnz, np.diff(chunk_ends), BLOCK_ENTRIES, BLOCK_FEATURES, ends)
        self._ends = ends[:n].tolist()
        self._chunk = 0
        self._writer: BlockWriter | None = None
        self._sync = ThreadPoolExecutor(_SYNCING, "sync")
        self._finished: list[Future[ColumnRecord]] = []

    def __enter__(self) -> "_ColumnWriter":
        return self

    def __exit__(self, *error: object) -> None:
        self._sync.shutdown(cancel_futures=True)

    def append(self, data: bytes, checksum: int) -> None:
        """Write the next chunk."""
        if self._writer is None:
            self._first = int(self._features[self._chunk])
            self._writer = BlockWriter(self._folder, len(self._finished), COLUMNS)
        features = int(self._features[self._chunk + 1] - self._features[self._chunk])
        self._writer.append([data], features, int(self._nnz[self._chunk]), -1, checksum)
        self._chunk += 1
        if self._chunk == self._ends[len(self._finished)]:
            self._finished.append(self._sync.submit(_finished, self._writer, self._first))
            self._writer = None

    def finish(self) -> list[ColumnRecord]:
        """Return the records of all files, when they are durable."""
        return [future.result() for future in self._finished]


def _wait(jobs: Iterable[Future[None]]) -> None:
    for job in jobs:
        job.result()


def _finished(writer: BlockWriter, first: int) -> ColumnRecord:
    record = writer.finish("")
    return ColumnRecord(
        record.name, first, record.rows, record.nnz, record.bytes, record.table,
        record.envelope_sha256,
    )  # fmt: skip


def _buffers(rows: int, nnz: int) -> codec.DecodeBuffers:
    """Return memory to decode a chunk to, but for its values."""
    none = np.empty(0)
    return codec.DecodeBuffers(
        0, np.empty(rows, np.int64), np.empty(nnz, np.uint32), none, np.empty(rows), none,
        np.empty(rows, np.int64),
    )  # fmt: skip
