"""Mean and deviation of numbers that come in pieces, whatever the pieces."""

import math

import numpy as np
from numpy.typing import NDArray

from blocklinear.tables.values import FileRows, numbers_of

_BLOCK, _LANES = 8192, 128  # numbers joined at a time, and sums that they are added up in


class Moments:
    """Takes in columns; blocks of one size are added up, so that it does not matter how they come.

    Moments of two sets are joined as by Chan, Golub and LeVeque (COMPSTAT 1982).
    """

    def __init__(self) -> None:
        self._held, self._n_held = np.empty(_BLOCK), 0
        self._count, self._mean, self._squares = 0, 0.0, 0.0

    def add(self, part: FileRows, name: str) -> None:
        """Take in the numbers of a column that are not missing.

        InputError is raised as by `numbers_of`.
        """
        numbers, missing = numbers_of(part, name, part.columns[name])
        if len(missing):
            numbers = np.delete(numbers, missing)
        while len(numbers):
            piece = numbers[: _BLOCK - self._n_held]
            self._held[self._n_held : self._n_held + len(piece)] = piece
            self._n_held += len(piece)
            numbers = numbers[len(piece) :]
            if self._n_held == _BLOCK:
                self._join()

    @property
    def count(self) -> int:
        """How many numbers were taken in."""
        return self._count + self._n_held

    def finish(self) -> tuple[float, float]:
        """Return the mean and the deviation; 0 for the one if there are none, 1 for no other."""
        if self._n_held:
            self._join()
        deviation = math.sqrt(self._squares / max(self._count, 1))
        return self._mean, deviation if deviation > 0 else 1.0

    def _join(self) -> None:
        n, held = self._n_held, self._held
        held[n:] = 0.0
        mean = _sum_of(held) / n
        held[:n] -= mean
        total, off = self._count + n, mean - self._mean
        self._squares += _sum_of(held * held) + off * off * self._count * n / total
        self._mean += off * n / total
        self._count, self._n_held = total, 0


def _sum_of(block: NDArray[np.float64]) -> float:
    """Return the sum of a block, added up in one order whatever the machine."""
    return float(np.cumsum(block.reshape(-1, _LANES).sum(axis=0))[-1])
