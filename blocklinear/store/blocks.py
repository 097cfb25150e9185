r"""The block file: immutable, every byte of it under a checksum.

Layout, all integers little-endian::

    header    32 bytes    magic "BLKBLOCK", u32 version, u32 block number, u64 0, u32 0, CRC-32;
                          in files of columns the magic is "BLKCOLMN"
    chunk ...             see `store.layout`
    table     28 bytes a chunk: u64 offset, u32 bytes, u32 rows, u32 nnz, u64 XXH64 of the chunk
    trailer   20 bytes    u32 chunks, u32 CRC-32 of the table, magic "BLKEND\0\0", CRC-32 of these

The manifest holds the CRC-32 of the table, which distinguishes the block from a valid one of
another store, or an earlier one of the same number, without reading it all; and a SHA-256 of the
file without its chunks, whose checksums are in the table.
"""

import contextlib
import errno
import hashlib
import os
import stat
import struct
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from mmap import PAGESIZE, mmap
from pathlib import Path
from threading import RLock
from typing import Self

import numpy as np
import xxhash
from numpy.typing import NDArray

from blocklinear.errors import DamagedError, StorageError, storage_errors
from blocklinear.numerals import counted
from blocklinear.store.files import open_regular, read_past_cache, remove_files, sync_file
from blocklinear.store.records import BlockRecord, ChunkFile
from blocklinear.store.remote.mirror import FETCHES, Mirror, fetched, fix_of_damage

VERSION = 1
_HEADER = struct.Struct("<8sIIQI")
_ENTRY = np.dtype(
    [("offset", "<u8"), ("bytes", "<u4"), ("rows", "<u4"), ("nnz", "<u4"), ("hash", "<u8")]
)
_TRAILER = struct.Struct("<II8s")
_CRC = struct.Struct("<I")
_COPY_BYTES = 1 << 20


def _sealed(data: bytes) -> bytes:
    return data + _CRC.pack(zlib.crc32(data))


def checksum_of(*parts: bytes | memoryview) -> int:
    """Return the checksum of an encoded chunk, which may come in parts."""
    if len(parts) == 1:
        return xxhash.xxh64_intdigest(parts[0])
    digest = xxhash.xxh64()
    for part in parts:
        digest.update(part)
    return digest.intdigest()


ROWS, COLUMNS = "b", "c"
"""What a file holds: the letter that its name begins with."""
_MAGICS = {ROWS: b"BLKBLOCK", COLUMNS: b"BLKCOLMN"}
_NO_FILE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO)
"""What opening gives where there is no regular file of that name."""
_FIXES = {
    ROWS: "restore the file, or split the data again",
    COLUMNS: "make the columns again: `blocklinear transpose --force STORE`",
}


def _header(name: str) -> bytes:
    """Return the header of the file of that name, a letter and eight digits."""
    return _sealed(_HEADER.pack(_MAGICS[name[0]], VERSION, int(name[1:9]), 0, 0))


HEADER_BYTES = len(_header("b00000000"))
TRAILER_BYTES = _TRAILER.size + _CRC.size


class BlockWriter:
    """Appends chunks to one block file, opening it only while it writes (blocks may be many)."""

    def __init__(self, folder: Path, number: int, holds: str = ROWS) -> None:
        self.path = folder / f"{holds}{number:08d}.blk"
        self._entries: list[tuple[int, int, int, int, int]] = []
        self._bytes = 0
        self.max_index = -1

    def _begin(self) -> None:
        """Write the header, if there is none yet."""
        if not self._bytes:
            self._append(_header(self.path.name), flags=os.O_CREAT | os.O_EXCL)

    def _append(self, *parts: bytes | memoryview, flags: int = os.O_APPEND) -> None:
        left = [memoryview(part) for part in parts if len(part)]
        self._bytes += sum(map(len, left))
        with storage_errors(self.path, "write"):
            descriptor = open_regular(self.path, os.O_WRONLY | flags)
            try:
                while left:
                    done = os.writev(descriptor, left)
                    while left and done >= len(left[0]):
                        done -= len(left.pop(0))
                    left[:1] = [part[done:] for part in left[:1]]
            finally:
                os.close(descriptor)

    def append(
        self,
        parts: Sequence[bytes | memoryview],
        rows: int,
        nnz: int,
        max_index: int,
        checksum: int | None = None,
    ) -> None:
        """Add an encoded chunk that comes in parts; `checksum` is its `checksum_of`, if known."""
        self._begin()
        checksum = checksum_of(*parts) if checksum is None else checksum
        self._entries.append((self._bytes, sum(map(len, parts)), rows, nnz, checksum))
        self.max_index = max(self.max_index, max_index)
        self._append(*parts)

    def extend(self, other: "BlockWriter") -> None:
        """Append the chunks of another block that is not finished, and delete its file."""
        if not other._entries:
            return
        self._begin()
        shift = self._bytes - HEADER_BYTES
        self._entries += [(entry[0] + shift, *entry[1:]) for entry in other._entries]
        self.max_index = max(self.max_index, other.max_index)
        for piece in other._pieces():
            self._append(piece)
        remove_files([other.path])

    def _pieces(self) -> Iterator[bytes]:
        """Yield what was written after the header."""
        with storage_errors(self.path, "read"):
            descriptor = open_regular(self.path)
        try:
            for start in range(HEADER_BYTES, self._bytes, _COPY_BYTES):
                with storage_errors(self.path, "read"):
                    piece = os.pread(descriptor, _COPY_BYTES, start)
                if len(piece) < min(_COPY_BYTES, self._bytes - start):
                    size = counted(start + len(piece), "byte")
                    raise StorageError(f"{self.path}: ends after {size}")
                yield piece
        finally:
            os.close(descriptor)

    def finish(self, batch: str) -> BlockRecord:
        """Write the table, make the file durable, and return its record without label counts."""
        self._begin()
        table = np.array(self._entries, _ENTRY)
        crc = zlib.crc32(table.tobytes())
        end = table.tobytes() + _sealed(_TRAILER.pack(len(table), crc, b"BLKEND\0\0"))
        self._append(end)
        sync_file(self.path)
        return BlockRecord(
            name=self.path.name,
            batch=batch,
            rows=int(table["rows"].sum(dtype=np.int64)),
            nnz=int(table["nnz"].sum(dtype=np.int64)),
            bytes=self._bytes,
            max_index=self.max_index,
            table=f"{crc:08x}",
            envelope_sha256=hashlib.sha256(_header(self.path.name) + end).hexdigest(),
            label_counts=[],
        )


@dataclass(frozen=True)
class StoredChunk:
    """An encoded chunk whose checksum has been found right."""

    data: memoryview
    rows: int
    nnz: int


class BlockFile:
    """One block read into memory, its structure checked against the manifest.

    DamagedError is raised if it is not the file the manifest means, or any checksum is wrong;
    StorageError if it cannot be read.

    Parameters
    ----------
    allocate : callable       gives memory for at least so many bytes; the block is valid until that
                              is used again
    past_cache : bool         read past the page cache, where memory begins with a page and the file
                              system can
    """

    def __init__(
        self,
        folder: Path,
        record: ChunkFile,
        allocate: Callable[[int], bytearray | mmap] = bytearray,
        past_cache: bool = False,
    ) -> None:
        self.path, self.record = folder / record.name, record
        with opened_block(self.path, record) as descriptor:
            memory = memoryview(allocate(record.bytes))
            done = read_past_cache(descriptor, memory) if past_cache else 0
            read_part(descriptor, self.path, done, record.bytes - done, memory[done:])
        self.data = memory[: record.bytes].toreadonly()
        self._table = table_of(
            self.path, record, self.data[:HEADER_BYTES], self.data[HEADER_BYTES:]
        )
        self._end = len(self.data) - TRAILER_BYTES - self._table.nbytes

    def damaged(self, what: str) -> DamagedError:
        """Return the error that says `what` is wrong with this block."""
        return damaged(self.path, what)

    def chunks(self) -> Iterator[StoredChunk]:
        """Yield the chunks in order, each checked against its XXH64."""
        for offset, size, rows, nnz, checksum in self._table.tolist():
            data = self.data[offset : offset + size]
            check_chunk(self.path, offset, data, checksum)
            yield StoredChunk(data, rows, nnz)

    def check_digest(self) -> None:
        """Compare header, table and trailer with the manifest's SHA-256."""
        check_envelope(self.path, self.record, self.data[:HEADER_BYTES], self.data[self._end :])


class _Room:
    """Whole pages that a block is read into, one after the other."""

    def __init__(self) -> None:
        self._pages: mmap | None = None

    def of(self, size: int) -> mmap:
        """Return `size` bytes or more, the same at every call; what was there is lost."""
        if self._pages is None or len(self._pages) < size:
            self._pages = mmap(-1, (size + PAGESIZE - 1) & -PAGESIZE)
        return self._pages


_Reading = Future[tuple[BlockFile, _Room]]


class BlockReader:
    """Reads blocks in the order in which they will be decoded, in a thread of its own.

    So that who decodes them does not wait for the disk, which reads one file at a time; of a URL
    several are fetched at a time. Used with `with`.

    Parameters
    ----------
    folder : Path             where the block files are
    threads : int             threads that decode: each holds a block at a time. One more is read
                              ahead
    past_cache : bool         read past the page cache
    """

    def __init__(self, folder: Path, threads: int, past_cache: bool = False) -> None:
        self._folder, self._past_cache = folder, past_cache
        self._names: list[str] = []  # expected, in this order
        self._files: list[_Reading] = []
        self._waiting = deque[tuple[BlockRecord, _Reading]]()  # for a room
        self._rooms = [_Room() for _ in range(threads + 1)]
        self._lock, self._stopped = RLock(), False
        at_a_time = 1 if Mirror.at(folder.parent) is None else FETCHES
        self._threads = ThreadPoolExecutor(at_a_time, "read")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def stop(self) -> None:
        """Have whoever waits for a block of a URL given an error: its server may be silent."""
        self._stopped = True

    def close(self) -> None:
        """End the thread."""
        self.stop()
        self.expect(())
        self._threads.shutdown()

    def expect(self, records: Sequence[BlockRecord]) -> None:
        """Begin to read these blocks, which must be asked for in this order, and no others.

        What has been read of others is forgotten. Nobody may have a block, or wait for one.
        """
        names, kept = [record.name for record in records], 0
        while self._names[kept : kept + 1] == names[kept : kept + 1] != []:
            kept += 1
        with self._lock:
            for file in self._files[kept:]:
                if not file.cancel():
                    file.add_done_callback(self._forget)
            self._names[kept:] = names[kept:]
            self._files[kept:] = [Future() for _ in records[kept:]]
            pairs = zip(records, self._files, strict=True)
            self._waiting = deque(p for p in pairs if not (p[1].running() or p[1].done()))
            self._begin()

    def _begin(self) -> None:
        """Have the next blocks read for which there is room."""
        while self._waiting and self._rooms:
            record, file = self._waiting.popleft()
            file.set_running_or_notify_cancel()
            self._threads.submit(self._read_block, record, file, self._rooms.pop())

    def _read_block(self, record: BlockRecord, file: _Reading, room: _Room) -> None:
        try:
            fetch_block(self._folder / record.name, record, lambda: self._stopped)
            found = BlockFile(self._folder, record, room.of, self._past_cache)
        except BaseException as error:
            if isinstance(error, StorageError):  # nor can others be read, and each try takes long
                self._fail_waiting(error)
            self._give_back(room)
            file.set_exception(error)
        else:
            file.set_result((found, room))

    def _fail_waiting(self, error: StorageError) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, deque()
        for _, file in waiting:
            if file.set_running_or_notify_cancel():
                file.set_exception(error)

    def _forget(self, file: _Reading) -> None:
        if file.exception() is None:
            self._give_back(file.result()[1])

    def _give_back(self, room: _Room) -> None:
        with self._lock:
            self._rooms.append(room)  # and used first: others take no memory yet
            self._begin()

    @contextlib.contextmanager
    def block(self, record: BlockRecord) -> Iterator[BlockFile]:
        """Hand out a block that is expected; its memory is used again afterwards.

        DamagedError is raised if it is not what was written; StorageError if it cannot be read.
        """
        with self._lock:
            place = self._names.index(record.name)
            del self._names[place]
            read = self._files.pop(place)
        file, room = read.result()
        try:
            yield file
        finally:
            self._give_back(room)


def damaged(path: Path, what: str) -> DamagedError:
    """Return the error that says `what` is wrong with a file of chunks."""
    fix = _FIXES[path.name[0]]
    if path.name[0] == ROWS:
        fix = fix_of_damage(path, fix)
    return DamagedError(f"{path}: damaged: {what}", fix)


def fetch_block(path: Path, record: ChunkFile, halt: Callable[[], bool] = lambda: False) -> None:
    """Fetch a block of a store on a URL that is not here; columns are on no URL.

    DamagedError is raised if it is not what was written; StorageError if it cannot be read, or
    `halt` said so while nothing came.
    """
    if path.name[0] == ROWS:
        fetched(path, lambda: check_file(path, record), halt)


def _fetched_and_opened(path: Path, record: ChunkFile, attempts: int = 3) -> int:
    """Open a file of chunks; of a store on a URL another thread may make room of it meanwhile."""
    fetch_block(path, record)
    try:
        return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if isinstance(error, FileNotFoundError) and attempts > 1:
            return _fetched_and_opened(path, record, attempts - 1)
        if error.errno in _NO_FILE:
            raise damaged(path, error.strerror or str(error)) from error
        with storage_errors(path, "read"):  # the file may be intact
            raise


@contextlib.contextmanager
def opened_block(path: Path, record: ChunkFile) -> Iterator[int]:
    """Open a file of chunks of the size that is recorded; hand out its descriptor."""
    descriptor = _fetched_and_opened(path, record)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise damaged(path, "it is not a regular file")
        if found.st_size != record.bytes:
            size = counted(found.st_size, "byte")
            raise damaged(path, f"it has {size}, the manifest says {record.bytes}")
        if record.bytes < HEADER_BYTES + TRAILER_BYTES:
            raise damaged(path, "it is too short for a block")
        yield descriptor
    finally:
        os.close(descriptor)


def read_part(
    descriptor: int, path: Path, start: int, size: int, memory: bytearray | memoryview
) -> memoryview:
    """Read `size` bytes of a file into the front of `memory`; return them."""
    data, filled = memoryview(memory)[:size], 0
    with storage_errors(path, "read"):
        while filled < size and (n := os.preadv(descriptor, [data[filled:]], start + filled)):
            filled += n
    if filled < size:
        raise damaged(path, f"it ends after {counted(start + filled, 'byte')}")
    return data.toreadonly()


def table_of(
    path: Path, record: ChunkFile, header: memoryview, end: memoryview
) -> NDArray[np.void]:
    """Return the checked chunk table of a file.

    DamagedError is raised if it is not the file that is recorded.

    Parameters
    ----------
    header : memoryview       the first bytes of the file
    end : memoryview          the last ones: trailer and table, and any number before
    """
    if bytes(header) != _header(path.name):
        raise damaged(path, "its header is not that of this block")
    trailer = bytes(end[-TRAILER_BYTES:])
    n_chunks, crc, magic = _TRAILER.unpack_from(trailer)
    start = len(end) - TRAILER_BYTES - n_chunks * _ENTRY.itemsize
    if _sealed(trailer[: _TRAILER.size]) != trailer or magic != b"BLKEND\0\0":
        raise damaged(path, "its trailer is wrong")
    content = end[max(start, 0) : len(end) - TRAILER_BYTES]
    if start < 0 or zlib.crc32(content) != crc:
        raise damaged(path, "its table is wrong")
    if f"{crc:08x}" != record.table:
        raise damaged(path, "it is not the block that the manifest names")
    table = np.frombuffer(content, _ENTRY)
    place, rows, nnz = HEADER_BYTES, 0, 0
    for offset, size, chunk_rows, chunk_nnz, _ in table.tolist():
        if offset != place:
            raise damaged(path, "its table does not fit the file")
        place, rows, nnz = place + size, rows + chunk_rows, nnz + chunk_nnz
    if place != record.bytes - TRAILER_BYTES - len(content):
        raise damaged(path, "its table does not fit the file")
    if (rows, nnz) != (record.rows, record.nnz):
        raise damaged(path, "its table does not fit the manifest")
    return table


def read_table(path: Path, record: ChunkFile) -> NDArray[np.void]:
    """Read what a file has but its chunks, and return its checked table.

    Raises DamagedError and StorageError.
    """
    with opened_block(path, record) as descriptor:
        header = read_part(descriptor, path, 0, HEADER_BYTES, bytearray(HEADER_BYTES))
        last = record.bytes - TRAILER_BYTES
        trailer = read_part(descriptor, path, last, TRAILER_BYTES, bytearray(TRAILER_BYTES))
        n_chunks = _TRAILER.unpack_from(trailer)[0]
        size = min(TRAILER_BYTES + n_chunks * _ENTRY.itemsize, record.bytes - HEADER_BYTES)
        end = read_part(descriptor, path, record.bytes - size, size, bytearray(size))
    table = table_of(path, record, header, end)
    check_envelope(path, record, header, end)
    return table


def check_file(path: Path, record: ChunkFile) -> None:
    """Compare a file with everything that is recorded of it, in little memory.

    Raises DamagedError and StorageError.
    """
    table = read_table(path, record)
    buffer = bytearray(int(table["bytes"].max(initial=0)))
    with opened_block(path, record) as descriptor:
        for offset, size, _, _, checksum in table.tolist():
            check_chunk(path, offset, read_part(descriptor, path, offset, size, buffer), checksum)


def check_envelope(path: Path, record: ChunkFile, header: memoryview, end: memoryview) -> None:
    """Compare header, table and trailer with the SHA-256 that is recorded."""
    digest = hashlib.sha256(header)
    digest.update(end)
    if digest.hexdigest() != record.envelope_sha256:
        raise damaged(path, "it does not match the manifest's SHA-256")


def check_chunk(path: Path, offset: int, data: memoryview, checksum: int) -> None:
    """Compare a chunk with its XXH64."""
    if checksum_of(data) != checksum:
        raise damaged(path, f"the chunk at byte {offset} does not match its checksum")
