"""What is done to text and its numbers besides reading them (Numba, nogil)."""

import numpy as np

from blocklinear.kernels.jit import kernel
from blocklinear.kernels.shared import RAW
from blocklinear.kernels.text.powers import POWERS
from blocklinear.kernels.text.simd import address_of, marks_in_32, marks_in_64, trailing_zeros


@kernel
def count_marks(buf):
    """Return how many newlines and colons uint8[n] `buf` has: bounds for rows and entries."""
    newlines = colons = np.uint64(0)
    text, whole = address_of(buf), buf.shape[0] // 64 * 64
    for p in range(0, whole, 64):
        newlines += marks_in_64(text, np.uint64(p), 10)
        colons += marks_in_64(text, np.uint64(p), 58)
    for p in range(whole, buf.shape[0]):
        newlines += np.uint64(buf[p] == 10)
        colons += np.uint64(buf[p] == 58)
    return np.int64(newlines), np.int64(colons)


@kernel
def count_lines(buf, begins):
    """Count the newlines of uint8[n] `buf`, and lines that may hold no row.

    Parameters
    ----------
    buf : uint8[n]
    begins : bool             whether a line begins with the first byte

    Returns
    -------
    newlines : int
    odd : int                 lines in it that do not begin with a visible character, or with ``#``
    begins : bool             whether a line begins after the last byte
    """
    newlines = odd = np.int64(0)
    n = buf.shape[0]
    if n == 0:
        return newlines, odd, begins
    if begins:
        odd += buf[0] <= 35 or buf[0] >= 127
    text, whole = address_of(buf), (n - 1) // 32 * 32  # a byte follows each of these
    for p in range(0, whole, 32):
        marks = marks_in_32(text, np.uint64(p), 10)
        while marks != 0:
            first = buf[p + np.int64(trailing_zeros(marks)) + 1]
            odd += first <= 35 or first >= 127
            newlines += 1
            marks &= marks - np.uint64(1)
    for p in range(whole, n - 1):
        if buf[p] == 10:
            newlines += 1
            odd += buf[p + 1] <= 35 or buf[p + 1] >= 127
    newlines += buf[n - 1] == 10
    return newlines, odd, buf[n - 1] == 10


@kernel
def line_start(buf, p):
    """Return the offset at which the line that `p` is in begins."""
    while p > 0 and buf[p - 1] != 10:
        p -= 1
    return p


@kernel
def to_doubles(mantissa, exponent, out):
    """Write the values of decimals: mantissa / 10**exponent, or the bits of a double where `RAW`.

    Parameters
    ----------
    mantissa, exponent : int64[n], uint8[n]         as `parse_lines` leaves them
    out : float64[n]          written
    """
    double = mantissa.view(np.float64)
    for k in range(mantissa.shape[0]):
        e = exponent[k]
        out[k] = double[k] if e == RAW else mantissa[k] / POWERS[e]


@kernel
def largest_double(mantissa, exponent):
    """Return the bits, an int64, of the largest magnitude of numbers that are doubles; 0 if none.

    Doubles without their sign compare as their bits do, many at a time.

    Parameters
    ----------
    mantissa : int64[n]       the bits of a double where `exponent` is `RAW`
    exponent : uint8[n]
    """
    most = np.int64(0)
    for k in range(mantissa.shape[0]):
        bits = mantissa[k] & np.int64(0x7FFFFFFFFFFFFFFF)
        most = max(most, bits if exponent[k] == RAW else np.int64(0))
    return most
