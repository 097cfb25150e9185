"""Types of arguments: as text, of what a kernel is called with, and for Numba."""

import re

import numpy as np

_ARRAY = re.compile(r"(const )?(\w+)\[([:1,]+)\]")
_BETWEEN = re.compile(r", (?![^(]*\))")
"""Where one argument ends and the next begins, outside of tuples."""


def signature_of(args):
    """Return the types of arguments as Numba writes them, an array that is only read ``const``.

    Where an array is not in C order, nothing is said of its order. Arguments of other types raise
    TypeError; a tuple may have any of them, but no tuples.
    """
    return ", ".join(map(_name_of, args))


def _name_of(argument):
    if isinstance(argument, tuple) and argument:
        return f"({signature_of(argument)})"
    if isinstance(argument, np.generic):
        return argument.dtype.name
    for kind, name in ((bool, "bool"), (int, "int64"), (float, "float64")):
        if isinstance(argument, kind):
            return name
    # machine code reads numbers as they lie in memory
    plain = isinstance(argument, np.ndarray) and argument.dtype.kind in "biuf" and argument.ndim > 0
    if not (plain and argument.dtype.isnative and argument.flags.aligned):
        raise TypeError(f"kernels take no {type(argument).__name__} like this: {argument!r:.60}")
    flags = argument.flags
    dimensions = ":," * (argument.ndim - 1) + ("::1" if flags.c_contiguous else ":")
    return f"{'' if flags.writeable else 'const '}{argument.dtype.name}[{dimensions}]"


def numba_types(signature):
    """Return the Numba types of a signature, a tuple."""
    return tuple(map(_type_of, _BETWEEN.split(signature))) if signature else ()


def _type_of(name):
    from numba import from_dtype, types

    if array := _ARRAY.fullmatch(name):
        n_dimensions, layout = array[3].count(",") + 1, "C" if array[3].endswith("1") else "A"
        return types.Array(_type_of(array[2]), n_dimensions, layout, readonly=bool(array[1]))
    if name.startswith("("):
        return types.BaseTuple.from_types(numba_types(name[1:-1]))
    return from_dtype(np.dtype(name))
