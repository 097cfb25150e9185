"""How a process starts that may compile, where kernels are kept, and a word when one is."""

import contextlib
import functools
import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

COMPILING = "blocklinear: compiling for this machine, the first time only: some seconds"
NOT_KEPT = (
    "warning: compiled code cannot be kept: each start compiles it anew. Set NUMBA_CACHE_DIR to a "
    "folder that only you can write to"
)


def start_lightly() -> None:
    """Keep what this process does not need from being loaded and run.

    OpenBLAS would start threads that spin, and Numba would import scipy.linalg (0.4 s, 25 MB) to
    compile matrix products, which no kernel here has. Garbage collections find nothing in the
    hundreds of thousands of objects that imports leave behind, so they are made rare. NumPy asks
    for large pages, which the system may have to gather from small ones; what gains from them asks
    for itself (`pages.Pages`).
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("NUMPY_MADVISE_HUGEPAGE", "0")
    sys.modules.setdefault("scipy.linalg", None)  # type: ignore[arg-type]  # import: ImportError
    gc.set_threshold(400_000, 20, 20)


@contextlib.contextmanager
def compiling(quiet: bool = False) -> Iterator[None]:
    """Say so when a kernel has to be compiled: if `quiet`, only that it cannot be kept."""
    from blocklinear.kernels import jit

    if not quiet or cache_folder() is None:
        jit.announce = say_that_it_compiles
    try:
        yield
    finally:
        jit.announce = None


@functools.cache
def say_that_it_compiles() -> None:
    """Say, once, that kernels have to be compiled, which takes seconds, and if that is in vain."""
    print(COMPILING if cache_folder() else NOT_KEPT, file=sys.stderr, flush=True)


def cache_folder() -> Path | None:
    """Return the folder where compiled kernels are kept; None if there is none."""
    from blocklinear.kernels.code.kept import folders

    return next(filter(_can_be_made, folders()), None)


def _can_be_made(folder: Path) -> bool:
    """Say whether `folder` is there or can be made, and can be written to."""
    for path in (folder, *folder.parents):
        if path.exists():
            return path.is_dir() and os.access(path, os.W_OK | os.X_OK)
    return False
