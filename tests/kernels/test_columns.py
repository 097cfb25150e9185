"""Columns of Arrow's buffers, against lists with None where a value is missing."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blocklinear.kernels.text import columns as kernels

integers = st.integers(-(2**63), 2**63 - 1)
numbers = st.lists(integers | st.none(), max_size=40) | st.lists(st.floats() | st.none())


def buffers(values, kind, first=0, missing=0):
    """Return the values as an array, and the bitmap that says which are there."""
    bits = [1] * first + [value is not None for value in values]
    bitmap = np.packbits(np.array(bits, bool), bitorder="little")
    data = np.array([missing if value is None else value for value in values], kind)
    for part in (data, bitmap):
        part.flags.writeable = False
    return data, bitmap


@given(numbers, st.integers(0, 9))
def test_numbers_are_read(values, first):
    kind = np.float64 if any(isinstance(value, float) for value in values) else np.int64
    data, bitmap = buffers(values, kind, first, missing=2**62)
    places = [i for i, value in enumerate(values) if value is None]
    found, missing = np.empty(len(values)), np.empty(len(places), np.int64)
    are_small = kernels.read_numbers(data, bitmap, first, found, missing)
    expected = np.array([0.0 if value is None else float(value) for value in values], np.float64)
    assert found.tobytes() == expected.tobytes()
    assert missing.tolist() == places
    assert are_small == (np.abs(expected) < 2.0**53).all()


def test_numbers_without_a_bitmap():
    data, found = buffers([1, -2], np.int64)[0], np.empty(2)
    none = np.empty(0, np.uint8)
    none.flags.writeable = False
    assert kernels.read_numbers(data, none, 0, found, np.empty(0, np.int64))
    assert found.tolist() == [1.0, -2.0]


@given(st.lists(st.integers(0, 6) | st.none()), st.integers(0, 9))
def test_codes_are_read(values, first):
    data, bitmap = buffers(values, np.int32, first, missing=-5)
    codes = np.empty(len(values), np.int32)
    assert kernels.read_codes(data, bitmap, first, 7, codes)
    assert codes.tolist() == [7 if value is None else value for value in values]


@pytest.mark.parametrize("code", [-1, 8, -(2**31), 2**31 - 1])
def test_codes_of_no_value(code):
    data, bitmap = buffers([0, code, 7], np.int32)
    assert not kernels.read_codes(data, bitmap, 0, 7, np.empty(3, np.int32))


def test_the_longest_value_of_a_page():
    def page(*lengths):
        data = b"".join(n.to_bytes(4, "little") + b"x" * n for n in lengths)
        return np.frombuffer(data, np.uint8)

    assert kernels.longest_of(page()) == 0
    assert kernels.longest_of(page(3, 70_000, 0, 300)) == 70_000
    assert kernels.longest_of(page(3, 5)[:-1]) == -1
    assert kernels.longest_of(np.frombuffer(b"\xff\xff\xff\xffx", np.uint8)) == -1
