from dataclasses import dataclass

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st

from blocklinear.kernels import dual


@dataclass
class Problem:
    """A random problem, sparse for the kernels and dense for the reference."""

    rows: np.ndarray  # dense, as the kernels see it: without bias
    y: np.ndarray
    cost: np.ndarray
    squared: bool
    bias: float
    alpha: np.ndarray
    dtype: str
    rng: np.random.Generator

    @property
    def upper(self):
        return np.full(2, np.inf) if self.squared else self.cost.copy()

    @property
    def diag(self):
        return 0.5 / self.cost if self.squared else np.zeros(2)

    @property
    def X(self):
        return np.column_stack([self.rows.astype(np.float64), np.full(len(self.y), self.bias)])

    def each(self, per_class):
        return per_class[(self.y > 0).astype(int)]

    @property
    def csr(self):
        indptr = np.concatenate(([0], np.cumsum((self.rows != 0).sum(1)))).astype(np.int64)
        _, columns = np.nonzero(self.rows)
        return indptr, columns.astype(np.uint32), self.rows[self.rows != 0].astype(self.dtype)

    @property
    def sq_norm(self):
        return (self.rows.astype(np.float64) ** 2).sum(1)

    @property
    def w(self):
        return self.X.T @ (self.alpha * self.y)


@st.composite
def problems(draw):
    n, d = draw(st.integers(0, 7)), draw(st.integers(1, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    dtype, squared = draw(st.sampled_from(["float64", "float32"])), draw(st.booleans())
    rows = (rng.normal(size=(n, d)) * (rng.random((n, d)) < draw(st.floats(0.2, 1)))).astype(dtype)
    # two empty rows of a class would be one row twice: with a bias, whether the second ends at 0
    # or at 1e-17 is then rounding, and its next projected gradient jumps
    rows[1:, 0] += (rows[1:] == 0).all(1) * rng.normal(size=max(n - 1, 0)).astype(dtype)
    cost = np.array([draw(st.floats(0.01, 10)), draw(st.floats(0.01, 10))])
    y = rng.choice([-1.0, 1.0], n)
    largest = np.full(n, 3.0) if squared else cost[(y > 0).astype(int)]
    share = rng.random(n)
    kind = rng.integers(0, 3, n)  # at 0, at the upper bound, between
    alpha = np.where(kind == 0, 0.0, np.where(kind == 1, largest, share * largest))
    bias = draw(st.sampled_from([0.0, 1.0, 0.3]))
    return Problem(rows, y, cost, squared, bias, alpha, dtype, rng)


def run_epoch(p, order, alpha, w):
    touch = np.array([-np.inf, np.inf, 0.0])
    dual.dcd_epoch(
        *p.csr, p.y, p.sq_norm, np.array(order, np.int64), p.upper, p.diag, p.cost, p.bias,
        alpha, w, touch,
    )  # fmt: skip
    return touch


def close(got, expected):
    np.testing.assert_allclose(got, expected, rtol=1e-8, atol=1e-9)


@settings(max_examples=150, deadline=None)
@given(p=problems(), data=st.data())
def test_an_epoch_equals_the_reference(p, data):
    n = len(p.y)
    rows = st.integers(0, n - 1) if n else st.nothing()
    order = data.draw(st.lists(rows, max_size=3 * n) if n else st.just([]))
    alpha, w = p.alpha.copy(), p.w
    touch = run_epoch(p, order, alpha, w)
    expected = reference.dcd_epoch(
        p.X, p.y, order, p.each(p.upper), p.each(p.diag), p.each(p.cost), p.alpha, p.squared
    )
    for got, wanted in zip((alpha, w, *touch), expected, strict=True):
        close(got, wanted)
    assert (alpha >= 0).all()
    assert (alpha <= p.each(p.upper)).all()
    untouched = np.setdiff1d(np.arange(n), order)
    assert alpha[untouched].tobytes() == p.alpha[untouched].tobytes()


@settings(max_examples=60, deadline=None)
@given(p=problems())
def test_an_epoch_never_lowers_the_dual(p):
    alpha, w = p.alpha.copy(), p.w
    before = reference.dual_value(p.X, p.y, p.each(p.diag), alpha)
    run_epoch(p, p.rng.permutation(len(p.y)), alpha, w)
    after = reference.dual_value(p.X, p.y, p.each(p.diag), alpha)
    assert after >= before - 1e-9 * (1 + abs(before))


@settings(max_examples=60, deadline=None)
@given(p=problems())
def test_the_dual_terms_make_the_dual_value(p):
    terms = np.array([1.0, 2.0, 3.0])  # terms are added, not set
    dual.add_dual_terms(p.y, p.diag, p.alpha, terms)
    total, squares, support = terms - (1.0, 2.0, 3.0)
    value = total - 0.5 * dual.squared_norm(p.w) - 0.5 * squares
    close(value, reference.dual_value(p.X, p.y, p.each(p.diag), p.alpha))
    assert support == np.count_nonzero(p.alpha)


@settings(max_examples=60, deadline=None)
@given(p=problems())
def test_certify_rows_equals_the_reference(p):
    w, average = p.rng.normal(size=(2, p.rows.shape[1] + 1))
    recomputed, loss = np.zeros_like(w), np.zeros(2)
    dual.certify_rows(*p.csr, p.y, p.cost, p.squared, p.bias, p.alpha, w, average, recomputed, loss)
    expected_w, expected_loss = reference.certificate(
        p.X, p.y, p.each(p.cost), p.squared, p.alpha, w, average
    )
    close(recomputed, expected_w)
    close(loss, expected_loss)
    for candidate, lost in zip((w, average), loss, strict=True):
        primal = 0.5 * dual.squared_norm(candidate) + lost
        exact = reference.primal_value(p.X, p.y, p.each(p.cost), candidate, p.squared)
        close(primal, exact)
        assert primal >= reference.dual_value(p.X, p.y, p.each(p.diag), p.alpha) - 1e-9


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("bias", [0.0, 1.0])
def test_many_epochs_close_the_gap(squared, bias):
    rng = np.random.default_rng(5)
    rows, y = rng.normal(size=(30, 4)), rng.choice([-1.0, 1.0], 30)
    p = Problem(rows, y, np.array([0.05, 0.2]), squared, bias, np.zeros(30), "float64", rng)
    alpha, w = p.alpha.copy(), p.w
    for _ in range(400):
        touch = run_epoch(p, rng.permutation(30), alpha, w)
    primal = reference.primal_value(p.X, y, p.each(p.cost), w, squared)
    gap = primal - reference.dual_value(p.X, y, p.each(p.diag), alpha)
    assert abs(gap) < 1e-6 * primal
    assert touch[dual.PG_MAX] - touch[dual.PG_MIN] < 1e-4


@pytest.mark.parametrize(("squared", "expected"), [(False, [0.5, 2.0]), (True, [1.0, 4.0])])
def test_empty_rows_without_bias_reach_their_optimum_at_once(squared, expected):
    """Hinge: alpha = C. Squared hinge: alpha = 1 / D = 2 C. Neither moves w."""
    y = np.array([-1.0, 1.0])
    rng = np.random.default_rng(0)
    p = Problem(
        np.zeros((2, 3)), y, np.array([0.5, 2.0]), squared, 0.0, np.zeros(2), "float64", rng
    )
    alpha, w = np.zeros(2), np.zeros(4)
    run_epoch(p, [0, 1], alpha, w)
    assert alpha.tolist() == expected
    assert not w.any()
    touch = run_epoch(p, [1, 0], alpha, w)
    assert touch[:2].tolist() == [0.0, 0.0]
