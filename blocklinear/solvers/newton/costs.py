"""What methods take, in entries: as long as a product with that many takes, rows read in order."""

import math

from blocklinear.kernels.losses import LOGISTIC
from blocklinear.objectives.problems import SOLVERS
from blocklinear.store.manifest import Manifest

STEP, LOGISTIC_STEP = 25.0, 150.0
"""What a step of coordinate descent on a row takes besides its entries.

Measured, C = 100, nanoseconds a step: of 12 entries (covtype) 48 to 67, of 14 (a9a) 73 to 145, of
139 (film reviews) 250 to 300; of logistic regression 310, 365 and 480."""
_PASSES, _PROXIMAL_PASSES = 16, 84
"""Of Newton's method with the Hessian, and of proximal points, to a gap of 1e-3."""


def descent_work(solver: int, entries: float, steps: float) -> float:
    """Return what steps of coordinate descent take, on rows of so many entries in all."""
    return entries + steps * (LOGISTIC_STEP if SOLVERS[solver].kind == LOGISTIC else STEP)


def newton_passes(solver: int) -> int:
    """Return in how many passes Newton's method comes to a gap of 1e-3."""
    return _PASSES if SOLVERS[solver].smooth else _PROXIMAL_PASSES


def newton_work(solver: int, manifest: Manifest) -> float:
    """Return what these passes take if each adds the Hessian up."""
    return newton_passes(solver) * (1.0 + enough_products(manifest, True)) * manifest.nnz


def enough_products(manifest: Manifest, hessian: bool) -> float:
    """Return after how many products it would have been cheaper to add the Hessian up.

    A product takes two operations an entry; adding up, half the square of each row's length; and
    Cholesky's factor a sixth of the cube of the features, four in a register. Without memory for a
    `hessian` the number is infinite.
    """
    if not hessian:
        return math.inf
    n, nnz = manifest.n_features + 1.0, max(manifest.nnz, 1)
    return nnz / max(manifest.n_rows, 1) / 4.0 + n**3 / (48.0 * nnz)
