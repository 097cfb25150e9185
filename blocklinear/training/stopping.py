"""When to certify and when to stop."""

from typing import Any

from blocklinear.events import OuterIteration
from blocklinear.options import TrainOptions


class Stopping:
    """Decides when to certify and when to stop.

    The gap estimated from first-touch margins mixes many w: it is noisy, and mostly too large.
    `_ratio` is how much smaller the last certified gap was; the next certificate is tried when the
    estimate, so scaled, passes, but after a failure not before another 1/16 of the iterations, so
    that certificates in vain stay cheap however wrong the estimate is.
    """

    def __init__(self, options: TrainOptions) -> None:
        self._options = options
        self._ratio = 0.5
        self._not_before = 0

    @property
    def unfailing(self) -> bool:
        """Whether no certificate has found more than was estimated."""
        return self._not_before == 0

    def trust(self) -> None:
        """Take the estimates as they are, until a certificate tells better."""
        self._ratio = 1.0

    @property
    def state(self) -> dict[str, Any]:
        """What was learned, as JSON."""
        return {"ratio": self._ratio, "not_before": self._not_before}

    @state.setter
    def state(self, state: dict[str, Any]) -> None:
        self._ratio, self._not_before = state["ratio"], state["not_before"]

    def wants_certificate(self, report: OuterIteration, typical_gap: float | None = None) -> bool:
        """Say whether the estimates are good enough to prove them.

        Of several models the `typical_gap` decides: those that are proven need no more sweeps.
        """
        gap, tolerance = self._options.gap, self._options.tolerance
        if tolerance is not None and report.violation > tolerance:
            return False
        if report.outer < self._not_before:
            return False
        estimated = report.gap if typical_gap is None else typical_gap
        return gap is None or self._ratio * estimated <= gap

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
        if report.gap > 0.0:
            self._ratio = min(max(gap_found / report.gap, 0.01), 1.0)
        self._not_before = report.outer + 1 + report.outer // 16
        return False

    def exhausted(self, report: OuterIteration) -> str:
        """Return why training must end unconverged, or the empty string."""
        if self._options.max_outer is not None and report.outer >= self._options.max_outer:
            return f"{report.outer} outer iterations"
        if report.seconds >= self._options.time_limit_s:
            return f"{self._options.time_limit_s:g} seconds"
        return ""
