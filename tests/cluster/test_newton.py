"""Newton's method on workers: the passes of one machine, whatever the number of parts."""

import math
import re
import tracemalloc
from concurrent.futures import CancelledError
from dataclasses import replace
from itertools import count
from shutil import copytree

import numpy as np
import pytest
from training.classes import several_classes
from training.free_bias import free_optimum, free_primal_of, free_problem
from training.small import (
    DUAL_SOLVERS,
    MEMORY_BYTES,
    Heard,
    long_problem,
    newton_after,
    random_problem,
    split_problem,
    split_text,
)
from training.warm import more, rows

import blocklinear
from blocklinear.cluster import run, worker
from blocklinear.cluster.job import pairs_before
from blocklinear.errors import MemoryBudgetError
from blocklinear.events import GoesOver, MethodChosen, OuterIteration
from blocklinear.memory import parse_size
from blocklinear.objectives.tasks import make_task
from blocklinear.solvers.newton import costs
from blocklinear.store.changes import remove
from blocklinear.store.store import BlockStore
from blocklinear.training.checkpoint import Checkpoint, files_of_rounds
from blocklinear.training.garbage import collect_garbage
from blocklinear.training.stopping import Stopping

from .test_faults import Broken, bits, failing_once
from .test_warm import check, how, text_of
from .test_warm import trained as started

SOLVERS = sorted({0, 2, 11, *DUAL_SOLVERS})


def trained(store, client, problem, parts=3, listener=None, **options):
    listener = Heard() if listener is None else listener
    settings = {"gap": 1e-6, "method": "newton", "restart": not options.get("resume")} | options
    chosen = problem.options(**settings)
    return blocklinear.train(store, chosen, listener, client=client, parts=client and parts)


@pytest.fixture
def no_hessian(monkeypatch):
    """Let conjugate gradients do all of it, as where there is no memory for the Hessian."""
    monkeypatch.setattr(costs, "enough_products", lambda manifest, hessian: math.inf)
    monkeypatch.setattr("blocklinear.training.loop.enough_products", costs.enough_products)


def check_passes(store, client, problem, parts):
    here, there = (trained(store, c, problem, parts) for c in (None, client))
    assert there.metadata["outer_iterations"] == here.metadata["outer_iterations"]
    assert there.metadata["certificate"]["gap"] <= 1e-6
    np.testing.assert_allclose(there.weights, here.weights, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("parts", [1, 3, 8])
@pytest.mark.parametrize("solver", SOLVERS)
def test_it_takes_the_passes_of_one_machine(two, tmp_path, solver, parts):
    problem = long_problem(solver, 200, 20)
    check_passes(split_problem(tmp_path, problem, 8), two, problem, parts)


@pytest.mark.parametrize("solver", [0, 2, 11])
def test_by_products_too(two, tmp_path, no_hessian, solver):
    problem = long_problem(solver, 200, 20)
    check_passes(split_problem(tmp_path, problem, 8), two, problem, 3)


@pytest.mark.parametrize("seed", range(12))
def test_odd_problems(two, tmp_path, seed):
    """Empty rows and features, a bias, weights of classes and of rows, fewer blocks than parts."""
    problem = random_problem(seed)
    store = split_problem(tmp_path, problem, 3)
    model = trained(store, two, problem, 5)
    assert problem.primal_of(model) <= problem.optimum() * (1 + 2e-6) + 1e-12


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("solver", [1, 3, 7, 12, 13])
def test_a_free_bias(two, tmp_path, solver, seed):
    problem = free_problem(solver, seed)
    store = split_problem(tmp_path, problem, 6)
    model = trained(store, two, problem, regularize_bias=False)
    assert free_primal_of(problem, model) <= free_optimum(problem) * (1 + 2e-6) + 1e-12


@pytest.mark.parametrize(("n_classes", "solver"), [(3, 3), (3, 7), (22, 1)])
def test_each_class_is_at_its_optimum(two, tmp_path, n_classes, solver):
    problem = several_classes(n_classes, solver, n_rows=200, n_features=6)
    store = split_problem(tmp_path, problem, 6)
    here, there = (trained(store, client, problem) for client in (None, two))
    assert max(c["gap"] for c in there.metadata["certificates"]) <= 1e-6
    np.testing.assert_allclose(there.weights, here.weights, rtol=1e-5, atol=1e-7)


def test_folds_of_a_grid(two, tmp_path):
    problem = long_problem(7, 200, 20)
    store = split_problem(tmp_path, problem, 8)
    found = [
        blocklinear.cross_validate(
            store, problem.options(method="newton", gap=1e-6), costs=(0.1, 10.0), folds=3, **where
        )
        for where in ({}, {"client": two, "parts": 3})
    ]
    assert found[0].best_cost == found[1].best_cost
    np.testing.assert_array_equal(found[0].predicted, found[1].predicted)


PROBLEMS = {solver: long_problem(solver, 200, 20) for solver in (2, 3)}
CLASSES = several_classes(3, 3, n_rows=120, n_features=6)


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    of = {
        name: split_problem(tmp_path_factory.mktemp("s"), problem, 8)
        for name, problem in (PROBLEMS | {"classes": CLASSES}).items()
    }
    return {name: (store, (PROBLEMS | {"classes": CLASSES})[name]) for name, store in of.items()}


@pytest.mark.parametrize("name", [2, 3, "classes"])
def test_bits_do_not_depend_on_workers(two, three, stores, name):
    store, problem = stores[name]
    one, other = (trained(store, client, problem) for client in (two, three))
    assert bits(one) == bits(other)


@pytest.mark.parametrize("descends", [0, 3])
@pytest.mark.parametrize("name", [2, 3, "classes"])
def test_a_client_or_a_task_that_dies(serial, stores, monkeypatch, name, descends):
    """Also before, while and after descent goes over."""
    store, problem = stores[name]
    newton_after(monkeypatch, descends)
    problem = replace(problem, solver=1) if name == 2 else problem
    options = {"method": "dual" if descends else "newton", "gap": 1e-3}
    client, tasks = serial(2), count()
    client.before = lambda name: next(tasks)
    expected = bits(trained(store, client, problem, **options))
    n_tasks = next(tasks)
    for at in np.linspace(0, n_tasks - 1, 12).astype(int):
        client = serial(2)
        client.before = failing_once(at, Broken("at a task"))
        with pytest.raises(Broken):
            trained(store, client, problem, **options)
        assert bits(trained(store, serial(1), problem, resume=True, **options)) == expected
    for at in np.linspace(1, n_tasks - 2, 4).astype(int):
        client = serial(2)
        client.before = failing_once(at, CancelledError("lost"))
        assert bits(trained(store, client, problem, **options)) == expected


def test_files_that_nothing_needs_are_deleted(two, stores):
    store, problem = stores["classes"]
    trained(store, two, problem)
    folder = store.folder / "runs" / "default"
    facts = Checkpoint(folder).facts
    kept = facts["method"]["kept"]
    assert {number for _, models, _ in kept for number in models} == {0, 1, 2}
    numbers = {of_round for of_round, *_ in kept}
    assert numbers <= set(files_of_rounds(folder).values()) <= numbers | {facts["outer"]}


@pytest.mark.parametrize("solver", [1, 3, 7, 12, 13])
def test_descent_that_is_slow_goes_over(two, tmp_path, monkeypatch, solver):
    newton_after(monkeypatch, 3)
    problem, heard = long_problem(solver, 200, 20), Heard()
    store = split_problem(tmp_path, problem, 8)
    model = trained(store, two, problem, 3, heard, method="dual")
    assert len(heard.of(GoesOver)) == 1
    assert problem.primal_of(model) <= problem.optimum() * (1 + 2e-6)


@pytest.mark.parametrize("solver", [1, 3, 7])
def test_noisy_rows_of_few_features_converge(two, tmp_path, solver):
    """In 4 parts the gap was 0.02, 0.15 and, after 400 rounds, 0.0008 of 3,000 rows like these."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 80))
    noise = 2.0 * rng.normal(size=600)
    labels = np.where(X @ rng.normal(size=80) / 9.0 + noise > 0.0, 1.0, -1.0)
    problem = replace(long_problem(solver), X=X, labels=labels)
    store, heard = split_problem(tmp_path, problem, 16), Heard()
    model = trained(store, two, problem, 4, heard, gap=1e-3, method="dual")
    assert model.metadata["stopped"] == "converged"
    assert heard.of(OuterIteration)[-1].outer <= 250


@pytest.mark.parametrize("before", ["cluster", "one machine"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_warm_starts(two, tmp_path, before, solver):
    """From Newton's method and to it, of either kind, as rows come and go."""
    values = solver in (11, 12, 13)
    store = split_text(tmp_path, rows(1, 100, 6, values=values), 6)
    options = how(solver, gap=1e-4, method="newton")
    started(store, two if before == "cluster" else None, options)
    more(store, rows(2, 40, 8, values=values), "other", 2)
    _, report, _ = check(store, two, options)
    assert (report.rows_kept, report.rows_new) == (100, 40)
    remove(store, ["other"])
    collect_garbage(store)
    _, report, _ = check(store, two, options)
    assert report.rows_kept == 100
    check(store, None, options)
    if solver in DUAL_SOLVERS:
        started(store, two, replace(options, restart=True))
        check(store, two, replace(options, method="dual"))
        check(store, two, options)


def test_a_start_from_a_run_that_went_over(two, tmp_path, monkeypatch):
    """It goes over as soon as that did: with a tenth of the rows new it is as slow."""
    store, heard = split_text(tmp_path, text_of(1), 6), Heard()
    options = how(1, gap=1e-9)
    with monkeypatch.context() as patch:
        newton_after(patch, 3)
        started(store, two, options)
    more(store, rows(2, 10, 8), "other", 2)
    monkeypatch.setattr(Stopping, "remaining", lambda self, report, took: None)
    started(store, two, replace(options, warm_start=True), listener=heard)
    (over,) = heard.of(GoesOver)
    assert "after 3 outer iterations" in over.message


def test_a_start_that_is_cut_short(serial, tmp_path):
    """What was there stays until all of the start is."""
    store = split_text(tmp_path, text_of(3), 6)
    options = how(3, gap=1e-3, method="newton")
    started(store, serial(2), options)
    more(store, rows(2, 40, 8), "other", 2)
    warm = replace(options, warm_start=True)

    def copied(at):
        copytree(store.folder, tmp_path / f"copy{at}")
        return BlockStore.open(tmp_path / f"copy{at}")

    expected = bits(started(copied("whole"), serial(2), warm)[0])
    for at in range(10):  # the start of three parts, its sums, a pass
        client, copy = serial(2), copied(at)
        client.before = failing_once(at, Broken("at a task"))
        with pytest.raises(Broken):
            started(copy, client, warm)
        facts = Checkpoint(copy.folder / "runs" / "default").facts
        again = replace(options, resume=True) if facts["method"]["first"] else warm
        assert bits(started(copy, serial(1), again)[0]) == expected


def test_the_choice_counts_parts(two, tmp_path):
    """Descent in more parts is slower, Newton's method is not."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 60))
    labels = np.where(X[:, 0] + rng.normal(size=400) > 0.0, 1.0, -1.0)
    problem = replace(long_problem(7), X=X, labels=labels, cost=0.1)
    store, chosen = split_problem(tmp_path, problem, 16), {}
    for parts in (None, 1, 8):
        heard = Heard()
        client = None if parts is None else two
        trained(store, client, problem, parts, heard, method="auto", gap=1e-3)
        (choice,) = heard.of(MethodChosen)
        chosen[parts] = choice.method
    assert chosen == {None: "dual", 1: "dual", 8: "newton"}


def test_the_score_that_was_best(two, tmp_path):
    problem = long_problem(7, 200, 20)
    store = split_problem(tmp_path, problem, 8)
    held_out = tmp_path / "held_out.svm"
    held_out.write_text(rows(5, 50, 20))
    options = {"gap": 1e-12, "evaluate": held_out, "patience": 1}
    here, there = (trained(store, client, problem, **options) for client in (None, two))
    assert there.metadata["stopped"] == here.metadata["stopped"]
    np.testing.assert_allclose(there.weights, here.weights, rtol=1e-6, atol=1e-8)


def test_memory_is_planned_for_sums_of_hessians(store_of_many_features):
    """A worker has its own, that of another one, and both together on the way."""
    manifest, options, task = store_of_many_features
    budgets = [replace(options, memory_bytes=mib << 20) for mib in range(190, 600, 2)]
    plans = [run.plan_worker(manifest, budget, task, 2) for budget in budgets]
    first = [plan.hessian for plan in plans].index(True)
    assert first > 0
    less = plans[first - 1].pin_bytes - plans[first].pin_bytes
    assert less >= 4 * 8 * (manifest.n_features + 1) ** 2 - (2 << 20)


@pytest.fixture
def store_of_many_features(tmp_path):
    lines = [f"{1 if i % 2 else -1} {1 + i}:1 {2000}:0.5" for i in range(1999)]
    store = split_text(tmp_path, "\n".join(lines) + "\n", 4)
    options = blocklinear.TrainOptions(solver=2, method="newton", memory_bytes=MEMORY_BYTES)
    return store.manifest, options, make_task(store.manifest, options)


@pytest.mark.parametrize("solver", [1, 3, 7])
def test_files_of_models_that_take_turns_do_not_pile_up(two, tmp_path, no_hessian, solver):
    """Some evaluate a point where others multiply: no pass has the last alpha of all."""
    problem = several_classes(9, solver, n_rows=200, n_features=12)
    store = split_problem(tmp_path, problem, 6)
    folder, differ = store.folder / "runs" / "default", 0

    def listen(event):
        nonlocal differ
        if isinstance(event, OuterIteration):
            kept, later = Checkpoint(folder).facts["method"]["kept"], set()
            differ += len(kept) > 1
            for _, models, _ in kept[::-1]:
                assert not later.issuperset(models)
                later.update(models)
            assert later == set(range(9))

    trained(store, two, problem, listener=listen)
    assert differ > 0


@pytest.mark.parametrize("problem", [long_problem(3, 200, 20), several_classes(5, 1, 200)])
def test_a_smaller_gap_later(two, tmp_path, problem):
    """The pass that a checkpoint knows of has the models that its gap left unsolved."""
    store, outer = split_problem(tmp_path, problem, 8), []
    for client in (None, two):
        heard = Heard()
        trained(store, client, problem, gap=1e-2)
        trained(store, client, problem, listener=heard, resume=True)
        outer.append([event.outer for event in heard.of(OuterIteration)])
    assert outer[0] == outer[1]


def test_a_run_resumed_has_room_for_its_hessian(store_of_many_features):
    """As on one machine, or the message names a budget that has."""
    manifest, options, task = store_of_many_features
    facts = None
    for mib in range(200, 700, 4):
        budget = replace(options, memory_bytes=mib << 20)
        plan = run.plan_worker(manifest, budget, task, 2)
        again = run.plan_worker(manifest, budget, task, 2, 0, vars(plan))
        assert abs(again.pin_bytes - plan.pin_bytes) < 200
        assert replace(again, pin_bytes=0) == replace(plan, pin_bytes=0)
        facts = vars(plan) if plan.hessian else facts
    less = replace(options, memory_bytes=200 << 20)
    with pytest.raises(MemoryBudgetError, match="that the run to resume needs") as caught:
        run.plan_worker(manifest, less, task, 2, 0, facts)
    named = parse_size(re.search(r"give --memory (\S+) or more", caught.value.fix)[1])
    enough = replace(options, memory_bytes=named)
    assert run.plan_worker(manifest, enough, task, 2, 0, facts).hessian


def test_it_is_refused_where_there_is_none(two, tmp_path):
    lines = [f"{1 if i % 2 else -1} {1 + i}:1 {2000}:0.5" for i in range(1999)]
    store = split_text(tmp_path, "\n".join(lines) + "\n", 4)
    options = blocklinear.TrainOptions(solver=2, method="newton", memory_bytes=MEMORY_BYTES)
    blocklinear.train(store, replace(options, max_outer=1), client=two, parts=2)
    resumed = replace(options, resume=True, memory_bytes=200 << 20)
    with pytest.raises(MemoryBudgetError):
        blocklinear.train(store, resumed, client=two, parts=2)
    again = replace(resumed, memory_bytes=300 << 20)
    assert blocklinear.train(store, again, client=two).metadata["stopped"] == "converged"


def test_reading_alpha_takes_what_is_planned(two, tmp_path, monkeypatch):
    """Centers and alpha, and both once more while they are read."""
    problem, peaks = long_problem(3, 20_000, 3), []
    store = split_problem(tmp_path, problem, 16)

    def measured(*arguments):
        tracemalloc.start()
        found = pairs_before(*arguments)
        peaks.append(tracemalloc.get_traced_memory()[1] / found.shape[1])
        tracemalloc.stop()
        return found

    monkeypatch.setattr(worker, "pairs_before", measured)
    trained(store, two, problem, 2, max_outer=4)
    assert max(peaks) <= 1.2 * run._PART_ROW_BYTES
