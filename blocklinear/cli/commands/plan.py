"""``blocklinear plan``."""

import argparse
from typing import Any

from blocklinear.cli.common_options import (
    add_budget,
    costs_of,
    fields_given,
    solver_number,
    solver_of,
)
from blocklinear.cli.text_options import add_index_base, add_reading, add_row_options


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "plan",
        help="estimate what a split and a training will take",
        description="Look at a sample of LIBSVM text or of a store for some seconds, and estimate "
        "rows, features, bytes, memory and seconds of the split and of the training, each with the "
        "range it may be in. The speed of this machine is measured once and kept.",
        epilog="exit status: 0 ok, 2 usage, 3 malformed input, 4 damaged store, 5 a store of a "
        "newer version, 6 I/O or no space, 7 memory budget",
    )
    parser.add_argument(
        "inputs", nargs="+", metavar="INPUT|STORE", help="LIBSVM text or a store; also URLs"
    )
    parser.add_argument(
        "-s", dest="solver", type=solver_number, default=3, metavar="TYPE",
        help="what is to be trained, as for `train` (default 3)",
    )  # fmt: skip
    parser.add_argument(
        "-c", dest="cost", default="1", metavar="C", help="cost of the loss (default 1)"
    )
    parser.add_argument(
        "--gap", type=float, metavar="GAP", help="relative gap to be reached (default 0.001)"
    )
    parser.add_argument(
        "--workers", type=int, default=1, metavar="N", help="estimate for N machines, too"
    )
    add_budget(parser)
    add_index_base(parser)
    add_row_options(parser)
    parser.add_argument(
        "--recalibrate", action="store_true", help="measure the speed of this machine again"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    add_reading(parser, expecting=False)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from blocklinear.errors import UsageError
    from blocklinear.options import SplitOptions, TextOptions, TrainOptions
    from blocklinear.planning.plan import plan

    (cost, *more) = costs_of(args.cost)
    if more:
        raise UsageError("a plan is for one cost", "give one, as -c 1")
    chosen = fields_given(args, TrainOptions) | solver_of(args.solver, None) | {"cost": cost}
    train, text = TrainOptions(**chosen), TextOptions(**fields_given(args, TextOptions))
    inputs = args.inputs if len(args.inputs) > 1 else args.inputs[0]
    report = plan(inputs, train, SplitOptions(text=text), args.workers, args.recalibrate)
    print(report.to_json() if args.json else report.summary())
    return 0
