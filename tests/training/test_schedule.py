import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blocklinear.training.schedule import row_order, visits

SEEDS = st.integers(0, 2**63 - 1)


@settings(max_examples=100, deadline=None)
@given(
    seed=SEEDS,
    outer=st.integers(1, 10**9),
    n_blocks=st.integers(1, 80),
    group=st.integers(1, 100),
)
def test_every_block_once_in_groups_of_nearly_one_size(seed, outer, n_blocks, group):
    drawn = visits(seed, outer, n_blocks, group)
    assert sorted(block for blocks in drawn for block in blocks) == list(range(n_blocks))
    sizes = [len(blocks) for blocks in drawn]
    assert len(sizes) == -(-n_blocks // group)
    assert max(sizes) <= group
    assert max(sizes) - min(sizes) <= 1
    assert visits(seed, outer, n_blocks, group) == drawn


def test_groups_are_redrawn():
    drawn = {frozenset(map(frozenset, visits(5, outer, 12, 3))) for outer in range(1, 21)}
    assert len(drawn) == 20


def test_single_blocks_come_in_a_new_order():
    assert len({tuple(visits(5, outer, 12, 1)) for outer in range(1, 21)}) == 20


def test_seeds_differ():
    assert len({tuple(visits(seed, 1, 12, 4)) for seed in range(20)}) == 20


def test_every_pair_of_blocks_meets():
    met = set()
    for outer in range(1, 101):
        for blocks in visits(0, outer, 10, 3):
            met |= {(a, b) for a in blocks for b in blocks if a < b}
    assert len(met) == 45


@pytest.mark.parametrize("group", [7, 8])
def test_a_group_of_all_blocks_stays_in_place(group):
    assert [visits(0, outer, 7, group) for outer in (1, 2)] == [[tuple(range(7))]] * 2


def order(seed=1, outer=2, epoch=0, blocks=(3, 5), n_rows=30):
    out = np.empty(n_rows, np.int64)
    row_order(seed, outer, epoch, blocks, out)
    return out.tolist()


@settings(max_examples=50, deadline=None)
@given(seed=SEEDS, epoch=st.integers(0, 99), n_rows=st.integers(0, 50))
def test_every_row_once(seed, epoch, n_rows):
    drawn = order(seed=seed, epoch=epoch, n_rows=n_rows)
    assert sorted(drawn) == list(range(n_rows))
    assert drawn == order(seed=seed, epoch=epoch, n_rows=n_rows)


def test_the_order_of_rows_depends_on_all_it_should():
    changes = [{}, {"seed": 2}, {"outer": 3}, {"epoch": 1}, {"blocks": (3, 6)}, {"blocks": (5, 3)}]
    assert len({tuple(order(**change)) for change in changes}) == len(changes)
