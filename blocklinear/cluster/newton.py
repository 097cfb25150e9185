"""Newton's method in rounds: models here, rows and alpha with the workers.

A round is a pass over all rows, as on one machine. What rows contribute to it, `RowSums`, is a sum
over them: parts add up their own, and workers add up those. So there are as many passes as on one
machine, whatever the number of parts, and nothing but the order of summation differs. Parts stay
the same in all rounds, so that their rows stay in the memory of their workers.
"""

from collections.abc import Callable, Container, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklinear.cluster import sums, worker
from blocklinear.cluster.engine import Engine
from blocklinear.cluster.job import Job, NewtonRound, Round
from blocklinear.objectives.certificate import Certificate, joined
from blocklinear.options import TrainOptions
from blocklinear.solvers.newton.solver import NewtonModels
from blocklinear.solvers.protocol import Trainee
from blocklinear.store.manifest import Manifest
from blocklinear.training.previous import Previous
from blocklinear.training.run import Times
from blocklinear.training.warm_start import compare_violations

Floats = NDArray[np.float64]
_NO_COLUMNS = np.zeros((0, 0))
Kept = tuple[int, list[int], list[float]]


class DistributedNewton(NewtonModels):
    """The models of a run on their way by Newton's method; the workers pass over the rows.

    Parameters
    ----------
    options : TrainOptions    of the method
    enough_products : float   as for `NewtonIterate`
    outer, first : int        rounds of descent before, and the number of the files of the first
    kept : sequence           rounds that have alpha: their number, the models, the steps taken

    Attributes
    ----------
    outer : int               rounds done
    spent : Times             by all workers in the last of them
    unsaved : bool            whether the last checkpoint has not what workers are to read
    """

    def __init__(
        self,
        job: Job,
        manifest: Manifest,
        engine: Engine,
        options: TrainOptions,
        enough_products: float,
        outer: int = 0,
        first: int = 0,
        kept: Sequence[Kept] = (),
    ) -> None:
        super().__init__(job.task, manifest, options, enough_products)
        self._job, self._manifest, self._engine = job, manifest, engine
        self.outer, self.first, self._stays = outer, first, outer + 1
        self.spent, self.unsaved = Times(), True
        self._kept = list(kept)
        self._future: Any = None  # of the points that a worker has read from the last checkpoint
        self._begin()

    def start_from(self, weights: Floats) -> None:
        """Begin with weights, float64[n_features + 1, M]."""
        super().start_from(weights)
        self._begin()

    def go_on_from(self, before: Trainee, certificate: Certificate, solved: Container[int]) -> None:
        """Begin where another solver stands, as `NewtonModels` does."""
        super().go_on_from(before, certificate, solved)
        self._begin()

    @property
    def state(self) -> dict[str, Any]:
        """What a checkpoint must know before it can fill `arrays`, as JSON."""
        return super().state | {
            "parts": self._job.n_parts, "written": [], "first": self.first, "kept": self._kept,
            "stays": self._stays,
        }  # fmt: skip

    @state.setter
    def state(self, state: dict[str, Any]) -> None:
        if state["parts"] != self._job.n_parts:
            raise ValueError("the parts of the state are not those of the run")
        self._go_on(state)
        self.first, self._stays = state["first"], state["stays"]
        self._kept = [(outer, models, steps) for outer, models, steps in state["kept"]]

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that a checkpoint must keep, by name, and what workers read from it."""
        points = {f"points-{k}": part.V for k, part in enumerate(self._passes)}
        return super().arrays | points

    def go_on_after(self, outer: int) -> None:
        """Go on after a round whose checkpoint was loaded, with the models unsolved now.

        These may be more than the checkpoint knows of, if a smaller gap is asked for now.
        """
        saved = [part.points.models for part in self._passes]
        self._begin()
        self.outer, self.unsaved = outer, saved != [part.points.models for part in self._passes]

    @property
    def _numbers_of_passes(self) -> list[list[int]]:
        return [numbers.tolist() for numbers in self._numbers]

    def _at(self, writes: bool) -> NewtonRound:
        """Return where the run stands, as workers are to know it."""
        points = [replace(part.points, V=_NO_COLUMNS) for part in self._passes]
        return NewtonRound(
            self.outer, self._stays, self.first, self._kept, self._numbers_of_passes, points, writes
        )

    def start(self, previous: Previous, halt: Callable[[], bool]) -> sums.Started:
        """Start from the alpha of an earlier run, and from the weights that they add up to.

        Abandoned is raised if `halt` returned true meanwhile: then nothing has changed.
        """
        numbers, self.first = self._numbers_of_passes, previous.next_round
        at = Round(-1, numbers, [], np.zeros(0), self.first)
        found = self._engine.sum_of_parts(
            worker.start, self._job, at, sums.added_starts, halt, lambda anew: [previous.sources]
        )
        weights = np.zeros((self._manifest.n_features + 1, len(self.task)))
        for k, (packed, own) in enumerate(zip(found.weights, numbers, strict=True)):
            weights[:, own] = packed.whole()
            if found.biases:
                weights[-1, own] = found.biases[k]
        models = [number for own in numbers for number in own]
        self._kept = [(0, models, [1.0] * len(models))]
        compare_violations(self, previous, self._job.options)
        self.start_from(weights)
        return found

    def advance(self, halt: Callable[[], bool]) -> None:
        """Do a pass.

        Abandoned is raised if `halt` returned true meanwhile: then nothing has changed.
        """
        at = self._at(writes=True)
        found = self._pass_over(at, self._loaded, halt)
        self.outer, self._future, self.spent = self.outer + 1, None, found.times
        if at.evaluated:
            of_this = self.outer, at.evaluated, [1.0] * len(at.evaluated)
            self._kept = with_last_alpha([*self._kept, of_this])
        self._end(found, self.outer)
        self._begin()

    def _end(self, found: sums.PassReport, passes: int) -> None:
        for part, own in zip(self._passes, found.writable, strict=True):
            part.end(own, found.n_rows, passes)

    def _loaded(self, anew: bool) -> Any:
        """Return the future of the points of the checkpoint, which a worker reads and others get.

        With `anew` nothing is taken to be on the workers already.
        """
        if anew or self._future is None:
            shapes = [part.V.shape for part in self._passes]
            self._future = self._engine.submit(worker.load, self._job, self.outer, "points", shapes)
        return self._future

    def _pass_over(
        self, at: NewtonRound, points: Callable[[bool], Any], halt: Callable[[], bool]
    ) -> sums.PassReport:
        return self._engine.sum_of_parts(
            worker.pass_over, self._job, at, sums.added_passes, halt, lambda anew: [points(anew)]
        )

    def certify(self, halt: Callable[[], bool]) -> Certificate:
        """Return the certificate of the weights; of adopted ones after a pass."""
        if self._adopted is not None:
            self._begin_with(self._adopted)
            self._adopted, V = None, [part.points.V for part in self._passes]
            handed = partial(self._engine.submit, worker.handed, V)
            self._end(self._pass_over(self._at(writes=False), lambda anew: handed(), halt), 0)
        return joined(self._certificates())


def with_last_alpha(kept: Sequence[Kept]) -> list[Kept]:
    """Return the rounds, in their order, in which any model was for the last time."""
    found: list[Kept] = []
    later = set[int]()
    for of_round in reversed(kept):
        if not later.issuperset(of_round[1]):
            found.append(of_round)
            later.update(of_round[1])
    return found[::-1]
