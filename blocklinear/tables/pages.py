"""Pages of dictionaries in Parquet: how long their values are, before pyarrow repeats them.

A dictionary has each value once, and rows refer to it: of a column that is not read as one, each
row has a value of its own in memory. The metadata of a file tell neither how many values there are
nor how long they are. A page begins with a header in Thrift's compact protocol.
"""

from dataclasses import dataclass
from typing import IO, Any

import numpy as np

from blocklinear.kernels.text import pages as kernels
from blocklinear.tables.arrow import arrow

_MOST_HEADER_BYTES = 1024
_STOP, _TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _BINARY, _STRUCT = 0, 1, 2, 3, 4, 5, 6, 8, 12
_SIZE, _COMPRESSED_SIZE, _DICTIONARY, _COUNT = 2, 3, 7, 1
"""Numbers of fields: of a page header, and of the header of a dictionary in it."""


class UnknownPageError(ValueError):
    """What is there is no page of a dictionary, or written in a way that is not known here."""


@dataclass(frozen=True)
class Dictionary:
    """The page of a dictionary."""

    n_values: int
    n_bytes: int  # of the page, decompressed: each value after its length, in 4 bytes
    offset: int  # where it is in the file, without its header
    n_compressed: int  # how long it is there, in bytes

    @property
    def most_bytes(self) -> int:
        """What all values take, so that none is longer."""
        return max(self.n_bytes - 4 * self.n_values, 0)

    def longest(self, stream: IO[bytes], compression: str) -> int:
        """Return how long the longest value is.

        Raises UnknownPageError and OSError.

        Parameters
        ----------
        stream : file
        compression : str         as the metadata of the column have it
        """
        pa = arrow()
        stream.seek(self.offset)
        data = stream.read(self.n_compressed)
        if compression != "UNCOMPRESSED":
            name = "lz4_raw" if compression == "LZ4" else compression.lower()
            try:
                data = pa.Codec(name).decompress(data, self.n_bytes, asbytes=True)
            except (pa.ArrowException, OSError, ValueError) as error:
                raise UnknownPageError(f"{compression} is unknown") from error
        longest = int(kernels.longest_of(np.frombuffer(data, np.uint8)))
        if longest < 0:
            raise UnknownPageError("the lengths of values do not add up")
        return longest


def read_dictionary(stream: IO[bytes], offset: int, n_bytes: int) -> Dictionary:
    """Read the header of the page of a dictionary.

    Raises UnknownPageError and OSError.

    Parameters
    ----------
    stream : file
    offset : int              where it begins
    n_bytes : int             how many bytes of the file it has at most, with its header
    """
    stream.seek(offset)
    head = stream.read(min(_MOST_HEADER_BYTES, n_bytes))
    try:
        fields, end = _struct(head, 0)
        count, size = fields[_DICTIONARY][_COUNT], fields[_SIZE]
        n_compressed = fields[_COMPRESSED_SIZE]
    except (KeyError, IndexError, TypeError) as error:
        raise UnknownPageError("no header of a dictionary") from error
    if min(count, size, n_compressed) < 0 or n_compressed > n_bytes - end:
        raise UnknownPageError("an impossible header")
    return Dictionary(count, size, offset + end, n_compressed)


def page_bytes(stream: IO[bytes], offset: int) -> int:
    """Return how many bytes a page has, decompressed.

    Raises UnknownPageError and OSError.

    Parameters
    ----------
    stream : file
    offset : int              where it begins
    """
    stream.seek(offset)
    try:
        size = _struct(stream.read(_MOST_HEADER_BYTES), 0)[0][_SIZE]
    except (KeyError, IndexError, TypeError) as error:
        raise UnknownPageError("no header of a page") from error
    if not isinstance(size, int) or size < 0:
        raise UnknownPageError("an impossible header")
    return size


def _struct(data: bytes, at: int) -> tuple[dict[int, Any], int]:
    """Return the fields of a structure by their numbers, and where it ends."""
    fields: dict[int, Any] = {}
    number = 0
    while data[at] != _STOP:
        step, kind = data[at] >> 4, data[at] & 15
        at += 1
        if step:
            number += step
        else:
            number, at = _integer(data, at)
        if kind in (_TRUE, _FALSE):
            fields[number] = kind == _TRUE
        elif kind == _BYTE:
            fields[number], at = data[at], at + 1
        elif kind in (_I16, _I32, _I64):
            fields[number], at = _integer(data, at)
        elif kind == _STRUCT:
            fields[number], at = _struct(data, at)
        elif kind == _BINARY:  # in statistics
            n_bytes, at = _length(data, at)
            fields[number], at = data[at : at + n_bytes], at + n_bytes
        else:  # headers of pages have no others
            raise UnknownPageError(f"a field of type {kind}")
    return fields, at + 1


def _integer(data: bytes, at: int) -> tuple[int, int]:
    """Return a signed integer and where it ends."""
    bits, at = _length(data, at)
    return (bits >> 1) ^ -(bits & 1), at


def _length(data: bytes, at: int) -> tuple[int, int]:
    """Return an unsigned integer, 7 bits a byte, and where it ends."""
    bits = shift = 0
    while True:
        bits |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return bits, at
