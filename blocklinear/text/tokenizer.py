"""The tokenizer: bytes of LIBSVM text to numbers, one pass, no copies (Numba, nogil).

A number is kept as the decimal it was written as, ``mantissa / 10**exponent``, because that is
short to store and, for mantissas up to 2**53 and exponents up to 22, exactly the double that a
correctly rounding `strtod` returns (both operands are exact and division rounds once; Clinger,
PLDI 1990). Every other number is a double already (`RAW`) or left to Python's ``float`` (`SLOW`).
"""

import numpy as np
from llvmlite import ir
from numba import config, njit, types
from numba.extending import intrinsic

RAW = 255
"""Exponent that marks a mantissa holding the bits of a float64."""
SLOW = 254
"""Exponent that marks a mantissa holding the offset of a token which needs the exact slow path."""

LABEL_SYNTAX, INDEX_SYNTAX, INDEX_RANGE, INDEX_BELOW_BASE, INDEX_ORDER = 1, 2, 3, 4, 5
INDEX_DUPLICATE, VALUE_SYNTAX, VALUE_RANGE, LABEL_RANGE, LINE_ENDING = 6, 7, 8, 9, 10

N_ROWS, N_VALUES, N_LINES, N_BLANK, N_ZEROS, N_SLOW, MAX_INDEX, N_FAULTS = 0, 1, 2, 3, 4, 5, 6, 7
LEAST_ZERO, N_COUNTS = 8, 9

STRICT, REPEATS, ANY_ORDER = 0, 1, 2
"""Which indices may follow one another in a row: larger ones, equal ones too, or any."""

# 10**k as the unevaluated sum of two doubles, for `_nearest`
_POWERS = [10**k for k in range(251)]
POWERS = np.array(_POWERS[:9])
POWERS_HIGH = np.array([float(p) for p in _POWERS])
POWERS_LOW = np.array([float(p - int(float(p))) for p in _POWERS])


@njit(cache=True, nogil=True)
def count_marks(buf):
    """Return how many newlines and colons uint8[n] `buf` has: bounds for rows and entries.

    Counting 128 bytes at a time in 8 bits keeps the vectors full; 128 fits in 8 bits.
    """
    newlines = colons = 0
    for start in range(0, buf.shape[0], 128):
        few_newlines, few_colons = np.uint8(0), np.uint8(0)
        for p in range(start, min(start + 128, buf.shape[0])):
            few_newlines = np.uint8(few_newlines + np.uint8(buf[p] == 10))
            few_colons = np.uint8(few_colons + np.uint8(buf[p] == 58))
        newlines += np.int64(few_newlines)
        colons += np.int64(few_colons)
    return newlines, colons


@njit(cache=True, nogil=True)
def _split(a):
    """Return a = high + low with at most 26 bits each (Veltkamp)."""
    t = 134217729.0 * a
    high = t - (t - a)
    return high, a - high


@njit(cache=True, nogil=True)
def _product(a, b):
    """Return a * b exactly as the sum of two doubles (Dekker)."""
    p = a * b
    a1, a2 = _split(a)
    b1, b2 = _split(b)
    return p, ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2


@njit(cache=True, nogil=True)
def _nearest(mantissa, scale, powers_high, powers_low):
    """Return (double nearest to mantissa / 10**scale, whether that is certain), |scale| <= 250.

    Double-double arithmetic is off by less than 2**-100 relative; where that could change the
    rounding (about one number in 2**46) the result is not certain and the slow path decides.
    """
    m1 = float(mantissa)
    m2 = float(mantissa - int(m1))
    p1, p2 = powers_high[abs(scale)], powers_low[abs(scale)]
    if scale > 0:
        first = m1 / p1
        t1, t2 = _product(first, p1)
        second = ((m1 - t1) - t2 + m2 - first * p2) / p1
    else:
        first, second = _product(m1, p1)
        second += m1 * p2 + m2 * p1
    high = first + second
    low = second - (high - first)
    error = abs(high) * 2.0**-100
    return high, high + (low + error) == high and high + (low - error) == high


@njit(cache=True, nogil=True)
def _digits(buf, p, m, exact):
    """Append the digits at `p` to the mantissa `m`; return (next, m, whether no digit was lost)."""
    d = np.int64(buf[p]) - 48
    while 0 <= d <= 9:
        if m < 900000000000000000:
            m = m * 10 + d
        else:
            exact = False
        p += 1
        d = np.int64(buf[p]) - 48
    return p, m, exact


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def _magnitude(buf, p):
    """Return the decimal exponent k of the number at `p`: 10**(k-1) <= |number| < 10**k.

    Rare: called only for numbers whose mantissa or exponent is out of the ordinary.
    """
    if buf[p] == 45 or buf[p] == 43:
        p += 1
    k = 0
    seen_point, seen_digit = False, False
    while buf[p] == 46 or 48 <= buf[p] <= 57:
        if buf[p] == 46:
            seen_point = True
        else:
            seen_digit = seen_digit or buf[p] != 48
            if seen_digit and not seen_point:
                k += 1
            elif seen_point and not seen_digit:
                k -= 1
        p += 1
    if not seen_digit:
        return -(1 << 40)
    if buf[p] == 101 or buf[p] == 69:
        k += _exponent(buf, p + 1)[1]
    return k


@njit(cache=True, nogil=True)
def _number(buf, p, powers_high, powers_low):
    """Read the number at `p`: [+-] digits [. digits] [e [+-] digits].

    Returns
    -------
    next : int64              first byte after it; where the grammar broke when ok is 0
    ok : int64                1 a number, 0 a syntax error, -1 at least 1e154 (its square overflows)
    mantissa : int64
    exponent : int64          0..22, or `SLOW` (mantissa = offset of the token), or `RAW`
    double : float64          the value when exponent is `RAW`
    """
    token = p
    negative = buf[p] == 45
    if negative or buf[p] == 43:
        p += 1
    first = p
    p, m, exact = _digits(buf, p, np.int64(0), True)
    n_digits = p - first
    scale = np.int64(0)
    if buf[p] == 46:
        first = p + 1
        p, m, exact = _digits(buf, first, m, exact)
        scale = p - first
        n_digits += scale
    if n_digits == 0:
        return p, 0, m, 0, 0.0
    if buf[p] == 101 or buf[p] == 69:
        p, e = _exponent(buf, p + 1)
        if not 48 <= buf[p - 1] <= 57:
            return p, 0, m, 0, 0.0
        scale -= e
    while scale < 0 and exact and 0 < m <= 900719925474099:  # 12e3 is the integer 12000
        m *= 10
        scale += 1
    if exact and (m == 0 or (0 <= scale <= 22 and m <= 9007199254740992)):
        return p, 1, -m if negative else m, scale if m else 0, 0.0
    if not exact or abs(scale) > 250 or scale < -135:
        k = _magnitude(buf, token)
        if k > 154:
            return p, -1, m, 0, 0.0
        if k < -325:
            return p, 1, np.int64(0), 0, 0.0
        return p, 1, token, SLOW, 0.0
    x, certain = _nearest(m, scale, powers_high, powers_low)
    if not certain:
        return p, 1, token, SLOW, 0.0
    return p, 1, np.int64(0), RAW, -x if negative else x


@njit(cache=True, nogil=True)
def _line_end(buf, p):
    """Return the offset of the newline that ends the line `p` is in."""
    while buf[p] != 10:
        p += 1
    return p


@njit(cache=True, nogil=True)
def line_start(buf, p):
    """Return the offset at which the line that `p` is in begins."""
    while p > 0 and buf[p - 1] != 10:
        p -= 1
    return p


@njit(cache=True, nogil=True, forceinline=True)
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


@njit(cache=True, nogil=True)
def _ends_token(c):
    return c == 32 or c == 10 or c == 9 or c == 13 or c == 35


@njit(cache=True, nogil=True)
def _label(buf, p, row, label_mantissa, label_double, label_exponent, powers_high, powers_low):
    """Read the label at `p` into row `row`; return (next, fault code)."""
    q, ok, m, e, x = _number(buf, p, powers_high, powers_low)
    if ok < 0:
        return p, LABEL_RANGE
    if ok == 0 or not _ends_token(buf[q]):
        return p, LABEL_SYNTAX
    label_mantissa[row] = m
    label_exponent[row] = e
    if e == RAW:
        label_double[row] = x
    return q, 0


@njit(cache=True, nogil=True)
def _feature(buf, p, base, previous, lenient, powers_high, powers_low):
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
    r, ok, m, e, x = _number(buf, q + 1, powers_high, powers_low)
    if ok < 0:
        return q + 1, VALUE_RANGE, index, 0, 0, 0.0
    if ok == 0 or not _ends_token(buf[r]):
        return q + 1, VALUE_SYNTAX, index, 0, 0, 0.0
    return r, 0, index, m, e, x


@intrinsic
def _eight_bytes(typing, buf, p):
    """Return bytes p..p+7 of `buf`, the first of them lowest: one load, aligned or not."""

    def generate(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        word = builder.bitcast(builder.gep(data, [args[1]]), ir.IntType(64).as_pointer())
        return builder.load(word, align=1)

    return types.uint64(buf, p), generate


@intrinsic
def _trailing_zeros(typing, x):
    """Return how many low bits of `x`, a uint64 other than 0, are 0."""

    def generate(context, builder, signature, args):
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(x), generate


if config.DISABLE_JIT:  # type: ignore[attr-defined]

    def _eight_bytes(buf, p):  # type: ignore[misc]
        return buf[int(p) : int(p) + 8].view("<u8")[0]

    def _trailing_zeros(x):  # type: ignore[misc]
        return np.uint64((int(x) & -int(x)).bit_length() - 1)


@njit(cache=True, nogil=True, forceinline=True)
def _eight_digits(buf, p):
    """Read the digits at `p`, 8 at most, all at once; return (their number, their value)."""
    x = _eight_bytes(buf, p) ^ np.uint64(0x3030303030303030)
    other = ((x + np.uint64(0x7676767676767676)) | x) & np.uint64(0x8080808080808080)
    n = np.uint64(8)
    if other != 0:  # bytes below the first that is no digit
        n = _trailing_zeros(other) >> np.uint64(3)
        if n == 0:
            return n, n
        x = x << (np.uint64(64) - (n << np.uint64(3)))
    x = (x * np.uint64(2561)) >> np.uint64(8)
    x = ((x & np.uint64(0x00FF00FF00FF00FF)) * np.uint64(6553601)) >> np.uint64(16)
    x = ((x & np.uint64(0x0000FFFF0000FFFF)) * np.uint64(42949672960001)) >> np.uint64(32)
    return n, x


@njit(cache=True, nogil=True, forceinline=True)
def _plain_feature(buf, p, previous, powers):
    """Read an ordinary `` index:value`` at `p` quickly; 32 bytes from there must be text.

    Ordinary is one blank, an index of up to 8 digits above `previous`, and a value other than zero
    of up to 15 digits without exponent, ended by a blank or a newline. For anything else `next` is
    0, and `_feature` decides.

    Returns
    -------
    next, index, mantissa, exponent : int64     as from `_feature`
    """
    q = np.uint64(p + 1)
    n, index = _eight_digits(buf, q)
    q += n
    if buf[p] != 32 or n == 0 or buf[q] != 58 or np.int64(index) <= previous:
        return 0, previous, 0, 0
    q += np.uint64(1)
    negative = buf[q] == 45
    q += np.uint64(negative)
    m, scale = np.int64(buf[q]) - 48, np.int64(0)
    n_digits = np.int64(1)
    if buf[q + np.uint64(1)] == 46 and 0 <= m <= 9:  # 0.5: the usual case needs no counting
        q += np.uint64(1)
    else:
        n, x = _eight_digits(buf, q)
        q += n
        m, n_digits = np.int64(x), np.int64(n)
    if buf[q] == 46:
        q += np.uint64(1)
        n, x = _eight_digits(buf, q)
        q += n
        scale = np.int64(n)
        m = m * powers[scale] + np.int64(x)
        if n == 8:
            n, x = _eight_digits(buf, q)
            q += n
            scale += np.int64(n)
            m = m * powers[np.int64(n)] + np.int64(x)
        n_digits += scale
    if (buf[q] != 32 and buf[q] != 10) or n_digits > 15 or m == 0:
        return 0, previous, 0, 0
    return np.int64(q), np.int64(index), -m if negative else m, scale


@njit(cache=True, nogil=True)
def parse_lines(
    buf, base, lenient, indptr, indices, mantissa, double, exponent, label_mantissa, label_double,
    label_exponent, faults, counts, powers, powers_high, powers_low,
):  # fmt: skip
    """Read whole lines of LIBSVM text.

    A faulty line leaves no row and one entry in `faults`; reading stops when `faults` is full.
    If `STRICT`, explicit zeros are dropped and counted, but their indices count for `MAX_INDEX`,
    and the least of them is `LEAST_ZERO`. Otherwise they are kept, and neither is told.

    Parameters
    ----------
    buf : uint8[n + 1]        the text; byte n - 1 and the guard byte n are newlines
    base : int                smallest index allowed, 0 or 1
    lenient : int             `STRICT`, `REPEATS` or `ANY_ORDER`
    indptr : int64[n_lines + 1]         out
    indices : uint32[n_colons]          out, as written; strictly increasing in a row if `STRICT`
    mantissa, exponent : int64[n_colons], uint8[n_colons]      out, see `_number`
    double : float64[n_colons]          the same memory as `mantissa`, for `RAW`
    label_mantissa, label_double, label_exponent :             out, likewise, one a row
    faults : int64[any, 3]              out: code, offset, line within `buf`
    counts : int64[N_COUNTS]            out
    powers : int64[9]         10**k
    powers_high, powers_low : float64[251]      10**k as two doubles
    """
    n = buf.shape[0] - 1
    p = row = k = line = blank = zeros = slow = n_faults = 0
    max_index, least_zero = np.int64(-1), np.int64(1) << 32
    indptr[0] = 0
    while p < n:
        fault = row_zeros = 0
        p, state = _next_token(buf, p)
        is_row = state == 0
        if is_row:
            p, fault = _label(
                buf, p, row, label_mantissa, label_double, label_exponent, powers_high, powers_low
            )
            index, row_least = np.int64(base) - 1, np.int64(1) << 32
            while fault == 0:
                if p + 40 < n:
                    q, index, m, e = _plain_feature(buf, p, index, powers)
                    if q > 0:
                        indices[k] = index
                        mantissa[k] = m
                        exponent[k] = e
                        k += 1
                        p = q
                        continue
                p, state = _next_token(buf, p)
                if state != 0:
                    break
                p, fault, index, m, e, x = _feature(
                    buf, p, base, index, lenient, powers_high, powers_low
                )
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
                k += 1
        if fault == 0 and state == 2:
            fault = LINE_ENDING
        if fault != 0:
            faults[n_faults, 0], faults[n_faults, 1], faults[n_faults, 2] = fault, p, line
            n_faults += 1
            k = indptr[row]
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
        p = _line_end(buf, p) + 1
        line += 1
    counts[N_ROWS], counts[N_VALUES], counts[N_LINES], counts[N_BLANK] = row, k, line, blank
    counts[N_ZEROS], counts[N_SLOW], counts[MAX_INDEX] = zeros, slow, max_index
    counts[N_FAULTS], counts[LEAST_ZERO] = n_faults, least_zero


@njit(cache=True, nogil=True)
def to_doubles(mantissa, double, exponent, powers, out):
    """Write the values of decimals: mantissa / 10**exponent, or the double where `RAW`.

    Parameters
    ----------
    mantissa, double, exponent : int64[n], float64[n], uint8[n]    as `parse_lines` leaves them
    powers : float64[23]      10**k
    out : float64[n]          written
    """
    for k in range(mantissa.shape[0]):
        e = exponent[k]
        out[k] = double[k] if e == RAW else mantissa[k] / powers[e]
