"""Rows picked out of a group."""

from blocklinear.kernels.jit import kernel


@kernel
def gather_rows(
    starts, stops, indices, values, begin, out_indices, out_values, new_starts, new_stops
):  # fmt: skip
    """Copy rows one after the other.

    Parameters
    ----------
    starts, stops : int64[k]  where the entries of each row are
    indices : uint32[nnz]
    values : float64[nnz] or float32[nnz]
    begin : int               where the first goes
    out_indices, out_values : written from `begin` on; the caller made sure that there is room
    new_starts, new_stops : int64[k]    written: where each row is now
    """
    at = begin
    for k in range(starts.shape[0]):
        new_starts[k] = at
        for p in range(starts[k], stops[k]):
            out_indices[at] = indices[p]
            out_values[at] = values[p]
            at += 1
        new_stops[k] = at
