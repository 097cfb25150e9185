import numpy as np
import pytest
from scipy import sparse

from blocklinear.kernels import primal

BIAS, COST = 0.7, np.array([0.5, 3.0])


def dense(X, y):
    """Return the rows with the bias feature, and the cost of each."""
    return np.hstack([X.toarray(), np.full((X.shape[0], 1), BIAS)]), np.where(y > 0, *COST[::-1])


@pytest.fixture(params=[0, 1, 2])
def rows(request):
    rng = np.random.default_rng(request.param)
    full = rng.normal(size=(30, 8)) * (rng.random((30, 8)) < 0.4)
    full[3] = 0  # a row without entries
    X = sparse.csr_array(full)
    y = np.where(rng.random(30) < 0.5, 1.0, -1.0)
    csr = (X.indptr.astype(np.int64), X.indices.astype(np.uint32), X.data)
    return X, y, csr, rng.normal(size=9)


def value(Z, y, cost, w):
    return 0.5 * w @ w + cost @ np.maximum(0, 1 - y * (Z @ w)) ** 2


def test_gradient_and_dual_of_a_point(rows):
    X, y, csr, w = rows
    Z, cost = dense(X, y)
    alpha, pull, curvature, terms = np.full(30, 9.0), np.zeros(9), np.zeros(9), np.zeros(4)
    primal.gradient_rows(*csr, y, COST, BIAS, w, alpha, pull, curvature, terms)
    slack = np.maximum(0, 1 - y * (Z @ w))
    np.testing.assert_allclose(alpha, 2 * cost * slack, rtol=1e-12)
    np.testing.assert_allclose(pull, Z.T @ (alpha * y), rtol=1e-10, atol=1e-12)
    diagonal = (2 * cost * (slack > 0)) @ Z**2
    np.testing.assert_allclose(curvature, diagonal, rtol=1e-10)
    expected = [cost @ slack**2, alpha.sum(), (alpha**2 / (2 * cost)).sum(), (slack > 0).sum()]
    np.testing.assert_allclose(terms, expected, rtol=1e-10)
    # the gradient is that of the value, by differences
    step = 1e-6 * np.eye(9)
    slope = [(value(Z, y, cost, w + s) - value(Z, y, cost, w - s)) / 2e-6 for s in step]
    np.testing.assert_allclose(w - pull, slope, rtol=1e-4, atol=1e-4)


def test_hessian_product(rows):
    X, y, csr, w = rows
    Z, cost = dense(X, y)
    active = 1 - y * (Z @ w) > 0
    v, product = np.arange(9.0) - 4, np.zeros(9)
    primal.hessian_rows(*csr, y, COST, BIAS, active * 0.3, v, product)
    H = Z.T @ ((2 * cost * active)[:, None] * Z)
    np.testing.assert_allclose(product, H @ v, rtol=1e-10, atol=1e-10)
