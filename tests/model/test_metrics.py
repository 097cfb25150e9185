import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blocklinear.model.metrics import AccuracyCounter, RegressionErrors


def test_accuracy_in_the_words_of_liblinear():
    assert AccuracyCounter(228, 270).summary() == "Accuracy = 84.4444% (228/270)"
    assert AccuracyCounter(951, 1000).summary() == "Accuracy = 95.1% (951/1000)"
    assert AccuracyCounter(3, 3).summary() == "Accuracy = 100% (3/3)"


def test_accuracy_of_nothing():
    counter = AccuracyCounter()
    assert counter.summary() == "Accuracy = nan% (0/0)"
    assert counter.as_dict() == {"accuracy": None, "correct": 0, "rows": 0}


def test_regression_of_nothing():
    assert RegressionErrors().as_dict() == {
        "mean_squared_error": None,
        "squared_correlation": None,
        "rows": 0,
    }


@given(
    rows=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=30),
    cut=st.integers(0, 30),
)
def test_accuracy_in_parts(rows, cut):
    table = np.array(rows, dtype=float).reshape(-1, 2)
    counter = AccuracyCounter()
    for part in (table[:cut], table[cut:]):
        counter.add(part[:, 0], part[:, 1])
    assert counter.rows == len(rows)
    assert counter.correct == sum(a == b for a, b in rows)


@given(
    rows=st.lists(st.tuples(st.floats(-9, 9), st.floats(-9, 9)), min_size=3, max_size=30),
    cut=st.integers(0, 30),
)
def test_regression_in_parts_against_numpy(rows, cut):
    table = np.array(rows)
    errors = RegressionErrors()
    for part in (table[:cut], table[cut:]):
        errors.add(part[:, 0], part[:, 1])
    assert errors.mean_squared_error == pytest.approx(np.mean((table[:, 0] - table[:, 1]) ** 2))
    if min(np.std(table, axis=0)) > 0.01:
        expected = np.corrcoef(table.T)[0, 1] ** 2
        assert errors.squared_correlation == pytest.approx(expected, abs=1e-6)


def exact_correlation(targets, predicted):
    """Squared, in rational numbers."""
    t, p = ([Fraction(float(value)) for value in values] for values in (targets, predicted))
    t, p = ([value - sum(values) / len(values) for value in values] for values in (t, p))
    covariance = sum(a * b for a, b in zip(t, p, strict=True))
    return float(covariance**2 / (sum(a * a for a in t) * sum(b * b for b in p)))


@pytest.mark.parametrize("scale", [1e-90, 1.0, 1e90])
@pytest.mark.parametrize("step", [1, 7, 100])
@pytest.mark.parametrize("offset", [0.0, 1e9, -1e9, 1e15])
def test_correlation_far_from_zero(offset, step, scale):
    rng = np.random.default_rng(3)
    targets = (offset + 4 * rng.normal(size=100)) * scale
    predicted = (offset / 3 + rng.normal(size=100)) * scale + 0.1 * (targets - offset * scale)
    errors = RegressionErrors()
    for start in range(0, 100, step):
        errors.add(targets[start : start + step], predicted[start : start + step])
    expected = exact_correlation(targets, predicted)
    assert errors.squared_correlation == pytest.approx(expected, rel=1e-9)
    mse = np.mean(((predicted - targets) / scale) ** 2) * scale**2
    assert errors.mean_squared_error == pytest.approx(mse, rel=1e-12)


@given(st.lists(st.integers(-50, 50), min_size=2, max_size=30), st.sampled_from([0.0, 1e9, 1e14]))
def test_correlation_is_never_above_1(values, offset):
    targets = np.array(values) + offset
    errors = RegressionErrors()
    errors.add(targets, 3.0 * targets)
    if len(set(values)) > 1:
        assert 1.0 - 1e-9 <= errors.squared_correlation <= 1.0
    else:
        assert math.isnan(errors.squared_correlation)


def test_a_constant_is_one_in_parts_too():
    errors = RegressionErrors()
    for n in (3, 1, 7):  # means of 0.1 differ from 0.1 in the last bit
        errors.add(np.arange(float(n)), np.full(n, 0.1))
    assert math.isnan(errors.squared_correlation)


def test_nothing_beats_an_error_that_overflows():
    """The mean squared error is no number then: None in JSON, and worse than any."""
    errors, better = RegressionErrors(), RegressionErrors()
    errors.add(np.array([1e153, 1.0]), np.array([-1e300, 1.0]))
    better.add(np.array([1.0, 2.0]), np.array([2.0, 1.0]))
    assert errors.as_dict()["mean_squared_error"] is None
    assert errors.rank_value == -math.inf < better.rank_value == -1.0
    assert AccuracyCounter().rank_value == -math.inf < AccuracyCounter(0, 1).rank_value


def test_correlation_with_a_constant_is_undefined():
    errors = RegressionErrors()
    errors.add(np.array([1.0, 2.0]), np.array([3.0, 3.0]))
    assert math.isnan(errors.squared_correlation)
    assert errors.as_dict()["squared_correlation"] is None
    assert errors.summary() == (
        "Mean squared error = 2.5 (regression)\nSquared correlation coefficient = nan (regression)"
    )
