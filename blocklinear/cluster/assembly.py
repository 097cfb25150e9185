"""What workers do for a block: gather its rows from the pieces of all ranges, and write it.

The block has the very bytes that one machine writes: rows go through the same `Arena`, whose slots
are chunks when they are full. Of blocks that are joined, one slot after the other is taken in, and
what is left in all of them is gathered at the end.
"""

import secrets
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from blocklinear.cluster.pieces import PieceReader, read_column
from blocklinear.cluster.place import alone
from blocklinear.cluster.ranges import SplitJob
from blocklinear.ingest.arena import Arena
from blocklinear.ingest.labels import LabelCounts
from blocklinear.ingest.writer import SPARE_SLOTS, Content, OpenBlock, chunk_of_row
from blocklinear.kernels.blocks.features import look_up
from blocklinear.store import codec
from blocklinear.store.codec import Chunk
from blocklinear.store.files import make_folder, move_file
from blocklinear.store.manifest import MAX_LABELS
from blocklinear.store.records import BlockRecord
from blocklinear.text import Rows


@dataclass(frozen=True)
class Share:
    """What a range has for a slot."""

    number: int  # of the range
    n_features: int  # in its list of features
    pieces: NDArray[np.int64]  # int64[n_pieces, 6]


@dataclass(frozen=True)
class BlockReport:
    """A block that was written."""

    record: BlockRecord  # without what is known of labels
    counts: LabelCounts


def assemble(
    job: SplitJob,
    number: int,
    slots: Sequence[Sequence[Share]],
    first_row: int,
    stop_row: int,
    counted: bool,
    kept_empty: bool,
) -> BlockReport | None:
    """Write a block.

    Raises StorageError.

    Parameters
    ----------
    number : int              of the block
    slots : sequence of sequence of Share         what ranges have, in order, for each of the slots
                              that the block is made of
    first_row, stop_row : int           only rows of these numbers belong to it
    counted : bool            whether labels are to be counted
    kept_empty : bool         whether there is to be a block if it has no rows

    Returns
    -------
    BlockReport or None
        None if there is no block.
    """
    with alone() as place:
        folder = job.shuffle / f"block-{secrets.token_hex(8)}"
        make_folder(folder, job.shuffle)
        with ThreadPoolExecutor(place.threads, "encode") as pool:
            block = _Assembly(job, OpenBlock(folder, number, False), len(slots), counted, pool)
            for b, shares in enumerate(slots):
                block.take(b, shares, first_row, stop_row)
            return block.finish(kept_empty)


class _Assembly:
    def __init__(
        self, job: SplitJob, block: OpenBlock, n_slots: int, counted: bool, pool: ThreadPoolExecutor
    ) -> None:
        self._job, self._block, self._counted = job, block, counted
        self._level = codec.compression_level(job.options.compression)
        self._pool, self._queue = pool, deque[Future[None]]()
        self._n_slots, self._arena = n_slots, Arena(n_slots, SPARE_SLOTS, job.chunk_entries)
        self._reader = PieceReader(job.shuffle)
        self._missing = np.empty(0, np.uint32)

    def take(self, b: int, shares: Sequence[Share], first_row: int, stop_row: int) -> None:
        """Take in the rows of slot `b` that belong to the block, and write full chunks."""
        for share in shares:
            table = None
            if self._job.options.renumber:
                table = read_column(self._job.shuffle, share.number, "numbers", share.n_features)
            for numbers, rows in self._reader.read(share.number, share.pieces):
                if table is not None:
                    self._renumber(rows, table)
                start, stop = np.searchsorted(numbers, (first_row, stop_row)).tolist()
                self._append(b, rows, numbers, start, stop)

    def _renumber(self, rows: Rows, table: NDArray[np.uint32]) -> None:
        if len(self._missing) < rows.nnz:
            self._missing = np.empty(2 * rows.nnz, np.uint32)
        look_up(rows.indices, table, self._missing)

    def _append(
        self, b: int, rows: Rows, numbers: NDArray[np.int64], start: int, stop: int
    ) -> None:
        while start < stop:
            start = self._arena.append_numbered(rows, numbers, b, start, stop)
            if start == stop:
                break
            self._flush(b)
            if rows.indptr[start + 1] - rows.indptr[start] > self._arena.entries:
                self._write(chunk_of_row(rows, start, int(numbers[start])).copy())
                start += 1

    def _flush(self, b: int) -> None:
        gathered = self._arena.take(b)
        if gathered is not None:
            self._write(gathered[1], gathered[0])

    def finish(self, kept_empty: bool) -> BlockReport | None:
        """Write what is left, and give the block its place in the store, if there is any."""
        for chunk in self._arena.gather(range(self._n_slots)):
            self._write(chunk)
        self._drain(0)
        if not self._block.n_chunks and not kept_empty:
            return None
        record = self._block.writer.finish(self._job.options.batch)
        move_file(self._block.writer.path, self._job.folder / "blocks" / record.name)
        return BlockReport(record, self._block.counts)

    def _write(self, chunk: Chunk, slot: int | None = None) -> None:
        number = self._block.n_chunks
        self._queue.append(self._pool.submit(self._encode, number, chunk, slot))
        self._block.n_chunks += 1
        self._drain(SPARE_SLOTS - 2)

    def _encode(self, number: int, chunk: Chunk, slot: int | None) -> None:
        """Encode a chunk and append it to the block (in a thread)."""
        if self._job.options.renumber:
            chunk.sort()
        content = Content.of(chunk, self._counted)
        parts = codec.encode_parts(chunk, self._level)
        if slot is not None:
            self._arena.give_back(slot)
        self._block.put(number, parts, content)
        if len(self._block.counts.labels) > MAX_LABELS:
            self._counted = False
            self._block.forget_labels()

    def _drain(self, leave: int) -> None:
        while len(self._queue) > leave:
            self._queue.popleft().result()
