"""Blocks in memory: groups decoded side by side into buffers that are reused."""

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from blocklinear.errors import DamagedError
from blocklinear.store import codec
from blocklinear.store.blocks import BlockFile
from blocklinear.store.manifest import BlockRecord, Manifest


@dataclass(frozen=True)
class Group:
    """Blocks loaded for one visit, side by side.

    Attributes
    ----------
    blocks : tuple[int, ...]  positions of the blocks in the manifest
    starts : int64[g + 1]     first row of each block in the arrays
    indptr : int64[n_rows + 1]
    indices : uint32[nnz]     columns, each < n_features (checked)
    values : float64[nnz] or float32[nnz]
    labels, sq_norm : float64[n_rows]   label as written; x_i' x_i
    row_numbers : int64[n_rows]         number of the row in the store
    bytes_read : int          from disk
    """

    blocks: tuple[int, ...]
    starts: NDArray[np.int64]
    indptr: NDArray[np.int64]
    indices: NDArray[np.uint32]
    values: NDArray[np.floating]
    labels: NDArray[np.float64]
    sq_norm: NDArray[np.float64]
    row_numbers: NDArray[np.int64]
    bytes_read: int

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.labels)


class GroupBuffer:
    """Memory for one group of at most `rows` rows and `nnz` entries."""

    def __init__(self, rows: int, nnz: int, dtype: str) -> None:
        self._indptr = np.zeros(rows + 1, np.int64)
        self._indices = np.empty(nnz, np.uint32)
        self._values = np.empty(nnz, dtype)
        self._labels, self._sq_norm = np.empty(rows), np.empty(rows)
        self._row_numbers = np.empty(rows, np.int64)

    def load(
        self, folder: Path, manifest: Manifest, blocks: Sequence[int], pool: Executor
    ) -> Group:
        """Read, check and decode `blocks` (positions in the manifest) into this memory.

        Raises
        ------
        DamagedError
            If a block is not what was written.
        StorageError
            If it cannot be read.
        """
        records = [manifest.blocks[b] for b in blocks]
        starts = np.concatenate(([0], np.cumsum([record.rows for record in records])))
        entries = np.concatenate(([0], np.cumsum([record.nnz for record in records])))
        jobs = [
            pool.submit(self._load_block, folder, manifest, record, int(row), int(entry))
            for record, row, entry in zip(records, starts, entries, strict=False)
        ]
        for job in jobs:
            job.result()
        n, nnz = int(starts[-1]), int(entries[-1])
        return Group(
            blocks=tuple(blocks),
            starts=starts,
            indptr=self._indptr[: n + 1],
            indices=self._indices[:nnz],
            values=self._values[:nnz],
            labels=self._labels[:n],
            sq_norm=self._sq_norm[:n],
            row_numbers=self._row_numbers[:n],
            bytes_read=sum(record.bytes for record in records),
        )

    def _load_block(
        self, folder: Path, manifest: Manifest, record: BlockRecord, row: int, entry: int
    ) -> None:
        block = BlockFile(folder, record)
        compressed = manifest.compression != "none"
        for chunk in block.chunks():
            rows = slice(row, row + chunk.rows)
            entries = slice(entry, entry + chunk.nnz)
            target = codec.Target(
                entry,
                self._indptr[row + 1 : row + 1 + chunk.rows],
                self._indices[entries],
                self._values[entries],
                self._labels[rows],
                self._sq_norm[rows],
                self._row_numbers[rows],
            )
            try:
                codec.decode(
                    chunk.data, target, manifest.n_features, manifest.index_base, compressed
                )
            except (DamagedError, ValueError, *codec.DECODING_ERRORS) as error:
                raise block.damaged(str(error)) from error
            row, entry = rows.stop, entries.stop
