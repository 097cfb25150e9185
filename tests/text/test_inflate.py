import struct
import zlib

import pytest

from blocklinear.text import sources

TEXT = b"1 1:0.5 2:0.25\n-1 3:1\n" * 3


def member():
    """A member of a gz file whose header has every optional field, and a checksum."""
    fields = struct.pack("<H", 4) + b"abcd" + b"name\0" + b"comment\0"
    header = b"\x1f\x8b\x08" + bytes([2 | 4 | 8 | 16]) + bytes(5) + b"\x03" + fields
    packer = zlib.compressobj(wbits=-15)
    body = packer.compress(TEXT) + packer.flush()
    trailer = struct.pack("<II", zlib.crc32(TEXT), len(TEXT))
    return header + struct.pack("<H", zlib.crc32(header) & 0xFFFF) + body + trailer


def outcome(packed, step):
    """What comes out, whether the end is proven, and what follows it; None if it is refused."""
    inflater, out = sources.Inflater(), b""
    try:
        for start in range(0, len(packed), step):
            out += inflater.decompress(packed[start : start + step], 10)
            while not inflater.eof and not inflater.needs_input:
                out += inflater.decompress(b"", 10)
            if inflater.eof:
                return out, True, inflater.unused_data + packed[start + step :]
    except sources.inflating().error:
        return None
    return out, False, b""


def test_zlib_ng_is_used_where_it_is_installed():
    pytest.importorskip("zlib_ng")
    assert sources.inflating().__name__ == "zlib_ng.zlib_ng"


def test_zlib_does_where_it_is_not(without_zlib_ng):
    assert sources.inflating() is zlib


@pytest.mark.parametrize("kind", ["gz", "gz-zlib"], indirect=True)
@pytest.mark.parametrize("step", [1, 7, 1000])
def test_a_header_may_come_in_pieces(kind, step):
    assert outcome(member() + b"next", step) == (TEXT, True, b"next")


@pytest.mark.parametrize("step", [1, 1000])
def test_zlib_ng_finds_every_fault_that_zlib_finds(step, request):
    pytest.importorskip("zlib_ng")
    whole = member()
    cases = [whole[:length] for length in range(len(whole))]
    for bit in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        cases.append(bytes(damaged))
    found = [outcome(case, step) for case in cases]
    request.getfixturevalue("without_zlib_ng")
    assert found == [outcome(case, step) for case in cases]
    assert (TEXT, True, b"") not in found[: len(whole)]
