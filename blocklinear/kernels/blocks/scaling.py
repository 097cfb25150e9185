"""Rows scaled to Euclidean norm 1, and columns by factors."""

import numpy as np

from blocklinear.kernels.jit import kernel
from blocklinear.kernels.shared import span


@kernel(error_model="numpy")
def _scale(values):
    """Return the numbers that a row is divided by, one after the other; 1 and 1 if all are 0."""
    largest, total = 0.0, 0.0
    for p in range(values.shape[0]):
        x = np.float64(values[p])
        largest = max(largest, abs(x))
        total += x * x
    unit = 1.0 if 1e-140 < largest < 1e140 or largest == 0.0 else largest
    if unit != 1.0:
        total = 0.0
        for p in range(values.shape[0]):
            x = np.float64(values[p]) / unit
            total += x * x
    return unit, np.sqrt(total) if largest > 0.0 else 1.0


@kernel(error_model="numpy")
def normalize_rows(lengths, values, sq_norm):
    r"""Divide each row by its Euclidean norm, in place.

    x_i <- x_i / ||x_i||,   ||x_i|| = sqrt(sum_j x_ij^2),   and x_i stays where that is 0.

    Where the squares could overflow or vanish they are taken of x_i / max_j |x_ij|. To `sq_norm` go
    x_i' x_i of the scaled rows, as their rounded values give them.
    """
    start = 0
    for i in range(lengths.shape[0]):
        row = values[start : start + lengths[i]]
        start += lengths[i]
        unit, norm = _scale(row)
        total = 0.0
        for p in range(row.shape[0]):
            row[p] = np.float64(row[p]) / unit / norm
        for p in range(row.shape[0]):
            x = np.float64(row[p])
            total += x * x
        sq_norm[i] = total


@kernel(error_model="numpy")
def row_norms(lengths, values, units, norms):
    """Write what `normalize_rows` divides each row by: first its unit, then its norm."""
    start = 0
    for i in range(lengths.shape[0]):
        stop = start + lengths[i]
        units[i], norms[i] = _scale(values[start:stop])
        start = stop


@kernel(error_model="numpy")
def divide(rows, units, norms, values):
    """Divide values of columns by the unit and the norm of their rows, as `normalize_rows` does.

    `rows`, uint32[nnz], are each below n_rows (checked by the caller).
    """
    for p in range(rows.shape[0]):
        i = rows[p]
        values[p] = np.float64(values[p]) / units[i] / norms[i]


@kernel
def scale_columns(indptr, indices, values, factors, sq_norm):
    """Multiply x_ij by factor_j in place, and write x_i' x_i of what comes of it to `sq_norm`."""
    for i in range(sq_norm.shape[0]):
        total = 0.0
        for p in span(indptr[i], indptr[i + 1]):
            values[p] = values[p] * factors[indices[p]]
            total += float(values[p]) * float(values[p])
        sq_norm[i] = total
