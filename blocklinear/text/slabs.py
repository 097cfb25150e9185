"""Text cut at newlines into slabs, the unit that is parsed in parallel."""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from blocklinear.pages import Pages
from blocklinear.text.sources import Source

_BOM = b"\xef\xbb\xbf"


class LongLine(Exception):
    """The line after the last slab is longer than allowed, or takes too much memory.

    Attributes
    ----------
    n_entries : int           what it has, if they are too many, else 0
    n_bytes : int             what reading them takes
    """

    def __init__(self, n_entries: int = 0, n_bytes: int = 0) -> None:
        super().__init__()
        self.n_entries, self.n_bytes = n_entries, n_bytes


@dataclass
class Slab:
    """Whole lines of one input."""

    # uint8[n + 1]: n bytes of lines, each with its newline, and a guard newline
    text: NDArray[np.uint8]
    cut: bool  # the last line of the input is in it and had no newline
    memory: Pages  # what the text lies in
    long: bool  # it is one line that is longer than a slab


def slabs(
    source: Source,
    slab_bytes: int,
    max_line_bytes: int,
    spare: deque[Pages] | None = None,
    reserve: Callable[[int], None] = lambda n_bytes: None,
    at_start: bool = True,
) -> Iterator[Slab]:
    """Cut `source` at newlines into pieces of at most `slab_bytes`, a longer line alone.

    LongLine is raised if a line is longer than `max_line_bytes`, which is at least `slab_bytes`.

    Parameters
    ----------
    spare : deque of Pages    memory of slabs that are not long, and are done with: it is used again
    reserve : callable        called with the bytes that a line is going to take, before more than a
                              slab is read for it
    at_start : bool           whether the first bytes are those of the input, which may be a byte
                              order mark
    """
    head = np.empty(len(_BOM) + 2, np.uint8)
    carried = head[: _fill(source, head, 0)[0]]
    if at_start and carried.tobytes() == _BOM:
        carried = carried[:0]
    slab_bytes = max(slab_bytes, len(_BOM))
    while True:
        memory = spare.popleft() if spare else Pages(slab_bytes + 2)
        buffer = memory.array
        buffer[: len(carried)] = carried
        filled, ended = _fill(source, buffer, len(carried))
        end = _after_last_newline(buffer, filled)
        long = not ended and end == 0
        if long:
            start, memory = memory, Pages(max_line_bytes + 3)  # its newline, and two as below
            buffer = memory.array
            buffer[:filled] = start.array[:filled]
            if spare is not None:
                spare.append(start)
            filled, end, ended = _fill_line(source, buffer, filled, slab_bytes, reserve)
        if filled - end > max_line_bytes:
            raise LongLine
        if ended:
            cut = filled > 0 and buffer[filled - 1] != 10
            if cut:
                buffer[filled] = 10
                filled += 1
            if filled > 0:
                yield _slab(memory, filled, cut, long)
            return
        carried = buffer[end:filled].copy()
        if end:
            yield _slab(memory, end, False, long)


def _fill_line(
    source: Source,
    buffer: NDArray[np.uint8],
    filled: int,
    piece_bytes: int,
    reserve: Callable[[int], None],
) -> tuple[int, int, bool]:
    """Read the rest of a line, and what comes with it; return (filled, end of line, at the end).

    The end is 0 if the line does not fit.
    """
    reserved, ended, end = 0, False, 0
    while not ended and not end and filled < len(buffer) - 2:
        if filled + piece_bytes > reserved:
            reserved = min(4 * (filled + piece_bytes), len(buffer) - 3)
            reserve(reserved)
        start = filled
        filled, ended = _fill(source, buffer[: start + piece_bytes + 2], start)
        end = start + 1 + buffer[start:filled].tobytes().find(b"\n")
        end = end if end > start else 0
    return filled, end, ended


def _fill(source: Source, buffer: NDArray[np.uint8], filled: int) -> tuple[int, bool]:
    """Read into `buffer` from `filled`, all but two bytes; return (bytes filled, at the end)."""
    with memoryview(buffer.data) as view:
        while filled < len(buffer) - 2:
            n = source.readinto(view[filled : len(buffer) - 2])
            if n == 0:
                return filled, True
            filled += n
    return filled, False


def _after_last_newline(buffer: NDArray[np.uint8], filled: int) -> int:
    """Return where the last line begins, searching back from `filled`."""
    stop = filled
    while stop > 0:
        start = max(stop - 65536, 0)
        found = buffer[start:stop].tobytes().rfind(b"\n")
        if found >= 0:
            return start + found + 1
        stop = start
    return 0


def _slab(memory: Pages, n: int, cut: bool, long: bool) -> Slab:
    text = memory.array[: n + 1]
    text[n] = 10
    return Slab(text, cut, memory, long)
