"""The chunk: about 10**5 nonzeros of rows, encoded losslessly, decodable on its own.

Layout, all integers little-endian::

    magic            4 bytes   "BLKC"
    rows, nnz        2 x u32
    doubles          u32       entries stored as float64 (exponent 255)
    label_doubles    u32       labels stored as float64
    first_row        u64       number of the first row
    widths           5 x u8    planes of row lengths, row gaps, label mantissas, gaps, mantissas
    flags            u8        bit 0 mantissas folded by zigzag, bit 1 label mantissas likewise
    frames           u16       number of frames that follow
    frame bytes      u32 each  length of each frame
    frame ...                  each one zstd frame with content size and checksum, or, under
                               compression "none", the bytes themselves

Frame 0 holds what there is one of per row, plane after plane: row lengths; gaps between row
numbers (number - previous - 1, 0 for the first); label mantissas; label exponents (one plane);
label doubles (float64). Each further frame is one plane: of index gaps (`kernels.codec.gaps_of`),
of mantissas, of doubles (eight, if there are any), and last the plane of exponents.

A number is ``mantissa / 10**exponent``; its text gave both, and the division rounds to exactly the
double that the text denotes. A whole-chunk CRC-32 lives in the block's table (`store.blocks`).
"""

import re
import struct
import threading
from dataclasses import dataclass

import numpy as np
import zstandard
from numpy.typing import NDArray

from blocklinear.errors import DamagedError, UsageError
from blocklinear.kernels import codec as kernels
from blocklinear.kernels import scaling

MAGIC = b"BLKC"
_HEADER = struct.Struct("<4sIIIIQ5BBH")
_POWERS = np.array([10.0**k for k in range(23)])
_local = threading.local()
DECODING_ERRORS = (zstandard.ZstdError, struct.error)


@dataclass(frozen=True)
class Chunk:
    """Rows of one block on their way to disk; `encode` uses the arrays up.

    Attributes
    ----------
    row_numbers, lengths : int64[n_rows]
    label_mantissa, label_exponent : int64[n_rows], uint8[n_rows]
    indices : uint32[nnz]     as written, strictly increasing in each row
    mantissa, exponent : int64[nnz], uint8[nnz]
    """

    row_numbers: NDArray[np.int64]
    lengths: NDArray[np.int64]
    label_mantissa: NDArray[np.int64]
    label_exponent: NDArray[np.uint8]
    indices: NDArray[np.uint32]
    mantissa: NDArray[np.int64]
    exponent: NDArray[np.uint8]


def compression_level(name: str) -> int | None:
    """Return the zstd level of ``none``, ``zstd`` or ``zstd:LEVEL``; None means stored as is."""
    if name == "none":
        return None
    kind, _, level = name.partition(":")
    if kind == "zstd" and re.fullmatch("-?[0-9]{1,2}", level or "1") and -7 <= int(level or 1) < 20:
        return int(level or 1)
    raise UsageError(f"compression {name!r} is unknown", "use none, zstd or zstd:LEVEL (-7 to 19)")


def _width(largest: int) -> int:
    return (int(largest).bit_length() + 7) // 8


def _planes(numbers: NDArray[np.generic], width: int) -> NDArray[np.uint8]:
    planes = np.empty((width, len(numbers)), np.uint8)
    kernels.to_planes(numbers, planes)
    return planes


def _fold(
    mantissa: NDArray[np.int64], exponent: NDArray[np.uint8]
) -> tuple[NDArray[np.float64], bool, int]:
    """Take the doubles out of `mantissa` and make the rest non-negative, in place.

    Returns
    -------
    doubles : float64[m]
    folded : bool
    width : int               planes the mantissas need
    """
    doubles = np.empty(int(np.count_nonzero(exponent == kernels.RAW)))
    _, least, largest = kernels.take_doubles(mantissa, mantissa.view(np.float64), exponent, doubles)
    if least < 0:
        kernels.zigzag(mantissa)
        largest = max(2 * largest, -2 * least - 1)
    return doubles, least < 0, _width(largest)


def encode(chunk: Chunk, level: int | None) -> bytes:
    """Return the bytes of a chunk, compressed at zstd `level` (None: stored as is)."""
    indptr = np.zeros(len(chunk.lengths) + 1, np.int64)
    np.cumsum(chunk.lengths, out=indptr[1:])
    gaps = np.empty(len(chunk.indices), np.uint32)
    gap_width = _width(kernels.gaps_of(indptr, chunk.indices, gaps))
    row_gaps = np.diff(chunk.row_numbers, prepend=chunk.row_numbers[:1] - 1) - 1
    doubles, folded, width = _fold(chunk.mantissa, chunk.exponent)
    label_doubles, label_folded, label_width = _fold(chunk.label_mantissa, chunk.label_exponent)
    length_width, row_width = _width(chunk.lengths.max()), _width(row_gaps.max())
    per_row = b"".join(
        (
            _planes(chunk.lengths, length_width).tobytes(),
            _planes(row_gaps, row_width).tobytes(),
            _planes(chunk.label_mantissa, label_width).tobytes(),
            chunk.label_exponent.tobytes(),
            label_doubles.tobytes(),
        )
    )
    frames = [
        per_row,
        *_planes(gaps, gap_width),
        *_planes(chunk.mantissa, width),
        *(_planes(doubles.view(np.int64), 8) if len(doubles) else ()),
        chunk.exponent,
    ]
    if level is None:
        packed = [bytes(frame) for frame in frames]
    else:
        compressor = zstandard.ZstdCompressor(
            level=level, write_checksum=True, write_content_size=True
        )
        packed = [compressor.compress(frame) for frame in frames]
    header = _HEADER.pack(
        MAGIC, len(chunk.lengths), len(gaps), len(doubles), len(label_doubles),
        int(chunk.row_numbers[0]), length_width, row_width, label_width, gap_width, width,
        folded | label_folded << 1, len(packed),
    )  # fmt: skip
    return b"".join((header, struct.pack(f"<{len(packed)}I", *map(len, packed)), *packed))


@dataclass(frozen=True)
class Target:
    """Where a chunk is decoded to: slices of a group's arrays.

    Attributes
    ----------
    first : int               position of the chunk's first entry in the group
    indptr : int64[n_rows]    end of each row, counted in the group
    indices : uint32[nnz]
    values : float64[nnz] or float32[nnz]
    labels, sq_norm : float64[n_rows]
    row_numbers : int64[n_rows]
    """

    first: int
    indptr: NDArray[np.int64]
    indices: NDArray[np.uint32]
    values: NDArray[np.floating]
    labels: NDArray[np.float64]
    sq_norm: NDArray[np.float64]
    row_numbers: NDArray[np.int64]


class _Frames:
    """The frames of a chunk, each decompressed to exactly the size it must have."""

    def __init__(self, data: memoryview, lengths: tuple[int, ...], compressed: bool) -> None:
        self._data, self._lengths, self._compressed = data, iter(lengths), compressed
        self._offset = 0

    def next(self, size: int) -> bytes | memoryview:
        length = next(self._lengths)
        frame = self._data[self._offset : self._offset + length]
        self._offset += length
        if not self._compressed:
            content: bytes | memoryview = frame
        elif zstandard.frame_content_size(frame) != size:
            raise DamagedError("a frame has the wrong size")
        else:
            if not hasattr(_local, "decompressor"):
                _local.decompressor = zstandard.ZstdDecompressor()
            content = _local.decompressor.decompress(frame, allow_extra_data=False)
        if len(content) != size:
            raise DamagedError("a frame has the wrong size")
        return content

    def planes(self, width: int, n: int) -> NDArray[np.uint8]:
        """Return the next `width` frames of `n` bytes as uint8[width, n], in reused memory."""
        scratch = _scratch(width * n)
        for b in range(width):
            scratch[b * n : (b + 1) * n] = np.frombuffer(self.next(n), np.uint8)
        return scratch[: width * n].reshape(width, n)


def _scratch(size: int) -> NDArray[np.uint8]:
    buffer: NDArray[np.uint8] | None = getattr(_local, "scratch", None)
    if buffer is None or len(buffer) < size:
        _local.scratch = buffer = np.empty(size, np.uint8)
    return buffer


def decode(
    data: memoryview,
    target: Target,
    n_features: int,
    index_base: int,
    compressed: bool,
    normalized: bool = False,
) -> None:
    """Decode a chunk into `target`; if `normalized`, divide each row by its norm.

    Raises
    ------
    DamagedError
        If anything about it is impossible; bounds are checked before any solver sees the arrays.
    """
    n, nnz = len(target.labels), len(target.indices)
    (magic, rows, entries, n_doubles, n_label_doubles, first_row, *widths, flags, n_frames) = (
        _HEADER.unpack_from(data)
    )
    length_width, row_width, label_width, gap_width, width = widths
    expected = 1 + gap_width + width + 1 + 8 * (n_doubles > 0)
    if (magic, rows, entries) != (MAGIC, n, nnz) or n_frames != expected:
        raise DamagedError("the chunk header does not fit the table")
    if max(length_width, row_width, label_width, width) > 8 or gap_width > 4:
        raise DamagedError("the chunk header has an impossible width")
    if n_doubles > nnz or n_label_doubles > n or first_row >= 1 << 62:
        raise DamagedError("the chunk header has an impossible count")
    lengths_at = _HEADER.size + 4 * n_frames
    frame_bytes = struct.unpack_from(f"<{n_frames}I", data, _HEADER.size)
    if lengths_at + sum(frame_bytes) != len(data):
        raise DamagedError("the frames do not fill the chunk")
    frames = _Frames(data[lengths_at:], frame_bytes, compressed)

    per_row = (length_width + row_width + label_width + 1) * n + 8 * n_label_doubles
    row_bytes = np.frombuffer(frames.next(per_row), np.uint8).copy()

    def take(width: int) -> NDArray[np.int64]:
        nonlocal row_bytes
        out = np.empty(n, np.int64)
        kernels.from_planes(row_bytes[: width * n].reshape(width, n), out)
        row_bytes = row_bytes[width * n :]
        return out

    lengths, row_gaps, label_bits = take(length_width), take(row_width), take(label_width)
    label_exponent, label_doubles = row_bytes[:n], np.frombuffer(row_bytes[n:].tobytes())
    # each length is bounded too, as their sum could wrap around to the right one
    if lengths.min(initial=0) < 0 or lengths.max(initial=0) > nnz or lengths.sum() != nnz:
        raise DamagedError("the row lengths do not add up")
    if row_gaps.min(initial=0) < 0:
        raise DamagedError("the row numbers do not increase")
    target.row_numbers[:] = np.cumsum(row_gaps + 1) + (first_row - 1)
    used = kernels.to_numbers(
        label_bits, label_exponent, label_doubles, bool(flags & 2), _POWERS, target.labels
    )
    if used != n_label_doubles:
        raise DamagedError("a label is impossible")

    kernels.from_planes(frames.planes(gap_width, nnz), target.indices)
    bits = target.values.view(np.int64) if target.values.itemsize == 8 else np.empty(nnz, np.int64)
    kernels.from_planes(frames.planes(width, nnz), bits)
    doubles = np.empty(n_doubles, np.int64)
    if n_doubles:
        kernels.from_planes(frames.planes(8, n_doubles), doubles)
    exponent = frames.planes(1, nnz)[0]
    used = kernels.to_numbers(
        bits, exponent, doubles.view(np.float64), bool(flags & 1), _POWERS, target.values
    )
    if used != n_doubles:
        raise DamagedError("a value is impossible")
    if target.values.itemsize == 4 and not np.isfinite(target.values).all():
        raise DamagedError("a value is too large for float32")
    if not kernels.to_indices(
        lengths, n_features, index_base, target.first, target.indptr, target.indices,
        target.values, target.sq_norm,
    ):  # fmt: skip
        raise DamagedError(f"an index is not below {n_features + index_base}")
    if normalized:
        scaling.normalize_rows(lengths, target.values, target.sq_norm)
