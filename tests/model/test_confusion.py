"""Counts by class are those of scikit-learn."""

import json
import re
from itertools import permutations

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
    matrix = metrics.confusion_matrix(labels, predicted, labels=[*sorted(LABELS), 99.0])
    np.testing.assert_array_equal(found.matrix(), matrix[:, :-1])
    expected = metrics.precision_recall_fscore_support(
        labels, predicted, labels=sorted(LABELS), zero_division=0.0
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
        ["-1", "0.5", "1", "0.666667", "1"],
        ["1", "0.5", "0.5", "0.5", "2"],
        ["mean", "0.5", "0.75", "0.583333", "4"],
        [],
        heading.split(),
        ["-1", "1"],
        ["-1", "1", "0"],
        ["1", "1", "1"],
        ["other", "0", "1"],
    ]


def test_the_report_does_not_depend_on_the_order_of_the_classes():
    """The model has them as they came in the training data."""
    labels, predicted = np.random.default_rng(0).choice(LABELS, (2, 50))
    found = []
    for classes in permutations(LABELS):
        confusion = Confusion(classes)
        confusion.add(labels, predicted)
        found.append((confusion.table(), confusion.summary(), json.dumps(confusion.as_dict())))
    assert len(set(found)) == 1


def test_f1_of_the_positive_class():
    labels, predicted = np.array([1.0, 1.0, -1.0, 7.0]), np.array([1.0, -1.0, -1.0, 1.0])
    for classes in ((1.0, -1.0), (-1.0, 1.0)):
        for asked, positive, f1 in ((None, 1.0, 0.5), (1.0, 1.0, 0.5), (-1.0, -1.0, 2 / 3)):
            found = Confusion(classes, asked)
            found.add(labels, predicted)
            whole = found.as_dict()
            assert (whole["positive"], whole["f1"]) == (positive, pytest.approx(f1))
            assert found.summary() == f"F1 = {f1:g} (positive class {positive:g})"


def test_means_are_over_the_classes_that_occur():
    """As scikit-learn's: a class without rows and predictions says nothing."""
    labels, predicted = np.array([3.0, 3.0, -1.0, -1.0]), np.array([3.0, -1.0, -1.0, 8.0])
    found = Confusion(LABELS)
    found.add(labels, predicted)
    expected = metrics.precision_recall_fscore_support(
        labels, predicted, average="macro", zero_division=0.0
    )
    mean = next(line for line in found.table().splitlines() if line.split()[:1] == ["mean"])
    assert [float(cell) for cell in mean.split()[1:4]] == pytest.approx(expected[:3], rel=1e-5)
    assert found.as_dict()["f1"] == pytest.approx(expected[2])
    assert found.as_dict()["positive"] is None
    assert found.summary() == f"F1 = {expected[2]:g} (mean of 3 classes)"


def test_of_no_rows_there_is_no_f1():
    for labels in (LABELS, LABELS[:2]):
        assert Confusion(labels).as_dict()["f1"] is None
        assert "nan" in Confusion(labels).summary()


def test_of_many_classes_there_is_no_matrix():
    assert len(Confusion(tuple(map(float, range(20)))).table().splitlines()) == 45
    assert len(Confusion(tuple(map(float, range(21)))).table().splitlines()) == 23


def test_a_regression_has_no_classes(tmp_path):
    (tmp_path / "rows").write_text("1 1:1\n")
    model = LinearModel(np.ones((1, 1)), np.zeros(1), -1.0, (), "L2R_L1LOSS_SVR_DUAL")
    with pytest.raises(UsageError, match="has no classes"):
        predict_stream(model, [str(tmp_path / "rows")], tmp_path / "out", classes=True)


def test_notebooks_show_classes_as_given():
    counted = Confusion((0.0, 1.0), classes={0.0: "<ham>", 1.0: "spam"})
    counted.add(np.array([0.0, 0.0, 1.0, 7.0]), np.array([0.0, 1.0, 1.0, 1.0]))
    html = counted._repr_html_()
    assert "&lt;ham&gt;" in html
    assert "<ham>" not in html
    assert counted.class_rows() == [
        ("<ham>", "1.000", "0.500", "0.667", "2"), ("spam", "0.333", "1.000", "0.500", "1"),
    ]  # fmt: skip
    rows = re.findall(r"<tr>(.*?)</tr>", html.partition("Rows by their class")[2])
    cells = [re.sub(r"<[^>]*>", " ", row).split() for row in rows]
    assert cells == [["&lt;ham&gt;", "spam"], ["&lt;ham&gt;", "1", "1"], ["spam", "0", "1"],
                     ["other", "0", "1"]]  # fmt: skip
    assert counted.as_dict()["classes"][0]["label"] == "<ham>"
    assert counted.as_dict()["confusion"][-1] == [None, "spam", 1]
    assert counted.summary() == "F1 = 0.5 (positive class spam)"
    assert counted.table().split()[5] == "<ham>"


def test_notebooks_show_few_of_many_classes():
    counted = Confusion(tuple(map(float, range(30))))
    counted.add(np.arange(30.0), np.arange(30.0))
    html = counted._repr_html_()
    assert html.count("<tr>") == 21
    assert "20 classes with the most rows, of 30" in html


def test_labels_are_of_one_kind():
    """Integers beyond 2**53 have other numbers in blocks, and those below their own."""
    code = float(2**53 - 1)
    found = Confusion((code, 3.0), None, {code: 2**60})
    found.add(np.array([3.0, code]), np.array([code, code]))
    assert found.as_dict()["positive"] == 2**60
    labels = [own["label"] for own in found.as_dict()["classes"]]
    assert list(map(repr, labels)) == ["3", str(2**60)]
    assert found.as_dict()["confusion"] == [[3, 2**60, 1], [2**60, 2**60, 1]]
    assert {type(label) for pair in found.as_dict()["confusion"] for label in pair} == {int}
