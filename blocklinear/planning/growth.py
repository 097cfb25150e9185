"""How many features rows have, the more rows there are: Heaps' law with an exponent that falls."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Range:
    """The likely value of a number, and the lowest and highest that it may have."""

    low: float
    likely: float
    high: float

    @classmethod
    def exactly(cls, number: float) -> "Range":
        """Return the range of a number that is known."""
        return cls(float(number), float(number), float(number))

    def times(self, factor: float) -> "Range":
        """Return it with all three multiplied."""
        return Range(self.low * factor, self.likely * factor, self.high * factor)

    def at_least(self, least: float) -> "Range":
        """Return it with none of the three below a bound."""
        return Range(max(self.low, least), max(self.likely, least), max(self.high, least))

    def at_most(self, most: float) -> "Range":
        """Return it with none of the three above a bound."""
        return Range(min(self.low, most), min(self.likely, most), min(self.high, most))


@dataclass(frozen=True)
class Growth:
    """Features seen in a quarter, a half and the whole of a sample of rows.

    Heaps' law (1978, section 7.5) is V(n) = K n^b. In data the exponent b falls as n grows. The
    last two doublings show by which ratio, and it is taken to fall by that in each further one,

        log2 V(n) = log2 V(s) + sum_{j=1..m} b r^j,   m = log2(n / s),

    b = log2(V(s) / V(s / 2)), and r <= 1 the ratio of b to that of the doubling before.
    """

    rows: int  # s, of the whole sample
    quarter: int
    half: int
    whole: int

    @property
    def exponent(self) -> float:
        """The exponent b of the last doubling."""
        return _slope(self.half, self.whole)

    def features(self, rows: float) -> Range:
        """Return the features that so many rows have.

        The range is that of an exponent that falls no more, and of one that falls twice as fast.
        """
        before = _slope(self.quarter, self.half)
        ratio = min(self.exponent / before, 1.0) if before > 0.0 else 1.0
        doublings = max(math.log2(rows / self.rows), 0.0) if rows > 0 else 0.0
        low, likely, high = (
            self.whole * math.exp2(self.exponent * _sum_of_powers(r, doublings))
            for r in (ratio * ratio, ratio, 1.0)
        )
        return Range(low, likely, high)


def _slope(less: int, more: int) -> float:
    return math.log2(more / less) if less else 0.0


def _sum_of_powers(ratio: float, count: float) -> float:
    """Return r + r^2 + ... + r^count, of a count that need not be whole."""
    if ratio >= 1.0:
        return count
    if ratio <= 0.0:
        return 0.0
    return ratio * (1.0 - math.pow(ratio, count)) / (1.0 - ratio)
