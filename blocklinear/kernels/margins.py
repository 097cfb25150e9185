"""Decision values: what a linear model says about rows of sparse data."""

import numpy as np

from blocklinear.kernels.fetch import CACHED, fetch
from blocklinear.kernels.jit import kernel
from blocklinear.kernels.shared import span


@kernel
def decision_values(indptr, indices, values, index_base, weights, bias_term, out):
    r"""Compute the decision value of every row and column, adding features in row order.

    out[i, c] = sum_j weights[j, c] x_ij + bias_term[c],   j over the features the model knows.

    Return how many stored values were left out because it does not know their feature.

    The decision function of Fan et al. (JMLR 2008), section 2, for all columns in one go. The
    sum runs in the order of the row with the bias last, as LIBLINEAR's does, so that even a
    value that rounds to zero falls on the same side.

    Parameters
    ----------
    indptr : int64[n_rows + 1]      monotone, within the arrays (checked by the caller); may start
                              above 0 when rows are a part of a batch
    indices : uint32[nnz]     any; feature p has number indices[p] - index_base
    index_base : int64        the number the text gives to the first feature
    weights : float64[n_features, n_columns]
    bias_term : float64[n_columns]  bias times its weight
    out : float64[n_rows, n_columns]    written
    """
    n_features, n_columns = weights.shape
    unknown, n_rows = 0, indptr.shape[0] - 1
    for i in range(n_rows):
        if i + 1 < n_rows and weights.nbytes > CACHED:  # half the time, with the weights of blogs
            for p in span(indptr[i + 1], indptr[i + 2]):
                place = (np.int64(indices[p]) - index_base) * n_columns
                fetch(weights, place, place + n_columns)
        total = 0.0
        for c in range(n_columns):
            out[i, c] = 0.0
        for p in span(indptr[i], indptr[i + 1]):
            j = np.int64(indices[p]) - index_base
            if j < 0 or j >= n_features:
                unknown += 1
                continue
            w, v = weights[np.uint64(j)], values[p]
            if n_columns == 1:  # a sum in memory takes twice as long as one in a register
                total += w[0] * v
                continue
            for c in range(n_columns):
                out[i, c] += w[c] * v
        if n_columns == 1:
            out[i, 0] = total
        for c in range(n_columns):
            out[i, c] += bias_term[c]
    return unknown
