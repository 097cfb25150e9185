"""``blocklinear check``."""

import argparse
import sys
from typing import Any

from blocklinear.cli.common_options import add_budget, fields_given
from blocklinear.cli.console import Console
from blocklinear.cli.text_options import add_index_base, add_reading, add_row_options


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "check",
        help="report what LIBSVM text contains, and its problems",
        description="Read LIBSVM text as split does, without making a store. The first 20 problems "
        "go to stderr.",
        epilog="exit status: 0 no problems, 2 usage, 3 problems, 6 an input cannot be read, "
        "7 memory budget",
    )
    parser.add_argument("inputs", nargs="+", metavar="INPUT", help="LIBSVM text, or - for stdin")
    add_index_base(parser)
    add_row_options(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress bar")
    add_budget(parser)
    add_reading(parser, expecting=False)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from blocklinear.errors import shown
    from blocklinear.options import TextOptions
    from blocklinear.text.check import check

    options = TextOptions(**fields_given(args, TextOptions))
    with Console(args.quiet, "check") as console:
        report = check(args.inputs, options, console)
    print(report.to_json() if args.json else report.summary())
    if not args.json:
        for note in report.notes:
            print(f"warning: {shown(note)}", file=sys.stderr)
        for problem in report.problems:
            print(problem, file=sys.stderr)
        if report.n_problems > len(report.problems):
            print(f"and {report.n_problems - len(report.problems)} more", file=sys.stderr)
    return 3 if report.n_problems else 0
