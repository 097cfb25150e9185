"""Problems whose bias is not regularised, and their optima by other programs."""

import numpy as np
import reference
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.svm import SVC, SVR

from training.small import Problem


def free_problem(solver, seed):
    """Rows whose classes, or values, are far from balanced."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 4)).round(3)
    value = X @ rng.normal(size=4) + 2.0 + rng.normal(size=60)
    labels = value if solver > 10 else np.where(value > 0, 1.0, -1.0)
    return Problem(X, labels, solver, cost=10.0 ** (seed % 4 - 2), bias=1.0 + seed % 2)


def far_problem(solver, several=False):
    """Rows whose costs are so small that each pull moves the bias by little of its way."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 10))
    value = X @ rng.normal(size=10) + rng.normal(size=200) + 3.0
    labels = value if solver > 10 else np.where(value > 0, 1.0, -1.0)
    if several:
        labels = np.digitize(value, [0.0, 4.0]).astype(float)
    return Problem(X, labels, solver, cost=1e-4 if solver in (1, 12) else 1e-3, bias=1.0)


def free_primal(problem, w):
    """P without the square of the last weight; the positive class is 1."""
    rows, t, cost = problem.rows, problem.labels, problem.costs()
    value = reference.primal_value(rows, t, cost, w, problem.kind, problem.epsilon)
    return value - 0.5 * w[-1] ** 2


def free_primal_of(problem, model):
    """P of a model of one class, or of values."""
    w = np.zeros(problem.rows.shape[1])
    w[: model.n_features], w[-1] = model.weights[:, 0], model.bias_weights[0]
    return free_primal(problem, -w if model.labels and model.labels[0] == -1.0 else w)


def free_optimum(problem):
    """P of what others find: never below the true optimum."""
    rows, t, cost, kind = problem.rows, problem.labels, problem.costs(), problem.kind
    if kind in (reference.HINGE, reference.L1_SVR):  # LIBSVM never regularises its bias
        how = {"kernel": "linear", "C": 1.0, "tol": 1e-10}
        machine = SVC(**how) if kind == reference.HINGE else SVR(epsilon=problem.epsilon, **how)
        machine.fit(problem.X, t, sample_weight=cost)
        bias = machine.intercept_[0] / problem.bias
        return free_primal(problem, np.append(machine.coef_[0], bias))

    def gradient(w):
        f = rows @ w
        if kind == reference.LOGISTIC:
            slope = -t * expit(-t * f)
        elif kind == reference.SQUARED_HINGE:
            slope = -2 * t * np.maximum(0, 1 - t * f)
        else:
            slope = 2 * np.sign(f - t) * np.maximum(0, abs(f - t) - problem.epsilon)
        return np.append(w[:-1], 0.0) + rows.T @ (cost * slope)

    found = minimize(
        lambda w: free_primal(problem, w), np.zeros(rows.shape[1]), jac=gradient, method="BFGS",
        options={"gtol": 1e-9},
    )  # fmt: skip
    return found.fun
