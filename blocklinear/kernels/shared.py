"""What kernels of several files call."""

import numpy as np

from blocklinear.kernels.jit import kernel

RAW = 255
"""The exponent of a number whose mantissa holds the bits of a float64."""


@kernel
def mix(x):
    """Return 64 well mixed bits of x (the finaliser of SplitMix64, Steele et al. 2014)."""
    x = np.uint64(x + np.uint64(0x9E3779B97F4A7C15))
    x = np.uint64((x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9))
    x = np.uint64((x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB))
    return x ^ (x >> np.uint64(31))


@kernel(fastmath={"reassoc", "contract", "nsz"})
def row_dot(indices, values, start, stop, w):
    """Return x_i' w for the row that occupies start..stop-1."""
    total = 0.0
    for p in range(start, stop):
        total += w[indices[p]] * values[p]
    return total
