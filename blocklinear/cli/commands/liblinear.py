"""``blocklinear liblinear``: LIBLINEAR's own command lines."""

import argparse
import sys
from typing import Any

from blocklinear.cli.common_options import add_budget, given
from blocklinear.cli.streams import discard_stdout

PROGRAMS = ("train", "predict")


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "liblinear",
        help="run a command line of LIBLINEAR's train or predict",
        description="Take the options, files and exit status of LIBLINEAR's train and predict, and "
        "print the lines that they print. `blocklinear liblinear train` alone lists the options.",
        epilog="exit status: 0 ok, 1 anything else, as there; 130/143 stopped by a signal",
    )
    add_budget(parser)
    parser.add_argument(
        "--keep-store",
        action="store_true",
        help="make the store TEXT.blocks, or reuse it, as `train TEXT` does (default: a temporary "
        "store in TMPDIR)",
    )
    parser.add_argument(
        "command_line",
        nargs=argparse.PARSER,  # all that follows as it is, a -- too
        type=str,
        choices=PROGRAMS,
        metavar="PROGRAM",
        help="train or predict, and then the arguments of LIBLINEAR's program",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command: a status of 1 stands for every error, as in LIBLINEAR."""
    from blocklinear.errors import BlocklinearError, InputFormatError

    try:
        status = _run(args)
        sys.stdout.flush()
        return status
    except BlocklinearError as error:
        if isinstance(error, InputFormatError):
            print(f"Wrong input format at line {error.line}", file=sys.stderr)
        own = "predict" if args.command_line[0] == "predict" else "split"
        options = f"; the options are those of `blocklinear {own}`" if "--" in error.fix else ""
        print(f"{error}{options}", file=sys.stderr)
    except BrokenPipeError:
        raise
    except OSError as error:
        print(f"{error.filename or 'standard output'}: {error.strerror}", file=sys.stderr)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError:
        discard_stdout()
    return 1


def _run(args: argparse.Namespace) -> int:
    from blocklinear.cli.liblinear.arguments import RefusedArguments, read_predict, read_train
    from blocklinear.errors import shown

    budget: Any = given(memory_bytes=args.memory, threads=args.threads)
    program, *arguments = args.command_line
    try:
        if program == "train":
            from blocklinear.cli.liblinear.train import train

            asked = read_train(arguments)
            for note in asked.notes:
                print(note, file=sys.stderr)
            train(asked, budget, args.keep_store)
        else:
            from blocklinear.cli.liblinear.predict import predict

            predict(read_predict(arguments), budget)
    except RefusedArguments as refused:
        if refused.message:
            print(shown(refused.message), file=sys.stderr)
        print(refused.usage, end="")
        return 1
    return 0
