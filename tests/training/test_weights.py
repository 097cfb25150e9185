"""Weights of rows: a row of weight k is the row k times, whatever is trained and however."""

import os
from dataclasses import replace

import numpy as np
import pytest

from blocklinear import train_grid
from blocklinear.errors import InputError, UsageError
from blocklinear.ingest.add import add
from blocklinear.ingest.compact import compact
from blocklinear.objectives.problems import SOLVERS
from blocklinear.objectives.tasks import make_task
from blocklinear.options import AddOptions, TextOptions
from blocklinear.selection import cross_validation
from blocklinear.selection.cross_validation import cross_validate
from blocklinear.solvers.pegasos import Pegasos
from blocklinear.store.changes import remove
from blocklinear.training import train
from training.classes import several_classes
from training.small import (
    SELECTIONS,
    WITH_COST,
    Heard,
    Problem,
    as_text,
    long_problem,
    newton_after,
    outcome,
    split_problem,
    split_text,
)
from training.test_resume import broken_off
from training.test_warm import check as check_warm

N_BLOCKS = 5
GAP = 1e-8
EACH_CLASS = "each class"
each_solver = pytest.mark.parametrize("solver", WITH_COST)


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def weighted(problem, seed=3, most=3):
    """Give the rows whole weights, some of them 0."""
    rng = np.random.default_rng(seed)
    return replace(problem, weights=rng.integers(0, most + 1, len(problem.X)).astype(np.float64))


def repeated(problem):
    """The problem whose rows are there as often as their weights say."""
    times = problem.weights.astype(int)
    X, labels = np.repeat(problem.X, times, axis=0), np.repeat(problem.labels, times)
    return replace(problem, X=X, labels=labels, weights=None)


def small_problem(solver, **changes):
    return replace(long_problem(solver, 80, 20), cost=0.7, **changes)


def proofs(model):
    return model.metadata.get("certificates") or [model.metadata["certificate"]]


def assert_same_optimum(one, other, gap=GAP):
    """Two runs were certified to have come as near to one optimum."""
    assert one.labels == other.labels
    for ours, theirs in zip(proofs(one), proofs(other), strict=True):
        assert max(ours["gap"], theirs["gap"]) <= gap
        assert ours["primal"] == pytest.approx(theirs["primal"], rel=gap, abs=1e-15)
        assert ours["dual"] <= theirs["primal"] * (1 + 1e-12)
        assert ours["drift"] <= 1e-9


def stores_of(folder, problem):
    """The weighted store, and the one of repeated rows."""
    stores = []
    for name, each in (("weighted", problem), ("repeated", repeated(problem))):
        (folder / name).mkdir()
        stores.append(split_problem(folder / name, each, N_BLOCKS))
    return stores


@each_solver
def test_a_row_of_weight_k_is_the_row_k_times(tmp_path, solver):
    weights = () if SOLVERS[solver].regression else ((1.0, 3.0), (-1.0, 0.4))
    problem = weighted(small_problem(solver, class_weights=weights))
    store, rows = stores_of(tmp_path, problem)
    options = problem.options(gap=GAP, group=2)
    model = train(store, options)
    assert_same_optimum(model, train(rows, problem.options(gap=GAP)))
    assert problem.primal_of(model) == pytest.approx(
        model.metadata["certificate"]["primal"], rel=1e-12
    )


@pytest.mark.parametrize("selection", SELECTIONS)
def test_however_rows_are_selected(tmp_path, selection):
    problem = weighted(small_problem(3))
    store, rows = stores_of(tmp_path, problem)
    options = problem.options(gap=1e-6, group=2, selection=selection, epochs=2)
    assert_same_optimum(train(store, options), train(rows, problem.options(gap=1e-6)), 1e-6)


@each_solver
def test_weights_of_any_size_against_liblinear(tmp_path, solver):
    rng = np.random.default_rng(8)
    problem = small_problem(solver)
    sizes = rng.choice([0.0, 1e-3, 0.37, 1.0, 12.5], len(problem.X))
    problem = replace(problem, weights=sizes * rng.random(len(sizes)))
    model = train(split_problem(tmp_path, problem, N_BLOCKS), problem.options(gap=1e-7, group=2))
    proof, optimum = model.metadata["certificate"], problem.optimum()
    assert problem.primal_of(model) == pytest.approx(proof["primal"], rel=1e-12)
    assert proof["primal"] - optimum <= proof["gap"] * proof["primal"]
    if not SOLVERS[solver].l1:  # there LIBLINEAR may stop short: 0.1 % above, for solver 5
        assert proof["primal"] == pytest.approx(optimum, rel=1e-6)
    assert proof["dual"] <= optimum * (1 + 1e-12)


@pytest.mark.parametrize("changes", [{}, {"class_weights": ((7.0, 4.0), (-3.0, 0.3))}], ids=str)
@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize("solver", [1, 3, 7, 4])
def test_several_classes(tmp_path, solver, balanced, changes):
    if balanced and changes:
        return
    problem = weighted(several_classes(3, solver, n_rows=60, n_features=6, **changes))
    store, rows = stores_of(tmp_path, problem)
    options = problem.options(gap=GAP, group=2, balanced=balanced)
    assert_same_optimum(train(store, options), train(rows, options))


def test_balanced_of_two_classes(tmp_path):
    problem = weighted(small_problem(3))
    store, rows = stores_of(tmp_path, problem)
    options = problem.options(gap=GAP, balanced=True)
    assert_same_optimum(train(store, options), train(rows, options))


@pytest.mark.parametrize("solver", [3, 4])
def test_a_class_of_no_weight_is_none(tmp_path, solver):
    problem = several_classes(4, solver, n_rows=80, n_features=6)
    weights = weighted(problem).weights
    weights[:4] = 1.0  # one of each class, by which classes are ordered
    problem = replace(problem, weights=np.where(problem.labels == 7.0, 0.0, weights))
    store, rows = stores_of(tmp_path, problem)
    assert 7.0 in store.manifest.labels
    options = problem.options(gap=GAP, group=2, evaluate=str(tmp_path / "weighted" / "store.svm"))
    model = train(store, options)
    assert 7.0 not in model.labels
    assert len(model.labels) == 3
    assert_same_optimum(model, train(rows, options))


@pytest.mark.parametrize("solver", [1, 13])
def test_a_grid(tmp_path, solver):
    problem = weighted(small_problem(solver))
    store, rows = stores_of(tmp_path, problem)
    options = problem.options(gap=GAP, group=2, costs=(0.01, 0.1, 1.0))
    for pair in zip(train_grid(store, options), train_grid(rows, options), strict=True):
        assert_same_optimum(*pair)


@pytest.mark.parametrize(
    ("problem", "costs", "stratify"),
    [
        (small_problem(3), (0.05, 0.5), False),
        (several_classes(3), (0.05, 0.5), True),
        (small_problem(12), (0.05, 0.5), False),
        (small_problem(3), None, True),
    ],
)
def test_cross_validation_of_weight_2_is_that_of_twice_the_cost(
    tmp_path, monkeypatch, problem, costs, stratify
):
    heavy = replace(problem, weights=np.full(len(problem.X), 2.0))
    scores = []
    for name, each, factor in (("plain", problem, 2.0), ("heavy", heavy, 1.0)):
        (tmp_path / name).mkdir()
        store = split_problem(tmp_path / name, each, N_BLOCKS)
        monkeypatch.setattr(cross_validation, "LARGEST_SEARCHED", 0.125 * factor)
        grid = None if costs is None else [factor * cost for cost in costs]
        found = cross_validate(
            store, each.options(gap=0.01), costs=grid, n_folds=3, stratify=stratify
        )
        best = found.report.best.cost / factor
        scores.append(([s.folds for s in found.report.scores], found.predicted.tolist(), best))
    assert scores[0] == scores[1]


def test_cross_validation_scores_rows_of_weight_0_too(tmp_path):
    """They are left out of training alone: metrics count every row once."""
    problem = small_problem(3)
    half = np.arange(len(problem.X)) % 2
    half[:10] = 1
    problem = replace(problem, weights=half.astype(np.float64))
    store = split_problem(tmp_path, problem, N_BLOCKS)
    found = cross_validate(store, problem.options(gap=1e-9), costs=[1.0], n_folds=3)
    assert sum(fold["rows"] for fold in found.report.best.folds) == len(problem.X)
    assert (found.predicted != 0).all()
    other = replace(problem, labels=np.where(half == 1, problem.labels, -problem.labels))
    (tmp_path / "other").mkdir()
    flipped = split_problem(tmp_path / "other", other, N_BLOCKS)
    assert flipped.manifest.labels == store.manifest.labels
    again = cross_validate(flipped, problem.options(gap=1e-9), costs=[1.0], n_folds=3)
    assert again.predicted.tolist() == found.predicted.tolist()
    assert again.report.best.folds != found.report.best.folds


def test_newton_steps(tmp_path, monkeypatch):
    problem = weighted(small_problem(1, bias=2.0))
    problem = replace(problem, cost=20.0)
    store, rows = stores_of(tmp_path, problem)
    newton_after(monkeypatch, 2)
    heard = Heard()
    model = train(store, problem.options(gap=GAP, group=1), heard)
    assert any("Newton" in getattr(event, "message", "") for event in heard)
    monkeypatch.undo()
    assert_same_optimum(model, train(rows, problem.options(gap=GAP)))


@pytest.mark.parametrize(
    "changes",
    [
        {"method": "pegasos", "max_outer": 20},
        {"method": "pegasos", "max_outer": 20, "pegasos_batch": 7},
        {"method": "pegasos", "max_outer": 20, "pegasos_batch": None, "epochs": 3},
        {"average": True, "epochs": 20},
        {"sample_blocks": N_BLOCKS - 1},
        {"max_outer": 1},
    ],
    ids=str,
)
def test_certificates_are_true_wherever_training_stops(tmp_path, changes):
    problem = weighted(small_problem(3))
    store = split_problem(tmp_path, problem, N_BLOCKS)
    model = train(store, problem.options(**({"group": 2, "gap": 1e-6} | changes)))
    proof = model.metadata["certificate"]
    if "sample_blocks" not in changes:
        assert problem.primal_of(model) == pytest.approx(proof["primal"], rel=1e-12)
    assert proof["primal"] - problem.optimum() <= proof["gap"] * proof["primal"]
    assert proof["dual"] <= problem.optimum() * (1 + 1e-12)
    assert proof["gap"] < 0.8


@pytest.mark.parametrize(
    "changes",
    [{}, {"selection": "permute"}, {"method": "pegasos"}, {"average": True, "max_outer": 1}],
    ids=str,
)
def test_rows_of_weight_1_have_the_bits_of_rows_without(tmp_path, changes):
    problem = small_problem(3)
    found = []
    for name, weights in (("none", None), ("one", np.ones(len(problem.X)))):
        (tmp_path / name).mkdir()
        each = replace(problem, weights=weights)
        store = split_problem(tmp_path / name, each, N_BLOCKS)
        options = each.options(**({"group": 2, "max_outer": 4, "gap": 1e-9} | changes))
        model = train(store, options)
        found.append((model.weights.tobytes(), model.metadata["certificate"]))
    assert found[0] == found[1]


@pytest.mark.parametrize("solver", [3, 1, 7, 13])
def test_a_broken_run_has_the_bits_of_an_unbroken_one(tmp_path, solver):
    problem = weighted(long_problem(solver, 90, 80))
    store = split_problem(tmp_path, problem, N_BLOCKS)
    options = problem.options(group=2, max_outer=5, gap=1e-9, run="whole")
    unbroken = outcome(store, options)
    broken, n_breaks = broken_off(store, replace(options, run="broken", threads=3), 1)
    assert broken == unbroken
    assert n_breaks > 0


@pytest.mark.parametrize("n_classes", [3, 4])
def test_a_broken_run_of_several_classes(tmp_path, n_classes):
    problem = weighted(several_classes(3, {3: 3, 4: 4}[n_classes], n_features=30))
    store = split_problem(tmp_path, problem, N_BLOCKS)
    options = problem.options(group=2, max_outer=4, gap=1e-9, run="whole")
    broken, n_breaks = broken_off(store, replace(options, run="broken"), 1)
    assert broken == outcome(store, options)
    assert n_breaks > 0


def more(store, problem, name):
    path, weights = store.folder.parent / f"{name}.svm", store.folder.parent / f"{name}.w"
    path.write_text(as_text(problem.X, problem.labels))
    weights.write_text("".join(f"{x!r}\n" for x in problem.weights.tolist()))
    text = TextOptions(threads=1, memory_bytes=256 << 20, index_base="auto")
    return add(store, [path], AddOptions(text, batch=name, blocks=2, weights=str(weights)))


def several(solver):
    return {4: 4, EACH_CLASS: 3}.get(solver)


def changing_problem(solver, seed):
    if several(solver):
        problem = several_classes(3, several(solver), n_rows=60, n_features=6)
    else:
        problem = small_problem(solver, bias=1.0)
    rng = np.random.default_rng(seed)
    own = rng.permutation(len(problem.X))
    problem = replace(problem, X=problem.X[own], labels=problem.labels[own])
    return weighted(problem, seed)


@pytest.mark.parametrize("group", [2, None], ids=["groups", "resident"])
@pytest.mark.parametrize("solver", [1, 3, 7, 13, 4, EACH_CLASS])
def test_warm_starts_through_changes(tmp_path, solver, group):
    problem = changing_problem(solver, 1)
    store = split_problem(tmp_path, problem, N_BLOCKS)
    options = problem.options(gap=1e-5 if several(solver) else 1e-7, group=group)
    train(store, options)
    store = more(store, changing_problem(solver, 2), "two")
    check_warm(store, options)
    compact(store, block_bytes=1 << 20)
    remove(store, ["b1"])
    check_warm(store, options)
    # alpha has to give way to the bound of each row
    check_warm(store, replace(options, cost=0.1, gap=1e-5))


@pytest.mark.parametrize("solver", [3, 7])
def test_a_warm_start_gives_way_to_classes_balanced_anew(tmp_path, solver):
    store = split_problem(tmp_path, changing_problem(solver, 1), N_BLOCKS)
    options = small_problem(solver).options(gap=1e-6, group=2, balanced=True, cost=0.1)
    train(store, options)
    other = changing_problem(solver, 2)
    other = replace(other, weights=np.where(other.labels == 1.0, 50.0, 0.1))
    store = more(store, other, "two")
    # bounds of one class are a fraction of what they were
    assert check_warm(store, options).started.how != "kept"


def test_all_weights_0(tmp_path):
    text = "1 1:1\n-1 1:2\n"
    (tmp_path / "w").write_text("0\n0\n")
    store = split_text(tmp_path, text, weights=str(tmp_path / "w"))
    for solver, match in ((3, "all rows have weight 0"), (13, "all rows have weight 0")):
        with pytest.raises(InputError, match=match):
            train(store, Problem(None, None, solver).options())


@pytest.mark.parametrize(("weight", "cost"), [("1e-200", 1e-200), ("1e150", 1e200)])
def test_costs_that_weights_lead_out_of_range(tmp_path, weight, cost):
    (tmp_path / "w").write_text(f"1\n{weight}\n0\n")
    store = split_text(tmp_path, "1 1:1\n-1 1:2\n-1 1:3\n", weights=str(tmp_path / "w"))
    for solver in (3, 13):
        with pytest.raises(UsageError, match=r"times a weight of 1e[-+]?\d+ is"):
            train(store, Problem(None, None, solver, cost=cost).options())


def test_the_total_cost_is_the_sum_over_the_rows(tmp_path):
    problem = weighted(small_problem(3, class_weights=((1.0, 3.0),)))
    store = split_problem(tmp_path, problem, N_BLOCKS)
    manifest, options = store.manifest, problem.options()
    found = Pegasos(make_task(manifest, options), manifest, options, tmp_path)
    assert found._radius_sq == pytest.approx(problem.costs().sum(), rel=1e-12)
