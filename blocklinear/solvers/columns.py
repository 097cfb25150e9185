"""Which models share a pass, and how many columns their weights take side by side."""

import numpy as np
from numpy.typing import NDArray

MODELS_SHARING = 16
"""Models that share a pass at most: their weights of a feature fill two cache lines."""
_LANES = 4  # numbers of a vector register
_FEWEST_PADDED = 7


def models_by_pass(n_models: int) -> list[NDArray[np.int64]]:
    """Return the numbers of the models that share each pass; two threads have something to do.

    They take turns: the models of a small C are next to each other and are dropped first, and the
    others should be spread over the threads.
    """
    n_parts = min(n_models, max(2, -(-n_models // MODELS_SHARING)))
    return [np.arange(first, n_models, n_parts) for first in range(n_parts)]


def padded(width: int) -> int:
    """Return how many columns the weights of models that share a pass take.

    Two or three left over from whole registers cost more time than four; fewer models, or one left
    over, are not worth the memory (measured).
    """
    return width + -width % _LANES if width >= _FEWEST_PADDED and width % _LANES > 1 else width


def n_columns(n_models: int) -> int:
    """Return how many columns the weights of so many models take in all."""
    return sum(padded(len(numbers)) for numbers in models_by_pass(n_models))
