"""Functions compiled by Numba: arrays in, arrays out.

Docstrings describe what arguments there are besides these, which are the same in all kernels:

    starts, stops       int64[n_rows]: row i has the entries starts[i] to stops[i] - 1
    indptr              int64[n_rows + 1]: row i has the entries indptr[i] to indptr[i + 1] - 1
    lengths             int64[n_rows]: entries of each row, one row after the other; their sum is
                        that of all entries (checked by the caller)
    indices             uint32[nnz]: columns, each < n_features (checked when the block was loaded);
                        in `text`, as they are written
    values              float64[nnz] or float32[nnz]
    mantissa, exponent  int64[nnz], uint8[nnz]: values as mantissa / 10**exponent, 0 to 22, or,
                        where the exponent is `RAW`, as the bits of a float64
    sq_norm             float64[n_rows]: x_i' x_i without the bias
    rows                a tuple of starts, stops, indices, values and sq_norm
    bias                float: value of one more feature, the last one, that every row has and none
                        stores; or 0
    order               int64[n]: rows to work on, one after the other
    kind, epsilon       int, float: the loss, and eps of those for regression, see `losses`
    target, cost        float64[n_rows]: t_i and C_i; rows with C_i = 0 are left out
    alpha               float64[n_rows]
    w                   float64[n_features + 1]: weights; the last one is that of the bias

What those of many models are is in `losses`. Arguments are only read, unless it is said that they
are changed.
"""
