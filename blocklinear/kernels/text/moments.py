"""Mean and deviation of a column as Arrow keeps it, in blocks of numbers that are there."""

import numpy as np

from blocklinear.kernels.jit import kernel
from blocklinear.kernels.shared import is_missing
from blocklinear.kernels.text.columns import MOST_EXACT

BLOCK = 8192
LANES = 128
"""Numbers of a block are added up in so many sums at a time, whole vectors of the processor."""
COUNT, MEAN, SQUARES, HELD, N_STATE = 0, 1, 2, 3, 4
"""What `state` has, by its place: numbers joined so far, their mean, the sum of the squares of what
they are off by, and how many numbers wait in `held`."""


@kernel
def _sum_of(numbers):
    parts, total = np.zeros(LANES), 0.0
    for start in range(0, numbers.shape[0], LANES):
        piece = numbers[start : start + LANES]
        for j in range(piece.shape[0]):
            parts[j] += piece[j]
    for j in range(LANES):
        total += parts[j]
    return total


@kernel
def join_held(held, state):
    """Join the moments of the numbers that wait to those before (Chan, Golub and LeVeque 1982).

    Parameters
    ----------
    held : float64[BLOCK]     used up
    state : float64[N_STATE]  changed
    """
    n_held = np.int64(state[HELD])
    if n_held == 0:
        return
    numbers = held[:n_held]
    mean, n = _sum_of(numbers) / n_held, state[COUNT]
    total, off = n + n_held, mean - state[MEAN]
    for j in range(n_held):
        numbers[j] = (numbers[j] - mean) * (numbers[j] - mean)
    state[SQUARES] += _sum_of(numbers) + off * off * n * n_held / total
    state[MEAN] += off * n_held / total
    state[COUNT], state[HELD] = total, 0.0


@kernel
def add_numbers(data, bitmap, first, held, state):
    """Take in numbers; each `BLOCK` of those that are there is joined as soon as it is full.

    Parameters
    ----------
    data : int64[n] or float64[n]       read-only; anything where a number is missing
    bitmap : uint8[any]       as for `columns.read_numbers`
    first : int               as there
    held : float64[BLOCK]     changed
    state : float64[N_STATE]  changed

    Returns
    -------
    are_small : bool          whether all are finite, and below 2**53 without their sign
    """
    n_held, n_large, start = np.int64(state[HELD]), 0, 0
    while start < data.shape[0]:
        part = data[start : start + BLOCK - n_held]
        before = n_held
        if bitmap.shape[0] == 0:
            for i in range(part.shape[0]):
                held[before + i] = np.float64(part[i])
            n_held += part.shape[0]
        else:
            for i in range(part.shape[0]):  # without branches: one that is missing is overwritten
                held[n_held] = np.float64(part[i])
                n_held += not is_missing(bitmap, first + start + i)
        for i in range(before, n_held):
            n_large += not abs(held[i]) < MOST_EXACT
        state[HELD] = n_held
        if n_held == BLOCK:
            join_held(held, state)
            n_held = 0
        start += part.shape[0]
    return n_large == 0
