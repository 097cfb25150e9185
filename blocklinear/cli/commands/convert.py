"""`blocklinear convert`: the same model in the other file format."""

import argparse
import contextlib
import sys
from typing import Any

from blocklinear.cli.compiling import compiling


def add_parser(commands: Any) -> None:
    """Add the command to those of the program.

    Parameters
    ----------
    commands : the object returned by ``ArgumentParser.add_subparsers``
    """
    parser = commands.add_parser(
        "convert",
        help="convert a model to another format",
        description="Read a model of either format and write it in the format of --to.",
        epilog="exit status: 0 ok, 2 usage or a model LIBLINEAR cannot express, "
        "4 damaged model, 5 model of a newer version, 6 I/O or no space",
    )
    parser.add_argument("model", metavar="MODEL", help="a native or LIBLINEAR model")
    parser.add_argument("output", metavar="OUT", help="file to write; - is stdout")
    parser.add_argument(
        "--to", required=True, choices=("liblinear", "native"), help="format of OUT"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command.

    Parameters
    ----------
    args : argparse.Namespace

    Returns
    -------
    int
        The exit status.

    Raises
    ------
    BlocklinearError
        If anything goes wrong; OUT is as it was then.
    """
    from blocklinear.model import liblinear  # late: --help stays fast
    from blocklinear.model.files import check_replaceable
    from blocklinear.model.linear import LinearModel
    from blocklinear.outputs import Output

    output = Output(args.output, [args.model])
    check_replaceable(output)
    model = LinearModel.load(args.model)
    compiles = args.to == "liblinear" and liblinear.is_large(model)
    with compiling() if compiles else contextlib.nullcontext():
        model.save(output, format=args.to)
    if args.to == "liblinear" and model.normalize != "none":
        print(f"warning: {liblinear.NORMALIZED_ROWS}", file=sys.stderr)
    if args.to == "liblinear" and model.classes:
        print(f"warning: {liblinear.said_of_labels(model.classes)}", file=sys.stderr)
    return 0
