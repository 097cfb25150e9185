"""Stores that change: what is removed, what garbage is collected, who may change them."""

import os

import pytest

from blocklinear.errors import (
    BusyError,
    DamagedError,
    InputError,
    StorageError,
    UsageError,
)
from blocklinear.ingest.add import add
from blocklinear.ingest.compact import compact
from blocklinear.store.changes import remove
from blocklinear.store.files import Lock
from blocklinear.store.manifest import today
from blocklinear.store.store import BlockStore
from blocklinear.training.garbage import collect_garbage

from .build import (
    TEXT,
    expected_rows,
    make_store,
    tree,
)
from .changing import MORE, add_options, add_text, intact, numbers_of, refused, rows_of

# remove


def test_a_batch_is_removed(tmp_path):
    store = add_text(make_store(tmp_path), MORE)
    files = os.listdir(store.blocks_folder)
    store = remove(store, ["b1"])
    assert rows_of(store) == {k: v for k, v in expected_rows(TEXT + MORE).items() if k >= 7}
    m = store.manifest
    assert (m.n_rows, m.next_row, m.dimension) == (3, 10, 1000)
    assert [batch["name"] for batch in m.batches] == ["b2"]
    assert sorted(os.listdir(store.blocks_folder)) == sorted(files)
    assert (len(m.removed), store.verify().unused_files) == (3, [])
    assert intact(store)


@pytest.mark.parametrize("block", [1, "1", "b00000001.blk", "b1"])
def test_a_block_is_removed(tmp_path, block):
    store = make_store(tmp_path)
    gone = numbers_of(store)["b00000001.blk"]
    store = remove(store, blocks=[block])
    assert rows_of(store) == {k: v for k, v in expected_rows(TEXT).items() if k not in gone}
    assert store.manifest.batches[0]["rows"] == store.manifest.n_rows == 7 - len(gone)
    assert intact(store)


def test_what_was_removed_is_told_until_it_is_collected(tmp_path):
    store = make_store(tmp_path)
    store = remove(remove(store, blocks=[1]), blocks=[0])
    assert [block.name for block in store.manifest.removed] == ["b00000001.blk", "b00000000.blk"]
    store = compact(add_text(store, MORE))
    assert len(store.manifest.removed) == 2
    collect_garbage(store)
    assert BlockStore.open(store.folder).manifest.removed == []


def test_a_batch_without_blocks_is_gone(tmp_path):
    store = add_text(make_store(tmp_path), MORE)
    store = remove(store, blocks=[3])
    assert [batch["name"] for batch in store.manifest.batches] == ["b1"]
    assert store.describe()["labels"] == [{"label": 1.0, "rows": 4}, {"label": -1.0, "rows": 3}]


def test_labels_that_no_row_has_any_more(tmp_path):
    heard, store = [], make_store(tmp_path, b"3 1:1\n3 2:1\n")
    store = add_text(store, b"-1 1:1\n4 1:1\n")
    store = remove(store, ["b1"], listener=heard.append)
    assert (store.manifest.labels, store.manifest.label_counts) == ([3.0, -1.0, 4.0], [0, 1, 1])
    assert [found["label"] for found in store.describe()["labels"]] == [-1.0, 4.0]
    assert heard == []
    collect_garbage(store)
    store = BlockStore.open(store.folder)
    assert (store.manifest.labels, store.manifest.label_counts) == ([-1.0, 4.0], [1, 1])
    store = add_text(store, b"3 5:1\n")
    assert store.manifest.labels == [-1.0, 4.0, 3.0]
    remove(store, ["b2"], listener=heard.append)
    assert "the one label 3" in heard[0].message
    assert intact(BlockStore.open(store.folder))


def test_what_cannot_be_removed(tmp_path):
    store = make_store(tmp_path)
    before = tree(store.folder)
    refused(UsageError, 2, remove, store, ["b2"], match="there are b1")
    refused(UsageError, 2, remove, store, blocks=[17], match="no block of the store is 17")
    refused(UsageError, 2, remove, store, blocks=["../x"], match="no block")
    refused(UsageError, 2, remove, store, match="nothing is named")
    refused(InputError, 3, remove, store, ["b1"], match="no rows would be left")
    assert tree(store.folder) == before


# gc; what it does to runs is in tests/training/test_garbage.py


def test_gc_deletes_what_no_rows_are_in(tmp_path):
    store = add_text(make_store(tmp_path), MORE)
    store = compact(remove(store, ["b2"]))
    assert len(os.listdir(store.blocks_folder)) == 5
    (store.blocks_folder / "b00000077.blk").write_bytes(b"1")
    (store.blocks_folder / "notes").write_bytes(b"of somebody")
    (store.blocks_folder / "folder").mkdir()
    done = collect_garbage(store)
    assert (done.files, done.runs) == (5, 0)
    assert sorted(os.listdir(store.blocks_folder)) == ["b00000004.blk", "folder", "notes"]
    store = BlockStore.open(store.folder)
    assert (store.manifest.removed, store.manifest.moved) == ([], {})
    assert intact(store)
    generation = store.manifest.generation
    assert collect_garbage(store).summary() == "0 files, 0 bytes deleted"
    assert BlockStore.open(store.folder).manifest.generation == generation


# writers


def one_of_each(store, more):
    return [
        lambda: add(store, [more], add_options()),
        lambda: remove(store, ["b1"]),
        lambda: compact(store),
        lambda: collect_garbage(store),
    ]


@pytest.mark.parametrize("which", range(4))
def test_one_writer_at_a_time(tmp_path, which):
    store = make_store(tmp_path)
    (tmp_path / "more").write_bytes(MORE)
    with Lock(store.folder / "lock"):
        refused(BusyError, 8, one_of_each(store, tmp_path / "more")[which], match="this process")
        assert store.verify().faults == []  # readers go on


def test_an_open_store_outlasts_a_change_of_the_working_directory(tmp_path, monkeypatch):
    folder = make_store(tmp_path).folder
    monkeypatch.chdir(folder.parent)
    store = BlockStore.open(folder.name)
    monkeypatch.chdir("/")
    assert store.verify().faults == []


@pytest.mark.parametrize("which", range(4))
def test_what_is_no_store(tmp_path, which):
    (tmp_path / "more").write_bytes(MORE)
    (tmp_path / "folder").mkdir()
    refused(
        StorageError, 6, one_of_each(tmp_path / "none", tmp_path / "more")[which],
        match="not a store: there is no such file or folder",
    )  # fmt: skip
    for path in (tmp_path / "folder", tmp_path / "more"):
        refused(DamagedError, 4, one_of_each(path, tmp_path / "more")[which], match="not a store")
    assert os.listdir(tmp_path / "folder") == []
    store = make_store(tmp_path)
    manifest = store.folder / "manifest.json"
    manifest.write_bytes(manifest.read_bytes()[:-9])
    refused(DamagedError, 4, one_of_each(store.folder, tmp_path / "more")[which], match="damaged")


def test_a_store_object_may_be_old(tmp_path):
    """Changes are made to what is on disk now."""
    old = make_store(tmp_path)
    add_text(old, MORE)
    add_text(old, b"1 5:5\n")
    assert len(remove(old, ["b2"]).manifest.batches) == 2


def test_one_who_verifies_what_is_collected_meanwhile(tmp_path):
    old = add_text(make_store(tmp_path), MORE)
    remove(old, ["b1"])
    assert old.verify().faults == []
    collect_garbage(old)
    refused(BusyError, 8, old.verify, match="deleted what was read")
    new = BlockStore.open(old.folder)
    (new.blocks_folder / new.manifest.blocks[0].name).unlink()
    assert len(new.verify().faults) == 1


def test_one_who_reads_rows_that_are_collected_meanwhile(tmp_path):
    store = make_store(tmp_path)
    for _ in range(4):
        store = add_text(store, MORE, allow_duplicate=True)
    read = store.iter_csr(rows=1)
    next(read)
    collect_garbage(remove(store, ["b5"]))
    refused(BusyError, 8, lambda: list(read), match="deleted what was read")


def test_dates(tmp_path, monkeypatch):
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    monkeypatch.setattr("time.time", lambda: 1_700_000_000.5)
    assert make_store(tmp_path).manifest.batches[0]["date"] == "2023-11-14T22:13:20Z"


@pytest.mark.parametrize(
    ("text", "date"),
    [
        ("0", "1970-01-01T00:00:00Z"),
        ("253402300799", "9999-12-31T23:59:59Z"),
        *((text, "2023-11-14T22:13:20Z") for text in (
            "253402300800", "9" * 309, "9" * 5000, "-1", "1e5", "x", "", "\u0661",
        )),
    ],
)  # fmt: skip
def test_a_date_that_is_fixed_is_one_there_is(monkeypatch, text, date):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", text)
    monkeypatch.setattr("time.time", lambda: 1_700_000_000.5)
    assert today() == date
