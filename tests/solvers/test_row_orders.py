from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blocklinear.kernels.blocks import packed_rows
from blocklinear.solvers.row_orders import (
    drawn_rows,
    parts_of_passes,
    pass_order,
    row_order,
    row_schedule,
    turns,
)
from blocklinear.training.permutations import block_groups, block_order, by_turns

SEEDS = st.integers(0, 2**63 - 1)


@settings(max_examples=100, deadline=None)
@given(
    seed=SEEDS,
    outer=st.integers(1, 10**9),
    n_blocks=st.integers(1, 80),
    group=st.integers(1, 100),
)
def test_every_block_once_in_groups_of_nearly_one_size(seed, outer, n_blocks, group):
    drawn = block_groups(seed, outer, n_blocks, group)
    assert sorted(block for blocks in drawn for block in blocks) == list(range(n_blocks))
    sizes = [len(blocks) for blocks in drawn]
    assert len(sizes) == -(-n_blocks // group)
    assert max(sizes) <= group
    assert max(sizes) - min(sizes) <= 1
    assert block_groups(seed, outer, n_blocks, group) == drawn


def test_groups_are_redrawn():
    drawn = {frozenset(map(frozenset, block_groups(5, outer, 12, 3))) for outer in range(1, 21)}
    assert len(drawn) == 20


def test_single_blocks_come_in_a_new_order():
    assert len({tuple(block_groups(5, outer, 12, 1)) for outer in range(1, 21)}) == 20


def test_seeds_differ():
    assert len({tuple(block_groups(seed, 1, 12, 4)) for seed in range(20)}) == 20


def test_every_pair_of_blocks_meets():
    met = set()
    for outer in range(1, 101):
        for blocks in block_groups(0, outer, 10, 3):
            met |= {(a, b) for a in blocks for b in blocks if a < b}
    assert len(met) == 45


@pytest.mark.parametrize("group", [7, 8])
def test_a_group_of_all_blocks_stays_in_place(group):
    assert [block_groups(0, outer, 7, group) for outer in (1, 2)] == [[tuple(range(7))]] * 2


@pytest.mark.parametrize("group", [1, 3, 5])
def test_some_blocks_come_first_in_the_order_given(group):
    orders = [
        [b for blocks in block_groups(seed, 2, 12, group, first=[10, 3, 11]) for b in blocks]
        for seed in range(20)
    ]
    assert all(sorted(order) == list(range(12)) for order in orders)
    assert {tuple(order[:3]) for order in orders} == {(10, 3, 11)}
    assert len({tuple(order[3:]) for order in orders}) > 1
    drawn = block_groups(0, 2, 12, group)
    assert block_groups(0, 2, 12, group, permuted=False, first=[11])[0][0] == 0
    assert block_groups(0, 2, 12, group, first=[b for blocks in drawn for b in blocks]) == drawn
    assert block_groups(0, 2, 12, group, first=[12, -1]) == drawn  # no such blocks


def test_blocks_come_by_turns_with_as_many_others():
    assert by_turns([5, 0, 4, 1, 3, 2], {1, 4}) == [4, 5, 1, 0]
    assert by_turns([2, 0, 1], {0, 1, 2}) == [2, 0, 1]
    assert by_turns([3, 2, 0, 1], {0, 1, 3}) == [3, 2, 0, 1]  # there are fewer others
    assert by_turns([3, 2, 0, 1], set()) == []


def order(seed=1, outer=2, epoch=0, blocks=(3, 5), n_rows=30):
    return row_order(n_rows, seed, outer, epoch, blocks).tolist()


@settings(max_examples=50, deadline=None)
@given(seed=SEEDS, epoch=st.integers(0, 99), n_rows=st.integers(0, 50))
def test_every_row_once(seed, epoch, n_rows):
    drawn = order(seed=seed, epoch=epoch, n_rows=n_rows)
    assert sorted(drawn) == list(range(n_rows))
    assert drawn == order(seed=seed, epoch=epoch, n_rows=n_rows)


def test_the_order_of_rows_depends_on_all_it_should():
    changes = [{}, {"seed": 2}, {"outer": 3}, {"epoch": 1}, {"blocks": (3, 6)}, {"blocks": (5, 3)}]
    assert len({tuple(order(**change)) for change in changes}) == len(changes)


def draws(how, seed=1, outer=2, epoch=0, last=(3, 5), n_rows=30):
    """An order, whose last word is the blocks of a group, or the number of a pass."""
    if how is pass_order:
        return pass_order(n_rows, seed, outer, epoch, sum(last)).tolist()
    first = np.zeros(n_rows, np.float32) if how is row_schedule else n_rows
    return how(first, seed, outer, epoch, last).tolist()


@pytest.mark.parametrize("how", [row_order, drawn_rows, row_schedule, pass_order])
def test_each_order_depends_on_all_it_should(how):
    changes = [{}, {"seed": 2}, {"outer": 3}, {"epoch": 1}, {"last": (3, 6)}]
    assert len({tuple(draws(how, **change)) for change in changes}) == len(changes)
    assert draws(how) == draws(how)
    assert set(draws(how)) <= set(range(30))


def test_the_orders_have_nothing_in_common():
    ways = [row_order, drawn_rows, row_schedule, pass_order]
    assert len({tuple(draws(how, last=(8,))) for how in ways}) == len(ways)


@pytest.mark.parametrize("how", [row_schedule, pass_order])
def test_alike_rows_come_once_each(how):
    assert sorted(draws(how)) == list(range(30))


def test_drawn_rows_repeat():
    drawn = draws(drawn_rows, n_rows=300)
    assert 150 < len(set(drawn)) < 230  # 1 - 1/e of them


def test_rows_preferred_come_more_often():
    preference = np.zeros(100, np.float32)
    preference[:10] = np.log(20)
    out = row_schedule(preference, 1, 2, 3, (7,))
    assert np.count_nonzero(out < 10) > 60


@settings(max_examples=50, deadline=None)
@given(seed=SEEDS, outer=st.integers(0, 10**6), n_blocks=st.integers(1, 50))
def test_blocks_are_permuted(seed, outer, n_blocks):
    assert sorted(block_order(seed, outer, n_blocks).tolist()) == list(range(n_blocks))


def test_blocks_wait_about_as_long_as_each_other():
    n_outer, n_blocks = 200, 60
    places = [np.argsort(block_order(7, outer, n_blocks)) for outer in range(1, n_outer)]
    waits = (np.diff(places, axis=0) + n_blocks) / n_blocks  # of independent orders 0.41 from 1
    assert 0.25 < waits.std() < 0.32
    assert abs(np.corrcoef(places[0], places[2])[0, 1]) < 0.3  # any two may meet again


@pytest.mark.parametrize("place", [0, 11])
def test_every_block_comes_first_and_last_about_as_often(place):
    found = np.bincount([block_order(3, outer, 12)[place] for outer in range(1, 1201)])
    assert found.min() > 60
    assert found.max() < 140


@settings(max_examples=200, deadline=None)
@given(total=st.integers(1, 40), n_visits=st.integers(2, 200))
def test_passes_fall_to_block_steps_in_equal_parts(total, n_visits):
    parts = [parts_of_passes(total, number, n_visits) for number in range(n_visits)]
    for each in parts:
        np.testing.assert_allclose(sum(b - a for _, a, b in each), total / n_visits, rtol=1e-9)
    for which_pass in range(total):
        borders = [(a, b) for each in parts for which, a, b in each if which == which_pass]
        assert borders[0][0] == 0.0
        assert borders[-1][1] == 1.0
        assert all(one[1] == other[0] for one, other in pairwise(borders))


def rows_in_part(seed, which_pass, positions, first, last):
    """The places of rows, all in one region, that have their turn in a part of a pass."""
    table = np.zeros((len(positions), packed_rows.TABLE_WORDS), np.int64)
    table[:, 0] = positions
    ranges, found = np.ones(10_000, np.uint16), np.empty(len(positions), np.int64)
    n = packed_rows.rows_in_part(
        turns(seed, 3, which_pass), np.zeros(2, np.int64), np.array([len(positions)]),
        table.reshape(-1), ranges, first, last, found,
    )  # fmt: skip
    return found[:n] // packed_rows.TABLE_WORDS


@settings(max_examples=100, deadline=None)
@given(seed=SEEDS, which_pass=st.integers(0, 100), n=st.integers(0, 300), number=st.integers(2, 50))
def test_every_row_has_one_turn_in_a_pass(seed, which_pass, n, number):
    positions = np.random.default_rng(n).permutation(1000)[:n].astype(np.int64)
    borders = np.linspace(0.0, 1.0, number)
    found = [rows_in_part(seed, which_pass, positions, a, b) for a, b in pairwise(borders)]
    assert all((np.diff(places) > 0).all() for places in found)
    assert sorted(np.concatenate(found)) == list(range(n))
    some = positions[: n // 2]  # a turn does not depend on the other rows
    again = [rows_in_part(seed, which_pass, some, a, b) for a, b in pairwise(borders)]
    for places, all_places in zip(again, found, strict=True):
        assert places.tolist() == [place for place in all_places if place < n // 2]


def test_turns_are_spread_evenly_and_differ_between_passes():
    positions = np.arange(10_000)
    counts = [len(rows_in_part(1, 0, positions, k / 10, (k + 1) / 10)) for k in range(10)]
    assert max(abs(count - 1000) for count in counts) < 150  # five deviations
    first, second = (set(rows_in_part(1, k, positions, 0.0, 0.5).tolist()) for k in (0, 1))
    assert 2200 < len(first & second) < 2800
