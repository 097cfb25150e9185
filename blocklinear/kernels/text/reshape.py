"""Kernels that hash the indices of rows, and merge repeated ones."""

import numpy as np

from blocklinear.kernels.jit import kernel
from blocklinear.kernels.shared import RAW, mix
from blocklinear.kernels.text.powers import POWERS

REPEATED, TOO_LARGE = 1, 2
"""Why `merge_rows` refuses a row."""


@kernel
def hash_indices(indices, bits):
    """Replace each index, in place, by the high `bits` bits of its SplitMix64 hash, 1 to 31."""
    shift = np.uint64(64 - bits)
    for p in range(indices.shape[0]):
        indices[p] = np.uint32(mix(np.uint64(indices[p])) >> shift)


@kernel
def _raised(m, times):
    """Return (m * 10**times, whether it is at most 2**53)."""
    for _ in range(times):
        if abs(m) > 900719925474099:
            return m, False
        m *= 10
    return m, True


@kernel
def _sum(m, e, x, m2, e2, x2):
    """Add two numbers; a number is x if e is `RAW`, else m / 10**e.

    The sum of decimals is exact while its mantissa fits 2**53; any other is that of the doubles.
    """
    if e != RAW and e2 != RAW:
        both = max(e, e2)
        a, fits = _raised(m, both - e)
        b, fits2 = _raised(m2, both - e2)
        if fits and fits2 and abs(a + b) <= 9007199254740992:
            return a + b, both if a + b != 0 else np.int64(0), 0.0
    if e != RAW:
        x = m / POWERS[e]
    if e2 != RAW:
        x2 = m2 / POWERS[e2]
    return np.int64(0), np.int64(RAW), x + x2


@kernel
def merge_rows(indptr, indices, mantissa, exponent, allowed, merged, zeros, why, index):
    """Add up the entries of each row that share an index, and drop those that are zero, in place.

    Parameters
    ----------
    indices : uint32[nnz]     those of a row do not decrease
    allowed : bool            whether indices may be repeated; if not, that refuses the row
    merged, zeros : int64[n_rows]   written: entries added to another, entries dropped as zero
    why : uint8[n_rows]       written: 0, `REPEATED`, or `TOO_LARGE` for a sum of 1e154 or more
    index : uint32[n_rows]    written where the row was refused: the index at fault
    """
    k, start, one = np.uint64(0), np.uint64(0), np.uint64(1)
    double = mantissa.view(np.float64)  # where an exponent is `RAW`
    for i in range(indptr.shape[0] - 1):
        p, stop, first = start, np.uint64(indptr[i + 1]), k
        while p < stop and why[i] == 0:
            at, m, e, x = indices[p], mantissa[p], np.int64(exponent[p]), double[p]
            p += one
            while p < stop and indices[p] == at and why[i] == 0:
                m, e, x = _sum(m, e, x, mantissa[p], np.int64(exponent[p]), double[p])
                if not allowed:
                    why[i] = REPEATED
                elif e == RAW and not abs(x) < 1e154:
                    why[i] = TOO_LARGE
                index[i] = at
                merged[i] += 1
                p += one
            if (x if e == RAW else m) == 0:
                zeros[i] += 1
                continue
            indices[k], exponent[k] = at, e
            if e == RAW:
                double[k] = x
            else:
                mantissa[k] = m
            k += one
        if why[i] != 0:
            k, merged[i], zeros[i] = first, 0, 0
        start = stop
        indptr[i + 1] = k
