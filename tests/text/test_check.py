import gzip
import json
import random

import pytest

from blocklinear.errors import StorageError, UsageError
from blocklinear.options import TextOptions
from blocklinear.text import check as module
from blocklinear.text.check import check

from . import lines
from .differential import referenced

OPTIONS = TextOptions(threads=2, memory_bytes=64 << 20)


@pytest.fixture
def checked(tmp_path):
    def run(text, **options):
        (tmp_path / "rows").write_bytes(text)
        return check([tmp_path / "rows"], TextOptions(**vars(OPTIONS) | options))

    return run


def test_what_is_in_it(checked):
    report = checked(b"1 2:0.5 9:-3\n\n# nothing\n-1 7:0 8:4\n1\n1 1:1 2:1 3:1\n")
    assert report.as_dict() == {
        "rows": 4, "entries": 6, "blank_lines": 2, "explicit_zeros": 1, "index_base": 1,
        "min_index": 1, "max_index": 9, "min_value": -3.0, "max_value": 4.0,
        "min_row_entries": 0, "max_row_entries": 3, "mean_row_entries": 1.5,
        "labels": [{"label": 1.0, "rows": 3}, {"label": -1.0, "rows": 1}],
        "problems": [], "n_problems": 0, "complete": True, "notes": [],
    }  # fmt: skip
    assert json.loads(report.to_json()) == report.as_dict()
    assert report.summary().splitlines() == [
        "4 rows, 6 entries, 2 blank lines, 1 explicit zero",
        "labels: 1 (3 rows), -1 (1 row)",
        "indices: 1 to 9, base 1",
        "values: -3 to 4",
        "entries per row: 0 to 3, mean 1.5",
        "no problems",
    ]


def test_it_counts_what_the_reference_does(checked):
    rng = random.Random(2)
    batch = [lines.line(rng) for _ in range(3000)]
    rows, refused, blank = referenced(batch, 1)
    report = checked(b"".join(line + b"\n" for line in batch))
    assert (report.rows, report.n_problems, report.blank_lines) == (len(rows), len(refused), blank)
    assert report.entries == sum(len(entries) for _, entries in rows)
    lengths = [len(entries) for _, entries in rows]
    assert (report.min_row_entries, report.max_row_entries) == (min(lengths), max(lengths))
    assert len(report.problems) == 20
    assert [int(p.split(":")[1]) - 1 for p in report.problems] == refused[:20]


def test_the_base(checked):
    for text, base in ((b"1 1:1\n", 1), (b"1 1:1\n1 0:0\n", 0)):
        report = checked(text, index_base="auto")
        assert (report.index_base, report.n_problems) == (base, 0)
    assert checked(b"1 1:1\n1 0:1\n").n_problems == 1
    with pytest.raises(UsageError, match="known only at its end"):
        check(["-"], TextOptions(**vars(OPTIONS) | {"index_base": "auto"}))


def test_several_inputs_and_one_that_is_damaged(tmp_path):
    (tmp_path / "cut").write_bytes(gzip.compress(b"1 1:1\n" * 50, mtime=0)[:-6])
    (tmp_path / "whole").write_bytes(b"2 4:1\n")
    report = check([tmp_path / "cut", tmp_path / "whole"], OPTIONS)
    assert (report.n_problems, report.complete, report.max_index) == (1, False, 4)
    assert "ends before its end mark" in report.problems[0]
    assert report.summary().endswith("1 problem; not all was read")
    with pytest.raises(StorageError, match="open failed"):
        check([tmp_path / "none"], OPTIONS)


def test_a_lacking_newline_is_found_at_the_end(checked):
    report = checked(b"1 1:1\n-1 2:1", require_final_newline=True)
    assert (report.rows, report.n_problems, report.complete) == (2, 1, True)


def test_a_long_line_and_too_many_problems_end_it(checked, monkeypatch):
    report = checked(b"1 1:1\n" + b"1 " + b" " * (2 << 20) + b"\n")
    assert (report.n_problems, report.complete) == (1, False)
    assert "longer than 1M" in report.problems[0]
    monkeypatch.setattr(module, "MAX_PROBLEMS", 30)
    report = checked(b"x\n" * 30)
    assert (report.n_problems, report.complete) == (30, True)
    report = checked(b"x\n" * 100)
    assert (report.n_problems, report.complete) == (31, False)


@pytest.mark.parametrize("text", [b"", b"\n\n# nothing\n"])
def test_no_rows_is_a_problem(checked, text):
    report = checked(text)
    assert report.problems == ["no rows: nothing but blank lines or comments"]
    assert report.as_dict()["mean_row_entries"] is report.min_index is report.min_value is None
    assert report.as_dict()["labels"] == []


def test_many_labels(checked):
    report = checked(b"".join(b"%d 1:1\n" % i for i in range(30)))
    assert "29 (1 row)" not in report.summary()
    assert " and 10 more" in report.summary()
    report = checked(b"".join(b"%d 1:1\n" % i for i in range(10_001)))
    assert report.labels is report.as_dict()["labels"] is None
    assert "labels: more than 10000 (regression)" in report.summary()


def test_rows_that_may_be_put_in_order(checked):
    text = b"1 3:1 1:1\n1 2:1 2:1\n"
    assert checked(text).n_problems == 2
    assert checked(text, unsorted="sort", duplicates="sum").n_problems == 0
