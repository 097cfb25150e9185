"""``blocklinear report``."""

import argparse
import os
import sys
from typing import TYPE_CHECKING, Any

from blocklinear.cli.common_options import add_positive, fields_given, positive_of
from blocklinear.cli.table_options import refuse_text_options
from blocklinear.cli.text_options import add_reading, add_row_options

if TYPE_CHECKING:
    from blocklinear.model.evaluation import Evaluation
    from blocklinear.model.linear import LinearModel
    from blocklinear.report.records import RunRecords


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "report",
        help="write a page about a run or a model",
        description="Write a page of HTML that holds all it shows: data, settings, what is proven, "
        "the course of the run, its time and memory, the largest weights; of a cross-validation "
        "the scores by C. It fetches nothing from elsewhere. The last run of a log is shown, also "
        "while it goes on; the model that it wrote is found by itself, if it is still there. "
        "Figures need matplotlib: pip install 'blocklinear[plot]'.",
        epilog="exit status: 0 ok, 2 usage, 3 not a run log, or malformed test rows, 4 damaged "
        "model, 5 model of a newer version, 6 I/O or no space",
    )
    parser.add_argument(
        "subjects",
        nargs="+",
        metavar="RUN|MODEL",
        help="a log written by `train --log` or `cv --log`, a model, or both",
    )
    parser.add_argument(
        "-o", "--output", required=True, metavar="PAGE", help="file to write; - is stdout"
    )
    parser.add_argument(
        "--test",
        metavar="FILE",
        help="LIBSVM text that the model was not trained on, or for a model of tables a table: "
        "scores, ROC curve, precision and recall, confusion, and of logistic regression the "
        "calibration",
    )
    add_positive(parser)
    parser.add_argument("--title", metavar="TEXT", help="title of the page (default: the file)")
    add_row_options(parser.add_argument_group("how LIBSVM text is read (--test)"))
    add_reading(parser, expecting=False)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from blocklinear.errors import MismatchError, UsageError, shown
    from blocklinear.outputs import Output
    from blocklinear.report.page import Subject, write_page

    test = [args.test] if args.test else []
    inputs = [*args.subjects, *test]
    Output(args.output, inputs)  # refused before anything is read
    history, model = _read_log_and_model(args.subjects)
    models = [] if history is None else _models_of(history)
    output = Output(args.output, [*inputs, *models])
    if model is None and history is not None:
        model = _model_of(history)
    elif model is not None and history is not None and _of_another_run(model, history):
        raise MismatchError(
            "the model is not that of the run in the log: their certificates differ",
            "name the model that this run wrote, or one of the two alone",
        )
    evaluation = None
    if args.test is not None:
        if model is None:
            raise UsageError("--test compares rows with a model", "name the model, too")
        evaluation = _evaluated(model, args)
    elif args.positive is not None:
        raise UsageError("--positive is used with --test", "leave it out")
    title = args.title or os.path.basename(args.subjects[0]).removesuffix(".jsonl")
    subject = Subject(title, history, model, evaluation=evaluation, test=test)
    missing = write_page(subject, output)
    if missing:
        print(f"warning: no figures: {shown(missing)}", file=sys.stderr)
    return 0


def _read_log_and_model(names: list[str]) -> "tuple[RunRecords | None, LinearModel | None]":
    """Read a log, a model, or one of each, as their first bytes show."""
    from blocklinear.errors import InputError, UsageError, storage_errors
    from blocklinear.model.files import recognise
    from blocklinear.model.linear import LinearModel
    from blocklinear.report.records import read_events

    history, model = None, None
    for name in names:
        if os.path.isdir(name):
            raise UsageError(
                f"{name}: is a folder", "name a log or a model; `info` describes a store"
            )
        if recognise(name) is not None:
            if model is not None:
                raise UsageError("two models are named", "name one log, one model, or both")
            model = LinearModel.load(name)
            continue
        with storage_errors(name, "read"), open(name, "rb") as stream:
            if stream.read(1) not in (b"{", b""):
                raise InputError(
                    f"{name}: is neither a run log nor a model",
                    "name a file written by `train --log`, or a model",
                )
        if history is not None:
            raise UsageError("two logs are named", "name one log, one model, or both")
        history = read_events(name)
        if history.started is None and not history.events:
            raise InputError(f"{name}: no run is in this log yet", "wait until the run has started")
    return history, model


def _model_of(history: "RunRecords") -> "LinearModel | None":
    """Return the model that a run wrote, if the only one is still there and is that of the run."""
    from blocklinear.errors import BlocklinearError
    from blocklinear.model.linear import LinearModel

    names = _models_of(history)
    if len(names) != 1:
        return None
    try:
        model = LinearModel.load(names[0])
    except BlocklinearError:  # not there any more
        return None
    known = isinstance(model.metadata.get("certificate"), dict)
    return model if known and not _of_another_run(model, history) else None


def _models_of(history: "RunRecords") -> list[str]:
    """Return the names of the models that a run wrote."""
    names = (history.ended or {}).get("models")
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def _of_another_run(model: "LinearModel", history: "RunRecords") -> bool:
    """Return whether a model and the only one that a run wrote have other certificates."""
    ended, certificate = history.ended or {}, model.metadata.get("certificate")
    if not isinstance(certificate, dict) or len(ended.get("models") or ()) != 1:
        return False
    return any(certificate.get(name) != ended.get(name) for name in ("primal", "dual", "gap"))


def _evaluated(model: "LinearModel", args: argparse.Namespace) -> "Evaluation":
    """Compare the rows of --test with a model."""
    from blocklinear.model.predict import evaluate_text
    from blocklinear.options import TextOptions

    positive = positive_of(args, model.named)
    if "recipe" in model.metadata:
        from blocklinear.tables.predict import evaluate_tables

        refuse_text_options(args)
        return evaluate_tables(model, [args.test], name="the model", positive=positive)
    text_options = TextOptions(**fields_given(args, TextOptions))
    return evaluate_text(model, [args.test], text_options=text_options, positive=positive)
