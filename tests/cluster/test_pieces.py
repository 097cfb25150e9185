"""The formulas of rounds, against dense ones."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blocklinear.cluster.descent import best_steps
from blocklinear.cluster.job import STEPS, seed_of_part
from blocklinear.kernels.blocks.scaling import scale_columns
from blocklinear.training.permutations import block_groups
from blocklinear.training.rounds.alpha import parts_of_round, stepped


@given(st.integers(0, 1 << 40), st.integers(1, 1000), st.integers(1, 40), st.integers(1, 40))
def test_parts_have_every_block_once(seed, outer, n_blocks, n_parts):
    n_parts = min(n_parts, n_blocks)
    parts = parts_of_round(seed, outer, n_blocks, n_parts)
    assert sorted(block for part in parts for block in part) == list(range(n_blocks))
    sizes = [len(part) for part in parts]
    assert len(parts) == n_parts
    assert max(sizes) - min(sizes) <= 1


def test_parts_are_drawn_anew():
    rounds = [parts_of_round(1, outer, 12, 3) for outer in (1, 2, 3)]
    assert rounds[0] != rounds[1] != rounds[2]
    assert rounds[0] == parts_of_round(1, 1, 12, 3)


@given(st.integers(1, 50), st.integers(1, 60))
def test_groups_have_every_place_once(n_blocks, group):
    groups = block_groups(1, 1, n_blocks, group, permuted=False)
    assert [place for some in groups for place in some] == list(range(n_blocks))
    assert max(map(len, groups)) <= group


def test_seeds_of_parts_differ():
    seeds = {seed_of_part(s, o, n) for s in range(3) for o in range(11, 14) for n in range(30)}
    assert len(seeds) == 3 * 3 * 30
    assert all(0 <= seed < 1 << 63 for seed in seeds)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_scaled_columns(dtype):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(7, 5)) * (rng.random((7, 5)) < 0.5)
    X[3] = 0.0
    rows, columns = np.nonzero(X)
    indptr = np.concatenate(([0], np.cumsum((X != 0).sum(axis=1)))).astype(np.int64)
    values, sq_norm = X[rows, columns].astype(dtype), np.full(7, np.nan)
    factors = np.sqrt([1.0, 2.0, 3.0, 1.5, 1.0, 9.0])
    scale_columns(indptr, columns.astype(np.uint32), values, factors, sq_norm)
    expected = X.astype(dtype) * factors[:5]
    np.testing.assert_allclose(values, expected[rows, columns], rtol=1e-6)
    np.testing.assert_allclose(sq_norm, (expected**2).sum(axis=1), rtol=1e-6)


def test_the_best_step_is_that_of_the_dual():
    rng = np.random.default_rng(2)
    W, moved = rng.normal(size=(6, 3)), rng.normal(size=(6, 3))
    terms = STEPS[:, None] * [9.0, 1.0, -5.0] - STEPS[:, None] ** 2
    dual = terms - 0.5 * ((W + STEPS[:, None, None] * moved) ** 2).sum(axis=1)
    steps, best = best_steps(STEPS, W, moved, terms)
    np.testing.assert_array_equal(best, dual.argmax(axis=0))
    np.testing.assert_array_equal(steps, STEPS[best])


def test_steps_of_none_and_all_are_exact():
    rng = np.random.default_rng(3)
    before, after = rng.random((2, 50, 2)) / 3.0
    np.testing.assert_array_equal(stepped(before, after, np.array([0.0, 1.0]))[:, 0], before[:, 0])
    np.testing.assert_array_equal(stepped(before, after, np.array([0.0, 1.0]))[:, 1], after[:, 1])
    moved = stepped(before, after, np.array([0.5, 0.25]))
    np.testing.assert_allclose(moved, before + [0.5, 0.25] * (after - before))
