"""Columns loaded ahead: the next are read and decoded while the solver works on these."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from blocklinear.columns.store import ColumnBlock, ColumnBuffer, ColumnStore, Selection, Wanted
from blocklinear.store.prefetch import LoaderAhead


@dataclass(frozen=True)
class LoadedColumns:
    """Columns, with the seconds that loading them took and that the caller waited for them."""

    block: ColumnBlock
    load_s: float
    wait_s: float


class ColumnLoader(LoaderAhead[Selection, ColumnBlock]):
    """Loads groups of at most `group` blocks of columns, one ahead of the one in use.

    When one group holds all columns there is one buffer, and nothing is loaded ahead; what is in it
    is not loaded again.

    Parameters
    ----------
    columns : ColumnStore
    group : int
        Blocks in a group at most.
    threads : int
        Threads that read and decode chunks.
    """

    def __init__(self, columns: ColumnStore, group: int, threads: int) -> None:
        self._columns, blocks = columns, columns.blocks
        n_buffers = 1 if group >= len(blocks) else 2
        features = sum(sorted((b.features for b in blocks), reverse=True)[:group])
        nnz = sum(sorted((b.nnz for b in blocks), reverse=True)[:group])
        self._buffers = [ColumnBuffer(columns, features, nnz) for _ in range(n_buffers)]
        super().__init__(n_buffers, threads)

    def _load(self, selection: Selection) -> tuple[ColumnBlock, float]:
        started = time.perf_counter()
        block = self._buffers[self._free].load(selection, self._decoders)
        return block, time.perf_counter() - started

    def stream(
        self,
        groups: Sequence[Sequence[int]],
        wanted: Wanted = None,
        following: Sequence[int] | None = None,
    ) -> Iterator[LoadedColumns]:
        """Yield the columns of each group in turn; they are valid until the next are asked for.

        Where the last stream was left at a group, one that begins with it, and wants the same, does
        not load it again.

        Parameters
        ----------
        groups : sequence of sequence of int
            Positions of blocks in the column store.
        wanted : bool[n_features] or integer[any] or None
            Features, as they are when the stream begins: chunks without any of them are not read.
        following : sequence of int
            The first group of the next stream, which wants the same: to be loaded while the last of
            this one is used.
        """
        selections = [self._columns.select(group, wanted) for group in groups]
        after = None if following is None else self._columns.select(following, wanted)
        for block, load_s, wait_s in self._stream(selections, after):
            yield LoadedColumns(block, load_s, wait_s)


def loading_bytes(columns: ColumnStore, group: int) -> int:
    """Return what a `ColumnLoader` takes in memory, while it reads included."""
    blocks = columns.blocks
    features = sum(sorted((b.features for b in blocks), reverse=True)[:group])
    nnz = sum(sorted((b.nnz for b in blocks), reverse=True)[:group])
    entry_bytes = 4 + (4 if columns.manifest.dtype == "float32" else 8)
    in_buffers = (1 if group >= len(blocks) else 2) * (20 * features + entry_bytes * nnz)
    reading = sum(sorted((b.bytes + 16 * b.features for b in blocks), reverse=True)[:group])
    return in_buffers + reading + columns.manifest.norms_bytes
