"""``blocklinear plot``."""

import argparse
import contextlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from blocklinear.report.records import RunRecords


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "plot",
        help="draw run logs: the gap over time",
        description="Draw the last run of each log as a line, named after the file, or as a line "
        "for each C: the relative duality gap on a logarithmic scale, and the scores on held-out "
        "rows if there are any. Markers are filled where the gap was certified; a dashed line is "
        "the gap, or the violation, to be reached. Needs matplotlib: pip install "
        "'blocklinear[plot]'.",
        epilog="exit status: 0 ok, 2 usage, or matplotlib is not installed, 3 not a run log, "
        "6 I/O, 130 --follow was interrupted",
    )
    parser.add_argument(
        "logs", nargs="+", metavar="LOG", help="written by `train --log` or `cv --log`"
    )
    parser.add_argument(
        "-o", "--output", metavar="FIGURE", help="file to write, .png, .svg or .pdf"
    )
    parser.add_argument(
        "--quantity",
        default="gap",
        choices=("gap", "primal", "violation"),
        help="gap: relative duality gap (default); primal: relative difference of the primal "
        "objective from the lowest certified one in these logs; violation: as LIBLINEAR's -e",
    )
    parser.add_argument(
        "--against",
        nargs="+",
        default=["seconds"],
        choices=("seconds", "passes", "bytes"),
        metavar="AXIS",
        help="seconds (default), passes over the data, or bytes read from block files; several "
        "are drawn side by side",
    )
    parser.add_argument(
        "--follow",
        action="store_true",
        help="continue while the logs grow, until each run has reached its goal, or Ctrl-C: draw "
        "FIGURE anew, or without -o print the table of training",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from blocklinear.errors import UsageError  # late: --help stays fast
    from blocklinear.report.follow import TableOfLog, follow
    from blocklinear.report.plots import NothingToShow, draw, figure_output, plot_logs

    if args.output is None:
        drawn = args.quantity != "gap" or args.against != ["seconds"]  # no table has these
        if not args.follow or len(args.logs) > 1 or drawn:
            raise UsageError(
                "no figure is named",
                "give -o/--output FIGURE, or --follow and one log alone to print a table",
            )
        follow(args.logs, TableOfLog(lambda line: print(line, flush=True)))
        return 0
    if not args.follow:
        plot_logs(args.logs, args.output, args.quantity, args.against)
        return 0
    place = figure_output(args.logs, args.output, args.quantity, args.against)

    def redraw(curves: "list[RunRecords]") -> None:
        with contextlib.suppress(NothingToShow):  # yet
            draw(curves, place, args.quantity, args.against)

    follow(args.logs, redraw)
    return 0
