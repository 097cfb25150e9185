import json
import re

import pytest

from blocklinear.events import SplitProgress


def test_the_result_is_on_stdout(cli, rows, tmp_path):
    done = cli("split", rows, tmp_path / "s", "--blocks", 3, "--threads", 2)
    assert done.status == 0
    lines = done.out.splitlines()
    assert lines[0] == "60 rows, 6 features, 120 entries"
    assert lines[1].startswith("3 blocks, ")
    assert lines[2] == "labels: 1 (30 rows), -1 (30 rows)"
    assert lines[3] == f"batch b1: 60 rows from {rows}, 2026-01-01T00:00:00Z"
    assert lines[4] == "6 features occur, and are renumbered in the blocks"
    assert re.fullmatch(r"split in \d+\.\d\d s", lines[5])
    assert done.err == ""  # too small for a line of progress


def test_quiet_still_warns(cli, tmp_path):
    path = tmp_path / "cut.svm"
    path.write_text("1 1:1\n-1 1:2")
    done = cli("split", path, tmp_path / "s", "-q", "--memory", "256M")
    assert done.status == 0
    assert done.err.startswith(f"warning: {path}: no newline at the end")


def test_progress_is_a_line_now_and_then(capsys):
    from blocklinear.cli.console import Console

    console = Console(quiet=False)
    for part in range(11):
        console(SplitProgress(part << 28, 10 << 28, 1000 * part, 0))
    console.close()
    out, err = capsys.readouterr()
    assert out == ""
    assert "split: 1280 MiB (50 %), 5000 rows\n" in err
    assert err.count("\n") == 10


def test_several_inputs_and_options(cli, rows, tmp_path):
    options = ["--blocks", 2, "--seed", 7, "--order", "file", "--dtype", "float32"]
    options += ["--compression", "none", "--index-base", 0, "--threads", 1, "-q"]
    assert cli("split", rows, rows, tmp_path / "s", *options).status == 0
    facts = json.loads(cli("info", tmp_path / "s", "--json").out)
    assert (facts["rows"], facts["blocks"], facts["seed"]) == (120, 2, 7)
    assert (facts["order"], facts["dtype"], facts["compression"]) == ("file", "float32", "none")
    assert (facts["index_base"], facts["features"]) == (0, 7)


def test_an_existing_store_is_kept_unless_forced(cli, refused, rows, store):
    before = json.loads(cli("info", store, "--json").out)
    assert "--force" in refused(5, "split", rows, store, "-q")
    assert json.loads(cli("info", store, "--json").out) == before
    assert cli("split", rows, store, "-q", "--force", "--blocks", 2).status == 0
    assert json.loads(cli("info", store, "--json").out)["blocks"] == 2


def test_malformed_input_leaves_nothing(refused, tmp_path):
    path = tmp_path / "bad.svm"
    path.write_text("1 1:1\n-1 2:1 1:1\n")
    assert refused(3, "split", path, tmp_path / "s", "-q").startswith(f"blocklinear: {path}:2:8: ")
    assert [entry.name for entry in tmp_path.iterdir()] == ["bad.svm"]


def test_malformed_lines_are_skipped_on_request(cli, refused, tmp_path):
    path = tmp_path / "bad.svm"
    path.write_text("1 1:1\nx\n-1 2:1\n2 2:1 1:1\n")
    done = cli("split", path, tmp_path / "s", "-q", "--on-error", "skip")
    assert done.status == 0
    assert "2 lines were skipped" in done.err
    options = ["--on-error", "skip", "--max-errors", 1]
    refused(3, "split", path, tmp_path / "t", "-q", *options)


def test_a_last_line_without_newline_is_refused_on_request(refused, tmp_path):
    path = tmp_path / "cut.svm"
    path.write_text("1 1:1\n-1 1:2")
    refused(3, "split", path, tmp_path / "s", "-q", "--require-final-newline")


@pytest.mark.parametrize(
    ("flags", "word"),
    [
        (["--blocks", "0"], "blocks"),
        (["--seed", "-1"], "seed"),
        (["--threads", "0"], "threads"),
        (["--index-base", "2"], "index base"),
        (["--compression", "lzw"], "lzw"),
        (["--memory", "1K"], "memory"),
    ],
    ids=str,
)
def test_values_out_of_range(refused, rows, tmp_path, flags, word):
    assert word in refused(2, "split", rows, tmp_path / "s", *flags)
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize(
    "flags",
    [["--blocks", "x"], ["--order", "sorted"], ["--dtype", "int8"], ["--memory", "lots"]],
    ids=str,
)
def test_flags_that_cannot_be_read(cli, rows, tmp_path, flags):
    done = cli("split", rows, tmp_path / "s", *flags)
    assert (done.status, done.out) == (2, "")
    assert "usage: blocklinear split" in done.err


def test_a_missing_input(refused, tmp_path):
    text = refused(6, "split", tmp_path / "none", tmp_path / "s")
    assert text.startswith(f"blocklinear: {tmp_path}/none: open failed: No such file")


def test_a_missing_folder(refused, rows, tmp_path):
    refused(6, "split", rows, tmp_path / "none" / "s")
