"""Weights of rows: what is a weight, and whose it is."""

import bz2
import gzip
import lzma
import os
import random
from functools import partial

import numpy as np
import pytest
import zstandard

from blocklinear.errors import InputError, InputFormatError
from blocklinear.options import TextOptions
from blocklinear.text import RowReader, WeightReader, weights

from . import lines
from .differential import referenced
from .test_reader import SmallSlabs

PACK = {
    "plain": bytes, "gz": partial(gzip.compress, mtime=0), "bz2": bz2.compress, "xz": lzma.compress,
    "zst": zstandard.ZstdCompressor().compress,
}  # fmt: skip


@pytest.fixture
def weights_in(tmp_path):
    """Read a file of weights whole."""

    def read(data, n_rows=None, wanted=1 << 20, **options):
        path = tmp_path / "w"
        path.write_bytes(data)
        with WeightReader(str(path), TextOptions(**options)) as reader:
            found = reader.take(wanted)
            reader.finish(len(found) if n_rows is None else n_rows)
        return found.tolist(), reader

    return read


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"1\n2.5\n", [1.0, 2.5]),
        (b"1\r\n +.5\t\r\n1.\r\n", [1.0, 0.5, 1.0]),
        (b"\n1\n \t\n2\n\n", [1.0, 2.0]),
        (b"\xef\xbb\xbf1e-3\n", [0.001]),
        (b"0\n-0\n0.0\n", [0.0, 0.0, 0.0]),
        (b"9.99e153\n1e-320\n0.1", [9.99e153, 1e-320, 0.1]),
        (b"\n", []),
        (b"", []),
    ],
)
def test_what_is_a_weight(weights_in, data, expected):
    found, _ = weights_in(data)
    assert found == expected
    assert not np.signbit(found).any()


@pytest.mark.parametrize(
    ("line", "column", "problem", "fix"),
    [
        (b"x", 1, "weight 'x' is not a number", "one number a line"),
        (b" 1_0", 2, "weight '1_0' is not a number", "one number a line"),
        (b"0x1", 1, "weight '0x1' is not a number", "one number a line"),
        (b"1#2", 1, "weight '1#2' is not a number", "one number a line"),
        (b"\xff", 1, r"weight '\xff' is not a number", "one number a line"),
        (b"1 2", 1, "more than one number in '1 2'", "one number a line"),
        (b"1 1:0.5", 1, "more than one number in '1 1:0.5'", "one number a line"),
        (b"-1e-9", 1, "weight '-1e-9' is negative", "write 0"),
        (b"\tnan", 2, "weight 'nan' is not finite", "write 0"),
        (b"-Infinity", 1, "weight '-Infinity' is not finite", "write 0"),
        (b"1e154", 1, "weight '1e154' is too large", "scale the weights"),
        (b"1e999", 1, "weight '1e999' is too large", "scale the weights"),
    ],
)
@pytest.mark.parametrize("before", [0, 2, 30_000])
def test_what_is_none(weights_in, before, line, column, problem, fix):
    with pytest.raises(InputFormatError) as caught:
        weights_in(b"1\n" * before + b"\n" + line + b"\n1\n")
    error = caught.value
    assert (error.line, error.column, error.exit_code) == (before + 2, column, 3)
    assert error.problem == problem
    assert fix in error.fix


def test_an_endless_line(weights_in):
    with pytest.raises(InputFormatError, match=r"w:2:1: the line is longer than 64"):
        weights_in(b"1\n" + b"1" * 2 * weights.PIECE_BYTES)


@pytest.mark.parametrize(("n_rows", "wanted"), [(2, 2), (4, 4), (0, 0)])
def test_both_counts_are_said(weights_in, n_rows, wanted):
    with pytest.raises(InputError, match=f"w: 3 weights, but the input has {n_rows} rows"):
        weights_in(b"1\n2\n3\n", n_rows, wanted)


def test_a_last_line_that_may_be_cut(weights_in):
    _, reader = weights_in(b"1\n2")
    assert "the last weight may be cut short" in reader.notes[0]
    with pytest.raises(InputError, match="no newline at the end"):
        weights_in(b"1\n2", require_final_newline=True)


@pytest.mark.parametrize("kind", PACK)
def test_weights_of_any_packing_a_few_at_a_time(tmp_path, kind):
    rng = random.Random(3)
    given = [rng.choice([0.0, 1.0, rng.random(), 1e9]) for _ in range(30_000)]
    data = PACK[kind]("".join(f"{x!r}\n" for x in given).encode())
    path = tmp_path / "w"
    path.write_bytes(data)
    found = []
    with WeightReader(str(path), TextOptions()) as reader:
        while len(found) < len(given):
            found += reader.take(rng.randrange(9000)).tolist()
        reader.finish(len(given))
    assert found == given
    assert reader.provenance["size"] == len(data)


def test_a_cut_stream_is_an_error(tmp_path):
    path = tmp_path / "w.gz"
    path.write_bytes(gzip.compress(b"1\n" * 9999, mtime=0)[:-9])
    with pytest.raises(InputError, match="ends before its end mark"):
        WeightReader(str(path), TextOptions()).take(99_999)


@pytest.mark.parametrize("options", [{}, {"unsorted": "sort", "duplicates": "sum"}], ids=str)
@pytest.mark.parametrize("piece", [500, 1 << 20])
def test_refused_rows_have_a_weight_and_blank_lines_have_none(tmp_path, piece, options):
    rng = random.Random(5)
    batch = [lines.line(rng) for _ in range(1500)]
    rows, refused, blank = referenced(batch, 1)
    files = [tmp_path / "a.svm", tmp_path / "b.svm"]
    for path, part in zip(files, (batch[:900], batch[900:]), strict=True):
        path.write_bytes(b"\n".join(part) + b"\n")
    weights_file = tmp_path / "w"

    def read(weighted):
        reader = WeightReader(str(weights_file), TextOptions()) if weighted else None
        how = SmallSlabs(threads=3, piece=piece, on_error="skip", max_errors=1500, **options)
        skipped = []
        found = [
            (label, weight)
            for part in RowReader(files, how, skipped.append, weights=reader)
            for label, weight in zip(
                part.labels().tolist(),
                part.weights.tolist() if weighted else [None] * part.n_rows,
                strict=True,
            )
        ]
        places = [(str(files[0]), error.line) for error in skipped if error.path == str(files[0])]
        places += [(str(files[1]), error.line) for error in skipped if error.path != str(files[0])]
        return found, places

    without, places = read(False)
    if not options:
        assert (len(without), len(places)) == (len(rows), len(refused))
    # the weight of a line is its number, over both files
    gone = {line - 1 + 900 * (path == str(files[1])) for path, line in places}
    empty = [k for k, line in enumerate(batch) if not line.split(b"#", 1)[0].strip(b" \t\r")]
    assert len(empty) >= blank > 0 < len(gone)
    own = [k for k in range(1500) if k in gone or k not in empty]
    weights_file.write_text("".join(f"{k}\n" for k in own))
    found, _ = read(True)
    assert [label for label, _ in found] == [label for label, _ in without]
    assert [weight for _, weight in found] == [k for k in own if k not in gone]


def test_rows_are_counted_on_where_weights_run_out(tmp_path):
    (tmp_path / "a").write_text("1 1:1\n" * 50_000)
    (tmp_path / "w").write_text("1\n" * 100)
    with WeightReader(str(tmp_path / "w"), TextOptions()) as reader:
        rows = RowReader([tmp_path / "a"], SmallSlabs(piece=4096), weights=reader)
        with pytest.raises(InputError, match="w: 100 weights, but the input has 50000 rows"):
            list(rows)


def test_weights_from_standard_input(tmp_path, monkeypatch):
    (tmp_path / "w").write_bytes(b"1\n2\n")
    descriptor = os.open(tmp_path / "w", os.O_RDONLY)

    class Stdin:
        def isatty(self):
            return False

        def fileno(self):
            return descriptor

    monkeypatch.setattr("sys.stdin", Stdin())
    with WeightReader("-", TextOptions()) as reader:
        assert reader.take(2).tolist() == [1.0, 2.0]
        reader.finish(2)
    os.close(descriptor)
