"""One model on its way by proximal points: for losses that have no gradient.

Hinge and epsilon-insensitive loss are made smooth around a center of alpha, as
`blocklinear.kernels.primal` says; Newton's method minimises that, and the alpha of the minimum
become the center, in which alpha may move the more freely the smaller the `width` (Rockafellar
1976; semismooth Newton steps inside: Li, Sun and Toh 2018). The alpha of any pass are feasible, and
certify its point as well as they can.
"""

import math
from collections.abc import Mapping
from typing import Any

from blocklinear.kernels.primal import COSTS, MOVED, TARGETS, VALUE, VALUE_LOW
from blocklinear.kernels.sums import dot
from blocklinear.solvers.newton.iterate import ROUNDING, Floats, NewtonIterate, PassSums

_FIRST_WIDTH, _LEAST_WIDTH = 10.0, 1e-3
"""Widths in targets of mean size, which are 1 for classes; the first one times the square root of
the gap at first.

Measured with those below on 24 sets of 5000 rows, 20 or 100 features, condition 1e2 to 1e8, and on
covtype, C = 1 to 1e4, to a gap of 1e-6: 40 to 280 passes, 84 in the mean. Ten times narrower from
the first, with a factor of 10 between widths, 250 in the mean; always halved, 89."""
_FAST, _SLOW = 2, 6
"""Steps at a center: with so few the width is divided by 4, with more than so many by sqrt(2)."""
_ENOUGH = 0.1
"""A center is done with once |gradient|**2 / 2 is so much of what the move from it makes up."""
_LONGER = 4.0
"""A step is tried at so many times the length of the one before, if that was shorter than 1."""
_MOST_IDLE = 20  # centers in turn that have made no gap smaller


class ProximalIterate(NewtonIterate):
    """A point, the best certificate, and what is to be tried next.

    Attributes
    ----------
    w, certificate : float64[n], Certificate
        Of the pass with the smallest gap; where alpha prove nothing, of that with the least primal.
    """

    saved = (
        *NewtonIterate.saved, "recenters", "width", "_searching", "_scale", "_value", "_steps",
        "_idle", "_last",
    )  # fmt: skip
    vectors = (*NewtonIterate.vectors, "base")

    def __init__(self, vectors: Mapping[str, Floats], *limits: Any) -> None:
        super().__init__(vectors, *limits)
        self.origin = vectors["base"]
        # the first pass certifies what is there: alpha do not move
        self.recenters, self.width = True, math.inf
        self._searching, self._value = False, 0.0
        self._scale = 0.0  # of targets, the least that a pass has found; 0 before the first
        self._steps, self._idle, self._last = 0, 0, 1.0

    def go_to(self, weights: Floats) -> None:
        """Certify other weights, float64[n], in the next pass, by alpha of the center."""
        super().go_to(weights)
        self.recenters, self.width = False, math.inf

    def evaluated(self, found: PassSums) -> None:
        """Go on with the step, or end it: with a direction from there, or with another center."""
        proof, before = self._prove(found), self.certificate
        best = proof if before is None else before.against(self.least_optimum)
        if (proof.gap, proof.primal) < (best.gap, best.primal):
            best = proof
        if before is None or best.gap < before.gap:
            self._idle = 0
        self.certificate, self.new = best, best is proof
        if self.new or self.begins:  # alpha are those that the solver before has left, if any
            self.n_sv = int(found.reach[1])
        if self.new:
            self.w[:] = self.trial
        self.begins = self.recenters = False
        self._measure(found)
        if self.width == math.inf:
            self.origin[:] = self.trial
            self._recenter(_FIRST_WIDTH * self._scale * math.sqrt(min(1.0, proof.gap)))
            return
        value = self._value_of(found)
        if self._searching:
            if -self._slope <= ROUNDING * abs(self._value) and not self._halves_gradient(found):
                self._narrow()  # rounding hides what steps gain: they would go on for ever
                return
            if not self._ends(found, value, self._value):
                if self.final:  # rounding hides what the step gains
                    self._narrow()
                return
            self._steps, self._last = self._steps + 1, self._length
        self.origin[:] = self.trial
        self._value = value
        self._expand(found)
        done = 0.5 * dot(self.gradient, self.gradient) <= _ENOUGH * found.values[MOVED]
        done = done or self.width > _FIRST_WIDTH * self._scale
        if self._searching and done:
            self._narrow()
            return
        self._look(found.hessian)

    def _measure(self, found: PassSums) -> None:
        """Take note of the mean size of targets, for regression without what the bias explains."""
        costs, targets = found.values[COSTS], found.values[TARGETS]
        scale = float(targets / costs) if targets > 0.0 else 1.0
        self._scale = min(self._scale or scale, scale)

    def _ridge_of_free_bias(self, curvature: float) -> float:
        """Return what keeps a step of the bias from going farther than targets of mean size reach.

        Where all alpha are at a bound nothing else does; near the optimum it vanishes with the
        gradient, and steps are Newton's (Li, Fukushima, Qi and Yamashita 2004).
        """
        ridge = abs(float(self.gradient[-1])) * self._bias / self._scale
        return ridge if ridge > 0.0 else super()._ridge_of_free_bias(curvature)

    def _value_of(self, found: PassSums) -> float:
        v = self.trial if self._regularizes_bias else self.trial[:-1]
        return float(0.5 * dot(v, v) + (found.values[VALUE] + found.values[VALUE_LOW]))

    def _halves_gradient(self, found: PassSums) -> bool:
        """Return whether the gradient at the trial is at most half of that where the step began."""
        there, before = self._gradient_at(found), self.gradient
        return bool(dot(there, there) <= 0.25 * dot(before, before))

    def _reaches_goal(self) -> bool:
        return False  # its gradient is that of a center, which says nothing of the gap

    def _narrow(self) -> None:
        """Make the alpha reached the center, of a smaller width."""
        self._idle += 1
        factor = 4.0 if self._steps <= _FAST else 2.0 if self._steps <= _SLOW else math.sqrt(2.0)
        self._recenter(max(self.width / factor, _LEAST_WIDTH * self._scale))
        self.final = self._idle >= _MOST_IDLE

    def _recenter(self, width: float) -> None:
        self.recenters, self.width = True, min(width, _FIRST_WIDTH * self._scale)
        self._searching, self._steps, self._last = False, 0, 1.0
        self.evaluates = True
        self.trial[:] = self.origin

    def _go(self) -> None:
        """Try the direction next, as far as the step before went, or farther."""
        super()._go()
        if self.final:
            self._narrow()
            return
        self._searching = True
        self._move(min(1.0, _LONGER * self._last))
