import math

import numpy as np
import pytest
from effort import EXTENSIVE
from hypothesis import given
from hypothesis import strategies as st

from blocklinear.kernels.text.numerals import WIDTH, write_rows

LEAST, MOST = 2e-99, math.nextafter(1e17, 0)
TIES = [3 / 2**24, 1 / 2**25, 3 / 2**25]
"""18 digits, the last one a five, and the power of ten that makes them integers is no double."""


def text_of(rows):
    """Return what the kernel writes; None if it says that it cannot."""
    numbers = np.array(rows, np.float64)
    out = np.zeros(numbers.shape[0] * (numbers.shape[1] * WIDTH + 1) + 3, np.uint8)
    length = write_rows(numbers, out)
    assert not out[max(length, len(out) - 3) :].any()  # no more than there is room for
    return None if length < 0 else out[:length].tobytes().decode()


def expected(rows):
    return "".join("".join(f"{value:.17g} " for value in row) + "\n" for row in rows)


def test_rows_are_lines():
    rows = [[1.0, -2.5], [0.0, -0.0], [0.1, 1 / 3 * 1e-9]]
    assert text_of(rows) == "1 -2.5 \n0 -0 \n0.10000000000000001 3.3333333333333332e-10 \n"
    assert text_of(np.zeros((0, 3))) == ""
    assert text_of(np.zeros((2, 0))) == "\n\n"


@pytest.mark.parametrize("sign", [1, -1])
def test_around_every_power_of_ten_and_of_two(sign):
    """The exponent, the place of the point, and zeros at the end all change there."""
    powers = [10.0**k for k in range(-98, 17)] + [2.0**k for k in range(-327, 57)]
    for power in powers:
        around = [power, math.nextafter(power, 0), math.nextafter(power, math.inf), 3 * power]
        row = [sign * value for value in around if value <= MOST and value not in TIES]
        assert text_of([row]) == expected([row])


@pytest.mark.parametrize("power", range(1, 23))
def test_ties_go_to_the_even_digit(power):
    """An odd number over 2**(power + 1) has one digit too many, and it is a five."""
    least = 2 * 10**16 // 5**power // 2 * 2 + 1
    odd = [least + 2 * k for k in (*range(1, 9), least // 8, least // 4, least)]
    row = [n / 2 ** (power + 1) for n in odd if n < 1 << 53]
    assert row
    assert all(len(f"{value:.60f}".rstrip("0").replace(".", "").lstrip("0")) == 18 for value in row)
    assert text_of([row]) == expected([row])


NUMBERS = st.floats(LEAST, MOST) | st.floats(-MOST, -LEAST) | st.floats(-1, 1).filter(
    lambda value: not 0 < abs(value) < LEAST
)  # fmt: skip


@given(st.lists(st.tuples(NUMBERS, NUMBERS), max_size=20))
def test_like_c(rows):
    assert text_of(np.array(rows).reshape(-1, 2)) == expected(rows)


@pytest.mark.long
def test_random_bits_like_c():
    rng = np.random.default_rng(1)
    n = 1_000_000 if EXTENSIVE else 50_000
    low, high = (int(np.float64(value).view(np.uint64)) for value in (LEAST, MOST))
    values = rng.integers(low, high, n, np.uint64).view(np.float64)
    rows = np.concatenate([values, rng.normal(size=n), np.round(rng.normal(size=n), 6)])
    rows = rows.reshape(-1, 3) * rng.choice([1.0, -1.0], (n, 3))
    assert text_of(rows) == expected(rows)


@pytest.mark.parametrize("value", TIES)
def test_what_may_be_in_the_middle_of_two_numbers_is_refused(value):
    assert text_of([[1.0, value]]) is None


@pytest.mark.parametrize("value", [1e17, 5e-324, 9e-100, 1.7e308, math.inf, math.nan])
def test_other_magnitudes_are_refused(value):
    for sign in (1, -1):
        assert text_of([[1.0, sign * value]]) is None
