"""What a run ended with becomes models."""

import numpy as np
import pytest

from blocklinear.training.outcome import _divided


@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("order", ["C", "F"])
def test_weights_of_each_cost_are_those_columns(columns, order):
    weights = np.arange(7.0 * 4 * columns).reshape(7, -1)
    expected = [part.copy() for part in np.split(weights, 4, axis=1)]
    given = np.array(weights, order=order)
    found = _divided(given, 4)
    assert len(found) == 4
    for own, part in zip(found, expected, strict=True):
        assert np.array_equal(own, part)
        assert np.shares_memory(own, given)  # two of all would not fit the memory budget
        assert order == "C" or np.ascontiguousarray(own[:-1]).base is not None
