"""Small blocks made into larger ones, without the text they came from.

A merged block holds the rows of whole blocks one after the other, so that what is known of a row by
its place in a block can follow it (see `Manifest.moved`). Numbers are decoded and encoded again;
each stays the same to the last bit.
"""

import contextlib
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklinear.errors import UsageError, WrongTypeError
from blocklinear.events import BlockProgress, Listener, ignore
from blocklinear.ingest.writer import CHUNK_ENTRIES, MIN_BLOCK_BYTES, decoded_bytes
from blocklinear.options import check_batch_name
from blocklinear.store import codec
from blocklinear.store.blocks import BlockFile, BlockWriter, StoredChunk
from blocklinear.store.changes import (
    AnyStore,
    changing,
    check_batches,
    commit,
    new_blocks,
    skipped_name,
)
from blocklinear.store.files import atomic_write, opened, remove_files, sync_directory
from blocklinear.store.manifest import Manifest
from blocklinear.store.records import BlockRecord
from blocklinear.store.store import BlockStore
from blocklinear.store.weight_stats import together


def usual_bytes(blocks: Iterable[BlockRecord]) -> int:
    """Return the size, decoded, of the block that half of the data lie in smaller ones than.

    It is 1 MiB at least. Many small blocks that hold little do not matter.
    """
    sizes = sorted(decoded_bytes(block.rows, block.nnz) for block in blocks)
    below = np.cumsum(sizes)
    return max(MIN_BLOCK_BYTES, sizes[int(np.searchsorted(below, below[-1] / 2))])


def bins(blocks: Sequence[BlockRecord], block_bytes: float) -> list[list[BlockRecord]]:
    """Return which blocks are to be merged: those below half of `block_bytes`, a batch at a time.

    Each list makes one block of about `block_bytes`; their order is kept.
    """
    merged = []
    for batch in dict.fromkeys(block.batch for block in blocks):
        of_batch = [block for block in blocks if block.batch == batch]
        sizes = [decoded_bytes(block.rows, block.nnz) for block in of_batch]
        small = [k for k, size in enumerate(sizes) if 2 * size < block_bytes]
        total = sum(sizes[k] for k in small)
        n_bins = max(1, round(total / block_bytes))
        ends = np.cumsum([sizes[k] for k in small]) - [sizes[k] / 2 for k in small]
        number = np.minimum(ends * n_bins // max(total, 1), n_bins - 1).tolist()
        for _, chosen in groupby(zip(number, small, strict=True), lambda pair: pair[0]):
            together = [of_batch[k] for _, k in chosen]
            if len(together) > 1:
                merged.append(together)
    return merged


def compact(
    store: AnyStore,
    block_bytes: int | None = None,
    merge_batches: tuple[str, str | Sequence[str]] | None = None,
    listener: Listener = ignore,
) -> BlockStore:
    """Merge the small blocks of each batch of a store.

    The old files stay until `collect_garbage`. Rows keep their numbers.

    Parameters
    ----------
    store : BlockStore or path
    block_bytes : int or None
        Decoded size of the blocks to make; blocks of less than half of it are small. None takes the
        size of the blocks that hold most of the data, at least 1 MiB.
    merge_batches : (str, str or sequence of str) or None
        A name, and the batches to merge into one batch of that name first.
    listener : callable
        Called with a `BlockProgress` event before the blocks that become one are read.

    Raises
    ------
    WrongTypeError
        If `block_bytes` or `merge_batches` is something else.
    UsageError
        If a batch is not in the store, or the new name is that of another batch.
    DamagedError
        If a block is damaged.
    BusyError
        If another process writes to the store or trains on it.
    StorageError
    """
    if block_bytes is not None and (type(block_bytes) is not int or block_bytes < 1):
        raise WrongTypeError(
            f"block_bytes is {block_bytes!r}, but must be a number of bytes", "write 1 << 24"
        )
    merged = None if merge_batches is None else _merge(merge_batches)
    with changing(store) as old:
        m = old.manifest if merged is None else _one_batch(old.manifest, *merged)
        wanted = bins(m.blocks, block_bytes or usual_bytes(m.blocks))
        if not wanted and m is old.manifest:
            return old
        with new_blocks(old) as first:
            new: list[BlockRecord] = []
            done, total = 0, sum(map(len, wanted))
            for together in wanted:
                listener(BlockProgress(done, total))
                new.append(merge(old.blocks_folder, together, m, first + len(new)))
                done += len(together)
            sync_directory(old.blocks_folder)
            with contextlib.nullcontext() if merged is None else _skipped_joined(old, *merged):
                return commit(
                    old,
                    batches=m.batches,
                    blocks=_replaced(m.blocks, wanted, new),
                    moved=_moved(m, wanted, new),
                    next_block=max(m.next_block, first + len(new)),
                )


def _merge(given: object) -> tuple[str, list[str]]:
    """Return the name of a batch to be, and those of the batches to merge into it."""
    if isinstance(given, tuple | list) and len(given) == 2:
        name, parts = given
        parts = [parts] if isinstance(parts, str) else parts
        named = isinstance(parts, Sequence) and all(isinstance(n, str) for n in [name, *parts])
        if named and parts:
            return name, list(parts)
    raise WrongTypeError(
        f"merge_batches is {given!r}, but must be a name, and those of the batches to merge",
        'write ("new", ["first", "second"])',
    )


@contextlib.contextmanager
def _skipped_joined(store: BlockStore, name: str, parts: Sequence[str]) -> Iterator[None]:
    """Join the lists of refused lines of batches into that of the batch which they become.

    It is written before that is committed in the block, and counts after it.
    """
    batches = [batch["name"] for batch in store.manifest.batches if batch["name"] in parts]
    lists = [store.folder / skipped_name(batch) for batch in batches]
    lists, joined = [path for path in lists if path.exists()], store.folder / skipped_name(name)
    if not lists:
        yield
        remove_files([joined])  # of a batch of that name that was removed
        return
    with atomic_write(joined) as stream:
        for path in lists:
            with opened(path) as part:
                shutil.copyfileobj(part, stream)
        stream.flush()
        yield


def _one_batch(manifest: Manifest, name: str, parts: Sequence[str]) -> Manifest:
    """Return the manifest with one batch in place of several; it is as old as the newest."""
    check_batch_name(name)
    check_batches(manifest, parts)
    if name not in parts and any(batch["name"] == name for batch in manifest.batches):
        raise UsageError(f"there is a batch {name} already", "choose another name")
    chosen = [batch for batch in manifest.batches if batch["name"] in parts]
    one: dict[str, Any] = {
        "name": name,
        "date": max(batch["date"] for batch in chosen),
        "rows": sum(batch["rows"] for batch in chosen),
        "sources": [source for batch in chosen for source in batch["sources"]],
    }
    if manifest.weighted:
        one["weights"] = [file for batch in chosen for file in batch["weights"]]
    batches = [one if b is chosen[0] else b for b in manifest.batches if b not in chosen[1:]]
    blocks = [replace(b, batch=name) if b.batch in parts else b for b in manifest.blocks]
    return replace(manifest, batches=batches, blocks=blocks)


def _replaced(
    blocks: Sequence[BlockRecord], merged: list[list[BlockRecord]], new: list[BlockRecord]
) -> list[BlockRecord]:
    """Return `blocks` with each new one in place of the first of those it was made of."""
    place = {part[0].name: block for part, block in zip(merged, new, strict=True)}
    gone = {block.name for part in merged for block in part}
    return [place.get(b.name, b) for b in blocks if b.name in place or b.name not in gone]


def _moved(
    manifest: Manifest, merged: list[list[BlockRecord]], new: list[BlockRecord]
) -> dict[str, list[Any]]:
    """Return where the rows of blocks that are no more went, those of earlier merges included."""
    step: dict[str, list[Any]] = {}
    for part, block in zip(merged, new, strict=True):
        row = 0
        for old in part:
            step[old.name] = [block.name, row]
            row += old.rows
    moved = dict(manifest.moved)
    for old_name, (name, first) in manifest.moved.items():
        if name in step:
            moved[old_name] = [step[name][0], step[name][1] + first]
    return moved | step


def merge(
    folder: Path,
    records: Sequence[BlockRecord],
    manifest: Manifest,
    number: int,
) -> BlockRecord:
    """Write the rows of several blocks of one batch to block `number`, durably.

    DamagedError is raised if a block is not what was written.

    Parameters
    ----------
    folder : Path             of the blocks
    manifest : Manifest       says how blocks are decoded and compressed
    """
    writer = BlockWriter(folder, number)
    level = codec.compression_level(manifest.compression)
    rows = _CsrRows.joined([read_block(BlockFile(folder, record), manifest) for record in records])
    for chunk in rows.chunks():
        nnz = len(chunk.indices)
        writer.append(codec.encode_parts(chunk, level), len(chunk.lengths), nnz, -1)
    record = writer.finish(records[0].batch)
    counts = zip(*(block.label_counts for block in records), strict=True)
    return replace(
        record,
        max_index=max(block.max_index for block in records),
        label_counts=[sum(column) for column in counts],
        weights=together(block.weights for block in records),
    )


@dataclass(frozen=True)
class _CsrRows:
    """Rows of a block, decoded: indices as in the block, values and labels as doubles.

    There are no weights where rows have none.
    """

    numbers: NDArray[np.int64]
    indptr: NDArray[np.int64]
    labels: NDArray[np.float64]
    indices: NDArray[np.uint32]
    values: NDArray[np.float64]
    weights: NDArray[np.float64]

    @classmethod
    def joined(cls, parts: "Sequence[_CsrRows]") -> "_CsrRows":
        starts = np.cumsum([0] + [len(part.indices) for part in parts])
        ends = [part.indptr[1:] + start for part, start in zip(parts, starts[:-1], strict=True)]
        return cls(
            np.concatenate([part.numbers for part in parts]),
            np.concatenate([np.zeros(1, np.int64), *ends]),
            np.concatenate([part.labels for part in parts]),
            np.concatenate([part.indices for part in parts]),
            np.concatenate([part.values for part in parts]),
            np.concatenate([part.weights for part in parts]),
        )

    def chunks(self) -> Iterable[codec.Chunk]:
        """Yield chunks of the usual length; row numbers increase within each, as they must."""
        first, n = 0, len(self.numbers)
        falls = np.flatnonzero(np.diff(self.numbers) <= 0) + 1
        while first < n:
            full = np.searchsorted(self.indptr, self.indptr[first] + CHUNK_ENTRIES, "right") - 1
            fall = falls[np.searchsorted(falls, first, "right") :][:1]
            stop = min([max(int(full), first + 1), first + CHUNK_ENTRIES, n, *fall.tolist()])
            yield self._chunk(first, stop)
            first = stop

    def _chunk(self, first: int, stop: int) -> codec.Chunk:
        entries = slice(int(self.indptr[first]), int(self.indptr[stop]))
        labels, values = self.labels[first:stop], self.values[entries]
        return codec.Chunk(
            self.numbers[first:stop].copy(),
            np.diff(self.indptr[first : stop + 1]),
            *codec.decimals(labels),
            self.indices[entries].copy(),
            *codec.decimals(values),
            self.weights[first:stop] if len(self.weights) else None,
        )


def read_block(block: BlockFile, manifest: Manifest) -> _CsrRows:
    """Decode a block, as `decoded_rows` does."""
    block.check_digest()
    return _CsrRows.joined(
        [decoded_rows(block, chunk, manifest) for chunk in block.chunks()] or [_none()]
    )


def _none() -> _CsrRows:
    none, integers = np.zeros(0), np.zeros(0, np.int64)
    return _CsrRows(integers, np.zeros(1, np.int64), none, none.astype(np.uint32), none, none)


def decoded_rows(block: BlockFile, chunk: StoredChunk, manifest: Manifest) -> _CsrRows:
    """Decode a chunk with its values as written, whatever training makes of them."""
    n, nnz, base = chunk.rows, chunk.nnz, manifest.column_base
    rows = _CsrRows(
        np.empty(n, np.int64), np.zeros(n + 1, np.int64), np.empty(n),
        np.empty(nnz, np.uint32), np.empty(nnz), np.empty(n if manifest.weighted else 0),
    )  # fmt: skip
    buffers = codec.DecodeBuffers(
        0, rows.indptr[1:], rows.indices, rows.values, rows.labels, np.empty(n), rows.numbers,
        rows.weights,
    )  # fmt: skip
    with codec.decoding(block.damaged):
        codec.decode(chunk.data, buffers, manifest.n_features, base)
    np.add(rows.indices, np.uint32(base), out=rows.indices)
    return rows
