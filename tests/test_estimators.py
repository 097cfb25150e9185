"""The estimators are scikit-learn's in all that its own checks see, and solve its problems."""

import pickle

import numpy as np
import pytest
from scipy.sparse import csr_array, csr_matrix
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification, make_regression
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC, LinearSVR
from sklearn.utils.estimator_checks import parametrize_with_checks

from blocklinear import StoreWriter
from blocklinear.estimators import BlockLinearSVC, BlockLinearSVR, BlockLogisticRegression

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
FEW = {"max_iter": 10, "memory": "160M", "n_jobs": 1}


@parametrize_with_checks(
    [BlockLinearSVC(**FEW), BlockLogisticRegression(**FEW), BlockLinearSVR(**FEW)]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


X, Y = make_classification(300, 12, n_informative=8, n_classes=3, random_state=0)
Z = make_regression(300, 12, noise=3.0, random_state=0)[1] / 30
TIGHT = {"gap": 1e-7, "memory": "160M", "n_jobs": 1}


def objective(estimator, X, y, loss, C):
    """The primal value of each column, the intercept regularised as LIBLINEAR does."""
    coef = np.atleast_2d(estimator.coef_)
    intercept = np.broadcast_to(estimator.intercept_, len(coef))
    values = []
    for k, (w, b) in enumerate(zip(coef, intercept, strict=True)):
        decisions = X @ w + b
        if loss in ("e", "e2"):
            rest = np.maximum(np.abs(y - decisions) - 0.1, 0)
            losses = rest if loss == "e" else rest**2
        else:
            positive = estimator.classes_[-1 if len(coef) == 1 else k]
            margins = decisions * np.where(y == positive, 1, -1)
            short = np.maximum(1 - margins, 0)
            losses = {"h": short, "h2": short**2, "log": np.logaddexp(0, -margins)}[loss]
        values.append(0.5 * (w @ w + b * b) + C * losses.sum())
    return np.array(values)


@pytest.mark.parametrize(
    ("ours", "theirs", "loss"),
    [
        (BlockLinearSVC(**TIGHT), LinearSVC(dual=True, tol=1e-8, max_iter=10**6), "h2"),
        (
            BlockLinearSVC(loss="hinge", **TIGHT),
            LinearSVC(loss="hinge", dual=True, tol=1e-8, max_iter=10**6), "h",
        ),
        (
            BlockLogisticRegression(**TIGHT),
            LogisticRegression(solver="liblinear", tol=1e-10, max_iter=10**4), "log",
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize("n_classes", [2, 3])
def test_objectives_are_those_of_scikit_learn(ours, theirs, loss, n_classes):
    rows = n_classes > Y
    if n_classes == 3 and loss == "log":
        pytest.skip("its solver liblinear takes two classes only")
    X_, y = X[rows], np.array(["no", "yes", "maybe"])[Y[rows]]
    for sparse in (np.asarray, csr_array):
        ours = clone(ours).set_params(C=0.02).fit(sparse(X_), y)
        theirs = clone(theirs).set_params(C=0.02).fit(X_, y)
        assert ours.classes_.tolist() == theirs.classes_.tolist()
        assert ours.coef_.shape == theirs.coef_.shape
        expected = objective(theirs, X_, y, loss, 0.02)
        np.testing.assert_allclose(objective(ours, X_, y, loss, 0.02), expected, rtol=1e-6)
        assert (ours.predict(X_) == theirs.predict(X_)).mean() > 0.995
        assert ours.dual_gap_ <= 1e-7


@pytest.mark.parametrize(
    ("loss", "name"), [("epsilon_insensitive", "e"), ("squared_epsilon_insensitive", "e2")]
)
def test_regression_has_the_objective_of_scikit_learn(loss, name):
    ours = BlockLinearSVR(epsilon=0.1, loss=loss, **TIGHT).fit(X, Z)
    theirs = LinearSVR(epsilon=0.1, loss=loss, dual=True, tol=1e-9, max_iter=10**6).fit(X, Z)
    expected = objective(theirs, X, Z, name, 1.0)
    np.testing.assert_allclose(objective(ours, X, Z, name, 1.0), expected, rtol=1e-6)


@pytest.mark.parametrize("class_weight", ["balanced", {0: 3.0, 1: 0.5}])
def test_weights_of_classes_are_those_of_scikit_learn(class_weight):
    rows = Y < 2
    ours = BlockLinearSVC(class_weight=class_weight, **TIGHT).fit(X[rows], Y[rows])
    theirs = LinearSVC(class_weight=class_weight, dual=True, tol=1e-9, max_iter=10**6)
    theirs.fit(X[rows], Y[rows])
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-3, atol=1e-4)


def test_parameters_that_are_refused():
    with pytest.raises(ValueError, match="loss is 'log', but must be one of squared_hinge, hinge"):
        BlockLinearSVC(loss="log").fit(X, Y)
    with pytest.raises(ValueError, match=r"C is -1\.0, but must be"):
        BlockLinearSVC(C=-1).fit(X, Y)
    with pytest.raises(ValueError, match=r"intercept_scaling is 0\.0, but must be above 0"):
        BlockLinearSVC(intercept_scaling=0).fit(X, Y)


def test_in_pipelines_searches_and_pickles():
    rows = Y < 2
    grid = GridSearchCV(
        make_pipeline(StandardScaler(), BlockLinearSVC(**FEW)),
        {"blocklinearsvc__C": [0.01, 1.0]}, cv=2,
    ).fit(X[rows], Y[rows])  # fmt: skip
    again = pickle.loads(pickle.dumps(grid))
    assert (again.predict(X) == grid.predict(X)).all()
    calibrated = CalibratedClassifierCV(BlockLinearSVC(**FEW), cv=2).fit(X[rows], Y[rows])
    assert calibrated.predict_proba(X).shape == (300, 2)


def test_probabilities_add_up():
    for y in (Y, Y < 2):
        model = BlockLogisticRegression(**FEW).fit(X, y)
        shares = model.predict_proba(X)
        np.testing.assert_allclose(shares.sum(axis=1), 1)
        assert (model.classes_[shares.argmax(axis=1)] == model.predict(X)).all()
        np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), shares)


def test_a_store_is_kept_and_trained_again(tmp_path):
    y = np.array(["b", "c", "a"])[Y]
    kept = BlockLinearSVC(store=tmp_path / "store", **TIGHT).fit(csr_matrix(X), y)
    kept.fit(csr_matrix(X), y)
    names = [f"f{k}" for k in range(12)]
    pd = pytest.importorskip("pandas")
    with StoreWriter(tmp_path / "named") as writer:
        writer.append(pd.DataFrame(X, columns=names), y)
    fitted = BlockLinearSVC(**TIGHT).fit_store(writer.store)
    assert fitted.feature_names_in_.tolist() == names
    in_batches = BlockLinearSVC(**TIGHT).fit_batches([(X[:100], y[:100]), (X[100:], y[100:])])
    for other in (fitted, in_batches):
        assert other.classes_.tolist() == kept.classes_.tolist() == ["a", "b", "c"]
        np.testing.assert_allclose(other.coef_, kept.coef_, rtol=1e-3, atol=1e-4)
    two = BlockLinearSVC(**TIGHT).fit_batches([(X, Y == 0)])
    np.testing.assert_allclose(
        two.coef_, BlockLinearSVC(**TIGHT).fit(X, Y == 0).coef_, rtol=1e-3, atol=1e-4
    )
    regression = BlockLinearSVR(**TIGHT).fit_batches([(X, Z, np.ones(300))])
    assert regression.coef_.shape == (12,)


def test_no_temporary_store_is_left(tmp_path, monkeypatch):
    monkeypatch.setattr("blocklinear.estimators._SHARED_MEMORY", tmp_path)
    BlockLinearSVC(**FEW).fit(X, Y)
    with pytest.raises(ValueError, match=r"C is 0\.0"):
        BlockLinearSVC(C=0).fit(X, Y)
    assert list(tmp_path.iterdir()) == []
