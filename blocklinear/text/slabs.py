"""Text cut at newlines into slabs, the unit that is parsed in parallel."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from blocklinear.errors import InputError
from blocklinear.memory import format_size
from blocklinear.text.sources import Source

_BOM = b"\xef\xbb\xbf"


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
    InputError
        If a line is longer than `max_line_bytes`.
    """
    carried = bytearray()
    first = True
    while True:
        buffer = bytearray(max(slab_bytes, 2 * len(carried)) + 2)
        buffer[: len(carried)] = carried
        filled, ended = _fill(source, buffer, len(carried))
        if first and buffer.startswith(_BOM):
            del buffer[: len(_BOM)]
            filled -= len(_BOM)
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
            raise InputError(
                f"{source.raw.path}: a line is longer than {format_size(max_line_bytes)}",
                "check the line ends, or raise --memory",
            )
        carried = buffer[end:filled]
        if end:
            first = False
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
