"""How many passes over the rows in memory an outer iteration has."""

import pytest

from blocklinear.training.passes import FIRST, MOST, SOLVED, Done, Passes


def after(passes, first, *done):
    """Begin the outer iteration after one with these gains and entries."""
    passes.add_first(*first)
    for gain, entries in done:
        passes.add(Done(gain, entries, 1.0))
    passes.begin()
    return passes.number


def test_twice_as_many_while_they_gain_more_for_each_entry():
    passes = Passes()
    assert passes.number == FIRST
    assert after(passes, (1.0, 100), (1.1, 100)) == 2 * FIRST
    assert after(passes, (1.0, 100), (0.1, 20), (0.2, 9)) == 4 * FIRST
    assert after(passes, (1.0, 100), (0.9, 100)) == 2 * FIRST


def test_never_none_and_never_without_end():
    passes = Passes()
    assert [after(passes, (1.0, 100), (0.1, 100)) for _ in range(5)] == [2, 1, 1, 1, 1]
    assert [after(passes, (0.0, 100), (1.0, 100)) for _ in range(8)][-2:] == [MOST, MOST]


def test_no_pass_tells_nothing():
    passes = Passes()
    assert after(passes, (1.0, 100)) == FIRST


@pytest.mark.parametrize("part", [1.0, 0.25])
def test_rows_are_solved_when_they_add_little_to_the_gap_asked_for(part):
    passes = Passes()
    assert not passes.add(Done(1.0, 10, 1e-9), part)  # no goal is known yet
    passes.aim_at(8.0)
    assert passes.add(Done(1.0, 10, 8.0 * SOLVED * part), part)
    assert not passes.add(Done(1.0, 10, 8.1 * SOLVED * part), part)
