"""When to certify and when to stop."""

from typing import Any

from blocklinear.events import OuterIteration
from blocklinear.numerals import format_number
from blocklinear.options import TrainOptions
from blocklinear.training.tally import Estimate

START = 0.5
"""How far the gap is taken to have fallen where there is no earlier one."""
HALFWAY = 0.5
"""A gap that falls to so much of the last one is taken to fall to half at its end."""
MOST = 4.0
"""A gap is taken to be so many times larger than foreseen at most."""


class Stopping:
    """Decides when to certify and when to stop.

    Where no look ahead has told it, what rows add to the gap is seen at their first touch; at the
    end of the outer iteration it is less. The faster gaps fall, the less is left: with r the gap as
    a part of that of the outer iteration before, about r / (r + 1/2) of it (measured: an eighth for
    r = 0.1, half for r from 0.4 on). A certificate is tried when the gap
    so foreseen is small enough. After one that failed, gaps are taken to be larger than foreseen
    by as much as that one was, and the next is not tried before another 1/16 of the iterations,
    so that certificates in vain stay cheap however wrong the estimate is.
    """

    def __init__(self, options: TrainOptions) -> None:
        self._options = options
        self._scale = 1.0
        self._not_before = 0
        self._outer, self._gap = 0, 0.0  # the last outer iteration told of
        self._fall = START  # of its gap, as a part of the one before
        self._foreseen = 0.0

    @property
    def unfailing(self) -> bool:
        """Whether no certificate has found more than was estimated."""
        return self._not_before == 0

    @property
    def state(self) -> dict[str, Any]:
        """What was learned, as JSON."""
        return {
            "scale": self._scale, "not_before": self._not_before, "outer": self._outer,
            "gap": self._gap, "fall": self._fall,
        }  # fmt: skip

    @state.setter
    def state(self, state: dict[str, Any]) -> None:
        self._scale, self._not_before = state["scale"], state["not_before"]
        self._outer, self._gap, self._fall = state["outer"], state["gap"], state["fall"]

    def wants_certificate(self, report: OuterIteration, seen: Estimate) -> bool:
        """Say whether the estimates of an outer iteration are good enough to prove them.

        Of several models the middle gap decides: those that are proven need no more sweeps.
        """
        estimated = report.gap if seen.middle_gap is None else seen.middle_gap
        if report.outer != self._outer:  # after a resume it may be told of again
            self._fall = estimated / self._gap if self._gap else START
            self._outer, self._gap = report.outer, estimated
        left = 1.0 if seen.foretold else self._fall / (self._fall + HALFWAY)
        self._foreseen = left * report.gap
        estimated *= left
        gap, tolerance = self._options.gap, self._options.tolerance
        if tolerance is not None and report.violation > tolerance:
            return False
        if report.outer < self._not_before:
            return False
        return gap is None or self._scale * estimated <= gap

    @property
    def by_gap_alone(self) -> bool:
        """Whether nothing but the gap was asked for; violations are a matter of the dual."""
        return self._options.tolerance is None

    def holds(self, report: OuterIteration, gap_found: float) -> bool:
        """Say whether the certified gap is small enough; learn from it when it is not."""
        gap, tolerance = self._options.gap, self._options.tolerance
        if tolerance is not None and report.violation > tolerance:
            return False
        if gap is None or gap_found <= gap:
            return True
        if self._foreseen > 0.0:
            self._scale = min(max(gap_found / self._foreseen, 1.0), MOST)
        self._not_before = report.outer + 1 + report.outer // 16
        return False

    def exhausted(self, report: OuterIteration) -> str:
        """Return why training must end unconverged, or the empty string."""
        if self._options.max_outer is not None and report.outer >= self._options.max_outer:
            return f"{report.outer} outer iterations"
        if report.seconds >= self._options.time_limit_s:
            return f"{format_number(self._options.time_limit_s)} seconds"
        return ""
