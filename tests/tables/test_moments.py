"""Means and deviations of columns, against NumPy."""

import numpy as np
import pytest

from blocklinear.tables.moments import Moments


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("n", [1, 20_000])
def test_missing_numbers_do_not_count(n, share):
    rng = np.random.default_rng(n)
    values, is_missing = rng.normal(3.0, 2.0, n), rng.random(n) < share
    present = values[~is_missing]
    found, whole = Moments(), Moments()
    for start in range(0, n, 777):
        part = slice(start, start + 777)
        found.add(values[part], np.flatnonzero(is_missing[part]))
    whole.add(present, np.empty(0, np.int64))
    assert found.finish() == whole.finish()
    if len(present) > 1:
        assert np.allclose(whole.finish(), (present.mean(), present.std()), rtol=1e-12)
