"""``blocklinear compact``."""

import argparse
from typing import Any

from blocklinear.cli.common_options import size
from blocklinear.cli.console import Console
from blocklinear.numerals import counted


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "compact",
        help="merge the small blocks of a store",
        description="Merge the small blocks of each batch into blocks of the usual size, without "
        "the text. Training with --warm-start still finds the solution of an earlier run. "
        "The old files stay on disk until `blocklinear gc STORE`.",
        epilog="exit status: 0 ok, 2 usage or no such batch, 4 damaged store, 5 a store of a newer "
        "version, 6 I/O or no space, 8 another process writes to the store",
    )
    parser.add_argument("store", metavar="STORE", help="folder made by `split`")
    parser.add_argument(
        "--block-size",
        type=size,
        metavar="SIZE",
        help="size of a block in memory (default: that of the blocks that hold most of the data); "
        "the command takes some 80M and one and a half times as much",
    )
    parser.add_argument(
        "--merge-batches",
        nargs="+",
        metavar="NAME",
        help="make one batch, named after the first NAME, of the batches of the other NAMEs",
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress bar")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from blocklinear.errors import UsageError
    from blocklinear.ingest.compact import compact
    from blocklinear.store.store import BlockStore

    names = args.merge_batches
    if names is not None and len(names) < 2:
        raise UsageError("--merge-batches names no batches", "give the new name, then the old ones")
    before = len(BlockStore.open(args.store).manifest.blocks)
    batches = (names[0], names[1:]) if names else None
    with Console(args.quiet, "compact") as console:
        store = compact(args.store, args.block_size, batches, console)
    now = len(store.manifest.blocks)
    if names:
        print(f"{counted(len(set(names[1:])), 'batch', 'batches')} became {names[0]}")
    if now < before:
        print(f"{before} blocks became {now}")
    elif not names:
        print(f"no blocks to merge: the store has {counted(now, 'block')}, as before")
    return 0
