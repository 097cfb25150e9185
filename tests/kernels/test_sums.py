"""Rows added up, against dense arithmetic."""

import math

import numpy as np
import pytest
from kernel_rows import kernel_rows
from scipy import sparse

from blocklinear.kernels.sums import (
    add_rows,
    add_squared_distances,
    add_to_mean,
    copy_columns,
    dot,
    squared_distance,
)


def made(seed, dtype):
    rng = np.random.default_rng(seed)
    n, d, m = (int(x) for x in rng.integers(1, 9, 3))
    X = sparse.random(n, d, 0.4, "csr", dtype, rng)
    return rng, X.toarray().astype(np.float64), kernel_rows(X.toarray(), dtype), (n, d, m)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("seed", range(20))
def test_add_rows(seed, dtype):
    rng, X, rows, (n, d, m) = made(seed, dtype)
    steps = rng.normal(size=(n, m)) * (rng.random((n, 1)) < 0.6)
    W, bias = rng.normal(size=(d + 1, m + seed % 3)), float(seed % 2)  # columns left free
    expected = W.copy()
    expected[:, :m] += np.hstack([X, np.full((n, 1), bias)]).T @ steps
    add_rows(rows, steps, bias, W)
    np.testing.assert_allclose(W, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("n", [0, 1, 255, 256, 257, 1000, 70_000])
def test_dot(n):
    rng = np.random.default_rng(n)
    x, y = rng.normal(size=n), rng.normal(size=n)
    assert dot(x, y) == pytest.approx(math.fsum(x * y), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize(("n", "m"), [(0, 2), (1, 1), (127, 3), (128, 3), (129, 4), (3000, 2)])
def test_squares_and_distances(n, m):
    rng = np.random.default_rng(n)
    V, W = rng.normal(size=(2, n, m)) * 10.0 ** rng.integers(-6, 6, size=(2, n, m))
    squares, distances = np.zeros(m), np.zeros(m)
    add_squared_distances(np.zeros((1, m)), W, squares)
    add_squared_distances(V, W, distances)
    for j in range(m):
        v, w = V[:, j].copy(), W[:, j].copy()
        assert squares[j] == pytest.approx(math.fsum(w * w), rel=2.0**-45)
        assert distances[j] == pytest.approx(math.fsum((v - w) ** 2), rel=2.0**-45)
        assert squared_distance(v, w) == pytest.approx(math.fsum((v - w) ** 2), rel=2.0**-45)


def test_a_long_sum_of_squares_keeps_what_a_naive_one_loses():
    w = np.full(5_000_000, math.sqrt(0.1))
    assert dot(w, w) == pytest.approx(len(w) * w[0] ** 2, rel=2.0**-45)


def test_columns_are_copied():
    rng = np.random.default_rng(0)
    W, target = rng.normal(size=(50, 4)), np.zeros((50, 3))
    copy_columns(W, np.array([3, 0]), target, np.array([0, 2]))
    np.testing.assert_array_equal(target, np.stack([W[:, 3], np.zeros(50), W[:, 0]], axis=1))


@pytest.mark.parametrize(
    ("chosen", "columns"),
    [([], 3), ([0], 3), ([3], 1), ([0, 2], 2), ([0, 2], 4), ([1, 2, 3], 3), ([0, 1, 2, 3], 4)],
)
def test_columns_are_kept_in_the_memory_of_all(chosen, columns):
    W = np.random.default_rng(0).normal(size=(50, 4))
    expected = W[:, chosen]
    kept = W.reshape(-1)[: 50 * columns].reshape(50, columns)
    copy_columns(W, np.array(chosen, np.int64), kept, np.arange(len(chosen)))
    np.testing.assert_array_equal(kept[:, : len(chosen)], expected)


@pytest.mark.parametrize("shape", [(0, 2), (5, 1), (40, 3)])
def test_the_mean_of_arrays(shape):
    arrays, mean = np.random.default_rng(0).normal(size=(6, *shape)), np.full(shape, 7.0)
    for n, array in enumerate(arrays, 1):
        add_to_mean(array, float(n), mean)
        if n == 1:
            np.testing.assert_array_equal(mean, array)  # whatever was there before
    np.testing.assert_allclose(mean, arrays.mean(axis=0), rtol=1e-12, atol=1e-12)
