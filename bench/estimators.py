"""Estimators against scikit-learn's, on rows in memory: `fit`, and `one-pass` for `partial_fit`."""

import argparse
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.datasets import load_svmlight_file
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC, LinearSVR

from blocklinear.estimators import BlockLinearSVC, BlockLinearSVR, BlockLogisticRegression
from blocklinear.kernels.pegasos import N_STATS, pegasos_epoch

_EPSILON = 0.1
_LOOSEST, _TIGHTEST, _STEP = 2.0, 1e-9, 1.6
_LOSSES = ("hinge", "squared_hinge", "logistic", "epsilon_insensitive")


def rows_of(path: str, n_rows: int | None) -> tuple[Any, np.ndarray]:
    """Return the rows of LIBSVM text of two classes, in random order, with labels 1 and -1."""
    X, y = load_svmlight_file(path)
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    order = np.random.default_rng(0).permutation(X.shape[0])[:n_rows]
    return X[order], np.where(y[order] == y[0], 1.0, -1.0)


def primal(model: Any, X: Any, y: np.ndarray, loss: str, C: float) -> float:
    """Return the primal value of an estimator, its intercept regularised."""
    return primal_of(np.append(np.ravel(model.coef_), model.intercept_), X, y, loss, C)


def primal_of(w: np.ndarray, X: Any, y: np.ndarray, loss: str, C: float) -> float:
    """Return the primal value of weights, that of the intercept last."""
    f = X @ w[:-1] + w[-1]
    short = np.maximum(1.0 - y * f, 0.0)
    losses = {
        "hinge": lambda: short,
        "squared_hinge": lambda: short**2,
        "logistic": lambda: np.logaddexp(0.0, -y * f),
        "epsilon_insensitive": lambda: np.maximum(np.abs(f - y) - _EPSILON, 0.0),
    }
    return float(0.5 * (w @ w) + C * losses[loss]().sum())


def ours(loss: str, C: float, gap: float) -> Any:
    """Return our estimator."""
    if loss == "logistic":
        return BlockLogisticRegression(C, gap=gap)
    if loss == "epsilon_insensitive":
        return BlockLinearSVR(C, epsilon=_EPSILON, gap=gap)
    return BlockLinearSVC(C, loss=loss, gap=gap)


def theirs(loss: str, C: float) -> Callable[[float], Any]:
    """Return what makes scikit-learn's estimator of the same problem, by its tolerance."""
    if loss == "logistic":
        return lambda tol: LogisticRegression(
            solver="liblinear", C=C, tol=tol, dual=True, max_iter=3000
        )
    if loss == "epsilon_insensitive":
        return lambda tol: LinearSVR(C=C, epsilon=_EPSILON, tol=tol, dual=True, max_iter=3000)
    return lambda tol: LinearSVC(C=C, loss=loss, tol=tol, dual=True, max_iter=3000)


def seconds(model: Any, X: Any, y: np.ndarray) -> float:
    """Return how long a fit takes."""
    start = time.perf_counter()
    model.fit(X, y)
    return time.perf_counter() - start


def fit(args: argparse.Namespace) -> None:
    """Fit to a gap, and scikit-learn's with the tolerance that brings it as far; runs in turn."""
    X, y = rows_of(args.file, args.rows)
    size = (X.data.nbytes + X.indices.nbytes + X.indptr.nbytes) / 1e6
    print(f"{X.shape[0]} rows, {X.shape[1]} features, {size:.0f} MB in memory, C = {args.c:g}")
    for loss in args.loss:
        ours(loss, args.c, 0.1).fit(X[:500], y[:500])  # compiles
        for gap in args.gap:
            model = ours(loss, args.c, gap).fit(X, y)
            reached, make, tol = primal(model, X, y, loss, args.c), theirs(loss, args.c), _LOOSEST
            while primal(make(tol).fit(X, y), X, y, loss, args.c) > reached and tol > _TIGHTEST:
                tol /= _STEP
            pairs = [
                (seconds(ours(loss, args.c, gap), X, y), seconds(make(tol), X, y))
                for _ in range(args.runs)
            ]
            own, other = (statistics.median(column) for column in zip(*pairs, strict=True))
            ratio = statistics.median(a / b for a, b in pairs)
            print(
                f"{loss} gap {gap:g} (certified {model.dual_gap_:.2g}): {own:.2f} seconds, "
                f"scikit-learn with tol {tol:.2g} {other:.2f}, ratio {ratio:.2f}"
            )


def one_pass(args: argparse.Namespace) -> None:
    """Give the rows to `partial_fit` once, and to Pegasos; compare with the optimum."""
    X, y = rows_of(args.file, args.rows)
    batches = np.split(np.arange(len(y)), range(args.batch, len(y), args.batch))
    for loss in args.loss:
        least = primal(ours(loss, args.c, 1e-4).fit(X, y), X, y, loss, args.c)
        model = ours(loss, args.c, 1e-4)
        known = {} if loss == "epsilon_insensitive" else {"classes": [-1.0, 1.0]}
        for rows in batches:
            model.partial_fit(X[rows], y[rows], **known)
        print(f"{loss}: {primal(model, X, y, loss, args.c) / least:.3f} times the least primal")
        if loss != "hinge":
            continue
        for name, total in (("the rows so far", None), ("all rows", len(y))):
            last, mean = (
                primal_of(w, X, y, loss, args.c) / least
                for w in pegasos(X, y, batches, args.c, total)
            )
            print(f"  Pegasos, lambda from {name}: {last:.3f}; its mean {mean:.3f}")


def pegasos(X: Any, y: np.ndarray, batches: list, C: float, total: int | None) -> tuple:
    """Return the weights of Pegasos after one pass, and their mean over the updates."""
    w, mean = np.zeros((2, X.shape[1] + 1))
    t, weight = 0, 0.0
    for rows in batches:
        part = X[rows]
        indptr, n = part.indptr.astype(np.int64), len(rows)
        n_total = total or t + n
        t = pegasos_epoch(
            (indptr[:-1], indptr[1:], part.indices.astype(np.uint32), part.data, np.zeros(n)),
            (y[rows], np.full(n, C)), np.arange(n), 1, n_total, n_total * C, 1.0, t, w,
            np.zeros(N_STATS), np.zeros(n), 1.0,
        )  # fmt: skip
        weight += t
        mean += (w - mean) * t / weight
    return w, mean


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(required=True)
    for name, function in (("fit", fit), ("one-pass", one_pass)):
        command = commands.add_parser(name, help=function.__doc__)
        command.add_argument("file", help="LIBSVM text of two classes")
        command.add_argument("-c", type=float, default=1.0, help="C")
        command.add_argument("--loss", nargs="+", default=["hinge"], choices=_LOSSES)
        command.add_argument("--rows", type=int, help="take so many of them")
        command.set_defaults(run=function)
        if function is fit:
            command.add_argument("--gap", type=float, nargs="+", default=[1e-3])
            command.add_argument("--runs", type=int, default=5)
        else:
            command.add_argument("--batch", type=int, default=1000)
    args = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        args.run(args)


if __name__ == "__main__":
    main()
