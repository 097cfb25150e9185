import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blocklinear.ingest.arena import draw_blocks
from blocklinear.kernels.blocks import routing


@settings(max_examples=50, deadline=None)
@given(
    seed=st.integers(0, 2**63 - 1),
    first_row=st.integers(0, 2**61),
    n_blocks=st.integers(1, 99_999),
    cut=st.integers(0, 30),
)
def test_a_row_goes_where_its_number_says(seed, first_row, n_blocks, cut):
    block = draw_blocks(seed, first_row, 30, n_blocks)
    assert (block >= 0).all()
    assert (block < n_blocks).all()
    rest = draw_blocks(seed, first_row + cut, 30 - cut, n_blocks)
    assert block[cut:].tolist() == rest.tolist()


@pytest.mark.parametrize("seed", [0, 1, 2**62])
def test_blocks_are_balanced(seed):
    """Chi-square, 9 degrees of freedom: 27.9 has p = 0.001; also of rows that follow each other."""
    block = draw_blocks(seed, 0, 5000, 10)
    pairs = block[:-1] * 10 + block[1:]  # 99 degrees of freedom: 148.2
    for drawn, n, limit in ((block, 10, 27.9), (pairs, 100, 148.2)):
        expected = len(drawn) / n
        assert ((np.bincount(drawn, minlength=n) - expected) ** 2 / expected).sum() < limit


def test_another_seed_is_another_assignment():
    assert draw_blocks(0, 0, 100, 10).tolist() != draw_blocks(1, 0, 100, 10).tolist()


@pytest.mark.parametrize(
    ("seed", "first_row", "n_blocks", "expected"),
    [
        (0, 0, 3, [0, 1, 1, 2, 2, 2, 1, 2, 0, 2, 1, 0]),
        (1, 0, 3, [2, 1, 0, 1, 1, 1, 1, 2, 2, 1, 2, 2]),
        (2**63 - 1, 10**12, 64, [11, 17, 61, 50, 51, 6, 52, 3, 51, 52, 4, 16]),
    ],
)
def test_assignments_are_frozen(seed, first_row, n_blocks, expected):
    """The same seed must make the same store for ever."""
    assert draw_blocks(seed, first_row, 12, n_blocks).tolist() == expected


def arena(m, rows, entries, weighted):
    return (
        np.full((m, rows), -1, np.int64),
        np.full((m, rows), -1, np.int64),
        np.full((m, rows), -1, np.int64),
        np.full((m, rows), 99, np.uint8),
        np.full((m, entries), 99, np.uint32),
        np.full((m, entries), -1, np.int64),
        np.full((m, entries), 99, np.uint8),
        np.full((m, rows if weighted else 0), -1.0),
    )


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 4), max_size=12),
    room=st.tuples(st.integers(1, 4), st.integers(1, 6)),
    first_row=st.integers(0, 100),
    weighted=st.booleans(),
    data=st.data(),
)
def test_scatter_gathers_each_block_until_one_is_full(lengths, room, first_row, weighted, data):
    n, m = len(lengths), 3
    block = np.array([data.draw(st.integers(0, m - 1)) for _ in range(n)], np.int64)
    start = data.draw(st.integers(0, n))
    indptr = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    nnz = int(indptr[-1])
    indices, mantissa = np.arange(nnz, dtype=np.uint32), np.arange(nnz) * 10
    exponent, labels = (np.arange(nnz) % 23).astype(np.uint8), np.arange(n) * 7
    label_exponent = (np.arange(n) % 5).astype(np.uint8)
    fill_rows, fill_nnz = np.zeros(m, np.int64), np.zeros(m, np.int64)
    weights = np.arange(n) / 4 if weighted else np.empty(0)
    kept, slots = arena(m, *room, weighted), np.arange(m)
    stop = routing.scatter(
        start, n, block, first_row, indptr, indices, mantissa, exponent, labels, label_exponent,
        weights, slots, fill_rows, fill_nnz, *kept,
    )  # fmt: skip
    for b in range(m):
        rows = [i for i in range(start, stop) if block[i] == b]
        entries = [p for i in rows for p in range(indptr[i], indptr[i + 1])]
        sizes = [len(rows)] * 4 + [len(entries)] * 3 + [len(rows) * weighted]
        assert (fill_rows[b], fill_nnz[b]) == (len(rows), len(entries))
        expected = (
            [first_row + i for i in rows],
            [lengths[i] for i in rows],
            labels[rows].tolist() if rows else [],
            label_exponent[rows].tolist() if rows else [],
            entries,
            [10 * p for p in entries],
            [p % 23 for p in entries],
            weights[rows].tolist() if rows and weighted else [],
        )
        for array, size, wanted in zip(kept, sizes, expected, strict=True):
            assert array[b, :size].tolist() == wanted
    if stop < n:
        b = block[stop]
        assert fill_rows[b] == room[0] or fill_nnz[b] + lengths[stop] > room[1]
