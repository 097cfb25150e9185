"""The certificate of the one-class SVM holds for any w and any alpha, on feasible points or not."""

import math

import numpy as np
import optima
import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st

from blocklinear.kernels import one_class as kernels
from blocklinear.objectives import one_class
from blocklinear.objectives.one_class import ZERO, is_zero, prove, quantile, relative_gap

NUMBERS = st.floats(allow_nan=False, width=64) | st.sampled_from([0.0, -0.0, 1.0, 1.0, 5e-324])


@given(f=st.lists(NUMBERS, min_size=1, max_size=30), share=st.floats(0.0, 1.0), data=st.data())
@examples(300)
def test_the_quantile_is_that_of_sorted_numbers(f, share, data):
    weights = np.ones(len(f))
    if data.draw(st.booleans(), "weighted"):
        lists = st.lists(st.integers(0, 9), min_size=len(f), max_size=len(f))
        weights = np.array(data.draw(lists), float)
        weights[0] += 1.0
    mass = share * weights.sum()
    found = quantile(np.array(f), None if (weights == 1.0).all() else weights, mass)
    used = np.array(f)[weights > 0]
    values = np.unique(used)
    upto = [float(weights[weights > 0][used <= value].sum()) for value in values]
    at = min(int(np.searchsorted(upto, mass)), len(values) - 1)
    expected = values[at]
    if upto[at] == mass and at + 1 < len(values) and math.isfinite(values[at + 1]):
        expected = 0.5 * values[at] + 0.5 * values[at + 1]
    assert found == expected


def test_the_quantile_of_many_pieces(monkeypatch):
    f = np.random.default_rng(0).normal(size=1000) ** 3
    monkeypatch.setattr(one_class, "_CHUNK", 7)
    for k in (1, 17, 500, 1000):
        assert quantile(f, None, k - 0.5) == np.sort(f)[k - 1]
    assert quantile(f, None, 17.0) == pytest.approx(np.sort(f)[16:18].mean(), rel=1e-15)
    assert quantile(f, None, 1000.0) == f.max()
    assert quantile(f, np.full(1000, 0.5), 249.9) == np.sort(f)[499]


def proof(X, U, T, v, alpha, rho=None):
    """The certificate of a candidate, as a pass over all rows makes it."""
    n, d = X.shape
    starts = np.arange(n) * d
    columns, values = np.tile(np.arange(d, dtype=np.uint32), n), X.reshape(-1)
    sq_norm, v = (X**2).sum(1), np.append(v, 0.0)
    f, seen, recomputed = np.empty(n), np.zeros(kernels.N_SEEN), np.zeros(d + 1)
    norm = float(np.sqrt(v @ v)) * (1 + 1e-12)
    kernels.certify_rows(
        (starts, starts + d, columns, values, sq_norm), U, alpha, v, norm, recomputed,
        sizes := np.zeros(d + 1), f, seen,
    )  # fmt: skip
    rho = quantile(f, U, T) if rho is None else rho
    sums = np.zeros(kernels.N_SUMS)
    kernels.add_losses(f, U, alpha, rho, sums)
    away = v - recomputed
    squares = float(v @ v), float(recomputed @ recomputed), float(away @ away)
    off = float(seen[kernels.MASS] - T + seen[kernels.MASS_LOW])
    zero = is_zero(recomputed, T / U.sum() * sizes)
    return prove(squares, T, off, rho, seen, sums, n, 0.0, zero)


@given(seed=st.integers(0, 10**6))
@examples(100)
def test_no_model_is_better_than_was_proven(seed):
    """Any v and rho, and alpha near the optimum or far from it, with a sum that is off."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(1, 20)), int(rng.integers(1, 5))
    X = rng.normal(size=(n, d)) + rng.choice([0.0, 1.0, 5.0]) * rng.normal(size=d)
    U = np.ones(n) if seed % 2 else rng.random(n) + 0.01
    T = float(rng.uniform(0.05, 0.95)) * float(U.sum())
    low, up = optima.one_class(X, U, T)
    alpha = np.minimum(rng.random(n), U)
    alpha *= min(T / alpha.sum(), 1.0) * (1.0 + rng.choice([0.0, 1e-15, 1e-9, 1e-3, -1e-9, -0.1]))
    v = X.T @ alpha + rng.choice([0.0, 1e-9, 0.3]) * rng.normal(size=d)
    found = proof(X, U, T, v, alpha, None if seed % 3 else float(rng.normal()))
    slack = 1e-13 * (abs(up) + abs(low) + 0.5 * v @ v)
    assert found.dual <= up + slack
    if found.primal:
        own = optima.one_class_primal(X, U, T, v, found.rho)
        assert found.primal == pytest.approx(own, rel=1e-9, abs=1e-12 * (1.0 + v @ v))
    else:
        assert found.rho == 0.0
    size = max(abs(found.primal), abs(found.dual))
    length = float(U @ np.sqrt((X**2).sum(1))) * T / U.sum()
    excess = found.primal - up - slack
    assert excess <= found.gap * max(size, ZERO * 0.5 * length**2)


@given(seed=st.integers(0, 10**6))
@examples(10)
def test_at_the_optimum_the_gap_is_rounding(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(12, 3)) + 4.0
    U, T = np.ones(12), 4.5
    alpha = optima.one_class_alpha(X, U, T, 100_000)
    found = proof(X, U, T, X.T @ alpha, alpha)
    assert found.gap <= 1e-8
    off = proof(X, U, T, X.T @ alpha, alpha * (1 + 1e-12))
    assert off.gap <= 1e-8 + 1e-10


def test_what_the_gap_is_relative_to():
    assert relative_gap(-9.0, -10.0, 1.0, 0.0) == 0.1
    assert relative_gap(5.0, -1.0, 6.0, 0.0) == 1.2
    assert relative_gap(0.0, -1e-14, 1e-14, 1.0) == pytest.approx(2e-5)
    assert relative_gap(0.0, 0.0, 0.0, 0.0) == 0.0
    assert relative_gap(0.0, 0.0, 1.0, 0.0) == math.inf


def test_a_sum_is_zero_in_all_features_or_not_at_all():
    sizes = np.array([1e7, 1.0, 0.0])
    assert is_zero(np.array([1e7, 1.0, 0.0]) * 3e-5, sizes)
    assert not is_zero(np.array([0.0, 1e-4, 0.0]), sizes)
    assert is_zero(np.zeros(3), np.zeros(3))


def test_w_of_zero_is_not_worse_than_a_value_above_zero():
    X = np.array([[1.0], [-1.0]])
    found = proof(X, np.ones(2), 1.0, np.array([0.5]), np.array([0.6, 0.4]))
    assert (found.primal, found.rho) == (0.0, 0.0)
    assert found.dual == pytest.approx(-0.5 * 0.2**2)
