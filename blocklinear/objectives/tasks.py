"""What a run is asked to train: one model, or many over the same rows."""

from dataclasses import replace

from blocklinear.errors import UsageError
from blocklinear.objectives.models import Models, make_models
from blocklinear.objectives.one_class import make_one_class
from blocklinear.objectives.problems import CRAMMER_SINGER, ONE_CLASS
from blocklinear.options import TrainOptions
from blocklinear.store.manifest import Manifest


def make_task(manifest: Manifest, options: TrainOptions) -> Models:
    """Return what there is to train: one model, or one for each of several classes and costs.

    InputError is raised if the labels do not fit the solver, UsageError if a cost leaves the range
    of numbers, or the method cannot do it.
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
    models = make_models(manifest, options)
    if not crammer_singer and len(models.labels) <= 2:
        return replace(models, alone=True)
    of_each = "-s 4 has a weight vector for each class"
    why = of_each if crammer_singer else f"here are {len(models.labels)} classes"
    check_shared(options, why, patience=crammer_singer)
    return models


def check_shared(options: TrainOptions, why: str, patience: bool = False) -> None:
    """Refuse options that are for one model alone by UsageError; `why` one is not enough.

    With `patience`, that may be asked for.
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
