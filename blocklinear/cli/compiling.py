"""Where Numba may keep compiled kernels; without a place for them, it would refuse to start."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path


def compile_without_cache_if_needed() -> None:
    """Make Numba go without its cache, and say so once, if no folder for it can be written."""
    if any(map(_can_be_made, _cache_folders())):
        return
    from numba.core.dispatcher import Dispatcher

    Dispatcher.enable_caching = lambda self: None  # type: ignore[method-assign]
    print(
        "warning: compiled code cannot be kept: each start compiles it anew. Set "
        "NUMBA_CACHE_DIR to a folder that only you can write to",
        file=sys.stderr,
    )


def _cache_folders() -> Iterator[Path]:
    """Yield the folders that Numba tries."""
    if own := os.environ.get("NUMBA_CACHE_DIR"):
        yield Path(own)
    yield Path(__file__).parent / "__pycache__"
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    yield Path(cache) / "numba"


def _can_be_made(folder: Path) -> bool:
    """Say whether `folder` is there or can be made, and can be written to."""
    for path in (folder, *folder.parents):
        if path.exists():
            return path.is_dir() and os.access(path, os.W_OK | os.X_OK)
    return False
