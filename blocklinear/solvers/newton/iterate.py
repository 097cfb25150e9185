"""One model on its way by Newton's method: what follows from each pass over the data.

A pass evaluates a point, or multiplies the Hessian by a vector. Directions are found by conjugate
gradients on H s = -g, preconditioned by the diagonal, in as many products as they need (Fan,
appendices C and D), or as the goal does; or from the whole Hessian, once that is the cheaper way. A
whole step is taken if the primal falls enough (Armijo); else one that ends where little is left of
the slope along it.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from blocklinear.kernels.losses import LOGISTIC, OF_MINUS, OF_PLUS
from blocklinear.kernels.primal import solve
from blocklinear.kernels.sums import dot, squared_distance
from blocklinear.objectives.certificate import Certificate, norms_above, prove
from blocklinear.objectives.problems import SOLVERS
from blocklinear.options import TrainOptions
from blocklinear.solvers.certified import Iterate

Floats = NDArray[np.float64]
_FORCING = 0.1  # how far conjugate gradients reduce the gradient before a step
_SUFFICIENT = 1e-4  # Armijo
_FLAT = 0.9  # what may be left of the slope where a step ends that had to be shorter
_INSIDE = 1e-3  # of the lengths left, from either end
_MOST_TRIALS = 40  # of lengths
ROUNDING = 1e-13  # of what is minimised: values that close are the same
_MORE_PASSES = 50  # of conjugate gradients than there are weights, which rounding may need


@dataclass(frozen=True)
class PassSums:
    """What `primal.newton_rows` leaves of a point and all rows; `hessian` is overwritten."""

    pull: Floats
    diagonal: Floats
    hessian: Floats
    sums: Floats
    reach: Floats
    values: Floats
    n_rows: int


class NewtonIterate(Iterate):
    """A point, its certificate, and what is to be tried next.

    Parameters
    ----------
    vectors : dict of float64[n]        one for each of `vectors`, zeros, kept by the caller
    options : TrainOptions    the last pass of `most_outer` evaluates a point
    enough_products : float   products with the Hessian after which it would have been cheaper to
                              add it up; infinite where there is no memory for it

    Attributes
    ----------
    vectors : tuple of str    what is known of a model besides numbers
    recenters : bool          whether alpha is to become the center before the next pass
    width : float             of the center
    w : float64[n]            the point reached
    origin : float64[n]       where steps begin
    trial, search : float64[n]          what is to be evaluated, and what is to be multiplied
    begins : bool             whether no pass has evaluated a point yet
    least_optimum : float     what P* is known to be at least
    evaluates : bool          what the next pass does: evaluate `trial`, or multiply by `search`
    direct : bool             whether a pass that evaluates adds up the Hessian, too
    violation : float         |gradient|
    gradient : float64[n]     there
    """

    saved = (
        *Iterate.saved, "evaluates", "direct", "_products", "_in_all", "_rho", "_enough", "_length",
        "_slope", "_low", "_high", "_trials", "_ridge", "begins", "least_optimum",
    )  # fmt: skip
    vectors: ClassVar[tuple[str, ...]] = (
        "w", "trial", "search", "gradient", "diagonal", "direction", "residual"
    )  # fmt: skip

    def __init__(
        self, vectors: Mapping[str, Floats], options: TrainOptions, enough_products: float
    ) -> None:
        super().__init__()
        self._bias, self._regularizes_bias = max(options.bias, 0.0), options.regularize_bias
        logistic = SOLVERS[options.solver].kind == LOGISTIC  # whose optimum may be infinite
        self._unbounded = logistic and not options.regularize_bias
        self._most_passes = options.most_outer
        self._gap = options.gap
        self._enough_products = enough_products
        self.w, self.trial, self.search = vectors["w"], vectors["trial"], vectors["search"]
        self.origin = self.w
        self.gradient, self._diagonal = vectors["gradient"], vectors["diagonal"]
        self._direction, self._residual = vectors["direction"], vectors["residual"]
        self.begins, self.least_optimum = True, 0.0
        self.evaluates, self.direct = True, False
        self._products, self._in_all, self._rho, self._enough = 0, 0, 0.0, 0.0
        self._length, self._slope = 1.0, 0.0  # of the step that is tried
        # the lengths between which it ends, and the slopes there; how many were tried
        self._low, self._high, self._trials = (0.0, 0.0), (math.inf, 0.0), 0
        self._ridge = 1.0  # what is added to the Hessian for the bias, as 1 is for other weights
        self.recenters, self.width = False, 1.0

    @property
    def point(self) -> Floats:
        """What the next pass works on, float64[n]."""
        return self.trial if self.evaluates else self.search

    @property
    def magnitude(self) -> float:
        """|point|, or more."""
        return float(norms_above(dot(self.point, self.point)))

    def go_to(self, weights: Floats) -> None:
        """Certify other weights, float64[n], in the next pass."""
        self.trial[:], self.certificate, self.begins, self.evaluates = weights, None, True, True

    def know(self, weights: Floats, certificate: Certificate, solved: bool) -> None:
        """Take over weights that are proven, float64[n], until a pass leads to better ones.

        None is made if the model is `solved`.
        """
        self.w[:], self.certificate, self.begins = weights, certificate, not solved
        self.least_optimum = certificate.least_optimum

    def evaluated(self, found: PassSums) -> None:
        """Move to the trial if the step ends there, and look for a direction; else try another."""
        proof, last = self._prove(found), self.certificate
        if last is not None and not self.begins:
            ends = self._ends(found, proof.primal, last.primal)
            if not ends or not self._is_better(found, proof, last):
                self.new, self.final = False, self.final or ends
                return
        self.certificate, self.n_sv, self.new = proof, int(found.reach[1]), True
        self.begins = False
        self.w[:] = self.trial
        self._expand(found)
        if self._unbounded and found.reach[OF_PLUS : OF_MINUS + 1].min() == 0.0:
            self._double_the_bias()
        else:
            self._look(found.hessian)

    def _is_better(self, found: PassSums, proof: Certificate, last: Certificate) -> bool:
        """Return whether the trial is better than the point reached in anything.

        If it is not, rounding ends it: steps would go back and forth between such points.
        """
        if proof.primal < last.primal or proof.gap < last.gap:
            return True
        gradient = self._gradient_at(found)
        return math.sqrt(dot(gradient, gradient)) < self.violation

    def _double_the_bias(self) -> None:
        """Try a bias twice as large, and w = 0: where all alpha have one sign nothing holds it.

        With one class the losses vanish with it, as those of logistic regression do at 700; a step
        of Newton's method is 1 there.
        """
        np.negative(self.w, out=self._direction)
        step = max(abs(float(self.w[-1])), 1.0 / self._bias)
        self._direction[-1] = -math.copysign(step, float(self.gradient[-1]))
        self._go()

    def _ends(self, found: PassSums, value: float, before: float) -> bool:
        """Return whether the step ends at the trial; if not, try another length.

        The value is convex: its slope rises along the step. To halve it until the value has fallen
        enough would end before a kink that is close, behind which it rises steeply; and so would
        all steps from there on, as no Hessian has the rows of the kink. So it is to end near where
        the slope is 0. What is minimised, P if the loss is smooth, has the `value` at the trial.
        """
        self._trials += 1
        fallen = value <= before + _SUFFICIENT * self._length * self._slope
        if fallen and self._high[0] == math.inf:
            return True
        slope, rounding = self._slope_at(found), ROUNDING * max(abs(value), abs(before))
        if value - self._length * slope > before + rounding:  # a tangent is above what is convex
            self.final = True
            return False
        if abs(slope) <= -_FLAT * self._slope and value <= before + ROUNDING * abs(before):
            return True
        if slope < 0.0:
            self._low, self._high = (self._length, slope), (self._high[0], self._high[1] / 2.0)
        else:  # the slope of an end that stays is halved (Illinois)
            stays = 1.0 if self._high[0] == math.inf else 2.0
            self._low, self._high = (self._low[0], self._low[1] / stays), (self._length, slope)
        if self._high[0] == math.inf or self._trials >= _MOST_TRIALS:
            self.final = not (fallen or slope < 0.0)
            return not self.final
        self._move(self._between(found.hessian, slope))
        return False

    def _between(self, hessian: Floats, slope: float) -> float:
        """Return the length to try next: by Newton's method on the slope, or where it is even."""
        (low, at_low), (high, at_high) = self._low, self._high
        if not math.isfinite(slope):
            return 0.5 * (low + self._length)
        if len(hessian):
            ridges = dot(self._direction[:-1], self._direction[:-1])
            ridges += self._ridge * self._direction[-1] ** 2
            length = self._length - slope / (curvature_along(hessian, self._direction) + ridges)
            if low < length < high:
                return float(length)
        if 0.0 < 4.0 * low < high:  # nothing is known of its size
            return math.sqrt(low * high)
        # where numbers are so tiny that squares are 0, both slopes may be
        share = at_low / (at_low - at_high) if at_low < at_high else 0.5
        return low + min(max(share, _INSIDE), 1.0 - _INSIDE) * (high - low)

    def _slope_at(self, found: PassSums) -> float:
        """Return the slope along the step at the trial."""
        return float(dot(self._gradient_at(found), self._direction))

    def _gradient_at(self, found: PassSums) -> Floats:
        """Return the gradient at the trial, float64[n]."""
        gradient: Floats = self.trial - found.pull
        if not self._regularizes_bias:
            gradient[-1] = -found.pull[-1]
        return gradient

    def _expand(self, found: PassSums) -> None:
        """Take over the gradient and the diagonal of the Hessian at the trial."""
        np.subtract(self.trial, found.pull, out=self.gradient)
        np.add(found.diagonal, 1.0, out=self._diagonal)
        if not self._regularizes_bias:
            self.gradient[-1] = -found.pull[-1]
            self._ridge = self._ridge_of_free_bias(float(found.diagonal[-1]))
            self._diagonal[-1] = found.diagonal[-1] + self._ridge
        self.violation = math.sqrt(dot(self.gradient, self.gradient))
        self.first_violation = self.first_violation or self.violation

    def _ridge_of_free_bias(self, curvature: float) -> float:
        """Return what must be added to the Hessian for a bias that is not regularised."""
        return 0.0 if curvature > 0.0 else 1.0

    def _look(self, hessian: Floats) -> None:
        """Solve for a direction, or begin with conjugate gradients."""
        if len(hessian) and self._solve(hessian):
            self._go()
            return
        self._direction[:] = 0.0
        np.negative(self.gradient, out=self._residual)
        np.divide(self._residual, self._diagonal, out=self.search)
        self._rho = float(dot(self._residual, self.search))
        self._enough, self._products, self.evaluates = _FORCING**2 * self._rho, 0, False

    def _prove(self, found: PassSums) -> Certificate:
        """Return the certificate of the trial."""
        v, of = self.trial, found.pull
        if not self._regularizes_bias:
            v, of = v[:-1], of[:-1]
        proof = prove(
            dot(v, v), squared_distance(v, of), found.sums, found.reach, found.n_rows, drift=0.0,
            average=False, free_bias=not self._regularizes_bias,
        )  # fmt: skip
        self.least_optimum = max(self.least_optimum, proof.least_optimum)
        return proof.against(self.least_optimum)

    def _solve(self, hessian: Floats) -> bool:
        """Write the direction of the lower triangle of H - I; return whether rounding left one."""
        hessian.flat[: -1 : len(hessian) + 1] += 1.0
        hessian[-1, -1] += self._ridge
        np.negative(self.gradient, out=self._direction)
        return bool(solve(hessian, self._direction))

    def multiplied(self, product: Floats, passes: int) -> None:
        """Take a step of conjugate gradients; any number of them makes a direction.

        `product`, float64[n], is (H - I) times `search`, and overwritten; so many passes are done.
        """
        self.new = False
        self._products += 1
        self._in_all += 1
        product[:-1] += self.search[:-1]
        product[-1] += self._ridge * self.search[-1]
        curvature = float(dot(self.search, product))
        if curvature > 0.0:  # else rounding has left nothing of it
            length = self._rho / curvature
            self._direction += length * self.search
            self._residual -= length * product
            scaled = self._residual / self._diagonal
            self._rho, before = float(dot(self._residual, scaled)), self._rho
            most = len(self.w) + _MORE_PASSES
            done = self._rho <= self._enough or self._products >= most or self._reaches_goal()
            done = done or self._in_all >= self._enough_products
            if not done and passes < self._most_passes - 1:
                self.search *= self._rho / before
                self.search += scaled
                return
        self.direct = self._in_all >= self._enough_products
        self._go()

    def _reaches_goal(self) -> bool:
        """Return whether the direction leads to half of the gap asked for.

        The residual is the gradient there, as far as the Hessian stays the same, and P - D half of
        its square. Of 327,000 flights, C = 10, products are 321 so, and 1,118 to a tenth of it.
        """
        if self._gap is None or self.certificate is None:
            return False
        left = float(dot(self._residual, self._residual))
        return left <= self._gap * self.certificate.primal < self.violation**2

    def _go(self) -> None:
        """Try the whole direction next."""
        self._slope = float(dot(self.gradient, self._direction))
        self._low, self._high, self._trials = (0.0, self._slope), (math.inf, 0.0), 0
        self._move(1.0)
        self.final = not self._slope < 0.0  # rounding hides what it gains

    def _move(self, length: float) -> None:
        """Make the point so many directions away the trial."""
        self.evaluates, self._length = True, length
        np.multiply(self._direction, length, out=self.trial)
        self.trial += self.origin


def curvature_along(H: Floats, x: Floats) -> float:
    """Return x' H x of a symmetric matrix whose lower triangle is read."""
    rows = enumerate(H)
    return float(sum(x[i] * (2.0 * dot(row[:i], x[:i]) + row[i] * x[i]) for i, row in rows))
