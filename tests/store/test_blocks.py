import errno
import fcntl
import os
import zlib
from mmap import PAGESIZE, mmap

import numpy as np
import pytest

from blocklinear.errors import DamagedError, StorageError
from blocklinear.store.blocks import BlockFile, BlockWriter, checksum_of


def write(folder, number, *chunks):
    writer = BlockWriter(folder, number)
    for k, chunk in enumerate(chunks):
        writer.append([chunk], rows=k + 1, nnz=10 * k, max_index=7 - k)
    return writer.finish("b1")


def test_chunks_come_back(tmp_path):
    record = write(tmp_path, 12, b"one", b"", b"three")
    assert record.name == "b00000012.blk"
    assert (record.rows, record.nnz, record.max_index) == (6, 30, 7)
    assert record.bytes == (tmp_path / record.name).stat().st_size
    block = BlockFile(tmp_path, record)
    block.check_digest()
    stored = [(bytes(chunk.data), chunk.rows, chunk.nnz) for chunk in block.chunks()]
    assert stored == [(b"one", 1, 0), (b"", 2, 10), (b"three", 3, 20)]


def pages(size):
    return mmap(-1, -(-size // PAGESIZE) * PAGESIZE)


def no_direct_io(descriptor, buffers, offset, original=os.preadv):
    if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_DIRECT:
        raise OSError(errno.EINVAL, "the file system cannot")
    return original(descriptor, buffers, offset)


def a_page_at_a_time(descriptor, buffers, offset, original=os.preadv):
    return original(descriptor, [buffers[0][:PAGESIZE]], offset)


@pytest.mark.parametrize("size", [0, 1, PAGESIZE - 100, PAGESIZE, 100_000])
@pytest.mark.parametrize("allocate", [pages, bytearray])
@pytest.mark.parametrize("preadv", [os.preadv, no_direct_io, a_page_at_a_time])
def test_past_the_page_cache_a_block_is_the_same(tmp_path, monkeypatch, size, allocate, preadv):
    content = np.random.default_rng(size).bytes(size)
    record = write(tmp_path, 12, content, b"two")
    monkeypatch.setattr(os, "preadv", preadv)
    block = BlockFile(tmp_path, record, allocate, past_cache=True)
    assert bytes(block.data) == (tmp_path / record.name).read_bytes()
    assert [bytes(chunk.data) for chunk in block.chunks()] == [content, b"two"]


def test_past_the_page_cache_a_block_that_cannot_be_read_is_reported(tmp_path, monkeypatch):
    def broken(descriptor, buffers, offset):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    record = write(tmp_path, 12, b"one")
    monkeypatch.setattr(os, "preadv", broken)
    with pytest.raises(StorageError, match=r"b00000012\.blk: read failed"):
        BlockFile(tmp_path, record, pages, past_cache=True)


def test_checksums_are_the_published_xxh64():
    """Stores hold them: whatever works them out must agree."""
    assert checksum_of(b"") == 0xEF46DB3751D8E999
    assert checksum_of(memoryview(b"abc")) == 0x44BC2CF5AD770999


def test_parts_have_the_checksum_of_the_whole(tmp_path):
    writer = BlockWriter(tmp_path, 1)
    writer.append([b"one", memoryview(b"two"), b""], 1, 0, 0)
    writer.append([b"onetwo"], 1, 0, 0)
    block = BlockFile(tmp_path, writer.finish("b1"))
    block.check_digest()
    assert [bytes(chunk.data) for chunk in block.chunks()] == [b"onetwo"] * 2


def test_a_block_may_be_empty(tmp_path):
    record = write(tmp_path, 0)
    assert (record.rows, record.nnz, record.max_index) == (0, 0, -1)
    assert list(BlockFile(tmp_path, record).chunks()) == []


def test_a_number_is_used_once(tmp_path):
    write(tmp_path, 3)
    with pytest.raises(StorageError, match=r"b00000003\.blk"):
        BlockWriter(tmp_path, 3).append([b"one"], 1, 0, -1)
    with pytest.raises(StorageError, match=r"b00000003\.blk"):
        BlockWriter(tmp_path, 3).finish("b1")


def test_a_block_takes_over_the_chunks_of_another(tmp_path):
    writers = [BlockWriter(tmp_path, number) for number in range(4)]
    writers[0].append([b"one"], 1, 2, 7)
    writers[1].append([b"three"], 3, 4, 9)
    writers[1].append([b"4" * (3 << 20)], 5, 6, 5)
    for other in (1, 2):
        writers[0].extend(writers[other])
    writers[3].extend(writers[0])
    record = writers[3].finish("b1")
    assert [path.name for path in tmp_path.iterdir()] == [record.name]
    assert (record.name, record.rows, record.nnz, record.max_index) == ("b00000003.blk", 9, 12, 9)
    chunks = BlockFile(tmp_path, record).chunks()
    stored = [(bytes(chunk.data), chunk.rows, chunk.nnz) for chunk in chunks]
    assert stored == [(b"one", 1, 2), (b"three", 3, 4), (b"4" * (3 << 20), 5, 6)]


def test_every_byte_is_under_a_checksum(tmp_path):
    """The header, the chunks, the table and the trailer follow each other without a hole."""
    record = write(tmp_path, 1, b"abc", b"defg")
    data = (tmp_path / record.name).read_bytes()
    header, chunks, table, trailer = data[:32], data[32:39], data[39:-20], data[-20:]
    assert zlib.crc32(header[:-4]) == int.from_bytes(header[-4:], "little")
    assert chunks == b"abcdefg"
    assert f"{zlib.crc32(table):08x}" == record.table
    assert zlib.crc32(trailer[:-4]) == int.from_bytes(trailer[-4:], "little")


def test_the_message_names_file_and_remedy(tmp_path):
    record = write(tmp_path, 1, b"abc")
    path = tmp_path / record.name
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DamagedError) as caught:
        BlockFile(tmp_path, record)
    assert str(path) in str(caught.value)
    assert f"{record.bytes - 1} bytes, the manifest says {record.bytes}" in str(caught.value)
    assert "fix: " in str(caught.value)
