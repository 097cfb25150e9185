"""``blocklinear cv``."""

import argparse
import sys
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

from blocklinear.cli.ahead import load_for_training
from blocklinear.cli.cluster_options import add_cluster, check_cluster, cluster_of
from blocklinear.cli.common_options import (
    add_loss,
    add_positive,
    add_resources,
    add_restart,
    class_weight,
    costs_of,
    fields_given,
    of_any_labels,
    of_labels,
    positive_of,
    solver_number,
    solver_of,
)
from blocklinear.cli.console import Console
from blocklinear.cli.stopper import Stopper
from blocklinear.cli.stores import open_store
from blocklinear.cli.text_options import add_text_options
from blocklinear.numerals import format_number

if TYPE_CHECKING:
    from blocklinear.events import Event, Listener
    from blocklinear.options import TrainOptions
    from blocklinear.outputs import Output
    from blocklinear.selection.cross_validation import CrossValidation
    from blocklinear.store.manifest import Manifest


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "cv",
        help="compare costs by cross-validation",
        description="Compare values of C by cross-validation. All folds, values of C and classes "
        "are trained in the same passes over the data. The best C has the best mean over the "
        "folds; of equal ones the smallest is taken.",
        epilog="exit status: 0 ok, 2 usage, 3 labels do not fit the solver, 4 damaged store, "
        "5 the run of --refit was interrupted, or a store of a newer version, 6 I/O or no space, "
        "7 memory budget, 8 store busy, 9 the cluster is gone or missing, 130/143 stopped by a "
        "signal",
    )
    parser.add_argument("store", metavar="STORE", help="folder made by `split`, or LIBSVM text")
    parser.add_argument("-v", "--folds", type=int, default=5, metavar="V", help="folds (default 5)")
    grid = parser.add_mutually_exclusive_group()
    grid.add_argument(
        "-c",
        "--cost",
        default="0.01,0.1,1,10",
        metavar="C,C,...",
        help="costs to compare (default 0.01,0.1,1,10)",
    )
    grid.add_argument(
        "--search",
        action="store_true",
        help="double C, from a small one, until the models stop changing",
    )
    parser.add_argument(
        "-s",
        "--solver",
        type=solver_number,
        metavar="N",
        help="0 to 3 (3 is the default), 5 to 7, 11 to 13, or auto, as in train",
    )
    parser.add_argument(
        "--method",
        choices=("dual", "newton", "auto"),
        help="optimiser, as in train (default: auto for -s 0, 2 and 11, newton for 5 and 6, dual "
        "for the others)",
    )
    add_loss(parser)
    parser.add_argument(
        "--metric",
        metavar="NAME",
        help="accuracy (default), auc or f1; for regression mean_squared_error (default) or "
        "mean_absolute_error",
    )
    add_positive(parser)
    parser.add_argument(
        "--stratify", action="store_true", help="distribute each class evenly over the folds"
    )
    parser.add_argument("--gap", type=float, help="relative duality gap to reach (default 0.001)")
    parser.add_argument(
        "-e", "--tolerance", type=float, metavar="TOL", help="violation to reach, as in train"
    )
    parser.add_argument(
        "--max-outer",
        type=int,
        metavar="K",
        help="largest number of outer iterations (default 1000; 10000 passes of Newton's method)",
    )
    parser.add_argument(
        "--group", type=int, metavar="G", help="blocks per block step (default: from --memory)"
    )
    parser.add_argument(
        "--seed", type=int, metavar="S", help="seed of the folds and orders (default 0)"
    )
    parser.add_argument("--refit", metavar="MODEL", help="train with the best C on all rows")
    parser.add_argument(
        "--run",
        dest="run_name",
        metavar="NAME",
        help="name of the run of --refit (default: default)",
    )
    add_restart(parser)
    parser.add_argument(
        "--predictions", metavar="FILE", help="write the out-of-fold predictions of the best C"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object as the result")
    add_resources(parser)
    add_cluster(parser)
    add_text_options(parser, "STORE")
    parser.set_defaults(run=run)


def _load(manifest: "Manifest", options: "TrainOptions", refit: bool, quiet: bool) -> None:
    """Load the kernels that all folds need, and those of the model that is trained in the end."""
    load_for_training(manifest, options, quiet, several=True)
    if refit:
        load_for_training(manifest, options, quiet)


def _write_predictions(output: "Output", result: "CrossValidation") -> None:
    named = result.report.named
    with output.open() as stream:
        for start in range(0, len(result.predicted), 1 << 16):
            part = result.predicted[start : start + (1 << 16)].tolist()
            names = (named.get(value, f"{value:.17g}") for value in part)
            stream.write("".join(f"{name}\n" for name in names).encode())


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from dataclasses import replace

    from blocklinear.cli.outputs import Outputs
    from blocklinear.errors import StoppedError
    from blocklinear.options import TrainOptions
    from blocklinear.report.runlog import RunLog, check_log
    from blocklinear.selection.cross_validation import cross_validate
    from blocklinear.training.loop import train
    from blocklinear.training.unfinished import check_finished

    chosen = fields_given(args, TrainOptions) | solver_of(args.solver, args.method)
    del chosen["cost"]  # the grid, as text
    weights = tuple(map(class_weight, args.class_weight))
    options = TrainOptions(class_weights=of_any_labels(weights), **chosen)
    check_cluster(args, options)
    costs = None if args.search else costs_of(args.cost)
    # all that is written later is checked now, not after hours
    outputs = Outputs(args.store)
    model = outputs.add_models(args.refit)[0] if args.refit else None
    predictions = outputs.add(args.predictions) if args.predictions else None
    log = outputs.add(args.log, check_log, appends=True) if args.log else None
    console = Console(args.quiet)
    store = open_store(args, console)
    labels = store.named
    options = replace(options, class_weights=of_labels(weights, labels))
    positive = positive_of(args, labels)
    outputs.check_sources(store.manifest)
    if args.refit and not args.restart:
        run = store.folder / "runs" / options.run
        check_finished(run, store.manifest, console, by_train=True)

    with ExitStack() as stack:
        load = partial(_load, store.manifest, options, bool(args.refit))
        options, by = stack.enter_context(cluster_of(args, options, load))
        listeners: list[Listener] = [console]
        if log is not None:
            run_log = RunLog(
                log, options.gap, options.tolerance, [model.name] if model is not None else []
            )
            listeners.append(stack.enter_context(run_log))

        def listen(event: "Event") -> None:
            for listener in listeners:
                listener(event)

        stopper, refitted = stack.enter_context(Stopper(until_asked=by is None)), None
        try:
            result = cross_validate(
                store,
                options,
                n_folds=args.folds,
                costs=costs,
                stratify=args.stratify,
                metric=args.metric,
                positive=positive,
                listener=listen,
                halt=stopper.asked,
                by=by,
            )
            console.close()
            try:  # what has been found goes out before what may fail
                found = result.report.to_json() if args.json else result.report.table()
                print(found, file=outputs.results, flush=True)
            finally:
                if predictions is not None:
                    _write_predictions(predictions, result)
            if model is not None:
                refitted = replace(options, cost=result.report.best.cost)
                del result  # labels and predictions, for which a plan of training has no room
                train(store, refitted, listen, stopper.asked, lambda found: found.save(model), by)
        except StoppedError as stopped:
            console.close()
            message = "stopped"
            if refitted is not None and stopped.fix:
                cost = format_number(refitted.cost)
                message = (
                    f"{stopped.what}\n  fix: `train` with -c {cost} and --resume goes on with it"
                )
            print(f"blocklinear: {message}", file=sys.stderr)
            return stopper.status
        finally:
            console.close()
    return 0
