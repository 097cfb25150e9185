"""Doubles as text: what C's ``%.17g`` writes."""

import numpy as np

from blocklinear.kernels.jit import kernel
from blocklinear.kernels.text.decimals import exact_product
from blocklinear.kernels.text.powers import POWERS_HIGH, POWERS_LOW
from blocklinear.kernels.text.simd import address_of, put_eight_bytes

U = np.uint64
WIDTH = 25
"""Bytes that a number takes at most, with the blank behind it."""

_TOO_LARGE, _EIGHT_DIGITS = 10**17, U(10**8)
_ZERO_POINT = U(int.from_bytes(b"0.000000", "little"))
_LEAST_TENS, _LEAST_FIXED = -99, -4
"""Below the first, exponents have three digits; from the second on, there is none."""


@kernel
def _scaled(number, power):
    """Return ``number * 10**power`` rounded to nearest, ties to even; -1 if that is not certain.

    The result must lie between 2**53 and 2**58. Double-double arithmetic is off by less than 2**-46
    then, and exact where a double holds the power.
    """
    first, second = exact_product(number, POWERS_HIGH[power])
    second += number * POWERS_LOW[power]
    below = np.floor(second)
    integer, above = np.int64(first) + np.int64(below), second - below - 0.5
    if POWERS_LOW[power] != 0.0 and abs(above) < 2.0**-40:
        return np.int64(-1)
    return integer + np.int64(above > 0.0 or (above == 0.0 and integer & 1 == 1))


@kernel
def _digits(number):
    """Return the text of 8 digits, zeros first, as bytes of a uint64, the first of them lowest."""
    halves = number // U(10000) | number % U(10000) << U(32)
    hundreds = (halves * U(10486) >> U(20)) & U(0x7F0000007F)
    pairs = hundreds | halves - U(100) * hundreds << U(16)
    tens = (pairs * U(103) >> U(10)) & U(0x000F000F000F000F)
    return tens | pairs - U(10) * tens << U(8) | U(0x3030303030303030)


@kernel
def write_rows(rows, out):
    """Write rows as lines, a blank behind each number, every number as ``%.17g`` has it.

    Return the number of bytes; -1 if a number is neither 0 nor from 2e-99 to 1e17, or so close to
    the middle between two of 17 digits, about one in 2**39, that arithmetic cannot tell.

    Parameters
    ----------
    rows : float64[n_rows, n_columns]
    out : uint8[>= n_rows * (25 * n_columns + 1)]      written
    """
    bits, address, at = rows.view(np.uint64), address_of(out), 0
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            number = abs(rows[i, j])
            out[at] = 45  # -
            at += np.int64(bits[i, j] >> U(63))
            if number == 0.0:
                out[at], out[at + 1] = 48, 32  # 0 and a blank
                at += 2
                continue

            exponent = np.int64(bits[i, j] >> U(52) & U(2047)) - 1023
            # the decimal exponent: that of the power of two below, or one more
            tens = exponent * 78913 >> 18
            if not _LEAST_TENS <= tens <= 16:
                return -1
            decimal = _scaled(number, 16 - tens)
            if decimal >= _TOO_LARGE:
                tens += 1
                if tens > 16:
                    return -1
                decimal = _scaled(number, 16 - tens)
            if decimal < 0:
                return -1

            upper, last = U(decimal) // _EIGHT_DIGITS, _digits(U(decimal) % _EIGHT_DIGITS)
            first, middle = upper // _EIGHT_DIGITS, _digits(upper % _EIGHT_DIGITS)
            if _LEAST_FIXED <= tens < 0:
                put_eight_bytes(address, at, _ZERO_POINT)
                at += 1 - tens
                out[at] = U(48) + first
                put_eight_bytes(address, at + 1, middle)
                put_eight_bytes(address, at + 9, last)
                at += 17
                while out[at - 1] == 48:
                    at -= 1
            else:
                out[at + 1] = U(48) + first
                put_eight_bytes(address, at + 2, middle)
                put_eight_bytes(address, at + 10, last)
                point = at + max(tens, 0) + 1
                for k in range(at, point):
                    out[k] = out[k + 1]
                out[point] = 46
                at += 18
                while out[at - 1] == 48:
                    at -= 1
                if out[at - 1] == 46:
                    at -= 1
            if tens < _LEAST_FIXED:
                out[at], out[at + 1] = 101, 45  # e-
                out[at + 2], out[at + 3] = 48 + -tens // 10, 48 + -tens % 10
                at += 4
            out[at] = 32
            at += 1
        out[at] = 10
        at += 1
    return at
