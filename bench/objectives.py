"""Train over a grid, and compare what is reached with the optimum that LIBLINEAR finds.

A line of output is one run: its seconds and outer iterations, by which fraction of P its objective
exceeds the reference, and the gap that was certified. A run passes when it converged, when the
excess is at most the tolerance of its solver, and when it is at most the certified gap. The
reference is LIBLINEAR, as scikit-learn has it, at a tight tolerance.

    python bench/objectives.py [--only NAME] [--solver 1] [--cost 0.1] ...

With BLOCKLINEAR_DATA naming a folder that holds them, rcv1_vw1000 and imdb_uni are tried as well.
"""

import argparse
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from pathlib import Path

import numpy as np
from measuring import open_rows, sources
from scipy import sparse
from sklearn.datasets import load_svmlight_file
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC, LinearSVR

from blocklinear import BlockStore, SplitOptions, TrainOptions, split, train

SQUARED_HINGE, HINGE, LOGISTIC, L2_SVR, L1_SVR = 1, 3, 7, 12, 13
SAME = {0: LOGISTIC, 2: SQUARED_HINGE, 11: L2_SVR}
"""Primal solvers, each with the dual one of the same problem."""
EPSILON = 0.1
BUNDLED = ("heart_scale", "phishing", "agaricus", "a9a")
LARGER = ("rcv1_vw1000", "imdb_uni")


@dataclass(frozen=True)
class Case:
    """One run of the grid; it must come within `within` of the optimum, and prove it."""

    data: str
    path: Path
    blocks: int
    group: int
    cost: float
    bias: float
    solver: int
    within: float


def grid(args: argparse.Namespace) -> Iterator[Case]:
    """Yield the runs asked for, those of one data set and store together."""
    for name, path in sources(args.only or (*BUNDLED, *LARGER)).items():
        for blocks, group in product(args.blocks, args.group):
            if group > blocks:
                continue
            for cost, bias, solver in product(args.cost, args.bias, args.solver):
                loose = solver in (HINGE, L1_SVR) and name in BUNDLED
                within = 1e-3 if loose else 1e-6
                yield Case(name, path, blocks, group, cost, bias, solver, within)


@lru_cache(maxsize=1)
def rows(path: Path) -> tuple[sparse.csr_matrix, np.ndarray]:
    """Return the rows of a file with 32-bit indices, as scikit-learn wants them."""
    with open_rows(path) as stream:
        X, y = load_svmlight_file(stream)
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return X, y


@lru_cache
def optimum(path: Path, solver: int, cost: float, bias: float) -> float:
    """Return P of LIBLINEAR's solution: never below the optimum, and very close to it."""
    X, y = rows(path)
    if bias >= 0:
        X = sparse.hstack([X, np.full((len(y), 1), bias)], format="csr")
    dual = solver in (HINGE, L1_SVR)
    how = {
        "C": cost, "dual": dual, "tol": 1e-8 if dual else 1e-12,
        "max_iter": 200_000 if dual else 1000, "fit_intercept": False, "random_state": 0,
    }  # fmt: skip
    found = {
        SQUARED_HINGE: lambda: LinearSVC(loss="squared_hinge", **how),
        HINGE: lambda: LinearSVC(loss="hinge", **how),
        LOGISTIC: lambda: LogisticRegression(solver="liblinear", **how),
        L2_SVR: lambda: LinearSVR(epsilon=EPSILON, loss="squared_epsilon_insensitive", **how),
        L1_SVR: lambda: LinearSVR(epsilon=EPSILON, loss="epsilon_insensitive", **how),
    }[solver]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found.fit(X, y)
    w = found.coef_.ravel()
    f, t = X @ w, np.where(y == y.max(), 1, -1)
    slack, excess = np.maximum(0.0, 1 - t * f), np.maximum(0.0, abs(f - y) - EPSILON)
    losses = {
        SQUARED_HINGE: slack**2, HINGE: slack, LOGISTIC: np.logaddexp(0, -t * f),
        L2_SVR: excess**2, L1_SVR: excess,
    }  # fmt: skip
    return float(0.5 * w @ w + cost * losses[solver].sum())


def run(case: Case, folder: Path, time_limit_s: float, selection: str) -> bool:
    """Train, print the line of one run, and say whether it passed."""
    path = folder / f"{case.data}.{case.blocks}"
    if not path.exists():
        split([case.path], path, SplitOptions(blocks=case.blocks))
    options = TrainOptions(
        solver=case.solver, cost=case.cost, bias=case.bias, gap=case.within, group=case.group,
        epsilon=EPSILON, selection=selection, max_outer=10**9, time_limit_s=time_limit_s,
    )  # fmt: skip
    started = time.perf_counter()
    model = train(BlockStore.open(path), options)
    seconds = time.perf_counter() - started

    proof = model.metadata["certificate"]
    reference = optimum(case.path, SAME.get(case.solver, case.solver), case.cost, case.bias)
    excess = (proof["primal"] - reference) / proof["primal"]
    faults = [
        fault
        for fault, holds in (
            (f"stopped by {model.metadata['stopped']}", proof["gap"] <= case.within),
            (f"excess above {case.within:g}", excess <= case.within),
            ("excess above the certified gap", excess <= proof["gap"]),
        )
        if not holds
    ]
    print(
        f"{case.data:12s} {case.blocks:6d} {case.group:5d} {case.cost:6g} {case.bias:4g} "
        f"{case.solver:3d} {seconds:8.2f} {model.metadata['outer_iterations']:6d} "
        f"{excess:10.2e} {proof['gap']:9.2e}  {'; '.join(faults) or 'ok'}",
        flush=True,
    )
    return not faults


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", action="append", metavar="NAME", help="this set; repeatable")
    parser.add_argument("--solver", type=int, nargs="+", default=[SQUARED_HINGE, HINGE])
    parser.add_argument("--selection", default="active", help="rows of an epoch, as of `train`")
    parser.add_argument("--cost", type=float, nargs="+", default=[0.1, 1.0, 10.0])
    parser.add_argument("--bias", type=float, nargs="+", default=[-1.0, 1.0])
    parser.add_argument("--blocks", type=int, nargs="+", default=[1, 4, 17])
    parser.add_argument("--group", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--time-limit", type=float, default=600.0, help="seconds for one run")
    return parser.parse_args()


def main() -> int:
    args = arguments()
    print("data         blocks group      C bias  -s  seconds  outer     excess       gap")
    started, passed = time.perf_counter(), []
    with tempfile.TemporaryDirectory() as folder:
        passed = [run(case, Path(folder), args.time_limit, args.selection) for case in grid(args)]
    seconds = time.perf_counter() - started
    print(f"{len(passed)} runs, {passed.count(False)} failed, {seconds:.0f} s")
    return 0 if passed and all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
