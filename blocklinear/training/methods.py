"""What a run may be asked for, and the methods that do it."""

from pathlib import Path

from blocklinear.errors import UsageError
from blocklinear.options import TrainOptions
from blocklinear.store.manifest import Manifest
from blocklinear.training.crammer_singer import CrammerSinger
from blocklinear.training.descent import Descent, DescentOfMany
from blocklinear.training.many import ManyModels
from blocklinear.training.models import CRAMMER_SINGER, Models, deal, make_models
from blocklinear.training.pegasos import Pegasos
from blocklinear.training.problems import Problem, class_labels, make_problem
from blocklinear.training.single import AveragedBlocks, SingleModel

Task = Problem | Models
"""One model, or many over the same rows."""


def make_task(manifest: Manifest, options: TrainOptions) -> Task:
    """Return what there is to train: one model, or one for each of several classes.

    Raises
    ------
    InputError
        If the labels do not fit the solver.
    UsageError
        If a cost leaves the range of numbers, or the method cannot do it.
    """
    crammer_singer = options.solver == CRAMMER_SINGER
    if options.costs:
        check_shared(options, f"here are {len(options.costs)} costs")
        for given, flag in ((crammer_singer, "-s 4"), (options.evaluate is not None, "--eval")):
            if given:
                raise UsageError(f"{flag} takes one C", "leave it out, or give one -c")
        return make_models(manifest, options, options.costs)
    if not crammer_singer and (options.solver > 7 or len(class_labels(manifest)) <= 2):
        return make_problem(manifest, options)
    models = make_models(manifest, options)
    check_shared(options, f"here are {len(models.labels)} classes", patience=crammer_singer)
    return models


def check_shared(options: TrainOptions, why: str, patience: bool = False) -> None:
    """Refuse options that are for one model alone.

    Parameters
    ----------
    options : TrainOptions
    why : str
        Why one model is not enough.
    patience : bool
        Whether patience may be asked for.

    Raises
    ------
    UsageError
    """
    for given, flag in (
        (options.method != "dual", "--method pegasos"),
        (options.average, "--average"),
        (options.epochs is None, "--epochs auto"),
        (options.selection not in ("active", "permute"), f"--selection {options.selection}"),
        (options.patience is not None and not patience, "--patience"),
    ):
        if given:
            raise UsageError(f"{flag} trains one model, and {why}", "leave it out")


def make_method(
    manifest: Manifest,
    options: TrainOptions,
    task: Task,
    folder: Path,
    working_set_entries: int,
) -> Descent:
    """Return what does a task.

    Parameters
    ----------
    folder : Path
        Where alpha is kept.
    working_set_entries : int
        Entries of rows that may be kept in memory.
    """
    if isinstance(task, Problem):
        kind = Pegasos if options.method == "pegasos" else SingleModel
        kind = AveragedBlocks if options.average else kind
        model = kind(task, manifest, options, folder)
        return Descent([model], manifest, options, working_set_entries)
    if options.solver == CRAMMER_SINGER:
        all_classes = CrammerSinger(task, manifest, options, folder)
        return Descent([all_classes], manifest, options, working_set_entries)
    numbers = deal(len(task))
    models = [
        ManyModels(task.some(some), manifest, options, folder, f"-{k}")
        for k, some in enumerate(numbers)
    ]
    return DescentOfMany(task, models, numbers, manifest, options, working_set_entries)
