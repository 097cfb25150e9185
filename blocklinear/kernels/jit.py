"""The decorator of every kernel, and where compiled kernels are kept.

Numba's own cache goes by the date of a kernel's file: it does not notice that a helper changed in
another. Two processes that compile one kernel for different types at a time may also leave it with
the code of the one under the types of the other. Here each overload, a kernel compiled for
arguments of some types, has a file of its own, which holds for one state of all sources.
"""

import contextlib
import functools
import os
import sys
from hashlib import sha256
from pathlib import Path

from numba import njit
from numba.core.caching import FunctionCache, IndexDataCacheFile

PACKAGE = Path(__file__).parents[1]


def kernel(function=None, **options):
    """Compile a function by Numba at its first call, without Python's lock, and keep the result.

    Parameters
    ----------
    function : function, optional
    **options
        More of those of `numba.njit`.
    """

    def compiled(function):
        # the wrapper for C, which nobody calls, takes a twentieth of the time of compiling
        dispatcher = njit(nogil=True, no_cfunc_wrapper=True, **options)(function)
        if dispatcher is not function:  # else NUMBA_DISABLE_JIT is set
            with contextlib.suppress(RuntimeError):  # no folder can be written to
                dispatcher._cache = _KernelCache(function)
        return dispatcher

    return compiled if function is None else compiled(function)


def sources() -> list[Path]:
    """Return the files that have a part in compiled code, in order."""
    files = sorted(file for part in ("kernels", "text") for file in (PACKAGE / part).glob("*.py"))
    return [file for file in files if b"numba" in (text := file.read_bytes()) or b".jit " in text]


@functools.cache
def state_of_sources() -> str:
    """Return a digest of all files that have a part in compiled code, 64 hexadecimal digits."""
    digest = sha256()
    for file in sources():
        digest.update(sha256(file.read_bytes()).digest())
    return digest.hexdigest()


class _Files(IndexDataCacheFile):
    """The files of one kernel: one for each overload, and no index that processes may fight for."""

    def _place(self, key):
        """Return the name of an overload's file, and what the file ends with."""
        signature, machine, _ = key
        name = sha256(repr((signature, machine)).encode()).hexdigest()[:16]
        state = repr((self._version, self._source_stamp, key))
        return self._index_name.removesuffix("nbi") + f"{name}.nbc", sha256(state.encode()).digest()

    def flush(self):
        """Leave the files: the next ones take their places."""

    def save(self, key, data):
        """Write an overload as a whole: others may read it meanwhile."""
        name, state = self._place(key)
        with self._open_for_write(self._data_path(name)) as file:
            file.write(self._dump(data) + state)

    def holds(self, key):
        """Return whether an overload is there."""
        name, state = self._place(key)
        try:
            with open(self._data_path(name), "rb") as file:
                file.seek(-len(state), os.SEEK_END)
                return file.read() == state
        except OSError:
            return False

    def load(self, key):
        """Return an overload; None if it is not there, or belongs to other sources."""
        name, state = self._place(key)
        try:
            kept = Path(self._data_path(name)).read_bytes().endswith(state)
            return self._load_data(name) if kept else None
        except OSError:
            return None


class _KernelCache(FunctionCache):
    """Numba's cache of one kernel, but for when and where an overload is found."""

    def __init__(self, function):
        super().__init__(function)
        name = f"{Path(function.__code__.co_filename).stem}.{function.__qualname__}"
        self._cache_file = _Files(
            self._cache_path, f"{name}-{sys.implementation.cache_tag}", state_of_sources()
        )

    def holds(self, signature, codegen):
        """Return whether an overload is kept."""
        return self._cache_file.holds(self._index_key(signature, codegen))
