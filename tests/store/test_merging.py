"""Small blocks that become larger ones."""

import os

import pytest

from blocklinear.errors import DamagedError, StorageError, UsageError, WrongTypeError
from blocklinear.ingest.compact import bins, compact
from blocklinear.store.changes import remove
from blocklinear.store.store import BlockStore
from blocklinear.training.garbage import collect_garbage

from .build import (
    expected_rows,
    make_store,
    random_text,
    small_text_options,
    tree,
)
from .changing import add_text, intact, numbers_of, refused, rows_of


def test_small_blocks_are_merged(tmp_path):
    text = random_text(300) + b"1 1:123456789012345678 3:1e-300 4:0.1234567890123456789\n"
    store = make_store(tmp_path, text, blocks=20, compression="zstd:1")
    before = numbers_of(store)
    small = compact(store, 8000)
    assert 1 < len(small.manifest.blocks) < 10
    assert rows_of(small) == rows_of(store) == expected_rows(text)
    assert small.manifest.label_counts == store.manifest.label_counts
    assert small.manifest.n_features == store.manifest.n_features
    assert intact(small)
    follows(small, before)
    one = compact(small)  # to 1 MiB
    assert len(one.manifest.blocks) == 1
    assert rows_of(one) == expected_rows(text)
    follows(one, before)
    again = compact(one)
    assert again.manifest == one.manifest


def follows(store, before):
    """Check that rows of former blocks are where the manifest says."""
    now = numbers_of(store)
    for name, numbers in before.items():
        new, first = store.manifest.moved.get(name, [name, 0])
        assert now[new][first : first + len(numbers)] == numbers


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_merging_keeps_values_as_written(tmp_path, dtype):
    options = {"normalize": "l2", "dtype": dtype, "blocks": 6}
    text = random_text(100) + b"1 1:0.1 2:1e18 3:16777217\n"
    hashed = small_text_options(hash_bits=8)
    for name, how in (("plain", None), ("hashed", hashed)):
        store = make_store(tmp_path, text, name, text_options=how, **options)
        merged = compact(store)
        assert rows_of(merged) == rows_of(store)
        assert merged.manifest.nnz == store.manifest.nnz


def test_batches_are_merged_when_named(tmp_path):
    store = make_store(tmp_path)
    for day in range(4):
        store = add_text(store, random_text(20, seed=day), batch=f"day{day}")
    before, content = numbers_of(store), rows_of(store)
    assert [len(compact(store).manifest.blocks)] == [5]  # each batch by itself
    store = compact(store, merge_batches=("week", ["day0", "day1", "day3"]))
    assert [batch["name"] for batch in store.manifest.batches] == ["b1", "week", "day2"]
    assert [batch["rows"] for batch in store.batches()] == [7, 60, 20]
    assert len(store.manifest.batches[1]["sources"]) == 3
    assert len(store.manifest.blocks) == 3
    assert rows_of(store) == content
    follows(store, before)
    assert intact(store)
    store = remove(store, ["week"])
    assert store.manifest.n_rows == 27
    same = compact(store, merge_batches=("b1", "b1"))  # one name is no list of letters
    assert [batch["name"] for batch in same.manifest.batches] == ["b1", "day2"]
    refused(UsageError, 2, compact, store, merge_batches=("x", ["b9"]), match="no batch")
    for wrong in (["x", "a", "b"], ["x"], ("x", []), ("x", 7), (7, ["b1"]), "xy", {"x": "b1"}, 7):
        refused(WrongTypeError, 2, compact, store, merge_batches=wrong, match="merge_batches is")
    for wrong in ("4M", 0, -1, 1e6, True):
        refused(WrongTypeError, 2, compact, store, wrong, match="block_bytes is")
    refused(UsageError, 2, compact, store, merge_batches=("day2", ["b1"]), match="already")
    refused(UsageError, 2, compact, store, merge_batches=("..", ["b1"]), match="plain name")


def test_lists_of_refused_lines_are_joined(tmp_path):
    store = make_store(tmp_path)
    for day in ("monday", "tuesday"):
        store = add_text(
            store, random_text(20) + b"1 %s:1\n" % day.encode(), batch=day, on_error="skip"
        )
    lists = [(store.folder / f"skipped-{day}.txt").read_bytes() for day in ("monday", "tuesday")]
    store = compact(store, merge_batches=("week", ["tuesday", "monday"]))
    collect_garbage(store)
    assert [path.name for path in store.folder.glob("skipped*")] == ["skipped-week.txt"]
    assert (store.folder / "skipped-week.txt").read_bytes() == b"".join(lists)
    store = compact(store, merge_batches=("b1", ["b1", "week"]))
    collect_garbage(store)
    assert (store.folder / "skipped.txt").read_bytes() == b"".join(lists)


def test_lists_are_joined_when_the_batches_are(tmp_path, monkeypatch):
    """Not before: the same command, given again, would join them twice."""
    store = make_store(tmp_path)
    for day in ("monday", "tuesday"):
        store = add_text(
            store, random_text(20) + b"1 %s:1\n" % day.encode(), batch=day, on_error="skip"
        )
    before = tree(store.folder)
    with monkeypatch.context() as failing:

        def commit(*_, **__):
            raise StorageError("manifest.json: no space left", "make room")

        failing.setattr("blocklinear.ingest.compact.commit", commit)
        refused(StorageError, 6, compact, store, merge_batches=("monday", ["monday", "tuesday"]))
    assert tree(store.folder) == before


def test_a_merged_batch_has_no_list_of_an_earlier_one_of_its_name(tmp_path):
    store = make_store(tmp_path)
    store = add_text(store, random_text(20) + b"1 x:1\n", batch="week", on_error="skip")
    store = add_text(store, random_text(20), batch="monday")
    remove(store, batches=["week"])
    store = compact(store, merge_batches=("week", ["b1", "monday"]))
    assert not (store.folder / "skipped-week.txt").exists()


def test_a_damaged_block_is_not_merged(tmp_path):
    store = make_store(tmp_path)
    path = store.blocks_folder / "b00000001.blk"
    data = bytearray(path.read_bytes())
    for position in (40, -30):  # in the chunk, in the table
        path.write_bytes(data[:position] + bytes([data[position] ^ 1]) + data[position:][1:])
        before = tree(store.folder)
        refused(DamagedError, 4, compact, store, match="b00000001")
        assert tree(store.folder) == before


def test_rows_of_no_entries_and_rows_longer_than_a_chunk(tmp_path):
    long = b"1 " + b" ".join(b"%d:1.5" % i for i in range(1, 150_000)) + b"\n"
    text = b"1\n-1\n" + long + b"-1\n" + long + b"1\n"
    store = make_store(tmp_path, text, blocks=5)
    merged = compact(store, 64 << 20)
    assert len(merged.manifest.blocks) == 1
    assert rows_of(merged) == rows_of(store)


def test_blocks_to_merge_are_those_below_half():
    def block(name, rows, batch="b1"):
        from blocklinear.store.records import BlockRecord

        return BlockRecord(name, batch, rows, 0, 100, -1, "", "", [])

    def merged(*blocks):
        return [[b.name for b in part] for part in bins(blocks, 48 * 100)]

    assert merged(block("a", 100), block("b", 50), block("c", 49)) == []
    assert merged(block("a", 1), block("b", 100), block("c", 2)) == [["a", "c"]]
    assert merged(block("a", 1), block("b", 1, "b2")) == []
    assert merged(block("a", 0), block("b", 0)) == [["a", "b"]]
    many = [block(f"{k}", 30) for k in range(10)]
    assert [len(part) for part in merged(*many)] in ([3, 4, 3], [4, 3, 3], [3, 3, 4])


def test_a_failed_sync_leaves_the_store_as_it_was(tmp_path, monkeypatch):
    store = make_store(tmp_path)
    before, real = tree(store.folder), os.fsync
    for at in range(4):  # the block, the folder, the manifest, its folder
        calls = []

        def fail(descriptor, at=at, calls=calls):
            calls.append(descriptor)
            if len(calls) > at:
                raise OSError(28, "No space left on device")
            real(descriptor)

        monkeypatch.setattr(os, "fsync", fail)
        refused(StorageError, 6, compact, store)
        monkeypatch.setattr(os, "fsync", real)
        if at < 3:
            assert tree(store.folder) == before
        else:
            assert len(BlockStore.open(store.folder).manifest.blocks) == 1
    assert rows_of(BlockStore.open(store.folder)) == rows_of(store)
