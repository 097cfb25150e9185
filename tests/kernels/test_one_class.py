"""Pairs of alpha of the one-class SVM, against dense formulas."""

import numpy as np
import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st
from kernel_rows import kernel_rows

from blocklinear.kernels import dual
from blocklinear.kernels import one_class as kernels

QUANTUM = 2.0**-52


class Rows:
    """Random rows, dense and in CSR, with alpha between 0 and U, all multiples of the quantum."""

    def __init__(self, seed, dtype="float64"):
        rng = np.random.default_rng(seed)
        n, d = int(rng.integers(2, 12)), int(rng.integers(1, 6))
        X = rng.normal(size=(n, d)).round(2) * (rng.random((n, d)) < rng.choice([0.3, 1.0]))
        self.X = X.astype(dtype).astype(np.float64)
        self.n = n
        self.cut = kernel_rows(self.X, dtype)
        self.upper = np.ones(n) if seed % 2 else rng.integers(0, 1 << 10, n) / (1 << 10)
        share = rng.choice([0.0, 0.5, 1.0], n) * rng.random(n)
        self.alpha = np.floor(share * self.upper / QUANTUM) * QUANTUM
        self.alpha[rng.random(n) < 0.3] = 0.0
        self.w = np.append(self.X.T @ self.alpha, 0.0)
        self.order = rng.permutation(n)

    def exchange(self, rising, falling):
        stats = np.zeros(dual.N_STATS)
        pairs = np.array(rising, np.int64), np.array(falling, np.int64)
        kernels.exchange(self.cut, self.upper, QUANTUM, *pairs, self.alpha, self.w, stats)
        return stats


@given(seed=st.integers(0, 10_000), dtype=st.sampled_from(["float64", "float32"]))
@examples(200)
def test_a_pair_minimises_the_norm_and_keeps_the_sum(seed, dtype):
    r = Rows(seed, dtype)
    i, j = r.order[:2]
    before, total = r.alpha.copy(), sum(map(int, r.alpha / QUANTUM))
    f = r.X @ r.w[:-1]
    stats = r.exchange([i], [j])
    d = r.alpha[i] - before[i]
    x = r.X[i] - r.X[j]
    room = min(r.upper[i] - before[i], before[j])
    best = min((f[j] - f[i]) / (x @ x), room) if x @ x > 0 else 0.0
    assert d == pytest.approx(max(best, 0.0), rel=1e-9, abs=1e-12)
    assert sum(map(int, r.alpha / QUANTUM)) == total  # whole numbers: exact
    assert (r.alpha == np.floor(r.alpha / QUANTUM) * QUANTUM).all()
    assert ((r.alpha >= 0) & (r.alpha <= r.upper)).all()
    np.testing.assert_allclose(r.w[:-1], r.X.T @ r.alpha, atol=1e-12)
    lower = 0.5 * (r.X.T @ before) @ (r.X.T @ before) - 0.5 * r.w @ r.w
    assert stats[kernels.GAIN] == pytest.approx(lower, abs=1e-12)


@given(seed=st.integers(0, 10_000))
@examples(50)
def test_many_pairs_never_raise_the_norm(seed):
    r = Rows(seed)
    rng = np.random.default_rng(seed)
    before = r.w @ r.w
    total = sum(map(int, r.alpha / QUANTUM))
    stats = r.exchange(*rng.integers(0, r.n, (2, 30)))
    assert r.w @ r.w <= before * (1 + 1e-12)
    assert 0.5 * (before - r.w @ r.w) == pytest.approx(stats[kernels.GAIN], abs=1e-11)
    assert sum(map(int, r.alpha / QUANTUM)) == total


@given(seed=st.integers(0, 10_000), outside=st.booleans())
@examples(100)
def test_certificates_are_the_dense_formulas(seed, outside):
    r = Rows(seed)
    rng = np.random.default_rng(seed)
    v, rho = np.append(rng.normal(size=r.X.shape[1]), 0.0), float(rng.normal())
    given_alpha = r.alpha + (rng.normal(size=r.n) if outside else 0.0)
    alpha = np.clip(given_alpha, 0.0, r.upper)
    f, seen, recomputed = np.empty(r.n), np.zeros(kernels.N_SEEN), np.zeros_like(v)
    norm, of_columns = float(np.sqrt(v @ v)), np.zeros_like(v)
    kernels.certify_rows(r.cut, r.upper, given_alpha, v, norm, recomputed, of_columns, f, seen)
    np.testing.assert_allclose(of_columns[:-1], r.upper @ np.abs(r.X), atol=1e-13)
    np.testing.assert_allclose(f, r.X @ v[:-1], atol=1e-13)
    np.testing.assert_allclose(recomputed[:-1], r.X.T @ alpha, atol=1e-13)
    sizes = np.sqrt(r.cut[-1])
    assert seen[kernels.REACH] == pytest.approx(alpha @ sizes, abs=1e-14)
    assert seen[kernels.N_REACH] == np.count_nonzero(alpha)
    assert seen[kernels.WHOLE] == pytest.approx(r.upper @ sizes)
    assert seen[kernels.MASS] + seen[kernels.MASS_LOW] == pytest.approx(alpha.sum(), abs=1e-15)
    assert seen[kernels.TOTAL] + seen[kernels.TOTAL_LOW] == pytest.approx(r.upper.sum())
    sums = np.zeros(kernels.N_SUMS)
    kernels.add_losses(f, r.upper, given_alpha, rho, sums)
    below, above = np.maximum(rho - f, 0.0), np.maximum(f - rho, 0.0)
    loss = sums[kernels.LOSS] + sums[kernels.LOSS_LOW]
    assert loss == pytest.approx(r.upper @ below)
    assert sums[kernels.ABOVE] == pytest.approx(r.upper @ above)
    gap = (r.upper - alpha) @ below + alpha @ above
    assert sums[kernels.GAP_TERM] == pytest.approx(gap, abs=1e-14)
    exact = [sum(map(float.__mul__, x, v[:-1].tolist())) for x in r.X.tolist()]
    wrong = np.abs(f - exact) * np.maximum(alpha, r.upper - alpha)
    assert wrong.sum() <= seen[kernels.WRONG] + 1e-300


def test_decision_values_are_those_of_the_rows_asked_for():
    r = Rows(3)
    f = np.empty(r.n)
    kernels.decision_values(r.cut, r.order, r.w, f)
    np.testing.assert_allclose(f, (r.X @ r.w[:-1])[r.order], atol=1e-13)
