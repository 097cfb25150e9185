"""gz streams, unpacked by zlib-ng where it is installed (the extra `fast`), or else by zlib."""

import functools
import zlib
from typing import Any


@functools.cache
def inflating() -> Any:
    """Return the module that inflates: zlib-ng does what zlib does, bit for bit, in half the time.

    ISA-L is faster still, but refuses a member whose header comes in two pieces.
    """
    try:
        from zlib_ng import zlib_ng
    except ImportError:
        return zlib
    return zlib_ng


class Inflater:
    """One member of a gz file, with the interface that `bz2` and `lzma` share."""

    def __init__(self) -> None:
        self._inflate = inflating().decompressobj(wbits=31)

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """Return up to `max_length` bytes of what `data`, after what was given before, holds."""
        out: bytes = self._inflate.decompress(self._inflate.unconsumed_tail + data, max_length)
        return out

    @property
    def needs_input(self) -> bool:
        """Nothing more comes without more data."""
        return not self._inflate.unconsumed_tail

    @property
    def eof(self) -> bool:
        """The member has ended, and its checksum and length are right."""
        return bool(self._inflate.eof)

    @property
    def unused_data(self) -> bytes:
        """What was given after the end of the member."""
        return bytes(self._inflate.unused_data)
