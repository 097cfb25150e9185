"""Columns that are asked for, and no others, are read; ahead of their use, too."""

import numpy as np
import pytest

from blocklinear.columns.loader import ColumnLoader
from blocklinear.columns.store import open_columns
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
@pytest.mark.parametrize("group", [1, 2, 100])
def test_columns_loaded_ahead_are_those_read_one_by_one(columns, group, threads):
    rng = np.random.default_rng(group)
    n = len(columns.blocks)
    with ColumnLoader(columns, group, threads) as loader:
        for wanted in (None, rng.random(columns.n_features) < 0.05, None):
            order = rng.permutation(n).tolist()
            groups = [order[k : k + group] for k in range(0, n, group)]
            seen = []
            for asked, loaded in zip(groups, loader.stream(groups, wanted), strict=True):
                loader._ahead.submit(int).result()  # the next are in memory
                parts = [columns.read(block, wanted) for block in asked]
                block = loaded.block
                assert block.blocks == tuple(asked)
                assert block.features.tolist() == [f for p in parts for f in p.features.tolist()]
                assert block.values.tolist() == [v for p in parts for v in p.values.tolist()]
                assert block.rows.tolist() == [i for p in parts for i in p.rows.tolist()]
                lengths = [n for p in parts for n in np.diff(p.starts).tolist()]
                assert np.diff(block.starts).tolist() == lengths
                assert block.bytes_read == sum(p.bytes_read for p in parts)
                seen += asked
            assert sorted(seen) == list(range(n))


def test_what_is_in_memory_is_not_loaded_again(columns, monkeypatch):
    loads, original = [], ColumnLoader._load
    monkeypatch.setattr(
        ColumnLoader, "_load", lambda self, what: loads.append(what) or original(self, what)
    )
    some = np.arange(columns.n_features) % 7 == 0
    n = len(columns.blocks)
    with ColumnLoader(columns, n, 2) as loader:
        for _ in range(3):
            (loaded,) = loader.stream([range(n)])
            assert loaded.block.n_columns == columns.n_features
        assert len(loads) == 1
        (loaded,) = loader.stream([range(n)], some)
        assert loaded.block.n_columns < columns.n_features
        assert len(loads) == 2
    loads.clear()
    with ColumnLoader(columns, 1, 2) as loader:
        for _ in loader.stream([(0,), (1,)], some, following=(2,)):
            pass
        for _ in loader.stream([(2,), (0,)], some):
            pass
    assert len(loads) == 4


def test_columns_are_those_of_the_rows_they_are_opened_with(tmp_path):
    store = store_of(tmp_path, text_of(100))
    assert open_columns(store) is None
    transpose(store, MEMORY, 2)
    columns = open_columns(store)
    assert columns is not None
    assert triplets_of_columns(columns) == triplets_of_rows(store)
