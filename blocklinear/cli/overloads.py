"""Which kernels the program calls, with which types: recorded in one process, loaded in another.

A kernel is loaded from Numba's cache at its first call with arguments of some types; that pair is
what Numba calls an overload.
"""

import contextlib
import ctypes
import functools
import gc
import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Recorded = list[list[Any]]
"""Overloads, for JSON: of each the module, the name of the kernel, and the types, see `_names`."""

_COLD = 20  # MADV_COLD, which the mmap module does not name


class Recorder:
    """Records the overloads that this process compiles or loads, but for helpers of kernels.

    What a kernel calls is compiled with it. A kernel that is called from Python, too, is recorded
    then: there will be no other sign of it. Helpers are told by the underscore of their names.
    """

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
                kernel = event.data["dispatcher"]
                if not self.depth or not kernel.py_func.__name__.startswith("_"):
                    compiled.append((kernel, event.data["args"]))
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
    for module, name, names in overloads:
        kernel, types = getattr(importlib.import_module(module), name), tuple(map(_type, names))
        if not _load(kernel, types):
            kernel.compile(types)
    _set_aside_llvm()


def _load(kernel: Any, types: tuple[Any, ...]) -> bool:
    """Load a kernel as its own `compile` does, but without what only compiling needs.

    That is all that Numba can translate, and the functions of its runtime, compiled anew: 13 MB of
    objects, 20 MB of LLVM's code and half of the time. Compiling gets it when it comes to that.

    Returns
    -------
    bool
        Whether it is loaded: it may not be in the cache, or this Numba may do it in another way.
    """
    from numba.core.compiler_lock import global_compiler_lock

    with global_compiler_lock:
        if types in kernel.overloads:
            return True
        try:
            context, load_overload = kernel.targetctx, kernel._cache._load_overload
            _name_runtime()
        except (AttributeError, ImportError):
            return False
        result = load_overload(types, context)
        if result is None:
            return False
        kernel._cache_hits[types] += 1
        context.insert_user_function(result.entry_point, result.fndesc, [result.library])
        kernel.add_overload(result)
        return True


@functools.cache
def _name_runtime() -> None:
    """Tell LLVM where the functions of Numba's runtime are that kernels call."""
    from llvmlite import binding

    runtime: Any = importlib.import_module("numba.core.runtime._nrt_python")
    for name, address in runtime.c_helpers.items():
        binding.add_symbol(name if name.startswith("_") else f"NRT_{name}", address)


def _set_aside_llvm() -> None:
    """Tell the system that LLVM is not needed soon: if memory is short, its pages go first.

    Otherwise those of the data go, and in a container that holds no more than a run needs every
    pass over the blocks reads more of them from disk.
    """
    with contextlib.suppress(OSError, AttributeError):  # not Linux, or not the GNU library
        advise = ctypes.CDLL(None).madvise
        for mapping in Path("/proc/self/maps").read_text().splitlines():
            addresses, access, *_, name = mapping.split()
            if Path(name).name.startswith("libllvmlite") and "w" not in access:
                start, stop = (int(address, 16) for address in addresses.split("-"))
                advise(ctypes.c_void_p(start), ctypes.c_size_t(stop - start), _COLD)


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
        return types.boolean if names == "bool" else getattr(types, names)  # no `bool` in 0.62
    if "tuple" in names:
        element, count = names["tuple"]
        return types.UniTuple(_type(element), count)  # type: ignore[no-untyped-call]
    element, n_dimensions, layout, readonly = names["array"]
    return types.Array(_type(element), n_dimensions, layout, readonly=readonly)
