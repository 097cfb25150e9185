"""What rows still add to the gap, against the gap of the whole problem written down."""

import numpy as np
import pytest

from blocklinear.training.active import Rows
from blocklinear.training.problems import make_problem
from blocklinear.training.settling import standing
from training.small import as_text, split_text
from training.warm import how


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("solver", [1, 3])
def test_the_parts_of_the_gap_and_which_rows_rest(tmp_path, solver, weighted):
    rng = np.random.default_rng(solver)
    X, y = rng.normal(size=(40, 5)), np.where(rng.random(40) < 0.5, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    problem = make_problem(split_text(tmp_path, as_text(X, y)).manifest, how(solver, cost=0.5))
    weights = rng.uniform(0.5, 2.0, 40) if weighted else None
    starts = np.arange(0, 200, 5)
    rows = Rows(
        np.arange(40), starts, starts + 5, (X**2).sum(axis=1), y,
        np.tile(np.arange(5, dtype=np.uint32), 40), X.ravel(), weights,
    )  # fmt: skip
    C = 0.5 * (np.ones(40) if weights is None else weights)
    alpha = C * np.clip(rng.normal(0.5, 0.8, 40), 0.0, 1.0)
    w = X.T @ (alpha * y)
    margin = y * (X @ w)
    loss = np.maximum(0.0, 1.0 - margin) ** (2 if solver == 1 else 1)
    curvature = 0.5 / C if solver == 1 else np.zeros(40)
    gain = alpha - 0.5 * curvature * alpha**2
    gap = (0.5 * w @ w + C @ loss) - (gain.sum() - 0.5 * w @ w)
    seen = standing(rows, problem, alpha, X @ w)
    assert seen.added.sum() == pytest.approx(gap, rel=1e-12)
    gradient = margin - 1.0 + curvature * alpha
    rests = (alpha == 0.0) & (gradient >= 0.0)
    if solver == 3:
        rests |= (alpha == C) & (gradient <= 0.0)
    assert (seen.restless == ~rests).all()
    some = standing(rows.some(seen.restless), problem, alpha[seen.restless], (X @ w)[seen.restless])
    assert some.added.sum() == pytest.approx(gap, rel=1e-12)  # those at rest add nothing
