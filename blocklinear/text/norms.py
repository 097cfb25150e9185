"""Rows that are too large: x'x of each must be a number that training can go on from."""

from itertools import islice

import numpy as np
from numpy.typing import NDArray

from blocklinear.errors import quoted
from blocklinear.kernels.text.scan import largest_double, square_norms, to_doubles
from blocklinear.text.faults import words
from blocklinear.text.powers import POWERS

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

    Nearly always the largest value and the longest row tell that there is none.

    Parameters
    ----------
    indptr : int64[n_rows + 1]
    mantissa, exponent : int64[nnz], uint8[nnz]         as `rows.Decimals` has them
    dtype : {"float64", "float32"}
    """
    largest_bits = np.int64(largest_double(mantissa, exponent))
    largest = max(float(largest_bits.view(np.float64)), _MOST_DECIMAL)
    longest = int(np.diff(indptr).max(initial=0))
    if longest * largest * largest < LIMITS[dtype]:
        return np.empty(0, np.intp)
    values, norms = np.empty(len(mantissa)), np.empty(len(indptr) - 1)
    to_doubles(mantissa, mantissa.view(np.float64), exponent, POWERS, values)
    square_norms(indptr, values, norms)
    return np.flatnonzero(norms >= LIMITS[dtype])


def explain(dtype: str, hashed: bool, line: bytes) -> tuple[int, str, str]:
    """Return the offset of the value at which a row becomes too large, the problem, and the fix.

    Parameters
    ----------
    dtype : {"float64", "float32"}
    hashed : bool
        Whether entries were added up whose indices have the same hash.
    line : bytes
        As written, without a comment.
    """
    limit, fix = LIMITS[dtype], "scale the data"
    if dtype == "float32":
        fix += ", or give --dtype float64"
    total, squares = 0.0, f"the squares of the row add up to {limit:g} or more"
    for token in islice(words(line), 1, None):
        index, written = token[0].split(b":", 1)
        offset = token.start() + len(index) + 1
        square = float(written) * float(written)
        if square >= limit:
            bound = f"{np.sqrt(limit):.1e}"
            problem = f"value {quoted(written)} is too large for {dtype}: its square overflows"
            return offset, problem, f"{fix}; values are below {bound}"
        total += square
        if total >= limit and not hashed:
            return offset, squares, fix
    return next(words(line)).start(), squares, fix  # of entries that were added up
