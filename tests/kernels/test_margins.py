import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import random as random_rows

from blocklinear.kernels.margins import decision_values


def run(rows, base, weights, bias_term):
    out = np.full((rows.shape[0], weights.shape[1]), np.nan)
    unknown = decision_values(
        rows.indptr.astype(np.int64),
        (rows.indices + base).astype(np.uint32),
        rows.data.astype(np.float64),
        base,
        weights,
        bias_term,
        out,
    )
    return out, unknown


@settings(max_examples=40, deadline=None)
@given(
    n_rows=st.integers(0, 6),
    n_features=st.integers(0, 5),
    n_more=st.integers(0, 4),
    n_columns=st.integers(1, 4),
    base=st.sampled_from([0, 1]),
    seed=st.integers(0, 2**32 - 1),
)
def test_equals_the_dense_product(n_rows, n_features, n_more, n_columns, base, seed):
    rng = np.random.default_rng(seed)
    width = n_features + n_more
    rows = random_rows(n_rows, width, 0.6, "csr", None, rng)  # as SciPy 1.11 too takes it
    weights = rng.normal(size=(n_features, n_columns))
    bias_term = rng.normal(size=n_columns)
    out, unknown = run(rows, base, weights, bias_term)
    dense = rows.toarray()
    np.testing.assert_allclose(out, dense[:, :n_features] @ weights + bias_term, atol=1e-12)
    assert unknown == np.count_nonzero(rows.indices >= n_features)


def test_sums_in_row_order_with_the_bias_last():
    values = np.array([0.1, 0.2, 0.3])
    out = np.empty((1, 1))
    decision_values(
        np.array([0, 3]),
        np.array([1, 2, 3], np.uint32),
        values,
        1,
        np.ones((3, 1)),
        np.array([-0.6]),
        out,
    )
    assert out[0, 0] == ((0.1 + 0.2) + 0.3) - 0.6


def test_takes_a_part_of_a_batch():
    indptr = np.array([0, 1, 2, 3])
    indices, values = np.array([1, 2, 1], np.uint32), np.array([5.0, 6.0, 7.0])
    out = np.empty((2, 1))
    weights = np.array([[1.0], [10.0]])
    unknown = decision_values(indptr[1:], indices, values, 1, weights, np.zeros(1), out)
    assert unknown == 0
    assert out.ravel().tolist() == [60.0, 7.0]


def test_indices_outside_are_ignored_whatever_they_are():
    indices = np.array([0, 1, 2**31, 2**32 - 1], np.uint32)  # 0 lies below the base
    out = np.empty((1, 1))
    unknown = decision_values(
        np.array([0, 4]), indices, np.ones(4), 1, np.array([[3.0]]), np.zeros(1), out
    )
    assert unknown == 3
    assert out[0, 0] == 3.0
