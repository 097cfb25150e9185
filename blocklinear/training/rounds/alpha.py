"""Alpha of any rows after a round of a run on a cluster, from the files of its parts.

A model that is trained no more has its alpha in the files of the last round that it was trained in,
which are kept. A round's files have a number: that of the round, after all numbers that an earlier
run left if this one started from its alpha.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from blocklinear.training.checkpoint import Checkpoint
from blocklinear.training.permutations import block_order
from blocklinear.training.rounds.files import AlphaFile

Floats = NDArray[np.float64]
Blocks = tuple[int, ...]


def parts_of_round(seed: int, outer: int, n_blocks: int, n_parts: int) -> list[Blocks]:
    """Return the blocks of each part in a round, whose numbers differ by at most one.

    Parts that stay the same stall: each solves its own rows and forgets what all have in common
    (25,000 film reviews in 4 parts: a gap of 6e-3 after 60 rounds, and 1e-3 after 48 where parts
    are drawn anew).

    Parameters
    ----------
    seed, outer : int
        The parts depend on these alone; `outer` counts from 1.
    n_blocks, n_parts : int
        No more parts than blocks.
    """
    if n_parts == 1:  # a worker that holds all of them need not load them again
        return [tuple(range(n_blocks))]
    order = block_order(seed, outer, n_blocks)
    return [tuple(part.tolist()) for part in np.array_split(order, n_parts)]


@dataclass(frozen=True)
class RoundAlpha:
    """Alpha that the parts of a round have written.

    Attributes
    ----------
    folder : Path             of the run
    number : int              of the files
    parts : sequence of tuples of int   the blocks of each part
    rows : sequence of int    of each block
    models : sequence of int            that were trained, in the order of columns
    steps : float64[n_models]           that were taken along the change of their alpha
    """

    folder: Path
    number: int
    parts: Sequence[Blocks]
    rows: Sequence[int]
    models: Sequence[int]
    steps: Floats

    def of_blocks(self, blocks: Sequence[int]) -> list[Floats]:
        """Return alpha of blocks after the round, float64[rows, n_models] each.

        Raises
        ------
        DamagedError, StorageError
            As `AlphaFile.read` does.
        """
        found: dict[int, Floats] = {}
        for number, of_part in enumerate(self.parts):
            places = [place for place, block in enumerate(of_part) if block in blocks]
            if places:
                sizes = [self.rows[block] for block in of_part]
                file = AlphaFile(self.folder, self.number, number, sizes, len(self.models))
                for place, (before, after) in zip(places, file.read(places), strict=True):
                    found[of_part[place]] = stepped(before, after, self.steps)
        return [found[block] for block in blocks]


def stepped(before: Floats, after: Floats, steps: Floats) -> Floats:
    """Return alpha after a step of each column; one of 0 or 1 leaves no rounding errors."""
    moved: Floats = before + steps * (after - before)
    return np.where(steps == 1.0, after, moved)


class AlphaLeft:
    """Alpha of all models of a run, read block by block; the block read last is kept.

    Raises
    ------
    DamagedError, StorageError
        If the steps that were taken last are not what was written, or cannot be read.
    LookupError, ValueError
        If the checkpoint is not of a run on a cluster.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        facts = checkpoint.facts or {}
        state, course, outer = facts["method"], facts["course"], facts["outer"]
        rows = [rows for _, rows in facts["blocks"]]
        taken = checkpoint.mapped("taken", np.dtype(np.float64))
        self.n_models = len(state.get("models", [0]))
        self._starts = np.cumsum([0, *rows]).tolist()
        last = [[outer, state["written"], taken.tolist()]] if state["written"] else []
        self._last: dict[int, RoundAlpha] = {}
        for of_round, models, steps in (*state["kept"], *last):
            if len(models) != len(steps):
                raise ValueError("there is a step too few, or too many")
            parts = parts_of_round(course["seed"], of_round, len(rows), state["parts"])
            number, along = state["first"] + of_round, np.array(steps, np.float64)
            found = RoundAlpha(checkpoint.folder, number, parts, rows, models, along)
            self._last |= dict.fromkeys(models, found)
        self._held: tuple[int, dict[int, Floats]] = -1, {}

    def of_model(self, model: int, rows: slice) -> Floats:
        """Return alpha of a model, of rows of one block, float64[n]; see `AlphaFile.read`."""
        if model not in self._last or rows.start == rows.stop:  # the run had not begun
            return np.zeros(rows.stop - rows.start)
        block = int(np.searchsorted(self._starts, rows.start, "right")) - 1
        if self._held[0] != block:
            columns: dict[int, Floats] = {}
            for found in {found.number: found for found in self._last.values()}.values():
                (alpha,) = found.of_blocks([block])
                pairs = zip(found.models, alpha.T, strict=True)
                columns |= {model: own for model, own in pairs if self._last[model] is found}
            self._held = block, columns
        start = self._starts[block]
        return self._held[1][model][rows.start - start : rows.stop - start]
