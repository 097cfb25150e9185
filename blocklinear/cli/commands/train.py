"""``blocklinear train``."""

import argparse
import glob
import os
import sys
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from blocklinear.cli.ahead import load_for_training
from blocklinear.cli.cluster_options import add_cluster, check_cluster, cluster_of
from blocklinear.cli.common_options import (
    add_loss,
    add_resources,
    add_restart,
    class_weight,
    costs_of,
    fields_given,
    of_any_labels,
    of_labels,
    solver_number,
    solver_of,
)
from blocklinear.cli.console import Console
from blocklinear.cli.cost_choice import best_on, check_choice, summary
from blocklinear.cli.stopper import Stopper
from blocklinear.cli.stores import open_store
from blocklinear.cli.text_options import add_text_options
from blocklinear.numerals import format_number
from blocklinear.report.table import COLUMNS_HELP, SEVERAL_MODELS

if TYPE_CHECKING:
    from blocklinear.events import Event, Listener
    from blocklinear.model.linear import LinearModel
    from blocklinear.store import BlockStore

_EPOCHS = {"shrink": 10, "avsf": 4}
"""Epochs in a block step, where the first one only measures."""


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "train",
        help="train a model on a store",
        description="Train a linear model on groups of blocks, by dual coordinate descent, "
        "Newton's method or Pegasos, until the certified relative duality gap is at most --gap. "
        "If both --gap and -e are given, both must hold.",
        epilog="exit status: 0 ok (also if not converged, with a warning), 2 usage, 3 labels do "
        "not fit the solver, 4 damaged store, 5 --resume with other options, or an interrupted "
        "run, or a store of a newer version, 6 I/O or no space, 7 memory budget, 8 store busy, "
        "9 the cluster is gone or missing, 130/143 stopped by a signal with a checkpoint saved",
    )
    parser.add_argument(
        "store",
        metavar="STORE",
        help="folder made by `split`; or LIBSVM text, of which STORE.blocks is made and reused",
    )
    parser.add_argument("model", metavar="MODEL", help="file to write; - is stdout")
    _add_problem(parser.add_argument_group("what to train"))
    _add_stops(parser.add_argument_group("when to stop"))
    _add_method(parser.add_argument_group("method"))
    _add_run(parser.add_argument_group("run and files"))
    add_cluster(parser)
    add_text_options(parser, "STORE, --eval and --best-on")
    parser.add_argument_group(
        "the table on stderr", f"A line for each outer iteration. Columns:\n\n{COLUMNS_HELP}"
    )
    parser.add_argument_group("the table of several models", SEVERAL_MODELS)
    parser.set_defaults(run=run)


def _add_problem(group: Any) -> None:
    group.add_argument(
        "-s",
        "--solver",
        type=solver_number,
        default=3,
        metavar="N",
        help="1 squared hinge, 3 hinge (default), 4 Crammer-Singer, 7 logistic; regression: 12 "
        "squared epsilon-insensitive, 13 epsilon-insensitive; 21 one-class SVM; 2, 0, 11: as 1, 7, "
        "12, by Newton's method on the primal where that is cheaper; 5, 6: as 1, 7 with "
        "L1 regularisation, which leaves most weights 0; auto: 1, with --method auto",
    )
    group.add_argument(
        "-c",
        "--cost",
        default="1",
        metavar="C[,C...]",
        help="cost C (default 1); several are trained in one run and written to MODEL.C=C each",
    )
    group.add_argument(
        "--best-on",
        metavar="FILE",
        help="of several costs, write only the model that is best on this LIBSVM text, or of a "
        "store of tables on this table",
    )
    group.add_argument(
        "-n",
        "--nu",
        type=float,
        metavar="NU",
        help="of a one-class SVM: at most this share of the rows are outliers (default 0.5)",
    )
    add_loss(group)


def _add_stops(group: Any) -> None:
    group.add_argument("--gap", type=float, help="relative duality gap to reach (default 0.001)")
    group.add_argument(
        "-e",
        "--tolerance",
        type=float,
        metavar="TOL",
        help="violation to reach, as LIBLINEAR's -e; for regression relative to the first one",
    )
    group.add_argument(
        "--max-outer",
        type=int,
        metavar="K",
        help="largest number of outer iterations (default 1000; 10000 passes of Newton's method, "
        "50 for pegasos)",
    )
    group.add_argument(
        "--time-limit",
        type=float,
        metavar="SECONDS",
        help="stop once this time has passed: the outer iteration is ended after one pass over "
        "the data, and a certificate may take another",
    )
    group.add_argument(
        "--eval",
        metavar="FILE",
        help="LIBSVM text, or of a store of tables a table, to score the model on after each outer "
        "iteration (with one C)",
    )
    group.add_argument(
        "--patience",
        type=int,
        metavar="K",
        help="stop after K outer iterations without a better score, and keep the best model",
    )


def _add_method(group: Any) -> None:
    group.add_argument(
        "--method",
        choices=("dual", "pegasos", "newton", "auto"),
        help="optimiser (default: auto for -s 0, 2 and 11, newton for 5 and 6, dual for the "
        "others). newton: for few features and a large C; with -s 3 and 13 to proximal points. "
        "auto: dual or newton with -s 0, 1, 2, 7, 11 and 12, as the data make it cheaper",
    )
    group.add_argument(
        "--epochs",
        metavar="N|auto",
        help="epochs per block step (default 1; 10 with shrink and 4 with avsf, which act from the "
        "second epoch on); auto: until the violation is --inner-tol",
    )
    group.add_argument(
        "--inner-tol",
        type=float,
        metavar="TOL",
        help="violation that ends a block step with --epochs auto (default 0.1)",
    )
    group.add_argument(
        "--selection",
        choices=("active", "permute", "shrink", "avsf", "online"),
        help="rows of an epoch. active (default): all, permuted, and more passes over those with "
        "alpha strictly between its bounds; permute: all, permuted; shrink: without rows at a "
        "bound; avsf: by adaptive frequencies; online: drawn with replacement",
    )
    group.add_argument(
        "--group", type=int, metavar="G", help="blocks per block step (default: from --memory)"
    )
    group.add_argument(
        "--average",
        action="store_true",
        help="one outer iteration: solve each block step on its own and average the models",
    )
    group.add_argument(
        "--sample-blocks", type=int, metavar="K", help="train on K randomly chosen blocks"
    )
    group.add_argument(
        "--pegasos-batch", metavar="ROWS|block", help="rows per update of pegasos (default 1)"
    )
    group.add_argument(
        "--seed", type=int, metavar="S", help="seed of the orders of blocks and rows (default 0)"
    )


def _add_run(group: Any) -> None:
    group.add_argument(
        "--run",
        dest="run_name",
        metavar="NAME",
        help="name of the run, for --resume (default: default)",
    )
    group.add_argument(
        "--resume", action="store_true", help="continue from the checkpoint of the run"
    )
    add_restart(group)
    group.add_argument(
        "--warm-start",
        action="store_true",
        help="start from the solution that the run left, also after add and remove or with other C",
    )
    group.add_argument(
        "--checkpoint-s", type=float, metavar="S", help="seconds between checkpoints (default 60)"
    )
    group.add_argument(
        "--format",
        default="native",
        choices=("native", "liblinear"),
        help="format of MODEL (default native)",
    )
    add_resources(group)


def _number_or(name: str, text: str | None, option: str) -> dict[str, int | None]:
    """Read an option that is a number, or a name that stands for None; nothing if not given."""
    from blocklinear.errors import UsageError, quoted

    if text is None:
        return {}
    if text == name:
        return {option: None}
    try:
        return {option: int(text)}
    except ValueError:
        raise UsageError(
            f"{option} {quoted(text)} is not a number", f"give one, or {name}"
        ) from None


def _check_liblinear(store: "BlockStore", solver: int, listener: "Listener") -> None:
    """Refuse, before training, what LIBLINEAR's format cannot express."""
    from blocklinear.events import Warned
    from blocklinear.model.liblinear import check_expressible, not_kept

    manifest = store.manifest
    labels = manifest.labels or () if solver < 11 else ()  # of other models they are no classes
    check_expressible(labels, manifest.index_base, manifest.hash_bits)
    for message in not_kept(manifest.normalize, manifest.given):
        listener(Warned(message))


def _check_held_out(args: argparse.Namespace, of_tables: bool | None) -> None:
    """Refuse held-out rows that cannot be read; None if it is not known what the store is of."""
    from blocklinear.cli.outputs import check_input

    for place, again in ((args.eval, False), (args.best_on, True)):
        several = place is not None and (os.path.isdir(place) or glob.has_magic(place))
        if of_tables is False or (of_tables is None and not several):
            check_input(place, again)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from blocklinear.cli.outputs import Outputs
    from blocklinear.errors import StoppedError, UsageError
    from blocklinear.model.files import write_model
    from blocklinear.options import TextOptions, TrainOptions
    from blocklinear.report.runlog import RunLog, check_log
    from blocklinear.training.loop import train_models

    chosen = fields_given(args, TrainOptions) | solver_of(args.solver, args.method)
    if args.average:
        chosen["epochs"] = None
    elif args.selection in _EPOCHS:
        chosen["epochs"] = _EPOCHS[args.selection]
    text = fields_given(args, TextOptions)
    text.pop("index_base", None)  # of held-out rows it is that of the store, or of the model
    if args.eval:
        chosen["evaluate_text"] = TextOptions(**text)
    chosen |= _number_or("auto", args.epochs, "epochs")
    chosen |= _number_or("block", args.pegasos_batch, "pegasos_batch")
    costs, weights = costs_of(args.cost), tuple(map(class_weight, args.class_weight))
    chosen |= {"cost": costs[0], "costs": costs if len(costs) > 1 else ()}
    options = TrainOptions(class_weights=of_any_labels(weights), **chosen)
    if args.best_on is not None and not options.costs:
        raise UsageError("--best-on chooses from several costs", "give -c 0.1,1,10")
    check_cluster(args, options)
    # all that is written or read later is checked now, not after hours
    outputs = Outputs(args.store, args.eval, args.best_on)
    places = outputs.add_models(args.model, () if args.best_on else options.costs)
    log = outputs.add(args.log, check_log, appends=True) if args.log else None
    _check_held_out(args, of_tables=None)
    console = Console(args.quiet)
    store = open_store(args, console)
    labels = store.named
    options = replace(options, class_weights=of_labels(weights, labels))
    outputs.check_sources(store.manifest)
    _check_held_out(args, store.manifest.of_tables)
    others = {"evaluate"} if args.best_on else set()
    others |= {"text"} if args.format == "liblinear" else set()

    load = partial(
        load_for_training, store.manifest, options, several=bool(options.costs), others=others
    )
    with ExitStack() as stack:
        options, by = stack.enter_context(cluster_of(args, options, load))
        if args.best_on:
            check_choice(args.best_on, store, options, text)
        if args.format == "liblinear":
            _check_liblinear(store, options.solver, console)
        listeners: list[Listener] = [console]
        if log is not None:
            run_log = RunLog(log, options.gap, options.tolerance, [place.name for place in places])
            listeners.append(stack.enter_context(run_log))

        def listen(event: "Event") -> None:
            for listener in listeners:
                listener(event)

        kept: list[LinearModel] = []

        def keep(models: "list[LinearModel]") -> None:
            stopper.end()
            console.close()
            if args.best_on:
                models = [best_on(args.best_on, models, text, outputs.results)]
            for model, place in zip(models, places, strict=True):
                write_model(model, place, args.format)
            kept.extend(models)

        with Stopper(until_asked=by is None) as stopper:
            try:
                train_models(store, options, listen, stopper.asked, keep, by)
            except StoppedError as stopped:
                console.close()
                print(f"blocklinear: {stopped}", file=sys.stderr)
                return stopper.status
            finally:
                console.close()
    for model in kept:
        cost = f"C {format_number(model.metadata['C'])}: " if options.costs else ""
        print(cost + summary(model), file=outputs.results)
    return 0
