import bz2
import gzip
import io
import os
import random
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from threading import Lock, current_thread

import pytest
import zstandard

from blocklinear.errors import InputError, InputFormatError, MemoryBudgetError, StorageError
from blocklinear.memory import parse_size
from blocklinear.options import TextOptions
from blocklinear.pages import ByteBudget
from blocklinear.text import RowReader, read_rows, scheduling

from . import lines
from .differential import referenced, tokenized


@dataclass(frozen=True)
class SmallSlabs(TextOptions):
    """Options that cut the text in pieces of any size."""

    piece: int = 64
    longest: int = 1 << 20

    @property
    def slab_bytes(self):
        return self.piece

    @property
    def line_limit(self):
        return self.longest


def all_rows(paths, options):
    return [row for rows in read_rows(paths, options) for row in tokenized(rows)]


@pytest.fixture
def mixed(tmp_path):
    """A file of generated lines, good and bad, and what the reference makes of it."""
    rng = random.Random(5)
    batch = [lines.line(rng) for _ in range(1500)]
    batch[700] = b"1 " + b" ".join(b"%d:%d" % (k, k) for k in range(1, 4000))
    path = tmp_path / "mixed.svm"
    path.write_bytes(b"\n".join(batch) + b"\n")
    return path, referenced(batch, 1)


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("piece", [100, 999, 4096, 1 << 20])
def test_threads_and_slabs_change_nothing(threads, piece, mixed):
    path, (rows, refused, blank) = mixed
    options = SmallSlabs(threads=threads, piece=piece, on_error="skip")
    skipped = []
    reader = RowReader([path], options, skipped.append)
    assert [row for part in reader for row in tokenized(part)] == rows
    assert [error.line - 1 for error in skipped] == refused
    assert reader.skipped == len(refused)
    (source,) = reader.provenance
    assert (source["rows"], source["blank"]) == (len(rows), blank)
    assert (source["lines"], source["skipped"]) == (1500, len(refused))
    assert reader.bytes_read == reader.bytes_total == path.stat().st_size


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("piece", [100, 1 << 20])
def test_the_first_fault_is_the_one_reported(threads, piece, mixed):
    path, (_, refused, _) = mixed
    for limit, line in ((0, refused[0]), (3, refused[3]), (100, refused[100])):
        options = SmallSlabs(threads=threads, piece=piece, on_error="skip", max_errors=limit)
        with pytest.raises(InputFormatError) as raised:
            all_rows([path], options)
        assert raised.value.line == line + 1
    with pytest.raises(InputFormatError) as raised:
        all_rows([path], SmallSlabs(threads=threads, piece=piece))
    assert raised.value.line == refused[0] + 1


def test_enough_may_be_skipped(mixed):
    path, (rows, refused, _) = mixed
    options = TextOptions(threads=2, on_error="skip", max_errors=len(refused))
    assert all_rows([path], options) == rows
    assert all_rows([path], TextOptions(threads=2, on_error="skip", max_errors=10**15)) == rows


def test_files_come_in_order(tmp_path):
    one, two, three = tmp_path / "1", tmp_path / "2", tmp_path / "3"
    one.write_bytes(b"\xef\xbb\xbf1 1:1")
    two.write_bytes(bz2.compress(b"\xef\xbb\xbf2 1:2\n\n"))
    three.write_bytes(b"3 1:3\n")
    reader = RowReader([one, two, three, one], TextOptions(threads=2))
    labels = [label for rows in reader for label in rows.labels().tolist()]
    assert labels == [1, 2, 3, 1]
    paths = [source["path"] for source in reader.provenance]
    assert paths == [str(path) for path in (one, two, three, one)]
    assert [source["final_newline"] for source in reader.provenance] == [False, True, True, False]
    assert [source["blank"] for source in reader.provenance] == [0, 1, 0, 0]
    assert reader.bytes_read == reader.bytes_total


def test_lines_are_counted_in_each_file(tmp_path):
    good, bad = tmp_path / "good", tmp_path / "bad"
    good.write_bytes(b"1 1:1\n" * 10)
    bad.write_bytes(b"1 1:1\n\n1 1:x\n")
    with pytest.raises(InputFormatError) as raised:
        all_rows([good, bad], TextOptions(threads=2))
    assert (raised.value.path, raised.value.line, raised.value.column) == (str(bad), 3, 5)


@pytest.mark.parametrize("threads", [1, 4])
def test_a_long_line_is_named_after_what_precedes_it(threads, tmp_path):
    path = tmp_path / "long"
    path.write_bytes(b"1 1:1\n" * 50 + b"1 " + b" " * 500 + b"\n1 1:1\n")
    options = SmallSlabs(threads=threads, piece=30, longest=501)
    with pytest.raises(InputFormatError, match="the line is longer than 501B") as raised:
        all_rows([path], options)
    assert (raised.value.line, raised.value.column) == (51, 502)
    assert len(all_rows([path], SmallSlabs(threads=threads, piece=30, longest=502))) == 52
    path.write_bytes(b"1 1:1\n" * 49 + b"x\n" + b"1 " + b" " * 500 + b"\n")
    with pytest.raises(InputFormatError, match="50:1: label"):
        all_rows([path], options)


@pytest.mark.parametrize("threads", [1, 4])
def test_a_cut_stream_is_named_after_the_faults_before_it(threads, tmp_path):
    path = tmp_path / "cut.gz"
    noise = "".join(f"1 1:{random.Random(k).random()}\n" for k in range(3000))
    packed = gzip.compress(f"1 1:1\nx\n{noise}".encode(), mtime=0)
    path.write_bytes(packed[:-8])
    with pytest.raises(InputFormatError, match="2:1: label"):
        all_rows([path], SmallSlabs(threads=threads, piece=1000))
    with pytest.raises(InputError, match="gz stream ends before its end mark"):
        all_rows([path], SmallSlabs(threads=threads, piece=1000, on_error="skip"))


def test_the_bound_of_a_line_follows_the_budget():
    assert TextOptions(memory_bytes=1 << 20).line_limit == 1 << 20
    assert TextOptions(memory_bytes=1 << 40).line_limit == 64 << 20
    for memory in (1 << 20, 100 << 20, 1 << 33, 1 << 40):
        for threads in (1, 16, 256):
            options = TextOptions(memory_bytes=memory, threads=threads)
            assert options.slab_bytes <= options.line_limit


def test_features_are_too_many_once_they_are_found_to_begin_at_0(tmp_path):
    (tmp_path / "first").write_text("1 5:1\n")
    (tmp_path / "second").write_text("-1 0:1\n")
    paths = [tmp_path / "first", tmp_path / "second"]
    auto = TextOptions(threads=1, index_base="auto", max_features=6)
    assert sum(rows.n_rows for rows in read_rows(paths, auto)) == 2
    with pytest.raises(MemoryBudgetError, match=r"second: index 5 makes 6 features"):
        list(read_rows(paths, replace(auto, max_features=5)))


def test_a_file_that_grows_meanwhile(tmp_path):
    path = tmp_path / "growing"
    path.write_bytes(b"1 1:1\n" * 1000)
    reading = read_rows([path], SmallSlabs(threads=1, piece=60))
    next(reading)
    with open(path, "ab") as stream:
        stream.write(b"1 1:1\n")
    with pytest.raises(StorageError, match="changed while it was read"):
        list(reading)


def test_standard_input(tmp_path, monkeypatch):
    path = tmp_path / "data"
    path.write_bytes(b"1 1:1\n2 3:4\n")
    expected = all_rows([path], TextOptions(threads=2))
    with open(path, "rb") as stream:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(stream))
        reader = RowReader(["-"], TextOptions(threads=2))
        assert reader.bytes_total is None or reader.bytes_total == 0
        assert [row for rows in reader for row in tokenized(rows)] == expected
        assert reader.provenance[0]["path"] == "-"


def test_a_missing_final_newline(tmp_path):
    path = tmp_path / "cut"
    path.write_bytes(b"1 1:1\n2 2:12")
    assert len(all_rows([path], TextOptions(threads=1))) == 2
    with pytest.raises(InputError, match="no newline at the end"):
        all_rows([path], TextOptions(threads=1, require_final_newline=True))


def test_no_descriptor_stays_open(tmp_path):
    path = tmp_path / "bad"
    path.write_bytes(b"1 1:1\nx\n")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with pytest.raises(InputFormatError):
            all_rows([path], TextOptions(threads=2))
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.fixture
def mixed_rows(tmp_path):
    """A file of 395 rows and some blank lines, and its rows."""
    path = tmp_path / "data"
    lines = [f"{k % 5} {k + 1}:{k / 8}" + f" {k + 9}:1" * (k % 7 > 3) for k in range(400)]
    path.write_text("\n".join(line if k % 90 else "" for k, line in enumerate(lines)) + "\n")
    expected = all_rows([path], TextOptions(threads=1))
    assert len(expected) == 395
    return path, expected


@pytest.mark.parametrize("threads", [1, 3])
def test_fleeting_rows_are_those_of_their_turn(threads, mixed_rows):
    path, expected = mixed_rows
    reader = RowReader([path, path], SmallSlabs(threads=threads, piece=300), fleeting=True)
    assert [row for rows in reader for row in tokenized(rows)] == 2 * expected


def test_rows_are_parsed_by_the_threads_given_and_these_go_on(mixed_rows):
    path, expected = mixed_rows
    with ThreadPoolExecutor(2, "given") as pool:
        names = set()

        def note(rows):
            names.add(current_thread().name.partition("_")[0])
            return rows

        for _ in range(2):
            reader = RowReader([path, path], SmallSlabs(piece=300), look_up=note, pool=pool)
            assert [row for rows in reader for row in tokenized(rows)] == 2 * expected
        assert names == {"given"}
        assert pool.submit(int).result() == 0


def test_rows_that_are_too_large_are_skipped(tmp_path):
    path, skipped = tmp_path / "x.svm", []
    path.write_bytes(b"1 1:1\n2 1:1e50 300:1\n3 2:1\n4 1:1e19 2:1e19 3:1e19 4:1e19\n" * 3)
    options = TextOptions(threads=1, on_error="skip", max_features=10)
    rows = list(RowReader([path], options, skipped.append, dtype="float32"))
    assert [label for part in rows for label in part.labels()] == [1, 3] * 3
    assert [(error.line, error.column) for error in skipped[:2]] == [(2, 5), (4, 19)]
    assert len(skipped) == 6
    with pytest.raises(
        InputFormatError, match=r"x\.svm:2:5: value '1e50' is too large for float32"
    ):
        list(RowReader([path], TextOptions(threads=1), dtype="float32"))


def test_long_lines_are_not_read_all_at_once(tmp_path, monkeypatch):
    entries = b" ".join(b"%d:1" % k for k in range(1, 400_000))
    path = tmp_path / "long"
    path.write_bytes((b"1 1:2\n" * 1000 + b"-1 " + entries + b"\n") * 6)
    options = TextOptions(threads=4, memory_bytes=102 << 20)
    assert len(entries) < options.line_limit < 2 * len(entries)
    held, peaks, lock = [0], [0], Lock()

    def count(n_bytes):
        with lock:
            held[0] += n_bytes
            peaks.append(held[0])

    class Counted(ByteBudget):
        def acquire(self, n_bytes, instead_of=0):
            granted = super().acquire(n_bytes, instead_of)
            count(granted - instead_of)
            return granted

        def release(self, n_bytes):
            count(-n_bytes)  # before others may be granted them
            super().release(n_bytes)

    monkeypatch.setattr(scheduling, "ByteBudget", Counted)
    sizes = [rows.nnz for rows in RowReader([path], options, fleeting=True)]
    assert sum(sizes) == 6 * (1000 + 399_999)
    assert options.reading_bytes / 2 < max(peaks) <= options.reading_bytes


@pytest.mark.parametrize("options", [{"unsorted": "sort"}, {"duplicates": "sum"}])
def test_a_line_of_more_entries_than_fit_is_refused_before_it_is_parsed(tmp_path, options):
    path = tmp_path / "dense"
    path.write_bytes(b"1 1:1\n-1" + b" 1:1" * 1_000_000 + b"\n")
    options = TextOptions(memory_bytes=97 << 20, **options)
    with pytest.raises(InputFormatError, match=r"2:1: the line has 1000000 entries") as error:
        all_rows([path], options)
    memory = options.memory_bytes + parse_size(error.value.fix.split()[-3])
    assert memory < 256 << 20
    found = read_rows([path], replace(options, memory_bytes=memory, duplicates="sum"))
    assert [rows.values().tolist() for rows in found] == [[1.0], [1_000_000.0]]


def test_a_line_that_is_refused_by_its_length_is_taken_with_what_is_advised(tmp_path):
    path = tmp_path / "long"
    path.write_bytes(b"1 1:1" + b" " * (3 << 20) + b"\n")
    with pytest.raises(InputFormatError, match="longer than 2M") as error:
        all_rows([path], TextOptions(memory_bytes=88 << 20))
    advice = r"--max-line-bytes (4194304) or more, and eight times that more --memory$"
    limit = int(re.search(advice, error.value.fix)[1])
    options = TextOptions(memory_bytes=(88 << 20) + 8 * limit, max_line_bytes=limit)
    assert len(all_rows([path], options)) == 1
    with pytest.raises(InputFormatError, match="longer than 1M") as error:
        all_rows([path], TextOptions(memory_bytes=30 << 20))
    assert error.value.fix.endswith(
        "2097152 or more, and eight times that more --memory, and 50M besides"
    )


def test_the_window_of_a_stream_leaves_less_for_a_line(tmp_path):
    text = b"1 1:1\n-1" + b"".join(b" %d:1" % k for k in range(1, 400_000)) + b"\n"
    options, path = TextOptions(memory_bytes=101 << 20), tmp_path / "packed"
    for window_log in (15, 23):
        how = zstandard.ZstdCompressionParameters.from_level(1, window_log=window_log)
        packing = zstandard.ZstdCompressor(compression_params=how).compressobj()
        path.write_bytes(packing.compress(b"#\n" * 4 + text) + packing.flush())
        if window_log == 15:
            assert sum(rows.nnz for rows in read_rows([path], options)) == 400_000
    with pytest.raises(InputFormatError, match="6:1: the line has 399999 entries") as error:
        all_rows([path], options)
    memory = options.memory_bytes + parse_size(error.value.fix.split()[-3])
    found = read_rows([path], replace(options, memory_bytes=memory))
    assert sum(rows.nnz for rows in found) == 400_000
