from dataclasses import replace
from functools import cached_property
from types import SimpleNamespace

import numpy as np
import pytest
from training.small import split_text

from blocklinear.errors import InputError, UsageError
from blocklinear.kernels import losses
from blocklinear.objectives.feasible_sets import inside
from blocklinear.objectives.models import make_models
from blocklinear.objectives.problems import label_order
from blocklinear.objectives.tasks import make_task
from blocklinear.options import TrainOptions
from blocklinear.solvers.pegasos import Pegasos


def rows(labels, weights=None):
    weights = None if weights is None else np.array(weights)
    return SimpleNamespace(labels=np.array(labels), weights=weights)


@pytest.fixture
def problem(tmp_path):
    def make(labels, **options):
        text = "".join(f"{label} 1:1\n" for label in labels)
        return make_task(split_text(tmp_path, text).manifest, TrainOptions(**options))

    return make


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([0, 1, 0], (0, 1)),
        ([1, 0], (1, 0)),
        ([1, -1], (1, -1)),
        ([-1, -1, 1], (1, -1)),
        (["-1", "+1"], (1, -1)),
        ([2, 7], (2, 7)),
        ([7, 2, 2], (7, 2)),
        ([-1, 0], (-1, 0)),
        ([-1, 2], (-1, 2)),
        (["1e3", -5], (1000, -5)),
    ],
    ids=str,
)
def test_labels_in_the_order_of_liblinear(problem, labels, expected):
    found = problem(labels)
    assert found.labels == expected
    signs, costs = found.of_model(0, rows([expected[0], expected[1], expected[0]]))
    assert signs.tolist() == [1.0, -1.0, 1.0]
    ((positive, negative),) = found.pairs
    assert costs.tolist() == [positive, negative, positive]


def test_more_labels_keep_their_order():
    assert label_order([-1.0, 1.0, 2.0]) == [-1.0, 1.0, 2.0]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([1, 1], "all rows have the one label 1"),
        ([1, 1.5], r"label 1\.5 is not an integer"),
        (["-0.25", 1], r"label -0\.25 is not an integer"),
    ],
    ids=str,
)
def test_labels_that_are_not_classes(problem, labels, message):
    with pytest.raises(InputError, match=message) as caught:
        problem(labels)
    assert caught.value.exit_code == 3


def test_labels_too_many_to_list(tmp_path):
    manifest = replace(split_text(tmp_path, "1 1:1\n-1 1:1\n").manifest, labels=None)
    with pytest.raises(InputError, match="not classes"):
        make_task(manifest, TrainOptions())


def test_a_label_without_rows_is_no_class(tmp_path):
    manifest = split_text(tmp_path, "3 1:1\n-1 1:1\n1 1:1\n", blocks=1).manifest
    block = replace(manifest.blocks[0], label_counts=[0, 1, 1])
    assert make_task(replace(manifest, blocks=[block]), TrainOptions()).labels == (1, -1)


@pytest.mark.parametrize(
    ("solver", "name", "kind", "bounded"),
    [
        (1, "L2R_L2LOSS_SVC_DUAL", losses.SQUARED_HINGE, False),
        (3, "L2R_L1LOSS_SVC_DUAL", losses.HINGE, True),
        (7, "L2R_LR_DUAL", losses.LOGISTIC, True),
    ],
)
def test_classes(problem, solver, name, kind, bounded):
    weights = ((7.0, 5.0), (2.0, 0.5))
    found = problem([7, 2], solver=solver, cost=2.0, class_weights=weights, epsilon=0.3)
    assert (found.solver.name, found.kind, found.solver.bounded) == (name, kind, bounded)
    assert found.of_model(0, rows([2.0, 7.0, 2.0]))[1].tolist() == [1.0, 10.0, 1.0]
    assert found.of_model(0, rows([2.0, 7.0, 2.0], [3.0, 0.5, 0.0]))[1].tolist() == [3.0, 5.0, 0.0]
    assert found.epsilon == 0.0


@pytest.mark.parametrize(
    ("solver", "name", "kind", "bounded"),
    [
        (12, "L2R_L2LOSS_SVR_DUAL", losses.L2_SVR, False),
        (13, "L2R_L1LOSS_SVR_DUAL", losses.L1_SVR, True),
    ],
)
def test_values(problem, solver, name, kind, bounded):
    found = problem([0.5, 1, 1], solver=solver, cost=2.0, epsilon=0.3, class_weights=((1.0, 9.0),))
    assert (found.solver.name, found.kind, found.solver.bounded) == (name, kind, bounded)
    assert (found.labels, found.epsilon) == ((), 0.3)
    values = np.array([0.5, -3.25])
    assert found.of_model(0, rows(values))[0].tolist() == [0.5, -3.25]
    assert found.of_model(0, rows(values))[1].tolist() == [2.0, 2.0]
    assert found.of_model(0, rows(values, [0.0, 3.0]))[1].tolist() == [0.0, 6.0]


@pytest.mark.parametrize("labels", [[1, 1], [3, 1, 2], ["1.5", "-0.25"]], ids=str)
def test_values_of_any_number_are_no_classes(problem, labels):
    assert problem(labels, solver=13).labels == ()


def test_the_radius_of_pegasos_is_the_sum_of_all_costs(tmp_path):
    manifest = split_text(tmp_path, "1 1:1\n-1 1:2\n1 1:3\n1 2:1\n", blocks=3).manifest
    options = TrainOptions(method="pegasos", cost=2.0, class_weights=((-1.0, 5.0),))
    found = make_task(manifest, options)
    radius_sq = Pegasos(found, manifest, options, tmp_path)._radius_sq
    assert radius_sq == found.of_model(0, rows([1.0, -1.0, 1.0, 1.0]))[1].sum()


def test_weights_given_twice_multiply(problem):
    found = problem([1, -1], class_weights=((1.0, 2.0), (1.0, 3.0)))
    assert found.pairs.tolist() == [[6.0, 1.0]]


@pytest.mark.parametrize(
    ("solver", "cost", "weight"),
    [(3, 1e300, 1e300), (1, 1e300, 1e300), (1, 1e-309, 1.0), (3, 1e-300, 1e-300)],
)
def test_costs_that_overflow_are_refused(problem, solver, cost, weight):
    with pytest.raises(UsageError, match=r"C of class -?1 is .* at least 1e-308"):
        problem([1, -1], solver=solver, cost=cost, class_weights=((1.0, weight),))


@pytest.mark.parametrize(("solver", "free"), [(3, [0, 1, 0, 0]), (1, [0, 1, 1, 1])])
def test_alpha_strictly_inside_their_bounds(problem, solver, free):
    found = problem([7, 2], solver=solver, cost=2.0, class_weights=((7.0, 5.0), (2.0, 0.5)))
    alpha = np.array([[0.0], [0.5], [1.0], [10.0]])
    some = rows([2.0, 2.0, 2.0, 7.0])
    assert inside(found, some, alpha).ravel().tolist() == list(map(bool, free))


def test_many_classes_are_counted_once(tmp_path, monkeypatch):
    """The rows of each class were counted, in all blocks, for each class: minutes for thousands."""
    n, counted = 2000, []
    store = split_text(tmp_path, "".join(f"{k} 1:1\n" for k in range(n)), 20)
    manifest = store.manifest
    before = type(manifest).label_counts.func
    seen = cached_property(lambda of: counted.append(1) or before(of))
    seen.__set_name__(type(manifest), "label_counts")
    monkeypatch.setattr(type(manifest), "label_counts", seen)
    assert len(make_models(manifest, TrainOptions())) == n
    assert len(counted) <= 1
