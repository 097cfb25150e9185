"""Certified gaps against true ones: `train.py gap`.

The optima come from the copy of LIBLINEAR in scikit-learn, which lets hard problems go on beyond
LIBLINEAR's limit of epochs.
"""

import argparse
import statistics
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from measuring import print_table, write_figures
from scipy import sparse
from sklearn.datasets import dump_svmlight_file
from sklearn.svm import _liblinear

from blocklinear import SplitOptions, TrainOptions, split, train

SOLVERS = {1: (2, 1), 3: (3,), 7: (0, 7), 12: (11, 12), 13: (13,)}
"""LIBLINEAR's solvers of each of our problems: primal Newton where there is one, and dual."""
REGRESSION = (12, 13)
ROUNDING = 1e-11
"""Of P: by so much sums of rounded numbers may differ."""


def liblinear(
    X: Any, y: np.ndarray, solver: int, cost: float, max_iter: int, tolerance: float,
    bias: float = -1.0, epsilon: float = 0.1,
) -> np.ndarray:  # fmt: skip
    """Return the weights that LIBLINEAR finds, the bias last if there is one."""
    classes = np.empty(0) if solver in (11, 12, 13) else np.ones(2)
    _liblinear.set_verbosity_wrap(0)
    raw, _ = _liblinear.train_wrap(
        X, y, True, solver, tolerance, bias, cost, classes, max_iter, 1, epsilon, np.ones(len(y))
    )
    return raw[0]


@dataclass(frozen=True)
class Case:
    """A random problem, and how its training is cut short."""

    solver: int
    X: sparse.csr_matrix
    y: np.ndarray
    cost: float
    bias: float
    epsilon: float
    blocks: int
    group: int
    max_outer: int
    selection: str

    def primal(self, w: np.ndarray) -> float:
        """Return P(w); the bias is the last weight."""
        scores = self.X @ w[:-1] + max(self.bias, 0.0) * w[-1]
        if self.solver in REGRESSION:
            slack = np.maximum(0.0, np.abs(scores - self.y) - self.epsilon)
            loss = slack**2 if self.solver == 12 else slack
        elif self.solver == 7:
            loss = np.logaddexp(0.0, -self.y * scores)
        else:
            slack = np.maximum(0.0, 1.0 - self.y * scores)
            loss = slack**2 if self.solver == 1 else slack
        return float(0.5 * w @ w + self.cost * loss.sum())

    def optimum(self) -> float:
        """Return the least P that LIBLINEAR finds, at most a little above the optimum."""
        found, y = [], self.y if self.solver in REGRESSION else (self.y > 0).astype(np.float64)
        for solver in SOLVERS[self.solver]:
            newton = solver in (0, 2, 11)
            w = liblinear(
                self.X, y, solver, self.cost, 1000 if newton else 100_000,
                1e-14 if newton else 1e-9, self.bias, self.epsilon,
            )  # fmt: skip
            w = np.append(w, 0.0) if self.bias < 0 else w
            found += [self.primal(w), self.primal(-w)]  # scikit-learn turns some signs
        return min(found)


def cases(count: int, seed: int) -> Iterator[Case]:
    """Yield random problems, of each solver in turn."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        solver = list(SOLVERS)[number % len(SOLVERS)]
        n, d = int(rng.integers(4, 80)), int(rng.integers(1, 25))
        X = sparse.random(n, d, density=rng.uniform(0.1, 1.0), random_state=rng, format="csr")
        X.data = rng.normal(size=X.nnz) * 10.0 ** rng.uniform(-1, 1)
        X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
        y = X @ rng.normal(size=d) + rng.normal(size=n) * rng.uniform(0, 2)
        if solver not in REGRESSION:
            y = np.where(y >= np.median(y), 1.0, -1.0)
        blocks = int(rng.integers(1, 7))
        yield Case(
            solver, X, y, cost=10.0 ** rng.uniform(-2, 2), bias=float(rng.choice([-1.0, 1.0])),
            epsilon=float(rng.choice([0.0, 0.1])), blocks=blocks,
            group=int(rng.integers(1, blocks + 1)), max_outer=int(rng.integers(1, 9)),
            selection=str(rng.choice(["active", "permute", "shrink", "avsf", "online"])),
        )  # fmt: skip


def gap(args: argparse.Namespace) -> int:
    """Compare the certified gap with the true one, of runs that end early."""
    by_solver: dict[int, list[float]] = {solver: [] for solver in SOLVERS}
    wrong, largest = [], 0.0
    for number, case in enumerate(cases(args.count, args.seed)):
        with tempfile.TemporaryDirectory() as folder:
            text = Path(folder) / "rows.svm"
            dump_svmlight_file(case.X, case.y, str(text), zero_based=False)
            store = split([text], Path(folder) / "store", SplitOptions(blocks=case.blocks))
            options = TrainOptions(
                solver=case.solver, cost=case.cost, bias=case.bias, epsilon=case.epsilon,
                group=case.group, max_outer=case.max_outer, selection=case.selection, gap=1e-9,
                seed=number,
            )  # fmt: skip
            model = train(store, options)
        proof, w = model.metadata["certificate"], np.zeros(case.X.shape[1] + 1)
        w[: model.n_features], w[-1] = model.weights[:, 0], model.bias_weights[0]
        sign = -1.0 if model.labels and model.labels[0] < 0 else 1.0
        primal = case.primal(sign * w)
        excess = primal - case.optimum()
        bound = proof["gap"] * proof["primal"]
        by_solver[case.solver].append(excess / (bound + ROUNDING * primal))
        largest = max(largest, proof["gap"])
        miscounted = abs(primal - proof["primal"]) > 1e-9 * primal
        if by_solver[case.solver][-1] > 1.0 or miscounted:
            wrong.append({"case": number, "solver": case.solver, "primal": primal, **proof})
    rows = [
        (f"-s {solver}", len(ratios), max(ratios), statistics.median(ratios))
        for solver, ratios in by_solver.items()
        if ratios
    ]
    print_table(("solver", "runs", "largest", "median"), rows)
    worst = max(max(ratios) for ratios in by_solver.values() if ratios)
    print(
        f"(P - P*) / (gap P): {args.count} runs, gaps up to {largest:.2g}, largest ratio "
        f"{worst:.4f}, {len(wrong)} wrong"
    )
    for fault in wrong:
        print(fault)
    facts = {"count": args.count, "seed": args.seed, "worst": worst, "wrong": wrong}
    write_figures(args.out, "gap", facts | {"ratios": by_solver})
    return 1 if wrong else 0


def add_parsers(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Add the command of this file."""
    parser = commands.add_parser("gap", parents=[shared], help="certified gaps against true ones")
    parser.add_argument("--count", type=int, default=250, help="random problems (default 250)")
    parser.add_argument("--seed", type=int, default=0)
    parser.set_defaults(run=gap)
