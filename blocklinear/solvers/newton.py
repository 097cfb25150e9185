"""Newton steps on the primal, for squared hinge loss where coordinate descent is slow.

LIBLINEAR's -s 1 goes over to the primal after 300 iterations, and so do we: with few features, a
large C, or fixed blocks much alike, coordinate descent may need tens of thousands of passes where
truncated Newton (conjugate gradients on H s = -g, preconditioned by the diagonal, with
backtracking; Fan, appendices C and D) needs a hundred. Each outer iteration is one pass over the
data: it evaluates a point, or multiplies H by a vector.

Evaluating a point gives its certificate for nothing: alpha_i = 2 C_i max(0, 1 - y_i w'x_i) is dual
feasible, and P(w) - D(alpha) = 1/2 |gradient|**2, with w' = sum alpha_i y_i x_i from the same pass.
What rounding may do to both is added, as in `objectives.certificate`.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklinear.kernels import primal as kernels
from blocklinear.kernels.sums import dot, squared_distance
from blocklinear.objectives.certificate import Certificate, norms_above, prove
from blocklinear.objectives.problems import Problem
from blocklinear.options import TrainOptions
from blocklinear.solvers.protocol import Estimate, Solver
from blocklinear.store.groups import Group
from blocklinear.store.prefetch import Loaded
from blocklinear.store.row_arrays import RowArray

Floats = NDArray[np.float64]
_FORCING = 0.1  # how far conjugate gradients reduce the gradient before a step
_SUFFICIENT = 1e-4  # Armijo
_LEAST_STEP = 1e-6
_MORE_PASSES = 50  # of conjugate gradients than there are weights, which rounding may need


class NewtonSteps:
    """Newton steps from where another solver stands.

    Parameters
    ----------
    before : Solver
        What led there; its weights and alpha are worked on.
    w : float64[n_features + 1]
        Its weights.
    alpha : RowArray
        Its alpha.
    problem : Problem
        With squared hinge loss.
    options : TrainOptions
    """

    def __init__(
        self, before: Solver, w: Floats, alpha: RowArray, problem: Problem, options: TrainOptions
    ) -> None:
        self._before, self._w, self._alpha, self._problem = before, w, alpha, problem
        self._max_outer = options.max_outer or math.inf
        self.bias = before.bias
        self._trial = w.copy()  # the point to be evaluated
        self._gradient, self._curvature = np.zeros_like(w), np.zeros_like(w)  # at `w`
        self._sum, self._diagonal = np.zeros_like(w), np.zeros_like(w)  # of the pass under way
        self._direction, self._residual = np.zeros_like(w), np.zeros_like(w)
        self._search = np.zeros_like(w)  # of the conjugate gradients
        self._terms = np.zeros(kernels.N_TERMS)  # of the pass under way, with the rows it has seen
        self._rows = 0
        self._certificate: Certificate | None = None  # of `w`
        self._n_sv = 0
        self._multiplying = False  # whether the pass multiplies H by `search`
        self._products, self._rho, self._enough = 0, 0.0, 0.0
        self._length, self._slope = 1.0, 0.0  # of the step that is tried
        self._new, self._final, self._adopted = False, False, False

    @property
    def costs(self) -> Sequence[float]:
        """Nothing: there is one problem."""
        return ()

    def __len__(self) -> int:
        return 1

    @property
    def state(self) -> dict[str, Any]:
        """What a checkpoint must know before it can fill `arrays`, as JSON."""
        return self._before.state | {
            "newton": {
                "certificate": self._certificate and self._certificate.to_dict(),
                "n_sv": self._n_sv, "rows": self._rows, "multiplying": self._multiplying,
                "products": self._products, "rho": self._rho, "enough": self._enough,
                "length": self._length, "slope": self._slope, "new": self._new,
                "final": self._final,
            }
        }  # fmt: skip

    @state.setter
    def state(self, state: dict[str, Any]) -> None:
        own = state["newton"]
        self._certificate = own["certificate"] and Certificate(**own["certificate"])
        self._n_sv, self._rows = own["n_sv"], own["rows"]
        self._multiplying, self._products = own["multiplying"], own["products"]
        self._rho, self._enough = own["rho"], own["enough"]
        self._length, self._slope = own["length"], own["slope"]
        self._new, self._final = own["new"], own["final"]

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that a checkpoint must keep, by name."""
        return self._before.arrays | {
            "trial": self._trial, "gradient": self._gradient, "curvature": self._curvature,
            "sum": self._sum, "diagonal": self._diagonal, "direction": self._direction,
            "residual": self._residual, "search": self._search, "newton": self._terms,
        }  # fmt: skip

    @property
    def row_arrays(self) -> Mapping[str, RowArray]:
        """What is known of rows other than alpha, by the names of a checkpoint."""
        return self._before.row_arrays

    def restore(self, stream: Iterable[Loaded]) -> None:
        """Fetch what is kept in memory only: nothing."""

    def begin(self, steps: int) -> None:
        """Start a pass of so many groups."""
        self._new = False
        if self._multiplying:
            self._sum[:] = self._search
            return
        self._sum[:], self._diagonal[:], self._terms[:], self._rows = 0.0, 1.0, 0.0, 0

    def step(
        self, group: Group, outer: int, number: int, steps: int, halt: Callable[[], bool]
    ) -> None:
        """Add what a group contributes to the pass; after the last one take its consequence."""
        y, cost = self._problem.targets(group.labels), self._problem.costs(group)
        entries = (group.indptr, group.indices, group.values)
        if self._multiplying:
            kernels.hessian_rows(
                *entries, y, cost, self.bias, self._alpha.read(group.blocks), self._search,
                self._sum,
            )  # fmt: skip
        else:
            alpha = np.empty(group.n_rows)
            norm = float(norms_above(dot(self._trial, self._trial)))
            kernels.gradient_rows(
                *entries, group.sq_norm, y, cost, self.bias, self._trial, norm, alpha, self._sum,
                self._diagonal, self._terms,
            )  # fmt: skip
            self._alpha.write(group.blocks, alpha)
            self._rows += group.n_rows
        if number == steps - 1:
            if self._multiplying:
                self._go_on_with_gradients(outer)
            else:
                self._judge_trial()

    def _judge_trial(self) -> None:
        """Move to the point that was evaluated if it is good enough; else try a shorter step."""
        square = dot(self._trial, self._trial)
        found = prove(
            square, squared_distance(self._trial, self._sum), self._terms[: kernels.GAP + 1],
            self._terms[kernels.REACH : kernels.N_SUPPORT + 1], self._rows, drift=0.0,
            average=False,
        )  # fmt: skip
        if self._certificate is not None:
            aim = self._certificate.primal + _SUFFICIENT * self._length * self._slope
            if not found.primal <= aim:
                self._try(self._length / 2)
                return
        self._certificate, self._n_sv = found, int(self._terms[kernels.N_SUPPORT])
        self._w[:], self._new = self._trial, True
        np.subtract(self._w, self._sum, out=self._gradient)
        self._curvature[:] = self._diagonal
        # conjugate gradients: solve H s = -gradient roughly
        self._direction[:] = 0.0
        np.negative(self._gradient, out=self._residual)
        np.divide(self._residual, self._curvature, out=self._search)
        self._rho = float(dot(self._residual, self._search))
        self._enough, self._products, self._multiplying = _FORCING**2 * self._rho, 0, True

    def _go_on_with_gradients(self, outer: int) -> None:
        """Take a step of conjugate gradients, `sum` being H `search`; any number of them will do.

        The last pass that the limit leaves evaluates what they have come to.
        """
        self._products += 1
        curvature = float(dot(self._search, self._sum))
        if curvature > 0.0:  # it is at least |search|^2: else rounding has left nothing of it
            length = self._rho / curvature
            self._direction += length * self._search
            self._residual -= length * self._sum
            scaled = self._residual / self._curvature
            self._rho, before = float(dot(self._residual, scaled)), self._rho
            most = len(self._w) + _MORE_PASSES
            done = self._rho <= self._enough or self._products >= most
            if not done and outer < self._max_outer - 1:
                self._search *= self._rho / before
                self._search += scaled
                return
        self._slope = float(dot(self._gradient, self._direction))
        self._multiplying = False
        self._try(1.0 if self._slope < 0.0 else 0.0)

    def _try(self, length: float) -> None:
        """Evaluate the point that is so many directions away next, unless rounding hides it."""
        self._length, self._final = length, length < _LEAST_STEP
        np.multiply(self._direction, length, out=self._trial)
        self._trial += self._w

    def sample_gap(self, group: Group) -> None:
        """Sample nothing: P - D is known."""

    def estimate(self) -> Estimate:
        """Return the values of the point reached, as certified."""
        assert self._certificate is not None  # the first pass evaluates a point
        return Estimate(
            primal=self._certificate.primal,
            dual=self._certificate.dual,
            violation=float(np.abs(self._gradient).max(initial=0.0)),
            n_sv=self._n_sv,
            steps=0,
            gap=self._certificate.gap,
            middle_gap=self._certificate.gap,
            rise=math.inf,
            exact=True,
            final=self._final,
            new=self._new,
        )

    def certify(self, stream: Iterable[Loaded], enough: float | None = None) -> Certificate | float:
        """Return the certificate of the point reached; of adopted weights after a pass."""
        if self._adopted or self._certificate is None:
            return self._before.certify(stream, enough)
        return self._certificate

    def drop_solved(self) -> bool:
        """Say that there is nothing to drop."""
        return False

    def chosen(self, certificate: Certificate) -> Floats:
        """Return the weights that a certificate is about, float64[n_features + 1, 1]."""
        return self._before.chosen(certificate)

    def proven(self) -> list[Certificate]:
        """Return nothing: there is one model."""
        return []

    def current(self) -> Floats:
        """Return the weights as they are, float64[n_features + 1, 1]."""
        return self._before.current()

    def adopt(self, weights: Floats) -> None:
        """Make other weights, float64[n_features + 1, 1], the candidates."""
        self._adopted = True
        self._before.adopt(weights)

    def successor(self) -> Solver | None:
        """Return nothing: no solver goes on where this one does not converge."""
        return None

    def discard(self) -> None:
        """Delete the scratch files."""
        self._before.discard()
