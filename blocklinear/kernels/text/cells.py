"""Features of columns, which lie one after the other, to rows."""

import numpy as np

from blocklinear.kernels.jit import kernel
from blocklinear.kernels.shared import is_missing, span
from blocklinear.kernels.text.columns import MOST_EXACT, read_codes

TILE = 16
"""Rows written at a time: they stay in the cache while column after column goes into them."""


@kernel
def number_features(data, bitmap, first, mean, scale, feature, if_missing, features, values):
    """Write the features of numbers, and standardized numbers, 1 where they are missing.

    Parameters
    ----------
    data : int64[n] or float64[n]       read-only; anything where a number is missing
    bitmap : uint8[any]       as for `columns.read_numbers`
    first : int               as there
    mean, scale : float64     what is taken off, and what the rest is divided by
    feature, if_missing : int
    features, values : uint32[n], float64[n]       written

    Returns
    -------
    are_small : bool          whether all numbers are finite, and below 2**53 without their sign
    """
    n_large = 0
    for i in range(data.shape[0]):
        number = np.float64(data[i])
        n_large += not abs(number) < MOST_EXACT
        features[i] = np.uint32(feature)
        values[i] = (number - mean) / scale
    if bitmap.shape[0] > 0:
        for i in range(data.shape[0]):
            if is_missing(bitmap, first + i):
                n_large -= not abs(np.float64(data[i])) < MOST_EXACT
                features[i] = np.uint32(if_missing)
                values[i] = 1.0
    return n_large == 0


@kernel
def code_features(data, bitmap, first, of_values, features):
    """Write the features of codes of values of a dictionary.

    Parameters
    ----------
    data : int32[n]           read-only; anything where a value is missing
    bitmap : uint8[any]       as for `columns.read_numbers`
    first : int               as there
    of_values : uint32[m + 1] the features of the values, and that of a missing one
    features : uint32[n]      written

    Returns
    -------
    are_codes : bool          whether all are of a value; else `features` is of no use
    """
    codes = features.view(np.int32)
    if not read_codes(data, bitmap, first, of_values.shape[0] - 1, codes):
        return False
    for i in range(features.shape[0]):
        features[i] = of_values[codes[i]]
    return True


@kernel
def put_cells(features, values, row_of_values, start, base, at, indices, written):
    """Write rows: each has an entry of each column, in this order.

    Parameters
    ----------
    features : uint32[n_columns, n_rows]
    values : float64[n_valued, n_rows]
    row_of_values : int64[n_columns]    which row of `values` is that of a column; -1 if all are 1
    start : int               the first row to write
    base : int                what is added to features
    at : int64[n]             where rows begin
    indices, written : uint32[any], float64[any]        changed there
    """
    ones = np.ones(TILE)
    for left in range(0, at.shape[0], TILE):
        begins = at[left : left + TILE]
        first = start + left
        for k in range(features.shape[0]):
            v, column = row_of_values[k], features[k, first : first + begins.shape[0]]
            numbers = values[v, first : first + begins.shape[0]] if v >= 0 else ones
            for i in range(column.shape[0]):
                p = np.uint64(begins[i] + k)
                indices[p] = column[i] + np.uint32(base)
                written[p] = numbers[i]


@kernel
def put_words(features, values, indptr, base, at, indices, written):
    """Write the words of rows.

    Parameters
    ----------
    features : uint32[n_words]
    values : float64[n_words], or float64[0] if all are 1
    indptr : int64[n + 1]     where the words of rows begin
    base : int                what is added to features
    at : int64[n]             where they are to be written; changed to where they end
    indices, written : uint32[any], float64[any]        changed there
    """
    for i in range(at.shape[0]):
        p = np.uint64(at[i])
        for q in span(indptr[i], indptr[i + 1]):
            indices[p] = features[q] + np.uint32(base)
            written[p] = values[q] if values.shape[0] > 0 else 1.0
            p += np.uint64(1)
        at[i] = p
