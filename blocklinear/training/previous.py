"""What an earlier run left: alpha of each row, w, and where the rows are now."""

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklinear.errors import DamagedError
from blocklinear.events import Listener, Warned
from blocklinear.objectives.models import ALL_SOLVERS, CRAMMER_SINGER, NO_FOLD
from blocklinear.options import TrainOptions
from blocklinear.store.manifest import Manifest
from blocklinear.store.records import BlockRecord
from blocklinear.training.checkpoint import LINES, Checkpoint, discard, rounds_of
from blocklinear.training.checkpoint_schema import check_left
from blocklinear.training.rounds.alpha import AlphaLeft

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Column:
    """One weight vector of an earlier run.

    Attributes
    ----------
    alpha : callable          returns the alpha of some rows of one of its blocks, float64[n]
    w : float64[d_old + 1] or None      None where it went
    is_sum : bool             whether `w` is there, and the sum of s_i alpha_i x_i
    costs : (float, float)    C that rows of weight 1 had: of the class that was +1, and of others
    sign : float              -1 where `w` belongs to the other one of two classes
    """

    alpha: Callable[[slice], Floats]
    w: Floats | None
    is_sum: bool
    costs: tuple[float, float]
    sign: float = 1.0

    @property
    def opposite(self) -> "Column":
        """The same alpha, which tells the other class from this one."""
        return replace(self, costs=self.costs[::-1], sign=-self.sign)


@dataclass(frozen=True)
class RowRange:
    """Rows that stood together in an earlier run, and where they are now.

    Attributes
    ----------
    old : slice               their lines in what the run left
    block : int or None       the block they are in now, its position in the manifest
    record : BlockRecord or None        the removed block that they are in; None if it is unknown
    first : int               position of the first of them in that block
    """

    old: slice
    block: int | None
    record: BlockRecord | None
    first: int

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
    n_rows : int
    next_round : int          what is larger than the numbers of all files of rounds it has
    """

    def __init__(self, checkpoint: Checkpoint, cost: float) -> None:
        facts = checkpoint.facts or {}
        self._checkpoint, self._blocks = checkpoint, facts["blocks"]
        self.course: dict[str, Any] = facts["course"]
        self.bias = max(self.course["bias"], 0.0)
        self.n_rows = sum(rows for _, rows in self._blocks)
        self._state = facts["method"]
        self.bounded = ALL_SOLVERS[self.course["solver"]].bounded
        self._costs = [(own, others) for own, others in self._state["costs"]]
        self.has_w = not facts.get("warm_only", False)
        self._is_sum = self.has_w and facts["descended"] is None and self.course["method"] == "dual"
        self._of_cluster = "parts" in self._state
        self.next_round = max(rounds_of(facts), default=-1) + 1
        self.columns: dict[float | None, Column] = dict(self._columns(cost))

    def _columns(self, cost: float) -> Iterator[tuple[float | None, Column]]:
        """Yield what is left of the models of the cost nearest to one, but of no fold."""
        together, labels = self.course["solver"] == CRAMMER_SINGER, self._state["labels"]
        own = labels if together else labels[:1] or [None]
        models = self._state.get("models", [[label, NO_FOLD] for label in own])
        asked = self._state.get("asked", [cost] * len(models))
        nearest = asked[_nearest(asked, cost)]
        found = self._of_rounds(len(models)) if self._of_cluster else self._of_passes(len(models))
        for number, column in found:
            label, fold = models[number]
            if fold == NO_FOLD and asked[number] == nearest:
                yield label, column
                if len(labels) == 2 and not together:  # both have the same alpha
                    yield next(other for other in labels if other != label), column.opposite

    def _of_rounds(self, n_models: int) -> Iterator[tuple[int, Column]]:
        """Yield the models of a run on a cluster; alpha of its removed rows may have gone.

        Of a model that is trained no more there are the weights that were certified.
        """
        alpha: list[Callable[[slice], Floats]]
        if "alpha" in self._checkpoint.names:
            columns = self.lines("alpha").reshape(self.n_rows, n_models).T
            alpha = [column.__getitem__ for column in columns]
        else:
            left = AlphaLeft(self._checkpoint)
            alpha = [partial(left.of_model, number) for number in range(n_models)]
        certified: dict[int, Floats] = {}
        w: dict[int, Floats] = {}
        if self.has_w:
            certified |= enumerate(self._mapped("final").reshape(-1, n_models).T)
            for k, trained in enumerate(self._state["trained"]):
                if trained:
                    W = self._mapped(f"w-{k}").reshape(-1, len(trained))
                    w |= zip(trained, W.T, strict=True)
        for number, own in enumerate(alpha):
            weights = w.get(number, certified.get(number))
            yield number, Column(own, weights, number in w, self._costs[number])

    def _of_passes(self, n_models: int) -> Iterator[tuple[int, Column]]:
        """Yield the models of a run on one machine; alpha of those that share a pass are together.

        Weights of those that are still trained stand side by side, with what was left free.
        """
        state, numbers = self._state, range(n_models)
        groups = [("", numbers, numbers, state.get("columns", 1))]
        if "models" in state:
            several = zip(state["by_pass"], state["trained"], state["columns"], strict=True)
            groups = [(f"-{k}", *group) for k, group in enumerate(several)]
        for name, shared, staying, stored in groups:
            alpha = self.lines(f"alpha{name}").reshape(self.n_rows, len(shared))
            w = self._weights(name, shared, stored, staying) if self.has_w else {}
            for j, number in enumerate(shared):
                own = partial(_sizes, alpha[:, j]) if "l1" in state else alpha[:, j].__getitem__
                yield number, Column(own, w.get(number), self._is_sum, self._costs[number])

    def _weights(
        self, name: str, numbers: Sequence[int], stored: int, staying: Collection[int]
    ) -> dict[int, Floats]:
        """Return the weights that belong to the alpha of models, by their numbers.

        Of those that had left they are what was certified; where that is an average they stand
        apart. Newton's method has vectors one after the other.
        """
        left = [number for number in numbers if number not in staying]
        proofs = self._state.get("certificates", [])
        apart = [number for number in left if proofs[number]["average"]]
        kept = [number for number in numbers if number in staying]
        places = (("certified", left, len(left)), ("apart", apart, len(apart)), ("w", kept, stored))
        found: dict[int, Floats] = {}
        for array, columns, n_columns in places:
            if columns:
                flat = self._mapped(array + name)
                vectors = flat.reshape(-1, n_columns).T
                if "newton" in self._state:
                    vectors = flat.reshape(n_columns, -1)
                found |= zip(columns, vectors, strict=False)
        return found

    def _mapped(self, name: str) -> NDArray[Any]:
        if name not in self._checkpoint.names:
            raise KeyError(name)
        return self._checkpoint.mapped(name, np.dtype(np.float64))

    def number(self, name: str, place: int = 0) -> float | None:
        """Return a number that the run kept, None if it did not."""
        return float(self._mapped(name)[place]) if name in self._checkpoint.names else None

    def first_violation(self, cost: float) -> float:
        """Return what violations of a regression, of a C nearest to `cost`, are compared with.

        0 if the run did not keep it.
        """
        if "models" not in self._state:
            return self.number("first-0" if self._of_cluster else "first") or 0.0
        nearest = _nearest(self._state["asked"], cost)
        for k, shared in enumerate(self._state["trained" if self._of_cluster else "by_pass"]):
            if nearest in shared:
                return self.number(f"first-{k}", shared.index(nearest)) or 0.0
        return 0.0

    def lines(self, name: str) -> NDArray[Any]:
        """Return numbers that the run kept for its rows, flat; none if it kept none."""
        dtype = np.dtype(LINES[name.partition("-")[0]])
        if name not in self._checkpoint.names:
            return np.zeros(0, dtype)
        return self._checkpoint.mapped(name, dtype)

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


def _sizes(alpha: Floats, rows: slice) -> Floats:
    """Return alpha of classes, which were kept as s_i alpha_i."""
    return np.abs(alpha[rows])


def _nearest(costs: Sequence[float], cost: float) -> int:
    """Return the place of the cost nearest to another one, by their ratio; the first of several."""
    return min(range(len(costs)), key=lambda k: abs(math.log(costs[k]) - math.log(cost)))


def find_previous(folder: Path, options: TrainOptions, listener: Listener) -> Previous | None:
    """Return what a run can start from; warn and return None if there is nothing that fits.

    A checkpoint in the folder of the run that cannot be read is deleted.
    """
    why = "has no checkpoint"
    try:
        checkpoint = Checkpoint(folder)
        if checkpoint.facts is not None:
            check_left(checkpoint.facts, "")
            found = Previous(checkpoint, options.cost)
            checkpoint.tidy()
            if not (why := _misfit(found, options)):
                return found
    except DamagedError:
        discard(folder)
        why = "has a damaged checkpoint"
    except (KeyError, TypeError, ValueError, IndexError):
        why = "was saved by another version"
    listener(Warned(f"run {options.run!r} {why}: training starts from the beginning"))
    return None


def _misfit(previous: Previous, options: TrainOptions) -> str:
    """Say why a run cannot be started from; nothing if it can."""
    course = previous.course
    if _family(course["solver"]) != _family(options.solver):
        return f"was trained with -s {course['solver']}, whose alpha is of another kind"
    pegasos = options.method == "pegasos"
    if pegasos and course["method"] != "pegasos":
        return "was not trained by pegasos"
    if (pegasos or ALL_SOLVERS[options.solver].l1) and not previous.has_w:
        return "lost its w with the rows that gc took out of it"
    return ""


def _family(solver: int) -> tuple[bool, ...]:
    """Return what solvers must have in common to take over each other's alpha."""
    kind = ALL_SOLVERS[solver]
    return solver == CRAMMER_SINGER, kind.one_class, kind.regression
