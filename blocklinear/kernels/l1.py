r"""Kernels for L1-regularised problems: rows evaluate, columns are descended on.

    P(w) = |w|_1 + sum_i C_i loss_i(f_i),          f_i = w'x_i
    D(alpha) = sum_i g_i(alpha_i), where |v_j| <= 1 for all j,   v = sum_i s_i alpha_i x_i

with losses, g_i and domains as in `kernels.losses`. A Newton step solves

    min_d  sum_j (|w_j + d_j| - |w_j|) - v'd + 1/2 sum_i h_i (x_i'd)**2

by coordinate descent (Yuan, Ho and Lin, "An improved GLMNET for L1-regularized logistic
regression", JMLR 2012, Eq. 16 to 19), with alpha_i = -s_i C_i loss_i'(f_i) and h_i = C_i loss_i''.
"""

from blocklinear.kernels.jit import kernel
from blocklinear.kernels.losses import (
    L1_SVR,
    LOGISTIC,
    UNIT,
    add_candidate,
    curvature,
    dual_term,
    entropy_of,
    feasible,
    loss,
    primal_alpha,
)
from blocklinear.kernels.shared import row_dot

MOVED, CURVED = 0, 1
"""Columns of what descent knows of rows: x_i'd and h_i."""
_LEAST_CURVATURE = 1e-12  # of a feature: LIBLINEAR adds as much


@kernel(error_model="numpy")
def evaluate_rows(
    starts, stops, indices, values, positions, bias, w, step, decision, pull
):  # fmt: skip
    """Write the decision values of rows; add step_i x_i.

    Parameters
    ----------
    starts, stops, indices, values : int64[n], int64[n], uint32[], float64[] or float32[]
    positions : int64[n]      of the rows in the store
    bias : float
    w : float64[n_features + 1]
    step, decision : float64[n_rows]    of all rows of the store; `decision` is written
    pull : float64[n_features + 1]      added to
    """
    last = w.shape[0] - 1
    for i in range(positions.shape[0]):
        at, start, stop = positions[i], starts[i], stops[i]
        decision[at] = row_dot(indices, values, start, stop, w) + bias * w[last]
        a = step[at]
        if a == 0.0:
            continue
        for p in range(start, stop):
            pull[indices[p]] += a * values[p]
        pull[last] += a * bias


@kernel(error_model="numpy")
def start_rows(
    starts, stops, indices, values, positions, kind, epsilon, target, cost, bias, w, step, decision,
    pull,
):  # fmt: skip
    """Write the decision values of rows and s_i alpha_i of the primal there; add s_i alpha_i x_i.

    Parameters
    ----------
    kind, epsilon : int, float
    target, cost : float64[n]           t_i and C_i
    others :                  as for `evaluate_rows`; `step` is written, too
    """
    last = w.shape[0] - 1
    for i in range(positions.shape[0]):
        at, start, stop = positions[i], starts[i], stops[i]
        f = row_dot(indices, values, start, stop, w) + bias * w[last]
        decision[at], step[at] = f, 0.0
        if cost[i] == 0.0:
            continue
        a = feasible(kind, cost[i], primal_alpha(kind, epsilon, target[i], cost[i], f))
        a *= 1.0 if kind >= L1_SVR else target[i]
        step[at] = a
        if a == 0.0:
            continue
        for p in range(start, stop):
            pull[indices[p]] += a * values[p]
        pull[last] += a * bias


@kernel
def count_entries(indices, counts):
    """Add how many entries each feature has.

    Parameters
    ----------
    indices : uint32[nnz]
    counts : int32[n_features + 1]      added to
    """
    for p in range(indices.shape[0]):
        counts[indices[p]] += 1


@kernel
def collect_columns(
    starts, stops, indices, values, positions, slots, first, fill, rows, column_values
):  # fmt: skip
    """Copy entries of rows to the columns they are in.

    Parameters
    ----------
    starts, stops, indices, values, positions :         as for `evaluate_rows`
    slots : int32[n_features + 1]       number of the column of a feature; -1 for none
    first : int               columns before it have their entries already
    fill : int64[k]           where the next entry of a column goes; moved on
    rows, column_values : uint32[], float64[] or float32[]        written
    """
    for i in range(positions.shape[0]):
        for p in range(starts[i], stops[i]):
            slot = slots[indices[p]]
            if slot >= first:
                at = fill[slot]
                rows[at] = positions[i]
                column_values[at] = values[p]
                fill[slot] = at + 1


@kernel
def keep_columns(kept, starts, rows, values):
    """Move some columns to the front, in their order; write where they start then.

    Parameters
    ----------
    kept : int64[m]           ascending
    starts : int64[k + 1]     the first m + 1 are overwritten
    rows, values : uint32[], float64[] or float32[]
    """
    at = 0
    for m in range(kept.shape[0]):
        start, stop = starts[kept[m]], starts[kept[m] + 1]
        starts[m] = at
        for p in range(start, stop):
            rows[at], values[at] = rows[p], values[p]
            at += 1
    starts[kept.shape[0]] = at


@kernel(error_model="numpy")
def expand(kind, epsilon, target, cost, decision, step, state):
    """Write s_i alpha_i and h_i of the primal at decision values, and that nothing has moved.

    Parameters
    ----------
    kind, epsilon : int, float
    target, cost, decision : float64[n_rows]
    step : float64[n_rows]    written
    state : float64[n_rows, 2]          written
    """
    for i in range(target.shape[0]):
        C, t = cost[i], target[i]
        step[i] = state[i, MOVED] = state[i, CURVED] = 0.0
        if C == 0.0:
            continue
        a = feasible(kind, C, primal_alpha(kind, epsilon, t, C, decision[i]))
        step[i] = a * (1.0 if kind >= L1_SVR else t)
        state[i, CURVED] = curvature(kind, C, a)


@kernel(error_model="numpy")
def total_loss(kind, epsilon, target, cost, decision, length, state):
    """Return sum_i C_i loss_i, at decision values moved by `length` times what has moved."""
    total = 0.0
    for i in range(target.shape[0]):
        if cost[i] != 0.0:
            f = decision[i] + length * state[i, MOVED]
            total += cost[i] * loss(kind, epsilon, target[i], f)
    return total


@kernel(fastmath={"reassoc", "contract", "nsz"})
def pulls(starts, rows, values, chosen, step, v):
    """Write sum_i step_i x_ij of chosen columns.

    Parameters
    ----------
    starts, rows, values : int64[k + 1], uint32[], float64[] or float32[]
    chosen : int64[m]
    step : float64[n_rows]
    v : float64[m]            written
    """
    for m in range(chosen.shape[0]):
        total = 0.0
        for p in range(starts[chosen[m]], starts[chosen[m] + 1]):
            total += step[rows[p]] * values[p]
        v[m] = total


@kernel(fastmath={"reassoc", "contract", "nsz"})
def derivatives(starts, rows, values, chosen, step, state, v, h):
    """Write v_j and sum_i h_i x_ij**2 of chosen columns.

    Parameters
    ----------
    starts, rows, values, chosen, step, v :             as for `pulls`
    state : float64[n_rows, 2]
    h : float64[m]            written
    """
    for m in range(chosen.shape[0]):
        total, square = 0.0, 0.0
        for p in range(starts[chosen[m]], starts[chosen[m] + 1]):
            i, x = rows[p], values[p]
            total += step[i] * x
            square += state[i, CURVED] * x * x
        v[m], h[m] = total, square + _LEAST_CURVATURE


@kernel(fastmath={"reassoc", "contract", "nsz"})
def _descent(rows, values, start, stop, state):
    """Return sum_i x_ij h_i x_i'd of one column."""
    total = 0.0
    for p in range(start, stop):
        i = rows[p]
        total += values[p] * state[i, MOVED] * state[i, CURVED]
    return total


@kernel(error_model="numpy")
def descend(starts, rows, values, chosen, order, penalty, v, h, w, d, state):
    """Minimise the quadratic model over one column after another.

    Parameters
    ----------
    starts, rows, values, chosen :      as for `pulls`
    order : int64[]           numbers of chosen columns
    penalty : float64[m]      what |w_j| is multiplied by
    v, h : float64[m]         as `derivatives` leaves them
    w, d : float64[m]         weights and step; `d` is updated
    state : float64[n_rows, 2]          updated

    Returns
    -------
    float
        By how much the model has fallen.
    """
    fallen = 0.0
    for m in order:
        start, stop = starts[chosen[m]], starts[chosen[m] + 1]
        G = _descent(rows, values, start, stop, state) - v[m]
        old, H, limit = w[m] + d[m], h[m], penalty[m]
        if G + limit < H * old:
            change = -(G + limit) / H
        elif G - limit > H * old:
            change = -(G - limit) / H
        else:
            change = -old
        new = old + change
        change = new - old
        if change == 0.0:
            continue
        fallen -= (G + 0.5 * H * change) * change + limit * (abs(new) - abs(old))
        d[m] += change
        for p in range(start, stop):
            state[rows[p], MOVED] += change * values[p]
    return fallen


@kernel(error_model="numpy")
def move_alpha(kind, target, cost, step, state, moved):
    """Write what `step` becomes as h_i x_i'd is taken off, each alpha_i in its domain.

    Parameters
    ----------
    kind : int
    target, cost : float64[n_rows]
    step : float64[n_rows]    s_i alpha_i
    state : float64[n_rows, 2]
    moved : float64[n_rows]   written
    """
    for i in range(target.shape[0]):
        s = 1.0 if kind >= L1_SVR else target[i]
        change = s * (step[i] - state[i, CURVED] * state[i, MOVED])
        moved[i] = s * feasible(kind, cost[i], change) if cost[i] != 0.0 else 0.0


@kernel(error_model="numpy")
def dual_value(kind, epsilon, target, cost, step, scale):
    """Return sum_i g_i at `scale` times s_i alpha_i."""
    total = 0.0
    for i in range(target.shape[0]):
        if cost[i] != 0.0:
            s = 1.0 if kind >= L1_SVR else target[i]
            a = feasible(kind, cost[i], s * step[i] * scale)
            total += dual_term(kind, epsilon, target[i], cost[i], a)
    return total


@kernel(error_model="numpy")
def certify_rows(
    kind, epsilon, target, cost, decision, step, scale, size, length, norm, sums
):  # fmt: skip
    """Add what all rows contribute to the certificate of `scale` times s_i alpha_i.

    Parameters
    ----------
    kind, epsilon, target, cost, decision, step, scale :          as above
    size : float64[n_rows]    |x_i|, the bias feature included
    length : int32[n_rows]    entries
    norm : float              |w|, or more
    sums : float64[N_SUMS]    added to: see `dual.certify_rows`
    """
    for i in range(target.shape[0]):
        C, t = cost[i], target[i]
        if C == 0.0:
            continue
        s = 1.0 if kind >= L1_SVR else t
        a = feasible(kind, C, s * step[i] * scale)
        q = 0.5 * a / C
        entropy = entropy_of(2.0 * q) if kind == LOGISTIC else 0.0
        wrong = 1.01 * (length[i] + 2.0) * UNIT * size[i] * norm
        add_candidate(kind, epsilon, t, C, decision[i], a, q, entropy, wrong, sums)


@kernel(error_model="numpy")
def certify_weights(w, v, penalty, scale, wrong):
    """Return the sum of |w_j| - w_j v_j over all features, as much as it may be.

    Parameters
    ----------
    w, v : float64[n_features + 1]      `v` before it is scaled
    penalty : float           of the last feature, the bias: 1, or 0 where its weight is free
    scale : float
    wrong : float             how much each v_j may be wrong
    """
    total, last = 0.0, w.shape[0] - 1
    for j in range(last):
        if w[j] != 0.0:
            size = abs(w[j])
            pulled = scale * (v[j] if w[j] > 0.0 else -v[j])
            total += size * (max(1.0 - pulled, 0.0) + scale * wrong)
    size, pulled = abs(w[last]), scale * (v[last] if w[last] > 0.0 else -v[last])
    left = max(1.0 - pulled, 0.0) if penalty > 0.0 else abs(pulled)
    return total + size * (left + scale * wrong)
