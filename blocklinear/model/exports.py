"""Models as scikit-learn and ONNX have them."""

import os
from importlib import import_module
from typing import Any

import numpy as np

from blocklinear.classes import as_given
from blocklinear.errors import UsageError
from blocklinear.model.parameters import Floats, ModelParameters
from blocklinear.outputs import Output
from blocklinear.solver_types import SOLVERS_BY_NAME

_OPSET, _IR_VERSION = 17, 8
"""Of 2022: what reads ONNX today reads these."""
_MOST_BYTES = 2_000_000_000
"""A file of ONNX is one message of Protocol Buffers, which ends at 2 GB."""


def to_sklearn(model: ModelParameters) -> Any:
    """Return an estimator of scikit-learn with the weights of a model.

    UsageError is raised if scikit-learn is not installed, or cannot express the model.
    """
    _refuse_hashed(model, "scikit-learn")
    if model.solver == "ONECLASS_SVM":
        raise UsageError(
            "scikit-learn has no linear one-class model that is fitted like this one",
            "export it to ONNX",
        )
    svm = _imported("sklearn.svm", "scikit-learn", "sklearn")
    cost = model.metadata.get("C", 1.0)
    solver = SOLVERS_BY_NAME[model.solver]
    how = {
        "C": cost,
        "fit_intercept": model.bias >= 0,
        "intercept_scaling": model.bias if model.bias > 0 else 1.0,
    }
    coef, intercept = model.weights.T.copy(), model.intercept + 0.0
    if model.is_regressor:
        loss = "squared_epsilon_insensitive" if solver.smooth else "epsilon_insensitive"
        made = svm.LinearSVR(loss=loss, dual=not solver.primal, **how)
        _set(made, model, coef[0], intercept)
        return _after_normalizing(made, model)
    if len(model.labels) == 1:
        raise UsageError("the model has one class, and those of scikit-learn have several")
    classes = as_given(np.array(model.labels), model.classes)
    order = np.argsort(classes, kind="stable")
    if model.solver == "MCSVM_CS" and len(order) == 2:
        coef, intercept = coef[:1], intercept[:1]
    if len(coef) > 1:
        coef, intercept = coef[order], intercept[order]
    elif order[0] == 0:  # the second class is the positive one there
        coef, intercept = -coef, -intercept + 0.0
    classes = classes[order]
    if model.is_logistic and len(classes) > 2 and not _are_classes(classes):
        raise UsageError(
            "the labels of the model are fractions, or integers of more than 64 bits, which are "
            "no classes for scikit-learn's OneVsRestClassifier",
            "train with other labels, or predict with blocklinear",
        )
    if not model.is_logistic:
        made = svm.LinearSVC(
            penalty="l1" if solver.l1 else "l2",
            loss="hinge" if solver.loss == "hinge" else "squared_hinge",
            dual=not solver.primal,
            multi_class="crammer_singer" if model.solver == "MCSVM_CS" else "ovr", **how,
        )  # fmt: skip
        _set(made, model, coef, intercept, classes)
    elif len(classes) == 2:
        made = _logistic(model, how, coef, intercept, classes)
    else:
        made = _one_against_the_rest(model, how, coef, intercept, classes)
    return _after_normalizing(made, model)


def _are_classes(labels: Any) -> bool:
    """Return whether scikit-learn takes labels, in an array, for classes."""
    from sklearn.utils.multiclass import type_of_target

    return type_of_target(labels) in ("binary", "multiclass")


def _logistic(
    model: ModelParameters, how: dict[str, Any], coef: Floats, intercept: Floats, classes: Any
) -> Any:
    from sklearn.linear_model import LogisticRegression

    dual = not SOLVERS_BY_NAME[model.solver].primal
    made = LogisticRegression(solver="liblinear", dual=dual, **how)
    _set(made, model, coef, intercept, classes)
    return made


def _one_against_the_rest(
    model: ModelParameters, how: dict[str, Any], coef: Floats, intercept: Floats, classes: Any
) -> Any:
    """Return models of two classes each: one of all has probabilities of another kind there."""
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.preprocessing import LabelBinarizer

    sides = np.array([0, 1])
    parts = [
        _logistic(model, how, coef[k : k + 1], intercept[k : k + 1], sides)
        for k in range(len(classes))
    ]
    made = OneVsRestClassifier(parts[0])
    made.estimators_ = parts
    made.label_binarizer_ = LabelBinarizer(sparse_output=True).fit(classes)
    made.n_features_in_ = model.n_features
    if not hasattr(made, "classes_"):  # before scikit-learn 1.9 it follows from the binarizer
        made.classes_ = classes
    return made


def _set(
    made: Any, model: ModelParameters, coef: Floats, intercept: Floats, classes: Any = None
) -> None:
    made.coef_, made.intercept_ = coef, intercept
    made.n_features_in_ = model.n_features
    made.n_iter_ = model.metadata.get("outer_iterations", 0)
    if model.feature_names is not None and len(model.feature_names) == model.n_features:
        made.feature_names_in_ = np.array(model.feature_names, object)
    if classes is not None:
        made.classes_ = classes


def _after_normalizing(made: Any, model: ModelParameters) -> Any:
    """Return an estimator behind what normalises rows, if they were in training."""
    if model.normalize == "none":
        return made
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import Normalizer

    first = Normalizer()
    first.n_features_in_ = model.n_features
    for one in (made, *getattr(made, "estimators_", [])):  # what comes from the first has no names
        if "feature_names_in_" in vars(one):
            first.feature_names_in_ = vars(one).pop("feature_names_in_")
    return make_pipeline(first, made)


def to_onnx(model: ModelParameters, path: str | os.PathLike[str] | Output | None = None) -> Any:
    """Return a model as ONNX; write it under `path`, if one is given.

    UsageError is raised if the package onnx is not installed, or ONNX cannot express the model;
    StorageError if writing fails.
    """
    _refuse_hashed(model, "ONNX")
    if model.weights.nbytes > _MOST_BYTES:
        raise UsageError(
            f"{model.weights.size} weights take {model.weights.nbytes} bytes, more than a file of "
            "ONNX holds", "train on fewer features, or predict with blocklinear",
        )  # fmt: skip
    labels = None if model.is_regressor else _label_tensor(model)
    onnx = _imported("onnx", "onnx", "onnx")
    graph = _Graph(onnx)
    X = graph.node("Cast", ["X"], to=onnx.TensorProto.DOUBLE)
    if model.normalize == "l2":
        X = graph.normalized(X)
    weights = graph.constant(model.weights)
    decision = graph.node("MatMul", [X, weights])
    decision = graph.node("Add", [decision, graph.constant(model.intercept)])
    if labels is None:
        graph.result("value", decision, onnx.TensorProto.DOUBLE, 1)
    else:
        kind = onnx.TensorProto.STRING if labels.dtype == object else onnx.TensorProto.INT64
        places = graph.places(decision, len(labels))
        label = graph.node("Gather", [graph.constant(labels), places])
        graph.result("label", label, kind, None)
        graph.result("decision", decision, onnx.TensorProto.DOUBLE, model.n_columns)
        if model.is_logistic:
            shares = graph.shares(decision, len(labels))
            graph.result("probability", shares, onnx.TensorProto.DOUBLE, len(labels))
    made = graph.model(model)
    if path is not None:
        with Output.of(path).open() as stream:
            stream.write(made.SerializeToString())
    return made


def _label_tensor(model: ModelParameters) -> Any:
    """Return the outcomes, in their order, as int64 or text."""
    labels = as_given(np.array(model.outcomes), model.classes)
    if labels.dtype.kind == "U":
        return labels.astype(object)
    numbers = [int(label) for label in labels.tolist()]
    if numbers != labels.tolist() or not all(-(1 << 63) <= n < 1 << 63 for n in numbers):
        raise UsageError(
            "the labels of the model are not integers of 64 bits, as those of ONNX are",
            "train with other labels, or predict with blocklinear",
        )
    return np.array(numbers, np.int64)


class _Graph:
    """Nodes and constants of a graph of ONNX. All numbers in it are float64."""

    def __init__(self, onnx: Any) -> None:
        self._onnx = onnx
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._outputs: list[Any] = []

    def node(self, kind: str, inputs: list[str], **attributes: Any) -> str:
        """Add a node; return the name of what it computes."""
        name = f"n{len(self._nodes)}"
        self._nodes.append(self._onnx.helper.make_node(kind, inputs, [name], **attributes))
        return name

    def constant(self, array: Any) -> str:
        """Add a constant; return its name."""
        name = f"c{len(self._constants)}"
        self._constants.append(self._onnx.numpy_helper.from_array(np.asarray(array), name))
        return name

    def result(self, name: str, value: str, kind: int, columns: int | None) -> None:
        """Make a value an output of this name; `columns` is None where it is a vector."""
        self._nodes.append(self._onnx.helper.make_node("Identity", [value], [name]))
        shape = [None] if columns is None else [None, columns]
        self._outputs.append(self._onnx.helper.make_tensor_value_info(name, kind, shape))

    def _sums(self, values: str) -> str:
        """Return the sum of each row, as a column."""
        return self.node("ReduceSum", [values, self.constant(np.array([1], np.int64))], keepdims=1)

    def _unless_zero(self, column: str) -> tuple[str, str]:
        """Return where a column is 0, and the column with 1 there."""
        zero = self.node("Equal", [column, self.constant(np.zeros(1))])
        return zero, self.node("Where", [zero, self.constant(np.ones(1)), column])

    def normalized(self, X: str) -> str:
        """Divide each row by its Euclidean norm, unless that is 0."""
        _, squares = self._unless_zero(self._sums(self.node("Mul", [X, X])))
        return self.node("Div", [X, self.node("Sqrt", [squares])])

    def places(self, decision: str, n_labels: int) -> str:
        """Return the place of the label of each row: as `LinearModel.class_indices`."""
        if n_labels != 2:
            return self.node("ArgMax", [decision], axis=1, keepdims=0)
        first = self.node("Gather", [decision, self.constant(np.array(0))], axis=1)
        positive = self.node("Greater", [first, self.constant(np.zeros(1))])
        other = self.node("Not", [positive])
        return self.node("Cast", [other], to=self._onnx.TensorProto.INT64)

    def shares(self, decision: str, n_labels: int) -> str:
        """Return the probabilities of logistic regression."""
        shares = self.node("Sigmoid", [decision])
        if n_labels == 2:
            one = self.constant(np.ones(1))
            return self.node("Concat", [shares, self.node("Sub", [one, shares])], axis=1)
        zero, totals = self._unless_zero(self._sums(shares))
        even = self.constant(np.full(1, 1.0 / n_labels))
        return self.node("Where", [zero, even, self.node("Div", [shares, totals])])

    def model(self, model: ModelParameters) -> Any:
        """Return all of it, checked."""
        helper, tensor = self._onnx.helper, self._onnx.TensorProto
        X = helper.make_tensor_value_info("X", tensor.FLOAT, [None, model.n_features])
        graph = helper.make_graph(self._nodes, "blocklinear", [X], self._outputs, self._constants)
        made = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION,
            producer_name="blocklinear",
        )  # fmt: skip
        facts = {"solver": model.solver, "C": str(model.metadata.get("C", ""))}
        helper.set_model_props(made, facts)
        self._onnx.checker.check_model(made, full_check=True)
        return made


def _refuse_hashed(model: ModelParameters, format: str) -> None:
    recipe = model.metadata.get("recipe")
    bits = model.hash_bits or (recipe or {}).get("hash_bits", 0)
    if bits:
        raise UsageError(
            f"the features of the model are hashes of {bits} bits, made from the names "
            f"in the input: {format} has no such hash",
            "split without --hash-bits and train again, or predict with blocklinear",
        )


def _imported(name: str, package: str, extra: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise UsageError(
            f"this needs {package}, which cannot be imported ({error})",
            f"pip install 'blocklinear[{extra}]'",
        ) from error
