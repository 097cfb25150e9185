"""The door to pyarrow, which is imported when a table is read, and not before."""

import os
from typing import Any

from blocklinear.errors import MemoryBudgetError, UsageError
from blocklinear.memory import PROCESS_BYTES, enough, exact_size

ARROW_BYTES = 64 << 20
"""What pyarrow takes: itself 20 MB, and 1 MB for each column of Parquet that it reads (measured
with 40). Pools of its own kept 45 MB more."""

CELL_BYTES = 32
"""What a value takes: in Arrow, and in the part that is read ahead."""


def arrow(threads: int | None = None) -> Any:
    """Return pyarrow, with its `compute` loaded.

    Memory is taken from the C library: the pools of pyarrow keep what was freed. Readers of Parquet
    take theirs from the pool that pyarrow chose when it was imported, so that is set before.

    UsageError is raised if it is not installed.

    Parameters
    ----------
    threads : int, optional   how many it may use from now on
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
    if threads is not None:
        pyarrow.set_cpu_count(threads)
    return pyarrow


def bytes_for_rows(memory_bytes: int, held_bytes: int = 0) -> int:
    """Return what of a budget is left for the program and the rows, next to pyarrow.

    MemoryBudgetError is raised if that is too little.

    Parameters
    ----------
    held_bytes : int          half of what the program leaves of the budget, where training holds
                              that; else 0
    """
    lacking = PROCESS_BYTES + 2 * ARROW_BYTES + held_bytes - memory_bytes
    if lacking > 0:
        more, least = "", memory_bytes + lacking
        if held_bytes:  # more memory is shared with training
            more, least = " next to training", memory_bytes + 2 * lacking
        raise MemoryBudgetError(
            f"tables cannot be read within {exact_size(memory_bytes)}{more}",
            f"give --memory {enough(least)} or more",
        )
    return memory_bytes - held_bytes - ARROW_BYTES
