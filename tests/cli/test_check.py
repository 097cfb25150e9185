import io
import json
import sys

import pytest


@pytest.fixture
def bad(tmp_path):
    path = tmp_path / "bad.svm"
    path.write_text("1 1:1\n" + "x\n" * 25 + "-1 2:1 1:1\n")
    return path


def test_no_problems(cli, rows):
    done = cli("check", rows)
    assert (done.status, done.err) == (0, "")
    assert done.out.splitlines()[0] == "60 rows, 120 entries, 0 blank lines, 0 explicit zeros"
    assert done.out.splitlines()[-1] == "no problems"


def test_problems(cli, bad):
    done = cli("check", bad, "--threads", 1)
    assert done.status == 3
    assert done.out.splitlines()[-1] == "26 problems"
    problems = done.err.splitlines()
    assert problems[0] == f"{bad}:2:1: label 'x' is not a finite number"
    assert (len(problems), problems[-1]) == (21, "and 6 more")
    assert cli("check", bad, "--unsorted", "sort").out.splitlines()[-1] == "25 problems"


def test_json(cli, bad, rows):
    done = cli("check", bad, rows, "--json", "--index-base", "auto")
    assert (done.status, done.err) == (3, "")
    report = json.loads(done.out)
    assert (report["n_problems"], len(report["problems"]), report["rows"]) == (26, 20, 61)


def test_standard_input(cli, bad, monkeypatch):
    with open(bad) as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        assert cli("check", "-").out.splitlines()[-1] == "26 problems"
    assert isinstance(sys.stdin, io.TextIOBase)


def test_usage_and_missing_files(refused, cli, tmp_path):
    assert "index base" in refused(2, "check", tmp_path / "none", "--index-base", 2)
    assert cli("check", tmp_path / "none", "--index-base", "one").status == 2
    assert "open failed" in refused(6, "check", tmp_path / "none")
    assert "--index-base 0 or 1" in refused(2, "check", "-", "--index-base", "auto")
