"""Doubles as text: what C's ``%.17g`` writes."""

import numpy as np

from blocklinear.kernels.jit import kernel

U = np.uint64
_MOST_FIVES = 55  # 5**55 is the largest power of five below 2**128
_FIVES = np.array([divmod(5**k, 1 << 64) for k in range(_MOST_FIVES + 1)], np.uint64)
_FIVES_HIGH, _FIVES_LOW = _FIVES.T.copy()  # upper and lower 64 bits
WIDTH = 25
"""Bytes that a number takes at most, with the blank behind it."""

_LOW_HALF, _HALF_BITS = U(0xFFFFFFFF), U(32)
_FRACTION, _HIDDEN = U((1 << 52) - 1), U(1 << 52)
_SIGN = U(1 << 63)
_DIGITS, _TOO_LARGE, _EIGHT_DIGITS = 17, U(10**17), U(10**8)


@kernel
def _product(a, b):
    """Return a * b as its upper and its lower 64 bits."""
    a_high, a_low = a >> _HALF_BITS, a & _LOW_HALF
    b_high, b_low = b >> _HALF_BITS, b & _LOW_HALF
    low, cross = a_low * b_low, a_high * b_low
    middle = a_low * b_high + (low >> _HALF_BITS) + (cross & _LOW_HALF)
    high = a_high * b_high + (cross >> _HALF_BITS) + (middle >> _HALF_BITS)
    return high, (middle << _HALF_BITS) | (low & _LOW_HALF)


@kernel
def _scaled(fraction, exponent, power):
    """Return ``fraction * 2**exponent * 10**power``, rounded to nearest, ties to even.

    The product is exact, in three words. The result must lie between 2**53 and 2**60.
    """
    second, first = _product(fraction, _FIVES_LOW[power])
    third, more = _product(fraction, _FIVES_HIGH[power])
    second += more
    if second < more:
        third += U(1)
    shift = -(exponent + power) - 1  # one bit more is kept: it tells whether to round up
    if shift < 0:
        return first << U(-shift - 1)
    rest = False
    if shift >= 64:
        rest = first != U(0)
        first, second = second, third
        shift -= 64
    doubled = first
    if shift > 0:
        back = U(64 - shift)
        rest = rest or first << back != U(0)
        doubled = first >> U(shift) | second << back
    result = doubled >> U(1)
    if doubled & U(1) and (rest or result & U(1)):
        result += U(1)
    return result


@kernel
def write_rows(bits, out):
    """Write rows as lines, a blank behind each number, every number as ``%.17g`` has it.

    Return the number of bytes; -1 if a number is neither 0 nor from 2e-39 to 1e17: the digits of
    others take more than 128 bits of a power of ten.

    Parameters
    ----------
    bits : uint64[n_rows, n_columns]      those of finite doubles
    out : uint8[>= n_rows * (25 * n_columns + 1)]      written
    """
    digits = np.empty(_DIGITS, np.uint8)
    at = 0
    for i in range(bits.shape[0]):
        for j in range(bits.shape[1]):
            number = bits[i, j]
            if number & _SIGN:
                out[at] = 45  # -
                at += 1
                number ^= _SIGN
            if number == U(0):
                out[at], out[at + 1] = 48, 32  # 0 and a blank
                at += 2
                continue

            exponent = np.int64(number >> U(52)) - 1075
            fraction = number & _FRACTION | _HIDDEN
            # the decimal exponent: that of the power of two below, or one more
            tens = (exponent + 52) * 78913 >> 18
            if not -_MOST_FIVES <= tens - 16 <= 0:
                return -1
            decimal = _scaled(fraction, exponent, 16 - tens)
            if decimal >= _TOO_LARGE:
                tens += 1
                if tens > 16:
                    return -1
                decimal = _scaled(fraction, exponent, 16 - tens)

            upper, lower = decimal // _EIGHT_DIGITS, decimal % _EIGHT_DIGITS
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
