"""Models as scikit-learn and ONNX have them predict the same."""

import sys

import numpy as np
import pytest
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from blocklinear import LinearModel
from blocklinear.errors import UsageError

N_FEATURES = 7
X = np.random.default_rng(0).normal(size=(200, N_FEATURES)).astype(np.float32)
X[5] = 0.0
X[6] *= 10
X64 = X.astype(np.float64)  # scikit-learn divides rows of float32 in float32
CLASSES = {
    "integers": ((1.0, -1.0), {}),
    "in order": ((2.0, 5.0), {}),
    "texts": ((0.0, 1.0), {0.0: "spam", 1.0: "ham"}),
    "large": ((0.0, 1.0), {0.0: 2**60 + 1, 1.0: 2**60}),
    "three": ((3.0, 1.0, 2.0), {}),
    "three texts": ((0.0, 1.0, 2.0), {0.0: "b", 1.0: "c", 2.0: "a"}),
}
SOLVERS = ["L2R_LR", "L2R_L2LOSS_SVC_DUAL", "L2R_L1LOSS_SVC_DUAL", "MCSVM_CS", "L2R_LR_DUAL"]


def model_of(solver, labels=(), classes=(), normalize="none", bias=1.0, **more):
    rng = np.random.default_rng(1)
    columns = 1 if len(labels) == 2 and solver != "MCSVM_CS" else max(len(labels), 1)
    weights = rng.normal(size=(N_FEATURES, columns))
    bias_weights = rng.normal(size=columns) if bias >= 0 else np.zeros(columns)
    if solver == "MCSVM_CS" and columns == 2:
        weights[:, 1], bias_weights[1] = -weights[:, 0], -bias_weights[0]
    return LinearModel(
        weights, bias_weights, bias, labels, solver, classes=dict(classes),
        metadata={"C": 0.5, "normalize": normalize, "outer_iterations": 3}, **more,
    )  # fmt: skip


CLASSIFIERS = [
    pytest.param(solver, *CLASSES[name], id=f"{solver}-{name}")
    for solver in SOLVERS
    for name in CLASSES
]


def probabilities(model, rows):
    from blocklinear import predict

    return predict(rows, model, probability=True)


def run(made, rows):
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(made.SerializeToString())
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {"X": rows}), strict=True))


@pytest.mark.parametrize("normalize", ["none", "l2"])
@pytest.mark.parametrize(("solver", "labels", "classes"), CLASSIFIERS)
def test_scikit_learn_predicts_the_same(solver, labels, classes, normalize):
    model = model_of(solver, labels, classes, normalize)
    made = model.to_sklearn()
    check_is_fitted(made)
    assert isinstance(made, Pipeline) == (normalize == "l2")
    given = [classes.get(label, label) for label in labels]
    assert made.classes_.tolist() == sorted(given)
    assert (made.predict(X64) == model.predict(X64)).all()
    values = model.decision_function(X64)
    if len(labels) == 2:
        positive = values if values.ndim == 1 else values[:, 0]
        sign = 1.0 if given[0] > given[1] else -1.0
        np.testing.assert_allclose(made.decision_function(X64), sign * positive, rtol=1e-9)
    else:
        order = np.argsort(given)
        np.testing.assert_allclose(made.decision_function(X64), values[:, order], rtol=1e-9)
    assert hasattr(made, "predict_proba") == model.is_logistic
    if model.is_logistic:
        expected = probabilities(model, X64)[:, np.argsort(given)]
        np.testing.assert_allclose(made.predict_proba(X64), expected, 1e-9, 1e-15)


@pytest.mark.parametrize("solver", ["L2R_L2LOSS_SVR", "L2R_L2LOSS_SVR_DUAL", "L2R_L1LOSS_SVR_DUAL"])
@pytest.mark.parametrize("bias", [-1.0, 0.0, 2.5])
def test_regressions(solver, bias):
    model = model_of(solver, bias=bias)
    made = model.to_sklearn()
    np.testing.assert_allclose(made.predict(X), model.predict(X), rtol=1e-9)
    assert made.coef_.shape == (N_FEATURES,)
    assert made.C == 0.5
    assert made.set_params(C=1.0).fit(X, X[:, 0]).n_features_in_ == N_FEATURES


def test_onnx_of_a_regression():
    pytest.importorskip("onnx")
    model = model_of("L2R_L2LOSS_SVR_DUAL", bias=2.5)
    found = run(model.to_onnx(), X)
    np.testing.assert_allclose(found["value"][:, 0], model.predict(X), rtol=1e-9)


@pytest.mark.parametrize("normalize", ["none", "l2"])
@pytest.mark.parametrize(("solver", "labels", "classes"), CLASSIFIERS)
def test_onnx_predicts_the_same(solver, labels, classes, normalize):
    pytest.importorskip("onnx")
    model = model_of(solver, labels, classes, normalize)
    found = run(model.to_onnx(), X)
    assert found["label"].tolist() == model.predict(X).tolist()
    values = model.decision_function(X).reshape(len(X), -1)
    np.testing.assert_allclose(found["decision"], values, rtol=1e-9)
    assert ("probability" in found) == model.is_logistic
    if model.is_logistic:
        np.testing.assert_allclose(found["probability"], probabilities(model, X), 1e-9, 1e-15)


def test_onnx_of_equal_values_and_of_one_class():
    """Whoever is first of equals is so here too; one-class models have labels 1 and -1."""
    pytest.importorskip("onnx")
    rows = np.zeros((3, N_FEATURES), np.float32)
    for labels in ((1.0, -1.0), (-5.0, 5.0), (3.0, 1.0, 2.0)):
        model = model_of("L2R_LR", labels, bias=-1.0)
        assert run(model.to_onnx(), rows)["label"].tolist() == model.predict(rows).tolist()
    for solver in ("L2R_LR", "L2R_L2LOSS_SVC_DUAL"):  # LIBLINEAR trains on rows of one class
        model = LinearModel(np.ones((N_FEATURES, 1)), np.zeros(1), -1.0, (5.0,), solver)
        found = run(model.to_onnx(), X)
        assert found["label"].tolist() == model.predict(X).tolist() == [5] * len(X)
        assert found.get("probability", np.ones(1)).min() == 1.0
        with pytest.raises(UsageError, match="has one class"):
            model.to_sklearn()
    model = model_of("ONECLASS_SVM", bias=-1.0, rho=0.25)
    assert run(model.to_onnx(), X)["label"].tolist() == model.predict(X).tolist()
    with pytest.raises(UsageError, match="no linear one-class model"):
        model.to_sklearn()


def test_probabilities_that_all_underflow_are_even():
    pytest.importorskip("onnx")
    model = model_of("L2R_LR", (1.0, 2.0, 3.0), bias=1.0)
    weights = np.full((N_FEATURES, 3), -1e3)
    model = LinearModel(weights, np.zeros(3), -1.0, model.labels, model.solver)
    found = run(model.to_onnx(), np.ones((1, N_FEATURES), np.float32))
    np.testing.assert_allclose(found["probability"], [[1 / 3] * 3])


def test_onnx_is_written(tmp_path):
    onnx = pytest.importorskip("onnx")
    model = model_of("L2R_LR", (1.0, -1.0))
    made = model.to_onnx(tmp_path / "model.onnx")
    assert onnx.load(tmp_path / "model.onnx") == made
    assert made.producer_name == "blocklinear"
    assert {prop.key: prop.value for prop in made.metadata_props} == {
        "solver": "L2R_LR",
        "C": "0.5",
    }


def test_names_of_features_are_those_of_scikit_learn():
    pd = pytest.importorskip("pandas")
    names = tuple(f"f{k}" for k in range(N_FEATURES))
    model = model_of("L2R_L2LOSS_SVC_DUAL", (1.0, -1.0), feature_names=names)
    made = model.to_sklearn()
    assert made.feature_names_in_.tolist() == list(names)
    frame = pd.DataFrame(X, columns=names)
    assert (made.predict(frame) == model.predict(X)).all()
    for solver, labels in (
        ("L2R_L2LOSS_SVC_DUAL", (1.0, -1.0)), ("L2R_LR_DUAL", (1.0, 3.0, 2.0)),
    ):  # fmt: skip
        model = model_of(solver, labels, normalize="l2", feature_names=names)
        made = model.to_sklearn()  # a warning would be an error
        assert made.feature_names_in_.tolist() == list(names)
        assert (made.predict(frame) == model.predict(X)).all()
        with pytest.raises(ValueError, match="feature names"):
            made.predict(frame[list(names[::-1])])


def test_what_cannot_be_expressed_is_refused(monkeypatch):
    hashed = LinearModel(
        np.zeros((4, 1)), np.zeros(1), -1.0, (1.0, -1.0), "L2R_LR", 0, metadata={"hash_bits": 2}
    )
    for export in (hashed.to_sklearn, hashed.to_onnx):
        with pytest.raises(UsageError, match=r"hashes of 2 bits.*\n.*without --hash-bits"):
            export()
    of_table = model_of("L2R_LR", (1.0, -1.0))
    of_table.metadata["recipe"] = {"hash_bits": 5}
    with pytest.raises(UsageError, match="hashes of 5 bits"):
        of_table.to_onnx()
    odd = model_of("L2R_LR", (0.5, 1.0))
    with pytest.raises(UsageError, match="not integers of 64 bits"):
        odd.to_onnx()
    assert odd.to_sklearn().classes_.tolist() == [0.5, 1.0]
    with pytest.raises(UsageError, match="fractions, or integers of more than 64 bits"):
        model_of("L2R_LR", (0.5, 1.0, 2.0)).to_sklearn()
    assert model_of("L2R_L2LOSS_SVC_DUAL", (0.5, 1.0, 2.0)).to_sklearn().classes_[0] == 0.5
    monkeypatch.setattr("blocklinear.model.exports._MOST_BYTES", 8)
    with pytest.raises(UsageError, match="more than a file of ONNX holds"):
        odd.to_onnx()


@pytest.mark.parametrize(("module", "extra"), [("onnx", "onnx"), ("sklearn.svm", "sklearn")])
def test_packages_that_are_not_installed_are_named(module, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    model = model_of("L2R_LR", (1.0, -1.0))
    with pytest.raises(UsageError, match=rf"blocklinear\[{extra}\]"):
        model.to_onnx() if extra == "onnx" else model.to_sklearn()
