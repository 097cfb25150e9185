"""``blocklinear gc``."""

import argparse
from typing import Any

from blocklinear.cli.console import Console


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "gc",
        help="delete what was removed from a store",
        description="Delete the files of removed and merged blocks, what killed commands left, and "
        "the state of removed rows in training runs, which then cannot be resumed. Models already "
        "written still depend on the rows that they were trained on.",
        epilog="exit status: 0 ok, 2 usage, 4 damaged store, 5 a store of a newer version, 6 "
        "I/O, 8 another process writes to the store or trains on it",
    )
    parser.add_argument("store", metavar="STORE", help="folder made by `split`")
    parser.add_argument(
        "-q", "--quiet", action="store_true", help="only warnings and the result, as without it"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from blocklinear.training.garbage import collect_garbage

    print(collect_garbage(args.store, Console(args.quiet)).summary())
    return 0
