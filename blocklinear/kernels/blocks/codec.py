"""Rows to byte planes and back: the arithmetic of the block codec (see `store.codec`).

A plane holds one byte of each number: plane b of x is ``(x >> 8 b) & 255``. Bytes of one kind lie
together, so an entropy coder sees one distribution at a time. The last plane has only the bits that
are left, packed to 1, 2, 4 or 8 bits a number.

Loops are kept free of conditions wherever they can be: the compiler then works on whole vectors.
"""

import numpy as np

from blocklinear.kernels.jit import kernel
from blocklinear.kernels.shared import RAW, four_sums
from blocklinear.kernels.text.powers import INTEGER_POWERS, POWERS

MOST_INTEGER = (1 << 63) - 1
"""No mantissa is above."""
TILE = 2048  # numbers decoded at a time: what is between their planes and them stays in the cache


@kernel
def gaps_of(lengths, indices, gaps):
    """Write the gap before each index: index - previous - 1 within a row, the index itself first.

    Return all gaps, uint32[nnz], or-ed together.

    Parameters
    ----------
    indices : uint32[nnz]     strictly increasing in each row
    """
    later, following = indices[1:], gaps[1:]
    for p in range(later.shape[0]):
        following[p] = later[p] - indices[p] - np.uint32(1)
    p = 0
    for i in range(lengths.shape[0]):
        if lengths[i] > 0:
            gaps[p] = indices[p]
        p += lengths[i]
    bits = np.uint32(0)
    for p in range(gaps.shape[0]):
        bits |= gaps[p]
    return bits


@kernel
def decimal_stats(mantissa, exponent):
    """Return the bits of mantissas, whether some are negative, and which exponents occur.

    The bits are those of all mantissas or-ed together, ``~m`` for a negative m. Of the exponents,
    uint64, bit e is set if exponent e occurs, bit 63 if `RAW` does.
    """
    bits, signs, exponents = np.int64(0), np.int64(0), np.uint64(0)
    for k in range(mantissa.shape[0]):
        bits |= mantissa[k] ^ (mantissa[k] >> 63)
        signs |= mantissa[k]
    for k in range(exponent.shape[0]):
        exponents |= np.uint64(1) << np.uint64(exponent[k] & 63)
    return bits, signs < 0, exponents


@kernel
def take_doubles(mantissa, exponent, most, doubles):
    """Move what is to be stored as float64 out of `mantissa`, leaving 0 there; `RAW` in `exponent`.

    These are the float64 numbers, and decimals whose mantissas exceed `most` in size. Return how
    many there are.

    Parameters
    ----------
    most : int                `MOST_INTEGER` to move float64 numbers alone
    doubles : float64[any]    written in order: what is moved; one more is scratch
    """
    double = mantissa.view(np.float64)
    if most < MOST_INTEGER:
        for k in range(mantissa.shape[0]):
            if abs(mantissa[k]) > most and exponent[k] != RAW:
                double[k] = mantissa[k] / POWERS[exponent[k]]
                exponent[k] = RAW
    n_doubles = np.uint64(0)  # a place that may be negative is looked at twice
    for k in range(mantissa.shape[0]):  # without branches: nobody can foresee which it is
        doubles[n_doubles] = double[k]
        n_doubles += np.uint64(exponent[k] == RAW)
    for k in range(mantissa.shape[0]):
        mantissa[k] = 0 if exponent[k] == RAW else mantissa[k]
    return np.int64(n_doubles)


@kernel
def raise_exponents(mantissa, exponent, least, most):
    """Write numbers of exponents below `least` with that instead, if all of them allow it.

    The quotient stays the same, hence the double it is rounded to: m / 10**e = 10 m / 10**(e + 1).
    Exponents may be further apart than int64 has powers of ten: then only 0 can be raised. Where a
    mantissa would be above `most` in size, return False; nothing is changed then.
    """
    for k in range(exponent.shape[0]):
        by = least - np.int64(exponent[k])
        if by <= 0 or mantissa[k] == 0:
            continue
        if by >= INTEGER_POWERS.shape[0] or abs(mantissa[k]) > most // INTEGER_POWERS[by]:
            return False
    for k in range(exponent.shape[0]):
        by = least - np.int64(exponent[k])
        if by > 0:
            if mantissa[k] != 0:
                mantissa[k] *= INTEGER_POWERS[by]
            exponent[k] = least
    return True


@kernel
def zigzag(x):
    """Fold signed numbers in place so that small magnitudes stay small: 0 -1 1 -2 -> 0 1 2 3."""
    for k in range(x.shape[0]):
        x[k] = (x[k] << 1) ^ (x[k] >> 63)


@kernel
def pack(x, bits, out):
    """Write the planes of the low `bits` bits of numbers to the front of `out`; return their size.

    Parameters
    ----------
    x : integer[n]            not negative
    bits : int                0..64; bits % 8 is 0, 1, 2 or 4
    out : uint8[any]          written: bits // 8 planes of n bytes, one after the other; then, if
                              bits % 8 is not 0, one that has the numbers ``j s .. (j + 1) s - 1``
                              at bit j (bits % 8) of its s bytes
    """
    n = x.shape[0]
    for b in range(bits // 8):
        plane, shift = out[b * n : (b + 1) * n], 8 * b
        for k in range(n):
            plane[k] = np.uint8((x[k] >> shift) & 255)
    size, left, shift = bits // 8 * n, bits % 8, bits - bits % 8
    if left == 0:
        return size
    step, mask = -(-n // (8 // left)), (1 << left) - 1
    plane = out[size : size + step]
    plane[:] = 0
    for j in range(8 // left):
        part, at = x[j * step : min((j + 1) * step, n)], np.uint8(j * left)
        for k in range(part.shape[0]):
            plane[k] |= np.uint8(np.uint8((part[k] >> shift) & mask) << at)
    return size + step


@kernel
def take_codes(codes, exponent):
    """Replace exponents by their codes, uint8[256]."""
    for k in range(exponent.shape[0]):
        exponent[k] = codes[exponent[k]]


@kernel
def _expand(plane, bits):
    """Undo the packing of a last plane in place: its bytes lie at the front of uint8[n] `plane`."""
    if bits == 0 or bits == 8:
        return
    n = plane.shape[0]
    step = -(-n // (8 // bits))
    mask = np.uint8((1 << bits) - 1)
    packed = plane[:step]
    for j in range(8 // bits - 1, 0, -1):
        part, shift = plane[j * step : min((j + 1) * step, n)], np.uint8(j * bits)
        for k in range(part.shape[0]):
            part[k] = np.uint8(packed[k] >> shift) & mask
    for k in range(packed.shape[0]):
        packed[k] &= mask


@kernel
def _join(planes, width, start, stop, out):
    """Put numbers start..stop-1 together from the first `width` of uint8[any, n] `planes`."""
    p0 = planes[0][start:stop]
    if width == 0:
        out[:] = 0
    elif width == 1:
        for k in range(out.shape[0]):
            out[k] = p0[k]
    elif width == 2:
        p1 = planes[1][start:stop]
        for k in range(out.shape[0]):
            out[k] = p0[k] | (np.int32(p1[k]) << 8)
    else:
        p1, p2 = planes[1][start:stop], planes[2][start:stop]
        for k in range(out.shape[0]):
            out[k] = p0[k] | (np.int32(p1[k]) << 8) | (np.int32(p2[k]) << 16)
    for b in range(3, width):
        plane, shift = planes[b][start:stop], 8 * b
        for k in range(out.shape[0]):
            out[k] |= out.dtype.type(plane[k]) << shift


@kernel
def to_rows(planes, widths, first_row, nnz, doubles, folded, lengths, numbers, labels):
    """Decode the lengths, the numbers and the labels of rows.

    Return 0; or 1 if lengths are impossible, 2 if numbers are, 3 if labels are.

    Parameters
    ----------
    planes : uint8[sum(widths) + 1, n]    planes of row lengths, gaps between row numbers, mantissas
                              of labels; then exponents of these, 0..22 or `RAW`
    widths : (int, int, int)  planes of each
    first_row, nnz : int      number of the first row; what the lengths must add up to
    doubles : float64[m]      labels marked `RAW`, in order
    folded : bool             whether the mantissas went through `zigzag`
    lengths, numbers, labels : int64[n], int64[n], float64[n]     written
    """
    n = labels.shape[0]
    a, b = widths[0], widths[0] + widths[1]
    _join(planes, widths[0], 0, n, lengths)
    left = nnz
    for i in range(n):
        if lengths[i] < 0 or lengths[i] > left:
            return 1
        left -= lengths[i]
    if left != 0:
        return 1
    _join(planes[a:], widths[1], 0, n, numbers)
    number = first_row - 1
    for i in range(n):
        if numbers[i] < 0 or numbers[i] >= 1 << 62 or number >= 1 << 62:
            return 2
        number += numbers[i] + 1
        numbers[i] = number
    bits, exponent = np.empty(n, np.int64), planes[b + widths[2]]
    _join(planes[b:], widths[2], 0, n, bits)
    if folded:
        _unfold(bits)
    for i in range(n):
        if exponent[i] < POWERS.shape[0]:
            labels[i] = bits[i] / POWERS[exponent[i]]
        elif exponent[i] != RAW:
            return 3
    return 0 if _put_doubles(exponent, 8, RAW, doubles, labels) else 3


@kernel
def to_columns(planes, bits, lengths, n_features, base, first, indptr, indices):
    """Turn the planes of gaps into columns, and fill the row pointers.

    Return whether every column is in its range.

    Parameters
    ----------
    planes : uint8[width, nnz]    width at least 1; the last of them packed, see `_expand`
    bits : int                bits of a gap, 0..32
    n_features, base : int    columns are 0 <= index - base < n_features
    first : int               position of the chunk's first entry in the arrays of its group
    indptr : int64[n_rows]    written: where each row ends, counted in the group
    indices : uint32[nnz]     written: columns
    """
    width = (bits + 7) // 8
    _expand(planes[width - 1], bits % 8)
    p = joined = 0
    for i in range(lengths.shape[0]):
        if p + lengths[i] > joined:
            start, joined = joined, min(max(p + lengths[i], joined + TILE), indices.shape[0])
            _join(planes, width, start, joined, indices[start:joined])
        row = indices[p : p + lengths[i]]
        column = np.int64(-base - 1)
        if row.shape[0] > 0 and row[0] < base:
            return False
        for q in range(row.shape[0]):  # columns increase: the last is the largest
            column += np.int64(row[q]) + 1
            row[q] = np.uint32(column)
        if column >= n_features:
            return False
        p += lengths[i]
        indptr[i] = first + p
    return True


@kernel
def _unfold(x):
    """Undo `zigzag`."""
    for k in range(x.shape[0]):
        x[k] = (x[k] >> 1) ^ -(x[k] & 1)


@kernel(error_model="numpy")
def _divide(bits, folded, codes, code_bits, divisors, out):
    """Write mantissa / divisor; `bits` are mantissas as stored, changed if `folded`."""
    if folded:
        _unfold(bits)
    if code_bits > 2:
        for k in range(out.shape[0]):
            out[k] = np.float64(bits[k]) / divisors[codes[k]]
    elif code_bits > 0:  # a choice among four is faster than a look into memory
        a, b, c, d = divisors[0], divisors[1], divisors[2], divisors[3]
        for k in range(out.shape[0]):
            even, odd = c if codes[k] & 2 else a, d if codes[k] & 2 else b
            out[k] = np.float64(bits[k]) / (odd if codes[k] & 1 else even)
    else:
        divisor = divisors[0]
        for k in range(out.shape[0]):
            out[k] = np.float64(bits[k]) / divisor


@kernel
def _unpack(planes, bits, code_bits):
    """Undo the packing of planes, see `to_values`; return width, codes and the largest."""
    width = (bits + 7) // 8
    _expand(planes[width - 1], bits % 8)
    codes, worst = planes[width], np.uint8(0)
    if code_bits:
        _expand(codes, code_bits)
        for k in range(codes.shape[0]):
            worst = max(worst, codes[k])
    return width, codes, worst


@kernel
def _put_doubles(codes, code_bits, raw, doubles, out):
    """Write the next of `doubles` wherever `to_values` says; return if each is finite, and used."""
    used = 0
    if raw >= 0:
        for k in range(out.shape[0]):
            if code_bits == 0 or codes[k] == raw:
                if used == doubles.shape[0] or not np.isfinite(doubles[used]):
                    return False
                out[k] = doubles[used]
                used += 1
    return used == doubles.shape[0]


@kernel
def square_norms(lengths, values, sq_norm):
    """Write x_i' x_i of each row, float64[n_rows]."""
    p = 0
    for i in range(lengths.shape[0]):
        row = values[p : p + lengths[i]]
        sq_norm[i] = four_sums(row, row)
        p += lengths[i]


@kernel
def to_values(
    planes, bits, code_bits, folded, divisors, n_codes, raw, doubles, values, lengths, sq_norm
):  # fmt: skip
    """Decode numbers: mantissa / 10**exponent, exactly, or the next of `doubles`.

    Return whether all codes and doubles are possible, and all doubles used.

    Parameters
    ----------
    planes : uint8[width + 1, n]    of mantissas, the last packed, see `_expand`; then the packed
                              codes of their exponents
    bits, code_bits : int     bits of a mantissa, 0..64, and of a code, 0..8
    folded : bool             whether the mantissas went through `zigzag`
    divisors : float64[256]   10**exponent for each code, 1 for all that mean none
    n_codes, raw : int        codes there may be; the one that marks a float64, -1 if none does
    doubles : float64[m]      these numbers, in order
    values : float64[n] or float32[n]      written
    lengths : int64[n_rows]   of the rows whose norms are wanted
    sq_norm : float64[n_rows] written: x_i' x_i of these
    """
    n = values.shape[0]
    width, codes, worst = _unpack(planes, bits, code_bits)
    narrow, wide = np.empty(TILE, np.int32), np.empty(TILE, np.int64)
    for start in range(0, n, TILE):
        stop = min(start + TILE, n)
        some, out = codes[start:stop], values[start:stop]
        if bits < 32:
            _join(planes, width, start, stop, narrow[: stop - start])
            _divide(narrow, folded, some, code_bits, divisors, out)
        else:
            _join(planes, width, start, stop, wide[: stop - start])
            _divide(wide, folded, some, code_bits, divisors, out)
    if not _put_doubles(codes, code_bits, raw, doubles, values):
        return False
    square_norms(lengths, values, sq_norm)
    return worst < max(n_codes, 1)


@kernel
def to_mantissas(
    planes, bits, code_bits, folded, meanings, n_codes, raw, doubles, mantissa, exponent
):
    """Decode numbers as `to_values`, but to decimals, as the tokenizer leaves them.

    Parameters
    ----------
    meanings : uint8[256]     the exponent of each code
    doubles : int64[m]        the bits of numbers that are float64, in order
    mantissa : int64[n], or int32[n] for less than 32 bits and no doubles       written
    exponent : uint8[n]       written
    """
    n = mantissa.shape[0]
    width, codes, worst = _unpack(planes, bits, code_bits)
    if code_bits:
        for k in range(n):
            exponent[k] = meanings[codes[k]]
    else:
        exponent[:] = meanings[0]
    _join(planes, width, 0, n, mantissa)
    if folded:
        _unfold(mantissa)
    return _put_doubles(codes, code_bits, raw, doubles, mantissa) and worst < max(n_codes, 1)
