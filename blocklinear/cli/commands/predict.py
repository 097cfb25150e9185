"""`blocklinear predict`: labels, decision values or probabilities for a LIBSVM file."""

import argparse
import sys
from typing import TYPE_CHECKING, Any

from blocklinear.cli.common_options import add_positive, fields_given, given, positive_of, size
from blocklinear.cli.console import Console
from blocklinear.cli.table_options import column_names, refuse_text_options
from blocklinear.cli.text_options import add_reading, add_row_options
from blocklinear.errors import UsageError, shown
from blocklinear.numerals import counted

if TYPE_CHECKING:
    from blocklinear.model.linear import LinearModel
    from blocklinear.model.parameters import WeightsToRead
    from blocklinear.model.predict import PredictionReport
    from blocklinear.outputs import Output
    from blocklinear.tables.predict import TableReport


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "predict",
        help="predict the label of each row",
        description="Read rows once and write one line per row, in their order. A model that was "
        "trained on tables takes tables, and writes one: Parquet or Arrow by the name of OUT, else "
        "CSV.",
        epilog="exit status: 0 ok, 2 usage, 3 malformed input, 4 damaged model, "
        "5 model of a newer version, 6 I/O or no space, 7 memory budget",
    )
    parser.add_argument("input", metavar="INPUT", help="LIBSVM text, - is stdin; or a table")
    parser.add_argument("model", metavar="MODEL", help="a native or LIBLINEAR model")
    parser.add_argument("output", metavar="OUT", help="file to write; - is stdout")
    parser.add_argument(
        "-b",
        dest="probability",
        type=int,
        choices=(0, 1),
        default=0,
        help="1: write probabilities; for logistic models (default 0)",
    )
    parser.add_argument(
        "--decision",
        action="store_true",
        help="write decision values instead of labels: of each class, in the order of `info MODEL "
        "--json`; with two classes, but for -s 4, one value, above 0 for the first of them",
    )
    parser.add_argument(
        "--report",
        action="store_true",
        help="print precision, recall and F1 of each class, and the confusion matrix",
    )
    add_positive(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object as the result")
    parser.add_argument(
        "-q", "--quiet", action="store_true", help="print no result, notes or progress bar"
    )
    parser.add_argument(
        "--keep",
        type=column_names,
        metavar="A,B,...",
        help="columns of a table to write with the predictions; a name with a comma is written in "
        "double quotes",
    )
    add_row_options(parser)
    parser.add_argument(
        "--strict",
        action="store_true",
        help="refuse features that the model does not have (default: ignore and count them)",
    )
    parser.add_argument("--threads", type=int, metavar="T", help="threads that read text")
    parser.add_argument(
        "--memory",
        type=size,
        metavar="SIZE",
        help="memory budget of the whole process, as 512M or 4G",
    )
    add_reading(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command; return the exit status.

    BlocklinearError is raised if anything goes wrong; OUT is not written then.
    """
    from blocklinear.model.linear import LinearModel  # late: --help stays fast
    from blocklinear.model.predict import predict_stream
    from blocklinear.outputs import Output
    from blocklinear.text import TextOptions

    output = Output(args.output, [args.input, args.model])
    room: dict[str, int] = {}
    model = LinearModel.load(args.model, lambda found: room.update(_room(args, found)))
    if "recipe" in model.metadata:
        return _predict_table(args, model, output, room)
    if args.keep:
        raise UsageError("--keep is for tables", "predict a table with a model of tables")
    # a bar would be drawn between lines that go to the same terminal
    mixed = output.is_stdout and sys.stdout.isatty()
    with Console(args.quiet or mixed, "predict") as console:
        report = predict_stream(
            model,
            [args.input],
            output,
            text_options=TextOptions(**fields_given(args, TextOptions) | room),
            decision=args.decision,
            probability=bool(args.probability),
            strict=args.strict,
            classes=args.report,
            positive=positive_of(args, model.classes),
            listener=console,
        )
    remarks = [f"warning: {shown(note)}" for note in report.notes]
    if report.unknown_values:
        values = counted(report.unknown_values, "value")
        remarks.append(f"blocklinear: {values} of features that the model does not know: ignored")
    _print_report(args, output, report, remarks)
    return 0


def _room(args: argparse.Namespace, found: "WeightsToRead") -> dict[str, int]:
    """Return what --memory leaves for process and text, or tables; or it is refused."""
    from blocklinear.model.predict import text_memory

    if args.memory is None:
        return {}
    least: tuple[Any, ...] = ()
    if found.of_tables:
        from blocklinear.tables.arrow import ARROW_BYTES

        least = 2 * ARROW_BYTES, "tables"
    return {"memory_bytes": text_memory(found.n_bytes, found.n_columns, args.memory, *least)}


def _predict_table(
    args: argparse.Namespace, model: "LinearModel", output: "Output", room: dict[str, int]
) -> int:
    """Predict a table by the recipe of the model."""
    from blocklinear.options import TextOptions
    from blocklinear.tables.predict import predict_tables

    refuse_text_options(args)
    options: dict[str, Any] = given(threads=args.threads, expect_rows=args.expect_rows) | room
    with Console(args.quiet, "predict") as console:
        report = predict_tables(
            model,
            [args.input],
            output,
            name=args.model,
            options=TextOptions(**options),
            decision=args.decision,
            probability=bool(args.probability),
            keep=args.keep or (),
            strict=args.strict,
            classes=args.report,
            positive=positive_of(args, model.named),
            listener=console,
        )
    remarks = [] if report.rows else [f"blocklinear: {args.input}: no rows"]
    if report.unlabelled:
        rows = counted(report.unlabelled, "row has", "rows have")
        remarks.append(f"blocklinear: {rows} no target, and no part in the score")
    if report.unseen:
        counts = ", ".join(f"{shown(name)} {n}" for name, n in report.unseen.items())
        remarks.append(f"blocklinear: values that the model does not know, left out: {counts}")
    _print_report(args, output, report, remarks)
    return 0


def _print_report(
    args: argparse.Namespace,
    output: "Output",
    report: "PredictionReport | TableReport",
    remarks: list[str],
) -> None:
    """Print the result, and on stderr remarks on the input."""
    # predictions on stdout are not to be mixed with the result
    results = sys.stderr if output.is_stdout else sys.stdout
    if args.json:
        print(report.to_json(), file=results)
    if args.quiet:
        return
    if not args.json:
        print(report.summary(), file=results)
        if report.confusion is not None and report.rows:
            print(report.confusion.table(), file=results)
            print(report.confusion.summary(), file=results)
    for remark in remarks:
        print(remark, file=sys.stderr)
    if report.unknown_labels:
        rows = counted(report.unknown_labels, "row has", "rows have")
        print(f"blocklinear: {rows} a label that the model does not know", file=sys.stderr)
