"""Small problems of several classes, and what LIBLINEAR makes of them."""

import subprocess
from dataclasses import replace

import numpy as np
from liblinear import liblinear_program

from blocklinear.model.linear import LinearModel
from training.small import Problem

PRIMAL = {1: 2, 3: 3, 4: 4, 7: 0}
"""LIBLINEAR's solver of the same problem: on the primal where there is one, which is exact."""


def several_classes(n_classes, solver=3, n_rows=90, n_features=12, **changes):
    """A noisy problem, its first row of the largest label, one row empty."""
    rng = np.random.default_rng([n_classes, 5])
    X = rng.normal(size=(n_rows, n_features)).round(2) * (rng.random((n_rows, n_features)) < 0.6)
    score = X @ rng.normal(size=(n_features, n_classes)) + rng.normal(size=(n_rows, n_classes))
    labels = np.array([7.0, -3.0, 0.0, 2.0, *range(20, 16 + n_classes)])[score.argmax(1)]
    labels[:n_classes] = np.sort(np.unique(labels))[::-1][:n_classes]
    X[1] = 0.0
    return Problem(X, labels, solver, **({"bias": 1.0} | changes))


def against_the_rest(problem, label):
    """The problem of one class: its weight multiplies C for its own rows only."""
    weight = np.prod([w for y, w in problem.class_weights if y == label])
    labels = np.where(problem.labels == label, 1.0, -1.0)
    return replace(problem, labels=labels, class_weights=((1.0, float(weight)),))


def columns(model):
    """The weight vectors of a model, the bias's last: float64[K, n_features + 1]."""
    return np.vstack([model.weights, model.bias_weights]).T


def scores_of(model, problem):
    """Decision values, float64[n, K]."""
    return problem.rows @ columns(model).T


def by_liblinear(problem, source, folder, tolerance="1e-8"):
    """The model of LIBLINEAR's own program."""
    flags = ["-s", PRIMAL[problem.solver], "-c", problem.cost, "-B", problem.bias]
    for label, weight in problem.class_weights:
        flags += [f"-w{label:g}", weight]
    command = [liblinear_program("liblinear-train"), *map(str, flags), "-e", tolerance, "-q"]
    subprocess.run([*command, source, folder / "liblinear"], check=True)
    return LinearModel.load(folder / "liblinear")
