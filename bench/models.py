"""Measure many models in one sweep: against one model, and against LIBLINEAR.

    python bench/models.py sweep [FILE.svm]   an outer iteration with 1, 16, 32 models, one thread
    python bench/models.py cv FILE.svm        5 folds x 6 C in 1 GiB against liblinear-train -v 5
    python bench/models.py classes            reuters52: objectives and accuracy against LIBLINEAR
    python bench/models.py classes --generated 10        of generated rows of ten classes
    python bench/models.py thousand           1000 classes, and how long they take

Each prints a table, and stores its figures as JSON in the folder --out. `sweep` and `cv` take text
with two classes; `sweep` writes text-like rows of a million features when none is given. `classes`
wants the folder with reuters52 in BLOCKLINEAR_DATA.
"""

import argparse
import os
import re
import shutil
import statistics
import subprocess
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from generate import generate
from limits import limited
from many import N_CLASSES, draw
from measuring import BENCH, PROGRAM, open_rows, print_table, sources, write_figures
from shapes import make_shape

from blocklinear import BlockStore, LinearModel, SplitOptions, TextOptions, TrainOptions, split
from blocklinear.events import OuterIteration
from blocklinear.text import read_rows
from blocklinear.training.grid import train_grid
from blocklinear.training.loop import train

ASKED = {1: 1.0, 16: 5.0, 32: 8.0}
"""Times the seconds of one model that so many may take."""
CV_ASKED = 0.25
"""Of LIBLINEAR's time."""
OBJECTIVE_ASKED = 1e-6
ACCURACY_ASKED = 1e-3
"""A row in a thousand."""
SOLVERS = {1: 2, 3: 3, 4: 4, 7: 0}
"""LIBLINEAR's solver of the same problem, on the primal where it has one."""
BUDGET = 8 << 30


# -- An outer iteration


def sweep(args: argparse.Namespace) -> int:
    """Time outer iterations with several models."""
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        source = args.source or Path(name) / "text.svm"
        if args.source is None:
            write_text(source, args.rows)
        options = SplitOptions(text=TextOptions(memory_bytes=BUDGET), blocks=16)
        store = split([source], Path(name) / "store", options)
        manifest = store.manifest
        print(f"{manifest.n_rows} rows, {manifest.nnz} nonzeros, {manifest.n_features} features")
        taken = {(n, s): outer_seconds(store, n, s, args) for n in ASKED for s in args.selection}
    rows, failed = [], 0
    for (n, selection), (whole, solving) in taken.items():
        one = taken[1, selection]
        ratio = whole / one[0]
        failed += ratio > ASKED[n]
        rows.append((selection, n, whole, solving, ratio, solving / one[1], ASKED[n]))
    print_table(("selection", "models", "seconds", "solving", "ratio", "of solving", "asked"), rows)
    write_figures(args.out, "models_sweep", {"asked": ASKED, "rows": rows})
    return 1 if failed else 0


def write_text(path: Path, n_rows: int) -> None:
    """Write the rows that `many.py` draws, of a million features and two classes."""
    rows = draw(n_rows, 1.1, 0)
    with path.open("w") as out:
        for i in range(n_rows):
            part = slice(rows.indptr[i], rows.indptr[i + 1])
            cells = zip(rows.indices[part].tolist(), rows.values[part].tolist(), strict=True)
            label = 1 if rows.code[i] < N_CLASSES // 2 else -1
            out.write(f"{label} " + " ".join(f"{j + 1}:{v:.6g}" for j, v in cells) + "\n")


def outer_seconds(
    store: BlockStore, n_models: int, selection: str, args: argparse.Namespace
) -> tuple[float, float]:
    """Return the median seconds of an outer iteration, whole and of solving, on one processor.

    The first, which reads, and the last, which certifies, are left out. Costs are alike, so that
    all models have as much to do.
    """
    heard: list[OuterIteration] = []

    def listen(event: object) -> None:
        if isinstance(event, OuterIteration):
            heard.append(event)

    costs = tuple(args.cost * (1 + 0.001 * k) for k in range(n_models))
    options = TrainOptions(
        costs=costs, gap=1e-12, max_outer=args.outer, selection=selection, threads=1,
        memory_bytes=BUDGET, checkpoint_s=float("inf"), group=args.group, run="sweep",
    )  # fmt: skip
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        for outer in (1, args.outer):  # the first time compiles
            heard.clear()
            if n_models == 1:
                train(store, replace(options, costs=(), cost=args.cost, max_outer=outer), listen)
            else:
                train_grid(store, replace(options, max_outer=outer), listen)
    finally:
        os.sched_setaffinity(0, before)
    seconds = np.diff([event.seconds for event in heard])[:-1]
    return statistics.median(seconds.tolist()), statistics.median(e.solve_s for e in heard[1:-1])


# -- Cross-validation


def cv(args: argparse.Namespace) -> int:
    """Compare cross-validation over a grid with LIBLINEAR's, once for each C."""
    costs, beside = args.costs.split(","), Path(f"{args.source}.blocks")
    command = [
        *PROGRAM, "cv", str(args.source), "-v", "5", "-c", args.costs, "--memory", args.budget,
        "-q", "-s", str(args.solver), "--gap", f"{args.gap:g}", "--json",
    ]  # fmt: skip
    shutil.rmtree(beside, ignore_errors=True)
    with limited(args.memory) as run:
        ours = run(command, capture=True)
    shutil.rmtree(beside, ignore_errors=True)
    print(ours.stderr, end="")
    if ours.returncode:
        raise SystemExit(f"rc {ours.returncode}, {ours.oom_kills} OOM kills: {ours.stderr}")
    print(ours.stdout)
    rows, total = [("all, blocklinear", ours.wall_seconds, "")], 0.0
    for cost in () if args.alone else costs:
        theirs = ["liblinear-train", "-s", str(args.solver), "-v", "5", "-c", cost, "-q"]
        with limited() as run:
            result = run([*theirs, str(args.source)], capture=True)
        accuracy = re.search(r"= ([\d.]+)%", result.stdout)
        rows.append(
            (f"C = {cost}, LIBLINEAR", result.wall_seconds, accuracy[1] if accuracy else "")
        )
        total += result.wall_seconds
    print_table(("", "seconds", "accuracy"), rows)
    ratio = ours.wall_seconds / total if total else float("nan")
    print(
        f"{ratio:.3f} of LIBLINEAR's time, asked {CV_ASKED}; peak "
        f"{ours.peak_anonymous_bytes >> 20} MiB, split included"
    )
    write_figures(args.out, "models_cv", {
        "source": args.source.name, "bytes": args.source.stat().st_size, "memory": args.memory,
        "gap": args.gap, "asked": CV_ASKED, "ratio": ratio, "rows": rows, "report": ours.stdout,
        "peak_anonymous_bytes": ours.peak_anonymous_bytes,
    })  # fmt: skip
    return 1 if ratio > CV_ASKED else 0


# -- Classes


def classes(args: argparse.Namespace) -> int:
    """Compare objectives and test accuracy with LIBLINEAR's."""
    rows, failed = [], 0
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        folder = Path(name)
        if args.generated:
            write_classes(folder, args)
        else:
            copy_real(folder, args)
        run(*PROGRAM, "split", folder / "train.svm", folder / "store", "-q")
        X, y = matrix(folder / "train.svm")
        for solver in args.solvers:
            flags = ["-c", f"{args.cost:g}", "-B", "1"]
            gap = ["--gap", f"{args.gap:g}", "-q"]
            ours, other = folder / f"ours{solver}", folder / f"theirs{solver}"
            ours_s = run(*PROGRAM, "train", folder / "store", ours, "-s", str(solver), *flags, *gap)
            stop = ["-e", f"{args.tolerance:g}"]
            theirs_s = run(
                "liblinear-train",
                "-s",
                SOLVERS[solver],
                *flags,
                *stop,
                "-q",
                folder / "train.svm",
                other,
            )
            models = [LinearModel.load(path) for path in (ours, other)]
            found, best = (objectives(model, X, y, solver, args.cost) for model in models)
            worst = float(((found - best) / best).max())
            shares = [accuracy(path, folder / "test.svm") for path in (ours, other)]
            failed += worst > OBJECTIVE_ASKED or abs(shares[0] - shares[1]) > ACCURACY_ASKED
            better = float(((best - found) / best).max())
            rows.append(
                (f"-s {solver}", ours_s, theirs_s, worst, better, shares[0], shares[0] - shares[1])
            )
    header = ("", "seconds", "theirs", "(P-P')/P'", "(P'-P)/P'", "accuracy", "difference")
    print_table(header, rows)
    write_figures(args.out, "models_classes", {"gap": args.gap, "cost": args.cost, "rows": rows})
    return 1 if failed else 0


def copy_real(folder: Path, args: argparse.Namespace) -> None:
    """Write train.svm and test.svm of a real data set."""
    train_bz2 = args.train or sources(["reuters52"])["reuters52"]
    test_bz2 = args.test or train_bz2.with_name(train_bz2.name.replace(".train.", ".test."))
    for path, plain in ((train_bz2, folder / "train.svm"), (test_bz2, folder / "test.svm")):
        with open_rows(path) as stream, plain.open("wb") as out:
            shutil.copyfileobj(stream, out)


def write_classes(folder: Path, args: argparse.Namespace) -> None:
    """Write train.svm and test.svm, a fifth of the rows, of planted classes."""
    shape = make_shape("kddcup", 1, args.generated, args.features)
    generate(shape, folder / "all.svm", n_rows=args.rows)
    with (folder / "all.svm").open("rb") as stream:
        lines = stream.readlines()
    cut = len(lines) * 4 // 5
    (folder / "train.svm").write_bytes(b"".join(lines[:cut]))
    (folder / "test.svm").write_bytes(b"".join(lines[cut:]))


def run(*command: object) -> float:
    """Run a command; return its seconds."""
    began = time.perf_counter()
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def matrix(path: Path) -> tuple[sp.csr_matrix, np.ndarray]:
    """Return the rows of LIBSVM text, a bias of 1 as their last feature, and their labels."""
    parts, labels, n_features = [], [], 0
    for rows in read_rows([str(path)], TextOptions()):
        values, columns = rows.values().copy(), rows.indices.astype(np.int64) - 1
        parts.append((values, columns, np.diff(rows.indptr)))
        labels.append(rows.labels())
        n_features = max(n_features, int(columns.max(initial=-1)) + 1)
    values, columns = (np.concatenate([part[k] for part in parts]) for k in (0, 1))
    indptr = np.concatenate(([0], np.cumsum(np.concatenate([part[2] for part in parts]))))
    X = sp.csr_matrix((values, columns, indptr), shape=(len(indptr) - 1, n_features))
    return sp.hstack([X, np.ones((X.shape[0], 1))]).tocsr(), np.concatenate(labels)


def objectives(
    model: LinearModel, X: sp.csr_matrix, y: np.ndarray, solver: int, cost: float
) -> np.ndarray:
    """Return P of each class against the rest; of -s 4 the one P."""
    W = np.vstack([model.weights, model.bias_weights * model.bias])
    scores, labels = X @ W, np.array(model.labels)
    if solver == 4:
        code, rows = (labels == y[:, None]).argmax(1), np.arange(len(y))
        lost = scores + 1.0 - scores[rows, code][:, None]
        lost[rows, code] = 0.0
        return np.array([0.5 * (W**2).sum() + cost * lost.max(axis=1).sum()])
    margins = np.where(y[:, None] == labels, 1.0, -1.0) * scores
    slack = np.maximum(0.0, 1.0 - margins)
    loss = {1: slack**2, 3: slack, 7: np.logaddexp(0.0, -margins)}[solver]
    return 0.5 * (W**2).sum(axis=0) + cost * loss.sum(axis=0)


def accuracy(model: Path, rows: Path) -> float:
    """Return the share of rows that are predicted right."""
    command = [*PROGRAM, "predict", rows, model, os.devnull]
    done = subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True)
    found = re.search(r"\((\d+)/(\d+)\)", done.stdout)
    assert found is not None, done.stdout
    return int(found[1]) / int(found[2])


def thousand(args: argparse.Namespace) -> int:
    """Time training with very many classes."""
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        shape = make_shape("kddcup", 1, args.classes, args.features)
        generate(shape, Path(name) / "text.svm", n_rows=args.rows)
        run(*PROGRAM, "split", Path(name) / "text.svm", Path(name) / "store", "-q")
        seconds = run(
            *PROGRAM, "train", Path(name) / "store", Path(name) / "m", "-q", "--gap", "0.01"
        )
        n_classes = len(LinearModel.load(Path(name) / "m").labels)
    print_table(("classes", "rows", "features", "seconds"),
                [(n_classes, args.rows, args.features, seconds)])  # fmt: skip
    write_figures(args.out, "models_thousand", {"classes": n_classes, "seconds": seconds})
    return 0


def main(argv: list[str] | None = None) -> int:
    """Run one measurement; return 0 if what is asked holds."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--out", type=Path, default=BENCH / "results", help="for the JSON")
    shared.add_argument(
        "--folder", type=Path, help="where there is room (default: a temporary one)"
    )
    commands = parser.add_subparsers(required=True, metavar="WHAT")
    one = commands.add_parser("sweep", parents=[shared])
    one.add_argument("source", type=Path, nargs="?", metavar="FILE.svm")
    one.add_argument("--rows", type=int, default=60_000)
    one.add_argument("--outer", type=int, default=6)
    one.add_argument("--group", type=int, default=16, help="of 16 blocks a visit")
    one.add_argument("--cost", type=float, default=1.0)
    one.add_argument("--selection", nargs="+", default=["permute", "active"])
    one.set_defaults(run=sweep)
    two = commands.add_parser("cv", parents=[shared])
    two.add_argument("source", type=Path, metavar="FILE.svm")
    two.add_argument("--costs", default="0.01,0.03,0.1,0.3,1,3")
    two.add_argument("--solver", type=int, default=3)
    two.add_argument("--gap", type=float, default=0.001)
    two.add_argument("--memory", default="1G", help="limit of the cgroup (default 1G)")
    two.add_argument("--budget", default="600M", help="what we are given (default 600M)")
    two.add_argument("--alone", action="store_true", help="without LIBLINEAR")
    two.set_defaults(run=cv)
    three = commands.add_parser("classes", parents=[shared])
    three.add_argument("--train", type=Path, metavar="FILE")
    three.add_argument("--test", type=Path, metavar="FILE")
    three.add_argument("--generated", type=int, default=0, metavar="CLASSES", help="instead")
    three.add_argument("--rows", type=int, default=25_000, help="generated, a fifth for the test")
    three.add_argument("--features", type=int, default=20_000, help="of generated rows")
    three.add_argument("--solvers", type=int, nargs="+", default=list(SOLVERS))
    three.add_argument("--cost", type=float, default=1.0)
    three.add_argument("--gap", type=float, default=1e-6)
    three.add_argument("--tolerance", type=float, default=1e-6, help="LIBLINEAR's -e")
    three.set_defaults(run=classes)
    four = commands.add_parser("thousand", parents=[shared])
    four.add_argument("--classes", type=int, default=1000)
    four.add_argument("--rows", type=int, default=20_000)
    four.add_argument("--features", type=int, default=20_000)
    four.set_defaults(run=thousand)
    args = parser.parse_args(argv)
    status: int = args.run(args)
    return status


if __name__ == "__main__":
    raise SystemExit(main())
