"""Counts by class are those of scikit-learn."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics

from blocklinear.errors import UsageError
from blocklinear.model.confusion import Confusion
from blocklinear.model.linear import LinearModel
from blocklinear.model.predict import predict_stream

LABELS = (3.0, -1.0, 8.0, 0.0)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 30), st.integers(0, 1))
def test_each_class(seed, n, unknown):
    rng = np.random.default_rng(seed)
    labels = np.array([*LABELS, 99.0])[rng.integers(0, 4 + unknown, n)]
    predicted = np.array(LABELS)[rng.integers(0, 4, n)]
    found = Confusion(LABELS)
    for part in (slice(0, n // 2), slice(n // 2, n)):
        found.add(labels[part], predicted[part])
    matrix = metrics.confusion_matrix(labels, predicted, labels=[*LABELS, 99.0])
    np.testing.assert_array_equal(found.matrix(), matrix[:, :-1])
    expected = metrics.precision_recall_fscore_support(
        labels, predicted, labels=list(LABELS), zero_division=0.0
    )
    for k, own in enumerate(found.classes()):
        values = [own[name] for name in ("precision", "recall", "f1", "rows")]
        assert values == pytest.approx([column[k] for column in expected])
    triples = json.loads(json.dumps(found.as_dict()["confusion"]))
    assert sum(count for _, _, count in triples) == n
    assert all(label in (*LABELS, None) for label, _, _ in triples)


def test_the_table():
    found = Confusion((1.0, -1.0))
    found.add(np.array([1.0, 1.0, -1.0, 7.0]), np.array([1.0, -1.0, -1.0, 1.0]))
    heading = "rows by their class (down) and by the class predicted (across)"
    assert [line.split() for line in found.table().splitlines()] == [
        ["class", "precision", "recall", "F1", "rows"],
        ["1", "0.5", "0.5", "0.5", "2"],
        ["-1", "0.5", "1", "0.666667", "1"],
        ["mean", "0.5", "0.75", "0.583333", "4"],
        [],
        heading.split(),
        ["1", "-1"],
        ["1", "1", "1"],
        ["-1", "0", "1"],
        ["other", "1", "0"],
    ]


def test_of_many_classes_there_is_no_matrix():
    assert len(Confusion(tuple(map(float, range(20)))).table().splitlines()) == 45
    assert len(Confusion(tuple(map(float, range(21)))).table().splitlines()) == 23


def test_a_regression_has_no_classes(tmp_path):
    (tmp_path / "rows").write_text("1 1:1\n")
    model = LinearModel(np.ones((1, 1)), np.zeros(1), -1.0, (), "L2R_L1LOSS_SVR_DUAL")
    with pytest.raises(UsageError, match="has no classes"):
        predict_stream(model, [str(tmp_path / "rows")], tmp_path / "out", classes=True)
