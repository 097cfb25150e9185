"""Which solver does a task."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from blocklinear.objectives.models import Models
from blocklinear.objectives.one_class import OneClass
from blocklinear.objectives.problems import CRAMMER_SINGER
from blocklinear.options import TrainOptions
from blocklinear.solvers.block_descent import BlockDescent, BlockDescentOfMany
from blocklinear.solvers.many import ManyModels
from blocklinear.solvers.protocol import Solver
from blocklinear.solvers.sharing import models_by_pass
from blocklinear.solvers.single import AveragedBlocks, SingleModel
from blocklinear.solvers.weight_vectors import WeightVectors
from blocklinear.store.manifest import Manifest
from blocklinear.store.row_arrays import RowArray


def make_solver(
    manifest: Manifest,
    options: TrainOptions,
    task: Models,
    folder: Path,
    working_set_entries: int,
    enough_products: float = math.inf,
) -> Solver:
    """Return what does a task; alpha are kept in the folder.

    So many entries of rows, or of columns, may be kept in memory for the working set;
    `enough_products` is as for `NewtonIterate`.
    """
    if task.solver.l1:
        from blocklinear.solvers.l1.solver import L1Regularized

        return L1Regularized(task, manifest, options, folder, working_set_entries)
    if options.method == "newton":
        from blocklinear.solvers.newton.solver import Newton

        alphas = [
            RowArray(folder / f"alpha-{k}.work", manifest, np.float64, len(some))
            for k, some in enumerate(models_by_pass(len(task)))
        ]
        return Newton(task, alphas, manifest, options, enough_products)
    if isinstance(task, OneClass):
        from blocklinear.solvers.one_class import OneClassModel

        model: WeightVectors = OneClassModel(task, manifest, options, folder)
    elif task.alone:
        kind = AveragedBlocks if options.average else SingleModel
        if options.method == "pegasos":
            from blocklinear.solvers.pegasos import Pegasos as kind
        model = kind(task, manifest, options, folder)
    elif options.solver == CRAMMER_SINGER:
        from blocklinear.solvers.crammer_singer import CrammerSinger

        model = CrammerSinger(task, manifest, options, folder)
    else:
        numbers = models_by_pass(len(task))
        models = _models(manifest, options, task, folder, numbers)
        return BlockDescentOfMany(task, models, numbers, manifest, options, working_set_entries)
    return BlockDescent([model], manifest, options, working_set_entries)


def make_descent(
    manifest: Manifest,
    options: TrainOptions,
    task: Models,
    folder: Path,
    working_set_entries: int,
    numbers: Sequence[Sequence[int]],
) -> BlockDescent:
    """Return the coordinate descent of a task whose models do not depend on each other.

    Models of these numbers share each pass. All are trained as long as it is used, whatever was
    proven of them.
    """
    vectors: Sequence[WeightVectors]
    if task.alone:
        vectors = [SingleModel(task, manifest, options, folder)]
    else:
        vectors = _models(manifest, options, task, folder, numbers)
    return BlockDescent(vectors, manifest, options, working_set_entries, samples=False)


def _models(
    manifest: Manifest,
    options: TrainOptions,
    models: Models,
    folder: Path,
    numbers: Sequence[Sequence[int] | NDArray[np.int64]],
) -> list[ManyModels]:
    """Return the models of each pass."""
    return [
        ManyModels(models.some(some), manifest, options, folder, f"-{k}")
        for k, some in enumerate(numbers)
    ]
