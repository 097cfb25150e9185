"""L1 regularisation: the optimum and its proof, one model and many, columns that do not all fit."""

import errno
import itertools
import math
import re
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
import reference
from scipy.optimize import linprog, minimize
from scipy.sparse import csr_matrix
from scipy.special import expit
from training.small import Heard, Problem, outcome, random_problem, split_problem

from blocklinear import (
    AddOptions,
    SplitOptions,
    StoreWriter,
    TrainOptions,
    remove,
    train,
    train_grid,
)
from blocklinear.errors import InputError, MemoryBudgetError, StorageError, UsageError
from blocklinear.events import OuterIteration, WarmStarted, Warned
from blocklinear.kernels import l1 as kernels
from blocklinear.kernels.blocks.columns import count
from blocklinear.kernels.losses import LOGISTIC, SQUARED_HINGE
from blocklinear.memory import PROCESS_BYTES
from blocklinear.selection.cross_validation import cross_validate
from blocklinear.solvers.l1 import columns, descent, iterate, scratch, subspace
from blocklinear.solvers.l1.columns import ColumnCache
from blocklinear.solvers.l1.iterate import through_smaller_costs
from blocklinear.solvers.l1.penalty import Penalty
from blocklinear.solvers.l1.scratch import ScratchArray
from blocklinear.store.prefetch import GroupLoader
from blocklinear.training import loop
from blocklinear.training.memory_plan import plan_memory
from blocklinear.training.run import Run
from solvers.test_newton import check_resumed, classes

each_solver = pytest.mark.parametrize("solver", [5, 6])


def sparse_problem(seed=0, solver=6, n_rows=300, n_features=200, **changes):
    """Rows of words, most of which tell nothing."""
    rng = np.random.default_rng(seed)
    X = rng.random((n_rows, n_features)) * (rng.random((n_rows, n_features)) < 0.1)
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-3)
    w = rng.normal(size=n_features) * (rng.random(n_features) < 0.1)
    labels = np.where(X @ w + 0.1 * rng.normal(size=n_rows) > 0.0, 1.0, -1.0)
    return Problem(X.round(4), labels, solver, **({"cost": 3.0} | changes))


@pytest.fixture
def little_room(monkeypatch):
    """Let the columns of a third of the entries fit, whatever the budget."""

    def plan(manifest, *args):
        return replace(plan_memory(manifest, *args), working_set_entries=manifest.nnz // 3)

    monkeypatch.setattr(loop, "plan_memory", plan)


@pytest.fixture
def hardly_any_room(monkeypatch):
    """Let the columns of one entry in thirty fit: not those of the features in use."""

    def plan(manifest, *args):
        return replace(plan_memory(manifest, *args), working_set_entries=manifest.nnz // 30)

    monkeypatch.setattr(loop, "plan_memory", plan)


# -- The optimum


@each_solver
@pytest.mark.parametrize("seed", range(16))
def test_it_comes_to_the_optimum_and_proves_it(tmp_path, solver, seed):
    problem = replace(random_problem(seed, solver=solver), cost=10.0 ** (seed % 4 - 1))
    store, heard = split_problem(tmp_path, problem, 3), Heard()
    model = train(store, problem.options(gap=1e-7, group=1 + seed % 3), heard)
    proof, optimum = model.metadata["certificate"], problem.optimum()
    assert model.metadata["stopped"] == "converged"
    assert problem.primal_of(model) == pytest.approx(proof["primal"], rel=1e-12)
    assert proof["primal"] - optimum <= 1e-7 * proof["primal"]
    for report in heard.of(OuterIteration):
        assert report.certified
        assert report.dual <= optimum * (1 + 1e-12)
        assert report.primal - report.dual <= report.gap * report.primal * (1 + 1e-9)


@each_solver
def test_weights_of_what_tells_nothing_are_0(tmp_path, solver):
    problem = sparse_problem(solver=solver)
    model = train(split_problem(tmp_path, problem, 4), problem.options(gap=1e-8))
    in_use = np.flatnonzero(model.weights[:, 0])
    assert 3 < len(in_use) < 150
    few = replace(problem, cost=0.01)
    (tmp_path / "few").mkdir()
    assert not train(split_problem(tmp_path / "few", few, 4), few.options()).weights.any()


@pytest.mark.parametrize(
    "options", [{}, {"l1_ratio": 0.5}, {"bias": 1.0, "regularize_bias": False}, {"cost": 1e6}]
)
def test_few_features_that_depend_on_each_other_are_solved_for_from_inside(
    tmp_path, monkeypatch, options
):
    """Newton steps went from corner to corner: hundreds, and with a ridge without end."""
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(120, 8))
    X = (100.0 * factors @ rng.normal(size=(8, 60)) + 30.0 * rng.normal(size=(120, 60))).round()
    labels = np.where(factors[:, 0] + 0.2 * rng.normal(size=120) > 0.0, 1.0, -1.0)
    used = used_from_inside(tmp_path, monkeypatch, Problem(X, labels, 5), options, 60)
    assert used[0] <= used[1] + 3 < 60


def used_from_inside(tmp_path, monkeypatch, problem, options, most):
    """Train to two gaps in fewer Newton steps than `most`; return how many weights are in use."""
    steps, newton_step = [], descent.Descent.newton_step

    def step(self):
        steps.append(self.value)
        assert len(steps) < most
        return newton_step(self)

    monkeypatch.setattr(descent.Descent, "newton_step", step)
    store = split_problem(tmp_path, problem, 2)
    models = [train(store, problem.options(gap=gap, **options)) for gap in (1e-3, 1e-7)]
    rough, exact = (model.metadata["certificate"] for model in models)
    assert rough["dual"] <= exact["primal"]
    assert exact["dual"] <= rough["primal"]
    assert exact["gap"] <= 1e-7
    return [np.count_nonzero(model.weights) for model in models]


@pytest.mark.parametrize("cost", [10.0, 1e4])
@pytest.mark.parametrize(
    "options",
    [{}, {"l1_ratio": 0.9}, {"bias": 1.0}, {"bias": 1.0, "regularize_bias": False}],
)
@pytest.mark.parametrize("weighted", [False, True])
def test_few_rows_are_solved_for_from_inside(tmp_path, monkeypatch, cost, options, weighted):
    """Smaller costs led nowhere, and with C = 1e4 there was no end."""
    weights = np.random.default_rng(7).integers(0, 3, 150).astype(float) if weighted else None
    problem = counts_of_words(0, cost=cost, weights=weights)
    used = used_from_inside(tmp_path, monkeypatch, problem, options, 240)
    assert max(used) <= 150


def counts_of_words(seed, n_rows=150, n_features=1500, **changes):
    """Texts of very different lengths, by counts of words that are as frequent as in any."""
    rng = np.random.default_rng(seed)
    lengths = 5 + np.exp(rng.normal(5.5, 1.2, n_rows)).astype(int)
    frequent = np.exp(rng.normal(size=(n_rows, n_features))) / (np.arange(n_features) + 2.7)
    frequent /= frequent.sum(1, keepdims=True)
    X = rng.multinomial(lengths, frequent).astype(float)
    return Problem(X, rng.choice([-1.0, 1.0], n_rows), 5, **({"cost": 10.0} | changes))


@pytest.mark.parametrize("seed", [0, 2])
def test_margins_that_are_close_do_not_stop_descent(tmp_path, monkeypatch, seed):
    monkeypatch.setattr(descent, "_STEPS_INSIDE", math.inf)
    problem, heard = counts_of_words(seed), Heard()
    store = split_problem(tmp_path, problem, 1)
    train(store, problem.options(gap=1e-3, max_outer=30), heard)
    assert heard.of(OuterIteration)[-1].gap <= 1e-3  # quadratic models alone take 50


@each_solver
@pytest.mark.parametrize("ratio", [1.0, 0.5])
def test_steps_are_ended_once_the_time_limit_has_passed(tmp_path, monkeypatch, solver, ratio):
    """Newton steps of an outer iteration went on until they gained little: for a minute."""
    monkeypatch.setattr(descent, "_LONGEST_PART", 50)
    monkeypatch.setattr(descent, "_STEPS_INSIDE", math.inf)  # which would end it before
    problem = sparse_problem(solver=solver, cost=1e6)
    store, ticks, last = split_problem(tmp_path, problem, 3), itertools.count(), []

    def seconds(run):
        last.append(float(next(ticks)))
        return last[-1]

    monkeypatch.setattr(Run, "seconds", property(seconds))
    values = []
    for limit in (5.0, 100.0, 500.0, 3000.0):
        ticks, heard = itertools.count(), Heard()
        options = problem.options(gap=1e-12, time_limit_s=limit, l1_ratio=ratio, restart=True)
        model = train(store, options, heard)
        assert model.metadata["stopped"] == f"{limit:g} seconds"
        assert last[-1] - limit < 30.0  # looks at the clock after that
        proof = model.metadata["certificate"]
        assert proof["gap"] > 1e-12
        if ratio == 1.0:
            assert problem.primal_of(model) == pytest.approx(proof["primal"], rel=1e-9)
        values.append(proof["primal"])
    assert values == sorted(values, reverse=True)
    assert values[-1] < 0.5 * values[0]


@each_solver
@pytest.mark.parametrize("bias", [1.0, 3.0])
def test_a_free_bias_is_not_regularised(tmp_path, solver, bias):
    problem = sparse_problem(solver=solver, bias=bias, cost=2.0)
    problem = replace(problem, labels=np.where(np.arange(300) % 5 == 0, 1.0, problem.labels))
    store = split_problem(tmp_path, problem, 3)
    free = train(store, problem.options(gap=1e-6, regularize_bias=False))
    assert free.metadata["stopped"] == "converged"
    proof = free.metadata["certificate"]
    value = problem.primal_of(free) - abs(free.bias_weights[0])
    assert value == pytest.approx(proof["primal"], rel=1e-9)
    # the same bias as a feature that is so large that its weight costs nothing
    large = replace(problem, bias=1e5)
    (tmp_path / "large").mkdir()
    other = train(split_problem(tmp_path / "large", large, 3), large.options(gap=1e-7))
    assert proof["dual"] <= large.primal_of(other)
    assert proof["primal"] == pytest.approx(other.metadata["certificate"]["primal"], rel=1e-4)


@each_solver
def test_weights_of_rows_and_classes_count(tmp_path, solver):
    problem = sparse_problem(solver=solver, n_rows=120, class_weights=((1.0, 3.0), (-1.0, 0.5)))
    problem = replace(problem, weights=np.random.default_rng(1).integers(0, 4, 120).astype(float))
    model = train(split_problem(tmp_path, problem, 3), problem.options(gap=1e-8))
    assert problem.primal_of(model) <= problem.optimum() * (1 + 1e-8)


def test_the_tolerance_is_that_of_liblinear(tmp_path):
    """The sum of violations is compared with that at 0, times the share of the smaller class."""
    problem = sparse_problem()
    store, heard = split_problem(tmp_path, problem, 2), Heard()
    model = train(store, problem.options(tolerance=0.01), heard)
    assert model.metadata["stopped"] == "converged"
    w = model.weights[:, 0]
    y = np.where(problem.labels == model.labels[0], 1.0, -1.0)

    def violation(w):
        pull = problem.X.T @ (y * problem.cost / (1 + np.exp(y * (problem.X @ w))))
        at_0 = np.maximum(np.abs(pull) - 1.0, 0.0)
        return np.where(w == 0.0, at_0, np.abs(pull - np.sign(w))).sum()

    share = min((y > 0).mean(), (y < 0).mean())
    relative = violation(w) / violation(np.zeros(len(w))) / share
    last = heard.of(OuterIteration)[-1]
    assert last.violation <= 0.01
    assert last.violation == pytest.approx(relative, rel=1e-6)


# -- The elastic net


def elastic_value(problem, w, free=False):
    """P by the dense formula; w with the weight of the bias last."""
    t = np.where(problem.labels == 1.0, 1.0, -1.0)
    loss = reference.total_loss(problem.rows, t, problem.costs(), w, problem.kind)
    w, ratio = w[:-1] if free else w, problem.l1_ratio
    return loss + ratio * np.abs(w).sum() + 0.5 * (1.0 - ratio) * w @ w


def elastic_optimum(problem, free=False):
    """P of what L-BFGS-B finds, of positive and negative parts; never below the true optimum."""
    X, d = problem.rows, problem.rows.shape[1]
    t, C = np.where(problem.labels == 1.0, 1.0, -1.0), problem.costs()
    costs = np.ones(d) - free * (np.arange(d) == d - 1)

    def value_and_gradient(parts):
        w = parts[:d] - parts[d:]
        margins = t * (X @ w)
        if problem.solver == 6:
            loss, slope = np.logaddexp(0, -margins), -expit(-margins)
        else:
            loss, slope = np.maximum(0, 1 - margins) ** 2, -2 * np.maximum(0, 1 - margins)
        ratio = problem.l1_ratio
        smooth = X.T @ (C * t * slope) + (1 - ratio) * costs * w
        value = C @ loss + ratio * costs @ (parts[:d] + parts[d:])
        value += 0.5 * (1 - ratio) * (costs * w) @ w
        return value, np.r_[smooth + ratio * costs, -smooth + ratio * costs]

    how = {"ftol": 1e-16, "gtol": 1e-11, "maxiter": 20_000, "maxfun": 100_000, "maxcor": 50}
    found = minimize(
        value_and_gradient, np.zeros(2 * d), jac=True, method="L-BFGS-B",
        bounds=[(0, None)] * (2 * d), options=how,
    )  # fmt: skip
    return elastic_value(problem, found.x[:d] - found.x[d:], free)


def elastic_problem(seed, solver):
    ratio = (0.02, 0.5, 0.9, 0.999)[seed % 4]
    return replace(random_problem(seed, solver=solver), l1_ratio=ratio, class_weights=())


@each_solver
@pytest.mark.parametrize("seed", range(16))
def test_an_elastic_net_comes_to_its_optimum_and_proves_it(tmp_path, solver, seed):
    problem = elastic_problem(seed, solver)
    free = seed % 3 == 0 and problem.bias > 0.0
    store, heard = split_problem(tmp_path, problem, 3), Heard()
    options = problem.options(gap=1e-7, group=1 + seed % 3, regularize_bias=not free)
    model = train(store, options, heard)
    proof, optimum = model.metadata["certificate"], elastic_optimum(problem, free)
    w = np.zeros(problem.rows.shape[1])
    w[: model.n_features] = model.weights[:, 0]
    w[-1] = model.bias_weights[0] if problem.bias > 0.0 else 0.0
    w *= 1.0 if model.labels[0] == 1.0 else -1.0
    assert model.metadata["stopped"] == "converged"
    assert model.metadata["l1_ratio"] == problem.l1_ratio
    assert elastic_value(problem, w, free) == pytest.approx(proof["primal"], rel=1e-12)
    assert proof["primal"] - optimum <= 1e-7 * proof["primal"]
    for report in heard.of(OuterIteration):
        assert report.dual <= optimum * (1 + 1e-12)


def test_less_of_l1_leaves_more_weights_in_use(tmp_path):
    problem = sparse_problem()
    store = split_problem(tmp_path, problem, 3)
    in_use = [
        np.count_nonzero(train(store, problem.options(gap=1e-6, l1_ratio=ratio)).weights)
        for ratio in (1.0, 0.5, 0.1)
    ]
    assert in_use[0] < in_use[1] < in_use[2]


@each_solver
def test_an_elastic_net_whose_columns_do_not_all_fit(tmp_path, little_room, solver):
    problem = replace(sparse_problem(solver=solver), l1_ratio=0.7)
    store = split_problem(tmp_path, problem, 4)
    model = train(store, problem.options(gap=1e-2, group=1))
    assert model.metadata["stopped"] == "converged"
    assert problem.primal_of(model) <= elastic_optimum(problem) * (1 + 1e-2)


def test_ratios_that_are_none_are_refused():
    for ratio in (0.0, -0.5, 1.5, float("nan")):
        with pytest.raises(UsageError, match="l1-ratio"):
            TrainOptions(solver=6, l1_ratio=ratio)
    with pytest.raises(UsageError, match="5 or 6 with an l1-ratio"):
        TrainOptions(solver=1, l1_ratio=0.5)


# -- Many models


@each_solver
def test_each_class_against_the_rest(tmp_path, solver):
    problem = replace(classes(4), solver=solver, cost=5.0)
    store = split_problem(tmp_path, problem, 3)
    found = train(store, problem.options(gap=1e-7))
    assert len(found.metadata["certificates"]) == 4
    for j, label in enumerate(found.labels):
        one = replace(problem, labels=np.where(problem.labels == label, 1.0, -1.0))
        proof = found.metadata["certificates"][j]
        assert proof["gap"] <= 1e-7
        assert proof["primal"] <= one.optimum() * (1 + 1e-7)


@each_solver
def test_a_grid_is_what_each_cost_makes(tmp_path, solver):
    problem = sparse_problem(solver=solver)
    store = split_problem(tmp_path, problem, 3)
    models = train_grid(store, problem.options(costs=(1.0, 4.0), gap=1e-8))
    for cost, model in zip((1.0, 4.0), models, strict=True):
        proof = model.metadata["certificate"]
        assert proof["primal"] <= replace(problem, cost=cost).optimum() * (1 + 1e-8)


@each_solver
def test_models_of_a_grid_begin_as_each_does_alone(tmp_path, solver):
    problem = sparse_problem(solver=solver, class_weights=((1.0, 3.0), (-1.0, 0.5)))
    problem = replace(problem, weights=np.random.default_rng(1).integers(0, 4, 300).astype(float))
    store, heard, costs = split_problem(tmp_path, problem, 4), Heard(), (1e-300, 0.3, 3.0, 1e9)
    train_grid(store, problem.options(costs=costs, group=1, max_outer=2), heard)
    together = {report.outer: dict(report.gaps) for report in heard.of(OuterIteration)}
    for cost in costs:
        alone = Heard()
        train(store, replace(problem, cost=cost).options(group=1, max_outer=2, restart=True), alone)
        for report in alone.of(OuterIteration):
            assert together[report.outer][cost] == pytest.approx(report.gap, rel=1e-4)


def test_cross_validation_leaves_rows_out(tmp_path):
    problem = sparse_problem(n_rows=200)
    store = split_problem(tmp_path, problem, 3)
    found = cross_validate(store, problem.options(gap=1e-5), n_folds=4, costs=(1.0, 5.0))
    right = np.sign(found.predicted.reshape(200, -1)) == problem.labels[:, None]
    assert (right.mean(axis=0) > 0.6).all()


# -- Columns in memory


def test_a_loose_gap_is_reached_no_later_than_a_tight_one(tmp_path):
    rng = np.random.default_rng(4)
    X = (rng.normal(size=(600, 12)) * 10.0 ** rng.uniform(-1.0, 1.0, 12)).round(4)
    labels = np.where(X @ rng.normal(size=12) + 3.0 * rng.normal(size=600) > 0.0, 1.0, -1.0)
    problem = Problem(X, labels, 5, cost=100.0)
    store = split_problem(tmp_path, problem, 2)
    loose, tight = (train(store, problem.options(gap=gap)) for gap in (0.1, 1e-6))
    assert loose.metadata["outer_iterations"] <= tight.metadata["outer_iterations"]


def test_about_as_many_features_as_support_vectors_are_solved_for_together(tmp_path):
    """The Hessian is nearly singular: with 128 of 225 together the gap stays at 6e-5."""
    problem = sparse_problem(solver=5, n_features=900, cost=100.0)
    model = train(split_problem(tmp_path, problem, 2), problem.options(gap=1e-7, max_outer=40))
    assert np.count_nonzero(model.weights) > columns.TOGETHER
    assert model.metadata["stopped"] == "converged"


def test_dual_points_that_take_long_are_given_up(tmp_path, monkeypatch):
    problem = sparse_problem(solver=5, n_rows=400, n_features=600, cost=30.0)
    store, tried = split_problem(tmp_path, problem, 3), []
    before = descent.Descent.pulled

    def pulled(self, most):
        steps, cycle = self.work, 5 * int(np.diff(self._columns.starts).sum())
        point = before(self, most)
        tried.append((steps, cycle, most, self.work - steps))
        return point

    monkeypatch.setattr(descent.Descent, "pulled", pulled)
    model = train(store, problem.options(gap=1e-5))
    assert model.metadata["stopped"] == "converged"
    assert any(used > 0 for *_, used in tried)
    assert all(steps <= most and used <= most / 2 + cycle for steps, cycle, most, used in tried)


def test_alpha_that_come_to_their_ends_do_not_keep_a_dual_point_from_being_feasible(
    tmp_path, monkeypatch
):
    """Moved there again by each cycle, they left a dual point as it was until it was given up."""
    problem = sparse_problem(8, 5, n_rows=600, n_features=300, cost=100.0)
    rows, labels, rng = problem.X.copy(), np.full(600, -1.0), np.random.default_rng(8)
    labels[rng.choice(600, 12, replace=False)] = 1.0
    rows[labels > 0.0, :3] += 0.2
    rare, shares, before = replace(problem, X=rows.round(4), labels=labels), [], descent.Descent
    monkeypatch.setattr(descent, "_STEPS_INSIDE", math.inf)  # which would leave nothing to pull

    class Noted(before):
        def pulled(self, most):
            steps = self.work
            point = super().pulled(most)
            shares.append((self.work - steps) / most)
            return point

    monkeypatch.setattr(iterate, "Descent", Noted)
    train(split_problem(tmp_path, rare, 3), rare.options(gap=1e-3))
    assert 0.0 < max(shares) < 0.25


def test_passes_go_on_along_what_they_changed(tmp_path, monkeypatch):
    """The features depend on each other: one after the other, passes take hundreds."""
    rng, n_rows, m = np.random.default_rng(1), 300, 150
    X = (1.0 + rng.random((n_rows, 1)) + 0.3 * rng.random((n_rows, m))).round(3)
    problem = Problem(X, np.arange(n_rows) % 2 * 2.0 - 1.0, 5)
    store = split_problem(tmp_path, problem, 1)
    cache = ColumnCache(store.manifest, 0.0, np.float64, X.size, tmp_path, 1)
    with GroupLoader(store, 1, 1) as loader:
        (loaded,) = loader.stream([(0,)])
        count(loaded.group.indices, cache.counts)
        cache.want(np.arange(m), np.arange(m))
        cache.collect(loaded.group.rows)
        cache.finish()
    X = cache.values.reshape(m, n_rows).T
    monkeypatch.setattr(descent, "TOGETHER", 0)
    monkeypatch.setattr(descent, "_LAST_GAIN", 0.0)
    rows = descent.Rows(SQUARED_HINGE, problem.labels, np.ones(n_rows), np.ones(n_rows), None)

    def least():
        step = descent.Descent(
            rows, cache, np.arange(m), np.zeros(m + 1), np.zeros(n_rows), Penalty(0.5, 0.0, True),
            0.0, 0.0, 1, 0, lambda: None,
        )  # fmt: skip
        d, _ = step._model_step(0.0)
        moved = X @ d
        assert step._state[:, kernels.MOVED] == pytest.approx(moved, abs=1e-9)
        return moved @ moved - step.step @ moved + 0.5 * np.abs(d).sum()

    found = least()
    monkeypatch.setattr(subspace.Subspace, "go_on", lambda *_: 0.0)
    slower = least()
    monkeypatch.setattr(descent, "_MOST_PASSES", 20_000)
    optimum = least()
    assert found - optimum <= 0.2 * (slower - optimum)


def test_steps_that_are_to_be_short_do_not_go_on(tmp_path, monkeypatch):
    """Where no part of a step lowered the primal, shorter ones are tried: they went far again."""
    problem, gone_on, tried = sparse_problem(solver=6), [], []
    before, go_on = descent.Descent._step, subspace.Subspace.go_on

    def step(self, enough):
        tried.append(self._damped)
        gone_on.clear()
        found = before(self, enough)
        assert bool(gone_on) != self._damped
        return found if self._damped else (0.0, *found[1:])

    def noted(self, *args):
        gone_on.append(True)
        return go_on(self, *args)

    monkeypatch.setattr(descent.Descent, "_step", step)
    monkeypatch.setattr(subspace.Subspace, "go_on", noted)
    train(split_problem(tmp_path, problem, 3), problem.options(gap=1e-3, max_outer=4))
    assert True in tried


@pytest.mark.parametrize("seed", [0, 2])
def test_steps_that_are_to_be_short_solve_for_no_features_together(tmp_path, seed):
    """Once no row had a loss, all weights went to 0 together, which no part of a step can."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((3, 100)) * 10.0 ** rng.integers(-6, 7, 100)
    problem = Problem(X, np.array([1.0, -1.0, 1.0]), 5, cost=10.0, l1_ratio=0.5)
    model = train(split_problem(tmp_path, problem, 1), problem.options(gap=1e-3, max_outer=20))
    assert model.metadata["stopped"] == "converged"


@pytest.mark.parametrize("seed", range(20))
def test_the_least_value_along_a_direction_is_found(seed):
    rng = np.random.default_rng(seed)
    at = rng.normal(size=8) * (rng.random(8) < 0.7)
    direction, penalty = rng.normal(size=8), rng.random(8) * (rng.random(8) < 0.9)
    slope, curvature = -rng.random() * 10.0, rng.random()

    def value(t):
        return slope * t + 0.5 * curvature * t * t + penalty @ np.abs(at + t * direction)

    length, fell = subspace.least_along(slope, curvature, penalty, at, direction)
    lengths = np.linspace(0.0, 2.0 * length + 1.0, 100001)
    best = min(value(t) for t in lengths)
    assert fell == pytest.approx(value(0.0) - value(length), abs=1e-12)
    assert value(length) <= best + 1e-12


@pytest.mark.parametrize("promised", [1e-20, 1.0])
def test_steps_that_lower_nothing_are_not_tried_for_ever(tmp_path, monkeypatch, promised):
    monkeypatch.setattr(descent.Descent, "_step", lambda self, enough: (0.0, promised, 1.0, 0.0))
    problem, heard = sparse_problem(), Heard()
    model = train(split_problem(tmp_path, problem, 3), problem.options(gap=1e-3), heard)
    assert "where rounding ends it" in model.metadata["stopped"]


@each_solver
@pytest.mark.parametrize("bias", [-1.0, 1.0])
def test_columns_that_do_not_all_fit(tmp_path, little_room, solver, bias):
    problem = sparse_problem(solver=solver, bias=bias)
    store, heard = split_problem(tmp_path, problem, 4), Heard()
    model = train(store, problem.options(gap=1e-2, group=1), heard)
    assert model.metadata["stopped"] == "converged"
    optimum = problem.optimum()
    assert problem.primal_of(model) <= optimum * (1 + 1e-2)
    assert all(report.dual <= optimum * (1 + 1e-12) for report in heard.of(OuterIteration))


@each_solver
@pytest.mark.parametrize("bias", [-1.0, 1.0])
@pytest.mark.parametrize("ratio", [1.0, 0.7])
def test_columns_in_use_that_do_not_fit(tmp_path, hardly_any_room, solver, bias, ratio):
    problem = sparse_problem(solver=solver, bias=bias, cost=10.0, n_rows=2000, l1_ratio=ratio)
    store, filed = split_problem(tmp_path, problem, 4), []
    with pytest.MonkeyPatch.context() as patch:
        release = ScratchArray.release
        patch.setattr(ScratchArray, "release", lambda self: (filed.append(self), release(self)))
        model = train(store, problem.options(gap=1e-6, group=1))
    proof = model.metadata["certificate"]
    assert filed
    assert model.metadata["stopped"] == "converged"
    everything = train(store, problem.options(gap=1e-6, group=4, run="everything"))
    assert proof["gap"] <= 1e-6
    assert proof["dual"] <= everything.metadata["certificate"]["primal"] * (1.0 + 1e-12)
    assert not list(store.folder.rglob("column-*"))


@each_solver
@pytest.mark.parametrize(
    ("n_features", "free", "lacking"), [(1, False, 1), (4, True, 1), (4, True, 200)]
)
def test_columns_of_which_a_single_one_does_not_fit(
    tmp_path, monkeypatch, solver, n_features, free, lacking
):
    """As long as all rows; or that of a free bias, which violates nothing, next to all others."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, n_features)).round(2) + 3.0
    labels = np.where(X.sum(axis=1) + rng.normal(size=400) > 3.0 * n_features, 1.0, -1.0)
    problem = Problem(X, labels, solver, cost=1.0, bias=1.0 if free else -1.0)
    store = split_problem(tmp_path, problem, 4)

    def plan(manifest, *args):
        room = manifest.nnz - lacking
        return replace(plan_memory(manifest, *args), working_set_entries=room)

    monkeypatch.setattr(loop, "plan_memory", plan)
    model = train(store, problem.options(gap=1e-4, group=1, regularize_bias=not free))
    assert model.metadata["stopped"] == "converged"


@each_solver
def test_no_file_is_begun_where_memory_holds_all_columns(tmp_path, monkeypatch, solver):
    """The first steps have no columns, as none was asked for: that is no lack of memory."""
    begun = []
    monkeypatch.setattr(ColumnCache, "use_file", lambda self: begun.append(self))
    problem = sparse_problem(solver=solver)
    model = train(split_problem(tmp_path, problem, 3), problem.options(gap=1e-6))
    assert model.metadata["stopped"] == "converged"
    assert not begun


@each_solver
@pytest.mark.parametrize("most", [120, 12])
def test_descent_on_some_of_the_features_at_a_time(tmp_path, monkeypatch, solver, most):
    """All that matter fit, but not at first; or they never do, which leaves the proof loose."""
    monkeypatch.setattr(
        "blocklinear.solvers.l1.solver.descent_room", lambda *_: most * columns.DESCENT_BYTES
    )
    chosen, improve = [], iterate.L1Iterate.improve

    def noted(self, rows, of, features, cut_short):
        chosen.append(len(features))
        improve(self, rows, of, features, cut_short)

    monkeypatch.setattr(iterate.L1Iterate, "improve", noted)
    problem = sparse_problem(solver=solver, cost=30.0, bias=1.0)
    store = split_problem(tmp_path, problem, 3)
    model = train(store, problem.options(gap=1e-3, max_outer=200))
    assert max(chosen) == most
    assert problem.primal_of(model) <= problem.optimum() * 1.05
    if most == 120:
        assert model.metadata["stopped"] == "converged"


@pytest.mark.parametrize("width", [1, 3])
def test_features_that_all_matter_keep_to_the_budget(tmp_path, width):
    """Each row has features of its own, which violate optimality at first, and little else."""
    rng, n, of_row = np.random.default_rng(0), 60, 10_000
    X = csr_matrix((rng.random(n * of_row) + 0.5, np.arange(n * of_row), np.arange(n + 1) * of_row))
    with StoreWriter(tmp_path / "store", SplitOptions(blocks=4)) as writer:
        writer.append(X, np.arange(n) % max(width, 2))
    store = writer.store
    options = TrainOptions(solver=5, cost=100.0, memory_bytes=1 << 20, max_outer=3, group=1)
    with pytest.raises(MemoryBudgetError) as refused:
        train(store, options)
    least = int(re.search(r"--memory (\d+)M", refused.value.fix)[1])
    for more in (0, 24):
        budget = least + more << 20
        tracemalloc.start()
        try:
            train(store, replace(options, memory_bytes=budget, restart=True))
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak <= budget - PROCESS_BYTES + (20 << 20)


def test_features_far_from_0_at_a_large_cost(tmp_path):
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((100, 5))
    labels = np.where(Z @ rng.standard_normal(5) + rng.standard_normal(100) > 0.0, 1.0, -1.0)
    problem = Problem(1000.0 + 10.0 * Z, labels, 5, cost=1e5, bias=1.0)
    model = train(split_problem(tmp_path, problem, 2), problem.options(gap=5e-6, max_outer=60))
    assert model.metadata["stopped"] == "converged"


def test_features_that_depend_on_each_other_at_a_large_cost(tmp_path):
    """Passes over their products took 42 outer iterations."""
    rng = np.random.default_rng(16)
    X = rng.uniform(0.0, 6.0, (300, 50))
    labels = np.where((X - X.mean(0)) @ rng.normal(size=50) + rng.normal(size=300) > 0.0, 1.0, -1.0)
    problem = Problem(X, labels, 5, cost=1e4)
    model = train(split_problem(tmp_path, problem, 2), problem.options(gap=1e-6, max_outer=15))
    assert model.metadata["stopped"] == "converged"


def test_a_full_disk_is_told_of(tmp_path, hardly_any_room, monkeypatch):
    def full(stream, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    problem = sparse_problem(cost=10.0)
    store = split_problem(tmp_path, problem, 4)
    monkeypatch.setattr(scratch, "write_all", full)
    with pytest.raises(StorageError, match=r"column-jumps.*No space left"):
        train(store, problem.options(gap=1e-2, group=1))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("used", [0, 5, 30])
def test_what_is_wanted_has_the_largest_pulls(seed, used):
    rng, n = np.random.default_rng(seed), 100
    pull = rng.normal(size=n) * 10.0 ** rng.integers(-3, 3, n) * (rng.random(n) < 0.7)
    pull[rng.random(n) < 0.2] = 0.5
    counts = (rng.random(n) < 0.8).astype(np.int32)
    w, none = np.where(np.arange(n) < used, counts, 0.0), np.zeros(5)
    model = iterate.L1Iterate(w, pull, none, none, Penalty(1.0, 0.0, False), 0.0, 1)
    wanted = model.wanted(counts)
    needed = (counts > 0) & ((w != 0.0) | (np.abs(pull) > 1.0))
    others = np.flatnonzero((counts > 0) & (pull != 0.0) & ~needed)
    size = max(2 * np.count_nonzero(w), np.count_nonzero(needed))
    first, more = np.split(wanted, [np.count_nonzero(needed)])
    assert len(np.unique(wanted)) == len(wanted)
    assert (np.sort(first) == np.flatnonzero(needed)).all()
    assert len(wanted) == min(size, np.count_nonzero(needed) + len(others))
    assert np.isin(more, others).all()
    assert (np.diff(np.abs(pull[more])) <= 0.0).all()
    left = np.abs(pull[np.setdiff1d(others, more)])
    if len(more) and len(left):
        assert np.abs(pull[more]).min() >= left.max() * (1.0 - 2.0**-23)


@pytest.mark.parametrize("in_use", [0, 90])
def test_a_cache_has_the_columns_that_were_wanted(tmp_path, in_use):
    """If those in use do not fit, all that were ever wanted."""
    problem = sparse_problem(bias=2.0)
    store = split_problem(tmp_path, problem, 3)
    manifest = store.manifest
    with GroupLoader(store, 3, 1) as loader:
        (loaded,) = loader.stream([(0, 1, 2)])
        group = loaded.group
        rows = group.rows
        dense = np.zeros((manifest.n_rows, manifest.n_features + 1))
        for i, (start, stop) in enumerate(zip(rows.starts, rows.stops, strict=True)):
            dense[i, rows.indices[start:stop]] = rows.values[start:stop]
        dense[:, -1] = 2.0
        counts = (dense != 0).sum(axis=0)
        cache = ColumnCache(manifest, 2.0, np.float64, int(counts[:60].sum()), tmp_path, 1)
        used, ever = np.arange(in_use), set()
        count(group.indices, cache.counts)
        assert (cache.counts == counts).all()
        last = manifest.n_features
        for wanted in ([5, 2, last], [7, 2], np.arange(40, 90), np.arange(90)[::-1], [3]):
            wanted = np.array(wanted)
            cache.want(wanted, used)
            while cache.collecting:
                cache.collect(rows)
                cache.finish()
                if cache.filed:
                    cache.want(wanted, used)
            fit = np.cumsum(counts[wanted] + 4) <= cache.capacity  # 4 entries are what else it has
            assert cache.complete(wanted if in_use else wanted[fit]).all()
            ever.update(wanted.tolist() if in_use else ())
            assert cache.complete(np.array(sorted(ever), np.int64)).all()
            starts, jumps, values = cache.arrays
            for feature in cache.features.tolist():
                slot = cache.slots[feature]
                where = slice(starts[slot], starts[slot + 1])
                column = np.zeros(manifest.n_rows)
                column[np.cumsum(jumps[where], dtype=np.int64)] = values[where]
                assert (jumps[where][1:] > 0).all()
                assert (column == dense[:, feature]).all()
            assert (cache.slots >= 0).sum() == len(cache.features)
        assert cache.filed == bool(in_use)
        cache.close()
    assert not list(tmp_path.glob("*.work"))


def test_entries_of_a_column_may_be_far_apart():
    positions = np.array([0, 65535, 65536, 131071, 400000, 400001])
    jumps, values = np.zeros(6 + 400001 // kernels.FARTHEST, np.uint16), np.zeros(12)
    starts, stops = np.arange(6), np.arange(1, 7)
    rows = starts, stops, np.zeros(6, np.uint32), np.arange(1.0, 7.0), np.zeros(6)
    kernels.collect_columns(
        rows, positions,
        np.zeros(1, np.int32), 0, np.zeros(1, np.int64), np.zeros(1, np.int64), jumps, values,
    )  # fmt: skip
    rows = np.cumsum(jumps, dtype=np.int64)
    assert dict(zip(rows[values[: len(rows)] != 0], values[values != 0], strict=True)) == dict(
        zip(positions, np.arange(1.0, 7.0), strict=True)
    )
    assert rows[-1] == 400001  # what is left of the room adds nothing to the last row
    step, state, found = np.arange(400002.0), np.zeros((400002, 2)), np.empty((2, 1))
    columns = np.array([0, len(jumps)]), jumps, values[: len(jumps)]
    kernels.derivatives(columns, np.zeros(1, np.int64), step, state, *found)
    assert found[0] == (positions * np.arange(1.0, 7.0)).sum()


def test_products_of_columns_are_those_of_dense_ones():
    rng = np.random.default_rng(3)
    dense = rng.normal(size=(700, 9)) * (rng.random((700, 9)) < 0.3)
    dense[:, 4] = 0.0
    where = [np.flatnonzero(column) for column in dense.T]
    starts = np.concatenate([[0], np.cumsum([len(rows) for rows in where])])
    jumps = np.concatenate([np.diff(rows, prepend=0) for rows in where]).astype(np.uint16)
    values = np.concatenate([dense[rows, j] for j, rows in enumerate(where)])
    state, chosen = rng.random((700, 2)), np.array([7, 0, 4, 8])
    products = np.empty((4, 4))
    for first in range(3):
        kernels.gram((starts, jumps, values), chosen, state, first, 3, products)
    products = np.tril(products) + np.tril(products, -1).T
    X = dense[:, chosen]
    assert products == pytest.approx(X.T @ (X * state[:, kernels.CURVED, None]), abs=1e-11)


@pytest.mark.parametrize("n_rows", [60, 12])
def test_columns_that_are_nearly_parallel_are_solved_for(n_rows):
    """1/2 |X d - t|^2 + |d|_1 had a gap of 0.18 and 0.014 then; of 12 rows, X'X is singular."""
    rng, m = np.random.default_rng(1), 20
    X, t = 10.0 + rng.normal(size=(n_rows, m)), rng.choice([-1.0, 1.0], n_rows)
    starts, jumps = np.arange(0, n_rows * m + 1, n_rows), np.ones(n_rows * m, np.uint16)
    jumps[::n_rows] = 0
    every, state, d = np.arange(m), np.ones((n_rows, 2)), np.zeros(m)
    state[:, kernels.MOVED] = 0.0
    data = (starts, jumps, X.T.ravel()), every
    model = every, X.T @ X, np.ones(m), np.zeros(m), X.T @ t, np.zeros(m), d, state
    fallen = sum(kernels.descend_together(*data, *model)[0] for _ in range(4))
    rest = t - X @ d
    value, feasible = 0.5 * rest @ rest + abs(d).sum(), rest / abs(X.T @ rest).max()
    assert state[:, kernels.MOVED] == pytest.approx(X @ d, abs=1e-12)
    assert fallen == pytest.approx(0.5 * t @ t - value, rel=1e-9)
    assert value - feasible @ t + 0.5 * feasible @ feasible <= 1e-10 * value


def test_without_room_for_a_column_the_budget_is_refused(tmp_path):
    problem = sparse_problem()
    store = split_problem(tmp_path, problem, 3)
    with pytest.raises(MemoryBudgetError, match="too small"):
        train(store, problem.options(memory_bytes=70 << 20))


def test_columns_are_shared_among_threads_to_the_bit(tmp_path, monkeypatch):
    monkeypatch.setattr(columns, "_ENOUGH_ENTRIES", 50)
    problem = sparse_problem()
    store = split_problem(tmp_path, problem, 3)
    one, *others = (train(store, problem.options(threads=t, gap=1e-6)) for t in (1, 2, 5))
    for other in others:
        assert (other.weights == one.weights).all()
        assert other.metadata["certificate"] == one.metadata["certificate"]


# -- Runs


@each_solver
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("group", [1, 3])
def test_a_run_resumed_after_any_group_makes_the_same_bits(tmp_path, solver, n_classes, group):
    problem = replace(classes(n_classes), solver=solver, cost=3.0)
    check_resumed(split_problem(tmp_path, problem, 3), problem.options(gap=1e-6, group=group))


def test_a_run_with_little_room_is_resumed_likewise(tmp_path, little_room):
    problem = sparse_problem(n_rows=100, cost=2.0)
    check_resumed(split_problem(tmp_path, problem, 3), problem.options(gap=1e-2, group=1))


def test_a_run_with_columns_in_a_file_is_resumed_likewise(tmp_path, hardly_any_room):
    problem = sparse_problem(n_rows=100, cost=5.0)
    check_resumed(split_problem(tmp_path, problem, 3), problem.options(gap=1e-4, group=1))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_threads_make_no_difference(tmp_path, n_classes):
    problem = replace(classes(n_classes), solver=6, cost=3.0)
    store = split_problem(tmp_path, problem, 3)
    one, two = (outcome(store, problem.options(threads=n, restart=True)) for n in (1, 2))
    assert one == two


def test_a_warm_start_begins_where_the_run_before_ended(tmp_path):
    problem = sparse_problem()
    store, heard = split_problem(tmp_path, problem, 3), Heard()
    first = train(store, problem.options(gap=1e-9))
    again = train(store, problem.options(gap=1e-9, warm_start=True), heard)
    assert heard.of(WarmStarted)
    assert heard.of(OuterIteration)[0].primal == pytest.approx(
        first.metadata["certificate"]["primal"], rel=1e-9
    )
    assert again.metadata["outer_iterations"] < first.metadata["outer_iterations"]


@each_solver
@pytest.mark.parametrize("ratio", [1.0, 0.5])
def test_features_of_removed_rows_have_no_weight_after_a_warm_start(tmp_path, solver, ratio):
    whole = sparse_problem(solver=solver, l1_ratio=ratio)
    left = replace(whole, X=whole.X * (np.arange(200) >= 100))
    store, options = split_problem(tmp_path, left), left.options(gap=1e-6)
    with StoreWriter.add_to(store, AddOptions(batch="more")) as writer:
        writer.append(whole.X, whole.labels)
    assert train(writer.store, options).weights[:100].any()
    store = remove(writer.store, "more")
    model = train(store, replace(options, warm_start=True))
    proof = model.metadata["certificate"]
    assert proof["gap"] <= 1e-6
    assert left.primal_of(model) == pytest.approx(proof["primal"], rel=1e-11)
    assert not model.weights[:100].any()


def test_many_models_do_not_start_warm():
    with pytest.raises(UsageError, match="warm"):
        TrainOptions(solver=6, costs=(1.0, 2.0), warm_start=True)


def test_the_limit_ends_it_with_a_warning(tmp_path):
    problem = sparse_problem(cost=100.0)
    store, heard = split_problem(tmp_path, problem, 3), Heard()
    model = train(store, problem.options(gap=1e-12, max_outer=4), heard)
    assert "not converged after 4 outer iterations" in heard.of(Warned)[-1].message
    assert len(heard.of(OuterIteration)) == 4
    assert model.weights.any()


@pytest.mark.parametrize("changes", [{"selection": "permute"}, {"epochs": 2}, {"average": True}])
def test_options_of_coordinate_descent_are_refused(changes):
    with pytest.raises(UsageError, match="for coordinate descent"):
        TrainOptions(solver=5, **changes)


@each_solver
def test_rows_without_entries_and_a_store_without_features(tmp_path, solver):
    problem = replace(sparse_problem(solver=solver), X=np.zeros((10, 3)))
    problem = replace(problem, labels=np.arange(10) % 2 * 2.0 - 1.0, bias=1.0)
    model = train(split_problem(tmp_path, problem, 2), problem.options())
    assert model.metadata["certificate"]["gap"] <= 1e-3
    assert not model.weights.any()


@pytest.mark.parametrize(("scale", "bias"), [(1e60, -1.0), (1.0, 1e60)], ids=["values", "bias"])
@each_solver
def test_values_too_large_for_single_precision(tmp_path, solver, scale, bias, recwarn):
    """They were infinite in columns: steps were none, and rounding was said to end it."""
    problem = sparse_problem(solver=solver, n_rows=60, n_features=5, bias=bias, cost=1.0 / scale)
    problem = replace(problem, X=problem.X * scale)
    store = split_problem(tmp_path, problem, 3)
    with pytest.raises(InputError, match=r"single precision.*\n.*scale the data, or give a --gap"):
        train(store, problem.options(gap=1e-3))
    proof = train(store, problem.options(gap=1e-6, restart=True)).metadata["certificate"]
    assert bias > 0.0 or proof["gap"] <= 1e-6
    assert not [found for found in recwarn if found.category is RuntimeWarning]


@pytest.mark.parametrize("room", [1.0, 0.3])
def test_double_precision_where_single_is_too_little(tmp_path, monkeypatch, room):
    """Large values that are not centred cancel; steps went wrong, and a run of a large C ended."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 4)).round(3) + 1000.0
    problem = Problem(X, np.where(rng.random(40) < 0.5, 1.0, -1.0), 5, cost=1e7, l1_ratio=0.01)
    store, made = split_problem(tmp_path, problem), ColumnCache.__init__

    def less(self, manifest, bias, dtype, capacity, *rest):
        made(self, manifest, bias, dtype, int(room * manifest.nnz), *rest)

    monkeypatch.setattr(ColumnCache, "__init__", less)
    options = problem.options(gap=1e-3, max_outer=1000)
    model = train(store, options)
    assert model.metadata["stopped"] == "converged"
    check_resumed(store, options)


def test_steps_that_are_cut_short_end_behind_the_margin_of_the_row_that_cuts_them(tmp_path):
    """They ended before it, with ever smaller gains: the gap was 0.42 after 40 outer iterations."""
    rng = np.random.default_rng(0)
    X = rng.normal(0.0, 1000.0, (200, 20))
    labels = np.where(X @ rng.normal(size=20) > 0.0, 1.0, -1.0)
    problem = Problem(X, labels, solver=5, cost=1e5)
    store = split_problem(tmp_path, problem, 2)
    model = train(store, problem.options(gap=1e-3, max_outer=60))
    assert model.metadata["stopped"] == "converged"


@pytest.mark.parametrize("kind", [SQUARED_HINGE, LOGISTIC])
def test_the_slope_of_the_loss(kind):
    rng = np.random.default_rng(kind)
    target, cost = rng.choice([-1.0, 1.0], 50), rng.uniform(0.0, 3.0, 50)
    cost[:3] = 0.0
    decision, state = rng.normal(size=50), rng.normal(size=(50, 2))
    args, h = (kind, target, cost, decision), 1e-6
    ends = [kernels.total_loss(*args, 0.7 + step, state) for step in (-h, h)]
    slope = kernels.slope_of_loss(*args, 0.7, state)
    assert slope == pytest.approx((ends[1] - ends[0]) / (2.0 * h), rel=1e-6)


@pytest.mark.parametrize(("seed", "cost"), [(0, 1e6), (1, 1e4)])
def test_where_steps_get_nowhere_a_smaller_cost_leads_on(tmp_path, seed, cost):
    """Few rows had a loss, and each step ended at the margin of one more: the gap stayed at 0.7."""
    rng = np.random.default_rng(seed)
    X, labels = rng.integers(-3, 4, (60, 100)).astype(float), rng.choice([-1.0, 1.0], 60)
    problem = Problem(X, labels, 5, cost=cost)
    store = split_problem(tmp_path, problem, 3)
    model = train(store, problem.options(gap=1e-3, max_outer=40))
    assert model.metadata["stopped"] == "converged"
    # no w of so little |w| has margins of 1: the linear program's P is 1e-5 above the optimum
    yx = labels[:, None] * X
    found = linprog(np.ones(200), A_ub=np.hstack([-yx, yx]), b_ub=-np.ones(60)).x
    separating = np.append(found[:100] - found[100:], 0.0)
    assert problem.primal_of(model) <= problem.primal(separating, 1.0) * (1.0 + 1e-3)


class Stuck:
    """A descent that never gets anywhere, and worse each time it is given a cost."""

    top, w = 4.0, 0.0

    def __init__(self):
        self.value, self.costs = 1.0, []

    @property
    def place(self):
        return descent.Place(self.w, self.w, self.value)

    def take_cost(self, share):
        self.costs.append(share)
        self.value += 1.0

    def go_to(self, place):
        self.value = place.value


def test_smaller_costs_that_help_nothing_are_given_up():
    stuck = Stuck()
    assert through_smaller_costs(stuck, lambda: 0.0, 1e-9, lambda: False) == 1e-9
    assert stuck.value == 1.0
    assert stuck.costs[:2] == [0.25, 0.0625]
    assert stuck.costs[-1] == 1.0
    assert len(stuck.costs) < 60
    good, stuck = Stuck(), Stuck()
    good.top = 1.5
    assert through_smaller_costs(good, lambda: 0.0, 1e-9, lambda: False) == 1e-9
    through_smaller_costs(stuck, lambda: 0.0, 1e-9, lambda: True)
    assert not good.costs
    assert not stuck.costs


@each_solver
def test_columns_are_precise_as_soon_as_their_rounding_hides_the_gap(tmp_path, solver):
    """Dual points that were off by it were tried until nothing moved: 41 and 37 iterations."""
    rng = np.random.default_rng(104)
    Z = rng.standard_normal((100, 5))
    labels = np.where(Z @ rng.standard_normal(5) + rng.standard_normal(100) > 0.0, 1.0, -1.0)
    problem = Problem((Z + 1000.0).round(3), labels, solver, cost=1e4, bias=1.0)
    store = split_problem(tmp_path, problem, 3)
    model = train(store, problem.options(gap=1e-4, max_outer=25))
    assert model.metadata["stopped"] == "converged"
