import numpy as np
import pytest
import zstandard

from blocklinear.text import digest


def xxh64(data):
    return int(digest.xxh64(np.frombuffer(data, np.uint8)))


def test_published_values():
    assert xxh64(b"") == 0xEF46DB3751D8E999
    assert xxh64(b"abc") == 0x44BC2CF5AD770999


@pytest.mark.parametrize("n", [*range(1, 80), 1000, 4097, 70_001])
def test_zstd_computes_the_same(n):
    """The checksum of a zstd frame is the low half of the XXH64 of its content (RFC 8878)."""
    data = np.random.default_rng(n).bytes(n)
    frame = zstandard.ZstdCompressor(write_checksum=True).compress(data)
    assert xxh64(data) & 0xFFFFFFFF == int.from_bytes(frame[-4:], "little")


def test_where_the_bytes_lie_does_not_matter():
    data = np.random.default_rng(0).bytes(100)
    for shift in range(9):
        assert xxh64((bytes(shift) + data)[shift:]) == xxh64(
            memoryview(bytes(shift) + data)[shift:]
        )


@pytest.mark.parametrize("step", [1, 5, 31, 32, 33, 64, 1000])
def test_bytes_that_come_in_pieces(step):
    data = np.random.default_rng(step).bytes(1000)
    for n in (0, 1, 31, 32, 33, 63, 64, 999, 1000):
        whole = digest.Digest()
        for start in range(0, n, step):
            whole.update(data[start : min(start + step, n)])
        assert whole.hexdigest() == f"{xxh64(data[:n]):016x}"
