"""Optima of small dense problems, by interior points and Newton steps: independent of the package.

`X` is dense, float64[n, d], with the bias feature as its last column; `C` holds the cost of each
row, and rows with C = 0 are left out. Each function returns a lower and an upper bound of the
optimal P, which are 1e-10 apart.
"""

import numpy as np
import reference
from crammer_singer_problems import primal_value, unlike


def optimum(X, t, C, kind, epsilon=0.0):
    """Of one model; t is +1 or -1, or the value."""
    X, t, C = X[C > 0], t[C > 0], C[C > 0]
    Y, n = (t[:, None] * X if kind <= reference.LOGISTIC else X), len(t)
    if kind == reference.LOGISTIC:
        return _logistic(Y, C)
    D = np.diag(reference.diagonal(C, kind))
    if kind <= reference.SQUARED_HINGE:
        Q, q, both = Y @ Y.T + D, np.ones(n), np.eye(n)
    else:  # alpha is the difference of two numbers, neither of them negative
        both = np.hstack([np.eye(n), -np.eye(n)])
        Q, q = both.T @ (Y @ Y.T + D) @ both, np.concatenate([t - epsilon, -t - epsilon])
    bounded = kind in (reference.HINGE, reference.L1_SVR)
    B = abs(both) if bounded else np.zeros((0, len(q)))
    alpha = both @ quadratic(Q, q, B, C if bounded else np.zeros(0))
    if bounded:
        alpha = np.clip(alpha, *reference.bounds(C, kind))
    found = reference.weights(X, t, C, alpha, kind)
    return (
        reference.dual_value(X, t, C, alpha, kind, epsilon),
        reference.primal_value(X, t, C, found, kind, epsilon),
    )


def crammer_singer(X, label, C, K):
    """Of Crammer and Singer's problem; label is 0 to K - 1. Variables are -alpha_i^m, m != y_i."""
    X, label, C = X[C > 0], label[C > 0], C[C > 0]
    n, others = len(label), np.argwhere(unlike(label, K))
    basis = np.zeros((len(others), n, K))  # what one unit of each variable makes of alpha
    for z, (i, m) in zip(basis, others, strict=True):
        z[i, m], z[i, label[i]] = -1.0, 1.0
    moved = np.array([(X.T @ z).ravel() for z in basis])
    B = (others[:, :1] == np.arange(n)).T.astype(float)
    z = quadratic(moved @ moved.T, np.ones(len(others)), B, C)
    z *= np.minimum(1.0, C / np.maximum(B @ z, 1e-300)) @ B
    alpha = np.tensordot(z, basis, 1)
    W = X.T @ alpha
    return z.sum() - 0.5 * (W**2).sum(), primal_value(X, label, C, W)


def one_class(X, U, T):
    """Of the one-class SVM, without a bias. The bounds are valid, but may be further apart."""
    w = X.T @ one_class_alpha(X, U, T)
    return -0.5 * w @ w, one_class_primal(X, U, T, w)


def one_class_alpha(X, U, T, most=1000):
    """Return alpha from 0 to U that sum to T: `most` exchanges of the most violating pair."""
    alpha = np.diff(np.minimum(np.cumsum(U), T), prepend=0.0)
    square = (X**2).sum(1)
    for _ in range(most):
        f = X @ (X.T @ alpha)
        i = np.argmin(np.where(alpha < U, f, np.inf))
        j = np.argmax(np.where(alpha > 0, f, -np.inf))
        curvature = square[i] + square[j] - 2 * X[i] @ X[j]
        slope = f[j] - f[i]
        if not (alpha[i] < U[i] and alpha[j] > 0 and slope > 1e-14 * abs(f).max()):
            break
        room = min(U[i] - alpha[i], alpha[j])
        step = min(slope / curvature, room) if curvature > 0 else room
        alpha[i], alpha[j] = alpha[i] + step, alpha[j] - step
    return alpha


def one_class_primal(X, U, T, w, rho=None):
    """P of a w with a rho, or with the best one."""
    f = X @ w
    best = [
        0.5 * w @ w - r * T + (U * np.maximum(0.0, r - f)).sum()
        for r in (f if rho is None else [rho])
    ]
    return min(best)


def quadratic(Q, q, B, c):
    """Return z >= 0 with B z <= c that minimises 1/2 z'Qz - q'z, by interior points."""
    m = len(q)
    z = np.full(m, 0.1 * c.min() / m if len(c) else 1.0)
    s, v, y = c - B @ z, np.ones(m), np.ones(len(c))
    for _ in range(200):
        mu = (z @ v + s @ y) / (m + len(c))
        residual = Q @ z - q + B.T @ y - v
        if mu * (m + len(c)) <= 1e-13 * abs(q @ z):
            break
        aim = 0.1 * mu
        H = np.block([[Q + np.diag(v / z), B.T], [B, -np.diag(s / y)]])
        right = np.concatenate([-residual + aim / z - v, s - aim / y])
        dz, dy = np.split(np.linalg.solve(H, right), [m])
        ds, dv = -B @ dz, aim / z - v - v / z * dz
        step = 1.0
        for x, dx in ((z, dz), (s, ds), (v, dv), (y, dy)):
            down = dx < 0
            step = min(step, 0.99 * (x[down] / -dx[down]).min(initial=np.inf))
        z, s, v, y = z + step * dz, s + step * ds, v + step * dv, y + step * dy
    return z


def _logistic(Y, C):
    """Newton steps on the primal, then alpha_i = C_i / (1 + exp(margin))."""
    w = np.zeros(Y.shape[1])

    def value(w):
        return 0.5 * w @ w + C @ np.logaddexp(0, -Y @ w)

    for _ in range(200):
        p = 1 / (1 + np.exp(Y @ w))
        gradient = w - Y.T @ (C * p)
        step = np.linalg.solve(np.eye(len(w)) + Y.T @ ((C * p * (1 - p))[:, None] * Y), gradient)
        length = 1.0
        while value(w - length * step) > value(w) - 1e-4 * length * gradient @ step:
            length /= 2
            if length < 1e-10:
                break
        w = w - length * step
        if abs(gradient).max() <= 1e-12 * (1 + C.sum()):
            break
    one = np.ones(len(C))
    alpha = C / (1 + np.exp(Y @ w))
    return reference.dual_value(Y, one, C, alpha, reference.LOGISTIC), value(w)
