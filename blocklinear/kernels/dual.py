"""Dual coordinate descent for L1- and L2-loss SVM (Hsieh et al., ICML 2008)."""

from numba import njit

PG_MAX, PG_MIN, LOSS = 0, 1, 2
N_TOUCH = 3

SUM_ALPHA, SUM_SQUARES, N_SUPPORT = 0, 1, 2


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def _dot(indices, values, start, stop, w):
    """Return x_i' w for the row that occupies start..stop-1."""
    total = 0.0
    for p in range(start, stop):
        total += w[indices[p]] * values[p]
    return total


@njit(cache=True, nogil=True)
def dcd_epoch(
    indptr, indices, values, y, sq_norm, order, upper, diag, cost, bias, alpha, w, touch
):  # fmt: skip
    r"""Visit rows once, in the order given, updating `alpha` and `w` in place.

    Hsieh, Algorithm 1, steps (a)-(c), inside Yu, Algorithm 2. One coordinate at a time it lowers

        1/2 alpha' (Q + D) alpha - e' alpha,   0 <= alpha_i <= U_i,
        Q_ij = y_i y_j x_i' x_j,   and keeps   w = sum_i alpha_i y_i x_i.

    Hinge loss: U_i = C_i, D_ii = 0. Squared hinge: U_i = inf, D_ii = 1 / (2 C_i). C_i depends on
    the class of the row. Every x_i has one more feature, of value `bias`, that is not stored.

    Parameters
    ----------
    indptr : int64[n_rows + 1]
    indices : uint32[nnz]     columns, each < n_features (checked when the block was loaded)
    values : float64[nnz] or float32[nnz]
    y : float64[n_rows]       +1 or -1
    sq_norm : float64[n_rows] x_i' x_i without the bias
    order : int64[n_active]   rows to visit
    upper, diag, cost : float64[2]      U_i, D_ii and C_i of the class y = -1, then of y = +1
    bias : float              value of the extra feature, 0 for none
    alpha : float64[n_rows]   updated
    w : float64[n_features + 1]         updated; the last entry belongs to the extra feature
    touch : float64[N_TOUCH]  updated: largest and smallest projected gradient, and the sum of
                              C_i times the loss, each seen when a row was touched
    """
    last = w.shape[0] - 1
    for k in range(order.shape[0]):
        i = order[k]
        c = 1 if y[i] > 0 else 0
        start, stop = indptr[i], indptr[i + 1]
        margin = y[i] * (_dot(indices, values, start, stop, w) + bias * w[last])
        if margin < 1.0:
            slack = 1.0 - margin
            touch[LOSS] += cost[c] * (slack if diag[c] == 0.0 else slack * slack)

        old = alpha[i]
        G = margin - 1.0 + diag[c] * old
        PG = G
        if old == 0.0:
            PG = min(G, 0.0)
        elif old == upper[c]:
            PG = max(G, 0.0)
        touch[PG_MAX] = max(touch[PG_MAX], PG)
        touch[PG_MIN] = min(touch[PG_MIN], PG)
        if PG == 0.0:
            continue
        QD = sq_norm[i] + bias * bias + diag[c]
        if QD > 0.0:
            alpha[i] = min(max(old - G / QD, 0.0), upper[c])
        else:  # an empty row under hinge loss: the dual is linear in its alpha
            alpha[i] = upper[c]
        step = (alpha[i] - old) * y[i]
        if step != 0.0:
            for p in range(start, stop):
                w[indices[p]] += step * values[p]
            w[last] += step * bias


@njit(cache=True, nogil=True)
def add_dual_terms(y, diag, alpha, terms):
    """Add what the rows contribute to the dual value.

    D(alpha) = sum alpha_i - 1/2 w'w - 1/2 sum D_ii alpha_i**2 (Hsieh, Eq. 4, negated).

    Parameters
    ----------
    y, alpha : float64[n_rows]
    diag : float64[2]         D_ii of the class y = -1, then of y = +1
    terms : float64[3]        added to: sum alpha_i, sum D_ii alpha_i**2, rows with alpha_i > 0
    """
    for i in range(alpha.shape[0]):
        a = alpha[i]
        terms[SUM_ALPHA] += a
        terms[SUM_SQUARES] += diag[1 if y[i] > 0 else 0] * a * a
        terms[N_SUPPORT] += a > 0.0


@njit(cache=True, nogil=True)
def certify_rows(
    indptr, indices, values, y, cost, squared, bias, alpha, w, average, recomputed, loss
):  # fmt: skip
    """Add what the rows contribute to a certificate.

    Parameters
    ----------
    indptr, indices, values, y, cost, bias, alpha :     as for `dcd_epoch`; alpha is only read
    squared : bool            squared hinge loss
    w, average : float64[n_features + 1]      two candidates for the primal
    recomputed : float64[n_features + 1]      added to: sum alpha_i y_i x_i
    loss : float64[2]         added to: sum C_i loss_i under `w` and under `average`
    """
    last = w.shape[0] - 1
    for i in range(y.shape[0]):
        start, stop = indptr[i], indptr[i + 1]
        c = cost[1 if y[i] > 0 else 0]
        slack = 1.0 - y[i] * (_dot(indices, values, start, stop, w) + bias * w[last])
        if slack > 0.0:
            loss[0] += c * (slack * slack if squared else slack)
        slack = 1.0 - y[i] * (_dot(indices, values, start, stop, average) + bias * average[last])
        if slack > 0.0:
            loss[1] += c * (slack * slack if squared else slack)
        step = alpha[i] * y[i]
        if step != 0.0:
            for p in range(start, stop):
                recomputed[indices[p]] += step * values[p]
            recomputed[last] += step * bias


@njit(cache=True, nogil=True)
def squared_norm(w):
    """Return w'w for float64[n]."""
    total = 0.0
    for x in w:
        total += x * x
    return total
