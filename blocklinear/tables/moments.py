"""Mean and deviation of numbers that come in pieces, whatever the pieces."""

import math

import numpy as np

from blocklinear.kernels.text import moments as kernels
from blocklinear.tables.values import Part, numbers_of


class Moments:
    """Takes in columns; blocks of one size are added up, so that it does not matter how they come.

    Moments of two sets are joined as by Chan, Golub and LeVeque (COMPSTAT 1982).
    """

    def __init__(self) -> None:
        self._held = np.empty(kernels.BLOCK)
        self._state = np.zeros(kernels.N_STATE)

    def add(self, part: Part, name: str) -> None:
        """Take in the numbers of a column that are not missing.

        Raises
        ------
        InputError
            As `numbers_of` does.
        """
        numbers, missing = numbers_of(part, name, part.columns[name])
        if len(missing):
            numbers = np.delete(numbers, missing)
        kernels.add_numbers(numbers, self._held, self._state)

    def finish(self) -> tuple[float, float]:
        """Return the mean and the deviation; 0 for the one if there are none, 1 for no other."""
        kernels.join_held(self._held, self._state)
        count, mean, squares, _ = self._state.tolist()
        deviation = math.sqrt(squares / max(count, 1.0))
        return mean, deviation if deviation > 0 else 1.0
