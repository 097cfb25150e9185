"""Crammer and Singer's problem: random rows for the kernels, and a dense reference for them.

The reference has one line per equation of Fan, appendix E, and is independent of the kernels; X has
the bias feature as its last column.
"""

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st
from kernel_rows import kernel_rows

from blocklinear.kernels import crammer_singer as cs
from blocklinear.kernels import dual as dual_kernels
from blocklinear.kernels import losses as loss_kernels
from blocklinear.solvers.pass_statistics import no_stats

VIOLATION, GAP_TERM, GAIN, STEPS = range(4)
SEEN = [dual_kernels.PG_MAX, dual_kernels.GAP_TERM, dual_kernels.GAIN, dual_kernels.STEPS]
"""What kernels of this problem see, by these places in what `Problem.epoch` returns."""


def unlike(label, K):
    """e_i^m of Eq. 14."""
    return (label[:, None] != np.arange(K)).astype(float)


def losses(X, label, W):
    """max_m (e_i^m - (w_{y_i} - w_m)' x_i), Eq. 14."""
    scores = X @ W
    own = scores[np.arange(len(label)), label]
    return (unlike(label, W.shape[1]) + scores - own[:, None]).max(1)


def primal_value(X, label, cost, W):
    """Eq. 14."""
    return 0.5 * (W**2).sum() + cost @ losses(X, label, W)


def dual_value(X, label, alpha):
    """Eq. 15, negated."""
    return -0.5 * ((X.T @ alpha) ** 2).sum() - (unlike(label, alpha.shape[1]) * alpha).sum()


def bounds(cost, label, K):
    """C_{y_i}^m, Eq. 17."""
    return cost[:, None] * (1 - unlike(label, K))


def row_minimum(A, B, upper, total=0.0):
    """Eq. 18 by bisection for beta of Eqs. 21 and 28."""
    low, high = B.min() - A * (1 + abs(total)), B.max() + A * (1 + abs(total) + abs(upper).max())
    while low < (beta := (low + high) / 2) < high:
        below = np.minimum(upper, (beta - B) / A).sum() < total
        low, high = (beta, high) if below else (low, beta)
    return np.minimum(upper, (beta - B) / A)


def visit(X, label, cost, alpha, i):
    """Return the new alpha_i, the violation of Eq. 35 and what the row added to P - D before."""
    K, y, W = alpha.shape[1], label[i], X.T @ alpha
    upper = bounds(cost, label, K)[i]
    G = W.T @ X[i] + unlike(label, K)[i]
    violation = G.max() - G[alpha[i] < upper].min()
    A = X[i] @ X[i]
    if A > 0:
        new = row_minimum(A, G - A * alpha[i], upper)
    else:  # of all solutions the one next to the old alpha_i
        new, other = upper.copy(), np.arange(K) != y
        new[other] = row_minimum(1.0, -alpha[i, other], np.zeros(K - 1), -cost[i])
    return new, violation, cost[i] * (G.max() - G[y]) + alpha[i] @ G


# -- problems


@dataclass(frozen=True)
class Problem:
    """Random rows, sparse for the kernels and dense for the reference."""

    rows: np.ndarray  # dense, as the kernels see it: without bias
    label: np.ndarray
    cost: np.ndarray
    K: int
    bias: float = 0.0

    @property
    def X(self):
        return np.column_stack([self.rows.astype(float), np.full(len(self.rows), self.bias)])

    @property
    def cut(self):
        return kernel_rows(self.rows, self.rows.dtype)

    @property
    def data(self):
        return self.label, self.cost

    def feasible(self, rng):
        """Return an alpha with all kinds of rows: zero, at the upper bound, between."""
        n, y = len(self.label), np.arange(len(self.label))
        share = rng.random((n, self.K)) * (rng.random((n, self.K)) < 0.6)
        share[y, self.label] = 0
        total = share.sum(1)
        scale = np.where(total > 0, rng.choice([0, 0.5, 1], n) / np.where(total > 0, total, 1), 0)
        alpha = -share * (scale * self.cost)[:, None]
        alpha[y, self.label] = np.minimum(-alpha.sum(1), self.cost)
        full = alpha[y, self.label] > 0.99 * self.cost
        alpha[full, self.label[full]] = self.cost[full]
        return alpha

    def epoch(self, order, alpha, W, support_only=False, factor=1.0):
        """Run the kernel, which must stay inside what it may write; check what it notes of rows."""
        touch, before = no_stats(), alpha.copy()
        ranges, priority = np.full(len(self.label), 7, np.uint16), np.full(len(self.label), np.nan)
        cs.cs_epoch(
            self.cut, self.data, np.asarray(order, np.int64), self.bias, alpha, W, support_only,
            factor, touch, ranges, priority,
        )  # fmt: skip
        if len(np.unique(order)) == len(order):
            change = alpha[order] - before[order]
            np.testing.assert_array_equal(ranges[order] > 0, change.any(axis=1))
            expected = (change**2).sum(axis=1) * self.cut[-1][order]
            np.testing.assert_allclose(priority[order], expected, rtol=1e-9)
        others = np.setdiff1d(np.arange(len(self.label)), order)
        assert (ranges[others] == 7).all()
        return touch[SEEN]

    def gap(self, W, average, alpha):
        """Return the relative gap by the kernels alone, and check it against the formulas."""
        recomputed, terms = np.zeros_like(W), np.zeros(dual_kernels.N_TERMS)
        sums, reach = np.zeros((2, loss_kernels.N_SUMS)), np.zeros(loss_kernels.N_REACHES)
        cs.cs_certify_rows(
            self.cut, self.data, self.bias, alpha, W, average, True,
            np.linalg.norm([W, average], axis=1).max(axis=1), recomputed, sums, reach,
        )  # fmt: skip
        cs.cs_add_dual_terms(self.data, alpha, terms)
        dual = terms[dual_kernels.DUAL] - 0.5 * (recomputed**2).sum()
        primal = 0.5 * (W**2).sum() + sums[0, loss_kernels.LOSS] + sums[0, loss_kernels.LOW]
        left = sums[0, loss_kernels.GAP_TERM_BOUND] + 0.5 * ((W - recomputed) ** 2).sum()
        np.testing.assert_allclose(left, primal - dual, rtol=1e-6, atol=1e-11 * primal)
        close(dual, dual_value(self.X, self.label, alpha))
        close(primal, primal_value(self.X, self.label, self.cost, W))
        return (primal - dual) / primal


def random_rows(rng, n, d, density=0.5, dtype=np.float64):
    return (rng.normal(size=(n, d)) * (rng.random((n, d)) < density)).astype(dtype)


def random_problem(seed, n, d, K, bias=0.0, dtype=np.float64):
    """Rows around one centre a class, some of them empty or left out."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, K, n).astype(np.int32)
    rows = random_rows(rng, n, d, dtype=dtype) + rng.normal(size=(K, d))[label]
    rows = (rows * (rng.random((n, d)) < 0.5)).astype(dtype)
    rows[::17] = 0
    cost = rng.choice([0.0, 0.1, 1.0, 3.0], n)
    return Problem(rows, label, cost, K, bias)


@st.composite
def problems(draw):
    n, d, K = draw(st.integers(0, 6)), draw(st.integers(1, 9)), draw(st.integers(2, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    rows = random_rows(rng, n, d, draw(st.floats(0, 1)), draw(st.sampled_from(["f8", "f4"])))
    label = rng.integers(0, K, n).astype(np.int32)
    cost = rng.choice([0.0, 0.01, 0.5, 1.0, 8.0], n)
    p = Problem(rows, label, cost, K, draw(st.sampled_from([0.0, 1.0, 0.3])))
    return p, p.feasible(rng), rng


def zeros(p):
    return np.zeros((len(p.label), p.K)), np.zeros((p.rows.shape[1] + 1, p.K))


def assert_feasible(p, alpha):
    assert (alpha <= bounds(p.cost, p.label, p.K)).all()
    assert (abs(alpha.sum(1)) <= 1e-14 * p.K * p.cost).all()


def close(got, expected):
    np.testing.assert_allclose(got, expected, rtol=1e-8, atol=1e-9)
