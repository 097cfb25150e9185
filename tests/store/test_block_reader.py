"""Blocks read ahead: in order, each once, whatever else is expected meanwhile."""

import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from blocklinear.errors import DamagedError, StorageError
from blocklinear.store import blocks as module
from blocklinear.store.blocks import BlockReader

from .build import make_store, random_text

THREADS = 2


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return make_store(tmp_path_factory.mktemp("reader"), random_text(80), blocks=6)


@pytest.fixture
def read(monkeypatch):
    """The names of the blocks in the order in which they are read."""
    names, original = [], module.BlockFile

    def noted(folder, record, *rest):
        names.append(record.name)
        return original(folder, record, *rest)

    monkeypatch.setattr(module, "BlockFile", noted)
    return names


def records_of(store, which):
    return [store.manifest.blocks[b] for b in which]


def take(reader, record):
    with reader.block(record) as block:
        return bytes(block.data)


def expected_bytes(store, record):
    return (store.blocks_folder / record.name).read_bytes()


def test_blocks_are_read_in_order_one_more_than_are_taken(store, read):
    records = records_of(store, (3, 1, 5, 0, 2))
    with BlockReader(store.blocks_folder, THREADS) as reader:
        reader.expect(records)
        for n, record in enumerate(records):
            assert take(reader, record) == expected_bytes(store, record)
            assert len(read) <= n + 1 + THREADS + 1
    assert read == [record.name for record in records]


def test_what_was_read_ahead_is_not_read_again(store, read):
    first, second = records_of(store, (0, 1)), records_of(store, (2, 3))
    with BlockReader(store.blocks_folder, THREADS) as reader:
        reader.expect(first + second)
        for record in first:
            take(reader, record)
        reader.expect(second + records_of(store, (4, 5)))
        for record in second:
            assert take(reader, record) == expected_bytes(store, record)
    assert read[:4] == [record.name for record in first + second]


def test_a_block_may_be_expected_twice(store, read):
    records = records_of(store, (1, 2, 2, 1))
    with BlockReader(store.blocks_folder, THREADS) as reader:
        reader.expect(records)
        assert [take(reader, r) for r in records] == [expected_bytes(store, r) for r in records]
    assert read == [record.name for record in records]


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_whatever_is_expected_nobody_waits_for_ever(store, threads):
    rng = np.random.default_rng(threads)
    with BlockReader(store.blocks_folder, threads) as reader, ThreadPoolExecutor(threads) as pool:
        ahead = []
        for _ in range(200):
            own = ahead if rng.random() < 0.5 else rng.permutation(6)[: rng.integers(7)].tolist()
            own = own[::-1] if rng.random() < 0.2 else own
            ahead = rng.permutation(6)[: rng.integers(7)].tolist()
            reader.expect(records_of(store, itertools.chain(own, ahead)))
            found = pool.map(lambda record: take(reader, record), records_of(store, own))
            wanted = [expected_bytes(store, record) for record in records_of(store, own)]
            assert list(found) == wanted


def test_a_fault_is_told_to_who_asks_for_the_block(store, tmp_path):
    for block in store.blocks_folder.iterdir():
        (tmp_path / block.name).write_bytes(block.read_bytes())
    (tmp_path / store.manifest.blocks[1].name).write_bytes(b"nothing")
    records = records_of(store, (0, 1, 2, 3, 4))
    with BlockReader(tmp_path, 1) as reader:
        for _ in range(3):  # whoever goes on finds as much room as before
            reader.expect(records)
            assert take(reader, records[0]) == expected_bytes(store, records[0])
            with pytest.raises(DamagedError, match="7 bytes"):
                take(reader, records[1])
            for record in records[2:]:
                assert take(reader, record) == expected_bytes(store, record)
            reader.expect(records)


def test_where_one_block_cannot_be_read_no_other_is_tried(store, monkeypatch):
    """Each would wait for a server or disk that does not answer: a run ended after minutes."""
    tried = []

    def failing(folder, record, *rest):
        tried.append(record.name)
        raise StorageError("no answer")

    monkeypatch.setattr(module, "BlockFile", failing)
    records = records_of(store, (0, 1, 2, 3, 4, 5))
    with BlockReader(store.blocks_folder, 1) as reader:
        reader.expect(records)
        for record in records:
            with pytest.raises(StorageError, match="no answer"):
                take(reader, record)
    assert len(tried) <= 2
