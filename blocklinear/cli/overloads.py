"""Kernels with the types of their arguments: listed in a file, and loaded where they are kept.

A kernel is compiled, or loaded, at its first call with arguments of some types; such a pair is what
Numba calls an overload. ``kernels.txt`` has a line for each one that commands call::

    kernels.sums.dot(float64[::1], const float64[::1]) # one many

the types written as Numba writes them, an array that is only read ``const``,
followed by the parts of the program, see `ahead`, that need it; ``one:float32`` of a part means for
values of that type only. `scripts/list_kernels.py` writes the file.
"""

import ctypes
import importlib
import mmap
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

LIST = Path(__file__).with_name("kernels.txt")
_COLD = 20  # MADV_COLD, which the mmap module does not name


def listed(parts: Collection[str] | None = None, dtype: str = "") -> list[str]:
    """Return the overloads of some parts of the program for one type of values; all without."""
    wanted = None if parts is None else {*parts, *(f"{part}:{dtype}" for part in parts)}
    lines = (line.split(" # ") for line in LIST.read_text().splitlines())
    return [overload for overload, users in lines if wanted is None or wanted & set(users.split())]


def resolve(overload: str) -> tuple[Any, str]:
    """Return the kernel and the signature of an overload."""
    path, _, signature = overload.removesuffix(")").partition("(")
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(f"blocklinear.{module}"), name), signature


def describe(kernel: Any, signature: str) -> str:
    """Return the line of an overload, without who needs it."""
    module = kernel.__module__.removeprefix("blocklinear.")
    return f"{module}.{kernel.__name__}({signature})"


def load(overloads: Iterable[str]) -> list[str]:
    """Load kernels that are kept; return the overloads that are not."""
    missing = []
    for overload in overloads:
        kernel, signature = resolve(overload)
        if not kernel.load(signature):
            missing.append(overload)
    _set_aside_llvm()
    return missing


def not_kept(overloads: Iterable[str]) -> list[str]:
    """Return the overloads that are not kept."""
    found = [(overload, *resolve(overload)) for overload in overloads]
    return [overload for overload, kernel, signature in found if not kernel.is_kept(signature)]


def _set_aside_llvm() -> None:
    """Tell the system that LLVM is not needed soon: if memory is short, its pages go first.

    Otherwise those of the data go, and in a container that holds no more than a run needs every
    pass over the blocks reads more of them from disk. Its instructions, 32 MB, are no longer in
    this process's memory at all; they come back when they are executed.
    """
    with suppress(OSError, AttributeError):  # not Linux, or not the GNU library
        advise = ctypes.CDLL(None).madvise
        for mapping in Path("/proc/self/maps").read_text().splitlines():
            addresses, access, *_, name = mapping.split()
            if Path(name).name.startswith("libllvmlite") and "w" not in access:
                start, stop = (int(address, 16) for address in addresses.split("-"))
                for advice in (_COLD, mmap.MADV_DONTNEED) if "x" in access else (_COLD,):
                    advise(ctypes.c_void_p(start), ctypes.c_size_t(stop - start), advice)
