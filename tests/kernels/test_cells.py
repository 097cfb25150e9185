"""Columns to rows, against the same cell by cell."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from blocklinear.kernels.text import cells as kernels


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
