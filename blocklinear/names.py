"""Names of features, packed: a JSON array in a zstd frame."""

import json
from collections.abc import Sequence

import zstandard

MOST_BYTES = 1 << 30
"""Of the JSON. Nothing larger is unpacked."""


def pack(names: Sequence[str]) -> tuple[bytes, int]:
    """Return names packed, and the bytes that they take unpacked."""
    text = json.dumps(list(names), separators=(",", ":")).encode("ascii")
    return zstandard.ZstdCompressor(level=3).compress(text), len(text)


def unpack(data: bytes, n_bytes: int, n_names: int) -> tuple[str, ...]:
    """Return names.

    ValueError is raised if they are not so many names, of so many bytes.

    Parameters
    ----------
    data : bytes              as from `pack`
    n_bytes : int             what they take unpacked
    """
    if not 0 <= n_bytes <= MOST_BYTES:
        raise ValueError(f"its names take {n_bytes} bytes")
    try:
        if zstandard.frame_content_size(data) != n_bytes:
            raise ValueError("its names are not of the size recorded")
        text = zstandard.ZstdDecompressor().decompress(data, max_output_size=n_bytes)
    except zstandard.ZstdError as error:
        raise ValueError(f"its names cannot be unpacked: {error}") from error
    names = json.loads(text)
    if type(names) is not list or len(names) != n_names or {*map(type, names)} - {str}:
        raise ValueError(f"it does not have {n_names} names")
    return tuple(names)
