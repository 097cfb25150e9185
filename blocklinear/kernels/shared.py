"""What kernels of several files call."""

import numpy as np

from blocklinear.kernels.jit import kernel
from blocklinear.kernels.registers import LANES, WIDE, add_multiples, add_products

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


@inline
def exact_sum(total, x):
    """Return total + x, rounded, and the rounding error (Knuth)."""
    after = total + x
    added = after - total
    return after, (total - (after - added)) + (x - added)


@inline
def add_exactly(x, sums, place):
    """Add x to sums[place]; add the rounding error to sums[place + 1], the correction."""
    sums[place], low = exact_sum(sums[place], x)
    sums[place + 1] += low


@inline
def four_sums(x, y):
    """Return x'y, added up in four sums side by side; float64[n] or float32[n] each."""
    a = b = c = d = 0.0
    whole = x.shape[0] // 4 * 4
    for i in range(0, whole, 4):
        a += np.float64(x[i]) * y[i]
        b += np.float64(x[i + 1]) * y[i + 1]
        c += np.float64(x[i + 2]) * y[i + 2]
        d += np.float64(x[i + 3]) * y[i + 3]
    for i in range(whole, x.shape[0]):
        a += np.float64(x[i]) * y[i]
    return (a + b) + (c + d)


@kernel
def span(start, stop):
    """Return range(start, stop), of numbers without a sign.

    A place that may be negative may be counted from the end of an array: entries that are side by
    side are then read one by one, and sums of rows take two to three times as long.
    """
    return range(np.uint64(start), np.uint64(stop))


@kernel(fastmath={"reassoc", "contract", "nsz"})
def row_dot(rows, i, w):
    """Return x_i' w, without the bias."""
    starts, stops, indices, values, _ = rows
    total = 0.0
    for p in span(starts[i], stops[i]):
        total += w[indices[p]] * values[p]
    return total


@inline
def add_row(rows, i, bias, step, w):
    """Add step x_i to `w`."""
    starts, stops, indices, values, _ = rows
    for p in span(starts[i], stops[i]):
        w[indices[p]] += step * values[p]
    w[w.shape[0] - 1] += step * bias


@kernel(fastmath={"reassoc", "contract", "nsz"})
def magnitude(rows, i, bias, w):
    """Return the sum of the sizes of what x_i' w adds up."""
    starts, stops, indices, values, _ = rows
    total = abs(bias * w[w.shape[0] - 1])
    for p in span(starts[i], stops[i]):
        total += abs(w[indices[p]] * values[p])
    return total


@inline
def gather(rows, i, bias, left, right, W, f):
    """Write columns left to right - 1 of W' x_i."""
    starts, stops, indices, values, _ = rows
    start, stop, last = starts[i], stops[i], W[W.shape[0] - 1]
    for j in range(left, right):
        f[j] = last[j] * bias
    j = left
    while j + WIDE <= right:
        add_products(WIDE, indices, values, W, f, start, stop, j)
        j += WIDE
    if j + LANES <= right:
        add_products(LANES, indices, values, W, f, start, stop, j)
        j += LANES
    while j < right:
        add_products(1, indices, values, W, f, start, stop, j)
        j += 1


@inline
def scatter(rows, i, bias, step, left, right, W):
    """Add step[j] x_i to w_j for models left to right - 1, of which `left` begins a register.

    A register of models at a time, without those of which none moves.
    """
    starts, stops, indices, values, _ = rows
    start, stop, last = starts[i], stops[i], W[W.shape[0] - 1]
    j = left
    while j + LANES <= right:
        if step[j] != 0.0 or step[j + 1] != 0.0 or step[j + 2] != 0.0 or step[j + 3] != 0.0:
            for k in range(j, j + LANES):
                last[k] += step[k] * bias
            add_multiples(LANES, indices, values, W, step, start, stop, j)
        j += LANES
    while j < right:
        if step[j] != 0.0:
            last[j] += step[j] * bias
            add_multiples(1, indices, values, W, step, start, stop, j)
        j += 1
