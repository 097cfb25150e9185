"""The tokenizer: bytes of LIBSVM text to numbers, one pass, no copies (Numba, nogil).

A number is kept as the decimal it was written as, ``mantissa / 10**exponent``, because that is
short to store and, for mantissas up to 2**53 and exponents up to 22, exactly the double that a
correctly rounding `strtod` returns (both operands are exact and division rounds once; Clinger,
PLDI 1990). Every other number is a double already (`RAW`) or left to Python's ``float`` (`SLOW`).
"""

import numpy as np

from blocklinear.kernels.jit import kernel
from blocklinear.kernels.shared import RAW
from blocklinear.kernels.text.decimals import exact_product
from blocklinear.kernels.text.powers import INTEGER_POWERS, POWERS_HIGH, POWERS_LOW
from blocklinear.kernels.text.simd import address_of, eight_bytes, marks_in_32, trailing_zeros

SLOW = 254
"""The exponent that marks a mantissa holding the offset of a token left to ``float``."""

MOST_EXACT = 2**53
"""Up to here every integer is a double, too."""

LABEL_SYNTAX, INDEX_SYNTAX, INDEX_RANGE, INDEX_BELOW_BASE, INDEX_ORDER = 1, 2, 3, 4, 5
INDEX_DUPLICATE, VALUE_SYNTAX, VALUE_RANGE, LABEL_RANGE, LINE_ENDING = 6, 7, 8, 9, 10

STRICT, REPEATS, ANY_ORDER = 0, 1, 2
"""Which indices may follow one another in a row: larger ones, equal ones too, or any."""


# A call counts the references of each array that it is given: what features need is inlined.
@kernel(forceinline=True)
def _nearest(mantissa, scale):
    """Return (double nearest to mantissa / 10**scale, whether that is certain), |scale| <= 250.

    The mantissa is a uint64 below 10**19. Double-double arithmetic is off by less than 2**-100
    relative; where that could change the rounding (about one number in 2**46) the result is not
    certain and the slow path decides.
    """
    m1 = float(mantissa)
    m2 = float(np.int64(mantissa - np.uint64(m1)))
    p1, p2 = POWERS_HIGH[abs(scale)], POWERS_LOW[abs(scale)]
    if scale > 0:
        first = m1 / p1
        t1, t2 = exact_product(first, p1)
        second = ((m1 - t1) - t2 + m2 - first * p2) / p1
    else:
        first, second = exact_product(m1, p1)
        second += m1 * p2 + m2 * p1
    high = first + second
    low = second - (high - first)
    error = abs(high) * 2.0**-100
    return high, high + (low + error) == high and high + (low - error) == high


@kernel(forceinline=True)
def _digits(buf, p, m, lost):
    """Append the digits at `p` to the mantissa `m`; return (next, m, digits lost: it is full)."""
    d = np.int64(buf[p]) - 48
    while 0 <= d <= 9:
        if m < 900000000000000000:
            m = m * 10 + d
        else:
            lost += 1
        p += 1
        d = np.int64(buf[p]) - 48
    return p, m, lost


@kernel
def _exponent(buf, p):
    """Read the digits after an ``e`` at `p`, with their sign; return (next, exponent)."""
    sign = -1 if buf[p] == 45 else 1
    if buf[p] == 45 or buf[p] == 43:
        p += 1
    e = np.int64(0)
    while 48 <= buf[p] <= 57:
        e = min(e * 10 + (np.int64(buf[p]) - 48), 1 << 40)
        p += 1
    return p, sign * e


@kernel(forceinline=True)
def _number(buf, p):
    """Read the number at `p`: [+-] digits [. digits] [e [+-] digits].

    Return (next, ok, mantissa, exponent, double). `ok` is 1 for a number, 0 for a syntax error,
    which is at `next` then, and -1 for at least 1e154 (its square overflows). Where the exponent is
    `SLOW`, the mantissa is the offset of the token; where it is `RAW`, the value is `double`.
    """
    token = p
    negative = buf[p] == 45
    if negative or buf[p] == 43:
        p += 1
    first = p
    p, m, lost = _digits(buf, p, np.int64(0), np.int64(0))
    n_digits = p - first
    scale = np.int64(0)
    if buf[p] == 46:
        first = p + 1
        p, m, lost = _digits(buf, first, m, lost)
        scale = p - first
        n_digits += scale
    if n_digits == 0:
        return p, 0, m, 0, 0.0
    if buf[p] == 101 or buf[p] == 69:
        p, e = _exponent(buf, p + 1)
        if not 48 <= buf[p - 1] <= 57:
            return p, 0, m, 0, 0.0
        scale -= e
    exact, scale = lost == 0, scale - lost
    while scale < 0 and exact and 0 < m <= MOST_EXACT // 10:  # 12e3 is the integer 12000
        m *= 10
        scale += 1
    if exact and (m == 0 or (0 <= scale <= 22 and m <= MOST_EXACT)):
        return p, 1, -m if negative else m, scale if m else 0, 0.0
    if not exact or abs(scale) > 250 or scale < -135:
        k = -scale
        for power in INTEGER_POWERS:
            k += power <= m
        if k > 154:  # 10**(k - 1) <= |number| < 10**k
            return p, -1, m, 0, 0.0
        if k < -325:
            return p, 1, np.int64(0), 0, 0.0
        return p, 1, token, SLOW, 0.0
    x, certain = _nearest(np.uint64(m), scale)
    if not certain:
        return p, 1, token, SLOW, 0.0
    return p, 1, np.int64(0), RAW, -x if negative else x


@kernel(forceinline=True)
def _next_token(buf, p):
    """Skip blanks and a comment from `p`; return (offset, state).

    The state is 0 at a token, 1 at the end of the line, 2 at a lone CR. One that ends a comment
    would else hide the rest of a file that knows no other line ending.
    """
    while buf[p] == 32 or buf[p] == 9:
        p += 1
    if buf[p] == 35:
        while buf[p] != 10 and buf[p] != 13:
            p += 1
    if buf[p] == 13:
        return p, 1 if buf[p + 1] == 10 else 2
    return p, 1 if buf[p] == 10 else 0


@kernel
def _ends_token(c):
    return c == 32 or c == 10 or c == 9 or c == 13 or c == 35


@kernel
def _label(buf, p, row, label_mantissa, label_double, label_exponent):
    """Read the label at `p` into row `row`; return (next, fault code)."""
    q, ok, m, e, x = _number(buf, p)
    if ok < 0:
        return p, LABEL_RANGE
    if ok == 0 or not _ends_token(buf[q]):
        return p, LABEL_SYNTAX
    label_mantissa[row] = m
    label_exponent[row] = e
    if e == RAW:
        label_double[row] = x
    return q, 0


@kernel(forceinline=True)
def _feature(buf, p, base, previous, lenient):
    """Read ``index:value`` at `p`; return (next or fault offset, fault, index, m, e, double).

    `lenient` is `STRICT`, `REPEATS` or `ANY_ORDER`.
    """
    index = np.int64(0)
    q = p
    while 48 <= buf[q] <= 57:
        index = min(index * 10 + (np.int64(buf[q]) - 48), 1 << 32)
        q += 1
    if q == p or buf[q] != 58:
        return p, INDEX_SYNTAX, index, 0, 0, 0.0
    if index >= 1 << 32:
        return p, INDEX_RANGE, index, 0, 0, 0.0
    if index <= previous:
        if index < base:
            return p, INDEX_BELOW_BASE, index, 0, 0, 0.0
        if lenient == STRICT or (lenient == REPEATS and index < previous):
            return p, INDEX_DUPLICATE if index == previous else INDEX_ORDER, index, 0, 0, 0.0
    r, ok, m, e, x = _number(buf, q + 1)
    if ok < 0:
        return q + 1, VALUE_RANGE, index, 0, 0, 0.0
    if ok == 0 or not _ends_token(buf[r]):
        return q + 1, VALUE_SYNTAX, index, 0, 0, 0.0
    return r, 0, index, m, e, x


@kernel(forceinline=True)
def _byte_at(text, p):
    return eight_bytes(text, p) & np.uint64(255)


@kernel(forceinline=True)
def _digits_of(word, n):
    """Read the first n bytes of the uint64 `word`, 1 <= n <= 8; return (value, whether digits)."""
    x = (word ^ np.uint64(0x3030303030303030)) << ((np.uint64(8) - n) << np.uint64(3))
    other = ((x + np.uint64(0x7676767676767676)) | x) & np.uint64(0x8080808080808080)
    x = (x * np.uint64(2561)) >> np.uint64(8)
    x = ((x & np.uint64(0x00FF00FF00FF00FF)) * np.uint64(6553601)) >> np.uint64(16)
    x = ((x & np.uint64(0x0000FFFF0000FFFF)) * np.uint64(42949672960001)) >> np.uint64(32)
    return x, other == 0


@kernel(forceinline=True)
def _append(text, p, n, m, powers):
    """Append the `n` bytes at `p`, 1 <= n <= 8, to `m`; return (value, whether digits)."""
    x, digits = _digits_of(eight_bytes(text, p), n)
    return m * eight_bytes(powers, n * np.uint64(8)) + x, digits


@kernel(forceinline=True)
def _scale_of(word):
    """Read a sign and two digits at the front of `word`; return (minus the number, whether so)."""
    sign = word & np.uint64(255)
    number, digits = _digits_of(word >> np.uint64(8), np.uint64(2))
    scale = np.int64(number)
    return -scale if sign == 43 else scale, digits and (sign == 43 or sign == 45)


@kernel(forceinline=True)
def _plain_feature(text, p, previous, powers):
    """Read an ordinary `` index:value`` at `p` quickly; 48 bytes from there must be text.

    Ordinary is one blank, an index of up to 8 digits above `previous`, and a value other than zero,
    ended by a blank or a newline. It has 1 to 8 digits, and a point may follow with 1 to 19; but
    all are at most 19, not counting zeros before the point. If 5 or more follow, an exponent of two
    digits may be next, as ``e-05``, that appends no zeros. For anything else `next` is 0, and
    `_feature` decides.

    All lengths come from the marks in 32 bytes, so that where the next feature begins is known
    long before the digits of this one are worked out, and the processor reads several at a time.
    `text` and `powers` (of ten, int64[19]) are addresses. Return (next, index, mantissa without
    the sign, exponent from 0 to 118, whether it is negative).
    """
    zero, one, four, eight = np.uint64(0), np.uint64(1), np.uint64(4), np.uint64(8)
    byte, most = np.uint64(255), np.uint64(19)
    first = p + one
    blanks = marks_in_32(32, text, first)
    if blanks == zero:  # the last of the row, if ordinary
        blanks = marks_in_32(10, text, first)
    colon, end = trailing_zeros(marks_in_32(58, text, first)), trailing_zeros(blanks)
    if _byte_at(text, p) != 32 or colon - one >= eight or end > 31:
        return zero, previous, zero, np.int64(0), False
    index, plain = _digits_of(eight_bytes(text, first), colon)
    start = colon + one
    negative = _byte_at(text, first + start) == 45
    start += np.uint64(negative)
    points = marks_in_32(46, text, first) & ((one << end) - one)
    point = min(trailing_zeros(points), end)
    n_whole, n_rest, e = point - start, end - point, np.int64(0)
    if n_whole == one:  # 0.5: the usual case needs no counting
        m = _byte_at(text, first + start) - np.uint64(48)
        plain &= m <= 9
    elif n_whole - one < eight:
        m, whole = _digits_of(eight_bytes(text, first + start), n_whole)
        plain &= whole
    else:
        return zero, previous, zero, np.int64(0), False
    if n_rest != zero:
        n_rest -= one
        tail = eight_bytes(text, first + end - four) if n_rest > eight else zero
        if tail & byte == 101:
            e, valid = _scale_of(tail >> eight)
            plain &= valid
            n_rest -= four
        if n_rest - one >= most or (m != zero and n_whole + n_rest > most):
            return zero, previous, zero, np.int64(0), False
        at, left = first + point + one, n_rest
        while left > eight:
            m, more = _append(text, at, eight, m, powers)
            plain &= more
            at, left = at + eight, left - eight
        m, more = _append(text, at, left, m, powers)
        plain &= more
        e += np.int64(n_rest)
    if not plain or np.int64(index) <= previous or m == zero or e < 0:
        return zero, previous, zero, np.int64(0), False
    return first + end, np.int64(index), m, e, negative


@kernel
def parse_lines(
    buf, base, lenient, indptr, indices, mantissa, exponent, label_mantissa, label_exponent, faults
):
    """Read whole lines of LIBSVM text.

    A faulty line leaves no row and one entry in `faults`; reading stops when `faults` is full.
    If `STRICT`, explicit zeros are dropped, but their indices count for the largest one.

    Return how many rows, entries, lines, blank lines, zeros dropped, `SLOW` numbers and faults
    there are; the largest index, -1 if none; the least index of a zero that was dropped, or 2**32.

    Parameters
    ----------
    buf : uint8[n + 1]        the text; byte n - 1 and the guard byte n are newlines
    base : int                smallest index allowed, 0 or 1
    lenient : int             `STRICT`, `REPEATS` or `ANY_ORDER`
    indptr : int64[n_lines + 1]         out
    indices : uint32[n_colons]          out, as written; strictly increasing in a row if `STRICT`
    mantissa, exponent : int64[n_colons], uint8[n_colons]      out, see `_number`
    label_mantissa, label_exponent :    out, likewise, one a row
    faults : int64[any, 3]              out: code, offset, line within `buf`
    """
    n = buf.shape[0] - 1
    text, tens = address_of(buf), address_of(INTEGER_POWERS)
    double, label_double = mantissa.view(np.float64), label_mantissa.view(np.float64)
    p = row = line = blank = zeros = slow = n_faults = 0
    k, one = np.uint64(0), np.uint64(1)
    max_index, least_zero = np.int64(-1), np.int64(1) << 32
    below = np.int64(base) - 1
    back = np.int64(lenient == REPEATS)  # an index is larger than the one before less this
    if lenient == ANY_ORDER:
        back = np.int64(1) << 32
    indptr[0] = 0
    while p < n:
        fault = row_zeros = 0
        p, state = _next_token(buf, p)
        is_row = state == 0
        if is_row:
            p, fault = _label(buf, p, row, label_mantissa, label_double, label_exponent)
            index, row_least = below, np.int64(1) << 32
            while fault == 0:
                if p + 48 < n:
                    lowest = max(index - back, below)
                    q, j, digits, e, negative = _plain_feature(text, np.uint64(p), lowest, tens)
                    if q != 0:
                        indices[k] = j
                        mantissa[k] = -np.int64(digits) if negative else np.int64(digits)
                        exponent[k] = e
                        certain = True
                        if digits > MOST_EXACT or e > 22:
                            x, certain = _nearest(digits, e)
                            double[k] = -x if negative else x
                            exponent[k] = RAW
                        if certain:
                            index = j
                            k += one
                            p = np.int64(q)
                            continue
                p, state = _next_token(buf, p)
                if state != 0:
                    break
                p, fault, index, m, e, x = _feature(buf, p, base, index, lenient)
                if fault != 0:
                    break
                if m == 0 and e == 0 and lenient == STRICT:
                    row_zeros += 1
                    row_least = min(row_least, index)
                    continue
                indices[k] = index
                mantissa[k] = m
                exponent[k] = e
                if e == RAW:
                    double[k] = x
                slow += e == SLOW
                k += one
        if fault == 0 and state == 2:
            fault = LINE_ENDING
        if fault != 0:
            faults[n_faults, 0], faults[n_faults, 1], faults[n_faults, 2] = fault, p, line
            n_faults += 1
            k = np.uint64(indptr[row])
            if n_faults == faults.shape[0]:
                break
        elif is_row:
            slow += label_exponent[row] == SLOW
            zeros += row_zeros
            max_index, least_zero = max(max_index, index), min(least_zero, row_least)
            row += 1
            indptr[row] = k
        else:
            blank += 1
        while buf[p] != 10:
            p += 1
        p += 1
        line += 1
    return row, np.int64(k), line, blank, zeros, slow, n_faults, max_index, least_zero
