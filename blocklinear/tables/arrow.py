"""The door to pyarrow, which is imported when a table is read, and not before."""

from typing import Any

from blocklinear.errors import UsageError


def arrow(threads: int | None = None) -> Any:
    """Return pyarrow, with its `compute` loaded.

    Memory is taken from the C library: the pools of pyarrow keep what was freed.

    Parameters
    ----------
    threads : int, optional
        How many it may use from now on.

    Raises
    ------
    UsageError
        If it is not installed.
    """
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
