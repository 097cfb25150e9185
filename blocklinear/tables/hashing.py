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

Hashes = NDArray[np.uint64]
_TAILS = np.array([(1 << 8 * k) - 1 for k in range(9)], np.uint64)
_GAMMA, _A, _B = (
    np.uint64(c) for c in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)


def seed_of(name: str) -> np.uint64:
    """Return the seed of a column, or of a cross."""
    return np.uint64(int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little"))


def mix(h: Hashes) -> Hashes:
    """Mix numbers, in place; return them.

    Parameters
    ----------
    h : uint64[n]
    """
    other = np.empty_like(h)
    np.add(h, _GAMMA, out=h)
    np.right_shift(h, np.uint64(30), out=other)
    np.bitwise_xor(h, other, out=h)
    np.multiply(h, _A, out=h)
    np.right_shift(h, np.uint64(27), out=other)
    np.bitwise_xor(h, other, out=h)
    np.multiply(h, _B, out=h)
    np.right_shift(h, np.uint64(31), out=other)
    np.bitwise_xor(h, other, out=h)
    return h


def hash_bytes(data: NDArray[np.uint8], offsets: NDArray[Any], seed: np.uint64) -> Hashes:
    """Return the hash of each value.

    Parameters
    ----------
    data : uint8[any]
    offsets : int[n + 1]      value k is ``data[offsets[k]:offsets[k + 1]]``
    seed : uint64

    Returns
    -------
    uint64[n]
    """
    n = len(offsets) - 1
    first, last = int(offsets[0]), int(offsets[-1])
    padded = np.empty(last - first + 8, np.uint8)
    padded[:-8], padded[-8:] = data[first:last], 0
    words = np.ndarray((len(padded) - 7,), "<u8", padded, strides=(1,))
    starts = offsets[:-1].astype(np.int64) - first
    lengths = np.diff(offsets).astype(np.int64)
    h = np.full(n, seed, np.uint64)
    longest = int(lengths.max()) if n else 0
    for k in range(0, longest, 8):
        left = lengths - k
        if k == 0 and int(lengths.min()) > 0:
            np.bitwise_xor(h, words[starts] & _TAILS[np.minimum(left, 8)], out=h)
            mix(h)
            continue
        some = np.flatnonzero(left > 0)
        word = words[starts[some] + k] & _TAILS[np.minimum(left[some], 8)]
        h[some] = mix(h[some] ^ word)
    np.bitwise_xor(h, lengths.view(np.uint64), out=h)
    return mix(h)


def cross(seed: np.uint64, one: Hashes, other: Hashes) -> Hashes:
    """Return the hashes of pairs of values, uint64[n]."""
    return mix(mix(seed ^ one) ^ other)


def hash_text(text: str, seed: np.uint64) -> np.uint64:
    """Return the hash of one value."""
    data = np.frombuffer(text.encode(), np.uint8)
    return np.uint64(hash_bytes(data, np.array([0, len(data)]), seed)[0])
