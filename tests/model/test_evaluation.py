"""Scores, curves and calibration against scikit-learn's, and by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blocklinear.errors import InputError, UsageError
from blocklinear.model.evaluation import Evaluation
from blocklinear.model.linear import LinearModel

sklearn_metrics = pytest.importorskip("sklearn.metrics")
SCORED = st.lists(st.tuples(st.booleans(), st.integers(-4, 4)), min_size=2, max_size=60).filter(
    lambda rows: len({positive for positive, _ in rows}) == 2
)


def model_of(labels, **fields):
    columns = 1 if len(labels) == 2 else len(labels)
    how = {"solver": "L2R_LR_DUAL"} | fields
    weights = np.eye(3, columns)
    return LinearModel(
        weights=weights, bias_weights=np.zeros(columns), bias=-1.0, labels=labels, **how
    )


@given(SCORED)
def test_curves_are_those_of_scikit_learn(rows):
    truth, values = np.array(rows).T
    truth = truth.astype(bool)
    found = Evaluation.from_decisions(np.where(truth, "yes", "no"), values)
    (roc,), (precision_recall,) = found.roc(), found.precision_recall()
    x, y, thresholds = sklearn_metrics.roc_curve(truth, values, drop_intermediate=False)
    np.testing.assert_allclose((roc.x, roc.y), (x, y))
    np.testing.assert_array_equal(roc.thresholds, thresholds)
    assert roc.name == "yes"
    assert roc.area == pytest.approx(sklearn_metrics.roc_auc_score(truth, values))
    precision, recall, thresholds = sklearn_metrics.precision_recall_curve(truth, values)
    np.testing.assert_allclose(precision_recall.x, recall[-2::-1])
    np.testing.assert_allclose(precision_recall.y, precision[-2::-1])
    np.testing.assert_array_equal(precision_recall.thresholds, thresholds[::-1])
    average = sklearn_metrics.average_precision_score(truth, values)
    assert precision_recall.area == pytest.approx(average)
    chosen = np.where(values > 0, "yes", "no")
    assert found.to_dict()["accuracy"] == np.mean(chosen == np.where(truth, "yes", "no"))


def test_values_that_are_infinite_are_tied():
    found = Evaluation.from_decisions([0, 1, 0, 1], [np.inf, np.inf, -np.inf, -np.inf])
    (roc,), (precision_recall,) = found.roc(), found.precision_recall()
    assert (roc.x.tolist(), roc.y.tolist(), roc.area) == ([0.0, 0.5, 1.0], [0.0, 0.5, 1.0], 0.5)
    assert precision_recall.y.tolist() == [0.5, 0.5]


def test_classes_against_the_others():
    draw = np.random.default_rng(0)
    labels, values = draw.integers(0, 4, 200), draw.normal(size=(200, 4))
    found = Evaluation.from_decisions(labels, values)
    for k, curve in enumerate(found.roc()):
        assert curve.name == str(k)
        assert curve.area == pytest.approx(sklearn_metrics.roc_auc_score(labels == k, values[:, k]))
    counts, names, predicted = found.matrix()
    expected = sklearn_metrics.confusion_matrix(labels, values.argmax(axis=1))
    np.testing.assert_array_equal(counts, expected)
    assert names == predicted == ["0", "1", "2", "3"]


@given(SCORED, st.sampled_from([None, "no", "yes"]))
def test_two_columns_are_their_difference_for_the_positive_class(rows, positive):
    truth, margins = np.array(rows).T
    labels, values = np.where(truth, "yes", "no"), np.stack([-margins, margins], axis=1)
    found = Evaluation.from_decisions(labels, values, positive=positive)
    one = -margins if positive == "no" else margins
    expected = Evaluation.from_decisions(labels, one, positive=positive)
    assert found.to_dict() == expected.to_dict()
    area = sklearn_metrics.roc_auc_score(labels == (positive or "yes"), one)
    assert found.to_dict()["roc_auc"] == {positive or "yes": pytest.approx(area)}


def test_calibration_by_hand():
    # probabilities 1/4, 1/4, 3/4, 3/4, 3/4 of the positive class
    log3 = np.log(3.0)
    values = np.array([-log3, -log3, log3, log3, log3])
    found = Evaluation.from_decisions([0, 1, 1, 1, 0], values, logistic=True).calibration(bins=2)
    np.testing.assert_allclose(found.predicted, [0.25, 0.75])
    np.testing.assert_allclose(found.observed, [0.5, 2 / 3])
    assert found.rows.tolist() == [2, 3]
    assert found.error == pytest.approx((2 * 0.25 + 3 * (0.75 - 2 / 3)) / 5)


def test_probabilities_of_one_are_in_the_last_bin():
    found = Evaluation.from_decisions([0, 1], [-1e4, 1e4], logistic=True).calibration(10)
    assert found.predicted.tolist() == [0.0, 1.0]
    assert found.observed.tolist() == [0.0, 1.0]
    assert found.error == 0.0


def test_a_regression_has_no_positive_class():
    model = LinearModel(
        weights=np.ones((2, 1)), bias_weights=np.zeros(1), bias=-1.0, labels=(),
        solver="L2R_L2LOSS_SVR",
    )  # fmt: skip
    with pytest.raises(UsageError, match=r"the model has none \(L2R_L2LOSS_SVR\)"):
        Evaluation(model, positive=1.0)


@pytest.mark.parametrize("solver", ["L2R_LR_DUAL", "L2R_L1LOSS_SVC_DUAL"])
@pytest.mark.parametrize("labels", [(1.0, -1.0), (-1.0, 1.0)])
def test_the_positive_class_of_a_model_is_the_larger_label(labels, solver):
    model = model_of(labels, solver=solver)
    X, y = np.array([[2.0, 0, 0], [1, 0, 0], [-1, 0, 0], [0.5, 0, 0]]), np.array([1, 1, -1, -1.0])
    y = y if labels[0] == 1.0 else -y
    found = model.evaluate(X, y)
    assert found.roc()[0].name == "1"
    assert found.roc()[0].area == 1.0
    assert found.to_dict()["accuracy"] == 0.75
    other = model.evaluate(X, y, positive=-1)
    assert other.roc()[0].name == "-1"
    assert other.roc()[0].area == 1.0
    assert other.confusion.positive == -1.0


def test_classes_as_they_were_given():
    model = model_of((0.0, 1.0), classes={0.0: "ham", 1.0: "spam"})
    X = np.array([[1.0, 0, 0], [-1, 0, 0], [-1, 0, 0]])
    found = model.evaluate(X, ["ham", "spam", "else"], positive="ham")
    assert found.unknown_labels == 1
    assert found.roc()[0].name == "ham"
    counts, labels, predicted = found.matrix()
    assert (labels, predicted) == (["ham", "spam", "other"], ["ham", "spam"])
    assert counts.tolist() == [[1, 0], [0, 1], [0, 1]]
    assert found.to_dict()["accuracy"] == 2 / 3


def test_parts_are_the_whole():
    draw = np.random.default_rng(1)
    model = model_of((1.0, 2.0, 3.0))
    labels, values = draw.integers(0, 4, 50).astype(float), draw.normal(size=(50, 3))
    whole, parts = Evaluation(model), Evaluation(model)
    whole.add(labels, values)
    for start in range(0, 50, 7):
        parts.add(labels[start : start + 7], values[start : start + 7])
    assert parts.to_dict() == whole.to_dict()
    assert parts.unknown_labels == np.count_nonzero(labels == 0)


def test_what_cannot_be():
    with pytest.raises(UsageError, match="one for two classes"):
        Evaluation.from_decisions([0, 1, 2], [1.0, 2.0, 3.0])
    with pytest.raises(UsageError, match=r"labels of shape \(2,\) and 1 class"):
        Evaluation.from_decisions([1, 1], [1.0, 2.0])
    with pytest.raises(UsageError, match="positive is 3"):
        Evaluation.from_decisions([0, 1], [1.0, 2.0], positive=3)
    for labels, classes in (([[0], [1]], None), ([0, 1], [1, 1])):
        with pytest.raises(UsageError, match=r"2 classes, but decision values of shape \(2,\)"):
            Evaluation.from_decisions(labels, [1.0, 2.0], classes=classes)
    for values in ([1.0, np.nan], [[0.0, 1.0], [np.inf, np.inf]]):
        with pytest.raises(UsageError, match="row 1: the decision value is NaN"):
            Evaluation.from_decisions([0, 1], values)
    with pytest.raises(UsageError, match="those of logistic regression"):
        Evaluation.from_decisions([0, 1], [1.0, 2.0]).calibration()
    with pytest.raises(UsageError, match="bins is 0"):
        Evaluation.from_decisions([0, 1], [1.0, 2.0], logistic=True).calibration(0)
    model = model_of((1.0, -1.0))
    with pytest.raises(InputError, match=r"y has shape \(2,\) for 1 row"):
        model.evaluate([[1.0]], [1, 1])
    with pytest.raises(InputError, match="X has no rows"):
        model.evaluate(np.empty((0, 3)), [])
    with pytest.raises(InputError, match="y is not of numbers"):
        model.evaluate([[1.0]], ["a"])
    for label, shown in ((np.nan, "nan"), (None, "None"), (np.inf, "inf")):
        with pytest.raises(InputError, match=f"row 1: the label is {shown}"):
            model.evaluate([[1.0], [1.0]], [1.0, label])
    named = model_of((0.0, 1.0), classes={0.0: "ham", 1.0: "spam"})
    large = model_of((0.0, 1.0), classes={0.0: 2**60, 1.0: 2**60 + 1})
    for model, labels in (
        (named, [0, 1]), (named, [True, False]), (named, ["ham", None]), (named, [b"ham", b"spam"]),
        (large, ["0", "1"]), (large, [2.0**60, np.nan]),
    ):  # fmt: skip
        with pytest.raises(InputError, match=r"row \d: the label .* as those of the model are"):
            model.evaluate([[1.0], [1.0]], labels)


@pytest.mark.parametrize("others", [[1.0, 2.0, 3.0], [1.0, -1.0, 0.0]])
def test_outliers_are_counted_where_labels_do_not_say_which_they_are(others):
    """Rows of the label 1 had been taken for rows that are known not to be outliers."""
    how = {"solver": "ONECLASS_SVM", "labels": (), "weights": [[1.0]], "bias_weights": [0.0]}
    model, X = LinearModel(bias=-1.0, **how), [[2.0], [-1.0], [1.0]]
    known = model.evaluate(X, [1, -1, -1])
    assert known.summary().startswith("Accuracy = 66.6667% (2/3)\nF1 = 0.666667")
    found = Evaluation(model)
    decisions = np.array(X)
    found.add(np.array([1.0, -1.0, 1.0]), decisions)
    found.add(np.array(others), decisions)
    found.add(np.array([1.0, -1.0, 1.0]), decisions)
    assert found.summary() == "Outliers = 33.3333% (3/9)"
    facts = {"accuracy": None, "correct": None, "outliers": 3, "rows": 9, "unknown_labels": 0}
    assert found.to_dict() == facts
    for ask in (found.roc, found.matrix):
        with pytest.raises(UsageError, match="a one-class model of unknown outliers"):
            ask()
    with pytest.raises(UsageError, match="label is 7"):
        model.evaluate([[1.0]], [1], positive=7)


def test_a_regression_has_no_curves():
    model = LinearModel(
        weights=[[1.0]], bias_weights=np.zeros(1), bias=-1.0, labels=(), solver="L2R_L2LOSS_SVR"
    )
    found = model.evaluate([[1.0], [2.0]], [1.0, 4.0])
    assert found.to_dict()["mean_squared_error"] == 2.0
    for ask in (found.roc, found.plot_roc, found.matrix):
        with pytest.raises(UsageError, match="a regression"):
            ask()


def test_of_many_classes_no_decision_values_are_kept():
    model = model_of(tuple(map(float, range(11))))
    found = model.evaluate(np.eye(3), [0, 1, 2])
    assert not found.curves_are_kept
    assert not found._parts
    assert found.to_dict()["accuracy"] == 1.0
    with pytest.raises(UsageError, match="11 classes"):
        found.roc()


def test_no_rows_have_no_scores():
    found = Evaluation(model_of((1.0, -1.0)))
    assert found.to_dict()["roc_auc"] == {"1": None}
    assert found.to_dict()["accuracy"] is None
    assert "nan" in found.summary()
