"""Where Numba may keep compiled kernels, and a word to the user when it compiles."""

import contextlib
import functools
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any


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


@functools.cache
def load_without_compiler() -> None:
    """Keep Numba from setting its compiler up to load a kernel that is compiled already.

    That takes longer than loading all kernels of a command. A kernel that is not there is compiled
    as ever: the compiler sets itself up.
    """
    from numba.core.caching import Cache
    from numba.core.runtime.nrt import rtsys

    load = Cache.load_overload

    def load_overload(self: Any, signature: Any, context: Any) -> Any:
        # Numba's lock is held; linking needs the runtime, and more only for hash(), used nowhere
        context.refresh = functools.partial(rtsys.initialize, context)
        try:
            return load(self, signature, context)  # type: ignore[no-untyped-call]
        finally:
            del context.refresh

    Cache.load_overload = load_overload  # type: ignore[method-assign]


@contextlib.contextmanager
def saying_when_compiling() -> Iterator[None]:
    """Say so, once, when a kernel has to be compiled: it takes seconds, the first time only."""
    from numba.core import event

    class FirstCompilation(event.Listener):
        said = False

        def on_start(self, event: object) -> None:
            if not self.said:
                self.said = True
                text = "compiling for this machine, the first time only: some seconds"
                print(f"blocklinear: {text}", file=sys.stderr, flush=True)

        def on_end(self, event: object) -> None:
            pass

    listener = FirstCompilation()
    event.register("numba:compile", listener)  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        event.unregister("numba:compile", listener)  # type: ignore[no-untyped-call]


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
