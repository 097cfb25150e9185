"""Values of columns, as Arrow has them, to arrays: checked, with the place of what is wrong."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklinear.batches.tables import MOST_EXACT
from blocklinear.errors import InputError
from blocklinear.tables.arrow import arrow
from blocklinear.tables.part import Part

LONGEST_VALUE = 1 << 16
"""Bytes of a value."""
MOST_NUMBER = 1e154
"""Numbers are below, as in text: squares would overflow."""

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def numbers_of(part: Part, name: str, array: Any) -> tuple[Floats, Integers]:
    """Return numbers, 0 where one is missing, and the rows where that is.

    Raises
    ------
    InputError
        If one is NaN, infinite, too large, or an integer that no float64 is equal to.
    """
    pa = arrow()
    pc, kind, missing = pa.compute, array.type, np.empty(0, np.int64)
    if hasattr(array, "dictionary"):
        array = array.dictionary_decode()
    if array.null_count:
        missing = np.flatnonzero(np.asarray(array.is_null()))
        if array.null_count == len(array):
            return np.zeros(len(array)), missing
        array = pc.fill_null(array, pa.scalar(0).cast(array.type))
    if pa.types.is_integer(kind) and kind.bit_width == 64:
        integers = np.asarray(array)
        if len(integers) and (
            int(integers.max()) > MOST_EXACT or int(integers.min()) < -MOST_EXACT
        ):
            _refuse_inexact(part, name, integers)
    if pa.types.is_decimal(kind) or pa.types.is_boolean(kind):
        array = array.cast(pa.float64())
    values = np.array(array, np.float64)
    if len(values) and not -MOST_NUMBER < float(values.min()) <= float(values.max()) < MOST_NUMBER:
        row = int(np.flatnonzero(~(np.abs(values) < MOST_NUMBER))[0])
        what = "too large: its square overflows" if np.isfinite(values[row]) else "not finite"
        raise InputError(
            f"{part.at(row)}, column {name}: the value {values[row]} is {what}",
            "write what is missing as null; values are below 1e154",
        )
    return values, missing


def _refuse_inexact(part: Part, name: str, integers: NDArray[Any]) -> None:
    """Refuse the first integer that no float64 is equal to, if there is one."""
    for row in np.flatnonzero((integers > MOST_EXACT) | (integers < -MOST_EXACT)).tolist():
        value = int(integers[row])
        if int(float(value)) != value:
            raise InputError(
                f"{part.at(row)}, column {name}: {value} is beyond 2**53, and has no float64 of "
                "its own",
                f"leave the column out with --drop {name} if it is an identifier, or make "
                f"categories of it with --categories {name}",
            )


def refuse_missing(part: Part, name: str, array: Any, what: str) -> None:
    """Refuse a column in which values are missing."""
    if array.null_count:
        row = int(np.flatnonzero(np.asarray(array.is_null()))[0])
        raise InputError(
            f"{part.at(row)}, column {name}: {what} is missing; it is in {array.null_count} of the "
            f"{part.n_rows} rows read with this one",
            "leave out rows without one",
        )


def strings_of(
    part: Part, name: str, array: Any, row_of: Callable[[int], int | None] = lambda place: place
) -> Any:
    """Return values of categories as Arrow strings.

    Parameters
    ----------
    part : Part
    name : str
        Of the column.
    array : pyarrow Array
    row_of : callable
        Returns the row of a value by its place in the array; None if it is in no row.

    Raises
    ------
    InputError
        If one is too long, or no text.
    """
    pa = arrow()
    if not (pa.types.is_string(array.type) or pa.types.is_large_string(array.type)):
        is_time = pa.types.is_timestamp(array.type)
        array = array.cast(pa.string())
        if is_time:  # the same text for seconds and for nanoseconds
            array = pa.compute.replace_substring_regex(array, r"(\.\d*?)0+(Z?)$", r"\1\2")
            array = pa.compute.replace_substring_regex(array, r"\.(Z?)$", r"\1")
    lengths = pa.compute.binary_length(array)
    longest = pa.compute.max(lengths).as_py() or 0
    if longest > LONGEST_VALUE:
        row = row_of(pa.compute.index(lengths, longest).as_py())
        place = part.place if row is None else part.at(row)
        raise InputError(
            f"{place}, column {name}: a value of {longest} bytes, more than {LONGEST_VALUE}",
            f"leave the column out with --drop {name}, or write lists of words",
        )
    return array


def codes_of(array: Any) -> Integers:
    """Return the codes of a dictionary array; of missing values the length of the dictionary."""
    codes = array.indices.cast(arrow().int64())
    return np.array(codes.fill_null(len(array.dictionary)), np.int64)


def without_missing_lists(array: Any) -> Any:
    """Return lists, with a list of one missing word where one is missing."""
    if not array.null_count:
        return array
    pa = arrow()
    return pa.compute.coalesce(array, pa.scalar([None], array.type))
