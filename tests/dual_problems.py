"""Random problems for the dual kernels, sparse for the kernels and dense for the reference."""

from dataclasses import dataclass

import numpy as np
import pytest
import reference
from hypothesis import strategies as st
from kernel_rows import kernel_rows

from blocklinear.kernels import dual, losses

KINDS = [losses.HINGE, losses.SQUARED_HINGE, losses.LOGISTIC, losses.L1_SVR, losses.L2_SVR]
NAMES = ["hinge", "squared_hinge", "logistic", "l1_svr", "l2_svr"]
every_loss = pytest.mark.parametrize("kind", KINDS, ids=NAMES)
NONE = np.empty(0, np.float32)
UNTRACKED = np.empty(0, np.uint16), np.empty(0)


@dataclass(frozen=True)
class Problem:
    """Rows of one group with their alpha."""

    kind: int
    rows: np.ndarray  # dense, as the kernels see them: without bias
    target: np.ndarray
    cost: np.ndarray
    alpha: np.ndarray
    bias: float = 0.0
    epsilon: float = 0.0
    dtype: str = "float64"

    def __len__(self):
        return len(self.target)

    @property
    def X(self):
        return np.column_stack([self.rows.astype(float), np.full(len(self), self.bias)])

    @property
    def cut(self):
        return kernel_rows(self.rows, self.dtype)

    @property
    def data(self):
        return self.target, self.cost

    @property
    def w(self):
        return reference.weights(self.X, self.target, self.cost, self.alpha, self.kind)

    @property
    def loss(self):
        return self.kind, self.epsilon

    def primal(self, w):
        return reference.primal_value(self.X, self.target, self.cost, w, *self.loss)

    def dual(self, alpha):
        return reference.dual_value(self.X, self.target, self.cost, alpha, *self.loss)

    def slopes(self, alpha, i):
        return reference.slopes(self.X, self.target, self.cost, alpha, i, *self.loss)


def make(kind, seed, n=6, d=4, density=0.6, dtype="float64", **changes):
    """Return a problem whose alpha is at 0, at a bound or between; row 0 may be empty."""
    rng = np.random.default_rng(seed)
    rows = (rng.normal(size=(n, d)) * (rng.random((n, d)) < density)).astype(dtype)
    target = rng.choice([-1.0, 1.0], n) if kind <= losses.LOGISTIC else rng.normal(size=n)
    cost = rng.uniform(0.01, 10, n)
    of = np.where(kind in (losses.SQUARED_HINGE, losses.L2_SVR), 3, cost)
    low, high = reference.bounds(of, kind)
    low, high = np.maximum(low, -3 * cost), np.minimum(high, 3 * cost)
    between = low + rng.uniform(0.01, 0.99, n) * (high - low)
    alpha = np.choose(rng.integers(0, 4, n), [np.zeros(n), low, high, between])
    return Problem(kind, rows, target, cost, alpha, dtype=dtype, **changes)


problems = st.builds(
    make,
    kind=st.sampled_from(KINDS),
    seed=st.integers(0, 2**32),
    n=st.integers(1, 7),
    d=st.integers(1, 5),
    density=st.floats(0, 1),
    dtype=st.sampled_from(["float64", "float32"]),
    bias=st.sampled_from([0.0, 1.0, 0.3]),
    epsilon=st.sampled_from([0.0, 0.1, 1.0]),
)


def no_stats():
    return np.array([-np.inf, np.inf, 0.0, 0.0, 0.0, 0.0])


def run(
    p, order, alpha, w, selection=dual.PERMUTE, preference=NONE, adapt=None, touch=None,
    tracked=UNTRACKED,
):  # fmt: skip
    """Visit rows, updating alpha and w; return what was seen."""
    touch = no_stats() if touch is None else touch
    dual.dcd_epoch(
        p.cut, p.data, np.array(order, np.int64), p.loss, p.bias, alpha, w, touch, selection,
        preference, np.zeros(2) if adapt is None else adapt, *tracked,
    )  # fmt: skip
    return touch


def close(got, expected, rtol=1e-9, scale=1.0):
    np.testing.assert_allclose(got, expected, rtol=rtol, atol=rtol * scale)
