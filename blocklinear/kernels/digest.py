"""XXH64, the 64-bit checksum of the xxHash family: every byte of a chunk is under it.

Y. Collet, "xxHash fast digest algorithm", version 0.1.1, section XXH64.
"""

import numpy as np
from numba import njit

_P1, _P2 = np.uint64(0x9E3779B185EBCA87), np.uint64(0xC2B2AE3D27D4EB4F)
_P3, _P4 = np.uint64(0x165667B19E3779F9), np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)


@njit(cache=True, nogil=True)
def _rotate(x, n):
    return (x << np.uint64(n)) | (x >> np.uint64(64 - n))


@njit(cache=True, nogil=True)
def _round(lane, word):
    return _rotate(lane + word * _P2, 31) * _P1


@njit(cache=True, nogil=True)
def xxh64(data):
    """Return the XXH64 of uint8[n] `data`, seed 0, as a uint64."""
    n = data.shape[0]
    words = data[: n // 8 * 8].view(np.uint64)
    done = n // 32 * 4
    h = _P5
    if done:
        a, b, c, d = _P1 + _P2, _P2, np.uint64(0), np.uint64(0) - _P1
        for k in range(0, done, 4):
            a = _round(a, words[k])
            b = _round(b, words[k + 1])
            c = _round(c, words[k + 2])
            d = _round(d, words[k + 3])
        h = _rotate(a, 1) + _rotate(b, 7) + _rotate(c, 12) + _rotate(d, 18)
        for lane in (a, b, c, d):
            h = (h ^ _round(np.uint64(0), lane)) * _P1 + _P4
    h += np.uint64(n)
    for k in range(done, words.shape[0]):
        h = _rotate(h ^ _round(np.uint64(0), words[k]), 27) * _P1 + _P4
    p = 8 * words.shape[0]
    if n - p >= 4:
        four = np.uint64(data[p : p + 4].view(np.uint32)[0])
        h = _rotate(h ^ (four * _P1), 23) * _P2 + _P3
        p += 4
    for q in range(p, n):
        h = _rotate(h ^ (np.uint64(data[q]) * _P5), 11) * _P1
    h = (h ^ (h >> np.uint64(33))) * _P2
    h = (h ^ (h >> np.uint64(29))) * _P3
    return h ^ (h >> np.uint64(32))
