"""Random orders as pure functions of a key."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def _mix(x):
    """Return 64 well mixed bits of x (the finaliser of SplitMix64, Steele et al. 2014)."""
    x = np.uint64(x + np.uint64(0x9E3779B97F4A7C15))
    x = np.uint64((x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9))
    x = np.uint64((x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB))
    return x ^ (x >> np.uint64(31))


@njit(cache=True, nogil=True)
def permutation(key, out):
    """Write a permutation of 0..n-1 drawn with the words of `key` (Fisher-Yates).

    Parameters
    ----------
    key : uint64[n_words]     what the order depends on
    out : int64[n]            written
    """
    state = np.uint64(0)
    for word in key:
        state = _mix(state ^ word)
    n = out.shape[0]
    for i in range(n):
        out[i] = i
    for i in range(n - 1, 0, -1):
        state += np.uint64(0x9E3779B97F4A7C15)
        # the high half of a 32 x 32 bit product draws from 0..i without division; n < 2**32
        j = np.int64(((_mix(state) >> np.uint64(32)) * np.uint64(i + 1)) >> np.uint64(32))
        out[i], out[j] = out[j], out[i]
