"""Cross-validation: the models of all folds and all C share each pass over the data."""

import contextlib
import dataclasses
import math
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from blocklinear.arguments import check_options, described
from blocklinear.errors import MemoryBudgetError, StoppedError, UsageError, WrongTypeError
from blocklinear.events import Listener, Validated, Warned, ignore
from blocklinear.figures.costs import plot_costs
from blocklinear.ingest.provenance import label_places
from blocklinear.kernels.losses import LOGISTIC
from blocklinear.memory import PROCESS_BYTES, enough, exact_size, format_size
from blocklinear.model.scores import positive_class
from blocklinear.numerals import counted, format_number
from blocklinear.objectives.certificate import column_norms
from blocklinear.objectives.models import Models, make_models
from blocklinear.objectives.problems import CRAMMER_SINGER, ONE_CLASS, SOLVERS
from blocklinear.objectives.tasks import check_shared
from blocklinear.options import TrainOptions
from blocklinear.selection.folds import hashes, stratify_folds
from blocklinear.selection.out_of_fold import (
    CLASS_METRICS,
    VALUE_METRICS,
    Predictions,
    Scores,
    Unit,
    ValidationReport,
)
from blocklinear.store.files import make_folder, remove_if_empty
from blocklinear.store.prefetch import GroupLoader
from blocklinear.store.row_arrays import RowArray
from blocklinear.store.store import BlockStore
from blocklinear.training.checkpoint import discard
from blocklinear.training.loop import optimise
from blocklinear.training.memory_plan import plan_memory
from blocklinear.training.method import choose_method
from blocklinear.training.outcome import Outcome, announced, warn_of_weights
from blocklinear.training.parts import Elsewhere, size_that_fits, split_to_fit
from blocklinear.training.permutations import block_groups
from blocklinear.training.run import Halt

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_FOLDS = 1000
SEARCHED_TOGETHER = 6
"""Costs whose models a search trains in the same passes."""
LARGEST_SEARCHED, LARGEST_OF_REGRESSION = 2.0**10, 2.0**20
"""Where a search ends, LIBLINEAR's limits."""
_LEAST_EXPONENT = sys.float_info.min_exp - 1
"""Of the smallest number that is not denormal."""
UNCHANGED = 5
"""A search ends when so many steps in a row changed nothing that matters."""
ALIKE = 0.01
"""Relative difference, of norms of weights and of predicted values, that does not matter."""
_ROW_BYTES, _STRATIFIED_BYTES = 28, 36
"""What all rows take, each, in the end: label, prediction, place in the input, and what sorting
these takes; and while folds are stratified."""
_ROWS_AT_A_TIME = 1 << 16
_FOLD_BYTES, _UNSCORED_BYTES = 112, 4
"""What a row takes while its fold is scored, which sorts decision values; and any row then."""


@dataclass(frozen=True, repr=False)
class CrossValidation:
    """What came of a cross-validation: a table with a row for each C, and predictions.

    Attributes
    ----------
    report : ValidationReport
    predicted : float64[n_rows]         out of fold, by the best C, in the order of the input
    labels : float64[n_rows]            of the same rows
    history : RunHistory or None        what training reported
    """

    report: ValidationReport
    predicted: NDArray[np.float64]
    labels: NDArray[np.float64]
    history: Any = None

    @property
    def best_cost(self) -> float:
        """The C of the best mean, the smallest of equals."""
        return self.report.best.cost

    def to_dict(self, folds: bool = False) -> dict[str, list[float]]:
        """Return the columns of the table; see `ValidationReport.to_dict`."""
        return self.report.to_dict(folds)

    def to_pandas(self, folds: bool = False) -> Any:
        """Return the table as a pandas.DataFrame; pandas has to be installed.

        Parameters
        ----------
        folds : bool
            A row for each C and fold.
        """
        import pandas  # late: nothing else needs it

        return pandas.DataFrame(self.to_dict(folds))

    def plot(self, metric: str | None = None, ax: "Axes | None" = None) -> "Figure":
        """Draw a metric against C: its mean, its spread over the folds, and each fold.

        Parameters
        ----------
        metric : str or None
            One of ``report.metrics``; None is the one that chose the best C.
        ax : matplotlib Axes or None
            Where to draw; None makes a figure.

        Returns
        -------
        matplotlib.figure.Figure

        Raises
        ------
        UsageError
            If there is no such metric, or matplotlib is not installed.
        """
        metric = metric or self.report.metric
        if metric not in self.report.metrics:
            known = ", ".join(self.report.metrics)
            raise UsageError(f"metric {metric!r} is not one of {known}", "choose another")
        return plot_costs(self.report.as_dict(), metric, ax)

    def __repr__(self) -> str:
        return self.report.table()

    def _repr_html_(self) -> str:
        return self.report._repr_html_()


def cross_validate(
    store: BlockStore | str | os.PathLike[str],
    options: TrainOptions | None = None,
    *,
    n_folds: int = 5,
    costs: Sequence[float] | None = None,
    first_cost: float | None = None,
    stratify: bool = False,
    metric: str | None = None,
    positive: float | None = None,
    assigned: NDArray[np.int32] | None = None,
    weigh_scores: bool = False,
    precedence: Sequence[float] = (),
    listener: Listener = ignore,
    halt: Halt = lambda: False,
    by: Elsewhere | None = None,
) -> CrossValidation:
    """Compare costs by cross-validation, out of core (Yu, 6.2).

    See `blocklinear.cross_validate` for what is not said here, and for the errors.

    Parameters
    ----------
    options : TrainOptions    for all models; `costs` replaces its `cost`
    n_folds : int             a row is in fold hash(seed, row number) mod n_folds, if none is
                              `assigned`, int32[n_rows], in the order of the input
    weigh_scores : bool       whether a row counts in the scores as often as its weight says
    precedence : sequence of float      as for `Predictions`
    listener, halt : callable           as for `training.loop.train`
    by : Elsewhere or None    trains models in place of `training.loop.optimise`; what it keeps in
                              its folder meanwhile is deleted
    """
    store, options = BlockStore.of(store), options or TrainOptions()
    check_options(options, TrainOptions)
    if options.solver == ONE_CLASS:
        raise UsageError(
            "cross-validation compares predictions with labels, which a one-class SVM does not "
            "learn",
            "train a model for each nu, and predict rows that are known to be outliers",
        )
    with store.lock():
        store = BlockStore.open(store.folder)
        manifest = store.manifest
        with label_places(store):
            labels = make_models(manifest, options).labels
        _check_options(options, labels, metric, n_folds, stratify)
        saved_s = math.inf if by is None else TrainOptions().checkpoint_s
        options = dataclasses.replace(options, restart=False, checkpoint_s=saved_s)
        _check_search(options, costs, first_cost)
        _check_assigned(assigned, manifest.n_rows, n_folds)
        positive = positive_class(labels, positive, store.named)
        if n_folds > manifest.n_rows and assigned is None:
            listener(
                Warned(f"{n_folds} folds of {counted(manifest.n_rows, 'row')}: each row is a fold")
            )
            n_folds = manifest.n_rows
        warn_of_weights(options, labels, store, listener)
        folder = store.folder / "runs" / f"{options.run}.cv"  # whose checkpoint is no matter here
        with contextlib.ExitStack() as ending:
            make_folder(folder, store.folder)
            ending.callback(remove_if_empty, folder, store.folder)
            work = _Validation(
                store, options, labels, positive, n_folds, folder, listener, halt, by,
                weigh_scores and manifest.weighted, precedence,
            )  # fmt: skip
            ending.callback(work.discard)
            with announced(listener, "cross-validation", store, options) as end:
                work.assign_folds(stratify, assigned)
                if costs is None:
                    work.search(first_cost)
                else:
                    work.run(tuple(sorted(set(costs))))
                result = work.result(metric or (CLASS_METRICS if labels else VALUE_METRICS)[0])
                report = result.report
                listener(Validated(report.as_dict()))
                gap = max(found.gap for found in report.scores)
                end.update(stopped="ended", outer=report.outer_iterations, gap=gap)
            return result


def _check_options(
    options: TrainOptions, labels: Sequence[float], metric: str | None, n_folds: int, stratify: bool
) -> None:
    known = VALUE_METRICS if not labels else CLASS_METRICS
    if len(labels) > 2:
        known = tuple(name for name in known if name != "auc")
    if metric is not None and metric not in known:
        raise UsageError(f"metric {metric!r} is not one of {', '.join(known)}", "choose another")
    if not isinstance(n_folds, Integral) or not 2 <= n_folds <= MOST_FOLDS:
        raise UsageError(
            f"the number of folds is {n_folds!r}, but must be from 2 to {MOST_FOLDS}", "change -v"
        )
    check_shared(options, "cross-validation needs many")
    for given, flag in (
        (options.solver == CRAMMER_SINGER, "-s 4"),
        (options.evaluate is not None, "--eval"),
        (options.sample_blocks is not None, "--sample-blocks"),
        (options.resume, "--resume"),
        (options.warm_start, "--warm-start"),
        (stratify and not labels, "--stratify of a regression, which has no classes"),
    ):
        if given:
            raise UsageError(f"cross-validation does not know {flag}", "leave it out")


def _check_assigned(assigned: NDArray[np.int32] | None, n_rows: int, n_folds: int) -> None:
    if assigned is None:
        return
    if assigned.shape != (n_rows,) or not ((assigned >= 0) & (assigned < n_folds)).all():
        raise UsageError(
            f"the folds assigned to rows are not {n_rows} numbers from 0 to {n_folds - 1}",
            "give one for each row of the store",
        )


def largest_searched(options: TrainOptions) -> float:
    """Return where a search for C ends, as LIBLINEAR's does."""
    regression = SOLVERS[options.solver].regression
    return LARGEST_OF_REGRESSION if regression else LARGEST_SEARCHED


def _check_search(
    options: TrainOptions, costs: Sequence[float] | None, first_cost: float | None
) -> None:
    listed = isinstance(costs, Sequence | np.ndarray) and not isinstance(costs, str)
    if costs is not None and not listed:
        raise WrongTypeError(f"costs is {described(costs)}, but must be a list", "give a list")
    if costs is not None and not len(costs):
        raise UsageError("there are no costs", "give some, or none at all to search them")
    for cost in () if costs is None else costs:
        dataclasses.replace(options, cost=cost)  # which checks it
    if first_cost is None:
        return
    if costs is not None:
        raise UsageError("costs and the first cost of a search are both given", "give one of them")
    largest = largest_searched(options)
    if not 0.0 < first_cost <= largest:
        raise UsageError(
            f"the first cost of a search is {format_number(first_cost)}, but must be above 0 and "
            f"at most {format_number(largest)}",
            "give a smaller one, or costs",
        )


@dataclass(eq=False)
class _Validation:
    """A cross-validation in progress."""

    store: BlockStore
    options: TrainOptions
    labels: tuple[float, ...]
    positive: float | None
    n_folds: int
    folder: Path
    listener: Listener
    halt: Halt
    train_elsewhere: Elsewhere | None
    weigh_scores: bool
    precedence: Sequence[float]

    def __post_init__(self) -> None:
        with contextlib.ExitStack() as self._opened:  # which deletes them if one finds no room
            self._folds = self._row_array("folds", np.int32)
            self._numbers = self._row_array("numbers", np.int64)
            self._row_labels = self._row_array("labels")
            self._weights = self._row_array("weights") if self.weigh_scores else None
            self._opened = self._opened.pop_all()
        self._largest_norm = 0.0
        self._width = len(self.labels) if len(self.labels) > 2 else 1
        self._scores: list[Scores] = []
        self._kept: list[tuple[Predictions, int]] = []  # of each C
        self._norms: list[NDArray[np.float64]] = []  # of its weight vectors
        self._whole: GroupLoader | None = None  # keeps all blocks from one run to the next
        self._outer = 0

    def _row_array(
        self, name: str, dtype: type[np.number] = np.float64, columns: int = 1
    ) -> RowArray:
        """Return a scratch file with a line for each row."""
        array = RowArray(self.folder / f"{name}.work", self.store.manifest, dtype, columns)
        self._opened.callback(array.discard)
        return array

    def discard(self) -> None:
        """Delete the scratch files; forget the blocks in memory."""
        self._opened.close()

    def assign_folds(self, stratify: bool, assigned: NDArray[np.int32] | None) -> None:
        """Pass over the data once, and say in which fold each row is."""
        manifest, seed = self.store.manifest, self.options.seed
        self._check_budget(stratify, assigned)
        memory = plan_memory(manifest, self.options, 1, 0, self.store.fetching_bytes)
        order = block_groups(seed, 1, len(manifest.blocks), memory.group)
        with contextlib.ExitStack() as opened:
            spare = memory.pin_bytes if memory.group == len(manifest.blocks) else 0
            loader = GroupLoader(self.store, memory.group, self.options.threads, spare)
            opened.enter_context(loader)
            for loaded in loader.stream(order):
                group = loaded.group
                drawn = hashes(seed, group.row_numbers) % np.uint64(self.n_folds)
                self._folds.write(group.blocks, drawn.astype(np.int32))
                self._numbers.write(group.blocks, group.row_numbers)
                self._row_labels.write(group.blocks, group.labels)
                if self._weights is not None and group.weights is not None:
                    self._weights.write(group.blocks, group.weights)
                largest = float(group.sq_norm.max(initial=0.0))
                self._largest_norm = max(self._largest_norm, largest)
            if loader.whole and self.train_elsewhere is None:
                self._whole = loader
                self._opened.push(opened.pop_all())
        if assigned is not None:
            self._folds.all[:] = assigned[self._numbers.all]
        elif stratify or self.n_folds == manifest.n_rows:  # then each row is a fold
            n = manifest.n_rows
            classes = self._row_labels.all if self.n_folds < n else np.zeros(n)
            stratify_folds(self._folds, self._numbers, classes, self.n_folds, seed)
        counts = np.bincount(self._folds.all, minlength=self.n_folds)
        empty = np.flatnonzero(counts == 0)
        if len(empty):
            self.listener(Warned(f"folds without rows: {len(empty)} of {self.n_folds}"))

    def _check_budget(self, stratify: bool, assigned: NDArray[np.int32] | None) -> None:
        """Refuse a budget that holds what training takes, but not what all rows take elsewhere."""
        store, options, n = self.store, self.options, self.store.manifest.n_rows
        largest = -(-n // self.n_folds) if assigned is None else int(np.bincount(assigned).max())
        of_rows = max(
            (_STRATIFIED_BYTES if stratify else _ROW_BYTES) * n,
            _UNSCORED_BYTES * n + _FOLD_BYTES * largest,
        )
        least = PROCESS_BYTES + store.fetching_bytes + of_rows
        larger = dataclasses.replace(options, memory_bytes=max(options.memory_bytes, least))
        try:
            size_that_fits(store.manifest, larger, 1, self._width, 0, store.fetching_bytes)
        except MemoryBudgetError:  # so the smaller budget is refused, too, by its own name
            size_that_fits(store.manifest, options, 1, self._width, 0, store.fetching_bytes)
            raise
        if options.memory_bytes < least:
            raise MemoryBudgetError(
                f"the budget of {exact_size(options.memory_bytes)} is too small: the program takes "
                f"{format_size(least - of_rows)}, and labels and predictions of "
                f"{counted(n, 'row')}, while they are compared, {format_size(of_rows)}",
                f"give --memory {enough(least)} or more",
            )

    def _split_to_fit(self, options: TrainOptions, n_units: int) -> list[slice]:
        """Divide the models, of a fold and a C at a time, into parts that fit the budget."""
        return split_to_fit(self.store, options, n_units, self.listener, self._width)

    def run(self, costs: Sequence[float]) -> None:
        """Train the models of all folds and these costs, and score them."""
        options = self.options
        models = make_models(self.store.manifest, options, costs, range(self.n_folds))
        if options.method == "auto":
            if self._whole is not None:  # the choice loads a block, which no plan has room for
                self._whole.empty()
            options, choice = choose_method(self.store, options, models, self.train_elsewhere)
            self.listener(choice)
        models = dataclasses.replace(models, folds=self._folds)
        units = [Unit(c, fold) for c in range(len(costs)) for fold in range(self.n_folds)]
        decisions = self._row_array("decisions", columns=len(costs))
        predictions = Predictions(
            self.labels, self.n_folds, self._folds, decisions, self.positive, self.precedence
        )
        self._kept += [(predictions, c) for c in range(len(costs))]
        gaps, norms = np.zeros(len(costs)), np.zeros((len(units), self._width))
        for part in self._split_to_fit(options, len(units)):
            part_models = models.some(slice(part.start * self._width, part.stop * self._width))
            outcome = self._train(options, part_models, units[part], predictions)
            self._outer += outcome.outer
            norms[part] = np.sqrt(column_norms(outcome.weights)).reshape(-1, self._width)
            for k, certificate in enumerate(outcome.certificates):
                place = units[part][k // self._width].cost
                gaps[place] = max(gaps[place], certificate.gap)
        del outcome  # its weights
        weights = None if self._weights is None else self._weights.all
        for c, cost in enumerate(costs):
            folds = predictions.scores(c, self._row_labels.all, weights)
            self._scores.append(Scores(cost, folds, float(gaps[c])))
            self._norms.append(norms[c * self.n_folds : (c + 1) * self.n_folds])

    def _train(
        self, options: TrainOptions, models: Models, units: Sequence[Unit], predictions: Predictions
    ) -> Outcome:
        bias, n_blocks = max(options.bias, 0.0), len(self.store.manifest.blocks)

        def conclude(loader: GroupLoader, outcome: Outcome) -> None:
            order = block_groups(options.seed, outcome.outer + 1, n_blocks, loader.group)
            stream = loader.stream(order)
            predictions.collect(stream, units, outcome.weights, bias, options.threads)

        if self.train_elsewhere is not None:
            return self._trained_elsewhere(options, models, conclude)
        return optimise(
            self.store, options, models, self.folder, self.listener, self.halt,
            conclude=conclude, whole=self._whole,
        )  # fmt: skip

    def _trained_elsewhere(
        self,
        options: TrainOptions,
        models: Models,
        conclude: Callable[[GroupLoader, Outcome], None],
    ) -> Outcome:
        """Train on a cluster, whose workers read checkpoints, and predict here."""
        assert self.train_elsewhere is not None
        discard(self.folder)  # of one that was killed
        try:
            outcome = self.train_elsewhere.optimise(
                self.store, options, models, self.folder, self.listener, self.halt, 0, 0.0
            )
        except StoppedError:
            raise StoppedError("stopped before there was anything to save") from None
        finally:
            discard(self.folder)
        store = self.store
        plan = plan_memory(store.manifest, options, len(models), 0, store.fetching_bytes)
        with GroupLoader(store, plan.group, options.threads) as loader:
            conclude(loader, outcome)
        return outcome

    def search(self, first_cost: float | None) -> None:
        """Double C from a small one, or the one given, until nothing changes any more."""
        largest = largest_searched(self.options)
        unit, last = 1.0, int(math.log2(largest))
        exponent = self._first_exponent(last)
        if first_cost is not None:
            unit, exponent = first_cost, 0
            last = math.floor(math.log2(largest) - math.log2(first_cost))
        while exponent <= last:
            exponents = range(exponent, min(exponent + SEARCHED_TOGETHER, last + 1))
            self.run([math.ldexp(unit, k) for k in exponents])
            exponent += SEARCHED_TOGETHER
            if self._unchanged() >= UNCHANGED:
                return
        self.listener(Warned(f"the search ended at the largest C, {format_number(largest)}"))

    def _first_exponent(self, last: int) -> int:
        """Return e, at most `last`, such that 2**e <= 1 / (2 n max x'x): all rows are at bound.

        By logistic loss, which has no bound, LIBLINEAR begins at twice that. Where all rows are
        empty one C is as good as another.
        """
        total, bias = self.store.manifest.weights["total"], max(self.options.bias, 0.0)
        largest = self._largest_norm + bias * bias
        if total == 0.0 or largest == 0.0:
            return 0
        times = 1.0 if SOLVERS[self.options.solver].kind == LOGISTIC else 2.0
        exponent = -math.log2(times * total) - math.log2(largest)  # the product may overflow
        return math.floor(min(max(exponent, _LEAST_EXPONENT), last))

    def _unchanged(self) -> int:
        """Return how many steps in a row, at the end, changed nothing that matters.

        Predictions alone do not tell: while C is so small that all rows are at their bounds, they
        stay as they are and the weights double; or by L1 regularisation all weights are 0.
        """
        may_begin = SOLVERS[self.options.solver].l1 and self._largest_norm > 0.0
        for count, c in enumerate(range(len(self._kept) - 1, 0, -1)):
            zero = may_begin and not self._norms[c - 1].any()
            if zero or not _alike(self._norms[c - 1], self._norms[c]):
                return count
            before, after = (kept.labels_of(k) for kept, k in self._kept[c - 1 : c + 1])
            same = np.array_equal(before, after) if self.labels else _alike(before, after)
            if not same:
                return count
        return len(self._kept) - 1

    def result(self, metric: str) -> CrossValidation:
        """Return the report, and what the best C predicts; warn of folds without the metric."""
        folds = [fold for fold in self._scores[0].folds if fold["rows"]]
        unknown = sum(math.isnan(fold.get(metric, math.nan)) for fold in folds)
        if unknown:
            where = f"{unknown} of {len(folds)} folds, whose rows are of one class or weigh nothing"
            so = ": the smallest C is taken" if unknown == len(folds) else ""
            self.listener(Warned(f"{metric} is unknown in {where}{so}"))
        report = ValidationReport(
            metric, self._scores, self.store.manifest.n_rows, self.n_folds, self._outer,
            self.positive, self.store.named if self.labels else {},
        )  # fmt: skip
        predictions, best = self._kept[self._scores.index(report.best)]
        order = np.argsort(self._numbers.all, kind="stable")
        labels, predicted = np.empty(len(order)), np.empty(len(order))
        for start in range(0, len(order), _ROWS_AT_A_TIME):
            part = slice(start, start + _ROWS_AT_A_TIME)
            labels[part] = self._row_labels.all[order[part]]
            predicted[part] = predictions.labels_of(best, order[part])
        return CrossValidation(report, predicted, labels)


def _alike(before: NDArray[np.float64], after: NDArray[np.float64]) -> bool:
    """Say whether two arrays differ by less than matters."""
    changed, size = np.square(after - before).sum(), np.square(after).sum()
    return bool(changed <= ALIKE**2 * size)
