"""Block files read ahead: one after the other, while those before them are decoded."""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from mmap import PAGESIZE, mmap
from pathlib import Path
from queue import SimpleQueue
from threading import Lock
from typing import Self

from blocklinear.store.blocks import BlockFile
from blocklinear.store.records import BlockRecord


class _Room:
    """Whole pages that a block is read into, one after the other."""

    def __init__(self) -> None:
        self._pages: mmap | None = None

    def of(self, size: int) -> mmap:
        """Return `size` bytes or more, the same at every call; what was there is lost."""
        if self._pages is None or len(self._pages) < size:
            self._pages = mmap(-1, (size + PAGESIZE - 1) & -PAGESIZE)
        return self._pages


class BlockReader:
    """Reads blocks in the order in which they will be decoded, in a thread of its own.

    So that who decodes them does not wait for the disk, which reads one file at a time. Used with
    `with`.

    Parameters
    ----------
    folder : Path
        Where the block files are.
    threads : int
        Threads that decode: each holds a block at a time. One more is read ahead.
    past_cache : bool
        Read past the page cache.
    """

    def __init__(self, folder: Path, threads: int, past_cache: bool = False) -> None:
        self._folder, self._past_cache = folder, past_cache
        self._names: list[str] = []  # expected, in this order
        self._files: list[Future[tuple[BlockFile, _Room]]] = []
        self._lock = Lock()
        self._rooms = SimpleQueue[_Room]()
        for _ in range(threads + 1):
            self._rooms.put(_Room())
        self._thread = ThreadPoolExecutor(1, "read")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End the thread."""
        self.expect(())
        self._thread.shutdown(cancel_futures=True)

    def expect(self, records: Sequence[BlockRecord]) -> None:
        """Begin to read these blocks, which must be asked for in this order, and no others.

        What has been read of others is forgotten. Nobody may have a block, or wait for one.
        """
        names = [record.name for record in records]
        kept = len(os.path.commonprefix([self._names, names]))
        for file in self._files[kept:]:
            if not file.cancel():
                file.add_done_callback(self._forget)
        self._names[kept:] = names[kept:]
        self._files[kept:] = [self._thread.submit(self._read, record) for record in records[kept:]]

    def _read(self, record: BlockRecord) -> tuple[BlockFile, _Room]:
        room = self._rooms.get()
        try:
            return BlockFile(self._folder, record, room.of, self._past_cache), room
        except BaseException:
            self._rooms.put(room)
            raise

    def _forget(self, file: Future[tuple[BlockFile, _Room]]) -> None:
        if file.exception() is None:
            self._rooms.put(file.result()[1])

    @contextmanager
    def block(self, record: BlockRecord) -> Iterator[BlockFile]:
        """Hand out a block that is expected; its memory is used again afterwards.

        Raises
        ------
        DamagedError
            If it is not what was written.
        StorageError
            If it cannot be read.
        """
        with self._lock:
            place = self._names.index(record.name)
            del self._names[place]
            read = self._files.pop(place)
        file, room = read.result()
        try:
            yield file
        finally:
            self._rooms.put(room)
