"""Compare what `blocklinear plan` estimates with what then happens.

    python bench/plan.py blog.svm imdb.svm --memory 2G -s 3 -c 1 --gap 0.001

Each file is planned, split, passed over and trained on, in this order and in this process, which
has loaded what is compiled by then. A row of the table is what was found, with the ratio of the
estimate to it; `in` says whether it is within the range of the estimate.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

from measuring import print_table

import blocklinear
from blocklinear.memory import parse_size
from blocklinear.options import SplitOptions, TextOptions, TrainOptions
from blocklinear.planning.growth import Range
from blocklinear.planning.plan import plan
from blocklinear.planning.trials import pass_seconds

TARGETS = {"store_bytes": 1.1, "split_s": 1.25, "pass_s": 1.25, "train_s": 1.6}
"""By what factor an estimate may be wrong."""


def happened(path: Path, options: TrainOptions, runs: int) -> dict[str, float]:
    """Split a file, pass over the store, and train; return what it took: the median of the runs."""
    times: dict[str, list[float]] = {"split_s": [], "train_s": []}
    with tempfile.TemporaryDirectory(prefix="plan-") as folder:
        for run in range(runs):
            os.sync()  # what another has left to be written is not this one's
            started = time.perf_counter()
            store = blocklinear.split(
                path, Path(folder) / f"store{run}", memory_bytes=options.memory_bytes
            )
            times["split_s"].append(time.perf_counter() - started)
        pass_s = pass_seconds(store, options.threads)
        for _ in range(runs):
            started = time.perf_counter()
            blocklinear.train(store, options, restart=True)
            times["train_s"].append(time.perf_counter() - started)
        m = store.manifest
        size = sum(block.bytes for block in m.blocks) + sum(file.bytes for file in m.features)
    return {
        "rows": m.n_rows, "features": m.n_features, "entries": m.nnz, "store_bytes": size,
        "pass_s": pass_s, **{name: sorted(found)[runs // 2] for name, found in times.items()},
    }  # fmt: skip


def compared(path: Path, options: TrainOptions, runs: int) -> dict[str, dict[str, float]]:
    """Return what was estimated and what happened, by what it is."""
    text = SplitOptions(text=TextOptions(memory_bytes=options.memory_bytes))
    report = plan(path, options, text)
    found = happened(path, options, runs)
    table = {"plan_s": {"found": report.seconds}}
    for name, value in found.items():
        guess = getattr(report, name)
        assert isinstance(guess, Range)
        table[name] = {
            "found": value, "estimated": guess.likely, "low": guess.low, "high": guess.high,
            "ratio": guess.likely / value, "inside": guess.low <= value <= guess.high,
        }  # fmt: skip
    return table


def _cells(name: str, row: dict[str, float]) -> list[object]:
    """Return a row of the table; `!` stands where an estimate is further off than asked."""
    most = TARGETS.get(name, float("inf"))
    off = "!" if max(row["ratio"], 1 / row["ratio"]) > most else ""
    where = "in" if row["inside"] else "out"
    asked = f"{most} {off}" if name in TARGETS else ""
    return [name, row["found"], row["estimated"], round(row["ratio"], 2), where, asked]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--memory", default="2G")
    parser.add_argument("-s", dest="solver", type=int, default=3)
    parser.add_argument("-c", dest="cost", type=float, default=1.0)
    parser.add_argument("--gap", type=float, default=1e-3)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    options = TrainOptions(
        solver=args.solver, cost=args.cost, gap=args.gap, memory_bytes=parse_size(args.memory)
    )
    header = ["what", "found", "estimated", "ratio", "range", "asked"]
    for path in args.files:
        table = compared(path, options, args.runs)
        if args.json:
            print(json.dumps({"file": path.name, **table}), flush=True)
            continue
        print(f"\n{path.name}: planned in {table.pop('plan_s')['found']:.1f} s")
        print_table(header, [_cells(name, row) for name, row in table.items()])
    return 0


if __name__ == "__main__":
    sys.exit(main())
