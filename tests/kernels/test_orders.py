import itertools

import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from blocklinear.kernels.orders import permutation, schedule

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


LOG20 = float(np.log(20))


def plan(key, preference):
    out = np.full(len(preference), -1, np.int64)
    schedule(np.array(key, np.uint64), np.array(preference, np.float32), out)
    return out.tolist()


@examples(50)
@given(
    key=words,
    preference=st.lists(
        st.floats(-3, 3, width=32) | st.sampled_from([0.0, LOG20, -LOG20, -1e30, -10.0, 80.0]),
        max_size=60,
    ),
)
def test_a_schedule_fills_every_place_and_follows_the_preferences(key, preference):
    got = plan(key, preference)
    assert got == plan(key, preference)
    assert len(got) == len(preference)
    assert set(got) <= set(range(len(preference)))
    if got:  # Algorithm 4 with the counts that were drawn: each is floor(m) or ceil(m)
        p = np.exp(np.float64(np.float32(preference)) - max(preference))
        left, rest = len(p), np.append(np.cumsum(p[::-1])[::-1], 0.0)
        for i, count in enumerate(np.bincount(got, minlength=len(p))):
            m = left * p[i] / rest[i] if p[i] > 0 else 0.0
            assert np.floor(m - 1e-3) <= count <= np.ceil(m + 1e-3)
            left -= count


EXTREMES = np.float32([
    np.nan, np.inf, -np.inf, 0.0, -0.0, LOG20, -LOG20, 3.4e38, -3.4e38, 1e-45, -1e30, 1.0,
])  # fmt: skip


def assert_filled(key, preference):
    n, beyond = len(preference), 3
    out = np.full(n + 2 * beyond, -7, np.int64)
    schedule(np.array(key, np.uint64), preference, out[beyond : beyond + n])
    assert (out[:beyond] == -7).all()
    assert (out[beyond + n :] == -7).all()
    assert ((out[beyond : beyond + n] >= 0) & (out[beyond : beyond + n] < n)).all()


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_a_schedule_is_written_whatever_is_preferred(n):
    """Once not a number or all infinite, preferences made it write past the end, or nothing."""
    for chosen in itertools.product(EXTREMES, repeat=n):
        assert_filled([1, n], np.array(chosen, np.float32))


@examples(200)
@given(key=words, bits=st.lists(st.integers(0, 2**32 - 1), max_size=40))
def test_a_schedule_is_written_for_any_bits_of_preferences(key, bits):
    assert_filled(key, np.array(bits, np.uint32).view(np.float32))


def test_rows_preferred_without_bounds_share_a_schedule():
    got = plan([3], [np.inf, 0.0, np.inf, -np.inf, np.nan])
    assert set(got) == {0, 2}
    assert set(plan([3], [-np.inf, np.nan, -np.inf])) == {1}


@settings(max_examples=50, deadline=None)
@given(
    key=words,
    n=st.integers(0, 50),
    level=st.sampled_from([0.0, LOG20, -1e30, 1e30, 0.1, np.inf, -np.inf, np.nan]),
)
def test_equal_preferences_give_each_row_once(key, n, level):
    assert plan(key, [level] * n) == draw(key, n)


def test_a_schedule_depends_on_the_key():
    preference = np.linspace(-2, 2, 40)
    assert len({tuple(plan([1, k], preference)) for k in range(50)}) == 50


@pytest.mark.parametrize("tilt", [-1, 1])
def test_rows_come_as_often_as_preferred(tilt):
    preference = tilt * np.float32([LOG20, -LOG20, 0, 0.5, -1.5, 1, 0, -LOG20, 2, -0.1])
    n, draws = len(preference), 4000
    seen = np.zeros(n)
    for k in range(draws):
        seen += np.bincount(plan([k], preference), minlength=n)
    p = np.exp(preference.astype(float))
    # the variance of a count is at most that of one rounding up or down, and what it leaves over
    np.testing.assert_allclose(seen / draws, n * p / p.sum(), atol=5 / np.sqrt(draws))


def test_the_order_of_a_schedule_is_uniform():
    """The place of the only entry of row 0: chi-square with 3 degrees of freedom, p = 0.001."""
    tally = np.zeros(4)
    for k in range(4000):
        tally[plan([k], [0.0, 0.0, np.log(2.0) - 1e-7, -1e30]).index(0)] += 1
    assert ((tally - 1000) ** 2 / 1000).sum() < 16.3


def test_one_row_may_take_every_place():
    assert plan([3], [-1e30] * 5 + [0.0] + [-1e30] * 5) == [5] * 11
    assert plan([3], [-1e30] * 5 + [0.0]) == [5] * 6
    assert plan([3], [0.0] + [-1e30] * 5) == [0] * 6


@pytest.mark.parametrize("seed", [0, 1])
def test_a_long_schedule_of_extremes(seed):
    """1 in 100 rows wants to come 400 times as often: it gets 80 places, the others 0.2 each."""
    rng = np.random.default_rng(seed)
    often = rng.permutation(2000) < 20
    counts = np.bincount(plan([seed], np.where(often, LOG20, -LOG20)), minlength=2000)
    assert counts.sum() == 2000
    np.testing.assert_allclose(counts[often].mean(), 400 / 4.99, rtol=0.02)
    np.testing.assert_allclose(counts[often], 400 / 4.99, rtol=0.2)
    assert counts[~often].max() <= 1


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ([], [0, 9, 1, 7, 1, 5, 3, 3, 3, 7, 3, 7]),
        ([1, 2, 3], [9, 1, 3, 1, 3, 7, 3, 7, 5, 11, 3, 6]),
    ],
)
def test_schedules_are_frozen(key, expected):
    preference = [0.0, 1.0, -1.0, 2.0, -3.0, 0.5, 0.0, 1.5, -0.5, 0.25, -1e30, 0.0]
    assert plan(key, preference) == expected
