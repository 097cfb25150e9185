"""Mean and deviation of numbers that come in pieces, joined in blocks of one size."""

import numpy as np

from blocklinear.kernels.jit import kernel

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
def add_numbers(numbers, held, state):
    """Take in numbers; each `BLOCK` of them is joined as soon as it is full.

    Parameters
    ----------
    numbers : float64[n]
    held : float64[BLOCK]     changed
    state : float64[N_STATE]  changed
    """
    n_held = np.int64(state[HELD])
    for number in numbers:
        held[n_held] = number
        n_held += 1
        if n_held == BLOCK:
            state[HELD] = BLOCK
            join_held(held, state)
            n_held = 0
    state[HELD] = n_held
