"""Training reaches the optimum that LIBLINEAR finds, on real data; the grid is in bench."""

from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_svmlight_file
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC, LinearSVR

from blocklinear.ingest.split import split
from blocklinear.options import SplitOptions, TextOptions, TrainOptions
from blocklinear.training import train

DATA = Path(__file__).parent / "data"
SQUARED_HINGE, HINGE, LOGISTIC, L2_SVR, L1_SVR = 1, 3, 7, 12, 13
EPSILON = 0.1


def source(name):
    return DATA / f"{name}.train.svm.bz2"


@lru_cache
def rows(name):
    X, y = load_svmlight_file(str(source(name)))
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return X, y


@lru_cache
def optimum(name, solver, cost, bias):
    """P of LIBLINEAR's solution, by its formula, for the model without and with a bias feature."""
    X, y = rows(name)
    if bias >= 0:
        X = sparse.hstack([X, np.full((len(y), 1), bias)], format="csr")
    w, positive = solution(X, y, solver, cost)
    f, t = X @ w, np.where(y == positive, 1, -1)
    slack, excess = np.maximum(0.0, 1 - t * f), np.maximum(0.0, abs(f - y) - EPSILON)
    losses = {
        SQUARED_HINGE: slack**2, HINGE: slack, LOGISTIC: np.logaddexp(0, -t * f),
        L2_SVR: excess**2, L1_SVR: excess,
    }  # fmt: skip
    return 0.5 * w @ w + cost * losses[solver].sum()


def solution(X, y, solver, cost):
    """LIBLINEAR's weights, by the solver that is the most exact, and its positive class."""
    dual = solver in (HINGE, L1_SVR)
    how = {
        "C": cost, "dual": dual, "tol": 1e-4 if dual else 1e-10, "max_iter": 50_000,
        "fit_intercept": False, "random_state": 0,
    }  # fmt: skip
    if solver in (L2_SVR, L1_SVR):
        loss = ("squared_" if solver == L2_SVR else "") + "epsilon_insensitive"
        return LinearSVR(epsilon=EPSILON, loss=loss, **how).fit(X, y).coef_.ravel(), None
    if solver == LOGISTIC:
        svc = LogisticRegression(solver="liblinear", **how).fit(X, y)
    else:
        svc = LinearSVC(loss="hinge" if solver == HINGE else "squared_hinge", **how).fit(X, y)
    return svc.coef_[0], svc.classes_[1]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("objectives")

    @lru_cache
    def make(name, blocks):
        text = TextOptions(threads=2, memory_bytes=256 << 20)
        return split([source(name)], folder / f"{name}{blocks}", SplitOptions(text, blocks))

    return make


@pytest.mark.parametrize(
    ("name", "solver", "blocks", "group", "cost", "bias"),
    [
        ("heart_scale", SQUARED_HINGE, 1, 1, 1.0, -1.0),
        ("heart_scale", SQUARED_HINGE, 4, 1, 0.1, -1.0),
        ("heart_scale", SQUARED_HINGE, 4, 4, 10.0, 1.0),
        ("heart_scale", SQUARED_HINGE, 17, 4, 0.1, 1.0),
        ("phishing", SQUARED_HINGE, 1, 1, 10.0, 1.0),
        ("phishing", SQUARED_HINGE, 4, 4, 1.0, 1.0),
        ("phishing", SQUARED_HINGE, 17, 4, 1.0, -1.0),
        ("agaricus", SQUARED_HINGE, 4, 4, 1.0, 1.0),
        ("agaricus", SQUARED_HINGE, 17, 4, 0.1, -1.0),
        ("a9a", SQUARED_HINGE, 1, 1, 0.1, -1.0),
        ("a9a", SQUARED_HINGE, 17, 4, 0.1, 1.0),
        ("heart_scale", HINGE, 17, 1, 0.1, 1.0),
        ("heart_scale", HINGE, 4, 4, 1.0, -1.0),
        ("phishing", HINGE, 17, 4, 1.0, 1.0),
        ("agaricus", HINGE, 4, 4, 10.0, -1.0),
        ("a9a", HINGE, 17, 4, 0.1, -1.0),
        ("heart_scale", LOGISTIC, 4, 1, 1.0, 1.0),
        ("phishing", LOGISTIC, 17, 4, 1.0, -1.0),
        ("agaricus", LOGISTIC, 17, 1, 10.0, 1.0),
        ("a9a", LOGISTIC, 17, 4, 0.1, -1.0),
        ("heart_scale", L2_SVR, 17, 4, 1.0, -1.0),
        ("phishing", L2_SVR, 4, 4, 1.0, 1.0),
        ("a9a", L2_SVR, 17, 4, 0.1, -1.0),
        ("heart_scale", L1_SVR, 4, 4, 1.0, -1.0),
        ("phishing", L1_SVR, 17, 4, 0.1, 1.0),
        ("agaricus", L1_SVR, 4, 1, 1.0, -1.0),
    ],
)
def test_the_optimum_of_liblinear_is_reached(store, name, solver, blocks, group, cost, bias):
    gap = 1e-3 if solver in (HINGE, L1_SVR) else 1e-6
    options = TrainOptions(
        solver=solver, cost=cost, bias=bias, gap=gap, group=group, threads=2, memory_bytes=1 << 30
    )
    model = train(store(name, blocks), options)
    proof = model.metadata["certificate"]
    excess = proof["primal"] - optimum(name, solver, cost, bias)
    assert excess <= gap * proof["primal"]
    assert excess <= proof["gap"] * proof["primal"]
    assert model.metadata["stopped"] == "converged"
