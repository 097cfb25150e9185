"""Rows of tables, as Arrow has them, to arrays: checked, with the place of what is wrong."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from blocklinear.batches.tables import MOST_EXACT
from blocklinear.errors import InputError
from blocklinear.kernels.text import columns as kernels
from blocklinear.tables.arrow import arrow

LONGEST_VALUE = 1 << 16
"""Bytes of a value."""
MOST_NUMBER = 1e154
"""Numbers are below, as in text: squares would overflow."""

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Part:
    """Some rows of a file.

    Attributes
    ----------
    place : str               the file, and which part of it the rows are counted in
    first : int               number of the first row in it, counted from 1
    unit : str                what rows are there: "row" or "line"
    columns : dict of str to pyarrow Array
    n_rows : int
    bytes_read : int          of the file, about
    """

    place: str
    first: int
    unit: str
    columns: dict[str, Any]
    n_rows: int
    bytes_read: int

    def at(self, row: int) -> str:
        """Return where a row is, for people; rows are counted from 0 here."""
        return f"{self.place}, {self.unit} {self.first + row}"


def numbers_of(
    part: Part, name: str, array: Any, is_target: bool = False
) -> tuple[Floats, Integers]:
    """Return numbers, 0 where one is missing, and the rows where that is.

    Raises
    ------
    InputError
        If one is NaN, infinite, too large, or an integer that no float64 is equal to.
    """
    given = array.dictionary_decode() if hasattr(array, "dictionary") else array
    plain = plain_numbers(given)
    if plain is None:
        return np.zeros(len(given)), np.arange(len(given))
    values, missing = np.empty(len(given)), np.empty(given.null_count, np.int64)
    if kernels.read_numbers(*plain, values, missing):
        return values, missing
    if arrow().types.is_integer(given.type):
        _refuse_inexact(part, name, np.asarray(given.fill_null(0)), is_target)
    if not -MOST_NUMBER < float(values.min()) <= float(values.max()) < MOST_NUMBER:
        row = int(np.flatnonzero(~(np.abs(values) < MOST_NUMBER))[0])
        what = "too large: its square overflows" if np.isfinite(values[row]) else "not finite"
        raise InputError(
            f"{part.at(row)}, column {name}: the value {values[row]} is {what}",
            "write what is missing as null; values are below 1e154",
        )
    return values, missing


def plain_numbers(array: Any) -> tuple[NDArray[Any], NDArray[np.uint8], int] | None:
    """Return what kernels read of a column of numbers; None if all are missing.

    Returns
    -------
    data : int64[n] or float64[n]       anything where a number is missing
    bitmap : uint8[any]       empty if all are there
    first : int               which bit of it is that of the first number
    """
    pa = arrow()
    if hasattr(array, "dictionary"):
        array = array.dictionary_decode()
    if array.null_count == len(array):
        return None
    if pa.types.is_float16(array.type):  # which older versions of pyarrow do not cast
        numbers = array.to_numpy(zero_copy_only=False).astype(np.float64)
        array = pa.array(numbers, mask=np.asarray(array.is_null()))
    elif array.type != pa.int64():
        array = array.cast(pa.float64(), safe=False)
    bitmap, data = _buffers_of(array, np.int64 if array.type == pa.int64() else np.float64)
    return data, bitmap, array.offset


def _buffers_of(array: Any, kind: type) -> tuple[NDArray[np.uint8], NDArray[Any]]:
    """Return the bitmap of an Arrow array, empty if no value is missing, and its values."""
    bitmap, data = array.buffers()
    place = array.offset * np.dtype(kind).itemsize
    bits = np.frombuffer(bitmap if array.null_count else b"", np.uint8)
    numbers: NDArray[Any] = np.frombuffer(data, kind, len(array), place)
    for part in (bits, numbers):
        part.flags.writeable = False  # of one type, whoever has made it
    return bits, numbers


def _refuse_inexact(part: Part, name: str, integers: NDArray[Any], is_target: bool) -> None:
    """Refuse the first integer that no float64 is equal to, if there is one."""
    fix = (
        f"leave the column out with --drop {name} if it is an identifier, or make categories of it "
        f"with --categories {name}"
    )
    if is_target:
        fix = "write classes as text, or values to regress on as float64"
    for row in np.flatnonzero((integers > MOST_EXACT) | (integers < -MOST_EXACT)).tolist():
        value = int(integers[row])
        if int(float(value)) != value:
            raise InputError(
                f"{part.at(row)}, column {name}: {value} is beyond 2**53, and has no float64 of "
                "its own",
                fix,
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
    if np.diff(text_of(array)[1]).max(initial=0) > LONGEST_VALUE:  # where missing ones are, maybe
        _refuse_long(part, name, array, row_of)
    return array


def _refuse_long(part: Part, name: str, strings: Any, row_of: Callable[[int], int | None]) -> None:
    """Refuse the longest value if it is too long."""
    pa = arrow()
    lengths = pa.compute.binary_length(strings)
    longest = pa.compute.max(lengths).as_py() or 0
    if longest > LONGEST_VALUE:
        row = row_of(pa.compute.index(lengths, longest).as_py())
        place = part.place if row is None else part.at(row)
        raise InputError(
            f"{place}, column {name}: a value of {longest} bytes, more than {LONGEST_VALUE}",
            f"leave the column out with --drop {name}, or write lists of words",
        )


def text_of(strings: Any) -> tuple[NDArray[np.uint8], NDArray[Any], NDArray[np.uint8]]:
    """Return what kernels read of Arrow strings.

    Returns
    -------
    data : uint8[any]
    ends : int32[n + 1] or int64[n + 1]         value k is ``data[ends[k]:ends[k + 1]]``
    bitmap : uint8[any]       as for `plain_numbers`; the first bit is that of `strings.offset`
    """
    bitmap, ends, data = strings.buffers()
    width = np.int64 if str(strings.type) == "large_string" else np.int32
    if not len(strings):  # then there need not be any
        ends = bytes(np.dtype(width).itemsize * (strings.offset + 1))
    arrays = (
        np.frombuffer(data or b"", np.uint8),
        np.frombuffer(ends, width)[strings.offset : strings.offset + len(strings) + 1],
        np.frombuffer(bitmap if strings.null_count else b"", np.uint8),
    )
    for array in arrays:
        array.flags.writeable = False  # of one type, whoever has made it
    return arrays


def plain_codes(array: Any) -> tuple[NDArray[np.int32], NDArray[np.uint8], int] | None:
    """Return what kernels read of the codes of a dictionary array; None if there are none.

    Returns
    -------
    data : int32[n]           anything where a value is missing
    bitmap, first :           as for `plain_numbers`
    """
    kind = arrow().int32()
    indices = array.indices if array.indices.type == kind else array.indices.cast(kind)
    if not len(indices):
        return None
    bitmap, data = _buffers_of(indices, np.int32)
    return data, bitmap, indices.offset


def codes_of(part: Part, name: str, array: Any) -> NDArray[np.int32]:
    """Return the codes of a dictionary array; of missing values the length of the dictionary.

    Raises
    ------
    InputError
        If one is of no value of the dictionary.
    """
    codes, plain = np.empty(len(array), np.int32), plain_codes(array)
    if plain is not None and not kernels.read_codes(*plain, len(array.dictionary), codes):
        refuse_codes(part, name)
    return codes


def refuse_codes(part: Part, name: str) -> NoReturn:
    """Refuse a dictionary array with a code of no value."""
    raise InputError(
        f"{part.place}, column {name}: a code of no value of the dictionary",
        "write the file again, or leave it out",
    )


def lengths_of(lists: Any) -> NDArray[Any]:
    """Return how many values each list has, int32[n] or int64[n]; none is missing."""
    lengths = lists.value_lengths()
    return _buffers_of(lengths, lengths.type.to_pandas_dtype())[1]


def without_missing_lists(array: Any) -> Any:
    """Return lists, with a list of one missing word where one is missing."""
    if not array.null_count:
        return array
    pa = arrow()
    kind = np.int64 if pa.types.is_large_list(array.type) else np.int32
    ends = [None, pa.py_buffer(np.array([0, 1], kind))]  # what Python has would take pandas
    one = pa.Array.from_buffers(array.type, 1, ends, children=[pa.nulls(1, array.type.value_type)])
    return pa.compute.coalesce(array, one[0])
