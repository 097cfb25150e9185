"""Rows picked out of a group."""

from numba import njit


@njit(cache=True, nogil=True)
def gather_rows(indptr, indices, values, rows, begin, out_indices, out_values, starts, stops):
    """Copy rows one after the other.

    Parameters
    ----------
    indptr : int64[n_rows + 1]
    indices : uint32[nnz]
    values : float64[nnz] or float32[nnz]
    rows : int64[k]           rows to copy
    begin : int               where the first goes
    out_indices, out_values : written from `begin` on; the caller made sure that there is room
    starts, stops : int64[k]  written: where each row is
    """
    at = begin
    for k in range(rows.shape[0]):
        starts[k] = at
        for p in range(indptr[rows[k]], indptr[rows[k] + 1]):
            out_indices[at] = indices[p]
            out_values[at] = values[p]
            at += 1
        stops[k] = at
