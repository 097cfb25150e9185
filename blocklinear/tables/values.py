"""Rows of tables, as Arrow has them, to arrays: checked, with the place of what is wrong."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklinear.batches.tables import MOST_EXACT
from blocklinear.errors import InputError
from blocklinear.numerals import TOO_LARGE, counted
from blocklinear.tables.arrow import arrow

LONGEST_VALUE = 1 << 16
"""Bytes of a value."""

Floats = NDArray[np.float64]
RowOf = Callable[[int], int | None]  # the row of a value, by its place
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class FileRows:
    """Some rows of a file."""

    place: str  # the file, and which part of it the rows are counted in
    first: int  # number of the first row in it, counted from 1
    columns: dict[str, Any]  # dict of str to pyarrow Array
    n_rows: int
    bytes_read: int  # of the file, about
    # int64[n_rows]: which of the rows from `first` on these are, if some were left out
    kept: Integers | None = field(default=None, kw_only=True)

    def number(self, row: int) -> int:
        """Return the number of a row in `place`; rows are counted from 0 here."""
        return self.first + (row if self.kept is None else int(self.kept[row]))

    def at(self, row: int) -> str:
        """Return where a row is, for people; rows are counted from 0 here."""
        return f"{self.place}, row {self.number(row)}"

    def with_values(self, name: str) -> "FileRows":
        """Return the rows that have a value in a column."""
        has_value = _decoded(self.columns[name]).is_valid()
        columns = {other: array.filter(has_value) for other, array in self.columns.items()}
        kept = np.delete(np.arange(self.n_rows), missing_in(self.columns[name]))
        return replace(self, columns=columns, n_rows=len(kept), kept=kept)


def numbers_of(
    part: FileRows, name: str, array: Any, use: str = "feature"
) -> tuple[Floats, Integers]:
    """Return numbers, 0 where one is missing, and the rows where that is.

    InputError is raised if one is NaN, infinite, too large, or an integer that no float64 is equal
    to; its advice follows from what they are used as: "feature", "target" or "weight".
    """
    pa = arrow()
    given = array.dictionary_decode() if hasattr(array, "dictionary") else array
    missing, is_decimal = missing_in(given), pa.types.is_decimal(given.type)
    if len(missing) == len(given):  # of any type
        return np.zeros(len(given)), missing
    if pa.types.is_float16(given.type):  # which older versions of pyarrow do not cast
        values = given.to_numpy(zero_copy_only=False).astype(np.float64)
    else:  # decimals by way of text, as of every tenth one Arrow makes a neighbour of its float64
        numbers = given.cast(pa.string()) if is_decimal else given
        values = _values_of(numbers.cast(pa.float64(), safe=False), np.float64)
    values[missing] = 0.0
    if -MOST_EXACT < values.min() <= values.max() < MOST_EXACT:
        return values, missing
    if pa.types.is_integer(given.type) or (is_decimal and given.type.scale <= 0):
        _refuse_inexact(part, name, _integers_in(given), use, is_decimal)
    if not -TOO_LARGE < float(values.min()) <= float(values.max()) < TOO_LARGE:
        row = int(np.flatnonzero(~(np.abs(values) < TOO_LARGE))[0])
        what = "too large: its square overflows" if np.isfinite(values[row]) else "not finite"
        fix = "leave out what is missing: null, in CSV an empty field; values are below 1e154"
        if np.isnan(values[row]) and use == "weight":
            fix = "leave out rows without one"
        elif np.isnan(values[row]):
            fix = (
                "write what is missing as null, as polars does after fill_nan(None), in CSV as an "
                "empty field; NaN may be what a division by 0 gave"
            )
        raise InputError(f"{part.at(row)}, column {name}: the value {values[row]} is {what}", fix)
    return values, missing


def missing_in(array: Any) -> Integers:
    """Return which values of an Arrow array are missing."""
    array = _decoded(array)
    if not array.null_count:
        return np.empty(0, np.int64)
    is_null = array.is_null()
    bits = np.unpackbits(np.frombuffer(is_null.buffers()[1], np.uint8), bitorder="little")
    return np.flatnonzero(bits[is_null.offset : is_null.offset + len(array)])


def _decoded(array: Any) -> Any:
    """Return an Arrow array in which what is missing is null, also if its dictionary has a null."""
    has_null = hasattr(array, "dictionary") and array.dictionary.null_count
    return array.dictionary_decode() if has_null else array


def _values_of(array: Any, kind: type) -> NDArray[Any]:
    """Return a copy of the values of an Arrow array, anything where one is missing.

    Arrow's own `to_numpy` imports pandas, as do its scalars.
    """
    place = array.offset * np.dtype(kind).itemsize
    return np.frombuffer(array.buffers()[1] or b"", kind, len(array), place).copy()


def _integers_in(array: Any) -> NDArray[Any]:
    """Return integers, or decimals without a fraction, as integers; 0 where one is missing."""
    if arrow().types.is_integer(array.type):
        return np.asarray(array.fill_null(0))
    texts = array.cast(arrow().string()).to_pylist()
    return np.array([0 if text is None else int(Decimal(text)) for text in texts], object)


def _refuse_inexact(
    part: FileRows, name: str, integers: NDArray[Any], use: str, is_decimal: bool
) -> None:
    """Refuse the first integer that no float64 is equal to, if there is one."""
    fix = f"leave the column out with --drop {name} if it is an identifier, or "
    fix += "write it as text" if is_decimal else f"make categories of it with --categories {name}"
    if use == "weight":
        fix = "write weights as float64"
    elif use == "target":
        fix = "write classes as text, or values to regress on as float64"
    for row in np.flatnonzero((integers > MOST_EXACT) | (integers < -MOST_EXACT)).tolist():
        value = int(integers[row])
        if int(float(value)) != value:
            raise InputError(
                f"{part.at(row)}, column {name}: {value} is beyond 2**53, and has no float64 of "
                "its own",
                fix,
            )


def refuse_missing(part: FileRows, name: str, array: Any, what: str, fix: str) -> None:
    """Refuse a column in which values are missing."""
    array = _decoded(array)
    if array.null_count:
        row = int(np.flatnonzero(np.asarray(array.is_null()))[0])
        raise InputError(
            f"{part.at(row)}, column {name}: {what} is missing; it is in {array.null_count} of the "
            f"{counted(part.n_rows, 'row')} read with this one",
            fix,
        )


def strings_of(part: FileRows, name: str, array: Any, row_of: RowOf = lambda place: place) -> Any:
    """Return values of categories as Arrow strings.

    InputError is raised if one is too long, no text, or a float64 that is no integer.

    Parameters
    ----------
    name : str                of the column
    array : pyarrow Array
    row_of : callable         returns the row of a value by its place in the array; None if it is in
                              no row
    """
    pa = arrow()
    if not (pa.types.is_string(array.type) or pa.types.is_large_string(array.type)):
        is_time = pa.types.is_timestamp(array.type)
        if is_time and array.type.tz:  # the same text in all zones: that which CSV has
            array = array.cast(pa.timestamp(array.type.unit, "UTC"))
        if pa.types.is_float64(array.type):
            array = _integers_of(part, name, array, row_of)
        array = array.cast(pa.string())
        if is_time:  # and for seconds and nanoseconds
            array = pa.compute.replace_substring_regex(array, r"(\.\d*?)0+(Z?)$", r"\1\2")
            array = pa.compute.replace_substring_regex(array, r"\.(Z?)$", r"\1")
    if np.diff(text_of(array)[1]).max(initial=0) > LONGEST_VALUE:  # where missing ones are, maybe
        _refuse_long(part, name, array, row_of)
    return array


def _integers_of(part: FileRows, name: str, array: Any, row_of: RowOf) -> Any:
    """Return integers of float64, which pandas makes of them where one is missing."""
    values = _values_of(array, np.float64)
    values[missing_in(array)] = 0.0
    exact = (np.abs(values) < MOST_EXACT) & (values == np.floor(values))
    if not exact.all():
        place = int(np.flatnonzero(~exact)[0])
        row = row_of(place)
        raise InputError(
            f"{part.place if row is None else part.at(row)}, column {name}: the category "
            f"{values[place]} is no integer below 2**53",
            "categories are integers, text or booleans: give no --categories for this column",
        )
    return array.cast(arrow().int64(), safe=False)


def _refuse_long(part: FileRows, name: str, strings: Any, row_of: RowOf) -> None:
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
    bitmap : uint8[any]       of values that are not missing, empty if all are there; the first bit
                              is that of `strings.offset`
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


def codes_of(part: FileRows, name: str, array: Any) -> NDArray[np.int32]:
    """Return the codes of a dictionary array; of missing values the length of the dictionary.

    InputError is raised if one is of no value of the dictionary.
    """
    n_values = len(array.dictionary)
    codes: NDArray[np.int32] = _values_of(array.indices.cast(arrow().int32()), np.int32)
    codes[missing_in(array.indices)] = n_values
    if not 0 <= codes.min(initial=0) <= codes.max(initial=0) <= n_values:
        raise InputError(
            f"{part.place}, column {name}: a code of no value of the dictionary",
            "write the file again, or leave it out",
        )
    return codes


def lengths_of(lists: Any) -> NDArray[Any]:
    """Return how many values each list has, int32[n] or int64[n]; none is missing."""
    lengths = lists.value_lengths()
    return _values_of(lengths, lengths.type.to_pandas_dtype())


def without_missing_lists(array: Any) -> Any:
    """Return lists, with a list of one missing word where one is missing."""
    if not array.null_count:
        return array
    pa = arrow()
    if pa.types.is_null(array.type):  # no row has a list
        array = array.cast(pa.list_(pa.string()))
    kind = np.int64 if pa.types.is_large_list(array.type) else np.int32
    ends = [None, pa.py_buffer(np.array([0, 1], kind))]  # what Python has would take pandas
    one = pa.Array.from_buffers(array.type, 1, ends, children=[pa.nulls(1, array.type.value_type)])
    return pa.compute.coalesce(array, one[0])
