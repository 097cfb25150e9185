"""``blocklinear plot``."""

import argparse
from typing import Any


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "plot",
        help="draw run logs: the gap over time",
        description="Draw the last run of each log as a line, named after the file: the relative "
        "duality gap on a logarithmic scale, and the scores on held-out rows if there are any. "
        "Needs matplotlib: pip install 'blocklinear[plot]'.",
        epilog="exit status: 0 ok, 2 usage, or matplotlib is not installed, 3 not a run log, 6 I/O",
    )
    parser.add_argument("logs", nargs="+", metavar="LOG", help="written by `train --log`")
    parser.add_argument(
        "-o", "--output", required=True, metavar="FIGURE", help="file to write, .png or .svg"
    )
    parser.add_argument(
        "--quantity",
        default="gap",
        choices=("gap", "primal"),
        help="gap: relative duality gap (default); primal: relative difference of the primal "
        "objective from the lowest certified one in these logs",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from blocklinear.report.plots import plot_logs  # late: --help stays fast

    plot_logs(args.logs, args.output, args.quantity)
    return 0
