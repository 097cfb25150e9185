from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
import reference
import reference_pegasos
from effort import examples
from hypothesis import assume, given
from hypothesis import strategies as st
from kernel_rows import kernel_rows
from sklearn.datasets import load_svmlight_file
from sklearn.svm import LinearSVC

from blocklinear.kernels import pegasos, shared

HEART = Path(__file__).parents[1] / "data" / "heart_scale.train.svm.bz2"
WHOLE = 10**15  # more rows than a group ever has


@dataclass
class Problem:
    """Rows of one group, sparse for the kernel and dense for the reference."""

    rows: np.ndarray  # dense, as the kernel sees them: without bias
    y: np.ndarray
    weight: np.ndarray  # C_i / C
    C: float = 1.0
    bias: float = 0.0
    total_rows: int = 0
    radius: float = np.inf
    t: int = 0
    w: np.ndarray = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self):
        self.w = self.w if self.w.size else np.zeros(self.rows.shape[1] + 1)
        self.total_rows = self.total_rows or max(np.count_nonzero(self.weight), 1)

    @property
    def X(self):
        return np.column_stack([self.rows.astype(np.float64), np.full(len(self.y), self.bias)])

    @property
    def cost(self):
        return self.C * self.weight

    @property
    def cut(self):
        return kernel_rows(self.rows)

    def in_ball(self):
        """The same with the projection that the kernel's docstring derives."""
        return replace(self, radius=np.sqrt(self.cost.sum()))

    def expected(self, order, batch):
        order = np.array(order, np.int64)
        partition = reference_pegasos.partition(order[self.weight[order] > 0], batch)
        return reference_pegasos.updates(
            self.X, self.y, self.C, self.weight, self.total_rows, self.radius, partition,
            self.t, self.w,
        )  # fmt: skip

    def run(self, order, batch, w=None, t=None, touch=None):
        w, t = self.w.copy() if w is None else w, self.t if t is None else t
        touch = np.zeros(pegasos.N_STATS) if touch is None else touch
        t = pegasos.pegasos_epoch(
            self.cut, (self.y, self.cost), np.array(order, np.int64), batch, self.total_rows,
            self.radius**2, self.bias, t, w, touch, np.zeros(len(self.y)), 1.0,
        )  # fmt: skip
        return w, t, touch

    def primal(self, w):
        return reference.primal_value(self.X, self.y, self.cost, w, reference.HINGE)


def random_problem(seed, n=60, d=8, **changes):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.5)
    rows[:3] = 0.0
    y = np.where(rows @ rng.normal(size=d) + rng.normal(size=n) > 0, 1.0, -1.0)
    return Problem(rows, y, **{"weight": np.ones(n), **changes}), rng


def close(got, expected, scale=1.0):
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12 * scale)


def compare(p, order, batch):
    """Run both; the first update of all is the longest, so it sets the scale of rounding."""
    expected = p.expected(order, batch)
    assert expected.nearest > 1e-11  # else B+ is a matter of luck
    w, t, touch = p.run(order, batch)
    longest = p.total_rows * p.cost.max(initial=0) * np.abs(p.X).max(initial=0)
    close(w, expected.w, max(longest, np.abs(p.w).max()))
    assert t == expected.t
    close(touch[pegasos.LOSS], expected.loss, longest * np.abs(p.X).max(initial=0) * len(order))
    assert touch[pegasos.N_VIOLATORS] == expected.violators
    return expected


@st.composite
def problems(draw):
    n, d = draw(st.integers(0, 9)), draw(st.integers(1, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    rows = rng.normal(size=(n, d)) * (rng.random((n, d)) < draw(st.floats(0, 1)))
    weight = rng.choice([0.0, 1.0, rng.random(), 10 * rng.random()], n)
    t = draw(st.sampled_from([0, 1, 2, 50]))
    return Problem(
        rows.astype(draw(st.sampled_from(["float64", "float32"]))),
        rng.choice([-1.0, 1.0], n),
        weight,
        C=draw(st.floats(0.01, 10)),
        bias=draw(st.sampled_from([0.0, 1.0, 0.3])),
        total_rows=np.count_nonzero(weight) + draw(st.integers(1, 20)),
        radius=draw(st.sampled_from([np.inf, 1e-3, 0.5, 3.0])),
        t=t,
        w=rng.normal(size=d + 1) * draw(st.sampled_from([0, 1])),
    )


@examples(100)
@given(p=problems(), batch=st.sampled_from([1, 2, 3, 7, WHOLE]), data=st.data())
def test_an_epoch_equals_algorithm_3(p, batch, data):
    n = len(p.y)
    rows = st.integers(0, n - 1) if n else st.nothing()
    order = data.draw(st.lists(rows, max_size=3 * n) if n else st.just([]))
    assume(p.expected(order, batch).nearest > 1e-9)
    compare(p, order, batch)


@pytest.mark.parametrize("batch", [1, 7, 60, WHOLE])
@pytest.mark.parametrize("bias", [0.0, 1.0])
@pytest.mark.parametrize("of_positives", [1.0, 5.0, 0.2])
@pytest.mark.parametrize(("C", "projects"), [(1e-4, False), (0.3, True), (3.0, True)])
def test_many_epochs_equal_algorithm_3(batch, bias, of_positives, C, projects):
    """The ball matters while w is long, l C |x|**2 > 1: for a large C, at first."""
    p, rng = random_problem(1, C=C, bias=bias)
    p = replace(p, weight=np.where(p.y > 0, of_positives, 1.0)).in_ball()
    projections = 0
    for _ in range(8):
        order = rng.permutation(60)
        projections += compare(p, order, batch).projections
        w, t, _ = p.run(order, batch)
        p = replace(p, w=w, t=t)
    assert t == 8 * -(-60 // min(batch, 60))
    assert (projections > 0) == projects


def test_a_scale_that_vanishes_is_moved_into_the_vector():
    p, rng = random_problem(2, C=1e6, bias=1.0)
    p = p.in_ball()
    expected = compare(p, rng.integers(0, 60, 1000), 1)
    assert expected.shrinkage < -400  # a scale that were only multiplied would be 0
    assert np.linalg.norm(p.run(rng.integers(0, 60, 1000), 1)[0]) <= p.radius * (1 + 1e-12)


@pytest.mark.parametrize("batch", [1, 7])
def test_calls_continue_where_the_last_one_ended(batch):
    p, rng = random_problem(3, C=0.5, bias=1.0)
    p = p.in_ball()
    order = rng.permutation(60)
    whole_w, whole_t, whole_touch = p.run(order, batch)
    w, t, touch = p.w.copy(), 0, np.zeros(pegasos.N_STATS)
    for part in (order[:14], order[14:14], order[14:49], order[49:]):
        _, t, _ = p.run(part, batch, w, t, touch)
    assert t == whole_t
    close(w, whole_w)
    close(touch, whole_touch)


def test_blocks_in_turn_equal_all_rows_at_once():
    p, _ = random_problem(4, C=0.5, bias=1.0)
    p = p.in_ball()
    w, t = p.w.copy(), 0
    for own in (slice(0, 20), slice(20, 60)):
        block = replace(p, rows=p.rows[own], y=p.y[own], weight=p.weight[own])
        _, t, _ = block.run(np.arange(len(block.y)), 1, w, t)
    expected = p.run(np.arange(60), 1)
    close(w, expected[0])
    assert t == expected[1] == 60


@pytest.mark.parametrize("batch", [1, 7, WHOLE])
def test_rows_without_cost_are_left_out(batch):
    p, rng = random_problem(5, C=0.5, bias=1.0, weight=np.arange(60) % 3 / 2)
    order = rng.permutation(60)
    w, t, touch = p.run(order, batch)
    without_w, without_t, without_touch = p.run(order[p.weight[order] > 0], batch)
    assert w.tobytes() == without_w.tobytes()
    assert touch.tobytes() == without_touch.tobytes()
    assert t == without_t
    w, t, touch = p.run(np.arange(0, 60, 3), batch, np.ones(9), 5)
    assert (w.tolist(), t, touch.tolist()) == ([1.0] * 9, 5, [0.0, 0.0])


def test_empty_rows_only_shrink_w():
    p = Problem(np.zeros((3, 2)), np.ones(3), np.ones(3), C=2.0, t=2, w=np.full(3, 10.0))
    w, t, touch = p.run([0, 1, 2], 1)
    close(w, np.full(3, 10.0 * 2 / 3 * 3 / 4 * 4 / 5))
    assert (t, touch.tolist()) == (5, [6.0, 3.0])


def test_a_margin_of_1_violates_nothing():
    p = Problem(np.ones((1, 1)), np.ones(1), np.ones(1), t=1, w=np.array([1.0, 0.0]))
    w, t, touch = p.run([0], 1)
    assert (w.tolist(), t, touch.tolist()) == ([0.5, 0.0], 2, [0.0, 0.0])


class Counted(np.ndarray):
    """A vector that counts how often one of its numbers is read or written."""

    touched = 0

    def __getitem__(self, key):
        Counted.touched += 1
        return super().__getitem__(key)

    def __setitem__(self, key, value):
        Counted.touched += 1
        super().__setitem__(key, value)


def numbers_touched(monkeypatch, d, n_updates):
    """What so many updates touch of a w of so many features, one row of 4 nonzeros each."""
    names = "span", "row_dot", "_add_row", "_rescale", "pegasos_epoch"
    for module, name in ((shared, "span"), *((pegasos, name) for name in names)):
        kernel = getattr(module, name)
        monkeypatch.setattr(module, name, getattr(kernel, "py_func", kernel))
    p, rng = random_problem(6, d=4, C=0.1, bias=1.0)
    p = replace(p, rows=rng.normal(size=(60, 4))).in_ball()
    Counted.touched = 0
    w, _, touch = p.run(np.arange(n_updates) % 60, 1, np.zeros(d + 1).view(Counted))
    assert touch[pegasos.N_VIOLATORS] > n_updates / 4
    assert np.linalg.norm(w) > 0
    return Counted.touched


def test_an_update_costs_the_nonzeros_of_its_row(monkeypatch):
    narrow, wide = (
        [numbers_touched(monkeypatch, d, n) for n in (100, 200)] for d in (10, 10_000)
    )  # fmt: skip
    assert wide[1] - wide[0] == narrow[1] - narrow[0]
    assert wide[1] - wide[0] <= 100 * 5 * 5  # a read for the margin, 2 reads and 2 writes or so
    # what a call costs: the norm, zeros at t = 1, the scale, each a read and a write
    assert wide[0] - narrow[0] == 6 * (10_000 - 10)


def heart(**changes):
    X, y = load_svmlight_file(str(HEART))
    return Problem(X.toarray(), y, np.ones(len(y)), **changes).in_ball()


def optimum(p):
    svc = LinearSVC(C=p.C, loss="hinge", tol=1e-8, max_iter=200_000, fit_intercept=False)
    return p.primal(svc.fit(p.X, p.y, sample_weight=p.weight).coef_[0])


@pytest.mark.long
@pytest.mark.parametrize("C", [0.01, 1.0])
@pytest.mark.parametrize("bias", [0.0, 1.0])
@pytest.mark.parametrize(("batch", "epochs"), [(1, 100), (10, 100), (WHOLE, 300)])
@pytest.mark.parametrize("of_positives", [1.0, 4.0])
def test_heart_scale_is_solved_to_some_percent(C, bias, batch, epochs, of_positives):
    p = heart(C=C, bias=bias)
    p = replace(p, weight=np.where(p.y > 0, of_positives, 1.0)).in_ball()
    rng = np.random.default_rng(0)
    w, t, average = p.w.copy(), 0, np.zeros_like(p.w)
    for epoch in range(epochs):
        _, t, _ = p.run(rng.permutation(len(p.y)), batch, w, t)
        if epoch >= epochs // 2:
            average += w / (epochs - epochs // 2)
    best = optimum(p)
    assert best * (1 - 1e-6) <= p.primal(average) <= 1.03 * best


def test_the_ball_holds_the_optimum_whatever_the_weights():
    """Rows of 1, all with margin 1 at w = 2: alpha = C_i, and w'w = sum C_i."""
    p = Problem(np.full((4, 1), 0.5), np.ones(4), np.full(4, 10.0), C=0.1)
    assert p.in_ball().radius == 2.0
    w, *_ = p.in_ball().run(np.arange(400) % 4, 1)
    assert w[0] == pytest.approx(2.0, rel=0.01)
    too_small = replace(p, radius=np.sqrt(p.total_rows * p.C))
    assert too_small.run(np.arange(400) % 4, 1)[0][0] < 0.7


def test_alpha_follows_how_often_rows_had_a_loss():
    p, rng = random_problem(5, C=0.5)
    w, t, alpha, count = p.w.copy(), 0, np.zeros(len(p.y)), np.zeros(len(p.y))
    for outer in range(1, 6):
        order = rng.permutation(len(p.y))
        for i in order:
            count[i] += p.y[i] * (p.X[i] @ w) < 1
            t = pegasos.pegasos_epoch(
                p.cut, (p.y, p.cost), np.array([i]), 1, p.total_rows, np.inf, p.bias, t, w,
                np.zeros(pegasos.N_STATS), alpha, 1.0 / outer,
            )  # fmt: skip
        close(alpha, p.cost * count / outer)
    close(w, p.X.T @ (alpha * p.y))
