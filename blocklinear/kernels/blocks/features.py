"""Features renumbered: looked up, numbered where they are new, and rows sorted by their numbers.

A table has an entry for each index that there may be: 0, or one more than the number of the
feature. The system gives memory only to those of its pages that are written to: they are marked and
counted. An entry is written once, so whoever reads it meanwhile sees the one or the other.
"""

import numpy as np

from blocklinear.kernels.jit import kernel
from blocklinear.kernels.shared import span

PAGE_BITS = 10
PAGE = 1 << PAGE_BITS
"""Entries of a page of the system."""
LOOKED_UP = 1024  # entries looked up at a time
TILE = 4096  # entries sorted at a time: what that takes stays in the second-level cache
DIGIT_BITS, DIGITS = 11, 3  # of an index
PAGES, FEATURES = 0, 1
"""The state of a table: pages written to, features that have a number."""
N_STATE = 2


@kernel
def look_up(indices, table, missing):
    """Replace the index of each feature by its number, where it has one; return how many have none.

    Parameters
    ----------
    indices : uint32[nnz]     changed: those of features without a number stay; each below the
                              length of the table
    table : uint32[any]       numbers plus 1, 0 for none
    missing : uint32[nnz]     the first of it written: positions of features without a number
    """
    n = np.uint64(0)
    some = np.empty(LOOKED_UP, np.uint32)
    for start in range(0, indices.shape[0], LOOKED_UP):
        part = indices[start : start + LOOKED_UP]
        found = some[: part.shape[0]]
        for p in range(part.shape[0]):  # nothing but loads: many are under way at a time
            found[p] = table[np.int64(part[p])]
        for p in range(part.shape[0]):
            missing[n] = start + p
            n += np.uint64(found[p] == 0)
        for p in range(part.shape[0]):
            part[p] = part[p] if found[p] == 0 else np.uint32(found[p] - np.uint32(1))
    return np.int64(n)


@kernel
def number(indices, table, written, most_pages, state):
    """Replace indices by numbers; features without a number get the next ones, in this order.

    Return how many were replaced: fewer than there are if pages ran out.

    Parameters
    ----------
    indices : uint32[nnz]     changed; each below the length of the table
    table : uint32[any]       see `look_up`; changed
    written : uint8[pages]    1 for pages of the table that were written to; changed
    most_pages : int          so many may be
    state : int64[N_STATE]    changed
    """
    for p in range(indices.shape[0]):
        i = np.int64(indices[p])
        if table[i] == 0:
            if written[i >> PAGE_BITS] == 0:
                if state[PAGES] == most_pages:
                    return p
                state[PAGES] += 1
                written[i >> PAGE_BITS] = 1
            if state[FEATURES] == 0xFFFFFFFF:
                return p
            state[FEATURES] += 1
            table[i] = state[FEATURES]
        indices[p] = np.uint32(table[i] - np.uint32(1))
    return indices.shape[0]


@kernel
def numbered(table, written, first, out):
    """Write the index of each feature whose number is at least `first`, by its number.

    Parameters
    ----------
    table, written :          see `number`
    first : int
    out : uint32[n]           written: out[k] is the index of feature first + k
    """
    for page in range(written.shape[0]):
        if written[page] != 0:
            start = page << PAGE_BITS
            for i in range(start, min(start + PAGE, table.shape[0])):
                at = np.int64(table[i]) - 1 - first
                if at >= 0:
                    out[at] = i


@kernel
def _places(indices, counts):
    """Write where the first index of each value of each of its digits goes, by this digit alone.

    They go to `counts`, uint32[DIGITS, any]. Return how many digits count: others are 0 everywhere.
    """
    counts[:] = 0
    by, mask = np.uint32(DIGIT_BITS), np.uint32((1 << DIGIT_BITS) - 1)
    every = np.uint32(0)
    for q in range(indices.shape[0]):
        index = indices[q]
        every |= index
        counts[0, index & mask] += np.uint32(1)
        counts[1, (index >> by) & mask] += np.uint32(1)
    digits = 1 if every >> by == 0 else 2 if every >> (by + by) == 0 else DIGITS
    if digits == DIGITS:
        for q in range(indices.shape[0]):
            counts[2, indices[q] >> (by + by)] += np.uint32(1)
    for digit in range(digits):
        at = np.uint32(0)
        for value in range(counts.shape[1]):
            n = counts[digit, value]
            counts[digit, value] = at
            at += n
    return digits


@kernel
def _any_unsorted(lengths, indices, unsorted):
    """Return whether indices of a row decrease somewhere; set `unsorted` as `sort_rows` does."""
    p, found = 0, False
    for i in range(lengths.shape[0]):
        row, decreases = indices[p : p + lengths[i]], False
        for q in range(1, row.shape[0]):
            decreases |= row[q] < row[q - 1]
        if decreases:
            if unsorted.shape[0] == 0:
                return True
            unsorted[i], found = 1, True
        p += lengths[i]
    return found


@kernel
def _sort_tile(lengths, indices, mantissa, exponent, keys, other, e, at):
    """Sort some rows, by radix: see `sort_rows`. The last four are scratch."""
    n, low = indices.shape[0], np.uint64(0xFFFFFFFF)
    bits = np.uint64(16 if lengths.shape[0] > 1 else 32)  # of a place; a row alone may be long
    counts = np.empty((DIGITS, 1 << DIGIT_BITS), np.uint32)
    digits = _places(indices, counts)
    first, mask = counts[0], np.uint32(counts.shape[1] - 1)
    p = 0
    for i in range(lengths.shape[0]):
        at[i] = p
        row = np.uint64(i) << bits
        for q in span(p, p + lengths[i]):
            value = indices[q] & mask
            keys[first[value]] = (np.uint64(indices[q]) << np.uint64(32)) | row | q
            first[value] += np.uint32(1)
        p += lengths[i]
    for digit in range(1, digits):
        places, by = counts[digit], np.uint64(32 + DIGIT_BITS * digit)
        for k in range(n):
            value = (keys[k] >> by) & np.uint64(mask)
            other[places[value]] = keys[k]
            places[value] += np.uint32(1)
        keys, other = other, keys
    m = other.view(np.int64)
    for q in range(n):
        m[q] = mantissa[q]
    for q in range(n):
        e[q] = exponent[q]
    for k in range(n):
        row, place = (keys[k] & low) >> bits, keys[k] & (low >> (np.uint64(32) - bits))
        to = at[row]
        at[row] = to + np.uint32(1)
        indices[to] = np.uint32(keys[k] >> np.uint64(32))
        mantissa[to] = m[place]
        exponent[to] = e[place]


@kernel
def sort_rows(lengths, indices, mantissa, exponent, unsorted):
    """Sort the entries of each row by index, in place; entries of one index stay in their order.

    `unsorted`, uint8[n_rows or 0], is set to 1 for rows whose indices decreased somewhere.
    """
    longest = 0
    for i in range(lengths.shape[0]):
        longest = max(longest, lengths[i])
    size = min(max(longest, TILE), indices.shape[0])
    keys, other, e = np.empty(size, np.uint64), np.empty(size, np.uint64), np.empty(size, np.uint8)
    at = np.empty(min(TILE, lengths.shape[0]), np.uint32)
    i = stop = 0
    while i < lengths.shape[0]:
        first, start = i, stop
        stop += lengths[i]
        i += 1
        while i < lengths.shape[0] and i - first < TILE and stop - start + lengths[i] <= TILE:
            stop += lengths[i]
            i += 1
        if _any_unsorted(lengths[first:i], indices[start:stop], unsorted[first:i]):
            _sort_tile(
                lengths[first:i], indices[start:stop], mantissa[start:stop], exponent[start:stop],
                keys, other, e, at,
            )  # fmt: skip
