"""Rows as kernels take them."""

import numpy as np


def kernel_rows(dense, dtype="float64"):
    """Return starts, stops, indices, values and x_i' x_i of dense rows; what is 0 is left out."""
    ends = np.concatenate(([0], np.cumsum((dense != 0).sum(1)))).astype(np.int64)
    indices = np.nonzero(dense)[1].astype(np.uint32)
    values = dense[dense != 0].astype(dtype)
    return ends[:-1], ends[1:], indices, values, (dense.astype(float) ** 2).sum(1)
