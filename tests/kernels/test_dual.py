import itertools
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import reference
from dual_problems import (
    KINDS,
    NAMES,
    NONE,
    UNTRACKED,
    Problem,
    close,
    every_loss,
    make,
    no_stats,
    problems,
    run,
)
from effort import examples
from hypothesis import assume, given
from hypothesis import strategies as st
from liblinear import liblinear_program
from scipy.special import expit
from sklearn.datasets import load_svmlight_file

from blocklinear.kernels import dual, losses
from blocklinear.kernels.sums import dot

HEART = Path(__file__).parents[1] / "data" / "heart_scale.train.svm.bz2"


# -- One visit


@examples(134)
@given(p=problems, i=st.integers(0, 6))
def test_a_visit_finds_the_best_alpha_of_the_row(p, i):
    i %= len(p)
    alpha, w = p.alpha.copy(), p.w
    touch = run(p, [i], alpha, w)
    best = reference.best_alpha(p.X, p.target, p.cost, p.alpha, i, *p.loss)
    close(alpha[i], best, 1e-8)
    low, high = reference.bounds(p.cost[i], p.kind)
    assert low <= alpha[i] <= high
    others = np.arange(len(p)) != i
    assert alpha[others].tobytes() == p.alpha[others].tobytes()
    close(w, replace(p, alpha=alpha).w, scale=1 + abs(alpha).max())

    PG = reference.projected_gradient(*p.slopes(p.alpha, i))
    before, after = p.dual(p.alpha), p.dual(alpha)
    alone = p.X[[i]], p.target[[i]], p.cost[[i]], p.alpha[[i]]
    lost = reference.total_loss(*alone[:3], p.w, *p.loss)
    lost += reference.weights(*alone, p.kind) @ p.w
    lost -= reference.conjugate_terms(*alone[1:], *p.loss).sum()
    assert touch[dual.STEPS] == 1
    close(touch[[dual.PG_MAX, dual.PG_MIN, dual.PG_SUM]], [PG, PG, abs(PG)])
    close(touch[dual.GAP_TERM], lost, scale=1 + abs(p.alpha).max() * abs(p.X @ p.w).max())
    close(touch[dual.GAIN], after - before, 1e-10, abs(before) + abs(after) + p.w @ p.w + 1)


@examples(67)
@given(p=problems)
def test_what_rows_add_to_the_gap_is_the_gap(p):
    """P - D = sum_i C_i loss_i + s_i alpha_i f_i - g_i(alpha_i), each 0 or more."""
    added = [run(p, [i], p.alpha.copy(), p.w)[dual.GAP_TERM] for i in range(len(p))]
    primal = reference.primal_value(p.X, p.target, p.cost, p.w, *p.loss)
    scale = 1 + primal + abs(p.alpha) @ abs(p.X @ p.w)
    assert min(added) >= -1e-12 * scale
    close(sum(added), primal - p.dual(p.alpha), scale=scale)


@examples(67)
@given(p=problems, i=st.integers(0, 6))
def test_a_second_visit_finds_nothing_to_do(p, i):
    i %= len(p)
    alpha, w = p.alpha.copy(), p.w
    first = run(p, [i], alpha, w)
    again = alpha.copy()
    touch = run(p, [i], again, w)
    close(again[i], alpha[i], 1e-8)
    close(touch[[dual.PG_MAX, dual.PG_SUM, dual.GAIN]], 0.0, 1e-8, 1 + first[dual.PG_SUM])


@pytest.mark.parametrize("bias", [0.0, 1.0])
@pytest.mark.parametrize("start", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("target", [-1.0, 1.0, 0.05, 0.0])
@every_loss
def test_empty_rows(kind, target, start, bias):
    """Without bias hinge ends at C, squared hinge at 2 C, logistic at C / 2, SVR by its target."""
    if kind <= losses.LOGISTIC:
        target = target or 1.0
    target = np.sign(target) if kind <= losses.LOGISTIC else target
    C = np.array([2.0])
    p = Problem(kind, np.zeros((1, 3)), np.array([target]), C, start * C, bias, 0.1)
    alpha, w = p.alpha.copy(), p.w
    touch = run(p, [0], alpha, w)
    assert np.isfinite(touch).all()
    expected = reference.best_alpha(p.X, p.target, C, p.alpha, 0, *p.loss)
    close(alpha[0], expected)
    close(touch[dual.GAIN], p.dual(alpha) - p.dual(p.alpha), 1e-12)
    if not bias:
        side = np.sign(target) * (abs(target) > 0.1)
        free = {3: 2.0 * side, 4: 4.0 * (target - 0.1 * side) * abs(side)}
        close(alpha[0], {0: 2.0, 1: 4.0, 2: 1.0, **free}[kind])
        assert not w.any()
    touch = run(p, [0], alpha, w)
    close(touch[[dual.PG_MAX, dual.PG_MIN, dual.GAIN]], 0.0, 1e-9)


@pytest.mark.parametrize("size", [1e-150, 1e-9, 1e3, 1e8, 1e12])
@pytest.mark.parametrize("cost", [1e-12, 1.0, 1e9])
@every_loss
def test_huge_and_tiny_margins(kind, cost, size):
    rng = np.random.default_rng(3)
    target = rng.choice([-1.0, 1.0], 30) * (1.0 if kind <= losses.LOGISTIC else 10.0)
    p = Problem(
        kind, size * rng.normal(size=(30, 3)), target, np.full(30, cost), np.zeros(30), 1.0, 0.1
    )
    alpha, w = p.alpha.copy(), rng.normal(size=4) * size
    if kind != losses.LOGISTIC:
        alpha[:10] = cost
    else:
        alpha[:20] = np.repeat([cost, 1e-300 * cost], 10)
    adapt, preference = np.array([0.0, 1e-3]), np.zeros(30, np.float32)
    with np.errstate(all="raise", under="ignore"):
        for selection in (dual.PERMUTE, dual.SHRINK, dual.AVSF):
            touch = run(p, range(30), alpha, w, selection, preference, adapt)
            assert np.isfinite(touch).all()
            assert np.isfinite(w).all()
            assert np.isfinite(adapt).all()
            low, high = reference.bounds(cost, kind)
            assert ((low <= alpha) & (alpha <= high)).all()
        terms = np.zeros(dual.N_TERMS)
        dual.add_dual_terms(p.data, p.loss, alpha, terms)
        found = certified(p, alpha, w, -w)
    assert all(np.isfinite(part).all() for part in (terms, *found))


# -- The logistic rule at the ends of its domain


def one_row(margin, start, cost=2.0, size=1e-3):
    """Return a row at a given margin, whose own alpha hardly moves it, and its w."""
    C = np.array([cost])
    p = Problem(losses.LOGISTIC, np.array([[size]]), np.ones(1), C, start * C)
    return p, np.array([margin / size, 0.0])


MARGINS = [0.0, -3.0, 30.0, -30.0, 60.0, -60.0, 800.0, -800.0, 1e15, -1e15]


@pytest.mark.parametrize("start", [0.0, 1e-320, 1e-12, 0.4, 0.6, 1 - 1e-12, 1.0])
def test_logistic_rows_settle_from_anywhere(start):
    for margin, cost in itertools.product(MARGINS, [1e-300, 2.0, 1e9]):
        p, w = one_row(margin, start, cost, size=1e-3 / np.sqrt(max(cost, 1.0)))
        alpha, seen = p.alpha.copy(), []
        for _ in range(3):
            touch = run(p, [0], alpha, w)
            assert np.isfinite(touch).all()
            assert touch[dual.GAIN] >= -1e-13 * cost * (1 + abs(margin))
            seen.append(touch[dual.PG_MAX])
        assert alpha[0] / cost == pytest.approx(expit(-margin), rel=1e-4, abs=1e-15)
        assert seen[2] == pytest.approx(0.0, abs=1e-6)  # no violation is left
        if (start, np.sign(margin)) in [(0.0, 1), (1.0, -1)] and abs(margin) > 36.1:
            assert alpha.tobytes() == p.alpha.tobytes()  # the ends themselves are as good
            assert seen == [0, 0, 0]


@pytest.mark.parametrize(("start", "sign"), [(0.0, -1.0), (1.0, 1.0)])
def test_the_gradient_at_an_end_is_finite_and_points_inside(start, sign):
    p, w = one_row(5.0, start)
    touch = run(p, [0], p.alpha.copy(), w)
    expected = 5.0 + sign * (52 * np.log(2) - 1)
    assert touch[dual.PG_MAX] == pytest.approx(expected, abs=1e-6)


# -- An epoch


@examples(50)
@given(p=problems, data=st.data(), all_in_memory=st.booleans())
def test_an_epoch_tells_which_rows_are_to_stay_in_memory(p, data, all_in_memory):
    """Those strictly inside their bounds; and those near one, where others have to be loaded."""
    order = data.draw(st.permutations(range(len(p))))[: data.draw(st.integers(0, len(p)))]
    p.cost[data.draw(st.integers(0, len(p) - 1))] = 0.0
    alpha, w, seen = p.alpha.copy(), p.w, no_stats()
    pressure, near = np.zeros(len(p)), np.zeros(len(p), np.bool_)
    for i in order:
        run(p, [i], alpha, w, touch=seen)
        if p.cost[i] and p.kind != losses.LOGISTIC:  # whose optima are never at a bound
            left, right = p.slopes(alpha, i)
            pressure[i] = min(right, -left)  # above 0 where both ways lead up
            near[i] = pressure[i] * seen[dual.STEPS] < seen[dual.PG_SUM]
            assume(abs(pressure[i] * seen[dual.STEPS] - seen[dual.PG_SUM]) > 1e-9)
    bound = np.inf if p.kind in (losses.SQUARED_HINGE, losses.L2_SVR) else p.cost
    free = (alpha != 0.0) & (np.abs(alpha) != bound) & (p.cost > 0.0)
    ranges, priority = np.full(len(p), 7, np.uint16), np.full(len(p), 7.0)
    again, w = p.alpha.copy(), p.w
    run(p, order, again, w, tracked=(ranges, priority[: 0 if all_in_memory else None]))
    assert again.tobytes() == alpha.tobytes()  # whether it tells or not
    worked = np.isin(np.arange(len(p)), order)
    stays = free if all_in_memory else free | near
    assert (ranges == np.where(worked, stays * dual.ONE_MODEL, 7)).all()
    moved = (alpha - p.alpha) ** 2 * p.cut[-1]
    worth = np.where(free, moved, -pressure * np.count_nonzero(p.X[:, :-1], axis=1))
    close(priority, np.where(worked & (not all_in_memory), worth, 7.0))


@pytest.mark.parametrize("all_in_memory", [False, True])
def test_rows_that_only_rounding_puts_at_a_bound_do_not_stay_in_memory(all_in_memory):
    """As of logistic loss with a margin of 50: no step moves them again."""
    p, w = one_row(50.0, 0.0)
    ranges, priority = np.full(1, 7, np.uint16), np.zeros(0 if all_in_memory else 1)
    alpha = p.alpha.copy()
    run(p, [0], alpha, w, tracked=(ranges, priority))
    assert (alpha[0], ranges[0]) == (0.0, 0)


@examples(50)
@given(p=problems, data=st.data())
def test_an_epoch_is_its_visits_one_by_one(p, data):
    order = data.draw(st.lists(st.integers(0, len(p) - 1), max_size=3 * len(p)))
    alpha, w = p.alpha.copy(), p.w
    touch = run(p, order, alpha, w)
    single_alpha, single_w, seen = p.alpha.copy(), p.w, no_stats()
    for i in order:
        run(p, [i], single_alpha, single_w, touch=seen)
    for got, expected in ((alpha, single_alpha), (w, single_w), (touch, seen)):
        assert got.tobytes() == expected.tobytes()
    assert touch[dual.STEPS] == len(order)
    scale = 1 + abs(p.dual(p.alpha)) + abs(p.dual(alpha)) + p.w @ p.w
    close(touch[dual.GAIN], p.dual(alpha) - p.dual(p.alpha), 1e-10, scale)
    assert touch[dual.GAIN] >= -1e-12 * scale


@every_loss
def test_rows_without_cost_are_left_out(kind):
    p = make(kind, 1, n=8, bias=1.0, epsilon=0.1)
    out = np.array([0, 3, 7])
    kept = np.setdiff1d(np.arange(8), out)
    target, cost, start = p.target.copy(), p.cost.copy(), p.alpha.copy()
    target[out], cost[out], start[out] = np.nan, 0.0, np.nan  # none of it may be looked at
    p = replace(p, target=target, cost=cost, alpha=start)
    few = replace(p, rows=p.rows[kept], target=target[kept], cost=cost[kept], alpha=start[kept])
    found = []
    for q, order in ((p, [*range(8), 3, 0]), (few, range(5))):
        alpha, w, preference = q.alpha.copy(), few.w, np.zeros(len(q), np.float32)
        touch = run(q, order, alpha, w, dual.SHRINK, preference)
        terms = np.zeros(dual.N_TERMS)
        dual.add_dual_terms(q.data, q.loss, alpha, terms)
        recomputed, sums, reach = certified(q, alpha, w, -w)
        found.append((w, touch, terms, recomputed, sums, reach, alpha, preference))
    (*with_all, alpha, preference), (*without, kept_alpha, kept_preference) = found
    for got, expected in zip(with_all, without, strict=True):
        assert np.isfinite(got).all()
        assert got.tobytes() == expected.tobytes()
    assert alpha[kept].tobytes() == kept_alpha.tobytes()
    assert preference[kept].tobytes() == kept_preference.tobytes()
    assert np.isnan(alpha[out]).all()
    assert not preference[out].any()


def test_rows_may_lie_anywhere():
    p = make(losses.HINGE, 7, n=9, bias=1.0, dtype="float32")
    before, after, indices, values, sq_norm = p.cut
    counts, place = after - before, np.random.default_rng(1).permutation(9)
    starts = np.zeros(9, np.int64)
    starts[place] = 3 + np.concatenate(([0], np.cumsum(counts[place] + 2)[:-1]))
    apart = np.zeros(counts.sum() + 30, np.uint32), np.full(counts.sum() + 30, np.nan, np.float32)
    for i in range(9):
        for packed, spread in zip((indices, values), apart, strict=True):
            spread[starts[i] : starts[i] + counts[i]] = packed[before[i] : after[i]]
    alpha, w, touch = p.alpha.copy(), p.w, no_stats()
    dual.dcd_epoch(
        (starts, starts + counts, *apart, sq_norm), p.data, np.arange(9), p.loss, p.bias, alpha,
        w, touch, dual.PERMUTE, NONE, np.zeros(2), *UNTRACKED,
    )  # fmt: skip
    expected_alpha, expected_w = p.alpha.copy(), p.w
    expected = run(p, range(9), expected_alpha, expected_w)
    for got, wanted in ((alpha, expected_alpha), (w, expected_w), (touch, expected)):
        assert got.tobytes() == wanted.tobytes()


# -- Values


@examples(50)
@given(p=problems)
def test_the_dual_terms_make_the_dual_value(p):
    terms = np.array([1.0, 2.0, 3.0, 4.0])  # terms are added, not set
    dual.add_dual_terms(p.data, p.loss, p.alpha, terms)
    close(terms[dual.DUAL] - 1 - 0.5 * dot(p.w, p.w), p.dual(p.alpha), 1e-11, 100)
    assert terms[dual.N_SUPPORT] - 2 == np.count_nonzero(p.alpha)
    steps = reference.signs(p.target, p.kind) * p.alpha
    close(terms[dual.PLUS] - 3, steps[steps > 0].sum(), 1e-11, 100)
    close(terms[dual.MINUS] - 4, -steps[steps < 0].sum(), 1e-11, 100)


@examples(50)
@given(p=problems, seed=st.integers(0, 99))
def test_certify_rows_equals_the_reference_and_no_gap_is_negative(p, seed):
    average = np.random.default_rng(seed).normal(size=len(p.w))
    start = p.alpha.copy()
    balance = np.random.default_rng(seed).choice([0.0, 0.3, 1.0], 2)
    recomputed, sums, reach = certified(p, start, p.w, average, 1.0, balance=balance)
    signs = reference.signs(p.target, p.kind)
    alpha = p.alpha * np.where(signs * p.alpha > 0, *balance)
    expected_w, expected_loss = reference.certificate(
        p.X, p.target, p.cost, alpha, p.w, average, *p.loss
    )
    close(recomputed - 1, expected_w)
    close(sums[:, losses.LOSS] + sums[:, losses.LOW] - 2, expected_loss)
    used = (alpha != 0.0) & (p.cost > 0.0)
    lengths, steps = np.linalg.norm(p.X[used], axis=1), (signs * alpha)[used]
    sides = steps[steps > 0].sum(), -steps[steps < 0].sum()
    close(reach - 1, [abs(alpha[used]) @ lengths, used.sum(), *sides])
    assert start.tobytes() == p.alpha.tobytes()
    for w, gap in zip((p.w, average), sums[:, losses.GAP_TERM_BOUND] - 1, strict=True):
        moved = reference.weights(p.X, p.target, p.cost, alpha, p.kind)
        difference = p.primal(w) - p.dual(alpha) - 0.5 * np.sum((w - moved) ** 2)
        close(gap, difference, 1e-10, 1 + p.primal(w))
    for w in (p.w, average, np.zeros_like(average)):
        assert p.primal(w) >= p.dual(p.alpha) - 1e-9


@examples(50)
@given(p=problems, seed=st.integers(0, 99), wrong=st.floats(0.0, 1e-3))
def test_the_gap_of_a_row_holds_for_every_decision_close_by(p, seed, wrong):
    rng = np.random.default_rng(seed)
    low, high = reference.bounds(p.cost, p.kind)
    alpha = np.clip(p.alpha, low, high)
    for i in np.flatnonzero(p.cost):
        t, C, a, f = p.target[i], p.cost[i], alpha[i], rng.choice([1.0, -1.0]) + rng.normal() * 0.01
        entropy, q = losses.entropy_of(a / C) if p.kind == losses.LOGISTIC else 0.0, 0.5 * a / C
        lost = losses.loss(p.kind, p.epsilon, t, f)
        above = losses.gap_term_bound(p.kind, p.epsilon, t, C, f, lost, a, q, entropy, wrong)
        for other in np.linspace(f - wrong, f + wrong, 5):
            added = losses.gap_term(p.kind, p.epsilon, t, C, other, a)
            assert added <= above + 1e-14 * (1 + C * (1 + abs(f)))
        assert above <= losses.gap_term(p.kind, p.epsilon, t, C, f, a) + wrong * (
            2 * C * (3 + abs(a) / C + abs(t))
        ) + 1e-12 * (C + abs(a))


@examples(50)
@given(p=problems, seed=st.integers(0, 99), wrong=st.floats(0.0, 1e-3))
def test_the_error_of_a_loss_holds_for_every_decision_close_by(p, seed, wrong):
    rng = np.random.default_rng(seed)
    for t in p.target:
        f = rng.choice([1.0, -1.0, t]) + rng.choice([p.epsilon, 0.0]) + rng.normal() * 0.01
        lost = losses.loss(p.kind, p.epsilon, t, f)
        error = losses.error_of_loss(p.kind, p.epsilon, t, f, lost, wrong)
        for other in np.linspace(f - wrong, f + wrong, 5):
            off = abs(losses.loss(p.kind, p.epsilon, t, other) - lost)
            assert off <= error + 1e-15 * (1 + lost)
        assert error <= wrong * (2 * np.sqrt(lost) + 2 * wrong + 1) + 1e-14 * lost


@pytest.mark.parametrize("share", [1e-30, 6.2e-17, 1.2e-16, 1.6e-16, 3e-16, 1e-12])
@pytest.mark.parametrize("times", [0.3, 0.9, 1.1, 3.0])
def test_what_a_row_with_a_tiny_alpha_adds_is_not_rounded_away(share, times):
    """For such u = alpha / C and s = exp(-margin) that is C (u log(u / s) - u + s)."""
    C, s = 1e15, share * times
    a, f = C * share, -np.log(s)
    lost, entropy = losses.loss(losses.LOGISTIC, 0.0, 1.0, f), losses.entropy_of(a / C)
    above = losses.gap_term_bound(
        losses.LOGISTIC, 0.0, 1.0, C, f, lost, a, 0.5 * a / C, entropy, 0.0
    )
    adds = C * (share * np.log(share / s) - share + s)
    assert adds * (1 - 1e-9) <= above <= adds + 1e-11 * C * share


@every_loss
def test_alpha_outside_of_its_domain_proves_nothing(kind):
    """Neither the gap nor w' nor the dual value may rest on who wrote alpha."""
    p = make(kind, 4, n=60, bias=1.0, epsilon=0.1)
    rng = np.random.default_rng(4)
    low, high = reference.bounds(p.cost, kind)
    alpha = p.alpha + rng.choice([0.0, 1.0, -1.0], 60) * 3.0 * p.cost
    alpha[:5] = np.nan, np.inf, -np.inf, 1e300, -1e300
    if kind in (losses.SQUARED_HINGE, losses.L2_SVR):
        alpha[3:5] = 5.0, -5.0
    feasible = np.clip(np.where(np.isfinite(alpha), alpha, 0.0), low, high)
    assert (alpha != feasible).any()
    w, average = rng.normal(size=(2, 5))
    for got, expected in zip(
        certified(p, alpha, w, average), certified(p, feasible, w, average), strict=True
    ):
        assert got.tobytes() == expected.tobytes()
    terms = np.zeros((2, dual.N_TERMS))
    for found, numbers in zip(terms, (alpha, feasible), strict=True):
        dual.add_dual_terms(p.data, p.loss, numbers, found)
    assert terms[0].tobytes() == terms[1].tobytes()


def test_a_decision_that_is_no_number_leaves_no_bound():
    p = make(losses.HINGE, 1, n=6)
    _, sums, _ = certified(p, p.alpha, np.full(5, np.nan), np.zeros(5))
    assert sums[0, losses.GAP_TERM_BOUND] == np.inf
    assert np.isfinite(sums[1]).all()


@pytest.mark.long
def test_a_gap_smaller_than_the_rounding_of_sums_is_told():
    """10^7 empty rows: P and D, added up in a row, are wrong by more than they differ."""
    n, times, true_gap = 100_000, 100, 1e-10
    p = Problem(losses.HINGE, np.zeros((n, 0)), np.ones(n), np.full(n, 0.1), np.zeros(n))
    alpha, found = p.cost * (1 - true_gap), None
    for _ in range(times):
        found = certified(p, alpha, np.zeros(1), np.zeros(1), added_to=found)
    _, sums, reach = found
    primal = sums[0, losses.LOSS] + sums[0, losses.LOW]
    assert primal == pytest.approx(0.1 * n * times, rel=1e-15)
    assert sums[0, losses.GAP_TERM_BOUND] == pytest.approx(true_gap * primal, rel=1e-5)
    assert reach[:2].tolist() == [0.0, n * times]


def certified(p, alpha, w, average, start=0.0, added_to=None, balance=(1.0, 1.0)):
    """Return w', sums and reach, all added to `start` or to what a call gave."""
    if added_to is None:
        added_to = np.full(len(w), start), np.full((2, losses.N_SUMS), start), np.full(4, start)
    recomputed, sums, reach = added_to
    norms = np.linalg.norm([w, average], axis=1) * (1 + 1e-9)
    dual.certify_rows(
        p.cut, p.data, p.loss, p.bias, alpha, np.array(balance), w, average, True, norms,
        recomputed, sums, reach,
    )  # fmt: skip
    return recomputed, sums, reach


# -- Optima


def solve(p, gap, most=20_000):
    """Return alpha and w when the relative gap is below `gap`."""
    alpha, w, rng = p.alpha.copy(), p.w, np.random.default_rng(0)
    gaps = []
    for epoch in range(most):
        run(p, rng.permutation(len(p)), alpha, w)
        if epoch % 50 == 49:
            gaps.append(p.primal(w) - p.dual(alpha))
            assert gaps[-1] >= -1e-10 * p.primal(w)
            if gaps[-1] <= gap * p.primal(w):
                return alpha, w
    raise AssertionError(f"gaps {gaps[::20]}")


@pytest.mark.parametrize("bias", [0.0, 1.0])
@every_loss
def test_many_epochs_close_the_gap(kind, bias):
    p = make(kind, 6, n=30, bias=bias, epsilon=0.1)
    p = replace(p, cost=p.cost / 20, alpha=p.alpha / 20)
    alpha, w = solve(p, 1e-9)
    touch = run(p, range(30), alpha, w)
    assert touch[dual.PG_MAX] - touch[dual.PG_MIN] < 1e-3
    close(w, replace(p, alpha=alpha).w)


@pytest.fixture(scope="module")
def liblinear(tmp_path_factory):
    train = liblinear_program("liblinear-train")
    folder = tmp_path_factory.mktemp("liblinear")

    def optimum(p, solver, *options):
        """Return the w that LIBLINEAR finds, with a last entry for the bias feature."""
        lines = (
            f"{t:.17g} " + " ".join(f"{j + 1}:{row[j]:.17g}" for j in np.nonzero(row)[0])
            for t, row in zip(p.target, p.rows, strict=True)
        )
        (folder / "rows").write_text("\n".join(lines) + "\n")
        command = [train, "-q", "-s", str(solver), "-B", f"{p.bias or -1}", "-p", f"{p.epsilon}"]
        subprocess.run([*command, *options, "rows", "model"], cwd=folder, check=True)
        lines = (folder / "model").read_text().splitlines()
        w = np.array([float(line) for line in lines[lines.index("w") + 1 :]])
        if p.kind <= losses.LOGISTIC and "label -1 1" in lines:
            w = -w
        return w if p.bias else np.append(w, 0.0)

    return optimum


@pytest.mark.long
@pytest.mark.parametrize("weight", [1.0, 3.0])
@pytest.mark.parametrize("bias", [0.0, 1.0])
@pytest.mark.parametrize(
    ("kind", "solver"), [*zip(KINDS, [3, 1, 7, 13, 12], strict=True)], ids=NAMES
)
def test_the_optimum_is_that_of_liblinear(liblinear, kind, solver, bias, weight):
    X, y = load_svmlight_file(str(HEART))
    cost, options = np.full(len(y), 0.05), ["-c", "0.05", "-e", "1e-7"]
    if kind <= losses.LOGISTIC:
        cost[y > 0] *= weight
        options += ["-w1", str(weight)]
    else:  # a value to predict, on the scale of the features
        y = weight * (X.toarray() @ np.arange(X.shape[1]) / 10 + 0.3 * y)
    p = Problem(kind, X.toarray(), y, cost, np.zeros(len(y)), bias, 0.1)
    theirs = p.primal(liblinear(p, solver, *options))
    alpha, w = solve(p, 1e-7)
    assert p.primal(w) == pytest.approx(theirs, rel=1e-6)
    assert p.dual(alpha) == pytest.approx(theirs, rel=1e-6)
