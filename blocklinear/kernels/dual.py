"""Dual coordinate descent: one rule a loss, one sweep for all (Hsieh; Yu, Algorithm 2).

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
"""

import numpy as np
from llvmlite import ir
from numba import config, njit, types
from numba.extending import intrinsic

HINGE, SQUARED_HINGE, LOGISTIC, L1_SVR, L2_SVR = 0, 1, 2, 3, 4

PG_MAX, PG_MIN, PG_SUM, EXCESS, GAIN, STEPS = 0, 1, 2, 3, 4, 5
N_TOUCH = 6

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


@njit(cache=True, nogil=True)
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


# Inlined, and without a check for zero at each division, what certifies rows takes less time.
_inline = njit(cache=True, nogil=True, error_model="numpy", forceinline=True)


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def _dot(indices, values, start, stop, w):
    """Return x_i' w for the row that occupies start..stop-1."""
    total = 0.0
    for p in range(start, stop):
        total += w[indices[p]] * values[p]
    return total


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def _entropy(u):
    """Return -u log u - (1 - u) log(1 - u), continuous at 0 and 1."""
    total = u * np.log(u) if u > 0.0 else 0.0
    return -(total + ((1.0 - u) * np.log(1.0 - u) if u < 1.0 else 0.0))


@njit(cache=True, nogil=True)
def _dual_term(kind, epsilon, t, C, a):
    """Return g_i(alpha_i), what a row adds to the dual value beside -1/2 w'w."""
    if kind == LOGISTIC:
        return C * _entropy(a / C)
    D = 0.5 / C if kind in (SQUARED_HINGE, L2_SVR) else 0.0
    if kind in (HINGE, SQUARED_HINGE):
        return a - 0.5 * D * a * a
    return t * a - epsilon * abs(a) - 0.5 * D * a * a


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def dcd_epoch(
    starts, stops, indices, values, sq_norm, target, cost, order, kind, epsilon, bias, alpha, w,
    touch, selection, preference, adapt,
):  # fmt: skip
    r"""Visit rows in the order given, once for each place there, updating `alpha` and `w`.

    Parameters
    ----------
    starts, stops : int64[n_rows]       row i has the entries starts[i] to stops[i] - 1
    indices : uint32[]        columns, each < n_features (checked when the block was loaded)
    values : float64[] or float32[]
    sq_norm : float64[n_rows] x_i' x_i without the bias
    target : float64[n_rows]  t_i
    cost : float64[n_rows]    C_i; rows with 0 are left out
    order : int64[n_active]   rows to visit
    kind : int                the loss
    epsilon : float           of the losses for regression
    bias : float              value of one more feature that every row has, 0 for none
    alpha : float64[n_rows]   updated
    w : float64[n_features + 1]         updated; the last entry belongs to the extra feature
    touch : float64[N_TOUCH]  updated: largest and smallest projected gradient, sum of their sizes,
                              sum of what rows add to P - D, each seen when a row was touched;
                              gain of the dual; rows touched
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
        f = _dot(indices, values, start, stop, w) + bias * w[last]
        touch[EXCESS] += _excess(kind, epsilon, t, C, f, old)
        Q = sq_norm[i] + bias * bias
        new, PG, pressure, gain = _update(kind, epsilon, t, C, Q, f, old)
        touch[PG_MAX] = max(touch[PG_MAX], PG)
        touch[PG_MIN] = min(touch[PG_MIN], PG)
        touch[PG_SUM] += abs(PG)
        touch[GAIN] += gain
        touch[STEPS] += 1.0
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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
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


@njit(cache=True, nogil=True, error_model="numpy")
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
        f = _dot(indices, values, start, stop, w) + bias * w[last]
        above = _add_candidate(kind, epsilon, t, C, f, a, q, entropy, wrong * norms[0], sums[0])
        if above > 0.0:
            total = _magnitude(indices, values, start, stop, w) + abs(bias * w[last])
            _refine(kind, epsilon, t, C, f, a, gamma * total, above, sums[0])
        if averaged:
            f = _dot(indices, values, start, stop, average) + bias * average[last]
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
