"""Proximal points: hinge and epsilon-insensitive loss where coordinate descent crawls."""

import contextlib
import math
from dataclasses import replace

import numpy as np
import pytest
from training.free_bias import free_optimum, free_primal_of, free_problem
from training.small import Heard, Problem, newton_after, random_problem, split_problem

from blocklinear import TrainOptions, train, train_grid
from blocklinear.errors import InputError, UsageError
from blocklinear.events import GoesOver, OuterIteration, WarmStarted, Warned
from blocklinear.selection.cross_validation import cross_validate
from blocklinear.solvers.newton import costs
from blocklinear.training import loop
from solvers.test_newton import check_resumed, classes

NEWTON = {"method": "newton", "gap": 1e-9}
each_solver = pytest.mark.parametrize("solver", [3, 13])


@pytest.fixture
def no_hessian(monkeypatch):
    """Let conjugate gradients do all of it, as where there is no memory for the Hessian."""
    for module in (loop, costs):
        monkeypatch.setattr(module, "enough_products", lambda manifest, hessian: math.inf)


def gaussian(solver=3, cost=1e4, condition=1.0):
    """Few features, dense, which no plane separates."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 10)) * np.logspace(0, -np.log10(condition) / 2, 10)
    value = X @ rng.normal(size=10)
    value += 0.3 * value.std() * rng.normal(size=300)
    return Problem(X, value if solver == 13 else np.where(value > 0, 1.0, -1.0), solver, cost)


# -- The optimum


@each_solver
@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_every_gap_on_the_way_is_true(tmp_path, solver, free, seed):
    """Rows and classes with weights, with a bias of any kind, alone and in groups."""
    rng = np.random.default_rng(seed)
    problem = replace(random_problem(seed, solver), cost=10.0 ** rng.uniform(-2, 4))
    weights = rng.choice([0.0, 1.0, 7.0], len(problem.labels))
    weights[:2] = 1.0
    problem = replace(problem, weights=weights, bias=1.0 + seed % 3 if free else problem.bias)
    store, heard = split_problem(tmp_path, problem, 3), Heard()
    how = {"regularize_bias": not free, "group": 1 + seed % 3, **NEWTON}
    model = train(store, problem.options(**how), heard)
    proof = model.metadata["certificate"]
    primal = free_primal_of(problem, model) if free else problem.primal_of(model)
    assert model.metadata["stopped"] == "converged"
    assert primal == pytest.approx(proof["primal"], rel=1e-11)
    best = train(store, problem.options(**how | {"gap": 1e-12, "run": "best"}))
    others = free_optimum(problem) if free else problem.optimum()
    optimum = min(best.metadata["certificate"]["primal"], others)
    assert primal - optimum <= 1e-9 * optimum
    gaps = [report.gap for report in heard.of(OuterIteration)]
    assert gaps == sorted(gaps, reverse=True)
    for report in heard.of(OuterIteration):
        assert report.certified
        assert report.primal - optimum <= report.gap * report.primal * (1 + 1e-9)
        assert report.dual <= optimum * (1 + 1e-12)


def test_of_points_that_alpha_prove_nothing_of_the_lowest_is_kept(tmp_path):
    """The optimum is 0: no alpha prove more than D(0) = 0, and all gaps are 1 but that of P = 0."""
    X = np.random.default_rng(0).normal(size=(60, 5))
    problem = Problem(X, np.full(60, 5.0), 13, 1.0, bias=1.0)
    how = problem.options(method="newton", epsilon=0.0, regularize_bias=False)
    model = train(split_problem(tmp_path, problem), how)
    assert model.metadata["certificate"]["primal"] <= 1e-12 * 300.0
    assert model.decision_function(X) == pytest.approx(np.full(60, 5.0))
    assert model.metadata["outer_iterations"] <= 100


@each_solver
@pytest.mark.parametrize("condition", [1e2, 1e5, 1e8])
@pytest.mark.parametrize("cost", [1.0, 1e4])
def test_few_features_of_any_condition_are_solved(tmp_path, solver, condition, cost):
    problem = gaussian(solver, cost, condition)
    model = train(split_problem(tmp_path, problem), problem.options(method="newton", gap=1e-6))
    assert model.metadata["certificate"]["gap"] <= 1e-6
    assert model.metadata["outer_iterations"] <= 150


@each_solver
def test_products_alone_come_to_the_same_optimum(tmp_path, solver, no_hessian):
    problem = replace(random_problem(5, solver), cost=10.0)
    store = split_problem(tmp_path, problem, 3)
    found = train(store, problem.options(**NEWTON))
    other = train(store, problem.options(gap=1e-9, restart=True, max_outer=20_000))
    values = [model.metadata["certificate"]["primal"] for model in (found, other)]
    np.testing.assert_allclose(*values, rtol=2e-9)


def test_each_class_a_grid_and_folds(tmp_path):
    problem = replace(classes(3), solver=3)
    store, costs = split_problem(tmp_path, problem, 3), (0.1, 10.0)
    how = problem.options(**NEWTON)
    for cost, model in zip(costs, train_grid(store, replace(how, costs=costs)), strict=True):
        for j, label in enumerate(model.labels):
            labels = np.where(problem.labels == label, 1.0, -1.0)
            one = replace(problem, labels=labels, cost=cost)
            proof, optimum = model.metadata["certificates"][j], one.optimum()
            assert proof["gap"] <= 1e-9
            assert proof["primal"] - optimum <= 1e-9 * optimum
    newton, dual = (
        cross_validate(store, replace(how, method=method), costs=costs, n_folds=3)
        for method in ("newton", "dual")
    )
    assert (newton.predicted == dual.predicted).mean() > 0.99


@each_solver
@pytest.mark.parametrize("seed", range(5))
def test_it_ends_where_rounding_hides_what_steps_gain(tmp_path, solver, seed):
    """C is far larger than any alpha: a rounded loss counts more than what is left to gain."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 5)).round(3)
    value = X @ rng.normal(size=5)
    problem = Problem(X, np.where(value > 0, 1.0, -1.0), 3, cost=1e9, bias=1.0)
    if solver == 13:
        problem = Problem(X, (0.01 * value + 0.15).round(4), 13, cost=1e4, bias=100.0)
    model = train(split_problem(tmp_path, problem), problem.options(method="newton", gap=1e-12))
    assert "where rounding ends it" in model.metadata["stopped"]
    assert model.metadata["certificate"]["gap"] <= 1e-5


# -- A run


@each_solver
@pytest.mark.parametrize("group", [1, 3])
def test_a_run_resumed_after_any_group_makes_the_same_bits(tmp_path, solver, group):
    problem = replace(random_problem(8, solver), cost=100.0)
    check_resumed(split_problem(tmp_path, problem, 3), problem.options(**NEWTON, group=group))


def test_a_run_of_products_is_resumed_likewise(tmp_path, no_hessian):
    problem = replace(random_problem(8, 3), cost=10.0)
    how = NEWTON | {"gap": 1e-5}
    check_resumed(split_problem(tmp_path, problem, 2), problem.options(**how, group=1))


def test_a_run_of_many_models_is_resumed_likewise(tmp_path):
    problem = replace(classes(3), solver=3, cost=10.0)
    how = NEWTON | {"gap": 1e-6}
    check_resumed(split_problem(tmp_path, problem, 2), problem.options(**how, group=1))


@each_solver
def test_a_warm_start_begins_where_the_run_before_ended(tmp_path, solver):
    problem = random_problem(9, solver)
    store, heard = split_problem(tmp_path, problem, 3), Heard()
    options = problem.options(**NEWTON)
    first = train(store, options)
    again = train(store, replace(options, warm_start=True), heard)
    assert heard.of(WarmStarted)
    assert again.metadata["outer_iterations"] == 1 < first.metadata["outer_iterations"]
    # and descent goes on from there
    other = train(store, replace(options, method="dual", gap=1e-6, warm_start=True), heard)
    assert other.metadata["outer_iterations"] <= 2


def test_no_scratch_file_is_left(tmp_path, monkeypatch):
    newton_after(monkeypatch, 2)
    problem = gaussian()
    store = split_problem(tmp_path, problem)
    train(store, problem.options(gap=1e-6))
    assert not list((store.folder / "runs").rglob("*.work"))


def test_the_best_model_on_other_rows_is_certified_by_the_center(tmp_path):
    problem = replace(classes(2), solver=3, cost=10.0)
    store, heard = split_problem(tmp_path, problem, 3), Heard()
    text, how = str(tmp_path / "store.svm"), {"gap": 1e-9, "method": "newton"}
    model = train(store, problem.options(**how, evaluate=text, patience=15), heard)
    *reports, last = heard.of(OuterIteration)
    assert "without a better score" in model.metadata["stopped"]
    best = max(report.accuracy for report in reports if report.accuracy is not None)
    assert last.accuracy == best
    assert last.gap < 0.5
    assert last.primal - problem.optimum() <= last.gap * last.primal


@pytest.mark.parametrize("changes", [{"selection": "permute"}, {"epochs": 2}, {"average": True}])
def test_options_of_coordinate_descent_are_refused(changes):
    with pytest.raises(UsageError, match="for coordinate descent"):
        TrainOptions(solver=3, method="newton", **changes)


@each_solver
def test_a_tolerance_is_refused(solver):
    with pytest.raises(UsageError, match=r"tolerance is 0\.1, but must be left out.*give a gap"):
        TrainOptions(solver=solver, method="newton", tolerance=0.1)


# -- After coordinate descent


@each_solver
def test_a_slow_rate_leads_to_it(tmp_path, solver):
    """300 rows of 10 Gaussian features at C = 1e4, where coordinate descent crawls."""
    problem = gaussian(solver)
    store, heard = split_problem(tmp_path, problem), Heard()
    model = train(store, problem.options(gap=1e-6), heard)
    (over,) = heard.of(GoesOver)
    assert not heard.of(Warned)
    assert "outer iterations of coordinate descent: going on with" in over.message
    assert "Newton" in over.message
    assert model.metadata["certificate"]["gap"] <= 1e-6
    assert model.metadata["outer_iterations"] <= 200
    optimum = problem.optimum()
    assert model.metadata["certificate"]["primal"] - optimum <= 1e-6 * optimum


def test_a_good_rate_does_not(tmp_path):
    problem = gaussian(cost=0.1)
    store, heard = split_problem(tmp_path, problem), Heard()
    train(store, problem.options(gap=1e-6), heard)
    assert not heard.of(GoesOver) + heard.of(Warned)


@pytest.mark.parametrize("free", [False, True])
@each_solver
def test_the_optimum_is_the_same(tmp_path, monkeypatch, solver, free):
    newton_after(monkeypatch, 2)
    problem, heard = free_problem(solver, 3), Heard()
    options = problem.options(gap=1e-9, regularize_bias=not free)
    model = train(split_problem(tmp_path, problem, 3), options, heard)
    assert "Newton" in heard.of(GoesOver)[0].message
    optimum = free_optimum(problem) if free else problem.optimum()
    assert model.metadata["certificate"]["primal"] - optimum <= 1e-9 * optimum


@pytest.mark.parametrize(("after", "cost"), [(2, 1e3), (5, 0.1)])
def test_many_models_resumed_there_have_the_same_bits(tmp_path, monkeypatch, after, cost):
    newton_after(monkeypatch, after)
    problem = replace(classes(4), solver=3, cost=cost)
    check_resumed(split_problem(tmp_path, problem, 3), problem.options(gap=1e-5, group=1))


def test_without_room_for_the_hessian_descent_goes_on(tmp_path, monkeypatch):
    """Steps to proximal points by products alone are too many."""
    problem = gaussian()
    store, heard = split_problem(tmp_path, problem), Heard()
    plan = loop.plan_memory
    wide = replace(store.manifest, n_features=20_000)
    assert not plan(wide, problem.options(memory_bytes=512 << 20)).newton
    assert plan(wide, problem.options(memory_bytes=512 << 20, solver=1)).newton
    monkeypatch.setattr(loop, "plan_memory", lambda _, *of: plan(wide, *of))
    train(store, problem.options(memory_bytes=512 << 20, max_outer=40), heard)
    assert not any("going on" in warned.message for warned in heard.of(Warned))


@pytest.mark.parametrize("seed", range(6))
def test_slopes_that_are_zero_as_numbers_are_tiny(tmp_path, seed):
    """Of weights of 1e-150 the squares are hardly above 0; two slopes were 0, as was their sum."""
    rng = np.random.default_rng(seed)
    labels = np.array([1.0, -1.0, 1.0])
    tiny = Problem(rng.normal(size=(3, 3)) * 1e150, labels, 3, cost=1e307, bias=1.0)
    with contextlib.suppress(InputError):  # numbers that overflow
        model = train(split_problem(tmp_path, tiny, 2), tiny.options(max_outer=60))
        assert np.isfinite(model.weights).all()
