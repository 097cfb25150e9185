"""Rows that are too large: x'x of each must be a number that training can go on from."""

import numpy as np
from numpy.typing import NDArray

from blocklinear.kernels.blocks.codec import square_norms
from blocklinear.kernels.shared import RAW
from blocklinear.kernels.text.scan import to_doubles

LIMITS = {"float64": 1.5e308, "float32": 3e38}
"""What x'x must be below: a little less than the largest number, as B**2 and rounding come on top.
Whatever of a float32 row is multiplied in its own precision is finite then, too."""
_MOST_DECIMAL = 2.0**53
"""No number that is stored as a decimal is larger."""


def too_large(
    indptr: NDArray[np.int64],
    mantissa: NDArray[np.int64],
    exponent: NDArray[np.uint8],
    dtype: str,
) -> NDArray[np.intp]:
    """Return the positions of the rows whose x'x is not below the limit of `dtype`.

    Nearly always the largest value and the number of all tell that there is none.

    Parameters
    ----------
    indptr : int64[n_rows + 1]
    mantissa, exponent : int64[nnz], uint8[nnz]         as `rows.Decimals` has them
    dtype : {"float64", "float32"}
    """
    doubles = mantissa.view(np.float64)[exponent == RAW]
    largest = float(np.abs(doubles).max(initial=_MOST_DECIMAL))
    if len(mantissa) * largest * largest < LIMITS[dtype]:
        return np.empty(0, np.intp)
    values, norms = np.empty(len(mantissa)), np.empty(len(indptr) - 1)
    to_doubles(mantissa, exponent, values)
    square_norms(np.diff(indptr), values, norms)
    return np.flatnonzero(norms >= LIMITS[dtype])
