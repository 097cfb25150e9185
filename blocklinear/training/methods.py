"""What a run may be asked for, and the methods that do it."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from blocklinear.errors import UsageError
from blocklinear.options import TrainOptions
from blocklinear.store.groups import Group
from blocklinear.store.manifest import Manifest
from blocklinear.store.prefetch import Loaded
from blocklinear.training.averaged import AveragedBlocks
from blocklinear.training.certificate import Certificate
from blocklinear.training.crammer_singer import CrammerSinger
from blocklinear.training.descent import Descent
from blocklinear.training.many import Ensemble
from blocklinear.training.margin import MarginDescent
from blocklinear.training.models import CRAMMER_SINGER, Models, make_models
from blocklinear.training.pegasos import Pegasos
from blocklinear.training.problems import Problem, class_labels, make_problem
from blocklinear.training.settling import settles
from blocklinear.training.tally import Estimate

Floats = NDArray[np.float64]
Task = Problem | Models
"""One model, or many over the same rows."""


class Method(Protocol):
    """What is done on a visit, and what comes of it; ``len()`` is the models still trained."""

    bias: float

    def __len__(self) -> int: ...
    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that a checkpoint must keep, by name."""

    @property
    def state(self) -> dict[str, Any]:
        """What a checkpoint must know before it can fill `arrays`, as JSON."""

    @state.setter
    def state(self, state: dict[str, Any]) -> None: ...
    def restore(self, stream: Iterable[Loaded]) -> None:
        """Fetch what is kept in memory only, after `arrays` were filled from a checkpoint."""

    def begin(self) -> None:
        """Start an outer iteration."""

    def visit(
        self, group: Group, outer: int, number: int, visits: int, halt: Callable[[], bool]
    ) -> None:
        """Work on one group, visit `number` (from 0) of `visits`."""

    def estimate(self) -> Estimate:
        """Return what the outer iteration saw."""

    def certify(self, stream: Iterable[Loaded]) -> Certificate:
        """Pass over the data once; say how good the better candidates are."""

    def let_go(self) -> None:
        """Train no further what the last certificate has shown to be good enough."""

    def chosen(self, certificate: Certificate) -> Floats:
        """Return the candidate that a certificate is about."""

    def proven(self) -> list[Certificate]:
        """Return the certificate of each of many models; nothing for one."""

    def current(self) -> Floats:
        """Return the weights as they are, float64[n_features + 1, M]."""

    def adopt(self, weights: Floats) -> None:
        """Make other weights the candidate."""

    def discard(self) -> None:
        """Delete the scratch files."""


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
    manifest: Manifest, options: TrainOptions, task: Task, folder: Path, active_entries: int
) -> Method:
    """Return the method that does a task.

    Parameters
    ----------
    folder : Path
        Where alpha is kept.
    active_entries : int
        Entries of active rows that may be kept in memory.
    """
    if isinstance(task, Problem):
        if options.method == "pegasos":
            return Pegasos(manifest, task, options, folder)
        kind = MarginDescent if settles(task) else Descent
        kind = AveragedBlocks if options.average else kind
        return kind(manifest, task, options, folder, active_entries)
    if options.solver == CRAMMER_SINGER:
        return CrammerSinger(task, manifest, options, folder, active_entries)
    return Ensemble(task, manifest, options, folder, active_entries)
