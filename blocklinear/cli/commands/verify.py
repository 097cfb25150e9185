"""``blocklinear verify``."""

import argparse
import sys
from pathlib import Path
from typing import Any

from blocklinear.cli.console import Console


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "verify",
        help="read every block and compare it with its checksums",
        description="Read every block once, decode it, and compare it with the manifest.",
        epilog="exit status: 0 all blocks intact, 2 usage, 4 a block is damaged or missing",
    )
    parser.add_argument("store", type=Path, metavar="STORE", help="folder made by `split`")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress bar")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from blocklinear.store.store import BlockStore

    with Console(args.quiet, "verify") as console:
        report = BlockStore.open(args.store).verify(console)
    print(report.to_json() if args.json else report.summary())
    for fault in report.faults:
        print(fault, file=sys.stderr)
    return 4 if report.faults else 0
