"""Which rows the blocks of each generation have: what `BatchWriter` finds out row by row."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from blocklinear.ingest.writer import ENTRY_BYTES, ROW_BYTES, Plan, decoded_bytes, filled_blocks
from blocklinear.store.manifest import refuse_many

Lengths = Callable[[], np.typing.NDArray[np.uint32]]


@dataclass(frozen=True)
class NewBlock:
    """A block that is to be written."""

    number: int
    slots: tuple[int, ...]  # whose rows it has
    first_row: int  # of its generation, as is `stop_row`
    stop_row: int


class Generations:
    """Follows the rows, and says which blocks are complete.

    Attributes
    ----------
    next_block : int          number not used yet
    first_row : int           of the generation that is open
    """

    def __init__(self, plan: Plan) -> None:
        self._plan, self._filled = plan, 0.0
        self.first_row = self._next_row = self.next_block = 0

    def take(self, n_rows: int, nnz: int, lengths: Lengths, n_labels: int) -> list[NewBlock]:
        """Take in the next rows; return the blocks that get no more.

        MemoryBudgetError is raised if there are more blocks than a store may have of so many
        labels.

        Parameters
        ----------
        lengths : callable        returns the entries of each row; asked for only if a generation
                                  ends here
        n_labels : int            known by now
        """
        full, found = self._plan.generation_bytes, list[NewBlock]()
        if self._filled + decoded_bytes(n_rows, nnz) < full:
            self._filled += decoded_bytes(n_rows, nnz)
            self._next_row += n_rows
            return found
        costs, start = ROW_BYTES + ENTRY_BYTES * lengths().astype(np.int64), 0
        while start < n_rows:
            if self._filled >= full and self._next_row > self.first_row:
                found += self._close(self._plan.open_blocks)
                refuse_many(self.next_block + self._plan.open_blocks, n_labels)
            filled = self._filled + np.cumsum(costs[start:])
            stop = min(start + int(np.searchsorted(filled, full)) + 1, n_rows)
            self._filled = float(filled[stop - start - 1])
            self._next_row += stop - start
            start = stop
        return found

    def end(self) -> list[NewBlock]:
        """Return the blocks of the last generation, joined to as few as its rows fill."""
        if self._next_row == self.first_row:
            return []
        n, plan = self._plan.open_blocks, self._plan
        return self._close(filled_blocks(n, self._filled, plan.block_bytes))

    def _close(self, kept: int) -> list[NewBlock]:
        n, rows = self._plan.open_blocks, (self.first_row, self._next_row)
        blocks = [
            NewBlock(self.next_block + b, tuple(range(b, n, kept)), *rows) for b in range(kept)
        ]
        self.next_block += kept
        # what the last row had too much is taken from the next blocks
        self._filled = max(self._filled - self._plan.generation_bytes, 0.0)
        self.first_row = self._next_row
        return blocks
