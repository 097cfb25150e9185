"""Whole programs against LIBLINEAR's, run in turn: `train.py total`, `train.py cv`.

Seconds count from the start of a process to its end: of ours reading the text, splitting, training
and writing the model; of `liblinear-train` reading, training with its default tolerance and writing
the model. What each has reached is reported, too: P of every model, computed alike from its
decision values, above the least P that is known.
"""

import argparse
import contextlib
import json
import os
import re
import shlex
import shutil
import statistics
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from limits import Result, limited, parse_limit
from measuring import (
    PROGRAM,
    compile_kernels,
    environment,
    logged,
    open_rows,
    print_table,
    write_figures,
)

from blocklinear import LinearModel
from blocklinear.model.predict import predict_stream

REGRESSION = (12, 13)


@dataclass(frozen=True)
class Rival:
    """A command to be timed in turn with others, and the model that it writes."""

    name: str
    command: list[str]
    model: Path
    memory: str | None
    gap: float | None = None
    version: Path | None = None

    @property
    def log(self) -> Path:
        """The log of its outer iterations, where it has one."""
        return Path(f"{self.model}.jsonl")


def ours(
    args: argparse.Namespace, text: Path, folder: Path, gap: float, version: Path | None = None
) -> Rival:
    """Return our run from text to a model, of this version or another."""
    before = "before: " if version else ""
    model = folder / f"{before[:6]}model{gap:g}"
    store = folder / f"{text.name}{gap:g}.blocks"
    shared = ["-q"]
    shared += ["--memory", args.memory] if args.memory else []
    shared += ["--threads", str(args.threads)] if args.threads else []
    source = store
    if args.direct:
        source = store.with_suffix("")  # `train` makes its store as source.blocks
        if not source.exists():
            source.symlink_to(text.absolute())
    train = ["train", str(source), str(model), "--gap", f"{gap:g}", "--log", f"{model}.jsonl"]
    train += ["--format", args.format, *problem(args), *args.option, *shared]
    limit = None if args.no_cgroup else args.memory
    if args.direct:
        return Rival(
            f"{before}train TEXT --gap {gap:g}", [*PROGRAM, *train], model, limit, gap, version
        )
    program = shlex.join(PROGRAM)
    split = shlex.join(["split", str(text), str(store), *shared])
    script = f"{program} {split} && exec {program} {shlex.join(train)}"
    name = f"{before}split + train --gap {gap:g}"
    return Rival(name, ["sh", "-c", script], model, limit, gap, version)


def theirs(args: argparse.Namespace, text: Path, model: Path, tolerance: float | None) -> Rival:
    """Return LIBLINEAR's run, with the tolerance it has by default if none is given."""
    stop = [] if tolerance is None else ["-e", f"{tolerance:g}"]
    command = ["liblinear-train", *problem(args), *stop, "-q", str(text), str(model)]
    name = " ".join(["liblinear-train", "-s", str(args.solver), *stop])
    return Rival(name, command, model, None)


def problem(args: argparse.Namespace) -> list[str]:
    """Return the options of the problem, which both programs spell alike."""
    bias = ["-B", f"{args.bias:g}"] if args.bias >= 0 else []
    return ["-s", str(args.solver), "-c", f"{args.cost:g}", *bias]


@contextlib.contextmanager
def processors(n: int | None) -> Iterator[None]:
    """Let programs started here run on so many processors only."""
    before = os.sched_getaffinity(0)
    if n is not None:
        os.sched_setaffinity(0, sorted(before)[:n])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def timed(rival: Rival, cold: bool, clear: Iterable[Path]) -> Result:
    """Run a command once, without what runs before it left."""
    for path in (*clear, rival.model, rival.log):
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    os.sync()  # what another has left to be written is not this one's
    with limited(memory=rival.memory, cold=cold) as run:
        result = run(rival.command, capture=True, env=environment(rival.version))
    if result.returncode and not result.oom_kills:
        raise SystemExit(f"{rival.name} failed: {result.stderr}")
    return result


def in_turn(
    rivals: list[Rival], args: argparse.Namespace, clear: Callable[[], Iterable[Path]]
) -> tuple[dict[str, list[Result]], dict[str, list[dict[str, Any]]]]:
    """Run all commands so many times, one after the other.

    Return what was measured of each run, and the last event that each has logged.
    """
    results: dict[str, list[Result]] = {rival.name: [] for rival in rivals}
    last: dict[str, list[dict[str, Any]]] = {rival.name: [] for rival in rivals}
    with processors(args.threads):
        for turn in range(args.runs):
            for rival in rivals:
                result = timed(rival, not args.warm, clear())
                results[rival.name].append(result)
                last[rival.name] += logged(rival.log)[-1:] if rival.log.exists() else []
                print(f"{turn + 1}: {rival.name}: {result.wall_seconds:.2f} s", flush=True)
    return results, last


def medians(results: dict[str, list[Result]]) -> dict[str, float]:
    """Return the median of the seconds of each command."""
    return {
        name: statistics.median(result.wall_seconds for result in taken)
        for name, taken in results.items()
    }


def need_liblinear() -> None:
    """Leave unless LIBLINEAR is there to compare with."""
    if shutil.which("liblinear-train") is None:
        raise SystemExit("liblinear-train is not on the PATH (liblinear-tools in Debian)")


def ratio_to(taken: list[Result], others: list[Result]) -> float:
    """Return the median over turns of the ratio of seconds: what else ran slowed both of a turn."""
    pairs = zip(taken, others, strict=True)
    return statistics.median(one.wall_seconds / other.wall_seconds for one, other in pairs)


# -- The data


def plain_text(source: Path, folder: Path, classes: int | None) -> Path:
    """Return LIBSVM text as LIBLINEAR reads it: not compressed, of so many classes.

    Kept are the rows of the largest classes; of equals those of the smaller label.
    """
    if classes is None and source.suffix not in (".xz", ".bz2"):
        return source
    kept = None
    if classes is not None:
        with open_rows(source) as stream:
            counts = Counter(line.split(None, 1)[0] for line in stream if line.strip())
        if len(counts) < classes:
            raise SystemExit(f"{source} has {len(counts)} classes, not {classes}")
        kept = set(sorted(counts, key=lambda label: (-counts[label], float(label)))[:classes])
    target = folder / "rows.svm"
    with open_rows(source) as stream, open(target, "wb") as out:
        if kept is None:
            shutil.copyfileobj(stream, out)
        else:
            out.writelines(
                line for line in stream if line.strip() and line.split(None, 1)[0] in kept
            )
    return target


def labels_of(text: Path) -> np.ndarray:
    """Return the label of each row."""
    with open_rows(text) as stream:
        return np.array([float(line.split(None, 1)[0]) for line in stream if line.strip()])


# -- What was reached


def objectives(model: Path, text: Path, args: argparse.Namespace) -> np.ndarray:
    """Return P of a model, of several classes against the rest that of each, from its decisions."""
    made, y = LinearModel.load(model), labels_of(text)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "decisions"
        predict_stream(made, [str(text)], path, decision=True)
        scores = np.loadtxt(path, ndmin=2).reshape(len(y), -1)
    square = (made.weights**2).sum(axis=0) + made.bias_weights**2
    if args.solver == 4:
        return np.array([0.5 * square.sum() + args.cost * multi_class_losses(made, scores, y)])
    if args.solver in REGRESSION:
        excess = np.maximum(0.0, np.abs(scores - y[:, None]) - 0.1)
        losses = excess**2 if args.solver == 12 else excess
    else:
        of_column = np.array(made.labels)[: scores.shape[1]]
        margins = np.where(y[:, None] == of_column, 1.0, -1.0) * scores
        slack = np.maximum(0.0, 1.0 - margins)
        losses = {1: slack**2, 2: slack**2, 3: slack, 5: slack**2}.get(
            args.solver, np.logaddexp(0.0, -margins)
        )
    sizes = np.abs(made.weights).sum(axis=0) + np.abs(made.bias_weights)
    penalty = sizes if args.solver in (5, 6) else 0.5 * square
    return np.asarray(penalty + args.cost * losses.sum(axis=0))


def multi_class_losses(model: LinearModel, scores: np.ndarray, y: np.ndarray) -> float:
    """Return the sum of Crammer and Singer's losses."""
    rows, code = np.arange(len(y)), (np.array(model.labels) == y[:, None]).argmax(axis=1)
    lost = scores + 1.0 - scores[rows, code][:, None]
    lost[rows, code] = 0.0
    return float(lost.max(axis=1).sum())


def reference(args: argparse.Namespace, text: Path, folder: Path) -> np.ndarray:
    """Return P of a long run of LIBLINEAR, kept in the folder of figures."""
    cache, status = args.out / "optima.json", args.source.stat()
    known = json.loads(cache.read_text()) if cache.exists() else {}
    key = (
        f"{args.source.name} {status.st_size} {status.st_mtime_ns} classes {args.classes} "
        f"{shlex.join(problem(args))} -e {args.tolerance:g}"
    )
    if key not in known:
        rival = theirs(args, text, folder / "reference", args.tolerance)
        subprocess.run(rival.command, check=True, capture_output=True)
        known[key] = objectives(rival.model, text, args).tolist()
        cache.parent.mkdir(parents=True, exist_ok=True)
        cache.write_text(json.dumps(known, indent=1) + "\n")
    return np.array(known[key])


def excess(found: np.ndarray, best: np.ndarray) -> tuple[float, float]:
    """Return by which part P is above the best: summed over models, and of the worst model."""
    return float((found.sum() - best.sum()) / best.sum()), float(((found - best) / best).max())


def accuracy(model: Path, rows: Path) -> float:
    """Return the share of rows that are predicted right."""
    command = [*PROGRAM, "predict", str(rows), str(model), os.devnull]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found = re.search(r"\((\d+)/(\d+)\)", done.stdout)
    return int(found[1]) / int(found[2]) if found else float("nan")


def median_of(events: list[dict[str, Any]], what: str) -> float | str:
    """Return the median of a field of events, a dash if there are none."""
    return statistics.median(event[what] for event in events) if events else "-"


# -- The commands


def total(args: argparse.Namespace) -> int:
    """Compare the time from text to model with LIBLINEAR's, runs in turn."""
    need_liblinear()
    with tempfile.TemporaryDirectory(dir=args.folder or args.source.absolute().parent) as name:
        folder = Path(name)
        versions = [None, args.before] if args.before else [None]
        for version in versions:
            compile_kernels(version)
        text = plain_text(args.source, folder, args.classes)
        rivals = [ours(args, text, folder, gap, v) for gap in args.gap for v in versions]
        rivals.append(theirs(args, text, folder / "liblinear", None))
        results, logs = in_turn(rivals, args, lambda: folder.glob("*.blocks"))
        written = [rival for rival in rivals if rival.model.exists()]
        primal = {rival.name: objectives(rival.model, text, args) for rival in written}
        known = list(primal.values())
        if not args.no_reference:
            known.append(reference(args, text, folder))
        best = np.minimum.reduce(known)
        shares = {r.name: accuracy(r.model, args.test) for r in written if args.test}
    lower = max((log[-1]["dual"] for log in logs.values() if log), default=float("nan"))
    print(f"P* {best.sum():.9g}; a certified bound is {1 - lower / best.sum():.1e} of it below")
    seconds, asked = medians(results), dict(zip(args.gap, args.asked, strict=False))
    rows, failed = [], 0
    for rival in rivals:
        taken, ratio = results[rival.name], ratio_to(results[rival.name], results[rivals[-1].name])
        kills = sum(result.oom_kills for result in taken)
        limit = asked.get(rival.gap) if rival.gap and not rival.version else None
        missed = bool(kills) or (limit is not None and ratio > limit)
        failed += missed
        above = excess(primal[rival.name], best) if rival.name in primal else ("-", "-")
        rows.append((
            rival.name, seconds[rival.name], min(r.wall_seconds for r in taken),
            statistics.median(r.cpu_seconds for r in taken),
            median_of(logs[rival.name], "seconds"), median_of(logs[rival.name], "outer"),
            ratio, limit or "-", max(r.peak_anonymous_bytes for r in taken) >> 20, kills, *above,
            shares.get(rival.name, "-"), "MISSED" if missed else "ok",
        ))  # fmt: skip
    header = (
        "", "seconds", "least", "cpu", "training", "outer", "of theirs", "asked", "peak MiB",
        "OOM", "(P-P*)/P*", "worst", "accuracy", "",
    )  # fmt: skip
    print_table(header, rows)
    write_figures(args.out, "total", {
        "source": args.source.name, "classes": args.classes, "problem": problem(args),
        "memory": args.memory, "cgroup": bool(args.memory and not args.no_cgroup),
        "threads": args.threads, "cold": not args.warm, "asked": asked,
        "seconds": {n: [result.wall_seconds for result in taken] for n, taken in results.items()},
        "cpu": {n: [result.cpu_seconds for result in taken] for n, taken in results.items()},
        "header": header, "rows": rows,
    })  # fmt: skip
    return 1 if failed else 0


def cv(args: argparse.Namespace) -> int:
    """Compare cross-validation over a grid with LIBLINEAR's, once for each C."""
    need_liblinear()
    costs, folds = args.costs.split(","), ["-v", str(args.folds), "-s", str(args.solver)]
    with tempfile.TemporaryDirectory(dir=args.folder or args.source.absolute().parent) as name:
        folder = Path(name)
        versions = [None, args.before] if args.before else [None]
        for version in versions:
            compile_kernels(version)
        text = plain_text(args.source, folder, args.classes)
        linked = folder / "store.svm"  # `cv` makes its store as store.svm.blocks
        linked.symlink_to(text.absolute())
        command = [*PROGRAM, "cv", str(linked), "-c", args.costs, *folds, "--json", "-q"]
        command += ["--gap", f"{args.gap:g}", *args.option]
        command += ["--memory", args.memory] if args.memory else []
        command += ["--threads", str(args.threads)] if args.threads else []
        limit = None if args.no_cgroup else args.memory
        none = folder / "none"  # neither program writes a model
        rivals = [
            Rival("before: cv" if v else "cv", command, none, limit, version=v) for v in versions
        ]
        rivals += [
            Rival(f"liblinear-train C = {c}", ["liblinear-train", *folds, "-c", c, "-q", str(text)],
                  none, None) for c in costs
        ]  # fmt: skip
        results, _ = in_turn(rivals, args, lambda: [folder / "store.svm.blocks"])
    seconds, said = medians(results), {n: taken[-1].stdout for n, taken in results.items()}
    accuracies = cv_accuracies(said, costs, args.solver)
    rows: list[tuple[object, ...]] = [
        (c, seconds[f"liblinear-train C = {c}"], *accuracies[c]) for c in costs
    ]
    print_table(("C", "seconds of LIBLINEAR", "its accuracy", "ours"), rows)
    sum_of_theirs = sum(seconds[f"liblinear-train C = {c}"] for c in costs)
    if args.before:
        print(f"before: cv {seconds['before: cv']:.2f} s")
    ratio, kills = seconds["cv"] / sum_of_theirs, sum(r.oom_kills for r in results["cv"])
    peak = max(result.peak_anonymous_bytes for result in results["cv"])
    print(
        f"cv {seconds['cv']:.2f} s, LIBLINEAR {sum_of_theirs:.2f} s: {ratio:.3f} of its time, "
        f"asked {args.asked}; peak {peak >> 20} MiB, {kills} OOM kills"
    )
    write_figures(args.out, "cv", {
        "source": args.source.name, "classes": args.classes, "solver": args.solver,
        "folds": args.folds, "memory": args.memory, "threads": args.threads, "gap": args.gap,
        "asked": args.asked, "ratio": ratio, "rows": rows, "peak_anonymous_bytes": peak,
        "seconds": {n: [result.wall_seconds for result in taken] for n, taken in results.items()},
    })  # fmt: skip
    return 1 if kills or ratio > args.asked else 0


def cv_accuracies(said: dict[str, str], costs: list[str], solver: int) -> dict[str, tuple]:
    """Return LIBLINEAR's accuracy at each C, and ours, in percent; errors of a regression."""
    report = json.loads(said["cv"])
    what = "mean_squared_error" if solver in REGRESSION else "accuracy"
    own = {float(one["C"]): one["mean"][what] for one in report["costs"]}
    found = {}
    for cost in costs:
        text = said[f"liblinear-train C = {cost}"]
        seen = re.search(r"= ([\d.eE+-]+)", text)
        value = own.get(float(cost), float("nan"))
        scale = 1.0 if solver in REGRESSION else 100.0
        found[cost] = (float(seen[1]) if seen else float("nan"), scale * value)
    return found


def size(text: str) -> str:
    """Check a size, and return it as written."""
    try:
        parse_limit(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text


def add_parsers(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Add the commands of this file."""
    both = argparse.ArgumentParser(add_help=False)
    both.add_argument("source", type=Path, metavar="FILE.svm", help="LIBSVM text")
    both.add_argument("-s", "--solver", type=int, default=3, help="(default 3, hinge loss)")
    both.add_argument("--classes", type=int, metavar="N", help="rows of the N largest classes only")
    both.add_argument("--memory", type=size, help="our budget, and the limit of our cgroup")
    both.add_argument("--no-cgroup", action="store_true", help="a budget, but no limit")
    both.add_argument("--threads", type=int, metavar="N", help="and processors, of both programs")
    both.add_argument("--warm", action="store_true", help="leave the page cache as it is")
    both.add_argument("--folder", type=Path, help="for the store (default: that of FILE.svm)")
    both.add_argument(
        "--before", type=Path, metavar="FOLDER", help="another checkout, run in turn with this one"
    )
    both.add_argument(
        "--option", action="append", default=[], metavar="OPTION", help="more for our program"
    )
    whole = commands.add_parser(
        "total", parents=[shared, both], help="split + train against LIBLINEAR",
        description="Time from text to model, ours and LIBLINEAR's in turn.",
    )  # fmt: skip
    whole.add_argument("--runs", type=int, default=5)
    whole.add_argument("--gap", type=float, nargs="+", default=[0.01, 0.0002])
    whole.add_argument(
        "--asked", type=float, nargs="+", default=[], metavar="RATIO", help="for each --gap"
    )
    whole.add_argument("-c", "--cost", type=float, default=1.0)
    whole.add_argument("-B", "--bias", type=float, default=-1.0)
    whole.add_argument("--format", choices=("native", "liblinear"), default="native")
    whole.add_argument("--test", type=Path, metavar="FILE.svm", help="for the accuracy")
    whole.add_argument("--tolerance", type=float, default=1e-4, help="LIBLINEAR's -e, for P*")
    whole.add_argument("--direct", action="store_true", help="`train TEXT`, one process of ours")
    whole.add_argument("--no-reference", action="store_true", help="P* is the least of these runs")
    whole.set_defaults(run=total)
    folds = commands.add_parser(
        "cv", parents=[shared, both], help="folds and costs against LIBLINEAR's runs one by one"
    )
    folds.add_argument("--runs", type=int, default=3)
    folds.add_argument("--folds", type=int, default=5)
    folds.add_argument("--costs", default="0.01,0.03,0.1,0.3,1,3")
    folds.add_argument("--gap", type=float, default=0.001)
    folds.add_argument("--asked", type=float, default=0.25, metavar="RATIO")
    folds.set_defaults(run=cv)
