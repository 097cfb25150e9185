"""Doubles as text: what C's ``%.17g`` writes."""

import numpy as np

from blocklinear.kernels.jit import kernel
from blocklinear.kernels.text.decimals import exact_product
from blocklinear.kernels.text.powers import POWERS_HIGH, POWERS_LOW

U = np.uint64
WIDTH = 25
"""Bytes that a number takes at most, with the blank behind it."""

_DIGITS, _TOO_LARGE, _EIGHT_DIGITS = 17, 10**17, U(10**8)
_LEAST_TENS = -99  # below, exponents have three digits


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
def write_rows(rows, out):
    """Write rows as lines, a blank behind each number, every number as ``%.17g`` has it.

    Return the number of bytes; -1 if a number is neither 0 nor from 2e-99 to 1e17, or so close to
    the middle between two of 17 digits, about one in 2**39, that arithmetic cannot tell.

    Parameters
    ----------
    rows : float64[n_rows, n_columns]
    out : uint8[>= n_rows * (25 * n_columns + 1)]      written
    """
    digits, bits, at = np.empty(_DIGITS, np.uint8), rows.view(np.uint64), 0
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            number = abs(rows[i, j])
            if bits[i, j] >> U(63):
                out[at] = 45  # -
                at += 1
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

            upper, lower = U(decimal) // _EIGHT_DIGITS, U(decimal) % _EIGHT_DIGITS
            for k in range(8):
                digits[16 - k] = U(48) + lower % U(10)
                digits[8 - k] = U(48) + upper % U(10)
                lower //= U(10)
                upper //= U(10)
            digits[0] = U(48) + upper
            last = 16
            while digits[last] == 48:
                last -= 1

            if tens < -4:
                point = 0
            elif tens < 0:
                out[at], out[at + 1] = 48, 46  # 0.
                at += 2
                for _ in range(-tens - 1):
                    out[at] = 48
                    at += 1
                point = last
            else:
                point = tens
            for k in range(max(point, last) + 1):
                out[at] = digits[k]
                at += 1
                if k == point and k < last:
                    out[at] = 46
                    at += 1
            if tens < -4:
                out[at], out[at + 1] = 101, 45  # e-
                out[at + 2], out[at + 3] = 48 + -tens // 10, 48 + -tens % 10
                at += 4
            out[at] = 32
            at += 1
        out[at] = 10
        at += 1
    return at
