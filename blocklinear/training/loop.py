"""The outer loop: load a group, work on it, go on, until a certificate says enough."""

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from blocklinear.errors import StorageError, UsageError
from blocklinear.events import (
    NO_BETTER_SCORE,
    Listener,
    OuterIteration,
    SlowlyConverging,
    Warned,
    ignore,
)
from blocklinear.ingest.provenance import label_places
from blocklinear.memory import RowsHeldOut
from blocklinear.model.linear import LinearModel
from blocklinear.numerals import counted
from blocklinear.objectives.certificate import Certificate
from blocklinear.objectives.models import Models
from blocklinear.objectives.tasks import make_task
from blocklinear.options import TrainOptions
from blocklinear.solvers.factory import make_solver
from blocklinear.solvers.newton.costs import enough_products
from blocklinear.solvers.protocol import Abandoned
from blocklinear.solvers.sharing import n_columns
from blocklinear.store.features import read_features, read_names
from blocklinear.store.files import make_folder, remove_files
from blocklinear.store.manifest import Manifest
from blocklinear.store.prefetch import GroupLoader
from blocklinear.store.store import BlockStore
from blocklinear.training.checkpoint import SCRATCH, Checkpoint, discard
from blocklinear.training.checkpoint_schema import check_facts
from blocklinear.training.memory_plan import MemoryPlan, budget_for_newton, plan_memory
from blocklinear.training.method import choose_method
from blocklinear.training.outcome import Outcome, announced, warn_of_weights
from blocklinear.training.parts import AnotherRun, Elsewhere, discard_others, train_in_parts
from blocklinear.training.permutations import sampled
from blocklinear.training.previous import find_previous
from blocklinear.training.run import GroupRun, Halt, Run, check_finite
from blocklinear.training.stopping import Ending
from blocklinear.training.unfinished import check_finished
from blocklinear.training.warm_start import start_warm

if TYPE_CHECKING:
    from blocklinear.training.held_out import HeldOut


def train(
    store: BlockStore | str | os.PathLike[str],
    options: TrainOptions | None = None,
    listener: Listener = ignore,
    halt: Halt = lambda: False,
    keep: Callable[[LinearModel], object] = lambda model: None,
    by: Elsewhere | None = None,
) -> LinearModel:
    """Train a linear model on a store, out of core, to a certified optimum.

    See `blocklinear.train` for what is not said here, and for the errors.

    Parameters
    ----------
    listener : callable       called with an `OuterIteration` after each of these, a `BlockStep`
                              after each of these, and `Warned` events
    by : Elsewhere or None    trains tasks in place of `optimise` of this module
    """
    store, options = BlockStore.of(store), options or TrainOptions()
    if options.costs:
        raise UsageError(f"there are {len(options.costs)} costs", "call train_grid")
    (model,) = train_models(store, options, listener, halt, lambda models: keep(*models), by)
    return model


def train_models(
    store: BlockStore,
    options: TrainOptions,
    listener: Listener,
    halt: Halt,
    keep: Callable[[list[LinearModel]], object],
    by: Elsewhere | None,
) -> list[LinearModel]:
    """Lock a store and train the model of each C that the options ask for.

    Only when `keep` has been called with the models the run counts as finished.
    """
    folder = store.folder / "runs" / options.run
    with store.lock():
        # read again: it may have changed before it was ours
        whole = BlockStore.open(store.folder).manifest
        if options.sample_blocks is not None and options.sample_blocks > len(whole.blocks):
            blocks = counted(len(whole.blocks), "block")
            message = f"--sample-blocks {options.sample_blocks} of {blocks}: all are trained on"
            listener(Warned(message))
        manifest = sampled(whole, options)
        store, choice = BlockStore(store.folder, manifest), None
        with label_places(store):
            task = make_task(manifest, options)
            if options.method == "auto":
                options, choice = choose_method(store, options, task, by)
                listener(choice)
        warn_of_weights(options, task.labels, store, listener)
        if not (options.resume or options.warm_start or options.restart):
            check_finished(folder, whole, listener)
        with announced(listener, "train", store, options) as end:
            read_features(store.folder, manifest)  # damage is reported now, not after hours
            read_names(store.folder, manifest)
            manifest.read_recipe(store.folder)
            outcome, folders = train_in_parts(
                store, options, task, folder, listener, halt, by.optimise if by else optimise
            )
            models = outcome.models(store, options, task, choice)
            keep(models)
            proof = outcome.certificate
            end.update(
                stopped=outcome.stopped, outer=outcome.outer, primal=proof.primal,
                dual=proof.dual, gap=proof.gap,
            )  # fmt: skip
        try:
            discard_others(folder, folders, store.folder)  # nothing starts from them now
            for part_folder in folders:
                Checkpoint(part_folder).finish()
        except StorageError as error:
            listener(Warned(f"{error.what}: the next run of this name needs --restart"))
        return models


def optimise(
    store: BlockStore,
    options: TrainOptions,
    task: Models,
    folder: Path,
    listener: Listener,
    halt: Halt,
    others: int = 0,
    spent_s: float = 0.0,
    conclude: Callable[[GroupLoader, Outcome], None] = lambda loader, outcome: None,
    whole: GroupLoader | None = None,
) -> Outcome:
    """Train what a task asks for; the store is locked by the caller.

    Parameters
    ----------
    folder : Path             where the run keeps its files
    others : int              weight vectors that the caller has in memory
    spent_s : float           of the time limit, on models that were trained before
    conclude : callable       called at the end, to pass over the data
    whole : GroupLoader or None         of all blocks, which it may have in memory: used where there
                              is room, and else emptied
    """
    manifest = store.manifest
    make_folder(folder, store.folder)
    facts = resumed(folder, manifest, options, listener)
    previous = find_previous(folder, options, listener)
    sizes = n_columns(len(task)), others, store.fetching_bytes
    memory, held_out = plan_with_rows(
        lambda rows: plan_memory(manifest, options, *sizes, rows, facts), store, task, options
    )
    if facts is not None:
        options = dataclasses.replace(options, group=facts["course"]["group"])
    if facts is None and previous is None:
        begin_anew(folder, options)
    with _loading(store, options, memory, whole) as loader:
        products = enough_products(manifest, memory.hessian)
        entries = memory.working_set_entries
        try:
            solver = make_solver(manifest, options, task, folder, entries, products)
            run = GroupRun(
                manifest, options, memory, solver, held_out, folder, listener, halt, loader
            )
        except BaseException:
            remove_files(folder.glob(SCRATCH))  # of its arrays, those that found room
            raise
        run.stopping.spent_s = spent_s
        if not memory.newton:
            run.stopping.roomier = partial(budget_for_newton, manifest, options, *sizes)
        try:
            with stopping(run), loader.calling(run.give_up_if_overdue):
                if facts is not None:
                    run.resume(facts)
                elif previous is not None:
                    start_warm(run, previous, store)
                outcome = converge(run)
                conclude(loader, outcome)
                return outcome
        finally:
            run.solver.discard()


def plan_with_rows(
    plan: Callable[[RowsHeldOut | None], MemoryPlan],
    store: BlockStore,
    task: Models,
    options: TrainOptions,
) -> tuple[MemoryPlan, "HeldOut | None"]:
    """Divide the budget, and read the held-out rows, if there are any.

    Rows that take more than what the plan leaves for them are counted. Then it is divided again,
    with room for them, and they are read again. InputError is raised as by `HeldOut`;
    MemoryBudgetError by `plan`, or if they cannot be read again.

    Parameters
    ----------
    plan : callable           returns how the budget is divided, given what the rows need; None is
                              for what is usual
    """
    memory, path = plan(None), options.evaluate
    if path is None:
        return memory, None
    from blocklinear.training.held_out import HeldOut, RowsTooLarge  # late: few runs need it

    try:
        return memory, HeldOut(path, store, task, options, memory.spare_bytes)
    except RowsTooLarge as error:
        memory = plan(error.needed)
        if not error.again:
            raise
    return memory, HeldOut(path, store, task, options, memory.spare_bytes)


def begin_anew(folder: Path, options: TrainOptions) -> None:
    """Discard what the run before left in the folder, as nothing more can refuse the next one."""
    if not (options.resume or options.restart):
        check_finished(folder, None, ignore)  # of a warm start that nothing there fits
    discard(folder)


def _loading(
    store: BlockStore, options: TrainOptions, memory: MemoryPlan, whole: GroupLoader | None
) -> contextlib.AbstractContextManager[GroupLoader]:
    """Return what loads groups as the plan has them: `whole`, if it does."""
    if whole is not None and memory.group >= whole.group:
        return contextlib.nullcontext(whole)
    if whole is not None:
        whole.empty()
    return GroupLoader(
        store, memory.group, options.threads, memory.pin_bytes, memory_bytes=options.memory_bytes
    )


@contextlib.contextmanager
def stopping(run: Run) -> Iterator[None]:
    """Report a run that is abandoned meanwhile as stopped.

    NumPy does not warn of what is infinite, or no number: `check_finite` notices it.
    """
    try:
        with np.errstate(all="ignore"):
            yield
    except Abandoned:
        raise run.stopped() from None


def resumed(
    folder: Path, manifest: Manifest, options: TrainOptions, listener: Listener, **more: Any
) -> dict[str, Any] | None:
    """Return what the checkpoint to go on from says; None to start anew.

    AnotherRun is raised if its blocks, its options or `more` are others. None in `more` stands for
    what the checkpoint says.
    """
    if not options.resume:
        return None
    facts = Checkpoint(folder).checked(check_facts)
    if facts is None:
        listener(Warned(f"run {options.run!r} has no checkpoint: it starts from the beginning"))
        return None
    was = TrainOptions().course() | facts["course"]  # an option that is newer had its default
    course = options.course() | more
    for name in ("group", *more):
        if course[name] is None:  # then it is that of the checkpoint
            course[name] = was.get(name, "not given")
    differences = [
        f"{name} was {was.get(name)!r} and is {course.get(name)!r}"
        for name in sorted(course | was)
        if was.get(name) != course.get(name)
    ]
    drawn_alike = all(was[name] == course[name] for name in ("sample_blocks", "seed"))
    same_blocks = facts["store"] == manifest.fingerprint or not drawn_alike
    other_blocks = facts.get("warm_only") or not same_blocks
    ways = ["--restart to delete what it reached", "or another --run NAME"]
    if other_blocks or facts.get("finished"):
        ways.insert(0, "--warm-start to start from its alpha")
    if other_blocks:
        differences.append("the blocks of the store have changed")
    else:
        ways.insert(0, "the options it had")
    if differences:
        raise AnotherRun(
            f"the checkpoint of run {options.run!r} belongs to another run: "
            + "; ".join(differences),
            f"give {', '.join(ways)}",
        )
    return facts


def converge(run: Run) -> Outcome:
    """Go on with a run until it has converged, or must end; return what came of it.

    Abandoned is raised if a stop was asked for, InputError if numbers overflowed.
    """
    stopping = run.stopping
    while True:
        if run.decided or run.outer == 0 or not run.finished:
            if run.goes_over:
                run.switch_to_newton()
            run.iterate()
        report, seen = run.report()
        if seen.new and run.out_of_patience:
            return _finish_with_best(run, report)
        ending, stalled = stopping.exhausted(report), stopping.stalled(report, seen)
        may_switch = run.may_switch
        ending = ending or (None if may_switch else stalled)
        if ending or stopping.wants_certificate(report, seen):
            try:
                certificate = run.certify(None if ending else run.options.gap)
            except Abandoned:
                run.save()  # no more than that pass is lost
                raise
            report = dataclasses.replace(
                report, certificates=int(not seen.exact), certify_s=run.times.certify_s
            )
            if isinstance(certificate, Certificate):
                converged = stopping.holds(certificate.gap, report)
                report = run.certified(report, certificate)
                if converged or ending:
                    run.listener(report)
                    run.save()  # a resume is to come to the same end
                    return _finish(run, certificate, None if converged else ending)
            if isinstance(certificate, float) or not run.solver.drop_solved():
                run.learn(certificate, seen)
        run.listener(report)
        took = run.took(report)
        remaining = None if seen.exact else stopping.remaining(report, took)
        slow = remaining is not None and stopping.too_many(
            report, remaining, took, run.newton_takes(report)
        )
        too_slow = slow or run.as_slow_as_before(report)
        if may_switch and (stalled or (too_slow and run.newton_may_help(report))):
            run.goes_over = True
        elif slow and (warning := stopping.too_slow(report)):
            run.listener(SlowlyConverging(warning))
        run.decided = True
        run.rest()


def _finish_with_best(run: Run, report: OuterIteration) -> Outcome:
    """Go back to the model that scored best, and certify it."""
    run.save()  # now: a resume is to come to the same end
    run.adopt_best()
    certificate = run.certify()
    assert isinstance(certificate, Certificate)  # no gap was enough
    run.listener(run.certified(dataclasses.replace(report, certificates=1), certificate))
    waited = counted(run.options.patience or 0, "outer iteration")
    ending = Ending(f"{waited} {NO_BETTER_SCORE}", patience=True)
    return _finish(run, certificate, ending)


def _finish(run: Run, certificate: Certificate, ending: Ending | None) -> Outcome:
    """Return the model; say so if it is not as good as was asked for."""
    chosen = run.solver.chosen(certificate)
    check_finite(chosen, certificate.gap)
    if ending and not certificate.of_zero:  # no more iterations change a model that is 0
        run.listener(SlowlyConverging(ending.message(certificate.gap)))
    if certificate.of_zero:
        run.listener(
            Warned(
                "no plane separates 0 from enough of the rows: the optimum is w = 0, and "
                "predictions mean nothing; do not centre the features, or raise nu"
            )
        )
    elif certificate.rho is not None and not chosen.any():
        run.listener(
            Warned(
                "all weights are 0 so far, and predictions mean nothing: features may be centred, "
                "which makes that the optimum, or far apart in scale"
            )
        )
    return Outcome(
        weights=chosen.reshape(len(chosen), -1),
        certificates=run.solver.proven() or [certificate],
        outer=run.outer,
        newton=run.outer - run.switched_at if run.switched_at is not None else 0,
        stopped=ending.why if ending else "converged",
    )
