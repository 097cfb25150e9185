"""Numbers and codes of Arrow arrays, against lists with None where a value is missing."""

from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blocklinear.errors import InputError

pa = pytest.importorskip("pyarrow")

from blocklinear.tables.values import FileRows, codes_of, numbers_of, strings_of  # noqa: E402

KINDS = {
    pa.int64(): st.integers(-(2**53), 2**53),
    pa.uint8(): st.integers(0, 255),
    pa.float64(): st.floats(-1e153, 1e153),
    pa.float32(): st.floats(width=32, allow_nan=False, allow_infinity=False),
    pa.float16(): st.floats(width=16, allow_nan=False, allow_infinity=False).map(np.float16),
    pa.bool_(): st.booleans(),
    pa.decimal128(20, 3): st.decimals(-(10**16), 10**16, places=3),
    pa.decimal256(60, 30): st.decimals(-(10**9), 10**9, places=30),
}


def part_of(array):
    return FileRows("t.parquet", 1, {"x": array}, len(array), 0)


def found_in(array):
    return numbers_of(part_of(array), "x", array)


@given(st.data())
def test_numbers_are_read(data):
    kind = data.draw(st.sampled_from(list(KINDS)))
    given = data.draw(st.lists(KINDS[kind] | st.none(), max_size=40))
    first = data.draw(st.integers(0, len(given)))
    array = pa.array(given, kind)
    if data.draw(st.booleans()) and kind != pa.float16():
        array = array.dictionary_encode()
    values, missing = found_in(array.slice(first))
    wanted = [0.0 if value is None else float(value) for value in given[first:]]
    assert values.tobytes() == np.array(wanted, np.float64).tobytes()
    assert missing.tolist() == [i for i, value in enumerate(given[first:]) if value is None]
    values[:] = 1.0  # they are the caller's


@pytest.mark.parametrize("kind", [pa.null(), pa.int64(), pa.string()])
def test_numbers_that_are_all_missing(kind):
    values, missing = found_in(pa.nulls(3, kind))
    assert values.tolist() == [0.0, 0.0, 0.0]
    assert missing.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1, None, 2**53 + 1], r"row 3, column x: 9007199254740993 is beyond 2\*\*53"),
        ([None, 1.0, np.inf], "row 3, column x: the value inf is not finite"),
        ([np.nan, None], "row 1, column x: the value nan is not finite"),
        ([1.0, 1e154], "row 2, column x: the value 1e[+]154 is too large"),
    ],
)
def test_numbers_that_are_refused(values, message):
    with pytest.raises(InputError, match=message):
        found_in(pa.array(values))


@pytest.mark.parametrize(("kind", "value"), [(pa.decimal128(38, 0), 2**53 + 1),
                                             (pa.decimal128(20, -1), 10 * 2**53 + 10)])  # fmt: skip
def test_integers_of_decimals_are_refused_as_others_are(kind, value):
    array = pa.array([Decimal(10), None, Decimal(value)], kind)
    with pytest.raises(InputError, match=rf"row 3, column x: {value} is beyond 2\*\*53") as error:
        found_in(array)
    assert error.value.fix.endswith("or write it as text")


def test_large_numbers():
    assert found_in(pa.array([2**62, None]))[0].tolist() == [2.0**62, 0.0]
    large = pa.array([Decimal(2**62), None], pa.decimal128(38, 0))
    assert found_in(large)[0].tolist() == [2.0**62, 0.0]
    assert found_in(pa.array([1e153, None]))[0].tolist() == [1e153, 0.0]


@given(
    st.lists(st.integers(0, 6) | st.none()),
    st.integers(0, 9),
    st.sampled_from([pa.int8(), pa.uint16(), pa.int32(), pa.int64()]),
)
def test_codes_are_read(codes, first, kind):
    indices = pa.array(codes, kind).slice(first)
    array = pa.DictionaryArray.from_arrays(indices, pa.array(list("abcdefg")))
    found = codes_of(part_of(array), "x", array)
    assert found.dtype == np.int32
    assert found.tolist() == [7 if code is None else code for code in codes[first:]]


@pytest.mark.parametrize("code", [-1, 8, -(2**31), 2**31 - 1])
def test_codes_of_no_value(code):
    indices = pa.array([0, code, None], pa.int32())
    array = pa.DictionaryArray.from_arrays(indices, pa.array(list("abcdefg")), safe=False)
    with pytest.raises(InputError, match="a code of no value of the dictionary"):
        codes_of(part_of(array), "x", array)


@given(st.lists(st.integers(1 - 2**53, 2**53 - 1) | st.none(), max_size=40), st.integers(0, 9))
def test_categories_are_those_of_integers_where_pandas_has_floats(given, first):
    integers = pa.array(given, pa.int64()).slice(first)
    floats = integers.cast(pa.float64())
    assert strings_of(part_of(floats), "x", floats) == strings_of(part_of(integers), "x", integers)


@pytest.mark.parametrize("value", [0.5, np.nan, np.inf, -np.inf, 2.0**53, -1e300])
def test_categories_that_are_no_integers(value):
    array = pa.array([7.0, None, value])
    with pytest.raises(InputError, match=r"row 3, column x: the category .* is no integer below"):
        strings_of(part_of(array), "x", array)
