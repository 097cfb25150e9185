from decimal import Decimal
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blocklinear.kernels.text.decimals import (
    NOT_FINITE,
    ORDER,
    RAW,
    REPEATED,
    TOO_LARGE,
    take_rows,
    to_decimals,
)

POWERS = np.array([10.0**k for k in range(23)])


def decimals_of(values):
    values = np.array(values, np.float64)
    mantissa, exponent = np.full(len(values), -7), np.full(len(values), 99, np.uint8)
    to_decimals(values, mantissa, exponent)
    return mantissa, exponent


@pytest.mark.parametrize(
    ("value", "mantissa", "exponent"),
    [
        (0.0, 0, 0),
        (-0.0, 0, 0),
        (7.0, 7, 0),
        (-12345.678, -12345678, 3),
        (0.1, 1, 1),
        (1e-22, 1, 22),
        (0.1234567890123456, 1234567890123456, 16),
        (2.0**53, 2**53, 0),
        (-0.004058968268575379, -4058968268575379, 18),  # the product rounds to another integer
        (361737151.9699305, 3617371519699305, 7),
    ],
)
def test_known_decimals(value, mantissa, exponent):
    found = decimals_of([value])
    assert (found[0][0], found[1][0]) == (mantissa, exponent)


@pytest.mark.parametrize("value", [1e-23, 2.0**53 + 2, -1e300, 5e-324, 1 / 3 + 1e-9, np.pi * 1e-9])
def test_what_is_no_short_decimal_is_kept(value):
    mantissa, exponent = decimals_of([value])
    assert exponent[0] == RAW
    assert mantissa.view(np.float64)[0] == value


NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.builds(
    lambda m, e: m / 10**e, st.integers(-(10**17), 10**17), st.integers(0, 22)
)


@given(st.lists(NUMBERS, max_size=20))
def test_numbers_come_back_to_the_last_bit(values):
    mantissa, exponent = decimals_of(values)
    for value, m, e in zip(values, mantissa.tolist(), exponent.tolist(), strict=True):
        if e == RAW:
            continue
        assert abs(m) <= 2**53
        assert m / 10.0**e == value
        assert e == 0 or m % 10  # no shorter one
    raw = exponent == RAW
    assert (mantissa.view(np.float64)[raw] == np.array(values, float)[raw]).all()


@given(NUMBERS)
def test_a_decimal_is_that_of_the_shortest_text(value):
    mantissa, exponent = (array.tolist()[0] for array in decimals_of([value]))
    sign, digits, places = Decimal(repr(value)).normalize().as_tuple()
    m, e = int("".join(map(str, digits))) * (-1 if sign else 1), -places
    if e < 0:
        m, e = m * 10**-e, 0
    if exponent == RAW:
        assert abs(m) > 2**53 or e > 22
    else:
        assert (mantissa, exponent) == (m, e)


def taken(rows, strict):
    """What `take_rows` makes of rows of (index, value): the same as a list, and what it found."""
    lengths = [len(row) for row in rows]
    indptr = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
    indices = np.array([index for row in rows for index, _ in row], np.uint32)
    bits = np.array([value for row in rows for _, value in row], np.float64)
    mantissa, exponent = bits.view(np.int64), np.full(len(bits), 99, np.uint8)
    found = [*take_rows(indptr, indices, mantissa, exponent, strict)]
    if found[2]:
        return None, found
    ends, kept = indptr.tolist(), []
    for a, b in pairwise(ends):
        kept.append([])
        for p in range(a, b):
            e = int(exponent[p])
            value = float(bits[p]) if e == RAW else int(mantissa[p]) / float(POWERS[e])
            kept[-1].append((int(indices[p]), value))
    return kept, found


ROWS = st.lists(
    st.lists(st.tuples(st.integers(0, 2**32 - 1), st.floats(-1e150, 1e150)), max_size=6),
    max_size=6,
)


@given(ROWS, st.booleans())
def test_rows_of_doubles_become_rows_of_decimals(rows, strict):
    if strict:
        rows = [sorted(dict(row).items()) for row in rows]
    kept = [[(j, x) for j, x in row if x != 0 or not strict] for row in rows]
    zeros = [j for row in rows for j, x in row if x == 0 and strict]
    assert taken(rows, strict) == (kept, [len(zeros), min(zeros, default=2**32), 0, 0, 0])


@pytest.mark.parametrize(
    ("row", "fault", "place"),
    [
        ([(1, 1.0), (2, np.nan)], NOT_FINITE, 1),
        ([(1, -np.inf)], NOT_FINITE, 0),
        ([(1, 1.0), (5, -1e154)], TOO_LARGE, 1),
        ([(1, 1.0), (5, 1.0), (3, 1.0)], ORDER, 2),
        ([(1, 0.0), (1, 1.0)], REPEATED, 1),
    ],
)
def test_what_a_row_is_refused_for(row, fault, place):
    _, found = taken([[(7, 1.0)], [], row], True)
    assert found[2:] == [fault, 2, place]
    if fault in (ORDER, REPEATED):
        assert taken([row], False) == ([row], [0, 2**32, 0, 0, 0])
