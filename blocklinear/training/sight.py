"""What weight vectors that are trained together see of the rows that they visit."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Spans = NDArray[np.uint16]
"""Of each row, which weight vectors move it: the first, and 256 times one past the last; or 0."""


@dataclass(frozen=True)
class Touch:
    """Why rows are visited.

    Attributes
    ----------
    first : bool              whether for the first time in an outer iteration
    active : bool             whether in a sweep of active rows: nobody asks which come to move then
    wide : bool               whether for all weight vectors, or but for those they move already
    long : bool               whether steps may be longer than to where they lead at once
    """

    first: bool = False
    active: bool = False
    wide: bool = True
    long: bool = False


@dataclass(frozen=True)
class Sight:
    """Rows as kernels want them.

    Attributes
    ----------
    starts, stops : int64[n]  where the entries of a row are
    indices, values : arrays of entries
    sq_norm : float64[n]
    labels : float64[n]
    roles : tuple of arrays   what else the problem must know of each row
    """

    starts: NDArray[np.int64]
    stops: NDArray[np.int64]
    indices: NDArray[np.uint32]
    values: NDArray[np.floating]
    sq_norm: Floats
    labels: Floats
    roles: Any


@dataclass(frozen=True)
class Visit:
    """A group while it is worked on.

    Attributes
    ----------
    sight : Sight
    blocks : tuple of int     of the group
    alpha : float64[n_rows, M]          updated, as are `spans` and `worth`
    spans : uint16[n_rows]    the models that move a row, see `dual_many`
    worth : float64[n_rows]   which rows to keep first as active ones
    outer : int
    resident : bool           whether the group holds all rows
    halt : callable           whether to stop, asked between two parts of the work
    """

    sight: Sight
    blocks: tuple[int, ...]
    alpha: Floats
    spans: Spans
    worth: Floats
    outer: int
    resident: bool
    halt: Callable[[], bool]
