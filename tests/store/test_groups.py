import numpy as np
import pytest

from blocklinear.store.store import BlockStore

from .build import (
    all_rows,
    expected_rows,
    load,
    make_store,
    random_text,
    rows_in,
    small_text_options,
)


@pytest.fixture(scope="module", params=["none", "zstd"])
def store(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("groups")
    return make_store(folder, random_text(60), blocks=5, compression=request.param)


@pytest.mark.parametrize("blocks", [(0,), (3, 1), (4, 0, 2), (0, 1, 2, 3, 4)])
def test_a_group_is_its_blocks_side_by_side(store, blocks):
    group = load(store.folder, store.manifest, blocks)
    assert group.blocks == blocks
    assert group.indptr[0] == 0
    assert len(group.indptr) == group.n_rows + 1
    assert group.bytes_read == sum(store.manifest.blocks[b].bytes for b in blocks)
    together = {}
    for k, b in enumerate(blocks):
        part = slice(group.starts[k], group.starts[k + 1])
        alone = load(store.folder, store.manifest, [b])
        assert group.row_numbers[part].tolist() == alone.row_numbers.tolist()
        assert part.stop - part.start == store.manifest.blocks[b].rows
        first = sum(block.rows for block in store.manifest.blocks[:b])
        assert (group.rows.positions[part] - first).tolist() == list(range(len(alone.labels)))
        together |= rows_in(alone)
    assert rows_in(group) == together


def test_all_blocks_hold_all_rows(store):
    assert all_rows(store.folder, store.manifest) == expected_rows(random_text(60))


def test_where_blocks_begin_is_worked_out_once_and_not_for_each_group(store):
    manifest = store.manifest
    first = manifest.first_positions
    assert first.tolist() == [0, *np.cumsum([block.rows for block in manifest.blocks])]
    assert manifest.first_positions is first


def test_the_squared_norms(store):
    group = load(store.folder, store.manifest, [2, 0])
    rows = rows_in(group)
    expected = [sum(v * v for v in rows[n][1].values()) for n in group.row_numbers.tolist()]
    np.testing.assert_allclose(group.sq_norm, expected, rtol=1e-14)


def test_float32_values_are_rounded_and_labels_are_not(tmp_path):
    text = b"1.1 1:0.1 2:0.12345678901234567\n-1 1:3\n"
    store = make_store(tmp_path, text, blocks=1, dtype="float32")
    group = load(store.folder, store.manifest, [0])
    assert group.values.dtype == np.float32
    assert group.labels.tolist() == [1.1, -1.0]
    assert rows_in(group) == expected_rows(text, dtype=np.float32)


def test_more_blocks_than_rows(tmp_path):
    text = random_text(3)
    store = make_store(tmp_path, text, blocks=20)
    assert len(store.manifest.blocks) == 20
    assert all_rows(store.folder, store.manifest) == expected_rows(text)
    assert store.verify().faults == []


def test_only_empty_rows(tmp_path):
    store = make_store(tmp_path, b"1\n-1\n1\n", blocks=2)
    assert store.manifest.n_features == 0
    assert all_rows(store.folder, BlockStore.open(store.folder).manifest) == {
        0: (1.0, {}),
        1: (-1.0, {}),
        2: (1.0, {}),
    }


def test_the_largest_index_of_either_base(tmp_path):
    for base in (0, 1):
        text = b"1 %d:1 4294967295:2\n-1 7:1\n" % base
        options = small_text_options(index_base=base, max_features=1 << 32)
        store = make_store(tmp_path, text, f"s{base}", blocks=2, text_options=options)
        assert store.manifest.dimension == 2**32 - base
        assert store.manifest.n_features == 3
        assert all_rows(store.folder, store.manifest) == expected_rows(text, base)
