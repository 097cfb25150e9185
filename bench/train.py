"""Measure training: against LIBLINEAR, against the theory, and against its own parts.

    python bench/train.py total FILE.svm         split + train against LIBLINEAR's whole time
    python bench/train.py cv FILE.svm            5 folds x 6 C against LIBLINEAR's runs one by one
    python bench/train.py models FILE.svm        an outer iteration of many models against one
    python bench/train.py speed FILE.svm         nonzeros a second of an epoch and a certificate
    python bench/train.py work                   epochs and certificates, by data, C and gap
    python bench/train.py regroup [FILE|STORE..] outer iterations, groups of blocks against memory
    python bench/train.py overlap STORE          seconds against the larger of loading and solving
    python bench/train.py selection              steps and seconds of the selections of rows, by C

Each prints a table, and stores its figures as JSON in the folder --out.
"""

import argparse
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import convergence
import models
import rivals
import speed
import work
from limits import LimitsUnavailable, limited
from measuring import BENCH, PROGRAM, compile_kernels, logged, print_table, write_figures
from rivals import size

from blocklinear import BlockStore

OVERLAP = 1.15
"""Of the larger of loading and solving, what an outer iteration may take."""


def overlap(args: argparse.Namespace) -> int:
    """Compare the seconds of outer iterations with the larger of loading and solving."""
    m = BlockStore.open(args.store).manifest
    print(f"decoded {12 * m.nnz >> 20} MiB, in files {sum(b.bytes for b in m.blocks) >> 20} MiB")
    rows, missed, figures = [], 0, {}
    with tempfile.TemporaryDirectory(dir=args.store.absolute().parent) as name:
        folder = Path(name)
        compile_kernels()
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
    costs = commands.add_parser("overlap", parents=[shared], help="loading behind solving")
    costs.add_argument("store", type=Path, metavar="STORE")
    costs.add_argument("--memory", type=size, default="256M", help="less than the data")
    costs.add_argument("--read-bps", type=size, help="slow the disk down, for example 100M")
    costs.add_argument("--outer", type=int, default=12, help="outer iterations (default 12)")
    costs.add_argument("--selection", nargs="+", default=["active", "permute"])
    costs.set_defaults(run=overlap)
    for module in (rivals, models, speed, work, convergence):
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
