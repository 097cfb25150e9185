"""Dual coordinate descent: one rule for each loss, one model or many (Hsieh; Yu, Algorithm 2).

Every problem has one dual variable alpha_i a row and w = sum_i s_i alpha_i x_i. With f_i = w'x_i
and the target t_i, which is +1 or -1 for classes and the value for regression:

    loss           s_i   C_i times                    dual domain        D_ii
    HINGE          t_i   max(0, 1 - t_i f_i)          [0, C_i]           0
    SQUARED_HINGE  t_i   max(0, 1 - t_i f_i)**2       [0, inf)           1 / (2 C_i)
    LOGISTIC       t_i   log(1 + exp(-t_i f_i))       [0, C_i]           0
    L1_SVR         1     max(0, |f_i - t_i| - eps)    [-C_i, C_i]        0
    L2_SVR         1     max(0, |f_i - t_i| - eps)**2 (-inf, inf)        1 / (2 C_i)

The rules of the first two are those of Hsieh et al. (ICML 2008), Algorithm 1; the third is that of
Yu, Huang and Lin (2011) for the dual in Fan, A.3; the last two are Ho and Lin's (2012), for Fan,
A.6. The dual value, to be maximised, is sum_i g_i(alpha_i) - 1/2 w'w with

    HINGE, SQUARED_HINGE    g = alpha - 1/2 D alpha**2
    LOGISTIC                g = C log C - alpha log alpha - (C - alpha) log(C - alpha)
    L1_SVR, L2_SVR          g = t alpha - eps |alpha| - 1/2 D alpha**2

Rows with C_i = 0 are left out. Whatever computes a dual value takes each alpha_i to be the point of
its domain next to the number given (`_feasible`), so that no bound rests on who wrote it.

Of many models, model j tells the class positive[j] from all others (one against the rest: Yu,
Algorithm 5), without the rows of the fold held_out[j] (cross-validation: Yu, section 6.2), at its
own costs:

    t_ij = 1 if code_i = positive_j, otherwise -1; for regression the value of the row
    C_ij = weight_i cost[j, t_ij > 0], or 0 if fold_i = held_out_j

All weights of a feature lie side by side, so that one pass over a row serves all models. Sums are
taken in the same order for every model, wherever it stands and whichever others there are: the
result does not depend on which thread works on which models.
"""

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.extending import intrinsic

from blocklinear.kernels.jit import kernel
from blocklinear.kernels.shared import row_dot

HINGE, SQUARED_HINGE, LOGISTIC, L1_SVR, L2_SVR = 0, 1, 2, 3, 4

PG_MAX, PG_MIN, PG_SUM, EXCESS, GAIN, STEPS = 0, 1, 2, 3, 4, 5
N_STATS = 6

PERMUTE, SHRINK, AVSF = 0, 1, 2
THRESHOLD, MEAN_GAIN = 0, 1
N_ADAPT = 2
SHRUNK = -1e30
"""What `preference` says of a row that shrinking took out."""
MAX_PREFERENCE = np.log(20.0)
RATE = 0.2

DUAL, N_SUPPORT = 0, 1
N_TERMS = 2

LOSS, LOW, GAP = 0, 1, 2
N_SUMS = 3
REACH, N_REACH = 0, 1
N_REACHES = 2

UNIT = 2.0**-53
"""Largest relative error of one operation on float64."""
_LEAST = 4.0 * UNIT  # what the arithmetic of one row may lose of its terms
_WORTH = 1.001  # a bound is refined if that can make it so many times smaller

_NEWTON_STEPS = 100
_NEWTON_TOLERANCE = 1e-8
_ROUNDING = 2.0**-52
_CACHE_LINE = 64

N_SCRATCH = 8
"""Rows of numbers that kernels of many models need to write to."""
_LANES = 4  # numbers of a vector register
_LINE = 8  # and of a cache line
_FAR = 3  # rows in random order: so many ahead their entries are asked for, and their weights last
_CACHED = 1 << 20  # bytes of weights for which nobody has to wait


@intrinsic
def _address(typing, array):
    """Return the address of the first element of an array."""

    def generate(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return builder.ptrtoint(data, ir.IntType(64))

    return types.int64(array), generate


@intrinsic
def _fetch(typing, address):
    """Ask for the cache line at an address, without waiting for it, into the second level."""

    def generate(context, builder, signature, args):
        place, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [place, number, number, number])
        ask = builder.module.declare_intrinsic("llvm.prefetch", [place], kind)
        to_read, second_level, data = number(0), number(2), number(1)
        builder.call(ask, [builder.inttoptr(args[0], place), to_read, second_level, data])
        return context.get_dummy_value()

    return types.void(types.int64), generate


@kernel
def _fetch_all(address, size, start, stop):
    """Ask for elements start..stop-1, of `size` bytes, of the array at an address."""
    for at in range(address + size * start, address + size * stop, _CACHE_LINE):
        _fetch(at)


if config.DISABLE_JIT:  # type: ignore[attr-defined]

    def _address_of_nothing(array):
        return 0

    def _fetch_nothing(address, size, start, stop):
        pass

    _address, _fetch_all = _address_of_nothing, _fetch_nothing  # type: ignore[assignment]


# Inlined, and without a check for zero at each division, an epoch takes a tenth less time.
_inline = kernel(error_model="numpy", forceinline=True)


@_inline
def _loss(kind, epsilon, t, f):
    """Return the loss of decision value f for target t, without C."""
    if kind == HINGE:
        return max(0.0, 1.0 - t * f)
    if kind == SQUARED_HINGE:
        slack = max(0.0, 1.0 - t * f)
        return slack * slack
    if kind == LOGISTIC:
        margin = t * f
        return max(0.0, -margin) + np.log1p(np.exp(-abs(margin)))
    excess = max(0.0, abs(f - t) - epsilon)
    return excess if kind == L1_SVR else excess * excess


@_inline
def _entropy(u):
    """Return -u log u - (1 - u) log(1 - u), continuous at 0 and 1."""
    total = u * np.log(u) if u > 0.0 else 0.0
    return -(total + ((1.0 - u) * np.log(1.0 - u) if u < 1.0 else 0.0))


@_inline
def _dual_term(kind, epsilon, t, C, a):
    """Return g_i(alpha_i), what a row adds to the dual value, apart from -1/2 w'w."""
    if kind == LOGISTIC:
        return C * _entropy(a / C)
    D = 0.5 / C if kind in (SQUARED_HINGE, L2_SVR) else 0.0
    if kind in (HINGE, SQUARED_HINGE):
        return a - 0.5 * D * a * a
    return t * a - epsilon * abs(a) - 0.5 * D * a * a


@_inline
def _excess(kind, epsilon, t, C, f, a):
    """Return C_i loss_i + s_i alpha_i f_i - g_i(alpha_i) >= 0; the sum over all rows is P - D."""
    reach = a * f if kind >= L1_SVR else t * a * f
    return C * _loss(kind, epsilon, t, f) + reach - _dual_term(kind, epsilon, t, C, a)


@_inline
def _feasible(kind, C, a):
    """Return the point of the domain of alpha_i next to `a`; 0 if that is not finite."""
    if not abs(a) < np.inf:
        return 0.0
    if kind == L2_SVR:
        return a
    low = max(a, -C if kind == L1_SVR else 0.0)
    return low if kind == SQUARED_HINGE else min(low, C)


@_inline
def _regression_gap(kind, epsilon, C, r, a, q):
    """Return `_row_gap` at r = f - t, for the losses of regression."""
    size, half, z = abs(a), abs(q), abs(r) - epsilon
    over, under = max(z, 0.0), max(-z, 0.0)
    if kind == L1_SVR:
        return (
            C * over + size * (z + 2.0 * epsilon)
            if a * r > 0.0
            else (C - size) * over + size * under
        )
    if a * r > 0.0:
        return C * over * over + size * (z + 2.0 * epsilon + 0.5 * half)
    return C * (over - half) * (over - half) + size * under


@_inline
def _row_gap(kind, epsilon, t, C, f, lost, a, q, entropy, d):
    """Return the most that a row may add to P - D (`_excess`), its decision being within d of f.

    With alpha_i in its domain that is convex in f, and largest at an end. Nothing cancels in

        HINGE          (C - a) z+  + a z-              z = 1 - t f, z+ = max(z, 0), z- = max(-z, 0)
        SQUARED_HINGE  C (z+ - q)**2 + a z-            q = a / (2 C)
        L1_SVR, L2_SVR the same of |a| and z = |f - t| - eps, if alpha_i and f - t differ in sign
        LOGISTIC       C (loss + u t f - H(u))         u = a / C, H its entropy

    but in the last, whose terms are added to the bound as often as they may be wrong.

    Parameters
    ----------
    lost, q, entropy : float  the loss at f without C; a / (2 C); H(u), for LOGISTIC
    """
    if kind == LOGISTIC:
        u, margin = 2.0 * q, t * f
        slope = abs(u + np.expm1(-lost)) + 8.0 * UNIT
        wrong = 8.0 * UNIT * (lost + u * (abs(margin) + 8.0) + entropy)
        return C * (max(lost + u * margin - entropy, 0.0) + wrong + d * (slope + 0.125 * d))
    if kind >= L1_SVR:
        r = f - t
        low = _regression_gap(kind, epsilon, C, r - d, a, q)
        return max(low, _regression_gap(kind, epsilon, C, r + d, a, q))
    z = 1.0 - t * f
    if kind == HINGE:
        return max((C - a) * max(z + d, 0.0), a * max(d - z, 0.0))
    low = max(z - d, 0.0) - q
    high = max(z + d, 0.0) - q
    return max(C * low * low + a * max(d - z, 0.0), C * high * high + a * max(-z - d, 0.0))


@_inline
def _hinge_rule(G, QD, U, old):
    """Return the new alpha, the projected gradient and the pressure against a bound."""
    PG, pressure = G, 0.0
    if old == 0.0:
        PG, pressure = min(G, 0.0), G
    elif old == U:
        PG, pressure = max(G, 0.0), -G
    if PG == 0.0:
        return old, PG, pressure
    if QD > 0.0:
        return min(max(old - G / QD, 0.0), U), PG, pressure
    return U, PG, pressure  # an empty row under hinge loss: the dual is linear in its alpha


@_inline
def _logistic_rule(margin, Q, C, old):
    """Return the new alpha and the gradient, by Newton steps on u, alpha / C or 1 - alpha / C.

    Whichever of the two will be below 1/2 has to minimise, with sign 1 or -1,

        1/2 Q C (u - u_old)**2 + sign margin (u - u_old) + u log u + (1 - u) log(1 - u).

    Alpha is rounded, and near 0 and C the gradient is steep: what rounding accounts for does not
    count, and u as small as that is as good as 0.
    """
    sign, u_old = 1.0, old / C
    if Q * (0.5 * C - old) + margin < 0.0:
        sign, u_old = -1.0, (C - old) / C
    u = min(max(u_old, _ROUNDING), 1.0 - _ROUNDING)
    gradient = Q * C * (u - u_old) + sign * margin + np.log(u / (1.0 - u))
    noise = _ROUNDING * (Q * C + 1.0 / (u * (1.0 - u)))
    G = gradient - min(max(gradient, -noise), noise)
    if G == 0.0 or (G > 0.0 and u_old <= 2.0 * _ROUNDING):
        return old, 0.0
    if u > 0.5:
        u = 0.5
        gradient = Q * C * (u - u_old) + sign * margin
    for _ in range(_NEWTON_STEPS):
        step = u - gradient / (Q * C + 1.0 / (u * (1.0 - u)))
        new = max(step if step > 0.0 else 0.1 * u, _ROUNDING)
        converged = abs(new - u) <= _NEWTON_TOLERANCE * new
        u = new
        if converged:
            break
        gradient = Q * C * (u - u_old) + sign * margin + np.log(u / (1.0 - u))
    return (C * u if sign > 0.0 else C - C * u), sign * G


@_inline
def _regression_rule(G, QD, U, epsilon, old):
    """Return the new alpha, the projected gradient and the pressure against a bound or kink."""
    Gp, Gn = G + epsilon, G - epsilon
    PG, pressure = 0.0, 0.0
    if old == 0.0:
        PG, pressure = (Gp if Gp < 0.0 else max(Gn, 0.0)), min(Gp, -Gn)
    elif old >= U:
        PG, pressure = max(Gp, 0.0), -Gp
    elif old <= -U:
        PG, pressure = min(Gn, 0.0), Gn
    else:
        PG = Gp if old > 0.0 else Gn
    if PG == 0.0:
        return old, PG, pressure
    if QD <= 0.0:  # an empty row: the dual is linear on either side of 0
        return (U if Gp < 0.0 else (-U if Gn > 0.0 else 0.0)), PG, pressure
    if Gp < QD * old:
        step = -Gp / QD
    elif Gn > QD * old:
        step = -Gn / QD
    else:
        step = -old
    return min(max(old + step, -U), U), PG, pressure


@_inline
def _update(kind, epsilon, t, C, Q, f, old):
    """Return the new alpha of a row, the projected gradient, the pressure and the dual's gain."""
    if kind == LOGISTIC:
        new, PG = _logistic_rule(t * f, Q, C, old)
        d = new - old
        gain = -(0.5 * Q * d + t * f) * d + C * (_entropy(new / C) - _entropy(old / C))
        return new, PG, 0.0, gain
    squared = kind in (SQUARED_HINGE, L2_SVR)
    D = 0.5 / C if squared else 0.0
    U = np.inf if squared else C
    QD = Q + D
    if kind in (HINGE, SQUARED_HINGE):
        G = t * f - 1.0 + D * old
        new, PG, pressure = _hinge_rule(G, QD, U, old)
        d = new - old
        return new, PG, pressure, -(0.5 * QD * d + G) * d
    G = f - t + D * old
    new, PG, pressure = _regression_rule(G, QD, U, epsilon, old)
    d = new - old
    return new, PG, pressure, -(0.5 * QD * d + G) * d - epsilon * (abs(new) - abs(old))


@kernel(error_model="numpy")
def dcd_epoch(
    starts, stops, indices, values, sq_norm, target, cost, order, kind, epsilon, bias, alpha, w,
    stats, selection, preference, adapt,
):  # fmt: skip
    r"""Work on rows in the order given, once for each place there, updating `alpha` and `w`.

    Parameters
    ----------
    starts, stops : int64[n_rows]       row i has the entries starts[i] to stops[i] - 1
    indices : uint32[]        columns, each < n_features (checked when the block was loaded)
    values : float64[] or float32[]
    sq_norm : float64[n_rows] x_i' x_i without the bias
    target : float64[n_rows]  t_i
    cost : float64[n_rows]    C_i; rows with 0 are left out
    order : int64[n_order]   rows to work on
    kind : int                the loss
    epsilon : float           of the losses for regression
    bias : float              value of one more feature that every row has, 0 for none
    alpha : float64[n_rows]   updated
    w : float64[n_features + 1]         updated; the last entry belongs to the extra feature
    stats : float64[N_STATS]  updated: largest and smallest projected gradient, sum of their sizes,
                              sum of what rows add to P - D, each seen when it was worked on;
                              gain of the dual; rows worked on
    selection : int           PERMUTE leaves `preference` alone; SHRINK marks there the rows that
                              press against their bound by more than adapt[THRESHOLD] (Hsieh, 3.2);
                              AVSF keeps there the log of how often rows pay (AVSF, Algorithm 5)
    preference : float32[n_rows]        empty for PERMUTE
    adapt : float64[N_ADAPT]  threshold of SHRINK; fading mean of the gain for AVSF, where 0 means
                              that there is none yet to compare with
    """
    last = w.shape[0] - 1
    of_indices, of_values = _address(indices), _address(values)
    for k in range(order.shape[0]):
        if k + 1 < order.shape[0]:  # rows in random order: memory is slow to guess the next one
            start, stop = starts[order[k + 1]], stops[order[k + 1]]
            _fetch_all(of_indices, indices.itemsize, start, stop)
            _fetch_all(of_values, values.itemsize, start, stop)
        i = order[k]
        C = cost[i]
        if C == 0.0:
            continue
        start, stop = starts[i], stops[i]
        t, old = target[i], alpha[i]
        f = row_dot(indices, values, start, stop, w) + bias * w[last]
        stats[EXCESS] += _excess(kind, epsilon, t, C, f, old)
        Q = sq_norm[i] + bias * bias
        new, PG, pressure, gain = _update(kind, epsilon, t, C, Q, f, old)
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
        if new != old:
            alpha[i] = new
            step = (new - old) * (1.0 if kind >= L1_SVR else t)
            for p in range(start, stop):
                w[indices[p]] += step * values[p]
            w[last] += step * bias


@kernel
def add_dual_terms(target, cost, kind, epsilon, alpha, terms):
    """Add what the rows contribute to the dual value: sum_i g_i(alpha_i), see above.

    Parameters
    ----------
    target, cost, kind, epsilon, alpha :        as for `dcd_epoch`
    terms : float64[N_TERMS]  added to: sum of g_i; number of rows with alpha_i != 0
    """
    for i in range(alpha.shape[0]):
        C, a = cost[i], alpha[i]
        if C == 0.0:
            continue
        a = _feasible(kind, C, a)
        terms[N_SUPPORT] += a != 0.0
        terms[DUAL] += _dual_term(kind, epsilon, target[i], C, a)


@kernel(fastmath={"reassoc", "contract", "nsz"})
def _magnitude(indices, values, start, stop, w):
    """Return the sum of |w_j x_ij| of the row that occupies start..stop-1."""
    total = 0.0
    for p in range(start, stop):
        total += abs(w[indices[p]] * values[p])
    return total


@_inline
def _add_candidate(kind, epsilon, t, C, f, a, q, entropy, wrong, sums):
    """Add to `sums` what a row contributes under one candidate, f being wrong by at most `wrong`.

    Return the bound of what the row adds to P - D, if less of `wrong` would make it smaller: that
    is so at the kinks of losses. Otherwise 0.
    """
    lost = _loss(kind, epsilon, t, f)
    before = sums[LOSS]
    after = before + C * lost  # and what that loses (Knuth)
    added = after - before
    sums[LOSS] = after
    sums[LOW] += (before - (after - added)) + (C * lost - added)
    if not abs(f) < np.inf:
        sums[GAP] = np.inf
        return 0.0
    least = _LEAST * (1.0 + abs(f) + abs(t) + epsilon + 2.0 * abs(q))
    above = _row_gap(kind, epsilon, t, C, f, lost, a, q, entropy, wrong + least)
    sums[GAP] += above
    if kind in (HINGE, L1_SVR):
        exact = _row_gap(kind, epsilon, t, C, f, lost, a, q, entropy, least)
        return above if above > _WORTH * exact else 0.0
    return 0.0


@_inline
def _refine(kind, epsilon, t, C, f, a, wrong, above, sums):
    """Put a bound for a smaller `wrong` in the place of the one that `_add_candidate` returned."""
    least = _LEAST * (3.0 + abs(f) + abs(t) + epsilon)
    below = _row_gap(kind, epsilon, t, C, f, 0.0, a, 0.0, 0.0, wrong + least)
    sums[GAP] -= max(above - below, 0.0)


@kernel(error_model="numpy")
def certify_rows(
    starts, stops, indices, values, sq_norm, target, cost, kind, epsilon, bias, alpha, w, average,
    averaged, norms, recomputed, sums, reach,
):  # fmt: skip
    r"""Add what the rows contribute to a certificate.

    For any v and alpha in its domain, with w' = sum_i s_i alpha_i x_i,

        P(v) - D(alpha) = sum_i (C_i loss_i + s_i alpha_i f_i - g_i(alpha_i)) + 1/2 |v - w'|**2

    where f_i = v'x_i and every term of the sum is >= 0.

    Parameters
    ----------
    starts, stops, indices, values, sq_norm, target, cost, kind, epsilon, bias, alpha :     as for
        `dcd_epoch`; alpha is only read, and need not be feasible: what counts is the point next to
        it that is
    w, average : float64[n_features + 1]      two candidates for the primal
    averaged : bool           whether there is an average
    norms : float64[2]        |w| and |average|, or more
    recomputed : float64[n_features + 1 or 0] added to: sum_i s_i alpha_i x_i; left out if empty
    sums : float64[2, N_SUMS] added to, for each candidate, if there is one: sum C_i loss_i, in two
                              parts, of which the second is what the first has lost to rounding; a
                              bound of the sum above, which holds in spite of the rounding of f_i
                              and the terms, but not of that of the sum itself
    reach : float64[N_REACHES]          added to: sum_i |alpha_i| |x_i|; number of alpha_i != 0
    """
    last = w.shape[0] - 1
    for i in range(target.shape[0]):
        C, t = cost[i], target[i]
        if C == 0.0:
            continue
        start, stop = starts[i], stops[i]
        a = _feasible(kind, C, alpha[i])
        q = 0.5 * a / C
        entropy = _entropy(2.0 * q) if kind == LOGISTIC else 0.0
        size, gamma = np.sqrt(sq_norm[i] + bias * bias), 1.01 * (stop - start + 2.0) * UNIT
        wrong = gamma * size  # times |v|: by Cauchy and Schwarz, of gamma |v|'|x_i|
        f = row_dot(indices, values, start, stop, w) + bias * w[last]
        above = _add_candidate(kind, epsilon, t, C, f, a, q, entropy, wrong * norms[0], sums[0])
        if above > 0.0:
            total = _magnitude(indices, values, start, stop, w) + abs(bias * w[last])
            _refine(kind, epsilon, t, C, f, a, gamma * total, above, sums[0])
        if averaged:
            f = row_dot(indices, values, start, stop, average) + bias * average[last]
            above = _add_candidate(kind, epsilon, t, C, f, a, q, entropy, wrong * norms[1], sums[1])
            if above > 0.0:
                total = _magnitude(indices, values, start, stop, average) + abs(
                    bias * average[last]
                )
                _refine(kind, epsilon, t, C, f, a, gamma * total, above, sums[1])
        step = a * (1.0 if kind >= L1_SVR else t)
        if step != 0.0 and recomputed.shape[0] > 0:
            reach[REACH] += abs(step) * size
            reach[N_REACH] += 1.0
            for p in range(start, stop):
                recomputed[indices[p]] += step * values[p]
            recomputed[last] += step * bias


@_inline
def _targets_and_costs(
    kind, target, code, fold, weight, positive, held_out, cost, first, last, t, C
):
    """Write t_ij and C_ij of a row for models first to last - 1; return if any C_ij is not 0."""
    some = False
    for j in range(first, last):
        t[j] = target
        if kind <= LOGISTIC:
            t[j] = 1.0 if code == positive[j] else -1.0
        C[j] = weight * cost[j, 1 if t[j] > 0.0 else 0] if fold != held_out[j] else 0.0
        some = some or C[j] != 0.0
    return some


@_inline
def _gather(indices, values, start, stop, bias, left, right, W, f):
    """Write columns left to right - 1 of W' x_i, of the row that occupies start..stop-1."""
    last = W[W.shape[0] - 1]
    for j in range(left, right):
        f[j] = last[j] * bias
    eights = start + (stop - start) // 8 * 8
    for p in range(start, eights, 8):  # eight features at once: `f` is loaded an eighth as often
        w0, v0 = W[indices[p]], values[p]
        w1, v1 = W[indices[p + 1]], values[p + 1]
        w2, v2 = W[indices[p + 2]], values[p + 2]
        w3, v3 = W[indices[p + 3]], values[p + 3]
        w4, v4 = W[indices[p + 4]], values[p + 4]
        w5, v5 = W[indices[p + 5]], values[p + 5]
        w6, v6 = W[indices[p + 6]], values[p + 6]
        w7, v7 = W[indices[p + 7]], values[p + 7]
        for j in range(left, right):
            first = (w0[j] * v0 + w1[j] * v1) + (w2[j] * v2 + w3[j] * v3)
            f[j] += first + ((w4[j] * v4 + w5[j] * v5) + (w6[j] * v6 + w7[j] * v7))
    for p in range(eights, stop):
        w, v = W[indices[p]], values[p]
        for j in range(left, right):
            f[j] += w[j] * v


@_inline
def _scatter(indices, values, start, stop, bias, step, left, right, W):
    """Add step[j] x_i to w_j for models left to right - 1, of which `left` begins a register.

    A register of models at a time, without those of which none moves. Steps are read before: if W
    might be where they are, each entry would read them again, which takes half as long again.
    """
    last = W.shape[0] - 1
    whole = left + (right - left) // _LANES * _LANES
    for j in range(left, whole, _LANES):
        s0, s1, s2, s3 = step[j], step[j + 1], step[j + 2], step[j + 3]
        if s0 != 0.0 or s1 != 0.0 or s2 != 0.0 or s3 != 0.0:
            for k in range(j, j + _LANES):
                W[last, k] += step[k] * bias
            for p in range(start, stop):
                w, v = W[indices[p], j:], values[p]
                w0, w1, w2, w3 = w[0] + s0 * v, w[1] + s1 * v, w[2] + s2 * v, w[3] + s3 * v
                w[0], w[1], w[2], w[3] = w0, w1, w2, w3
    for j in range(whole, right):
        s = step[j]
        if s != 0.0:
            W[last, j] += s * bias
            for p in range(start, stop):
                W[indices[p], j] += s * values[p]


@_inline
def _fetch_weights(indices, start, stop, ranges, of_W, W):
    """Ask for the weights of a row and its ranges, see `dcd_many`."""
    first, last = np.int64(ranges & 255), np.int64(ranges >> 8)
    for p in range(start, stop):
        place = np.int64(indices[p]) * W.shape[1]
        _fetch_all(of_W, W.itemsize, place + (first & -_LINE), place + last)


@_inline
def _step_models(kind, epsilon, Q, first, last, t, C, f, alpha, step, stats):
    """Update alpha_ij of a row for models first to last - 1; write s_ij times its change to `step`.

    Return whether any changed, the ranges of those that did and ended strictly inside their bounds,
    and the gain of all.
    """
    some, low, high, total = False, 0, 0, 0.0
    bounded = kind not in (SQUARED_HINGE, L2_SVR)
    for j in range(first, last):
        step[j] = 0.0
        if C[j] == 0.0:
            continue
        old, seen = alpha[j], stats[j]
        seen[EXCESS] += _excess(kind, epsilon, t[j], C[j], f[j], old)
        new, PG, _, gain = _update(kind, epsilon, t[j], C[j], Q, f[j], old)
        seen[PG_MAX] = max(seen[PG_MAX], PG)
        seen[PG_MIN] = min(seen[PG_MIN], PG)
        seen[PG_SUM] += abs(PG)
        seen[GAIN] += gain
        seen[STEPS] += 1.0
        total += gain
        if new != old:
            alpha[j] = new
            step[j] = (new - old) * (1.0 if kind >= L1_SVR else t[j])
            some = True
            if new != 0.0 and not (bounded and abs(new) == C[j]):
                low, high = (low if high > 0 else j), j + 1
    return some, np.uint16(high << 8 | low), total


@kernel(error_model="numpy")
def dcd_many(
    starts, stops, indices, values, sq_norm, target, code, fold, weight, order,
    positive, held_out, cost, kind, epsilon, bias, alpha, W, scratch, stats, ranges, priority,
):  # fmt: skip
    r"""Work on rows in the order given, once for each place there, updating all models.

    For each model this is what `dcd_epoch` does (Hsieh, Algorithm 1), but for rounding in the
    order of a sum. The models do not stats each other.

    Parameters
    ----------
    starts, stops : int64[n_rows]       row i has the entries starts[i] to stops[i] - 1
    indices : uint32[]        columns, each < n_features (checked when the block was loaded)
    values : float64[] or float32[]
    sq_norm : float64[n_rows] x_i' x_i without the bias
    target : float64[n_rows]  the values of regression; not used for classes
    code : int32[n_rows]      number of the class of the row; not used for regression
    fold : int32[n_rows]      fold of the row, not negative
    weight : float64[n_rows]  of the row
    order : int64[n_order]   rows to work on
    positive : int32[M]       number of the class that is +1; not used for regression
    held_out : int32[M]       fold whose rows are left out, -1 for none
    cost : float64[M, 2]      C of rows with t_ij <= 0, and of those with t_ij > 0
    kind : int                the loss
    epsilon : float           of the losses for regression
    bias : float              value of one more feature that every row has, 0 for none
    alpha : float64[n_rows, M]          updated
    W : float64[n_features + 1, P]      updated; the last row belongs to the extra feature; columns
                              from M on are zeros, and stay so. Fastest when P is a multiple of 4
                              and `W` begins with a cache line
    scratch : float64[N_SCRATCH, P]     overwritten
    stats : float64[M, N_STATS]         updated; each model has what `dcd_epoch` keeps
    ranges : uint16[n_rows]     of these rows, updated: the first model that is to be updated, and
                              256 times one past the last, at most 255; then those for which
                              alpha_ij changed, and is now neither 0 nor at a bound, or 0 if none
    priority : float64[n_rows]   of these rows: gain of the dual, summed over models
    """
    t, C, f, step = scratch[0], scratch[1], scratch[2], scratch[3]
    of_indices, of_values, of_W = _address(indices), _address(values), _address(W)
    for k in range(order.shape[0]):
        if k + _FAR < order.shape[0]:
            start, stop = starts[order[k + _FAR]], stops[order[k + _FAR]]
            _fetch_all(of_indices, indices.itemsize, start, stop)
            _fetch_all(of_values, values.itemsize, start, stop)
        if k + 1 < order.shape[0] and W.nbytes > _CACHED:
            i = order[k + 1]
            _fetch_weights(indices, starts[i], stops[i], ranges[i], of_W, W)
        i = order[k]
        first, last = int(ranges[i]) & 255, int(ranges[i]) >> 8
        ranges[i], priority[i] = 0, 0.0
        if not _targets_and_costs(
            kind, target[i], code[i], fold[i], weight[i], positive, held_out, cost, first, last,
            t, C,
        ):  # fmt: skip
            continue
        left = first & -_LANES
        right = min((last + _LANES - 1) & -_LANES, W.shape[1])
        step[left:right] = 0.0
        start, stop = starts[i], stops[i]
        if right - left == W.shape[1]:  # known to begin at 0, loops take two thirds of the time
            _gather(indices, values, start, stop, bias, 0, W.shape[1], W, f)
        else:
            _gather(indices, values, start, stop, bias, left, right, W, f)
        Q = sq_norm[i] + bias * bias
        some, ranges[i], priority[i] = _step_models(
            kind, epsilon, Q, first, last, t, C, f, alpha[i], step, stats
        )
        if some:
            _scatter(indices, values, start, stop, bias, step, left, right, W)


@kernel(error_model="numpy")
def add_many_dual_terms(
    target, code, fold, weight, positive, held_out, cost, kind, epsilon, alpha, scratch, terms
):
    """Add what the rows contribute to the dual value of each model: sum_i g_i(alpha_ij).

    Parameters
    ----------
    target, code, fold, weight, positive, held_out, cost, kind, epsilon, alpha, scratch :
                              as for `dcd_many`; alpha is only read
    terms : float64[M, N_TERMS]         added to: sum of g_i; number of rows with alpha_ij != 0
    """
    M = positive.shape[0]
    t, C = scratch[0], scratch[1]
    for i in range(alpha.shape[0]):
        _targets_and_costs(
            kind, target[i], code[i], fold[i], weight[i], positive, held_out, cost, 0, M, t, C
        )
        for j in range(alpha.shape[1]):
            if C[j] == 0.0:
                continue
            a = _feasible(kind, C[j], alpha[i, j])
            terms[j, N_SUPPORT] += a != 0.0
            terms[j, DUAL] += _dual_term(kind, epsilon, t[j], C[j], a)


@_inline
def _add_loss(lost, j, sums):
    """Add a loss to those of model j, and what that loses to rounding (Knuth)."""
    before = sums[LOSS, j]
    after = before + lost
    added = after - before
    sums[LOSS, j] = after
    sums[LOW, j] += (before - (after - added)) + (lost - added)


@_inline
def _add_hinge(t, C, f, a, gamma, size, norms, above, sums):
    """As `_add_others`, for HINGE, side by side; return if any bound can be refined or is none."""
    odd = 0
    for j in range(C.shape[0]):
        z, least = 1.0 - t[j] * f[j], _LEAST * (3.0 + abs(f[j]))
        d = gamma * size * norms[j] + least
        _add_loss(C[j] * max(z, 0.0), j, sums)
        above[j] = max((C[j] - a[j]) * max(z + d, 0.0), a[j] * max(d - z, 0.0))
        exact = max((C[j] - a[j]) * max(z + least, 0.0), a[j] * max(least - z, 0.0))
        odd += not (above[j] <= _WORTH * exact and abs(f[j]) < np.inf)
        sums[GAP, j] += above[j]
    return odd > 0


@_inline
def _add_squared_hinge(t, C, f, a, q, gamma, size, norms, above, sums):
    """As `_add_others`, for SQUARED_HINGE, side by side; return if any bound is none."""
    odd = 0
    for j in range(C.shape[0]):
        z, least = 1.0 - t[j] * f[j], _LEAST * (2.0 + abs(f[j]) + 2.0 * q[j])
        d = gamma * size * norms[j] + least
        _add_loss(C[j] * (max(z, 0.0) * max(z, 0.0)), j, sums)
        low, high = max(z - d, 0.0) - q[j], max(z + d, 0.0) - q[j]
        left = C[j] * low * low + a[j] * max(d - z, 0.0)
        above[j] = max(left, C[j] * high * high + a[j] * max(-z - d, 0.0))
        odd += not abs(f[j]) < np.inf
        sums[GAP, j] += above[j]
    return odd > 0


@_inline
def _add_others(kind, epsilon, t, C, f, a, q, entropy, gamma, size, norms, above, sums):
    """Add to `sums` what a row contributes under one candidate of each model (`_row_gap`)."""
    odd = 0
    for j in range(C.shape[0]):
        above[j] = 0.0
        if C[j] == 0.0:
            continue
        lost = _loss(kind, epsilon, t[j], f[j])
        _add_loss(C[j] * lost, j, sums)
        least = _LEAST * (1.0 + abs(f[j]) + abs(t[j]) + epsilon + 2.0 * abs(q[j]))
        d = gamma * size * norms[j] + least
        above[j] = _row_gap(kind, epsilon, t[j], C[j], f[j], lost, a[j], q[j], entropy[j], d)
        if kind == L1_SVR and above[j] > 0.0:
            exact = _row_gap(kind, epsilon, t[j], C[j], f[j], lost, a[j], q[j], entropy[j], least)
            odd += above[j] > _WORTH * exact
        odd += not abs(f[j]) < np.inf
        sums[GAP, j] += above[j]
    return odd > 0


@_inline
def _refine_many(
    kind, epsilon, t, C, f, a, gamma, above, indices, values, start, stop, bias, W, sums
):
    """Put tighter bounds in the place of those in `above`; there is none if f is no number."""
    for j in range(C.shape[0]):
        if C[j] == 0.0:
            continue
        if not abs(f[j]) < np.inf:
            sums[GAP, j] = np.inf
        elif above[j] > 0.0 and kind in (HINGE, L1_SVR):
            total = abs(bias * W[W.shape[0] - 1, j])
            for p in range(start, stop):
                total += abs(W[indices[p], j] * values[p])
            d = gamma * total + _LEAST * (3.0 + abs(f[j]) + abs(t[j]) + epsilon)
            tighter = _row_gap(kind, epsilon, t[j], C[j], f[j], 0.0, a[j], 0.0, 0.0, d)
            sums[GAP, j] += min(tighter - above[j], 0.0)


@_inline
def _add_candidates(kind, epsilon, t, C, f, a, q, entropy, gamma, size, norms, above, sums):
    """Add to `sums` what a row contributes under one candidate of each model, see `certify_rows`.

    Return whether `_refine_many` has something to do.
    """
    if kind == HINGE:
        odd = _add_hinge(t, C, f, a, gamma, size, norms, above, sums)
    elif kind == SQUARED_HINGE:
        odd = _add_squared_hinge(t, C, f, a, q, gamma, size, norms, above, sums)
    else:
        odd = _add_others(kind, epsilon, t, C, f, a, q, entropy, gamma, size, norms, above, sums)
    return odd


@kernel(error_model="numpy")
def certify_many(
    starts, stops, indices, values, sq_norm, target, code, fold, weight, positive, held_out, cost,
    kind, epsilon, bias, alpha, W, average, averaged, norms, recomputed, scratch, sums,
    reach,
):  # fmt: skip
    """Add what the rows contribute to a certificate of each model; see `certify_rows`.

    Parameters
    ----------
    starts, stops, indices, values, sq_norm, target, code, fold, weight, positive, held_out, cost,
    kind, epsilon, bias, alpha, scratch :               as for `dcd_many`; alpha is only read, and
                              need not be feasible: what counts is the point next to it that is
    W, average : float64[n_features + 1, P]   two candidates for the primal
    averaged : bool           whether there is an average
    norms : float64[2, P]     of the columns of `W` and of `average`, or more
    recomputed : float64[n_features + 1 or 0, P]        added to: sum_i s_ij alpha_ij x_i; left out
                              if empty
    sums : float64[2, N_SUMS, M]        added to, for each candidate, if there is one, and model: as
                              in `certify_rows`
    reach : float64[N_REACHES, M]       added to: so are they
    """
    M = positive.shape[0]
    t, C, f, step = scratch[0][:M], scratch[1][:M], scratch[2], scratch[3]
    entropy, above, a, q = scratch[4], scratch[5], scratch[6], scratch[7]
    step[M:] = 0.0
    of_W, of_recomputed, whole = _address(W), _address(recomputed), W.shape[1] << 8
    for i in range(alpha.shape[0]):
        if i + 1 < alpha.shape[0] and W.nbytes > _CACHED:
            start, stop = starts[i + 1], stops[i + 1]
            _fetch_weights(indices, start, stop, whole, of_W, W)
            if recomputed.shape[0] > 0:
                _fetch_weights(indices, start, stop, whole, of_recomputed, recomputed)
        if not _targets_and_costs(
            kind, target[i], code[i], fold[i], weight[i], positive, held_out, cost, 0, M, t, C
        ):
            continue
        start, stop = starts[i], stops[i]
        size, gamma = np.sqrt(sq_norm[i] + bias * bias), 1.01 * (stop - start + 2.0) * UNIT
        for j in range(M):
            step[j] = a[j] = q[j] = 0.0
            if C[j] == 0.0:
                continue
            a[j] = _feasible(kind, C[j], alpha[i, j])
            q[j] = 0.5 * a[j] / C[j]
            if kind == LOGISTIC:
                entropy[j] = _entropy(2.0 * q[j])
            if a[j] != 0.0:
                step[j] = a[j] * (1.0 if kind >= L1_SVR else t[j])
                reach[REACH, j] += abs(a[j]) * size
                reach[N_REACH, j] += 1.0
        _gather(indices, values, start, stop, bias, 0, W.shape[1], W, f)
        if _add_candidates(
            kind, epsilon, t, C, f, a, q, entropy, gamma, size, norms[0], above, sums[0]
        ):
            _refine_many(
                kind, epsilon, t, C, f, a, gamma, above, indices, values, start, stop, bias, W,
                sums[0],
            )  # fmt: skip
        if averaged:
            _gather(indices, values, start, stop, bias, 0, W.shape[1], average, f)
            if _add_candidates(
                kind, epsilon, t, C, f, a, q, entropy, gamma, size, norms[1], above, sums[1]
            ):
                _refine_many(
                    kind, epsilon, t, C, f, a, gamma, above, indices, values, start, stop, bias,
                    average, sums[1],
                )  # fmt: skip
        if recomputed.shape[0] > 0:
            _scatter(indices, values, start, stop, bias, step, 0, W.shape[1], recomputed)
