"""Warm starts where C bounds alpha more narrowly than before, however that came about."""

import math
from dataclasses import replace

import numpy as np
import pytest

from blocklinear import train_grid
from blocklinear.store.store import BlockStore
from blocklinear.training import train
from blocklinear.training.checkpoint import Checkpoint
from blocklinear.training.previous import Previous
from training.small import newton_after, split_text
from training.warm import check, how, more, rows, trained

DIAGONAL = "1 1:1\n2 2:1\n3 3:1\n"


def test_after_a_grid_alpha_of_a_larger_cost_is_not_taken_for_feasible(tmp_path):
    """Rows that have nothing in common stay where they are: their gradient is 0, above C too."""
    store = split_text(tmp_path, DIAGONAL, 1)
    options = how(3, gap=1e-9, cost=0.1)
    for costs in ((0.1, 10.0), (10.0,)):  # the first C is also kept as the one
        train_grid(store, replace(options, costs=costs))
        found = trained(store, replace(options, warm_start=True))
        assert found.model.metadata["certificate"]["primal"] == pytest.approx(0.855, rel=1e-9)


@pytest.mark.parametrize("group", [1, None])
def test_a_weight_that_bounded_the_rows_of_the_other_class_no_longer_does(tmp_path, group):
    """With a third class, the weight of a class is that of its own model only."""
    store = split_text(tmp_path, "1 1:1\n1 2:1\n2 3:1\n2 4:1\n2 5:1\n", 2)
    options = how(3, gap=1e-6, cost=0.1, class_weights=((2.0, 20.0),), group=group)
    train_grid(store, replace(options, costs=(0.05, 0.1)))
    more(store, "1 6:1\n3 7:1\n3 8:1\n", "third", 1)
    check(store, options)


def test_the_models_of_the_nearest_cost_are_started_from(tmp_path, monkeypatch):
    newton_after(monkeypatch, math.inf)  # not at all: it keeps no sum
    store = split_text(tmp_path, rows(1, 80, classes=(1.0, 2.0, 3.0)), 4)
    options = how(3, gap=1e-4)
    train_grid(store, replace(options, costs=(0.01, 1.0, 100.0)))
    folder = store.folder / "runs" / "default"
    for cost, nearest in ((0.002, 0.01), (0.5, 1.0), (9.0, 1.0), (11.0, 100.0), (1e4, 100.0)):
        previous = Previous(Checkpoint(folder), cost)
        assert len(previous.columns) == 3
        for column in previous.columns.values():
            assert column.costs == (nearest, nearest)
    found = check(store, replace(options, cost=1.3))
    assert found.started.how == "kept"


def test_a_grid_of_two_classes_knows_both(tmp_path):
    store = split_text(tmp_path, rows(1, 60, classes=(1.0, 2.0)), 3)
    options = how(3, gap=1e-4, class_weights=((2.0, 3.0),))
    train_grid(store, replace(options, costs=(0.5, 1.0)))
    columns = Previous(Checkpoint(store.folder / "runs" / "default"), 1.0).columns
    assert {label: column.costs for label, column in columns.items()} == {
        1.0: (1.0, 3.0), 2.0: (3.0, 1.0),
    }  # fmt: skip
    more(store, rows(2, 20, classes=(2.0, 3.0)), "third", 1)
    assert check(store, options).started.rows_kept == 60


def test_no_block_is_read_where_bounds_are_as_wide_as_before(tmp_path):
    """Also with weights of classes, where alpha of one is larger than what the other may have."""
    store = split_text(tmp_path, rows(1, 200), 8)
    options = how(3, cost=0.01, class_weights=((1.0, 8.0),), gap=1e-3)
    train(store, options)
    found = trained(store, replace(options, cost=0.02, warm_start=True))
    assert (found.started.how, found.started.blocks_read) == ("kept", 0)


def test_balanced_weights_that_shrink_with_new_rows(tmp_path):
    store = split_text(tmp_path, rows(1, 60), 3)
    options = how(3, gap=1e-6, cost=0.05, balanced=True)
    train(store, options)
    more(store, rows(2, 200, classes=(1.0, -1.0)), "more", 2)
    check(store, options)


@pytest.mark.parametrize("solver", [1, 3, 4, 7, 12, 13])
def test_alpha_that_no_task_could_have_left_delays_but_does_not_deceive(tmp_path, solver):
    """A certificate rests on nothing that was left, whatever a warm start believes of it."""
    text = rows(1, 60, classes=(1.0, 2.0, 3.0) if solver == 4 else (1.0, -1.0), values=solver > 7)
    store = split_text(tmp_path, text, 3)
    options = how(solver, gap=1e-4, max_outer=200, cost=0.5)
    cold = train(store, replace(options, run="cold"))
    train(store, options)
    checkpoint = Checkpoint(store.folder / "runs" / "default")
    arrays = {name: np.array(checkpoint.mapped(name)) for name in checkpoint.names}
    arrays["alpha-0"][:] = -7.0 * arrays["alpha-0"] + 50.0
    checkpoint.save(checkpoint.facts, arrays)
    found = trained(store, replace(options, warm_start=True))
    proof, optimum = found.model.metadata["certificate"], cold.metadata["certificate"]
    assert proof["dual"] <= optimum["primal"]
    assert proof["primal"] - optimum["primal"] <= proof["gap"] * proof["primal"]
    assert BlockStore.open(store.folder).manifest.n_rows == 60
