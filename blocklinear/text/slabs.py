"""Text cut at newlines into slabs, the unit that is parsed in parallel."""

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
    """

    text: NDArray[np.uint8]
    cut: bool


def slabs(source: Source, slab_bytes: int, max_line_bytes: int) -> Iterator[Slab]:
    """Cut `source` at newlines into pieces of at most `slab_bytes`, more only for a longer line.

    Raises
    ------
    LongLine
        If a line is longer than `max_line_bytes`, which is at least `slab_bytes`.
    """
    carried = bytearray(len(_BOM) + 2)
    del carried[_fill(source, carried, 0)[0] :]
    if carried == _BOM:
        carried.clear()
    while True:
        # the longest line allowed just fits, with its newline
        room = max(slab_bytes, min(2 * len(carried), max_line_bytes + 1))
        buffer = bytearray(room + 2)
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
        end = buffer.rfind(b"\n", 0, filled) + 1
        if filled - end > max_line_bytes:
            raise LongLine
        carried = buffer[end:filled]
        if end:
            yield _slab(buffer, end, cut=False)


def _fill(source: Source, buffer: bytearray, filled: int) -> tuple[int, bool]:
    """Read into `buffer` from `filled`, all but two bytes; return (bytes filled, at the end)."""
    with memoryview(buffer) as view:
        while filled < len(buffer) - 2:
            n = source.readinto(view[filled : len(buffer) - 2])
            if n == 0:
                return filled, True
            filled += n
    return filled, False


def _slab(buffer: bytearray, n: int, cut: bool) -> Slab:
    text = np.frombuffer(buffer, np.uint8, n + 1)
    text[n] = 10
    return Slab(text, cut)
