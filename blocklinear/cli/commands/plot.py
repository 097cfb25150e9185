"""``blocklinear plot``."""

import argparse
from typing import Any


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "plot",
        help="draw run logs: distance from the optimum against seconds",
        description="Draw the last run of each log as a line, named after its file: the relative "
        "duality gap on a logarithmic scale, and below it scores on held-out rows, if there are "
        "any. Needs matplotlib: pip install 'blocklinear[plot]'.",
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
        help="relative duality gap (default); or relative difference of the primal objective to "
        "the lowest that is proven in these logs",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from blocklinear.report.plots import plot_logs  # late: --help stays fast

    plot_logs(args.logs, args.output, args.quantity)
    return 0
