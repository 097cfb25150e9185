"""Steps along what passes over columns have changed, as those of conjugate gradients.

Coordinate descent is slow where features depend on each other: one pass changes what the one before
did. So before each pass the step goes on to where the quadratic model is least in the plane of the
last change and of the one before it, as far as weights that come to 0 on the way let the model fall
(Elad, Matalon and Zibulevsky, "Coordinate and subspace optimization methods for linear least
squares with non-quadratic regularization", Applied and Computational Harmonic Analysis 2007).
"""

import numpy as np
from numpy.typing import NDArray

from blocklinear.kernels import l1 as kernels
from blocklinear.kernels.sums import dot

Floats = NDArray[np.float64]
_PARALLEL = 1e-12  # what is left of the product of two squared lengths


class Subspace:
    """The plane of the last two changes of a step, which begins with 0; of p_j and r_j."""

    def __init__(self, n_rows: int, penalty: Floats, ridge: Floats) -> None:
        self._penalty, self._ridge = penalty, ridge
        # the step before the last pass, what was changed before it, and both times x_i
        self._last, self._before = np.zeros(len(penalty)), np.zeros(len(penalty))
        self._path = np.zeros((n_rows, 2))

    def go_on(self, w: Floats, d: Floats, v: Floats, state: Floats) -> float:
        """Move the step on; return by how much the model falls.

        Arrays are as for `kernels.descend`; `d` and `state` are updated.
        """
        at, change, before, ridge = w + d, d - self._last, self._before, self._ridge
        to_c, to_b, cc, cb, bb = kernels.products_along(state, self._path)
        cc += float(dot(ridge * change, change))
        cb += float(dot(ridge * change, before))
        bb += float(dot(ridge * before, before))
        slopes = ridge * d - v
        signed = np.where(at == 0.0, 0.0, slopes + self._penalty * np.sign(at))
        by_c, by_b = to_c + float(dot(signed, change)), to_b + float(dot(signed, before))
        x, y, determinant = 0.0, 0.0, cc * bb - cb * cb
        if determinant > _PARALLEL * cc * bb:
            x = (by_b * cb - by_c * bb) / determinant
            y = (by_c * cb - by_b * cc) / determinant
        along = x * change + y * before
        slope = x * to_c + y * to_b + float(dot(slopes, along))
        curvature = x * x * cc + 2.0 * x * y * cb + y * y * bb
        length, fell = least_along(slope, curvature, self._penalty, at, along)
        along *= length
        kernels.move_along(state, self._path, length * x, length * y)
        d += along
        self._last[:], self._before = d, change + along
        return fell


def least_along(
    slope: float, curvature: float, penalty: Floats, at: Floats, along: Floats
) -> tuple[float, float]:
    """Return for which t >= 0 the model is least along a direction, and by how much it falls.

    It is slope t + 1/2 curvature t**2 + sum_j p_j |at_j + t along_j|; where a weight comes to 0,
    its slope rises.
    """
    signed = np.where(at == 0.0, np.abs(along), np.sign(at) * along)
    first = slope + float(dot(penalty, signed))
    if not first < 0.0 < curvature:
        return 0.0, 0.0
    turns = np.flatnonzero(at * along < 0.0)
    lengths = -at[turns] / along[turns]
    order = np.argsort(lengths, kind="stable")
    turns, lengths = turns[order], lengths[order]
    rises = np.cumsum(2.0 * penalty[turns] * np.abs(along[turns]))
    after = np.flatnonzero(first + rises + curvature * lengths >= 0.0)[:1]
    if len(after):
        k = int(after[0])
        before = first + float(rises[k - 1]) if k else first
        length = min(float(lengths[k]), -before / curvature)
    else:
        length = -(first + float(rises[-1:].sum())) / curvature
    turned = float(dot(penalty, np.abs(at + length * along) - np.abs(at)))
    return length, -((slope + 0.5 * curvature * length) * length + turned)
