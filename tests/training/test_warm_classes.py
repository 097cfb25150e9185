"""Warm starts of several models: classes come and go, and models leave one by one."""

import math
from dataclasses import replace

import numpy as np
import pytest

from blocklinear.solvers.sharing import models_by_pass, padded
from blocklinear.solvers.weight_vectors import WeightVectors
from blocklinear.store.changes import remove
from blocklinear.training import train
from blocklinear.training.checkpoint import Checkpoint
from blocklinear.training.garbage import collect_garbage
from blocklinear.training.warm_start import _Start
from training.small import as_text, descent_alone, newton_after, split_text
from training.warm import DRIFT, check, how, more, rows, trained

each_group = pytest.mark.parametrize("group", [2, None], ids=["groups", "resident"])


@each_group
@pytest.mark.parametrize("solver", [1, 3, 4, 7])
def test_many_classes(tmp_path, monkeypatch, solver, group):
    newton_after(monkeypatch, math.inf)  # not at all: it keeps no sum
    store = split_text(tmp_path, rows(1, 100, 6, classes=(1.0, 2.0, 3.0)), 6)
    options = how(solver, group=group, gap=1e-4 if solver == 4 else 1e-5)
    train(store, options)
    more(store, rows(2, 20, 6, classes=(1.0, 2.0, 3.0)), "same", 1)
    found = check(store, options)
    assert (found.started.rows_kept, found.started.rows_new, found.started.how) == (100, 20, "kept")
    remove(store, blocks=[2])
    assert check(store, options).started.how == ("changed" if group else "recomputed")
    more(store, rows(3, 40, 8, classes=(1.0, 4.0, 3.0, 5.0)), "other", 2)  # features and classes
    found = check(store, options)
    assert (found.started.rows_new, found.started.how) == (40, "kept")
    assert len(found.model.labels) == 5
    check(store, replace(options, cost=0.2))
    remove(store, ["other"])
    collect_garbage(store)
    found = check(store, replace(options, class_weights=((2.0, 3.0),)))
    assert len(found.model.labels) == 3
    assert found.started.rows_gone in (0, 40)


@each_group
@pytest.mark.parametrize("share", [1.0, 0.5])
@pytest.mark.parametrize(("solver", "n"), [(3, 2), (3, 3), (4, 3), (1, 2), (7, 2)])
def test_rows_of_one_class_gone(tmp_path, monkeypatch, solver, n, group, share):
    """Alpha of hinge loss start from the best multiple, which is less where w leans to a side."""
    descent_alone(monkeypatch)
    rng = np.random.default_rng(3)
    classes = np.arange(1.0, n + 1)
    labels = np.concatenate([np.tile(classes, 60), np.where(rng.random(60) < share, 1.0, 2.0)])
    X = (1.0 + 0.3 * labels[:, None] * [1, 0, -1, 0, 0] + rng.random((len(labels), 5))).round(2)
    store = split_text(tmp_path, as_text(X[: 60 * n], labels[: 60 * n]), 5)
    store = more(store, as_text(X[60 * n :], labels[60 * n :]), "gone", 1)
    options = how(solver, group=group, gap=1e-4)
    train(store, options)
    remove(store, ["gone"])
    found, carry = [], _Start.carry

    def noting(self):
        for part in self._parts:
            found.append((part.alpha.copy(), part.W.copy()))
        carry(self)

    monkeypatch.setattr(_Start, "carry", noting)
    assert check(store, options).started.how == ("changed" if group else "recomputed")
    for alpha, W in found:
        linear = np.maximum(alpha, 0.0).sum(axis=0)
        squares = (W**2).sum(axis=0)[: len(linear)]
        if solver == 4:
            linear, squares = linear.sum(), squares.sum()
        if solver in (3, 4):  # t sum alpha - t^2/2 |w|^2 rises until t is 1
            assert (squares <= linear * (1 + 1e-12)).all()
        if share == 1.0 and n == 2:
            assert (squares == pytest.approx(linear)) == (solver == 3)


@each_group
@pytest.mark.parametrize("method", ["dual", "newton"])
def test_so_many_classes_that_columns_of_zeros_follow(tmp_path, method, group):
    labels = tuple(map(float, range(15)))
    store = split_text(tmp_path, rows(1, 200, classes=labels), 6)
    assert any(padded(len(models)) > len(models) for models in models_by_pass(15))
    options = how(3, method=method, group=group, gap=1e-2)
    train(store, options)
    check(store, replace(options, cost=0.2))
    remove(store, blocks=[2])
    check(store, options)


@pytest.mark.parametrize("solver", [1, 3])
def test_from_two_classes_to_three_and_back(tmp_path, monkeypatch, solver):
    descent_alone(monkeypatch)
    store = split_text(tmp_path, rows(1), 4)
    options = how(solver, gap=1e-5)
    train(store, options)
    more(store, rows(2, 30, classes=(-1.0, 3.0)), "third", 2)
    found = check(store, options)
    assert (len(found.model.labels), found.started.how) == (3, "kept")
    remove(store, ["third"])
    found = check(store, options)
    assert (len(found.model.labels), found.started.rows_kept) == (2, 60)
    # and with the other two classes, one of which has been the second
    more(store, rows(4, 50, classes=(-1.0, 3.0)), "late", 2)
    train(store, options)
    remove(store, ["b1"])
    collect_garbage(store)
    found = check(store, options)
    assert set(found.model.labels) == {-1.0, 3.0}
    assert found.started.rows_kept == 50


LEAVING = how(3, gap=2e-3, class_weights=((1.0, 1e-3), (2.0, 30.0)))
"""Options with which models of five classes leave one by one."""


def of_five_classes(tmp_path):
    return split_text(tmp_path, rows(1, 300, classes=(1.0, 2.0, 3.0, 4.0, 5.0)), 6)


def state_of(store):
    return Checkpoint(store.folder / "runs" / "default").facts["method"]


def check_warm(store, first):
    found = trained(store, replace(LEAVING, warm_start=True))
    assert found.started.how == "kept"
    assert found.model.metadata["outer_iterations"] < first.metadata["outer_iterations"]
    assert max(c["drift"] for c in found.model.metadata["certificates"]) <= DRIFT


@pytest.mark.parametrize("averaged", [[], [0, 1, 2, 3, 4], [1, 3]], ids=str)
def test_models_that_had_left_start_warm_too(tmp_path, monkeypatch, averaged):
    """Their alpha and w are those they left with, which the certified w need not be."""
    sample = WeightVectors.sample_gap

    def sample_and_set(self, *args, **how):
        sample(self, *args, **how)
        assert self.averaged
        better = np.isin(self.models.positive, averaged)
        self._remaining[1] = np.where(better, self._remaining.min(axis=0) / 2, 1e9)
        self._remaining[0] = np.where(better, 1e9, self._remaining[0])

    monkeypatch.setattr(WeightVectors, "sample_gap", sample_and_set)
    always = property(lambda self: True, lambda self, value: None)  # also where rows are copied
    monkeypatch.setattr(WeightVectors, "averages", always)
    store = of_five_classes(tmp_path)
    first = train(store, LEAVING)
    monkeypatch.undo()
    state = state_of(store)
    left = set(range(5)) - {number for numbers in state["trained"] for number in numbers}
    assert 0 < len(left) < 5
    for number, proof in enumerate(first.metadata["certificates"]):
        assert proof["average"] == (number in averaged)
    check_warm(store, first)
