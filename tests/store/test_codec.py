import random

import numba
import numpy as np
import pytest
from effort import trials
from hypothesis import example, given, settings
from hypothesis import strategies as st

from blocklinear.errors import UsageError
from blocklinear.kernels.text.powers import POWERS
from blocklinear.store import codec

from .build import rows_of

LEVELS = [None, 1]
decimals = st.tuples(
    st.integers(-(2**53), 2**53) | st.integers(0, 300), st.integers(0, 22) | st.integers(0, 2)
)
floats = st.floats(allow_nan=False, allow_infinity=False)  # 5e-324, -0.0 and 1e308 among them
numbers = decimals | floats | st.just((1, 0))
indices = st.integers(0, 2**32 - 1) | st.integers(0, 50)
rows = st.tuples(
    st.integers(0, 2**40) | st.integers(0, 3),
    numbers,
    st.dictionaries(indices, numbers, max_size=5),
)


def decimals_of(numbers):
    """Return (mantissa, exponent) arrays as the tokenizer leaves them, and the exact values."""
    mantissa = np.zeros(len(numbers), np.int64)
    exponent = np.zeros(len(numbers), np.uint8)
    for k, number in enumerate(numbers):
        if isinstance(number, float):
            mantissa.view(np.float64)[k] = number
            exponent[k] = 255
        else:
            mantissa[k], exponent[k] = number
    values = [x if isinstance(x, float) else x[0] / POWERS[x[1]] for x in numbers]
    return mantissa, exponent, np.array(values, np.float64)


def buffers_for(n, nnz, dtype="float64", first=0):
    return codec.DecodeBuffers(
        first,
        np.empty(n, np.int64),
        np.empty(nnz, np.uint32),
        np.empty(nnz, dtype),
        np.empty(n),
        np.empty(n),
        np.empty(n, np.int64),
    )


def chunk_of(rows):
    """Return a chunk of (row gap, label, {index: value}) and what it must decode to."""
    row_numbers = np.cumsum([gap + 1 for gap, _, _ in rows]) - 1
    lengths = np.array([len(entries) for _, _, entries in rows], np.int64)
    flat = [item for _, _, entries in rows for item in sorted(entries.items())]
    columns = np.array([index for index, _ in flat], np.uint32)
    mantissa, exponent, values = decimals_of([value for _, value in flat])
    label_mantissa, label_exponent, labels = decimals_of([label for _, label, _ in rows])
    chunk = codec.Chunk(
        row_numbers, lengths, label_mantissa, label_exponent, columns.copy(), mantissa, exponent
    )
    return chunk, (row_numbers, lengths, labels, columns, values)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@settings(max_examples=100, deadline=None)
@given(rows=st.lists(rows, min_size=1, max_size=6), first=st.integers(0, 2**40))
@example(rows=[(0, (1, 0), {})], first=0)
@example(rows=[(7, (-1, 0), {})] * 3, first=0)
@example(rows=[(0, (1, 0), dict.fromkeys(range(20), (1, 0)))], first=0)  # 0/1 data
@example(rows=[(0, 0.1, {2**32 - 1: (-(2**53), 22), 0: 5e-324})], first=3)
@example(rows=[(0, (1, 0), {0: 0.12345678901234567, 1: -1e300, 2: (2**53, 0)})], first=3)
@example(  # more exponents than codes of 4 bits
    rows=[(0, 0.1, {e: (2**53 - 1, e) for e in range(3, 22)} | {30: 1e300})], first=0
)
def test_what_is_encoded_comes_back_to_the_bit(level, dtype, rows, first):
    chunk, (row_numbers, lengths, labels, columns, values) = chunk_of(rows)
    with np.errstate(over="ignore"):
        values = values.astype(dtype)
    too_large = not np.isfinite(values).all()
    data = codec.encode(chunk, level)
    buffers = buffers_for(len(rows), len(columns), dtype, first)
    if too_large:  # a double that float32 cannot hold
        with pytest.raises(codec.DamagedError, match="float32"):
            codec.decode(memoryview(data), buffers, 2**32, 0)
        return
    codec.decode(memoryview(data), buffers, 2**32, 0)
    assert buffers.values.tobytes() == values.tobytes()
    assert buffers.labels.tobytes() == labels.tobytes()
    assert buffers.indices.tolist() == columns.tolist()
    assert buffers.row_numbers.tolist() == row_numbers.tolist()
    ends = first + np.cumsum(lengths)
    assert buffers.indptr.tolist() == ends.tolist()
    with np.errstate(over="ignore"):
        parts = np.split(values.astype(np.float64) ** 2, np.cumsum(lengths)[:-1])
    np.testing.assert_allclose(buffers.sq_norm, [np.sum(part) for part in parts])


@pytest.mark.parametrize("level", LEVELS)
@settings(max_examples=60, deadline=None)
@given(
    values=st.lists(
        st.floats(-1e150, 1e150).filter(bool).map(repr)
        | st.decimals(-(10**6), 10**6, places=5).filter(bool).map(str),
        min_size=1,
        max_size=8,
    )
)
def test_text_comes_back_to_the_bit(level, values):
    entries = " ".join(f"{i}:{value}" for i, value in enumerate(values, 1))
    parsed = rows_of(f"1 {entries}\n".encode())
    chunk = codec.Chunk(
        np.array([5]),
        np.array([len(values)]),
        parsed.label_decimals.mantissa,
        parsed.label_decimals.exponent,
        parsed.indices,
        parsed.decimals.mantissa,
        parsed.decimals.exponent,
    )
    buffers = buffers_for(1, len(values))
    codec.decode(memoryview(codec.encode(chunk, level)), buffers, len(values), 1)
    assert buffers.values.tobytes() == np.array([float(v) for v in values]).tobytes()
    assert buffers.row_numbers.tolist() == [5]


def round_trip(chunk, level):
    """Encode and decode a chunk of one row, with values and label to the bit; return its bytes."""
    data = codec.encode(chunk, level)
    buffers = buffers_for(1, len(chunk.indices))
    codec.decode(memoryview(data), buffers, 2**32, 1)
    return data, buffers.values.tobytes(), buffers.labels.tobytes()


def row_of(text):
    """Return chunks, as many as asked for, of one row of text."""
    parsed = rows_of(text.encode())
    values, labels = parsed.decimals, parsed.label_decimals
    while True:
        yield codec.Chunk(
            np.array([5]), np.array([parsed.nnz]), labels.mantissa.copy(), labels.exponent.copy(),
            parsed.indices, values.mantissa.copy(), values.exponent.copy(),
        )  # fmt: skip


KINDS = {
    "15 digits": lambda x, rng: f"{x:.15g}",
    "17 digits": lambda x, rng: f"{x:.17g}",
    "float32": lambda x, rng: repr(float(np.float32(x))),
    "integer": lambda x, rng: str(
        rng.choice([-1, 1]) * rng.randrange(1, 10 ** rng.randrange(1, 16))
    ),
    "small integer": lambda x, rng: str(rng.choice([-1, 1, 2, 7])),
    "some digits": lambda x, rng: f"{x:.{rng.randrange(1, 15)}g}",
}


def tokens_of(rng):
    """Draw the numbers of a chunk as programs print them: of some kinds and sizes."""
    kinds = rng.sample(list(KINDS.values()), rng.randrange(1, 5))
    low, high = sorted(rng.uniform(-25, 20) for _ in range(2)) if rng.random() < 0.5 else (-9, -4)
    sizes = (
        rng.choice([-1, 1]) * 10.0 ** rng.uniform(low, high) for _ in range(rng.randrange(1, 40))
    )
    return [rng.choice(kinds)(size, rng) for size in sizes]


@pytest.mark.parametrize("seed", range(4))
def test_numbers_of_all_kinds_in_a_chunk_come_back_to_the_bit(seed):
    rng = random.Random(seed)
    for _ in range(trials(1000) // 4):
        tokens = tokens_of(rng)
        entries = " ".join(f"{i}:{token}" for i, token in enumerate(tokens[1:], 1))
        chunks, level = row_of(f"{tokens[0]} {entries}\n"), rng.choice(LEVELS)
        data, values, label = round_trip(next(chunks), level)
        assert values == np.array([float(token) for token in tokens[1:]]).tobytes(), tokens
        assert label == np.float64(tokens[0]).tobytes(), tokens
        assert codec.encode(next(chunks), level) == data, tokens


def test_a_chunk_of_exponents_far_apart_comes_back_to_the_bit():
    """1 beside 1.23456789012345e-08, which has exponent 22: a power of ten that no int64 holds."""
    numbers = ["1", *(f"1.23456789012345e-0{e}" for e in range(5, 9))]
    for label in numbers:
        entries = " ".join(f"{i}:{token}" for i, token in enumerate(numbers, 1))
        for level in LEVELS:
            _, values, labels = round_trip(next(row_of(f"{label} {entries}\n")), level)
            assert values == np.array([float(token) for token in numbers]).tobytes()
            assert labels == np.float64(label).tobytes()


def test_labels_of_exponents_far_apart_come_back_to_the_bit():
    labels = [(1, 0), (7, 0), *((123456789012345, e) for e in range(19, 23)), (0, 0)]
    chunk, (_, _, expected, _, _) = chunk_of([(0, label, {}) for label in labels])
    buffers = buffers_for(len(labels), 0)
    codec.decode(memoryview(codec.encode(chunk, 1)), buffers, 1, 0)
    assert buffers.labels.tobytes() == expected.tobytes()


@pytest.mark.parametrize("seed", range(4))
def test_every_set_of_exponents_in_a_chunk_comes_back_to_the_bit(seed):
    rng = random.Random(seed)
    for _ in range(trials(1000) // 4):
        exponents = [e for e in range(23) if rng.random() < rng.choice([0.2, 0.5, 0.9])]
        numbers = {
            e: (rng.choice([-1, 1]) * rng.randrange(1, 10 ** rng.randrange(1, 16)), e)
            for e in exponents
        }
        chunk, (_, _, _, _, values) = chunk_of([(0, (1, 0), numbers)])
        buffers = buffers_for(1, len(numbers))
        codec.decode(memoryview(codec.encode(chunk, rng.choice(LEVELS))), buffers, 2**32, 0)
        assert buffers.values.tobytes() == values.tobytes(), numbers


def measured(n, digits=6, seed=0):
    """Return a chunk of one row of tf-idf like values with so many digits."""
    rng = np.random.default_rng(seed)
    values = np.exp(rng.normal(-3, 1, n)).clip(1e-4, 0.9)
    text = " ".join(
        f"{i}:{v:.{digits}g}" for i, v in zip(range(1, 99 * n, 99), values, strict=True)
    )
    parsed = rows_of(f"1 {text}\n".encode())
    decimals = parsed.decimals
    labels = parsed.label_decimals
    return codec.Chunk(
        np.array([5]), np.array([n]), labels.mantissa, labels.exponent, parsed.indices,
        decimals.mantissa, decimals.exponent,
    ), parsed.values()  # fmt: skip


@pytest.mark.parametrize(
    "n", [1, 7, 2047, 2048, 2049, 5_000 if numba.config.DISABLE_JIT else 30_000]
)
@pytest.mark.parametrize("digits", [2, 6, 8, 12])
@pytest.mark.parametrize("level", LEVELS)
def test_measurements_come_back_to_the_bit(n, digits, level):
    chunk, values = measured(n, digits)
    buffers = buffers_for(1, n)
    codec.decode(memoryview(codec.encode(chunk, level)), buffers, 2**32, 1)
    assert buffers.values.tobytes() == values.tobytes()
    assert buffers.indices.tolist() == list(range(0, 99 * n, 99))
    np.testing.assert_allclose(buffers.sq_norm, [values @ values])


def test_measurements_of_six_digits_take_20_bits_and_2_for_the_exponent():
    chunk, _ = measured(30_000)
    assert len(set(chunk.exponent.tolist())) > 4
    assert len(codec.encode(chunk, 1)) < (20 + 2 + 1) / 8 * 30_000  # equal gaps take nothing


def test_an_exponent_that_would_cost_bits_stays():
    mantissa = np.array([999, 1, 1, 1, 1, 1], np.int64)
    exponent = np.array([0, 1, 2, 3, 4, 5], np.uint8)
    taken = codec._take_apart(mantissa, exponent, narrow=True)
    assert (taken.bits, taken.exponents) == (10, [0, 1, 2, 3, 4, 5])
    assert mantissa.tolist() == [999, 1, 1, 1, 1, 1]


def test_few_wide_numbers_are_doubles_and_cost_the_others_nothing():
    n, wide = 20_000, np.random.default_rng(0).normal(size=5000)
    mantissa, exponent = np.ones(n, np.int64), np.zeros(n, np.uint8)
    mantissa[: len(wide)], exponent[: len(wide)] = codec.decimals(wide)
    np.random.default_rng(1).shuffle(order := np.arange(n))
    mantissa, exponent = mantissa[order], exponent[order]
    taken = codec._take_apart(mantissa, exponent, narrow=True)
    assert len(taken.doubles) > 0.99 * len(wide)
    assert taken.bits <= 8
    assert np.isin(taken.doubles, wide).all()
    assert (mantissa[exponent == 0] == 1).all()


def test_wide_numbers_stay_decimals_where_most_are():
    numbers = np.random.default_rng(0).integers(10**9, 10**10, 1000)
    mantissa, exponent = numbers.copy(), np.full(1000, 3, np.uint8)
    taken = codec._take_apart(mantissa, exponent, narrow=True)
    assert (len(taken.doubles), taken.exponents) == (0, [3])
    assert mantissa.tolist() == numbers.tolist()


def test_ones_cost_next_to_nothing():
    rows = [(0, (1, 0), dict.fromkeys(range(1000), (1, 0)))] * 100
    chunk, _ = chunk_of(rows)
    assert len(codec.encode(chunk, 1)) < 1000


@pytest.mark.parametrize(
    ("name", "level"),
    [("none", None), ("zstd", 1), ("zstd:1", 1), ("zstd:19", 19), ("zstd:-7", -7)],
)
def test_compression_names(name, level):
    assert codec.compression_level(name) == level


@pytest.mark.parametrize("name", ["", "gzip", "zstd:20", "zstd:x", "zstd:-8", "none:1", "zstd:--1"])
def test_unknown_compression(name):
    with pytest.raises(UsageError, match="unknown"):
        codec.compression_level(name)
