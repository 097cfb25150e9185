"""XXH64, the 64-bit checksum of the xxHash family: of inputs as they are read, and of chunks.

Y. Collet, "xxHash fast digest algorithm", version 0.1.1, section XXH64. It tells content that
changed, not content that somebody made to look the same: there SHA-256 is for, at ten times the
cost (`sources.RawFile`).
"""

import numpy as np
from numpy.typing import NDArray

from blocklinear.kernels.jit import kernel

_P1, _P2 = np.uint64(0x9E3779B185EBCA87), np.uint64(0xC2B2AE3D27D4EB4F)
_P3, _P4 = np.uint64(0x165667B19E3779F9), np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)
_STRIPE = 32
_FIRST_LANES = np.array(
    [0x60EA27EEADC0B5D6, 0xC2B2AE3D27D4EB4F, 0, 0x61C8864E7A143579], np.uint64
)  # P1 + P2, P2, 0, -P1


class Digest:
    """The XXH64 of bytes that come in pieces."""

    def __init__(self) -> None:
        self._lanes = _FIRST_LANES.copy()
        self._rest = b""
        self._n_bytes = 0

    def update(self, data: bytes | memoryview) -> None:
        """Take in the next bytes."""
        data = memoryview(data).toreadonly()  # as those of chunks: one kernel is loaded, not two
        self._n_bytes += len(data)
        if self._rest:
            n = min(_STRIPE - len(self._rest), len(data))
            self._rest += bytes(data[:n])
            if len(self._rest) < _STRIPE:
                return
            absorb(self._lanes, np.frombuffer(self._rest, np.uint8))
            data = data[n:]
        whole = len(data) // _STRIPE * _STRIPE
        absorb(self._lanes, np.frombuffer(data[:whole], np.uint8))
        self._rest = bytes(data[whole:])

    def hexdigest(self) -> str:
        """Return the digest of what came so far, 16 hexadecimal digits."""
        h = finish(self._lanes, np.frombuffer(self._rest, np.uint8), self._n_bytes)
        return f"{int(h):016x}"


def xxh64(data: NDArray[np.uint8]) -> int:
    """Return the XXH64 of all of uint8[n] `data`."""
    lanes, whole = _FIRST_LANES.copy(), len(data) // _STRIPE * _STRIPE
    absorb(lanes, data)
    return int(finish(lanes, data[whole:], len(data)))


@kernel
def _rotate(x, n):
    return (x << np.uint64(n)) | (x >> np.uint64(64 - n))


@kernel
def _round(lane, word):
    return _rotate(lane + word * _P2, 31) * _P1


@kernel
def absorb(lanes, data):
    """Take the whole stripes of 32 bytes at the front of uint8[n] `data` into uint64[4] `lanes`."""
    words = data[: data.shape[0] // 32 * 32].view(np.uint64)
    a, b, c, d = lanes[0], lanes[1], lanes[2], lanes[3]
    for k in range(0, words.shape[0], 4):
        a = _round(a, words[k])
        b = _round(b, words[k + 1])
        c = _round(c, words[k + 2])
        d = _round(d, words[k + 3])
    lanes[0], lanes[1], lanes[2], lanes[3] = a, b, c, d


@kernel
def finish(lanes, rest, n_bytes):
    """Return the digest, a uint64.

    Parameters
    ----------
    lanes : uint64[4]         the state after all whole stripes; not changed
    rest : uint8[n]           the bytes after them, fewer than 32
    n_bytes : int             bytes in all
    """
    h = _P5
    if n_bytes >= 32:
        h = _rotate(lanes[0], 1) + _rotate(lanes[1], 7)
        h += _rotate(lanes[2], 12) + _rotate(lanes[3], 18)
        for lane in lanes:
            h = (h ^ _round(np.uint64(0), lane)) * _P1 + _P4
    h += np.uint64(n_bytes)
    words = rest[: rest.shape[0] // 8 * 8].view(np.uint64)
    for word in words:
        h = _rotate(h ^ _round(np.uint64(0), word), 27) * _P1 + _P4
    p = 8 * words.shape[0]
    if rest.shape[0] - p >= 4:
        four = np.uint64(rest[p : p + 4].view(np.uint32)[0])
        h = _rotate(h ^ (four * _P1), 23) * _P2 + _P3
        p += 4
    for q in range(p, rest.shape[0]):
        h = _rotate(h ^ (np.uint64(rest[q]) * _P5), 11) * _P1
    h = (h ^ (h >> np.uint64(33))) * _P2
    h = (h ^ (h >> np.uint64(29))) * _P3
    return h ^ (h >> np.uint64(32))
