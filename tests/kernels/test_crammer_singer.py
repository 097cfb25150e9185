import subprocess
from dataclasses import replace

import numba
import numpy as np
import pytest
from crammer_singer_problems import (
    GAP_TERM,
    VIOLATION,
    Problem,
    assert_feasible,
    bounds,
    close,
    dual_value,
    primal_value,
    problems,
    random_problem,
    row_minimum,
    unlike,
    visit,
    zeros,
)
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from liblinear import liblinear_program

from blocklinear.kernels import crammer_singer as cs
from blocklinear.kernels.losses import GAP_TERM_BOUND, N_SUMS

INTERPRETED = numba.config.DISABLE_JIT
MANY_CLASSES = 40 if INTERPRETED else 1000


# -- one visit


@examples(67)
@given(drawn=problems())
def test_each_visit_solves_the_row_as_the_reference_does(drawn):
    p, alpha, rng = drawn
    W = p.X.T @ alpha
    order = rng.permutation(np.tile(np.arange(len(p.label)), 3))
    start, whole = (alpha.copy(), W.copy()), [-np.inf, 0.0, 0.0, 0.0]
    for i in order:
        before = alpha.copy(), W.copy()
        touch = p.epoch([i], alpha, W)
        if p.cost[i] == 0:
            assert touch.tolist() == [-np.inf, 0, 0, 0]
            assert all((a == b).all() for a, b in zip(before, (alpha, W), strict=True))
            continue
        expected, violation, added = visit(p.X, p.label, p.cost, before[0], i)
        close(alpha[i], expected)
        close(W, p.X.T @ alpha)
        gain = dual_value(p.X, p.label, alpha) - dual_value(p.X, p.label, before[0])
        close(touch, [violation, added, gain, 1])
        others = np.arange(len(p.label)) != i
        assert (alpha[others] == before[0][others]).all()
        assert_feasible(p, alpha)
        whole = [max(whole[0], touch[0]), *(whole[1:] + touch[1:])]
    assert p.epoch(order, *start).tolist() == whole
    assert start[0].tobytes() == alpha.tobytes()
    assert start[1].tobytes() == W.tobytes()


@settings(max_examples=60, deadline=None)
@given(drawn=problems())
def test_an_epoch_never_lowers_the_dual(drawn):
    p, alpha, rng = drawn
    before = dual_value(p.X, p.label, alpha)
    p.epoch(rng.permutation(len(p.label)), alpha, p.X.T @ alpha)
    assert dual_value(p.X, p.label, alpha) >= before - 1e-9 * (1 + abs(before))


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32), K=st.integers(2, 60), spread=st.floats(0.01, 100))
def test_many_classes_compete_for_a_row(seed, K, spread):
    """Ties, and any number of classes with an alpha below the bound."""
    rng = np.random.default_rng(seed)
    rows, label = rng.normal(size=(1, 3)), rng.integers(0, K, 1).astype(np.int32)
    p = Problem(rows, label, np.array([2.0]), K)
    W = (rng.normal(size=(4, K)) * spread).round(rng.integers(0, 3))
    alpha, D = p.feasible(rng), W.copy()
    A, G = (p.X @ p.X.T).item(), (p.X @ W)[0] + unlike(label, K)[0]
    p.epoch([0], alpha, W)
    a = row_minimum(A, G - A * (alpha[0] - (W - D)[0] / rows[0, 0]), bounds(p.cost, label, K)[0])
    np.testing.assert_allclose(alpha[0], a, rtol=1e-7, atol=1e-9)


def test_only_classes_whose_alpha_changes_are_written():
    rng = np.random.default_rng(0)
    p = Problem(rng.normal(size=(1, 5)), np.array([3], np.int32), np.ones(1), 12)
    W = rng.normal(size=(6, 12)) * 3
    alpha, before = zeros(p)[0], W.copy()
    p.epoch([0], alpha, W)
    changed = alpha[0] != 0
    assert 2 <= changed.sum() < 4
    assert (W[:5, changed] != before[:5, changed]).all()
    assert W[:, ~changed].tobytes() == before[:, ~changed].tobytes()
    assert W[5].tobytes() == before[5].tobytes()  # no bias


@pytest.mark.parametrize("size", [1e-200, 1e-120, 1e-9, 1.0, 1e9, 1e100])
def test_rows_of_any_size_stay_feasible(size):
    """B - A alpha loses A alpha for small rows: Algorithm 2 as written ends with a sum of C."""
    p = random_problem(1, 40, 5, 7)
    p = replace(p, rows=p.rows * size)
    alpha, W = zeros(p)
    for _ in range(20):
        p.epoch(range(40), alpha, W)
    assert_feasible(p, alpha)


@pytest.mark.parametrize("bias", [0.0, 1.0])
def test_many_classes(bias):
    """W = 0 makes all other classes equal at first: none may be forgotten."""
    p = random_problem(2, 30, 6, MANY_CLASSES, bias)
    alpha, W = zeros(p)
    p.epoch(range(1), alpha, W)
    for _ in range(5):
        p.epoch(range(30), alpha, W)
    assert_feasible(p, alpha)
    close(W, p.X.T @ alpha)


# -- dual terms and certificate


@settings(max_examples=60, deadline=None)
@given(drawn=problems())
def test_terms_are_added_and_the_dual_is_below_any_primal(drawn):
    p, alpha, rng = drawn
    W, average = rng.normal(size=(2, p.rows.shape[1] + 1, p.K))
    start = rng.normal(size=W.shape)
    recomputed, terms = start.copy(), np.array([3.0, 4.0])
    sums, reach = np.ones((2, N_SUMS)), np.ones(2)
    norms = np.linalg.norm([W, average], axis=1).max(axis=1)
    about = p.cut, p.data, p.bias, alpha, W
    cs.cs_certify_rows(*about, average, True, norms, recomputed, sums, reach)
    alone, others, again = np.ones((2, N_SUMS)), np.ones(2), np.zeros_like(W)
    cs.cs_certify_rows(*about, average, False, norms, again, alone, others)
    assert alone[0].tobytes() == sums[0].tobytes()
    assert others.tobytes() == reach.tobytes()
    cs.cs_add_dual_terms(p.data, alpha, terms)
    close(recomputed, start + p.X.T @ alpha)
    close(reach[0] - 1, (abs(alpha).sum(1) * np.linalg.norm(p.X, axis=1)).sum())
    value = dual_value(p.X, p.label, alpha)
    for V, (loss, low, gap, _) in zip((W, average), sums - 1, strict=True):
        primal = primal_value(p.X, p.label, p.cost, V)
        close(0.5 * (V**2).sum() + loss + low, primal)
        apart = 0.5 * ((V - p.X.T @ alpha) ** 2).sum()
        np.testing.assert_allclose(gap + apart, primal - value, rtol=1e-9, atol=1e-9 * primal)
    dual = terms[0] - 3 - 0.5 * ((p.X.T @ alpha) ** 2).sum()
    close(dual, dual_value(p.X, p.label, alpha))
    assert terms[1] - 4 == (alpha != 0).any(1).sum()
    for V in (W, average, p.X.T @ alpha, np.zeros_like(W)):
        assert primal_value(p.X, p.label, p.cost, V) >= dual - 1e-9


@pytest.mark.parametrize("seed", range(5))
def test_alpha_that_is_not_feasible_proves_nothing(seed):
    """A point next to it counts: the bound then holds, and w' belongs to that point."""
    p = random_problem(seed, 40, 5, 4, 1.0)
    rng = np.random.default_rng(seed)
    alpha = p.feasible(rng) + rng.normal(size=(40, 4)) * (rng.random((40, 1)) < 0.5)
    alpha[0], alpha[1, 2], alpha[2] = np.nan, -np.inf, 1e300
    W = rng.normal(size=(6, 4))
    recomputed, sums, reach = np.zeros_like(W), np.zeros((2, N_SUMS)), np.zeros(2)
    terms = np.zeros(2)
    cs.cs_certify_rows(
        p.cut, p.data, p.bias, alpha, W, W, False,
        np.linalg.norm([W, W], axis=1).max(axis=1), recomputed, sums, reach,
    )  # fmt: skip
    near = np.where(np.isfinite(alpha), np.minimum(alpha, 0.0), 0.0)
    near[np.arange(40), p.label] = 0.0
    total = -near.sum(1)
    near *= np.minimum(1.0, p.cost / np.maximum(total, 1e-300))[:, None]
    near[np.arange(40), p.label] = -near.sum(1)
    assert (near <= bounds(p.cost, p.label, 4) * (1 + 1e-12)).all()
    close(recomputed, p.X.T @ near)
    dual = dual_value(p.X, p.label, near)
    left = sums[0, GAP_TERM_BOUND] + 0.5 * ((W - recomputed) ** 2).sum()
    close(primal_value(p.X, p.label, p.cost, W) - left, dual)
    cs.cs_add_dual_terms(p.data, alpha, terms)
    close(terms[cs.DUAL] - 0.5 * (recomputed**2).sum(), dual)


# -- the optimum


def solve(p, epochs, every=1, tolerance=0.0, factor=1.0):
    """Run epochs, one in `every` of all classes, until none violates."""
    alpha, W = zeros(p)
    rng = np.random.default_rng(0)
    for epoch in range(epochs):
        some = epoch % every > 0
        touch = p.epoch(rng.permutation(len(p.label)), alpha, W, some, factor if some else 1.0)
        if not some and touch[VIOLATION] <= tolerance:
            break
    return alpha, W, touch, epoch


CASES = [(2, 0.0, "f8"), (3, 1.0, "f8"), (10, 0.0, "f8"), (10, 0.5, "f4"), (3, 0.0, "f4")]


@pytest.mark.parametrize(("every", "factor"), [(1, 1.0), (5, 1.0), (5, 1.5), (5, 1.9)])
@pytest.mark.parametrize(("K", "bias", "dtype"), CASES)
def test_the_gap_closes(K, bias, dtype, every, factor):
    n = 30 if INTERPRETED else 60
    p = random_problem(K, n, 8, K, bias, dtype)
    alpha, W, touch, _ = solve(p, 3_000 if INTERPRETED else 20_000, every, 1e-9, factor)
    assert_feasible(p, alpha)
    recomputed = p.X.T @ alpha
    np.testing.assert_allclose(W, recomputed, rtol=0, atol=1e-10)
    gap = p.gap(W, recomputed, alpha)
    assert -1e-12 <= gap <= 1e-8
    assert touch[VIOLATION] <= 1e-9
    assert abs(touch[GAP_TERM]) <= 1e-6  # all classes were active


def test_empty_rows_alone():
    """Each loses 1 under any W, and adds nothing to the gap after one visit."""
    p = Problem(np.zeros((4, 3)), np.arange(4, dtype=np.int32), np.array([1.0, 0, 2, 3]), 5)
    alpha, W = zeros(p)
    assert p.epoch(range(4), alpha, W) == pytest.approx([1, 6, 6, 3], rel=1e-14)
    assert p.epoch(range(4), alpha, W).tolist() == [0, 0, 0, 3]
    assert_feasible(p, alpha)
    assert p.gap(W, W, alpha) == pytest.approx(0, abs=1e-15)


def test_rows_of_cost_zero_are_as_good_as_absent():
    p = random_problem(5, 60, 6, 4, 1.0)
    kept = p.cost > 0
    assert 0 < kept.sum() < 60
    alpha, W = zeros(p)
    q = Problem(p.rows[kept], p.label[kept], p.cost[kept], p.K, p.bias)
    alpha_q, W_q = zeros(q)
    for _ in range(3):
        touch, touch_q = p.epoch(range(60), alpha, W), q.epoch(range(kept.sum()), alpha_q, W_q)
    assert touch.tolist() == touch_q.tolist()
    assert W.tobytes() == W_q.tobytes()
    assert (alpha[~kept] == 0).all()
    assert p.gap(W, W, alpha) == q.gap(W, W, alpha_q)


# -- some classes, and longer steps


@examples(40)
@given(drawn=problems())
def test_supported_classes_alone_are_visited(drawn):
    """The row is solved for them as if there were no others, and they stay the only ones."""
    p, alpha, rng = drawn
    W = p.X.T @ alpha
    for i in rng.permutation(len(p.label)):
        before, W_before = alpha.copy(), W.copy()
        touch = p.epoch([i], alpha, W, support_only=True)
        classes = np.flatnonzero(before[i])
        if p.cost[i] == 0 or len(classes) == 0:
            assert touch.tolist() == [-np.inf, 0, 0, 0]
            assert alpha.tobytes() + W.tobytes() == before.tobytes() + W_before.tobytes()
            continue
        q = replace(p, label=np.searchsorted(classes, p.label).astype(np.int32), K=len(classes))
        expected, violation, added = visit(q.X, q.label, q.cost, before[:, classes], i)
        close(alpha[i, classes], expected)
        gain = dual_value(p.X, p.label, alpha) - dual_value(p.X, p.label, before)
        close(touch, [violation, added, gain, 1])
        assert (np.delete(alpha[i], classes) == 0).all()
        close(W, p.X.T @ alpha)
        assert_feasible(p, alpha)


@examples(60)
@given(drawn=problems(), factor=st.floats(1, 1.99), support_only=st.booleans())
def test_longer_steps_are_feasible_and_never_lower_the_dual(drawn, factor, support_only):
    p, alpha, rng = drawn
    W = p.X.T @ alpha
    for i in rng.permutation(len(p.label)):
        plain, start = alpha.copy(), alpha.copy()
        p.epoch([i], plain, W.copy(), support_only)
        p.epoch([i], alpha, W, support_only, factor)
        step = (plain - start)[i]
        longer = start[i] + factor * step
        upper = bounds(p.cost, p.label, p.K)[i]
        if (longer < upper - 1e-12).all():
            close(alpha[i], longer)
        elif (longer > upper + 1e-12).any():
            close(alpha, plain)
        assert_feasible(p, alpha)
        close(W, p.X.T @ alpha)
        value = dual_value(p.X, p.label, start)
        assert dual_value(p.X, p.label, alpha) >= value - 1e-9 * (1 + abs(value))


@pytest.mark.long
def test_longer_steps_take_fewer_epochs():
    p = random_problem(11, 120, 6, 8, 1.0)
    plain, longer = (solve(p, 20_000, 5, 1e-7, factor)[3] for factor in (1.0, 1.5))
    assert longer < 0.9 * plain


@examples(60)
@given(drawn=problems(), factor=st.floats(0.01, 100))
def test_an_extrapolation_is_feasible_as_far_as_it_says(drawn, factor):
    p, alpha, rng = drawn
    earlier = p.feasible(rng)
    way = factor * (alpha - earlier)
    d, V = earlier.copy(), p.X.T @ way
    cs.cs_extrapolate(p.cut, p.data, p.bias, factor, alpha, d, V)
    close(V, p.X.T @ d)
    upper = bounds(p.cost, p.label, p.K)
    assert (alpha + d <= upper + 1e-12 * (1 + factor)).all()
    for i in range(len(p.label)):  # as far as it can, and no farther than asked for
        if (alpha[i] + way[i] <= upper[i]).all():
            close(d[i], way[i])
        else:
            rising = way[i] > 0
            share = min(1.0, ((upper - alpha)[i, rising] / way[i, rising]).min())
            close(d[i], share * way[i])


# -- LIBLINEAR


@pytest.fixture(scope="module")
def liblinear(tmp_path_factory):
    train = liblinear_program("liblinear-train")
    folder = tmp_path_factory.mktemp("liblinear")

    def run(p, *options):
        """Return LIBLINEAR's W, with a last row for the bias feature."""
        order = np.argsort(p.label, kind="stable")  # classes appear in the order of their codes
        lines = [
            f"{p.label[i]} " + " ".join(f"{j + 1}:{p.rows[i, j]:.17g}" for j in np.nonzero(r)[0])
            for i, r in zip(order, p.rows[order], strict=True)
        ]
        (folder / "rows").write_text("\n".join(lines) + "\n")
        command = [train, "-s", "4", "-e", "1e-6", "-B", f"{p.bias or -1}", *options]
        out = subprocess.run(
            [*command, "rows", "model"], cwd=folder, check=True, capture_output=True, text=True
        ).stdout
        text = (folder / "model").read_text()
        W = np.array([line.split() for line in text.split("\nw\n")[1].splitlines()], float)
        objective = float(out.split("Objective value = ")[1].split()[0])
        return W if p.bias else np.vstack([W, np.zeros(p.K)]), objective

    return run


@pytest.mark.long
@pytest.mark.parametrize("weights", [{}, {1: 0.25, 3: 5.0}])
@pytest.mark.parametrize("bias", [0.0, 1.0])
def test_the_optimum_is_that_of_liblinear(liblinear, bias, weights):
    p = random_problem(8, 150, 10, 4, bias)
    p.rows[::17, 0] = 1.0  # LIBLINEAR's objective leaves empty rows out
    cost = 0.7 * np.array([weights.get(m, 1.0) for m in range(4)])[p.label]
    p = replace(p, cost=cost)
    options = [part for m, weight in weights.items() for part in (f"-w{m}", str(weight))]
    theirs, objective = liblinear(p, "-c", "0.7", *options)
    alpha, W, *_ = solve(p, 20_000, tolerance=1e-9)
    value = primal_value(p.X, p.label, p.cost, W)
    assert value == pytest.approx(primal_value(p.X, p.label, p.cost, theirs), rel=1e-6)
    assert dual_value(p.X, p.label, alpha) == pytest.approx(-objective, rel=1e-6, abs=1e-6)
    assert p.gap(W, W, alpha) <= 1e-8
    np.testing.assert_allclose(W, theirs, atol=1e-4)
