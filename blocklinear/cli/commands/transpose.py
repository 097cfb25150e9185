"""``blocklinear transpose``."""

import argparse
from typing import Any

from blocklinear.cli.ahead import load_for_columns
from blocklinear.cli.common_options import add_budget, add_cache, fields_given
from blocklinear.cli.console import Console
from blocklinear.cli.stores import opened
from blocklinear.numerals import counted


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "transpose",
        help="make the columns of a store, to read it by feature",
        description="Make the columns of a store: its entries by feature, in its folder `columns`, "
        "for programs that read it so (in Python, `transpose` returns them). Training does "
        "without: -s 5 and 6 collect the columns that they work on while they pass over rows. The "
        "folder is a cache, which is deleted when rows change.",
        epilog="exit status: 0 ok, 2 usage, 4 damaged store, 5 a store of a newer version, 6 I/O "
        "or no space, 7 memory budget, 8 another process writes to the store or trains on it, 130 "
        "or 143 stopped by a signal",
    )
    parser.add_argument("store", metavar="STORE", help="folder made by `split`")
    add_budget(parser)
    add_cache(parser)
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--force", action="store_true", help="make all anew (default: keep what fits the rows)"
    )
    what.add_argument("--drop", action="store_true", help="delete the columns, and make none")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress bar")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from blocklinear.columns.store import intact_columns
    from blocklinear.options import TextOptions
    from blocklinear.store.changes import drop_columns, locked

    budget = TextOptions(**fields_given(args, TextOptions))
    with locked(opened(args, args.store)) as store:
        if args.drop:
            print(f"{counted(drop_columns(store.folder), 'byte')} deleted")
            return 0
        if not args.force and (columns := intact_columns(store)) is not None:
            print(columns.summary())
            return 0
        from blocklinear.columns.transpose import transpose  # late: it imports Numba

        load_for_columns(store.manifest.dtype, args.quiet)
        with Console(args.quiet, "transpose") as console:
            columns = transpose(
                store, budget.memory_bytes, budget.threads, console, force=args.force
            )
    print(columns.summary())
    return 0
