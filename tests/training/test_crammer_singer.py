"""Crammer and Singer's problem reaches the optimum of LIBLINEAR's own program."""

from dataclasses import replace

import numpy as np
import pytest
from effort import EXTENSIVE

from blocklinear.training import train
from training.classes import by_liblinear, columns, several_classes
from training.small import outcome, split_problem, without_pins
from training.test_resume import broken_off

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


@pytest.mark.parametrize("weights", [(), ((7.0, 4.0), (-3.0, 0.3))], ids=["plain", "weighted"])
@pytest.mark.parametrize("n_classes", [2, 3, 4])
def test_the_optimum_is_that_of_liblinear(n_classes, weights, tmp_path):
    problem = several_classes(n_classes, 4, class_weights=weights)
    store = split_problem(tmp_path, problem, N_BLOCKS)
    model = train(store, problem.options(gap=1e-6, group=2))
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


def test_threads_and_pins_do_not_matter(store):
    options = several_classes(4, 4).options(gap=1e-4, group=2, threads=1)
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


def test_patience_keeps_the_best(store):
    source = str(store.folder.with_suffix(".svm"))
    options = several_classes(4, 4).options(evaluate=source, patience=2, gap=1e-12, run="patient")
    model = train(store, options)
    assert "without a better score" in model.metadata["stopped"]
