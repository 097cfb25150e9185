"""Doubles back to the decimals they are written as."""

import numpy as np

from blocklinear.kernels.jit import kernel
from blocklinear.kernels.shared import RAW, span
from blocklinear.kernels.text.powers import POWERS

NOT_FINITE, TOO_LARGE, ORDER, REPEATED = 1, 2, 3, 4
"""Why `take_rows` refuses a row."""
REMEMBERED = 1 << 13
REMEMBERED_SHIFT = 64 - 13


@kernel
def _split(a):
    """Return a = high + low with at most 26 bits each (Veltkamp)."""
    t = 134217729.0 * a
    high = t - (t - a)
    return high, a - high


@kernel
def exact_product(a, b):
    """Return a * b exactly as the sum of two doubles (Dekker)."""
    p = a * b
    a1, a2 = _split(a)
    b1, b2 = _split(b)
    return p, ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2


@kernel
def _nearest_integer(a, b):
    """Return the integer nearest to the exact product a * b, which is below 2**53 or so."""
    p, rest = exact_product(a, b)
    nearest = np.rint(p)
    beyond = (p - nearest) + rest
    if beyond > 0.5:
        return nearest + 1.0
    return nearest - 1.0 if beyond < -0.5 else nearest


@kernel
def _put(value, k, mantissa, bits, exponent):
    """Write one number to place `k`, as `to_decimals` does."""
    exponent[k] = RAW
    bits[k] = value
    for e in range(POWERS.shape[0]):
        scaled = np.rint(value * POWERS[e])
        if abs(scaled) > 9007199254740992.0:  # 2**53
            break
        if abs(scaled) > 1125899906842624.0:  # 2**50: rounding the product may matter
            scaled = _nearest_integer(value, POWERS[e])
        if scaled / POWERS[e] == value:
            mantissa[k] = np.int64(scaled)
            exponent[k] = e
            break


@kernel
def to_decimals(values, mantissa, exponent):
    """Write each number as ``mantissa / 10**exponent`` with the smallest exponent that is exact.

    Exact means that the division gives the number back to the last bit, which is checked; of
    several mantissas it is the nearest, so that of the shortest text of the number. Numbers, which
    are finite, that have no such decimal of at most 2**53 are kept as `RAW`. The memory of
    `mantissa` may be that of `values`.
    """
    bits = mantissa.view(np.float64)
    for k in range(values.shape[0]):
        _put(values[k], k, mantissa, bits, exponent)


@kernel
def take_rows(indptr, indices, mantissa, exponent, strict):
    """Turn rows of doubles, in place, to rows of decimals as the tokenizer leaves them.

    Return how many zeros were dropped; the smallest of their indices, 2**32 if none; 0 or why a row
    is refused, at which all ends; that row, and where in it, counted from 0.

    Parameters
    ----------
    indptr : int64[n_rows + 1]          changed where zeros are dropped
    indices : uint32[nnz]     moved down over zeros that are dropped
    mantissa : int64[nnz]     on entry the bits of values, float64; written, as `exponent` is
    strict : bool             drop and count zeros, and refuse indices that do not increase in a
                              row; otherwise zeros are kept, and indices may be in any order
    """
    # columns of numbers have mostly few values: those met last are remembered
    known = np.zeros(REMEMBERED, np.int64)
    known_mantissa, known_exponent = np.zeros_like(known), np.zeros(REMEMBERED, np.uint8)
    zeros, least_zero, bits = 0, np.int64(1) << 32, mantissa.view(np.float64)
    k, one, start = np.uint64(0), np.uint64(1), np.int64(0)
    for i in range(indptr.shape[0] - 1):
        stop, previous = indptr[i + 1], np.int64(-1)
        for p in span(start, stop):
            value, index, fault = bits[p], np.int64(indices[p]), 0
            if not abs(value) < 1e154:
                fault = TOO_LARGE if abs(value) < np.inf else NOT_FINITE
            elif strict and index <= previous:
                fault = REPEATED if index == previous else ORDER
            if fault != 0:
                return zeros, least_zero, fault, i, np.int64(p) - start
            previous = index
            if strict and value == 0.0:
                zeros, least_zero = zeros + 1, min(least_zero, index)
                continue
            indices[k] = indices[p]
            word = mantissa[p]
            slot = np.uint64(word) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(REMEMBERED_SHIFT)
            if known[slot] == word:
                mantissa[k], exponent[k] = known_mantissa[slot], known_exponent[slot]
            else:
                _put(value, k, mantissa, bits, exponent)
                known[slot] = word
                known_mantissa[slot], known_exponent[slot] = mantissa[k], exponent[k]
            k += one
        start = stop
        indptr[i + 1] = k
    return zeros, least_zero, 0, 0, 0
