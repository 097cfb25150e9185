"""Memory that is asked for before it is needed.

Where rows or columns come in random order, the processor cannot guess which one is next.
"""

import numpy as np

from blocklinear.kernels.code.intrinsics import intrinsic
from blocklinear.kernels.jit import kernel
from blocklinear.kernels.shared import span

FAR = 3
"""In random order, so many rows ahead their entries are asked for, and twice as many ahead the rest
of what is known of them: each of those arrays costs a cache miss. That takes epochs of one model to
0.6 of their time on IMDB and 0.8 on blogs, and weights are asked for one row ahead."""
CACHED = 1 << 20
"""Bytes of weights for which nobody has to wait."""
_CACHE_LINE = 64


@intrinsic(lambda array, place: None)
def _fetch_line(builder, array, place):
    """Ask for the cache line of a byte of an array, without waiting, into the second level."""
    from llvmlite import ir

    byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
    ask = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
    to_read, second_level, data = number(0), number(2), number(1)
    line = builder.gep(builder.bitcast(array.data, byte), [place])
    builder.call(ask, [line, to_read, second_level, data])


@kernel(forceinline=True)
def _fetch_bytes(array, start, stop):
    for place in range(start, stop, _CACHE_LINE):
        _fetch_line(array, place)


@kernel(forceinline=True)
def fetch(array, start, stop):
    """Ask for numbers start..stop-1 of an array, counted as they lie in memory."""
    _fetch_bytes(array, array.itemsize * start, array.itemsize * stop)


@kernel(forceinline=True)
def fetch_item(array, i):
    """Ask for what an array, one number after the other in memory, has of row i."""
    _fetch_bytes(array, array.strides[0] * i, array.strides[0] * (i + 1))


@kernel(forceinline=True)
def fetch_items(i, a, b, c, d, e):
    """Ask for what five arrays have of row i."""
    fetch_item(a, i)
    fetch_item(b, i)
    fetch_item(c, i)
    fetch_item(d, i)
    fetch_item(e, i)


@kernel(forceinline=True)
def fetch_entries(rows, i):
    """Ask for the entries of row i."""
    starts, stops, indices, values, _ = rows
    fetch(indices, starts[i], stops[i])
    fetch(values, starts[i], stops[i])


@kernel(forceinline=True)
def fetch_weights(rows, i, left, right, W):
    """Ask for columns left to right - 1 of those rows of W that row i needs, if W is long."""
    starts, stops, indices, _, _ = rows
    if W.nbytes > CACHED:
        for p in span(starts[i], stops[i]):
            place = np.int64(indices[p]) * W.shape[1]
            fetch(W, place + left, place + right)
