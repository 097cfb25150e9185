"""Text cut at newlines into slabs, the unit that is parsed in parallel."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from blocklinear.text.sources import Source

_BOM = b"\xef\xbb\xbf"


class LongLine(Exception):
    """The line after the last slab is longer than allowed."""


@dataclass(frozen=True)
class Slab:
    """Whole lines of one input.

    Attributes
    ----------
    text : uint8[n + 1]       n bytes of lines, each with its newline, and a guard newline
    cut : bool                the last line of the input is in it and had no newline
    memory : uint8[]          what the text lies in
    """

    text: NDArray[np.uint8]
    cut: bool
    memory: NDArray[np.uint8]


def slabs(
    source: Source, slab_bytes: int, max_line_bytes: int, spare: deque[Slab] | None = None
) -> Iterator[Slab]:
    """Cut `source` at newlines into pieces of at most `slab_bytes`, more only for a longer line.

    Slabs that are put into `spare` are done with: their memory is used again.

    Raises
    ------
    LongLine
        If a line is longer than `max_line_bytes`, which is at least `slab_bytes`.
    """
    head = np.empty(len(_BOM) + 2, np.uint8)
    carried = head[: _fill(source, head, 0)[0]]
    if carried.tobytes() == _BOM:
        carried = carried[:0]
    while True:
        # the longest line allowed just fits, with its newline
        room = max(slab_bytes, min(2 * len(carried), max_line_bytes + 1))
        buffer = spare.popleft().memory if spare else np.empty(room + 2, np.uint8)
        if len(buffer) != room + 2:
            buffer = np.empty(room + 2, np.uint8)
        buffer[: len(carried)] = carried
        filled, ended = _fill(source, buffer, len(carried))
        if ended:
            cut = filled > 0 and buffer[filled - 1] != 10
            if cut:
                buffer[filled] = 10
                filled += 1
            if filled > 0:
                yield _slab(buffer, filled, cut)
            return
        end = _after_last_newline(buffer, filled)
        if filled - end > max_line_bytes:
            raise LongLine
        carried = buffer[end:filled].copy()
        if end:
            yield _slab(buffer, end, False)


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


def _slab(buffer: NDArray[np.uint8], n: int, cut: bool) -> Slab:
    text = buffer[: n + 1]
    text[n] = 10
    return Slab(text, cut, buffer)
