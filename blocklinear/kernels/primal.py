"""Passes over rows for Newton steps on the primal of the squared-hinge SVM (Fan, appendix D)."""

import numpy as np

from blocklinear.kernels.jit import kernel
from blocklinear.kernels.shared import row_dot

LOSS, LOW, GAP, REACH, N_SUPPORT = 0, 1, 2, 3, 4
N_TERMS = 5

UNIT = 2.0**-53
"""Largest relative error of one operation on float64."""


@kernel
def gradient_rows(
    indptr, indices, values, sq_norm, y, cost, bias, w, norm, alpha, pull, curvature, terms
):
    r"""Add what the rows contribute to value, gradient and curvature of the primal at `w`.

        P(w) = 1/2 w'w + sum C_i s_i**2,   s_i = max(0, 1 - y_i w'x_i),   alpha_i = 2 C_i s_i,
        gradient = w - sum alpha_i y_i x_i,   diag(Hessian) = 1 + sum_{s_i > 0} 2 C_i x_i**2,
        P(w) - D(alpha) = 1/2 |gradient|**2

    With s_i wrong by d_i the last has sum C_i d_i**2 more at most. Rows with C_i = 0 are left out:
    their alpha_i is 0.

    Parameters
    ----------
    indptr, indices, values, sq_norm, cost, bias, w :    as for `dual.certify_rows`
    y : float64[n_rows]       +1 or -1
    norm : float              |w|, or more
    alpha : float64[n_rows]   written; dual feasible, and optimal when `w` is
    pull : float64[n_features + 1]      added to: sum alpha_i y_i x_i
    curvature : float64[n_features + 1] added to: sum_{s_i > 0} 2 C_i x_i**2
    terms : float64[N_TERMS]  added to: sum C_i s_i**2, in two parts, of which the second is what
                              the first has lost to rounding; sum C_i d_i**2; sum alpha_i |x_i|;
                              number of alpha_i > 0
    """
    last = w.shape[0] - 1
    for i in range(y.shape[0]):
        alpha[i] = 0.0
        if cost[i] == 0.0:
            continue
        start, stop = indptr[i], indptr[i + 1]
        f = row_dot(indices, values, start, stop, w) + bias * w[last]
        slack, size = 1.0 - y[i] * f, np.sqrt(sq_norm[i] + bias * bias)
        d = 1.01 * (stop - start + 2.0) * UNIT * size * norm + 4.0 * UNIT * (1.0 + abs(f))
        if slack <= -d:
            continue
        terms[GAP] += cost[i] * d * d
        if slack <= 0.0:
            continue
        double_cost = 2.0 * cost[i]
        alpha[i] = double_cost * slack
        lost, before = 0.5 * double_cost * slack * slack, terms[LOSS]
        after = before + lost
        terms[LOSS] = after
        terms[LOW] += (before - after) + lost if before >= lost else (lost - after) + before
        terms[REACH] += alpha[i] * size
        terms[N_SUPPORT] += 1
        step = alpha[i] * y[i]
        for p in range(start, stop):
            pull[indices[p]] += step * values[p]
            curvature[indices[p]] += double_cost * values[p] * values[p]
        pull[last] += step * bias
        curvature[last] += double_cost * bias * bias


@kernel
def hessian_rows(indptr, indices, values, y, cost, bias, alpha, v, product):
    """Add what the rows contribute to (Hessian - I) v: sum over alpha_i > 0 of 2 C_i x_i (x_i' v).

    Parameters
    ----------
    indptr, indices, values, y, cost, bias :    as for `gradient_rows`
    alpha : float64[n_rows]   as `gradient_rows` left it
    v : float64[n_features + 1]
    product : float64[n_features + 1]   added to
    """
    last = v.shape[0] - 1
    for i in range(y.shape[0]):
        if alpha[i] > 0.0:
            start, stop = indptr[i], indptr[i + 1]
            step = row_dot(indices, values, start, stop, v) + bias * v[last]
            step *= 2.0 * cost[i]
            for p in range(start, stop):
                product[indices[p]] += step * values[p]
            product[last] += step * bias
