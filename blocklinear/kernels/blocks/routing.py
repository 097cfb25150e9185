"""Which block a row goes to (Yu, Algorithm 4), and rows copied to their blocks."""

import numpy as np

from blocklinear.kernels.jit import kernel
from blocklinear.kernels.shared import mix


@kernel
def hash_rows(key, row_numbers, out):
    """Write 64 well mixed bits for each of int64[n] `row_numbers` to uint64[n] `out`."""
    mixed = mix(np.uint64(key))
    for i in range(out.shape[0]):
        out[i] = mix(mixed ^ np.uint64(row_numbers[i]))


@kernel
def _copy(source, target):
    """Copy entries; written as any other, it compiles to calls of memmove, slow for so few."""
    for p in range(source.shape[0]):
        target[p] = source[p]


@kernel
def scatter(
    start, stop, block, first_row, indptr, indices, mantissa, exponent, label_mantissa,
    label_exponent, weight, slots, n_rows, nnz, a_row, a_length, a_label_mantissa,
    a_label_exponent, a_indices, a_mantissa, a_exponent, a_weight,
):  # fmt: skip
    """Append rows start..stop-1 to the arena of their blocks until one does not fit.

    Return the first row not appended: `stop`, or one whose block is full.

    Parameters
    ----------
    block : int64[n]          block of each row
    first_row : int64         number of row 0
    indptr .. label_exponent  the rows, as the tokenizer leaves them
    weight : float64[n]       of the rows, or float64[0]
    slots : int64[m]          which slot of the arena a block fills
    n_rows, nnz : int64[m]    rows and entries in it; updated
    a_row, a_length, a_label_mantissa : int64[slots, rows]      the arena: number, entries, label
    a_label_exponent : uint8[slots, rows]
    a_indices, a_mantissa, a_exponent : uint32, int64, uint8 [slots, entries]
    a_weight : float64[slots, rows], or float64[slots, 0]
    """
    for i in range(start, stop):
        b = block[i]
        first, length = indptr[i], indptr[i + 1] - indptr[i]
        r, k = n_rows[b], nnz[b]
        if r == a_row.shape[1] or k + length > a_indices.shape[1]:
            return i
        slot = slots[b]
        a_row[slot, r] = first_row + i
        a_length[slot, r] = length
        a_label_mantissa[slot, r] = label_mantissa[i]
        a_label_exponent[slot, r] = label_exponent[i]
        if weight.shape[0] > 0:
            a_weight[slot, r] = weight[i]
        _copy(indices[first : first + length], a_indices[slot, k : k + length])
        _copy(mantissa[first : first + length], a_mantissa[slot, k : k + length])
        _copy(exponent[first : first + length], a_exponent[slot, k : k + length])
        n_rows[b] = r + 1
        nnz[b] = k + length
    return stop
