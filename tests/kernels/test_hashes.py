"""Hashes of values of categories, against the same in Python's integers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blocklinear.tables import hashing
from blocklinear.tables.values import text_of

WORD = (1 << 64) - 1


def mix(x):
    x = (x + 0x9E3779B97F4A7C15) & WORD
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & WORD
    return x ^ (x >> 31)


def hash_of(value, seed):
    h = seed
    for k in range(0, len(value), 8):
        h = mix(h ^ int.from_bytes(value[k : k + 8], "little"))
    return mix(h ^ len(value))


values = st.lists(st.text(max_size=30) | st.none(), max_size=10)


@given(values, st.integers(0, WORD), st.integers(0, 3), st.sampled_from(["string", "large_string"]))
def test_values_are_hashed(values, seed, first, kind):
    pa = pytest.importorskip("pyarrow")
    strings = pa.array(["x"] * first + values + ["y"], kind).slice(first, len(values))
    found = hashing.hash_values(*text_of(strings), strings.offset, "?", np.uint64(seed))
    expected = [hash_of(("?" if value is None else value).encode(), seed) for value in values]
    assert found.tolist() == expected


def test_no_values_need_no_offsets():
    pa = pytest.importorskip("pyarrow")
    strings = pa.Array.from_buffers(pa.string(), 0, [None, pa.py_buffer(b""), pa.py_buffer(b"")])
    assert [len(array) for array in text_of(strings)] == [0, 1, 0]


def test_pairs_are_hashed():
    one, other = np.array([1, WORD], np.uint64), np.array([WORD, 7], np.uint64)
    found = hashing.cross(np.uint64(5), one, other).tolist()
    assert found == [mix(mix(5 ^ a) ^ b) for a, b in zip(one.tolist(), other.tolist(), strict=True)]
