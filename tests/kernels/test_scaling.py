import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blocklinear.kernels.blocks.scaling import normalize_rows

quick = settings(max_examples=80, deadline=None)


def added(values):
    """Return the sum in the order given: from Python 3.12 on, `sum` corrects its rounding."""
    total = 0.0
    for value in values:
        total += value
    return total


floats = st.floats(-1e3, 1e3, width=32).map(lambda x: x if abs(x) > 1e-3 else 0.0)


@quick
@given(rows=st.lists(st.lists(floats, max_size=5), max_size=5), dtype=st.sampled_from("fd"))
def test_rows_are_divided_by_their_norm(rows, dtype):
    lengths = np.array([len(row) for row in rows], np.int64)
    values = np.array([x for row in rows for x in row], dtype)
    sq_norm = np.full(len(rows), np.nan)
    normalize_rows(lengths, values, sq_norm)
    expected, squares = [], []
    for row in rows:
        norm = math.sqrt(added(x * x for x in row)) or 1.0
        scaled = np.array([x / norm for x in row], dtype)
        expected += scaled.tolist()
        squares.append(added(x * x for x in scaled.tolist()))
    assert values.tolist() == expected  # to the bit
    assert sq_norm.tolist() == squares


@pytest.mark.parametrize("scale", [1.0, 1e-140, 1e140, 1e153, 1e-200, 5e-324, 1e-310, 9.9e-141])
def test_nothing_overflows_or_vanishes(scale):
    values, sq_norm = np.array([3 * scale, -4 * scale, 0.0]), np.zeros(1)
    normalize_rows(np.array([3]), values, sq_norm)
    np.testing.assert_allclose(values, [0.6, -0.8, 0.0], rtol=1e-14)
    np.testing.assert_allclose(sq_norm, [1.0])


def test_rows_without_a_norm_stay():
    values, sq_norm = np.array([0.0, -0.0, 2.0]), np.full(3, np.nan)
    normalize_rows(np.array([2, 0, 1]), values, sq_norm)
    assert values.tolist() == [0.0, 0.0, 1.0]
    assert sq_norm.tolist() == [0.0, 0.0, 1.0]
