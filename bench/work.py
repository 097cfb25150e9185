"""What runs cost in counts, over data sets, C, gaps and selections of rows: `train.py work`.

Entries are counted as by `guard.py`, in epochs: as multiples of the nonzeros of the data.
"""

import argparse
import statistics
import tempfile
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

from guard import Counter, counting
from measuring import print_table, sources, two_classes, write_figures
from rivals import size

from blocklinear import BlockStore, SplitOptions, TextOptions, TrainOptions, split, train
from blocklinear.memory import parse_size

SETS = ("a9a", "covtype20k_bin", "phishing", "rcv1_vw1000", "imdb_uni", "reuters52")
ROOMY = 8 << 30
IN_VAIN = 1
"""Certificates of a run that may be tried in vain."""
CLOSE = 0.01
"""Of the gap asked for: a run that ends below it did work that nobody needed."""


def stores(args: argparse.Namespace, folder: Path) -> Iterator[tuple[str, BlockStore]]:
    """Yield the name of each data set and its store, of its largest class against the rest."""
    chosen = {path.name: path for path in map(Path, args.data) if path.is_file()}
    names = [name for name in args.data if not Path(name).is_file()]
    for name, path in (chosen | (sources(names) if names else {})).items():
        memory = parse_size(args.memory) if args.memory else ROOMY
        text = two_classes(path, folder / "rows.svm")
        store = folder / f"{name}.store"
        yield name, split([text], store, SplitOptions(text=TextOptions(memory_bytes=memory)))


def counted(store: BlockStore, args: argparse.Namespace, **options: Any) -> dict[str, float]:
    """Train, and return what it took; entries in epochs."""
    counter = Counter(options["gap"])
    memory = parse_size(args.memory) if args.memory else ROOMY
    asked = TrainOptions(
        solver=args.solver, memory_bytes=memory, time_limit_s=args.time_limit, **options
    )
    with counting(counter):
        model = train(store, asked, counter)
    counts: dict[str, float] = dict(counter.counts)
    for name in ("solved", "certified", "other"):
        counts[name] /= store.manifest.nnz
    reached = model.metadata["certificate"]["gap"]
    return counts | {"gap": reached, "reached": reached <= options["gap"]}


def work(args: argparse.Namespace) -> int:
    """Train over the grid, and show what each run took."""
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        for data, store in stores(args, Path(name)):
            for selection, cost, gap in product(args.selection, args.cost, args.gap):
                counts = counted(store, args, selection=selection, cost=cost, gap=gap)
                found.append(
                    {"data": data, "selection": selection, "C": cost, "asked": gap, **counts}
                )
            print(".", end="", flush=True)
    print()
    header = ("data", "selection", "C", "asked", "solved", "certified", "other", "outer",
              "certificates", "in_vain", "gap")  # fmt: skip
    print_table(header, [tuple(one[column] for column in header) for one in found])
    vain = [one for one in found if one["in_vain"] > IN_VAIN and one["reached"]]
    close = [one for one in found if one["gap"] < CLOSE * one["asked"]]
    epochs = statistics.geometric_mean(one["solved"] + one["certified"] for one in found)
    print(
        f"{len(found)} runs, {sum(not one['reached'] for one in found)} not to the gap; "
        f"{epochs:.2f} epochs of solving and certifying (geometric mean); {len(vain)} with more "
        f"than {IN_VAIN} certificate in vain; {len(close)} ended below {CLOSE:g} of the gap asked"
    )
    facts = {"solver": args.solver, "memory": args.memory, "epochs": epochs}
    write_figures(args.out, "work", {**facts, "runs": found})
    return 1 if vain else 0


def add_parsers(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Add the command of this file."""
    parser = commands.add_parser(
        "work", parents=[shared], help="epochs, outer iterations and certificates of runs"
    )
    parser.add_argument("--data", nargs="+", default=list(SETS), help="names, or LIBSVM text")
    parser.add_argument("-s", "--solver", type=int, default=3)
    parser.add_argument("--selection", nargs="+", default=["active", "permute"])
    parser.add_argument("-c", "--cost", type=float, nargs="+", default=[0.1, 1.0, 10.0])
    parser.add_argument("--gap", type=float, nargs="+", default=[1e-2, 1e-3, 1e-4])
    parser.add_argument("--memory", type=size, help="budget (default: all rows fit)")
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds for one run")
    parser.add_argument("--folder", type=Path, help="where there is room for the stores")
    parser.set_defaults(run=work)
