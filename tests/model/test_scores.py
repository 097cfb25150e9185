"""Scores are those of scikit-learn."""

import math
from itertools import permutations

import numpy as np
import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics

from blocklinear.errors import UsageError
from blocklinear.model import scores

CLASSES = (3.0, -1.0, 8.0)


def draw(seed, n, n_classes):
    rng = np.random.default_rng(seed)
    classes = np.array(CLASSES[:n_classes])
    return classes[rng.integers(0, n_classes, n)], classes[rng.integers(0, n_classes, n)]


@examples(67)
@given(st.integers(0, 2**32), st.integers(1, 12), st.integers(2, 3))
def test_accuracy_and_f1(seed, n, n_classes):
    labels, predicted = draw(seed, n, n_classes)
    assert scores.accuracy(labels, predicted) == metrics.accuracy_score(labels, predicted)
    how = {"average": "macro"} if n_classes > 2 else {"pos_label": CLASSES[0]}
    expected = metrics.f1_score(labels, predicted, zero_division=0.0, **how)
    for classes in permutations(CLASSES[:n_classes]):
        found = scores.f1(labels, predicted, classes)
        assert found == pytest.approx(expected, rel=1e-14)


@examples(67)
@given(st.integers(0, 2**32), st.integers(1, 12))
def test_f1_of_the_class_that_is_asked_for(seed, n):
    labels, predicted = draw(seed, n, 2)
    for positive in CLASSES[:2]:
        expected = metrics.f1_score(labels, predicted, pos_label=positive, zero_division=0.0)
        for classes in (CLASSES[:2], CLASSES[1::-1]):
            found = scores.f1(labels, predicted, classes, positive)
            assert found == pytest.approx(expected, rel=1e-14)


def test_the_mean_of_classes_does_not_depend_on_their_order():
    """Not in the last bit either: it chooses between costs."""
    rng = np.random.default_rng(0)
    classes = tuple(map(float, range(12)))
    labels, predicted = rng.integers(0, 12, (2, 200)).astype(float)
    found = {scores.f1(labels, predicted, tuple(rng.permutation(classes))) for _ in range(50)}
    assert len(found) == 1


def test_the_positive_class():
    assert scores.positive_class((-1.0, 1.0)) == scores.positive_class((1.0, -1.0)) == 1.0
    assert scores.positive_class((1.0, 2.0), 1.0) == 1.0
    assert scores.positive_class(()) is scores.positive_class((1.0, 2.0, 3.0)) is None
    for named in ({0.0: "spam", 1.0: "ham"}, {1.0: 2**60}, {1.0: -(2**60), 0.0: -(2**61)}):
        expected = max(range(2), key=lambda code, named=named: named.get(code, code))
        for classes in ((0.0, 1.0), (1.0, 0.0)):
            assert scores.positive_class(classes, named=named) == expected
            assert scores.positive_class(classes, 0.0, named) == 0.0
    for classes in ((), (1.0, 2.0, 3.0), (1.0,)):
        with pytest.raises(UsageError, match="positive class"):
            scores.positive_class(classes, 1.0)
    with pytest.raises(UsageError, match="class 5 is not one of 1234567, 2"):
        scores.positive_class((1234567.0, 2.0), 5.0)


@examples(67)
@given(st.integers(0, 2**32), st.integers(2, 15), st.integers(1, 6))
def test_auc_with_ties(seed, n, n_values):
    rng = np.random.default_rng(seed)
    positive = rng.random(n) < 0.5
    positive[:2] = True, False
    decisions = rng.integers(-n_values, n_values + 1, n) / 2.0
    expected = metrics.roc_auc_score(positive, decisions)
    assert scores.auc(positive, decisions) == pytest.approx(expected, rel=1e-14)
    assert scores.auc(~positive, -decisions) == scores.auc(positive, decisions)


@examples(67)
@given(st.integers(0, 2**32), st.integers(2, 15))
def test_rows_that_have_weights(seed, n):
    rng = np.random.default_rng(seed)
    weights, (labels, predicted) = rng.integers(1, 4, n).astype(float), draw(seed, n, 2)
    weights[rng.random(n) < 0.2] = 0.0
    labels[:2], weights[:2] = CLASSES[:2], 1.0
    decisions, how = rng.integers(-3, 4, n) / 2.0, {"sample_weight": weights}
    for found, expected in (
        (scores.accuracy, metrics.accuracy_score(labels, predicted, **how)),
        (scores.mean_squared_error, metrics.mean_squared_error(labels, predicted, **how)),
        (scores.mean_absolute_error, metrics.mean_absolute_error(labels, predicted, **how)),
    ):
        assert found(labels, predicted, weights) == pytest.approx(expected, rel=1e-14)
    expected = metrics.f1_score(labels, predicted, pos_label=3.0, zero_division=0.0, **how)
    assert scores.f1(labels, predicted, CLASSES[:2], 3.0, weights) == pytest.approx(expected)
    positive = labels == CLASSES[0]
    expected = metrics.roc_auc_score(positive, decisions, **how)
    assert scores.auc(positive, decisions, weights) == pytest.approx(expected, rel=1e-14)


@given(st.integers(0, 2**32), st.integers(1, 20))
def test_errors_of_regression(seed, n):
    targets, predicted = np.random.default_rng(seed).normal(size=(2, n))
    for name in ("mean_squared_error", "mean_absolute_error"):
        expected = getattr(metrics, name)(targets, predicted)
        assert getattr(scores, name)(targets, predicted) == pytest.approx(expected, rel=1e-14)


def test_without_rows_or_without_a_class():
    none = np.zeros(0)
    for found in (
        scores.accuracy(none, none),
        scores.f1(none, none, CLASSES),
        scores.mean_squared_error(none, none),
        scores.mean_absolute_error(none, none),
        scores.auc(np.zeros(0, bool), none),
        scores.auc(np.ones(3, bool), np.arange(3.0)),
        scores.auc(np.zeros(3, bool), np.arange(3.0)),
        scores.accuracy(np.ones(3), np.ones(3), np.zeros(3)),
        scores.f1(np.ones(3), np.ones(3), CLASSES, weights=np.zeros(3)),
        scores.auc(np.arange(3) > 0, np.arange(3.0), np.zeros(3)),
    ):
        assert math.isnan(found)
    assert scores.f1(np.array([-1.0]), np.array([-1.0]), CLASSES[:2]) == 0.0
