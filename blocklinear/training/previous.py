"""What an earlier run left: alpha of each row, w, and where the rows are now."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklinear.errors import DamagedError
from blocklinear.events import Listener, Warned
from blocklinear.objectives.models import NO_FOLD
from blocklinear.objectives.problems import CRAMMER_SINGER, SOLVERS
from blocklinear.options import TrainOptions
from blocklinear.store.manifest import Manifest
from blocklinear.store.records import BlockRecord
from blocklinear.training.checkpoint import Checkpoint, discard, folders_before, rounds_of
from blocklinear.training.checkpoint_schema import check_facts
from blocklinear.training.rounds.alpha import AlphaLeft

Floats = NDArray[np.float64]
AlphaOf = Callable[[slice], Floats]
_NOTHING = "has no checkpoint"


@dataclass(frozen=True)
class PreviousVector:
    """One weight vector of an earlier run."""

    alpha: AlphaOf  # returns that of some rows of one of its blocks, float64[n]
    w: Floats | None  # float64[d_old + 1]; None where it went
    is_sum: bool  # whether `w` is there, and the sum of s_i alpha_i x_i
    costs: tuple[float, float]  # C of rows of weight 1: of the class that was +1, and of others
    sign: float = 1.0  # -1 where `w` belongs to the other one of two classes

    @property
    def opposite(self) -> "PreviousVector":
        """The same alpha as those of the model of the other class."""
        return replace(self, costs=self.costs[::-1], sign=-self.sign)


@dataclass(frozen=True)
class RowRange:
    """Rows that stood together in an earlier run, and where they are now."""

    old: slice  # their lines in what the run left
    block: int | None  # the block they are in now, its position in the manifest
    record: BlockRecord | None  # the removed block that they are in, if that is known
    first: int  # position of the first of them in either block

    @property
    def n_rows(self) -> int:
        """How many they are."""
        return int(self.old.stop - self.old.start)

    def lines(self, first: int) -> slice:
        """Return their lines where those of the block begin with line `first`."""
        return slice(first + self.first, first + self.first + self.n_rows)


class Previous:
    """An earlier run, read from its checkpoint; its arrays stay mapped from their files.

    The alpha of one on a cluster is read block by block when it is asked for. Of a grid of costs it
    has the models of the one that is nearest to `cost`, by their ratio.

    Attributes
    ----------
    course : dict             the options that it had
    bias : float              the value that the bias feature had, 0 for none
    columns : dict            by label of the positive class, or of the class; None for regression
    bounded : bool            whether C was a bound of its alpha
    has_w : bool              whether it has its weights still
    switched_at : int or None           outer iterations before it went over to Newton's method
    n_rows : int
    sources : list of (Path, str)       folders it was read from, and checksums of checkpoints
    next_round : int          larger than the numbers of all its files of rounds
    """

    def __init__(self, checkpoint: Checkpoint, cost: float) -> None:
        facts = checkpoint.facts or {}
        self._checkpoint, self._blocks = checkpoint, facts["blocks"]
        self.sources = [(checkpoint.folder.resolve(), checkpoint.checksum)]
        self.course: dict[str, Any] = facts["course"]
        self.bias = max(self.course["bias"], 0.0)
        self.n_rows = sum(rows for _, rows in self._blocks)
        self._state = facts["method"]
        self.bounded = SOLVERS[self.course["solver"]].bounded
        self._costs = [(own, others) for own, others in self._state["costs"]]
        self.has_w = not facts.get("warm_only", False)
        self.switched_at: int | None = facts["descended"]
        self._is_sum = self.has_w and self.switched_at is None and self.course["method"] == "dual"
        self._of_cluster = "parts" in self._state
        self._of_rounds = self._of_cluster and "newton" not in self._state
        self.next_round = max(rounds_of(facts), default=-1) + 1
        self.columns: dict[float | None, PreviousVector] = dict(self._columns(cost))

    def _columns(self, cost: float) -> Iterator[tuple[float | None, PreviousVector]]:
        """Yield the models of the cost nearest to one, by label; none that leaves out a fold."""
        state, together = self._state, self.course["solver"] == CRAMMER_SINGER
        labels, models, asked = state["labels"], state["models"], state["asked"]
        nearest = asked[_nearest(asked, cost)]
        weights = self._weights(len(models)) if self.has_w else {}
        certified = set[int]()  # and no sums, as they may be averages
        if self._of_rounds:
            certified = set(range(len(models))).difference(*state["trained"])
        for numbers, alpha in self._alphas(len(models)):
            for j, number in enumerate(numbers):
                label, fold = models[number]
                if fold != NO_FOLD or asked[number] != nearest:
                    continue
                is_sum, costs = self._is_sum and number not in certified, self._costs[number]
                own_alpha = partial(self._alpha, alpha, j)
                column = PreviousVector(own_alpha, weights.get(number), is_sum, costs)
                yield label, column
                if len(labels) == 2 and not together:  # both have the same alpha
                    yield next(other for other in labels if other != label), column.opposite

    def _alphas(self, n_models: int) -> Iterator[tuple[Sequence[int], AlphaOf]]:
        """Yield models with alpha in one array, and what returns rows of it, float64[n, M]."""
        together = {f"alpha-{k}": shared for k, shared in enumerate(self._state.get("by_pass", ()))}
        if self._of_cluster and "alpha" not in self._checkpoint.names:  # `gc` leaves it there
            yield range(n_models), AlphaLeft(self._checkpoint).of_rows
            return
        if self._of_cluster:
            together = {"alpha": range(n_models)}
        for name, shared in together.items():
            yield shared, self.lines(name).reshape(self.n_rows, len(shared)).__getitem__

    def _alpha(self, alpha: AlphaOf, column: int, rows: slice) -> Floats:
        """Return a column of alpha of some rows; those of classes have no sign."""
        found = alpha(rows)[:, column]
        return np.abs(found) if "l1" in self._state else found

    def _weights(self, n_models: int) -> dict[int, Floats]:
        """Return the weights of models, by their numbers.

        Models that had left have what was certified; if that is an average, their w is in `apart`.
        Newton's method stores vectors one after the other.
        """
        state = self._state
        arrays: list[tuple[str, Sequence[int], int]] = []  # names, their models, their columns
        trained = state["trained"]
        if self._of_rounds:
            arrays.append(("final", range(n_models), n_models))
            parts = [(numbers, numbers, len(numbers)) for numbers in trained]
        else:
            parts = list(zip(state["by_pass"], trained, state["columns"], strict=True))
        for k, (shared, still, stored) in enumerate(parts):
            name = f"-{k}"
            left = [number for number in shared if number not in still]
            apart = [number for number in left if state["certificates"][number]["average"]]
            in_training = [number for number in shared if number in still]
            arrays += [("certified" + name, left, len(left)), ("apart" + name, apart, len(apart))]
            arrays.append(("w" + name, in_training, stored))
        found: dict[int, Floats] = {}
        for name, models, n_columns in arrays:
            if models:
                flat, separate = self._checkpoint.mapped(name), "newton" in state
                vectors = flat.reshape(n_columns, -1) if separate else flat.reshape(-1, n_columns).T
                found |= zip(models, vectors, strict=False)
        return found

    def join(self, other: "Previous") -> None:
        """Take over the models that another part of the run has, of the same rows."""
        same = other.course == self.course and other._blocks == self._blocks
        if same and other.has_w == self.has_w:
            self.columns = other.columns | self.columns
            self.sources += other.sources

    def stored_number(self, name: str, place: int = 0) -> float | None:
        """Return a number of an array of the checkpoint, None if it has no such array."""
        known = name in self._checkpoint.names
        return float(self._checkpoint.mapped(name)[place]) if known else None

    def first_violation(self, cost: float) -> float:
        """Return what violations of a regression are compared with, of a C nearest to `cost`."""
        nearest = _nearest(self._state["asked"], cost)
        for k, shared in enumerate(self._state["trained" if self._of_rounds else "by_pass"]):
            if nearest in shared:
                return self.stored_number(f"first-{k}", shared.index(nearest)) or 0.0
        return 0.0

    def first_violations(self) -> list[float]:
        """Return what violations of models were compared with, in their order: |gradient| at w = 0.

        Empty where they are not known: of runs that did not begin with weights.
        """
        state = self._state
        if "l1" in state:
            return [model["first_violation"] for model in state["l1"]["models"]]
        if "newton" not in state or self.switched_at is not None:
            return []
        models: dict[int, dict[str, Any]] = {}
        for shared, part in zip(state["by_pass"], state["newton"], strict=True):
            models |= zip(shared, part["models"], strict=True)
        return [models[number]["first_violation"] for number in sorted(models)]

    def slow_after(self, solver: int) -> int | None:
        """Return after how many outer iterations it went over, if it had this loss."""
        return self.switched_at if self.course["solver"] == solver else None

    def lines(self, name: str) -> NDArray[Any]:
        """Return an array with a line for each row of the run, flat; empty if it has none."""
        return self._checkpoint.mapped(name) if name in self._checkpoint.names else np.zeros(0)

    def row_ranges(self, manifest: Manifest) -> Iterator[RowRange]:
        """Say where the rows are now, in the order of the run."""
        position = {block.name: k for k, block in enumerate(manifest.blocks)}
        removed = {block.name: block for block in manifest.removed}
        start = 0
        for name, rows in self._blocks:
            now, first = manifest.moved.get(name, [name, 0])
            old = slice(start, start + rows)
            yield RowRange(old, position.get(now), removed.get(now), first)
            start += rows


def _nearest(costs: Sequence[float], cost: float) -> int:
    """Return the place of the cost nearest to another one, by their ratio; the first of several."""
    return min(range(len(costs)), key=lambda k: abs(math.log(costs[k]) - math.log(cost)))


def find_previous(folder: Path, options: TrainOptions, listener: Listener) -> Previous | None:
    """Return what a warm start has to start from; warn if there is nothing that fits.

    That is in the folder of the run, or of a part of it; or where its models were trained in other
    parts. A checkpoint that cannot be read is deleted.
    """
    if not options.warm_start:
        return None
    found, why = _read_previous(folder, options)
    for other in folders_before(folder) if why == _NOTHING else ():
        more, why_not = _read_previous(other, options)
        if found is None:
            found, why = more, why_not
        elif more is not None:
            found.join(more)
    if found is None:
        listener(Warned(f"run {options.run!r} {why}: training starts from the beginning"))
    return found


def _read_previous(folder: Path, options: TrainOptions) -> tuple[Previous | None, str]:
    """Return what is in a folder; None, and why, if there is nothing that fits."""
    try:
        checkpoint = Checkpoint(folder)
        if checkpoint.checked(check_facts) is None:
            return None, _NOTHING
        found = Previous(checkpoint, options.cost)
        checkpoint.tidy()
    except (DamagedError, LookupError, TypeError, ValueError):
        discard(folder)
        return None, "has a checkpoint that is damaged, or of an older blocklinear"
    why = _why_unusable(found, options)
    return (None, why) if why else (found, "")


def _why_unusable(previous: Previous, options: TrainOptions) -> str:
    """Say why a run cannot be started from; nothing if it can."""
    course = previous.course
    if _family(course["solver"]) != _family(options.solver):
        return f"was trained with -s {course['solver']}, whose alpha is of another kind"
    pegasos = options.method == "pegasos"
    if pegasos and course["method"] != "pegasos":
        return "was not trained by pegasos"
    if (pegasos or SOLVERS[options.solver].l1) and not previous.has_w:
        return "lost its w with the rows that gc took out of it"
    return ""


def _family(solver: int) -> tuple[bool, ...]:
    """Return what solvers must have in common to take over each other's alpha."""
    kind = SOLVERS[solver]
    return solver == CRAMMER_SINGER, kind.one_class, kind.regression
