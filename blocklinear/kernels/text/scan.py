"""What is done to text and its numbers besides reading them (Numba, nogil)."""

import numpy as np

from blocklinear.kernels.jit import kernel
from blocklinear.kernels.shared import RAW
from blocklinear.kernels.text.powers import POWERS


@kernel
def count_marks(buf):
    """Return how many newlines and colons uint8[n] `buf` has: bounds for rows and entries."""
    newlines = colons = 0
    for p in range(buf.shape[0]):
        newlines += buf[p] == 10
        colons += buf[p] == 58
    return newlines, colons


@kernel
def count_lines(buf, begins):
    """Count the newlines of uint8[n] `buf`, and lines that may hold no row.

    These do not begin with a visible character, or with ``#``. Return both, and whether a line
    begins after the last byte; `begins` says whether one begins with the first.
    """
    n = buf.shape[0]
    if n == 0:
        return 0, 0, begins
    newlines, odd = 0, int(begins and (buf[0] <= 35 or buf[0] >= 127))
    for p in range(n - 1):
        ends = buf[p] == 10
        newlines += ends
        odd += ends & ((buf[p + 1] <= 35) | (buf[p + 1] >= 127))
    newlines += buf[n - 1] == 10
    return newlines, odd, buf[n - 1] == 10


@kernel
def to_doubles(mantissa, exponent, out):
    """Write the values of decimals to float64[nnz] `out`."""
    double = mantissa.view(np.float64)
    for k in range(mantissa.shape[0]):
        e = exponent[k]
        out[k] = double[k] if e == RAW else mantissa[k] / POWERS[e]
