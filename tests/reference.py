"""Dense references for the kernels: slow, one line per equation, and independent of them.

`X` is dense, float64[n, d], with the bias feature as its last column; `t`, `C` and `alpha` hold the
target, the cost and the dual variable of each row. Rows with C = 0 are left out. Equations are
those of Hsieh et al. (ICML 2008), Fan, appendix A, and AVSF (Glasmachers and Dogan, 2013).
"""

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit, xlogy

HINGE, SQUARED_HINGE, LOGISTIC, L1_SVR, L2_SVR = KINDS = range(5)
EPS = np.finfo(float).eps


def loss(t, f, kind, epsilon=0.0):
    """Loss of the decision values f, without C."""
    slack, excess = np.maximum(0, 1 - t * f), np.maximum(0, abs(f - t) - epsilon)
    return [slack, slack**2, np.logaddexp(0, -t * f), excess, excess**2][kind]


def primal_value(X, t, C, w, kind, epsilon=0.0):
    """P(w) = 1/2 w'w + sum C_i loss_i."""
    return 0.5 * w @ w + total_loss(X, t, C, w, kind, epsilon)


def total_loss(X, t, C, w, kind, epsilon=0.0):
    """sum C_i loss_i."""
    kept = C > 0
    return C[kept] @ loss(t[kept], X[kept] @ w, kind, epsilon)


def signs(t, kind):
    """s_i: the label; 1 for regression."""
    return t if kind <= LOGISTIC else np.ones(len(t))


def weights(X, t, C, alpha, kind):
    """w = sum s_i alpha_i x_i."""
    kept = C > 0
    return X[kept].T @ (signs(t, kind) * alpha)[kept]


def bounds(C, kind):
    """Return the ends of the domain of alpha, for one row or many."""
    infinite = np.full_like(C, np.inf)
    low = [0 * C, 0 * C, 0 * C, -C, -infinite][kind]
    return low, infinite if kind in (SQUARED_HINGE, L2_SVR) else C


def diagonal(C, kind):
    """D_ii of rows with C > 0."""
    return 0.5 / C if kind in (SQUARED_HINGE, L2_SVR) else 0.0 * C


def conjugate_terms(t, C, alpha, kind, epsilon=0.0):
    """g_i(alpha_i), the part of the dual value that is a sum over the rows with C > 0."""
    if kind == LOGISTIC:  # Fan, (6)
        return xlogy(C, C) - xlogy(alpha, alpha) - xlogy(C - alpha, C - alpha)
    linear = alpha if kind <= SQUARED_HINGE else t * alpha - epsilon * abs(alpha)  # Fan, (10)
    return linear - 0.5 * diagonal(C, kind) * alpha**2


def dual_value(X, t, C, alpha, kind, epsilon=0.0):
    """D(alpha) = sum g_i(alpha_i) - 1/2 w'w."""
    kept, w = C > 0, weights(X, t, C, alpha, kind)
    return conjugate_terms(t[kept], C[kept], alpha[kept], kind, epsilon).sum() - 0.5 * w @ w


def slopes(X, t, C, alpha, i, kind, epsilon=0.0):
    """Left and right derivative of -D for alpha_i; outside of its domain -D is infinite.

    Alpha of LOGISTIC is known to within EPS C, and so are its slopes.
    """
    f, a, s = X[i] @ weights(X, t, C, alpha, kind), alpha[i], signs(t, kind)[i]
    low, high = bounds(C[i], kind)
    if kind == LOGISTIC:
        u = np.clip(a / C[i], EPS, 1 - EPS)
        slope, slack = s * f + logit(u), EPS * (1 / (u * (1 - u)) + C[i] * X[i] @ X[i])
        return (-np.inf if a == low else slope - slack), (np.inf if a == high else slope + slack)
    G = s * f - (1.0 if kind <= SQUARED_HINGE else t[i]) + diagonal(C[i], kind) * a
    kink = epsilon if kind >= L1_SVR else 0.0
    left, right = G + (kink if a > 0 else -kink), G + (kink if a >= 0 else -kink)
    return (-np.inf if a == low else left), (np.inf if a == high else right)


def projected_gradient(left, right):
    """Return the slope downhill: right if that goes down, left if that does, else 0."""
    return right if right < 0 else max(left, 0.0)


def best_alpha(X, t, C, alpha, i, kind, epsilon=0.0):
    """Return the alpha_i that maximises the dual value, the others fixed."""
    f, Q, a, s = X[i] @ weights(X, t, C, alpha, kind), X[i] @ X[i], alpha[i], signs(t, kind)[i]
    if kind == LOGISTIC:  # with alpha = C expit(x), the derivative grows in x
        slope = lambda x: Q * (C[i] * expit(x) - a) + s * f + x  # noqa: E731
        reach = 1 + abs(s * f) + Q * C[i]
        return C[i] * expit(brentq(slope, -reach, reach, xtol=1e-15, rtol=4 * EPS))
    # a piece of a quadratic has its maximum at an end or where the derivative is 0: try them all
    D, (low, high) = diagonal(C[i], kind), bounds(C[i], kind)
    gain = 1.0 if kind <= SQUARED_HINGE else t[i]
    tries = [low, high, 0.0, a]
    if Q + D > 0:
        kinks = (-epsilon, epsilon) if kind >= L1_SVR else (0.0,)
        tries += [a - (s * f - gain + D * a + kink) / (Q + D) for kink in kinks]
    tries = [z for z in np.clip(tries, low, high) if np.isfinite(z)]

    def value(z):
        penalty = epsilon * abs(z) if kind >= L1_SVR else 0.0
        return gain * z - penalty - D * z**2 / 2 - s * f * (z - a) - Q * (z - a) ** 2 / 2

    return max(tries, key=value)


def certificate(X, t, C, alpha, w, average, kind, epsilon=0.0):
    """w' = sum s_i alpha_i x_i, and the loss under two candidates."""
    losses = [total_loss(X, t, C, v, kind, epsilon) for v in (w, average)]
    return weights(X, t, C, alpha, kind), losses


def preferences(gains, rows, p, mean):
    """AVSF, Algorithm 5 after the first sweep: p and the mean gain after steps with these gains."""
    p = p.copy()
    for i, gain in zip(rows, gains, strict=True):
        p[i] = np.clip(p[i] * np.exp(0.2 * (gain / mean - 1)), 1 / 20, 20)
        mean = (1 - 1 / len(p)) * mean + gain / len(p)
    return p, mean
