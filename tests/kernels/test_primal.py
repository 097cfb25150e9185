import numpy as np
import pytest
from scipy import sparse

from blocklinear.kernels import primal

BIAS = 0.7


def dense(X):
    """Return the rows with the bias feature."""
    return np.hstack([X.toarray(), np.full((X.shape[0], 1), BIAS)])


@pytest.fixture(params=[0, 1, 2])
def rows(request):
    rng = np.random.default_rng(request.param)
    full = rng.normal(size=(30, 8)) * (rng.random((30, 8)) < 0.4)
    full[3] = 0  # a row without entries
    X = sparse.csr_array(full)
    y = np.where(rng.random(30) < 0.5, 1.0, -1.0)
    csr = (X.indptr.astype(np.int64), X.indices.astype(np.uint32), X.data)
    cost = np.where(rng.random(30) < 0.8, rng.uniform(0.1, 3.0, 30), 0.0)  # some are left out
    return X, y, cost, csr, rng.normal(size=9)


def value(Z, y, cost, w):
    return 0.5 * w @ w + cost @ np.maximum(0, 1 - y * (Z @ w)) ** 2


def gradient_of(X, csr, y, cost, w, *into):
    sq_norm = (X.toarray() ** 2).sum(axis=1)
    primal.gradient_rows(*csr, sq_norm, y, cost, BIAS, w, np.linalg.norm(w), *into)


def test_gradient_and_dual_of_a_point(rows):
    X, y, cost, csr, w = rows
    Z = dense(X)
    alpha, pull, curvature, terms = np.full(30, 9.0), np.zeros(9), np.zeros(9), np.zeros(5)
    gradient_of(X, csr, y, cost, w, alpha, pull, curvature, terms)
    slack = np.maximum(0, 1 - y * (Z @ w))
    np.testing.assert_allclose(alpha, 2 * cost * slack, rtol=1e-12)
    np.testing.assert_allclose(pull, Z.T @ (alpha * y), rtol=1e-10, atol=1e-12)
    diagonal = (2 * cost * (slack > 0)) @ Z**2
    np.testing.assert_allclose(curvature, diagonal, rtol=1e-10)
    used = (slack > 0) & (cost > 0)
    reach = alpha @ np.linalg.norm(Z, axis=1)
    found = [terms[0] + terms[1], *terms[3:]]
    np.testing.assert_allclose(found, [cost @ slack**2, reach, used.sum()], rtol=1e-10)
    assert 0.0 < terms[primal.GAP] < 1e-25 * cost.sum()
    dual = alpha.sum() - 0.25 * (alpha[used] ** 2 / cost[used]).sum() - 0.5 * pull @ pull
    gap = value(Z, y, cost, w) - dual
    np.testing.assert_allclose(0.5 * (w - pull) @ (w - pull), gap, rtol=1e-10)
    # the gradient is that of the value, by differences
    step = 1e-6 * np.eye(9)
    slope = [(value(Z, y, cost, w + s) - value(Z, y, cost, w - s)) / 2e-6 for s in step]
    np.testing.assert_allclose(w - pull, slope, rtol=1e-4, atol=1e-4)


def test_rows_left_out_do_not_count(rows):
    X, y, cost, csr, w = rows
    kept = np.flatnonzero(cost)
    few = X[kept]
    few_csr = (few.indptr.astype(np.int64), few.indices.astype(np.uint32), few.data)
    found = []
    for arrays, t, c in ((csr, y, cost), (few_csr, y[kept], cost[kept])):
        alpha, pull, curvature, terms = np.full(len(t), 9.0), np.zeros(9), np.zeros(9), np.zeros(5)
        rows_of = X if t is y else few
        gradient_of(rows_of, arrays, t, c, w, alpha, pull, curvature, terms)
        product = np.zeros(9)
        primal.hessian_rows(*arrays, t, c, BIAS, alpha, w, product)
        found.append((alpha, pull, curvature, terms, product))
    (all_alpha, *with_all), (kept_alpha, *without) = found
    assert all_alpha[kept].tobytes() == kept_alpha.tobytes()
    assert not all_alpha[cost == 0].any()
    for got, expected in zip(with_all, without, strict=True):
        assert got.tobytes() == expected.tobytes()


def test_hessian_product(rows):
    X, y, cost, csr, w = rows
    Z = dense(X)
    active = 1 - y * (Z @ w) > 0
    v, product = np.arange(9.0) - 4, np.zeros(9)
    primal.hessian_rows(*csr, y, cost, BIAS, active * 0.3, v, product)
    H = Z.T @ ((2 * cost * active)[:, None] * Z)
    np.testing.assert_allclose(product, H @ v, rtol=1e-10, atol=1e-10)
