"""Bytes of text many at a time: what the tokenizer's fast path stands on.

Plain LLVM operations, which every target has; on the usual ones each is an instruction or two.
They read memory by its address: an array handed from one compiled function to the next would have
its references counted, atomically, at every call, which takes longer than reading a feature.
"""

import numpy as np

from blocklinear.kernels.code.intrinsics import intrinsic


def _marks_in_32(address, p, mark):
    found = np.flatnonzero(address[int(p) : int(p) + 32] == mark)
    return np.uint64(sum(1 << int(i) for i in found))


def _load(builder, args, kind):
    """Emit a load of `kind` at address + offset, aligned or not."""
    place = builder.inttoptr(builder.add(args[0], args[1]), kind.as_pointer())
    return builder.load(place, align=1)


@intrinsic(lambda array: array.view(np.uint8))
def address_of(typing, array):
    """Return the address of the first element of an array, which must outlive its use."""
    from llvmlite import ir
    from numba import types

    def generate(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return builder.ptrtoint(data, ir.IntType(64))

    return types.uint64(array), generate


@intrinsic(lambda address, p: address[int(p) : int(p) + 8].view("<u8")[0])
def eight_bytes(typing, address, p):
    """Return bytes p..p+7 of the memory at `address` as a uint64, the first of them lowest."""
    from llvmlite import ir
    from numba import types

    def generate(context, builder, signature, args):
        return _load(builder, args, ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), generate


@intrinsic(_marks_in_32, prefer_literal=True)
def marks_in_32(typing, address, p, mark):
    """Return which of the bytes p..p+31 equal the literal `mark`: bit i of a uint64 for p + i."""
    from llvmlite import ir
    from numba import types

    kind, wanted = ir.VectorType(ir.IntType(8), 32), [mark.literal_value] * 32

    def generate(context, builder, signature, args):
        bytes_ = _load(builder, args, kind)
        equal = builder.icmp_unsigned("==", bytes_, ir.Constant(kind, wanted))
        return builder.zext(builder.bitcast(equal, ir.IntType(32)), ir.IntType(64))

    return types.uint64(types.uint64, types.uint64, mark), generate


@intrinsic(lambda x: np.uint64((int(x) & -int(x)).bit_length() - 1 if x else 64))
def trailing_zeros(typing, x):
    """Return how many low bits of `x`, a uint64, are 0; 64 if all are."""
    from llvmlite import ir
    from numba import types

    def generate(context, builder, signature, args):
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.uint64(types.uint64), generate
