import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blocklinear.kernels.orders import permutation

words = st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 3), max_size=5)


def draw(key, n):
    out = np.full(n, -1, np.int64)
    permutation(np.array(key, np.uint64), out)
    return out.tolist()


@settings(max_examples=50, deadline=None)
@given(key=words, n=st.integers(0, 50))
def test_it_is_a_permutation(key, n):
    assert sorted(draw(key, n)) == list(range(n))


@settings(max_examples=50, deadline=None)
@given(key=words.filter(len), place=st.integers(0, 4), change=st.integers(1, 2**64 - 1))
def test_it_depends_on_every_word_of_the_key(key, place, change):
    other = list(key)
    other[place % len(key)] ^= change
    assert draw(key, 40) != draw(other, 40)
    assert draw(key, 40) == draw(key, 40)


def test_it_depends_on_the_place_of_a_word():
    keys = [(1, 2, 3), (3, 2, 1), (1, 2), (1, 2, 3, 0), (0, 1, 2, 3)]
    assert len({tuple(draw(key, 40)) for key in keys}) == len(keys)


@pytest.mark.parametrize("varied", [0, 1, 2])
def test_it_is_uniform(varied):
    """Chi-square over all 24 orders of four, 23 degrees of freedom: 49.7 has p = 0.001."""
    tally = dict.fromkeys(itertools.permutations(range(4)), 0)
    n = 4800
    for k in range(n):
        key = [7, 1, 3]
        key[varied] = k
        tally[tuple(draw(key, 4))] += 1
    expected = n / len(tally)
    assert sum((seen - expected) ** 2 / expected for seen in tally.values()) < 49.7


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ([], [8, 7, 11, 3, 6, 4, 1, 2, 10, 9, 0, 5]),
        ([0], [3, 0, 10, 2, 9, 11, 5, 1, 7, 6, 4, 8]),
        ([1, 2, 3], [4, 8, 0, 11, 2, 1, 6, 7, 9, 5, 3, 10]),
        ([2**64 - 1, 1, 10_000, 4, 7], [10, 5, 4, 6, 11, 1, 7, 9, 8, 2, 0, 3]),
    ],
)
def test_orders_are_frozen(key, expected):
    """A resumed run and a published result depend on these: they must never change."""
    assert draw(key, 12) == expected
