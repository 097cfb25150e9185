"""Numbers that are written come back, and options that name labels are read exactly."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blocklinear.errors import UsageError
from blocklinear.numerals import counted, format_number, parse_label


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1"), (-1.0, "-1"), (0.0, "0"), (-0.0, "0"), (1234567.0, "1234567"),
        (2.0**53, "9007199254740992"), (-(2.0**62), "-4611686018427387904"), (1e22, "1e+22"),
        (0.1, "0.1"), (1.5, "1.5"), (1e-05, "1e-05"), (np.float64(0.5), "0.5"), (7, "7"),
    ],
)  # fmt: skip
def test_written_for_people(value, text):
    assert format_number(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_number_comes_back(value):
    assert float(format_number(value)) == value


@given(st.integers(-(2**53) + 1, 2**53 - 1))
def test_integers_are_digits_and_come_back_as_labels(value):
    text = format_number(float(value))
    assert text == str(value) == f"{float(value):.17g}".replace("-0", "0" if not value else "-0")
    assert parse_label(text) == value


@pytest.mark.parametrize("text", ["1", "+1", "1.0", "1.", "1e0", "10e-1", ".1e1", "01"])
def test_spellings_of_one_label(text):
    assert parse_label(text) == 1.0


def test_minus_zero_is_zero():
    assert math.copysign(1.0, parse_label("-0")) == 1.0


@pytest.mark.parametrize(
    "text",
    ["", "x", "nan", "inf", "1_0", " 1", "\u0661", "0x1", "1e999", "9007199254740993", "9" * 5000],
)
def test_what_is_no_label(text):
    with pytest.raises(UsageError, match=r"is not a number between -2\*\*53 and 2\*\*53"):
        parse_label(text)


def test_counts_agree_with_what_is_counted():
    assert [counted(n, "row") for n in (0, 1, 2)] == ["0 rows", "1 row", "2 rows"]
    assert [counted(n, "entry", "entries") for n in (1, np.int64(2))] == ["1 entry", "2 entries"]
    assert counted(1, "line was", "lines were") == "1 line was"
    assert counted(12345, "row", form=",") == "12,345 rows"
    assert [counted(s, "second") for s in (1.0, 0.5, 60.0)] == [
        "1 second",
        "0.5 seconds",
        "60 seconds",
    ]
