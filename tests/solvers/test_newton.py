"""Newton's method on the primal: alone, for many models, and where coordinate descent is slow."""

import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from training.free_bias import free_problem
from training.small import (
    Heard,
    Problem,
    newton_after,
    outcome,
    random_problem,
    split_problem,
    split_text,
)

from blocklinear import SplitOptions, TrainOptions, split, train, train_grid
from blocklinear.errors import StoppedError, UsageError
from blocklinear.events import BlockStep, GoesOver, OuterIteration, WarmStarted, Warned
from blocklinear.selection.cross_validation import cross_validate
from blocklinear.solvers.newton import costs, iterate
from blocklinear.training import loop
from blocklinear.training.stopping import Stopping

DATA = Path(__file__).parents[1] / "data"
HARD = {"solver": 1, "cost": 10.0, "gap": 1e-6, "group": 1}
DUAL = {0: 7, 2: 1, 11: 12}
"""The dual solver of the same problem."""
each_solver = pytest.mark.parametrize("solver", DUAL)


@pytest.fixture
def no_hessian(monkeypatch):
    """Let conjugate gradients do all of it, as where there is no memory for the Hessian."""
    for module in (loop, costs):
        monkeypatch.setattr(module, "enough_products", lambda manifest, hessian: math.inf)


@pytest.fixture(scope="module")
def heart(tmp_path_factory):
    """Four fixed blocks of few features: coordinate descent alone takes thousands of passes."""
    folder = tmp_path_factory.mktemp("newton")
    return split([DATA / "heart_scale.train.svm.bz2"], folder / "s", SplitOptions(blocks=4))


def classes(n_classes, n_rows=120, seed=3):
    """Rows of several classes, not to be told apart without errors."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 6)).round(3)
    labels = np.argmax(X[:, :n_classes] + rng.normal(size=(n_rows, n_classes)), axis=1)
    return Problem(X, labels.astype(float), solver=0, bias=1.0)


# -- The optimum


def test_it_ends_where_steps_go_back_and_forth(tmp_path):
    """Both points have the same P, and a gap that is rounding's: it went on to the limit."""
    store = split_text(tmp_path, "10000 1:-10000\n")
    options = TrainOptions(solver=11, cost=1e6, method="newton", gap=1e-6, max_outer=200)
    model = train(store, options)
    assert model.metadata["stopped"].endswith("where rounding ends it")
    assert model.metadata["outer_iterations"] < 20
    assert model.metadata["certificate"]["gap"] < 1e-3
    assert model.weights[0, 0] == pytest.approx(-1.0, rel=1e-4)


@each_solver
@pytest.mark.parametrize("seed", range(12))
def test_it_comes_to_the_optimum_and_proves_it(tmp_path, solver, seed):
    problem = replace(random_problem(seed, solver=solver), cost=10.0 ** (seed % 5 - 2))
    store, heard = split_problem(tmp_path, problem, 3), Heard()
    model = train(store, problem.options(method="newton", gap=1e-9), heard)
    proof, optimum = model.metadata["certificate"], problem.optimum()
    assert model.metadata["stopped"] == "converged"
    assert problem.primal_of(model) == pytest.approx(proof["primal"], rel=1e-12)
    assert proof["primal"] - optimum <= 1e-9 * optimum
    for report in heard.of(OuterIteration):
        assert report.certified
        assert report.primal - optimum <= report.gap * report.primal
        assert report.dual <= optimum * (1 + 1e-12)


@each_solver
@pytest.mark.parametrize("condition", [1e2, 1e5, 1e8])
@pytest.mark.parametrize("cost", [1.0, 1e4])
def test_few_features_of_any_condition_take_few_passes(tmp_path, solver, condition, cost):
    rng = np.random.default_rng(2)
    turned, _ = np.linalg.qr(rng.normal(size=(10, 10)))
    X = rng.normal(size=(300, 10)) @ turned @ np.diag(condition ** -np.linspace(0, 0.5, 10))
    value = X @ rng.normal(size=10) * condition**0.25 + rng.normal(size=300)
    labels = value if solver == 11 else np.where(value > 0, 1.0, -1.0)
    problem = Problem(X, labels, solver, cost, bias=1.0)
    model = train(split_problem(tmp_path, problem, 2), problem.options(method="newton", gap=1e-6))
    assert model.metadata["certificate"]["gap"] <= 1e-6
    assert model.metadata["outer_iterations"] <= 40


@each_solver
def test_products_alone_come_to_the_same_optimum(tmp_path, solver, no_hessian):
    problem = replace(random_problem(4, solver=solver), cost=10.0)
    store = split_problem(tmp_path, problem, 3)
    found = train(store, problem.options(method="newton", gap=1e-9))
    other = train(
        store, problem.options(method="newton", gap=1e-9, solver=DUAL[solver], max_outer=20_000)
    )
    values = [model.metadata["certificate"]["primal"] for model in (found, other)]
    np.testing.assert_allclose(*values, rtol=2e-9)


@pytest.mark.parametrize(
    ("solver", "cost", "condition"), [(0, 100.0, 1e4), (2, 1000.0, 1e6), (11, 1000.0, 1e6)]
)
def test_products_end_where_the_goal_does(
    tmp_path, monkeypatch, solver, cost, condition, no_hessian
):
    """Which of eight problems take fewer for it is up to rounding, as they are ill-conditioned.

    So is whether one takes more in all: a step that ended early may leave a little too much for the
    next. But the first direction that ends elsewhere, which begins alike, always ends sooner.
    """
    fewer, gaps, products, go = [], [], [], iterate.NewtonIterate._go

    def counted(self):
        products[-1].append(self._products)
        go(self)

    monkeypatch.setattr(iterate.NewtonIterate, "_go", counted)
    for seed in range(8):
        rng = np.random.default_rng(seed)
        turned, _ = np.linalg.qr(rng.normal(size=(40, 40)))
        X = rng.normal(size=(300, 40)) * np.logspace(0, -np.log10(condition) / 2, 40) @ turned
        value = X @ rng.normal(size=40) + rng.normal(size=300)
        labels = value if solver == 11 else np.where(value > 0, 1.0, -1.0)
        (folder := tmp_path / str(seed)).mkdir()
        store = split_problem(folder, problem := Problem(X, labels, solver, cost), 3)
        options = problem.options(method="newton", gap=1e-3)
        products.append([])
        found = train(store, options).metadata
        assert found["stopped"] == "converged"
        products.append([])
        with monkeypatch.context() as to_the_end:
            to_the_end.setattr(iterate.NewtonIterate, "_reaches_goal", lambda self: False)
            whole = train(store, replace(options, run="whole")).metadata
        fewer.append(whole["outer_iterations"] - found["outer_iterations"])
        gaps.append([run["certificate"]["gap"] for run in (whole, found)])
    of_whole, of_found = np.sum(gaps, axis=0)
    assert of_whole < of_found
    for early, late in zip(products[::2], products[1::2], strict=True):
        differing = [few < many for few, many in zip(early, late, strict=False) if few != many]
        assert all(differing[:1])
    assert sum(few > 0 for few in fewer) > sum(few < 0 for few in fewer)
    assert sum(fewer) >= 10


@pytest.mark.parametrize("method", ["newton", "dual"])
def test_products_go_on_where_descent_would_end(tmp_path, method, no_hessian):
    """Of ill-conditioned features 3,000 do; they ended after 1,000, far from the optimum."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 200)) @ np.diag(np.logspace(0, -2, 200)) @ rng.normal(size=(200, 200))
    value = X @ rng.normal(size=200) + rng.normal(size=300)
    problem = Problem(X, value, solver=11, cost=10.0)
    store, options = split_problem(tmp_path, problem, 3), problem.options(gap=1e-3, method=method)
    found = train(store, options).metadata
    assert found["stopped"] == "converged"
    assert found["outer_iterations"] > 1000
    limited = train(store, replace(options, max_outer=1000, run="limited")).metadata
    assert limited["stopped"] == "1000 outer iterations"


@pytest.mark.parametrize("solver", [0, 2])
def test_each_class_against_the_rest(tmp_path, solver):
    problem = replace(classes(4), solver=solver, cost=5.0)
    store = split_problem(tmp_path, problem, 3)
    found = train(store, problem.options(method="newton", gap=1e-10))
    assert len(found.metadata["certificates"]) == 4
    assert max(proof["gap"] for proof in found.metadata["certificates"]) <= 1e-10
    for j, label in enumerate(found.labels):
        labels = np.where(problem.labels == label, 1.0, -1.0)
        one = replace(problem, labels=labels)
        (tmp_path / str(j)).mkdir()
        alone = train(
            split_problem(tmp_path / str(j), one, 2), one.options(method="newton", gap=1e-10)
        )
        sign = 1.0 if alone.labels[0] == 1.0 else -1.0
        np.testing.assert_allclose(
            found.weights[:, j], sign * alone.weights[:, 0], rtol=1e-4, atol=1e-6
        )


@each_solver
def test_a_grid_is_what_each_cost_makes(tmp_path, solver):
    problem = random_problem(6, solver=solver)
    store = split_problem(tmp_path, problem, 3)
    models = train_grid(store, problem.options(method="newton", costs=(0.1, 1.0, 10.0), gap=1e-10))
    for cost, model in zip((0.1, 1.0, 10.0), models, strict=True):
        alone = train(store, problem.options(method="newton", cost=cost, gap=1e-10, restart=True))
        np.testing.assert_allclose(model.weights, alone.weights, rtol=1e-4, atol=1e-6)
        assert model.metadata["certificate"]["gap"] <= 1e-10


@each_solver
def test_cross_validation_predicts_what_the_dual_solver_predicts(tmp_path, solver):
    problem = replace(classes(3), solver=solver)
    if solver == 11:
        problem = replace(problem, labels=problem.X[:, 0] * 2 + problem.X[:, 1])
    store = split_problem(tmp_path, problem, 3)
    found, expected = (
        cross_validate(
            store,
            problem.options(method="newton", solver=s, gap=1e-9),
            costs=[0.1, 10.0],
            n_folds=3,
        )
        for s in (solver, DUAL[solver])
    )
    np.testing.assert_allclose(found.predicted, expected.predicted, rtol=1e-3, atol=1e-3)
    assert found.report.best.cost == expected.report.best.cost


# -- A run


def check_resumed(store, options):
    """Break a run off after every pass of every group, resume it, and compare the bits."""
    unbroken, n = outcome(store, options), 0
    again, made = replace(options, run="again"), []

    def listen(event):
        if isinstance(event, BlockStep):
            made.append((event.outer, event.done))

    while True:
        before = len(set(made))
        try:
            found = outcome(store, again, lambda at=before: len(set(made)) > at, listener=listen)
            break
        except StoppedError:
            again, n = replace(again, resume=True), n + 1
    assert n > 2
    assert found[0] == unbroken[0]


@each_solver
@pytest.mark.parametrize("group", [1, 3])
def test_a_run_resumed_after_any_group_makes_the_same_bits(tmp_path, solver, group):
    problem = replace(random_problem(8, solver=solver), cost=10.0)
    check_resumed(
        split_problem(tmp_path, problem, 3), problem.options(method="newton", gap=1e-9, group=group)
    )


@pytest.mark.parametrize("solver", [0, 2])
def test_a_run_of_products_is_resumed_likewise(tmp_path, solver, no_hessian):
    problem = replace(random_problem(8, solver=solver), cost=10.0)
    check_resumed(
        split_problem(tmp_path, problem, 2), problem.options(method="newton", gap=1e-9, group=1)
    )


@pytest.mark.parametrize("solver", [0, 2])
def test_a_run_of_many_models_is_resumed_likewise(tmp_path, solver):
    problem = replace(classes(3), solver=solver)
    check_resumed(
        split_problem(tmp_path, problem, 2), problem.options(method="newton", gap=1e-9, group=1)
    )


def test_a_resumed_run_may_ask_for_less_or_more(tmp_path):
    problem = classes(3)
    store = split_problem(tmp_path, problem, 2)
    seen = []
    with pytest.raises(StoppedError):
        train(store, problem.options(method="newton", gap=1e-3), seen.append, lambda: len(seen) > 3)
    model = train(store, problem.options(method="newton", gap=1e-10, resume=True))
    assert max(proof["gap"] for proof in model.metadata["certificates"]) <= 1e-10


@pytest.mark.parametrize("n_classes", [2, 3])
def test_threads_make_no_difference(tmp_path, n_classes):
    problem = replace(classes(n_classes), cost=3.0)
    store = split_problem(tmp_path, problem, 3)
    one, two = (
        outcome(store, problem.options(method="newton", threads=n, restart=True)) for n in (1, 2)
    )
    assert one == two


def test_the_tolerance_is_that_of_liblinear(tmp_path):
    """|gradient| is compared with that at 0, times the share of rows of the smaller class."""
    problem = free_problem(2, 2)
    store, heard = split_problem(tmp_path, problem, 2), Heard()
    model = train(store, problem.options(method="newton", tolerance=0.01), heard)
    assert model.metadata["stopped"] == "converged"
    last = heard.of(OuterIteration)[-1]
    first = 2 * problem.cost * problem.rows.T @ problem.labels
    scale = min((problem.labels > 0).mean(), (problem.labels < 0).mean())
    gradient = np.sqrt(2 * (last.primal - last.dual))
    assert last.violation <= 0.01
    assert last.violation == pytest.approx(gradient / (np.linalg.norm(first) * scale), rel=1e-3)


def test_no_gap_is_above_that_of_alpha_at_zero(tmp_path):
    problem = replace(free_problem(2, 3), cost=1e4)
    store, heard = split_problem(tmp_path, problem, 2), Heard()
    train(store, problem.options(method="newton"), heard)
    assert heard.of(OuterIteration)[0].gap == 1.0
    assert all(0.0 <= report.dual <= report.primal for report in heard.of(OuterIteration))


@each_solver
def test_a_warm_start_begins_where_the_run_before_ended(tmp_path, solver):
    problem = random_problem(9, solver=solver)
    store, heard = split_problem(tmp_path, problem, 3), Heard()
    first = train(store, problem.options(method="newton", gap=1e-9))
    again = train(store, problem.options(method="newton", gap=1e-9, warm_start=True), heard)
    assert heard.of(WarmStarted)
    assert again.metadata["outer_iterations"] < first.metadata["outer_iterations"]
    # and the dual solver goes on from there
    heard = Heard()
    options = problem.options(method="newton", gap=1e-6, warm_start=True, solver=DUAL[solver])
    other = train(store, options, heard)
    assert heard.of(WarmStarted)[0].rows_kept == store.manifest.n_rows
    values = [model.metadata["certificate"]["primal"] for model in (again, other)]
    np.testing.assert_allclose(*values, rtol=2e-6)


def test_the_limit_ends_it_with_the_best_point(tmp_path, no_hessian):
    problem = replace(random_problem(8, solver=2), cost=100.0)
    store, heard = split_problem(tmp_path, problem, 3), Heard()
    model = train(store, problem.options(method="newton", gap=1e-12, max_outer=9), heard)
    assert "not converged after 9 outer iterations" in heard.of(Warned)[-1].message
    reports = heard.of(OuterIteration)
    assert model.metadata["certificate"]["primal"] == min(report.primal for report in reports)
    assert len(reports) == 9


@pytest.mark.parametrize("changes", [{"selection": "permute"}, {"epochs": 2}, {"average": True}])
def test_options_of_coordinate_descent_are_refused(changes):
    with pytest.raises(UsageError, match="for coordinate descent"):
        TrainOptions(solver=0, **changes)


def test_a_budget_without_room_for_the_hessian_does_without(tmp_path, monkeypatch):
    """The plan says whether there is any; the run asks nothing else."""
    problem = replace(random_problem(8, solver=2), cost=10.0)
    store, asked = split_problem(tmp_path, problem, 3), []
    whole = costs.enough_products

    def watched(manifest, hessian):
        asked.append(hessian)
        return whole(manifest, hessian)

    monkeypatch.setattr(loop, "enough_products", watched)
    train(store, problem.options(method="newton"))
    manifest = replace(store.manifest, n_features=200_000)
    assert (
        loop.plan_memory(manifest, problem.options(method="newton", memory_bytes=200 << 20)).hessian
        is False
    )
    assert asked == [True]
    assert math.isinf(whole(store.manifest, False))


# -- After coordinate descent


def run_hard(store, monkeypatch, **changes):
    newton_after(monkeypatch, 5)
    heard = []
    model = train(store, TrainOptions(**{**HARD, **changes}), heard.append)
    return model, [e for e in heard if isinstance(e, OuterIteration)], heard


def test_newton_finishes_what_descent_leaves(heart, monkeypatch):
    model, reports, heard = run_hard(heart, monkeypatch)
    assert any(isinstance(e, GoesOver) for e in heard)
    assert model.metadata["certificate"]["gap"] <= 1e-6
    assert model.metadata["outer_iterations"] < 30
    steps = [report for report in reports if report.outer > 5]
    assert all(report.certified for report in steps)
    primal = [report.primal for report in steps]
    assert primal == sorted(primal, reverse=True)
    # each gap bounds the distance from the optimum, and no dual value is above it
    best = train(heart, TrainOptions(**{**HARD, "gap": 1e-9, "group": 4}))
    optimum = best.metadata["certificate"]["primal"]
    for report in steps:
        assert report.primal - optimum <= report.gap * report.primal
        assert report.dual <= optimum * (1 + 1e-12)


@pytest.mark.parametrize("solver", [1, 7, 12])
def test_the_optimum_is_that_of_descent(heart, monkeypatch, solver):
    weights = () if solver == 12 else ((1.0, 2.0),)
    how = {"solver": solver, "bias": 1.0, "class_weights": weights}
    model, _, heard = run_hard(heart, monkeypatch, **how)
    assert any(isinstance(e, GoesOver) for e in heard)
    monkeypatch.undo()
    reference = train(heart, TrainOptions(**{**HARD, **how, "group": 4}))
    values = [m.metadata["certificate"]["primal"] for m in (model, reference)]
    np.testing.assert_allclose(*values, rtol=2e-6)


def test_a_slow_rate_leads_to_newton(tmp_path):
    """300 rows of 10 Gaussian features at C = 1e4, where coordinate descent crawls."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 10))
    problem = Problem(X, np.where(X[:, 0] + rng.normal(size=300) > 0, 1.0, -1.0), 1, 1e4)
    store, heard = split_problem(tmp_path, problem, 2), Heard()
    model = train(store, problem.options(gap=1e-6), heard)
    assert heard.of(GoesOver)
    assert model.metadata["certificate"]["gap"] <= 1e-6
    assert model.metadata["outer_iterations"] <= 64


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("solver", [1, 3, 7])
def test_going_over_keeps_what_descent_has_proven(tmp_path, monkeypatch, solver, n_classes):
    """A run that ends soon after has no worse a model than one that ended before."""
    problem = replace(classes(n_classes), solver=solver, cost=100.0)
    store = split_problem(tmp_path, problem, 3)
    newton_after(monkeypatch, 3)
    proofs, heard = [], []
    for most in range(3, 12):
        options = problem.options(gap=1e-9, max_outer=most, restart=True)
        proofs.append(train(store, options, heard.append).metadata["certificate"])
    assert sum(isinstance(event, GoesOver) for event in heard) == len(proofs) - 1
    for after in proofs:
        assert after["gap"] <= proofs[0]["gap"] + 4e-9  # of what rounding did to P
        assert after["primal"] <= proofs[0]["primal"]
        assert after["dual"] >= proofs[0]["dual"] - 3e-9 * proofs[0]["primal"]
    assert proofs[-1]["gap"] < 0.8 * proofs[0]["gap"]
    heard.clear()
    best = train(store, problem.options(gap=1e-8, restart=True), heard.append)
    assert best.metadata["stopped"] == "converged"
    assert best.metadata["certificate"]["primal"] >= max(proof["dual"] for proof in proofs)
    reports = [event for event in heard if isinstance(event, OuterIteration)][3:]
    for before, after in pairwise(reports):
        assert after.certified
        assert after.gap <= before.gap + 4e-9
        assert after.primal <= before.primal * (1 + 1e-9)
        assert after.dual >= before.dual - 3e-9 * before.primal


def hard_classes(folder, **changes):
    """Classes of few features at a large C, and a model of each that descent leaves."""
    problem = replace(classes(4), **{"solver": 1, "cost": 1e3, **changes})
    return problem, split_problem(folder, problem, 3)


@pytest.mark.parametrize("solver", [1, 7])
def test_newton_finishes_what_descent_leaves_of_many_models(tmp_path, monkeypatch, solver):
    problem, store = hard_classes(tmp_path, solver=solver)
    model, reports, heard = run_hard(store, monkeypatch, **vars(problem.options(gap=1e-8)))
    assert any(isinstance(e, GoesOver) for e in heard)
    assert model.metadata["stopped"] == "converged"
    assert len(reports) < 60
    (tmp_path / "other").mkdir()
    primal = {1: 2, 7: 0}[solver]
    other = train(store, problem.options(solver=primal, gap=1e-8, run="other"))
    for ours, theirs in zip(*(m.metadata["certificates"] for m in (model, other)), strict=True):
        assert ours["gap"] <= 1e-8
        assert ours["primal"] == pytest.approx(theirs["primal"], rel=2e-8)


def test_models_that_descent_has_solved_stay_as_they_are(tmp_path, monkeypatch):
    problem, store = hard_classes(tmp_path)
    newton_after(monkeypatch, 8)
    options = problem.options(gap=1e-4, costs=(1e-3, 1e3))
    models = train_grid(store, options)
    proofs = [model.metadata["certificates"] for model in models]
    assert max(proof["gap"] for of in proofs for proof in of) <= 1e-4
    assert min(proof["drift"] for proof in proofs[0]) > 0.0  # of coordinate descent
    assert max(proof["drift"] for proof in proofs[1]) == 0.0  # of Newton's method
    alone = train(store, replace(options, cost=1e-3, costs=(), run="alone"))
    np.testing.assert_allclose(models[0].weights, alone.weights, atol=1e-2)


@pytest.mark.parametrize(("after", "cost", "gap"), [(2, 1e3, 1e-8), (5, 1e3, 1e-8), (5, 0.1, 1e-4)])
def test_many_models_resumed_there_have_the_same_bits(tmp_path, monkeypatch, after, cost, gap):
    newton_after(monkeypatch, after)
    problem, store = hard_classes(tmp_path, cost=cost)
    check_resumed(store, problem.options(method="newton", gap=gap, group=1))


def test_a_warm_start_goes_on_from_there(tmp_path, monkeypatch):
    newton_after(monkeypatch, 2)
    problem, store = hard_classes(tmp_path)
    train(store, problem.options(method="newton", gap=1e-8))
    heard = Heard()
    train(store, problem.options(method="newton", gap=1e-8, warm_start=True, solver=2), heard)
    assert heard.of(WarmStarted)[0].how == "kept"
    assert len(heard.of(OuterIteration)) == 1


def test_many_models_without_room_for_their_hessians_go_on(tmp_path, monkeypatch):
    newton_after(monkeypatch, 2)
    problem, store = hard_classes(tmp_path)
    plan = loop.plan_memory
    monkeypatch.setattr(
        loop, "plan_memory", lambda *of: replace(plan(*of), newton=False, hessian=False)
    )
    _, _, heard = run_hard(
        store, monkeypatch, **vars(problem.options(method="newton", gap=1e-8, max_outer=20))
    )
    assert not any(isinstance(e, GoesOver) for e in heard)


@pytest.mark.parametrize("seed", range(3))
def test_steps_go_past_a_kink_that_is_close(tmp_path, seed):
    """Equal rows of either class, whose margins are the kinks of very steep losses."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(27, 54)) + 3.0
    X[rng.integers(27, size=13)] = X[0]
    problem = Problem(X, np.sign(rng.normal(size=27)), 1, 1e6)
    options = problem.options(method="newton", gap=1e-6)
    model = train(split_problem(tmp_path, problem, 2), options)
    assert model.metadata["stopped"] == "converged"
    assert model.metadata["outer_iterations"] <= 200


def test_a_step_that_is_far_too_long_is_soon_a_short_one(tmp_path, monkeypatch):
    """Rows far from the bias, where the loss is straight: no Hessian tells where the slope is 0."""
    problem = Problem(
        np.array([[-2351.6, -298.4], [-66.9, -22.3]]), np.array([-1.0, 1.0]), 7, 0.15, 1.0
    )
    newton_after(monkeypatch, 3)
    model = train(split_problem(tmp_path, problem), problem.options(gap=1e-6))
    assert model.metadata["stopped"] == "converged"
    assert model.metadata["outer_iterations"] <= 40


@pytest.mark.parametrize("solver", [0, 7])
def test_a_fold_of_one_class_lets_a_free_bias_go(tmp_path, solver):
    """P is the nearer to 0, the larger the bias is: Newton's method takes 710 steps of 1."""
    rng = np.random.default_rng(0)
    problem = Problem(
        rng.normal(size=(60, 5)), np.where(np.arange(60) == 7, -1.0, 1.0), solver, 1.0
    )
    store, heard = split_problem(tmp_path, problem, 2), Heard()
    options = replace(problem, bias=1.0).options(regularize_bias=False, gap=1e-3)
    cross_validate(store, options, n_folds=5, costs=[1.0], listener=heard)
    assert heard.of(OuterIteration)[-1].outer <= 40
    assert heard.of(OuterIteration)[-1].gap <= 1e-3


def test_it_stops_at_the_limit(heart, monkeypatch, no_hessian):
    model, reports, heard = run_hard(heart, monkeypatch, max_outer=8)
    assert model.metadata["outer_iterations"] <= 9
    assert "not converged" in [e for e in heard if isinstance(e, Warned)][-1].message
    assert reports[-1].certified


@pytest.mark.parametrize(
    ("asked", "goal"),
    [
        ({"gap": None, "tolerance": 0.1}, 1e-3), ({"gap": None, "tolerance": 1e-6}, 1e-6),
        ({"gap": 1e-2, "tolerance": 1e-6}, 1e-2),
    ],
)  # fmt: skip
def test_where_a_violation_is_asked_for_a_gap_ends_it(heart, monkeypatch, asked, goal):
    """Violations are a matter of the dual."""
    model, _, heard = run_hard(heart, monkeypatch, max_outer=100, **asked)
    assert [type(e) for e in heard if isinstance(e, GoesOver | Warned)] == [GoesOver]
    assert model.metadata["stopped"] == "converged"
    assert model.metadata["certificate"]["gap"] <= goal


def test_a_run_that_asks_for_a_violation_is_resumed_likewise(heart, monkeypatch):
    newton_after(monkeypatch, 5)
    changes = {"gap": None, "tolerance": 1e-5, "group": 2, "max_outer": 100}
    check_resumed(heart, TrainOptions(**{**HARD, **changes}))


def test_a_certificate_that_fails_does_not_put_it_off(heart, monkeypatch):
    """A run resumed there does not certify again: it would go another way."""
    monkeypatch.setattr(Stopping, "wants_certificate", lambda self, report, _: report.outer == 5)
    _, reports, _ = run_hard(heart, monkeypatch, max_outer=20)
    assert [report.certificates for report in reports[:5]] == [0] * 4 + [1]
    assert [report.steps == 0 for report in reports[:6]] == [False] * 5 + [True]


def test_threads_do_not_matter_there(heart, monkeypatch):
    one, _, _ = run_hard(heart, monkeypatch, threads=1)
    two, _, _ = run_hard(heart, monkeypatch, threads=2)
    assert np.array_equal(one.weights, two.weights)
    assert one.metadata["certificate"] == two.metadata["certificate"]
