"""Hashes of values of categories, whole arrays at a time.

The hash of a value of a column begins with the seed of the column, the first 8 bytes of the SHA-256
of its name. For each 8 bytes of the value in UTF-8, as little-endian integers, the last filled up
with zeros, h becomes mix(h xor them); at last mix(h xor length). The hash of a cross begins with
the seed of ``a*b``, and takes up the hash of each value in the same way. The feature is given by
the lowest bits. mix is the finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
"""

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklinear.kernels.text import hashes as kernels

Hashes = NDArray[np.uint64]
_NONE = np.empty(0, np.uint8)


def seed_of(name: str) -> np.uint64:
    """Return the seed of a column, or of a cross."""
    return np.uint64(int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little"))


def hash_bytes(data: NDArray[np.uint8], offsets: NDArray[Any], seed: np.uint64) -> Hashes:
    """Return the hash of each value.

    Parameters
    ----------
    data : uint8[any]
    offsets : int32[n + 1] or int64[n + 1]      value k is ``data[offsets[k]:offsets[k + 1]]``
    seed : uint64

    Returns
    -------
    uint64[n]
    """
    return _hashes(data, offsets, _NONE, 0, np.uint64(0), seed)


def hash_strings(strings: Any, seed: np.uint64, missing: str) -> Hashes:
    """Return the hashes of Arrow strings, uint64[n]; missing ones are hashed as that text."""
    n, (bitmap, offsets, data) = len(strings), strings.buffers()
    width = np.int64 if str(strings.type) == "large_string" else np.int32
    ends = np.frombuffer(offsets, width)[strings.offset : strings.offset + n + 1]
    text = np.frombuffer(data, np.uint8) if data is not None else _NONE
    if not strings.null_count:
        return hash_bytes(text, ends, seed)
    # the kernel reads the bitmap: numpy's view of an Arrow array takes pandas, where there is one
    bits = np.frombuffer(bitmap, np.uint8)
    return _hashes(text, ends, bits, strings.offset, hash_text(missing, seed), seed)


def _hashes(
    data: NDArray[np.uint8],
    ends: NDArray[Any],
    bitmap: NDArray[np.uint8],
    first: int,
    if_missing: np.uint64,
    seed: np.uint64,
) -> Hashes:
    arrays = data.view(), ends.view(), bitmap.view()
    for array in arrays:
        array.flags.writeable = False  # of one type, whoever has made it
    hashes = np.empty(len(ends) - 1, np.uint64)
    kernels.hash_values(*arrays, first, if_missing, seed, hashes)
    return hashes


def cross(seed: np.uint64, one: Hashes, other: Hashes) -> Hashes:
    """Return the hashes of pairs of values, uint64[n]."""
    hashes = np.empty(len(one), np.uint64)
    kernels.cross_hashes(seed, one, other, hashes)
    return hashes


def hash_text(text: str, seed: np.uint64) -> np.uint64:
    """Return the hash of one value."""
    data = np.frombuffer(text.encode(), np.uint8)
    return np.uint64(hash_bytes(data, np.array([0, len(data)]), seed)[0])
