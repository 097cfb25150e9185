"""Outer iterations of many models in one pass against those of one model: `train.py models`."""

import argparse
import os
import statistics
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from measuring import print_table, two_classes, write_figures
from rivals import plain_text

from blocklinear import (
    BlockStore,
    SplitOptions,
    TextOptions,
    TrainOptions,
    split,
    train,
    train_grid,
)
from blocklinear.events import OuterIteration

BUDGET = 8 << 30
BLOCKS = 16


def models(args: argparse.Namespace) -> int:
    """Time outer iterations of one model, and of one for each class or of several costs."""
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        folder = Path(name)
        source = plain_text(args.source, folder, args.classes)
        options = SplitOptions(text=TextOptions(memory_bytes=BUDGET), blocks=BLOCKS)
        many = split([source], folder / "many", options)
        n_classes = len(many.manifest.labels or ())
        if n_classes > 2:
            text = two_classes(source, folder / "two.svm")
            one, sizes = split([text], folder / "one", options), [n_classes]
        else:
            one, sizes = many, args.costs
        manifest = many.manifest
        print(f"{manifest.n_rows} rows, {manifest.nnz} nonzeros, {manifest.n_features} features")
        rows: list[tuple[Any, ...]] = []
        for selection in args.selection:
            alone = outer_seconds(one, selection, 1, args)
            rows.append((selection, 1, *alone, 1.0, 1.0))
            for n in sizes:
                whole, solving = outer_seconds(many, selection, 1 if n_classes > 2 else n, args)
                rows.append((selection, n, whole, solving, whole / alone[0], solving / alone[1]))
    print_table(("selection", "models", "seconds", "solving", "ratio", "of solving"), rows)
    worst = max(row[4] for row in rows)
    print(f"largest ratio {worst:.2f}" + (f", asked {args.asked}" if args.asked else ""))
    facts = {"source": args.source.name, "classes": args.classes, "asked": args.asked}
    write_figures(args.out, "models", {**facts, "rows": rows})
    return 1 if args.asked and worst > args.asked else 0


def outer_seconds(
    store: BlockStore, selection: str, n_costs: int, args: argparse.Namespace
) -> tuple[float, float]:
    """Return the median seconds of an outer iteration, whole and of solving, on one processor.

    The first, which reads, and the last, which certifies, are left out. Costs are alike, so that
    all models have as much to do.
    """
    heard: list[OuterIteration] = []

    def listen(event: object) -> None:
        if isinstance(event, OuterIteration):
            heard.append(event)

    options = TrainOptions(
        cost=args.cost, gap=1e-12, selection=selection, threads=1, memory_bytes=BUDGET,
        checkpoint_s=float("inf"), group=args.group, run="models",
    )  # fmt: skip
    costs = tuple(args.cost * (1 + 0.001 * k) for k in range(n_costs))
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        for outer in (1, args.outer):  # the first time compiles
            heard.clear()
            asked = replace(options, max_outer=outer)
            if n_costs == 1:
                train(store, asked, listen)
            else:
                train_grid(store, replace(asked, costs=costs), listen)
    finally:
        os.sched_setaffinity(0, before)
    seconds = np.diff([event.seconds for event in heard])[:-1]
    return statistics.median(seconds.tolist()), statistics.median(e.solve_s for e in heard[1:-1])


def add_parsers(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Add the command of this file."""
    parser = commands.add_parser(
        "models", parents=[shared], help="an outer iteration of many models against one",
        description="Of text with more than two classes one model for each, against the largest "
        "class; of two classes as many costs as asked. One processor.",
    )  # fmt: skip
    parser.add_argument("source", type=Path, metavar="FILE.svm")
    parser.add_argument("--classes", type=int, metavar="N", help="rows of the N largest only")
    parser.add_argument("--costs", type=int, nargs="+", default=[16, 32], metavar="M")
    parser.add_argument("--outer", type=int, default=6, help="outer iterations (default 6)")
    parser.add_argument("--group", type=int, default=BLOCKS, help=f"of {BLOCKS} blocks in a group")
    parser.add_argument("-c", "--cost", type=float, default=1.0)
    parser.add_argument("--selection", nargs="+", default=["permute", "active"])
    parser.add_argument("--asked", type=float, metavar="RATIO")
    parser.add_argument("--folder", type=Path, help="where there is room for the stores")
    parser.set_defaults(run=models)
