"""The door to pyarrow, which is imported when a table is read, and not before."""

import os
from dataclasses import dataclass
from functools import cache
from typing import Any, NoReturn

from blocklinear.errors import MemoryBudgetError, UsageError
from blocklinear.memory import PROCESS_BYTES, enough, exact_size
from blocklinear.numerals import counted

ARROW_BYTES = 64 << 20
"""What pyarrow takes at least: itself 20 MB, and 1 MB for each of 40 columns of Parquet with large
pages. Pools of its own kept 45 MB more."""
LIBRARY_BYTES = 20 << 20
"""What pyarrow itself takes of that."""
COLUMN_BYTES = 2 << 10
"""What a column takes next to its values: its name and kind, and an array in each of the parts that
are on their way (measured with 20,000 columns)."""

CELL_BYTES = 32
"""What a value takes: in Arrow, and in the part that is read ahead."""
PARTS_BYTES = 16
"""A part of rows is at most one of so many shares of what is left for rows."""
LEAST_ROWS = 16
"""Parts of fewer rows take more for their columns than for their values."""
MISSING_WORD = b"missing word"
"""Metadata of text in CSV that is numbers but for a word that stands for no value: that word."""
FRACTION_ZERO = b"fraction zero"
"""Metadata of categories in CSV that all end in .0: the first of them."""


def arrow(threads: int | None = None) -> Any:
    """Return pyarrow, with its `compute` loaded.

    UsageError is raised if it is not installed.

    Parameters
    ----------
    threads : int, optional   how many it may use from now on
    """
    pyarrow = _loaded()
    if threads is not None:
        pyarrow.set_cpu_count(threads)
    return pyarrow


@cache  # it is asked for with each column of each part
def _loaded() -> Any:
    """Import pyarrow.

    Memory is taken from the C library: the pools of pyarrow keep what was freed. Readers of Parquet
    take theirs from the pool that pyarrow chose when it was imported, so that is set before.
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    try:
        import pyarrow
        import pyarrow.compute
    except ImportError as error:
        raise UsageError(
            f"tables are read by pyarrow, which cannot be imported: {error}",
            "pip install 'blocklinear[arrow]'",
        ) from error
    pyarrow.set_memory_pool(pyarrow.system_memory_pool())
    return pyarrow


def without_views(kind: Any) -> Any:
    """Return the Arrow type that a column is read as: of text in views it has hardly a function.

    polars writes text so, also that of categories and in lists.
    """
    pa = arrow()
    if pa.types.is_primitive(kind):
        return kind
    if pa.types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, without_views(kind.value_type), kind.ordered)
    for is_list, made in ((pa.types.is_list, pa.list_), (pa.types.is_large_list, pa.large_list)):
        if is_list(kind):
            return made(kind.value_field.with_type(without_views(kind.value_type)))
    return pa.large_string() if str(kind) == "string_view" else kind


@dataclass(frozen=True)
class TableMemory:
    """A budget of memory that tables are read within."""

    memory_bytes: int  # of the whole process
    # half of what the program leaves of the budget, where training holds that
    training_bytes: int = 0
    weights_bytes: int = 0  # what a model takes that is not in `memory_bytes`

    def bytes_for_rows(self, arrow_bytes: int = 0, n_columns: int = 0, whose: str = "") -> int:
        """Return what is left for the program and the rows, next to pyarrow.

        MemoryBudgetError is raised if that is too little; the message has what would do.

        Parameters
        ----------
        arrow_bytes : int         what pyarrow takes for the files next to itself
        n_columns : int           that are read
        whose : str               the table that has them, for people
        """
        lacking = self.lacking_bytes(arrow_bytes, n_columns)
        if lacking > 0:
            self.refuse(lacking, n_columns, whose)
        return self.memory_bytes - self.training_bytes - arrow_share(arrow_bytes, n_columns)

    def lacking_bytes(self, arrow_bytes: int, n_columns: int) -> int:
        """Return how much too little the budget is, 0 or less if it is enough."""
        rows_bytes = max(ARROW_BYTES, PARTS_BYTES * LEAST_ROWS * CELL_BYTES * n_columns)
        other_bytes = PROCESS_BYTES + self.training_bytes + arrow_share(arrow_bytes, n_columns)
        return other_bytes + rows_bytes - self.memory_bytes

    def refuse(self, lacking: int, n_columns: int, whose: str) -> NoReturn:
        """Raise the error for a budget that is `lacking` bytes too little."""
        more, least = "", self.memory_bytes + self.weights_bytes + lacking
        if self.training_bytes:  # more memory is shared with training
            more, least = " next to training", self.memory_bytes + 2 * lacking
        what = f"{whose}: {counted(n_columns, 'column')}" if whose else "tables"
        raise MemoryBudgetError(
            f"{what} cannot be read within {exact_size(self.memory_bytes + self.weights_bytes)}"
            f"{more}",
            f"give --memory {enough(least)} or more",
        )


def arrow_share(arrow_bytes: int, n_columns: int) -> int:
    """Return what pyarrow takes, with `arrow_bytes` for files of which it reads some columns."""
    return max(ARROW_BYTES, LIBRARY_BYTES + arrow_bytes + COLUMN_BYTES * n_columns)
