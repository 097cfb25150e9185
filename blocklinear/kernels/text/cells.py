"""Features of columns, which lie one after the other, to rows."""

import numpy as np

from blocklinear.kernels.jit import kernel
from blocklinear.kernels.shared import span

TILE = 16
"""Rows written at a time: they stay in the cache while column after column goes into them."""


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
