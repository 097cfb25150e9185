"""Blocks in memory: groups decoded side by side into buffers that are reused."""

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklinear.classes import as_given
from blocklinear.store import codec
from blocklinear.store.blocks import BlockFile, BlockReader
from blocklinear.store.manifest import Manifest
from blocklinear.store.records import BlockRecord


@dataclass(frozen=True)
class Group:
    """Blocks loaded for one block step, side by side."""

    blocks: tuple[int, ...]  # positions of the blocks in the manifest
    first: NDArray[np.int64]  # int64[g]: position in the store of the first row of each block
    starts: NDArray[np.int64]  # int64[g + 1]: first row of each block in the arrays
    indptr: NDArray[np.int64]  # int64[n_rows + 1]
    indices: NDArray[np.uint32]  # uint32[nnz]: columns, each < n_features (checked)
    values: NDArray[np.floating]  # float64[nnz] or float32[nnz]
    labels: NDArray[np.float64]  # float64[n_rows]: as written
    sq_norm: NDArray[np.float64]  # float64[n_rows]: x_i' x_i
    row_numbers: NDArray[np.int64]  # int64[n_rows]: number of the row in the store
    bytes_read: int  # from disk
    weights: NDArray[np.float64] | None = None  # float64[n_rows], where rows have any

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.labels)

    @property
    def rows(self) -> "RowView":
        """All rows."""
        positions = np.repeat(self.first - self.starts[:-1], np.diff(self.starts))
        positions += np.arange(self.n_rows)
        return RowView(
            positions, self.indptr[:-1], self.indptr[1:], self.sq_norm, self.labels, self.indices,
            self.values, self.weights,
        )  # fmt: skip


@dataclass(frozen=True)
class _Pinned:
    """A decoded block kept in memory; `ends` of rows count from 0, `weights` may be float64[0]."""

    ends: NDArray[np.int64]
    indices: NDArray[np.uint32]
    values: NDArray[np.floating]
    labels: NDArray[np.float64]
    sq_norm: NDArray[np.float64]
    row_numbers: NDArray[np.int64]
    weights: NDArray[np.float64]


class Pins:
    """Decoded blocks kept in spare memory, so that they are read only once.

    All blocks are used equally often, so the first that fit are as good as any.

    Parameters
    ----------
    capacity_bytes : int      how much memory they may take
    """

    def __init__(self, capacity_bytes: int) -> None:
        self._left, self._lock = capacity_bytes, threading.Lock()
        self._blocks: dict[str, _Pinned] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._blocks

    def get(self, name: str) -> _Pinned | None:
        """Return the block, if it is here."""
        return self._blocks.get(name)

    def offer(self, name: str, block: _Pinned) -> None:
        """Keep a copy of a block if there is room for it."""
        size = sum(array.nbytes for array in vars(block).values())
        with self._lock:  # blocks are offered by several threads
            fits = size <= self._left
            self._left -= size if fits else 0
        if fits:
            self._blocks[name] = _Pinned(**{k: array.copy() for k, array in vars(block).items()})


class GroupBuffer:
    """Memory for one group of at most `rows` rows, with weights or not, and `nnz` entries."""

    def __init__(self, rows: int, nnz: int, dtype: str, weighted: bool = False) -> None:
        self._indptr = np.zeros(rows + 1, np.int64)
        self._indices = np.empty(nnz, np.uint32)
        self._values = np.empty(nnz, dtype)
        self._labels, self._sq_norm = np.empty(rows), np.empty(rows)
        self._row_numbers = np.empty(rows, np.int64)
        self._weights = np.empty(rows if weighted else 0)

    def load(
        self,
        reader: BlockReader,
        manifest: Manifest,
        blocks: Sequence[int],
        pool: Executor,
        pins: Pins | None = None,
        following: Sequence[int] = (),
    ) -> Group:
        """Check and decode `blocks` (positions in the manifest) into this memory.

        DamagedError is raised if a block is not what was written; StorageError if it cannot be
        read.

        Parameters
        ----------
        reader : BlockReader      reads them, of nobody else meanwhile
        pool : Executor           decodes several blocks at a time
        pins : Pins               blocks that need not be read; takes those read while it has room
        following : sequence of int         what is going to be loaded next: it is read ahead
        """
        records = [manifest.blocks[b] for b in blocks]
        starts = np.concatenate(([0], np.cumsum([record.rows for record in records])))
        entries = np.concatenate(([0], np.cumsum([record.nnz for record in records])))
        missing = []
        for record, row, entry in zip(records, starts.tolist(), entries.tolist(), strict=False):
            pinned = pins.get(record.name) if pins is not None else None
            if pinned is not None:
                self._copy_block(pinned, row, entry)
            else:
                missing.append((record, row, entry))
        later = [manifest.blocks[b] for b in following]
        reader.expect(
            [record for record, _, _ in missing]
            + [record for record in later if pins is None or record.name not in pins]
        )
        jobs = [pool.submit(self._load_block, reader, manifest, *job, pins) for job in missing]
        try:
            wait(jobs)  # for all of them, also where one fails
        except BaseException:  # an interrupt: they may wait for a server that is silent
            reader.stop()
            raise
        for job in jobs:
            job.result()
        n, nnz = int(starts[-1]), int(entries[-1])
        return Group(
            blocks=tuple(blocks),
            first=manifest.first_positions[list(blocks)],
            starts=starts,
            indptr=self._indptr[: n + 1],
            indices=self._indices[:nnz],
            values=self._values[:nnz],
            labels=self._labels[:n],
            sq_norm=self._sq_norm[:n],
            row_numbers=self._row_numbers[:n],
            bytes_read=sum(record.bytes for record, _, _ in missing),
            weights=self._weights[:n] if manifest.weighted else None,
        )

    def _block_at(self, record: BlockRecord, row: int, entry: int) -> _Pinned:
        rows, entries = slice(row, row + record.rows), slice(entry, entry + record.nnz)
        return _Pinned(
            self._indptr[row + 1 : rows.stop + 1] - entry,
            self._indices[entries],
            self._values[entries],
            self._labels[rows],
            self._sq_norm[rows],
            self._row_numbers[rows],
            self._weights[rows],
        )

    def _copy_block(self, pinned: _Pinned, row: int, entry: int) -> None:
        rows = slice(row, row + len(pinned.labels))
        entries = slice(entry, entry + len(pinned.indices))
        self._indptr[row + 1 : rows.stop + 1] = pinned.ends + entry
        self._indices[entries] = pinned.indices
        self._values[entries] = pinned.values
        self._labels[rows] = pinned.labels
        self._sq_norm[rows] = pinned.sq_norm
        self._row_numbers[rows] = pinned.row_numbers
        self._weights[rows] = pinned.weights

    def _load_block(
        self,
        reader: BlockReader,
        manifest: Manifest,
        record: BlockRecord,
        row: int,
        entry: int,
        pins: Pins | None,
    ) -> None:
        with reader.block(record) as block:
            self._decode(block, manifest, row, entry)
        if pins is not None:
            pins.offer(record.name, self._block_at(record, row, entry))

    def _decode(self, block: BlockFile, manifest: Manifest, row: int, entry: int) -> None:
        normalized = manifest.normalize == "l2"
        for chunk in block.chunks():
            rows = slice(row, row + chunk.rows)
            entries = slice(entry, entry + chunk.nnz)
            buffers = codec.DecodeBuffers(
                entry,
                self._indptr[row + 1 : row + 1 + chunk.rows],
                self._indices[entries],
                self._values[entries],
                self._labels[rows],
                self._sq_norm[rows],
                self._row_numbers[rows],
                self._weights[rows],
            )
            with codec.decoding(block.damaged):
                codec.decode(
                    chunk.data, buffers, manifest.n_features, manifest.column_base, normalized
                )
            numbers = buffers.row_numbers  # not negative, and they increase
            if chunk.rows and numbers[-1] >= manifest.next_row:
                raise block.damaged(f"a row number is not below {manifest.next_row}")
            row, entry = rows.stop, entries.stop


def iter_csr(
    folder: Path, manifest: Manifest, features: NDArray[np.uint32] | None, rows: int
) -> Iterator[tuple[Any, NDArray[Any], NDArray[np.float64] | None]]:
    """Yield the rows of the store in `folder`, see `BlockStore.iter_csr`.

    `features` are the indices of features as written, by their numbers in the store, if these are
    others.
    """
    from scipy.sparse import csr_array, vstack  # late: `info` does without SciPy

    given, as_written = manifest.given, replace(manifest, normalize="none")
    waiting: list[tuple[Any, NDArray[np.float64], NDArray[np.float64] | None]] = []
    n_waiting = 0

    def taken() -> tuple[Any, NDArray[Any], NDArray[np.float64] | None]:
        X = waiting[0][0] if len(waiting) == 1 else vstack([part[0] for part in waiting], "csr")
        y = np.concatenate([part[1] for part in waiting])
        weights = None
        if manifest.weighted:
            weights = np.concatenate([part[2] for part in waiting if part[2] is not None])
        waiting.clear()
        return X, as_given(y, given), weights

    with BlockReader(folder / "blocks", 1) as reader, ThreadPoolExecutor(1) as pool:
        for position, record in enumerate(manifest.blocks):
            buffer = GroupBuffer(record.rows, record.nnz, "float64", manifest.weighted)
            following = range(position + 1, len(manifest.blocks))[:1]
            group = buffer.load(reader, as_written, [position], pool, following=following)
            columns = group.indices
            if features is not None:
                columns = features[columns] - np.uint32(manifest.index_base)
            # scikit-learn's liblinear and SGD take no int64, which SciPy makes of both if one is
            fits = max(manifest.dimension - 1, record.nnz) < 1 << 31
            kind = np.int32 if fits else np.int64
            X = csr_array(
                (group.values, columns.astype(kind), group.indptr.astype(kind)),
                shape=(group.n_rows, manifest.dimension),
            )
            X.sort_indices()
            start = 0
            while start < group.n_rows:
                part = slice(start, min(start + rows - n_waiting, group.n_rows))
                own = X if part == slice(0, group.n_rows) else X[part]  # which copies
                weights = None if group.weights is None else group.weights[part]
                waiting.append((own, group.labels[part], weights))
                n_waiting, start = n_waiting + part.stop - start, part.stop
                if n_waiting == rows:
                    yield taken()
                    n_waiting = 0
        if n_waiting:
            yield taken()


@dataclass(frozen=True)
class RowView:
    """Some rows of a store."""

    positions: NDArray[np.int64]  # int64[n]: in the store, block after block
    # int64[n]: where the entries of a row begin in `indices` and `values`
    starts: NDArray[np.int64]
    stops: NDArray[np.int64]  # int64[n]: where they end
    sq_norm: NDArray[np.float64]  # float64[n]
    labels: NDArray[np.float64]  # float64[n]
    indices: NDArray[np.uint32]  # uint32[]
    values: NDArray[np.floating]  # float64[] or float32[]
    weights: NDArray[np.float64] | None = None  # float64[n]

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """What kernels take of rows: starts, stops, indices, values and x_i' x_i."""
        return self.starts, self.stops, self.indices, self.values, self.sq_norm

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Entries of each row, int64[n]."""
        return self.stops - self.starts

    def entries(self, which: NDArray[np.int64]) -> int:
        """Return how many entries some of the rows have."""
        return int((self.stops[which] - self.starts[which]).sum())

    def some(self, which: NDArray[np.bool_] | NDArray[np.int64] | slice) -> "RowView":
        """Return some of the rows."""
        weights = None if self.weights is None else self.weights[which]
        return RowView(
            self.positions[which], self.starts[which], self.stops[which], self.sq_norm[which],
            self.labels[which], self.indices, self.values, weights,
        )  # fmt: skip


def rows_without_entries(
    labels: NDArray[np.float64], weights: NDArray[np.float64] | None
) -> RowView:
    """Return all rows of a store, of which no more is known: x_i' x_i are no numbers."""
    none, unknown = np.zeros(len(labels), np.int64), np.full(len(labels), np.nan)
    entries = np.zeros(0, np.uint32), np.zeros(0)
    return RowView(np.arange(len(labels)), none, none, unknown, labels, *entries, weights)
