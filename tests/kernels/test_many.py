import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import programs
import pytest
import reference
from effort import examples
from hypothesis import given
from hypothesis import strategies as st
from kernel_rows import kernel_rows

from blocklinear.kernels import dual, losses

KINDS = [losses.HINGE, losses.SQUARED_HINGE, losses.LOGISTIC, losses.L1_SVR, losses.L2_SVR]
NAMES = ["hinge", "squared_hinge", "logistic", "l1_svr", "l2_svr"]
every_loss = pytest.mark.parametrize("kind", KINDS, ids=NAMES)
SIZES = [1, 2, 3, 8, 17]


@dataclass(frozen=True)
class Problem:
    """Random rows and models; some pairs have C = 0."""

    kind: int
    rows: np.ndarray  # dense, without the bias feature
    target: np.ndarray
    code: np.ndarray
    fold: np.ndarray
    weight: np.ndarray
    positive: np.ndarray
    held_out: np.ndarray
    cost: np.ndarray
    bias: float = 0.0
    epsilon: float = 0.0
    dtype: str = "float64"

    @property
    def shape(self):
        return len(self.rows), len(self.positive)

    @property
    def cut(self):
        return kernel_rows(self.rows, self.dtype)

    @property
    def about(self):
        return self.target, self.code, self.fold, self.weight

    @property
    def models(self):
        return self.positive, self.held_out, self.cost, self.kind, self.epsilon

    def targets(self, j):
        if self.kind >= losses.L1_SVR:
            return self.target
        return np.where(self.code == self.positive[j], 1.0, -1.0)

    def costs(self, j):
        C = self.weight * np.where(self.targets(j) > 0, self.cost[j, 1], self.cost[j, 0])
        return np.where(self.fold == self.held_out[j], 0.0, C)

    def pick(self, models):
        """Return the problem of some of the models."""
        return replace(
            self, positive=self.positive[models], held_out=self.held_out[models],
            cost=self.cost[models],
        )  # fmt: skip


def make(kind, seed, M, n=9, d=5, density=0.6, dtype="float64", **changes):
    """Return a problem of four classes and three folds; one row is empty, one has no weight."""
    rng = np.random.default_rng(seed)
    rows = (rng.normal(size=(n, d)) * (rng.random((n, d)) < density)).astype(dtype)
    weight = rng.uniform(0.1, 3, n)
    rows[rng.integers(n)] = 0
    weight[rng.integers(n)] = 0
    cost = 10.0 ** rng.uniform(-2, 1, (M, 2))
    cost[rng.random((M, 2)) < 0.1] = 0
    return Problem(
        kind, rows, rng.normal(size=n), rng.integers(0, 4, n, np.int32),
        rng.integers(0, 3, n, np.int32), weight, rng.integers(0, 4, M, np.int32),
        rng.integers(-1, 3, M, np.int32), cost, dtype=dtype, **changes,
    )  # fmt: skip


problems = st.builds(
    make,
    kind=st.sampled_from(KINDS),
    seed=st.integers(0, 2**32),
    M=st.sampled_from(SIZES),
    n=st.integers(1, 9),
    d=st.integers(1, 12),
    density=st.floats(0, 1),
    dtype=st.sampled_from(["float64", "float32"]),
    bias=st.sampled_from([0.0, 1.0, 0.3]),
    epsilon=st.sampled_from([0.0, 0.1, 1.0]),
)


@dataclass
class State:
    """What a epoch changes."""

    alpha: np.ndarray
    W: np.ndarray
    stats: np.ndarray
    span: np.ndarray
    worth: np.ndarray


def fresh(p):
    n, M = p.shape
    stats = np.zeros((M, dual.N_STATS))
    stats[:, dual.PG_MAX], stats[:, dual.PG_MIN] = -np.inf, np.inf
    W = np.zeros((p.rows.shape[1] + 1, M))
    return State(np.zeros((n, M)), W, stats, np.zeros(n, np.uint16), np.full(n, np.nan))


def epoch(p, order, s, first=0, last=None):
    s.span[order] = (p.shape[1] if last is None else last) << 8 | first
    dual.dcd_many(
        p.cut, p.about, np.array(order, np.int64), p.models, p.bias, s.alpha, s.W,
        s.stats, s.span, s.worth,
    )  # fmt: skip


def swept(p, epochs=3, seed=0):
    rng, s = np.random.default_rng(seed), fresh(p)
    for _ in range(epochs):
        epoch(p, rng.permutation(p.shape[0]), s)
    return s


def alone(p, j, orders, alpha, w, touch):
    """The same for one model by `dcd_epoch`."""
    for order in orders:
        dual.dcd_epoch(
            p.cut, (p.targets(j), p.costs(j)), np.array(order, np.int64), (p.kind, p.epsilon),
            p.bias, alpha, w, touch, dual.PERMUTE, np.empty(0, np.float32), np.zeros(2),
            np.empty(0, np.uint16), np.empty(0),
        )  # fmt: skip


def close(got, expected, rtol=1e-12, scale=1.0):
    np.testing.assert_allclose(got, expected, rtol=rtol, atol=rtol * scale)


# -- The epoch


@examples(100)
@given(p=problems, seed=st.integers(0, 99))
def test_each_model_goes_as_if_it_were_alone(p, seed):
    n, M = p.shape
    rng, many = np.random.default_rng(seed), fresh(p)
    orders = [rng.permutation(n), rng.permutation(n)[: n // 2 + 1], rng.permutation(n)]
    for order in orders:
        epoch(p, order, many)
    one = fresh(p)
    # errors grow with each step, most where 1 / (x'x + D) is large
    rtol = 1e-12 if p.kind != losses.LOGISTIC else 1e-9
    for j in range(M):
        alpha, w, touch = np.zeros(n), np.zeros(len(one.W)), one.stats[j]
        alone(p, j, orders, alpha, w, touch)
        size = 1 + abs(alpha).max()
        close(many.alpha[:, j], alpha, rtol, size)
        close(many.W[:, j], w, rtol, size)
        close(many.stats[j], touch, rtol, size**2)


@pytest.mark.parametrize("M", SIZES)
@every_loss
def test_long_rows_and_many_epochs(kind, M):
    p = make(kind, M, M, n=40, d=101, bias=1.0, epsilon=0.1)
    n, _ = p.shape
    orders = [np.random.default_rng(e).permutation(n) for e in range(4)]
    many = fresh(p)
    for order in orders:
        epoch(p, order, many)
    for j in range(M):
        alpha, w, touch = np.zeros(n), np.zeros(102), fresh(p).stats[j]
        alone(p, j, orders, alpha, w, touch)
        close(many.alpha[:, j], alpha, 1e-9)
        close(many.W[:, j], w, 1e-9)
        close(many.stats[j], touch, 1e-9)


@every_loss
def test_a_model_has_the_same_bits_in_any_company(kind):
    p = make(kind, 7, 17, n=30, d=40, bias=1.0, epsilon=0.1)
    together = swept(p)
    for models in ([0], [16], [3, 4, 5], [9, 2], list(range(8)), list(range(16, 3, -1))):
        apart = swept(p.pick(models))
        assert apart.alpha.tobytes() == together.alpha[:, models].tobytes()
        assert apart.W.tobytes() == together.W[:, models].tobytes()
        assert apart.stats.tobytes() == together.stats[models].tobytes()


@examples(67)
@given(p=problems, i=st.integers(0, 8))
def test_a_visit_reports_what_moved_and_what_it_was_worth(p, i):
    n, M = p.shape
    i %= n
    s = swept(p, epochs=1)
    before, seen = s.alpha.copy(), s.stats[:, dual.GAIN].copy()
    s.span[:], s.worth[:] = 1 << 8, np.nan
    epoch(p, [i], s)
    a, C = s.alpha[i], np.array([p.costs(j)[i] for j in range(M)])
    inside = a != 0
    if p.kind not in (losses.SQUARED_HINGE, losses.L2_SVR):
        inside &= abs(a) != C
    moving = np.flatnonzero((a != before[i]) & inside)
    assert s.span[i] == (moving[-1] + 1 << 8 | moving[0] if len(moving) else 0)
    gains = s.stats[:, dual.GAIN] - seen
    close(s.worth[i], gains.sum(), 1e-9, 1 + abs(s.stats[:, dual.GAIN]).sum())
    others = np.arange(n) != i
    assert (s.span[others] == 1 << 8).all()
    assert np.isnan(s.worth[others]).all()
    assert s.alpha[others].tobytes() == before[others].tobytes()


@every_loss
@pytest.mark.parametrize(("first", "last"), [(0, 1), (3, 4), (2, 9), (7, 17), (0, 17), (5, 5)])
def test_models_out_of_the_span_of_a_row_are_left_alone(kind, first, last):
    p = make(kind, 5, 17, n=30, d=40, bias=1.0, epsilon=0.1)
    s = swept(p)
    other, order = swept(p), np.random.default_rng(9).permutation(30)
    epoch(p, order, s, first, last)
    epoch(p, order, other)
    before = swept(p)
    for j in range(17):
        expected = other if first <= j < last else before
        assert s.alpha[:, j].tobytes() == expected.alpha[:, j].tobytes()
        assert s.W[:, j].tobytes() == expected.W[:, j].tobytes()
        assert s.stats[j].tobytes() == expected.stats[j].tobytes()


def test_moving_needs_a_change_that_ends_between_the_bounds():
    for cost, moving in ((1.0, True), (0.25, False)):  # x'x = 2: alpha = 1/2, or C if that is less
        p = replace(
            make(losses.HINGE, 0, 1), rows=np.full((1, 2), 1.0), target=np.zeros(1),
            code=np.zeros(1, np.int32), fold=np.zeros(1, np.int32), weight=np.ones(1),
            positive=np.zeros(1, np.int32), held_out=np.full(1, -1, np.int32),
            cost=np.full((1, 2), cost),
        )  # fmt: skip
        s = fresh(p)
        epoch(p, [0], s)
        assert s.alpha[0, 0] == min(cost, 0.5)
        assert s.span[0] == moving << 8
        assert s.worth[0] == s.alpha[0, 0] - s.alpha[0, 0] ** 2
        epoch(p, [0], s)  # nothing is left to do
        assert not s.span[0]
        assert s.worth[0] == 0


@every_loss
def test_pairs_without_cost_are_left_out(kind):
    p = make(kind, 3, 8, bias=1.0)
    s = swept(p)
    left_out = np.array([p.costs(j) == 0 for j in range(8)]).T
    assert left_out.any(0).all()
    assert not s.alpha[left_out].any()
    assert s.alpha[~left_out].any()
    np.testing.assert_array_equal(s.stats[:, dual.STEPS], 3 * (~left_out).sum(0))
    whole = left_out.all(1)
    assert whole.any()
    assert not s.span[whole].any()
    assert not s.worth[whole].any()


# -- Values


@examples(50)
@given(p=problems)
def test_dual_terms_and_certificates_are_those_of_each_model(p):
    _, M = p.shape
    s = swept(p, epochs=2)
    average = np.random.default_rng(1).normal(size=s.W.shape)
    kept = s.alpha.copy()
    norms = np.linalg.norm([s.W, average], axis=1)
    terms, recomputed = np.ones((M, dual.N_TERMS)), np.ones_like(s.W)  # added to
    sums, reach = np.ones((2, losses.N_SUMS, M)), np.ones((losses.N_REACHES, M))
    balance = np.random.default_rng(2).choice([0.0, 0.3, 1.0], (2, M))
    dual.add_many_dual_terms(p.about, p.models, s.alpha, terms)
    about = p.cut, p.about, p.models, p.bias, s.alpha, balance, s.W
    dual.certify_many(*about, average, True, norms, recomputed, sums, reach)
    alone, again, others = np.ones((2, losses.N_SUMS, M)), np.ones_like(s.W), np.ones_like(reach)
    dual.certify_many(*about, average, False, norms, again, alone, others)
    assert again.tobytes() == recomputed.tobytes()
    assert others.tobytes() == reach.tobytes()
    assert np.array_equal(alone[0], sums[0])
    assert (alone[1] == 1.0).all()
    without = np.ones((2, losses.N_SUMS, M))
    none = np.zeros((0, s.W.shape[1]))
    dual.certify_many(*about, average, True, norms, none, without, others)
    assert np.array_equal(without, sums)
    assert s.alpha.tobytes() == kept.tobytes()
    X = np.column_stack([p.rows.astype(float), np.full(len(p.rows), p.bias)])
    for j in range(M):
        alpha, t, C = np.ascontiguousarray(s.alpha[:, j]), p.targets(j), p.costs(j)
        one_terms, one_w = np.ones(dual.N_TERMS), np.ones(len(average))
        one_sums, one_reach = np.ones((2, losses.N_SUMS)), np.ones(losses.N_REACHES)
        dual.add_dual_terms((t, C), (p.kind, p.epsilon), alpha, one_terms)
        candidates = s.W[:, j].copy(), average[:, j].copy()
        dual.certify_rows(
            p.cut, (t, C), (p.kind, p.epsilon), p.bias, alpha, balance[:, j].copy(), *candidates,
            True, norms[:, j].copy(), one_w, one_sums, one_reach,
        )  # fmt: skip
        assert terms[j].tobytes() == one_terms.tobytes()
        loss, one_loss = (x[:, losses.LOSS] + x[:, losses.LOW] for x in (sums[:, :, j], one_sums))
        close(loss, one_loss, 1e-12, one_loss.max())
        close(
            sums[:, losses.GAP_TERM_BOUND, j],
            one_sums[:, losses.GAP_TERM_BOUND],
            1e-12,
            one_loss.max(),
        )
        close(reach[:, j], one_reach, 1e-12, one_reach.max())
        close(recomputed[:, j], one_w, 1e-12, 1 + abs(alpha).max())
        alpha = alpha * np.where(reference.signs(t, p.kind) * alpha > 0, *balance[:, j])
        expected = reference.certificate(X, t, C, alpha, *candidates, p.kind, p.epsilon)
        close(recomputed[:, j] - 1, expected[0], 1e-9, 1 + abs(alpha).max())
        close(loss - 2, expected[1], 1e-9, one_loss.max())


@every_loss
def test_alpha_outside_of_its_domain_proves_nothing(kind):
    p = make(kind, 3, 8, bias=1.0)
    n, M = p.shape
    rng = np.random.default_rng(3)
    C = np.array([p.costs(j) for j in range(M)]).T
    alpha = rng.normal(size=(n, M)) * 3.0 * C
    alpha[0], alpha[1] = np.nan, np.inf
    low, high = reference.bounds(C, kind)
    feasible = np.clip(np.where(np.isfinite(alpha), alpha, 0.0), low, high)
    W = rng.normal(size=swept(p).W.shape)
    W[:, M:] = 0.0
    norms = np.linalg.norm([W, W], axis=1)
    found = []
    for numbers in (alpha, feasible):
        terms, recomputed = np.zeros((M, dual.N_TERMS)), np.zeros_like(W)
        sums, reach = np.zeros((2, losses.N_SUMS, M)), np.zeros((losses.N_REACHES, M))
        dual.add_many_dual_terms(p.about, p.models, numbers, terms)
        dual.certify_many(
            p.cut, p.about, p.models, p.bias, numbers, np.ones((2, M)), W, W, True, norms,
            recomputed, sums, reach,
        )  # fmt: skip
        found.append((terms, recomputed, sums, reach))
    for got, expected in zip(*found, strict=True):
        assert np.isfinite(got).all()
        assert got.tobytes() == expected.tobytes()


@every_loss
def test_a_decision_that_is_no_number_leaves_no_bound_of_its_model(kind):
    p = make(kind, 3, 8)
    _, M = p.shape
    W = np.zeros_like(swept(p).W)
    W[:, 2] = np.nan
    sums, reach = np.zeros((2, losses.N_SUMS, M)), np.zeros((losses.N_REACHES, M))
    dual.certify_many(
        p.cut, p.about, p.models, p.bias, np.zeros(p.shape), np.ones((2, M)), W, W, False,
        np.zeros((2, W.shape[1])), np.zeros_like(W), sums, reach,
    )  # fmt: skip
    assert not sums[0, losses.GAP_TERM_BOUND, 2] < np.inf
    assert np.isfinite(np.delete(sums[0], 2, axis=1)).all()


def test_it_runs_without_being_compiled():
    """Where an index out of bounds is an error; sums have the same order, and hinge the same bits.

    The other losses differ by what the logarithm or a division may.
    """
    program = (
        "import sys, numpy as np, test_many as t\n"
        "for kind in t.KINDS:\n"
        "    s = t.swept(t.make(kind, 5, 8, bias=1.0, epsilon=0.1))\n"
        "    np.savetxt(sys.stdout, s.alpha.reshape(1, -1), fmt='%.17g')\n"
    )
    here = Path(__file__).parent
    path = os.pathsep.join([str(here), str(here.parent), *sys.path])
    ran = programs.run(
        [sys.executable, "-W", "error", "-c", program],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": path},
    )
    assert ran.returncode == 0, ran.stderr
    for kind, line in zip(KINDS, ran.stdout.splitlines(), strict=True):
        compiled = swept(make(kind, 5, 8, bias=1.0, epsilon=0.1)).alpha.ravel()
        plain = np.array(line.split(), float)
        if kind == losses.LOGISTIC:
            close(plain, compiled, 1e-9)
        else:
            assert plain.tobytes() == compiled.tobytes()
