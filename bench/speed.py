"""Nonzeros a second of an epoch and of a certificate, all rows in memory: `train.py speed`."""

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import Any

from measuring import compile_kernels, print_table, write_figures
from rivals import plain_text, processors

from blocklinear import BlockStore, SplitOptions, TextOptions, TrainOptions, split, train
from blocklinear.events import Event, OuterIteration

ROOMY = 16 << 30
ASKED = 1.3
"""Times the seconds of an epoch that a certificate may take."""


def one_run(store: BlockStore, args: argparse.Namespace) -> tuple[list[float], float]:
    """Return the seconds of each epoch but the first, which reads, and of the certificate.

    An epoch is what an outer iteration that visits all rows once solves. What is left of the last
    one, which ends with the certificate, is that.
    """
    heard: list[OuterIteration] = []

    def listen(event: Event) -> None:
        if isinstance(event, OuterIteration):
            heard.append(event)

    options = TrainOptions(
        solver=args.solver, cost=args.cost, selection="permute", gap=1e-12, max_outer=args.epochs,
        memory_bytes=ROOMY, checkpoint_s=float("inf"), group=len(store.manifest.blocks),
        threads=args.threads, run="speed",
    )  # fmt: skip
    train(store, options, listen)
    last = heard[-1]
    return [event.solve_s for event in heard[1:]], last.seconds - heard[-2].seconds - last.solve_s


def speed(args: argparse.Namespace) -> int:
    """Time epochs and certificates of some runs."""
    compile_kernels()
    epochs: list[float] = []
    certificates: list[float] = []
    with tempfile.TemporaryDirectory(dir=args.folder) as name, processors(args.threads):
        source = plain_text(args.source, Path(name), args.classes)
        options = SplitOptions(text=TextOptions(memory_bytes=ROOMY), blocks=16)
        store = split([source], Path(name) / "store", options)
        for turn in range(args.runs + 1):  # the first one loads kernels, and is not counted
            solved, certified = one_run(store, args)
            epochs += solved if turn else []
            certificates += [certified] if turn else []
        manifest = store.manifest
    print(f"{manifest.n_rows} rows, {manifest.n_features} features, {manifest.nnz} nonzeros")
    rows = [
        (what, statistics.median(taken), min(taken), manifest.nnz / statistics.median(taken) / 1e6)
        for what, taken in (("epoch", epochs), ("certificate", certificates))
    ]
    print_table(("", "median s", "least", "10^6 nonzeros/s"), rows)
    ratio = rows[1][1] / rows[0][1]
    print(f"certificate / epoch {ratio:.2f}, asked {ASKED}")
    facts = {"source": args.source.name, "solver": args.solver, "cost": args.cost, "ratio": ratio}
    write_figures(args.out, "speed", {**facts, "epochs": epochs, "certificates": certificates})
    return 1 if ratio > ASKED else 0


def add_parsers(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Add the command of this file."""
    parser = commands.add_parser(
        "speed", parents=[shared], help="nonzeros a second of an epoch and of a certificate"
    )
    parser.add_argument("source", type=Path, metavar="FILE.svm")
    parser.add_argument("--classes", type=int, metavar="N", help="rows of the N largest only")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=5, help="of a run (default 5)")
    parser.add_argument("-s", "--solver", type=int, default=3)
    parser.add_argument("-c", "--cost", type=float, default=1.0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--folder", type=Path, help="where there is room for the store")
    parser.set_defaults(run=speed)
