r"""Passes over rows for Newton's method on the primal of smooth losses (Fan, appendices C and D).

    P(w) = 1/2 w'w + sum_i C_i loss_i(f_i),   f_i = w'x_i
    gradient = w - sum_i s_i alpha_i x_i,     alpha_i = -s_i C_i loss_i'(f_i)
    Hessian = I + sum_i h_i x_i x_i',         h_i = C_i loss_i''(f_i)

These alpha_i are in their domain, and P(w) - D(alpha) = 1/2 |gradient|**2. What rounding may do to
that is added as for `dual.certify_rows`. SQUARED_HINGE and L2_SVR have no second derivative at
their kinks, where h_i is 0 or 2 C_i; either will do (Mangasarian 2002; Fan, appendix D).

HINGE and L1_SVR have no gradient. For them these are passes of a proximal point method on the dual
(Rockafellar 1976; Li, Sun and Toh 2018): P is made smooth around a `center` of alpha,

    value = 1/2 w'w + sum_i max_a (g_i(a) - s_i a f_i - width / (2 C_i) (a - center_i)**2),

and alpha_i is where that maximum is. Its gradient is that above, and h_i = C_i / width of alpha_i
strictly inside their bounds.
"""

import numpy as np

from blocklinear.kernels import losses
from blocklinear.kernels.jit import kernel
from blocklinear.kernels.shared import add_exactly, add_row, gather, inline, row_dot, scatter, span

VALUE, VALUE_LOW, MOVED, COSTS, TARGETS = 0, 1, 2, 3, 4
N_VALUES = 5
"""What is added up besides for a proximal point: the sum in `value`, which is the sum of the first
two; of that what the distance of alpha from its center makes up; and sums of C_i and C_i |t_i|, for
regression C_i |t_i - b|, where b is what the bias adds to f_i."""

_ROWS_TOGETHER = 16
"""Rows of a factor for which each row above them is read once: of 1,000 features in 10 ms for 18,
of 4,600 in 1.6 s for 4.0."""


@inline
def _add_products(rows, i, bias, h, hessian):
    """Add h x_i x_i' to the lower triangle of a matrix; the indices of a row increase."""
    starts, stops, indices, values, _ = rows
    last = hessian.shape[0] - 1
    for p in range(starts[i], stops[i]):
        row, hv = np.int64(indices[p]), h * values[p]
        for q in range(starts[i], p + 1):
            hessian[row, np.uint64(indices[q])] += hv * values[q]
        hessian[last, row] += hv * bias
    hessian[last, last] += h * bias * bias


@inline
def _evaluate(
    kind, epsilon, t, C, b, f, gamma, size, norm, center, width, sums, reach, values
):  # fmt: skip
    """Add what a row contributes to the certificate of its alpha_i, and `values`; return that."""
    s = losses.sign_of(kind, t)
    if kind in (losses.HINGE, losses.L1_SVR):
        a = losses.feasible(kind, C, losses.proximal_alpha(kind, epsilon, t, C, f, center, width))
        apart = a - losses.feasible(kind, C, center)
        moved = 0.5 * apart * apart / C * width if apart != 0.0 else 0.0
        add_exactly(losses.dual_term(kind, epsilon, t, C, a) - s * a * f - moved, values, VALUE)
        values[MOVED] += moved
        values[COSTS] += C
        values[TARGETS] += C * abs(t - b if kind == losses.L1_SVR else t)
    else:
        a = losses.feasible(kind, C, losses.primal_alpha(kind, epsilon, t, C, f))
    losses.add_candidate(kind, epsilon, t, C, f, a, gamma * size * norm, sums)
    if a != 0.0:
        reach[losses.REACH] += abs(a) * size
        reach[losses.N_REACH] += 1.0
        reach[losses.OF_PLUS if s * a > 0.0 else losses.OF_MINUS] += abs(a)
    return a


@kernel(error_model="numpy")
def newton_rows(
    rows, data, loss, bias, evaluates, v, norm, center, width, alpha, out, diagonal, hessian,
    sums, reach, sums_of_values,
):  # fmt: skip
    """Add what rows contribute to value, gradient, Hessian and certificate of the primal at v.

    Or to (Hessian - I) v of a vector: sum_i h_i x_i (x_i' v).

    Parameters
    ----------
    data, loss : tuple        as for `dual.dcd_epoch`
    evaluates : bool          whether `v` is a point to be evaluated, or a vector to be multiplied
    v : float64[n_features + 1]
    norm : float              |v|, or more
    center : float64[n_rows]  for HINGE and L1_SVR; may be empty for others
    width : float             likewise: above 0, and may be infinite
    alpha : float64[n_rows]   where a point is evaluated written: feasible, optimal where `v` is, 0
                              where C_i is; read where a vector is multiplied
    out : float64[n_features + 1]       added to: sum_i s_i alpha_i x_i, or the product
    diagonal : float64[n_features + 1]  added to for a point: that of sum_i h_i x_i x_i'
    hessian : float64[n_features + 1, n_features + 1], or [0, 0]       likewise: its lower triangle;
                              left out if empty
    sums, reach : float64[N_SUMS], float64[N_REACHES]         likewise, as in `dual.certify_rows`
    sums_of_values : float64[N_VALUES]  likewise, for HINGE and L1_SVR
    """
    starts, stops, indices, values, sq_norm = rows
    (target, cost), (kind, epsilon) = data, loss
    last, proximal = v.shape[0] - 1, kind in (losses.HINGE, losses.L1_SVR)
    for i in range(0 if evaluates else cost.shape[0]):
        h = losses.curvature(kind, cost[i], alpha[i], width)
        if h != 0.0:
            add_row(rows, i, bias, h * (row_dot(rows, i, v) + bias * v[last]), out)
    for i in range(cost.shape[0] if evaluates else 0):
        C, t = cost[i], target[i]
        alpha[i] = 0.0
        if C == 0.0:
            continue
        b = bias * v[last]
        f = row_dot(rows, i, v) + b
        size = np.sqrt(sq_norm[i] + bias * bias)
        gamma = losses.rounding_of(stops[i] - starts[i])
        a = _evaluate(
            kind, epsilon, t, C, b, f, gamma, size, norm, center[i] if proximal else 0.0, width,
            sums, reach, sums_of_values,
        )  # fmt: skip
        alpha[i] = a
        if a == 0.0:
            continue
        step, h = a * losses.sign_of(kind, t), losses.curvature(kind, C, a, width)
        for p in span(starts[i], stops[i]):
            x = values[p]
            out[indices[p]] += step * x
            diagonal[indices[p]] += h * x * x
        out[last] += step * bias
        diagonal[last] += h * bias * bias
        if hessian.shape[0] > 0 and h != 0.0:
            _add_products(rows, i, bias, h, hessian)


@kernel(error_model="numpy")
def newton_many(
    rows, data, models, bias, evaluates, V, norms, center, widths, alpha, out, diagonal, hessians,
    sums, reach, sums_of_values,
):  # fmt: skip
    """Do for each model what `newton_rows` does.

    Parameters
    ----------
    evaluates : bool[M]       whether a model's column of `V` is a point to be evaluated, or a
                              vector to be multiplied by the Hessian
    V : float64[n_features + 1, P]      columns from M on are zeros
    norms, widths : float64[M]          of each model
    center : float64[n_rows, M]         for HINGE and L1_SVR; may be empty for others
    alpha : float64[n_rows, M]          written where a model evaluates, read where it multiplies
    out, diagonal : float64[n_features + 1, P]  added to: sum of s_ij alpha_ij x_i, or product; and
                              diagonals, where a model evaluates
    hessians : float64[M, n_features + 1, n_features + 1], or [0, 0, 0]
    sums, reach, sums_of_values : float64[M, N_SUMS], [M, N_REACHES], [M, N_VALUES]   added to where
                              a model evaluates
    """
    starts, stops, indices, values, sq_norm = rows
    _, _, _, kind, epsilon = models
    proximal = kind in (losses.HINGE, losses.L1_SVR)
    M, P = alpha.shape[1], V.shape[1]
    scratch = np.zeros((5, P))
    t, C, f, step, h = scratch[0], scratch[1], scratch[2], scratch[3], scratch[4]
    for i in range(alpha.shape[0]):
        some = losses.targets_and_costs(data, i, models, 0, M, t, C)
        if some:
            gather(rows, i, bias, 0, P, V, f)
        size = np.sqrt(sq_norm[i] + bias * bias)
        gamma, curved = losses.rounding_of(stops[i] - starts[i]), False
        for j in range(M):
            step[j] = h[j] = 0.0
            if not evaluates[j]:
                if C[j] != 0.0:
                    step[j] = losses.curvature(kind, C[j], alpha[i, j], widths[j]) * f[j]
                continue
            alpha[i, j] = 0.0
            if C[j] == 0.0:
                continue
            a = _evaluate(
                kind, epsilon, t[j], C[j], bias * V[V.shape[0] - 1, j], f[j], gamma, size, norms[j],
                center[i, j] if proximal else 0.0, widths[j], sums[j], reach[j], sums_of_values[j],
            )  # fmt: skip
            alpha[i, j] = a
            step[j] = a * losses.sign_of(kind, t[j])
            if a != 0.0:
                h[j] = losses.curvature(kind, C[j], a, widths[j])
                curved = curved or h[j] != 0.0
        if not some:
            continue
        scatter(rows, i, bias, step, 0, P, out)
        if not curved:
            continue
        for p in span(starts[i], stops[i]):
            d, square = diagonal[indices[p]], values[p] * values[p]
            for j in range(M):
                d[j] += h[j] * square
        for j in range(M):
            diagonal[diagonal.shape[0] - 1, j] += h[j] * bias * bias
            if hessians.shape[0] > 0 and h[j] != 0.0:
                _add_products(rows, i, bias, h[j], hessians[j])


@kernel(error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def _row_products(H, i, j):
    """Return the dot product of the first j columns of two rows."""
    total = 0.0
    for k in range(j):
        total += H[i, k] * H[j, k]
    return total


@kernel(error_model="numpy")
def solve(H, x):
    """Solve H y = x by Cholesky's factor; the same bits whatever the number of threads.

    Parameters
    ----------
    H : float64[n, n]         symmetric; its lower triangle is read, and overwritten by the factor
    x : float64[n]            overwritten by y

    Returns
    -------
    bool
        Whether H is positive definite, as far as rounding tells; if not, x means nothing.
    """
    n = x.shape[0]
    for first in range(0, n, _ROWS_TOGETHER):
        stop = min(first + _ROWS_TOGETHER, n)
        for j in range(stop):
            for i in range(max(first, j), stop):
                left = H[i, j] - _row_products(H, i, j)
                if i > j:
                    H[i, j] = left / H[j, j]
                elif left > 0.0:
                    H[j, j] = np.sqrt(left)
                else:
                    return False
    for i in range(n):
        for k in range(i):
            x[i] -= H[i, k] * x[k]
        x[i] /= H[i, i]
    for i in range(n - 1, -1, -1):
        x[i] /= H[i, i]
        for k in range(i):
            x[k] -= H[i, k] * x[i]
    return True
