"""The layout of a chunk: about 10**5 nonzeros of rows, encoded losslessly, decodable on its own.

Layout, all integers little-endian::

    magic            4 bytes   "BLKC"
    rows, nnz        2 x u32
    doubles          u32       entries stored as float64
    label_doubles    u32       labels stored as float64 (exponent 255)
    first_row        u64       number of the first row
    widths           3 x u8    planes of row lengths, row gaps, label mantissas
    bits             3 x u8    bits of a gap, of a mantissa, of the code of an exponent
    flags            u8        bit 0 mantissas folded by zigzag, bit 1 label mantissas likewise,
                               bit 2 rows have weights
    exponents        u8        how many different exponents the entries have
    frames           u16       number of frames that follow
    exponent         u8 each   the exponents that the codes 0, 1, ... mean, increasing; 255: float64
    frame bytes      u32 each  length of each frame
    frame ...                  each as it is if its length is that of its content, else a zstd frame

A plane holds one byte of each of many numbers, so that similar bytes lie next to each other; zigzag
maps 0, -1, 1, -2 to 0, 1, 2, 3.

Frame 0 holds the numbers that each row has one of, plane after plane: row lengths; gaps between row
numbers (number - previous - 1, 0 for the first); label mantissas; label exponents (one plane);
label doubles (float64). Each further frame is one plane: of index gaps
(see `kernels.blocks.codec`), of mantissas, of doubles (eight, if there are any), and of the
codes of exponents. The last plane of each of these holds bits % 8 bits of a number, which are 1, 2
or 4 (`kernels.blocks.codec.pack`).

Where rows have weights, one more frame comes last: the weights, float64, their eight planes one
after the other. All chunks of a store have it, or none has.

A number is ``mantissa / 10**exponent``, both as in the text; the division rounds to exactly the
double that the text denotes. A frame is compressed with zstd if a sample shows that this saves
enough: digits of measurements hardly compress, and storing them as they are is ten times faster.
The checksum of the chunk is in the table of the block (`store.blocks`).
"""

import struct
from dataclasses import dataclass
from typing import Self

from blocklinear.errors import DamagedError

MAGIC = b"BLKC"
RAW = 255
"""The exponent that marks a float64."""
_HEADER = struct.Struct("<4sIIIIQ6BBBH")
_PACKED_BITS = (0, 1, 2, 4, 4, 8, 8, 8)
"""Bits that 0 to 7 bits are stored in, so that a byte holds a whole number of them."""


def stored_bits(bits: int) -> int:
    """Return how many bits numbers of `bits` bits are stored in."""
    return bits - bits % 8 + _PACKED_BITS[bits % 8]


def plane_bytes(bits: int, n: int) -> list[int]:
    """Return the sizes of the planes of `n` numbers of `bits` bits each."""
    left = bits % 8
    return [n] * (bits // 8) + ([-(-n // (8 // left))] if left else [])


@dataclass(frozen=True)
class Layout:
    """The header of a chunk."""

    rows: int
    nnz: int
    doubles: int  # entries stored as float64
    label_doubles: int  # labels stored as float64
    first_row: int
    widths: tuple[int, ...]  # planes of row lengths, row gaps, label mantissas
    bits: tuple[int, ...]  # of a gap, of a mantissa, of the code of an exponent
    folded: bool  # whether mantissas went through zigzag
    label_folded: bool  # whether those of labels did
    weighted: bool  # whether rows have weights
    exponents: bytes  # what the codes mean
    frame_bytes: tuple[int, ...]  # length of each frame

    def __bytes__(self) -> bytes:
        header = _HEADER.pack(
            MAGIC, self.rows, self.nnz, self.doubles, self.label_doubles, self.first_row,
            *self.widths, *self.bits,
            self.folded | self.label_folded << 1 | self.weighted << 2,
            len(self.exponents), len(self.frame_bytes),
        )  # fmt: skip
        return (
            header + self.exponents + struct.pack(f"<{len(self.frame_bytes)}I", *self.frame_bytes)
        )

    @property
    def start(self) -> int:
        """Where in the chunk the frames begin."""
        return _HEADER.size + len(self.exponents) + 4 * len(self.frame_bytes)

    @classmethod
    def read(cls, data: memoryview, n: int, nnz: int) -> Self:
        """Read and check the header of a chunk of `n` rows and `nnz` entries.

        DamagedError is raised if it is not that, or anything about it is impossible.
        """
        magic, rows, entries, doubles, label_doubles, first_row, *sizes = _HEADER.unpack_from(data)
        widths, bits, (flags, n_exponents, n_frames) = sizes[:3], sizes[3:6], sizes[6:]
        weighted = bool(flags & 4)
        expected = 1 + sum((b + 7) // 8 for b in bits) + 8 * (doubles > 0) + weighted
        if (magic, rows, entries) != (MAGIC, n, nnz) or n_frames != expected:
            raise DamagedError("the chunk header does not fit the table")
        possible = bits[0] <= 32 and bits[1] <= 64 and bits[2] <= 8
        if max(widths) > 8 or not possible or any(stored_bits(b) != b for b in bits):
            raise DamagedError("the chunk header has an impossible width")
        if doubles > nnz or label_doubles > n or first_row >= 1 << 62 or n_exponents > 24:
            raise DamagedError("the chunk header has an impossible count")
        exponents = bytes(data[_HEADER.size : _HEADER.size + n_exponents])
        if any(22 < e < RAW for e in exponents) or n_exponents < (nnz > 0):
            raise DamagedError("a value is impossible")
        layout = cls(
            n, nnz, doubles, label_doubles, first_row, tuple(widths), tuple(bits), bool(flags & 1),
            bool(flags & 2), weighted, exponents,
            struct.unpack_from(f"<{n_frames}I", data, _HEADER.size + n_exponents),
        )  # fmt: skip
        if layout.start + sum(layout.frame_bytes) != len(data):
            raise DamagedError("the frames do not fill the chunk")
        return layout
