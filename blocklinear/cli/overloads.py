"""Which kernels the program calls, with which types: recorded in one process, loaded in another.

A kernel is loaded from Numba's cache at its first call with arguments of some types; that pair is
what Numba calls an overload.
"""

import contextlib
import ctypes
import gc
import importlib
from collections.abc import Iterator
from typing import Any

Recorded = list[list[Any]]
"""Overloads, for JSON: of each the module, the name of the kernel, and the types, see `_names`."""


class Recorder:
    """Records the overloads that this process compiles or loads, but for what kernels call."""

    def __init__(self) -> None:
        self._compiled: list[tuple[Any, tuple[Any, ...]]] = []
        self._taken: list[list[Any]] = []

    def take(self) -> Recorded:
        """Return what was added since this was called before."""
        new = []
        for kernel, types in (*self._compiled, *_loaded()):
            found = [kernel.py_func.__module__, kernel.py_func.__name__, list(map(_names, types))]
            if found[0].startswith("blocklinear.") and found not in self._taken:
                self._taken.append(found)
                new.append(found)
        return new

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Record meanwhile; give back the memory that compiling a kernel took before the next."""
        from numba.core import event

        compiled = self._compiled

        class Compilation(event.Listener):
            depth = 0  # what a kernel calls is compiled while the kernel is

            def on_start(self, event: Any) -> None:
                if not self.depth:
                    compiled.append((event.data["dispatcher"], event.data["args"]))
                self.depth += 1

            def on_end(self, event: Any) -> None:
                self.depth -= 1
                if not self.depth:
                    gc.collect()
                    with contextlib.suppress(AttributeError):  # not the GNU library
                        ctypes.CDLL(None).malloc_trim(0)

        listener = Compilation()
        event.register("numba:compile", listener)  # type: ignore[no-untyped-call]
        try:
            yield
        finally:
            event.unregister("numba:compile", listener)  # type: ignore[no-untyped-call]


def load(overloads: Recorded) -> None:
    """Load kernels from Numba's cache; one that is not there is compiled."""
    for module, name, types in overloads:
        getattr(importlib.import_module(module), name).compile(tuple(map(_type, types)))


def _loaded() -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """Yield the overloads that were loaded from Numba's cache, but for what kernels call.

    A kernel that is compiled while what it calls is in the cache loads that, for constants that it
    passes with the types of these constants.
    """
    from numba.core import types as numba_types
    from numba.core.dispatcher import Dispatcher

    kernels: list[Any] = [found for found in gc.get_objects() if isinstance(found, Dispatcher)]
    for kernel in kernels:
        for types in list(kernel.stats.cache_hits):
            if not any(isinstance(found, numba_types.Literal) for found in types):
                yield kernel, types


def _names(numba_type: Any) -> Any:
    """Return the description of a type that `_type` reads."""
    from numba import types

    if isinstance(numba_type, types.Array):
        dtype, layout = str(numba_type.dtype), numba_type.layout
        return {"array": [dtype, numba_type.ndim, layout, not numba_type.mutable]}
    if isinstance(numba_type, types.UniTuple):
        return {"tuple": [str(numba_type.dtype), numba_type.count]}
    return str(numba_type)


def _type(names: Any) -> Any:
    """Return the Numba type of a description."""
    from numba import types

    if isinstance(names, str):
        return getattr(types, names)
    if "tuple" in names:
        element, count = names["tuple"]
        return types.UniTuple(_type(element), count)  # type: ignore[no-untyped-call]
    element, n_dimensions, layout, readonly = names["array"]
    return types.Array(_type(element), n_dimensions, layout, readonly=readonly)
