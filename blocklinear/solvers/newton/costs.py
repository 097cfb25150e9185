"""What methods take, in entries: as long as a product with that many takes, rows read in order."""

import math

from blocklinear.kernels.losses import L2_SVR, LOGISTIC, SQUARED_HINGE
from blocklinear.objectives.problems import SOLVERS
from blocklinear.store.manifest import Manifest

STEP, LOGISTIC_STEP, COPIED_STEP = 40.0, 200.0, 120.0
"""What a step of coordinate descent on a row takes besides its entries; and what more where rows
are loaded, and copied to be worked on again.

Measured, nanoseconds a step where an entry takes 1.4: of 12 entries (covtype) 64 to 72, of 300
(generated) 475; of logistic regression 300 and 750. Of 14 entries (3,000,000 flights) 170 to 330 in
memory, 440 to 650 in 256 MB."""
PASS, PART = 200_000.0, 25_000.0
"""What a pass over all rows takes besides these, 0.3 ms: measured of 216 rows, of either method.
And what descent takes for each part that its work is done in, 35 microseconds: 14,000 of these
rows, hinge loss, C = 10, take 0.49 s, of which rows have 0.04."""
_PASSES, _PRODUCTS, _PROXIMAL_PASSES = 16, 100, 84
"""Of Newton's method, by the Hessian or by products alone, and of proximal points, to a gap of
1e-3, on most data; by products, where rows are many.

Measured, C = 1 and 100, in memory, in passes of 1.5 ns an entry, with `PASS` counted apart: squared
hinge and logistic loss 16 and 17 (generated, 28 to 300 features), 23 (a9a), 33 (covtype); hinge
loss 86 to 92, 121 and 172. If features are combinations of a tenth as many: up to 220. By products,
C = 0.1 and 1, 27 to 68 (a9a, covtype, phishing) and 38 to 138 (327,000 flights, 19,000 features);
C = 100, 64 to 88, 330 and 920, where descent takes 170 to 6,500 epochs."""
MANY_ROWS = 8
"""Rows for each feature from which on products alone are worth a try.

Measured as above: with 0.7 (film reviews) and 0.1 rows for a feature (news), C = 0.1 to 100, they
take 0.6 to 29 times the work of descent; with 17 (flights), 0.1 to 1.6 times."""
ROWS_WITH_A_LOSS, ALL_ROWS = 8, 32
"""Rows with a loss, or rows in all, for each feature, either of which steps need where only rows
with a loss have a curvature (squared hinge and squared epsilon-insensitive loss): with fewer, a
step soon comes to rows that the Hessian does not know of, and ends there.

Measured, classes that a plane separates, passes to a gap of 1e-3 with C = 30 and 1000: of 2 to 17
rows for a feature, more than 1,000 in half of the runs, where descent takes 9 to 490 outer
iterations; of 33 to 100, 20 to 190, where descent takes 44 to 945.

With the Hessian, such steps are as many as there are rows whose margins they come to: 0.01 to 1.2
passes for each row, on 40 data sets of 24 to 2,700 rows and 5 to 117 features, C = 1 to 1e5."""
OF_SEVERAL = 3
"""How many times as many passes the slowest of several models needs as one, on a smooth loss.

Measured: one model 8 to 20; 52 classes (Reuters), C = 0.01, 1 and 100, 12, 46 and 101."""


def descent_work(solver: int, entries: float, steps: float, resident: bool = True) -> float:
    """Return what steps of coordinate descent take, on rows of so many entries in all."""
    step = LOGISTIC_STEP if SOLVERS[solver].kind == LOGISTIC else STEP
    return entries + steps * (step if resident else step + COPIED_STEP)


def loading_work(manifest: Manifest) -> float:
    """Return what it takes to load all rows: as long as one epoch of hinge loss.

    Measured, seconds of both: 0.11 and 0.08 (28 dense features, 11.2 M entries), 0.12 and 0.17
    (60,000 blogs, 17.8 M).
    """
    return manifest.nnz + STEP * manifest.n_rows


def newton_passes(solver: int, hessian: bool = True) -> int:
    """Return in how many passes Newton's method comes to a gap of 1e-3; a product is one, too."""
    if not SOLVERS[solver].smooth:
        return _PROXIMAL_PASSES
    return _PASSES if hessian else _PRODUCTS


def has_many_rows(manifest: Manifest) -> bool:
    """Return whether Newton's method may pay without memory for a Hessian."""
    return manifest.n_rows >= MANY_ROWS * manifest.n_features


def newton_work(passes: int, manifest: Manifest) -> float:
    """Return what passes take if each adds the Hessian up."""
    return passes * (1.0 + enough_products(manifest, True)) * manifest.nnz


def knows_too_few(solver: int, manifest: Manifest, n_sv: float = 0.0) -> bool:
    """Return whether the Hessian may have too few rows for steps to be long.

    Parameters
    ----------
    n_sv : float              rows that have a loss, or nearly so: with an alpha that is not 0
    """
    n, rows = manifest.n_features, manifest.n_rows
    few = n_sv < ROWS_WITH_A_LOSS * n and rows < ALL_ROWS * n
    return few and SOLVERS[solver].kind in (SQUARED_HINGE, L2_SVR)


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
