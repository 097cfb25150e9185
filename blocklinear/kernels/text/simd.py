"""Bytes of text many at a time: what reading and writing numbers fast stands on.

Plain LLVM operations, which every target has; on the usual ones each is an instruction or two.
They take memory by its address: an array handed from one compiled function to the next would have
its references counted, atomically, at every call, which takes longer than reading a feature.
"""

import numpy as np

from blocklinear.kernels.code.intrinsics import intrinsic


def _marks_in_32(mark, address, p):
    found = np.flatnonzero(address[int(p) : int(p) + 32] == mark)
    return np.uint64(sum(1 << int(i) for i in found))


def _put_eight_bytes(address, p, word):
    address[int(p) : int(p) + 8] = np.array([word], "<u8").view(np.uint8)


def _place(builder, address, p, kind):
    """Emit the pointer to a `kind` at address + p."""
    return builder.inttoptr(builder.add(address, p), kind.as_pointer())


def _load(builder, address, p, kind):
    """Emit a load of `kind` at address + p, aligned or not."""
    return builder.load(_place(builder, address, p, kind), align=1)


@intrinsic(lambda array: array.view(np.uint8))
def address_of(builder, array):
    """Return the address of the first element of an array, which must outlive its use."""
    from llvmlite import ir

    return builder.ptrtoint(array.data, ir.IntType(64))


@intrinsic(lambda address, p: address[int(p) : int(p) + 8].view("<u8")[0])
def eight_bytes(builder, address, p):
    """Return bytes p..p+7 of the memory at `address` as a uint64, the first of them lowest."""
    from llvmlite import ir

    return _load(builder, address, p, ir.IntType(64))


@intrinsic(_put_eight_bytes)
def put_eight_bytes(builder, address, p, word):
    """Write a uint64 to bytes p..p+7 of the memory at `address`, the lowest first."""
    builder.store(word, _place(builder, address, p, word.type), align=1)


@intrinsic(_marks_in_32, literal=True)
def marks_in_32(builder, mark, address, p):
    """Return which of the bytes p..p+31 equal the literal `mark`: bit i of a uint64 for p + i."""
    from llvmlite import ir

    kind = ir.VectorType(ir.IntType(8), 32)
    found = _load(builder, address, p, kind)
    equal = builder.icmp_unsigned("==", found, ir.Constant(kind, [mark] * 32))
    return builder.zext(builder.bitcast(equal, ir.IntType(32)), ir.IntType(64))


@intrinsic(lambda x: np.uint64((int(x) & -int(x)).bit_length() - 1 if x else 64))
def trailing_zeros(builder, x):
    """Return how many low bits of `x`, a uint64, are 0; 64 if all are."""
    from llvmlite import ir

    return builder.cttz(x, ir.Constant(ir.IntType(1), 0))
