"""How far the weight of a free bias moves between two outer iterations."""

import numpy as np
import pytest

from blocklinear.objectives.multiplier import FARTHER, moved, nothing_seen


def course(pull_at, n, start=0.0):
    """Where a multiplier is after each of n moves, if alpha follow it at once."""
    v, seen, places = np.array([start]), nothing_seen(1), []
    for _ in range(n):
        move, seen = moved(v, np.array([pull_at(float(v[0]))]), seen)
        v = v + move
        places.append(float(v[0]))
    return places


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_pull_that_is_halved_moves_it_as_it_is(sign):
    assert course(lambda v: 0.51 * (sign - v), 6) == pytest.approx(
        [sign * (1.0 - 0.49**k) for k in range(1, 7)]
    )


@pytest.mark.parametrize("start", [0.0, 3.0, -7.0])
@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("part", [0.45, 0.3])
def test_a_slower_one_is_taken_to_its_limit(part, sign, start):
    """The second move is one, of a series that is divided by the same number each time."""
    first, second = course(lambda v: part * (start + sign - v), 2, start)
    assert first == pytest.approx(start + sign * part)
    assert second == pytest.approx(start + sign)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_one_that_never_changes_is_not_followed_without_end(sign):
    """As where all alpha are at a bound: every second move is one, and they become longer."""
    places = [0.0, *course(lambda v: sign, 9)]
    moves = sign * np.diff(places)
    assert moves[::2].tolist() == [1.0] * 5
    since = moves[2::2] + np.concatenate([[0.0], moves[1:-2:2]])
    assert moves[1::2].tolist() == (1.0 + FARTHER * since).tolist()
    assert sign * places[-1] > 500.0


def test_a_pull_too_small_to_be_squared_moves_it_by_a_number():
    pull = np.array([1e-170])
    move, _ = moved(np.zeros(1), pull, np.array([[1e-170], [-np.inf], [np.inf]]))
    assert 0.0 < move[0] < 1e-160


def test_the_optimum_is_found_between_two_extrapolations():
    """Where the sign of what pulls is all that is known, and where alpha do not follow."""
    for optimum in (0.3, 77.7, -1234.5):
        places = course(lambda v, optimum=optimum: float(np.sign(optimum - v)), 80)
        assert abs(places[-1] - optimum) <= 2.0


def test_after_an_extrapolation_and_where_the_pull_grows_it_moves_as_it_is_pulled():
    v, one = np.array([5.0]), np.ones(1)
    move, seen = moved(v, one, nothing_seen(1))
    assert move == 1.0
    for pull in (1.01, -1.0, 0.49):
        assert moved(v, pull * one, seen)[0] == pull
    move, seen = moved(v + 1.0, 0.75 * one, seen)
    assert move == pytest.approx(0.75 + 2.25)
    assert moved(v + 4.0, 0.75 * one, seen)[0] == 0.75


def test_each_has_its_own():
    rng = np.random.default_rng(3)
    v, seen = rng.normal(size=6), nothing_seen(6)
    alone = [(v[[j]], nothing_seen(1)) for j in range(6)]
    pull = rng.normal(size=6)
    for _ in range(40):
        move, seen = moved(v, pull, seen)
        v = v + move
        for j in range(6):
            own, known = moved(alone[j][0], pull[[j]], alone[j][1])
            alone[j] = alone[j][0] + own, known
            assert alone[j][0] == v[j]
            assert np.array_equal(known[:, 0], seen[:, j])
        pull = pull * rng.choice([-0.8, 0.3, 0.7, 1.0, 1.2], 6)


def test_no_pull_and_no_number():
    with np.errstate(all="raise"):
        move, seen = moved(np.zeros(2), np.array([0.0, np.nan]), nothing_seen(2))
        assert move[0] == 0.0
        assert np.isnan(move[1])
        moved(np.zeros(2), np.array([0.0, 1.0]), seen)
