"""Rows packed without loss, to keep more of them in memory.

Each region of one memory begins with a table, `TABLE_WORDS` int64 words for each row; the rows are
somewhere behind it. The words are the position of the row in the store, the word where the row
begins, and 256 times its number of entries, plus its form. A row has a header of `HEADER_WORDS`
words, then its values, then the numbers of its columns:

    header  x_i' x_i, label, weight: float64[3]
    values  int32[n], float32[n] or float64[n], as the form says
    columns their lowest 16 bits, uint16[n], then the others, 8 bits at a time: uint8[n] each

A form up to 22 stands for values that are m / 10**form: numbers of text mostly are. To divide is to
round once, and so is to read a number: both find the number next to the decimal one.

Kernels get the memory as its words, float64, and look at them as numbers of other types.
"""

import numpy as np

from blocklinear.kernels.fetch import FAR, fetch, fetch_entries
from blocklinear.kernels.jit import kernel
from blocklinear.kernels.orders import key_state, uniform
from blocklinear.kernels.shared import mix, span
from blocklinear.kernels.text.powers import POWERS

TABLE_WORDS, HEADER_WORDS = 3, 3
"""Words of a row in the table, and before its values."""
SINGLE, DOUBLE = 254, 255
"""Forms: values as they are, in 4 or 8 bytes."""
_MOST = 2.0**31 - 1.0
_ROUNDING = 1.5 * 2.0**52
"""Added to a number of less than 2**31 and subtracted again, it leaves the nearest integer."""


@kernel(fastmath={"nnan", "nsz"})
def _largest(values):
    """Return the largest size of numbers."""
    largest = 0.0
    for value in values:
        largest = max(largest, abs(value))
    return largest


@kernel(error_model="numpy")
def _to_decimals(values, mantissas):
    """Write the mantissas of decimal numbers of up to nine digits; return their form, else DOUBLE.

    If any power of ten does, so does the largest one that keeps the mantissas below 2**31.
    """
    largest, form = _largest(values), POWERS.shape[0] - 1
    while form >= 0 and largest * POWERS[form] > _MOST:
        form -= 1
    if form < 0:
        return DOUBLE
    power, others = POWERS[form], 0
    for p in span(0, values.shape[0]):
        nearest = (values[p] * power + _ROUNDING) - _ROUNDING
        others += nearest / power != values[p]
        mantissas[p] = np.int32(nearest)
    return DOUBLE if others else form


@kernel
def pack_rows(
    rows, positions, labels, weights, order, begin, end, mantissas, planes, words, packed
):
    """Fill a region with rows, in the order given, until one does not fit; return how many did.

    The table grows from the front of the region, and the rows from its end.

    Parameters
    ----------
    positions : int64[n]      of the rows in the store
    labels, weights : float64[n]        weights may be empty
    begin, end : int          words of the region
    mantissas : int32[]       overwritten; as many as the longest row has entries
    planes : int              bytes of a column beyond the first two
    words : float64[]         the memory
    packed : bool[n]          set for the rows that are in the region now
    """
    starts, stops, indices, values, sq_norm = rows
    integers, singles = words.view(np.int64), words.view(np.int32)
    halves, octets = words.view(np.uint16), words.view(np.uint8)
    for k in range(order.shape[0]):
        if k + FAR < order.shape[0]:
            fetch_entries(rows, order[k + FAR])
        i = order[k]
        start, stop = starts[i], stops[i]
        n, row, columns = stop - start, values[start:stop], indices[start:stop]
        form = SINGLE
        if values.itemsize == 8:
            form = _to_decimals(row, mantissas)
        size = n * ((8 if form == DOUBLE else 4) + 2 + planes)  # of values and columns, in bytes
        first = end - HEADER_WORDS - ((size + 7) >> 3)
        table = begin + TABLE_WORDS * k
        if first < table + TABLE_WORDS:
            return k
        end = first
        integers[table], integers[table + 1] = positions[i], first
        integers[table + 2] = n << 8 | form
        words[first], words[first + 1] = sq_norm[i], labels[i]
        words[first + 2] = weights[i] if weights.shape[0] > 0 else 1.0
        first += HEADER_WORDS
        if form == DOUBLE:
            words[first : first + n] = row
        elif form == SINGLE:
            singles[2 * first : 2 * first + n] = row.view(np.int32)
        else:
            singles[2 * first : 2 * first + n] = mantissas[:n]
        octet = 8 * first + n * (8 if form == DOUBLE else 4)
        half = octet >> 1
        for p in span(0, n):
            halves[np.uint64(half) + p] = np.uint16(columns[p])
        octet += 2 * n
        for plane in range(planes):
            shift = np.uint32(16 + 8 * plane)
            for p in span(0, n):
                octets[np.uint64(octet) + p] = np.uint8(columns[p] >> shift)
            octet += n
        packed[i] = True
    return order.shape[0]


@kernel
def rows_in_part(key, begins, counts, integers, ranges, first, last, out):
    """Write which rows have their turn in a part of a pass, and return their number.

    Over all parts, from 0 to 1, each row has it once, whatever other rows come and go: when depends
    on the key and its position alone.

    Parameters
    ----------
    key : uint64[n_words]
    begins, counts : int64[]  the first word of each region, and how many rows it has
    integers : int64[]        the memory
    ranges : uint16[]         by position; rows that have 0 are left out
    first, last : float       from 0 to 1
    out : int64[n]            written from its beginning: where the rows are in the tables
    """
    state, count = key_state(key), 0
    for region in range(counts.shape[0]):
        for k in range(counts[region]):
            place = begins[region] + TABLE_WORDS * k
            position = integers[place]
            turn = uniform(mix(state ^ np.uint64(position)))
            if first <= turn < last and ranges[position] > 0:
                out[count] = place
                count += 1
    return count


@kernel(error_model="numpy")
def unpack_rows(which, most, planes, words, starts, stops, indices, values):
    """Unpack entries of rows one after the other, at least one row; return how many.

    Parameters
    ----------
    which : int64[k]          where the rows are in the tables, in the order wanted
    most : int                entries of several rows
    planes, words :           as for `pack_rows`
    starts, stops, indices, values :    written; with room for so many entries, and for any row
    """
    integers, singles = words.view(np.int64), words.view(np.int32)
    halves, octets = words.view(np.uint16), words.view(np.uint8)
    at = np.uint64(0)
    for k in range(which.shape[0]):
        if k + 2 * FAR < which.shape[0]:
            fetch(words, which[k + 2 * FAR], which[k + 2 * FAR] + TABLE_WORDS)
        if k + FAR < which.shape[0]:
            begin, n_entries = integers[which[k + FAR] + 1], integers[which[k + FAR] + 2] >> 8
            fetch(words, begin, begin + HEADER_WORDS + n_entries)
        place = np.uint64(which[k])
        source = np.uint64(integers[place + np.uint64(1)])
        n = np.uint64(integers[place + np.uint64(2)] >> 8)
        form = integers[place + np.uint64(2)] & 255
        if k > 0 and at + n > np.uint64(most):
            return k
        source += np.uint64(HEADER_WORDS)
        if form == DOUBLE:
            for p in range(n):
                values[at + p] = words[source + p]
        elif form == SINGLE:
            start = np.int64(np.uint64(2) * source)
            bits = singles[start : start + np.int64(n)].view(np.float32)
            for p in range(n):
                values[at + p] = bits[p]
        else:
            power = POWERS[form]
            for p in range(n):
                values[at + p] = singles[np.uint64(2) * source + p] / power
        octet = np.uint64(8) * source + n * np.uint64(8 if form == DOUBLE else 4)
        for p in range(n):
            indices[at + p] = halves[(octet >> np.uint64(1)) + p]
        octet += np.uint64(2) * n
        for plane in range(planes):
            shift = np.uint32(16 + 8 * plane)
            for p in range(n):
                indices[at + p] |= np.uint32(octets[octet + p]) << shift
            octet += n
        starts[k] = at
        at += n
        stops[k] = at
    return which.shape[0]
