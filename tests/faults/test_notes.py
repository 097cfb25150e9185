"""What is odd about an input that is read all the same, and what the user said of it before."""

import gzip
import hashlib
import lzma
import os
import pty
from functools import partial

import programs
import pytest
import zstandard

from blocklinear.cli.main import main
from blocklinear.store.manifest import Manifest

TEXT = b"1 1:1\n-1 2:1\n1 1:4\n"
GZ = partial(gzip.compress, mtime=0)  # the same bytes whenever tests are collected
BARE = zstandard.ZstdCompressor(write_checksum=False).compress
CHECKED = zstandard.ZstdCompressor(write_checksum=True).compress
NO_CHECKSUM = "the input carries no checksum"


@pytest.fixture
def write(tmp_path):
    def make(content, name="data.svm"):
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return make


# checksums


@pytest.mark.parametrize(
    ("content", "warned"),
    [
        (BARE(TEXT), True),
        (CHECKED(TEXT), False),
        (CHECKED(TEXT) + BARE(TEXT) + BARE(TEXT), True),
        (lzma.compress(TEXT, check=lzma.CHECK_NONE), True),
        (lzma.compress(TEXT, check=lzma.CHECK_CRC32), False),
        (GZ(TEXT), False),
        (TEXT, False),
    ],
)
def test_an_input_without_checksum(content, warned, write, split):
    path = write(content)
    assert split(path).err.count(f"warning: {path}: {NO_CHECKSUM}") == warned


# names


@pytest.mark.parametrize(
    ("name", "content", "found"),
    [
        ("a.gz", TEXT, "plain text"),
        ("a.svm.gz", CHECKED(TEXT), "a zst stream"),
        ("a.zst", TEXT, "plain text"),
        ("a.xz", GZ(TEXT), "a gz stream"),
        ("a.gz", GZ(TEXT), None),
        ("a.svm", GZ(TEXT), None),
        ("gz", TEXT, None),
    ],
)
def test_a_name_that_does_not_fit(name, content, found, write, split):
    path, suffix = write(content, name), f".{name.split('.')[-1]}"
    expected = f"warning: {path}: named {suffix}, but read as {found}, which it is\n"
    assert split(path).err == (expected if found else "")


def test_every_command_that_reads_says_so(write, tmp_path, capsys):
    path = write(BARE(b"1 1:1\n-1 2:1"), "a.gz")
    (tmp_path / "model").write_text(
        "solver_type L2R_L2LOSS_SVC_DUAL\nnr_class 2\nlabel 1 -1\nnr_feature 1\nbias -1\nw\n0.5\n"
    )
    model, output = str(tmp_path / "model"), str(tmp_path / "out")
    for command in (["split", str(path), output, "-q"], ["predict", str(path), model, output],
                    ["check", str(path)]):  # fmt: skip
        if os.path.isdir(output):
            output += "2"
            command[-1] = output
        assert main(command) == 0
        err = capsys.readouterr().err
        assert f"warning: {path}: named .gz, but read as a zst stream" in err
        assert f"warning: {path}: {NO_CHECKSUM}" in err
        assert f"warning: {path}: no newline at the end" in err


# what is expected


@pytest.mark.parametrize("kind", ["file", "stream"])
@pytest.mark.parametrize("lost", [0, 6])
def test_the_number_of_rows_is_expected(kind, lost, write, tmp_path):
    path, store = write(TEXT[: len(TEXT) - lost]), tmp_path / "store"
    name = str(path) if kind == "file" else "-"
    with open(path, "rb") as stream:
        done = programs.blocklinear("split", name, store, "--expect-rows", 3, stdin=stream)
    assert (done.returncode, store.exists()) == ((3, False) if lost else (0, True))
    if lost:
        assert done.stderr.startswith(f"blocklinear: {name}: 2 rows, not the 3 expected")
        assert "cut short" in done.stderr
        assert [file.name for file in tmp_path.iterdir()] == ["data.svm"]


def test_rows_of_all_inputs_are_expected(write, split):
    one, two = write(TEXT, "one"), write(b"1 1:1\n\nx\n", "two")
    options = ["--on-error", "skip", "--expect-rows"]
    assert split(one, two, options=[*options, "5"]).code == 0
    err = split(one, two, code=3, options=[*options, "4"]).err
    assert "5 rows, not the 4 expected" in err
    assert "cut short" not in err


@pytest.mark.parametrize("pack", [bytes, GZ, CHECKED])
def test_the_digest_is_expected(pack, write, split):
    path = write(pack(TEXT))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert split(path, options=["--expect-sha256", digest.upper()]).code == 0
    err = split(path, code=3, options=["--expect-sha256", "0" * 64]).err
    assert f"{path}: the SHA-256 is {digest}, not the one expected" in err
    err = split(path, path, code=2, options=["--expect-sha256", digest]).err
    assert "--expect-sha256 is for an only input" in err


@pytest.mark.parametrize("options", [[], ["--sha256"], ["--expect-sha256"]])
def test_the_digest_is_recorded_when_asked_for(options, write, split):
    path = write(TEXT)
    digest = hashlib.sha256(TEXT).hexdigest()
    split(path, options=options + [digest] * (options == ["--expect-sha256"]))
    (source,) = Manifest.load(path.parent / "out" / "store0").batches[0]["sources"]
    assert source["sha256"] == (digest if options else None)


# terminals and streams


def test_a_terminal_is_not_waited_for(tmp_path):
    controller, terminal = pty.openpty()
    done = programs.blocklinear("split", "-", tmp_path / "s", stdin=terminal)
    os.close(controller)
    os.close(terminal)
    assert (done.returncode, "standard input is a terminal" in done.stderr) == (2, True)
    assert list(tmp_path.iterdir()) == []


def test_blocks_in_file_order_need_a_known_size(write, tmp_path, split):
    path, store = write(TEXT), tmp_path / "store"
    options = ["--order", "file", "--blocks", "2"]
    assert len(split(path, options=options).blocks) == 2
    done = programs.blocklinear("split", "-", store, *options, input=TEXT)
    assert (done.returncode, store.exists()) == (2, False)
    assert "the size of a stream is known only at its end: 2 blocks cannot" in done.stderr


def test_a_file_replaced_meanwhile(tmp_path):
    from blocklinear.errors import StorageError
    from blocklinear.options import TextOptions
    from blocklinear.text import read_rows

    path, other = tmp_path / "data", tmp_path / "other"
    path.write_bytes(TEXT)
    reading = read_rows([path], TextOptions(threads=1))
    next(reading)
    other.write_bytes(TEXT)
    os.utime(other, ns=(path.stat().st_mtime_ns,) * 2)
    other.rename(path)  # same size and time: another file all the same
    with pytest.raises(StorageError, match="the file changed while it was read"):
        list(reading)
