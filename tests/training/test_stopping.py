"""When training ends: LIBLINEAR's measure, the limit, and runs in which nothing moves any more."""

import math
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from blocklinear import train_grid
from blocklinear.errors import InputError
from blocklinear.events import GoesOver, OuterIteration, Warned
from blocklinear.memory import PROCESS_BYTES, parse_size
from blocklinear.options import TrainOptions
from blocklinear.selection.cross_validation import cross_validate
from blocklinear.solvers.newton.costs import (
    ALL_ROWS,
    COPIED_STEP,
    MANY_ROWS,
    PART,
    PASS,
    ROWS_WITH_A_LOSS,
    enough_products,
)
from blocklinear.solvers.protocol import Estimate
from blocklinear.training import train
from blocklinear.training.loop import train_models
from blocklinear.training.memory_plan import plan_memory
from blocklinear.training.run import GroupRun
from blocklinear.training.stopping import DOUBT, LEAST_SAMPLED, Stopping
from training.small import (
    Heard,
    Problem,
    descent_alone,
    long_problem,
    newton_after,
    outcome,
    split_problem,
)
from training.test_resume import broken_off


def gaussian(n_classes=2, scale=1.0):
    """300 rows of 10 features; each class is where a noisy linear rule says."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 10))
    value = X @ rng.normal(size=10) + rng.normal(size=300)
    labels = np.where(value > 0, 1.0, -1.0)
    if n_classes > 2:
        labels = np.digitize(value, np.quantile(value, np.arange(1, n_classes) / n_classes))
    return Problem(X * scale, labels.astype(float), 3)


SCALES = 10.0 ** np.array([-2, 4, 0, 3, -1, 2, 4, 1, 0, -2])


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    problem = gaussian()
    return problem, split_problem(tmp_path_factory.mktemp("stopping"), problem, 3)


# -- LIBLINEAR's measure


def iterations(events):
    return max(event.outer for event in events.of(OuterIteration))


@pytest.mark.parametrize("solver", [12, 13])
def test_the_violation_of_regression_is_relative_to_the_first_alone_and_among_others(
    tmp_path, solver
):
    """A grid took the largest less the smallest projected gradient, which is no part of a sum."""
    problem = replace(long_problem(solver, 120, 12), cost=0.5)
    store = split_problem(tmp_path, problem, 3)
    options = problem.options(tolerance=0.02, group=2)
    alone, grid, folds = Heard(), Heard(), Heard()
    train(store, options, alone)
    train_grid(store, replace(options, costs=(0.5, 0.25)), grid)
    cross_validate(store, options, n_folds=2, costs=[0.5], listener=folds)
    for heard in (alone, grid, folds):
        seen = [event.violation for event in heard.of(OuterIteration)]
        assert seen[0] == 1.0
        assert [violation <= 0.02 for violation in seen] == [False] * (len(seen) - 1) + [True]
    assert iterations(grid) <= 3 * iterations(alone)
    assert iterations(alone) <= 3 * iterations(grid)


def test_the_first_violation_of_each_model_is_kept_when_others_leave(tmp_path):
    problem = long_problem(13, 120, 12)
    store = split_problem(tmp_path, problem, 3)
    options = problem.options(
        costs=(0.001, 1.0, 0.1), tolerance=0.03, gap=0.001, group=2, max_outer=60, run="whole"
    )
    heard = Heard()
    whole = train_grid(store, options, heard)
    counts = [event.n_models for event in heard.of(OuterIteration)]
    assert 0 < counts[-1] < 3
    some = replace(options, run="stopped")
    for last in range(1, len(counts), 2):
        train_grid(store, replace(some, max_outer=last))
        some = replace(some, resume=True)
    resumed = train_grid(store, some)
    for one, other in zip(whole, resumed, strict=True):
        assert one.weights.tobytes() == other.weights.tobytes()
        assert one.metadata["certificate"] == other.metadata["certificate"]


@pytest.mark.parametrize("costs", [(), (1e-4, 1.0)], ids=str)
def test_a_warm_start_compares_violations_with_those_of_the_cold_one(tmp_path, costs):
    """After a grid it compared them with its own first ones, which are small already."""
    problem = long_problem(13, 120, 12)
    store = split_problem(tmp_path, problem, 3)
    options, cold, warm = problem.options(tolerance=0.01, group=2), Heard(), Heard()
    if costs:
        train_grid(store, replace(options, costs=costs), cold)
    else:
        train(store, options, cold)
    train(store, replace(options, warm_start=True), warm)
    assert cold.of(OuterIteration)[0].violation == 1.0
    assert warm.of(OuterIteration)[0].violation < 0.05
    assert iterations(warm) < iterations(cold)


# -- The limit


ADVICE = "scale the data, lower C, give a larger --max-outer, or try "


def test_the_limit_is_a_thousand_outer_iterations():
    assert TrainOptions().most_outer == 1000
    assert TrainOptions(method="pegasos").most_outer == 50
    assert TrainOptions(average=True).most_outer == 1
    for options in (TrainOptions(method="newton"), TrainOptions().for_newton()):
        assert options.most_outer == 10_000
    assert TrainOptions(max_outer=7, tolerance=0.1).for_newton().most_outer == 7


@pytest.mark.parametrize(
    ("solver", "advice"),
    [
        (1, ADVICE + "another solver"),
        (
            3,
            ADVICE
            + "-s 1, which ends with Newton steps where there are two classes, or few features",
        ),
        (4, ADVICE + "another solver"),
        (7, ADVICE + "another solver"),  # it ends with Newton steps where -s 1 does
    ],
)
def test_a_large_cost_ends_at_the_limit_with_advice(two, monkeypatch, solver, advice):
    """It went on for 1,000,000 outer iterations without a word."""
    descent_alone(monkeypatch)
    problem, store = two
    heard = Heard()
    options = problem.options(solver=solver, cost=1e4, gap=1e-6, max_outer=20)
    model = train(store, options, heard)
    proof = model.metadata["certificate"]
    assert [warned.message for warned in heard.of(Warned)] == [
        "reaching max number of iterations: not converged after 20 outer iterations: the gap is "
        f"{proof['gap']:.3g}; {advice}"
    ]
    assert model.metadata["stopped"] == "20 outer iterations"
    assert proof["gap"] > 1e-6


@pytest.mark.parametrize("how", ["several", "grid", "folds"])
def test_many_models_of_unscaled_features_end_at_the_limit_with_advice(tmp_path, monkeypatch, how):
    descent_alone(monkeypatch)
    problem = gaussian(3 if how == "several" else 2, SCALES)
    store, heard = split_problem(tmp_path, problem), Heard()
    options = problem.options(max_outer=20)
    if how == "several":
        train(store, options, heard)
    elif how == "grid":
        train_grid(store, replace(options, costs=(0.1, 1.0)), heard)
    else:
        cross_validate(store, options, n_folds=2, costs=[1.0], listener=heard)
    (warned,) = heard.of(Warned)
    assert warned.message.startswith("reaching max number of iterations: not converged after 20 ")
    assert ADVICE in warned.message


@pytest.mark.parametrize(
    "how", [{"method": "pegasos", "max_outer": 2}, {"average": True}], ids=["pegasos", "average"]
)
def test_methods_that_do_not_converge_are_not_blamed_on_the_data(two, how):
    problem, store = two
    heard = Heard()
    train(store, problem.options(gap=1e-9, group=1, **how), heard)
    (warned,) = heard.of(Warned)
    assert "not converged after" in warned.message
    assert "scale the data" not in warned.message


def slowing(gaps, **options):
    """Return the warnings about outer iterations with these gaps."""
    tell = Reports(**options)
    return [message for gap in gaps for message in [tell(gap=gap, rise=1.0, slow=True)] if message]


@pytest.mark.parametrize(
    ("rate", "n_warnings"), [(1.0, 1), (0.9999, 1), (0.994, 1), (0.9929, 0), (0.5, 0)]
)
def test_a_gap_that_falls_too_slowly_for_the_limit_is_told_in_time(rate, n_warnings):
    """From 1 to 0.001, less doubt, within 1,000 outer iterations takes a rate of 0.99293."""
    found = slowing(rate ** np.arange(1, 200))
    assert len(found) == n_warnings
    for message in found:
        assert message.startswith("after 32 outer iterations the gap is ")
        assert "it will take more than 1000 to 0.001; scale the data, lower C, " in message


def test_a_gap_that_a_certificate_refuted_is_told_as_that_showed_it():
    tell = Reports()
    for _ in range(20):
        tell(gap=1e-4, rise=1.0, slow=True)
    seen = Estimate(9.0, 1.0, 1.0, 1, 1e-4, 1e-4, 1.0)
    tell.stopping.learn(0.5, seen)
    message = next(filter(None, (tell(gap=1e-4, rise=1.0, slow=True) for _ in range(40))))
    assert "the gap is 0.5, and falls so slowly" in message


def test_what_comes_slowly_at_first_may_come_in_time():
    assert not slowing([1.0] * 5 + [0.9**k for k in range(200)])
    assert not slowing([1.0] * 31)
    assert not slowing([1.0] * 200, method="pegasos")
    assert "the violation is 1, and" in slowing([0.1] * 32, tolerance=0.01)[0]


def test_unscaled_features_are_told_of_early(tmp_path, monkeypatch):
    problem = gaussian(scale=SCALES)
    store, heard = split_problem(tmp_path, problem), Heard()
    with monkeypatch.context() as alone:
        descent_alone(alone)
        train(store, problem.options(max_outer=40, tolerance=1e-3), heard)
    (at,) = (
        k for k, event in enumerate(heard) if "falls so slowly" in getattr(event, "message", "")
    )
    assert 32 <= [e.outer for e in heard[:at] if isinstance(e, OuterIteration)][-1] < 64
    for solver in (1, 3):  # Newton steps follow
        train(store, problem.options(max_outer=40, solver=solver, restart=True), heard := Heard())
        assert not any("falls so slowly" in warned.message for warned in heard.of(Warned))


def test_a_budget_in_which_newton_steps_follow_is_named(tmp_path):
    problem = gaussian(scale=SCALES)
    rare = np.eye(300, 1100) + np.eye(300, 1100, 300) + np.eye(300, 1100, 600)
    rare += np.eye(300, 1100, 800)
    problem = replace(problem, X=np.hstack([problem.X, 1e-3 * rare]))
    store, tight = split_problem(tmp_path, problem, 3), PROCESS_BYTES + (1 << 18)
    options, heard = problem.options(max_outer=40, memory_bytes=tight), Heard()
    train(store, options, heard)
    assert not heard.of(GoesOver)
    slowly, ended = (warned.message for warned in heard.of(Warned))
    (named,) = re.findall(r"train anew with --memory (\d+M), which has room for Newton", slowly)
    assert f"--memory {named}, which has room for Newton steps, or try " in ended
    options = replace(options, memory_bytes=parse_size(named), restart=True)
    train(store, options, heard := Heard())
    assert heard.of(GoesOver)
    train(store, replace(options, memory_bytes=tight, max_outer=20), heard := Heard())
    assert [named in warned.message for warned in heard.of(Warned)] == [False]


# -- Another method goes on


def after(outer, **counts):
    """Report of an outer iteration in which all rows have a loss, with the counts given."""
    report = OuterIteration(outer, 1.0, 0, 0, 0, 0, 1.0, 9.0, 0.9, False, 1.0, 1, 1, 1, 1)
    return replace(report, **{"n_sv": 10**9} | counts)


def test_another_method_goes_on_once_descent_took_as_long_and_will_take_longer():
    stopping = Stopping(TrainOptions(max_outer=20))
    for outer in range(1, 5):
        stopping.remaining(after(outer), 7.0)
    assert stopping.too_many(after(4), 10.0, 7.0, 3.0)
    assert not stopping.too_many(after(4), 10.0, 7.0, 4.0)  # descent took no longer yet
    assert not stopping.too_many(after(4), 3.0, 7.0, 3.0)  # and will take no longer
    assert not stopping.too_many(after(4), math.inf, 7.0)
    assert stopping.too_many(after(4), 30.0, 2.0, 13.0)  # four like the first are 14 like this
    assert not stopping.too_many(after(4), 30.0, 2.0, 14.0)


def test_how_fast_the_gap_falls_is_measured_whenever_the_work_has_doubled():
    stopping = Stopping(TrainOptions(gap=1e-3))
    found = []
    for outer, (gap, took) in enumerate([(0.5, 1.0), (0.4, 0.5), (0.2, 4.5), (0.1, 3.0)], 1):
        stopping._believed = gap
        found.append(stopping.remaining(after(outer), took))
    assert found[:2] + found[3:] == [None] * 3  # of the first, and after too little more
    # 5 more divided it by 2.5, and left 200; one like the last is 4.5
    assert found[2] == pytest.approx(math.log(200.0) / math.log(2.5) * 5.0 / 4.5)
    again = Stopping(TrainOptions(gap=1e-3))
    again.state = stopping.state
    both = []
    for of in (stopping, again):
        of._believed = 0.05
        both.append(of.remaining(after(5), 9.0))
    assert both[0] == both[1] is not None


def test_the_rate_is_known_once_the_limit_counts():
    stopping, found = Stopping(TrainOptions(gap=1e-3)), {}
    for outer in range(1, 34):
        stopping._believed = 0.9**outer
        found[outer] = stopping.remaining(after(outer), 4.0 if outer == 1 else 1.0)
    # 1 takes as much as four others: the work doubles at 5, 13 and 29
    assert [outer for outer, rate in found.items() if rate] == [5, 13, 29, 32]
    for outer in (13, 29, 32):
        assert found[outer] == pytest.approx(math.log(1e3) / math.log(1.0 / 0.9) - outer)


def test_a_limit_counts_only_once_the_rate_is_known():
    too_many = Stopping(TrainOptions(max_outer=40)).too_many
    assert not too_many(after(31), 100.0, 1.0)
    assert too_many(after(32), 100.0, 1.0)
    assert not too_many(after(32), 8.0, 1.0)


def a_run(store, options, switched_at=None, costs=(), **memory):
    """A run of descent that has not begun, with a memory plan that is changed so."""
    plan = replace(plan_memory(store.manifest, options), **memory)
    solver = SimpleNamespace(task=SimpleNamespace(grid=costs))
    folder = store.folder / "runs" / "none"
    run = GroupRun(
        store.manifest, options, plan, solver, None, folder, Heard(), lambda: False, None
    )
    run.switched_at = switched_at
    return run


@pytest.mark.parametrize(("solver", "passes"), [(1, 16), (7, 16), (12, 16), (3, 84), (13, 84)])
def test_what_follows_on_descent_takes_is_counted_in_its_outer_iterations(two, solver, passes):
    problem, store = two
    options, rows, nnz = problem.options(solver=solver), 10**6, 10**7

    def large(**more):
        run = a_run(store, options, **more)
        run.manifest = replace(store.manifest, n_rows=rows, nnz=nnz)
        return run

    run, report = large(), after(4, steps=3 * rows, entries=3 * nnz, n_models=1)
    takes, took = run.newton_takes(report), run.took(report)
    assert 0.0 < takes < passes / 3  # three passes of descent are more work than three of these
    # an outer iteration that does half of the work: twice as many, but for the overhead of each
    half = replace(report, steps=report.steps / 2, entries=report.entries / 2)
    assert run.newton_takes(half) * run.took(half) == pytest.approx(takes * took)
    assert 1.9 * takes < run.newton_takes(half) < 2.0 * takes
    # steps of all models are counted, and those of one compared
    several = replace(report, steps=5 * report.steps, n_models=5)
    of_each = large(costs=[1.0] * 5)
    assert of_each.newton_takes(several) == of_each.newton_takes(replace(report, n_models=1))
    # to load all rows, for a pass or a product, takes as long as an epoch of hinge loss; and
    # steps of descent take longer on rows that are copied
    loads, loading = large(group=2), nnz + 40.0 * rows
    assert loads.took(report) == took + loading + COPIED_STEP * report.steps
    assert loads.newton_takes(report) * loads.took(report) == pytest.approx(
        takes * took + passes * loading
    )


def test_passes_over_few_rows_take_as_long_as_their_overhead(two):
    problem, store = two
    run = a_run(store, problem.options(solver=3))
    few = after(4, steps=store.manifest.n_rows, entries=store.manifest.nnz)
    assert run.newton_takes(few) == pytest.approx(84.0, rel=0.1)
    in_parts = replace(few, parts=8)  # of descent, each of which is a call of a kernel
    assert run.took(in_parts) == run.took(few) + 8 * PART
    assert run.newton_takes(in_parts) == pytest.approx(84.0 / 2.0, rel=0.1)


def test_parts_of_few_rows_are_counted(tmp_path):
    """Descent took 0.5 s for such rows, in 14,000 parts, and Newton steps 0.04."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(216, 13)) @ rng.normal(size=(13, 13))
    labels = np.where(X @ rng.normal(size=13) + 4.0 * rng.normal(size=216) > 0.0, 1.0, -1.0)
    problem = Problem(X, labels, solver=3, cost=10.0)
    store, heard = split_problem(tmp_path, problem, 1), Heard()
    train(store, problem.options(gap=1e-6), heard)
    (left,) = heard.of(GoesOver)
    assert int(left.message.split()[1]) <= 30  # 49 if parts are not counted
    found = heard.of(OuterIteration)[:4]
    assert all(2 <= event.parts <= event.steps for event in found)
    assert heard.of(OuterIteration)[-1].gap <= 1e-6


@pytest.mark.parametrize(
    ("solver", "n_features", "hessian", "helps"),
    [
        (1, 10**5, False, False),
        (1, 10**5, True, True),
        (1, 10, False, True),
        (7, 10**5, False, True),
    ],
)
def test_products_alone_are_no_way_out_where_the_hessian_knows_few_rows(
    two, solver, n_features, hessian, helps
):
    problem, store = two
    run = a_run(store, problem.options(solver=solver), newton=True, hessian=hessian)
    run.manifest = replace(store.manifest, n_rows=10**6, n_features=n_features)
    assert run.newton_may_help(after(64, n_sv=10**4)) is helps


@pytest.mark.parametrize(("solver", "most"), [(1, 31), (7, 31), (3, math.inf), (13, math.inf)])
def test_a_large_hessian_is_the_most_that_several_models_take(two, solver, most):
    """A smooth loss is left after 32 outer iterations: products do for most of such models."""
    problem, store = two
    run = a_run(store, problem.options(solver=solver), costs=[1.0] * 3)
    run.manifest = replace(store.manifest, n_features=20_000)
    report = after(32, steps=store.manifest.n_rows, entries=store.manifest.nnz)
    assert min(run.newton_takes(report), 1000) == min(most, 1000)


@pytest.mark.parametrize(("solver", "passes"), [(1, 16), (7, 16), (3, 84), (13, 84)])
def test_one_model_takes_what_is_usual(two, solver, passes):
    """Whatever the Hessian is: 20,000 x 300 dense rows were left at 20 times the work."""
    problem, store = two
    run = a_run(store, problem.options(solver=solver))
    report = after(4, entries=store.manifest.nnz, steps=0)
    assert run.newton_takes(report) == passes
    run.manifest = replace(store.manifest, n_features=300)
    assert run.newton_takes(report) == passes


@pytest.mark.parametrize(("solver", "takes"), [(1, 16), (7, 16), (3, math.inf), (13, math.inf)])
def test_proximal_points_need_the_hessian_before_the_limit(two, solver, takes):
    """Rows of 20 of 9,500 features, C = 30: 2,300 products, and descent took 121 iterations."""
    problem, store = two
    report = after(4, entries=store.manifest.nnz, steps=0)
    run = a_run(store, problem.options(solver=solver))
    run.manifest = replace(store.manifest, n_features=20_000)
    assert run.newton_takes(report) == takes
    run.manifest = replace(store.manifest, n_features=300)  # after 190 products
    run.options = replace(run.options, max_outer=100)
    assert run.newton_takes(report) == takes


@pytest.mark.parametrize("solver", [1, 3])
def test_nothing_is_known_of_what_cannot_follow(two, solver):
    problem, store = two
    options, report = problem.options(solver=solver), after(4, steps=10**9, entries=10**9)
    assert a_run(store, options).newton_takes(report) < 1.0
    for why in ({"hessian": False}, {"newton": False}, {"switched_at": 2}):
        run = a_run(store, options, **why)
        if "hessian" in why:
            run.manifest = replace(
                store.manifest, n_features=store.manifest.n_rows // MANY_ROWS + 1
            )
        assert run.newton_takes(report) == math.inf
    for other in ({"average": True}, {"solver": 4}):
        assert a_run(store, problem.options(**other)).newton_takes(report) == math.inf


@pytest.mark.parametrize(
    ("solver", "takes"), [(1, 100), (7, 100), (12, 100), (3, math.inf), (13, math.inf)]
)
def test_without_a_hessian_products_are_worth_a_try_where_rows_are_many(two, solver, takes):
    problem, store = two
    run = a_run(store, problem.options(solver=solver), hessian=False)
    n_rows, nnz = store.manifest.n_rows, store.manifest.nnz
    report = after(4, entries=nnz, steps=0, n_sv=n_rows)
    assert run.newton_takes(report) == takes
    run.manifest = replace(store.manifest, n_features=n_rows // MANY_ROWS)
    assert run.newton_takes(report) == takes
    run.manifest = replace(store.manifest, n_features=n_rows // MANY_ROWS + 1)
    assert run.newton_takes(report) == math.inf
    few = after(4, entries=nnz, steps=0, n_sv=ROWS_WITH_A_LOSS * store.manifest.n_features - 1)
    run.manifest = store.manifest
    assert run.newton_takes(few) == (takes if solver == 7 else math.inf)


@pytest.mark.parametrize(("solver", "each"), [(1, True), (7, False), (12, True)])
def test_there_are_as_many_steps_as_rows_where_few_of_few_rows_have_a_loss(two, solver, each):
    problem, store = two
    n_features = store.manifest.n_rows // ALL_ROWS + 1
    few = ROWS_WITH_A_LOSS * n_features - 1
    report = after(4, steps=10**9, entries=10**9, n_sv=few)
    run = a_run(store, problem.options(solver=solver))
    run.manifest = replace(store.manifest, n_features=n_features)
    usual, takes = replace(report, n_sv=few + 1), run.newton_takes(report)
    assert run.newton_takes(usual) < 1.0
    passes = enough_products(run.manifest, True) + 1.0  # to add the Hessian up
    work = store.manifest.n_rows * (passes * store.manifest.nnz + PASS)
    assert takes == (pytest.approx(work / run.took(report)) if each else run.newton_takes(usual))
    run.manifest = replace(store.manifest, n_features=n_features - 1)
    assert run.newton_takes(replace(report, n_sv=0)) < 1.0


@pytest.mark.parametrize("solver", [1, 12])
def test_where_most_rows_have_a_loss_few_are_enough(two, solver):
    """Of 2,344 house prices with 303 features all have one: 4.3 s of descent are 0.2 s."""
    problem, store = two
    n_rows = store.manifest.n_rows
    most = after(4, steps=10**9, entries=10**9, n_sv=n_rows // 2 + 1)
    run = a_run(store, problem.options(solver=solver))
    run.manifest = replace(store.manifest, n_features=n_rows)
    assert run.newton_takes(most) < math.inf
    assert run.newton_takes(replace(most, n_sv=n_rows // 2)) > n_rows / 16 * run.newton_takes(most)
    without = a_run(store, problem.options(solver=solver), hessian=False)
    without.manifest = run.manifest
    assert without.newton_takes(most) == math.inf
    assert not without.newton_may_help(most)


@pytest.mark.parametrize("cost", [1.0, 100.0])
def test_descent_on_targets_far_from_0_is_left_early(tmp_path, cost):
    """Six rows for each feature, all with a loss: it was left after 32 outer iterations."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(240, 40)) @ rng.normal(size=(40, 40))
    problem = Problem(X, 1000.0 + X.sum(axis=1), solver=12, cost=cost)
    store, heard = split_problem(tmp_path, problem, 3), Heard()
    train(store, problem.options(gap=1e-3), heard)
    (left,) = heard.of(GoesOver)
    assert int(left.message.split()[1]) <= 16


def test_descent_on_few_rows_of_few_features_is_left(tmp_path):
    """310 rows of 32 mixed features: descent took 645 outer iterations, Newton steps take 20."""
    rng = np.random.default_rng(1)
    n, d, cost = int(rng.integers(50, 600)), int(rng.integers(3, 60)), 10.0 ** rng.uniform(-1, 3)
    X = rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) / math.sqrt(d)
    scores = X @ rng.normal(size=d)
    scores += scores.std() * rng.uniform(0.1, 2.0) * rng.normal(size=n)
    labels = np.where(scores > np.median(scores), 1.0, -1.0)
    problem = Problem(X, labels, solver=1, cost=cost, bias=1.0)
    store, heard = split_problem(tmp_path, problem, 1), Heard()
    train(store, problem.options(gap=1e-3, threads=1, max_outer=3000), heard)
    last = heard.of(OuterIteration)[-1]
    assert last.n_sv < ROWS_WITH_A_LOSS * d
    assert last.gap <= 1e-3
    assert last.outer <= 150


@pytest.mark.parametrize("cost", [30.0, 1000.0])
def test_where_few_rows_of_two_classes_apart_have_a_loss_descent_goes_on(tmp_path, cost):
    """2,000 rows of 20 of 900 features: Newton steps took 462 and 931 passes, descent 9 and 11."""
    rng = np.random.default_rng(0)
    X = np.where(rng.random((2000, 900)) < 20 / 900, rng.normal(size=(2000, 900)), 0.0)
    problem = Problem(X, np.sign(X @ rng.normal(size=900)), solver=1, cost=cost)
    store, heard = split_problem(tmp_path, problem, 3), Heard()
    train(store, problem.options(gap=1e-3), heard)
    last = heard.of(OuterIteration)[-1]
    assert last.gap <= 1e-3
    assert last.outer <= 20


@pytest.mark.parametrize(("solver", "most"), [(1, 12), (7, 8), (3, 32)])
def test_features_of_other_scales_are_left_early_and_resumed_alike(tmp_path, solver, most):
    """Columns of size 1 to 100, C = 100, few rows: a pass takes as long as an outer iteration."""
    problem = replace(gaussian(scale=np.linspace(1.0, 100.0, 10)), solver=solver, cost=100.0)
    store, heard = split_problem(tmp_path, problem, 3), Heard()
    options = problem.options(gap=1e-6, run="whole")
    whole = outcome(store, options, listener=heard)
    (over,) = heard.of(GoesOver)
    *_, last = heard.of(OuterIteration)
    descended = [event.outer for event in heard.of(OuterIteration) if event.steps > 0]
    assert over.message.startswith(f"after {descended[-1]} outer iterations")
    assert "going on with" in over.message
    assert "--method newton" in over.message
    assert "'stopped': 'converged'" in whole[0][-1]
    assert f"'newton_iterations': {last.outer - descended[-1]}" in whole[0][-1]
    assert last.gap <= 1e-6
    assert descended == list(range(1, len(descended) + 1))
    assert 2 <= len(descended) <= most
    optimum = problem.optimum()
    assert last.primal - optimum <= 1e-6 * optimum
    assert last.dual <= optimum
    found, n_breaks = broken_off(store, replace(options, run="parts"), 1)
    assert n_breaks >= last.outer - 1  # before the switch, at it, and after it
    assert found == whole


@pytest.mark.parametrize("solver", [1, 7])
@pytest.mark.parametrize("outer", [2, 3, 4])
def test_the_model_is_no_worse_where_the_limit_comes_soon(tmp_path, monkeypatch, solver, outer):
    """Newton's method began with w, whose P was up to three times that of the average."""
    newton_after(monkeypatch, outer)
    problem = replace(gaussian(scale=np.linspace(1.0, 100.0, 10)), solver=solver, cost=100.0)
    store, heard = split_problem(tmp_path, problem, 3), Heard()
    train(store, problem.options(gap=1e-9, max_outer=outer + 1), heard)
    *_, before, last = heard.of(OuterIteration)
    assert (before.steps > 0, last.steps > 0) == (True, False)
    assert last.primal <= 1.0001 * before.primal


# -- Nothing moves


class Reports:
    """Tells a `Stopping` of outer iterations, and asks whether it is stalled, or too slow."""

    def __init__(self, **options):
        self.stopping, self.outer = Stopping(TrainOptions(**options)), 0

    def __call__(self, primal=9.0, gap=0.9, violation=1.0, rise=0.0, slow=False):
        self.outer += 1
        report = OuterIteration(
            self.outer, 1.0, 0, 0, 0, 0, 1.0, primal, gap, False, violation, 1, 1, 1, 1
        )
        seen = Estimate(primal, 1.0, violation, 1, gap, gap, rise)
        stalled = self.stopping.stalled(report, seen)
        if not slow:
            return stalled
        remaining = self.stopping.remaining(report, 1.0)
        late = remaining is not None and self.stopping.too_many(report, remaining, 1.0)
        return self.stopping.too_slow(report) if late else ""


def test_a_run_is_stalled_when_half_of_it_has_brought_nothing():
    tell = Reports()
    assert [tell(rise=1.0) for _ in range(5)] == [None] * 5
    assert [tell() for _ in range(4)] == [None] * 4
    ending = tell()
    assert "10 outer iterations, as the last 5 of them moved nothing" in ending.message(0.9)
    assert "scale the data, lower C, or try another solver" in ending.message(0.9)


def test_a_one_class_svm_has_no_c_to_lower():
    tell = Reports(solver=21)
    tell()
    assert tell().message(0.9).endswith("; scale the data")
    (slow,) = slowing(0.9999 ** np.arange(1, 200), solver=21)
    assert slow.endswith("; scale the data, or give a larger --max-outer")


@pytest.mark.parametrize("better", [{"primal": 8.0}, {"gap": 0.8}, {"violation": 0.5}])
def test_whatever_was_never_so_small_is_a_move(better):
    tell = Reports()
    tell()
    assert tell(**better) is None
    assert tell(**better) is None
    assert tell(**better) is not None
    tell = Reports()
    tell()
    assert tell() is not None


def test_what_is_not_known_is_a_move():
    tell = Reports()
    assert all(tell(rise=math.inf) is None for _ in range(20))


def test_the_state_of_a_stalled_run_is_kept():
    one, other = Reports(), Reports()
    for _ in range(3):
        one(rise=1.0)
    other.stopping.state, other.outer = one.stopping.state, one.outer
    assert [one() is None for _ in range(4)] == [other() is None for _ in range(4)]


@pytest.mark.parametrize(
    ("solver", "how"),
    [*((solver, how) for solver in (3, 7, 13) for how in ("alone", "grid", "resumed")),
     (4, "alone"), (4, "resumed")],
)  # fmt: skip
def test_a_run_whose_dual_does_not_rise_beyond_rounding_ends(tmp_path, monkeypatch, solver, how):
    """An empty row of large weight makes P and D so large that what others add is lost."""
    descent_alone(monkeypatch)
    problem = gaussian()
    X, weights = problem.X[:60].copy(), np.ones(60)
    X[0], weights[0] = 0.0, 1e18
    labels = X @ np.arange(10.0) + 3.0 if solver == 13 else problem.labels[:60]
    cost = 100.0 if solver == 7 else 1e4  # beyond that its violation falls for long
    problem = Problem(X, labels, solver, cost=cost, weights=weights)
    store, heard = split_problem(tmp_path, problem), Heard()
    options = problem.options(tolerance=1e-12, max_outer=100_000)
    if how == "resumed":
        whole = outcome(store, options)
        train(store, replace(options, max_outer=3, run="parts"))
        assert outcome(store, replace(options, run="parts", resume=True))[0] == whole[0]
        return
    if how == "grid":
        train_grid(store, replace(options, costs=(cost, 2.0 * cost)), heard)
    else:
        train(store, options, heard)
    assert "of them moved nothing" in heard.of(Warned)[-1].message


# -- What overflows


@pytest.mark.parametrize(
    "how",
    [
        {"selection": "avsf", "epochs": 4, "group": 1},
        {"selection": "shrink", "epochs": 3},
        {"selection": "online"},
        {"selection": "permute", "epochs": None},
        {"solver": 1},
        {"solver": 4},
        {"solver": 7},
        {"solver": 13},
        {"costs": (1.0, 2.0)},
    ],
    ids=str,
)
def test_numbers_that_overflow_in_training_end_it_within_an_outer_iteration(two, how, recwarn):
    """They were left out of the sums of what was seen: training went on for ever, or crashed."""
    problem, store = two
    heard, options = Heard(), problem.options(**how)
    object.__setattr__(options, "bias", 1e200)  # x'x + B^2 is infinite; options refuse it
    with pytest.raises(InputError, match=r"overflowed.*\n.*scale the data, or lower C or -B"):
        train_models(store, options, heard, lambda: False, lambda models: None, None)
    assert not heard.of(OuterIteration)
    assert not recwarn.list


@pytest.mark.parametrize(("found", "told"), [(1.01, 0.9), (5.0, 0.5), (1.5, 0.0), (90.0, 1e-9)])
def test_after_a_certificate_in_vain_estimates_are_taken_to_be_twice_as_much_too_small(found, told):
    """When half of what they told was believed, up to four more certificates were in vain."""
    stopping = Stopping(TrainOptions(gap=1.0))
    report = OuterIteration(1, 1.0, 0, 0, 0, 0, 1.0, 1.0, 0.0, False, 1.0, 1, 1, 1, 1)

    def estimate(gap):
        return Estimate(1.0, 1.0, 1.0, 1, gap, gap, 0.0)

    believed = 1.0 / DOUBT
    for _ in range(3):
        assert not stopping.wants_certificate(report, estimate(1.01 * believed))
        assert stopping.wants_certificate(report, estimate(0.99 * believed))
        assert stopping.wants_certificate(report, estimate(0.0))
        stopping.learn(found, estimate(told * believed))
        believed *= 0.5 * min(max(told, LEAST_SAMPLED) / found, 1.0)
