import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blocklinear.kernels.decimals import RAW, to_decimals

POWERS = np.array([10.0**k for k in range(23)])


def decimals_of(values):
    values = np.array(values, np.float64)
    mantissa, exponent = np.full(len(values), -7), np.full(len(values), 99, np.uint8)
    to_decimals(values, POWERS, mantissa, mantissa.view(np.float64), exponent)
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
