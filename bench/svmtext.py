"""LIBSVM text from arrays, about as fast as a disk takes it: kernels that print numbers."""

import math

import numpy as np
from numba import njit

POWERS_OF_TEN = np.array([float(f"1e{k}") for k in range(23)])
"""1e0 .. 1e22, all the powers of ten that a double holds exactly."""

NUMBER_BYTES = 13
"""The longest text `put_g6` writes: ``-1.23456e-100`` would be the limit of ``%.6g``."""


@njit(cache=True, nogil=True)
def rounded_scaled(value, k, powers):
    """Return `value` times 10^`k`, rounded to an integer as if computed exactly; ties to even.

    Multiplying or dividing by an exact power of ten rounds once, and rounding keeps the order of
    numbers. So when the result's fraction differs from one half, it is on the side of one half
    where the exact one is; only a fraction of exactly one half needs the rounding error.

    Parameters
    ----------
    value : float64                 positive, result below 2^22
    k : int64                       -22 <= k <= 22
    powers : float64[23]            `POWERS_OF_TEN`
    """
    power = powers[abs(k)]
    scaled = value * power if k >= 0 else value / power
    whole = math.floor(scaled)
    fraction = scaled - whole
    if fraction != 0.5:
        return int(whole) + (1 if fraction > 0.5 else 0)
    if k >= 0:
        excess = product_error(value, power, scaled)
    else:  # value - scaled * power, exact because value is within half an ulp of the product
        product = scaled * power
        excess = (value - product) - product_error(scaled, power, product)
    if excess == 0.0:
        return int(whole) + int(whole) % 2
    return int(whole) + (1 if excess > 0.0 else 0)


@njit(cache=True, nogil=True)
def product_error(a, b, product):
    """Return a b - `product` exactly, where `product` is a b rounded (Dekker 1971)."""
    split = a * 134217729.0  # 2^27 + 1
    a_high = split - (split - a)
    a_low = a - a_high
    split = b * 134217729.0
    b_high = split - (split - b)
    b_low = b - b_high
    return ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


@njit(cache=True, nogil=True)
def put_g6(out, at, value, powers):
    """Write `value` as C's ``%.6g`` does; return the position after it.

    Parameters
    ----------
    out : uint8[:]                  at least `NUMBER_BYTES` free from `at` on
    at : int64
    value : float64                 0, or 1e-16 <= abs(value) < 1e22 (checked by the caller)
    powers : float64[23]            `POWERS_OF_TEN`
    """
    if math.copysign(1.0, value) < 0.0:
        out[at] = 45  # -
        at += 1
        value = -value
    if value == 0.0 or value == 1.0:
        out[at] = 48 + int(value)
        return at + 1

    # 2^(b-1) <= value < 2^b puts the decimal exponent at e or e + 1; rounding may add one more.
    _, b = math.frexp(value)
    e = math.floor((b - 1) * 0.30102999566398120)
    digits = rounded_scaled(value, 5 - e, powers)
    while digits >= 1000000:
        e += 1
        digits = rounded_scaled(value, 5 - e, powers)

    n_digits = 6
    while digits % 10 == 0:
        digits //= 10
        n_digits -= 1
    if e < -4 or e >= 6:
        at = put_decimal(out, at, digits, n_digits, 1)
        out[at] = 101  # e
        out[at + 1] = 45 if e < 0 else 43
        out[at + 2] = 48 + abs(e) // 10
        out[at + 3] = 48 + abs(e) % 10
        return at + 4
    if e >= 0:
        while n_digits < e + 1:
            digits *= 10
            n_digits += 1
        return put_decimal(out, at, digits, n_digits, e + 1)
    out[at] = 48
    out[at + 1] = 46  # .
    at += 2
    for _ in range(-e - 1):
        out[at] = 48
        at += 1
    return put_decimal(out, at, digits, n_digits, n_digits)


@njit(cache=True, nogil=True)
def put_decimal(out, at, digits, n_digits, n_whole):
    """Write the `n_digits` digits of `digits` with a point after the first `n_whole`, if inside."""
    end = at + n_digits + (1 if n_whole < n_digits else 0)
    p = end - 1
    for k in range(n_digits - 1, -1, -1):
        out[p] = 48 + digits % 10
        digits //= 10
        p -= 1
        if k == n_whole:
            out[p] = 46  # .
            p -= 1
    return end


@njit(cache=True, nogil=True)
def put_integer(out, at, number):
    """Write the nonnegative integer `number`; return the position after it."""
    n_digits = 1
    rest = number // 10
    while rest > 0:
        rest //= 10
        n_digits += 1
    return put_decimal(out, at, number, n_digits, n_digits)


@njit(cache=True, nogil=True)
def put_rows(labels, signed, indptr, indices, values, order, powers, out, lengths):
    """Write rows as LIBSVM text, ``label index:value ...``; return the number of bytes.

    Parameters
    ----------
    labels : int64[n_rows]
    signed : bool                   print positive labels with a plus sign
    indptr : int64[n_rows + 1]
    indices : int32[nnz]            1-based, as printed
    values : float64[nnz]           in the range of `put_g6`
    order : int64[n_order]          rows to write, in this order
    powers : float64[23]            `POWERS_OF_TEN`
    out : uint8[:]                  written in place; see `rows_capacity`
    lengths : int64[n_rows]         of the rows in `order`, the bytes of each; changed in place
    """
    at = 0
    for k in range(order.shape[0]):
        i = order[k]
        start = at
        if labels[i] < 0 or signed:
            out[at] = 45 if labels[i] < 0 else 43
            at += 1
        at = put_integer(out, at, abs(labels[i]))
        for p in range(indptr[i], indptr[i + 1]):
            out[at] = 32
            at = put_integer(out, at + 1, indices[p])
            out[at] = 58  # :
            at = put_g6(out, at + 1, values[p], powers)
        out[at] = 10
        at += 1
        lengths[i] = at - start
    return at


def rows_capacity(n_rows: int, nnz: int) -> int:
    """Return a number of bytes that `put_rows` cannot exceed."""
    return 24 * n_rows + (2 + 10 + NUMBER_BYTES) * nnz
