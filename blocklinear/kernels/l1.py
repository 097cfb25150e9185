r"""Kernels for L1-regularised problems: rows evaluate, columns are descended on.

    P(w) = sum_j (p_j |w_j| + r_j/2 w_j**2) + sum_i C_i loss_i(f_i),        f_i = w'x_i
    D(alpha) = sum_i g_i(alpha_i) - sum_j max(|v_j| - p_j, 0)**2 / (2 r_j)
    v = sum_i s_i alpha_i x_i

with losses of classes, g_i and domains as in `kernels.losses`; without a ridge, r_j = 0,
|v_j| <= p_j has to hold; with one, this is the elastic net (Zou and Hastie, JRSS B 2005). A Newton
step solves

    min_d  sum_j (p_j (|w_j + d_j| - |w_j|) + r_j/2 d_j**2 - (v_j - r_j w_j) d_j)
           + 1/2 sum_i h_i (x_i'd)**2

by coordinate descent (Yuan, Ho and Lin, "An improved GLMNET for L1-regularized logistic
regression", JMLR 2012, Eq. 16 to 19), with alpha_i = -s_i C_i loss_i'(f_i) and h_i = C_i loss_i''.

Of all rows of the store there are

    decision            float64[n_rows]: f_i
    step                float64[n_rows]: s_i alpha_i
    state               float64[n_rows, 2]: x_i'd and h_i, in columns `MOVED` and `CURVED`

and of the columns in memory `columns`, a tuple of the first three,

    starts              int64[k + 1]: column c has the entries starts[c] to starts[c + 1] - 1
    jumps               uint16[]: rows from one entry to the next, from row 0 to the first
    values              float64[] or float32[]
    chosen              int64[m]: columns that a pass is over; `order` has numbers of these
    penalty, ridge      float64[m]: p_j and r_j of the chosen
    w, d                float64[m]: their weights and step
"""

import numpy as np

from blocklinear.kernels import losses
from blocklinear.kernels.fetch import fetch
from blocklinear.kernels.jit import kernel
from blocklinear.kernels.primal import solve
from blocklinear.kernels.shared import add_row, row_dot, span

MOVED, CURVED = 0, 1
"""Columns of what descent knows of rows: x_i'd and h_i."""
FARTHEST = 0xFFFF
"""Rows that one entry of a column may be after the one before; entries of 0 are in between."""
_FAR, _BEGINNING = 2, 128
"""In random order, so many columns ahead so many entries are asked for; what follows in memory is
guessed. With 1 to 8 and 128 to 512, passes take 0.6 to 0.75 of the time on IMDB and blogs."""
_ROWS_AT_ONCE = 256  # for which columns are made dense
_MOST_PASSES, _ENOUGH = 1000, 0.01  # over the Gram matrix; what may be left of the violation
SUFFICIENT = 0.01
"""What P has to fall by, of the slope where a search along a line begins; as in LIBLINEAR."""
_MOST_HALVINGS = 30  # of the step of one weight
_LEAST_CURVATURE = 1e-12  # of a feature: LIBLINEAR adds as much
_SUMS = {"reassoc", "nsz"}
"""Not "contract": where each row follows from the one before, sums are added up one by one, and a
fused multiplication would wait for the sum: frequent columns take 0.7 of the time, others 0.9."""


@kernel(error_model="numpy")
def evaluate_rows(rows, positions, kind, target, cost, bias, w, step, decision, pull):
    """Write the decision values of rows; add step_i x_i, `step` being written first if asked for.

    Parameters
    ----------
    positions : int64[n]      of the rows in the store
    target, cost : float64[n] of these rows, to write the `step` of the primal; empty to leave it
    step, decision : float64[n_rows]    `decision` is written
    pull : float64[n_features + 1]      added to
    """
    starts, stops, indices, values, _ = rows
    last = w.shape[0] - 1
    for i in range(positions.shape[0]):
        at, f = positions[i], bias * w[last]
        if cost.shape[0] > 0:
            f += row_dot(rows, i, w)
            C, t = cost[i], target[i]
            a = 0.0
            if C != 0.0:
                a = t * losses.feasible(kind, C, losses.primal_alpha(kind, 0.0, t, C, f))
            step[at] = a
            if a != 0.0:
                add_row(rows, i, bias, a, pull)
        elif step[at] == 0.0:
            f += row_dot(rows, i, w)
        else:  # one loop: less is waited for memory
            a = step[at]
            for p in span(starts[i], stops[i]):
                f += w[indices[p]] * values[p]
                pull[indices[p]] += a * values[p]
            pull[last] += a * bias
        decision[at] = f


@kernel
def collect_columns(rows, positions, slots, first, fill, reached, jumps, column_values):
    """Append entries of rows to the columns they are in.

    Parameters
    ----------
    positions : int64[n]      of the rows in the store
    slots : int32[n_features + 1]       number of the column of a feature; -1 for none
    first : int               columns before it have their entries already
    fill : int64[k]           where the next entry of a column goes; moved on
    reached : int64[k]        row of the last entry, 0 before the first; moved on
    jumps, column_values : uint16[], float64[] or float32[]       written
    """
    starts, stops, indices, values, _ = rows
    for i in range(positions.shape[0]):
        for p in span(starts[i], stops[i]):
            slot = slots[indices[p]]
            if slot < first:
                continue
            at, ahead = fill[slot], positions[i] - reached[slot]
            while ahead > FARTHEST:
                jumps[at], column_values[at] = FARTHEST, 0.0
                at, ahead = at + 1, ahead - FARTHEST
            jumps[at], column_values[at] = ahead, values[p]
            fill[slot], reached[slot] = at + 1, positions[i]


@kernel(error_model="numpy")
def expand(kind, target, cost, decision, step, state):
    """Write `step` and h_i of the primal at decision values, and that nothing has moved."""
    for i in range(target.shape[0]):
        C, t = cost[i], target[i]
        step[i] = state[i, MOVED] = state[i, CURVED] = 0.0
        if C == 0.0:
            continue
        a = losses.feasible(kind, C, losses.primal_alpha(kind, 0.0, t, C, decision[i]))
        step[i] = a * t
        state[i, CURVED] = losses.curvature(kind, C, a)


@kernel(error_model="numpy")
def total_loss(kind, target, cost, decision, length, state):
    """Return sum_i C_i loss_i, at decision values moved by `length` times what has moved."""
    total = 0.0
    for i in range(target.shape[0]):
        if cost[i] != 0.0:
            f = decision[i] + length * state[i, MOVED]
            total += cost[i] * losses.loss(kind, 0.0, target[i], f)
    return total


@kernel(error_model="numpy")
def slope_of_loss(kind, target, cost, decision, length, state):
    """Return the derivative of `total_loss` by `length`."""
    total = 0.0
    for i in range(target.shape[0]):
        C, t, moved = cost[i], target[i], state[i, MOVED]
        if C != 0.0:
            f = decision[i] + length * moved
            total -= losses.primal_alpha(kind, 0.0, t, C, f) * t * moved
    return total


@kernel(fastmath=_SUMS)
def derivatives(columns, chosen, step, state, v, h):
    """Write v_j and sum_i h_i x_ij**2 of chosen columns to `v` and `h`, float64[m]."""
    starts, jumps, values = columns
    for m in range(chosen.shape[0]):
        total, square, i = 0.0, 0.0, np.uint64(0)
        for p in span(starts[chosen[m]], starts[chosen[m] + 1]):
            i += jumps[p]
            x = values[p]
            total += step[i] * x
            square += state[i, CURVED] * x * x
        v[m], h[m] = total, square + _LEAST_CURVATURE


@kernel(fastmath=_SUMS)
def _descent(columns, c, state):
    """Return sum_i x_ij h_i x_i'd of column c."""
    starts, jumps, values = columns
    total, i = 0.0, np.uint64(0)
    for p in span(starts[c], starts[c + 1]):
        i += jumps[p]
        total += values[p] * state[i, MOVED] * state[i, CURVED]
    return total


@kernel
def _add_column(columns, c, factor, state):
    """Move x_i'd of all rows by a multiple of column c."""
    starts, jumps, values = columns
    i = np.uint64(0)
    for p in span(starts[c], starts[c + 1]):
        i += jumps[p]
        state[i, MOVED] += factor * values[p]


@kernel
def add_columns(columns, chosen, d, state):
    """Move x_i'd of all rows by chosen columns, each times its part of float64[m]."""
    for m in range(chosen.shape[0]):
        if d[m] != 0.0:
            _add_column(columns, chosen[m], d[m], state)


@kernel(error_model="numpy")
def _minimiser(slope, curvature, penalty, old):
    """Return where slope (w - old) + 1/2 curvature (w - old)^2 + penalty |w| is least."""
    if slope + penalty < curvature * old:
        return old - (slope + penalty) / curvature
    if slope - penalty > curvature * old:
        return old - (slope - penalty) / curvature
    return 0.0


@kernel
def _fetch_ahead(columns, chosen, order, k):
    """Ask for the beginning of a column that follows the one whose turn it is."""
    starts, jumps, values = columns
    if k + _FAR < order.shape[0]:
        c = chosen[order[k + _FAR]]
        start, stop = starts[c], min(starts[c + 1], starts[c] + _BEGINNING)
        fetch(jumps, start, stop)
        fetch(values, start, stop)


@kernel(error_model="numpy")
def descend(columns, chosen, order, penalty, ridge, v, h, w, d, state):
    """Minimise the quadratic model over one column after another.

    Parameters
    ----------
    v, h : float64[m]         as `derivatives` leaves them, less r_j w_j and plus r_j
    d, state : float64[m], float64[n_rows, 2]   updated

    Returns
    -------
    float, float
        By how much the model has fallen; the largest violation of its optimality met, as of v.
    """
    fallen, worst = 0.0, 0.0
    for k in range(order.shape[0]):
        _fetch_ahead(columns, chosen, order, k)
        m = order[k]
        G = _descent(columns, chosen[m], state) + ridge[m] * d[m] - v[m]
        old, H, limit = w[m] + d[m], h[m], penalty[m]
        new = _minimiser(G, H, limit, old)
        change = new - old
        if change == 0.0:
            continue
        fallen -= (G + 0.5 * H * change) * change + limit * (abs(new) - abs(old))
        worst = max(worst, H * abs(change))
        d[m] += change
        _add_column(columns, chosen[m], change, state)
    return fallen, worst


@kernel(fastmath=_SUMS, error_model="numpy")
def _along_column(loss, decision, columns, c, state):
    """Return the first and the second derivative of the loss along column c."""
    kind, target, cost = loss
    starts, jumps, values = columns
    first, second, i = 0.0, 0.0, np.uint64(0)
    for p in span(starts[c], starts[c + 1]):
        i += jumps[p]
        C, t, x = cost[i], target[i], values[p]
        if C != 0.0:
            a = losses.primal_alpha(kind, 0.0, t, C, decision[i] + state[i, MOVED])
            first -= t * a * x
            second += losses.curvature(kind, C, a) * x * x
    return first, second


@kernel(error_model="numpy")
def _rise_along_column(loss, decision, columns, c, change, state):
    """Return by how much the loss rises if rows move by a multiple of column c."""
    kind, target, cost = loss
    starts, jumps, values = columns
    total, i = 0.0, np.uint64(0)
    for p in span(starts[c], starts[c + 1]):
        i += jumps[p]
        C, t, f = cost[i], target[i], decision[i] + state[i, MOVED]
        if C != 0.0:
            further = losses.loss(kind, 0.0, t, f + change * values[p])
            total += C * (further - losses.loss(kind, 0.0, t, f))
    return total


@kernel(error_model="numpy")
def descend_on_primal(loss, decision, columns, chosen, order, penalty, ridge, w, d, state):
    """Minimise P itself over one column after another, as far as one Newton step leads.

    Each is as long as P falls enough (Yuan, Chang, Hsieh and Lin, "A comparison of optimization
    methods and software for large-scale L1-regularized linear classification", JMLR 2010, Section
    4.1: CDN).

    Parameters
    ----------
    loss : tuple              `kind`, `target` and `cost`
    d, state : float64[m], float64[n_rows, 2]   updated; h_i is neither read nor written
    """
    for k in range(order.shape[0]):
        _fetch_ahead(columns, chosen, order, k)
        m = order[k]
        c, old, limit, r = chosen[m], w[m] + d[m], penalty[m], ridge[m]
        G, H = _along_column(loss, decision, columns, c, state)
        G, H = G + r * old, H + r + _LEAST_CURVATURE
        change = _minimiser(G, H, limit, old) - old
        for _ in range(_MOST_HALVINGS):
            if change == 0.0:
                break
            new = old + change
            size = limit * (abs(new) - abs(old))
            rise = _rise_along_column(loss, decision, columns, c, change, state)
            rise += size + r * change * (old + 0.5 * change)
            if rise <= SUFFICIENT * (G * change + size):
                d[m] += change
                _add_column(columns, c, change, state)
                break
            change *= 0.5


@kernel(fastmath={"contract"})
def _add_products(which, factors, n, dense, out):
    """Add some rows of `dense`, each times a factor: four at a time, so that sums are read less."""
    whole = n // 4 * 4
    for k in range(0, whole, 4):
        p, q, r, s = dense[which[k]], dense[which[k + 1]], dense[which[k + 2]], dense[which[k + 3]]
        P, Q, R, S = factors[k], factors[k + 1], factors[k + 2], factors[k + 3]
        for b in range(out.shape[0]):
            out[b] += P * p[b] + Q * q[b] + R * r[b] + S * s[b]
    for k in range(whole, n):
        p = dense[which[k]]
        for b in range(out.shape[0]):
            out[b] += factors[k] * p[b]


@kernel(fastmath={"contract"})
def gram(columns, chosen, state, first, stride, out):
    """Write sum_i h_i x_ij x_ik of chosen columns, the lower triangle, to some rows of `out`.

    Parameters
    ----------
    first, stride : int       rows first, first + stride, ... are written
    out : float64[m, m]
    """
    starts, jumps, values = columns
    m, n_rows = chosen.shape[0], state.shape[0]
    dense = np.empty((_ROWS_AT_ONCE, m), values.dtype)
    at, row = np.empty(m, np.int64), np.empty(m, np.int64)  # of the next entry of each column
    # of each column, rows in `dense` where h_i x_ij is not 0, and these
    those, n_those = np.empty((m, _ROWS_AT_ONCE), np.uint16), np.empty(m, np.int64)
    hx = np.empty((m, _ROWS_AT_ONCE))
    for a in range(m):
        at[a] = starts[chosen[a]]
        row[a] = jumps[at[a]] if at[a] < starts[chosen[a] + 1] else n_rows
    out[first::stride] = 0.0
    for begin in range(0, n_rows, _ROWS_AT_ONCE):
        end = min(begin + _ROWS_AT_ONCE, n_rows)
        dense[:] = 0.0
        for a in range(m):
            p, i, stop, n = at[a], row[a], starts[chosen[a] + 1], 0
            while i < end:
                dense[i - begin, a] = values[p]
                those[a, n], hx[a, n] = i - begin, state[i, CURVED] * values[p]
                n += hx[a, n] != 0.0
                p += 1
                i = i + np.int64(jumps[p]) if p < stop else n_rows
            at[a], row[a], n_those[a] = p, i, n
        for a in range(first, m, stride):
            _add_products(those[a], hx[a], n_those[a], dense, out[a, : a + 1])
    for a in range(first, m, stride):
        out[a, a] += _LEAST_CURVATURE


@kernel(fastmath={"contract"})
def gram_of_rows(columns, chosen, scale, out):
    """Write sum_j scale_j x_ij x_kj over chosen columns, the lower triangle.

    Parameters
    ----------
    scale : float64[m]
    out : float64[n_rows, n_rows]
    """
    starts, jumps, values = columns
    which, x, out[:] = np.empty(out.shape[0], np.int64), np.empty(out.shape[0]), 0.0
    for m in range(chosen.shape[0]):
        n, i = 0, np.int64(0)
        for p in span(starts[chosen[m]], starts[chosen[m] + 1]):
            i += np.int64(jumps[p])
            which[n], x[n] = i, values[p]
            n += values[p] != 0.0
        for a in range(n):
            factor = scale[m] * x[a]
            for b in range(a + 1):
                out[which[a], which[b]] += factor * x[b]


@kernel(error_model="numpy")
def _solve_support(block, products, penalty, w, d, slope, change):
    """Go to where the model of the weights in use is least, or to where the first of them is 0.

    On the way their signs stay, so that the model is quadratic (Lee, Battle, Raina and Ng,
    "Efficient sparse coding algorithms", NIPS 2006). A ridge makes it positive definite whatever
    rounding does to the factor (Higham, "Accuracy and stability of numerical algorithms", Theorem
    10.7); where products are singular, the way is long, and ends with one weight in use less.

    Parameters are as for `descend_together`, `slope` and `change` being updated. Return by how much
    the model has fallen.
    """
    n = 0
    support, old = np.empty(block.shape[0], np.int64), np.empty(block.shape[0])
    for a in range(block.shape[0]):
        old[n] = w[block[a]] + d[block[a]] + change[a]
        if old[n] != 0.0:
            support[n] = a
            n += 1
    H, along = np.empty((n, n)), np.empty(n)
    for i in range(n):
        a = support[i]
        along[i] = -slope[a] - np.copysign(penalty[block[a]], old[i])
        for k in range(i + 1):
            H[i, k] = products[a, support[k]]
        H[i, i] *= 1.0 + n * (n + 1) * losses.UNIT
    if not solve(H, along):
        return 0.0
    length, first = 1.0, -1
    for i in range(n):
        if old[i] * (old[i] + length * along[i]) < 0.0:
            length, first = -old[i] / along[i], i
    fallen = 0.0
    for i in range(n):
        a = support[i]
        step = -old[i] if i == first else length * along[i]
        fallen -= (slope[a] + 0.5 * products[a, a] * step) * step
        fallen -= penalty[block[a]] * (abs(old[i] + step) - abs(old[i]))
        change[a] += step
        for b in range(block.shape[0]):
            slope[b] += step * products[a, b]
    return fallen


@kernel(error_model="numpy")
def descend_together(columns, chosen, block, products, penalty, ridge, v, w, d, state):
    """Minimise the quadratic model over some columns at once, by descent on their Gram matrix.

    Where passes have taken as long as to solve for the weights in use, these are solved for.

    Parameters
    ----------
    block : int64[b]          numbers of chosen columns
    products : float64[b, b]  as `gram` leaves them, plus r_j on the diagonal
    v, d, state :             as for `descend`

    Returns
    -------
    float, float, int
        As `descend` does, the violation being what was met at first; the products processed, those
        of a solution as many as those of the passes before.
    """
    size = block.shape[0]
    slope, change = np.empty(size), np.zeros(size)
    for a in range(size):
        m = block[a]
        slope[a] = _descent(columns, chosen[m], state) + ridge[m] * d[m] - v[m]
    fallen, first, passes, products_used = 0.0, 0.0, 0, 0
    for _ in range(_MOST_PASSES):
        worst = 0.0
        products_used += size * size
        for a in range(size):
            m = block[a]
            old = w[m] + d[m] + change[a]
            new = _minimiser(slope[a], products[a, a], penalty[m], old)
            step = new - old
            if step == 0.0:
                continue
            fallen -= (slope[a] + 0.5 * products[a, a] * step) * step
            fallen -= penalty[m] * (abs(new) - abs(old))
            worst = max(worst, products[a, a] * abs(step))
            change[a] += step
            for b in range(size):
                slope[b] += step * products[a, b]
        first = max(first, worst)
        if worst <= _ENOUGH * first:
            break
        passes += 1
        if 3 * passes >= size:  # the factor takes size**3 / 3 products, and a pass size**2
            fallen += _solve_support(block, products, penalty, w, d, slope, change)
            products_used += passes * size * size
            passes = 0
    for a in range(size):
        if change[a] != 0.0:
            d[block[a]] += change[a]
            _add_column(columns, chosen[block[a]], change[a], state)
    return fallen, first, products_used


@kernel(fastmath=_SUMS)
def products_along(state, path):
    """Return what the rows have of products with h_i x_i'd, and of directions with one another.

    Parameters
    ----------
    path : float64[n_rows, 2] of each row x_i'd before the last pass, and x_i'b of the change before

    Returns
    -------
    float, float, float, float, float
        Of d with the last change, c, and with b; of c with c, of c with b, and of b with b.
    """
    to_c, to_b, cc, cb, bb = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(state.shape[0]):
        h, moved, b = state[i, CURVED], state[i, MOVED], path[i, 1]
        c = moved - path[i, 0]
        to_c += h * moved * c
        to_b += h * moved * b
        cc += h * c * c
        cb += h * c * b
        bb += h * b * b
    return to_c, to_b, cc, cb, bb


@kernel
def move_along(state, path, x, y):
    """Move d by x times the last change and y times the one before.

    `state` and `path`, as for `products_along`, are updated: this belongs to the last change then.
    """
    for i in range(state.shape[0]):
        change = state[i, MOVED] - path[i, 0]
        more = x * change + y * path[i, 1]
        state[i, MOVED] += more
        path[i, 0], path[i, 1] = state[i, MOVED], change + more


@kernel(error_model="numpy")
def move_alpha(kind, target, cost, step, state, moved):
    """Write what `step` becomes as h_i x_i'd is taken off, each alpha_i in its domain, to `moved`.

    What would leave it stays at its end from there on: its `step` is written, and h_i becomes 0.
    Return whether there are any that stay as of now.
    """
    any_stay = False
    for i in range(target.shape[0]):
        if cost[i] == 0.0:
            moved[i] = 0.0
            continue
        wanted = target[i] * (step[i] - state[i, CURVED] * state[i, MOVED])
        a = losses.feasible(kind, cost[i], wanted)
        moved[i] = target[i] * a
        if a != wanted and state[i, CURVED] != 0.0:
            step[i], state[i, CURVED] = moved[i], 0.0
            any_stay = True
    return any_stay


@kernel(error_model="numpy")
def certify_rows(kind, target, cost, decision, step, scale, size, length, norm, sums):
    """Add what all rows contribute to the certificate of `scale` times s_i alpha_i.

    Parameters
    ----------
    size : float64[n_rows]    |x_i|, the bias feature included
    length : int32[n_rows]    entries
    norm : float              |w|, or more
    sums : float64[N_SUMS]    added to: see `dual.certify_rows`
    """
    for i in range(target.shape[0]):
        C, t = cost[i], target[i]
        if C == 0.0:
            continue
        a = losses.feasible(kind, C, t * step[i] * scale)
        wrong = losses.rounding_of(length[i]) * size[i] * norm
        losses.add_candidate(kind, 0.0, t, C, decision[i], a, wrong, sums)


@kernel(error_model="numpy")
def certify_weights(w, v, penalty, ridge, free, scale, wrong):
    """Return what P - D has of all features, as much as it may be.

    Of one it is p |w| - w z + r/2 (w - u)**2, z being v_j without what exceeds p, and u the excess
    over r: what w adds to P, plus what v_j takes off D, less w v_j.

    Parameters
    ----------
    w, v : float64[n_features + 1]      `v` before it is scaled
    penalty, ridge : float    of all features
    free : bool               but the last one, the bias, whose weight is free then
    scale : float
    wrong : float             how much each v_j may be wrong
    """
    total, last, error = 0.0, w.shape[0] - 1, scale * wrong
    for j in range(last + 1):
        pulled = scale * v[j]
        if j == last and free:
            total += abs(w[j]) * (abs(pulled) + error)
            continue
        if w[j] == 0.0 and abs(pulled) + error <= penalty:
            continue
        within, apart = min(max(pulled, -penalty), penalty), abs(w[j])
        if ridge > 0.0:
            apart = abs(w[j] - (pulled - within) / ridge)
            total += 0.5 * ridge * apart * apart + 0.5 * error * error / ridge
        total += abs(w[j]) * (penalty - (within if w[j] > 0.0 else -within)) + error * apart
    return total
