"""Chunks encoded and decoded, to the layout of `store.layout`."""

import contextlib
import functools
import re
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import zstandard
from numpy.typing import NDArray

from blocklinear.errors import DamagedError, UsageError
from blocklinear.kernels.blocks import codec as kernels
from blocklinear.kernels.blocks import scaling
from blocklinear.kernels.blocks.features import sort_rows
from blocklinear.kernels.shared import RAW
from blocklinear.kernels.text.decimals import to_decimals
from blocklinear.kernels.text.powers import POWERS
from blocklinear.pages import Pages
from blocklinear.store.layout import Layout, plane_bytes, stored_bits

SAMPLE_BYTES = 4096
LEAST_SAVED_BITS = 1.5
"""What zstd must save a number, or three quarters of a plane: it takes longer than all else."""
KEPT_BYTES = 4 << 20
"""Scratch memory of a thread that is used again is smaller than that."""
MANY_PLANES = 4
"""Where mantissas take more bytes than so many, zstd is spared their planes if few of them do."""
PLANE_BYTES = 0.2
"""What a plane costs a number besides its bytes that are not 0: time, and what zstd leaves of 0."""
MANY_EXPONENTS = 4
"""More than so many are made fewer where that costs no bit: codes of 2 bits do without zstd."""
_local = threading.local()
_WRONG_ROWS = (
    "", "the row lengths do not add up", "the row numbers do not increase", "a label is impossible"
)  # fmt: skip


@dataclass(frozen=True)
class Chunk:
    """Rows of one block on their way to disk; `encode` uses the arrays up."""

    row_numbers: NDArray[np.int64]  # int64[n_rows]
    lengths: NDArray[np.int64]  # int64[n_rows]
    label_mantissa: NDArray[np.int64]  # int64[n_rows]
    label_exponent: NDArray[np.uint8]  # uint8[n_rows]
    # uint32[nnz]: as written, strictly increasing in each row when it is encoded
    indices: NDArray[np.uint32]
    mantissa: NDArray[np.int64]  # int64[nnz]
    exponent: NDArray[np.uint8]  # uint8[nnz]
    weights: NDArray[np.float64] | None = None  # float64[n_rows]

    def sort(self) -> None:
        """Sort the entries of each row by index."""
        sort_rows(self.lengths, self.indices, self.mantissa, self.exponent, np.empty(0, np.uint8))

    def copy(self) -> "Chunk":
        """Return the same in memory of its own."""
        parts: list[Any] = [part if part is None else part.copy() for part in vars(self).values()]
        return Chunk(*parts)


def decimals(numbers: NDArray[np.floating]) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Return mantissas and exponents of numbers that have no text, for `Chunk`."""
    mantissa, exponent = np.empty(len(numbers), np.int64), np.empty(len(numbers), np.uint8)
    doubles = np.asarray(numbers, np.float64)
    to_decimals(doubles, mantissa, exponent)
    return mantissa, exponent


def compression_level(name: str) -> int | None:
    """Return the zstd level of ``none``, ``zstd`` or ``zstd:LEVEL``; None means stored as is."""
    if name == "none":
        return None
    kind, _, level = name.partition(":")
    if kind == "zstd" and re.fullmatch("-?[0-9]{1,2}", level or "1") and -7 <= int(level or 1) < 20:
        return int(level or 1)
    raise UsageError(f"compression {name!r} is unknown", "use none, zstd or zstd:LEVEL (-7 to 19)")


def _scratch(name: str, size: int) -> NDArray[np.uint8]:
    """Return `size` bytes of this thread, the same ones at every call with this name.

    What only a long row needs is not kept.
    """
    if size > KEPT_BYTES:
        return Pages(size).array
    buffer: NDArray[np.uint8] | None = getattr(_local, name, None)
    if buffer is None or len(buffer) < size:
        buffer = np.empty(size, np.uint8)
        setattr(_local, name, buffer)
    return buffer[:size]


@dataclass(frozen=True)
class _Numbers:
    """Numbers taken apart: how their mantissas are stored, and what needs a float64."""

    bits: int
    folded: bool
    exponents: list[int]
    doubles: NDArray[np.float64]


def _most_of_decimals(mantissa: NDArray[np.int64], exponent: NDArray[np.uint8]) -> tuple[int, int]:
    """Return up to which mantissa decimals are stored as such, and how many are above.

    Each plane has a byte of all numbers, so a few wide ones, as standardised values next to
    indicators, are dear: as float64 they take less.
    """
    sizes = np.where(exponent == RAW, 0, np.abs(mantissa))
    most = [(1 << max(8 * width - 1, 0)) - 1 for width in range(8)]
    wider = [int(np.count_nonzero(sizes > limit)) for limit in most]  # with their sign
    costs = [
        sum(wider[:w]) + (8 - w) * wider[w] + PLANE_BYTES * w * len(mantissa) for w in range(8)
    ]
    width = int(np.argmin(costs))
    return (most[width] if wider[width] else kernels.MOST_INTEGER), wider[width]


def _take_apart(
    mantissa: NDArray[np.int64],
    exponent: NDArray[np.uint8],
    as_given: bool = False,
    narrow: bool = False,
) -> _Numbers:
    """Take the doubles out of `mantissa` and make the rest non-negative, in place.

    If `as_given` is set, decimals stay as they are; otherwise there may be fewer exponents. If
    `narrow` is set, few wide decimals may become doubles, too.
    """
    bits, negative, found = kernels.decimal_stats(mantissa, exponent)
    doubles, most, n_doubles = np.empty(0), kernels.MOST_INTEGER, 0
    if narrow and int(bits).bit_length() + negative > 8 * MANY_PLANES:
        most, n_doubles = _most_of_decimals(mantissa, exponent)
    if found >> 63:
        n_doubles += int(np.count_nonzero(exponent == RAW))
    if n_doubles:
        doubles = np.empty(n_doubles + 1)
        kernels.take_doubles(mantissa, exponent, most, doubles)
        doubles = doubles[:n_doubles]
        bits, negative, found = kernels.decimal_stats(mantissa, exponent)
    exponents = [e for e in range(len(POWERS)) if found >> e & 1]
    if len(exponents) > MANY_EXPONENTS and not found >> 63 and not as_given:
        most = (1 << min(stored_bits(int(bits).bit_length() + negative) - negative, 53)) - 1
        least = exponents[-MANY_EXPONENTS]
        if kernels.raise_exponents(mantissa, exponent, least, most):
            bits, exponents = most, exponents[-MANY_EXPONENTS:]
    if negative:
        kernels.zigzag(mantissa)
    exponents += [RAW] * bool(found >> 63)
    return _Numbers(int(bits).bit_length() + negative, negative, exponents, doubles)


def _rows(
    chunk: Chunk, row_gaps: NDArray[np.int64], labels: _Numbers, bits: list[int]
) -> tuple[bytes, list[int]]:
    """Return frame 0 and the widths of its planes."""
    widths = [(b + 7) // 8 for b in (*bits, labels.bits)]
    n = len(row_gaps)
    planes, start = np.empty(sum(widths) * n, np.uint8), 0
    columns = chunk.lengths, row_gaps, chunk.label_mantissa
    for numbers, width in zip(columns, widths, strict=True):
        if width:
            kernels.pack(numbers, 8 * width, planes[start : start + width * n])
        start += width * n
    frame = b"".join((planes.data, chunk.label_exponent.tobytes(), labels.doubles.tobytes()))
    return frame, widths


def _entries(
    chunk: Chunk, gaps: NDArray[np.uint32], gap_bits: int, values: _Numbers
) -> tuple[list[memoryview], tuple[int, int, int]]:
    """Return the planes of entries (valid until the next call), and their bits."""
    gap_bits = stored_bits(gap_bits)
    codes = np.zeros(256, np.uint8)
    codes[values.exponents] = np.arange(len(values.exponents))
    kernels.take_codes(codes, chunk.exponent)
    code_bits = stored_bits(max(len(values.exponents) - 1, 0).bit_length())
    bits = (gap_bits, stored_bits(values.bits), code_bits)
    columns: list[tuple[NDArray[Any], int]] = [
        (gaps, bits[0]), (chunk.mantissa, bits[1]),
        (values.doubles.view(np.int64), 64 if len(values.doubles) else 0),
        (chunk.exponent, bits[2]),
    ]  # fmt: skip
    sizes = [size for numbers, n_bits in columns for size in plane_bytes(n_bits, len(numbers))]
    room, at = _scratch("planes", sum(sizes)), 0
    for numbers, n_bits in columns:
        at += kernels.pack(numbers, n_bits, room[at:])
    ends = np.cumsum(sizes).tolist()
    planes = [room[end - size : end].data for end, size in zip(ends, sizes, strict=True)]
    return planes, bits


def encode(chunk: Chunk, level: int | None) -> bytes:
    """Return the bytes of a chunk, compressed at zstd `level` (None: stored as is)."""
    return b"".join(encode_parts(chunk, level))


def encode_parts(
    chunk: Chunk, level: int | None, as_given: bool = False
) -> list[bytes | memoryview]:
    """Return them in parts, without a copy; they are valid until this thread encodes again.

    If `as_given` is set, `decode_decimals` returns the very decimals; otherwise equal numbers.
    """
    row_gaps = np.diff(chunk.row_numbers, prepend=chunk.row_numbers[0] - 1) - 1
    gaps = _scratch("gaps", 4 * len(chunk.indices)).view(np.uint32)
    gap_bits = int(kernels.gaps_of(chunk.lengths, chunk.indices, gaps)).bit_length()
    bits_of_rows = [int(np.bitwise_or.reduce(of)).bit_length() for of in (chunk.lengths, row_gaps)]
    labels = _take_apart(chunk.label_mantissa, chunk.label_exponent)
    narrow = level is not None and not as_given
    values = _take_apart(chunk.mantissa, chunk.exponent, as_given, narrow)
    per_row, widths = _rows(chunk, row_gaps, labels, bits_of_rows)
    planes, bits = _entries(chunk, gaps, gap_bits, values)
    frames: list[bytes | memoryview] = [per_row, *planes]
    if chunk.weights is not None:
        frames.append(np.ascontiguousarray(_bytes_of(chunk.weights).T).data.cast("B"))
    if level is not None:
        compressor = _compressor(level)
        frames[0] = _smaller(per_row, compressor)
        for k, plane in enumerate(planes, 1):
            frames[k] = _smaller(plane, compressor, len(chunk.indices))
        if chunk.weights is not None:
            frames[-1] = _smaller(frames[-1], compressor)
    layout = Layout(
        len(chunk.lengths), len(chunk.indices), len(values.doubles), len(labels.doubles),
        int(chunk.row_numbers[0]), tuple(widths), bits, values.folded, labels.folded,
        chunk.weights is not None, bytes(values.exponents), tuple(map(len, frames)),
    )  # fmt: skip
    return [bytes(layout), *frames]


def _bytes_of(weights: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Return the bytes of each number, uint8[n, 8], the lowest first."""
    return weights.astype("<f8").view(np.uint8).reshape(-1, 8)


def _compressor(level: int) -> zstandard.ZstdCompressor:
    """Return this thread's compressor."""
    if getattr(_local, "level", None) != level:
        _local.level, _local.compressor = level, zstandard.ZstdCompressor(level=level)
    compressor: zstandard.ZstdCompressor = _local.compressor
    return compressor


def _smaller(
    frame: bytes | memoryview, compressor: zstandard.ZstdCompressor, numbers: int = 0
) -> bytes | memoryview:
    """Return the frame compressed, or as it is if that does not save enough for its numbers."""
    least_saved = min(numbers * LEAST_SAVED_BITS / 8, 0.75 * len(frame) if numbers else 0)
    if len(frame) > 4 * SAMPLE_BYTES:
        middle = len(frame) // 2
        saved = SAMPLE_BYTES - len(compressor.compress(frame[middle : middle + SAMPLE_BYTES]))
        if saved * len(frame) < least_saved * SAMPLE_BYTES:
            return frame
    compressed: bytes = compressor.compress(frame)
    return compressed if len(frame) - len(compressed) > least_saved else frame


@dataclass(frozen=True)
class DecodeBuffers:
    """Where a chunk is decoded to: slices of a group's arrays."""

    first: int  # position of the chunk's first entry in the group
    indptr: NDArray[np.int64]  # int64[n_rows]: end of each row, counted in the group
    indices: NDArray[np.uint32]  # uint32[nnz]
    values: NDArray[np.floating]  # float64[nnz] or float32[nnz]
    labels: NDArray[np.float64]  # float64[n_rows]
    sq_norm: NDArray[np.float64]  # float64[n_rows]
    row_numbers: NDArray[np.int64]  # int64[n_rows]
    # float64[n_rows], or float64[0] where rows have none
    weights: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))


class _Frames:
    """The frames of a chunk, each put where it belongs, of exactly the size it must have."""

    def __init__(self, data: memoryview, layout: Layout) -> None:
        self._parts = self._cut(data, layout)

    @staticmethod
    def _cut(data: memoryview, layout: Layout) -> Iterator[memoryview]:
        start = layout.start
        for length in layout.frame_bytes:
            yield data[start : start + length]
            start += length

    def put(self, out: NDArray[np.uint8]) -> None:
        """Write the content of the next frame, which must fill `out`."""
        frame = next(self._parts)
        if len(frame) == len(out):
            out.data[:] = frame  # which takes less than giving Python's lock away meanwhile
            return
        header = zstandard.get_frame_parameters(frame)
        if header.content_size != len(out):
            raise DamagedError("a frame has the wrong size")
        if not hasattr(_local, "decompressor"):
            _local.decompressor = zstandard.ZstdDecompressor()
        if header.has_checksum:  # a reader does not miss one that is cut off; chunks have their own
            content = _local.decompressor.decompress(frame, allow_extra_data=False)
            out[:] = np.frombuffer(content, np.uint8)
            return
        # straight to its place: new memory and a copy would take twice as long as decompressing
        with _local.decompressor.stream_reader(frame, read_across_frames=True) as reader:
            if reader.readinto(out) < len(out) or reader.read(1):
                raise DamagedError("a frame has the wrong size")

    def planes(self, bits: int, n: int, spare: int = 0) -> NDArray[np.uint8]:
        """Return the next planes, uint8[width + spare, n] in reused memory, a packed one last."""
        sizes = plane_bytes(bits, n)
        planes = _scratch("decoded", (len(sizes) + spare) * n).reshape(len(sizes) + spare, n)
        for plane, size in zip(planes, sizes, strict=False):
            self.put(plane[:size])
        return planes


@contextlib.contextmanager
def decoding(damaged: Callable[[str], DamagedError]) -> Iterator[None]:
    """Raise what `damaged` makes of the reason where a chunk cannot be decoded."""
    try:
        yield
    except (DamagedError, ValueError, zstandard.ZstdError, struct.error) as error:
        raise damaged(str(error).partition("\n")[0]) from error


def decode(
    data: memoryview,
    buffers: DecodeBuffers,
    n_features: int,
    index_base: int,
    normalized: bool = False,
) -> None:
    """Decode a chunk into `buffers`; if `normalized`, divide each row by its norm.

    DamagedError is raised if anything about it is impossible; bounds are checked before any solver
    sees the arrays.
    """
    layout = Layout.read(data, len(buffers.labels), len(buffers.indices))
    if layout.weighted != (len(buffers.weights) > 0):
        raise DamagedError("its rows have weights and the store has none, or the other way round")
    frames = _Frames(data, layout)
    lengths = _decode_indices(frames, layout, buffers, n_features, index_base)
    _decode_values(
        frames, layout, buffers.values, lengths[: 0 if normalized else None], buffers.sq_norm
    )
    if layout.weighted:
        _decode_weights(frames, buffers.weights)
    if normalized:
        scaling.normalize_rows(lengths, buffers.values, buffers.sq_norm)


def decode_decimals(
    data: memoryview, buffers: DecodeBuffers, n_features: int, index_base: int
) -> tuple[NDArray[np.int64], NDArray[np.integer], NDArray[np.uint8]]:
    """Decode a chunk into `buffers`, but values to decimals, and neither norms nor weights.

    DamagedError is raised as by `decode`.

    Returns
    -------
    lengths : int64[n_rows]
    mantissa : int32[nnz] or int64[nnz]
    exponent : uint8[nnz]     `RAW` where `mantissa` has the bits of a float64
    """
    layout = Layout.read(data, len(buffers.labels), len(buffers.indices))
    frames = _Frames(data, layout)
    lengths = _decode_indices(frames, layout, buffers, n_features, index_base)
    nnz = layout.nnz
    kind: type[np.integer] = np.int32 if fits_int32(layout) else np.int64
    mantissa: NDArray[np.integer] = np.empty(nnz, kind)
    exponent = np.empty(nnz, np.uint8)
    meanings = np.zeros(256, np.uint8)
    meanings[: len(layout.exponents)] = list(layout.exponents)
    planes, doubles = _value_planes(frames, layout)
    if not kernels.to_mantissas(
        planes, layout.bits[1], layout.bits[2], layout.folded, meanings, len(layout.exponents),
        layout.exponents.find(RAW), doubles, mantissa, exponent,
    ) or not np.isfinite(doubles.view(np.float64)).all():  # fmt: skip
        raise DamagedError("a value is impossible")
    return lengths, mantissa, exponent


def to_values(
    mantissa: NDArray[np.integer], exponent: NDArray[np.uint8], dtype: str
) -> NDArray[np.floating]:
    """Return the numbers of `decode_decimals` as `decode` gives them."""
    raw = exponent == RAW
    values = mantissa / POWERS[np.where(raw, 0, exponent)]
    if raw.any():
        values[raw] = mantissa[raw].view(np.float64)
    return values.astype(dtype, copy=False)


def decode_indices(
    data: memoryview, buffers: DecodeBuffers, n_features: int, index_base: int
) -> Layout:
    """Decode the rows of a chunk and its indices, but no values; return its header.

    DamagedError is raised as by `decode`.
    """
    layout = Layout.read(data, len(buffers.labels), len(buffers.indices))
    _decode_indices(_Frames(data, layout), layout, buffers, n_features, index_base)
    return layout


def fits_int32(layout: Layout) -> bool:
    """Return whether mantissas of a chunk are decoded to int32."""
    return layout.bits[1] < 32 and not layout.doubles


def _decode_indices(
    frames: _Frames, layout: Layout, buffers: DecodeBuffers, n_features: int, index_base: int
) -> NDArray[np.int64]:
    """Decode rows and indices; return the row lengths."""
    lengths = _decode_rows(frames, layout, buffers, layout.nnz)
    planes = frames.planes(layout.bits[0], layout.nnz, spare=1)
    if not kernels.to_columns(
        planes, layout.bits[0], lengths, n_features, index_base, buffers.first, buffers.indptr,
        buffers.indices,
    ):  # fmt: skip
        raise DamagedError(f"an index is not below {n_features + index_base}")
    return lengths


def _decode_rows(
    frames: _Frames, layout: Layout, buffers: DecodeBuffers, nnz: int
) -> NDArray[np.int64]:
    """Decode row numbers and labels; return the row lengths."""
    n, width = len(buffers.labels), sum(layout.widths)
    content = np.empty((width + 1) * n + 8 * layout.label_doubles, np.uint8)
    frames.put(content)
    planes, lengths = content[: (width + 1) * n].reshape(width + 1, n), np.empty(n, np.int64)
    doubles = np.frombuffer(content[(width + 1) * n :].tobytes())
    wrong = kernels.to_rows(
        planes, layout.widths, layout.first_row, nnz, doubles, layout.label_folded, lengths,
        buffers.row_numbers, buffers.labels,
    )  # fmt: skip
    if wrong:
        raise DamagedError(_WRONG_ROWS[wrong])
    return lengths


def _decode_weights(frames: _Frames, weights: NDArray[np.float64]) -> None:
    planes = np.empty((8, len(weights)), np.uint8)
    frames.put(planes.reshape(-1))
    weights[:] = np.ascontiguousarray(planes.T).view("<f8")[:, 0]
    if not ((weights >= 0.0) & (weights < np.inf)).all():
        raise DamagedError("a weight is impossible")


def _value_planes(frames: _Frames, layout: Layout) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the planes of mantissas and of codes, and the bits of doubles."""
    nnz, (_, bits, code_bits) = layout.nnz, layout.bits
    width = (bits + 7) // 8
    planes = frames.planes(bits, nnz, spare=1)
    doubles = np.empty(layout.doubles, np.int64)
    if layout.doubles:
        raw = np.empty((8, layout.doubles), np.uint8)
        for plane in raw:
            frames.put(plane)
        doubles = np.ascontiguousarray(raw.T).view("<i8")[:, 0].copy()
    for size in plane_bytes(code_bits, nnz):
        frames.put(planes[width, :size])
    return planes, doubles


def _decode_values(
    frames: _Frames,
    layout: Layout,
    values: NDArray[np.floating],
    lengths: NDArray[np.int64],
    sq_norm: NDArray[np.float64],
) -> None:
    """Decode values, and the norms of rows of these lengths."""
    planes, doubles = _value_planes(frames, layout)
    if not kernels.to_values(
        planes, layout.bits[1], layout.bits[2], layout.folded, _divisors(layout.exponents),
        len(layout.exponents), layout.exponents.find(RAW), doubles.view(np.float64), values,
        lengths, sq_norm,
    ):  # fmt: skip
        raise DamagedError("a value is impossible")
    if values.itemsize == 4 and not np.isfinite(values).all():
        raise DamagedError("a value is too large for float32")


@functools.cache
def _divisors(exponents: bytes) -> NDArray[np.float64]:
    """Return what a mantissa is divided by for each code there may be, float64[256]."""
    divisors = np.ones(256)
    for code, exponent in enumerate(exponents):
        divisors[code] = POWERS[exponent] if exponent < len(POWERS) else 1.0
    return divisors
