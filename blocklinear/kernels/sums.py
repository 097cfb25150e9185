"""Whole weight vectors: copies, means, and sums of rows, of squares and of products.

Squares and products are added up 128 at a time, in four sums side by side, and what that gives by
Neumaier's compensated sum (1974): the error is below 2**-45 of the sum of their sizes for vectors
of any length, and the order does not depend on the machine.
"""

import numpy as np

from blocklinear.kernels.jit import kernel
from blocklinear.kernels.shared import exact_sum, four_sums, scatter

_PART = 128


@kernel(error_model="numpy")
def add_to_mean(W, n, mean):
    """Make the mean of n - 1 arrays that of n; float64[d, M] both.

    The mean of one is a copy, whatever was there before.
    """
    numbers, means = W.reshape(W.size), mean.reshape(W.size)
    for i in range(numbers.shape[0]):
        means[i] = means[i] + (numbers[i] - means[i]) / n if n > 1.0 else numbers[i]


@kernel
def copy_columns(source, chosen, target, places):
    """Make columns `places[k]` of `target` copies of columns `chosen[k]` of `source`.

    Parameters
    ----------
    source, target : float64[n, any]    the target may begin where the source does, which then is
                              used up, if it is not wider and places[k] <= chosen[k], ascending both
    chosen, places : int64[K]           columns that there are
    """
    for i in range(source.shape[0]):
        for k in range(chosen.shape[0]):
            target[i, places[k]] = source[i, chosen[k]]


@kernel
def add_rows(rows, steps, bias, W):
    """Add steps[i, m] x_i to w_m for every row i and column m of W, which may have more."""
    for i in range(steps.shape[0]):
        scatter(rows, i, bias, steps[i], 0, steps.shape[1], W)


@kernel
def squared_distance(v, w):
    """Return |v - w|**2 for float64[n] each; without that difference."""
    total, low, apart = 0.0, 0.0, np.empty(_PART)
    for start in range(0, w.shape[0], _PART):
        x, y = v[start : start + _PART], w[start : start + _PART]
        part = apart[: x.shape[0]]
        for i in range(part.shape[0]):
            part[i] = x[i] - y[i]
        total, lost = exact_sum(total, four_sums(part, part))
        low += lost
    return total + low


@kernel
def add_squared_distances(V, W, norms):
    """Add the squared norm of each column of V - W, float64[n, P], to `norms`, zeros.

    V may be float64[1, P], for the same row everywhere.
    """
    parts, low = np.zeros(W.shape[1]), np.zeros(W.shape[1])
    for start in range(0, W.shape[0], _PART):
        parts[:] = 0.0
        for i in range(start, min(start + _PART, W.shape[0])):
            v, w = V[i if V.shape[0] > 1 else 0], W[i]
            for m in range(w.shape[0]):
                parts[m] += (v[m] - w[m]) * (v[m] - w[m])
        for m in range(parts.shape[0]):
            norms[m], lost = exact_sum(norms[m], parts[m])
            low[m] += lost
    for m in range(W.shape[1]):
        norms[m] += low[m]


@kernel
def dot(x, y):
    """Return x'y for float64[n] each, added up in one order whatever the machine and its threads.

    The order of BLAS depends on how many threads it has.
    """
    total, low = 0.0, 0.0
    for start in range(0, x.shape[0], _PART):
        part = four_sums(x[start : start + _PART], y[start : start + _PART])
        total, lost = exact_sum(total, part)
        low += lost
    return total + low
