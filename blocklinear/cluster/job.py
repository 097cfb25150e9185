"""What all tasks of a run have in common."""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from blocklinear.errors import MismatchError, StorageError, UsageError, storage_errors
from blocklinear.kernels import dual as kernels
from blocklinear.objectives.certificate import balance
from blocklinear.objectives.models import Models
from blocklinear.objectives.multiplier import moved
from blocklinear.objectives.problems import CRAMMER_SINGER, SOLVERS
from blocklinear.options import TrainOptions
from blocklinear.solvers.newton.passes import Points
from blocklinear.store.manifest import Manifest
from blocklinear.store.store import BlockStore
from blocklinear.training.memory_plan import MemoryPlan
from blocklinear.training.permutations import sampled
from blocklinear.training.rounds.alpha import Blocks, RoundAlpha, parts_of_round, stepped

Floats = NDArray[np.float64]
FOLDS = "folds.work"
"""The file with the fold of each row, int32, in a run of cross-validation."""
STEPS = np.arange(9) / 8
"""Steps along the change of a round that are compared. The dual is concave along it: the best of
eighths loses at most 1/256 of the gain against the best of all, and what the losses contribute
is exact for each, whatever the loss."""


@dataclass(frozen=True)
class Job:
    """A run, as the tasks of its workers know it."""

    name: str  # no two runs have the same
    folder: Path  # of the store, on every worker
    fingerprint: str  # of the store
    options: TrainOptions  # memory and threads are those of each worker
    task: Models  # without the folds of rows, which are in `FOLDS`
    n_parts: int
    plan: MemoryPlan  # of a worker
    run_folder: Path  # where the run keeps its files
    folded: bool = False  # whether models leave out folds

    @property
    def steps(self) -> Floats:
        """The steps that are compared: a part that is alone goes all of its way."""
        return STEPS if self.n_parts > 1 else STEPS[-1:]

    def folds(self, manifest: Manifest, blocks: Blocks) -> NDArray[np.int32]:
        """Read the folds of the rows of some blocks, int32[n].

        StorageError is raised if there is no such file, or it ends early.
        """
        first, path = manifest.first_positions, self.run_folder / FOLDS
        with storage_errors(path, "read"):
            parts = [
                np.fromfile(path, np.int32, int(first[b + 1] - first[b]), offset=4 * int(first[b]))
                for b in blocks
            ]
        found = np.concatenate(parts)
        if len(found) != sum(manifest.blocks[b].rows for b in blocks):
            raise StorageError(f"{path}: ends early", "start the run anew")
        return found

    def parts(self, manifest: Manifest, outer: int) -> tuple[Blocks, ...]:
        """Return the blocks of each part in a round, or drawn for one."""
        return parts_of_round(self.options.seed, outer, len(manifest.blocks), self.n_parts)

    def alpha(
        self, manifest: Manifest, outer: int, first: int, models: Sequence[int], stays: int
    ) -> RoundAlpha:
        """Return the files of alpha of some models in a round; of round 0 they are `first`.

        Rounds after the one that `stays` have its parts.
        """
        rows = [block.rows for block in manifest.blocks]
        parts = self.parts(manifest, min(outer, stays))
        return RoundAlpha(self.run_folder, first + outer, parts, rows, models)

    def manifest(self) -> Manifest:
        """Read the manifest of the store.

        MismatchError is raised if it is not the store of the run. DamagedError and StorageError are
        raised if there is none, or it cannot be read.
        """
        manifest = sampled(BlockStore.open(self.folder).manifest, self.options)
        if manifest.fingerprint != self.fingerprint:
            raise MismatchError(
                f"{self.folder}: is not the store that is trained on, or not as it is now",
                "all workers need the folder of the store, by the same path",
            )
        return manifest


@dataclass(frozen=True)
class Round:
    """Where a run stands before a round."""

    outer: int  # rounds so far
    trained: list[list[int]]  # numbers of the models of each weight vectors, in the next round
    # those that were trained in the last round, whose alpha are in files; none before the first
    # round, unless the run started warm
    written: list[int]
    steps: Floats  # float64[written], that were taken along the change of their alpha
    first: int = 0  # number of the files of what the first round starts from
    passes: int = 0  # over the working set
    # list of float64[]: what each part may add to P - D when it is solved, of each model
    goals: list[Floats] = field(default_factory=list)
    # of each weight vectors; none if it is regularised
    free_biases: list["FreeBias"] = field(default_factory=list)

    @property
    def columns(self) -> list[int]:
        """The models of the columns of alpha in the next round."""
        return [number for part in self.trained for number in part]


@dataclass(frozen=True)
class NewtonRound:
    """What a pass of Newton's method is to do, and where alpha are."""

    outer: int  # rounds so far, with those of descent before it
    stays: int  # the round of which passes have the parts, so that these keep their rows
    first: int  # number of the files of what the first round started from
    # rounds, the models that wrote their alpha in them, and the steps taken then
    kept: list[tuple[int, list[int], list[float]]]
    numbers: list[list[int]]  # of models that share a pass over rows
    points: list[Points]  # of each of these, but for `V`
    writes: bool = True  # whether alpha of points that are evaluated are kept

    @property
    def evaluated(self) -> list[int]:
        """The models that evaluate a point."""
        pairs = zip(self.numbers, self.points, strict=True)
        return [own[k] for own, of in pairs for k in of.evaluated]


@dataclass(frozen=True)
class FreeBias:
    """What parts must know of biases whose weights are not regularised."""

    pull: Floats  # float64[width]: B sum_i s_i alpha_i, which is 0 at the optimum
    move: Floats  # float64[width]: how far the next round moves them at its beginning
    seen: Floats  # float64[3, width]: as `multiplier.moved` returns it
    # float64[2, width]: what alpha of either sign are multiplied by in certificates
    balance: Floats

    @classmethod
    def of(cls, bias: float, terms: Floats, v: Floats, seen: Floats) -> "FreeBias":
        """Return that of what all rows contribute to the dual, float64[width, N_TERMS].

        See `WeightVectors.begin`.
        """
        plus, minus = terms[:, kernels.PLUS], terms[:, kernels.MINUS]
        pull = bias * (plus - minus)
        return cls(pull, *moved(v, pull, seen), balance(plus, minus))


def alpha_after(job: Job, manifest: Manifest, at: Round, blocks: Blocks) -> list[Floats]:
    """Return alpha of blocks after the last round, float64[rows, columns] each.

    The columns are those of the models still trained.
    """
    columns = at.columns
    if not at.written:
        return [np.zeros((manifest.blocks[block].rows, len(columns))) for block in blocks]
    files = job.alpha(manifest, at.outer, at.first, at.written, stays=at.outer)
    found = files.of_blocks(blocks, at.steps)
    if columns == at.written:
        return found
    places = [at.written.index(number) for number in columns]
    return [np.take(alpha, places, axis=1) for alpha in found]  # in C order


def pairs_before(job: Job, manifest: Manifest, at: NewtonRound, blocks: Blocks) -> Floats:
    """Return centers and alpha of the rows of blocks before a pass of Newton's method.

    float64[2, n_rows, M]; zeros before the first.
    """
    n_rows = [manifest.blocks[block].rows for block in blocks]
    found = np.zeros((2, sum(n_rows), len(job.task)))
    of_blocks = np.split(found, np.cumsum(n_rows)[:-1], axis=1)
    for outer, models, steps in at.kept:  # the last that a model was in counts
        pairs = job.alpha(manifest, outer, at.first, models, at.stays).pairs(blocks)
        for (center, alpha), (before, after) in zip(of_blocks, pairs, strict=True):
            center[:, models], alpha[:, models] = before, stepped(before, after, np.array(steps))
    return found


def check_supported(options: TrainOptions) -> None:
    """Refuse options of what is not trained on several machines.

    Raises UsageError.
    """
    kind = SOLVERS[options.solver]
    for given, what, instead in (
        (kind.l1, "L1 regularisation", "give -s 1, 3 or 7"),
        (kind.one_class, "a one-class SVM", "train it on one machine"),
        (options.solver == CRAMMER_SINGER, "Crammer and Singer's problem", "give -s 1, 3 or 7"),
        (
            options.method not in ("dual", "newton", "auto"),
            f"the method {options.method}",
            "leave it out",
        ),
        (options.average, "--average", "leave it out"),
        (options.epochs is None, "--epochs auto", "give a number of epochs"),
        (
            options.selection not in ("active", "permute"),
            f"--selection {options.selection}",
            "leave it out",
        ),
        (options.checkpoint_s == math.inf, "training without checkpoints", "leave it out"),
    ):
        if given:
            raise UsageError(f"{what}: not for training on a cluster", instead)


def seed_of_part(seed: int, outer: int, number: int) -> int:
    """Return the seed of the orders of rows in a part."""
    digest = hashlib.sha256(f"{seed} {outer} {number}".encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1
