import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blocklinear.kernels import codec

POWERS = np.array([10.0**k for k in range(23)])
quick = settings(max_examples=60, deadline=None)
rows_of_indices = st.lists(
    st.sets(st.integers(0, 2**32 - 1) | st.integers(0, 40), max_size=6).map(sorted), max_size=6
)


def csr(rows):
    lengths = np.array([len(row) for row in rows], np.int64)
    indptr = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    return lengths, indptr, np.array([i for row in rows for i in row], np.uint32)


@quick
@given(rows=rows_of_indices)
def test_gaps_count_what_lies_between(rows):
    _, indptr, indices = csr(rows)
    gaps = np.zeros(len(indices), np.uint32)
    largest = codec.gaps_of(indptr, indices, gaps)
    expected = [b - a - 1 for row in rows for a, b in zip([-1, *row], row, strict=False)]
    assert gaps.tolist() == expected
    assert largest == max(expected, default=0)


@quick
@given(rows=rows_of_indices, base=st.sampled_from([0, 1]), first=st.integers(0, 2**40))
def test_indices_come_back_from_their_gaps(rows, base, first):
    rows = [[i for i in row if i >= base] for row in rows]
    lengths, indptr, indices = csr(rows)
    gaps = np.zeros(len(indices), np.uint32)
    codec.gaps_of(indptr, indices, gaps)
    values = np.arange(1.0, len(indices) + 1)
    ends, sq_norm = np.zeros(len(rows), np.int64), np.full(len(rows), np.nan)
    n_features = int(indices.max(initial=0)) - base + 1
    ok = codec.to_indices(lengths, n_features, base, first, ends, gaps, values, sq_norm)
    assert ok
    assert gaps.tolist() == (indices.astype(np.int64) - base).tolist()
    assert ends.tolist() == (first + indptr[1:]).tolist()
    for i in range(len(rows)):
        assert sq_norm[i] == (values[indptr[i] : indptr[i + 1]] ** 2).sum()


@pytest.mark.parametrize(
    ("gaps", "n_features", "base"),
    [
        ([3], 3, 0),  # one past the last
        ([0], 5, 1),  # below the base
        ([4, 0], 4, 1),
        ([2**32 - 1, 2**32 - 1], 2**32, 0),  # must not wrap around
        ([0], 0, 0),
    ],
)
def test_columns_out_of_range_are_refused(gaps, n_features, base):
    n = len(gaps)
    ok = codec.to_indices(
        np.array([n]), n_features, base, 0, np.zeros(1, np.int64), np.array(gaps, np.uint32),
        np.ones(n), np.zeros(1),
    )  # fmt: skip
    assert not ok


@quick
@given(
    x=st.lists(st.integers(0, 2**63 - 1) | st.integers(0, 300), max_size=8),
    dtype=st.sampled_from([np.int64, np.uint32]),
    spare=st.integers(0, 2),
)
def test_planes_come_back(x, dtype, spare):
    top = 2**63 if dtype is np.int64 else 2**32
    numbers = np.array([n % top for n in x], dtype)
    size = 8 if dtype is np.int64 else 4
    width = min((int(numbers.max(initial=0)).bit_length() + 7) // 8 + spare, size)
    planes = np.full((width, len(x)), 0xEE, np.uint8)
    codec.to_planes(numbers, planes)
    expected = numbers.astype(f"<u{size}").view(np.uint8).reshape(len(x), size).T[:width]
    assert planes.tolist() == expected.tolist()
    out = np.full(len(x), 77, dtype)
    codec.from_planes(planes, out)
    assert out.tolist() == numbers.tolist()


@quick
@given(x=st.lists(st.integers(-(2**62), 2**62 - 1), max_size=8))
def test_zigzag_is_undone_by_to_numbers(x):
    folded = np.array(x, np.int64)
    codec.zigzag(folded)
    assert folded.tolist() == [2 * n if n >= 0 else -2 * n - 1 for n in x]
    out, exponent = np.empty(len(x)), np.zeros(len(x), np.uint8)
    assert codec.to_numbers(folded, exponent, np.empty(0), True, POWERS, out) == 0
    assert out.tolist() == [float(n) for n in x]


@quick
@given(
    numbers=st.lists(
        st.tuples(st.integers(-(2**53), 2**53), st.integers(0, 22))
        | st.floats(allow_nan=False, allow_infinity=False),
        max_size=8,
    )
)
def test_doubles_are_taken_out_and_put_back(numbers):
    raw = [isinstance(number, float) for number in numbers]
    exponent = np.array([255 if r else x[1] for x, r in zip(numbers, raw, strict=True)], np.uint8)
    mantissa = np.zeros(len(numbers), np.int64)
    for k, number in enumerate(numbers):
        if raw[k]:
            mantissa.view(np.float64)[k] = number
        else:
            mantissa[k] = number[0]
    doubles = np.empty(sum(raw))
    n, least, largest = codec.take_doubles(mantissa, mantissa.view(np.float64), exponent, doubles)
    kept = [x[0] for x, r in zip(numbers, raw, strict=True) if not r]
    assert (n, least, largest) == (sum(raw), min([0, *kept]), max([0, *kept]))
    out = np.empty(len(numbers))
    assert codec.to_numbers(mantissa, exponent, doubles, False, POWERS, out) == n
    expected = [x if r else x[0] / POWERS[x[1]] for x, r in zip(numbers, raw, strict=True)]
    assert out.tobytes() == np.array(expected, np.float64).tobytes()


def test_numbers_may_be_decoded_where_they_lie():
    out = np.empty(3)
    out.view(np.int64)[:] = [5, 0, 25]
    used = codec.to_numbers(
        out.view(np.int64), np.array([0, 255, 1], np.uint8), np.array([0.1]), False, POWERS, out
    )
    assert used == 1
    assert out.tolist() == [5.0, 0.1, 2.5]


@pytest.mark.parametrize(
    ("exponent", "doubles"),
    [
        ([23], []),
        ([254], []),
        ([255], []),  # marked as a double, and there is none
        ([255, 255], [1.0]),
        ([255], [np.nan]),
        ([255], [np.inf]),
    ],
)
def test_impossible_numbers_are_refused(exponent, doubles):
    n = len(exponent)
    used = codec.to_numbers(
        np.ones(n, np.int64), np.array(exponent, np.uint8), np.array(doubles), False, POWERS,
        np.empty(n),
    )  # fmt: skip
    assert used == -1
