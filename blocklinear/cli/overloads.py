"""Kernels with the types of their arguments: listed in a file, and loaded from the cache.

A kernel is compiled, or loaded from the cache, at its first call with arguments of some types; such
a pair is what Numba calls an overload. ``kernels.txt`` has a line for each one that commands call::

    kernels.sums.dot(float64[::1], const float64[::1]) # one many

the types written as Numba writes them, an array that is only read ``const``, a tuple ``3 * int64``,
followed by the parts of the program, see `ahead`, that need it; ``one:float32`` of a part means for
values of that type only. `scripts/list_kernels.py` writes the file.
"""

import ctypes
import functools
import importlib
import re
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

LIST = Path(__file__).with_name("kernels.txt")
_LAYOUTS = {"C": (":,", "::1"), "F": ("::1,", ":"), "A": (":,", ":")}
_ARRAY = re.compile(r"(const )?(\w+)\[([:1,]+)\]")
_COLD = 20  # MADV_COLD, which the mmap module does not name


def listed(parts: Collection[str] | None = None, dtype: str = "") -> list[str]:
    """Return the overloads of some parts of the program for one type of values; all without."""
    wanted = None if parts is None else {*parts, *(f"{part}:{dtype}" for part in parts)}
    lines = (line.split(" # ") for line in LIST.read_text().splitlines())
    return [overload for overload, users in lines if wanted is None or wanted & set(users.split())]


def resolve(overload: str) -> tuple[Any, tuple[Any, ...]]:
    """Return the kernel and the Numba types of an overload."""
    path, _, arguments = overload.removesuffix(")").partition("(")
    module, _, name = path.rpartition(".")
    kernel = getattr(importlib.import_module(f"blocklinear.{module}"), name)
    return kernel, tuple(map(type_of, arguments.split(", ")))


def describe(kernel: Any, types: Iterable[Any]) -> str:
    """Return the line of an overload, without who needs it."""
    module = kernel.py_func.__module__.removeprefix("blocklinear.")
    return f"{module}.{kernel.py_func.__name__}({', '.join(map(name_of, types))})"


def name_of(numba_type: Any) -> str:
    """Return the name of a type that `type_of` reads."""
    from numba import types

    if isinstance(numba_type, types.Array):
        more, last = _LAYOUTS[numba_type.layout]
        if numba_type.layout == "F":
            dimensions = more + ",".join(last * (numba_type.ndim - 1))
        else:
            dimensions = more * (numba_type.ndim - 1) + last
        return f"{'' if numba_type.mutable else 'const '}{numba_type.dtype}[{dimensions}]"
    if isinstance(numba_type, types.UniTuple):
        return f"{numba_type.count} * {numba_type.dtype}"
    return str(numba_type)


def type_of(name: str) -> Any:
    """Return the Numba type of a name."""
    from numba import types

    if array := _ARRAY.fullmatch(name):
        dimensions = array[3].split(",")
        layout: Any = "C" if dimensions[-1] == "::1" else "F" if dimensions[0] == "::1" else "A"
        element: Any = _named(array[2])
        return types.Array(element, len(dimensions), layout, readonly=bool(array[1]))
    count, _, element = name.rpartition(" * ")
    found = _named(element)
    return types.UniTuple(found, int(count)) if count else found  # type: ignore[no-untyped-call]


def _named(name: str) -> Any:
    """Return the Numba type of a name that is one word; Numba 0.62 has no `types.bool`."""
    from numba import types

    return types.boolean if name == "bool" else getattr(types, name)


def load(overloads: Iterable[str]) -> list[str]:
    """Load kernels from the cache; return the overloads that are not there."""
    missing = [overload for overload in overloads if not _load(*resolve(overload))]
    _set_aside_llvm()
    return missing


def not_kept(overloads: Iterable[str]) -> list[str]:
    """Return the overloads that are not in the cache."""
    return [overload for overload in overloads if not _is_kept(*resolve(overload))]


def _is_kept(kernel: Any, types: tuple[Any, ...]) -> bool:
    return bool(kernel._cache.holds(types, kernel.targetctx.codegen()))


def _load(kernel: Any, types: tuple[Any, ...]) -> bool:
    """Load a kernel as its own `compile` does, but without what only compiling needs.

    That is all that Numba can translate, and the functions of its runtime, compiled anew: 13 MB of
    objects, 20 MB of LLVM's code and half of the time. Compiling gets it when it comes to that.

    Returns
    -------
    bool
        Whether it is loaded: it may not be in the cache.
    """
    from numba.core.compiler_lock import global_compiler_lock

    with global_compiler_lock:
        if types in kernel.overloads:
            return True
        try:
            context, load_overload = kernel.targetctx, kernel._cache._load_overload
            _name_runtime()
        except (AttributeError, ImportError):  # this Numba does it in another way
            if kept := _is_kept(kernel, types):
                kernel.compile(types)
            return kept
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
    with suppress(OSError, AttributeError):  # not Linux, or not the GNU library
        advise = ctypes.CDLL(None).madvise
        for mapping in Path("/proc/self/maps").read_text().splitlines():
            addresses, access, *_, name = mapping.split()
            if Path(name).name.startswith("libllvmlite") and "w" not in access:
                start, stop = (int(address, 16) for address in addresses.split("-"))
                advise(ctypes.c_void_p(start), ctypes.c_size_t(stop - start), _COLD)
