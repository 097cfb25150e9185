"""Means and deviations of columns, against NumPy."""

import numpy as np
import pytest

from blocklinear.errors import InputError
from blocklinear.tables.moments import Moments
from blocklinear.tables.values import FileRows

pa = pytest.importorskip("pyarrow")


def part_of(array):
    return FileRows("t.parquet", 1, {"x": array}, len(array), 0)


def moments_of(array, rows_a_part):
    moments = Moments()
    for start in range(0, len(array), rows_a_part):
        moments.add(part_of(array.slice(start, rows_a_part)), "x")
    return moments.finish()


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("n", [1, 8192, 20_000])
def test_missing_numbers_do_not_count(n, share):
    rng = np.random.default_rng(n)
    values, is_missing = rng.normal(3.0, 2.0, n), rng.random(n) < share
    present = values[~is_missing]
    column = pa.array(values, mask=is_missing)
    found = moments_of(pa.array(present), n)
    for rows_a_part in (777, 8192, n):
        assert moments_of(column, rows_a_part) == found
    if len(present) > 1:
        assert np.allclose(found, (present.mean(), present.std()), rtol=1e-12)
    elif len(present) == 0:
        assert found == (0.0, 1.0)


def test_a_distant_mean_costs_no_digits():
    values = 1e9 + np.random.default_rng(0).integers(0, 3, 50_000)
    mean, deviation = moments_of(pa.array(values), 1000)
    assert np.isclose(mean - 1e9, (values - 1e9).mean(), rtol=1e-7)
    assert np.isclose(deviation, (values - 1e9).std(), rtol=1e-7)


@pytest.mark.parametrize("kind", ["int8", "uint32", "float32", "float64", "halffloat"])
def test_all_types_of_numbers(kind):
    rng = np.random.default_rng(1)
    values, is_missing = rng.integers(0, 100, 3000), rng.random(3000) < 0.1
    as_float = pa.array(values.astype(float), mask=is_missing)
    if kind == "halffloat":
        column = pa.array(values.astype(np.float16), pa.float16(), mask=is_missing)
    else:
        column = as_float.cast(kind)
    assert moments_of(column, 700) == moments_of(as_float, 3000)
    assert moments_of(column.dictionary_encode(), 700) == moments_of(as_float, 3000)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e154, (1 << 53) + 1])
def test_numbers_that_are_refused(bad):
    with pytest.raises(InputError, match=r"t.parquet, row 3, column x"):
        moments_of(pa.array([0, 1, bad]), 3)


def test_large_numbers_that_are_not():
    assert moments_of(pa.array([1e20, 3e20]), 1) == (2e20, 1e20)
