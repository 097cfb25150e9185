"""Kernels that hash values of categories; `tables.hashing` says what the hashes are."""

import numpy as np

from blocklinear.kernels.jit import kernel
from blocklinear.kernels.shared import mix


@kernel
def hash_values(data, ends, bitmap, first, if_missing, seed, hashes):
    """Write the hash of each value.

    Parameters
    ----------
    data : uint8[any]         read-only
    ends : int64[n + 1] or int32[n + 1]         read-only; value k is ``data[ends[k]:ends[k + 1]]``
    bitmap : uint8[any]       read-only; bit ``first + k`` is set if there is value k; empty if all
                              are there
    first : int
    if_missing : uint64       the hash of a value that is missing
    seed : uint64             of the column
    hashes : uint64[n]        written
    """
    for k in range(hashes.shape[0]):
        place = first + k
        if bitmap.shape[0] > 0 and not bitmap[place >> 3] >> (place & 7) & 1:
            hashes[k] = if_missing
            continue
        value, h = data[np.int64(ends[k]) : np.int64(ends[k + 1])], np.uint64(seed)
        for p in range(0, value.shape[0], 8):
            word = np.uint64(0)
            if p + 8 <= value.shape[0]:  # one load of 8 bytes, when compiled
                for q in range(8):
                    word |= np.uint64(value[p + q]) << np.uint64(8 * q)
            else:
                for q in range(value.shape[0] - p):
                    word |= np.uint64(value[p + q]) << np.uint64(8 * q)
            h = mix(h ^ word)
        hashes[k] = mix(h ^ np.uint64(value.shape[0]))


@kernel
def cross_hashes(seed, one, other, hashes):
    """Write the hashes of pairs of values, whose hashes are `one` and `other`, uint64[n] all."""
    for k in range(hashes.shape[0]):
        hashes[k] = mix(mix(np.uint64(seed) ^ one[k]) ^ other[k])
