"""Rows sorted, merged and hashed, against Python's sort, Fraction and integers."""

import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blocklinear.text.reshape import Reshaping
from blocklinear.text.rows import parse

from . import lines, reference
from .differential import as_text, bits, tokenized

quick = settings(max_examples=80, deadline=None)
ways = st.sampled_from([(False, True), (True, False), (True, True)])
# few digits: sums of a few are exact decimals, rounded once when they are read
values = st.decimals(-1000, 1000, places=3).map(str)
entries = st.lists(st.tuples(st.integers(1, 6) | st.integers(1, 2**32 - 1), values), max_size=7)


def hashed(index, bits):
    """SplitMix64, the high bits of it."""
    mask = 2**64 - 1
    x = (index + 0x9E3779B97F4A7C15) & mask
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & mask
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & mask
    return (x ^ (x >> 31)) >> (64 - bits)


def summed(row):
    """The row with exact sums: {index: Fraction}, in order of index, without zeros."""
    sums = {}
    for index, value in row:
        sums[index] = sums.get(index, 0) + Fraction(value)
    return [(index, bits(float(sums[index]))) for index in sorted(sums) if sums[index]]


def as_lines(rows):
    return [b"1 " + " ".join(f"{i}:{v}" for i, v in row).encode() for row in rows]


def is_refused(row, sort, merge):
    indices = [index for index, _ in row]
    if not merge and len(set(indices)) < len(indices):
        return True
    return not sort and indices != sorted(indices)


@quick
@given(rows=st.lists(entries, max_size=6), way=ways)
def test_rows_are_sorted_and_merged(rows, way):
    sort, merge = way
    text = as_text(b"".join(line + b"\n" for line in as_lines(rows)))
    found = parse(text, 1, 100, Reshaping(sort, merge))
    good = [row for row in rows if not is_refused(row, sort, merge)]
    assert tokenized(found) == [(bits(1.0), summed(row)) for row in good]
    assert [f.line for f in found.faults] == [
        k for k, row in enumerate(rows) if is_refused(row, sort, merge)
    ]
    indices = [[index for index, _ in row] for row in good]
    assert found.n_sorted == sum(row != sorted(row) for row in indices)
    assert found.n_merged == sum(len(row) - len(set(row)) for row in indices)
    assert found.nnz + found.n_zeros + found.n_merged == sum(map(len, indices))
    assert found.max_index == max((i for row in indices for i in row), default=0)
    assert found.min_index == min((i for row in indices for i in row), default=1 << 32)


@quick
@given(rows=st.lists(st.dictionaries(st.integers(0, 60), values), max_size=5), n=st.integers(1, 31))
def test_rows_are_hashed(rows, n):
    rows = [sorted(row.items()) for row in rows]
    text = as_text(b"".join(line + b"\n" for line in as_lines(rows)))
    found = parse(text, 0, 1, Reshaping(hash_bits=n))
    kept = [[(hashed(i, n), v) for i, v in row if Fraction(v)] for row in rows]
    assert tokenized(found) == [(bits(1.0), summed(row)) for row in kept]
    assert found.n_collisions == sum(len(row) - len(dict(row)) for row in kept)
    total = found.nnz + found.n_zeros + found.n_collisions
    assert total == sum(map(len, rows))
    assert found.max_index == 2**n - 1


def test_known_hashes():
    # the first outputs of SplitMix64 from the states 0 and 1
    assert (hashed(0, 64), hashed(1, 64)) == (0xE220A8397B1DCDAF, 0x910A2DEC89025CC1)
    found = parse(as_text(b"1 0:1 1:1\n"), 0, 1, Reshaping(hash_bits=8))
    assert found.indices.tolist() == [0x91, 0xE2]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("way", [(False, True), (True, False), (True, True)])
def test_ordered_lines_are_read_as_ever(seed, way):
    """On lines that need nothing the lenient reader and the strict one agree, but for the order."""
    rng = random.Random(seed)
    batch = [lines.line(rng) for _ in range(400)]
    strict = parse(as_text(b"".join(line + b"\n" for line in batch)), 1, 1000)
    refused = {fault.line: fault.problem for fault in strict.faults}
    order = {k for k, p in refused.items() if "follows a larger" in p or "is repeated" in p}
    good = [line for k, line in enumerate(batch) if k not in order]
    text = as_text(b"".join(line + b"\n" for line in good))
    strict, lenient = parse(text, 1, 1000), parse(text, 1, 1000, Reshaping(*way))
    assert tokenized(lenient) == tokenized(strict)
    assert list(lenient.faults) == list(strict.faults)
    for name in ("max_index", "min_index", "n_zeros", "n_blank", "n_lines"):
        assert getattr(lenient, name) == getattr(strict, name), name
    assert (lenient.n_sorted, lenient.n_merged) == (0, 0)


@pytest.mark.parametrize("way", [(False, True), (True, False), (True, True)])
@pytest.mark.parametrize("entries", [b"0:0.5", b"3:0.5 0:0.5", b"3:0.5 3:0.5 0:0.5"])
def test_indices_below_the_base_are_refused(way, entries):
    rest = b" 4:0.5" * 10 if way[1] else b""
    lines = [b"1 2:0.5 3:0.5" + rest, b"1 " + entries + rest, b"1 2:0.5 3:0.5" + b" " * 50]
    found = parse(as_text(b"\n".join(lines) + b"\n"), 1, 9, Reshaping(*way))
    assert [fault.line for fault in found.faults] == [1]
    assert [len(row) for _, row in tokenized(found)] == [3 if rest else 2, 2]


@pytest.mark.parametrize("seed", range(5))
def test_shuffled_lines_are_read_as_the_sorted_ones(seed):
    rng = random.Random(seed)
    ordered, shuffled = [], []
    while len(ordered) < 300:
        line = lines.line(rng)
        try:
            if reference.read_line(line) is None or b"#" in line:
                continue
        except reference.Refused:
            continue
        label, *tokens = line.split()
        rng.shuffle(tokens)
        ordered.append(line)
        shuffled.append(b" ".join([label, *tokens]))
    a = parse(as_text(b"\n".join(ordered) + b"\n"), 1)
    b = parse(as_text(b"\n".join(shuffled) + b"\n"), 1, 1, Reshaping(sort=True))
    assert tokenized(b) == tokenized(a)
    assert (b.max_index, b.min_index, b.n_zeros) == (a.max_index, a.min_index, a.n_zeros)
    assert b.n_sorted > 50


@pytest.mark.parametrize(
    ("pair", "total"),
    [
        (("0.1", "0.2"), 0.3),  # as decimals: 0.1 + 0.2 is 0.30000000000000004 in doubles
        (("1e-22", "1"), 1.0),
        (("9007199254740992", "1"), 9007199254740992.0),
        (("0.12345678901234567", "1"), 0.12345678901234567 + 1),
        (("1e100", "1e100"), 2e100),
        (("1e100", "-1e100"), None),
        (("5e-324", "5e-324"), 1e-323),
        (("1.5", "-1.50"), None),
        (("0", "2"), 2.0),
        (("0", "-0.0"), None),
        (("4e153", "5e153"), 9e153),
    ],
)
def test_sums(pair, total):
    text = as_text(f"1 3:1 2:{pair[0]} 2:{pair[1]}\n".encode())
    found = parse(text, 1, 1, Reshaping(sort=True, merge=True))
    expected = {3: 1.0} if total is None else {2: total, 3: 1.0}
    assert dict(zip(found.indices.tolist(), found.values().tolist(), strict=True)) == expected
    assert (found.n_merged, found.n_zeros) == (1, total is None)
    assert (found.min_index, found.max_index) == (2, 3)


def test_equal_indices_are_added_in_their_order():
    first, second, third = "1e100", "-1e100", "1"
    text = as_text(
        f"1 9:1 2:{first} 2:{second} 2:{third}\n1 9:1 2:{third} 2:{first} 2:{second}\n".encode()
    )
    found = parse(text, 1, 1, Reshaping(sort=True, merge=True))
    assert tokenized(found) == [
        (bits(1.0), [(2, bits(1.0)), (9, bits(1.0))]), (bits(1.0), [(9, bits(1.0))])
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "how", "column", "problem"),
    [
        (b"1 3:1 2:1 3:1", Reshaping(sort=True), 11, "index 3 is repeated"),
        (b"\t1 3:1\t 2:1  003:0 # 3:1", Reshaping(sort=True), 14, "index 3 is repeated"),
        (b"1 2:1 3:1 2:1", Reshaping(merge=True), 11, "index 2 follows a larger one"),
        (b"1 2:9e153 2:9e153", Reshaping(merge=True), 11, "the values of index 2 add up to 1e154"),
        (b"1 0:1 2:1", Reshaping(sort=True, merge=True), 3, "index 0 is below the index base"),
        (b"1 2:1 0:1", Reshaping(sort=True, merge=True), 7, "index 0 is below the index base"),
        (b" 1 1:9e153 2:9e153", Reshaping(hash_bits=1), 2, "values whose indices hash to 1"),
        (b"1 2:1 3:1 2:1", Reshaping(hash_bits=3), 11, "index 2 follows a larger one"),
    ],
)
def test_refused_rows_are_named(line, how, column, problem):
    # around it: a blank line, a comment, a CRLF, a refused line, and rows that are all right
    before = b"1 1:1\n\n# 1 1:1\n \r\nx\n2 1:1 2:1\r\n"
    found = parse(as_text(before + line + b"\n3 1:1\n"), 1, 10, how)
    assert [fault.line for fault in found.faults] == [4, 6]
    fault = found.faults[1]
    assert (fault.column, fault.problem[: len(problem)]) == (column, problem)
    assert found.labels().tolist() == [1, 2, 3]
    assert found.nnz + found.n_collisions == 4
    assert (found.n_lines, found.n_blank, found.n_sorted) == (8, 3, 0)


def test_the_first_fault_comes_first():
    text = as_text(b"1 3:1 2:1 3:1\nx\n")
    found = parse(text, 1, 1, Reshaping(sort=True))
    assert [fault.line for fault in found.faults] == [0, 1]


def test_long_rows_are_sorted():
    rng = np.random.default_rng(3)
    order = rng.permutation(50_000)
    text = b"1 " + b" ".join(b"%d:%d" % (i + 1, i + 1) for i in order) + b"\n1 2:5 1:7\n"
    found = parse(as_text(text), 1, 1, Reshaping(sort=True))
    assert found.indices.tolist() == [*range(1, 50_001), 1, 2]
    assert found.values().tolist() == [*range(1, 50_001), 7, 5]
