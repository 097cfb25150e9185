"""Labels counted block by block."""

import numpy as np
import pytest

from blocklinear.ingest.labels import LabelCounts


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_labels", [1, 2, 4, 5, 40])
def test_labels_are_counted_like_one_by_one(n_labels, weighted):
    rng = np.random.default_rng(n_labels)
    names = rng.permutation(100)[:n_labels] - 50.0
    parts, rows, sums = [], dict.fromkeys(names, 0), dict.fromkeys(names, 0.0)
    for n in (0, 1, 30, 200):
        labels, weights = rng.choice(names, n), rng.integers(0, 9, n) / 8
        parts.append(LabelCounts.of(labels, weights if weighted else None))
        for label, weight in zip(labels, weights, strict=True):
            rows[label] += 1
            sums[label] += weight * weighted
    counts = LabelCounts.none()
    for part in parts:
        counts = counts.plus(part)
    table = np.array([*names, 1000.0])
    assert counts.in_order(table) == ([*rows.values(), 0], [*sums.values(), 0.0])
    assert np.all(np.diff(counts.labels) > 0)


def test_no_rows_have_no_labels():
    assert LabelCounts.none().in_order(np.array([1.0, 2.0])) == ([0, 0], [0.0, 0.0])
