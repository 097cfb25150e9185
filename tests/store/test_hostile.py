"""Files made to do harm, every checksum in them right, are refused before any array is used."""

import struct
from dataclasses import replace

import numpy as np
import pytest
import zstandard

from blocklinear.errors import DamagedError, MismatchError
from blocklinear.store.manifest import FORMAT, Manifest
from blocklinear.store.store import BlockStore

from .build import HandMadeChunk, load, rows_in, store_of_chunk


def test_the_hand_made_chunk_is_whole(tmp_path):
    manifest = store_of_chunk(tmp_path / "s", bytes(HandMadeChunk()))
    group = load(tmp_path / "s", manifest, [0])
    rows = {0: (1.0, {0: 5.0, 2: 0.6}), 1: (2.0, {0: 7.0}), 2: (1.0, {})}
    assert rows_in(group) == rows
    squeezed = HandMadeChunk()
    squeezed.pack = zstandard.ZstdCompressor().compress
    manifest = store_of_chunk(tmp_path / "z", bytes(squeezed), compression="zstd:1")
    assert rows_in(load(tmp_path / "z", manifest, [0])) == rows


def wide(*numbers):
    """Return the eight planes of uint64 numbers."""
    array = np.array(numbers, "<u8").view(np.uint8).reshape(-1, 8).T
    return [plane.tobytes() for plane in array]


def doubles(chunk, *numbers):
    chunk.fields["doubles"] = len(numbers)
    chunk.doubles = wide(*np.array(numbers, np.float64).view(np.uint64))


HOSTILE = {}


def hostile(change):
    HOSTILE[change.__name__] = change
    return change


@hostile
def index_past_the_features(c):
    c.gaps = [bytes([1, 2, 1])]


@hostile
def index_below_the_base(c):  # two rows that begin with index 0, where the base is 1
    c.fields["gap_bits"], c.gaps = 0, []


@hostile
def index_that_wraps_around(c):
    c.gaps, c.fields["gap_bits"] = [b"\1\xff\1", *[b"\0\xff\0"] * 3], 32


@hostile
def lengths_too_long(c):
    c.lengths = bytes([2, 2, 0])


@hostile
def lengths_too_short(c):
    c.lengths = bytes([1, 1, 0])


@hostile
def lengths_negative(c):
    c.lengths, c.fields["length_width"] = b"".join(wide(2**64 - 1, 4, 0)), 8


@hostile
def lengths_that_wrap_around(c):
    c.lengths = b"".join(wide(2**63 - 1, 2**63 - 1, 5))
    c.fields["length_width"] = 8


@hostile
def exponent_past_the_last(c):
    c.exponents = bytes([0, 23])


@hostile
def exponent_of_the_slow_path(c):
    c.exponents = bytes([0, 254])


@hostile
def no_exponents(c):
    c.exponents = b""


@hostile
def more_exponents_than_there_are(c):
    c.exponents = bytes(25)


@hostile
def code_of_no_exponent(c):
    c.codes = bytes([0, 2, 0])


@hostile
def code_of_no_exponent_packed(c):
    c.codes, c.fields["code_bits"] = bytes([0b10_01_10_00]), 2


@hostile
def double_that_is_not_there(c):
    c.exponents = bytes([0, 255])


@hostile
def double_that_nobody_uses(c):
    doubles(c, 1.5)


@hostile
def double_nan(c):
    doubles(c, np.nan)
    c.exponents = bytes([0, 255])


@hostile
def double_infinite(c):
    doubles(c, -np.inf)
    c.exponents = bytes([0, 255])


@hostile
def more_doubles_than_entries(c):
    doubles(c, 1.5, 1.5, 1.5, 1.5)


@hostile
def label_exponent(c):
    c.label_exponents = bytes([0, 23, 0])


@hostile
def label_nan(c):
    c.label_exponents, c.fields["label_doubles"] = bytes([0, 255, 0]), 1
    c.label_doubles = struct.pack("<d", np.nan)


@hostile
def more_label_doubles_than_rows(c):
    c.fields["label_doubles"], c.label_doubles = 4, bytes(32)


@hostile
def label_double_that_is_not_there(c):
    c.label_exponents = bytes([255, 0, 0])


for _field, _name in {
    "length_width": "lengths", "row_width": "row_gaps", "label_width": "labels"
}.items():  # fmt: skip

    def _too_wide(c, field=_field, name=_name):
        c.fields[field] = 9
        setattr(c, name, bytes(27))

    HOSTILE[f"{_field}_impossible"] = _too_wide

for _field, _bits in [
    ("gap_bits", 33), ("gap_bits", 40), ("gap_bits", 7), ("bits", 65), ("bits", 72), ("bits", 3),
    ("code_bits", 16), ("code_bits", 5),
]:  # fmt: skip

    def _too_many_bits(c, field=_field, bits=_bits):
        c.fields[field] = bits
        planes = [bytes(3)] * ((bits + 7) // 8)
        if field == "code_bits":
            c.codes, c.mantissas = planes[0], c.mantissas + planes[1:]
        else:
            setattr(c, {"gap_bits": "gaps", "bits": "mantissas"}[field], planes)

    HOSTILE[f"{_field}_{_bits}"] = _too_many_bits

for _field in ("rows", "nnz", "doubles", "label_doubles"):

    def _too_many(c, field=_field):
        c.fields[field] = 2**32 - 1

    HOSTILE[f"{_field}_huge"] = _too_many


@hostile
def magic(c):
    c.fields["magic"] = b"BLKD"


@hostile
def frames_missing(c):
    c.n_frames = 3


@hostile
def frames_many(c):
    c.n_frames = 65535


@hostile
def frame_lengths_short(c):
    c.frame_lengths = [9, 3, 3, 2]


@hostile
def frame_lengths_long(c):
    c.frame_lengths = [9, 3, 3, 2**32 - 1]


@hostile
def frame_lengths_shifted(c):
    c.frame_lengths = [9, 2, 4, 3]


@hostile
def first_row_too_high(c):
    c.fields["first_row"] = 98  # rows 98, 99, 100 of a store of 100 numbers


@hostile
def first_row_negative(c):
    c.fields["first_row"] = 2**64 - 1


@hostile
def first_row_beyond_int64(c):
    c.fields["first_row"] = 2**63


@hostile
def row_gap_negative(c):
    c.row_gaps, c.fields["row_width"] = b"".join(wide(0, 2**64 - 3, 5)), 8
    c.fields["first_row"] = 10  # rows 10, 8, 14: each a number of the store


@hostile
def row_gap_that_wraps_around(c):
    c.row_gaps, c.fields["row_width"] = b"".join(wide(2**63 - 1, 2**62, 0)), 8


@pytest.mark.parametrize("compression", ["none", "zstd:1"])
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_chunk_is_refused(tmp_path, name, compression):
    chunk = HandMadeChunk()
    HOSTILE[name](chunk)
    if compression != "none":
        chunk.pack = zstandard.ZstdCompressor(write_checksum=True).compress
    manifest = store_of_chunk(tmp_path / "s", bytes(chunk), compression=compression)
    with pytest.raises(DamagedError, match=r"b00000000\.blk: damaged: ") as caught:
        load(tmp_path / "s", manifest, [0])
    assert caught.value.exit_code == 4
    if name.startswith("lengths"):  # found before anything is read by them
        assert "the row lengths do not add up" in str(caught.value)
    report = BlockStore.open(tmp_path / "s").verify()
    assert len(report.faults) == 1


def uncounted(frame):
    return zstandard.ZstdCompressor(write_content_size=False).compress(frame)


def bomb(frame):
    return zstandard.ZstdCompressor().compress(bytes(1 << 20))


@pytest.mark.parametrize(
    "pack",
    [
        lambda frame: frame + b"\0",  # no zstd frame at all
        uncounted,
        bomb,
        lambda frame: zstandard.ZstdCompressor().compress(frame + b"\0"),
        lambda frame: zstandard.ZstdCompressor().compress(frame[:-1]),
        lambda frame: zstandard.ZstdCompressor().compress(frame) + b"\0",
        lambda frame: zstandard.ZstdCompressor().compress(frame)[:-1],
        lambda frame: b"",
    ],
    ids=["no-frame", "no-size", "bomb", "longer", "shorter", "more-behind", "cut", "empty"],
)
def test_a_hostile_frame_is_refused(tmp_path, pack):
    chunk = HandMadeChunk()
    chunk.pack = pack
    manifest = store_of_chunk(tmp_path / "s", bytes(chunk), compression="zstd:1")
    with pytest.raises(DamagedError, match=r"b00000000\.blk: damaged: "):
        load(tmp_path / "s", manifest, [0])


@pytest.mark.parametrize("length", [0, 1, 40, 45, 60])
def test_a_cut_chunk_is_refused(tmp_path, length):
    manifest = store_of_chunk(tmp_path / "s", bytes(HandMadeChunk())[:length])
    with pytest.raises(DamagedError, match="damaged"):
        load(tmp_path / "s", manifest, [0])


def test_a_value_that_float32_cannot_hold_is_refused(tmp_path):
    chunk = HandMadeChunk()
    doubles(chunk, 1e39)
    chunk.exponents = bytes([0, 255])
    manifest = store_of_chunk(tmp_path / "s", bytes(chunk), dtype="float32")
    with pytest.raises(DamagedError, match="float32"):
        load(tmp_path / "s", manifest, [0])


@pytest.mark.parametrize(("rows", "nnz"), [(2, 3), (3, 2), (4, 3), (3, 4), (0, 3), (3, 0), (0, 0)])
def test_a_table_that_disagrees_with_the_chunk_is_refused(tmp_path, rows, nnz):
    manifest = store_of_chunk(tmp_path / "s", bytes(HandMadeChunk()), rows, nnz)
    with pytest.raises(DamagedError, match="does not fit the table"):
        load(tmp_path / "s", manifest, [0])


def test_a_manifest_that_disagrees_with_the_table_is_refused(tmp_path):
    manifest = store_of_chunk(tmp_path / "s", bytes(HandMadeChunk()))
    record = replace(manifest.blocks[0], rows=4)
    with pytest.raises(DamagedError, match="table does not fit the manifest"):
        load(tmp_path / "s", replace(manifest, blocks=[record]), [0])


@pytest.mark.parametrize("n_bytes", [0, 1 << 40, (1 << 62) - 1])
def test_the_size_of_a_block_is_compared_before_memory_is_taken(tmp_path, n_bytes):
    manifest = store_of_chunk(tmp_path / "s", bytes(HandMadeChunk()))
    record = replace(manifest.blocks[0], bytes=n_bytes)
    store = BlockStore(tmp_path / "s", replace(manifest, blocks=[record]))
    with pytest.raises(DamagedError, match=f"the manifest says {n_bytes}"):
        load(store.folder, store.manifest, [0])
    (fault,) = store.verify().faults
    assert f"the manifest says {n_bytes}" in fault


def test_an_empty_file_is_no_block(tmp_path):
    manifest = store_of_chunk(tmp_path / "s", bytes(HandMadeChunk()))
    record = replace(manifest.blocks[0], bytes=0)
    (tmp_path / "s" / "blocks" / record.name).write_bytes(b"")
    with pytest.raises(DamagedError, match="too short for a block"):
        load(tmp_path / "s", replace(manifest, blocks=[record]), [0])


def test_a_newer_store_is_not_called_damaged(tmp_path):
    manifest = store_of_chunk(tmp_path / "s", bytes(HandMadeChunk()), format=FORMAT + 1)
    assert manifest.format == FORMAT + 1
    with pytest.raises(MismatchError, match=f"format {FORMAT + 1}"):
        Manifest.load(tmp_path / "s")


@pytest.mark.parametrize("checksum", [False, True])
@pytest.mark.parametrize(
    "change",
    [
        lambda frame: frame + b"x",
        lambda frame: frame + bytes(16),
        lambda frame: frame + frame,
        lambda frame: frame[:-1],
        lambda frame: frame[:-5],
    ],
    ids=["byte_after", "zeros_after", "frame_after", "cut", "cut_further"],
)
def test_a_frame_must_be_whole_and_alone(tmp_path, change, checksum):
    chunk = HandMadeChunk()
    compress = zstandard.ZstdCompressor(level=1, write_checksum=checksum).compress

    def packed(made):
        return lambda frame: made(compress(frame)) if frame == chunk.mantissas[0] else frame

    for name, made in (("whole", bytes), ("changed", change)):
        chunk.pack = packed(made)
        manifest = store_of_chunk(tmp_path / name, bytes(chunk), compression="zstd:1")
        if made is bytes:
            assert load(tmp_path / name, manifest, [0]).n_rows == 3
        else:
            with pytest.raises(DamagedError, match=r"b00000000\.blk: damaged: "):
                load(tmp_path / name, manifest, [0])
