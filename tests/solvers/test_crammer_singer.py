"""Crammer and Singer's problem reaches the optimum of LIBLINEAR's own program."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from effort import EXTENSIVE
from training.classes import by_liblinear, columns, several_classes
from training.small import Problem, outcome, split_problem, without_pins
from training.test_resume import broken_off

from blocklinear.events import OuterIteration
from blocklinear.solvers.crammer_singer import CrammerSinger
from blocklinear.training import loop, train
from blocklinear.training.memory_plan import plan_memory

N_BLOCKS = 5


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return split_problem(tmp_path_factory.mktemp("cs"), several_classes(4), N_BLOCKS)


def primal(problem, model):
    """1/2 sum_m w_m' w_m + sum_i C_i max_m (e_i^m - (w_y - w_m)' x_i), dense."""
    W = columns(model)
    scores = problem.rows @ W.T
    code = np.array([model.labels.index(label) for label in problem.labels.tolist()])
    rows = np.arange(len(code))
    lost = scores + 1.0 - scores[rows, code][:, None]
    lost[rows, code] = 0.0
    return 0.5 * (W**2).sum() + float(problem.costs() @ lost.max(axis=1))


@pytest.mark.parametrize("group", [2, N_BLOCKS])
@pytest.mark.parametrize("weights", [(), ((7.0, 4.0), (-3.0, 0.3))], ids=["plain", "weighted"])
@pytest.mark.parametrize("n_classes", [2, 3, 4])
def test_the_optimum_is_that_of_liblinear(n_classes, weights, group, tmp_path):
    problem = several_classes(n_classes, 4, class_weights=weights)
    store = split_problem(tmp_path, problem, N_BLOCKS)
    model = train(store, problem.options(gap=1e-6, group=group))
    theirs = by_liblinear(problem, tmp_path / "store.svm", tmp_path)
    proof, optimum = model.metadata["certificate"], primal(problem, theirs)
    assert model.labels == theirs.labels
    assert model.weights.shape[1] == n_classes
    assert primal(problem, model) == pytest.approx(proof["primal"], rel=1e-11)
    assert proof["primal"] == pytest.approx(optimum, rel=1e-6)
    assert proof["dual"] <= optimum * (1 + 1e-9)
    assert proof["gap"] <= 1e-6


@pytest.mark.parametrize("max_outer", [1, 2, 3, 4])
def test_the_certificate_is_true_wherever_training_stops(store, max_outer, tmp_path):
    problem = several_classes(4, 4)
    model = train(store, problem.options(gap=1e-12, group=2, max_outer=max_outer))
    optimum = primal(problem, by_liblinear(problem, store.folder.with_suffix(".svm"), tmp_path))
    proof = model.metadata["certificate"]
    assert primal(problem, model) == pytest.approx(proof["primal"], rel=1e-11)
    assert proof["dual"] <= optimum * (1 + 1e-9)
    assert proof["primal"] - optimum <= proof["gap"] * proof["primal"]


@pytest.mark.parametrize("group", [2, N_BLOCKS])
def test_threads_and_pins_do_not_matter(store, group):
    options = several_classes(4, 4).options(gap=1e-4, group=group, threads=1)
    expected = outcome(store, options)
    for threads in (2, 4):
        assert outcome(store, replace(options, threads=threads)) == expected
    tight = replace(options, memory_bytes=without_pins(store, options).memory_bytes + (1 << 20))
    assert outcome(store, tight) == expected


@pytest.mark.parametrize(
    "changes", [{}, {"group": 1}, {"group": N_BLOCKS}, {"epochs": 3}, {"selection": "permute"}],
    ids=str,
)  # fmt: skip
def test_broken_off_and_resumed(store, changes):
    given = {"gap": 1e-4, "group": 2, "max_outer": 30, "run": "whole"} | changes
    options = several_classes(4, 4).options(**given)
    unbroken = outcome(store, options)
    for every in (1, 3, 7) if EXTENSIVE or not changes else (2, 7):
        found, n_breaks = broken_off(store, replace(options, run=f"every{every}"), every)
        assert found == unbroken
        assert n_breaks > 0 or every > 1


def outer_iterations(store, options):
    """Train; return the events of outer iterations."""
    heard = []
    train(store, options, heard.append)
    return [event for event in heard if isinstance(event, OuterIteration)]


def test_extrapolation_over_the_only_group_saves_work(store, monkeypatch):
    options = several_classes(4, 4, cost=100.0).options(gap=1e-8, group=N_BLOCKS)
    extrapolating = outer_iterations(store, options)
    monkeypatch.setattr(CrammerSinger, "_extrapolate", lambda *_: None)
    walking = outer_iterations(store, options)
    work = [sum(event.entries for event in events) for events in (extrapolating, walking)]
    assert work[0] < 0.6 * work[1]
    assert extrapolating[-1].gap <= 1e-8
    for events in (extrapolating, walking):
        duals = [event.dual for event in events]
        assert all(b >= a * (1 - 1e-12) for a, b in itertools.pairwise(duals))


def test_extrapolation_does_not_stand_in_the_way_of_small_gaps(tmp_path):
    """Near the optimum the slope along the way is all rounding: it led anywhere, for ever."""
    rng = np.random.default_rng(0)
    X = rng.integers(-3, 4, (150, 120)).astype(float)
    problem = Problem(X, rng.integers(0, 6, 150).astype(float), 4, cost=1.0)
    options = problem.options(gap=1e-9, group=N_BLOCKS, max_outer=100)
    model = train(split_problem(tmp_path, problem, N_BLOCKS), options)
    assert model.metadata["stopped"] == "converged"


def test_extrapolation_keeps_weights_and_alpha_together(store, monkeypatch):
    """And feasible, and it raises the dual."""
    extrapolate, gains = CrammerSinger._extrapolate, []

    def dual(model, step):
        return model._terms_of(step.data, step.alpha)[0, 0] - 0.5 * np.vdot(model.W, model.W)

    def watched(model, step, d, V):
        before = dual(model, step)
        extrapolate(model, step, d, V)
        gains.append(dual(model, step) - before)
        alpha, (code, cost) = step.alpha, step.data
        own = np.arange(len(alpha)), code
        assert (alpha[own] <= cost).all()
        assert abs(alpha.sum(axis=1)).max() <= 1e-12
        others = alpha.copy()
        others[own] = 0.0
        assert (others <= 0.0).all()

    monkeypatch.setattr(CrammerSinger, "_extrapolate", watched)
    model = train(store, several_classes(4, 4).options(gap=1e-8, group=N_BLOCKS))
    assert min(gains) >= -1e-10
    assert max(gains) > 0.0
    assert model.metadata["certificate"]["drift"] <= 1e-12


def test_where_the_group_is_all_rows_the_gap_is_known_before_it_is_certified(store):
    """So that the first certificate is the last, and none is late."""
    options = several_classes(4, 4).options(gap=1e-6, group=N_BLOCKS)
    events = outer_iterations(store, options)
    assert [event.certified for event in events] == [False] * (len(events) - 1) + [True]
    assert all(event.gap > 1e-6 for event in events[:-1])


def test_patience_keeps_the_best(store):
    source = str(store.folder.with_suffix(".svm"))
    options = several_classes(4, 4).options(evaluate=source, patience=2, gap=1e-12, run="patient")
    model = train(store, options)
    assert "without a better score" in model.metadata["stopped"]


@pytest.mark.parametrize("group", [1, 2])
def test_groups_converge_where_no_rows_are_kept(tmp_path, monkeypatch, group):
    """Without an extrapolation after passes over them, the gap was 0.1 and more after 1,000."""
    problem = several_classes(5, 3, cost=4.0, bias=10.0)
    store = split_problem(tmp_path, problem, 4)

    def plan(manifest, *args):
        return replace(plan_memory(manifest, *args), working_set_entries=0)

    monkeypatch.setattr(loop, "plan_memory", plan)
    model = train(store, problem.options(gap=1e-4, group=group))
    assert model.metadata["stopped"] == "converged"
