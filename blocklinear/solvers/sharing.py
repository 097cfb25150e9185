"""Which models share a pass, and how many columns their weights take side by side."""

import numpy as np
from numpy.typing import NDArray

from blocklinear.kernels.registers import LANES

MODELS_SHARING = 16
"""Models that share a pass at most: their weights of a feature fill two cache lines."""
_FEWEST_PADDED = 7


def models_by_pass(n_models: int) -> list[NDArray[np.int64]]:
    """Return the numbers of the models that share each pass; two threads have something to do.

    Whole registers are shared out, so that one part at most has models left over. Parts take turns,
    as often as they are large: the models of a small C are next to each other and are dropped
    first, and the others should be spread over the threads.
    """
    together = LANES if n_models > LANES else 1
    n_registers = -(-n_models // together)
    n_parts = min(n_registers, max(2, -(-n_models // MODELS_SHARING)))
    sizes = [together * len(part) for part in np.array_split(np.arange(n_registers), n_parts)]
    sizes[-1] -= sum(sizes) - n_models
    turns = np.concatenate([(np.arange(size) + 0.5) / size for size in sizes])
    numbers = np.argsort(np.argsort(turns, kind="stable"))
    return np.split(numbers, np.cumsum(sizes[:-1]))


def padded(width: int) -> int:
    """Return how many columns the weights of models that share a pass take.

    Two or three left over from whole registers cost more time than four; fewer models, or one left
    over, are not worth the memory (measured).
    """
    return width + -width % LANES if width >= _FEWEST_PADDED and width % LANES > 1 else width


def n_columns(n_models: int) -> int:
    """Return how many columns the weights of so many models take in all."""
    return sum(padded(len(numbers)) for numbers in models_by_pass(n_models))
