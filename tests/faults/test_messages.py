"""Messages are for terminals and logs: nothing in them acts on one, however files are named."""

import errno
import os

import pytest

from blocklinear.cli.main import main
from blocklinear.errors import (
    InputFormatError,
    MemoryBudgetError,
    StorageError,
    quoted,
    quoted_name,
    shown,
    storage_errors,
)

EVIL = "a\x1b[2J\nblocklinear: all is well\u202e\x7f.svm"
TAMED = "a\\x1b[2J\\nblocklinear: all is well\\u202e\\x7f.svm"


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"abc", "'abc'"),
        (b"caf\xe9", "'caf\\xe9'"),
        ("café".encode(), "'caf\\xc3\\xa9'"),
        ("café", "'caf\\xe9'"),
        ("\u0663", "'\\u0663'"),
        (b"back\\slash", "'back\\\\slash'"),
        (b"a" * 40, f"'{'a' * 40}'"),
        (b"a" * 41, f"'{'a' * 37}...'"),
        (b"\x1b" * 50, "'" + "\\x1b" * 9 + "...'"),
        ("\U0001f600" * 5, "'" + "\\U0001f600" * 3 + "...'"),
    ],
)
def test_quoted_data(raw, text):
    assert quoted(raw) == text


def test_quoted_names():
    assert quoted_name("Größe ٣ высота") == "'Größe ٣ высота'"
    assert quoted_name("a\u202e\x1b") == "'a\\u202e\\x1b'"
    assert quoted_name("д" * 40) == f"'{'д' * 40}'"
    assert quoted_name("д" * 41) == f"'{'д' * 37}...'"


def test_columns_are_named_as_they_are_called(tmp_path, capsys):
    table, store = tmp_path / "t.csv", tmp_path / "store"
    table.write_text("рост,größe,y\n1,2,0\n3,4,1\n")
    assert main(["split", str(table), str(store), "--target", "y", "-q"]) == 0
    table.write_text("рост,y\n1,0\n")
    assert main(["add", str(store), str(table), "-q"]) == 3
    assert "no column 'größe', of kind number" in capsys.readouterr().err


def test_what_is_shown_of_names():
    assert shown("/data/Übung 1.svm") == "/data/Übung 1.svm"
    assert shown(EVIL) == TAMED
    assert shown("b\udce9") == "b\\xe9"
    assert len(shown("x" * 1_000_000)) < 10_000
    error = InputFormatError(EVIL, 1, 2, "wrong\x07", "mend\nit")
    assert str(error) == f"{TAMED}:1:2: wrong\\x07\n  fix: mend\\nit"


@pytest.mark.parametrize("content", [b"1 1:nan\n", b"1 1:1\n", b"1 1:1", b""])
@pytest.mark.parametrize("command", ["split", "check", "predict", "info", "verify", "convert"])
def test_names_of_files(command, content, tmp_path, capsys):
    path, model = tmp_path / EVIL, tmp_path / "model"
    path.write_bytes(content)
    model.write_text(
        "solver_type L2R_L2LOSS_SVC_DUAL\nnr_class 2\nlabel 1 -1\nnr_feature 1\nbias -1\nw\n0.5\n"
    )
    more = {
        "split": [str(tmp_path / "store")], "predict": [str(model), str(tmp_path / "out")],
        "convert": [str(tmp_path / "out"), "--to", "native"],
    }  # fmt: skip
    main([command, str(path), *more.get(command, [])])
    out, err = capsys.readouterr()
    for line in (out + err).splitlines():
        assert line.isprintable()
        assert not line.startswith("blocklinear: all is well")
    if command == "split":
        main(["info", str(tmp_path / "store")])
        assert all(line.isprintable() for line in "".join(capsys.readouterr()).splitlines())


def test_arguments_that_make_no_sense(capsys):
    with pytest.raises(SystemExit):
        main(["info", "store", "--\x1b[2J"])
    assert "\x1b" not in capsys.readouterr().err


def test_free_space_is_told_of_disks_only(tmp_path):
    def full(path):
        with pytest.raises(StorageError) as caught, storage_errors(path, "write"):
            raise OSError(28, "No space left on device")
        return str(caught.value)

    assert "KiB free" in full(tmp_path / "file")
    assert "KiB free" not in full("/dev/full")
    assert "another device" in full("/dev/full")


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_open_files_are_not_taken_for_a_disk(tmp_path, number):
    with pytest.raises(StorageError) as caught, storage_errors(tmp_path / "file", "write"):
        raise OSError(number, os.strerror(number))
    assert "ulimit -n" in str(caught.value)


def test_memory_is_not_taken_for_a_disk(tmp_path):
    with pytest.raises(MemoryBudgetError) as caught, storage_errors(tmp_path / "file", "map"):
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
    assert "file: map failed: Cannot allocate memory" in str(caught.value)
    assert "ulimit -v" in str(caught.value)
