"""LIBLINEAR's ``train``: from text to a model, a cross-validation or a search."""

import contextlib
import math
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from blocklinear.cli.ahead import load_for_splitting, load_for_training
from blocklinear.cli.liblinear.arguments import TrainArguments
from blocklinear.errors import BlocklinearError, MismatchError, StorageError, UsageError, shown
from blocklinear.events import Event, OneLabel, OuterIteration, Warned
from blocklinear.inputs.urls import shown_name
from blocklinear.numerals import format_number
from blocklinear.solver_types import ONE_CLASS, SOLVER_TYPES

if TYPE_CHECKING:
    from blocklinear.model.linear import LinearModel
    from blocklinear.options import TrainOptions
    from blocklinear.outputs import Output
    from blocklinear.selection.cross_validation import CrossValidation
    from blocklinear.store.store import BlockStore

_STEPS_OF_EPSILON = 20


class _Progress:
    """Prints a dot every 10 outer iterations, as LIBLINEAR does, and each warning once to stderr.

    One label is what all rows of a one-class SVM have; a classifier refuses it.
    """

    def __init__(self, quiet: bool) -> None:
        self._quiet, self._has_dots = quiet, False
        self._said: set[str] = set()
        self.n_sv = 0

    def __call__(self, event: Event) -> None:
        if isinstance(event, Warned):
            if isinstance(event, OneLabel) or event.message in self._said:
                return
            self._said.add(event.message)
            self.end_line()
            print(f"WARNING: {shown(event.message)}", file=sys.stderr, flush=True)
        elif isinstance(event, OuterIteration):
            self.n_sv = event.n_sv
            if event.outer % 10 == 0 and not self._quiet:
                print(".", end="", flush=True)
                self._has_dots = True

    def end_line(self) -> None:
        """End the line of dots, if there is one."""
        if self._has_dots:
            print(flush=True)
        self._has_dots = False


def train(arguments: TrainArguments, given: dict[str, Any], keep_store: bool) -> None:
    """Do what the arguments ask for.

    Raises BlocklinearError.

    Parameters
    ----------
    given : dict              ``memory_bytes`` and ``threads``, where they were given
    keep_store : bool         make the store next to the text and keep it, or use the one there
    """
    if not os.path.exists(arguments.text):
        raise StorageError(f"can't open input file {shown_name(arguments.text)}", "check its name")
    output = None if arguments.folds else _checked_output(arguments)
    progress = _Progress(arguments.quiet or arguments.searches)
    with _store(arguments, given, keep_store, progress) as store:
        options = _options(arguments, given, store)
        several = arguments.folds is not None
        if several:
            arguments = _with_folds(arguments, store)
        load_for_training(store.manifest, options, arguments.quiet, several, {"text"})
        if arguments.searches:
            _search(arguments, store, options, progress)
        elif arguments.folds:
            _cross_validate(arguments, store, options, progress)
        else:
            assert output is not None
            _check_labels(arguments, store)
            _train(arguments, store, options, progress, output)


def _checked_output(arguments: TrainArguments) -> "Output":
    """Return the place of the model, checked before hours of work."""
    from blocklinear.model.files import check_replaceable
    from blocklinear.outputs import Output

    try:
        output = Output(arguments.model, [arguments.text])
        check_replaceable(output)
    except BlocklinearError as error:
        raise StorageError(
            f"can't save model to file {arguments.model}: {error.what}", error.fix
        ) from error
    return output


@contextlib.contextmanager
def _store(
    arguments: TrainArguments, given: dict[str, Any], keep: bool, progress: _Progress
) -> Iterator["BlockStore"]:
    """Split the text to a store, a temporary one unless it is to be kept."""
    from blocklinear.ingest.split import split
    from blocklinear.ingest.text_store import store_of
    from blocklinear.options import SplitOptions, TextOptions
    from blocklinear.store.files import temporary_folder

    options = SplitOptions(text=TextOptions(**given))
    load_for_splitting(options.dtype, arguments.quiet)
    if keep:
        store = store_of(arguments.text, options, progress)
        if store.manifest.hash_bits or store.manifest.index_base != 1:
            raise MismatchError(
                f"{store.folder}: its features are not numbered as LIBLINEAR numbers them",
                "leave out --keep-store",
            )
        yield store
        return
    with temporary_folder() as folder:
        try:
            store = split(arguments.text, folder / "store", options, progress)
        except StorageError as error:
            if str(folder) not in error.what:  # the text cannot be read
                raise
            raise StorageError(
                error.what, f"{error.fix}; TMPDIR names the folder of the temporary store"
            ) from error
        yield store


def _options(
    arguments: TrainArguments, given: dict[str, Any], store: "BlockStore"
) -> "TrainOptions":
    """Return the options of training; warn of weights of classes that are not there."""
    from blocklinear.options import TrainOptions

    labels = store.manifest.labels or ()
    weights = []
    for label, weight in arguments.class_weights:
        if label in labels:
            weights.append((label, weight))
        else:
            name = format_number(label)
            print(f"WARNING: class label {name} specified in weight is not found", file=sys.stderr)
    return TrainOptions(
        solver=arguments.solver,
        cost=1.0 if arguments.solver == ONE_CLASS else arguments.cost,
        epsilon=arguments.epsilon if SOLVER_TYPES[arguments.solver].regression else 0.1,
        nu=arguments.nu if arguments.solver == ONE_CLASS else 0.5,
        bias=arguments.bias if arguments.bias >= 0 else -1.0,
        regularize_bias=arguments.regularizes_bias,
        class_weights=tuple(weights),
        run="liblinear",  # in a store that is kept, "default" may be of someone who resumes it
        restart=True,
        checkpoint_s=math.inf,
        tolerance=arguments.tolerance,
        **given,
    )


def _check_labels(arguments: TrainArguments, store: "BlockStore") -> None:
    """Refuse, before training, labels of classes that the model cannot hold."""
    from blocklinear.model.liblinear import check_expressible

    if not SOLVER_TYPES[arguments.solver].classifies:
        return
    labels, fix = store.manifest.labels or (), "write other labels"
    try:
        check_expressible(labels, index_base=1, hash_bits=0)
    except UsageError as error:
        if all(label.is_integer() for label in labels):
            fix += ", or use `blocklinear train`, whose native models hold these"
        raise UsageError(error.what, fix) from error


def _train(
    arguments: TrainArguments,
    store: "BlockStore",
    options: "TrainOptions",
    progress: _Progress,
    output: "Output",
) -> None:
    from blocklinear.training.loop import train

    def keep(model: "LinearModel") -> None:
        model.save(output, format="liblinear")

    model = train(store, options, progress, keep=keep)
    if arguments.quiet:
        return
    n_iterations = model.metadata["outer_iterations"]
    proofs = model.metadata.get("certificates") or [model.metadata["certificate"]]
    l1 = SOLVER_TYPES[arguments.solver].l1
    for k, proof in enumerate(proofs):
        print(f"\noptimization finished, #iter = {n_iterations}")
        print(f"Objective value = {proof['primal'] if l1 else -proof['dual']:f}")
        if l1:
            used = int((model.weights[:, k] != 0.0).sum()) + int(model.bias_weights[k] != 0.0)
            print(f"#nonzeros/#features = {used}/{len(model.weights) + (arguments.bias >= 0)}")
        elif len(proofs) == 1 and arguments.solver not in (0, 7):
            print(f"nSV = {progress.n_sv}")
        if arguments.solver == ONE_CLASS:
            print(f"rho = {model.rho:f}")


def _with_folds(arguments: TrainArguments, store: "BlockStore") -> TrainArguments:
    """Return the arguments with no more folds than there are rows; warn if there were more."""
    n_rows = store.manifest.n_rows
    if n_rows < 2:
        raise UsageError(
            "a cross-validation needs 2 rows at least, and there is 1",
            "give more rows, or train without it",
        )
    if (arguments.folds or 0) <= n_rows:
        return arguments
    print(
        "WARNING: # folds > # data. Will use # folds = # data instead "
        "(i.e., leave-one-out cross validation)",
        file=sys.stderr,
    )
    return replace(arguments, folds=n_rows)


def _validate(
    arguments: TrainArguments,
    store: "BlockStore",
    options: "TrainOptions",
    progress: _Progress,
    costs: list[float] | None = None,
) -> "CrossValidation":
    from blocklinear.selection.cross_validation import cross_validate, largest_searched

    first_cost = None
    if arguments.searches and arguments.first_cost is not None:
        first_cost = min(arguments.first_cost, largest_searched(options))
    found = cross_validate(
        store,
        options,
        n_folds=arguments.folds or 0,
        costs=costs,
        first_cost=first_cost,
        listener=progress,
    )
    progress.end_line()
    return found


def _cross_validate(
    arguments: TrainArguments, store: "BlockStore", options: "TrainOptions", progress: _Progress
) -> None:
    """Print the score of all rows together, each predicted by the models that did not see it."""
    from blocklinear.model.metrics import RegressionErrors

    found = _validate(arguments, store, options, progress, costs=[arguments.cost])
    if not SOLVER_TYPES[arguments.solver].regression:
        print(f"Cross Validation Accuracy = {100 * _pooled(found.report.best, 'accuracy'):g}%")
        return
    errors = RegressionErrors()
    errors.add(found.labels, found.predicted)
    print(f"Cross Validation Mean squared error = {errors.mean_squared_error:g}")
    correlation = errors.squared_correlation
    print(f"Cross Validation Squared correlation coefficient = {correlation:g}")


def _pooled(scores: Any, metric: str) -> float:
    """Return a metric of all rows together: the mean over the folds, weighted by their rows."""
    folds = [fold for fold in scores.folds if fold["rows"]]
    rows = sum(fold["rows"] for fold in folds)
    return float(sum(fold[metric] * fold["rows"] for fold in folds) / rows)


def _search(
    arguments: TrainArguments, store: "BlockStore", options: "TrainOptions", progress: _Progress
) -> None:
    print(f"Doing parameter search with {arguments.folds}-fold cross validation.", flush=True)
    if SOLVER_TYPES[arguments.solver].regression:
        _search_both(arguments, store, options, progress)
        return
    report = _validate(arguments, store, options, progress).report
    best, rate = 0.0, -1.0
    for scores in report.scores:
        found = 100.0 * _pooled(scores, "accuracy")
        if not arguments.quiet:
            print(f"log2c={math.log2(scores.cost):7.2f}\trate={found:g}")
        if found > rate:
            best, rate = scores.cost, found
    print(f"Best C = {best:g}  CV accuracy = {rate:g}%")


def _search_both(
    arguments: TrainArguments, store: "BlockStore", options: "TrainOptions", progress: _Progress
) -> None:
    """Search C for each of 20 epsilons, as LIBLINEAR does: from the largest target down to 0."""
    import numpy as np

    def validate(epsilon: float) -> "CrossValidation":
        changed = replace(options, epsilon=epsilon)
        return _validate(arguments, store, changed, progress)

    last = validate(0.0)  # which tells the targets, too
    step = float(np.abs(last.labels).max(initial=0.0)) / _STEPS_OF_EPSILON
    first = _STEPS_OF_EPSILON - 1
    if arguments.first_epsilon is not None and step > 0:
        first = min(int(arguments.first_epsilon / step), first)
    best, error = (0.0, 0.0), float("inf")
    for k in range(first, -1, -1):
        report = (validate(k * step) if k else last).report
        for scores in report.scores:
            found = _pooled(scores, "mean_squared_error")
            if not arguments.quiet:
                cost = math.log2(scores.cost)
                print(f"log2c={cost:7.2f}\tp={k * step:7.2f}\tMean squared error={found:g}")
            if found < error:
                best, error = (scores.cost, k * step), found
    print(f"Best C = {best[0]:g} Best p = {best[1]:g}  CV MSE = {error:g}")
