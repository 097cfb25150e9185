"""Columns of rows in memory multiplied by factors."""

from blocklinear.kernels.jit import kernel
from blocklinear.kernels.shared import span


@kernel
def scale_columns(indptr, indices, values, factors, sq_norm):
    """Multiply x_ij by factor_j, and write x_i'x_i of what comes of it.

    Parameters
    ----------
    indptr : int64[n_rows + 1]
    indices : uint32[nnz]     columns, each < n_features (checked when the block was loaded)
    values : float64[nnz] or float32[nnz]       updated
    factors : float64[n_features or more]
    sq_norm : float64[n_rows] written
    """
    for i in range(sq_norm.shape[0]):
        total = 0.0
        for p in span(indptr[i], indptr[i + 1]):
            values[p] = values[p] * factors[indices[p]]
            total += float(values[p]) * float(values[p])
        sq_norm[i] = total
