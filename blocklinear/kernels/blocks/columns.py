"""Rows to columns: entries counted by feature, sorted into columns, or distributed to ranges."""

import numpy as np

from blocklinear.kernels.jit import kernel


@kernel
def count(indices, counts):
    """Add the entries of each feature to uint32[] or int32[] `counts`; `indices` are below."""
    for p in range(indices.shape[0]):
        counts[indices[p]] += 1


@kernel
def cut(costs, rest, most_cost, most_rest, ends):
    """Divide things that come in order, greedily: no part is too large if it has more than one.

    Return the number of parts.

    Parameters
    ----------
    costs, rest : integer[n]    two sizes of each thing
    most_cost, most_rest : int  of a part
    ends : int64[n]           the first of it written: where each part ends
    """
    n = start = 0
    cost, other = np.int64(0), np.int64(0)
    for j in range(costs.shape[0]):
        a, b = np.int64(costs[j]), np.int64(rest[j])
        if j > start and (cost + a > most_cost or other + b > most_rest):
            ends[n] = start = j
            n += 1
            cost, other = np.int64(0), np.int64(0)
        cost += a
        other += b
    if costs.shape[0] > start:
        ends[n] = costs.shape[0]
        n += 1
    return n


@kernel
def scatter(
    lengths, numbers, indices, mantissa, exponent, low, high, first, at, rows, column_mantissa,
    column_exponent,
):  # fmt: skip
    """Sort the entries of rows into columns: a step of a counting sort, stable in the rows.

    Parameters
    ----------
    numbers : int64[n_rows]   of the rows; they increase
    indices : uint32[nnz]     increasing in each row
    mantissa : int32[nnz] or int64[nnz]
    low, high : int           features from `low` to `high` - 1 are sorted, if there are any
    first : int               the feature of the first column
    at : uint32[n_columns]    where the next entry of each column goes; changed
    rows, column_mantissa, column_exponent : uint32[any], integer[any], uint8[any]    written
    """
    stop, one = np.uint64(0), np.uint64(1)
    for i in range(lengths.shape[0]):
        q, stop = stop, stop + np.uint64(lengths[i])
        if q < stop and indices[q] < low:  # the first that is not below: indices increase
            after = stop
            while q < after:
                middle = (q + after) >> one
                if indices[middle] < low:
                    q = middle + one
                else:
                    after = middle
        number = np.uint32(numbers[i])
        while q < stop and indices[q] < high:
            j = np.uint64(indices[q] - first)
            to = at[j]
            at[j] = to + np.uint32(1)
            rows[to] = number
            column_mantissa[to] = mantissa[q]
            column_exponent[to] = exponent[q]
            q += one


@kernel
def take_range(
    stops, indices, mantissa, exponent, high, cursors, lengths, taken, taken_mantissa,
    taken_exponent,
):  # fmt: skip
    """Copy the entries before a feature, from where each row was left; return how many there are.

    Parameters
    ----------
    stops : int64[n_rows]     where each row ends
    indices : uint32[nnz]     increasing in each row
    high : int                features below this are taken
    cursors : int64[n_rows]   where each row was left; moved behind what is taken
    lengths : int64[n_rows]   written: entries taken
    taken, taken_mantissa, taken_exponent : uint32[any], int64[any], uint8[any]      written
    """
    k, one = np.uint64(0), np.uint64(1)
    for i in range(stops.shape[0]):
        p, stop, before = np.uint64(cursors[i]), np.uint64(stops[i]), k
        while p < stop and indices[p] < high:
            taken[k] = indices[p]
            taken_mantissa[k] = mantissa[p]
            taken_exponent[k] = exponent[p]
            k, p = k + one, p + one
        lengths[i], cursors[i] = k - before, p
    return np.int64(k)
