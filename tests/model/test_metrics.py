import math

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


def test_correlation_with_a_constant_is_undefined():
    errors = RegressionErrors()
    errors.add(np.array([1.0, 2.0]), np.array([3.0, 3.0]))
    assert math.isnan(errors.squared_correlation)
    assert errors.as_dict()["squared_correlation"] is None
    assert errors.summary() == (
        "Mean squared error = 2.5 (regression)\nSquared correlation coefficient = nan (regression)"
    )
