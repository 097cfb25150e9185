"""Dual coordinate descent: one rule for each loss, one model or many (Hsieh; Yu, Algorithm 2).

The formulas of the losses, and what is asked of each of many models, are those of `losses`. The
rules of hinge losses are those of Hsieh et al. (ICML 2008), Algorithm 1; that of logistic loss is
Yu, Huang and Lin's (2011), for the dual in Fan, A.3; those of regressions are Ho and Lin's (2012),
for Fan, A.6.

Kernels of one model take two tuples, `data` of target and cost, and `loss` of kind and epsilon;
those of many models `data` and `models` as in `losses`.

All weights of a feature lie side by side, so that one pass over a row serves all models. Sums are
taken in the same order for every model, wherever it stands and whichever others there are: the
result does not depend on which thread works on which models.
"""

import numpy as np

from blocklinear.kernels import losses
from blocklinear.kernels.blocks.packed_rows import unpack_rows
from blocklinear.kernels.fetch import FAR, fetch_entries, fetch_item, fetch_items, fetch_weights
from blocklinear.kernels.jit import kernel
from blocklinear.kernels.registers import LANES, WIDE
from blocklinear.kernels.shared import add_row, gather, inline, magnitude, row_dot, scatter

PG_MAX, PG_MIN, PG_SUM, GAP_TERM, GAIN, STEPS = 0, 1, 2, 3, 4, 5
N_STATS = 6

PERMUTE, SHRINK, AVSF = 0, 1, 2
THRESHOLD, MEAN_GAIN = 0, 1
N_ADAPT = 2
SHRUNK = -1e30
"""What `preference` says of a row that shrinking took out."""
MAX_PREFERENCE = np.log(20.0)
RATE = 0.2

DUAL, N_SUPPORT, PLUS, MINUS = 0, 1, 2, 3
N_TERMS = 4

ONE_MODEL = 1 << 8
"""The range of models of a row that has one, see `dcd_many`."""


@kernel(error_model="numpy")
def dcd_epoch(
    rows, data, order, loss, bias, alpha, w, stats, selection, preference, adapt, ranges, priority
):
    r"""Work on rows in the order given, once for each place there, updating `alpha` and `w`.

    Parameters
    ----------
    stats : float64[N_STATS]  updated: largest and smallest projected gradient, sum of their sizes,
                              sum of the gap terms of rows, each before its update; gain of the
                              dual; rows worked on
    selection : int           PERMUTE leaves `preference` alone; SHRINK marks there the rows that
                              press against their bound by more than adapt[THRESHOLD] (Hsieh, 3.2);
                              AVSF keeps there the log of how often rows pay (AVSF, Algorithm 5)
    preference : float32[n_rows]        empty for PERMUTE
    adapt : float64[N_ADAPT]  threshold of SHRINK; fading mean of the gain for AVSF, where 0 means
                              that there is none yet to compare with
    ranges : uint16[n_rows]   of these rows, written: `ONE_MODEL` if they are to stay in memory, as
                              alpha_i is strictly inside its bounds, else 0; or empty, and not
                              written
    priority : float64[n_rows]          of these rows, written: how far the step moved w, squared;
                              where alpha_i is at a bound, minus its pressure on it times the
                              entries of the row. Rows whose pressure is below the mean size of
                              projected gradients here are to stay in memory, too: w moves as far
                              until their next turn. Empty where all rows are in memory anyway
    """
    (starts, stops, _, _, sq_norm), (target, cost), (kind, epsilon) = rows, data, loss
    last = w.shape[0] - 1
    writes_ranges, bounded = ranges.shape[0] > 0, kind not in (losses.SQUARED_HINGE, losses.L2_SVR)
    out_of_core = priority.shape[0] > 0
    with_margin = out_of_core and kind != losses.LOGISTIC  # which is at a bound by rounding only
    for k in range(order.shape[0]):
        if k + 2 * FAR < order.shape[0]:
            i = order[k + 2 * FAR]
            fetch_items(i, starts, stops, sq_norm, target, alpha)
            fetch_item(cost, i)
        if k + FAR < order.shape[0]:
            fetch_entries(rows, order[k + FAR])
        i = order[k]
        C = cost[i]
        if writes_ranges:
            ranges[i] = 0
        if out_of_core:
            priority[i] = 0.0
        if C == 0.0:
            continue
        t, old = target[i], alpha[i]
        f = row_dot(rows, i, w) + bias * w[last]
        stats[GAP_TERM] += losses.gap_term(kind, epsilon, t, C, f, old)
        Q = sq_norm[i] + bias * bias
        new, PG, pressure, gain = losses.update(kind, epsilon, t, C, Q, f, old)
        stats[PG_MAX] = max(stats[PG_MAX], PG)
        stats[PG_MIN] = min(stats[PG_MIN], PG)
        stats[PG_SUM] += abs(PG)
        stats[GAIN] += gain
        stats[STEPS] += 1.0
        if selection == SHRINK:
            if PG == 0.0 and pressure > adapt[THRESHOLD]:
                preference[i] = SHRUNK
        elif selection == AVSF and adapt[MEAN_GAIN] > 0.0:
            h = RATE * (gain / adapt[MEAN_GAIN] - 1.0)
            preference[i] = min(max(preference[i] + h, -MAX_PREFERENCE), MAX_PREFERENCE)
            adapt[MEAN_GAIN] += (gain - adapt[MEAN_GAIN]) / preference.shape[0]
        free = new != 0.0 and not (bounded and abs(new) == C)
        if writes_ranges and (free or (with_margin and pressure * stats[STEPS] < stats[PG_SUM])):
            ranges[i] = ONE_MODEL
        if new != old:
            alpha[i] = new
            add_row(rows, i, bias, (new - old) * losses.sign_of(kind, t), w)
        if out_of_core:
            moved = (new - old) * (new - old) * sq_norm[i]
            priority[i] = moved if free else -pressure * (stops[i] - starts[i])


@kernel(error_model="numpy")
def dcd_packed(packed, rows, data, loss, bias, alpha, w, stats):
    """Unpack rows, some at a time, and work on each once, in this order, as `dcd_epoch` does.

    With two kernels in turn, text in little memory took 1.04 to 1.06 times as long to solve.

    Parameters
    ----------
    packed : tuple            which rows: the first four arguments of `packed_rows.unpack_rows`
    rows : tuple              written by `unpack_rows`, but for x_i' x_i
    """
    (which, most, planes, words), (starts, stops, indices, values, _) = packed, rows
    order, done = np.arange(which.shape[0]), 0
    while done < which.shape[0]:
        n = unpack_rows(
            which[done:], most, planes, words, starts[done:], stops[done:], indices, values
        )
        dcd_epoch(
            rows, data, order[done : done + n], loss, bias, alpha, w, stats, PERMUTE,
            np.empty(0, np.float32), np.empty(0), np.empty(0, np.uint16), np.empty(0),
        )  # fmt: skip
        done += n


@inline
def _add_dual_term(kind, epsilon, t, C, a, terms):
    """Add what one alpha_i contributes, see `add_dual_terms`."""
    if C != 0.0:
        a = losses.feasible(kind, C, a)
        terms[N_SUPPORT] += a != 0.0
        terms[DUAL] += losses.dual_term(kind, epsilon, t, C, a)
        terms[PLUS if a * losses.sign_of(kind, t) > 0.0 else MINUS] += abs(a)


@kernel(error_model="numpy")
def add_dual_terms(data, loss, alpha, terms):
    """Add what the rows contribute to the dual value to `terms`, float64[N_TERMS].

    That is the sum of g_i(alpha_i), see `losses`; the number of alpha_i != 0; the sum of
    s_i alpha_i that are positive, and of -s_i alpha_i of the others.
    """
    (target, cost), (kind, epsilon) = data, loss
    for i in range(alpha.shape[0]):
        _add_dual_term(kind, epsilon, target[i], cost[i], alpha[i], terms)


@kernel(error_model="numpy")
def certify_rows(
    rows, data, loss, bias, alpha, balance, w, average, averaged, norms, recomputed, sums, reach
):
    r"""Add what the rows contribute to a certificate.

    For any v and alpha in its domain, with w' = sum_i s_i alpha_i x_i,

        P(v) - D(alpha) = sum_i (C_i loss_i + s_i alpha_i f_i - g_i(alpha_i)) + 1/2 |v - w'|**2

    where f_i = v'x_i and every term of the sum is >= 0.

    Parameters
    ----------
    alpha : float64[n_rows]   what counts is the point next to it that is feasible, times `balance`
    balance : float64[2]      at most 1: of s_i alpha_i that are positive, and of the others
    w, average : float64[n_features + 1]      two candidates for the primal
    averaged : bool           whether there is an average
    norms : float64[2]        |w| and |average|, or more
    recomputed : float64[n_features + 1 or 0] added to: sum_i s_i alpha_i x_i; left out if empty
    sums : float64[2, N_SUMS] added to, for each candidate that there is: sum_i C_i loss_i, as a
                              compensated sum (sum, correction); a bound of the sum above, which
                              allows for rounding in f_i and in each term, not in adding them up;
                              how much the first may be wrong
    reach : float64[N_REACHES]          added to: sum_i |alpha_i| |x_i|; the rest as `terms` in
                              `add_dual_terms`
    """
    (starts, stops, _, _, sq_norm), (target, cost), (kind, epsilon) = rows, data, loss
    last = w.shape[0] - 1
    for i in range(target.shape[0]):
        C, t = cost[i], target[i]
        if C == 0.0:
            continue
        a, s = losses.feasible(kind, C, alpha[i]), losses.sign_of(kind, t)
        side = 0 if s * a > 0.0 else 1
        a *= balance[side]
        q = 0.5 * a / C
        entropy = losses.entropy_of(2.0 * q) if kind == losses.LOGISTIC else 0.0
        size = np.sqrt(sq_norm[i] + bias * bias)
        gamma = losses.rounding_of(stops[i] - starts[i])
        wrong = gamma * size  # times |v|: by Cauchy and Schwarz, of gamma |v|'|x_i|
        # a bound is added once: taken back in part, a large one would take smaller ones with it;
        # both candidates are written out, as a loop over them takes 1.4 times as long
        f = row_dot(rows, i, w) + bias * w[last]
        bound = wrong * norms[0]
        above, kink = losses.bound_candidate(kind, epsilon, t, C, f, a, q, entropy, bound, sums[0])
        if kink:
            least = gamma * magnitude(rows, i, bias, w)
            above = losses.refine(kind, epsilon, t, C, f, a, least, above)
        sums[0, losses.GAP_TERM_BOUND] += above
        if averaged:
            f = row_dot(rows, i, average) + bias * average[last]
            bound = wrong * norms[1]
            above, kink = losses.bound_candidate(
                kind, epsilon, t, C, f, a, q, entropy, bound, sums[1]
            )
            if kink:
                least = gamma * magnitude(rows, i, bias, average)
                above = losses.refine(kind, epsilon, t, C, f, a, least, above)
            sums[1, losses.GAP_TERM_BOUND] += above
        step = a * s
        if step != 0.0 and recomputed.shape[0] > 0:
            reach[losses.REACH] += abs(step) * size
            reach[losses.N_REACH] += 1.0
            reach[losses.OF_PLUS + side] += abs(step)
            add_row(rows, i, bias, step, recomputed)


@inline
def _step_models(kind, epsilon, Q, first, last, t, C, f, alpha, step, stats):
    """Update alpha_ij of a row for models first to last - 1; write s_ij times its change to `step`.

    Return whether any changed, the ranges of those that did and ended strictly inside their bounds,
    and the gain of all.
    """
    some, low, high, total = False, 0, 0, 0.0
    bounded = kind not in (losses.SQUARED_HINGE, losses.L2_SVR)
    for j in range(first, last):
        step[j] = 0.0
        if C[j] == 0.0:
            continue
        old, seen = alpha[j], stats[j]
        seen[GAP_TERM] += losses.gap_term(kind, epsilon, t[j], C[j], f[j], old)
        new, PG, _, gain = losses.update(kind, epsilon, t[j], C[j], Q, f[j], old)
        seen[PG_MAX] = max(seen[PG_MAX], PG)
        seen[PG_MIN] = min(seen[PG_MIN], PG)
        seen[PG_SUM] += abs(PG)
        seen[GAIN] += gain
        seen[STEPS] += 1.0
        total += gain
        if new != old:
            alpha[j] = new
            step[j] = (new - old) * losses.sign_of(kind, t[j])
            some = True
            if new != 0.0 and not (bounded and abs(new) == C[j]):
                low, high = (low if high > 0 else j), j + 1
    return some, np.uint16(high << 8 | low), total


@kernel(error_model="numpy")
def dcd_many(rows, data, order, models, bias, alpha, W, stats, ranges, priority):
    r"""Work on rows in the order given, once for each place there, updating `alpha` and `W`.

    For each model this is what `dcd_epoch` does (Hsieh, Algorithm 1), but for rounding in the
    order of a sum. The models do not affect each other.

    Parameters
    ----------
    stats : float64[M, N_STATS]         updated as by `dcd_epoch`
    ranges : uint16[n_rows]     of these rows, updated: the first model that is to be updated, and
                              256 times one past the last, at most 255; then those for which
                              alpha_ij changed, and is now neither 0 nor at a bound, or 0 if none
    priority : float64[n_rows]   of these rows, updated: gain of the dual, summed over models
    """
    starts, stops, _, _, sq_norm = rows
    target, code, fold, weight = data
    _, _, _, kind, epsilon = models
    scratch = np.zeros((4, W.shape[1]))
    t, C, f, step = scratch[0], scratch[1], scratch[2], scratch[3]
    for k in range(order.shape[0]):
        if k + 2 * FAR < order.shape[0]:
            i = order[k + 2 * FAR]
            fetch_items(i, starts, stops, sq_norm, target, alpha)
            fetch_items(i, code, fold, weight, ranges, priority)
        if k + FAR < order.shape[0]:
            fetch_entries(rows, order[k + FAR])
        if k + 1 < order.shape[0]:
            i = order[k + 1]
            fetch_weights(rows, i, int(ranges[i] & 255) & -WIDE, int(ranges[i] >> 8), W)
        i = order[k]
        first, last = int(ranges[i]) & 255, int(ranges[i]) >> 8
        ranges[i], priority[i] = 0, 0.0
        if not losses.targets_and_costs(data, i, models, first, last, t, C):
            continue
        left = first & -LANES
        right = min((last + LANES - 1) & -LANES, W.shape[1])
        step[left:right] = 0.0
        gather(rows, i, bias, left, right, W, f)
        Q = sq_norm[i] + bias * bias
        some, ranges[i], priority[i] = _step_models(
            kind, epsilon, Q, first, last, t, C, f, alpha[i], step, stats
        )
        if some:
            scatter(rows, i, bias, step, left, right, W)


@kernel(error_model="numpy")
def add_many_dual_terms(data, models, alpha, terms):
    """Do for each model what `add_dual_terms` does, with `terms`, float64[M, N_TERMS]."""
    (_, _, _, kind, epsilon), M = models, terms.shape[0]
    t, C = np.zeros(M), np.zeros(M)
    for i in range(alpha.shape[0]):
        losses.targets_and_costs(data, i, models, 0, M, t, C)
        for j in range(M):
            _add_dual_term(kind, epsilon, t[j], C[j], alpha[i, j], terms[j])


@kernel(error_model="numpy")
def certify_many(
    rows, data, models, bias, alpha, balance, W, average, averaged, norms, recomputed, sums, reach
):
    """Do for each model what `certify_rows` does.

    `balance`, `norms`, `sums` and `reach` are float64[2, M], [2, P], [2, N_SUMS, M] and
    [N_REACHES, M].
    """
    starts, stops, _, _, sq_norm = rows
    (_, _, _, kind, epsilon), M = models, alpha.shape[1]
    scratch = np.zeros((7, W.shape[1]))
    t, C, f, step = scratch[0][:M], scratch[1][:M], scratch[2], scratch[3]
    entropy, a, q = scratch[4], scratch[5], scratch[6]
    for i in range(alpha.shape[0]):
        if i + FAR < alpha.shape[0]:  # of a sample, rows are not next to each other
            fetch_entries(rows, i + FAR)
            fetch_item(alpha, i + FAR)
        if i + 1 < alpha.shape[0]:
            fetch_weights(rows, i + 1, 0, W.shape[1], W)
            fetch_weights(rows, i + 1, 0, W.shape[1], recomputed)
        if not losses.targets_and_costs(data, i, models, 0, M, t, C):
            continue
        size = np.sqrt(sq_norm[i] + bias * bias)
        gamma = losses.rounding_of(stops[i] - starts[i])
        for j in range(M):
            step[j] = a[j] = q[j] = 0.0
            if C[j] == 0.0:
                continue
            s = losses.sign_of(kind, t[j])
            a[j] = losses.feasible(kind, C[j], alpha[i, j])
            side = 0 if s * a[j] > 0.0 else 1
            a[j] *= balance[side, j]
            q[j] = 0.5 * a[j] / C[j]
            if kind == losses.LOGISTIC:
                entropy[j] = losses.entropy_of(2.0 * q[j])
            if a[j] != 0.0:
                step[j] = s * a[j]
                reach[losses.REACH, j] += abs(a[j]) * size
                reach[losses.N_REACH, j] += 1.0
                reach[losses.OF_PLUS + side, j] += abs(a[j])
        for k in range(2 if averaged else 1):
            V = average if k else W
            gather(rows, i, bias, 0, W.shape[1], V, f)
            for j in range(M):
                if C[j] == 0.0:
                    continue
                bound = gamma * size * norms[k, j]
                above, kink = losses.bound_candidate(
                    kind, epsilon, t[j], C[j], f[j], a[j], q[j], entropy[j], bound, sums[k, :, j]
                )
                if kink:
                    least = gamma * magnitude(rows, i, bias, V[:, j])
                    above = losses.refine(kind, epsilon, t[j], C[j], f[j], a[j], least, above)
                sums[k, losses.GAP_TERM_BOUND, j] += above
        if recomputed.shape[0] > 0:
            scatter(rows, i, bias, step, 0, W.shape[1], recomputed)
