"""Measure training: against LIBLINEAR, against the theory, and against its own parts.

    python bench/train.py total FILE.svm         split + train against LIBLINEAR's whole time
    python bench/train.py regroup [FILE|STORE..] outer iterations, groups of blocks against memory
    python bench/train.py overlap STORE          seconds against the larger of loading and solving
    python bench/train.py selection              steps and seconds of the selections of rows, by C
    python bench/train.py kernel FILE.svm        nonzeros a second against LIBLINEAR's C loop
    python bench/train.py gap                    certified gaps against true ones

Each prints a table, and stores its figures as JSON in the folder --out.
"""

import argparse
import shlex
import shutil
import statistics
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import convergence
import gaps
import kernel_speed
from limits import LimitsUnavailable, Result, limited, parse_limit
from measuring import (
    BENCH,
    PROGRAM,
    compile_kernels,
    hinge_optimum,
    hinge_primal,
    liblinear,
    logged,
    print_table,
    write_figures,
)

from blocklinear import BlockStore, LinearModel

ASKED = {0.01: 0.5, 0.0002: 0.8}
"""Of LIBLINEAR's whole time, what splitting and training to a gap may take."""
OVERLAP = 1.15
"""Of the larger of loading and solving, what an outer iteration may take."""


@dataclass(frozen=True)
class Rival:
    """A command to be timed in turn with others, and the model that it writes."""

    name: str
    command: list[str]
    model: Path
    memory: str | None
    gap: float | None = None


def rivals(args: argparse.Namespace, folder: Path) -> list[Rival]:
    """Return what `total` compares; LIBLINEAR last."""
    found = []
    for gap in ASKED:
        store, model = folder / f"store{gap:g}", folder / f"model{gap:g}"
        program, budget = shlex.join(PROGRAM), ["--memory", args.memory, "-q"]
        split = shlex.join(["split", str(args.source), str(store), *budget])
        train = ["train", str(store), str(model), "-s", "3", "-c", f"{args.cost:g}", *budget]
        train += ["--gap", f"{gap:g}", "--log", f"{model}.jsonl"]
        script = f"{program} {split} && exec {program} {shlex.join(train)}"
        name = f"split + train --gap {gap:g}"
        found.append(Rival(name, ["sh", "-c", script], model, args.memory, gap))
    model = folder / "liblinear"
    command = liblinear(args.source, model, args.cost)
    found.append(Rival("liblinear-train -s 3", command, model, None))
    return found


def timed(rival: Rival, folder: Path, cold: bool) -> Result:
    """Run a command once."""
    for store in folder.glob("store*"):
        shutil.rmtree(store)
    rival.model.unlink(missing_ok=True)  # what a run that is killed leaves is not another's
    with limited(memory=rival.memory, cold=cold) as run:
        result = run(rival.command, capture=True)
    if result.returncode and not result.oom_kills:
        raise SystemExit(f"{rival.name} failed: {result.stderr}")
    return result


def total(args: argparse.Namespace) -> int:
    """Compare the time from text to model with LIBLINEAR's, runs in turn."""
    with tempfile.TemporaryDirectory(dir=args.source.absolute().parent) as name:
        folder = Path(name)
        compile_kernels(folder)
        found = rivals(args, folder)
        results: dict[str, list[Result]] = {rival.name: [] for rival in found}
        for _ in range(args.runs):
            for rival in found:
                results[rival.name].append(timed(rival, folder, not args.warm))
        excess = excesses(args, found)
        training = {rival.name: trained(rival) for rival in found if rival.gap}
    medians = {
        name: statistics.median(result.wall_seconds for result in taken)
        for name, taken in results.items()
    }
    theirs = medians[found[-1].name]
    rows, failed = [], 0
    for rival in found:
        taken, ratio = results[rival.name], medians[rival.name] / theirs
        kills = sum(result.oom_kills for result in taken)
        asked = ASKED[rival.gap] if rival.gap else None
        holds = asked is None or (ratio <= asked and not kills)
        failed += not holds
        rows.append((
            rival.name, medians[rival.name], training.get(rival.name, "-"),
            ratio, asked or "-", max(r.peak_anonymous_bytes for r in taken) >> 20, kills,
            excess[rival.name], "ok" if holds else "MISSED",
        ))  # fmt: skip
    header = ("", "seconds", "training", "of theirs", "asked", "peak MiB", "OOM", "(P-P*)/P*", "")
    print_table(header, rows)
    write_figures(args.out, "total", {
        "source": args.source.name, "memory": args.memory, "cost": args.cost, "asked": ASKED,
        "cold": not args.warm, "medians": medians, "excess": excess, "training_seconds": training,
        "seconds": {n: [result.wall_seconds for result in taken] for n, taken in results.items()},
        "cpu": {n: [result.cpu_seconds for result in taken] for n, taken in results.items()},
        "rows": rows,
    })  # fmt: skip
    return 1 if failed else 0


def trained(rival: Rival) -> float:
    """Return the seconds of training alone in the last run; NaN where there is no end of it."""
    log = Path(f"{rival.model}.jsonl")
    return float(logged(log)[-1]["seconds"]) if rival.model.exists() else float("nan")


def excesses(args: argparse.Namespace, found: list[Rival]) -> dict[str, float]:
    """Return (P - P*) / P* of each model; NaN where there is none."""
    cache = args.out / "optima.json"
    best = hinge_optimum(args.source, args.cost, args.tolerance, cache)
    print(
        f"P* {best['primal']:.10g} (LIBLINEAR -e {args.tolerance:g}, {best['iterations']} "
        f"iterations, its own gap {1 - best['dual'] / best['primal']:.1e})"
    )
    excess = {}
    for rival in found:
        if not rival.model.exists():
            excess[rival.name] = float("nan")
            continue
        if rival.gap:
            primal = LinearModel.load(rival.model).metadata["certificate"]["primal"]
        else:
            primal = hinge_primal(rival.model, args.source, args.cost)
        excess[rival.name] = (primal - best["primal"]) / best["primal"]
    return excess


def overlap(args: argparse.Namespace) -> int:
    """Compare the seconds of outer iterations with the larger of loading and solving."""
    m = BlockStore.open(args.store).manifest
    print(f"decoded {12 * m.nnz >> 20} MiB, in files {sum(b.bytes for b in m.blocks) >> 20} MiB")
    rows, missed, figures = [], 0, {}
    with tempfile.TemporaryDirectory(dir=args.store.absolute().parent) as name:
        folder = Path(name)
        compile_kernels(folder)
        for selection in args.selection:
            log = folder / f"{selection}.jsonl"
            command = [
                *PROGRAM, "train", args.store, folder / "model", "--memory", args.memory, "-q",
                "--epochs", "1", "--selection", selection, "--gap", "1e-12", "--run", "overlap",
                "--max-outer", str(args.outer), "--log", log,
            ]  # fmt: skip
            with limited(args.memory, args.read_bps, disk_of=args.store) as run:
                result = run(command, capture=True)
            if result.returncode:
                raise SystemExit(f"rc {result.returncode}: {result.stderr}")
            found = outer_seconds(logged(log))
            figures[selection] = found
            missed += sum(not one["ok"] for one in found if one["outer"] > 1)
            rows += [(selection, *one.values()) for one in found]
    print_table(("selection", "outer", "seconds", "load", "wait", "solve", "ratio", "ok"), rows)
    counted = [row[6] for row in rows if row[1] > 1]
    print(
        f"after the first, which begins with nothing loaded: median ratio "
        f"{statistics.median(counted):.3f}, largest {max(counted):.3f}, "
        f"{missed} of {len(counted)} above {OVERLAP}"
    )
    shutil.rmtree(args.store / "runs" / "overlap", ignore_errors=True)
    facts = {"store": args.store.name, "memory": args.memory, "read_bps": args.read_bps}
    write_figures(args.out, "overlap", {**facts, "asked": OVERLAP, "outer_iterations": figures})
    return 1 if statistics.median(counted) > OVERLAP else 0


def outer_seconds(log: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what the outer iterations of a log cost, those with a certificate left out."""
    found, before = [], 0.0
    for event in log:
        seconds, before = event["seconds"] - before, event["seconds"]
        if event["certified"]:
            continue
        larger = max(event["load_s"], event["solve_s"])
        found.append({
            "outer": event["outer"], "seconds": seconds, "load_s": event["load_s"],
            "wait_s": event["wait_s"], "solve_s": event["solve_s"], "ratio": seconds / larger,
            "ok": seconds <= OVERLAP * larger,
        })  # fmt: skip
    return found


def size(text: str) -> str:
    """Check a size, and return it as written."""
    try:
        parse_limit(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument(
        "--out", type=Path, default=BENCH / "results", metavar="FOLDER", help="for the JSON"
    )
    commands = parser.add_subparsers(required=True, metavar="WHAT")
    whole = commands.add_parser("total", parents=[shared], help="split + train against LIBLINEAR")
    whole.add_argument("source", type=Path, metavar="FILE.svm", help="two classes, not compressed")
    whole.add_argument("--runs", type=int, default=3)
    whole.add_argument("--memory", type=size, default="256M", help="ours (default 256M)")
    whole.add_argument("--cost", type=float, default=1.0)
    whole.add_argument("--tolerance", type=float, default=1e-4, help="LIBLINEAR's, for P*")
    whole.add_argument("--warm", action="store_true", help="leave the page cache as it is")
    whole.set_defaults(run=total)
    costs = commands.add_parser("overlap", parents=[shared], help="loading behind solving")
    costs.add_argument("store", type=Path, metavar="STORE")
    costs.add_argument("--memory", type=size, default="256M", help="less than the data")
    costs.add_argument("--read-bps", type=size, help="slow the disk down, for example 100M")
    costs.add_argument("--outer", type=int, default=12, help="outer iterations (default 12)")
    costs.add_argument("--selection", nargs="+", default=["active", "permute"])
    costs.set_defaults(run=overlap)
    for module in (convergence, kernel_speed, gaps):
        module.add_parsers(commands, shared)
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    """Run one measurement; return 0 if what is asked holds."""
    args = arguments(argv)
    try:
        return args.run(args)  # type: ignore[no-any-return]
    except LimitsUnavailable as reason:
        print(reason, file=sys.stderr)
        return 125


if __name__ == "__main__":
    sys.exit(main())
