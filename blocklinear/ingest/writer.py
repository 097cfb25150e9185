"""Rows to blocks: random assignment (Yu, Algorithm 4), chunks encoded in parallel.

Rows come in order and are assigned to the open blocks by hash(seed, row number). A block gathers
rows in an arena until its chunk is full; the chunk is then encoded by a worker, and appended in the
order of filling by the worker that has the next one, so the files depend on the rows alone, never
on the threads.

How many rows will come is not known, and is not guessed. The open blocks are a generation: once
they hold `Plan.generation_bytes` they are finished and the next ones open. When the rows end, the
blocks of the last generation are joined to as few as their rows fill: of n open ones, block b joins
block b mod m, where m divides n, so that a row is in block hash(seed, row number) mod m.
"""

import math
import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np

from blocklinear.errors import MemoryBudgetError
from blocklinear.ingest.arena import SLOT_ENTRY_BYTES, WEIGHT_ENTRY_BYTES, Arena, draw_blocks
from blocklinear.ingest.labels import LabelCounts, LabelTable
from blocklinear.ingest.numbering import Numbering
from blocklinear.memory import PROCESS_BYTES, enough, exact_size, spare_bytes
from blocklinear.options import SplitOptions
from blocklinear.pages import ByteBudget
from blocklinear.store import codec
from blocklinear.store.blocks import BlockWriter, checksum_of
from blocklinear.store.manifest import refuse_many
from blocklinear.store.records import BlockRecord
from blocklinear.store.weight_stats import WeightStats, together, weigh
from blocklinear.text import Decimals, Rows, reshape

ENTRY_BYTES, ROW_BYTES = 12, 48
"""What an entry and a row take in memory once decoded, with what training keeps per row."""
MAX_BLOCK_BYTES, MIN_BLOCK_BYTES = 32 << 20, 1 << 20
OPEN_BLOCKS = (16, 24, 32, 48, 64)
"""How many may be open. Each has divisors so close that joined blocks are half full at least."""
CHUNK_ENTRIES, GOOD_CHUNK_ENTRIES, MIN_CHUNK_ENTRIES = 100_000, 90_000, 2_000
ARENA_SHARE, ENCODING_SHARE = 0.34, 0.16
"""Of what the program leaves of the budget; `TextOptions.reading_bytes` says what text may take,
and `numbering.map_bytes` what the numbers of features may."""
ENCODED_ENTRY_BYTES, COPIED_ENTRY_BYTES = 40, 53
"""What encoding an entry takes: gaps, doubles, planes, and the chunk; and a copy of it before."""
MOST_HELD = 1 << 20
"""Entries of the rows whose features are counted before any is written."""
ROWS_AT_A_TIME = 1 << 16
SPARE_SLOTS = 8
"""Chunks that may be encoded or wait for the disk at a time."""


@dataclass(frozen=True)
class Plan:
    """How many blocks are open, when they are full, and how long their chunks are.

    The files depend on these, so none of them may depend on the number of threads.
    """

    open_blocks: int
    generation_bytes: float  # decoded size of a full generation
    chunk_entries: int
    # decoded size that joined blocks of the last generation have at most, and if there are several
    # at least half of; 0 if none are joined
    block_bytes: float = 0.0
    held_entries: int = MOST_HELD  # entries that may be held back while features are counted


def decoded_bytes(rows: int, nnz: int) -> int:
    """Return what so much data takes in memory once decoded."""
    return ROW_BYTES * rows + ENTRY_BYTES * nnz


def make_plan(
    options: SplitOptions, total_bytes: float | None = None, block_bytes: float | None = None
) -> Plan:
    """Choose block count and chunk size.

    MemoryBudgetError is raised if the blocks asked for cannot all be open within the budget.

    Parameters
    ----------
    total_bytes : float or None         decoded size of the whole input; needed for `options.blocks`
                              in its order, and only there
    block_bytes : float or None         decoded size of a block; None derives it from the memory
                              budget
    """
    spare = spare_bytes(options.text.memory_bytes)
    slot_entry_bytes = SLOT_ENTRY_BYTES + (WEIGHT_ENTRY_BYTES if options.weights else 0)
    arena_entries = ARENA_SHARE * spare / slot_entry_bytes
    if block_bytes is None:
        block_bytes = min(max(spare / 2 / 10, MIN_BLOCK_BYTES), MAX_BLOCK_BYTES)
    if options.order == "file":
        generation = _one_after_another(options, total_bytes, block_bytes)
    elif options.blocks is not None:
        generation = _Generation(options.blocks, math.inf, 0.0)
    else:
        generation = _full_generations(arena_entries, block_bytes)
    slots = generation.open_blocks + SPARE_SLOTS
    chunk_entries = min(CHUNK_ENTRIES, int(arena_entries / slots))
    if chunk_entries < MIN_CHUNK_ENTRIES:
        raise _too_many_open(options, generation.open_blocks, slot_entry_bytes)
    held_entries = min(MOST_HELD, int(arena_entries / 2))  # the arena is empty meanwhile
    return Plan(
        generation.open_blocks,
        generation.full_bytes,
        chunk_entries,
        generation.joined_bytes,
        held_entries,
    )


def filled_blocks(n: int, generation_bytes: float, block_bytes: float) -> int:
    """Return how many blocks the last `n` open ones make when joined: a divisor of their number."""
    if not n or not block_bytes:
        return n
    wanted = max(math.ceil(generation_bytes / block_bytes), 1)
    return next((m for m in range(wanted, n) if n % m == 0), n)


class _Generation(NamedTuple):
    """Blocks that are open at a time: how many, and `Plan.generation_bytes`, `Plan.block_bytes`."""

    open_blocks: int
    full_bytes: float
    joined_bytes: float


def _one_after_another(
    options: SplitOptions, total_bytes: float | None, block_bytes: float
) -> _Generation:
    """Rows in the order of the input: of `options.blocks` blocks, or each of `block_bytes`."""
    if options.blocks is None:
        return _Generation(1, block_bytes, 0.0)
    assert total_bytes is not None
    return _Generation(1, total_bytes / options.blocks, 0.0)


def _full_generations(arena_entries: float, block_bytes: float) -> _Generation:
    """As many open blocks as leave chunks of a good size, in so many generations as it takes."""
    most = arena_entries / GOOD_CHUNK_ENTRIES - SPARE_SLOTS
    open_blocks = max(n for n in OPEN_BLOCKS if n <= max(most, OPEN_BLOCKS[0]))
    return _Generation(open_blocks, open_blocks * block_bytes, block_bytes)


def _too_many_open(
    options: SplitOptions, open_blocks: int, slot_entry_bytes: float
) -> MemoryBudgetError:
    arena_bytes = MIN_CHUNK_ENTRIES * slot_entry_bytes * (open_blocks + SPARE_SLOTS)
    needed = math.ceil(arena_bytes / ARENA_SHARE) + 1 + PROCESS_BYTES  # 1 for rounding
    return MemoryBudgetError(
        f"{open_blocks} open blocks do not fit in {exact_size(options.text.memory_bytes)}",
        f"give --memory {enough(needed)} or more, or fewer --blocks",
    )


@dataclass(frozen=True)
class Content:
    """What a chunk holds."""

    rows: int
    nnz: int
    max_index: int  # -1 if it has no entries
    counts: LabelCounts
    weight_stats: WeightStats

    @classmethod
    def of(cls, chunk: codec.Chunk, counted: bool) -> "Content":
        """Look at a chunk before it is encoded; labels are counted if `counted`."""
        counts, weight_stats, nnz = LabelCounts.none(), {}, len(chunk.indices)
        if counted:
            labels = Decimals(chunk.label_mantissa, chunk.label_exponent).to_doubles()
            counts = LabelCounts.of(labels, chunk.weights)
        if chunk.weights is not None:
            weight_stats = weigh(chunk.weights)
        max_index = int(chunk.indices.max()) if nnz else -1
        return cls(len(chunk.lengths), nnz, max_index, counts, weight_stats)


class OpenBlock:
    """A block whose chunks are numbered as they are filled, and appended in that order.

    Parameters
    ----------
    weighted : bool           whether rows have weights

    Attributes
    ----------
    writer : BlockWriter
    counts : LabelCounts
    weight_stats : WeightStats
    n_chunks : int            that have a number
    """

    def __init__(self, folder: Path, number: int, weighted: bool) -> None:
        self.writer = BlockWriter(folder, number)
        self.counts = LabelCounts.none()
        self.weight_stats: WeightStats = weigh(np.empty(0)) if weighted else {}
        self.n_chunks = self._n_appended = 0
        self._waiting: dict[int, tuple[bytes, int, Content]] = {}
        self._turn = threading.Lock()

    def put(self, number: int, parts: Sequence[bytes | memoryview], content: Content) -> None:
        """Append chunk `number`, and those that waited for it; or copy it, if one before lacks."""
        checksum = checksum_of(*parts)
        with self._turn:
            if number != self._n_appended:
                self._waiting[number] = b"".join(parts), checksum, content
                return
            while True:
                self.writer.append(parts, content.rows, content.nnz, content.max_index, checksum)
                self._take_in(content)
                if (following := self._waiting.pop(self._n_appended, None)) is None:
                    return
                parts, (checksum, content) = following[:1], following[1:]

    def _take_in(self, content: Content) -> None:
        self._n_appended += 1
        self.weight_stats = together((self.weight_stats, content.weight_stats))
        self.counts = self.counts.plus(content.counts)

    def join(self, other: "OpenBlock") -> None:
        """Take over the chunks of another block; none of either are being encoded."""
        self.writer.extend(other.writer)
        self.n_chunks += other.n_chunks
        self._n_appended += other.n_chunks
        self.counts = self.counts.plus(other.counts)
        self.weight_stats = together((self.weight_stats, other.weight_stats))

    def forget_labels(self) -> None:
        """Drop what was counted: there are too many labels."""
        with self._turn:
            self.counts = LabelCounts.none()


def some_rows(rows: Rows, start: int, stop: int) -> Rows:
    """Return some of the rows, with the entries of all."""
    return replace(
        rows,
        indptr=rows.indptr[start : stop + 1],
        label_decimals=rows.label_decimals[start:stop],
        weights=None if rows.weights is None else rows.weights[start:stop],
    )


def chunk_of_row(rows: Rows, i: int, number: int) -> codec.Chunk:
    """Return the one row `i`, whose number is `number`, as a chunk: views of its memory."""
    part = slice(int(rows.indptr[i]), int(rows.indptr[i + 1]))
    return codec.Chunk(
        np.array([number]),
        np.array([part.stop - part.start]),
        rows.label_decimals.mantissa[i : i + 1],
        rows.label_decimals.exponent[i : i + 1],
        rows.indices[part],
        rows.decimals.mantissa[part],
        rows.decimals.exponent[part],
        None if rows.weights is None else rows.weights[i : i + 1],
    )


class BatchWriter:
    """Writes the rows of one batch into new blocks.

    Parameters
    ----------
    folder : Path             where block files go
    plan, options :           see `make_plan`
    pool : ThreadPoolExecutor           workers for encoding
    first_row, first_block : int        numbers not used yet
    labels : sequence of float, or None           labels known from earlier batches; None when there
                              are too many
    numbering : Numbering or None       gives features their numbers in the store; None if they have
                              those of the input
    """

    def __init__(
        self,
        folder: Path,
        plan: Plan,
        options: SplitOptions,
        pool: ThreadPoolExecutor,
        first_row: int = 0,
        first_block: int = 0,
        labels: Sequence[float] | None = (),
        numbering: Numbering | None = None,
    ) -> None:
        self._numbering = numbering
        self._folder, self._batch, self._plan, self._pool = folder, options.batch, plan, pool
        self._seed = options.seed
        self._level = codec.compression_level(options.compression)
        self._queue: deque[Future[None]] = deque()
        self.next_row, self.next_block = first_row, first_block
        self.n_rows = self.nnz = 0
        self.max_index = -1
        self._labels = LabelTable(None if labels is None else list(labels))
        self._sync = ThreadPoolExecutor(8, "sync")  # wait for the disk while rows go on
        self._finished: list[tuple[Future[BlockRecord], OpenBlock]] = []
        self._weighted = options.weights is not None
        self._arena = Arena(plan.open_blocks, SPARE_SLOTS, plan.chunk_entries, self._weighted)
        self._encoding_bytes = int(ENCODING_SHARE * spare_bytes(options.text.memory_bytes))
        self._encoding = ByteBudget(self._encoding_bytes)
        self._open: list[OpenBlock] = []
        self._generation_bytes = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for encoding in self._queue:  # there are some only if something went wrong
            encoding.cancel()
        self._sync.shutdown(cancel_futures=True)

    def append(self, rows: Rows) -> None:
        """Add rows; they are numbered in the order they come, and used up."""
        self.max_index = max(self.max_index, rows.max_index)
        if self._numbering is None:
            self._append_all(rows)
        else:
            for part in self._numbering.numbered(rows):
                self._append_all(part)

    def _append_all(self, rows: Rows) -> None:
        for start in range(0, rows.n_rows, ROWS_AT_A_TIME):
            self._append(some_rows(rows, start, min(start + ROWS_AT_A_TIME, rows.n_rows)))
        self.nnz += rows.nnz

    def _append(self, rows: Rows) -> None:
        self._note_labels(rows)
        start = 0
        while start < rows.n_rows:
            if self._open and self._generation_bytes >= self._plan.generation_bytes:
                self._close_generation()
            if not self._open:
                self._open_generation()
            stop = self._within_generation(rows, start)
            self._route(rows, start, stop)
            nnz = int(rows.indptr[stop] - rows.indptr[start])
            self._generation_bytes += decoded_bytes(stop - start, nnz)
            start = stop
        self.n_rows += rows.n_rows
        self.next_row += rows.n_rows

    def _within_generation(self, rows: Rows, start: int) -> int:
        """Return after which row the open blocks are full, or all rows are in them."""
        left = self._plan.generation_bytes - self._generation_bytes
        lengths = rows.indptr[start:] - rows.indptr[start]
        if decoded_bytes(len(lengths) - 1, int(lengths[-1])) <= left:
            return rows.n_rows
        filled = ROW_BYTES * np.arange(len(lengths)) + ENTRY_BYTES * lengths
        return start + max(int(np.searchsorted(filled, left)), 1)

    def _note_labels(self, rows: Rows) -> None:
        """Take in labels; once there are too many, drop what was counted of each."""
        if self._labels.labels is None:
            return
        self._labels.note(rows.labels())
        if self._labels.labels is None:
            for block in (*self._open, *(block for _, block in self._finished)):
                block.forget_labels()

    def _route(self, rows: Rows, start: int, stop: int) -> None:
        block = draw_blocks(self._seed, self.next_row, rows.n_rows, len(self._open))
        while start < stop:
            start = self._arena.append(rows, self.next_row, block, start, stop)
            if start < stop:
                b = int(block[start])
                self._flush(b)
                if rows.indptr[start + 1] - rows.indptr[start] > self._arena.entries:
                    self._encode_row(b, rows, start)
                    start += 1

    def _encode_row(self, b: int, rows: Rows, i: int) -> None:
        """Make a chunk of the one row `i`, which no arena could take.

        If it is so long that a copy takes too much, it is encoded where it lies, and alone: then
        that takes no more memory than its text did, which is no longer held.
        """
        chunk = chunk_of_row(rows, i, self.next_row + i)
        n_entries = len(chunk.indices)
        if 2 * COPIED_ENTRY_BYTES * n_entries <= self._encoding_bytes:
            self._encode(b, chunk.copy())
            return
        self._drain(0)
        if self._numbering is not None:
            ends = np.array([0, n_entries])
            reshape.sort(ends, chunk.indices, chunk.mantissa, chunk.exponent)  # takes least memory
        content, block = Content.of(chunk, self._labels.labels is not None), self._open[b]
        block.put(block.n_chunks, codec.encode_parts(chunk, self._level), content)
        block.n_chunks += 1

    def _flush(self, b: int) -> None:
        """Send what block `b` has gathered to be encoded."""
        gathered = self._arena.take(b)
        if gathered is not None:
            self._encode(b, gathered[1], gathered[0])

    def _encode(self, b: int, chunk: codec.Chunk, slot: int | None = None) -> None:
        block = self._open[b]
        entry_bytes = COPIED_ENTRY_BYTES if slot is None else ENCODED_ENTRY_BYTES
        held = self._encoding.acquire(entry_bytes * len(chunk.indices))
        job = self._pool.submit(self._work, block, block.n_chunks, chunk, slot, held)
        self._queue.append(job)
        block.n_chunks += 1
        self._drain(SPARE_SLOTS - 2)

    def _work(
        self, block: OpenBlock, number: int, chunk: codec.Chunk, slot: int | None, held: int
    ) -> None:
        """Encode a chunk and append it to its block (in a worker)."""
        try:
            if self._numbering is not None:
                chunk.sort()
            content = Content.of(chunk, self._labels.labels is not None)
            parts = codec.encode_parts(chunk, self._level)
            if slot is not None:
                self._arena.give_back(slot)
            block.put(number, parts, content)
        finally:
            self._encoding.release(held)

    def _drain(self, leave: int) -> None:
        while len(self._queue) > leave:
            self._queue.popleft().result()

    def _open_generation(self) -> None:
        if self._finished:  # labels are known by now: refuse too many before all is written
            n_blocks = len(self._finished) + self._plan.open_blocks
            refuse_many(n_blocks, len(self._labels.labels or ()))
        numbers = range(self.next_block, self.next_block + self._plan.open_blocks)
        self._open = [OpenBlock(self._folder, number, self._weighted) for number in numbers]
        self.next_block = numbers.stop

    def _close_generation(self, last: bool = False) -> None:
        kept = len(self._open)
        if last:
            kept = filled_blocks(kept, self._generation_bytes, self._plan.block_bytes)
        if kept < len(self._open):
            self._join(kept)
        else:
            for b in range(len(self._open)):
                self._flush(b)
        self._drain(0)
        for block in self._open:
            if not block.n_chunks and self._plan.block_bytes:
                continue  # few rows, all of them long: nobody asked for this block
            record = self._sync.submit(block.writer.finish, self._batch)
            self._finished.append((record, block))
        self._open = []
        # what the last row had too much is taken from the next blocks
        self._generation_bytes = max(self._generation_bytes - self._plan.generation_bytes, 0.0)

    def _join(self, kept: int) -> None:
        """Join the open blocks to the first `kept` of them."""
        self._drain(0)
        n = len(self._open)
        for b in range(kept):
            members = range(b, n, kept)
            for other in members[1:]:
                self._open[b].join(self._open[other])
            for chunk in self._arena.gather(members):
                self._encode(b, chunk)
        self._open = self._open[:kept]
        self.next_block -= n - kept

    def write_held(self) -> None:
        """Take in rows that were held back: no others follow, and all features have numbers."""
        for part in self._numbering.rest() if self._numbering is not None else ():
            self._append_all(part)

    def finish(self) -> tuple[list[BlockRecord], list[float] | None]:
        """Finish every block; return the records and the label table."""
        self.write_held()
        self._close_generation(last=True)
        table = self._labels
        records = [
            table.record(record.result(), block.counts, block.weight_stats)
            for record, block in self._finished
        ]
        return records, table.labels
