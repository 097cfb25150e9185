"""The column store of a store: open it, read its columns."""

import contextlib
import hashlib
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from blocklinear.columns.manifest import FOLDER, NORMS, RENEW, ColumnManifest, read_file
from blocklinear.errors import BlocklinearError, DamagedError, UsageError, storage_errors
from blocklinear.events import BlockProgress, Listener, ignore
from blocklinear.kernels.blocks import codec as kernels
from blocklinear.kernels.blocks import scaling
from blocklinear.numerals import counted
from blocklinear.store import codec
from blocklinear.store.blocks import check_chunk, damaged, opened_block, read_part, read_table
from blocklinear.store.records import ColumnRecord
from blocklinear.store.store import BlockStore

Wanted = NDArray[np.bool_] | NDArray[np.integer] | None
"""Features that are asked for: bool[n_features], or their numbers in any order; None for all."""


@dataclass(frozen=True)
class ColumnBlock:
    """Columns in memory, in the order of their feature numbers within a block.

    Attributes
    ----------
    blocks : tuple[int, ...]  positions of the blocks in the column store
    features : uint32[n]      feature numbers, as in blocks of rows
    starts : int64[n + 1]     where the entries of each column begin
    rows : uint32[nnz]        places of rows, increasing in each column: counted from 0 through the
                              blocks of the store in the order of its manifest, and within a block
                              as they lie there (see `Manifest.first_positions`)
    values : float64[nnz] or float32[nnz]       as in a `Group`
    sq_norm : float64[n]      sum of the squares of each column
    bytes_read : int          from disk
    """

    blocks: tuple[int, ...]
    features: NDArray[np.uint32]
    starts: NDArray[np.int64]
    rows: NDArray[np.uint32]
    values: NDArray[np.floating]
    sq_norm: NDArray[np.float64]
    bytes_read: int

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return len(self.features)


class ColumnStore:
    """The columns of a store, opened for reading.

    Attributes
    ----------
    folder : Path
    manifest : ColumnManifest
    """

    def __init__(self, folder: Path, manifest: ColumnManifest) -> None:
        self.folder, self.manifest = folder, manifest
        self._tables: dict[int, _ChunkTable] = {}
        self._scale: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None

    def __repr__(self) -> str:
        size = (
            f"{counted(self.n_features, 'feature')}, {counted(self.n_rows, 'row')}, "
            f"{counted(len(self.blocks), 'block')}"
        )
        return f"ColumnStore({str(self.folder)!r}: {size})"

    @property
    def n_rows(self) -> int:
        """Rows of the store."""
        return self.manifest.n_rows

    @property
    def n_features(self) -> int:
        """Feature numbers of the store: columns."""
        return self.manifest.n_features

    @property
    def blocks(self) -> list[ColumnRecord]:
        """The files of columns."""
        return self.manifest.blocks

    @property
    def bytes(self) -> int:
        """Of all files on disk, but for the manifest."""
        return self.manifest.total_bytes

    def summary(self) -> str:
        """Return the columns as a sentence."""
        return self.manifest.summary()

    def read(self, block: int, wanted: Wanted = None) -> ColumnBlock:
        """Read the columns of a block into memory of their own.

        Parameters
        ----------
        block : int
        wanted : bool[n_features] or integer[any] or None
            Features; chunks that have none of them are neither read nor decoded. Columns next to
            these may be returned, too.

        Raises
        ------
        DamagedError
            If a file is not what was written.
        StorageError
            If it cannot be read.
        """
        selection = self.select([block], wanted)
        with ThreadPoolExecutor(1) as pool:
            return ColumnBuffer(self, selection.features, selection.nnz).load(selection, pool)

    def select(self, blocks: Sequence[int], wanted: Wanted = None) -> "Selection":
        """Return which chunks of some blocks have features that are asked for.

        Raises
        ------
        As `read` does.
        """
        marked = None if wanted is None else self._marked(wanted)
        return Selection([self._chosen(block, marked) for block in blocks])

    def _marked(self, wanted: NDArray[np.bool_] | NDArray[np.integer]) -> NDArray[np.bool_]:
        """Return, of each feature, whether it is wanted."""
        if wanted.dtype == np.bool_:
            if len(wanted) != self.n_features:
                features = counted(self.n_features, "feature")
                raise UsageError(f"{features}, but {len(wanted)} marks of them")
            return wanted.astype(np.bool_, copy=False)
        if len(wanted) and not 0 <= wanted.min() <= wanted.max() < self.n_features:
            raise UsageError(f"a feature is not below {self.n_features}")
        marked = np.zeros(self.n_features, np.bool_)
        marked[wanted.astype(np.int64)] = True
        return marked

    def _chosen(self, block: int, wanted: NDArray[np.bool_] | None) -> "_Chosen":
        table = self._table(block)
        if wanted is None:
            return _Chosen(block, table, np.arange(len(table.entries)))
        record = self.blocks[block]
        has_wanted = np.logical_or.reduceat(
            wanted[record.first : record.stop], table.starts[:-1] - record.first
        )
        return _Chosen(block, table, np.flatnonzero(has_wanted))

    def _table(self, block: int) -> "_ChunkTable":
        if block not in self._tables:
            record = self.blocks[block]
            entries = read_table(self.folder / record.name, record)
            if not len(entries) or not entries["rows"].all():
                raise self._damaged(record, "it has a chunk without features")
            ends = np.cumsum(entries["rows"], dtype=np.int64) + record.first
            self._tables[block] = _ChunkTable(entries, np.concatenate(([record.first], ends)))
        return self._tables[block]

    def _damaged(self, record: ColumnRecord, what: str) -> DamagedError:
        return DamagedError(f"{self.folder / record.name}: damaged: {what}", RENEW)

    @property
    def scale(self) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """What values of each row are divided by: units, then norms, float64[n_rows]; or None.

        Raises
        ------
        DamagedError, StorageError
        """
        m, path = self.manifest, self.folder / NORMS
        if m.norms is None:
            return None
        if self._scale is None:
            with storage_errors(path, "read"):
                try:
                    content = read_file(path, m.norms_bytes)
                except FileNotFoundError as error:
                    raise DamagedError(f"{path}: is missing", RENEW) from error
            if hashlib.sha256(content).hexdigest() != m.norms:
                raise DamagedError(f"{path}: damaged: its checksum does not match", RENEW)
            numbers = np.frombuffer(content, "<f8")
            if len(numbers) != 2 * m.n_rows or not (numbers > 0.0).all():
                raise DamagedError(f"{path}: damaged: a norm is impossible", RENEW)
            self._scale = numbers[: m.n_rows], numbers[m.n_rows :]
        return self._scale

    def verify(self, listener: Listener = ignore) -> list[str]:
        """Read and decode every column; return what is wrong, a sentence each."""
        faults = []
        try:
            _ = self.scale
        except BlocklinearError as error:
            faults.append(str(error))
        for position in range(len(self.blocks)) if not faults else ():
            listener(BlockProgress(position, len(self.blocks)))
            try:
                self.read(position)
            except BlocklinearError as error:
                faults.append(str(error))
        return faults


@dataclass(frozen=True)
class _ChunkTable:
    """The chunk table of a file, and the first feature of each chunk, and the one after all."""

    entries: NDArray[np.void]
    starts: NDArray[np.int64]


@dataclass(frozen=True)
class _Chosen:
    """Chunks of one file."""

    block: int
    table: _ChunkTable
    chunks: NDArray[np.int64]

    def runs(self) -> Iterator[NDArray[np.int64]]:
        """Yield them in runs that lie next to each other in the file."""
        if len(self.chunks):
            yield from np.split(self.chunks, np.flatnonzero(np.diff(self.chunks) > 1) + 1)


class Selection:
    """Chunks of some files that are to be read.

    Attributes
    ----------
    parts : list
    features, nnz, bytes : int          of these chunks
    """

    def __init__(self, parts: "list[_Chosen]") -> None:
        self.parts = parts
        self.features = self._total("rows")
        self.nnz = self._total("nnz")
        self.bytes = self._total("bytes")

    def _total(self, name: str) -> int:
        return sum(
            int(part.table.entries[name][part.chunks].sum(dtype=np.int64)) for part in self.parts
        )


class ColumnBuffer:
    """Memory for at most `features` columns with `nnz` entries."""

    def __init__(self, columns: ColumnStore, features: int, nnz: int) -> None:
        self._columns = columns
        self._features = np.empty(features, np.uint32)
        self._starts = np.zeros(features + 1, np.int64)
        self._rows = np.empty(nnz, np.uint32)
        self._values = np.empty(nnz, columns.manifest.dtype)
        self._sq_norm = np.empty(features)

    def load(self, selection: Selection, pool: Executor) -> ColumnBlock:
        """Read, check and decode chunks into this memory; `pool` loads several at a time.

        DamagedError is raised if a file is not what was written; StorageError if it cannot be read.
        """
        jobs, column, entry = [], 0, 0
        scale = self._columns.scale
        for part in selection.parts:
            for run in part.runs():
                jobs.append(pool.submit(self._load_run, part, run, column, entry, scale))
                column += int(part.table.entries["rows"][run].sum(dtype=np.int64))
                entry += int(part.table.entries["nnz"][run].sum(dtype=np.int64))
        try:
            for job in jobs:
                job.result()
        finally:
            for job in jobs:
                job.cancel()
        return ColumnBlock(
            blocks=tuple(part.block for part in selection.parts),
            features=self._features[:column],
            starts=self._starts[: column + 1],
            rows=self._rows[:entry],
            values=self._values[:entry],
            sq_norm=self._sq_norm[:column],
            bytes_read=selection.bytes,
        )

    def _load_run(
        self,
        part: _Chosen,
        run: NDArray[np.int64],
        column: int,
        entry: int,
        scale: tuple[NDArray[np.float64], NDArray[np.float64]] | None,
    ) -> None:
        """Read chunks that lie next to each other, and decode them one after the other."""
        record, entries = self._columns.blocks[part.block], part.table.entries[run]
        path = self._columns.folder / record.name
        begin, size = int(entries["offset"][0]), int(entries["bytes"].sum(dtype=np.int64))
        with opened_block(path, record) as descriptor:
            data = read_part(descriptor, path, begin, size, bytearray(size))
        firsts = part.table.starts[run].tolist()
        for first, (offset, size, n, nnz, checksum) in zip(firsts, entries.tolist(), strict=True):
            chunk = data[offset - begin : offset - begin + size]
            check_chunk(path, offset, chunk, checksum)
            columns, inside = slice(column, column + n), slice(entry, entry + nnz)
            buffers = codec.DecodeBuffers(
                entry,
                self._starts[column + 1 : column + 1 + n],
                self._rows[inside],
                self._values[inside],
                np.empty(n),
                self._sq_norm[columns],
                np.empty(n, np.int64),
            )
            with codec.decoding(partial(damaged, path)):
                codec.decode(chunk, buffers, self._columns.n_rows, 0)
            numbers = buffers.row_numbers
            if (numbers[0], numbers[-1]) != (first, first + n - 1):  # they increase
                raise damaged(path, "a chunk has other features than its place")
            self._features[columns] = numbers
            if scale is not None:
                lengths = np.diff(buffers.indptr, prepend=entry)
                scaling.divide(buffers.indices, *scale, buffers.values)
                kernels.square_norms(lengths, buffers.values, buffers.sq_norm)
            column, entry = columns.stop, inside.stop


def open_columns(store: BlockStore) -> ColumnStore | None:
    """Open the column store of a store; None if there is none, or it is of other rows.

    DamagedError is raised if its manifest is damaged. Raises StorageError, too.
    """
    manifest = ColumnManifest.load(store.folder, store.manifest)
    return None if manifest is None else ColumnStore(store.folder / FOLDER, manifest)


def intact_columns(store: BlockStore) -> ColumnStore | None:
    """Open the column store of a store; None if there is none, or its manifest is damaged."""
    with contextlib.suppress(DamagedError):
        return open_columns(store)
    return None
