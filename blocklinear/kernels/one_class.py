r"""Dual coordinate descent for the one-class SVM: two alpha at a time (Chou, Lin and Lin, 2020).

    min 1/2 |w|**2,   w = sum_i alpha_i x_i,   0 <= alpha_i <= U_i,   sum_i alpha_i = T

is the dual (with its sign changed) of

    min 1/2 |w|**2 - rho T + sum_i U_i max(0, rho - w'x_i)        over w and rho,

where U_i is the weight of a row, T is nu times the sum of the weights. The derivative by alpha_i is
f_i = w'x_i. What one alpha gains another one loses, so their sum stays as it is; and exactly so, as
U_i and all alpha are multiples of a power of two, which is at least 2**-52 of the largest of them.
"""

import numpy as np

from blocklinear.kernels.dual import GAIN
from blocklinear.kernels.jit import kernel
from blocklinear.kernels.losses import UNIT, rounding_of
from blocklinear.kernels.shared import add_exactly, add_row, row_dot

REACH, N_REACH, WHOLE, WRONG, MASS, MASS_LOW, TOTAL, TOTAL_LOW = 0, 1, 2, 3, 4, 5, 6, 7
N_SEEN = 8

LOSS, LOSS_LOW, GAP_TERM, ABOVE = 0, 1, 2, 3
N_SUMS = 4


@kernel
def decision_values(rows, order, w, f):
    """Write w'x_i of row i = order[k] to f[k], float64[n]."""
    for k in range(order.shape[0]):
        f[k] = row_dot(rows, order[k], w)


@kernel
def _product(rows, i, j):
    """Return x_i' x_j of two rows, in which columns increase."""
    starts, stops, indices, values, _ = rows
    total, p, q = 0.0, starts[i], starts[j]
    while p < stops[i] and q < stops[j]:
        if indices[p] == indices[q]:
            total += np.float64(values[p]) * np.float64(values[q])
            p += 1
            q += 1
        elif indices[p] < indices[q]:
            p += 1
        else:
            q += 1
    return total


@kernel(error_model="numpy")
def exchange(rows, upper, quantum, rising, falling, alpha, w, stats):
    r"""Move as much of alpha_j to alpha_i as minimises |w|**2, for one pair of rows after another.

    With f_j > f_i that is

        d = min((f_j - f_i) / |x_i - x_j|**2, U_i - alpha_i, alpha_j),

    which raises the dual value by d (f_j - f_i) - 1/2 d**2 |x_i - x_j|**2. Return the number of
    entries worked on.

    Parameters
    ----------
    rows : tuple              of which the indices of each increase
    upper : float64[n_rows]   U_i, multiples of `quantum`
    quantum : float           a power of two
    rising, falling : int64[n_pairs]    the row of each pair whose alpha may become larger, and the
                              one whose alpha may become smaller; pairs with f_j <= f_i are left out
    alpha : float64[n_rows]   updated, as `w` is; multiples of `quantum`
    stats : float64[N_STATS]  updated: gain of the dual
    """
    starts, stops, _, _, sq_norm = rows
    entries = 0
    for k in range(rising.shape[0]):
        i, j = rising[k], falling[k]
        room = min(upper[i] - alpha[i], alpha[j])
        if i == j or not room > 0.0:
            continue
        slope = row_dot(rows, j, w) - row_dot(rows, i, w)
        size = stops[i] - starts[i] + stops[j] - starts[j]
        entries += size
        if not slope > 0.0:
            continue
        both = sq_norm[i] + sq_norm[j]
        curvature = max(both - 2.0 * _product(rows, i, j), 8.0 * UNIT * both)
        step = room
        if slope < curvature * room:
            step = np.floor(slope / curvature / quantum) * quantum
        if not 0.0 < step <= room:
            continue
        stats[GAIN] += step * (slope - 0.5 * step * curvature)
        alpha[i] += step
        alpha[j] -= step
        add_row(rows, i, 0.0, step, w)
        add_row(rows, j, 0.0, -step, w)
        entries += 2 * size
    return entries


@kernel
def certify_rows(rows, upper, alpha, v, norm, recomputed, sizes, f, seen):
    """Write v'x_i of each row, and add what else a certificate must know of rows.

    Parameters
    ----------
    upper : float64[n_rows]   U_i
    alpha : float64[n_rows]   what is outside of 0 to U_i counts as the nearest bound
    v, norm :                 the candidate; |v|, or more
    recomputed : float64[n_features + 1]        added to: sum_i alpha_i x_i
    sizes : float64[n_features + 1 or 0]        added to, if it has any: sum_i U_i |x_ij|
    f : float64[n_rows]       written: v'x_i
    seen : float64[N_SEEN]    added to: sum_i alpha_i |x_i|; number of alpha_i that are not 0; sum_i
                              U_i |x_i|; the most that rounding of f adds to P - D; sum_i alpha_i
                              and sum_i U_i, each as a compensated sum (sum, correction)
    """
    starts, stops, indices, values, sq_norm = rows
    for i in range(upper.shape[0]):
        a = min(max(alpha[i], 0.0), upper[i])
        f[i] = row_dot(rows, i, v)
        size = np.sqrt(sq_norm[i])
        wrong = rounding_of(stops[i] - starts[i]) * size * norm
        seen[WRONG] += wrong * max(a, upper[i] - a)
        seen[WHOLE] += upper[i] * size
        add_exactly(a, seen, MASS)
        add_exactly(upper[i], seen, TOTAL)
        if sizes.shape[0]:
            for p in range(starts[i], stops[i]):
                sizes[indices[p]] += upper[i] * abs(np.float64(values[p]))
        if a != 0.0:
            seen[REACH] += a * size
            seen[N_REACH] += 1.0
            add_row(rows, i, 0.0, a, recomputed)


@kernel
def add_losses(f, upper, alpha, rho, sums):
    """Add what rows contribute to P and to P - D, once their f and rho are known.

    With w = sum alpha_i x_i of all rows and the sum of all alpha T, P - D is

        sum_i (U_i - alpha_i) max(0, rho - f_i) + alpha_i max(0, f_i - rho).

    Parameters
    ----------
    f, upper, alpha : float64[n]        as `certify_rows` leaves and takes them
    sums : float64[N_SUMS]    added to: sum_i U_i max(0, rho - f_i), as a compensated sum (sum,
                              correction); the sum above; sum_i U_i max(0, f_i - rho)
    """
    for i in range(f.shape[0]):
        below = rho - f[i]
        a = min(max(alpha[i], 0.0), upper[i])
        if below > 0.0:
            add_exactly(upper[i] * below, sums, LOSS)
            sums[GAP_TERM] += (upper[i] - a) * below
        else:
            sums[GAP_TERM] -= a * below
            sums[ABOVE] -= upper[i] * below
