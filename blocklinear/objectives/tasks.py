"""What a run is asked to train: one model, or many over the same rows."""

from blocklinear.errors import UsageError
from blocklinear.objectives.models import CRAMMER_SINGER, Models, make_models
from blocklinear.objectives.one_class import ONE_CLASS, make_one_class
from blocklinear.objectives.problems import Problem, class_labels, make_problem
from blocklinear.options import TrainOptions
from blocklinear.store.manifest import Manifest

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
    if options.solver == ONE_CLASS:
        return make_one_class(manifest, options)
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
    of_each = "-s 4 has a weight vector for each class"
    why = of_each if crammer_singer else f"here are {len(models.labels)} classes"
    check_shared(options, why, patience=crammer_singer)
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
        (options.method == "pegasos", "--method pegasos"),
        (options.average, "--average"),
        (options.epochs is None, "--epochs auto"),
        (options.selection not in ("active", "permute"), f"--selection {options.selection}"),
        (options.patience is not None and not patience, "--patience"),
    ):
        if given:
            raise UsageError(f"{flag} trains one model, and {why}", "leave it out")
