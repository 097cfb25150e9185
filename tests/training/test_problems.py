from dataclasses import replace

import numpy as np
import pytest

from blocklinear.errors import InputError, UsageError
from blocklinear.options import TrainOptions
from blocklinear.training.problems import binary_problem, label_order
from training.small import split_text


@pytest.fixture
def problem(tmp_path):
    def make(labels, **options):
        text = "".join(f"{label} 1:1\n" for label in labels)
        return binary_problem(split_text(tmp_path, text).manifest, TrainOptions(**options))

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
    signs = found.signs(np.array([expected[0], expected[1], expected[0]], float))
    assert signs.tolist() == [1.0, -1.0, 1.0]


def test_more_labels_keep_their_order():
    assert label_order([-1.0, 1.0, 2.0]) == [-1.0, 1.0, 2.0]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([1, 1], "all rows have the one label 1"),
        ([3, 1, 2], r"the store has 3 classes \(3, 1, 2"),
        ([1, 1.5], r"label 1\.5 is not an integer"),
        (["-0.25", 1], r"label -0\.25 is not an integer"),
    ],
    ids=str,
)
def test_labels_that_are_not_two_classes(problem, labels, message):
    with pytest.raises(InputError, match=message) as caught:
        problem(labels)
    assert caught.value.exit_code == 3


def test_labels_too_many_to_list(tmp_path):
    manifest = replace(split_text(tmp_path, "1 1:1\n-1 1:1\n").manifest, labels=None)
    with pytest.raises(InputError, match="not classes"):
        binary_problem(manifest, TrainOptions())


def test_a_label_without_rows_is_no_class(tmp_path):
    manifest = split_text(tmp_path, "3 1:1\n-1 1:1\n1 1:1\n", blocks=1).manifest
    block = replace(manifest.blocks[0], label_counts=[0, 1, 1])
    assert binary_problem(replace(manifest, blocks=[block]), TrainOptions()).labels == (1, -1)


def test_hinge(problem):
    found = problem([-1, 1], solver=3, cost=2.0, class_weights=((1.0, 5.0), (-1.0, 0.5)))
    assert (found.solver, found.squared) == ("L2R_L1LOSS_SVC_DUAL", False)
    assert found.cost.tolist() == found.upper.tolist() == [1.0, 10.0]  # negative, then positive
    assert found.diag.tolist() == [0.0, 0.0]


def test_squared_hinge(problem):
    found = problem([2, 7], solver=1, cost=2.0, class_weights=((7.0, 4.0),))
    assert (found.solver, found.squared) == ("L2R_L2LOSS_SVC_DUAL", True)
    assert found.cost.tolist() == [8.0, 2.0]
    assert found.upper.tolist() == [np.inf, np.inf]
    assert found.diag.tolist() == [0.0625, 0.25]


def test_weights_given_twice_multiply(problem):
    found = problem([1, -1], class_weights=((1.0, 2.0), (1.0, 3.0)))
    assert found.cost.tolist() == [1.0, 6.0]


@pytest.mark.parametrize(
    ("solver", "cost", "weight"),
    [(3, 1e300, 1e300), (1, 1e300, 1e300), (1, 1e-309, 1.0), (3, 1e-300, 1e-300)],
)
def test_costs_that_overflow_are_refused(problem, solver, cost, weight):
    with pytest.raises(UsageError, match=r"C of class -?1 is .* at least 1e-308"):
        problem([1, -1], solver=solver, cost=cost, class_weights=((1.0, weight),))
