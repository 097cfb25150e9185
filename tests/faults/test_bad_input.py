"""Every way in which text is refused, one tiny file each in `data`."""

import re
import shlex
import shutil
import subprocess
import sys

import programs
import pytest

from blocklinear.cli.main import main

from .conftest import DATA

NOT_INTEGER = "is not a plain integer"
TOO_HIGH = "is not below 4294967296"
NOT_DECIMAL = "is not a decimal number"
NO_VALUE = "no value after the colon"
OVERFLOWS = "is too large: its square overflows"
NOT_ASCII = "which is not printable ASCII"
NO_LABEL = "is not a finite number"
LONE_CR = "a carriage return that is not followed by a newline"
CUT = "; the file ends here, in the middle of a line"
# file, line, column (in bytes), what the message says
FAULTS = [
    ("zero_index", 3, 3, "index 0 is below the index base"),
    ("negative_index", 3, 7, NOT_INTEGER),
    ("plus_index", 3, 3, NOT_INTEGER),
    ("fraction_index", 3, 3, NOT_INTEGER),
    ("exponent_index", 3, 3, NOT_INTEGER),
    ("hex_index", 3, 3, NOT_INTEGER),
    ("empty_index", 3, 3, NOT_INTEGER),
    ("arabic_index", 3, 3, NOT_ASCII),
    ("index_4294967296", 3, 3, TOO_HIGH),
    ("index_4294967297", 3, 7, TOO_HIGH),
    ("index_2_to_63", 3, 3, TOO_HIGH),
    ("index_30_digits", 3, 3, TOO_HIGH),
    ("duplicate_index", 3, 7, "index 2 is repeated"),
    ("unsorted_index", 3, 8, "index 17 follows a larger one"),
    ("value_nan", 3, 5, "value 'nan' is not finite"),
    ("value_inf", 3, 5, "value '-inf' is not finite"),
    ("value_1e400", 3, 5, OVERFLOWS),
    ("value_1e200", 3, 9, OVERFLOWS),
    ("squares_overflow", 3, 15, "the squares of the row add up to 1.5e+308 or more"),
    ("value_underscore", 3, 5, NOT_DECIMAL),
    ("value_decimal_comma", 3, 5, NOT_DECIMAL),
    ("value_hex", 3, 5, NOT_DECIMAL),
    ("value_cut_exponent", 3, 5, NOT_DECIMAL),
    ("value_two_signs", 3, 5, NOT_DECIMAL),
    ("missing_value", 3, 5, NO_VALUE),
    ("missing_colon", 3, 7, "no colon in '2'"),
    ("two_colons", 3, 5, NOT_DECIMAL),
    ("three_parts", 3, 5, NOT_DECIMAL),
    ("blank_after_colon", 3, 5, NO_VALUE),
    ("label_nan", 3, 1, NO_LABEL),
    ("label_inf", 3, 1, NO_LABEL),
    ("label_text", 3, 1, "label 'abc' is not a finite number"),
    ("label_two", 3, 1, NO_LABEL),
    ("label_1e200", 3, 1, "label '1e200' is too large"),
    ("missing_label", 3, 1, "no label before '1:1'"),
    ("qid", 3, 3, "'qid:7' is not a feature"),
    ("qid_after_entry", 3, 8, "'qid:7' is not a feature"),
    ("sid", 3, 3, "'sid:7' is not a feature"),
    ("cost", 3, 3, "'cost:7' is not a feature"),
    ("bom_in_middle", 3, 1, "a byte order mark in the middle of the text"),
    ("lone_cr", 3, 6, LONE_CR),
    ("lone_cr_after_comment", 3, 10, LONE_CR),
    ("cr_only", 1, 6, LONE_CR),
    ("nul_byte", 3, 5, "a NUL byte"),
    ("latin1_byte", 3, 5, "byte 0xe9, " + NOT_ASCII),
    ("no_break_space", 3, 1, NOT_ASCII),
    ("vertical_tab", 3, 1, "byte 0x0b, " + NOT_ASCII),
    ("escape_sequence", 3, 5, "byte 0x1b, " + NOT_ASCII),
    ("cut_after_colon", 3, 9, NO_VALUE + CUT),
    ("cut_in_exponent", 3, 5, NOT_DECIMAL + CUT),
    ("cut_in_index", 3, 7, "no colon in '2'" + CUT),
    ("value_hex_at_end", 3, 6, NOT_DECIMAL + "\n"),
    ("latin1_byte_at_end", 3, 6, f"byte 0xe9, {NOT_ASCII}, in '5\\xe9'\n"),
    ("utf16", 1, 1, "this is UTF-16 text"),
    ("utf16_without_mark", 1, 1, "this is UTF-16 text or binary data"),
    ("csv", 1, 1, "this looks like CSV"),
    ("vowpal_wabbit", 1, 3, "this looks like Vowpal Wabbit text"),
    ("pickle", 1, 1, "this is a Python pickle, not LIBSVM text"),
    ("xgboost_binary", 1, 1, "this is an XGBoost binary"),
    ("zip", 1, 1, "this is a zip or npz file, such as a model, not LIBSVM text"),
    ("elf", 1, 1, "this is a program"),
    ("liblinear_model", 1, 1, "this is a LIBLINEAR model"),
    ("block_file", 1, 1, "this is a block file of blocklinear"),
    ("json", 1, 1, "this is JSON"),
    ("parquet", 1, 1, "this is a Parquet file"),
    ("arff", 1, 1, "this is an ARFF file"),
    ("html", 1, 1, "this is a page of HTML, or XML"),
    ("git_lfs", 1, 1, "this is a Git LFS pointer"),
    ("lz4", 1, 1, "this is an lz4 stream"),
]
NO_ROWS = ("empty", "only_comments", "only_blank_lines")


@pytest.mark.parametrize(("name", "line", "column", "what"), FAULTS, ids=[f[0] for f in FAULTS])
def test_a_refused_line_is_named(name, line, column, what, split):
    path = DATA / f"{name}.svm"
    before = path.read_bytes()
    err = split(path, code=3).err
    assert err.startswith(f"blocklinear: {path}:{line}:{column}: ")
    assert what in err
    assert err.replace("\n", "").isprintable()
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", ["csv", "parquet"])
def test_what_takes_a_table_is_named(name, split):
    assert "tables are read by `split --target COLUMN`" in split(DATA / f"{name}.svm", code=3).err


@pytest.mark.parametrize("name", NO_ROWS)
def test_text_without_rows_makes_no_store(name, split):
    path = DATA / f"{name}.svm"
    assert split(path, code=3).err.startswith(f"blocklinear: {path}: no rows")
    assert split(DATA / "zero_index.svm", path, options=["--index-base", "0"]).code == 0


def test_every_file_of_the_folder_is_tested():
    names = {path.name for path in DATA.iterdir()}
    tested = {f"{name}.svm" for name, *_ in FAULTS} | {f"{name}.svm" for name in NO_ROWS}
    assert names == tested | {"truncated.svm.bz2"}


def test_a_cut_archive(split):
    path = DATA / "truncated.svm.bz2"
    err = split(path, code=3).err
    assert f"{path}: the bz2 stream ends before its end mark, after {path.stat().st_size}" in err


def test_what_is_advised_to_remove_a_cost_removes_it(split, tmp_path):
    path = tmp_path / "rows.svm"
    path.write_bytes(b"1\tcost:2\t1:1\n-1 cost:3 1:2\n")
    (command,) = re.findall("`(.*)`", split(path, code=3).err)
    done = subprocess.run([*shlex.split(command), path], capture_output=True, check=True)
    assert done.stdout == b"1\t1:1\n-1 1:2\n"


def test_only_what_more_text_could_mend_is_taken_for_cut(split):
    for name in ("value_hex_at_end", "latin1_byte_at_end"):
        assert "cut short" not in split(DATA / f"{name}.svm", code=3).err
    assert "cut short" in split(DATA / "cut_in_index.svm", code=3).err


def test_the_advice_is_an_option_that_exists(split):
    """Where a message names an option of `split`, giving it helps or at least parses."""
    for name, *_ in FAULTS:
        for option in re.findall(r"--[a-z-]+", split(DATA / f"{name}.svm", code=3).err):
            known = ("--index-base", "--unsorted", "--duplicates", "--ignore-qid", "--target")
            assert option in known
    assert split(DATA / "zero_index.svm", options=["--index-base", "0"]).code == 0
    assert split(DATA / "zero_index.svm", options=["--index-base", "auto"]).code == 0
    assert split(DATA / "unsorted_index.svm", options=["--unsorted", "sort"]).code == 0
    assert split(DATA / "duplicate_index.svm", options=["--duplicates", "sum"]).code == 0
    assert split(DATA / "qid.svm", options=["--ignore-qid"]).code == 0
    assert "right after a label" in split(DATA / "qid_after_entry.svm", code=3).err


@pytest.mark.parametrize(
    ("row", "column", "what"),
    [
        ("1:2 2:1e50", 9, "value '1e50' is too large for float32: its square overflows"),
        ("1:1e30", 5, "value '1e30' is too large for float32: its square overflows"),
        ("1:1e19 2:1e19 3:1e19", 19, "the squares of the row add up to 3e+38 or more"),
    ],
)
def test_a_row_too_large_for_float32(row, column, what, tmp_path, split):
    path, good = tmp_path / "x.svm", tmp_path / "good.svm"
    path.write_text(f"1 1:1\n2 {row}\n1 2:1\n")
    good.write_text("1 1:1\n1 2:1\n")
    one, float32 = ["--blocks", "1"], ["--dtype", "float32"]
    err = split(path, code=3, options=float32).err
    assert err.startswith(f"blocklinear: {path}:2:{column}: {what}\n  fix: scale the data, or")
    assert split(path, options=["--dtype", "float64"]).code == 0
    skipped = split(path, options=[*float32, *one, "--on-error", "skip"])
    assert "warning: 1 line was skipped" in skipped.err
    assert skipped.blocks == split(good, options=[*float32, *one]).blocks


def test_a_long_token_is_escaped_and_cut(tmp_path, split):
    path = tmp_path / "long.svm"
    path.write_bytes(b"1 1:1\n1 1:" + b"\x1b[2J" * 1000 + b"\n")
    err = split(path, code=3).err
    assert "\x1b" not in err
    assert len(err.splitlines()[0]) < len(str(path)) + 120


@pytest.mark.parametrize("newline", [b"\n", b""])
def test_a_line_beyond_the_bound(newline, tmp_path, split):
    path = tmp_path / "long.svm"
    line = b"1 1:1" + b" " * ((9 << 19) - 5)
    options = ["--memory", "98M", "--blocks", "1"]
    path.write_bytes(b"1 1:1\n" + line + newline)
    assert split(path, options=options).code == 0
    path.write_bytes(b"1 1:1\n" + line + b" " + newline)
    err = split(path, code=3, options=options).err
    assert f"{path}:2:{(9 << 19) + 1}: the line is longer than 4.5M" in err


def test_a_file_that_is_not_there(tmp_path, split):
    assert "No such file" in split(tmp_path / "none.svm", code=6).err
    assert "is a folder" in split(tmp_path, code=6).err


def test_a_bad_line_in_a_later_file_leaves_nothing(tmp_path, split):
    good = tmp_path / "good.svm"
    good.write_bytes(b"1 1:1\n-1 2:1\n" * 30_000)
    path = DATA / "value_nan.svm"
    assert f"{path}:3:5: " in split(good, path, code=3).err


def test_an_old_store_survives_a_bad_replacement(tmp_path, capsys):
    store, good = tmp_path / "store", tmp_path / "good.svm"
    good.write_bytes(b"1 1:1\n-1 2:1\n")
    assert main(["split", str(good), str(store)]) == 0
    before = {path: path.read_bytes() for path in store.rglob("*") if path.is_file()}
    assert main(["split", str(DATA / "qid.svm"), str(store), "--force"]) == 3
    assert {path: path.read_bytes() for path in store.rglob("*") if path.is_file()} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["good.svm", "store"]
    assert main(["verify", str(store)]) == 0


def test_skipped_lines_are_counted_and_the_first_is_named(tmp_path, split):
    bad, good = tmp_path / "bad.svm", tmp_path / "good.svm"
    good.write_bytes(b"1 1:1\n-1 2:1\n1 3:1\n")
    bad.write_bytes(b"1 1:1\nx\n-1 2:1\n1 0:1\n1 3:1\n")
    one = ["--blocks", "1"]
    skipped = split(bad, options=["--on-error", "skip", "--max-errors", "2", *one])
    assert f"warning: 2 lines were skipped; the first: {bad}:2:1: label 'x'" in skipped.err
    assert skipped.blocks == split(good, options=one).blocks
    err = split(bad, code=3, options=["--on-error", "skip", "--max-errors", "1"]).err
    assert f"{bad}:4:3: index 0" in err


@pytest.mark.parametrize("name", ["value_nan.svm", "truncated.svm.bz2"])
def test_from_the_shell(name, tmp_path):
    shutil.copy(DATA / name, tmp_path)
    done = programs.blocklinear("split", name, "store", "--threads", "1", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith(f"blocklinear: {name}:")
    assert done.stderr.splitlines()[1].startswith("  fix: ")
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_predict_leaves_no_output(tmp_path, capsys):
    model, output = DATA / "liblinear_model.svm", tmp_path / "out"
    for name in ("value_nan.svm", "unsorted_index.svm", "truncated.svm.bz2", "utf16.svm"):
        assert main(["predict", str(DATA / name), str(model), str(output)]) == 3
        err = capsys.readouterr().err
        assert err.startswith(f"blocklinear: {DATA / name}:")
        assert "\n  fix: " in err
        assert list(tmp_path.iterdir()) == []


def test_closed_standard_input(tmp_path):
    command = f"{sys.executable} -m blocklinear split - {tmp_path / 's'} <&-"
    done = programs.run(["sh", "-c", command])
    assert (done.returncode, "standard input is closed" in done.stderr) == (2, True)
    assert list(tmp_path.iterdir()) == []


def test_from_standard_input(tmp_path):
    with open(DATA / "unsorted_index.svm", "rb") as stream:
        done = programs.blocklinear("split", "-", tmp_path / "s", stdin=stream)
    assert done.returncode == 3
    assert done.stderr.startswith("blocklinear: -:3:8: index 17 follows a larger one\n")
    assert list(tmp_path.iterdir()) == []
