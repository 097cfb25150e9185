"""How many outer iterations, steps and seconds training takes: `train.py regroup`, `selection`."""

import argparse
import statistics
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

from generate import parse_bytes
from measuring import TEXT, generated_text, print_table, sources, two_classes, write_figures

from blocklinear import BlockStore, SplitOptions, TrainOptions, split, train
from blocklinear.events import Event, OuterIteration

MEMORY_BYTES = 8 << 30
REGROUP_SETS = ("a9a", "imdb_uni", "reuters52")
SELECTION_SETS = ("rcv1_vw1000", "imdb_uni", "reuters52", "covtype20k_bin")
ASKED = 1.2
"""Outer iterations of groups of a tenth of the blocks, of those with all rows in memory."""
EPOCHS = {"avsf": 4, "shrink": 10}
"""Epochs a visit of the selections that learn from the first epoch of a visit; of the others 1."""
SMALL_GAP = 1e-6


@dataclass
class Run:
    """What a run took, and whether it reached its gap."""

    outer: int = 0
    steps: int = 0
    seconds: float = 0.0
    reached: bool = False

    def __call__(self, event: Event) -> None:
        """Add up what an outer iteration took."""
        if isinstance(event, OuterIteration):
            self.outer, self.seconds = event.outer, event.seconds
            self.steps += event.steps


def measured(store: BlockStore, **options: Any) -> Run:
    """Train, and return what it took."""
    run = Run()
    asked = TrainOptions(memory_bytes=MEMORY_BYTES, max_outer=10**9, **options)
    model = train(store, asked, run)
    run.reached = model.metadata["stopped"] == "converged"
    return run


def stores(args: argparse.Namespace, folder: Path) -> Iterator[tuple[str, str, BlockStore]]:
    """Yield the name of each data set, how its rows came, and its store."""
    chosen: dict[str, Path] = {}
    for path in args.sources:
        if path.is_dir():
            yield path.name, "as it is", BlockStore.open(path)
        else:
            chosen[path.name] = path
    if not args.sources:
        chosen = dict(sources(REGROUP_SETS))
        chosen[TEXT] = generated_text(folder / "text.svm", args.text_bytes)
    for number, (name, path) in enumerate(chosen.items()):
        for rows, order in (("shuffled", "random"), ("by class", "file")):
            text = two_classes(path, folder / "rows.svm", by_class=order == "file")
            options = SplitOptions(blocks=args.blocks, order=order)
            yield name, rows, split([text], folder / f"store{number}{order}", options)


def regroup(args: argparse.Namespace) -> int:
    """Compare outer iterations with all rows in memory, groups of a tenth of the blocks, and 1."""
    table, figures, worst = [], [], 0.0
    with tempfile.TemporaryDirectory() as name:
        for data, rows, store in stores(args, Path(name)):
            blocks = len(store.manifest.blocks)
            tenth = max(blocks // 10, 1)
            for selection, cost in product(args.selection, args.cost):
                mean, text = {}, {}
                for group in (blocks, tenth, 1):
                    seeds = range(args.seeds if group > 1 else 1)
                    runs = [
                        measured(store, gap=args.gap, group=group, selection=selection, cost=cost,
                                 seed=seed, time_limit_s=args.time_limit)
                        for seed in seeds
                    ]  # fmt: skip
                    mean[group] = statistics.mean(run.outer for run in runs)
                    above = "" if all(run.reached for run in runs) else ">"
                    text[group] = f"{above}{mean[group]:.1f}"
                    facts = {"data": data, "rows": rows, "selection": selection, "cost": cost,
                             "blocks": blocks, "group": group}  # fmt: skip
                    figures.append(facts | {"runs": [asdict(run) for run in runs]})
                ratio = mean[tenth] / mean[blocks]
                worst = max(worst, ratio)
                outer = [text[group] for group in (blocks, tenth, 1)]
                table.append((data, rows, selection, cost, *outer, ratio, mean[1] / mean[blocks]))
                print(f"{data}, {rows}, {selection}, C {cost:g}: {', '.join(outer)}", flush=True)
    header = ("data", "rows", "selection", "C", "in memory", "groups of 1/10", "of 1 block",
              "1/10 of memory", "1 of memory")  # fmt: skip
    print(f"\nouter iterations to a certified gap of {args.gap:g}, mean of {args.seeds} seeds")
    print_table(header, table)
    print(f"largest ratio of groups of a tenth {worst:.3f}, asked {ASKED}")
    write_figures(args.out, "regroup", {"gap": args.gap, "asked": ASKED, "runs": figures})
    return 1 if worst > ASKED else 0


def selection(args: argparse.Namespace) -> int:
    """Compare steps and seconds of selections over costs, all rows in memory."""
    figures: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for data, path in sources(args.data).items():
            text = two_classes(path, folder / f"{data}.svm")
            store = split([text], folder / data, SplitOptions(blocks=1))
            for rows, cost in product(args.selection, args.cost):
                for stop, values in _stops(args).items():
                    for value in values:
                        rule = {"gap": None} | {stop: value}
                        run = measured(
                            store, selection=rows, cost=cost, time_limit_s=args.time_limit,
                            epochs=EPOCHS.get(rows, 1), **rule,
                        )  # fmt: skip
                        facts = {"data": data, "selection": rows, "cost": cost, stop: value}
                        figures.append(facts | asdict(run))
                        if not run.reached:
                            break  # nor would a smaller one be
                print(".", end="", flush=True)
            print(f" {data}", flush=True)
    for stop, values in _stops(args).items():
        for value in values:
            _print_selection(args, figures, stop, value)
    print("seconds, below them steps; > is where the time limit ended the run, - not tried")
    facts = {"time_limit_s": args.time_limit, "epochs": EPOCHS, "runs": figures}
    write_figures(args.out, "selection", facts)
    return 0


def _stops(args: argparse.Namespace) -> dict[str, list[float]]:
    """Return the rules by which runs end, and their values, largest first."""
    return {"gap": args.gap, "tolerance": args.tolerance}


def _print_selection(
    args: argparse.Namespace, figures: list[dict[str, Any]], stop: str, value: float
) -> None:
    found = {(one["data"], one["selection"], one["cost"]): one for one in figures
             if one.get(stop) == value}  # fmt: skip
    table: list[list[str]] = []
    for data, rows in product(args.data, args.selection):
        seconds, steps = [data, rows], ["", ""]
        for cost in args.cost:
            one = found.get((data, rows, cost))
            above = "" if one is None or one["reached"] else ">"
            seconds.append("-" if one is None else f"{above}{one['seconds']:.3g}")
            steps.append("" if one is None else f"{one['steps']:.2e}")
        table += [seconds, steps]
    what = "a certified gap" if stop == "gap" else "LIBLINEAR's violation"
    print(f"\nto {what} of {value:g}")
    print_table(("data", "selection", *(f"C={cost:g}" for cost in args.cost)), table)


def add_parsers(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Add the commands of this file."""
    parser = commands.add_parser(
        "regroup", parents=[shared], help="outer iterations of groups of blocks against memory"
    )
    parser.add_argument(
        "sources", nargs="*", type=Path, metavar="FILE|STORE",
        help=f"(default: {', '.join(REGROUP_SETS)} and generated text)",
    )  # fmt: skip
    parser.add_argument("--blocks", type=int, default=100, help="of the stores made (default 100)")
    parser.add_argument("--text-bytes", type=parse_bytes, default=130_000_000, help="generated")
    parser.add_argument("--gap", type=float, default=1e-3)
    parser.add_argument("--cost", type=float, nargs="+", default=[1.0])
    parser.add_argument("--seeds", type=int, default=3, help="runs of each; of single blocks 1")
    parser.add_argument("--selection", nargs="+", default=["active", "permute"])
    parser.add_argument("--time-limit", type=float, default=20.0, help="seconds for one run")
    parser.set_defaults(run=regroup)
    parser = commands.add_parser(
        "selection", parents=[shared], help="steps and seconds of the selections of rows, by C"
    )
    parser.add_argument("--data", nargs="+", default=list(SELECTION_SETS))
    parser.add_argument("--selection", nargs="+", default=["avsf", "shrink", "permute", "active"])
    parser.add_argument("--cost", type=float, nargs="+", default=[0.01, 0.1, 1, 10, 100, 1000])
    parser.add_argument("--gap", type=float, nargs="+", default=[1e-3, SMALL_GAP])
    parser.add_argument(
        "--tolerance", type=float, nargs="*", default=[0.01, 0.001],
        help="LIBLINEAR's -e (default 0.01 0.001, as Glasmachers and Dogan)",
    )  # fmt: skip
    parser.add_argument("--time-limit", type=float, default=20.0, help="seconds for one run")
    parser.set_defaults(run=selection)
