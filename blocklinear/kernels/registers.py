"""Sums of sparse rows for several weight vectors side by side, a register of them at a time.

They are written in the compiler's own vectors. Loops over models would work on one number after
another, or load and store the sums at every entry, as arrays might overlap.
"""

from blocklinear.kernels.code.intrinsics import intrinsic

LANES = 4
"""Numbers of a register that every processor of today has."""
WIDE = 2 * LANES
"""Numbers of a cache line: a register of some processors, two of others."""


def _add_products(lanes, indices, values, W, f, start, stop, j):
    for p in range(start, stop):
        for k in range(j, j + lanes):
            f[k] += W[indices[p], k] * values[p]


def _add_multiples(lanes, indices, values, W, step, start, stop, j):
    for p in range(start, stop):
        for k in range(j, j + lanes):
            W[indices[p], k] += step[k] * values[p]


@intrinsic(_add_products, literal=True)
def add_products(builder, lanes, indices, values, W, f, start, stop, j):
    """Add columns j to j + lanes - 1 of W' x_i to `f`, of the row in entries start..stop-1.

    They are added up in an order that does not depend on `lanes`: eight entries in pairs.
    """
    from blocklinear.kernels.code.emitted import emit_products

    emit_products(builder, lanes, indices, values, W, f, start, stop, j)


@intrinsic(_add_multiples, literal=True)
def add_multiples(builder, lanes, indices, values, W, step, start, stop, j):
    """Add step[k] x_i to column k of W, k from j to j + lanes - 1; x_i is in start..stop-1."""
    from blocklinear.kernels.code.emitted import emit_multiples

    emit_multiples(builder, lanes, indices, values, W, step, start, stop, j)
