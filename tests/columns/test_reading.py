"""Columns that are asked for, and no others, are read."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from blocklinear.columns.store import ColumnBuffer, open_columns
from blocklinear.columns.transpose import transpose
from blocklinear.errors import UsageError

from .conftest import MEMORY, store_of, text_of, triplets_of_columns, triplets_of_rows

pytestmark = pytest.mark.usefixtures("all_processors")


@pytest.fixture
def columns(tmp_path, small_chunks):
    return transpose(store_of(tmp_path, text_of(300)), MEMORY, 2)


def taken(part):
    """Return what a block of columns holds, in memory of its own."""
    arrays = part.features, part.starts, part.rows, part.values, part.sq_norm
    return [array.tolist() for array in arrays]


def test_chunks_without_a_feature_that_is_wanted_are_not_read(columns):
    for block, record in enumerate(columns.blocks):
        whole = columns.read(block)
        everything = whole.bytes_read
        chunks = columns.select([block]).parts[0].table.starts
        for first, stop in zip(chunks[:-1].tolist(), chunks[1:].tolist(), strict=True):
            part = columns.read(block, np.array([stop - 1]))
            assert part.features.tolist() == list(range(first, stop))
            assert part.bytes_read > 0
            assert (part.bytes_read < everything) == (len(chunks) > 2)
            inside = slice(whole.starts[first - record.first], whole.starts[stop - record.first])
            assert part.rows.tolist() == whole.rows[inside].tolist()
            assert part.values.tolist() == whole.values[inside].tolist()
        nothing = columns.read(block, np.zeros(columns.n_features, np.bool_))
        assert (nothing.n_columns, nothing.bytes_read, nothing.starts.tolist()) == (0, 0, [0])


def test_numbers_and_a_mask_ask_for_the_same(columns):
    rng = np.random.default_rng(0)
    numbers = rng.choice(columns.n_features, 9, replace=False)
    mask = np.zeros(columns.n_features, np.bool_)
    mask[numbers] = True
    for block in range(len(columns.blocks)):
        assert taken(columns.read(block, mask)) == taken(columns.read(block, numbers))
    found = {feature for _, feature in triplets_of_columns(columns, mask)}
    assert found >= {f for _, f in triplets_of_columns(columns) if mask[f]}


@pytest.mark.parametrize("wanted", [np.array([-1]), np.array([10**6]), np.ones(3, np.bool_)])
def test_features_that_there_are_not_are_refused(columns, wanted):
    with pytest.raises(UsageError):
        columns.read(0, wanted)


@pytest.mark.parametrize("threads", [1, 3])
def test_blocks_read_together_are_those_read_one_by_one(columns, threads):
    rng = np.random.default_rng(threads)
    for wanted in (None, rng.random(columns.n_features) < 0.05, None):
        order = rng.permutation(len(columns.blocks)).tolist()
        selection = columns.select(order, wanted)
        with ThreadPoolExecutor(threads) as pool:
            block = ColumnBuffer(columns, selection.features, selection.nnz).load(selection, pool)
        parts = [columns.read(one, wanted) for one in order]
        assert block.blocks == tuple(order)
        assert block.features.tolist() == [f for p in parts for f in p.features.tolist()]
        assert block.values.tolist() == [v for p in parts for v in p.values.tolist()]
        assert block.rows.tolist() == [i for p in parts for i in p.rows.tolist()]
        lengths = [n for p in parts for n in np.diff(p.starts).tolist()]
        assert np.diff(block.starts).tolist() == lengths
        assert block.bytes_read == sum(p.bytes_read for p in parts)


def test_columns_are_those_of_the_rows_they_are_opened_with(tmp_path):
    store = store_of(tmp_path, text_of(100))
    assert open_columns(store) is None
    transpose(store, MEMORY, 2)
    columns = open_columns(store)
    assert columns is not None
    assert triplets_of_columns(columns) == triplets_of_rows(store)
