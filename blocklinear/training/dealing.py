"""How many models are swept together, and what room their weights take."""

import numpy as np
from numpy.typing import NDArray

MODELS_TOGETHER = 16
"""Models swept at once: their weights of a feature fill two cache lines."""
_LANES = 4  # numbers of a vector register
_FEWEST_PADDED = 7


def deal(n_models: int) -> list[NDArray[np.int64]]:
    """Return the numbers of the models of each bunch; two threads have something to do.

    They are dealt in turn: the models of a small C are next to each other and leave first, and what
    stays is to be spread over the bunches.
    """
    n_bunches = min(n_models, max(2, -(-n_models // MODELS_TOGETHER)))
    return [np.arange(first, n_models, n_bunches) for first in range(n_bunches)]


def padded(width: int) -> int:
    """Return how many columns the weights of models that are swept together take.

    Two or three left over from whole registers cost more time than four; fewer models, or one left
    over, are not worth the memory (measured).
    """
    return width + -width % _LANES if width >= _FEWEST_PADDED and width % _LANES > 1 else width


def columns(n_models: int) -> int:
    """Return how many columns the weights of so many models take in all."""
    return sum(padded(len(numbers)) for numbers in deal(n_models))
