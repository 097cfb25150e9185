"""Dual coordinate descent for the multi-class SVM of Crammer and Singer (Fan, appendix E).

Kernels take `data`: of each row its class y_i, from 0 to K - 1, int32[n_rows], and C_i,
float64[n_rows]; float64[n_rows, K] `alpha`; and float64[n_features + 1, K] `W`.
"""

import numpy as np

from blocklinear.kernels import losses
from blocklinear.kernels.dual import DUAL, GAIN, GAP_TERM, N_SUPPORT, ONE_MODEL, PG_MAX, STEPS
from blocklinear.kernels.fetch import FAR, fetch_entries, fetch_item, fetch_items, fetch_weights
from blocklinear.kernels.jit import kernel
from blocklinear.kernels.shared import add_exactly, gather, magnitude, scatter, span

SOLVED = 1e-12  # a row whose violation is not above is left as it is, as in LIBLINEAR
TINY = 1e-300  # stands for x_i' x_i = 0


@kernel
def _gradient(rows, i, bias, W, classes, n, y, alpha, full, G, old, a):
    """Write G_i^m = w_m' x_i + e_i^m and alpha_i^m, twice, for the first n of `classes`.

    The class of the row is at y of these; `full`, float64[K], is scratch.
    """
    starts, stops, indices, values, _ = rows
    if 4 * n > W.shape[1]:  # all of them side by side take less time than some here and there
        gather(rows, i, bias, 0, W.shape[1], W, full)
        for q in range(n):
            G[q] = full[classes[q]]
    else:
        last = W[W.shape[0] - 1]
        for q in range(n):
            G[q] = last[classes[q]] * bias
        for p in span(starts[i], stops[i]):
            w, v = W[indices[p]], values[p]
            for q in range(n):
                G[q] += w[classes[q]] * v
    own = G[y]
    for q in range(n):
        G[q] += 1.0
        old[q] = a[q] = alpha[classes[q]]
    G[y] = own


@kernel
def _extremes(G, a, n, y, C):
    """Return minG, the least G_m of an a_m below its bound, and maxG (Fan, before Eq. 35)."""
    low, high = np.inf, -np.inf
    for m in range(n):
        high = max(high, G[m])
        if a[m] < (C if m == y else 0.0):
            low = min(low, G[m])
    return low, high


@kernel
def _support(old, y, classes):
    """List y, then all other classes with an alpha that is not 0; return how many there are."""
    classes[0], n = y, 1
    for m in range(old.shape[0]):
        if old[m] != 0.0 and m != y:
            classes[n] = m
            n += 1
    return n


@kernel(error_model="numpy")
def _solve_row(A, C, y, n, high, D, a):
    """Overwrite `a` with the solution of Fan, Eq. 19: what Algorithm 2 finds, without sorting.

    Everything is in units of alpha: with B_m = G_m - A a_m and any shift of all G_m alike,

        D_m = B_m / A + C_m,   a_m = C_m + min(0, beta / A - D_m)         (Eqs. 27 and 28),

    C_m = C for m = y, otherwise 0. The shift makes max G_m = 0. All D_m that matter are then at
    most C in size, so that sum_m a_m = 0 holds to the precision of C however small A is.

    beta / A is the mean of the D_m above it, less C over their number. From a number below it that
    mean rises to it, as those below the mean are left out again and again (Michelot 1986).

    Parameters
    ----------
    A, C, high : float        x_i' x_i > 0, C_i > 0, and max G_m
    y, n : int                place of the class of the row, number of classes
    D, a : float64[>= n]      G_m, overwritten; alpha_i^m, updated
    """
    beta = -np.inf
    for m in range(n):
        D[m] = (D[m] - high) / A - a[m] + (C if m == y else 0.0)
        beta = max(beta, D[m])
    beta -= C
    size = n + 1
    while True:
        total, above = -C, 0
        for m in range(n):
            if D[m] > beta:
                total += D[m]
                above += 1
        beta = total / above
        if above >= size:
            break
        size = above
    for m in range(n):
        a[m] = min(0.0, beta - D[m])
    a[y] += C


@kernel
def _lengthen(C, y, n, old, factor, a):
    """Make the step from alpha_i to its minimum `a` longer, unless a bound is in the way.

    The problem of the row is a parabola along the step: lower than at its start for a factor < 2.
    """
    for q in range(n):
        if old[q] + factor * (a[q] - old[q]) > (C if q == y else 0.0):
            return
    for q in range(n):
        a[q] = old[q] + factor * (a[q] - old[q])


@kernel
def _gain(A, C, y, n, D, old, a):
    """Return what a step d from alpha_i to `a` adds to the dual, - sum_m d_m (G_m + 1/2 A d_m).

    `D` is as `_solve_row` left it. That it has G_m less max G_m does not matter: sum_m d_m = 0.
    """
    total = 0.0
    for q in range(n):
        d = a[q] - old[q]
        total -= d * (A * (D[q] + old[q] - (C if q == y else 0.0)) + 0.5 * A * d)
    return total


@kernel
def cs_epoch(rows, data, order, bias, alpha, W, support_only, factor, stats, ranges, priority):
    r"""Work on rows once, in the order given, updating `alpha` and `W` in place.

    Fan, appendix E, Algorithm 1, the inner iteration. The problem is (Eq. 14, one C for each row)

        min_W 1/2 sum_m w_m' w_m + sum_i C_i max_m (e_i^m - (w_{y_i} - w_m)' x_i),

    e_i^m = 0 for m = y_i, otherwise 1. The kernel solves the dual one row at a time (Eq. 18),

        min_alpha 1/2 sum_m w_m' w_m + sum_i sum_m e_i^m alpha_i^m,   w_m = sum_i alpha_i^m x_i,
        sum_m alpha_i^m = 0,   alpha_i^m <= C_i for m = y_i, otherwise alpha_i^m <= 0

    (Eqs. 15-17), with the gradient G_i^m = w_m' x_i + e_i^m. An empty row, for which the dual is
    linear, is solved too.

    With `support_only` a row is solved for its own class and those whose alpha is not 0, and is
    left out if there are none: the effect of Fan's shrinking (Eq. 36) without keeping a list.
    A `factor` above 1 lengthens steps as far as bounds allow (over-relaxation): one step raises the
    dual by less, many together by more, as steps along flat directions are short.

    Parameters
    ----------
    alpha : float64[n_rows, K]          feasible, which is 0 where C_i is 0; updated
    factor : float            from 1 to below 2
    stats : float64[N_STATS]  updated as by `dcd_epoch`, over the classes worked on: the largest
                              violation maxG - minG (Eq. 35); the gap term of a row is C_i loss_i +
                              sum_m alpha_i^m G_i^m
    ranges, priority :        of these rows, written: `ONE_MODEL` if alpha_i changed, else 0; how
                              far the step moved W, squared; or both empty, and not written
    """
    (starts, stops, _, _, sq_norm), (label, cost), K = rows, data, alpha.shape[1]
    G, old, a, step = np.zeros(K), np.zeros(K), np.zeros(K), np.zeros(K)
    classes, writes_ranges = np.arange(K), ranges.shape[0] > 0
    for k in range(order.shape[0]):
        if k + FAR < order.shape[0]:
            fetch_entries(rows, order[k + FAR])
        later = order[min(k + 2 * FAR, order.shape[0] - 1)]
        fetch_items(later, starts, stops, sq_norm, label, alpha)
        fetch_item(cost, later)
        if writes_ranges:
            fetch_item(ranges, later)
            fetch_item(priority, later)
        if k + 1 < order.shape[0]:
            fetch_weights(rows, order[k + 1], 0, K, W)
        i = order[k]
        C, y, n = cost[i], label[i], K
        if writes_ranges:
            ranges[i], priority[i] = 0, 0.0
        if C == 0.0:
            continue
        if support_only:
            n, y = _support(alpha[i], y, classes), 0
            if n < 2:
                continue
        _gradient(rows, i, bias, W, classes, n, y, alpha[i], step, G, old, a)
        low, high = _extremes(G, a, n, y, C)
        stats[PG_MAX] = max(stats[PG_MAX], high - low)
        gap_term = C * (high - G[y])
        for q in range(n):
            gap_term += a[q] * G[q]
        stats[GAP_TERM] += gap_term
        stats[STEPS] += 1.0
        if high - low <= SOLVED:
            continue
        A = max(sq_norm[i] + bias * bias, TINY)
        _solve_row(A, C, y, n, high, G, a)
        if factor > 1.0:
            _lengthen(C, y, n, old, factor, a)
        stats[GAIN] += _gain(A, C, y, n, G, old, a)
        step[:], squares, some = 0.0, 0.0, False
        for q in range(n):
            d = a[q] - old[q]
            step[classes[q]], alpha[i, classes[q]] = d, a[q]
            squares, some = squares + d * d, some or d != 0.0
        if writes_ranges and some:
            ranges[i], priority[i] = ONE_MODEL, squares * sq_norm[i]
        scatter(rows, i, bias, step, 0, K, W)


@kernel
def cs_extrapolate(rows, data, bias, factor, alpha, earlier, V):
    """Lengthen the way alpha went by `factor` > 0, each row as far as its bounds allow.

    Parameters
    ----------
    earlier : float64[n_rows, K]        an earlier alpha; overwritten by steps d such that
                              alpha + t d is feasible for 0 <= t <= 1
    V : float64[n_features + 1, K]      `factor` times what W changed since; updated to
                              v_m = sum_i d_i^m x_i
    """
    (label, cost), K = data, alpha.shape[1]
    step = np.zeros(K)
    for i in range(alpha.shape[0]):
        limit, y = 1.0, label[i]
        for m in range(K):
            d = factor * (alpha[i, m] - earlier[i, m])
            room = (cost[i] if m == y else 0.0) - alpha[i, m]
            if d > room:
                limit = min(limit, room / d)
            step[m] = d
        for m in range(K):
            earlier[i, m] = limit * step[m]
            step[m] *= limit - 1.0
        scatter(rows, i, bias, step, 0, K, V)


@kernel
def _feasible(C, y, alpha, a):
    """Write a feasible point, next to alpha_i, and return its a_y: minus the sum of the others.

    Of these what is above 0, or no finite number, becomes 0; if their sum is below -C they are
    scaled to it. What alpha_i^y is does not count.
    """
    total = 0.0
    for m in range(alpha.shape[0]):
        a[m] = alpha[m] if m != y and -np.inf < alpha[m] < 0.0 else 0.0
        total -= a[m]
    if total > C:
        scale = C / total
        for m in range(alpha.shape[0]):
            a[m] *= scale
        total = C
    a[y] = total
    return total


@kernel
def cs_add_dual_terms(data, alpha, terms):
    """Add what the rows contribute to the dual value.

    D(alpha) = - 1/2 sum_m w_m' w_m - sum_i sum_m e_i^m alpha_i^m, Fan, Eq. 15 negated: the
    objective of LIBLINEAR, which minimises, is -D. As max_m b_m >= sum_m p_m b_m for any p >= 0
    that sums to 1, here p_m = (C_i^m - alpha_i^m) / C_i with C_i^m = C_i for m = y_i, otherwise 0,
    for any V and feasible alpha

        P(V) >= 1/2 sum_m v_m' v_m - sum_i sum_m alpha_i^m (e_i^m + v_m' x_i)
              = 1/2 sum_m |v_m - w_m|^2 + D(alpha) >= D(alpha),

    with equality for V = W at the optimum. To `terms`, float64[N_TERMS], go the sum of
    - e_i^m alpha_i^m, and the number of rows with an alpha other than 0; of `alpha`, what counts is
    a feasible point next to it.
    """
    (label, cost), feasible = data, np.zeros(alpha.shape[1])
    for i in range(alpha.shape[0]):
        if cost[i] > 0.0:
            total = _feasible(cost[i], label[i], alpha[i], feasible)
            terms[DUAL] += total
            terms[N_SUPPORT] += total > 0.0


@kernel
def _gap_term_bound(C, y, scores, a, rounding, d):
    """Return the loss of a row without C, and an upper bound of what it adds to P - D.

    With b_m = e^m + f_m - f_y, f_m being scores, and a feasible alpha_i, that is

        sum_m (C^m - a_m) (max b - b_m),    C^m = C for m = y, otherwise 0,

    every term of which is >= 0. Each b_m may be wrong by `d`: the class of the largest b adds
    nothing if that is by more than 2 d above the others. As a_y is minus the sum of the others up
    to rounding, a is feasible only when it is made smaller by that, which is added to the bound.
    """
    own = scores[y]
    best, second, at = 0.0, -np.inf, y
    for m in range(a.shape[0]):
        if m != y:
            b = 1.0 + scores[m] - own
            if b > best:
                best, second, at = b, best, m
            elif b > second:
                second = b
    total, free, spread = (C - a[y]) * best, C - a[y], best
    for m in range(a.shape[0]):
        if a[m] < 0.0:
            far = best - (1.0 + scores[m] - own)
            total -= a[m] * far
            free -= a[m]
            spread = max(spread, far)
    if best - second > 2.0 * d:
        free -= C - a[y] if at == y else -a[at]
    return best, total + 2.0 * d * max(free, 0.0) + rounding * (spread + 2.0 * d)


@kernel(forceinline=True)
def _add_candidate(rows, i, bias, V, C, y, a, wrong, gamma, scores, sums):
    """Add to `sums` what a row contributes under one candidate, see `cs_certify_rows`.

    Scores, which are written, are wrong by at most `wrong`; and by `gamma` times sums of sizes,
    which are computed where the bound of what the row adds to P - D may become smaller by that.
    """
    gather(rows, i, bias, 0, V.shape[1], V, scores)
    sizes, highest, K = 0.0, 0.0, scores.shape[0]
    for m in range(K):
        sizes += abs(scores[m])  # unlike a maximum this is no number if one of them is none
        highest = max(highest, abs(scores[m]))
    if not sizes < np.inf:
        sums[losses.LOSS] = sums[losses.GAP_TERM_BOUND] = np.inf
        return
    rounding, noise = losses.ROW_ROUNDING * (K + 2.0) * a[y], losses.ROW_ROUNDING * (1.0 + highest)
    lost, above = _gap_term_bound(C, y, scores, a, rounding, 2.0 * wrong + noise)
    add_exactly(C * lost, sums, losses.LOSS)
    sums[losses.WRONG] += C * (2.0 * wrong + noise)  # two scores
    if 4.0 * C * wrong > losses.WORTH_REFINING * above > 0.0:
        most = 0.0
        for m in range(K):
            most = max(most, gamma * magnitude(rows, i, bias, V[:, m]))
        _, below = _gap_term_bound(C, y, scores, a, rounding, 2.0 * most + noise)
        above = min(above, below)  # added once: taken back, it would take smaller ones with it
    sums[losses.GAP_TERM_BOUND] += above


@kernel
def cs_certify_rows(rows, data, bias, alpha, W, average, averaged, norms, recomputed, sums, reach):
    """Add what the rows contribute to a certificate.

    For any V and feasible alpha, with w'_m = sum_i alpha_i^m x_i and b_i^m = e_i^m + f_i^m - f_i^y,

        P(V) - D(alpha) = sum_i sum_m (C_i^m - alpha_i^m) (max_k b_i^k - b_i^m)
                          + 1/2 sum_m |v_m - w'_m|**2

    where f_i^m = v_m' x_i and every term of the sum is >= 0.

    Parameters
    ----------
    alpha, W, average, averaged, recomputed, sums :     as for `dual.certify_rows`; w'_m are added
                              to `recomputed` (Fan, Eq. 16)
    norms : float64[2]        the largest |w_m| of `W` and of `average`, or more
    reach : float64[N_REACHES]          added to: sum_i sum_m |alpha_i^m| |x_i|, number of rows with
                              an alpha other than 0
    """
    (starts, stops, _, _, sq_norm), (label, cost), K = rows, data, alpha.shape[1]
    scores, step = np.zeros(K), np.zeros(K)
    for i in range(label.shape[0]):
        if i + 1 < label.shape[0]:
            fetch_weights(rows, i + 1, 0, K, W)
            fetch_weights(rows, i + 1, 0, K, recomputed)
        C, y = cost[i], label[i]
        if C == 0.0:
            continue
        size = np.sqrt(sq_norm[i] + bias * bias)
        total = _feasible(C, y, alpha[i], step)
        gamma = losses.rounding_of(stops[i] - starts[i])
        wrong = gamma * size  # times |w_m|: by Cauchy and Schwarz, of gamma |w_m|'|x_i|
        for k in range(2 if averaged else 1):
            V = average if k else W
            _add_candidate(rows, i, bias, V, C, y, step, wrong * norms[k], gamma, scores, sums[k])
        if total > 0.0 and recomputed.shape[0] > 0:
            reach[losses.REACH] += 2.0 * total * size
            reach[losses.N_REACH] += 1.0
            scatter(rows, i, bias, step, 0, K, recomputed)
