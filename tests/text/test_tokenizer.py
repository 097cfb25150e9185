import math
import random
import tracemalloc
from fractions import Fraction

import numba
import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from blocklinear.kernels.text import powers, tokenizer
from blocklinear.text.rows import Decimals, parse

from . import lines, reference
from .differential import as_text, compare, tokenized

N_BATCHES = 3 if numba.config.DISABLE_JIT else 30


def value_of(token: str) -> float | None:
    """The value read for `token`; None when it is dropped, ValueError when it is refused."""
    rows = parse(as_text(f"1 1:{token}\n".encode()), 1)
    if rows.faults:
        raise ValueError(rows.faults[0].problem)
    return rows.values().tolist()[0] if rows.nnz else None


@pytest.mark.parametrize("seed", range(N_BATCHES))
def test_it_reads_and_refuses_what_the_reference_does(seed):
    rng = random.Random(seed)
    refused = compare([lines.line(rng) for _ in range(1000)], seed % 2)
    assert 100 < refused < 500  # or the lines test too little


@pytest.mark.parametrize("token", lines.SPECIAL)
def test_special_numbers(token):
    compare([f"1 1:{token}".encode(), f"{token} 1:1".encode()], 1)


@given(st.floats(allow_nan=False, allow_infinity=False))
@settings(deadline=None)
def test_repr_of_a_double_comes_back(x):
    if abs(x) >= 1e154:
        with pytest.raises(ValueError, match="square overflows"):
            value_of(repr(x))
    else:
        assert value_of(repr(x)) == (x or None)


@given(st.from_regex(r"\A[+-]?([0-9]{1,25}(\.[0-9]{0,25})?|\.[0-9]{1,25})([eE][+-]?[0-9]{1,3})?\Z"))
@examples(100)
def test_any_number_in_the_grammar(token):
    compare([f"1 1:{token}".encode(), f"{token}".encode()], 1)


@given(st.lists(st.binary(max_size=30).map(lambda b: b.replace(b"\n", b""))))
@settings(deadline=None)
def test_any_bytes(batch):
    compare(batch, 1)


@given(st.text(alphabet="01:. \t\r#+-e", max_size=20))
@examples(100)
def test_any_mixture_of_marks(text):
    compare([text.encode()], 0)


@given(st.integers(1, 10**19 - 1), st.integers(-135, 250))
@settings(deadline=None)
def test_nearest_is_the_quotient_rounded_once(mantissa, scale):
    """x = the double nearest to mantissa / 10**scale, wherever it says that this is certain."""
    x, certain = tokenizer._nearest(np.uint64(mantissa), scale)
    assert not certain or x == float(f"{mantissa}e{-scale}")


def nearly_half_way(scale: int) -> list[int]:
    """Mantissas with mantissa / 10**scale as close to the middle of two doubles as can be.

    A middle is q * 2**e with q odd and below 2**54; mantissa / q = 10**scale * 2**e is as close as
    a convergent of the continued fraction of the right side, or an odd multiple of one.
    """
    theta = Fraction(10) ** scale
    size = math.log2(theta.numerator) - math.log2(theta.denominator)
    theta *= Fraction(2) ** (8 - math.floor(size))
    found, (h, h0, q, q0) = [], (1, 0, 0, 1)
    rest = theta
    while q < 1 << 54:
        whole = rest.numerator // rest.denominator
        h, h0, q, q0 = whole * h + h0, h, whole * q + q0, q
        for k in range((1 << 53) // q | 1, (1 << 54) // q, 2 * ((1 << 53) // q // 8) + 2):
            if q % 2 and k * q >= 1 << 53 and k * h < 9 * 10**18:
                found.append(k * h)
        if rest == whole:
            break
        rest = 1 / (rest - whole)
    return found


@pytest.mark.parametrize("scale", [*range(-135, 0, 5), *range(1, 251, 3)])
def test_numbers_nearly_half_way_between_two_doubles(scale):
    tokens = [f"{m + step}e{-scale}" for m in nearly_half_way(scale) for step in (-1, 0, 1)]
    accepted = [token for token in tokens if float(token) < 1e154]
    compare([f"1 1:{token}".encode() for token in accepted], 1)


def test_powers_are_two_doubles_each():
    for k in range(251):
        high, low = int(powers.POWERS_HIGH[k]), int(powers.POWERS_LOW[k])
        assert abs(10**k - high - low) * 2**100 <= 10**k


def test_short_decimals_stay_as_written():
    rows = parse(as_text(b"1 1:0.125 2:3 3:12e3 4:-1.50\n"), 1)
    assert rows.decimals.mantissa.tolist() == [125, 3, 12000, -150]
    assert rows.decimals.exponent.tolist() == [3, 0, 0, 2]


def test_zeros_are_dropped_and_counted_and_keep_their_index():
    zeros = b"1 1:0 2:-0 3:0e5 4:5 8:1e-400\n2 1:1e-324 2:-1e-324 3:1 9:2e-324\n-1e-324 1:.0\n"
    rows = parse(as_text(zeros), 1)
    assert tokenized(rows) == tokenized(parse(as_text(b"1 4:5\n2 3:1\n0\n"), 1))
    assert (rows.n_zeros, rows.max_index) == (8, 9)


def test_a_refused_line_leaves_nothing():
    rows = parse(as_text(b"1 1:1\n1 1:2 7:0 2:3\n1 1:3\n"), 1, 10)
    assert tokenized(rows) == tokenized(parse(as_text(b"1 1:1\n1 1:3\n"), 1))
    assert (rows.max_index, rows.n_zeros, rows.n_lines) == (1, 0, 3)


def test_reading_stops_when_enough_was_refused():
    rows = parse(as_text(b"x\ny\n1 1:1\nz\n"), 1, 2)
    assert [fault.line for fault in rows.faults] == [0, 1]
    assert rows.n_rows == 0


@pytest.mark.parametrize(
    ("line", "code", "column"),
    [
        (b"abc 1:1", tokenizer.LABEL_SYNTAX, 1),
        (b"  1e200 1:1", tokenizer.LABEL_RANGE, 3),
        (b"1 x:1", tokenizer.INDEX_SYNTAX, 3),
        (b"1 4294967296:1", tokenizer.INDEX_RANGE, 3),
        (b"1 0:1", tokenizer.INDEX_BELOW_BASE, 3),
        (b"1 2:1\t1:1", tokenizer.INDEX_ORDER, 7),
        (b"1 2:1 2:1", tokenizer.INDEX_DUPLICATE, 7),
        (b"1 2:1.2.3", tokenizer.VALUE_SYNTAX, 5),
        (b"1 2:1e154", tokenizer.VALUE_RANGE, 5),
        (b"1 2:1\r 3:1", tokenizer.LINE_ENDING, 6),
        (b"1 2:1 # x\r1 3:1", tokenizer.LINE_ENDING, 10),
    ],
)
def test_codes_and_offsets(line, code, column):
    text = as_text(b"1 1:1\n" + line + b"\n")
    capacity, n = np.zeros((1, 3), np.int64), len(text)
    values, labels = Decimals.empty(n), Decimals.empty(n)
    tokenizer.parse_lines(
        text, 1, tokenizer.STRICT, np.empty(n, np.int64), np.empty(n, np.uint32),
        values.mantissa, values.exponent, labels.mantissa, labels.exponent, capacity,
    )  # fmt: skip
    assert capacity.tolist() == [[code, 6 + column - 1, 1]]
    assert parse(text, 1).faults[0].column == column


@pytest.mark.parametrize("token", ["1" * 4095, "1" * 5000 + "e-4990", "0." + "3" * 9000])
def test_monsters_are_read_whole(token):
    if token.isdecimal():
        token = "0." + token
    expected = float(token)
    for after in ("", " 2:1", "#", "#" + "x" * 5000):
        rows = parse(as_text(f"1 1:{token}{after}\n".encode()), 1)
        assert rows.values()[0] == expected


@pytest.mark.parametrize(
    ("line", "row"),
    [
        (b"+1.0 1:2", (1.0, [(1, 2.0)])),
        (b"\t1\t007:2 # 9:9", (1.0, [(7, 2.0)])),
        (b"-0\r", (0.0, [])),
        (b"# 1 1:1", None),
    ],
)
def test_the_reference_itself(line, row):
    assert reference.read_line(line) == row


@pytest.mark.long
def test_refused_lines_take_little_memory():
    text = as_text(b"1 1:1\nx\n" * 50_000)
    parse(text, 1, 10)  # loads the kernels
    tracemalloc.start()
    try:
        faults = parse(text, 1, 1_000_000).faults
        assert tracemalloc.get_traced_memory()[1] < 100 * len(faults)
    finally:
        tracemalloc.stop()
    assert (len(faults), faults[49_999].line, faults[-1].line) == (50_000, 99_999, 99_999)
    assert [fault.line for fault in faults[10:12]] == [21, 23]
    assert faults[7].problem == "label 'x' is not a finite number"
