"""Columns to rows, against the same cell by cell."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blocklinear.kernels.text import cells as kernels
from tests.kernels.test_columns import buffers

integers = st.integers(-(2**63), 2**63 - 1)
numbers = st.lists(integers | st.none(), max_size=40) | st.lists(st.floats() | st.none())
WORD = (1 << 64) - 1


@given(numbers, st.integers(0, 9), st.sampled_from([(0.0, 1.0), (2.5, 3.0)]))
def test_features_of_numbers(given, first, moments):
    kind = np.float64 if any(isinstance(value, float) for value in given) else np.int64
    data, bitmap = buffers(given, kind, first, missing=2**62)
    features, values = np.empty(len(given), np.uint32), np.empty(len(given))
    with np.errstate(all="ignore"):
        are_small = kernels.number_features(
            data, bitmap, first, *moments, 4, 2**32 - 1, features, values
        )
        there = np.array([0.0 if value is None else float(value) for value in given], np.float64)
        standard = (there - moments[0]) / moments[1]
    missing = np.array([value is None for value in given], bool)
    assert features.tolist() == np.where(missing, 2**32 - 1, 4).tolist()
    assert values.tobytes() == np.where(missing, 1.0, standard).tobytes()
    assert are_small == (np.abs(there) < 2.0**53).all()


@pytest.mark.parametrize("codes", [[0, 3, None, 2], [], [4], [-1], [2, 2**31 - 1]])
def test_features_of_codes(codes):
    data, bitmap = buffers(codes, np.int32, 3, missing=-5)
    of_values = np.array([7, 2**32 - 1, 0, 5, 9], np.uint32)
    features = np.empty(len(codes), np.uint32)
    are_codes = kernels.code_features(data, bitmap, 3, of_values, features)
    assert are_codes == all(code is None or 0 <= code <= 4 for code in codes)
    if are_codes:
        places = [4 if code is None else code for code in codes]
        assert features.tolist() == of_values[places].tolist()


@given(st.data())
def test_rows_are_written(data):
    n_columns = data.draw(st.integers(0, 3))
    n_rows = data.draw(st.integers(1, 3 * kernels.TILE))
    start = data.draw(st.integers(0, n_rows))
    stop = data.draw(st.integers(start, n_rows))
    rng = np.random.default_rng(data.draw(st.integers(0, 100)))
    row_of_values = np.array([-1, 1, 0][:n_columns], np.int64)
    features = rng.integers(0, 2**32 - 1, (n_columns, n_rows)).astype(np.uint32)
    values = rng.standard_normal((2, n_rows))
    lengths = rng.integers(0, 4, n_rows)
    indptr = np.concatenate(([0], np.cumsum(lengths)))
    words = rng.integers(0, 9, indptr[-1]).astype(np.uint32)
    counts = rng.standard_normal(indptr[-1]) if data.draw(st.booleans()) else np.empty(0)

    ends = np.concatenate(([0], np.cumsum(lengths[start:stop] + n_columns)))
    indices, written = np.zeros(ends[-1], np.uint32), np.zeros(ends[-1])
    kernels.put_cells(features, values, row_of_values, start, 1, ends[:-1], indices, written)
    at = ends[:-1] + n_columns
    kernels.put_words(words, counts, indptr[start : stop + 1], 1, at, indices, written)

    expected = []
    for i in range(start, stop):
        for k in range(n_columns):
            value = 1.0 if k == 0 else values[[1, 0][k - 1], i]
            expected.append((features[k, i] + 1, value))
        for q in range(indptr[i], indptr[i + 1]):
            expected.append((words[q] + 1, counts[q] if len(counts) else 1.0))
    assert at.tolist() == ends[1:].tolist()
    assert list(zip(indices.tolist(), written.tolist(), strict=True)) == expected
