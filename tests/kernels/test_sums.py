"""Rows added up, against dense arithmetic."""

import math

import numpy as np
import pytest
from scipy import sparse

from blocklinear.kernels.sums import add_rows, dot, row_values


def made(seed, dtype):
    rng = np.random.default_rng(seed)
    n, d, m = (int(x) for x in rng.integers(1, 9, 3))
    X = sparse.random(n, d, 0.4, "csr", dtype, rng)
    indptr, indices = X.indptr.astype(np.int64), X.indices.astype(np.uint32)
    return rng, X.toarray().astype(np.float64), (indptr, indices, X.data), (n, d, m)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("seed", range(20))
def test_add_rows(seed, dtype):
    rng, X, rows, (n, d, m) = made(seed, dtype)
    steps = rng.normal(size=(n, m)) * (rng.random((n, 1)) < 0.6)
    W, bias = rng.normal(size=(d + 1, m + seed % 3)), float(seed % 2)  # columns left free
    expected = W.copy()
    expected[:, :m] += np.hstack([X, np.full((n, 1), bias)]).T @ steps
    add_rows(*rows, steps, bias, W)
    np.testing.assert_allclose(W, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_row_values(seed):
    rng, X, (indptr, indices, values), (n, d, _) = made(seed, np.float64)
    w, bias, out = rng.normal(size=d + 1), float(seed % 2), np.full(n, np.nan)
    row_values(indptr[:-1], indptr[1:], indices, values, bias, w, out)
    np.testing.assert_allclose(out, X @ w[:-1] + bias * w[-1], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("n", [0, 1, 255, 256, 257, 1000, 70_000])
def test_dot(n):
    rng = np.random.default_rng(n)
    x, y = rng.normal(size=n), rng.normal(size=n)
    assert dot(x, y) == pytest.approx(math.fsum(x * y), rel=1e-12, abs=1e-12)
