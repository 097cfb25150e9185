"""A bias whose weight is not regularised, by coordinate descent and by Newton's method."""

import math
from dataclasses import replace

import numpy as np
import pytest
from training.classes import several_classes
from training.free_bias import far_problem, free_optimum, free_primal_of, free_problem
from training.small import (
    Heard,
    Problem,
    descent_alone,
    newton_after,
    random_problem,
    split_problem,
)

from blocklinear import TrainOptions, train, train_grid
from blocklinear.errors import UsageError
from blocklinear.events import GoesOver, OuterIteration, SlowlyConverging, WarmStarted
from blocklinear.selection.cross_validation import cross_validate
from blocklinear.solvers.newton import costs
from blocklinear.solvers.weight_vectors import WeightVectors
from blocklinear.training import loop
from blocklinear.training.stopping import ONE_TARGET
from solvers.test_newton import check_resumed

DUAL, NEWTON = (1, 3, 7, 12, 13), (0, 2, 11)
FREE = {"regularize_bias": False, "gap": 1e-8, "max_outer": 20_000}
each_solver = pytest.mark.parametrize("solver", [*DUAL, *NEWTON])


def free(solver):
    """Options of a free bias; Newton's method of those solvers that are named after it."""
    return FREE | {"method": "newton" if solver in NEWTON else "dual"}


@each_solver
@pytest.mark.parametrize("seed", range(8))
def test_it_comes_to_the_optimum_and_proves_it(tmp_path, solver, seed):
    problem = free_problem(solver, seed)
    store, heard = split_problem(tmp_path, problem, 3), Heard()
    options = problem.options(**free(solver), group=1 + seed % 3)
    model = train(store, options, heard)
    proof, optimum = model.metadata["certificate"], free_optimum(problem)
    assert model.metadata["stopped"] == "converged"
    assert free_primal_of(problem, model) == pytest.approx(proof["primal"], rel=1e-12)
    assert proof["primal"] - optimum <= 1e-8 * optimum
    for report in heard.of(OuterIteration):
        if report.certified:
            assert report.primal - optimum <= report.gap * report.primal * (1 + 1e-6)
            assert report.dual <= optimum * (1 + 1e-9)
    # it is another problem
    other = train(store, replace(options, regularize_bias=True, restart=True))
    assert other.metadata["certificate"]["primal"] > proof["primal"]


@pytest.mark.parametrize("solver", DUAL)
@pytest.mark.parametrize("seed", range(10))
def test_every_certificate_on_the_way_is_true(tmp_path, solver, seed):
    """Early, too, when alpha are far from balanced, and where classes and rows have weights."""
    problem, rng = random_problem(seed, solver), np.random.default_rng(seed)
    weights = rng.choice([0.0, 1.0, 7.0], len(problem.labels))
    weights[:2] = 1.0
    problem = replace(problem, weights=weights, bias=1.0 + seed % 3)
    store, optimum = split_problem(tmp_path, problem, 3), free_optimum(problem)
    for max_outer in (1, 2, 4, 9):
        how = {"max_outer": max_outer, "group": 1 + seed % 2, "regularize_bias": False}
        model = train(store, problem.options(gap=1e-9, restart=True, **how))
        proof = model.metadata["certificate"]
        primal = free_primal_of(problem, model)
        assert primal == pytest.approx(proof["primal"], rel=1e-12)
        assert primal - optimum <= proof["gap"] * primal + 1e-9 * optimum
        assert proof["dual"] <= optimum * (1 + 1e-9)


@pytest.mark.parametrize("solver", NEWTON)
def test_products_alone_find_it_too(tmp_path, solver, monkeypatch):
    for module in (loop, costs):
        monkeypatch.setattr(module, "enough_products", lambda manifest, hessian: math.inf)
    problem = free_problem(solver, 5)
    model = train(split_problem(tmp_path, problem, 2), problem.options(**free(solver)))
    optimum = free_optimum(problem)
    assert model.metadata["certificate"]["primal"] - optimum <= 1e-8 * optimum


@pytest.mark.parametrize("solver", [3, 7, 2])
def test_of_many_models_each_has_its_own(tmp_path, solver):
    problem = replace(several_classes(3, solver), bias=1.0)
    store = split_problem(tmp_path, problem, 2)
    found = train(store, problem.options(**free(solver)))
    for j, label in enumerate(found.labels):
        one = replace(problem, labels=np.where(problem.labels == label, 1.0, -1.0))
        proof, optimum = found.metadata["certificates"][j], free_optimum(one)
        assert proof["gap"] <= 1e-8
        assert proof["primal"] - optimum <= 1e-8 * optimum
        assert proof["dual"] <= optimum * (1 + 1e-12)


def test_of_regressions_of_a_grid_and_of_folds(tmp_path):
    problem = free_problem(13, 1)
    store, costs = split_problem(tmp_path, problem, 2), (0.1, 3.0)
    for model in train_grid(store, problem.options(**FREE, costs=costs)):
        optimum = free_optimum(replace(problem, cost=model.metadata["C"]))
        assert model.metadata["certificate"]["primal"] - optimum <= 1e-8 * optimum
    found = cross_validate(store, problem.options(**FREE), costs=costs, n_folds=3)
    errors = found.to_dict()["mean_squared_error"]
    assert max(errors) < np.var(problem.labels)


@pytest.mark.parametrize("method", ["dual", "newton"])
@pytest.mark.parametrize(
    ("solver", "cost", "offset", "share"),
    [
        (3, 1e-4, 0, 0.54), (3, 1e-4, 0, 0.03), (3, 1e-5, 0, 0.24),
        (13, 1e-2, 1e3, 0), (13, 1e-3, 1e5, 0), (13, 1.0, 1e5, 0), (13, 100.0, -1e5, 0),
    ],
)  # fmt: skip
def test_a_bias_is_found_where_all_alpha_are_at_a_bound(
    tmp_path, solver, cost, offset, share, method
):
    """The Hessian says nothing of the bias there, and the size of targets nothing of the rest."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 10))
    value = X @ rng.normal(size=10) + rng.normal(size=200)
    classes = np.where(value > np.quantile(value, 1 - share), 1.0, -1.0)
    problem = Problem(X, value + offset if solver == 13 else classes, solver, cost, bias=1.0)
    store, heard = split_problem(tmp_path, problem, 2), Heard()
    model = train(store, problem.options(**FREE | {"gap": 1e-3, "method": method}), heard)
    assert model.metadata["stopped"] == "converged"
    assert model.metadata["certificate"]["gap"] <= 1e-3
    assert heard.of(OuterIteration)[-1].outer <= 300


@pytest.mark.parametrize(
    ("solver", "several"),
    [(1, False), (7, False), (12, False), (13, False), (1, True), (3, True), (7, True)],
)
@pytest.mark.parametrize("group", [1, 3])
def test_a_bias_that_is_far_off_is_found_soon(tmp_path, monkeypatch, solver, several, group):
    """It took 77 to 167 outer iterations where no step was longer than its pull."""
    descent_alone(monkeypatch)
    problem = far_problem(solver, several)
    options = problem.options(**FREE | {"gap": 1e-5}, group=group)
    model = train(split_problem(tmp_path, problem, 3), options)
    assert model.metadata["stopped"] == "converged"
    assert model.metadata["outer_iterations"] <= 40


@pytest.mark.parametrize("solver", [3, 12])
@pytest.mark.parametrize("several", [False, True])
def test_a_resumed_run_has_the_same_bits(tmp_path, solver, several):
    problem = free_problem(solver, 2)
    if several:
        problem = replace(several_classes(3, 3), bias=1.0)
    store = split_problem(tmp_path, problem, 3)
    options = problem.options(**FREE | {"gap": 1e-5}, group=1)
    check_resumed(store, options)


@pytest.mark.parametrize("several", [False, True])
def test_so_has_one_whose_bias_is_extrapolated(tmp_path, several):
    problem = far_problem(7, several)
    check_resumed(
        split_problem(tmp_path, problem, 3), problem.options(**FREE | {"gap": 1e-5}, group=1)
    )


@pytest.mark.parametrize("solver", [3, 7, 13])
def test_a_warm_start_keeps_the_bias(tmp_path, monkeypatch, solver):
    descent_alone(monkeypatch)
    problem = free_problem(solver, 2)
    store, heard = split_problem(tmp_path, problem, 3), Heard()
    options = problem.options(**FREE | {"gap": 1e-5})
    cold = train(store, options)
    warm = train(store, replace(options, warm_start=True), heard)
    assert heard.of(WarmStarted)[0].how == "kept"
    assert warm.metadata["outer_iterations"] <= 2 < cold.metadata["outer_iterations"]
    # and back: a regularised bias is a sum over rows again
    other = train(store, replace(options, warm_start=True, regularize_bias=True))
    assert other.metadata["certificate"]["drift"] <= 1e-9
    assert other.metadata["certificate"]["gap"] <= 1e-5


def test_newton_goes_on_where_descent_is_slow(tmp_path, monkeypatch):
    newton_after(monkeypatch, 2)
    problem = free_problem(1, 3)
    heard = Heard()
    model = train(split_problem(tmp_path, problem, 3), problem.options(**FREE), heard)
    assert "Newton" in heard.of(GoesOver)[0].message
    optimum = free_optimum(problem)
    assert model.metadata["certificate"]["primal"] - optimum <= 1e-8 * optimum


@pytest.mark.parametrize("solver", [3, 13])
def test_the_violation_counts_what_the_bias_lacks(tmp_path, solver):
    problem, tolerance = free_problem(solver, 3), 1e-4
    how = problem.options(**FREE | {"gap": None}, tolerance=tolerance)
    model = train(split_problem(tmp_path, problem, 3), how)
    assert model.metadata["certificate"]["gap"] <= 1e-3


def test_rows_without_a_loss_leave_it_alone(tmp_path):
    """No row has a second derivative there: the Hessian has a zero on its diagonal."""
    problem = Problem(np.array([[5.0], [-5.0]]), np.array([1.0, -1.0]), 2, 1e3, bias=1.0)
    model = train(split_problem(tmp_path, problem, 1), problem.options(**FREE | {"gap": 1e-9}))
    assert model.metadata["certificate"]["gap"] <= 1e-9


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"bias": -1.0}, "bias is -1.0, but must be above 0"),
        ({"bias": 0.0}, "bias is 0.0, but must be above 0"),
        ({"solver": 4}, "neither 4 nor 21"),
        ({"method": "pegasos"}, "must be another where the bias is free"),
        ({"average": True, "epochs": None}, "average is True, but must be left out"),
    ],
)
def test_where_it_is_refused(changes, said):
    with pytest.raises(UsageError, match=said):
        TrainOptions(**({"bias": 1.0, "regularize_bias": False} | changes))


@pytest.mark.parametrize("cost", [1.0, 100.0])
@pytest.mark.parametrize("target", [3.5, -7.1, 1e10])
def test_targets_that_are_all_one_end_where_rounding_decides(tmp_path, target, cost):
    """The optimum is 0, and no gap is small: steps crawled for 1,000 passes."""
    X = np.random.default_rng(0).normal(size=(50, 4)).round(3)
    problem = Problem(X, np.full(50, target), 12, cost)
    options = problem.options(bias=1.0, regularize_bias=False, method="newton", epsilon=0.1)
    said = []
    model = train(split_problem(tmp_path, problem, 2), options, said.append)
    assert model.metadata["outer_iterations"] <= 30
    assert model.metadata["certificate"]["primal"] <= 1e-20 * cost * target**2
    warnings = [event.message for event in said if isinstance(event, SlowlyConverging)]
    assert all(text.endswith(f"; {ONE_TARGET}") for text in warnings)


@pytest.mark.parametrize("solver", DUAL)
def test_the_dual_value_reported_exceeds_the_optimum_less_without_what_balancing_takes(
    tmp_path, solver, monkeypatch
):
    descent_alone(monkeypatch)
    errors = {}  # mean of how far it is above the optimum
    for balanced in (True, False):
        if not balanced:
            monkeypatch.setattr(WeightVectors, "_balancing", 0.0)
        found = []
        for seed in range(8):
            problem, heard = free_problem(solver, seed), Heard()
            (folder := tmp_path / f"{seed}{balanced}").mkdir()
            options = problem.options(regularize_bias=False, gap=1e-6, group=1, max_outer=9)
            train(split_problem(folder, problem, 3), options, heard)
            optimum, events = free_optimum(problem), heard.of(OuterIteration)[2:8]
            found += [max(e.dual / optimum - 1.0, 0.0) for e in events if not e.certified]
        errors[balanced] = np.mean(found)
    assert errors[True] < 0.9 * errors[False]
