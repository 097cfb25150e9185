"""`blocklinear convert`: the same model in the other file format."""

import argparse
import contextlib
import sys
from typing import Any

from blocklinear.cli.compiling import compiling
from blocklinear.errors import UsageError, storage_errors


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "convert",
        help="convert a model to another format, or list its weights",
        description="Read a model of either format and write it in the format of --to. json lists "
        "the weights by name, the largest absolute value first, for other programs: it cannot be "
        "read back.",
        epilog="exit status: 0 ok, 2 usage or a model LIBLINEAR cannot express, "
        "4 damaged model, 5 model of a newer version, 6 I/O or no space",
    )
    parser.add_argument("model", metavar="MODEL", help="a native or LIBLINEAR model")
    parser.add_argument("output", metavar="OUT", help="file to write; - is stdout")
    parser.add_argument(
        "--to", required=True, choices=("liblinear", "native", "json"), help="format of OUT"
    )
    parser.add_argument(
        "--top",
        type=int,
        metavar="K",
        help="with json, only the K largest weights of each class (default: all that are not 0)",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command; return the exit status.

    BlocklinearError is raised if anything goes wrong; OUT is as it was then.
    """
    from blocklinear.model import liblinear  # late: --help stays fast
    from blocklinear.model.files import check_replaceable, write_model
    from blocklinear.model.linear import LinearModel
    from blocklinear.outputs import Output

    if args.to == "json":
        return _list_weights(args)
    if args.top is not None:
        raise UsageError("--top is for weights that are listed", "leave it out, or give --to json")
    output = Output(args.output, [args.model])
    check_replaceable(output)
    model = LinearModel.load(args.model)
    compiles = args.to == "liblinear" and liblinear.is_large(model)
    with compiling() if compiles else contextlib.nullcontext():
        write_model(model, output, args.to)
    if args.to == "liblinear":
        for message in liblinear.not_kept(model.normalize, model.classes):
            print(f"warning: {message}", file=sys.stderr)
    return 0


def _list_weights(args: argparse.Namespace) -> int:
    """Write the weights of a model by name."""
    from blocklinear.model.linear import LinearModel
    from blocklinear.model.listing import MAGIC, write_weights
    from blocklinear.outputs import Output

    output = Output(args.output, [args.model])
    if output.is_file and output.target is not None:
        with storage_errors(output.name, "read"), open(output.target, "rb") as stream:
            head = stream.read(len(MAGIC))
        if head not in (b"", MAGIC):
            raise UsageError(
                f"{output.name}: exists and is no list of weights",
                "choose another name, or delete it first",
            )
    model = LinearModel.load(args.model)
    with output.open() as stream:
        write_weights(model, stream, args.top)
    return 0
