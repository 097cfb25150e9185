"""When to certify and when to stop."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from blocklinear.events import OuterIteration
from blocklinear.kernels.losses import UNIT
from blocklinear.memory import enough
from blocklinear.numerals import counted
from blocklinear.objectives.certificate import Certificate
from blocklinear.objectives.problems import ONE_CLASS
from blocklinear.options import TrainOptions
from blocklinear.solvers.protocol import Estimate, attributes, take_attributes

ADVICE = "scale the data, lower C, or try another solver"
ONE_TARGET = "all rows have the same target, of which there is nothing to learn"
DOUBT = 1.2
"""The factor by which an estimate of P - D from some rows may be too small.

Measured on 60 runs out of core (54,000 and 25,000 blogs, film reviews, Reuters; gaps of 1e-2 to
2e-4): none has a certificate in vain, and with 1.1 six have one, for 0.99 to 1.03 of the work."""
LEAST_SAMPLED = 0.1
"""Of the goal: an estimate from a sample that is even smaller is so by chance."""
FORESIGHT = 32
"""Outer iterations after which their rate can show that the limit on them will come first."""
_LEARNED = (
    "_scale", "_moved", "_best", "_warned", "_believed", "_work", "_work_measured",
    "_gap_measured", "_measured_before",
)  # fmt: skip


@dataclass(frozen=True)
class Ending:
    """Why training ends unconverged, for people."""

    why: str  # after what
    limit: bool = False  # whether the limit on outer iterations is the reason
    advice: str = ""  # what to do about it, or nothing
    patience: bool = False  # whether it was asked to end so, with the model that scored best

    def message(self, gap: float) -> str:
        """Return a warning about a model with this certified gap."""
        if self.patience:
            return f"stopped after {self.why}: the gap of the model that scored best is {gap:.3g}"
        return (
            ("reaching max number of iterations: " if self.limit else "")
            + f"not converged after {self.why}: the gap is {gap:.3g}"
            + (f"; {self.advice}" if self.advice else "")
        )


class Stopping:
    """Decides when to certify and when to stop.

    Attributes
    ----------
    options : TrainOptions    what is asked for
    roomier : callable        returns a budget with room for Newton steps, if there is one and the
                              run has none
    one_target : bool         whether all rows of a regression have the same target: the optimum may
                              be 0 then, where no relative gap is small
    spent_s : float           of the time limit, on models that were trained before
    """

    def __init__(self, options: TrainOptions) -> None:
        self.options = options
        self.roomier: Callable[[], int | None] = lambda: None
        self.one_target = False
        self.spent_s = 0.0
        self._scale = DOUBT  # of gaps to their estimates from some rows
        self._moved, self._best = 0, [math.inf] * 3  # the last iteration that brought anything
        self._warned, self._work = False, 0.0  # of all outer iterations, in entries
        self._work_measured, self._gap_measured = 0.0, math.inf  # when the rate was measured last
        self._measured_before = [0.0, math.inf]  # and the time before
        self._believed = math.inf  # the smallest gap that no certificate has refuted

    @property
    def state(self) -> dict[str, Any]:
        """What was learned, as JSON."""
        return attributes(self, _LEARNED)

    @state.setter
    def state(self, state: dict[str, Any]) -> None:
        take_attributes(self, _LEARNED, state)

    @property
    def goal(self) -> float:
        """The relative gap that estimates from some rows must reach; 0 if none was asked for."""
        return (self.options.gap or 0.0) / self._scale

    def wants_certificate(self, report: OuterIteration, seen: Estimate) -> bool:
        """Say whether the estimates of an outer iteration are good enough to prove them.

        Of several models the middle gap decides: those that are proven need no more work.
        """
        scale = 1.0 if seen.exact else self._scale
        return self.holds(scale * seen.middle_gap, report)

    def holds(self, gap: float, report: OuterIteration) -> bool:
        """Return whether a gap, and the violation reported, are as small as was asked for."""
        tolerance, goal = self.options.tolerance, self.options.gap
        small = tolerance is None or report.violation <= tolerance
        return small and (goal is None or gap <= goal)

    def learn(self, found: Certificate | float, seen: Estimate) -> None:
        """Raise the factor of gaps to their estimates, as one led to a certificate in vain.

        It becomes twice what it was, or twice what it had to be. `found` may be the middle gap for
        which the certificate was given up. Measured, squared hinge loss in 96 to 224 MB, gaps of
        1e-2 to 1e-4: of 36 runs 11 have a certificate in vain, none a second one. With 1.2 for 2,
        two have two; with estimates halved, four have up to three, for as many bytes.
        """
        gap = found if isinstance(found, float) else found.gap
        self._believed = max(self._believed, gap)
        wrong = gap / max(seen.middle_gap, LEAST_SAMPLED * self.goal)
        self._scale = 2.0 * max(wrong, self._scale)

    def out_of_time(self, seconds: float) -> bool:
        """Return whether the time limit has passed so many seconds after training began."""
        return self.spent_s + seconds >= self.options.time_limit_s

    def exhausted(self, report: OuterIteration) -> Ending | None:
        """Return why training must end unconverged, if it must."""
        if self.out_of_time(report.seconds):  # first: it cuts outer iterations short
            return Ending(counted(self.options.time_limit_s, "second"))
        if report.outer >= self.options.most_outer:
            why = counted(report.outer, "outer iteration")
            return Ending(why, limit=True, advice=self._how_to_converge(report))
        return None

    def _how_to_converge(self, report: OuterIteration) -> str:
        if self.one_target:
            return ONE_TARGET
        options = self.options
        if options.average:  # one outer iteration is all it has
            return ""
        if options.method == "pegasos":
            return "give a larger --max-outer, or --method dual, which needs fewer"
        if options.solver == ONE_CLASS:  # which has no C
            return "scale the data, or give a larger --max-outer"
        solver, more = "another solver", ""
        if options.solver == 3:
            faster = "ends with Newton steps where there are two classes, or few features"
            solver = f"-s 1, which {faster}"
        if report.outer >= FORESIGHT and (budget := self.roomier()):
            more = f"train anew with --memory {enough(budget)}, which has room for Newton steps, "
        return f"scale the data, lower C, give a larger --max-outer, {more}or try {solver}"

    def remaining(self, report: OuterIteration, took: float) -> float | None:
        """Return how many more outer iterations like the last one the goal takes, at this rate.

        The rate is how fast the gap falls with work, or the violation where no gap was asked for.
        It is measured whenever the work of all outer iterations has doubled, and after `FORESIGHT`
        of them. In between, and at first, return None. The last one `took` so many entries.
        """
        self._work += took
        doubled = self._work >= 2.0 * self._work_measured
        if self.options.method == "pegasos" or not (doubled or report.outer == FORESIGHT):
            return None
        now, goal = self._believed, self.options.gap
        if goal is None:
            now, goal = self._best[2], self.options.tolerance or 0.0
        work, before = self._measured_before
        if doubled:
            work, before = self._measured_before = [self._work_measured, self._gap_measured]
            self._work_measured, self._gap_measured = self._work, now
        if before == math.inf or now <= goal:
            return None
        if now >= before:
            return math.inf
        return math.log(now / goal) / math.log(before / now) * (self._work - work) / took

    def too_many(
        self, report: OuterIteration, remaining: float, took: float, instead: float = math.inf
    ) -> bool:
        """Say whether so many more outer iterations are too many for coordinate descent.

        They are if the limit comes first. They also are if another method, which takes as long as
        `instead` of them, takes less than they do and less than all have taken so far: both methods
        in a row then take at most twice as long as the better one alone.
        """
        if instead * took < min(remaining * took, self._work):
            return True
        late = report.outer + remaining > self.options.most_outer
        return report.outer >= FORESIGHT and late

    def too_slow(self, report: OuterIteration) -> str:
        """Return a warning, the first time, that the limit will come before the goal."""
        if self._warned:
            return ""
        self._warned = True
        what, best, goal = "gap", self._believed, self.options.gap
        if goal is None:
            what, best, goal = "violation", self._best[2], self.options.tolerance
        return (
            f"after {counted(report.outer, 'outer iteration')} the {what} is {best:.3g}, and "
            "falls so slowly that at this rate it will take more than "
            f"{self.options.most_outer} to {goal:g}; "
            f"{self._how_to_converge(report)}"
        )

    def stalled(self, report: OuterIteration, seen: Estimate) -> Ending | None:
        """Say whether half of all outer iterations have moved nothing.

        One moves something if its steps raise the dual value of any model by more than rounding, or
        if a primal value, gap or violation is smaller than all before: near the optimum the dual
        rises by the square of what these fall by, and if they only fluctuate, new smallest ones are
        ever rarer.
        """
        found = [report.primal, report.gap, report.violation]
        if seen.rise > UNIT or any(x < best for x, best in zip(found, self._best, strict=True)):
            self._moved = report.outer
        self._best = [min(both) for both in zip(found, self._best, strict=True)]
        scale = 1.0 if seen.exact else self._scale
        self._believed = min(self._believed, scale * report.gap)
        done, advice = counted(report.outer, "outer iteration"), ADVICE
        if self.one_target:
            advice = ONE_TARGET
        elif self.options.solver == ONE_CLASS:
            advice = "scale the data"
        if seen.final:
            return Ending(f"{done}, where rounding ends it", advice=advice)
        idle = report.outer - self._moved
        if idle < self._moved:
            return None
        return Ending(f"{done}, as the last {idle} of them moved nothing", advice=advice)
