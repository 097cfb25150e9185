"""Pegasos, stochastic subgradient steps on the primal of the hinge-loss SVM (Yu, Algorithm 3)."""

import numpy as np

from blocklinear.kernels.jit import kernel
from blocklinear.kernels.shared import row_dot, span

LOSS, N_VIOLATORS = 0, 1
N_STATS = 2


@kernel
def _add_row(rows, i, bias, step, v):
    """Add step * x_i to `v`; return by how much v'v grew."""
    starts, stops, indices, values, _ = rows
    last = v.shape[0] - 1
    grown = 0.0
    for p in span(starts[i], stops[i]):
        j = indices[p]
        old = v[j]
        v[j] = old + step * values[p]
        grown += (v[j] - old) * (v[j] + old)
    old = v[last]
    v[last] = old + step * bias
    return grown + (v[last] - old) * (v[last] + old)


@kernel
def _rescale(scale, v):
    """Multiply `v` by `scale`; return v'v."""
    total = 0.0
    for j in range(v.shape[0]):
        x = scale * v[j]
        v[j] = x
        total += x * x
    return total


@kernel
def pegasos_epoch(rows, data, order, batch, total_rows, radius_sq, bias, t, w, stats, alpha, share):
    r"""Work on rows once, in the order given, with one update of `w` for every `batch` of them.

    Yu, Algorithm 3, step 3.2. It lowers P(w) = 1/2 w'w + sum C_i max(0, 1 - y_i w'x_i), the sum
    over the l rows of the store, by Eqs. (13)-(15). Yu divides P by l C, so that lambda = 1 / (l C)
    and the loss of a row weighs C_i / C; C then cancels out of Eqs. (13) and (14), which become

        w <- (1 - 1/t) w + l / (t |B|) sum_{i in B+} C_i y_i x_i,   B+ = {i in B: y_i w'x_i < 1},
        w <- min(1, R / |w|) w,   R**2 = sum C_i over the l rows   (Eq. 15).

    All margins of a batch B are taken before its update. t counts updates from 1 (from 0, as Yu
    writes, it would divide by 0), so that the first one forgets `w`. Yu's R is sqrt(l C), the same
    where all C_i = C; else that ball may miss the optimum w*, and R is what strong duality gives:
    w*'w* = sum alpha_i - sum C_i loss_i <= sum C_i.

    Within a call w = scale * v, and v'v is kept up to date: an update takes time in proportion to
    the nonzeros of its rows, a call moreover to w.shape[0]. It returns t, the updates done.

    Parameters
    ----------
    data : (float64[n_rows], float64[n_rows])   y_i, which is +1 or -1, and C_i
    batch : int               rows an update, at least 1; the last update takes what remains. 1 is
                              Yu's BLOCK-P-I; n_order or more, one update in all, BLOCK-P-B
    total_rows : int          l: rows of the whole store with C_i > 0
    radius_sq : float         R**2; inf for no projection
    t : int                   updates done before this call, 0 in the first
    w : float64[n_features + 1]         updated
    stats : float64[N_STATS]  added to: sum of C_i times the loss, and number of rows with a loss,
                              each seen when a row was worked on
    alpha : float64[n_rows]   updated: moves by `share` of the way to C_i where there is a loss,
                              else to 0. With share = 1/k in the k-th outer iteration it is C_i
                              times how often the row had a loss, which is feasible for the dual,
                              and after a whole outer iteration of single-row updates
                              w = sum alpha_i y_i x_i as long as nothing was projected
    """
    y, cost = data
    n_order, last, k = order.shape[0], w.shape[0] - 1, 0
    violators = np.empty(min(batch, n_order), np.int64)
    scale, sq_norm = 1.0, _rescale(1.0, w)
    while k < n_order:
        size, n_violators = 0, 0
        while k < n_order and size < batch:
            i = order[k]
            k += 1
            if cost[i] == 0.0:
                continue
            size += 1
            f = scale * (row_dot(rows, i, w) + bias * w[last])
            lossy = y[i] * f < 1.0
            alpha[i] += share * ((cost[i] if lossy else 0.0) - alpha[i])
            if lossy:
                stats[LOSS] += cost[i] * (1.0 - y[i] * f)
                violators[n_violators] = i
                n_violators += 1
        if size == 0:
            break
        stats[N_VIOLATORS] += n_violators

        t += 1
        scale *= (t - 1) / t
        if scale < 1e-100:  # 0 when t = 1; later, projections may have made it tiny
            sq_norm = _rescale(scale, w)
            scale = 1.0
        step = total_rows / t / size / scale
        for m in range(n_violators):
            i = violators[m]
            sq_norm += _add_row(rows, i, bias, step * cost[i] * y[i], w)
        norm_sq = scale * scale * sq_norm
        if norm_sq > radius_sq:
            scale *= np.sqrt(radius_sq / norm_sq)
    _rescale(scale, w)
    return t
