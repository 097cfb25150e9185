"""Text of an input, plain or of gz, bz2, xz and zst streams.

Compression is recognised by magic bytes, never by the name. The end of a compressed stream is
proven: one that stops before its end mark, or is followed by anything but another member (or, for
gz and xz, zero padding), is refused.
"""

import bz2
import contextlib
import functools
import lzma
import os
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from blocklinear.errors import InputError, StorageError
from blocklinear.inputs.extents import Extent
from blocklinear.inputs.raw import READ_BYTES, RawFile
from blocklinear.memory import format_size
from blocklinear.numerals import counted
from blocklinear.options import TextOptions

_XZ_STATE_BYTES = 2 << 20  # what unpacking xz takes besides its window
_XZ_HEADERS_BYTES = 12 + 1024  # of a stream and its first block, at most
_LZMA2 = 0x21
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_MAGICS = {b"\x1f\x8b": "gz", b"BZh": "bz2", b"\xfd7zXZ\0": "xz", _ZSTD_MAGIC: "zst"}
_NO_CHECKSUM = "the input carries no checksum: damage to it may go unnoticed"


def _members(
    raw: RawFile, name: str, magic: bytes, new: Callable[[], Any], notes: list[str]
) -> Iterator[bytes]:
    """Yield what the concatenated members of a gz, bz2 or xz file hold."""
    data = raw.read()
    while data:
        if not data.startswith(magic):
            head = data[: len(magic)]
            if len(head) < len(magic):
                data += raw.peek(len(magic))[: len(magic) - len(head)]
                raw.read(len(data) - len(head))
                head = data
            if not head.startswith(magic):
                raise _surplus(raw, name, raw.position - len(data))
        member = new()
        while not member.eof:
            yield member.decompress(data, READ_BYTES)
            data = b""
            if not member.eof and member.needs_input:
                data = raw.read()
                if not data:
                    raise _cut(raw, name)
        if name == "xz" and not _is_checked(member):
            _note_no_checksum(raw, notes)
        data = member.unused_data
        if name != "bz2":  # gz and xz may be padded with zeros
            data = data.lstrip(b"\0")
        while not data and (more := raw.read()):
            data = more.lstrip(b"\0") if name != "bz2" else more


def _is_checked(member: lzma.LZMADecompressor) -> bool:
    """Say whether a member of an xz file that was unpacked was compared with a checksum."""
    return member.check != lzma.CHECK_NONE and lzma.is_check_supported(member.check)


def _note_no_checksum(raw: RawFile, notes: list[str]) -> None:
    """Note, once, that nothing proves that the content is what was packed."""
    note = f"{raw.path}: {_NO_CHECKSUM}"
    if note not in notes:
        notes.append(note)


def _cut(raw: RawFile, name: str) -> InputError:
    return InputError(
        f"{raw.path}: the {name} stream ends before its end mark, after "
        f"{counted(raw.bytes_read, 'byte')}",
        "the file is cut short: fetch it again",
    )


def _surplus(raw: RawFile, name: str, position: int) -> InputError:
    return InputError(
        f"{raw.path}: data after the end of the {name} stream, at byte {position}",
        "the file is damaged or was joined with something else: fetch it again",
    )


def _exactly(raw: RawFile, n: int) -> bytes:
    """Return the next `n` bytes of a zst stream."""
    data = bytearray()
    while len(data) < n and (more := raw.read(n - len(data))):
        data += more
    if len(data) < n:
        raise _cut(raw, "zst")
    return bytes(data)


def _is_skippable(head: bytes) -> bool:
    """Tell whether a skippable zst frame begins here; pzstd writes one before every frame."""
    return int.from_bytes(head[:4], "little") & 0xFFFFFFF0 == 0x184D2A50


def _too_large_window(raw: RawFile, name: str, needed: str, limit: int) -> InputError:
    pipe = f"or pipe it in: `{'xz -dc' if name == 'xz' else 'zstd -dc --long=31'} F | `"
    return InputError(
        f"{raw.path}: the {name} stream needs a window of {needed} {format_size(limit)}",
        f"give a larger --max-window, and four times that more --memory, {pipe}",
    )


def _window_bytes(raw: RawFile, kind: str) -> int:
    """Return the window of the first frame or block of a stream: memory that unpacking keeps.

    It is 0 where that is little, or not known.
    """
    if kind == "zst":
        import zstandard

        head = raw.peek(18)
        if _is_skippable(head) or len(head) < 18:
            return 0
        try:
            window: int = zstandard.get_frame_parameters(head).window_size
        except zstandard.ZstdError:  # that is reported when it is read
            return 0
        return window
    return _xz_window(raw.peek(_XZ_HEADERS_BYTES)) if kind == "xz" else 0


def _xz_window(head: bytes) -> int:
    """Return the dictionary size of the first block (xz file format 1.2.0, 2.1.1, 3.1, 5.3.1)."""
    fields = iter(head[13:])  # after the stream header and the size of the block header

    def number() -> int:
        value, shift = 0, 0
        while (byte := next(fields)) & 0x80:
            value |= (byte & 0x7F) << shift
            shift += 7
        return value | byte << shift

    with contextlib.suppress(StopIteration):
        flags = next(fields)
        for present in (0x40, 0x80):  # sizes of the block, packed and unpacked
            if flags & present:
                number()
        for _ in range((flags & 3) + 1):
            name, n_bytes = number(), number()
            properties = [next(fields) for _ in range(n_bytes)]
            if name == _LZMA2 and n_bytes == 1:
                bits = min(properties[0], 40)
                return (2 | bits & 1) << bits // 2 + 11
    return 0


def _zstd_frames(raw: RawFile, window_limit: int, notes: list[str]) -> Iterator[bytes]:
    """Yield what the frames of a zst file hold, one compressed block at a time.

    Walking the block headers (RFC 8878, 3.1.1) proves where each frame ends and bounds what one
    call may return (128 KiB), neither of which python-zstandard's own readers do.
    """
    import zstandard

    while head := raw.peek(18):
        if not (_is_skippable(head) or _ZSTD_MAGIC.startswith(head[:4])):
            raise _surplus(raw, "zst", raw.position)
        if len(head) < 8:
            raise _cut(raw, "zst")
        if _is_skippable(head):
            _exactly(raw, 8)
            left = int.from_bytes(head[4:8], "little")
            while left:
                left -= len(_exactly(raw, min(left, READ_BYTES)))
            continue
        frame = zstandard.get_frame_parameters(head)
        if frame.window_size > window_limit:
            needed = f"{format_size(frame.window_size)}, more than"
            raise _too_large_window(raw, "zst", needed, window_limit)
        window = min(max(window_limit, frame.window_size, 1 << 10), 1 << 31)
        decoder = zstandard.ZstdDecompressor(max_window_size=window).decompressobj()
        yield decoder.decompress(_exactly(raw, zstandard.frame_header_size(head)))
        last = False
        while not last:
            header = _exactly(raw, 3)
            (word,) = struct.unpack("<I", header + b"\0")
            last, kind, size = bool(word & 1), (word >> 1) & 3, word >> 3
            yield decoder.decompress(header + _exactly(raw, 1 if kind == 1 else size))
        if frame.has_checksum:
            yield decoder.decompress(_exactly(raw, 4))
        else:
            _note_no_checksum(raw, notes)
        if not decoder.eof:
            raise _cut(raw, "zst")


def _decompressed(raw: RawFile, kind: str, window_limit: int, notes: list[str]) -> Iterator[bytes]:
    """Yield the content of a compressed input; errors name it and say what is wrong."""
    import zstandard

    makers: dict[str, tuple[bytes, Callable[[], Any]]] = {
        "gz": (b"\x1f\x8b", Inflater),
        "bz2": (b"BZh", bz2.BZ2Decompressor),
        "xz": (
            b"\xfd7zXZ\0",
            lambda: lzma.LZMADecompressor(memlimit=window_limit + _XZ_STATE_BYTES),
        ),
    }
    try:
        if kind == "zst":
            yield from _zstd_frames(raw, window_limit, notes)
        else:
            yield from _members(raw, kind, *makers[kind], notes)
    except (
        inflating().error,
        lzma.LZMAError,
        zstandard.ZstdError,
        OSError,
        EOFError,
    ) as error:
        if isinstance(error, StorageError):
            raise
        if "Memory usage limit" in str(error):
            raise _too_large_window(raw, kind, "more than", window_limit) from error
        raise InputError(
            f"{raw.path}: damaged {kind} stream near byte {raw.bytes_read}: {error}",
            "fetch the file again",
        ) from error


class Source:
    """An input as plain text, whatever it was compressed with.

    Parameters
    ----------
    options : TextOptions     its `window_limit` and `max_decompressed` hold
    extent : Extent or None   the lines to read; text of which not all is read is plain

    Attributes
    ----------
    raw : RawFile
    at_start : bool   whether the first bytes are those of the input
    kind : str        "plain", "gz", "bz2", "xz" or "zst"
    notes : list[str]         what is odd about the input, though it can be read
    memory_bytes : int        what reading it takes: that of a URL, and what unpacking keeps of its
                              content, as far as its start tells
    """

    def __init__(self, path: str, options: TextOptions, extent: Extent | None = None) -> None:
        self.raw = RawFile(path, options.takes_sha256, options.ahead_bytes, extent)
        self.at_start = extent is None or extent.start == 0
        plain = extent is not None and not extent.whole
        self.notes: list[str] = []
        self._limit, self._unpacked = options.max_decompressed, 0
        try:
            head = b"" if plain else self.raw.peek(6)
            self.kind = next(
                (kind for magic, kind in _MAGICS.items() if head.startswith(magic)),
                "zst" if _is_skippable(head) else "plain",
            )
            window_bytes = min(_window_bytes(self.raw, self.kind), options.window_limit)
            self.memory_bytes = self.raw.memory_bytes + window_bytes
        except StorageError:
            self.raw.close()
            raise
        self._content: Iterator[bytes] | None = None
        if self.kind != "plain":
            self._content = _decompressed(self.raw, self.kind, options.window_limit, self.notes)
        if self.at_start:
            self._compare_with_name()
        self._left = memoryview(b"")

    def _compare_with_name(self) -> None:
        suffix = os.path.splitext(self.raw.path)[1]
        if suffix[1:] in _MAGICS.values() and suffix[1:] != self.kind:
            found = "plain text" if self.kind == "plain" else f"a {self.kind} stream"
            self.notes.append(f"{self.raw.path}: named {suffix}, but read as {found}, which it is")

    def __enter__(self) -> "Source":
        return self

    def __exit__(self, *exc: object) -> None:
        self.raw.close()

    def readinto(self, buffer: memoryview) -> int:
        """Fill `buffer` from the front; return the number of bytes, 0 at the proven end."""
        if self._content is None:
            return self.raw.readinto(buffer)
        while not self._left:
            more = next(self._content, None)
            if more is None:
                return 0
            self._left = memoryview(more)
            self._unpacked += len(more)
            if self._limit is not None and self._unpacked > self._limit:
                raise InputError(
                    f"{self.raw.path}: holds more than {counted(self._limit, 'byte')} of text, "
                    f"after {self.raw.bytes_read} bytes of the {self.kind} stream",
                    "give a larger --max-decompressed, if the input is to be trusted",
                )
        n = min(len(buffer), len(self._left))
        buffer[:n] = self._left[:n]
        self._left = self._left[n:]
        return n


@functools.cache
def inflating() -> Any:
    """Return the module that unpacks gz: zlib-ng, if it is installed (the extra `fast`), or zlib.

    zlib-ng does what zlib does, bit for bit, in half the time.

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
