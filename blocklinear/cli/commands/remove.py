"""``blocklinear remove``."""

import argparse
import json
from itertools import groupby
from typing import TYPE_CHECKING, Any

from blocklinear.cli.console import Console
from blocklinear.numerals import counted

if TYPE_CHECKING:
    from blocklinear.store.store import BlockStore


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "remove",
        help="remove batches or blocks from a store",
        description="Remove batches, or single blocks, from STORE. Their files stay on disk until "
        "`blocklinear gc STORE`.",
        epilog="exit status: 0 ok, 2 usage, or no such batch or block (without --missing-ok), 3 no "
        "row would remain, 4 damaged store, 5 a store of a newer version, 6 I/O, 8 another process "
        "writes to the store",
    )
    parser.add_argument("store", metavar="STORE", help="folder made by `split`")
    parser.add_argument(
        "--batch", nargs="+", action="extend", default=[], metavar="NAME", help="batches to remove"
    )
    parser.add_argument(
        "--block", nargs="+", action="extend", default=[], metavar="ID", help="blocks, by number"
    )
    parser.add_argument(
        "--missing-ok", action="store_true", help="ignore batches and blocks that do not exist"
    )
    parser.add_argument(
        "--list", action="store_true", help="list batches and blocks, and remove nothing"
    )
    parser.add_argument("--json", action="store_true", help="with --list, one JSON object per line")
    parser.add_argument(
        "-q", "--quiet", action="store_true", help="only warnings and the result, as without it"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from blocklinear.errors import UsageError
    from blocklinear.memory import format_size
    from blocklinear.store.changes import remove
    from blocklinear.store.store import BlockStore

    if args.json and not args.list:
        raise UsageError("--json is used with --list", "leave it out")
    if args.list:
        _print_batches(BlockStore.open(args.store), args.json)
        return 0
    store = remove(
        args.store, args.batch, args.block, Console(args.quiet), missing_ok=args.missing_ok
    )
    waiting = sum(block.bytes for block in store.manifest.removed)
    print(
        f"the store has {counted(store.manifest.n_rows, 'row')} in "
        f"{counted(len(store.manifest.blocks), 'block')}; "
        f"`blocklinear gc` frees {format_size(waiting)}"
    )
    return 0


def _print_batches(store: "BlockStore", as_json: bool) -> None:
    from blocklinear.errors import shown
    from blocklinear.memory import format_size
    from blocklinear.store.store import counted_labels

    for batch in store.batches():
        if as_json:
            print(json.dumps(batch))
            continue
        size, labels = format_size(batch["bytes"]), counted_labels(batch["labels"], 5)
        print(
            shown(
                f"{batch['name']}  {batch['date']}  {counted(batch['rows'], 'row')}  {size}  "
                f"labels {labels}  blocks {_ranges(batch['blocks'])}"
            )
        )


def _ranges(numbers: list[int]) -> str:
    """Return numbers as ``0-3, 7``."""
    runs = []
    for _, pairs in groupby(enumerate(sorted(numbers)), lambda pair: pair[1] - pair[0]):
        run = [number for _, number in pairs]
        runs.append(f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}")
    return ", ".join(runs)
