"""Numbers as text, which read back the same: labels, costs, other options, counts; and as JSON."""

import math
import re
from numbers import Integral, Real
from typing import Any

from blocklinear.errors import UsageError, quoted

_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_DIGITS_OF_INTEGERS = 1 << 63
DISTINCT_INTEGERS = float(1 << 53)
"""Integers below this have a float64 of their own; 2**53 + 1 becomes 2**53."""
TOO_LARGE = 1e154
"""Values, labels and weights of rows are below: squares of these, and sums, cannot overflow."""


def format_number(value: float) -> str:
    """Return the shortest text that reads back as `value`, with integers as plain digits.

    Integers are written as LIBLINEAR's ``%.17g`` writes its labels: ``1234567``, never
    ``1.23457e+06`` or ``1234567.0``. From 2**63 on they have an exponent.
    """
    value = float(value)
    if value.is_integer() and abs(value) < _DIGITS_OF_INTEGERS:
        return str(int(value))
    return repr(value)


def counted(n: float, one: str, several: str = "", form: str = "") -> str:
    """Return a count with what is counted, for people: ``1 row``, ``2 rows``, ``0 rows``.

    Parameters
    ----------
    one : str                 what follows a 1, as ``row`` or ``row has``
    several : str             what follows other numbers, if that is not `one` with an s:
                              ``entries``, ``rows have``
    form : str                how `n` is written, as ``,``; by default as `format_number` does
    """
    number = f"{n:{form}}" if form else format_number(n)
    return f"{number} {one if n == 1 else several or f'{one}s'}"


def parse_label(text: str) -> float:
    """Read the label of a class, as an option names it.

    UsageError is raised if it is not a number, not finite, or so large that another integer has the
    same float64.

    Parameters
    ----------
    text : str                a decimal number: ``1``, ``+1`` and ``1.0`` are the same label
    """
    value = float(text) if _NUMBER.fullmatch(text) else math.nan
    if not abs(value) < DISTINCT_INTEGERS:
        raise UsageError(
            f"label {quoted(text)} is not a number between -2**53 and 2**53",
            "write a label as it is in the data: 1, -1",
        )
    return value + 0.0  # -0 becomes 0


def as_json(value: Any) -> Any:
    """Return `value` as JSON will give it back; None for numbers that JSON lacks.

    TypeError is raised for what JSON cannot hold.
    """
    match value:
        case None | bool() | str():
            return value
        case Integral():
            return int(value)
        case Real():
            return float(value) if math.isfinite(value) else None
        case list() | tuple():
            return [as_json(item) for item in value]
        case dict() if all(isinstance(key, str) for key in value):
            return {key: as_json(item) for key, item in value.items()}
    raise TypeError(f"a {type(value).__name__}")
