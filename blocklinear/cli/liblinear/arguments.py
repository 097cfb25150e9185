"""Read the arguments of LIBLINEAR's ``train`` and ``predict`` as these programs read them.

Options come first, and the value of an option is the next argument. Of an option only the first
letter counts: ``-cost 4`` is ``-c 4``.
"""

import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

from blocklinear.solver_types import CRAMMER_SINGER, ONE_CLASS, SOLVER_TYPES

_TOLERANCES = {0: 0.01, 2: 0.01, 5: 0.01, 6: 0.01, 11: 0.0001, 21: 0.01}
_DUAL_TOLERANCE = 0.1
_SEARCHED = (0, 2, 11)
_NUMERAL = re.compile(r"\s*[+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?\s*", re.ASCII)
"""What numbers are made of, where float() and int() take 1_000 and digits of other scripts."""

TRAIN_USAGE = """\
Usage: blocklinear liblinear train [options] training_set_file [model_file]
options:
-s type : solver (default 1)
  classification
\t 0 -- L2-regularized logistic regression (primal)
\t 1 -- L2-regularized L2-loss support vector classification (dual)
\t 2 -- L2-regularized L2-loss support vector classification (primal)
\t 3 -- L2-regularized L1-loss support vector classification (dual)
\t 4 -- support vector classification by Crammer and Singer
\t 5 -- L1-regularized L2-loss support vector classification
\t 6 -- L1-regularized logistic regression
\t 7 -- L2-regularized logistic regression (dual)
  regression
\t11 -- L2-regularized L2-loss support vector regression (primal)
\t12 -- L2-regularized L2-loss support vector regression (dual)
\t13 -- L2-regularized L1-loss support vector regression (dual)
  outlier detection
\t21 -- one-class support vector machine (dual)
-c cost : the parameter C (default 1)
-p epsilon : the epsilon in the loss of support vector regression (default 0.1)
-n nu : the parameter nu of the one-class support vector machine (default 0.5)
-e epsilon : tolerance of the stopping rule
\t-s 1, 3, 4 and 7: largest violation of the dual (default 0.1)
\t-s 21: largest violation of the dual (default 0.01)
\t-s 12 and 13: sum of the violations, as a part of the first one (default 0.1)
\t-s 0, 2 and 11: size of the gradient, as a part of the first one (default 0.01; 0.0001 for 11)
\t-s 5 and 6: sum of the violations, as a part of the first one (default 0.01)
\t-s 0, 2, 5 and 6: of that part, the share of the rows that the smaller class has
-B bias : if bias >= 0, append a feature of this value to each instance (default -1)
-R : do not regularize the bias; with -B 1, and -s 0, 2, 5, 6 and 11
-wi weight : multiply C of class i
-v n : n-fold cross validation
-C : search C by cross validation (-s 0 and 2), or C and p (-s 11)
-q : no progress
"""
PREDICT_USAGE = """\
Usage: blocklinear liblinear predict [options] test_file model_file output_file
options:
-b probability_estimates : 1 to write probabilities, for logistic regression only (default 0)
-q : no results on standard output
"""


class RefusedArguments(Exception):
    """Arguments that the program does not take.

    Attributes
    ----------
    message : str             for standard error; empty if the usage says it all
    usage : str               for standard output; empty if it would not help
    """

    def __init__(self, message: str, usage: str = "") -> None:
        self.message, self.usage = message, usage
        super().__init__(message)


@dataclass(frozen=True)
class TrainArguments:
    """What ``train`` is asked for."""

    solver: int  # after ``-s``
    cost: float
    epsilon: float
    nu: float
    bias: float
    regularizes_bias: bool  # without ``-R``
    tolerance: float  # after ``-e``, or the default of the solver
    class_weights: tuple[tuple[float, float], ...]  # (label, weight) of each class
    folds: int | None  # of a cross-validation
    searches: bool  # whether C is searched
    first_cost: float | None  # where a search begins, if given
    first_epsilon: float | None  # as `first_cost`
    quiet: bool
    text: str  # a file, as is `model`
    model: str
    notes: tuple[str, ...]  # for standard error


@dataclass(frozen=True)
class PredictArguments:
    """What ``predict`` is asked for: files, and whether to write probabilities."""

    probability: bool
    quiet: bool
    text: str
    model: str
    output: str


def read_train(arguments: Sequence[str]) -> TrainArguments:
    """Read the arguments of ``train``.

    Raises
    ------
    RefusedArguments
    """
    values, weights, files = _read_options(arguments, "scpeBnvw", "CRq", TRAIN_USAGE)
    if not 1 <= len(files) <= 2 or any(name.startswith("-") for name in files):
        late = len(files) > 1 and files[1].startswith("-")
        message = "options come before the training file" if late else ""
        raise RefusedArguments(message, TRAIN_USAGE)
    searches, notes = "C" in values, []
    folds = _integer(values, "v") if "v" in values else None
    if folds is not None and folds < 2:
        raise RefusedArguments("n-fold cross validation: n must >= 2", TRAIN_USAGE)
    solver = _integer(values, "s") if "s" in values else 1
    if searches and "s" not in values:
        notes.append("Solver not specified. Using -s 2")
        solver = 2
    elif searches and solver not in _SEARCHED:
        raise RefusedArguments(
            "Warm-start parameter search only available for -s 0, -s 2 and -s 11", TRAIN_USAGE
        )
    numbers = {name: _number(values, name) for name in "cpeBn" if name in values}
    cost, epsilon = numbers.get("c", 1.0), numbers.get("p", 0.1)
    tolerance = numbers.get("e", _TOLERANCES.get(solver, _DUAL_TOLERANCE))
    bias, regularized = numbers.get("B", -1.0), "R" not in values
    nu = numbers.get("n", 0.5)
    _check_values(solver, cost, epsilon, tolerance, bias, regularized)
    if folds is not None and solver == CRAMMER_SINGER:
        raise RefusedArguments("ERROR: -v with -s 4 is not available: use -s 3 or -s 1")
    if solver == ONE_CLASS:
        if bias >= 0:
            raise RefusedArguments("ERROR: prob->bias >=0, but this is ignored in ONECLASS_SVM")
        if not 0 < nu <= 1:
            raise RefusedArguments("ERROR: nu <= 0 or nu > 1")
        if folds is not None:
            raise RefusedArguments(
                "ERROR: -v with -s 21 is not available: it does not learn the labels of rows"
            )
    text = files[0]
    return TrainArguments(
        solver=solver,
        cost=cost,
        epsilon=epsilon,
        nu=nu,
        bias=bias,
        regularizes_bias=regularized,
        tolerance=tolerance,
        class_weights=tuple(weights) if SOLVER_TYPES[solver].classifies else (),
        folds=5 if searches and folds is None else folds,
        searches=searches,
        first_cost=cost if "c" in values else None,
        first_epsilon=epsilon if "p" in values else None,
        quiet="q" in values,
        text=text,
        model=files[1] if len(files) > 1 else f"{os.path.basename(text)}.model",
        notes=tuple(notes),
    )


def _check_values(
    solver: int,
    cost: float,
    epsilon: float,
    tolerance: float,
    bias: float,
    regularized: bool,
) -> None:
    """Refuse values that LIBLINEAR refuses, and what is not available here."""
    if not tolerance > 0:
        raise RefusedArguments("ERROR: eps <= 0")
    if not cost > 0:
        raise RefusedArguments("ERROR: C <= 0")
    known = SOLVER_TYPES.get(solver)
    if known is not None and known.regression and not epsilon >= 0:
        raise RefusedArguments("ERROR: p < 0")
    if known is None:
        raise RefusedArguments("ERROR: unknown solver type")
    if not regularized and bias != 1.0:
        raise RefusedArguments("ERROR: To not regularize bias, must specify -B 1 along with -R")
    if not regularized and not known.primal:
        raise RefusedArguments(
            "ERROR: -R option supported only for solver L2R_LR, L2R_L2LOSS_SVC, L1R_L2LOSS_SVC, "
            "L1R_LR, and L2R_L2LOSS_SVR"
        )


def read_predict(arguments: Sequence[str]) -> PredictArguments:
    """Read the arguments of ``predict``.

    Raises
    ------
    RefusedArguments
    """
    values, _, files = _read_options(arguments, "b", "q", PREDICT_USAGE, last="--")
    if values.get("b", "0") not in ("0", "1"):
        raise RefusedArguments(f"-b {values['b']}: neither 0 nor 1", PREDICT_USAGE)
    if len(files) != 3:
        raise RefusedArguments("", PREDICT_USAGE)
    return PredictArguments(values.get("b") == "1", "q" in values, *files)


def _read_options(
    arguments: Sequence[str], valued: str, flags: str, usage: str, last: str | None = None
) -> tuple[dict[str, str], list[tuple[float, float]], list[str]]:
    """Return the options by their letter, the weights of classes, and the files.

    Options end before what does not begin with a -, or with `last`.
    """
    values: dict[str, str] = {}
    weights: list[tuple[float, float]] = []
    rest = list(arguments)
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option == last:
            break
        letter = option[1:2]
        if letter and letter in flags:
            values[letter] = ""
            continue
        if not letter or letter not in valued:
            raise RefusedArguments(f"unknown option: -{letter}", usage)
        if not rest:
            raise RefusedArguments(f"{option} has no value", usage)
        value = rest.pop(0)
        if letter == "w":
            weights.append(_weight(option, value))
        else:
            values[letter] = value
    return values, weights, rest


def _weight(option: str, value: str) -> tuple[float, float]:
    """Return the label and the weight that ``-wLABEL WEIGHT`` means."""
    try:
        return float(int(_numeral(option[2:]))), float(_numeral(value))
    except (ValueError, OverflowError):
        raise RefusedArguments(
            f"{option} {value}: write -wLABEL WEIGHT, the label an integer", TRAIN_USAGE
        ) from None


def _numeral(text: str) -> str:
    """Return text that may be a number; ValueError is raised if it is none."""
    if not _NUMERAL.fullmatch(text):
        raise ValueError(text)
    return text


def _integer(values: dict[str, str], letter: str) -> int:
    try:
        return int(_numeral(values[letter]))
    except ValueError:
        raise RefusedArguments(f"-{letter} {values[letter]}: not an integer", TRAIN_USAGE) from None


def _number(values: dict[str, str], letter: str) -> float:
    try:
        value = float(_numeral(values[letter]))
    except ValueError:
        value = math.nan
    if math.isfinite(value):
        return value
    raise RefusedArguments(f"-{letter} {values[letter]}: not a finite number", TRAIN_USAGE)
