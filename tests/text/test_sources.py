import bz2
import contextlib
import gzip
import hashlib
import io
import lzma
import os
import random
import resource
import threading
from functools import partial

import pytest
import xxhash
import zstandard

from blocklinear.errors import InputError, StorageError, UsageError
from blocklinear.inputs.raw import RawFile, digest_of
from blocklinear.options import TextOptions
from blocklinear.text.sources import Source

PACK = {
    "gz": partial(gzip.compress, mtime=0),
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": zstandard.ZstdCompressor(write_checksum=True).compress,
}
SKIPPABLE = b"\x5a\x2a\x4d\x18\x04\x00\x00\x00meta"
TEXT = "".join(f"{k % 3} {k}:{k / 7}\n" for k in range(1, 400)).encode()


def content(path, step=1000):
    """All a source gives, read `step` bytes at a time."""
    out, buffer = b"", bytearray(step)
    with Source(str(path), TextOptions()) as source:
        while n := source.readinto(memoryview(buffer)):
            out += buffer[:n]
        assert source.readinto(memoryview(buffer)) == 0  # the end stays the end
        source.raw.finish()
    return out


@pytest.fixture
def write(tmp_path):
    """A factory of files: bytes in, path out; its name says nothing."""

    def make(raw):
        path = tmp_path / "data"
        path.write_bytes(raw)
        return path

    return make


@pytest.mark.parametrize("step", [1, 1000, 1 << 20])
def test_content_is_what_was_packed(kind, step, write):
    assert content(write(PACK[kind](TEXT)), step) == TEXT


def test_members_follow_each_other(kind, write):
    pack = PACK[kind]
    assert content(write(pack(TEXT) + pack(b"") + pack(b"1 1:1\n"))) == TEXT + b"1 1:1\n"


def test_members_may_meet_anywhere_in_what_is_read_at_once(kind, write, monkeypatch):
    monkeypatch.setattr("blocklinear.inputs.raw.READ_BYTES", 5)
    monkeypatch.setattr("blocklinear.inputs.raw.RawFile.read", _read_in_fives)
    pack = PACK[kind]
    for length in range(4, 12):
        assert content(write(pack(b"1" * length) + pack(b"2"))) == b"1" * length + b"2"


def _read_in_fives(raw, n=5):
    buffer = bytearray(min(n, 5))
    return bytes(buffer[: raw.readinto(memoryview(buffer))])


def test_every_cut_of_a_small_stream_is_refused(kind, write):
    packed = PACK[kind](b"1 1:0.5 2:0.25\n-1 3:1\n" * 3)
    for length in range(6, len(packed)):
        with pytest.raises(InputError, match=f"{kind} stream ends before its end mark"):
            content(write(packed[:length]))


@pytest.mark.parametrize("loss", [1, 8, None])
def test_a_cut_stream_is_refused(kind, loss, write):
    packed = PACK[kind](random.Random(0).randbytes(300_000))
    with pytest.raises(InputError, match=f"{kind} stream ends before its end mark, after"):
        content(write(packed[: -(loss or len(packed) // 2)]))


@pytest.mark.parametrize("junk", [b"x", b"1 1:1\n", b"BZ", b"\x1f", b"\x28\xb5\x2f", b"\0x" * 5])
def test_what_follows_a_stream_is_refused(kind, junk, write):
    packed = PACK[kind](TEXT)
    with pytest.raises(InputError, match=r"data after the end|before its end mark") as raised:
        content(write(packed + junk))
    if "after the end" in str(raised.value):
        assert f"at byte {len(packed)}" in str(raised.value) or junk[0] == 0


def test_the_offset_of_what_follows_is_right_at_the_border_of_a_read(kind, write, monkeypatch):
    monkeypatch.setattr("blocklinear.inputs.raw.RawFile.read", _read_in_fives)
    for length in range(5):
        packed = PACK[kind](b"1" * length)
        with pytest.raises(InputError, match=f"at byte {len(packed)}\n"):
            content(write(packed + b"xyzzy 1:1"))


def test_zero_padding(kind, write):
    padded = write(PACK[kind](TEXT) + bytes(2048))
    if kind in ("gz", "xz"):
        assert content(padded) == TEXT
    else:
        with pytest.raises(InputError, match=r"after the end of|damaged"):
            content(padded)


def test_a_flipped_bit_is_found_or_harmless(kind, write):
    packed, rng = PACK[kind](TEXT), random.Random(1)
    found = 0
    for _ in range(100):
        damaged = bytearray(packed)
        damaged[rng.randrange(6, len(packed))] ^= 1 << rng.randrange(8)
        try:
            same = content(write(damaged)) == TEXT
        except InputError:
            found += 1
        else:
            assert same
    assert found > 50


def test_skippable_frames_are_skipped(write):
    pack = PACK["zst"]
    frames = pack(TEXT) + SKIPPABLE + pack(b"1\n") + SKIPPABLE
    assert content(write(frames)) == TEXT + b"1\n"
    assert content(write(SKIPPABLE + frames)) == TEXT + b"1\n"
    with pytest.raises(InputError, match="ends before its end mark"):
        content(write(SKIPPABLE[:-1]))


def test_a_frame_with_neither_size_nor_checksum(write):
    packer = zstandard.ZstdCompressor(write_checksum=False, write_content_size=False)
    text = TEXT[:400]
    packed = packer.compress(text)
    assert content(write(packed)) == text
    for length in range(6, len(packed)):
        with pytest.raises(InputError, match="ends before its end mark"):
            content(write(packed[:length]))


@pytest.mark.parametrize("power", [28, 30, 31])
def test_a_window_beyond_the_bound_is_refused(power, write):
    # frame header: no size, no checksum; window descriptor: exponent - 10
    header = b"\x28\xb5\x2f\xfd\x00" + bytes([(power - 10) << 3])
    with pytest.raises(InputError, match=r"needs a window of .*\n  fix: .*--long"):
        content(write(header + b"\x01\x00\x00" + bytes(12)))


@pytest.mark.parametrize("single_segment", [True, False])
def test_a_forged_content_size_reserves_nothing(single_segment, write):
    size = (1 << 40).to_bytes(8, "little")
    header = b"\xe0" + size if single_segment else b"\xc0\x50" + size
    raw_block = (1 | 3 << 3).to_bytes(3, "little") + b"1 \n"
    with pytest.raises(InputError, match=r"window|damaged"):
        content(write(b"\x28\xb5\x2f\xfd" + header + raw_block))


def test_a_bomb_comes_out_in_pieces(kind, write):
    pack = zstandard.compress if kind == "zst" else PACK[kind]
    path = write(pack(bytes(32 << 20)))
    with Source(str(path), TextOptions()) as source:
        largest = max(len(piece) for piece in source._content)
    assert largest <= 1 << 20


def test_the_kind_is_told_by_the_bytes(tmp_path):
    for name, kind in (("a.gz", "zst"), ("a.zst", "bz2"), ("a.svm", "xz"), ("a.bz2", "gz")):
        (tmp_path / name).write_bytes(PACK[kind](TEXT))
        assert Source(str(tmp_path / name), TextOptions()).kind == kind
        assert content(tmp_path / name) == TEXT
    (tmp_path / "plain.zst").write_bytes(TEXT)
    assert content(tmp_path / "plain.zst") == TEXT


@pytest.mark.parametrize("sha256", [False, True])
def test_digests_of_the_raw_bytes(write, sha256):
    packed = PACK["gz"](TEXT)
    raw = RawFile(str(write(packed)), sha256)
    assert raw.peek(3) == packed[:3]
    while raw.read(7):
        pass
    found = raw.finish()
    assert found["size"] == len(packed)
    digest = xxhash.xxh64_hexdigest(packed)
    assert found["xxh64"] == digest == digest_of(raw.path, "xxh64")
    expected = hashlib.sha256(packed).hexdigest()
    assert found["sha256"] == (expected if sha256 else None)
    assert digest_of(raw.path, "sha256") == expected


@pytest.mark.parametrize("change", ["append", "truncate", "touch"])
def test_a_file_that_changes_meanwhile(change, write):
    path = write(TEXT)
    raw = RawFile(str(path))
    raw.read(10)
    if change == "append":
        with open(path, "ab") as stream:
            stream.write(b"1\n")
    elif change == "truncate":
        os.truncate(path, 20)
    else:
        os.utime(path, ns=(1, 1))
    with pytest.raises(StorageError, match="changed while it was read"):
        raw.finish()


def test_a_file_of_that_name_elsewhere_is_another_one(tmp_path, monkeypatch):
    """A relative name means nothing in another folder, nor does that of standard input."""
    for folder in ("here", "there"):
        (tmp_path / folder).mkdir()
        for name in ("rows", "-"):
            (tmp_path / folder / name).write_bytes(TEXT)
    monkeypatch.chdir(tmp_path / "here")
    raw = RawFile("rows")
    with open("rows") as stream:
        monkeypatch.setattr("sys.stdin", stream)
        monkeypatch.chdir(tmp_path / "there")
        for one in (raw, RawFile("-")):
            assert one.read(len(TEXT)) == TEXT
            one.finish()
            one.close()


def test_a_folder_and_a_missing_file(tmp_path):
    before = os.listdir("/proc/self/fd")
    with pytest.raises(StorageError, match="is a folder"):
        Source(str(tmp_path), TextOptions())
    with pytest.raises(StorageError, match="No such file"):
        Source(str(tmp_path / "none"), TextOptions())
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_a_pipe(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    packed = PACK["zst"](TEXT * 50)
    writer = threading.Thread(target=path.write_bytes, args=(packed,), daemon=True)
    writer.start()
    assert content(path) == TEXT * 50
    writer.join()


def test_standard_input(write, monkeypatch):
    with open(write(PACK["bz2"](TEXT)), "rb") as stream:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(stream))
        assert content("-") == TEXT


def test_standard_input_is_a_terminal(monkeypatch):
    master, slave = os.openpty()
    with os.fdopen(slave) as terminal:
        monkeypatch.setattr("sys.stdin", terminal)
        with pytest.raises(UsageError, match="terminal"):
            RawFile("-")
    os.close(master)


def test_standard_input_is_closed(monkeypatch):
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(UsageError, match="closed"):
        RawFile("-")


@pytest.fixture
def many_descriptors():
    """So many open files that the next has a number that `select` does not take."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 1200
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"a process may have {hard} open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    with contextlib.ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        while True:
            descriptor = os.open(os.devnull, os.O_RDONLY)
            stack.callback(os.close, descriptor)
            if descriptor >= 1024:
                break
        yield


@pytest.mark.parametrize("name", ["fifo", "-", "/dev/fd"])
def test_a_pipe_whose_descriptor_has_a_large_number(name, tmp_path, many_descriptors, monkeypatch):
    if name == "fifo":
        path = str(tmp_path / "fifo")
        os.mkfifo(path)
        reading = writing = None
    else:
        reading, writing = os.pipe()
        assert reading > 1023
        path = f"/dev/fd/{reading}" if name == "/dev/fd" else name

    def write():
        with open(path if writing is None else writing, "wb") as stream:
            stream.write(TEXT)

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    with contextlib.ExitStack() as stack:
        if reading is not None:
            monkeypatch.setattr("sys.stdin", stack.enter_context(open(reading, "rb")))
        assert content(path) == TEXT
    writer.join()


def window_of(path, memory=1 << 30):
    with Source(str(path), TextOptions(memory_bytes=memory)) as source:
        return source.memory_bytes


@pytest.mark.parametrize("size", [4096, 6144, 1 << 20, 3 << 20, 12 << 20])
def test_the_window_of_an_xz_stream_is_known_before_it_is_read(size, write):
    delta = {"id": lzma.FILTER_DELTA, "dist": 4}
    filters = [delta, {"id": lzma.FILTER_LZMA2, "dict_size": size}]
    packed = lzma.compress(TEXT, filters=filters)
    assert window_of(write(packed)) == size
    assert content(write(packed)) == TEXT
    assert window_of(write(packed), 16 << 20) == min(size, 8 << 20)
    for n in range(6, 40):
        assert 0 <= window_of(write(packed[:n])) <= 128 << 20


@pytest.mark.parametrize("window_log", [10, 20, 25])
def test_the_window_of_a_zst_stream_is_known_before_it_is_read(window_log, write):
    how = zstandard.ZstdCompressionParameters.from_level(1, window_log=window_log)
    packing = zstandard.ZstdCompressor(compression_params=how).compressobj()
    packed = packing.compress(TEXT) + packing.flush()
    assert window_of(write(packed)) == 1 << window_log
    assert window_of(write(SKIPPABLE + packed)) == 0  # not looked for
    for n in range(4, 20):
        assert window_of(write(packed[:n])) in (0, 1 << window_log)


def test_other_streams_keep_little(write):
    for packed in (TEXT, gzip.compress(TEXT, mtime=0), bz2.compress(TEXT)):
        assert window_of(write(packed)) == 0
