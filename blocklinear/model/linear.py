"""A trained linear model: its weights, what they mean, and how they are kept on disk."""

import math
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import numpy.typing as npt

from blocklinear.arguments import check_count, check_sparse, described
from blocklinear.classes import as_given, given_labels
from blocklinear.errors import BlocklinearWarning, DamagedError, InputError, UsageError
from blocklinear.markup import facts_html
from blocklinear.memory import exact_size
from blocklinear.model import exports, liblinear
from blocklinear.model.files import read_model, write_model
from blocklinear.model.parameters import (
    Floats,
    ModelParameters,
    WeightsToRead,
    expected_columns,
)
from blocklinear.model.top_weights import largest
from blocklinear.numerals import as_json, counted, format_number
from blocklinear.outputs import Output
from blocklinear.recipe import names_of_features
from blocklinear.solver_types import SOLVERS_BY_NAME

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from blocklinear.model.evaluation import Evaluation

Names = Sequence[str] | Callable[[int], str]
MAX_FEATURES = 1 << 32  # indices in the text are below this
_REAL = "biufO"  # kinds of NumPy arrays that hold real numbers, or objects that may be


@dataclass(frozen=True, eq=False, repr=False)
class LinearModel(ModelParameters):
    """A linear classifier or regressor, checked when it is made.

    Parameters
    ----------
    weights : ndarray of float64, shape (n_features, n_columns)
        Kept in C order. One column for two classes, for regression and for one-class models;
        otherwise, and always for MCSVM_CS, one column for each class.
    bias_weights : ndarray of float64, shape (n_columns,)
        Weights of the bias feature; zeros where there is none.
    bias : float
        Value of the bias feature; negative means there is none.
    labels : tuple of float
        The classes, in LIBLINEAR's order; empty for regression and one-class models.
    solver : str
        LIBLINEAR's name of the problem, a key of `SOLVERS_BY_NAME`.
    index_base : int
        The number the training text gave to the first feature, 0 or 1.
    metadata : dict
        Further facts, as JSON: numbers that are not finite become None. ``hash_bits`` and
        ``normalize`` are how rows are transformed before the weights are applied.
    rho : float
        Subtracted from the decision value; for one-class models only.
    classes : mapping of float to str or int
        Labels as they were given, where those of `labels` are numbers that stand for them: text,
        and integers beyond 2**53. LIBLINEAR's text does not keep them.
    feature_names : tuple of str or None
        Of the features, the first ones if some have none. LIBLINEAR's text does not keep them.
    history : RunHistory or None
        What training reported to the program that trained the model. Files do not keep it, so that
        the same model makes the same file: they hold no times.

    Raises
    ------
    UsageError
        If the parts do not fit together, or a weight is not finite.
    """

    history: Any = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        for name in ("weights", "bias_weights"):
            array = np.ascontiguousarray(getattr(self, name), dtype=np.float64)
            object.__setattr__(self, name, array)
        object.__setattr__(self, "bias", float(self.bias))
        object.__setattr__(self, "rho", float(self.rho))
        object.__setattr__(self, "labels", tuple(map(_label, self.labels)))
        try:
            object.__setattr__(self, "metadata", as_json(dict(self.metadata)))
        except TypeError as error:
            raise UsageError(f"metadata holds {error}", "keep to what JSON can hold") from error
        object.__setattr__(self, "classes", dict(self.classes))
        for problem in self._problems():
            raise UsageError(f"model: {problem}", "build the model from parts of one training run")

    def _problems(self) -> Iterator[str]:
        if self.solver not in SOLVERS_BY_NAME:
            yield f"solver {self.solver!r} is not one of {', '.join(SOLVERS_BY_NAME)}"
        if self.index_base not in (0, 1):
            yield f"index_base must be 0 or 1, got {self.index_base}"
        if not all(math.isfinite(label) for label in self.labels):
            yield "labels must be finite"
        if len(set(self.labels)) != len(self.labels):
            yield "labels must differ from one another"
        if self.is_classifier != bool(self.labels):
            yield f"{self.solver} with {counted(len(self.labels), 'label')}"
        if self.weights.ndim != 2 or self.weights.shape[0] > MAX_FEATURES:
            yield f"weights must be (n_features, n_columns), got shape {self.weights.shape}"
        columns = expected_columns(self.solver, len(self.labels))
        if self.weights.shape[1] != columns or self.bias_weights.shape != (columns,):
            shapes = f"{self.weights.shape} and {self.bias_weights.shape}"
            yield f"weights and bias_weights must have {columns} columns, got {shapes}"
        if not (_finite(self.weights) and _finite(self.bias_weights)):
            yield "weights must be finite"
        if not (math.isfinite(self.bias) and math.isfinite(self.rho)):
            yield f"bias and rho must be finite, got {self.bias} and {self.rho}"
        if self.bias < 0 and self.bias_weights.any():
            yield f"bias {format_number(self.bias)} means none, yet its weights are not zero"
        if type(self.hash_bits) is not int or not 0 <= self.hash_bits <= 31:
            yield f"hash_bits must be from 0 to 31, got {self.hash_bits!r}"
        elif self.hash_bits and (self.index_base, self.n_features) != (0, 1 << self.hash_bits):
            hashes = f"hashes of {counted(self.hash_bits, 'bit')}"
            yield f"{counted(self.n_features, 'feature does', 'features do')} not fit {hashes}"
        if self.normalize not in ("none", "l2"):
            yield f"normalize must be 'none' or 'l2', got {self.normalize!r}"
        if self.rho != 0.0 and self.solver != "ONECLASS_SVM":
            yield f"rho must be 0 for {self.solver}, got {self.rho}"
        if not set(self.classes) <= set(self.labels):
            yield "classes must be of labels"
        if self.feature_names is not None and len(self.feature_names) > self.n_features:
            features = counted(self.n_features, "feature")
            yield f"{len(self.feature_names)} feature_names for {features}"

    def decision_function(self, X: Any) -> Floats:
        """Compute the decision values of some rows.

        Parameters
        ----------
        X : scipy sparse matrix or array_like, shape (n_rows, any)
            Column j is feature j, counted from 0; columns the model does not know are ignored. If
            features are hashed, columns are hashes. Rows are normalised as in training. Names of
            the columns of a data frame have to be those of `feature_names`, in their order; a model
            of tables, or of hashes, takes no data frame with names.

        Returns
        -------
        ndarray of float64, shape (n_rows,) or (n_rows, n_columns)
            A column for each of `labels`, in their order; one value a row if the model has one
            column, above 0 for the first of two labels.

        Raises
        ------
        InputError
            A ValueError, as in scikit-learn: if `X` does not have two dimensions, has NaN or inf,
            known to the model or not, masked values, or named columns that are not the features;
            or if the decision value of a row overflows.
        """
        from scipy.sparse import issparse  # late: `info` does without scipy

        names = _names(X)
        if names and "recipe" in self.metadata:
            raise InputError(
                f"X is {described(X)}, and the model has features that are made of its columns",
                "predict rows by TablePredictor, or tables by the command blocklinear predict",
            )
        if names and self.hash_bits:
            raise InputError(
                f"X is {described(X)} with names of columns, and the features of the model are "
                "hashes", "give the hashes as columns of a matrix, or predict text",
            )  # fmt: skip
        if names and self.feature_names:
            self._check_names(names, self.feature_names)
        if issparse(X):
            if X.dtype.kind not in "biuf":  # SciPy does not multiply objects
                raise _no_numbers(X)
            check_sparse(X)
        rows = X.tocsr() if issparse(X) else _dense(X)
        if rows.ndim != 2:
            raise InputError(f"X has shape {rows.shape}", "give it two dimensions: rows, features")
        _check_finite(rows)
        if self.normalize == "l2":
            rows = _normalized(rows)
        known = min(rows.shape[1], self.n_features)
        if rows.shape[1] > known:
            rows = rows[:, :known]
        with np.errstate(over="ignore", invalid="ignore"):
            decisions = np.asarray(rows @ self.weights[:known], np.float64) + self.intercept
        self.check_decisions(decisions)
        return decisions[:, 0] if self.n_columns == 1 else decisions

    def _check_names(self, names: Sequence[str], known: Sequence[str]) -> None:
        """Refuse columns that are not the features of the model, of which the last may be unnamed.

        Parameters
        ----------
        names, known : sequence of str
            Of the columns of a data frame, and of the first features.
        """
        j = next((j for j, (a, b) in enumerate(zip(names, known, strict=False)) if a != b), None)
        if j is not None:
            problem = (
                f"column {j} of X is {names[j]!r}, and feature {j} of the model is {known[j]!r}"
            )
        elif len(names) < len(known):
            problem = f"X has no column {known[len(names)]!r}, which is a feature of the model"
        elif len(names) > self.n_features:
            problem = f"column {names[self.n_features]!r} of X is no feature of the model"
        else:
            return
        raise InputError(problem, "give X the columns of the model's feature_names, in their order")

    @staticmethod
    def check_decisions(decisions: Floats, first_row: int = 0) -> None:
        """Refuse decision values that are not finite: they choose no class.

        Whether products that overflow add up to inf or to NaN depends on the order of the sum.

        Parameters
        ----------
        decisions : ndarray of float64, shape (n_rows, n_columns)
        first_row : int
            The number of the first of these rows, for the message.

        Raises
        ------
        InputError
        """
        if not _finite(decisions):
            row = first_row + int(np.flatnonzero(~np.isfinite(decisions).all(axis=1))[0])
            raise InputError(
                f"row {row}: its decision value overflows",
                "scale the data, or look for weights of the model that are too large",
            )

    def class_indices(self, decisions: Floats) -> npt.NDArray[np.intp]:
        """Choose an outcome for each row by LIBLINEAR's rule.

        Parameters
        ----------
        decisions : ndarray of float64, shape (n_rows, n_columns)

        Returns
        -------
        ndarray of intp, shape (n_rows,)
            Positions in `outcomes`. Of two: the first if its value is above 0, also for
            MCSVM_CS; of more: the first of the largest.
        """
        if len(self.outcomes) == 2:
            chosen: npt.NDArray[np.intp] = (~(decisions[:, 0] > 0)).astype(np.intp)
        else:
            chosen = np.argmax(decisions, axis=1)
        return chosen

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Predict the label, or the value in regression, of each row of `X`.

        Parameters
        ----------
        X : scipy sparse matrix or array_like, shape (n_rows, any)
            As for `decision_function`.

        Returns
        -------
        ndarray, shape (n_rows,)
            Labels as they were given: float64, or text or integers where the model has `classes`.

        Raises
        ------
        InputError
            As `decision_function` does.
        """
        decisions = self.decision_function(X)
        if self.is_regressor:
            return decisions
        table = as_given(np.array(self.outcomes), self.classes)
        return table[self.class_indices(decisions.reshape(len(decisions), self.n_columns))]

    def evaluate(self, X: Any, y: npt.ArrayLike, positive: Any = None) -> "Evaluation":
        """Compare labels with what the model says of some rows.

        Parameters
        ----------
        X : scipy sparse matrix or array_like, shape (n_rows, any)
            As for `decision_function`.
        y : array_like, shape (n_rows,)
            Labels as they were given, or the values of a regression.
        positive : number or str
            The class of two that curves and F1 are of; None is the larger label.

        Returns
        -------
        Evaluation
            Scores, and with `plot_roc`, `plot_precision_recall`, `plot_calibration` and
            `plot_confusion` their figures.

        Raises
        ------
        InputError
            As `decision_function` does, or if `y` does not fit `X`, or there are no rows.
        UsageError
            If `positive` is not one of two classes.
        """
        from blocklinear.model.evaluation import evaluate_rows  # late: `info` does without

        return evaluate_rows(self, X, y, positive)

    def top_weights(
        self, top: int = 20, label: Any = None, names: Names | None = None
    ) -> list[tuple[str, float]]:
        """Return the features of the largest weights by size, with their weights.

        Parameters
        ----------
        top : int
            How many; weights of 0 are left out.
        label : number or str
            The class whose weights are meant, where there is a column for each. Of two classes with
            one column, weights above 0 are for the first of `labels`, or for the one given here.
        names : sequence of str, callable or None
            Of the features, counted from 0: the first ones if some have none, or what returns the
            name of a number. By default `feature_names`, or of a model of tables what its recipe
            calls them, such as ``city=Rome``.

        Returns
        -------
        list of (str, float)
            The largest first. A feature without a name is called ``feature 7``, by its number in
            the input; one that is hashed ``hash 7``.

        Raises
        ------
        UsageError
            If `top` is not at least 1, or `label` is no class.
        """
        top = check_count("top", top)
        column, sign = self._column_of(label)
        found = largest(self.weights, column, top)
        weights = sign * self.weights[found, column]
        return [
            (self.feature_name(k, names), weight)
            for k, weight in zip(found.tolist(), weights.tolist(), strict=True)
        ]

    def weights_for(self, label: Any = None) -> Floats:
        """Return the weights for a class, float64[n_features]; `label` as for `top_weights`.

        Raises
        ------
        UsageError
            If `label` is no class.
        """
        column, sign = self._column_of(label)
        return np.asarray(sign * self.weights[:, column])

    def meaning_of_weights(self, label: Any = None) -> str:
        """Return what a weight above 0 speaks for: ``for class 1``, or nothing of regression."""
        return f"for class {self.outcome_names[self._place_of(label)]}" if self.outcomes else ""

    def feature_name(self, number: int, names: Names | None = None) -> str:
        """Return the name of a feature, counted from 0, or what stands for one."""
        if callable(names):
            return names(number)
        found = self.name_or_index(number, names)
        return found if isinstance(found, str) else f"feature {found}"

    @cached_property
    def _name_in_table(self) -> Callable[[int], str] | None:
        return names_of_features(self.metadata, self.n_features, "the model")

    def name_or_index(self, number: int, names: Sequence[str] | None = None) -> str | int:
        """Return the name of a feature, counted from 0; if it has none, its index in text.

        Raises
        ------
        MismatchError
            If `names` is None, and the recipe of a model of tables is not that of its weights.
        """
        if names is None and self._name_in_table is not None:
            return self._name_in_table(number)
        names = self.feature_names if names is None else names
        if names is not None and number < len(names):
            return str(names[number])
        return f"hash {number}" if self.hash_bits else number + self.index_base

    def _column_of(self, label: Any) -> tuple[int, float]:
        """Return the column of a class, and the sign with which its weights are for the class."""
        place = self._place_of(label)
        return (0, 1.0 - 2.0 * place) if self.n_columns == 1 else (place, 1.0)

    def _place_of(self, label: Any) -> int:
        """Return the place of a class as it was given, 0 for None."""
        if label is None:
            return 0
        named = given_labels(self.outcomes, self.named)
        for table in (named, self.given_outcomes):
            if label in table:
                return table.index(label)
        raise UsageError(
            f"label is {label!r}, which is no class of the model",
            f"name one of {', '.join(self.outcome_names[:10])}" if named else "leave it out",
        )

    def code_of(self, label: Any) -> float | None:
        """Return the number that a class as it was given has in `labels`; None for None."""
        return None if label is None else self.outcomes[self._place_of(label)]

    @property
    def given_outcomes(self) -> list[Any]:
        """The outcomes as they were given: numbers, text or integers; empty for regression."""
        return given_labels(self.outcomes, self.classes)

    def plot_weights(
        self,
        names: Names | None = None,
        top: int = 20,
        label: Any = None,
        ax: "Axes | None" = None,
    ) -> "Figure":
        """Draw the largest weights as bars.

        Parameters
        ----------
        names, top, label
            As for `top_weights`. Of more than two classes `label` names one; None is the first.
        ax : matplotlib Axes or None
            Where to draw; None makes a figure.

        Returns
        -------
        matplotlib.figure.Figure

        Raises
        ------
        UsageError
            As `top_weights` does, or if matplotlib is not installed.
        """
        from blocklinear.figures.weights import draw_weights  # late: figures are an extra

        found = self.top_weights(top, label, names)
        return draw_weights(
            [name for name, _ in found], [w for _, w in found], self.meaning_of_weights(label), ax
        )

    def plot_training(
        self, quantity: str = "gap", against: str | Sequence[str] = ("seconds",)
    ) -> "Figure":
        """Draw how training came nearer to the optimum; see `RunHistory.plot`.

        Raises
        ------
        UsageError
            If the model was read from a file, which does not keep it, or matplotlib is missing.
        InputError
            If there is nothing that can be drawn.
        """
        if self.history is None:
            raise UsageError(
                "the model was not trained by this program: files of models keep no history",
                "train with --log FILE, and draw blocklinear.read_log(FILE).plot()",
            )
        figure: Figure = self.history.plot(quantity, against)
        return figure

    def save(
        self,
        path: str | os.PathLike[str] | Output,
        format: Literal["native", "liblinear"] = "native",
    ) -> None:
        """Write the model under `path`, whole or not at all.

        Parameters
        ----------
        path : str, path or Output
            Nothing, an empty file or another model may be there. A stream, as the str ``-`` for
            standard output, a pipe or a device, is written to as it is.
        format : {"native", "liblinear"}
            `liblinear` is the text that LIBLINEAR's own programs read. It keeps no metadata, and
            neither that rows are normalised nor labels that are no numbers, of which a
            `BlocklinearWarning` warns.

        Raises
        ------
        UsageError
            If `path` holds something that is not a model, or is in a store, `format` is unknown,
            or LIBLINEAR's format cannot express the model.
        StorageError
            If writing fails.
        """
        write_model(self, Output.of(path), format)
        if format == "liblinear":
            for message in liblinear.not_kept(self.normalize, self.classes):
                warnings.warn(message, BlocklinearWarning, stacklevel=2)

    def to_sklearn(self) -> Any:
        """Return an estimator of scikit-learn with these weights (extra ``sklearn``).

        Predictions are the same, but where decision values are equal, or that of two classes is
        exactly 0: the estimator then takes the first class in ascending order.

        Returns
        -------
        LinearSVC, LogisticRegression or LinearSVR
            By the loss; logistic regression of more than two classes is a `OneVsRestClassifier`.
            Where training normalised rows, a `Pipeline` that does so first.

        Raises
        ------
        UsageError
            If scikit-learn is not installed; if features are hashed; for one-class models.
        """
        return exports.to_sklearn(self)

    def to_onnx(self, path: str | os.PathLike[str] | Output | None = None) -> Any:
        """Return the model as ONNX (extra ``onnx``); write it under `path`, if one is given.

        Its input is ``X``, float32[n_rows, n_features]; of tables, the features that their columns
        become, as `feature_name` has them. Its outputs, computed in float64, are
        ``label``, int64 or text, and ``decision``; ``probability`` too for logistic regression, in
        the order of `labels`. Of a regression there is ``value``, of shape (n_rows, 1).

        Parameters
        ----------
        path : str, path, Output or None

        Returns
        -------
        onnx.ModelProto

        Raises
        ------
        UsageError
            If the package onnx is not installed; if features are hashed, labels are not integers of
            64 bits or text, or there are more than 2 GB of weights.
        StorageError
            If writing fails.
        """
        return exports.to_onnx(self, path)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        admit: Callable[[WeightsToRead], None] = lambda found: None,
    ) -> Self:
        """Read a model of either format, recognised by its first bytes.

        Parameters
        ----------
        path : path
        admit : callable
            Called with what is known before the weights are read: `n_bytes` that they take,
            `n_columns`, and whether the model is `of_tables`. It may raise.

        Returns
        -------
        LinearModel

        Raises
        ------
        DamagedError
            If the file is not a whole model.
        MismatchError
            If a newer version of the program wrote it.
        MemoryBudgetError
            If the weights cannot fit the memory of this machine.
        UsageError
            If it is a URL.
        StorageError
            If the file cannot be read, or is a pipe or a device.
        """
        found = read_model(path, admit)
        try:
            return cls(**{part.name: getattr(found, part.name) for part in fields(found)})
        except UsageError as error:
            raise DamagedError(
                f"{os.fspath(path)}: {error.what}", "train again, or fetch the file again"
            ) from error

    def describe(self) -> dict[str, Any]:
        """Return what ``info --json`` prints: the metadata and the shape of the model."""
        return {
            **self.metadata,
            "solver": self.solver,
            "labels": given_labels(self.labels, self.named),
            "named_features": len(self.feature_names or ()),
            "features": self.n_features,
            "columns": self.n_columns,
            "nonzero_weights": int(np.count_nonzero(self.weights)),
            "bias": self.bias,
            "index_base": self.index_base,
        }

    def summary(self) -> str:
        """Describe the model in a few lines for people."""
        return "\n".join(f"{name:<16} {text}" for name, text in self.facts().items())

    def __repr__(self) -> str:
        facts = [self.solver]
        if self.labels:
            more = " ..." if len(self.labels) > 10 else ""
            facts.append(f"classes {' '.join(self.outcome_names[:10])}{more}")
        facts.append(counted(self.n_features, "feature"))
        for name in ("C", "nu", "l1_ratio"):
            if name in self.metadata:
                facts.append(f"{name} {_text_of(self.metadata[name])}")
        return f"LinearModel({', '.join(facts)})"

    def _repr_html_(self) -> str:
        return facts_html("LinearModel", self.facts())

    def facts(self) -> dict[str, str]:
        """Return what people want to know of the model, by name."""
        lines = {"solver": f"{self.solver} (-s {SOLVERS_BY_NAME[self.solver].number})"}
        if self.labels:
            shown = " ".join(self.outcome_names[:10])
            more = " ..." if len(self.labels) > 10 else ""
            lines["classes"] = f"{len(self.labels)}: {shown}{more}"
        if self.classes:
            lines["labels in text"] = " ".join(map(format_number, self.labels[:10])) + more
        lines["features"] = f"{self.n_features} (numbered from {self.index_base})"
        lines["nonzero weights"] = f"{np.count_nonzero(self.weights)} of {self.weights.size}"
        if self.hash_bits:
            lines["features"] = f"{self.n_features} (hashed to {counted(self.hash_bits, 'bit')})"
        if self.normalize != "none":
            lines["rows"] = "divided by their Euclidean norm"
        lines["bias"] = format_number(self.bias) if self.bias >= 0 else "none"
        for name in ("C", "nu", "l1_ratio"):
            if name in self.metadata:
                lines[name] = _text_of(self.metadata[name])
        if self.solver == "ONECLASS_SVM":
            lines["rho"] = format_number(self.rho)
        certificate = self.metadata.get("certificate")
        if isinstance(certificate, Mapping) and isinstance(certificate.get("gap"), float):
            lines["certified gap"] = f"{certificate['gap']:.3g}"
        budget = self.metadata.get("memory_bytes")
        if type(budget) is int and 0 < budget < 1 << 63:
            lines["memory budget"] = exact_size(budget)
        return lines


def _names(X: Any) -> list[Any]:
    """Return the names of the columns of a data frame, of Arrow too; none if some are numbers."""
    names = list(getattr(X, "column_names", getattr(X, "columns", ())))
    return names if all(isinstance(name, str) for name in names) else []


def _normalized(rows: Any) -> Any:
    """Return a copy of `rows`, dense or CSR, each divided by its Euclidean norm."""
    from blocklinear.kernels.blocks.scaling import normalize_rows  # late: `info` does without numba

    rows = rows.astype(np.float64)  # a copy, always
    if isinstance(rows, np.ndarray):
        lengths, values = np.full(len(rows), rows.shape[1]), np.ascontiguousarray(rows).reshape(-1)
        normalize_rows(lengths, values, np.empty(len(rows)))
        return values.reshape(rows.shape)
    rows.sum_duplicates()
    normalize_rows(np.diff(rows.indptr).astype(np.int64), rows.data, np.empty(rows.shape[0]))
    return rows


def _label(value: float) -> float:
    """Return a label as a float64 that is not -0; infinite if it is an integer out of range."""
    try:
        return float(value) + 0.0
    except OverflowError:
        return math.inf


def _dense(X: Any) -> Floats:
    """Return rows given as an array, or as what becomes one."""
    if isinstance(X, np.ma.MaskedArray) and np.ma.is_masked(X):
        raise InputError("X has values that are masked", "impute numbers")
    try:
        given = np.asarray(X)
    except (TypeError, ValueError, OverflowError) as error:
        raise _no_numbers(X) from error
    if given.dtype.kind not in _REAL:
        raise _no_numbers(X)
    try:
        return np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise _no_numbers(X, _first_object(given)) from error


def _first_object(rows: npt.NDArray[Any]) -> str:
    """Return which of the objects in rows is the first that is no number, as the NA of pandas."""
    for place, value in np.ndenumerate(rows):
        try:
            np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            return f"; at {list(place)} is {described(value)}"
    return ""


def _no_numbers(X: Any, more: str = "") -> InputError:
    return InputError(
        f"X is {described(X)}, but must be a SciPy matrix or an array of real numbers{more}",
        "rows in a file are predicted by the command blocklinear predict",
    )


def _check_finite(rows: Any) -> None:
    """Refuse NaN and inf in rows, dense or CSR."""
    dense = isinstance(rows, np.ndarray)
    values = rows if dense else rows.data[: rows.indptr[-1]]
    if _finite(values):
        return
    if dense:
        row, column = np.argwhere(~np.isfinite(values))[0]
    else:
        k = np.flatnonzero(~np.isfinite(values))[0]
        row, column = np.searchsorted(rows.indptr, k, side="right") - 1, rows.indices[k]
    shown = "NaN" if np.isnan(rows[row, column]) else "inf"
    raise InputError(
        f"X has {shown} in row {row}, column {column}", "impute a number, or leave the row out"
    )


def _finite(array: Floats) -> bool:
    """Whether all is finite, without a temporary as long as the weights."""
    return array.size == 0 or bool(np.isfinite(array.min()) and np.isfinite(array.max()))


def _text_of(value: Any) -> str:
    """Return a parameter as it is asked for: C 1, not 1.0."""
    return format_number(value) if isinstance(value, float) else str(value)
