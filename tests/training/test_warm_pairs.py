"""Warm starts from a run of any solver to any other: each takes over what the other can use."""

from dataclasses import replace

import numpy as np
import pytest

from blocklinear import train_grid
from blocklinear.store.changes import remove
from blocklinear.training import train
from blocklinear.training.checkpoint import Checkpoint
from blocklinear.training.garbage import collect_garbage
from blocklinear.training.previous import Previous
from training.small import split_text
from training.warm import check, how, more, rows, trained

CLASSIFIERS, REGRESSIONS, PRIMAL = (0, 1, 2, 3, 5, 6, 7), (11, 12, 13), (0, 2, 5, 6, 11)
SEVERAL = {2: (1.0, -1.0), 3: (3.0, 1.0, 2.0)}
GAP = 1e-4


def left_by(folder, solver, n_classes, costs=()):
    """A store, and a run on it."""
    values = solver in REGRESSIONS
    store = split_text(folder, rows(1, 90, classes=SEVERAL[n_classes], values=values), 3)
    if costs:
        train_grid(store, how(solver, gap=GAP, cost=costs[0], costs=costs))
    else:
        train(store, how(solver, gap=GAP))
    return store


def check_all(store, solvers):
    """Start each from what the one before it left."""
    for solver in solvers:
        found = check(store, how(solver, gap=GAP))
        assert found.warnings == []
        assert found.started.rows_kept == 90
        assert (found.started.how == "kept") or solver not in PRIMAL


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("before", CLASSIFIERS)
def test_every_classifier_goes_on_from_every_other(tmp_path, before, n_classes):
    store = left_by(tmp_path, before, n_classes)
    check_all(store, [after for after in CLASSIFIERS if after != before])


@pytest.mark.parametrize("before", REGRESSIONS)
def test_every_regression_goes_on_from_every_other(tmp_path, before):
    store = left_by(tmp_path, before, 2)
    check_all(store, [after for after in REGRESSIONS if after != before])


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("before", [1, 2, 6])
def test_every_classifier_goes_on_from_a_grid(tmp_path, before, n_classes):
    store = left_by(tmp_path, before, n_classes, costs=(0.3, 1.0, 4.0))
    check_all(store, [7, 0, 5])


@pytest.mark.parametrize("solver", [0, 2, 11])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_newton_goes_on_from_its_own_point(tmp_path, solver, n_classes):
    store = left_by(tmp_path, solver, n_classes)
    assert trained(store, how(solver, gap=GAP, warm_start=True)).model.metadata[
        "outer_iterations"
    ] == 1  # fmt: skip


@pytest.mark.parametrize("solver", [5, 6])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_alpha_of_l1_regularisation_have_no_sign(tmp_path, solver, n_classes):
    store = left_by(tmp_path, solver, n_classes)
    previous = Previous(Checkpoint(store.folder / "runs" / "default"), 1.0)
    assert len(previous.columns) == n_classes
    for column in previous.columns.values():
        alpha = column.alpha(slice(0, 90))
        assert alpha.min() >= 0.0
        assert np.count_nonzero(alpha) > 10


@pytest.mark.parametrize("solver", [2, 6])
def test_a_primal_solver_after_gc_took_w(tmp_path, solver):
    store = split_text(tmp_path, rows(1, 90), 3)
    more(store, rows(2, 20), "more", 1)
    train(store, how(solver, gap=GAP))
    remove(store, ["more"])
    collect_garbage(store)
    options = how(solver, gap=GAP, warm_start=True)
    found = trained(store, options)
    if solver == 6:  # alpha of others are of no use to it
        assert "gc" in found.warnings[0]
        assert found.started is None
    else:
        assert found.started.how == "recomputed"
    cold = train(store, replace(options, warm_start=False, run="cold"))
    primals = [model.metadata["certificate"]["primal"] for model in (found.model, cold)]
    np.testing.assert_allclose(*primals, rtol=2 * GAP)
