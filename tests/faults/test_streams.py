"""Compressed input that is whole, cut, joined, padded or hostile, through the command line."""

import bz2
import gzip
import lzma
from functools import partial

import programs
import pytest
import zstandard

TEXT = "".join(f"{k % 2} {k}:{k / 7} {k + 1}:1\n" for k in range(1, 300)).encode()
PACK = {
    "gz": partial(gzip.compress, mtime=0),
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": zstandard.ZstdCompressor(write_checksum=True).compress,
}


@pytest.fixture
def write(tmp_path):
    def make(content, name="data.svm"):
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return make


def test_the_store_is_that_of_the_plain_file(kind, write, split):
    plain = split(write(TEXT)).blocks
    assert split(write(PACK[kind](TEXT))).blocks == plain
    half = TEXT.index(b"\n", len(TEXT) // 2) - 3  # members may meet within a line
    parts = PACK[kind](TEXT[:half]) + PACK[kind](b"") + PACK[kind](TEXT[half:])
    assert split(write(parts)).blocks == plain


@pytest.mark.parametrize("loss", [1, 8, "half"])
def test_a_cut_stream(kind, loss, write, split):
    packed = PACK[kind](TEXT)
    left = len(packed) // 2 if loss == "half" else len(packed) - loss
    path = write(packed[:left], f"data.svm.{kind}")
    err = split(path, code=3).err
    assert f"{path}: the {kind} stream ends before its end mark, after {left} bytes" in err


def test_a_second_member_that_is_cut(kind, write, split):
    packed = PACK[kind](TEXT) + PACK[kind](TEXT)[:-1]
    assert f"the {kind} stream ends before" in split(write(packed), code=3).err


def test_garbage_after_the_stream(kind, write, split):
    packed = PACK[kind](TEXT)
    err = split(write(packed + b"1 1:1\n"), code=3).err
    assert "data after the end of" in err
    assert f"at byte {len(packed)}" in err


def test_zeros_after_the_stream(kind, write, split):
    padded = write(PACK[kind](TEXT) + bytes(512))
    split(padded, code=0 if kind in ("gz", "xz") else 3)


def test_a_wrong_checksum(kind, write, split):
    packed = bytearray(PACK[kind](TEXT))
    # where the checksum of the content lies, counted from the end
    packed[{"gz": -8, "bz2": -4, "xz": -40, "zst": -1}[kind]] ^= 1
    assert f"damaged {kind} stream" in split(write(packed), code=3).err


@pytest.mark.parametrize("kind", ["gz", "gz-zlib", "zst"], indirect=True)
def test_a_bomb_without_a_newline_meets_the_bound_of_a_line(kind, write, split):
    packed = PACK[kind](b"1" + b" " * (24 << 20))
    assert len(packed) < 1 << 16
    err = split(write(packed), code=3, options=["--memory", "98M"]).err
    assert "1:4718593: the line is longer than 4.5M" in err


def test_an_empty_stream_has_no_rows(write, split):
    for pack in PACK.values():
        assert "no rows" in split(write(pack(b"")), code=3).err


def test_a_line_is_named_within_an_archive(write, split):
    path = write(PACK["zst"](TEXT + b"1 2:1 1:1\n"), "data.svm.zst")
    assert f"{path}:300:7: index 1 follows a larger one" in split(path, code=3).err


def test_a_large_window(write, split):
    header = b"\x28\xb5\x2f\xfd\x00" + bytes([(30 - 10) << 3])
    err = split(write(header + b"\x01\x00\x00" + bytes(16)), code=3).err
    assert "the zst stream needs a window of 1G, more than 128M" in err
    assert "--long=31" in err


def test_the_name_does_not_matter(write, split):
    plain = split(write(TEXT)).blocks
    assert split(write(PACK["zst"](TEXT), "data.gz")).blocks == plain
    assert split(write(TEXT, "data.zst")).blocks == plain


@pytest.mark.parametrize("kind", ["gz", "xz"])
def test_a_cut_stream_on_standard_input(kind, tmp_path):
    done = programs.blocklinear("split", "-", tmp_path / "s", input=PACK[kind](TEXT)[:-8])
    assert done.returncode == 3
    assert f"blocklinear: -: the {kind} stream ends before its end mark" in done.stderr
    assert list(tmp_path.iterdir()) == []
