"""Rows to byte planes and back: the arithmetic of the block codec (see `store.codec`).

A plane holds one byte of each number: plane b of x is ``(x >> 8 b) & 255``. Bytes of one kind lie
together, so an entropy coder sees one distribution at a time.
"""

import numpy as np
from numba import njit

RAW = 255  # the exponent that marks a float64, as in the tokenizer


@njit(cache=True, nogil=True)
def gaps_of(indptr, indices, gaps):
    """Write the gap before each index: index - previous - 1 within a row, the index itself first.

    Parameters
    ----------
    indptr : int64[n_rows + 1]
    indices : uint32[nnz]     strictly increasing in each row
    gaps : uint32[nnz]        written

    Returns
    -------
    largest : uint32          largest gap, 0 when there is none
    """
    largest = np.uint32(0)
    for i in range(indptr.shape[0] - 1):
        following = np.uint32(0)
        for p in range(indptr[i], indptr[i + 1]):
            gap = np.uint32(indices[p] - following)
            gaps[p] = gap
            largest = max(largest, gap)
            following = np.uint32(indices[p] + np.uint32(1))
    return largest


@njit(cache=True, nogil=True)
def take_doubles(mantissa, double, exponent, doubles):
    """Move the float64 numbers out of `mantissa`, leaving 0 there; measure what stays.

    Parameters
    ----------
    mantissa, double : int64[n], float64[n]    the same memory; changed where exponent is `RAW`
    exponent : uint8[n]
    doubles : float64[n]      the first of it written, in order

    Returns
    -------
    n_doubles, least, largest : int     count moved; range of the mantissas that stay, 0 included
    """
    n_doubles = 0
    least = largest = np.int64(0)
    for k in range(mantissa.shape[0]):
        if exponent[k] == RAW:
            doubles[n_doubles] = double[k]
            n_doubles += 1
            mantissa[k] = 0
        least = min(least, mantissa[k])
        largest = max(largest, mantissa[k])
    return n_doubles, least, largest


@njit(cache=True, nogil=True)
def zigzag(x):
    """Fold signed numbers in place so that small magnitudes stay small: 0 -1 1 -2 -> 0 1 2 3."""
    for k in range(x.shape[0]):
        x[k] = (x[k] << 1) ^ (x[k] >> 63)


@njit(cache=True, nogil=True)
def to_planes(x, planes):
    """Write plane b of the integers `x` (uint32[n] or int64[n]) to row b of uint8[width, n]."""
    for b in range(planes.shape[0]):
        shift = 8 * b
        for k in range(x.shape[0]):
            planes[b, k] = np.uint8((x[k] >> shift) & 255)


@njit(cache=True, nogil=True)
def from_planes(planes, out):
    """Undo `to_planes`: put the planes, uint8[width, n], together in `out`, any integer[n]."""
    if planes.shape[0] == 0:
        out[:] = 0
        return
    for k in range(out.shape[0]):
        out[k] = planes[0, k]
    for b in range(1, planes.shape[0]):
        shift = 8 * b
        for k in range(out.shape[0]):
            out[k] |= out.dtype.type(planes[b, k]) << shift


@njit(cache=True, nogil=True)
def to_numbers(bits, exponent, doubles, folded, powers, out):
    """Decode numbers: mantissa / 10**exponent, exactly, or the next of `doubles`.

    Parameters
    ----------
    bits : int64[n]           mantissas; may be the same memory as `out`
    exponent : uint8[n]       0..22, or `RAW`
    doubles : float64[m]      the numbers marked `RAW`, in order
    folded : bool             whether the mantissas went through `zigzag`
    powers : float64[23]      10**k
    out : float64[n] or float32[n]      written

    Returns
    -------
    used : int64              how many of `doubles` were used; -1 if an exponent or a number is
                              impossible (only a wrong writer can cause it)
    """
    used = 0
    for k in range(out.shape[0]):
        e = exponent[k]
        m = bits[k]
        if e < 23:
            if folded:
                m = (m >> 1) ^ -(m & 1)
            out[k] = m / powers[e]
        elif e == RAW and used < doubles.shape[0] and np.isfinite(doubles[used]):
            out[k] = doubles[used]
            used += 1
        else:
            return -1
    return used


@njit(cache=True, nogil=True)
def to_indices(lengths, n_features, base, first, indptr, indices, values, sq_norm):
    """Turn gaps into columns in place, fill the row pointers, and check every bound.

    Parameters
    ----------
    lengths : int64[n_rows]   entries per row; their sum is indices.shape[0] (checked by the caller)
    n_features, base : int    columns are 0 <= index - base < n_features
    first : int               position of the chunk's first entry in the arrays of its group
    indptr : int64[n_rows]    written: where each row ends, counted in the group
    indices : uint32[nnz]     gaps in, columns out
    values : float64[nnz] or float32[nnz]
    sq_norm : float64[n_rows] written: x_i' x_i

    Returns
    -------
    ok : bool                 whether every column lies in its range
    """
    p = 0
    for i in range(lengths.shape[0]):
        following = np.int64(-base)
        total = 0.0
        for q in range(p, p + lengths[i]):
            column = following + np.int64(indices[q])
            if column < 0 or column >= n_features:
                return False
            indices[q] = column
            following = column + 1
            total += np.float64(values[q]) * values[q]
        p += lengths[i]
        indptr[i] = first + p
        sq_norm[i] = total
    return True
