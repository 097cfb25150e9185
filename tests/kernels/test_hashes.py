"""Hashes of values of categories, against the same in Python's integers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blocklinear.kernels.text import hashes as kernels
from blocklinear.tables import hashing

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


@given(st.lists(st.binary(max_size=30), max_size=10), st.integers(0, WORD), st.integers(0, 3))
def test_values_are_hashed(values, seed, first):
    ends = np.cumsum([first, *map(len, values)])
    data = np.frombuffer(b"x" * first + b"".join(values) + b"y", np.uint8)
    found = hashing.hash_bytes(data, ends.astype(np.int32), np.uint64(seed))
    assert found.tolist() == [hash_of(value, seed) for value in values]


def test_pairs_are_hashed():
    one, other = np.array([1, WORD], np.uint64), np.array([WORD, 7], np.uint64)
    found = hashing.cross(np.uint64(5), one, other).tolist()
    assert found == [mix(mix(5 ^ a) ^ b) for a, b in zip(one.tolist(), other.tolist(), strict=True)]


@pytest.mark.parametrize("first", [0, 1 << 22, (1 << 32) - 8])
def test_features_of_hashes(first):
    hashes, mask = np.array([0, 9, WORD], np.uint64), np.uint64(7)
    indices, values = np.full((3, 2), 77, np.uint32), np.full((3, 2), 0.5)
    kernels.put_features(hashes, mask, first, 1, indices, values)
    assert indices.tolist() == [[77, first], [77, first + 1], [77, first + 7]]
    assert values.tolist() == [[0.5, 1.0]] * 3
    codes = np.array([2, 2, 1], np.int32)
    kernels.put_coded_features(hashes, codes, mask, first, 0, indices, values)
    assert indices[:, 0].tolist() == [first + 7, first + 7, first + 1]
    assert (values == 1.0).all()
