"""Measure warm starts: blocks read after 10 % of the rows came or went, against a cold run.

    python bench/incremental.py [FILE.svm] [--bytes 1G] [--memory 640M]

Text is made unless a file with two classes is given. It is cut by rows into ten parts: a store of
nine is trained on, then the tenth is added; a store of all ten is trained on, then one is removed.
Both are trained again, warm and cold, to the same certified gap. Blocks that are read are counted
where they are read: for coordinate descent, certificates and Eq. (16) alike.
"""

import argparse
import contextlib
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from limits import parse_limit
from measuring import BENCH, generated_text, print_table, write_figures

from blocklinear import (
    AddOptions,
    BlockStore,
    SplitOptions,
    TextOptions,
    TrainOptions,
    add,
    remove,
    split,
    train,
)
from blocklinear.events import Event, WarmStarted
from blocklinear.store.groups import GroupBuffer

PARTS = 10
ASKED = 0.5
"""Of the blocks that a cold run reads, what a warm run may read."""


@dataclass
class Count:
    """Blocks read and their bytes."""

    blocks: int = 0
    bytes: int = 0


@contextlib.contextmanager
def counting() -> Iterator[Count]:
    """Count the blocks that are read from disk and decoded."""
    count, load = Count(), GroupBuffer._load_block

    def counted(self: GroupBuffer, folder: Any, manifest: Any, record: Any, *rest: Any) -> None:
        count.blocks, count.bytes = count.blocks + 1, count.bytes + record.bytes
        load(self, folder, manifest, record, *rest)

    GroupBuffer._load_block = counted  # type: ignore[method-assign]
    try:
        yield count
    finally:
        GroupBuffer._load_block = load  # type: ignore[method-assign]


def cut(source: Path, folder: Path) -> list[Path]:
    """Deal the lines of a text in turn to so many files."""
    paths = [folder / f"part{k}.svm" for k in range(PARTS)]
    with contextlib.ExitStack() as stack:
        outs = [stack.enter_context(open(path, "wb")) for path in paths]
        for number, line in enumerate(stack.enter_context(open(source, "rb"))):
            outs[number % PARTS].write(line)
    return paths


@dataclass(frozen=True)
class Trained:
    """What a run did; bytes are of blocks."""

    blocks: int
    bytes: int
    outer: int
    seconds: float
    gap: float
    drift: float
    start: str


def run(store: BlockStore, args: argparse.Namespace, warm: bool, gap: float) -> Trained:
    """Train once; a cold run is kept apart, so that it spoils no start."""
    options = TrainOptions(
        solver=args.solver, cost=args.cost, gap=gap, memory_bytes=parse_limit(args.memory),
        warm_start=warm, run="warm" if warm else "cold", checkpoint_s=3600.0,
    )  # fmt: skip
    heard: list[Event] = []
    with counting() as count:
        model = train(store, options, heard.append)
    proof = model.metadata["certificate"]
    starts = [event for event in heard if isinstance(event, WarmStarted)]
    return Trained(
        count.blocks, count.bytes, model.metadata["outer_iterations"],
        max(getattr(event, "seconds", 0.0) for event in heard), proof["gap"], proof["drift"],
        *([event.message for event in starts] or ["cold"]),
    )  # fmt: skip


def measured(
    name: str, store: BlockStore, change: Any, args: argparse.Namespace
) -> list[tuple[str, Trained]]:
    """Train, change the store, train again: warm, and from scratch."""
    before = run(store, args, warm=True, gap=args.gap)  # nothing to start from: cold
    store = change(store)
    warm, cold = (run(store, args, warm, args.gap) for warm in (True, False))
    print(f"{name}: {warm.start}", file=sys.stderr)
    return [("before", before), (f"{name}, warm", warm), (f"{name}, cold", cold)]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", type=Path, nargs="?", metavar="FILE.svm", help="not compressed")
    parser.add_argument("--bytes", default="1G", help="of text to make (default 1G)")
    parser.add_argument("--memory", default="640M", help="less than the data")
    parser.add_argument("--solver", type=int, default=3)
    parser.add_argument("--cost", type=float, default=1.0)
    parser.add_argument("--gap", type=float, default=1e-3)
    parser.add_argument("--blocks", type=int, help="of a whole store (default: by --memory)")
    parser.add_argument("--out", type=Path, default=BENCH / "results", metavar="FOLDER")
    args = parser.parse_args(argv)
    parent = args.source.absolute().parent if args.source else None
    with tempfile.TemporaryDirectory(dir=parent) as name:
        folder = Path(name)
        source = args.source or generated_text(folder / "text.svm", parse_limit(args.bytes))
        n_bytes, parts = source.stat().st_size, cut(source, folder)
        rows = added(folder, parts, args) + removed(folder, parts, args)
    return report(rows, args, n_bytes)


def _split(folder: Path, parts: list[Path], args: argparse.Namespace) -> BlockStore:
    text = TextOptions(memory_bytes=parse_limit(args.memory))
    blocks = args.blocks and -(-args.blocks * len(parts) // PARTS)
    return split(parts, folder, SplitOptions(text=text, blocks=blocks))


def _add(store: BlockStore, part: Path, args: argparse.Namespace) -> BlockStore:
    text = TextOptions(memory_bytes=parse_limit(args.memory), index_base="auto")
    blocks = args.blocks and -(-args.blocks // PARTS)
    return add(store, [part], AddOptions(text, batch="tenth", blocks=blocks))


def added(folder: Path, parts: list[Path], args: argparse.Namespace) -> list[tuple[str, Trained]]:
    """Add a tenth."""
    store = _split(folder / "store", parts[:-1], args)
    found = measured("10 % added", store, lambda store: _add(store, parts[-1], args), args)
    shutil.rmtree(store.folder)
    return found


def removed(folder: Path, parts: list[Path], args: argparse.Namespace) -> list[tuple[str, Trained]]:
    """Remove a tenth."""
    store = _add(_split(folder / "store", parts[:-1], args), parts[-1], args)
    return measured("10 % removed", store, lambda store: remove(store, ["tenth"]), args)


def _ratio(by_name: dict[str, Trained], change: str, what: str) -> float:
    return getattr(by_name[f"{change}, warm"], what) / getattr(by_name[f"{change}, cold"], what)


def report(rows: list[tuple[str, Trained]], args: argparse.Namespace, n_bytes: int) -> int:
    """Print what was found; return 1 if a warm run read too much."""
    print_table(
        ("", "blocks read", "MB read", "outer", "seconds", "gap", "drift"),
        [(n, t.blocks, round(t.bytes / 1e6), t.outer, t.seconds, t.gap, t.drift) for n, t in rows],
    )
    by_name = dict(rows)
    ratios = {
        change: _ratio(by_name, change, "blocks") for change in ("10 % added", "10 % removed")
    }
    for change, ratio in ratios.items():
        verdict = "ok" if ratio <= ASKED else "MISSED"
        in_bytes = _ratio(by_name, change, "bytes")
        print(
            f"{change}: {ratio:.3f} of the blocks of a cold run (asked {ASKED}): {verdict}; "
            f"{in_bytes:.3f} of the bytes"
        )
    facts = {name: getattr(args, name) for name in ("memory", "solver", "cost", "gap", "blocks")}
    runs = [{"run": name, **vars(trained)} for name, trained in rows]
    write_figures(
        args.out, "incremental", {"bytes": n_bytes, **facts, "ratios": ratios, "runs": runs}
    )
    return 0 if max(ratios.values()) <= ASKED else 1


if __name__ == "__main__":
    sys.exit(main())
