"""The losses: value, dual, update of one alpha, and terms of the gap; one model or many.

Every problem has one dual variable alpha_i a row and w = sum_i s_i alpha_i x_i. With f_i = w'x_i
and the target t_i, which is +1 or -1 for classes and the value for regression:

    loss           s_i   C_i times                    dual domain        D_ii
    HINGE          t_i   max(0, 1 - t_i f_i)          [0, C_i]           0
    SQUARED_HINGE  t_i   max(0, 1 - t_i f_i)**2       [0, inf)           1 / (2 C_i)
    LOGISTIC       t_i   log(1 + exp(-t_i f_i))       [0, C_i]           0
    L1_SVR         1     max(0, |f_i - t_i| - eps)    [-C_i, C_i]        0
    L2_SVR         1     max(0, |f_i - t_i| - eps)**2 (-inf, inf)        1 / (2 C_i)

The dual value, to be maximised, is sum_i g_i(alpha_i) - 1/2 w'w with

    HINGE, SQUARED_HINGE    g = alpha - 1/2 D alpha**2
    LOGISTIC                g = C log C - alpha log alpha - (C - alpha) log(C - alpha)
    L1_SVR, L2_SVR          g = t alpha - eps |alpha| - 1/2 D alpha**2

Rows with C_i = 0 are left out. Whatever computes a dual value takes each alpha_i to be the point of
its domain next to the number given (`feasible`), so that no bound rests on who wrote it.

Of many models, model j tells the class positive[j] from all others (one against the rest: Yu,
Algorithm 5), without the rows of the fold held_out[j] (cross-validation: Yu, section 6.2), at its
own costs:

    t_ij = 1 if code_i = positive_j, otherwise -1; for regression the value of the row
    C_ij = weight_i cost[j, t_ij > 0], or 0 if fold_i = held_out_j

Their kernels take two tuples, `data` and `models`,

    target              float64[n_rows]: values of regression
    code, fold, weight  int32[n_rows], int32[n_rows], float64[n_rows]: of the row; folds are not
                        negative, and classes have no part in regression

    positive, held_out  int32[M]: a class; a fold, or -1 for none
    cost                float64[M, 2]: C of rows with t_ij <= 0, and of those with t_ij > 0
    kind, epsilon       of the loss

and

    alpha               float64[n_rows, M]
    W                   float64[n_features + 1, P]: weights; columns from M on are zeros, and stay
                        so. Fastest when P is a multiple of 4 and `W` begins with a cache line
"""

import numpy as np

from blocklinear.kernels.shared import add_exactly, inline

HINGE, SQUARED_HINGE, LOGISTIC, L1_SVR, L2_SVR = 0, 1, 2, 3, 4

LOSS, LOW, GAP_TERM_BOUND, WRONG = 0, 1, 2, 3
N_SUMS = 4
REACH, N_REACH, OF_PLUS, OF_MINUS = 0, 1, 2, 3
N_REACHES = 4

UNIT = 2.0**-53
"""Largest relative error of one operation on float64."""
ROW_ROUNDING = 4.0 * UNIT  # largest relative error of the terms of one row
WORTH_REFINING = 1e-3  # a bound is refined if that can make it smaller by so much of it

_NEWTON_STEPS = 100
_NEWTON_TOLERANCE = 1e-8
_ROUNDING = 2.0**-52


@inline
def loss(kind, epsilon, t, f):
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


@inline
def sign_of(kind, t):
    """Return s_i, the sign of x_i in w = sum_i s_i alpha_i x_i."""
    return 1.0 if kind >= L1_SVR else t


@inline
def rounding_of(n_entries):
    """Return the largest error of w'x_i, of so many entries, over the sum of their sizes."""
    return 1.01 * (n_entries + 2.0) * UNIT


@inline
def entropy_of(u):
    """Return -u log u - (1 - u) log(1 - u), continuous at 0 and 1, and right for the smallest u."""
    total = u * np.log(u) if u > 0.0 else 0.0
    return -(total + ((1.0 - u) * np.log1p(-u) if u < 1.0 else 0.0))


@inline
def dual_term(kind, epsilon, t, C, a):
    """Return g_i(alpha_i), what a row adds to the dual value, apart from -1/2 w'w."""
    if kind == LOGISTIC:
        return C * entropy_of(a / C)
    D = 0.5 / C if kind in (SQUARED_HINGE, L2_SVR) else 0.0
    linear = a if kind <= SQUARED_HINGE else t * a - epsilon * abs(a)
    return linear - 0.5 * D * a * a


@inline
def gap_term(kind, epsilon, t, C, f, a):
    """Return C_i loss_i + s_i alpha_i f_i - g_i(alpha_i) >= 0; the sum over all rows is P - D."""
    reach = sign_of(kind, t) * a * f
    return C * loss(kind, epsilon, t, f) + reach - dual_term(kind, epsilon, t, C, a)


@inline
def feasible(kind, C, a):
    """Return the point of the domain of alpha_i next to `a`; 0 if that is not finite."""
    if not abs(a) < np.inf:
        return 0.0
    if kind == L2_SVR:
        return a
    low = max(a, -C if kind == L1_SVR else 0.0)
    return low if kind == SQUARED_HINGE else min(low, C)


@inline
def primal_alpha(kind, epsilon, t, C, f):
    """Return alpha_i = -s_i C_i loss'(f), for the smooth losses: what it is at an optimum."""
    if kind == LOGISTIC:
        return C / (1.0 + np.exp(t * f))
    if kind == SQUARED_HINGE:
        return 2.0 * C * max(0.0, 1.0 - t * f)
    over = 2.0 * C * max(0.0, abs(f - t) - epsilon)
    return over if f < t else -over


@inline
def curvature(kind, C, a, width=1.0):
    """Return h_i: the derivative of alpha_i, in its domain, by -s_i f_i; 0 at its ends.

    For the smooth losses it is C_i loss''(f), `a` being `primal_alpha` of f; for the others `a` is
    `proximal_alpha`.
    """
    if kind in (HINGE, L1_SVR):
        return C / width if a != 0.0 and abs(a) < C else 0.0
    if kind == LOGISTIC:
        return a * (1.0 - a / C) if C > 0.0 else 0.0
    return 2.0 * C if a != 0.0 else 0.0


@inline
def proximal_alpha(kind, epsilon, t, C, f, center, width):
    """Return where g_i(alpha) - s_i alpha f - width / (2 C) (alpha - center)**2 is largest.

    For HINGE and L1_SVR, without the bounds of alpha; `width` is above 0, and may be infinite.
    """
    sigma = C / width
    if kind == HINGE:
        return center + sigma * (1.0 - t * f)
    a = center + sigma * (t - f)
    return max(a - sigma * epsilon, 0.0) if a > 0.0 else min(a + sigma * epsilon, 0.0)


@inline
def regression_gap_term(kind, epsilon, C, r, a, q):
    """Return `gap_term` of a regression without cancellation, for r = f - t."""
    size, half, z = abs(a), abs(q), abs(r) - epsilon
    over, under = max(z, 0.0), max(-z, 0.0)
    if kind == L1_SVR:
        if a * r > 0.0:
            return C * over + size * (z + 2.0 * epsilon)
        return (C - size) * over + size * under
    if a * r > 0.0:
        return C * over * over + size * (z + 2.0 * epsilon + 0.5 * half)
    return C * (over - half) * (over - half) + size * under


@inline
def gap_term_bound(kind, epsilon, t, C, f, lost, a, q, entropy, d):
    """Return an upper bound of `gap_term`, for decision values from f - d to f + d.

    With alpha_i in its domain the term is convex in f, and largest at an end. Nothing cancels in

        HINGE          (C - a) z+  + a z-              z = 1 - t f, z+ = max(z, 0), z- = max(-z, 0)
        SQUARED_HINGE  C (z+ - q)**2 + a z-            q = a / (2 C)
        L1_SVR, L2_SVR the same of |a| and z = |f - t| - eps, if alpha_i and f - t differ in sign
        LOGISTIC       C (loss + u t f - H(u))         u = a / C, H its entropy

    but in the last, whose terms are added to the bound as often as they may be wrong. `lost` is
    the loss at f without C.
    """
    if kind == LOGISTIC:
        u, margin = 2.0 * q, t * f
        slope = abs(u + np.expm1(-lost)) + 8.0 * UNIT
        wrong = 8.0 * UNIT * (lost + u * (abs(margin) + 8.0) + entropy)
        return C * (max(lost + u * margin - entropy, 0.0) + wrong + d * (slope + 0.125 * d))
    if kind >= L1_SVR:
        r = f - t
        low = regression_gap_term(kind, epsilon, C, r - d, a, q)
        return max(low, regression_gap_term(kind, epsilon, C, r + d, a, q))
    z = 1.0 - t * f
    if kind == HINGE:
        return max((C - a) * max(z + d, 0.0), a * max(d - z, 0.0))
    low = max(z - d, 0.0) - q
    high = max(z + d, 0.0) - q
    return max(C * low * low + a * max(d - z, 0.0), C * high * high + a * max(-z - d, 0.0))


@inline
def logistic_rule(margin, Q, C, old):
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


@inline
def quadratic_rule(Gp, Gn, QD, low, U, old):
    """Return the new alpha, the projected gradient, and the pressure on a bound or on the kink.

    What is minimised has the derivative `Gp` at `old` if that is above 0, `Gn` if it is below, and
    a kink at 0, from `Gn` to `Gp`. Hinge losses have `low` = 0: their alpha may not fall below, as
    if the kink began at -inf.
    """
    PG, new = 0.0, old
    if old == 0.0:
        PG = Gp if Gp < 0.0 else max(Gn, 0.0)
    elif old >= U:
        PG = max(Gp, 0.0)
    elif old <= -U:
        PG = min(Gn, 0.0)
    else:
        PG = Gp if old > 0.0 else Gn
    if PG != 0.0 and QD <= 0.0:  # an empty row: the dual is linear on either side of 0
        new = U if Gp < 0.0 else (-U if Gn > 0.0 else 0.0)
    elif PG != 0.0:
        step = -old
        if Gp < QD * old:
            step = -Gp / QD
        elif Gn > QD * old:
            step = -Gn / QD
        new = min(max(old + step, low), U)
    after = QD * (new - old)
    if new == 0.0:
        return new, PG, min(Gp + after, -Gn - after)
    return new, PG, -Gp - after if new >= U else (Gn + after if new <= -U else 0.0)


@inline
def update(kind, epsilon, t, C, Q, f, old):
    """Return the new alpha of a row, the projected gradient, the pressure and the dual's gain."""
    if kind == LOGISTIC:
        new, PG = logistic_rule(t * f, Q, C, old)
        d = new - old
        gain = -(0.5 * Q * d + t * f) * d + C * (entropy_of(new / C) - entropy_of(old / C))
        return new, PG, 0.0, gain
    squared = kind in (SQUARED_HINGE, L2_SVR)
    D = 0.5 / C if squared else 0.0
    U = np.inf if squared else C
    QD = Q + D
    if kind in (HINGE, SQUARED_HINGE):
        G = t * f - 1.0 + D * old
        new, PG, pressure = quadratic_rule(G, -np.inf, QD, 0.0, U, old)
        kink = 0.0
    else:
        G = f - t + D * old
        new, PG, pressure = quadratic_rule(G + epsilon, G - epsilon, QD, -U, U, old)
        kink = epsilon * (abs(new) - abs(old))
    d = new - old
    return new, PG, pressure, -(0.5 * QD * d + G) * d - kink


@inline
def error_of_loss(kind, epsilon, t, f, lost, d):
    """Return how much the loss may be wrong, without C, if f is by at most `d`.

    It is convex in f: it falls by no more than it rises on the other side.
    """
    if kind == LOGISTIC:  # of slope 1 - exp(-lost), and a second derivative of at most 1/4
        return (min(lost, 1.0) + 0.125 * d) * d + 8.0 * UNIT * lost
    over = d + (1.0 - t * f if kind <= SQUARED_HINGE else abs(f - t) - epsilon)
    if over <= 0.0:
        return 0.0
    return d if kind in (HINGE, L1_SVR) else 2.0 * over * d


@inline
def bound_candidate(kind, epsilon, t, C, f, a, q, entropy, wrong, sums):
    """Add the loss of a row under one candidate to `sums`, f being wrong by at most `wrong`.

    What the loss may be wrong by is added, too.
    Return the bound of what the row adds to P - D, and whether a smaller `wrong` would make it
    smaller, as at the kinks of losses.
    """
    lost = loss(kind, epsilon, t, f)
    add_exactly(C * lost, sums, LOSS)
    if not abs(f) < np.inf:
        return np.inf, False
    noise = ROW_ROUNDING * (1.0 + abs(f) + abs(t) + epsilon + 2.0 * abs(q))
    above = gap_term_bound(kind, epsilon, t, C, f, lost, a, q, entropy, wrong + noise)
    sums[WRONG] += C * error_of_loss(kind, epsilon, t, f, lost, wrong + noise)
    if kind in (HINGE, L1_SVR):
        return above, 2.0 * C * wrong > WORTH_REFINING * above and above > 0.0
    return above, False


@inline
def add_candidate(kind, epsilon, t, C, f, a, wrong, sums):
    """Add to `sums` what a row contributes under one candidate, see `bound_candidate`."""
    q = 0.5 * a / C
    entropy = entropy_of(2.0 * q) if kind == LOGISTIC else 0.0
    above, _ = bound_candidate(kind, epsilon, t, C, f, a, q, entropy, wrong, sums)
    sums[GAP_TERM_BOUND] += above


@inline
def refine(kind, epsilon, t, C, f, a, wrong, above):
    """Return the bound for a smaller `wrong`, if it is less than the one `above`."""
    noise = ROW_ROUNDING * (3.0 + abs(f) + abs(t) + epsilon)
    return min(gap_term_bound(kind, epsilon, t, C, f, 0.0, a, 0.0, 0.0, wrong + noise), above)


@inline
def targets_and_costs(data, i, models, first, last, t, C):
    """Write t_ij and C_ij of a row for models first to last - 1; return if any C_ij is not 0."""
    target, code, fold, weight = data
    positive, held_out, cost, kind, _ = models
    some = False
    for j in range(first, last):
        t[j] = target[i]
        if kind <= LOGISTIC:
            t[j] = 1.0 if code[i] == positive[j] else -1.0
        C[j] = weight[i] * cost[j, 1 if t[j] > 0.0 else 0] if fold[i] != held_out[j] else 0.0
        some = some or C[j] != 0.0
    return some
