r"""The one-class SVM: its problem, where alpha may be, and the proof of its gap.

For any v and rho, and any alpha with 0 <= alpha_i <= U_i whose sum is T, with w' = sum alpha_i x_i,

    P(v, rho) - D(alpha) = sum_i ((U_i - alpha_i) max(0, rho - f_i) + alpha_i max(0, f_i - rho))
                           + 1/2 |v - w'|**2,        f_i = v'x_i,
    P(v, rho) = 1/2 |v|**2 - rho T + sum_i U_i max(0, rho - f_i),    D(alpha) = -1/2 |w'|**2.

Every term is >= 0, and nothing cancels. The best rho is the f below which there are rows of a
weight of T. Rounding counts as in `objectives.certificate`. Besides, alpha as stored may have
another sum S; a feasible point is near:

- (1 - t) alpha with t = (S - T) / S where S > T. Its terms are at most t sum U_i max(0, rho - f_i)
  larger, and its w' is at most t |w'| away;
- (1 - t) alpha + t U with t = (T - S) / (sum U_i - S) where S < T. Its terms are at most
  t sum U_i max(0, f_i - rho) larger, and its w' is at most t (|w'| + sum U_i |x_i|) away.

The optimum is never above 0, so the gap is not P - D over P but over the largest of |P|, |D| and
`ZERO` times 1/2 (nu sum U_i |x_i|)**2. The last stands for 0, which the optimum is if no plane
separates the origin from rows of enough weight; it counts only if w' is close to 0 however features
are scaled, see `is_zero`. Where P(v, rho) is above 0, the candidate is v = 0
and rho = 0 instead, whose P is 0.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from blocklinear.errors import InputError
from blocklinear.kernels import one_class as kernels
from blocklinear.kernels.losses import UNIT
from blocklinear.kernels.sums import dot
from blocklinear.objectives.certificate import OF_NORMS, OF_PRIMAL, Certificate
from blocklinear.objectives.models import NO_FOLD, Models
from blocklinear.objectives.problems import ONE_CLASS, SOLVERS, LabelledRows, refuse_weightless
from blocklinear.options import TrainOptions
from blocklinear.store.manifest import Manifest

Floats = NDArray[np.float64]
ZERO = 1e-9
"""Relative to 1/2 (nu sum U_i |x_i|)**2: an objective of that size is none."""
LEAST_TOTAL = 1e-145
"""Of the sum of weights, with whose square the objective grows: a gap of a billionth of `ZERO` of
that is then at least 1e-308, where float64 ends."""
BITS = 52
"""Alpha are multiples of 2**-BITS of the power of two next to the largest U."""
_CHUNK = 1 << 16  # rows
_DIGIT = 16  # bits


@dataclass(frozen=True)
class OneClass(Models):
    """The one-class SVM of all rows of a store, whatever their labels."""

    nu: float = 0.5  # share of the weight of all rows that may be on the side of the origin
    quantum: float = 2.0**-BITS  # alpha and its bounds are multiples of it

    def costs(self, rows: LabelledRows) -> Floats:
        """Return U_i of rows, float64[n]."""
        if rows.weights is None:
            return np.ones(len(rows.labels))
        return self.rounded(rows.weights)

    def bounds(self, rows: LabelledRows) -> Floats:
        """Return U_i of rows, as of many models; float64[n, 1]."""
        return self.costs(rows)[:, None]

    def rounded(self, alpha: Floats) -> Floats:
        """Return numbers rounded down to multiples of the quantum."""
        found: Floats = np.floor(alpha / self.quantum) * self.quantum
        return found


def make_one_class(manifest: Manifest, options: TrainOptions) -> OneClass:
    """Return the one-class SVM of a store.

    InputError is raised if all rows have weight 0, or too little of it to compute with.
    """
    refuse_weightless(manifest)
    largest, total = manifest.weights["largest"], manifest.weights["total"]
    if manifest.weighted and total < LEAST_TOTAL:
        raise InputError(
            f"the rows weigh {total:.3g} in all, of which nothing is left once squared; "
            f"{LEAST_TOTAL} is the least that a one-class SVM can compute with",
            "multiply all weights by the same number: predictions stay the same",
        )
    quantum = 2.0 ** (math.ceil(math.log2(largest)) - BITS) if largest > 0.0 else 2.0**-BITS
    return OneClass(
        SOLVERS[ONE_CLASS], 0.0, (), np.zeros(1, np.int32), np.full(1, NO_FOLD, np.int32),
        np.ones(1), np.ones((1, 2)), alone=True, nu=options.nu, quantum=quantum,
    )  # fmt: skip


def quantile(f: Floats, upper: Floats | None, mass: float) -> float:
    """Return the smallest f up to which there are rows of a weight of `mass`.

    If they weigh no more, it is the middle between that f and the next, as in LIBLINEAR: any number
    from one to the other is as good. It is 0 if no row has a weight. The numbers, float64[n] both,
    may be mapped from a file: they are read in pieces, several times: once for each 16 of their
    bits. The weights of the rows are `upper`; None if each weighs 1.
    """
    before, prefix, exact, top = 0.0, 0, False, np.uint64(1 << 63)
    for digit in reversed(range(0, 64, _DIGIT)):
        found = np.zeros(1 << _DIGIT)
        for part, weights in pieces(f, upper):
            bits = (part + 0.0).view(np.uint64)  # -0 becomes 0
            keys = np.where(bits & top, ~bits, bits | top)  # in the order of f
            if digit < 64 - _DIGIT:
                has_prefix = keys >> np.uint64(digit + _DIGIT) == np.uint64(prefix)
                keys, weights = keys[has_prefix], weights[has_prefix]
            places = (keys >> np.uint64(digit)).astype(np.int64) & ((1 << _DIGIT) - 1)
            found += np.bincount(places, weights, 1 << _DIGIT)
        if not found.any():
            return 0.0
        reached = before + np.cumsum(found)
        enough = np.flatnonzero((reached >= mass) & (found > 0.0))
        place = int(enough[0]) if len(enough) else int(np.flatnonzero(found)[-1])
        before = float(reached[place] - found[place])
        prefix = prefix << _DIGIT | place
        exact = float(reached[place]) == mass
    key = np.uint64(prefix)
    bits = np.array(key ^ top if key & top else ~key, np.uint64)
    smallest = float(bits.view(np.float64))
    after = _next(f, upper, smallest) if exact else math.inf
    return 0.5 * smallest + 0.5 * after if math.isfinite(after) else smallest


def _next(f: Floats, upper: Floats | None, above: float) -> float:
    """Return the smallest f of a row of some weight above a number; infinite if there is none."""
    found = math.inf
    for part, weights in pieces(f, upper):
        larger = part[(part > above) & (weights > 0.0)]
        found = min(found, float(larger.min(initial=math.inf)))
    return found


def pieces(f: Floats, upper: Floats | None) -> Iterator[tuple[Floats, Floats]]:
    """Yield some f at a time, which may be mapped from a file, with their weights."""
    for at in range(0, len(f), _CHUNK):
        part = f[at : at + _CHUNK].copy()
        yield part, np.ones(len(part)) if upper is None else upper[at : at + _CHUNK].copy()


def relative_gap(primal: float, dual: float, left: float, length: float) -> float:
    """Return P - D, which is `left`, relative to the objective; 0 if it is not above 0.

    `length` is nu times the sum of U_i |x_i|.
    """
    if left <= 0.0:
        return 0.0
    scale = max(abs(primal), abs(dual), ZERO * 0.5 * length * length)
    return left / scale if scale > 0.0 else math.inf


def is_zero(w: Floats, sizes: Floats) -> bool:
    """Return whether w' = sum alpha_i x_i is 0, as far as such sums can be, in all its features.

    Each w'_j is compared with its size, nu sum_i U_i |x_ij|, so that no feature of large values
    hides another one that separates the rows from 0; the mean of the squares counts.
    """
    occurs = sizes > 0.0
    ratios = w[occurs] / sizes[occurs]
    return not len(ratios) or float(dot(ratios, ratios)) <= ZERO * len(ratios)


def prove(
    squares: tuple[float, float, float],
    mass: float,
    off: float,
    rho: float,
    seen: Floats,
    sums: Floats,
    n: int,
    drift: float,
    zero: bool,
) -> Certificate:
    """Return what a pass over all rows proves of a candidate v with a rho.

    Parameters
    ----------
    squares : (float, float, float)     |v|**2, |w'|**2 and |v - w'|**2
    mass, off : float         T, and S - T
    seen, sums : float64[N_SEEN], float64[N_SUMS]           as the kernels leave them
    n, drift : int, float     rows; as in `Certificate`
    zero : bool               whether w' is 0, as `is_zero` says: the gap is relative to `ZERO`
                              then, at least
    """
    square, recomputed, distance = squares
    loss = float(sums[kernels.LOSS] + sums[kernels.LOSS_LOW])
    reach, terms = float(seen[kernels.REACH]), float(seen[kernels.N_REACH])
    whole = float(seen[kernels.TOTAL] + seen[kernels.TOTAL_LOW])
    total = float(seen[kernels.MASS] + seen[kernels.MASS_LOW])
    rows = float(sums[kernels.GAP_TERM])
    shift = 1.01 * UNIT * (terms + 4.0) * reach  # how far w' may be from that of a feasible point
    if off > 0.0:
        t = off / total
        rows += t * loss
        shift += t * math.sqrt(recomputed) * 1.01
    elif off < 0.0:
        t = -off / (whole - total) if whole > total else math.inf
        rows += t * float(sums[kernels.ABOVE])
        shift += t * (math.sqrt(recomputed) + float(seen[kernels.WHOLE])) * 1.01
    rows = (rows + float(seen[kernels.WRONG])) * (1.0 + 2.0 * UNIT * (n + 8.0))
    apart = math.sqrt(distance) + shift
    dual = -0.5 * (math.sqrt(recomputed) + shift) ** 2 * (1.0 + OF_NORMS)
    left = (rows + 0.5 * apart * apart) * (1.0 + OF_NORMS)
    primal = 0.5 * square - rho * mass + loss
    if 0.0 <= primal < math.inf:  # w = 0 and rho = 0 are not worse
        primal, rho, left = 0.0, 0.0, -dual
    length = mass * float(seen[kernels.WHOLE]) / whole if zero and whole > 0.0 else 0.0
    gap = relative_gap(primal, dual, left, length) * (1.0 + OF_PRIMAL) + 4.0 * UNIT
    if not (math.isfinite(primal) and math.isfinite(left)):
        gap = math.inf
    return Certificate(primal, dual, gap, drift, False, rho)
