"""Alpha of a run on a cluster: what it was before a round, and what each part made of it.

A part writes one file a round, in a pass of Newton's method the center as alpha before, and if no
model evaluates a point none; the alpha that a run starts warm from is there likewise, as that of
a round before the first. The step along the change is known only when all parts have ended, so that
readers take it: nothing has to be written twice, and a part that is worked on again, on another
worker, writes the same bits. A model that is trained no more has its alpha in the files of
the last round that it was trained in, which are kept.

A file has int64 numbers: a mark, the number of the round's files, that of the part, its blocks, the
columns of alpha; then of each block its rows and the CRC-32 of its alpha before and after; then the
CRC-32 of all these. The alpha of each block follows, before and after, float64[rows, columns] each.
"""

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from io import BufferedReader
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklinear.errors import storage_errors
from blocklinear.store.files import atomic_write
from blocklinear.training.checkpoint import Checkpoint, damaged
from blocklinear.training.permutations import block_order
from blocklinear.training.rounds.files import opened_late

Floats = NDArray[np.float64]
Blocks = tuple[int, ...]
_MARK = int.from_bytes(b"BLalpha1", "little")


@lru_cache(maxsize=8)
def parts_of_round(seed: int, outer: int, n_blocks: int, n_parts: int) -> tuple[Blocks, ...]:
    """Return the blocks of each part in a round, from 1, whose numbers differ by at most one.

    Parts that stay the same stall: each solves its own rows and forgets what all have in common
    (25,000 film reviews in 4 parts: a gap of 6e-3 after 60 rounds, and 1e-3 after 48 where parts
    are drawn anew).
    """
    if n_parts == 1:  # a worker that holds all of them need not load them again
        return (tuple(range(n_blocks)),)
    order = block_order(seed, outer, n_blocks)
    return tuple(tuple(part.tolist()) for part in np.array_split(order, n_parts))


@dataclass(frozen=True)
class RoundAlpha:
    """Alpha before and after a round, in a file of each part.

    Files have the number of the round. If the run started from the alpha of an earlier one, a
    number above those of all its files is added.
    """

    folder: Path  # of the run
    number: int  # of the files
    parts: Sequence[Blocks]  # the blocks of each
    rows: Sequence[int]  # of each block
    models: Sequence[int]  # those trained, in the order of columns

    def _path(self, part: int) -> Path:
        return self.folder / f"alpha.{self.number}.{part}"

    def _head(self, part: int) -> list[int]:
        """Return the numbers before those of blocks."""
        return [_MARK, self.number, part, len(self.parts[part]), len(self.models)]

    def write(self, part: int, before: Floats, after: Floats) -> None:
        """Write alpha of the rows of a part, block by block, float64[n_rows, n_models] both."""
        ends = np.cumsum([self.rows[block] for block in self.parts[part]])[:-1]
        blocks = list(zip(np.split(before, ends), np.split(after, ends), strict=True))
        crcs = [[len(old), _crc(old), _crc(new)] for old, new in blocks]
        table = np.concatenate((self._head(part), *crcs), dtype=np.int64)
        with atomic_write(self._path(part)) as stream:
            for array in (table, np.array([_crc(table)], np.int64), *chain(*blocks)):
                stream.write(array.data)

    def of_blocks(self, blocks: Sequence[int], steps: Floats) -> list[Floats]:
        """Return alpha of blocks after `steps` along its change, float64[rows, n_models] each.

        Errors are those of `pairs`.
        """
        return [stepped(old, new, steps) for old, new in self.pairs(blocks)]

    def pairs(self, blocks: Sequence[int]) -> list[Floats]:
        """Return alpha of blocks before and after, float64[2, rows, n_models] each.

        DamagedError is raised if a file is not what was written, StorageError if it cannot be read.
        """
        found: dict[int, Floats] = {}
        for part, of_part in enumerate(self.parts):
            places = [place for place, block in enumerate(of_part) if block in blocks]
            if places:
                pairs = self._read_alpha(part, places)
                found |= {of_part[place]: pair for place, pair in pairs.items()}
        return [found[block] for block in blocks]

    def _read_alpha(self, part: int, places: Sequence[int]) -> dict[int, Floats]:
        """Return alpha of some blocks of a part, float64[2, rows, n_models], by their places."""
        path, head = self._path(part), self._head(part)
        sizes = [self.rows[block] for block in self.parts[part]]
        with storage_errors(path, "read"), BufferedReader(opened_late(path)) as stream:

            def numbers(n: int) -> Floats:
                """Return the next `n` numbers of the file, writable."""
                array = np.empty(n)
                if stream.readinto(array.data.cast("B")) < array.nbytes:
                    raise damaged(path, "it ends early")
                return array

            n_numbers = len(head) + 3 * len(sizes) + 1
            raw = numbers(n_numbers).view(np.int64)
            blocks = raw[len(head) : -1].reshape(-1, 3)
            if _crc(raw[:-1]) != raw[-1] or raw[: len(head)].tolist() != head:
                raise damaged(path, "it is not of this part of this round")
            if blocks[:, 0].tolist() != sizes:
                raise damaged(path, "it is of other blocks")
            starts, found = np.cumsum([0, *sizes]).tolist(), {}
            for place in places:
                stream.seek(8 * (n_numbers + 2 * starts[place] * len(self.models)))
                shape = 2, sizes[place], len(self.models)
                found[place] = numbers(math.prod(shape)).reshape(shape)
                if [*map(_crc, found[place])] != blocks[place, 1:].tolist():
                    raise damaged(path, "a checksum is wrong")
            return found


def stepped(before: Floats, after: Floats, steps: Floats) -> Floats:
    """Return alpha after a step of each column; one of 0 or 1 leaves no rounding errors."""
    moved: Floats = before + steps * (after - before)
    return np.where(steps == 1.0, after, moved)


class AlphaLeft:
    """Alpha of all models of a run, read block by block; the block read last is kept.

    LookupError or ValueError is raised if the checkpoint is not of a run on a cluster.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        facts = checkpoint.facts or {}
        state, seed = facts["method"], facts["course"]["seed"]
        rows = [rows for _, rows in facts["blocks"]]
        last = checkpoint.mapped("taken").tolist() if state["written"] else []
        self._n_models = len(state["models"])
        self._starts = np.cumsum([0, *rows]).tolist()
        self._rounds: list[tuple[RoundAlpha, Floats]] = []  # with the steps
        for outer, models, steps in (*state["kept"], [facts["outer"], state["written"], last]):
            if len(models) != len(steps) or not set(models) <= set(range(self._n_models)):
                raise ValueError("the steps are not those of the models")
            drawn = min(outer, state.get("stays", outer))
            parts = parts_of_round(seed, drawn, len(rows), state["parts"])
            files = RoundAlpha(checkpoint.folder, state["first"] + outer, parts, rows, models)
            if models:  # or the run has not begun
                self._rounds.append((files, np.array(steps, np.float64)))
        self._held = -1, np.zeros((0, 0))

    def of_rows(self, rows: slice) -> Floats:
        """Return alpha of rows of one block, float64[n, n_models].

        Errors are those of `RoundAlpha.of_blocks`.
        """
        if rows.start == rows.stop:
            return np.zeros((0, self._n_models))
        block = int(np.searchsorted(self._starts, rows.start, "right")) - 1
        start, stop = self._starts[block : block + 2]
        if self._held[0] != block:
            alpha = np.zeros((stop - start, self._n_models))
            for files, steps in self._rounds:  # the last that a model was trained in counts
                alpha[:, files.models] = files.of_blocks([block], steps)[0]
            self._held = block, alpha
        return self._held[1][rows.start - start : rows.stop - start]


def _crc(array: NDArray[Any]) -> int:
    """Return the CRC-32 of an array in C order."""
    return zlib.crc32(array.data)
