"""What methods take, in entries: as long as a product with that many takes, rows read in order."""

import math

from blocklinear.kernels.losses import LOGISTIC, SQUARED_HINGE
from blocklinear.objectives.problems import SOLVERS
from blocklinear.store.manifest import Manifest

STEP, LOGISTIC_STEP = 40.0, 200.0
"""What a step of coordinate descent on a row takes besides its entries.

Measured, C = 1 and 100, nanoseconds a step: of 12 entries (covtype) 64 to 72, of 14 (a9a) 85, of 30
(phishing) 100 to 160, of 100 and 300 (generated) 190 and 475, where an entry takes 1.4; of logistic
regression 300, 300, 350, 400 and 750."""
_PASSES, _PROXIMAL_PASSES = 16, 84
"""Of Newton's method with the Hessian, and of proximal points, to a gap of 1e-3."""
SQUARED_HINGE_ROWS = 8
"""Rows with a loss, for each feature, that steps need on squared hinge loss, whose Hessian has only
these: with fewer, a step soon comes to rows that it does not know of, and ends there.

Measured, C = 30 and 1000, to a gap of 1e-3: 20,000 separable rows of 20 of 9,500 features have 1.1
to 1.4, and 1,000 passes do not do, where descent takes 9 and 11 outer iterations; 5,000 dense rows
of 300, 1.8 to 5.7, 219 and more than 1,000; phishing and a9a, 23 to 160, 14 to 24."""
OF_SEVERAL = 3
"""How many times as many the slowest of several models needs, of squared hinge and logistic loss.

Measured: one model 8 to 20, where a plane separates the classes 36 (agaricus); 52 classes of
hashed text (Reuters), C = 0.01, 1 and 100, 12, 46 and 101, and 7, 19 and 62."""


def descent_work(solver: int, entries: float, steps: float) -> float:
    """Return what steps of coordinate descent take, on rows of so many entries in all."""
    return entries + steps * (LOGISTIC_STEP if SOLVERS[solver].kind == LOGISTIC else STEP)


def newton_passes(solver: int) -> int:
    """Return in how many passes Newton's method comes to a gap of 1e-3."""
    return _PASSES if SOLVERS[solver].smooth else _PROXIMAL_PASSES


def newton_work(solver: int, manifest: Manifest) -> float:
    """Return what these passes take if each adds the Hessian up."""
    return newton_passes(solver) * (1.0 + enough_products(manifest, True)) * manifest.nnz


def usual_newton_passes(solver: int, manifest: Manifest, n_sv: int) -> float:
    """Return in how many it brings one model there if a product does for each, as on most data.

    They are infinite for squared hinge loss where fewer than `SQUARED_HINGE_ROWS` rows for a
    feature have one.

    A product is a pass, too; if the Hessian is cheaper, its cost is counted in its place. Measured
    to a gap of 1e-3, in passes of 1.5 ns an entry, C = 1 and 100: squared hinge and logistic loss
    15 to 20 (generated, 100 and 300 features), 45 to 75 (a9a), 70 to 100 (covtype), 50 to 100
    (phishing); hinge 50 to 70, 160 to 200, 220 to 330 and 100 to 125. If features are combinations
    of a tenth as many: up to 220, of at most 1200.

    Parameters
    ----------
    n_sv : int                rows that have a loss, or nearly so: with an alpha that is not 0
    """
    if SOLVERS[solver].kind == SQUARED_HINGE and n_sv < SQUARED_HINGE_ROWS * manifest.n_features:
        return math.inf
    return newton_passes(solver) * (1.0 + min(1.0, enough_products(manifest, True)))


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
