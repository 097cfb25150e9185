"""An interior point method for squared hinge loss, where features or rows are few.

Where a plane separates the rows, about as many rows have a loss as features are in use: the optimum
is a corner of what is feasible, and Newton steps go from one corner to the next. This goes through
the inside (Mehrotra, "On the implementation of a primal-dual interior point method", SIAM Journal
on Optimization 1992). It solves for all weights together, and takes about as many steps whatever C
is. With w = a - b and u_j = v_j - r_j w_j, products of pairs that stay above 0 go to 0:

    a_j (p_j - u_j),    b_j (p_j + u_j),    alpha_i (s_i f_i - 1 + alpha_i / (2 C_i))

Weights that cost nothing have no pairs, but u_j = 0. What all weights are solved for with is

    (E + X'HX) dw = r + X'H q,              d_alpha = H (q - X dw)
    (H^-1 + X E^-1 X') d_alpha = q - X E^-1 r,      dw = E^-1 (r + X'd_alpha)

with E and H diagonal and all rows times s_i: the first if features are fewer, else the second. In
that a weight that costs nothing is apart: it makes its r_j + sum_i x_ij d_alpha_i 0.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from blocklinear.kernels.primal import solve
from blocklinear.kernels.sums import dot

Floats = NDArray[np.float64]
Function = Callable[[Floats], Floats]
Solved = Callable[[Floats, Floats], tuple[Floats, Floats] | None]
"""dw and d_alpha of r and q, if rounding leaves them."""
_WITHIN = 0.99  # of the way to where the first number of a pair is 0


class InteriorPoint:
    """Weights and alpha of squared hinge loss inside their bounds.

    Parameters
    ----------
    target, cost : float64[n_rows]      s_i and C_i
    penalty, ridge : float64[m]         p_j and r_j
    alpha : float             of all rows at first, above 0
    decision : callable       w'x_i of weights: float64[n_rows] of float64[m]
    pull : callable           sum_i step_i x_ij: float64[m] of float64[n_rows]
    products : callable       sum_i h_i x_ij x_ik: float64[m, m] of float64[n_rows]; or, `by_rows`,
                              sum_j e_j x_ij x_kj: float64[n_rows, n_rows] of float64[m]
    by_rows : bool            one weight may cost nothing then

    Attributes
    ----------
    w : float64[m]
    """

    def __init__(
        self,
        target: Floats,
        cost: Floats,
        penalty: Floats,
        ridge: Floats,
        alpha: float,
        decision: Function,
        pull: Function,
        products: Function,
        by_rows: bool,
    ) -> None:
        self._decision, self._products, self._ridge = decision, products, ridge
        self._rows_fewer, self._free = by_rows, np.flatnonzero(penalty + ridge == 0.0)
        self._pull_of_step, self._n_rows = pull, len(cost)
        self._rows, self._penalised = np.flatnonzero(cost > 0.0), np.flatnonzero(penalty > 0.0)
        self._signs, self._flat = target[self._rows], 0.5 / cost[self._rows]
        self._penalty = penalty[self._penalised]
        m, n = len(self._penalised), len(self._rows)
        self._ends = [m, 2 * m]
        self.w = np.zeros(len(penalty))
        room = self._penalty + np.abs(self._pull(np.full(n, alpha))[self._penalised])
        # of each pair the first, and the second; all products are the same
        self._x = np.concatenate([alpha / room, alpha / room, np.full(n, alpha)])
        self._z = alpha / self._x

    @property
    def sparse(self) -> Floats:
        """`w`, but 0 where it is nearer to 0, of the largest |w_j|, than |u_j| to p_j, of p_j."""
        penalised, w = self._penalised, self.w.copy()
        up, down, _ = np.split(self._z, self._ends)
        sizes = np.abs(w[penalised])
        within = sizes * self._penalty < np.minimum(up, down) * sizes.max(initial=0.0)
        w[penalised[within]] = 0.0
        return w

    @property
    def step(self) -> Floats:
        """The dual point, s_i alpha_i; it need not be feasible."""
        return self._of_all(self._signs * self._x[self._ends[1] :])

    def _of_all(self, numbers: Floats) -> Floats:
        """Return float64[n_rows], 0 where C_i is, of numbers of the other rows."""
        found = np.zeros(self._n_rows)
        found[self._rows] = numbers
        return found

    def _pull(self, alpha: Floats) -> Floats:
        return self._pull_of_step(self._of_all(self._signs * alpha))

    def _margins(self, w: Floats) -> Floats:
        return self._signs * self._decision(w)[self._rows]

    @np.errstate(all="ignore")  # what overflows leaves no step
    def go_on(self) -> bool:
        """Take a step; return whether rounding left one."""
        x, z, penalised = self._x, self._z, self._penalised
        alpha, flat = x[self._ends[1] :], self._flat
        u = self._pull(alpha) - self._ridge * self.w
        bounds = [self._penalty - u[penalised], self._penalty + u[penalised]]
        missing = np.concatenate([*bounds, self._margins(self.w) + flat * alpha - 1.0]) - z
        up, down, _ = np.split(x / z, self._ends)
        soft = flat + z[self._ends[1] :] / alpha
        diagonal = self._ridge.copy()
        diagonal[penalised] += 1.0 / (up + down)
        solved = (self._by_rows if self._rows_fewer else self._by_features)(soft, diagonal)

        def change(more: Floats) -> tuple[Floats, Floats, Floats] | None:
            """Return by what products become so much `more`: changes of w, x and z."""
            by_up, by_down, _ = np.split((more - x * missing) / z, self._ends)
            of_rows = (more / x - missing)[self._ends[1] :]
            right = u.copy()
            right[penalised] = (by_up - by_down) / (up + down)
            found = solved(right, of_rows)
            if found is None:
                return None
            dw, d_alpha = found
            margins = self._margins(dw)
            du = (self._pull(d_alpha) - self._ridge * dw)[penalised]
            left = du if self._rows_fewer else dw[penalised] / (up + down) - right[penalised]
            dx = np.concatenate([by_up + up * left, by_down - down * left, d_alpha])
            return dw, dx, missing + np.concatenate([-du, du, margins + flat * d_alpha])

        found = change(-x * z)
        if found is None:
            return False
        _, dx, dz = found
        length = min(1.0, _longest(x, dx), _longest(z, dz))
        before, after = float(dot(x, z)), float(dot(x + length * dx, z + length * dz))
        found = change((after / before) ** 3 * before / len(x) - x * z - dx * dz)
        if found is None:
            return False
        dw, dx, dz = found
        length = min(1.0, _WITHIN * _longest(x, dx), _WITHIN * _longest(z, dz))
        self.w, self._x, self._z = self.w + length * dw, x + length * dx, z + length * dz
        return True

    def _by_features(self, soft: Floats, diagonal: Floats) -> Solved:
        """Return what solves for dw first, H^-1 and E being `soft` and `diagonal`."""
        products = self._products(self._of_all(1.0 / soft))
        products.flat[:: len(products) + 1] += diagonal

        def solved(right: Floats, of_rows: Floats) -> tuple[Floats, Floats] | None:
            dw = right + self._pull(of_rows / soft)
            if not solve(products.copy(), dw):
                return None
            return dw, (of_rows - self._margins(dw)) / soft

        return solved

    def _by_rows(self, soft: Floats, diagonal: Floats) -> Solved:
        """Return what solves for d_alpha first, a free weight being apart."""
        diagonal[self._free] = np.inf
        products = self._products(1.0 / diagonal)[np.ix_(self._rows, self._rows)]
        products *= self._signs
        products *= self._signs[:, np.newaxis]
        products.flat[:: len(products) + 1] += soft
        free = np.zeros(len(diagonal))
        free[self._free] = 1.0
        column = self._margins(free)
        by_free = column.copy()
        if len(self._free) and not solve(products.copy(), by_free):
            return lambda right, of_rows: None

        def solved(right: Floats, of_rows: Floats) -> tuple[Floats, Floats] | None:
            d_alpha = of_rows - self._margins(right / diagonal)
            if not solve(products.copy(), d_alpha):
                return None
            change = (dot(column, d_alpha) + right[self._free]) / dot(column, by_free)
            if len(change):
                d_alpha -= change * by_free
            dw = (right + self._pull(d_alpha)) / diagonal
            dw[self._free] = change
            return dw, d_alpha

        return solved


def _longest(x: Floats, change: Floats) -> float:
    """Return how many times a change can be added before a number is 0."""
    falls = change < 0.0
    return float((x[falls] / -change[falls]).min(initial=np.inf))
