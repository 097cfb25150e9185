"""Dense references for the kernels: slow, one line per equation, and independent of them.

`X` is dense, float64[n, d], with the bias feature as its last column; `y` is +1 or -1; `U`, `D` and
`C` hold one number a row. Equations are those of Hsieh et al. (ICML 2008).
"""

import numpy as np


def q_matrix(X, y):
    """Q_ij = y_i y_j x_i' x_j."""
    return (y[:, None] * X) @ (y[:, None] * X).T


def hinge(X, y, C, w, squared):
    """sum C_i loss_i, loss = max(0, 1 - y_i w'x_i), or its square."""
    return C @ np.maximum(0.0, 1 - y * (X @ w)) ** (2 if squared else 1)


def primal_value(X, y, C, w, squared):
    """P(w) = 1/2 w'w + sum C_i loss_i."""
    return 0.5 * w @ w + hinge(X, y, C, w, squared)


def dual_value(X, y, D, alpha):
    """D(alpha) = e'alpha - 1/2 alpha' (Q + diag D) alpha."""
    return alpha.sum() - 0.5 * alpha @ (q_matrix(X, y) + np.diag(D)) @ alpha


def dcd_epoch(X, y, order, U, D, C, alpha, squared):
    """Algorithm 1 in the order given, recomputing every gradient from alpha.

    Returns alpha, w, the largest and smallest projected gradient, and the sum of C_i loss_i, each
    seen when a row was touched.
    """
    alpha, seen, loss = alpha.copy(), [], 0.0
    Q = q_matrix(X, y)
    for i in order:
        margin = Q[i] @ alpha
        loss += C[i] * max(0.0, 1 - margin) ** (2 if squared else 1)
        G = margin - 1 + D[i] * alpha[i]
        seen.append(np.clip(G, 0 if alpha[i] == U[i] else -np.inf, 0 if alpha[i] == 0 else np.inf))
        if Q[i, i] + D[i] > 0:
            alpha[i] = np.clip(alpha[i] - G / (Q[i, i] + D[i]), 0, U[i])
        else:  # the dual is linear in alpha_i, with slope 1
            alpha[i] = U[i]
    return alpha, X.T @ (alpha * y), max(seen, default=-np.inf), min(seen, default=np.inf), loss


def certificate(X, y, C, squared, alpha, w, average):
    """w' = sum alpha_i y_i x_i, and the loss under two candidates."""
    losses = hinge(X, y, C, w, squared), hinge(X, y, C, average, squared)
    return X.T @ (alpha * y), losses
