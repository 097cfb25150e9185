import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blocklinear.kernels.blocks import codec
from blocklinear.kernels.text.powers import INTEGER_POWERS, POWERS
from blocklinear.store.codec import PLANE_BYTES
from blocklinear.store.codec import _most_of_decimals as most_of_decimals

quick = settings(max_examples=60, deadline=None)
rows_of_indices = st.lists(
    st.sets(st.integers(0, 2**32 - 1) | st.integers(0, 40), max_size=6).map(sorted), max_size=6
)


def csr(rows):
    lengths = np.array([len(row) for row in rows], np.int64)
    indptr = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    return lengths, indptr, np.array([i for row in rows for i in row], np.uint32)


wide_numbers = st.lists(
    st.tuples(st.integers(-(2**53), 2**53) | st.integers(-300, 300), st.integers(0, 22)),
    max_size=20,
)


@quick
@given(numbers=wide_numbers, raw=st.floats(allow_nan=False))
def test_wide_decimals_are_chosen_by_what_they_cost(numbers, raw):
    mantissa = np.array([np.array(raw).view(np.int64), *(m for m, _ in numbers)], np.int64)
    exponent = np.array([255, *(e for _, e in numbers)], np.uint8)
    bits = [abs(m).bit_length() + 1 if m else 0 for m, _ in numbers]
    costs = [
        sum(min(-(-b // 8), w) + (8 - w) * (b > 8 * w) for b in bits)
        + PLANE_BYTES * w * len(mantissa)
        for w in range(8)
    ]
    width = costs.index(min(costs))
    wide = sum(b > 8 * width for b in bits)
    most = (1 << max(8 * width - 1, 0)) - 1 if wide else codec.MOST_INTEGER
    assert most_of_decimals(mantissa, exponent) == (most, wide)


@quick
@given(numbers=wide_numbers, most=st.integers(0, 300) | st.integers(0, 2**53))
def test_wide_decimals_become_doubles(numbers, most):
    mantissa = np.array([7, *(m for m, _ in numbers)], np.int64)
    exponent = np.array([255, *(e for _, e in numbers)], np.uint8)
    moved = [np.array(7).view(np.float64), *(m / POWERS[e] for m, e in numbers if abs(m) > most)]
    doubles = np.empty(len(moved) + 1)
    n = codec.take_doubles(mantissa, exponent, most, doubles)
    assert n == len(moved)
    assert doubles[:n].tobytes() == np.array(moved).tobytes()
    left = [(m, e) if abs(m) <= most else (0, 255) for m, e in numbers]
    assert list(zip(mantissa.tolist(), exponent.tolist(), strict=True)) == [(0, 255), *left]


@quick
@given(rows=rows_of_indices)
def test_gaps_count_what_lies_between(rows):
    lengths, _, indices = csr(rows)
    gaps = np.zeros(len(indices), np.uint32)
    bits = codec.gaps_of(lengths, indices, gaps)
    expected = [b - a - 1 for row in rows for a, b in zip([-1, *row], row, strict=False)]
    assert gaps.tolist() == expected
    assert int(bits).bit_length() == max(expected, default=0).bit_length()


def planes_of(numbers, bits, spare=0):
    """Pack numbers, and lay their planes out as the decoding kernels take them."""
    n, left, whole = len(numbers), bits % 8, bits // 8
    size = -(-n // (8 // left)) if left else 0
    packed = np.full(whole * n + size, 0xEE, np.uint8)
    codec.pack(numbers, bits, packed)
    planes = np.full((whole + (left > 0) + spare, n), 0xEE, np.uint8)
    planes[:whole] = packed[: whole * n].reshape(whole, n)
    if left:
        planes[whole, :size] = packed[whole * n :]
    return planes


@quick
@given(rows=rows_of_indices, base=st.sampled_from([0, 1]), first=st.integers(0, 2**40))
def test_indices_come_back_from_their_gaps(rows, base, first):
    rows = [[i for i in row if i >= base] for row in rows]
    lengths, indptr, indices = csr(rows)
    gaps = np.zeros(len(indices), np.uint32)
    bits = int(codec.gaps_of(lengths, indices, gaps)).bit_length()
    bits += -bits % 4
    ends, out = np.zeros(len(rows), np.int64), np.zeros(len(indices), np.uint32)
    n_features = int(indices.max(initial=0)) - base + 1
    planes = planes_of(gaps, bits, spare=1)
    assert codec.to_columns(planes, bits, lengths, n_features, base, first, ends, out)
    assert out.tolist() == (indices.astype(np.int64) - base).tolist()
    assert ends.tolist() == (first + indptr[1:]).tolist()


@pytest.mark.parametrize("bits", [4, 12, 20])
def test_rows_longer_than_what_is_decoded_at_a_time(bits):
    lengths = np.array([3, codec.TILE - 1, 0, 3 * codec.TILE, 1, codec.TILE // 2, 0])
    rng, n = np.random.default_rng(bits), int(lengths.sum())
    rows = [rng.integers(0, 1 << bits, length) for length in lengths]
    expected = np.concatenate([np.cumsum(row + 1) - 1 for row in rows])
    ends, out = np.zeros(len(lengths), np.int64), np.zeros(n, np.uint32)
    planes = planes_of(np.concatenate(rows).astype(np.uint32), bits, spare=1)
    n_features = int(expected.max()) + 1
    assert codec.to_columns(planes, bits, lengths, n_features, 0, 0, ends, out)
    assert out.tolist() == expected.tolist()
    assert ends.tolist() == np.cumsum(lengths).tolist()


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
    ok = codec.to_columns(
        planes_of(np.array(gaps, np.uint32), 32, spare=1), 32, np.array([n]), n_features, base, 0,
        np.zeros(1, np.int64), np.zeros(n, np.uint32),
    )  # fmt: skip
    assert not ok


@quick
@given(
    numbers=st.lists(
        st.tuples(st.integers(-(2**53), 2**53), st.integers(0, 22) | st.just(255)), max_size=8
    )
)
def test_a_survey_tells_what_there_is(numbers):
    mantissa = np.array([m for m, _ in numbers], np.int64)
    exponent = np.array([e for _, e in numbers], np.uint8)
    bits, negative, exponents = codec.decimal_stats(mantissa, exponent)
    magnitudes = [m if m >= 0 else ~m for m in mantissa.tolist()]
    assert int(bits).bit_length() == max(magnitudes, default=0).bit_length()
    assert negative == (min(mantissa.tolist(), default=0) < 0)
    found = {e for e in range(64) if int(exponents) >> e & 1}
    assert found == {min(e, 63) for e in exponent.tolist()}


@quick
@given(
    x=st.lists(st.integers(0, 2**63 - 1) | st.integers(0, 300), max_size=20),
    dtype=st.sampled_from([np.int64, np.uint32, np.uint8]),
    left=st.sampled_from([0, 1, 2, 4]),
)
def test_planes_hold_the_bytes_and_then_the_bits_that_are_left(x, dtype, left):
    size = np.dtype(dtype).itemsize
    top = 2 ** min(8 * size, 63)
    bits = max((n % top).bit_length() for n in [*x, 0]) // 8 * 8 + left
    bits = min(bits, 8 * size)
    numbers = np.array([n % top % 2**bits for n in x], dtype)
    planes = planes_of(numbers, bits)
    expected = numbers.astype(f"<u{size}").view(np.uint8).reshape(len(x), size).T
    assert planes[: bits // 8].tolist() == expected[: bits // 8].tolist()
    if bits % 8:
        codec._expand(planes[-1], bits % 8)
        assert planes[-1].tolist() == expected[bits // 8].tolist()


def test_packed_bits_lie_side_by_side_far_apart():
    packed = np.zeros(2, np.uint8)
    codec.pack(np.array([1, 2, 3, 0, 1, 2, 3], np.uint8), 2, packed)
    assert packed.tolist() == [0b11_01_11_01, 0b00_10_00_10]


@quick
@given(
    numbers=st.lists(st.tuples(st.integers(-(10**6), 10**6), st.integers(0, 8)), max_size=8),
    least=st.integers(0, 8),
    digits=st.integers(6, 15),
)
def test_raised_exponents_leave_the_numbers_as_they_are(numbers, least, digits):
    mantissa = np.array([m for m, _ in numbers], np.int64)
    exponent = np.array([e for _, e in numbers], np.uint8)
    before, most = mantissa / POWERS[exponent], 10**digits
    done = codec.raise_exponents(mantissa, exponent, least, most)
    raised = [m * 10 ** (least - e) for m, e in numbers if e < least]
    assert done == all(abs(m) <= most for m in raised)
    assert (mantissa / POWERS[exponent]).tobytes() == before.tobytes()
    if done:
        assert all(exponent >= least)


@pytest.mark.parametrize("mantissa", [0, 1, -1, 900719925474099, 2**53, -(2**53)])
@pytest.mark.parametrize("most", [1, 2**53 - 1])
def test_exponents_are_raised_by_up_to_22(mantissa, most):
    for least in range(23):
        for e in range(23):
            numbers, exponents = np.array([mantissa]), np.array([e], np.uint8)
            done = codec.raise_exponents(numbers, exponents, least, most)
            raised = mantissa * 10 ** max(least - e, 0)
            assert done == (e >= least or abs(raised) <= most)
            assert numbers.tolist() == [raised if done else mantissa]
            assert exponents.tolist() == [max(e, least) if done else e]


@numba.njit
def raise_every_subset(first, step, powers, integer_powers, most):
    """Raise the exponents of chunks that have a subset of 0..22 each; return the first one wrong.

    Bit e of the subset's number says whether exponent e occurs. Mantissas vary with the number.
    Where exponents were raised, numbers must be the same doubles as before; where not, one of them
    must have been too large, and all must be as they were.
    """
    for subset in range(first, 1 << 23, step):
        n = 0
        mantissa, exponent = np.empty(23, np.int64), np.empty(23, np.uint8)
        for e in range(23):
            if subset >> e & 1:
                mixed = (subset * 23 + e) * 2654435761 % (1 << 32)
                digits = mixed % 16 if mixed >> 31 else 0
                size = min(integer_powers[digits] * (1 + mixed % 9), most)
                mantissa[n], exponent[n] = size - 2 * size * (mixed >> 8 & 1), e
                n += 1
        least, fits = exponent[max(n - 4, 0)] if n else 0, True
        before = mantissa.copy(), exponent.copy()
        for k in range(n):
            if exponent[k] < least:
                fits &= abs(mantissa[k]) * powers[least - exponent[k]] <= most
        done = codec.raise_exponents(mantissa[:n], exponent[:n], least, most)
        if done != fits:
            return subset
        for k in range(n):
            m, e = before[0][k], before[1][k]
            if done and (exponent[k] < least or abs(mantissa[k]) > most):
                return subset
            if not done and (mantissa[k] != m or exponent[k] != e):
                return subset
            if mantissa[k] / powers[exponent[k]] != m / powers[e]:
                return subset
    return -1


def test_numbers_of_every_subset_of_exponents_stay_as_they_are():
    step = 40009 if numba.config.DISABLE_JIT else 1
    assert raise_every_subset(0, step, POWERS, INTEGER_POWERS, 2**53 - 1) == -1


@quick
@given(x=st.lists(st.integers(-(2**62), 2**62 - 1), max_size=8))
def test_zigzag_folds_small_magnitudes_to_small_numbers(x):
    folded = np.array(x, np.int64)
    codec.zigzag(folded)
    assert folded.tolist() == [2 * n if n >= 0 else -2 * n - 1 for n in x]


NO_ROWS = np.empty(0, np.int64), np.empty(0)


def divisors_of(exponents):
    return np.array([POWERS[e] if e < 23 else 1.0 for e in exponents] + [1.0] * 256)[:256]


def decode(mantissa, bits, folded, exponent, doubles, dtype=np.float64):
    """Decode numbers with all their exponents, in codes of 8 bits; None if they are impossible."""
    exponents = sorted(set(exponent.tolist()))
    planes = planes_of(mantissa, bits, spare=1)
    planes[-1] = [exponents.index(e) for e in exponent.tolist()]
    raw = exponents.index(255) if 255 in exponents else -1
    n, out, norms = len(mantissa), np.full(len(mantissa), 7.0, dtype), np.full((2, 4), np.nan)
    lengths = np.array([n // 3, 0, n - n // 3, 0])
    ok = codec.to_values(
        planes, bits, 8, folded, divisors_of(exponents), len(exponents), raw, doubles, out,
        lengths, norms[0],
    )  # fmt: skip
    if not ok:
        return None
    codec.square_norms(lengths, out, norms[1])
    np.testing.assert_array_equal(*norms)
    return out


@quick
@given(
    numbers=st.lists(
        st.tuples(st.integers(-(2**53), 2**53) | st.integers(-9, 9), st.integers(0, 22))
        | st.floats(allow_nan=False, allow_infinity=False),
        max_size=8,
    ),
    copies=st.sampled_from([1, 1000]),
)
def test_numbers_come_back_and_doubles_among_them(numbers, copies):
    numbers = numbers * copies
    raw = [isinstance(number, float) for number in numbers]
    exponent = np.array([255 if r else x[1] for x, r in zip(numbers, raw, strict=True)], np.uint8)
    mantissa = np.zeros(len(numbers), np.int64)
    for k, number in enumerate(numbers):
        if raw[k]:
            mantissa.view(np.float64)[k] = number
        else:
            mantissa[k] = number[0]
    doubles, most = np.empty(sum(raw) + 1), 2**62
    n = codec.take_doubles(mantissa, exponent, most, doubles)
    assert n == sum(raw)
    bits, negative, _ = codec.decimal_stats(mantissa, exponent)
    if negative:
        codec.zigzag(mantissa)
    whole = (int(bits).bit_length() + negative + 7) // 8 * 8
    out = decode(mantissa, whole, bool(negative), exponent, doubles[:n])
    expected = [x if r else x[0] / POWERS[x[1]] for x, r in zip(numbers, raw, strict=True)]
    assert out.tobytes() == np.array(expected, np.float64).tobytes()


@pytest.mark.parametrize("exponent", [0, 3])
@pytest.mark.parametrize("bits", [4, 8, 12, 16, 20, 24, 28, 32, 40, 56])
def test_one_exponent_needs_no_codes(exponent, bits):
    mantissa = np.arange(5000, dtype=np.int64) * 7919 % 2**bits
    out = np.empty(5000)
    planes = planes_of(mantissa, bits, spare=1)
    divisors = divisors_of([exponent])
    assert codec.to_values(planes, bits, 0, False, divisors, 1, -1, np.empty(0), out, *NO_ROWS)
    assert out.tobytes() == (mantissa / POWERS[exponent]).tobytes()


@pytest.mark.parametrize("doubles", [[], [1.0], [1.0, np.nan], [1.0, np.inf], [1.0, 2.0, 3.0]])
def test_impossible_doubles_are_refused(doubles):
    n = 2
    out = decode(np.ones(n, np.int64), 8, False, np.full(n, 255, np.uint8), np.array(doubles))
    assert out is None


def test_a_code_without_exponent_is_refused():
    planes = np.array([[5, 6, 7], [0, 2, 1]], np.uint8)
    out = np.empty(3)
    args = 8, 8, False, divisors_of([0, 1])
    assert not codec.to_values(planes, *args, 2, -1, np.empty(0), out, *NO_ROWS)
    assert codec.to_values(planes, *args, 3, -1, np.empty(0), out, *NO_ROWS)


@quick
@given(rows=st.lists(st.lists(st.floats(-1e100, 1e100), max_size=9), max_size=5))
def test_square_norms(rows):
    lengths, values = (
        np.array([len(row) for row in rows], np.int64),
        np.array([x for row in rows for x in row]),
    )
    out = np.full(len(rows), np.nan)
    codec.square_norms(lengths, values, out)
    np.testing.assert_allclose(out, [np.dot(row, row) for row in rows], rtol=1e-14)
