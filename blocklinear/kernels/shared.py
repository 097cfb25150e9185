"""What kernels of several files call."""

import numpy as np
from numba.extending import register_jitable

from blocklinear.kernels.jit import kernel

LANES = 4
"""Numbers of a vector register."""
RAW = 255
"""The exponent of a number whose mantissa holds the bits of a float64."""


@kernel
def mix(x):
    """Return 64 well mixed bits of x (the finaliser of SplitMix64, Steele et al. 2014)."""
    x = np.uint64(x + np.uint64(0x9E3779B97F4A7C15))
    x = np.uint64((x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9))
    x = np.uint64((x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB))
    return x ^ (x >> np.uint64(31))


# Inlined, and without a check for zero at each division, an epoch takes a tenth less time.
inline = kernel(error_model="numpy", forceinline=True)


@register_jitable
def span(start, stop):
    """Return range(start, stop), of numbers without a sign.

    A place that may be negative may be counted from the end of an array: entries that are side by
    side are then read one by one, and sums of rows take two to three times as long.
    """
    return range(np.uint64(start), np.uint64(stop))


@kernel(fastmath={"reassoc", "contract", "nsz"})
def row_dot(indices, values, start, stop, w):
    """Return x_i' w for the row that occupies start..stop-1."""
    total = 0.0
    for p in span(start, stop):
        total += w[indices[p]] * values[p]
    return total


@inline
def gather(indices, values, start, stop, bias, left, right, W, f):
    """Write columns left to right - 1 of W' x_i, of the row that occupies start..stop-1."""
    last = W[W.shape[0] - 1]
    for j in range(left, right):
        f[j] = last[j] * bias
    eights = start + (stop - start) // 8 * 8
    for p in range(start, eights, 8):  # eight features at once: `f` is loaded an eighth as often
        w0, v0 = W[indices[p]], values[p]
        w1, v1 = W[indices[p + 1]], values[p + 1]
        w2, v2 = W[indices[p + 2]], values[p + 2]
        w3, v3 = W[indices[p + 3]], values[p + 3]
        w4, v4 = W[indices[p + 4]], values[p + 4]
        w5, v5 = W[indices[p + 5]], values[p + 5]
        w6, v6 = W[indices[p + 6]], values[p + 6]
        w7, v7 = W[indices[p + 7]], values[p + 7]
        for j in range(left, right):
            first = (w0[j] * v0 + w1[j] * v1) + (w2[j] * v2 + w3[j] * v3)
            f[j] += first + ((w4[j] * v4 + w5[j] * v5) + (w6[j] * v6 + w7[j] * v7))
    for p in span(eights, stop):
        w, v = W[indices[p]], values[p]
        for j in range(left, right):
            f[j] += w[j] * v


@inline
def scatter(indices, values, start, stop, bias, step, left, right, W):
    """Add step[j] x_i to w_j for models left to right - 1, of which `left` begins a register.

    A register of models at a time, without those of which none moves. Steps are read before: if W
    might be where they are, each entry would read them again, which takes half as long again.
    """
    last = W.shape[0] - 1
    whole = left + (right - left) // LANES * LANES
    for j in range(left, whole, LANES):
        s0, s1, s2, s3 = step[j], step[j + 1], step[j + 2], step[j + 3]
        if s0 != 0.0 or s1 != 0.0 or s2 != 0.0 or s3 != 0.0:
            for k in range(j, j + LANES):
                W[last, k] += step[k] * bias
            for p in span(start, stop):
                w, v = W[indices[p], j:], values[p]
                w0, w1, w2, w3 = w[0] + s0 * v, w[1] + s1 * v, w[2] + s2 * v, w[3] + s3 * v
                w[0], w[1], w[2], w[3] = w0, w1, w2, w3
    for j in range(whole, right):
        s = step[j]
        if s != 0.0:
            W[last, j] += s * bias
            for p in span(start, stop):
                W[indices[p], j] += s * values[p]
