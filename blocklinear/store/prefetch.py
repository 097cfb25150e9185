"""Data loaded ahead: the next group is read and decoded while the solver works on this one."""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from typing import Self

import numpy as np

from blocklinear.errors import InputError
from blocklinear.memory import available_bytes
from blocklinear.store.blocks import BlockReader
from blocklinear.store.groups import Group, GroupBuffer, Pins
from blocklinear.store.store import BlockStore

DECODED_AT_ONCE = 2
"""Blocks that a group is decoded from at a time, where nothing says that there is room for more."""
_POLL_S = 0.1  # between calls of what is to be called meanwhile
_Loading = Future[tuple[Group, float]]
_MOST_SQUARED = 1.6e308
"""What x'x of a row is below in training: B**2 comes on top. Text is refused a little earlier."""


@dataclass(frozen=True)
class Loaded:
    """A group, with the seconds that loading it took and that the caller waited for it."""

    group: Group
    load_s: float
    wait_s: float


class GroupLoader:
    """Loads groups of at most `group` blocks of a store, one ahead of the one in use.

    It loads into two buffers by turns. When one group holds the whole store it is loaded once, into
    one buffer, and kept.

    Parameters
    ----------
    group : int
        Blocks in a group at most.
    threads : int
        Threads that decode blocks, at most.
    pin_bytes : int
        Memory for what more threads than `DECODED_AT_ONCE` decode from, and for decoded blocks that
        are kept.
    pins : Pins or None
        Decoded blocks of this store that other loaders have kept, too, instead.
    memory_bytes : int or None
        The memory budget of the process. Where the machine has so little beyond it that the page
        cache would hold less than half of the blocks, they are read past it: in random order few
        would be found there, and to fill it takes time (289 MB in a cgroup of 256 MB: 0.56 s, and
        past it 0.46 s, with a tenth less processor time).

    Attributes
    ----------
    group : int
    whole : bool              whether one group holds all blocks
    pins : Pins
    """

    def __init__(
        self,
        store: BlockStore,
        group: int,
        threads: int,
        pin_bytes: int = 0,
        pins: Pins | None = None,
        memory_bytes: int | None = None,
    ) -> None:
        self._store, blocks, self.group = store, store.manifest.blocks, group
        rows = sum(sorted((b.rows for b in blocks), reverse=True)[:group])
        nnz = sum(sorted((b.nnz for b in blocks), reverse=True)[:group])
        self.whole = group >= len(blocks)
        past_cache = memory_bytes is not None and (
            2 * (available_bytes() - memory_bytes) < sum(block.bytes for block in blocks)
        )
        kind = store.manifest.dtype, store.manifest.weighted
        self._new_buffer = partial(GroupBuffer, rows, nnz, *kind)
        self._buffers = [self._new_buffer() for _ in range(1 if self.whole else 2)]
        stored = max((block.bytes for block in blocks), default=1)
        threads = min(threads, group, DECODED_AT_ONCE + pin_bytes // stored)
        left = pin_bytes - max(threads - DECODED_AT_ONCE, 0) * stored
        self.pins = Pins(0 if self.whole else left) if pins is None else pins
        self._reader = BlockReader(store.blocks_folder, threads, past_cache)
        self._ahead = ThreadPoolExecutor(1, "load")
        self._decoders = ThreadPoolExecutor(threads, "decode")
        self._current: Group | None = None  # last yielded, still whole
        self._used = 0  # the buffer that holds it
        self._while_waiting: Callable[[], None] | None = None
        self._expected: tuple[tuple[int, ...], _Loading] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._reader.stop()
        self._ahead.shutdown(cancel_futures=True)
        self._decoders.shutdown(cancel_futures=True)
        self._reader.close()

    @contextlib.contextmanager
    def calling(self, function: Callable[[], None]) -> Iterator[None]:
        """Within this context, call a function again and again while a group is waited for.

        What it raises ends the stream. It is not held any longer, nor is what it belongs to.
        """
        self._while_waiting = function
        try:
            yield
        finally:
            self._while_waiting = None

    def empty(self) -> None:
        """Give back the memory of a loader of all blocks; it loads them again when asked to."""
        self._current, self._buffers = None, [self._new_buffer()]

    @property
    def _free(self) -> int:
        """Which buffer is not in use."""
        return (self._used + 1) % len(self._buffers)

    def _load(self, blocks: tuple[int, ...], following: tuple[int, ...]) -> tuple[Group, float]:
        started, manifest = time.perf_counter(), self._store.manifest
        group = self._buffers[self._free].load(
            self._reader, manifest, blocks, self._decoders, self.pins, following
        )
        self._refuse_too_large(group)
        return group, time.perf_counter() - started

    def _refuse_too_large(self, group: Group) -> None:
        """Refuse a row whose x'x leaves no room for B**2, as earlier versions let into stores."""
        if group.sq_norm.max(initial=0.0) < _MOST_SQUARED:
            return
        row = int(np.argmax(~(group.sq_norm < _MOST_SQUARED)))
        block = group.blocks[int(np.searchsorted(group.starts, row, "right")) - 1]
        manifest = self._store.manifest
        where = manifest.place_of(int(group.row_numbers[row]), manifest.blocks[block].batch)
        raise InputError(
            f"{self._store.folder}: the squares of a row add up to more than can be trained on "
            f"({where})",
            "scale the data, and split it again",
        )

    def stream(
        self, groups: Sequence[tuple[int, ...]], following: tuple[int, ...] | None = None
    ) -> Iterator[Loaded]:
        """Yield each group in turn; it is valid until the next is asked for.

        Where the last stream was left at a group, one that begins with it does not load it again.

        Parameters
        ----------
        following : tuple of int  the first group of the next stream, to be loaded while the last of
                                  this one is used
        """
        if self.whole and self._current is not None:  # whatever the order of blocks
            yield Loaded(self._current, 0.0, 0.0)
            return
        if not groups:
            return
        order = (*groups, *(() if following is None else (following,)))
        first = 0
        if self._current is not None and self._current.blocks == groups[0]:
            self._expect(order[1:])
            yield Loaded(self._current, 0.0, 0.0)
            first = 1
        for place in range(first, len(groups)):
            self._expect(order[place:], now=True)
            asked = time.perf_counter()
            assert self._expected is not None
            group, load_s = self._await(self._expected[1])
            wait_s = time.perf_counter() - asked
            self._expected, self._current = None, group
            self._used = self._free
            self._expect(order[place + 1 :])
            yield Loaded(group, load_s, wait_s)

    def _await(self, coming: _Loading) -> tuple[Group, float]:
        while not wait([coming], _POLL_S).done:
            if self._while_waiting is not None:
                self._while_waiting()
        return coming.result()

    def _expect(self, order: Sequence[tuple[int, ...]], now: bool = False) -> None:
        """Have the first of some groups loaded into the buffer that is not in use.

        Unless it is already; with a single buffer, only if it is needed `now`. Of the second one
        blocks are read.
        """
        if not order or (self.whole and not now):
            return
        if self._expected is None or self._expected[0] != order[0]:
            if self._expected is not None:  # in vain
                self._await(self._expected[1])
            following = order[1] if len(order) > 1 and not self.whole else ()
            load = self._load_here if now and self._pinned(order[0]) else self._load_ahead
            self._expected = order[0], load(order[0], following)

    def _pinned(self, blocks: tuple[int, ...]) -> bool:
        return all(self._store.manifest.blocks[block].name in self.pins for block in blocks)

    def _load_ahead(self, blocks: tuple[int, ...], following: tuple[int, ...]) -> _Loading:
        return self._ahead.submit(self._load, blocks, following)

    def _load_here(self, blocks: tuple[int, ...], following: tuple[int, ...]) -> _Loading:
        """Copy decoded blocks in the thread that waits for them: another one gains nothing."""
        done = _Loading()
        done.set_result(self._load(blocks, following))
        return done
