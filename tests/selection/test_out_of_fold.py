"""What a cross-validation reports."""

import json
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest

from blocklinear.selection.cross_validation import _FOLD_BYTES, _UNSCORED_BYTES
from blocklinear.selection.out_of_fold import Predictions, Scores, ValidationReport


def report(*means):
    scores = [Scores(cost, [{"rows": 3, "accuracy": mean}], 1e-4) for cost, mean in means]
    return ValidationReport("accuracy", scores, 3, 1, 7)


def test_of_equal_costs_the_smallest_is_best():
    assert report((0.1, 0.5), (1.0, 0.75), (10.0, 0.75)).best.cost == 1.0
    assert report((10.0, 0.75), (1.0, 0.75)).best.cost == 1.0
    assert report((1.0, float("nan")), (2.0, 0.1)).best.cost == 2.0


def test_the_report_as_json_and_as_a_table():
    found = report((0.1, 0.5), (1.0, 0.75))
    assert json.loads(found.to_json()) == {
        "metric": "accuracy", "best_C": 1.0, "rows": 3, "folds": 1, "outer_iterations": 7,
        "costs": [
            {"C": C, "gap": 1e-4, "folds": [{"rows": 3, "accuracy": mean}],
             "mean": {"accuracy": mean}, "spread": {"accuracy": None}}
            for C, mean in ((0.1, 0.5), (1.0, 0.75))
        ],
    }  # fmt: skip
    lines = found.table().splitlines()
    assert lines[0] == "1-fold cross-validation of 3 rows"
    assert lines[1].split() == ["C", "accuracy"]
    assert lines[2].split()[:2] == ["0.1", "0.5"]
    assert lines[3].endswith("<- best")


@pytest.mark.parametrize("n_folds", [2, 10])
@pytest.mark.parametrize("weighted", [False, True])
def test_scoring_takes_what_a_budget_leaves_for_it(n_folds, weighted):
    n, rng = 200_000, np.random.default_rng(0)
    folds = SimpleNamespace(all=(np.arange(n) % n_folds).astype(np.int32))
    decisions = SimpleNamespace(table=rng.standard_normal((n, 1)))
    labels, weights = np.where(rng.random(n) < 0.5, 1.0, -1.0), rng.random(n)
    found = Predictions((1.0, -1.0), n_folds, folds, decisions, 1.0)
    tracemalloc.start()
    try:
        found.scores(0, labels, weights if weighted else None)
        assert tracemalloc.get_traced_memory()[1] <= (_UNSCORED_BYTES + _FOLD_BYTES / n_folds) * n
    finally:
        tracemalloc.stop()
