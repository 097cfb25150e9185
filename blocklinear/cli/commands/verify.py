"""``blocklinear verify``."""

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from blocklinear.cli.common_options import add_cache
from blocklinear.cli.console import Console
from blocklinear.cli.stores import opened
from blocklinear.numerals import counted

if TYPE_CHECKING:
    from blocklinear.store.store import BlockStore


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "verify",
        help="read every block and compare it with its checksums",
        description="Read every block once, decode it, and compare it with the manifest; then "
        "the files of columns, if `transpose` made any of these rows.",
        epilog="exit status: 0 all blocks intact, 2 usage, 4 a block, or a file of columns, is "
        "damaged or missing, 5 a store of a newer version, 6 STORE is not there, or cannot be read",
    )
    parser.add_argument("store", metavar="STORE", help="folder made by `split`, or the URL of one")
    add_cache(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress bar")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    store = opened(args, args.store)
    with Console(args.quiet, "verify") as console:
        report = store.verify(console)
    with Console(args.quiet, "columns") as console:
        columns = _columns(store, console)
    if args.json:
        print(json.dumps(json.loads(report.to_json()) | {"columns": columns}))
    else:
        print(report.summary())
    faults = list(report.faults)
    if columns is not None:
        faults += columns["faults"]
        if not args.json:
            state = f"{len(columns['faults'])} damaged" if columns["faults"] else "all intact"
            print(f"{counted(columns['files'], 'file')} of columns: {state}")
    for fault in faults:
        print(fault, file=sys.stderr)
    return 4 if faults else 0


def _columns(store: "BlockStore", console: Console) -> dict[str, Any] | None:
    """Verify the columns of a store; return, as JSON, what was found; None if there are none.

    Nor are there if another process has changed the store meanwhile, and deleted them.
    """
    from blocklinear.columns.store import open_columns
    from blocklinear.errors import DamagedError

    try:
        columns = open_columns(store)
        if columns is None:
            return None
        faults = columns.verify(console)
        if faults and open_columns(store) is None:
            return None
    except DamagedError as error:
        return {"files": 0, "faults": [str(error)]}
    return {"files": len(columns.blocks), "faults": faults}
