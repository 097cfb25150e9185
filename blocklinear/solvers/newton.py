"""Newton steps on the primal, for squared hinge loss where coordinate descent is slow.

LIBLINEAR's -s 1 goes over to the primal after 300 iterations, and so do we: with few features, a
large C, or fixed blocks much alike, coordinate descent may need tens of thousands of passes where
truncated Newton (conjugate gradients on H s = -g, preconditioned by the diagonal, with
backtracking; Fan, appendices C and D) needs a hundred. Each product with H is a pass over the data.

The gradient pass gives the certificate for nothing: alpha_i = 2 C_i max(0, 1 - y_i w'x_i) is dual
feasible, and P(w) - D(alpha) = 1/2 |gradient|**2, with w' = sum alpha_i y_i x_i from the same pass.
What rounding may do to both is added, as in `certificate`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from blocklinear.kernels import primal as kernels
from blocklinear.kernels.sums import dot, squared_distance
from blocklinear.objectives.certificate import Certificate, norms_above, prove
from blocklinear.objectives.problems import Problem
from blocklinear.store.prefetch import Loaded
from blocklinear.store.row_arrays import RowArray

Floats = NDArray[np.float64]
_FORCING = 0.1  # how far conjugate gradients reduce the gradient before a step
_SUFFICIENT = 1e-4  # Armijo
_LEAST_STEP = 1e-6


@dataclass(frozen=True)
class Point:
    """A weight vector with its primal value, gradient, curvature and certificate."""

    w: Floats
    gradient: Floats
    curvature: Floats
    certificate: Certificate
    n_sv: int


class Newton:
    """Newton steps from a starting point.

    Parameters
    ----------
    passes : callable
        Returns an iterator over all groups, for one pass.
    problem : Problem
        With squared hinge loss.
    alpha : RowArray
        Takes the alpha of each point.
    bias : float
        Value of the bias feature, 0 for none.

    Attributes
    ----------
    n_passes : int            over the data, so far
    """

    def __init__(
        self,
        passes: Callable[[], Iterable[Loaded]],
        problem: Problem,
        alpha: RowArray,
        bias: float,
    ) -> None:
        self._passes, self._problem, self._alpha, self._bias = passes, problem, alpha, bias
        self.n_passes = 0

    def at(self, w: Floats) -> Point:
        """Evaluate `w`, float64[n_features + 1], in one pass."""
        pull, curvature, terms = np.zeros_like(w), np.ones_like(w), np.zeros(kernels.N_TERMS)
        square, n = dot(w, w), 0
        norm = float(norms_above(square))
        self.n_passes += 1
        for loaded in self._passes():
            group = loaded.group
            y, cost = self._problem.targets(group.labels), self._problem.costs(group)
            alpha = np.empty(group.n_rows)
            kernels.gradient_rows(
                group.indptr, group.indices, group.values, group.sq_norm, y, cost, self._bias, w,
                norm, alpha, pull, curvature, terms,
            )  # fmt: skip
            self._alpha.write(group.blocks, alpha)
            n += group.n_rows
        gradient, n_sv = w - pull, int(terms[kernels.N_SUPPORT])
        certificate = prove(
            square, squared_distance(w, pull), terms[: kernels.GAP + 1],
            terms[kernels.REACH : kernels.N_SUPPORT + 1], n, drift=0.0, average=False,
        )  # fmt: skip
        return Point(w, gradient, curvature, certificate, n_sv)

    def _product(self, v: Floats) -> Floats:
        """Return H v in one pass, H at the point evaluated last."""
        product = v.copy()
        self.n_passes += 1
        for loaded in self._passes():
            group = loaded.group
            y, cost = self._problem.targets(group.labels), self._problem.costs(group)
            kernels.hessian_rows(
                group.indptr, group.indices, group.values, y, cost, self._bias,
                self._alpha.read(group.blocks), v, product,
            )  # fmt: skip
        return product

    def _direction(self, point: Point, most_passes: int) -> Floats:
        """Solve H s = -gradient roughly; any number of iterations gives a descent direction."""
        step, residual = np.zeros_like(point.w), -point.gradient
        scaled = residual / point.curvature
        search, rho = scaled.copy(), float(dot(residual, scaled))
        enough = _FORCING**2 * rho
        for _ in range(max(1, most_passes)):
            product = self._product(search)
            curvature = float(dot(search, product))
            if not curvature > 0.0:  # it is at least |search|^2: rounding has left nothing of it
                break
            length = rho / curvature
            step += length * search
            residual -= length * product
            scaled = residual / point.curvature
            rho, before = float(dot(residual, scaled)), rho
            if rho <= enough:
                break
            search *= rho / before
            search += scaled
        return step

    def step(self, point: Point, most_passes: int) -> Point | None:
        """Return the next point; None when rounding leaves no way down.

        Parameters
        ----------
        point : Point
            What `at` or `step` returned last.
        most_passes : int
            For the conjugate gradients.
        """
        direction = self._direction(point, most_passes)
        slope = float(dot(point.gradient, direction))
        length = 1.0
        while length >= _LEAST_STEP and slope < 0.0:
            found = self.at(point.w + length * direction)
            aim = point.certificate.primal + _SUFFICIENT * length * slope
            if found.certificate.primal <= aim:
                return found
            length /= 2
        return None
