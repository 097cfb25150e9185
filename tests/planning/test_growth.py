import math

import pytest

from blocklinear.planning.growth import Growth, Range


def counts(law, rows=1_000):
    return Growth(rows, round(law(rows / 4)), round(law(rows / 2)), round(law(rows)))


@pytest.mark.parametrize("exponent", [0.3, 0.5, 0.9])
def test_a_power_is_continued(exponent):
    growth = counts(lambda n: 1e6 * n**exponent)
    assert growth.exponent == pytest.approx(exponent, rel=1e-5)
    for rows in (1_000, 3_000, 100_000):
        found = growth.features(rows)
        assert found.likely == pytest.approx(1e6 * rows**exponent, rel=1e-3)
        assert found.low == pytest.approx(found.high, rel=1e-2)


def test_a_falling_exponent_goes_on_falling():
    """log2 V = 10 + sum of b r^j, as the docstring has it."""
    ratio = 0.8
    growth = counts(lambda n: 1e6 * 2 ** -(0.6 / (1 - ratio) * ratio ** math.log2(n / 1_000)))
    found = growth.features(16_000)
    total = growth.exponent * sum(ratio**j for j in range(1, 5))
    assert found.likely == pytest.approx(growth.whole * 2**total, rel=1e-3)
    assert found.low < found.likely < found.high
    assert found.high == pytest.approx(growth.whole * 16**growth.exponent)


def test_features_that_are_all_seen_stay_as_many():
    assert Growth(1_000, 50, 50, 50).features(1e6) == Range(50, 50, 50)
    assert Growth(1_000, 0, 0, 0).features(1e6).likely == 0


def test_an_exponent_that_rises_is_taken_as_it_is():
    growth = Growth(1_000, 100, 110, 220)
    assert growth.features(4_000).likely == pytest.approx(880)


def test_fewer_rows_than_in_the_sample():
    assert Growth(1_000, 100, 150, 200).features(10).likely == 200


def test_ranges():
    assert Range(1, 2, 3).times(2) == Range(2, 4, 6)
    assert Range(1, 2, 3).at_most(2.5) == Range(1, 2, 2.5)
    assert Range(1, 2, 3).at_least(1.5) == Range(1.5, 2, 3)
