r"""Batches that are seen once: one step of dual coordinate descent a row, and the mean of all w.

After n rows the problem is that of `fit` on these n rows, with the same C:

    min_w  1/2 w'w + sum_{i <= n} C_i loss_i(w).

Its dual has one variable a row. That of a new row begins at 0, and is set once to what is best for
it while the others stay (Hsieh et al., ICML 2008, Eq. 9; one pass of Algorithm 1, block by block as
Yu et al., 2010, Algorithm 2). So there is no step size, the dual value never falls, and alpha stays
feasible: C bounds what a row can move, however many rows there will be.

The last w depends much on the last rows. The model is the mean of all w, that after row t with
weight t (Lacoste-Julien, Schmidt and Bach, 2012):

    mean = sum_t t w_t / S_n = w_n - sum_t S_{t-1} (w_t - w_{t-1}) / S_n,   S_n = n (n + 1) / 2.

One pass over a9a (30,000 rows, C = 1, hinge loss, batches of 1,000) ends with a primal value 1.02
times the least one; Pegasos, whose lambda needs n to be known, with 4.4 times, 4.9 with the mean.
"""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from blocklinear.errors import InputError
from blocklinear.kernels import dual
from blocklinear.objectives.problems import LEAST_COST, SOLVERS
from blocklinear.options import TrainOptions

Floats = NDArray[np.float64]


class OnePass:
    """Weights, and what their mean needs.

    Parameters
    ----------
    n_columns, n_features : int

    Attributes
    ----------
    weights : float64[n_columns, n_features + 1]
        After the last row; the last column is that of the bias feature.
    n_rows : int
        Seen so far.
    """

    def __init__(self, n_columns: int, n_features: int) -> None:
        self.weights = np.zeros((n_columns, n_features + 1))
        self._lag = np.zeros_like(self.weights)  # sum of S_{t-1} (w_t - w_{t-1})
        self.n_rows = 0

    @classmethod
    def after(cls, coef: Floats, bias_weights: Floats, n_rows: int) -> Self:
        """Go on from weights that were fitted to `n_rows` rows: all of them count.

        Parameters
        ----------
        coef : float64[n_columns, n_features]
        bias_weights : float64[n_columns]
        n_rows : int
        """
        made = cls(*coef.shape)
        made.weights[:, :-1], made.weights[:, -1] = coef, bias_weights
        made.n_rows = n_rows
        return made

    def learn(self, X: Any, targets: Floats, costs: Floats, options: TrainOptions) -> None:
        """Set the alpha of each row of a batch, in random order.

        Parameters
        ----------
        X : ndarray or CSR matrix, shape (n_rows, n_features)
        targets : float64[n_columns, n_rows]
            +1 or -1, or the value in regression.
        costs : float64[n_columns, n_rows]
            C_i.
        options : TrainOptions
            Solver, epsilon, bias and seed.

        Raises
        ------
        InputError
            If the squares of a row overflow, or the weights do, or there is no room to compute with
            C_i.
        """
        if not ((costs >= LEAST_COST) & (costs < np.inf)).all():
            raise InputError(
                f"C times weights of rows and classes is from {costs.min()} to {costs.max()}, but "
                f"must be finite and at least {LEAST_COST}", "change C or the weights",
            )  # fmt: skip
        rows = csr_array(X)
        if not rows.has_canonical_format:
            rows = rows.copy()
            rows.sum_duplicates()
        indptr, lengths = rows.indptr.astype(np.int64), np.diff(rows.indptr)
        indices, values = rows.indices.astype(np.uint32), rows.data.astype(np.float64)
        owner = np.repeat(np.arange(len(lengths)), lengths)
        with np.errstate(over="ignore"):
            sq_norm = np.bincount(owner, values * values, len(lengths))
        bias, solver = max(options.bias, 0.0), SOLVERS[options.solver]
        if not np.isfinite(sq_norm + bias * bias).all():
            raise InputError("the squares of a row of X overflow", "scale the data")
        order = np.random.default_rng([options.seed, self.n_rows]).permutation(len(lengths))
        turn = np.empty(len(order))
        turn[order] = self.n_rows + np.arange(len(order), dtype=np.float64)
        before = 0.5 * turn * (turn + 1.0)
        for k, (target, cost) in enumerate(zip(targets, costs, strict=True)):
            alpha, stats = np.zeros(len(order)), np.zeros(dual.N_STATS)
            dual.dcd_epoch(
                (indptr[:-1], indptr[1:], indices, values, sq_norm), (target, cost), order,
                (solver.kind, options.epsilon), bias, alpha, self.weights[k], stats, dual.PERMUTE,
                np.zeros(0, np.float32), np.zeros(dual.N_ADAPT),
                np.zeros(0, np.uint16), np.zeros(0),
            )  # fmt: skip
            lag = before * alpha * (1.0 if solver.regression else target)
            self._lag[k, :-1] += np.bincount(indices, values * lag[owner], self._lag.shape[1] - 1)
            self._lag[k, -1] += bias * lag.sum()
        self.n_rows += len(order)
        if not np.isfinite(self.weights).all():
            raise InputError("the weights overflow", "scale the data, and fit anew")

    def average(self) -> Floats:
        """Return the mean of all w, float64[n_columns, n_features + 1]."""
        n = float(self.n_rows)
        return self.weights - self._lag / max(0.5 * n * (n + 1.0), 1.0)
