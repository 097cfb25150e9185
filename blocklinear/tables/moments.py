"""Mean and deviation of numbers that come in pieces, whatever the pieces."""

import numpy as np
from numpy.typing import NDArray

from blocklinear.kernels.text import columns as kernels

_BLOCK = 8192


class Moments:
    """Takes in numbers; blocks of one size are added up, so that it does not matter how they come.

    Moments of two sets are joined as by Chan, Golub and LeVeque (COMPSTAT 1982).
    """

    def __init__(self) -> None:
        self._n, self._mean, self._squares = 0, 0.0, 0.0
        self._held = np.empty(_BLOCK)
        self._n_held = 0

    def add(self, values: NDArray[np.float64], missing: NDArray[np.int64]) -> None:
        """Take in numbers.

        Parameters
        ----------
        values : float64[n]       finite
        missing : int64[m]        which of them do not count, in ascending order
        """
        if len(missing):
            present = np.empty(len(values) - len(missing))
            kernels.leave_out(values, missing, present)
            values = present
        start = 0
        while start < len(values):
            piece = values[start : start + _BLOCK - self._n_held]
            self._held[self._n_held : self._n_held + len(piece)] = piece
            self._n_held, start = self._n_held + len(piece), start + len(piece)
            if self._n_held == _BLOCK:
                self._join()

    def _join(self) -> None:
        """Add up the numbers held."""
        here, n = self._held[: self._n_held], self._n_held
        mean, total = float(here.mean()), self._n + n
        self._squares += float(np.square(here - mean).sum())
        self._squares += (mean - self._mean) ** 2 * self._n * n / total
        self._mean += (mean - self._mean) * n / total
        self._n, self._n_held = total, 0

    def finish(self) -> tuple[float, float]:
        """Return the mean and the deviation; 0 for the one if there are none, 1 for no other."""
        if self._n_held:
            self._join()
        deviation = float(np.sqrt(self._squares / max(self._n, 1)))
        return self._mean, deviation if deviation > 0 else 1.0
