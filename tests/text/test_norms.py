"""Rows whose x'x would overflow, or nearly: refused where text becomes rows."""

import numpy as np
import pytest
from effort import examples
from hypothesis import given
from hypothesis import strategies as st

from blocklinear.kernels.blocks import codec
from blocklinear.text import norms
from blocklinear.text.reshape import Reshaping
from blocklinear.text.rows import parse

from .differential import as_text

LARGE = b"1 1:9.9e153 2:9.9e153 3:9.9e153"
FLOAT32, SUMMED = Reshaping(dtype="float32"), Reshaping(sort=True, merge=True)
ADD_UP = "the squares of the row add up to "


@pytest.mark.parametrize(
    ("line", "how", "column", "problem"),
    [
        (LARGE, Reshaping(), 15, ADD_UP + "1.5e+308 or more"),
        (b"\t" + LARGE + b" # x", Reshaping(), 16, ADD_UP),
        (b"1 9:9.9e153 2:9.9e153 3:0", SUMMED, 15, ADD_UP),
        (b"1 9:4.9e153 2:8e153 9:4.9e153 3:1", SUMMED, 1, ADD_UP),  # only once added up
        (b"1 1:9.9e153 2:9.9e153", Reshaping(hash_bits=20), 1, ADD_UP),
        (b"1 1:1 2:1e50", FLOAT32, 9, "value '1e50' is too large for float32"),
        (b"1 1:1e30", FLOAT32, 5, "value '1e30' is too large for float32: its square overflows"),
        (b"1 1:1e39", FLOAT32, 5, "value '1e39' is too large for float32"),
        (b"1 1:1e19 2:1e19 3:1e19 4:1e19", FLOAT32, 19, ADD_UP + "3e+38 or more"),
    ],
)
def test_a_row_that_is_too_large_is_named(line, how, column, problem):
    # around it: a blank line, an explicit zero, a refused line, and rows that are all right
    text = as_text(b"1 1:1 7:0\n\nx\n" + line + b"\n2 8:2 9:0\n")
    found = parse(text, 1, 10, how)
    assert [fault.line for fault in found.faults] == [2, 3]
    fault = found.faults[1]
    assert (fault.column, fault.problem[: len(problem)]) == (column, problem)
    assert fault.fix.startswith("scale the data")
    rest = parse(as_text(b"1 1:1 7:0\n\nx\n\n2 8:2 9:0\n"), 1, 10, how)
    assert found.labels().tolist() == [1, 2]
    assert found.indices.tolist() == rest.indices.tolist()
    for count in ("n_zeros", "max_index", "min_index", "n_lines", "n_merged", "n_sorted"):
        assert getattr(found, count) == getattr(rest, count)
    assert found.n_blank == 1


@pytest.mark.parametrize(
    ("line", "dtype"),
    [
        (b"1 1:9.9e153", "float64"),
        (b"1 1:8e153 2:8e153 3:4e153", "float64"),
        (b"1 1:1e19 2:1e19", "float32"),
        (b"1 1:1e-45 2:5e-324", "float32"),
        (b"1 " + b" ".join(b"%d:9007199254740992" % i for i in range(1, 9000)), "float32"),
    ],
)
def test_a_row_that_is_not_too_large_is_read(line, dtype):
    found = parse(as_text(line + b"\n"), 1, 1, Reshaping(dtype=dtype))
    assert not found.faults
    assert found.n_rows == 1


def test_the_first_row_that_is_too_large_is_the_first_fault():
    found = parse(as_text(b"1 1:1\n" + LARGE + b"\nx\n" + LARGE + b"\n"), 1, 1)
    assert [fault.line for fault in found.faults[:2]] == [1, 2]


def test_query_numbers_are_no_values():
    line = b"1 qid:" + b"9" * 300 + b" 1:9.9e153 2:9.9e153\n"
    found = parse(as_text(line), 1, 1, Reshaping(ignore_qid=True))
    assert (found.faults[0].column, found.n_qids) == (line.index(b"2:9") + 3, 1)


values = st.floats(-9.9e153, 9.9e153, allow_subnormal=True) | st.sampled_from([8e153, -1e154 / 3])


@given(rows=st.lists(st.lists(values.filter(bool), max_size=5), min_size=1, max_size=5))
@examples(60)
def test_exactly_the_rows_whose_squares_add_up_to_too_much_are_refused(rows):
    lines = [
        b"1 " + b" ".join(b"%d:%a" % (i, value) for i, value in enumerate(row, 1)) for row in rows
    ]
    found = parse(as_text(b"\n".join(lines) + b"\n"), 1, len(lines))
    large = [k for k, row in enumerate(rows) if sum(x * x for x in row) >= 1.5e308]
    assert [fault.line for fault in found.faults] == large
    assert found.n_rows == len(rows) - len(large)


def test_square_norms_of_no_rows_and_of_empty_ones():
    assert (
        norms.too_large(np.zeros(1, np.int64), np.empty(0, int), np.empty(0, "u1"), "float64").size
        == 0
    )
    out = np.full(3, np.nan)
    codec.square_norms(np.array([0, 2, 0]), np.array([1e200, 2.0]), out)
    assert out.tolist() == [0.0, np.inf, 0.0]
