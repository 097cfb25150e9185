import numpy as np
import pytest

from blocklinear.kernels.shared import gather, scatter

PAIRS = [(0, 1), (0, 4), (0, 7), (4, 8), (4, 12), (8, 19), (0, 19), (16, 16)]


def row_and_weights(n, dtype):
    rng = np.random.default_rng(n)
    indices = np.sort(rng.choice(60, n + 3, replace=False)).astype(np.uint32)
    values = rng.normal(size=n + 3).astype(dtype)
    rows = np.array([1]), np.array([n + 1]), indices, values, np.zeros(1)
    return rows, rng.normal(size=(61, 19))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 16, 21])
def test_columns_have_the_sums_of_the_row_and_no_others_are_written(n, dtype):
    rows, W = row_and_weights(n, dtype)
    (_, _, indices, values, _), row = rows, slice(1, n + 1)
    expected = W[indices[row]].T @ values[row].astype(float) + 0.5 * W[-1]
    whole = np.full(19, np.nan)
    gather(rows, 0, 0.5, 0, 19, W, whole)
    np.testing.assert_allclose(whole, expected, rtol=1e-12, atol=1e-12)
    for left, right in PAIRS:
        f = np.full(19, np.nan)
        gather(rows, 0, 0.5, left, right, W, f)
        np.testing.assert_array_equal(f[left:right], whole[left:right])  # the same, whoever is near
        assert np.isnan(f[:left]).all()
        assert np.isnan(f[right:]).all()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("n", [0, 1, 8, 21])
def test_rows_are_added_to_columns_that_move(n, dtype):
    rows, W = row_and_weights(n, dtype)
    (_, _, indices, values, _), x = rows, np.zeros(61)
    x[indices[1 : n + 1]] = values[1 : n + 1]
    x[-1] = 0.5
    for left, right in PAIRS:
        step = np.full(19, np.nan)
        step[left:right] = np.arange(left, right) % 3 - 1.0
        expected, found = W.copy(), W.copy()
        expected[:, left:right] += np.outer(x, step[left:right])
        scatter(rows, 0, 0.5, step, left, right, found)
        np.testing.assert_allclose(found, expected, rtol=1e-15, atol=1e-15)
        np.testing.assert_array_equal(found[:, :left], W[:, :left])
        np.testing.assert_array_equal(found[:, right:], W[:, right:])
