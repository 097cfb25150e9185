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
_NONE = np.frombuffer(b"", np.uint8)


def seed_of(name: str) -> np.uint64:
    """Return the seed of a column, or of a cross."""
    return np.uint64(int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little"))


def hash_values(
    data: NDArray[np.uint8],
    ends: NDArray[Any],
    bitmap: NDArray[np.uint8],
    first: int,
    missing: str,
    seed: np.uint64,
) -> Hashes:
    """Return the hash of each value.

    Parameters
    ----------
    data, ends, bitmap : read-only arrays         as `values.text_of` returns them
    first : int               which bit of the bitmap is that of the first value
    missing : str             what missing values are hashed as

    Returns
    -------
    uint64[n]
    """
    hashes = np.empty(len(ends) - 1, np.uint64)
    if_missing = hash_text(missing, seed) if len(bitmap) else np.uint64(0)
    kernels.hash_values(data, ends, bitmap, first, if_missing, seed, hashes)
    return hashes


def cross(seed: np.uint64, one: Hashes, other: Hashes) -> Hashes:
    """Return the hashes of pairs of values, uint64[n]."""
    hashes = np.empty(len(one), np.uint64)
    kernels.cross_hashes(seed, one, other, hashes)
    return hashes


def hash_text(text: str, seed: np.uint64) -> np.uint64:
    """Return the hash of one value."""
    data = np.frombuffer(text.encode(), np.uint8)
    ends = np.array([0, len(data)])
    ends.flags.writeable = False
    return np.uint64(hash_values(data, ends, _NONE, 0, "", seed)[0])
