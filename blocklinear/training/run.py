"""One training run: what it has reached, saves and reports."""

import contextlib
import dataclasses
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from blocklinear.errors import InputError, StoppedError
from blocklinear.events import BlockStep, GoesOver, Listener, OuterIteration
from blocklinear.memory import anonymous_bytes, peak_bytes
from blocklinear.numerals import counted
from blocklinear.objectives.certificate import Certificate
from blocklinear.objectives.problems import SOLVERS
from blocklinear.options import TrainOptions
from blocklinear.solvers.newton import costs
from blocklinear.solvers.protocol import (
    Abandoned,
    Estimate,
    Solver,
    Trainee,
    attributes,
    take_attributes,
)
from blocklinear.store.manifest import Manifest
from blocklinear.store.prefetch import GroupLoader, Loaded
from blocklinear.training.checkpoint import Checkpoint
from blocklinear.training.memory_plan import MemoryPlan
from blocklinear.training.permutations import block_groups, block_order
from blocklinear.training.stopping import FORESIGHT, Stopping

if TYPE_CHECKING:
    from blocklinear.training.held_out import HeldOut

Floats = NDArray[np.float64]
Halt = Callable[[], bool]
GRACE_S = 1.0
"""Seconds that a block step may go on for after a stop was asked for."""
_PLANNED = "group", "working_set_entries", "newton", "hessian"
_REACHED = "outer", "done", "decided", "goes_over"
_ESTIMATED = "primal", "dual", "gap", "violation", "steps", "entries", "pass_entries", "parts"


@dataclasses.dataclass
class Times:
    """What one outer iteration cost."""

    load_s: float = 0.0
    wait_s: float = 0.0
    solve_s: float = 0.0
    bytes_read: int = 0
    certify_s: float = 0.0
    score_s: float = 0.0
    save_s: float = 0.0

    @contextlib.contextmanager
    def counting(self, name: str) -> Iterator[None]:
        """Add the seconds that the block takes to one of the times."""
        started = time.perf_counter()
        try:
            yield
        finally:
            setattr(self, name, getattr(self, name) + time.perf_counter() - started)

    def plus(self, other: "Times") -> "Times":
        """Return the sums of both."""
        return Times(**{name: of + getattr(other, name) for name, of in vars(self).items()})

    def add(self, loaded: Loaded) -> None:
        """Add what loading a group took, if it had to be loaded."""
        self.load_s += loaded.load_s
        self.wait_s += loaded.wait_s
        self.bytes_read += loaded.group.bytes_read if loaded.load_s else 0


@dataclasses.dataclass(eq=False)
class Run(ABC):
    """One training run: where it stands, and what it has learned.

    Attributes
    ----------
    outer, done : int         the outer iteration, and how many of its block steps are done
    decided : bool            whether all that follows from the outer iteration is done: a run that
                              is resumed there must not do it again
    goes_over : bool          whether the next outer iteration is to be by Newton's method, as no
                              other one was
    switched_at : int or None           outer iterations before the switch to Newton's method
    slow_after : int or None            the same of the run it started from, which converges no
                              faster by coordinate descent alone
    """

    manifest: Manifest
    options: TrainOptions
    memory: MemoryPlan
    solver: Trainee  # what is trained
    held_out: "HeldOut | None"  # scores the model after each outer iteration
    folder: Path  # where checkpoints are kept
    listener: Listener  # as for `train`, like `halt`
    halt: Halt

    def __post_init__(self) -> None:
        self.stopping = Stopping(self.options)
        self.stopping.one_target = (
            SOLVERS[self.options.solver].regression and len(self.manifest.labels or ()) == 1
        )
        self._best = self.solver.current().copy() if self.options.patience else np.zeros(0)
        self._best_at, self._best_score = 0, -math.inf
        self._checkpoint, self._saved = Checkpoint(self.folder), False
        self._started = self._saved_at = time.monotonic()
        self._asked_at: float | None = None
        self.outer, self.done, self.decided, self.goes_over = 0, 0, False, False
        self.switched_at: int | None = None
        self.slow_after: int | None = None
        self.times = Times()
        self._begun = Times()  # what loading the next outer iteration's first group took

    @property
    def seconds(self) -> float:
        """Since training began."""
        return time.monotonic() - self._started

    @property
    def _now(self) -> Times:
        """Where to count what takes time now: in the next outer iteration if all is decided."""
        return self._begun if self.decided else self.times

    @property
    def finished(self) -> bool:
        """Whether the outer iteration is at its end, or none has begun."""
        return True

    @abstractmethod
    def iterate(self) -> None:
        """Run the rest of an outer iteration, or the next one."""

    @abstractmethod
    def _prove(self, enough: float | None) -> Certificate | float:
        """Pass over the data once more, see `Solver.certify`."""

    def certify(self, enough: float | None = None) -> Certificate | float:
        """Pass over the data once more, see `Solver.certify`; the time is counted."""
        with self._now.counting("certify_s"):
            certificate = self._prove(enough)
        if isinstance(certificate, Certificate):
            check_finite(certificate.primal, certificate.dual)
        return certificate

    def learn(self, found: Certificate | float, seen: Estimate) -> None:
        """Take note of a certificate in vain, see `Stopping.learn`."""
        self.stopping.learn(found, seen)

    def overdue(self) -> bool:
        """Return whether a stop was asked for so long ago that work is to be given up."""
        if not self.halt():
            return False
        self._asked_at = self._asked_at or time.monotonic()
        return time.monotonic() - self._asked_at >= GRACE_S

    def give_up_if_overdue(self) -> None:
        """Raise Abandoned if a stop was asked for, and what is waited for does not come."""
        if self.overdue():
            raise Abandoned

    def cut_short(self) -> bool:
        """Return whether the time limit has passed; raise Abandoned as `give_up_if_overdue`."""
        self.give_up_if_overdue()
        return self.stopping.out_of_time(self.seconds)

    def rest(self) -> None:
        """Save a checkpoint if one is due, or if a stop was asked for, which ends the run."""
        halted = self.halt()
        if halted or time.monotonic() - self._saved_at >= self.options.checkpoint_s:
            self.save()
        if halted:
            raise Abandoned

    def stopped(self) -> StoppedError:
        """Return what to tell a caller that asked for a stop."""
        if not self._saved:
            return StoppedError("stopped before there was anything to save")
        instead = " instead of --warm-start" if self.options.warm_start else ""
        instead += " instead of --restart" if self.options.restart else ""
        return StoppedError(
            f"stopped in outer iteration {self.outer}: a checkpoint is saved",
            f"give the same command with --resume{instead} to go on",
        )

    def _facts(self) -> dict[str, Any]:
        return {
            "course": self.options.course(),
            "blocks": [[block.name, block.rows] for block in self.manifest.blocks],
            "store": self.manifest.fingerprint,
            **attributes(self.memory, _PLANNED),
            "finished": False,
            **attributes(self, _REACHED),
            "descended": self.switched_at,
            "slow_after": self.slow_after,
            "stopping": self.stopping.state,
            "method": self.solver.state,
            "best": [self._best_at, self._best_score] if self._best_at else None,
        }

    @property
    def _arrays(self) -> dict[str, Any]:
        return self.solver.arrays | ({"best": self._best} if self._best_at else {})

    def save(self) -> None:
        """Commit a checkpoint, unless the run keeps none."""
        if self.options.checkpoint_s < math.inf:
            with self._now.counting("save_s"):
                self._checkpoint.save(self._facts(), self._arrays)
            self._saved_at, self._saved = time.monotonic(), True

    def resume(self, facts: dict[str, Any]) -> None:
        """Go back to where a checkpoint was saved.

        DamagedError is raised if it is not one of this method, or what was saved is not there;
        MismatchError if models were finished with a larger gap than is asked for now.
        """
        if self.options.patience and facts["best"]:
            self._best_at, self._best_score = facts["best"]
        self.slow_after = facts.get("slow_after")
        if facts["descended"] is not None:
            self._switch(facts["descended"], None)
        by_pass = self.solver.state.get("by_pass", [])
        try:
            if facts["method"].get("by_pass", []) != by_pass:
                raise ValueError("other models share a pass")
            self.solver.state = facts["method"]
        except (LookupError, TypeError, ValueError) as error:  # numbers that contradict each other
            raise self._checkpoint.damaged("the state of the method is impossible") from error
        self._checkpoint.load(self._arrays)
        self._saved = True
        take_attributes(self, _REACHED, facts)
        self.stopping.state = facts["stopping"]

    def report(self) -> tuple[OuterIteration, Estimate]:
        """Return the report of the outer iteration, with the held-out score, and its estimate."""
        seen = self.solver.estimate()
        check_finite(seen.primal, seen.dual, 0.0 if seen.rise == math.inf else seen.rise)
        scores: dict[str, Any] = {}
        if seen.new and self.held_out is not None:
            weights = self.solver.current()
            scores, value = self._scored(self.held_out, weights)
            if self.options.patience and (not self._best_at or value > self._best_score):
                self._best_score, self._best_at = value, self.outer
                self._best[:] = weights
        report = OuterIteration(
            outer=self.outer,
            seconds=self.seconds,
            certified=seen.exact,
            n_models=len(self.solver),
            n_sv=self.solver.n_sv,
            rss_bytes=anonymous_bytes(),
            peak_bytes=peak_bytes(),
            gaps=_largest_by_cost(self.solver.task.grid, seen.gaps),
            **attributes(seen, _ESTIMATED),
            **dataclasses.asdict(self.times),
            **scores,
        )
        return report, seen

    @property
    def may_switch(self) -> bool:
        """Whether the run is still by coordinate descent, and has room for Newton's method."""
        return self.memory.newton and self.switched_at is None

    @property
    def _resident(self) -> bool:
        """Whether all rows stay in memory."""
        return self.memory.group >= len(self.manifest.blocks)

    @property
    def _overhead(self) -> float:
        """The work of a pass but for that on rows, in entries: to load them, unless they stay."""
        return costs.PASS + (0.0 if self._resident else costs.loading_work(self.manifest))

    def took(self, report: OuterIteration) -> float:
        """Return the work of an outer iteration, in entries; of several models, that of one."""
        steps = report.steps / max(report.n_models, 1)
        work = costs.descent_work(self.options.solver, report.entries, steps, self._resident)
        return work + costs.PART * report.parts + self._overhead

    def newton_takes(self, report: OuterIteration) -> float:
        """Return what Newton's method takes, in outer iterations like the last one.

        Infinite where it is not known: without room for the Hessian, but for a smooth loss of many
        rows which do not know too few; or if proximal points reach the limit before they add it up.
        One model takes the usual passes. Several models add the Hessian up in each, as the slowest
        counts; with a smooth loss, where products are often enough, they are taken to need less
        than `FORESIGHT` outer iterations. Where the Hessian has too few rows, steps end at the
        margin of one more, and there are as many as rows.
        """
        solver, left = self.options.solver, self.options.most_outer - report.outer
        smooth, hessian = SOLVERS[solver].smooth, self.memory.hessian
        known = hessian or (smooth and costs.has_many_rows(self.manifest))
        early = smooth or costs.enough_products(self.manifest, True) <= left
        few, several = self._knows_too_few(report), bool(self.solver.task.grid)
        if not (self.may_switch and known and early) or (few and not hessian):
            return math.inf
        passes = self.manifest.n_rows if few else costs.newton_passes(solver, hessian)
        work = float(passes * self.manifest.nnz)
        if several or few:
            work = costs.newton_work(passes, self.manifest)
        found = (work + passes * self._overhead) / self.took(report)
        return min(found, FORESIGHT - 1) if several and smooth and not few else found

    def _knows_too_few(self, report: OuterIteration) -> bool:
        """Return whether the Hessian may have too few rows for steps to be long.

        It has not where most rows have a loss: steps then come to fewer rows than it has. Squared
        losses, C from 0.001 to 100, processor seconds with and without this exception: house prices
        (2,344 rows, 303 features) 0.2 and 0.2, 4.3, 0.6; grants (6,552, 1,838) 0.2, 0.1, 0.8 and
        0.6, 0.4, 0.9; trains (4,559, 5,746) 0.2, 0.2 and 1.1, 0.2. Classes that a plane separates
        have few rows with a loss.
        """
        n_sv, n_rows = report.n_sv / max(report.n_models, 1), self.manifest.n_rows
        if self.memory.hessian and n_sv > n_rows - n_sv:
            return False
        return costs.knows_too_few(self.options.solver, self.manifest, n_sv)

    def newton_may_help(self, report: OuterIteration) -> bool:
        """Return whether Newton's method may converge before the limit on outer iterations.

        Not by conjugate gradients alone, where the Hessian has too few rows for steps to be long
        (700,000 file names, C = 100, squared hinge loss: 1,000 products end 2.5 % above the
        optimum, where descent converges).
        """
        return self.memory.hessian or not self._knows_too_few(report)

    def as_slow_as_before(self, report: OuterIteration) -> bool:
        """Return whether it took as long as the run that it started from, which then went over.

        The rate at which the gap falls does not tell: it is large at first, as the new rows gain
        much. Trains (4,103 rows, 5,746 features, -s 13), after a tenth of the rows was removed: 32
        outer iterations of descent instead of 504, and 0.4 seconds instead of 4.
        """
        return self.slow_after is not None and report.outer >= self.slow_after

    def switch_to_newton(self) -> None:
        """Go on by Newton's method, from what is certified now.

        It is the model of the run until passes lead to a better one: of the first ones the alpha
        prove little. Abandoned is raised if a stop was asked for meanwhile.
        """
        try:
            certificate = self.certify()
        except Abandoned:
            self.save()
            raise
        assert isinstance(certificate, Certificate)  # no gap was enough
        self.goes_over = False
        self._switch(self.outer, certificate)
        smooth = SOLVERS[self.options.solver].smooth
        how = "Newton's method on the primal" if smooth else "Newton steps to proximal points"
        message = (
            f"after {counted(self.outer, 'outer iteration')} of coordinate descent: going on with "
            f"{how}, which --method newton begins with"
        )
        self.listener(GoesOver(message))

    def _switch(self, outer: int, certificate: Certificate | None) -> None:
        enough_products = costs.enough_products(self.manifest, self.memory.hessian)
        newton = self.solver.to_newton(enough_products, certificate)
        if newton is None:
            raise self._checkpoint.damaged("nothing follows on its solver")
        self.solver, self.switched_at = newton, outer
        self.options = self.stopping.options = self.options.for_newton()

    def _scored(self, held_out: "HeldOut", weights: Floats) -> tuple[dict[str, Any], float]:
        """Return the scores of weights by name, and a number that is larger for better ones."""
        with self.times.counting("score_s"):
            score = held_out.score(weights, self.solver.bias)
        names, found = ("accuracy", "mean_squared_error"), score.as_dict()
        return {name: found[name] for name in names if name in found}, score.rank_value

    def certified(self, report: OuterIteration, certificate: Certificate) -> OuterIteration:
        """Return the report with the estimates replaced by what was proven, of the candidate."""
        scores: dict[str, Any] = {}
        if self.held_out is not None:
            scores, _ = self._scored(self.held_out, self.solver.chosen(certificate))
        return dataclasses.replace(
            report,
            **attributes(certificate, ("primal", "dual", "gap")),
            certified=True,
            n_sv=self.solver.n_sv,  # now of all rows
            seconds=self.seconds,
            gaps=_largest_by_cost(self.solver.task.grid, [c.gap for c in self.solver.proven()]),
            **dataclasses.asdict(self.times),
            **scores,
        )

    @property
    def out_of_patience(self) -> bool:
        """Whether the score has not improved for too long."""
        patience = self.options.patience
        return patience is not None and self.outer - self._best_at >= patience

    def adopt_best(self) -> None:
        """Go back to the model that scored best."""
        self.solver.adopt(self._best)


@dataclasses.dataclass(eq=False)
class GroupRun(Run):
    """A run that loads group after group and works on it.

    An outer iteration ends `early` if its goal is reached before all groups had their turn. Number
    `first`[0] begins with the blocks `first`[1], and does not end before them: after a warm start
    those with new rows; after a certificate in vain those that it found to add much to the gap, and
    those that it did not come to, but for those that had their turn if others had none.
    """

    solver: Solver
    loader: GroupLoader
    early: bool = False
    first: tuple[int, list[int]] = 0, []

    def _facts(self) -> dict[str, Any]:
        return super()._facts() | {
            "started_warm": self.solver.started_warm, "early": self.early, "first": self.first,
        }  # fmt: skip

    def block_groups(self, outer: int) -> list[tuple[int, ...]]:
        """Return the groups of an outer iteration, in order."""
        n_blocks, group = len(self.manifest.blocks), self.memory.group
        seed, permutes, (number, blocks) = self.options.seed, self.solver.permutes, self.first
        first = blocks if self._order(number) == self._order(outer) else []
        return block_groups(seed, self._order(outer), n_blocks, group, permutes, first)

    def _order(self, outer: int) -> int:
        """Return which order of blocks an outer iteration has, from 1.

        The second after a warm start has that of the first, whose first blocks know least of the
        others (a tenth of 60,000 blogs new: after their next turn the gap is a quarter).
        """
        return max(outer - self.solver.started_warm, 1)

    def pass_over(
        self, blocks: Collection[int] | None = None, last: bool = False
    ) -> Iterator[Loaded]:
        """Yield all groups once; a stop between two of them raises Abandoned.

        With `blocks`, no other blocks are read, unless one group holds all. What may be the `last`
        pass of a run begins with the groups in memory and those that had no turn, and nothing is
        loaded ahead after it.
        """
        order = self.block_groups(self.outer + 1)
        next_one = order[0] if self.finished else self.block_groups(self.outer)[self.done]
        if last and self.outer:
            groups, left = self.block_groups(self.outer), set(range(len(self.manifest.blocks)))
            memory, order = [*groups, order[0]][self.done - 1 : self.done + 1], []
            for group in (*memory, *groups[self.done :], *groups[: self.done]):
                order.append(tuple(b for b in group if b in left))
                left -= {*group}
        if blocks is not None and (len(order) > 1 or not blocks):
            order = [tuple(b for b in group if b in blocks) for group in order]
        order, ahead = [group for group in order if group], None if last else next_one
        for number, loaded in enumerate(self.loader.stream(order, ahead) if order else ()):
            if number and self.halt():
                raise Abandoned
            if self.loader.whole:  # then the next block step has it in memory
                self._begun.add(loaded)
            yield loaded

    def iterate(self) -> None:
        """Run the rest of an outer iteration, or the next one."""
        self.decided = False
        if self.finished:
            self.outer, self.done, self.early = self.outer + 1, 0, False
            learns = self.outer != 2 or not self.solver.started_warm
            self.solver.begin(self.stopping.goal, learns)
        self.times, self._begun = self._begun, Times()
        todo, following = self.block_groups(self.outer), self.block_groups(self.outer + 1)
        number, blocks = self.first
        first = len(blocks) if number == self.outer else 0
        for loaded in self._to_step_on(todo[self.done :], following[0]):
            with self.times.counting("solve_s"):
                self.solver.step(loaded.group, self.outer, self.done, len(todo), self.cut_short)
            self.times.add(loaded)
            self.done += 1
            self.listener(BlockStep(self.outer, self.done, len(todo)))
            if self.done < len(todo):
                self.early = self.solver.reached and sum(map(len, todo[: self.done])) >= first
                if self.early:
                    return
                self.rest()

    def _to_step_on(
        self, groups: Sequence[tuple[int, ...]], following: tuple[int, ...]
    ) -> Iterator[Loaded]:
        """Yield groups; save if waiting for one is given up: between steps w and alpha fit."""
        try:
            yield from self.loader.stream(groups, following)
        except Abandoned:
            if self.outer > 1 or self.done:  # or there is nothing to save
                self.save()
            raise

    @property
    def finished(self) -> bool:
        """Whether the outer iteration is at its end, or none has begun."""
        return self.outer == 0 or self.early or self.done == len(self.block_groups(self.outer))

    def _prove(self, enough: float | None) -> Certificate | float:
        return self.solver.certify(self.pass_over(last=True), enough)

    def learn(self, found: Certificate | float, seen: Estimate) -> None:
        """Take note of a certificate in vain, and let blocks that may be the reason come first."""
        super().learn(found, seen)
        outer, heavy = self.outer + 1, self.solver.heavy
        drawn = block_order(self.options.seed, self._order(outer), len(self.manifest.blocks))
        groups = self.block_groups(self.outer)[: self.done] if self.early else []
        had_turn = set().union(*groups)
        self.first = outer, [b for b in drawn.tolist() if heavy.get(b, b not in had_turn)]

    def resume(self, facts: dict[str, Any]) -> None:
        """Go back to where a checkpoint was saved."""
        self.early = facts.get("early", False)
        self.first = tuple(facts.get("first", self.first))
        self.solver.started_warm = facts.get("started_warm", False)
        super().resume(facts)
        self.solver.restore(self.pass_over)


def _largest_by_cost(
    costs: Sequence[float], gaps: Sequence[float]
) -> tuple[tuple[float, float], ...]:
    """Return each C with the largest gap of its models; nothing if there is one C."""
    largest: dict[float, float] = {}
    for cost, gap in zip(costs, gaps, strict=bool(costs)):
        largest[cost] = max(gap, largest.get(cost, 0.0))
    return tuple(largest.items()) if len(largest) > 1 else ()


def check_finite(*numbers: float | Floats) -> None:
    """Raise InputError if a number is infinite, or none: it overflowed in training."""
    if not all(np.isfinite(found).all() for found in numbers):
        raise InputError(
            "the numbers overflowed: values or C are too large", "scale the data, or lower C or -B"
        )
