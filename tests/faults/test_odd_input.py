"""Text that looks wrong and is accepted: the store is that of the plain file."""

import json

import pytest

from blocklinear.cli.main import main

PLAIN = b"1 1:0.5 3:2\n-1 2:1\n1 1:4\n-1\n"


@pytest.fixture
def write(tmp_path):
    def make(content, name="data.svm"):
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return make


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbf" + PLAIN,
        PLAIN.replace(b"\n", b"\r\n"),
        PLAIN.replace(b"\n", b"\r\n", 2),
        PLAIN.replace(b" ", b"\t"),
        PLAIN.replace(b" ", b"  \t "),
        PLAIN.replace(b"\n", b" \t\n"),
        b" " + PLAIN,
        b"\n  \n" + PLAIN.replace(b"\n", b"\n\n\t\n\r\n"),
        b"# 1 1:1\n" + PLAIN.replace(b"\n", b" # 7:7, caf\xe9\n"),
        PLAIN.replace(b"\n", b"#7\n"),
        PLAIN.replace(b"1:0.5", b"0001:+.5E0"),
        PLAIN.replace(b"1 1", b"+1 1").replace(b"-1", b"-01e0"),
        PLAIN.replace(b"1:0.5", b"1:0.5 2:0 ").replace(b"2:1", b"1:-0 2:1 3:1e-400"),
        PLAIN[:-1],
    ],
    ids=[
        "bom", "crlf", "mixed_endings", "tabs", "runs_of_blanks", "trailing_blanks",
        "leading_blank", "blank_lines", "comments", "comment_in_a_token", "spelled_numbers",
        "spelled_labels", "explicit_zeros", "no_final_newline",
    ],
)  # fmt: skip
def test_the_store_is_that_of_the_plain_file(content, write, split):
    assert split(write(content)).blocks == split(write(PLAIN)).blocks


def test_a_missing_final_newline_is_warned_of(write, split):
    path = write(PLAIN[:-1])
    warning = f"warning: {path}: no newline at the end: the last line may be cut short"
    assert warning in split(path).err
    assert "warning" not in split(write(PLAIN)).err
    err = split(write(PLAIN[:-1]), code=3, options=["--require-final-newline"]).err
    assert "no newline at the end" in err
    assert split(write(PLAIN), options=["--require-final-newline"]).code == 0


def test_one_label_is_warned_of(write, split):
    assert "warning: all rows have the one label 1" in split(write(b"1 1:1\n1 2:1\n")).err


def test_a_denormal_is_kept(write, split):
    assert "1 entry" in split(write(b"1 1:1e-320\n-1\n")).out


def test_counts_of_what_was_dropped_are_kept(write, tmp_path, capsys):
    path, store = write(b"# x\n1 1:0 2:1 9:0\n\n-1 1:1\n"), tmp_path / "store"
    assert main(["split", str(path), str(store)]) == 0
    capsys.readouterr()
    assert main(["info", str(store), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["rows"], told["features"], told["nnz"]) == (2, 9, 2)
    (source,) = told["batches"][0]["sources"]
    assert (source["lines"], source["blank"], source["zeros"]) == (4, 2, 2)


def test_labels_keep_the_order_in_which_they_appear(write, split):
    assert "labels: -1 (2 rows), 1 (1 row)" in split(write(b"-1 1:1\n+1 1:1\n-1.0 1:2\n")).out
    assert "labels: 2 (1 row), 1 (2 rows)" in split(write(b"2 1:1\n1 1:1\n1 1:2\n")).out


def test_each_file_may_begin_with_a_mark(write, split):
    one = write(b"\xef\xbb\xbf" + PLAIN, "one")
    assert split(one, one).blocks == split(write(PLAIN * 2)).blocks
