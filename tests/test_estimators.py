"""The estimators are scikit-learn's in all that its own checks see, and solve its problems."""

import pickle
import warnings

import numpy as np
import pytest
from scipy.sparse import csr_array, csr_matrix
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification, make_regression
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, make_scorer
from sklearn.model_selection import (
    GridSearchCV,
    LeaveOneGroupOut,
    LeaveOneOut,
    PredefinedSplit,
    ShuffleSplit,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC, LinearSVR, OneClassSVM
from sklearn.utils.estimator_checks import parametrize_with_checks

from blocklinear import BlockStore, SplitOptions, StoreWriter, train
from blocklinear.errors import (
    BlocklinearWarning,
    InputError,
    StorageError,
    UsageError,
    WrongTypeError,
)
from blocklinear.estimators import (
    BlockLinearOneClassSVM,
    BlockLinearSVC,
    BlockLinearSVCCV,
    BlockLinearSVR,
    BlockLinearSVRCV,
    BlockLogisticRegression,
    BlockLogisticRegressionCV,
)

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
FEW = {"max_iter": 10, "memory": "160M", "n_jobs": 1}


@parametrize_with_checks(
    [
        BlockLinearSVC(**FEW),
        BlockLogisticRegression(**FEW),
        BlockLinearSVR(**FEW),
        BlockLinearOneClassSVM(**FEW),
        BlockLinearSVCCV([0.1, 1.0], cv=2, **FEW),
        BlockLogisticRegressionCV([0.1, 1.0], cv=2, **FEW),
        BlockLinearSVRCV([0.1, 1.0], cv=2, **FEW),
    ]
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


@pytest.mark.filterwarnings("error")
def test_one_class_models_do_not_warn_of_labels_that_nobody_gave():
    BlockLinearOneClassSVM(nu=0.5).fit(ROWS)


@pytest.mark.parametrize("one", ["spam", 3])
def test_a_single_class_is_shown_as_it_was_given(one):
    with pytest.raises(ValueError, match=f"here is the one class {one!r}$"):
        BlockLinearSVC().fit(ROWS, [one] * len(ROWS))


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


@pytest.mark.parametrize("ours", [BlockLinearSVC, BlockLogisticRegression])
def test_classes_are_balanced_by_the_weights_of_their_rows(tmp_path, ours):
    """However the rows come, and as in scikit-learn."""
    rows = Y < 2
    weights = np.random.default_rng(0).choice([0.0, 1.0, 2.5], rows.sum())
    with StoreWriter(tmp_path / "store") as writer:
        writer.append(X[rows], Y[rows], weights)
    model = ours(class_weight="balanced", **TIGHT)
    coef = model.fit(X[rows], Y[rows], sample_weight=weights).coef_
    np.testing.assert_allclose(model.fit_store(tmp_path / "store").coef_, coef, atol=1e-4)
    sums = np.array([weights[Y[rows] == label].sum() for label in (0, 1)])
    factors = (sums.sum() / (2 * sums))[Y[rows].astype(int)]
    alone = ours(**TIGHT).fit(X[rows], Y[rows], sample_weight=weights * factors)
    np.testing.assert_allclose(alone.coef_, coef, atol=1e-4)


def test_a_violation_that_descent_does_not_reach_is_left_to_newton():
    X, y = make_classification(400, 10, n_informative=6, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for model in (BlockLinearSVC(C=1e3), BlockLinearSVC(C=1e3, loss="hinge")):
            assert model.fit(X, y).n_iter_ <= 100
            assert model.dual_gap_ <= model.tol
        grid = BlockLinearSVCCV(Cs=[1.0, 1e3], cv=3).fit(X, y)
        assert grid.n_iter_ <= 100


def test_dense_rows_are_fitted_by_newton():
    rng = np.random.default_rng(0)
    X = rng.normal(1.0, 1.0, size=(2000, 20))
    y = X @ rng.normal(size=20) + 3.0 * rng.normal(size=2000) > 5.0
    model = BlockLogisticRegression(C=100.0).fit(X, y)
    assert model.n_iter_ <= 15  # coordinate descent takes 22
    assert model.dual_gap_ <= model.tol


def test_parameters_that_are_refused(tmp_path):
    with pytest.raises(ValueError, match="loss is 'log', but must be one of squared_hinge, hinge"):
        BlockLinearSVC(loss="log").fit(X, Y)
    for estimator in (BlockLinearSVC(loss=["hinge"]), BlockLinearSVR(loss={})):
        with pytest.raises(ValueError, match=r"loss is .*, but must be one of"):
            estimator.fit(X, Y)
    with pytest.raises(ValueError, match=r"scoring is \['f1'\], but must be one of"):
        BlockLinearSVCCV(scoring=["f1"]).fit(X, Y)
    with pytest.raises(ValueError, match=r"intercept_scaling is 0\.0, but must be above 0"):
        BlockLinearSVC(intercept_scaling=0).fit(X, Y)
    for changes in ({"intercept_scaling": 1e200}, {"intercept_scaling": np.nan}, {"n_jobs": 1000}):
        with pytest.raises(ValueError, match=f"^{next(iter(changes))} is .*, but must be "):
            BlockLinearSVC(**changes).fit(X, Y)
    with pytest.raises(UsageError, match="the name of the store is empty"):
        BlockLinearSVC(store="").fit(X, Y)
    with pytest.raises(StorageError, match=r"there: no such folder\n  fix: make it first"):
        BlockLinearSVC(store=tmp_path / "there" / "store").fit(X, Y)


def test_fits_of_one_store_at_the_same_time(tmp_path, monkeypatch):
    """As in a search with n_jobs: each is trained on rows of its own."""
    one, other = (BlockLinearSVR(store=tmp_path / "store", **FEW) for _ in range(2))

    def batches():
        yield X[:200], Z[:200]
        with pytest.warns(BlocklinearWarning, match="store: another fit is writing to it") as told:
            other.fit(X[:50], Z[:50])
        assert told[0].filename == __file__
        yield X[200:], Z[200:]

    def train_while_another_fits(store, *how):
        monkeypatch.undo()
        with pytest.warns(BlocklinearWarning, match="rows of this one are not kept there"):
            other.fit(X[:50], Z[:50])
        return train(store, *how)

    one.fit_batches(batches())
    assert BlockStore.open(tmp_path / "store").manifest.n_rows == 300
    monkeypatch.setattr("blocklinear.estimators.base.train", train_while_another_fits)
    one.fit(X, Z)
    assert BlockStore.open(tmp_path / "store").manifest.n_rows == 300
    assert [path.name for path in tmp_path.iterdir()] == ["store"]
    for fitted, n_rows in ((one, 300), (other, 50)):
        alone = BlockLinearSVR(**FEW).fit(X[:n_rows], Z[:n_rows])
        assert (fitted.coef_ == alone.coef_).all()


@pytest.mark.parametrize(
    ("estimator", "wrong"),
    [
        (BlockLinearSVC, {"C": -1}),
        (BlockLinearSVC, {"C": "1"}),
        (BlockLinearSVC, {"C": np.inf}),
        (BlockLinearSVC, {"tol": -1.0}),
        (BlockLinearSVC, {"gap": "1e-3"}),
        (BlockLinearSVC, {"max_iter": 0}),
        (BlockLinearSVC, {"max_iter": 10.5}),
        (BlockLinearSVC, {"memory": 1e9}),
        (BlockLinearSVC, {"n_jobs": 1.5}),
        (BlockLinearSVC, {"fit_intercept": "no"}),
        (BlockLinearSVR, {"epsilon": None}),
        (BlockLinearSVCCV, {"Cs": "auto"}),
        (BlockLinearOneClassSVM, {"nu": 0}),
    ],
)
def test_a_refused_parameter_is_called_by_its_name(estimator, wrong):
    said = f"^The '{next(iter(wrong))}' parameter of {estimator.__name__} must be"
    with pytest.raises(ValueError, match=said):
        estimator(**wrong).fit(X, Y)


def test_memory_may_be_an_integer_of_numpy():
    assert BlockLinearSVC(memory=np.int64(200 << 20)).fit(X, Y).n_iter_ > 0


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
    assert in_batches.classes_.dtype == y.dtype
    two = BlockLinearSVC(**TIGHT).fit_batches([(X, Y == 0)])
    assert two.classes_.tolist() == [False, True]
    np.testing.assert_allclose(
        two.coef_, BlockLinearSVC(**TIGHT).fit(X, Y == 0).coef_, rtol=1e-3, atol=1e-4
    )
    regression = BlockLinearSVR(**TIGHT).fit_batches([(X, Z, np.ones(300))])
    assert regression.coef_.shape == (12,)


@pytest.mark.parametrize(
    "labels", [["b", "c", "a"], ["b", "a", "b"], [7, 9, 2], [7, 2, 7]], ids=str
)
def test_a_store_that_fit_has_written_keeps_names_and_classes(tmp_path, labels):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=[f"f{k}" for k in range(12)])
    y = np.array(labels)[Y]
    weights = {label: 1.0 + k for k, label in enumerate(sorted(set(labels)))}
    kept = BlockLinearSVC(store=tmp_path / "store", class_weight=weights, **TIGHT).fit(frame, y)
    again = BlockLinearSVC(**TIGHT).fit_store(tmp_path / "store")
    assert again.feature_names_in_.tolist() == kept.feature_names_in_.tolist() == list(frame)
    assert again.classes_.tolist() == kept.classes_.tolist() == sorted(set(labels))
    assert kept.classes_.dtype == y.dtype
    assert again.score(frame, y) > 0.6
    expected = LinearSVC(class_weight=weights, tol=1e-9, max_iter=100_000).fit(X, y)
    np.testing.assert_allclose(kept.coef_, expected.coef_, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    "classes",
    [
        np.array(["2020-01-01", "2021-05-05"], "datetime64[D]"),
        np.array(["tab\t", "a"]),
        np.array([2.0**60, 3.0]),
    ],
    ids=["dates", "unprintable", "large"],
)
def test_classes_that_are_no_labels_of_a_store(classes):
    fitted = BlockLinearSVC(**FEW).fit(X, classes[(Y == 0).astype(int)])
    assert (fitted.classes_ == np.sort(classes)).all()
    assert fitted.predict(X).dtype == classes.dtype


@pytest.mark.parametrize("make", [np.asarray, csr_matrix])
@pytest.mark.parametrize(
    ("estimator", "solver"),
    [
        (BlockLinearSVC(**TIGHT), 1),
        (BlockLinearSVR(**TIGHT), 13),
        (BlockLinearOneClassSVM(**TIGHT), 21),
    ],
    ids=str,
)
def test_rows_are_normalized_where_those_of_the_store_were(tmp_path, estimator, solver, make):
    rows = np.abs(X) * (1.0 + np.arange(300.0))[:, None]
    unit = rows / np.sqrt((rows**2).sum(axis=1, keepdims=True))
    y = Z if solver == 13 else np.where(Y == 0, 0.0, 1.0)
    with StoreWriter(tmp_path / "store", SplitOptions(normalize="l2")) as writer:
        writer.append(rows, y)
    fitted = clone(estimator).fit_store(writer.store)
    expected = clone(estimator).fit(unit, y)
    of_values = "predict" if solver == 13 else "decision_function"
    values = getattr(expected, of_values)(unit)
    for given in (rows, unit):  # once more changes nothing
        np.testing.assert_allclose(
            getattr(fitted, of_values)(make(given)), values, rtol=1e-3, atol=1e-3
        )
    if solver != 21:
        np.testing.assert_allclose(
            fitted.partial_fit(make(rows), y).coef_, expected.partial_fit(unit, y).coef_, atol=1e-3
        )
    fitted.fit(rows, y)  # whose rows are as they are
    again = getattr(clone(estimator).fit(rows, y), of_values)(rows)
    assert (getattr(fitted, of_values)(rows) == again).all()


def test_a_matrix_with_columns_that_it_does_not_have():
    fitted = BlockLinearSVC(**FEW).fit(csr_matrix(X), Y)
    malformed = csr_matrix(X)
    malformed.indices[-1] = 10**6
    with pytest.raises(InputError, match=r"csr_matrix: .*\n  fix: make the matrix"):
        fitted.predict(malformed)
    for fit in (fitted.fit, fitted.partial_fit, BlockLinearSVC(**FEW).fit):
        with pytest.raises(InputError, match=r"csr_matrix: .*\n  fix: make the matrix"):
            fit(malformed, Y)


@pytest.mark.parametrize("make", [np.asarray, csr_matrix])
def test_a_row_that_is_too_large_has_the_number_that_was_given(make):
    """Whatever the order in which rows are written, and without those of weight 0."""
    large = X.copy()
    large[[3, 37, 40], 2] = 1e200
    weights = np.arange(300) >= 10.0
    with pytest.raises(InputError, match="row 37: its squares overflow"):
        BlockLinearSVC(**FEW).fit(make(large), Y, weights)


@pytest.mark.parametrize("estimator", [BlockLinearSVC(), BlockLinearSVR()], ids=str)
@pytest.mark.parametrize("batches", [[X], [(X,)], [(X, Y, None, 3)], 7], ids=range(4))
def test_items_that_are_no_batches(estimator, batches):
    with pytest.raises(WrongTypeError, match=r"fix: give \(X, y, sample_weight\) or \(X, y\)"):
        estimator.fit_batches(batches)


def test_one_target_is_no_defect_of_a_regression_and_is_said_once_of_classes():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for model in (BlockLinearSVR(**TIGHT), BlockLinearSVRCV([1.0], cv=2, **TIGHT)):
            for fitted in (model.fit(X, np.full(300, 2.5)), model.fit_batches([(X, [2.5] * 300)])):
                np.testing.assert_allclose(fitted.predict(X), 2.5, atol=0.1)
        with pytest.raises(InputError, match="all rows have the one label spam"):
            BlockLinearSVC(**TIGHT).fit_batches([(X, ["spam"] * 300)])


def test_labels_that_are_no_classes_lead_to_an_estimator():
    with pytest.raises(InputError, match=r"label 0.5 is not an integer.*\n  fix: .*BlockLinearSVR"):
        BlockLinearSVC(**TIGHT).fit_batches([(X, np.tile([0.5, 1.5], 150))])


def test_no_temporary_store_is_left(tmp_path, monkeypatch):
    monkeypatch.setattr("blocklinear.estimators.base._SHARED_MEMORY", tmp_path)
    BlockLinearSVC(**FEW).fit(X, Y)
    with pytest.raises(ValueError, match=r"intercept_scaling is 0\.0"):
        BlockLinearSVC(intercept_scaling=0).fit(X, Y)
    assert list(tmp_path.iterdir()) == []


def slow_pass(X, y, C, kind, order, epsilon=0.1, bias=1.0):
    """One step of dual coordinate descent a row, and the mean of all w, row t counting t times."""
    rows = np.column_stack([X, np.full(len(X), bias)])
    w, total, weight = np.zeros(rows.shape[1]), np.zeros(rows.shape[1]), 0.0
    for t, i in enumerate(order, 1):
        x, target = rows[i], y[i]
        Q = x @ x
        if kind in ("h", "h2"):
            D = 0.5 / C if kind == "h2" else 0.0
            alpha = max((1 - target * (w @ x)) / (Q + D), 0.0)
            w = w + target * x * (alpha if kind == "h2" else min(alpha, C))
        elif kind == "log":
            low, high = 0.0, C  # bisection for the root of the derivative
            for _ in range(200):
                alpha = 0.5 * (low + high)
                slope = Q * alpha + target * (w @ x) + np.log(alpha / (C - alpha))
                low, high = (low, alpha) if slope > 0 else (alpha, high)
            w = w + target * x * alpha
        else:
            D = 0.5 / C if kind == "e2" else 0.0
            rest = target - w @ x
            alpha = np.sign(rest) * max(abs(rest) - epsilon, 0.0) / (Q + D)
            w = w + x * (alpha if kind == "e2" else np.clip(alpha, -C, C))
        total, weight = total + t * w, weight + t
    return total / weight


def orders(sizes):
    """The rows in the order in which `partial_fit` works on them."""
    first = 0
    for size in sizes:
        yield first + np.random.default_rng([0, first]).permutation(size)
        first += size


@pytest.mark.parametrize(
    ("estimator", "kind"),
    [
        (BlockLinearSVC(0.3, loss="hinge"), "h"),
        (BlockLinearSVC(0.3), "h2"),
        (BlockLogisticRegression(0.3), "log"),
        (BlockLinearSVR(0.3, epsilon=0.1), "e"),
        (BlockLinearSVR(0.3, epsilon=0.1, loss="squared_epsilon_insensitive"), "e2"),
    ],
)
@pytest.mark.parametrize("kept", [np.asarray, csr_array])
def test_partial_fit_is_one_pass_of_coordinate_descent(estimator, kind, kept):
    y = Z if kind in ("e", "e2") else np.where(Y == 0, 1, -1)
    model, sizes = clone(estimator), (120, 1, 179)
    start = 0
    for size in sizes:
        part = slice(start, start + size)
        known = {} if kind in ("e", "e2") else {"classes": [1, -1]}
        model.partial_fit(kept(X[part]), y[part], **known)
        start += size
    expected = slow_pass(X, y, 0.3, kind, np.concatenate(list(orders(sizes))))
    np.testing.assert_allclose(np.ravel(model.coef_), expected[:-1], rtol=1e-7)
    np.testing.assert_allclose(model.intercept_, expected[-1:], rtol=1e-7)
    assert model.n_samples_seen_ == 300
    assert np.isnan(model.dual_gap_)


def test_partial_fit_comes_near_the_optimum_and_knows_all_classes():
    names = np.array(["no", "yes", "maybe"])[Y]
    for estimator, loss in ((BlockLinearSVC(0.02), "h2"), (BlockLogisticRegression(0.02), "log")):
        best = clone(estimator).set_params(**TIGHT).fit(X, names)
        streamed = clone(estimator)
        for part in np.array_split(np.arange(300), 10):
            streamed.partial_fit(X[part], names[part], classes=["yes", "no", "maybe"])
        assert streamed.classes_.tolist() == best.classes_.tolist() == ["maybe", "no", "yes"]
        least = objective(best, X, names, loss, 0.02)
        assert (objective(streamed, X, names, loss, 0.02) < 1.2 * least).all()
        assert streamed.score(X, names) > best.score(X, names) - 0.03


def test_weights_in_partial_fit_multiply_C():
    y, weights = Y == 0, np.where(np.arange(300) % 3, 2.0, 0.0)
    used = weights > 0
    one = BlockLinearSVC(0.1).partial_fit(X, y, [False, True], weights)
    other = BlockLinearSVC(0.2).partial_fit(X[used], y[used], [False, True])
    np.testing.assert_array_equal(one.coef_, other.coef_)
    by_class = BlockLinearSVC(0.1, class_weight={False: 3.0}).partial_fit(X, y, [False, True])
    by_row = BlockLinearSVC(0.1).partial_fit(X, y, [False, True], np.where(y, 1.0, 3.0))
    np.testing.assert_array_equal(by_class.coef_, by_row.coef_)
    many = BlockLinearSVC(0.1, class_weight={2: 3.0}).partial_fit(X, Y, [0, 1, 2])
    two = BlockLinearSVC(0.1, class_weight={True: 3.0}).partial_fit(X, Y == 2, [False, True])
    np.testing.assert_array_equal(many.coef_[2], two.coef_[0])


def test_fit_starts_afresh_and_partial_fit_goes_on():
    y = Y == 0
    fitted = BlockLinearSVC(0.003, **TIGHT).fit(X[:200], y[:200])
    model = BlockLinearSVC(0.003, **TIGHT).partial_fit(X[200:], ~y[200:], [False, True])
    model.fit(X[:200], y[:200])
    np.testing.assert_array_equal(model.coef_, fitted.coef_)
    assert model.n_samples_seen_ == 200
    model.partial_fit(X[200:], y[200:])
    assert model.n_samples_seen_ == 300
    best = BlockLinearSVC(0.003, **TIGHT).fit(X, y)
    least, before, after = (objective(m, X, y, "h2", 0.003)[0] for m in (best, fitted, model))
    assert least < after < before
    same = pickle.loads(pickle.dumps(model)).partial_fit(X[:50], y[:50])
    np.testing.assert_array_equal(same.coef_, model.partial_fit(X[:50], y[:50]).coef_)


def test_partial_fit_refuses():
    y = Y == 0
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        BlockLinearSVC().partial_fit(X, y)
    with pytest.raises(ValueError, match="needs 2 classes at least"):
        BlockLinearSVC().partial_fit(X, y, [True])
    with pytest.raises(ValueError, match="y has 2, which is not one of the classes"):
        BlockLinearSVC().partial_fit(X, Y, [0, 1])
    with pytest.raises(ValueError, match="'balanced', which needs all rows"):
        BlockLinearSVC(class_weight="balanced").partial_fit(X, y, [False, True])
    model = BlockLinearSVC().partial_fit(X, y, [False, True])
    with pytest.raises(ValueError, match="but were"):
        model.partial_fit(X, y, [0, 1, 2])
    with pytest.raises(ValueError, match="overflow"):
        model.partial_fit(X * 1e200, y)
    with pytest.raises(ValueError, match="rows and classes is from 1e-320 to 1e-320, but must"):
        model.partial_fit(X, y, sample_weight=np.full(300, 1e-320))


@pytest.mark.parametrize("weight", [0.0, -1.0, np.inf, np.nan])
def test_a_class_has_a_weight_above_0(weight):
    model = BlockLinearSVC(class_weight={"no": weight, "yes": 2.0})
    y = np.where(Y == 0, "yes", "no")
    said = f"class_weight of 'no' is {weight}, but must be finite and above 0"
    with pytest.raises(ValueError, match=said):
        model.fit(X, y)
    with pytest.raises(ValueError, match=said):
        model.partial_fit(X, y, ["no", "yes"])


@pytest.mark.parametrize("scoring", [None, "roc_auc", "f1"])
def test_cross_validation_is_that_of_a_grid_search(scoring):
    rows, costs = Y < 2, [1e-3, 0.01, 0.1]
    y = np.array(["b", "a"])[Y[rows]]
    found = BlockLinearSVCCV(costs, cv=4, scoring=scoring, **TIGHT).fit(X[rows], y)
    single = GridSearchCV(
        BlockLinearSVC(**TIGHT), {"C": costs}, cv=4,
        scoring=make_scorer(f1_score, pos_label="b") if scoring == "f1" else scoring,
    ).fit(X[rows], y)  # fmt: skip
    expected = [single.cv_results_[f"split{k}_test_score"] for k in range(4)]
    np.testing.assert_allclose(found.scores_, expected, rtol=1e-3)
    assert single.best_params_["C"] == found.C_
    assert found.Cs_.tolist() == costs
    np.testing.assert_allclose(found.coef_, single.best_estimator_.coef_, rtol=1e-3, atol=1e-4)
    assert (found.predict(X) == single.predict(X)).all()


@pytest.mark.parametrize("classes", [[1, 2], [2, 1], [-1, 1]])
def test_f1_of_numbered_classes_is_that_of_class_1(classes):
    rows = Y < 2
    y = np.array(classes)[Y[rows]]
    found = BlockLinearSVCCV([0.01], cv=4, scoring="f1", **TIGHT).fit(X[rows], y)
    single = GridSearchCV(BlockLinearSVC(**TIGHT), {"C": [0.01]}, cv=4, scoring="f1")
    results = single.fit(X[rows], y).cv_results_
    expected = [results[f"split{k}_test_score"] for k in range(4)]
    np.testing.assert_allclose(found.scores_, expected, rtol=1e-3)


@pytest.mark.parametrize("names", [["no", "yes"], ["yes", "no"], ["c", "b", "a"]])
def test_rows_with_equal_decision_values_are_scored_as_they_are_predicted(names):
    """The first class is theirs, in whatever order the rows come; here that of empty rows."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(60, 3)) * (rng.random((60, 1)) < 0.5)
    y = np.array(names)[np.append(np.arange(len(names)), rng.integers(0, len(names), 60))[:60]]
    how = TIGHT | {"fit_intercept": False}
    found = BlockLinearSVCCV([0.1], cv=4, **how).fit(rows, y)
    single = GridSearchCV(BlockLinearSVC(**how), {"C": [0.1]}, cv=4).fit(rows, y)
    expected = [[single.cv_results_[f"split{k}_test_score"][0]] for k in range(4)]
    np.testing.assert_allclose(found.scores_, expected, rtol=1e-12)


@pytest.mark.parametrize("scoring", [None, "roc_auc", "f1", "f1_macro", "neg_mean_squared_error"])
def test_rows_given_several_times_count_so_in_scores(scoring):
    """And so do weights, as in scikit-learn's `LogisticRegressionCV`."""
    rng = np.random.default_rng(1)
    rows = rng.integers(0, 2, (40, 3)).astype(float)
    y = (rows[:, 0] + rng.normal(0, 0.8, 40) > 0.5) * 1
    if scoring == "f1_macro":
        y += rows[:, 1] > rng.random(40)
    ours, cv = (BlockLinearSVC, BlockLinearSVCCV)
    if scoring == "neg_mean_squared_error":
        ours, cv = (BlockLinearSVR, BlockLinearSVRCV)
    costs, how = [1e-3, 0.1, 10.0], {"cv": 4, "scoring": scoring}
    found = cv(costs, **how, **TIGHT).fit(rows, y)
    single = GridSearchCV(ours(**TIGHT), {"C": costs}, **how).fit(rows, y)
    expected = [single.cv_results_[f"split{k}_test_score"] for k in range(4)]
    np.testing.assert_allclose(found.scores_, expected, rtol=1e-4)
    assert found.n_samples_seen_ == single.best_estimator_.n_samples_seen_ == 40
    distinct, first, counts = np.unique(
        np.column_stack([rows, y]), axis=0, return_index=True, return_counts=True
    )[:3]
    fold = np.arange(len(distinct)) % 3
    of_row = fold[np.argmax((np.column_stack([rows, y])[:, None] == distinct).all(2), axis=1)]
    repeated, weighted = (
        cv(costs, cv=PredefinedSplit(folds), scoring=scoring, **TIGHT).fit(*given)
        for folds, given in ((of_row, (rows, y)), (fold, (rows[first], y[first], counts)))
    )
    np.testing.assert_allclose(weighted.scores_, repeated.scores_, rtol=1e-9)


def test_a_fold_whose_rows_have_weight_0_has_no_score():
    weights = np.r_[np.zeros(20), np.ones(40)]
    how = {"cv": PredefinedSplit(np.repeat([2, 0, 1], 20)), **FEW}
    with pytest.warns(BlocklinearWarning, match="folds without rows: 1 of 3"):
        found = BlockLinearSVCCV([0.1], **how).fit(X[:60], Y[:60] > 0, weights)
    assert np.isnan(found.scores_[2]).all()
    assert np.isfinite(found.scores_[:2]).all()


def test_each_row_a_fold_and_one_without_weight():
    weights = np.r_[0.0, np.ones(11)]
    with pytest.warns(BlocklinearWarning, match="folds without rows: 1 of 12"):
        found = BlockLinearSVRCV([0.1], cv=12, **FEW).fit(X[:12], Z[:12], weights)
    alone = [
        (BlockLinearSVR(0.1, **FEW).fit(X[1:12][rest], Z[1:12][rest]).predict(X[k : k + 1])[0])
        for k in range(1, 12)
        for rest in [np.arange(1, 12) != k]
    ]
    np.testing.assert_allclose(found.scores_[1:, 0], -((alone - Z[1:12]) ** 2), rtol=1e-3)


def test_cross_validation_of_classes_stores_and_splitters(tmp_path):
    costs = [1e-3, 0.1]
    found = BlockLogisticRegressionCV(costs, cv=3, scoring="f1_macro", **TIGHT).fit(X, Y)
    assert found.scores_.shape == (3, 2)
    assert found.predict_proba(X).shape == (300, 3)
    groups = np.arange(300) % 5
    splits = list(LeaveOneGroupOut().split(X, Y, groups))
    own = BlockLogisticRegressionCV(costs, cv=splits, **TIGHT).fit(X, Y)
    assert own.scores_.shape == (5, 2)
    with pytest.raises(ValueError, match="cv makes 1001 folds, and there may be at most 1000"):
        BlockLinearSVCCV(costs, cv=LeaveOneOut(), **FEW).fit(np.eye(1001, 3), np.arange(1001) % 2)
    masks = [(groups != k, groups == k) for k in range(5)]
    own = BlockLogisticRegressionCV(costs, cv=masks, **TIGHT).fit(X, Y)
    assert own.scores_.shape == (5, 2)
    with pytest.raises(ValueError, match="splits that are no folds"):
        BlockLinearSVCCV(costs, cv=ShuffleSplit(3), **FEW).fit(X, Y)
    kept = BlockLinearSVCCV(2, cv=3, refit=False, store=tmp_path / "store", **FEW)
    kept.fit(X, Y)
    assert kept.Cs_.tolist() == [1e-4, 1e4]
    with pytest.raises(NotFittedError):
        kept.predict(X)
    again = BlockLinearSVCCV(costs, cv=3, **FEW).fit_store(tmp_path / "store")
    assert again.C_ in costs
    with pytest.raises(ValueError, match="cv of a store is a number of folds"):
        BlockLinearSVCCV(costs, cv=splits, **FEW).fit_store(tmp_path / "store")
    with pytest.raises(ValueError, match="scoring is 'f1', but must be one of"):
        BlockLinearSVCCV(costs, scoring="f1", **FEW).fit(X, Y)


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
@pytest.mark.parametrize("scoring", ["neg_mean_squared_error", "neg_mean_absolute_error"])
def test_cross_validation_of_values_is_that_of_a_grid_search(loss, scoring):
    costs, how = [1e-3, 0.01, 0.1], {"loss": loss, "epsilon": 0.05, **TIGHT}
    found = BlockLinearSVRCV(costs, cv=4, scoring=scoring, **how).fit(X, Z)
    single = GridSearchCV(BlockLinearSVR(**how), {"C": costs}, cv=4, scoring=scoring).fit(X, Z)
    expected = [single.cv_results_[f"split{k}_test_score"] for k in range(4)]
    np.testing.assert_allclose(found.scores_, expected, rtol=1e-3)
    assert single.best_params_["C"] == found.C_
    np.testing.assert_allclose(found.coef_, single.best_estimator_.coef_, rtol=1e-2, atol=1e-3)
    np.testing.assert_allclose(found.predict(X), single.predict(X), rtol=1e-2, atol=1e-2)
    assert found.score(X, Z) == pytest.approx(single.best_estimator_.score(X, Z), rel=1e-3)


def test_cross_validation_of_values_stores_and_scores(tmp_path):
    kept = BlockLinearSVRCV(2, cv=3, refit=False, store=tmp_path / "store", **FEW).fit(X, Z)
    assert kept.scores_.shape == (3, 2)
    assert (kept.scores_ < 0).all()
    with pytest.raises(NotFittedError):
        kept.predict(X)
    again = BlockLinearSVRCV([0.01, 0.1], cv=3, **FEW).fit_store(tmp_path / "store")
    assert again.C_ in (0.01, 0.1)
    with pytest.raises(ValueError, match="scoring is 'accuracy', but must be one of"):
        BlockLinearSVRCV([0.1], scoring="accuracy", **FEW).fit(X, Z)


def test_a_search_for_C():
    found = BlockLinearSVCCV(None, cv=2, **FEW).fit(X, Y == 0)
    assert len(found.Cs_) > 5
    np.testing.assert_allclose(found.Cs_[1:] / found.Cs_[:-1], 2.0)


def test_verbose_shows_a_bar_and_others_are_silent(capfd):
    BlockLinearSVC(**FEW).fit(X, Y)
    BlockLinearSVCCV([0.1], cv=2, **FEW).fit(X, Y)
    assert capfd.readouterr() == ("", "")
    for estimator in (BlockLinearSVC(verbose=1, **FEW), BlockLinearSVCCV([0.1], cv=2, verbose=1)):
        estimator.fit(X, Y)
        out, err = capfd.readouterr()
        assert (out, "outer iteration" in err) == ("", True)


def test_warnings_are_those_of_scikit_learn_at_the_line_that_called():
    slow = {**FEW, "max_iter": 1, "tol": 1e-9}
    for estimator in (BlockLinearSVC(**slow), BlockLinearSVCCV([1.0], cv=2, **slow)):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            estimator.fit(X, Y)
        assert {warning.category for warning in found} == {ConvergenceWarning}
        assert {warning.filename for warning in found} == {__file__}
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        BlockLinearSVC(**TIGHT).fit(X, Y)
        BlockLinearSVC(**FEW | {"max_iter": 1000}).fit(X * 0.1, Y == 0)
    assert not found


ROWS = np.abs(np.random.default_rng(0).normal(size=(200, 6))) + 0.1


@pytest.mark.parametrize("nu", [0.05, 0.5, 0.9])
@pytest.mark.parametrize("weighted", [False, True])
def test_one_class_models_are_those_of_scikit_learn(nu, weighted):
    weights = np.random.default_rng(1).integers(1, 4, 200) if weighted else None
    repeated = np.repeat(ROWS, weights, axis=0) if weighted else ROWS
    theirs = OneClassSVM(kernel="linear", nu=nu, tol=1e-9).fit(repeated)
    for form in (np.asarray, csr_array):
        ours = BlockLinearOneClassSVM(nu=nu, **TIGHT).fit(form(ROWS), sample_weight=weights)
        np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-3)
        assert ours.offset_ == pytest.approx(theirs.offset_, rel=1e-3)
        assert ours.intercept_ == -ours.offset_
        scores = ours.score_samples(form(ROWS))
        np.testing.assert_allclose(scores, theirs.score_samples(ROWS), rtol=2e-3)
        np.testing.assert_allclose(ours.decision_function(form(ROWS)), scores - ours.offset_)
        assert (ours.predict(form(ROWS)) == theirs.predict(ROWS)).mean() > 0.95
        assert ours.dual_gap_ <= 1e-7


def test_a_one_class_model_that_is_zero_is_not_said_to_need_more_iterations():
    X = np.random.default_rng(0).normal(size=(200, 8))
    X[:, 3] = 2 * X[:, 0] - X[:, 1]
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        fitted = BlockLinearOneClassSVM(nu=0.2, gap=1e-12, **FEW | {"max_iter": 8}).fit(X)
    assert not fitted.coef_.any()
    assert fitted.dual_gap_ > 1e-12
    (warning,) = found
    assert "no plane separates" in str(warning.message)
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        BlockLinearOneClassSVM(nu=0.2, gap=1e-12, **FEW | {"max_iter": 1}).fit(ROWS)


def test_a_one_class_model_of_batches_and_of_a_store(tmp_path):
    ours = BlockLinearOneClassSVM(nu=0.2, store=tmp_path / "kept", **TIGHT)
    ours.fit_batches((part, np.arange(50)) for part in np.split(ROWS, 4))
    again = BlockLinearOneClassSVM(nu=0.2, **TIGHT).fit_store(tmp_path / "kept")
    np.testing.assert_array_equal(ours.coef_, again.coef_)
    plain = BlockLinearOneClassSVM(nu=0.2, **TIGHT).fit(ROWS)
    np.testing.assert_allclose(ours.coef_, plain.coef_, rtol=1e-3)
    assert (ours.fit_predict(ROWS) == plain.predict(ROWS)).mean() > 0.95
