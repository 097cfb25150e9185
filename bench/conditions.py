"""Newton's method on dense rows of any condition, against LIBLINEAR's primal solvers.

A line of output is one problem: rows whose features have scales down to one over the square root
of the condition number, turned at random. LIBLINEAR is given the largest of its tolerances with
which P comes within 1e-6 of ours; its passes are its iterations and conjugate gradient steps.

    python bench/conditions.py [--condition 1e2 1e8] [--cost 1 1e4] [--features 20] [--rows 5000]
    python bench/conditions.py --input FILE [--cost 1 1e4]       rows of LIBSVM text instead
"""

import argparse
import math
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
from measuring import print_table
from numpy.typing import NDArray
from rivals import need_liblinear
from sklearn.datasets import load_svmlight_file

from blocklinear import LinearModel, SplitOptions, split, train

GAP = 1e-6
TOLERANCES = tuple(10.0**-k for k in range(2, 9))
NAMES = {0: "logistic", 2: "squared hinge"}
Floats = NDArray[np.float64]


def make_rows(rng: np.random.Generator, n: int, d: int, condition: float) -> tuple[Floats, Floats]:
    """Return rows and their classes, +1 or -1, of which some are on the wrong side."""
    turn, _ = np.linalg.qr(rng.normal(size=(d, d)))
    X = (rng.normal(size=(n, d)) * np.logspace(0, -np.log10(condition) / 2, d)) @ turn
    value = X @ rng.normal(size=d)
    return X, np.where(value + 0.3 * value.std() * rng.normal(size=n) > 0, 1.0, -1.0)


def write_text(path: Path, X: Floats, y: Floats) -> None:
    """Write rows as LIBSVM text that reads back to the bit."""
    with path.open("w") as stream:
        for label, row in zip(y.tolist(), X.tolist(), strict=True):
            cells = " ".join(f"{j}:{value!r}" for j, value in enumerate(row, 1))
            stream.write(f"{label:+.0f} {cells}\n")


def problems(args: argparse.Namespace) -> Iterator[tuple[float, float, Floats, Floats]]:
    """Yield condition, C, rows and classes of each problem; the condition of a file is unknown."""
    if args.input is not None:
        X, labels = load_svmlight_file(str(args.input))
        for cost in args.cost:
            yield math.nan, cost, X.toarray(), np.where(labels == labels.max(), 1.0, -1.0)
        return
    rng = np.random.default_rng(1)
    for condition, cost, d in product(args.condition, args.cost, args.features):
        yield condition, cost, *make_rows(rng, args.rows, d, condition)


def primal(model: LinearModel, X: Floats, y: Floats, cost: float, solver: int) -> float:
    """Return P of a model of LIBLINEAR."""
    w = model.weights[:, 0] * (1.0 if model.labels[0] == 1.0 else -1.0)
    margin = y * (X @ w)
    loss = np.maximum(0.0, 1.0 - margin) ** 2 if solver == 2 else np.logaddexp(0.0, -margin)
    return float(0.5 * w @ w + cost * loss.sum())


def liblinear(
    text: Path, X: Floats, y: Floats, cost: float, solver: int, goal: float
) -> tuple[int, float]:
    """Return LIBLINEAR's passes and seconds with the largest tolerance that comes to a goal."""
    model, passes, seconds = text.with_suffix(".model"), 0, 0.0
    for tolerance in TOLERANCES:
        command = ["liblinear-train", "-s", str(solver), "-c", str(cost), "-e", str(tolerance)]
        began = time.perf_counter()
        done = subprocess.run([*command, text, model], check=True, capture_output=True, text=True)
        seconds = time.perf_counter() - began
        steps = re.findall(r"CG +(\d+)", done.stdout)
        passes = len(steps) + sum(map(int, steps))
        if primal(LinearModel.load(model), X, y, cost, solver) <= goal:
            break
    return passes, seconds


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--condition", type=float, nargs="+", default=[1e2, 1e4, 1e6, 1e8])
    parser.add_argument("--cost", type=float, nargs="+", default=[1.0, 1e2, 1e4])
    parser.add_argument("--features", type=int, nargs="+", default=[20, 100])
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--input", type=Path)
    args = parser.parse_args()
    need_liblinear()
    found = []
    with tempfile.TemporaryDirectory() as name:
        text, folder = Path(name, "rows"), Path(name, "store")
        for condition, cost, X, y in problems(args):
            d = X.shape[1]
            write_text(text, X, y)
            for solver in NAMES:
                began = time.perf_counter()
                store = split(text, folder, SplitOptions(force=True))
                read = time.perf_counter() - began
                began = time.perf_counter()
                model = train(store, solver=solver, cost=cost, gap=GAP)
                seconds = time.perf_counter() - began
                proof = model.metadata["certificate"]
                goal = proof["primal"] * (1.0 + GAP)
                passes, theirs = liblinear(text, X, y, cost, solver, goal)
                own = model.metadata["outer_iterations"]
                found.append(
                    (condition, cost, d, NAMES[solver], own, passes, own / passes, read, seconds,
                     theirs, proof["gap"])
                )  # fmt: skip
    print_table(
        ("condition", "C", "features", "loss", "passes", "LIBLINEAR's", "ratio", "split s",
         "train s", "LIBLINEAR s", "gap"),
        found,
    )  # fmt: skip


if __name__ == "__main__":
    main()
