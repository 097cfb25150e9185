"""Pages of Parquet: values one after the other, each after its length."""

import numpy as np

from blocklinear.kernels.jit import kernel


@kernel
def longest_of(data):
    """Return the length of the longest value, 0 if there is none; -1 if lengths do not add up.

    Each value of `data`, uint8[any], is after its length, 4 bytes, the lowest first.
    """
    p = longest = 0
    while p + 4 <= data.shape[0]:
        length = np.int64(data[p]) | np.int64(data[p + 1]) << 8
        length |= np.int64(data[p + 2]) << 16 | np.int64(data[p + 3]) << 24
        longest = max(longest, length)
        p += 4 + length
    return longest if p == data.shape[0] else np.int64(-1)
