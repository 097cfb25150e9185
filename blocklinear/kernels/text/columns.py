"""Columns as Arrow keeps them, values next to a bitmap of those that are there, to arrays."""

import numpy as np

from blocklinear.kernels.jit import kernel
from blocklinear.kernels.shared import is_missing

MOST_EXACT = 9007199254740992.0
"""2**53: integers below have a float64 of their own."""


@kernel
def read_numbers(data, bitmap, first, values, missing):
    """Write numbers as float64, 0 where they are missing.

    Parameters
    ----------
    data : int64[n] or float64[n]       read-only; anything where a number is missing
    bitmap : uint8[any]       read-only; bit ``first + i`` is set if there is number i; empty if
                              all are there
    first : int
    values : float64[n]       written
    missing : int64[m]        written: which numbers are missing; m must be their count

    Returns
    -------
    are_small : bool          whether all are finite, and below 2**53 without their sign
    """
    for i in range(values.shape[0]):
        values[i] = np.float64(data[i])
    n = 0
    if missing.shape[0] > 0:
        for i in range(values.shape[0]):
            if is_missing(bitmap, first + i):
                values[i] = 0.0
                missing[n] = i
                n += 1
    n_large = 0
    for i in range(values.shape[0]):
        n_large += not abs(values[i]) < MOST_EXACT
    return n_large == 0


@kernel
def read_codes(data, bitmap, first, n_values, codes):
    """Write codes of values of a dictionary, `n_values` where one is missing.

    Parameters
    ----------
    data : int32[n]           read-only; anything where a value is missing
    bitmap : uint8[any]       as for `read_numbers`
    first : int
    n_values : int            of the dictionary
    codes : int32[n]          written

    Returns
    -------
    are_codes : bool          whether all are at least 0 and at most `n_values`
    """
    for i in range(codes.shape[0]):
        codes[i] = data[i]
    if bitmap.shape[0] > 0:
        for i in range(codes.shape[0]):
            if is_missing(bitmap, first + i):
                codes[i] = n_values
    n_wrong = 0
    for i in range(codes.shape[0]):
        n_wrong += codes[i] < 0 or codes[i] > n_values
    return n_wrong == 0


@kernel
def longest_of(data):
    """Return the length of the longest value, 0 if there is none; -1 if lengths do not add up.

    Parameters
    ----------
    data : uint8[any]         read-only; each value after its length, 4 bytes, the lowest first
    """
    p = longest = 0
    while p + 4 <= data.shape[0]:
        length = np.int64(data[p]) | np.int64(data[p + 1]) << 8
        length |= np.int64(data[p + 2]) << 16 | np.int64(data[p + 3]) << 24
        longest = max(longest, length)
        p += 4 + length
    return longest if p == data.shape[0] else np.int64(-1)
