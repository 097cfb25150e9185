"""Text that becomes a further batch of a store."""

import hashlib
import os
from dataclasses import replace
from threading import Thread

import pytest

from blocklinear.errors import (
    InputError,
    InputFormatError,
    MemoryBudgetError,
    MismatchError,
    StorageError,
    UsageError,
)
from blocklinear.events import Warned
from blocklinear.ingest.add import add
from blocklinear.ingest.compact import compact, usual_bytes
from blocklinear.options import AddOptions, TrainOptions
from blocklinear.store.changes import remove
from blocklinear.store.manifest import MAX_LABELS
from blocklinear.store.store import BlockStore
from blocklinear.training.garbage import collect_garbage
from blocklinear.training.loop import train

from .build import (
    TEXT,
    expected_rows,
    make_store,
    random_text,
    small_text_options,
    tree,
)
from .changing import (
    LEAST,
    MORE,
    add_options,
    add_text,
    as_0_1_0,
    intact,
    numbers_of,
    refused,
    rows_of,
)


def test_rows_are_added(tmp_path):
    old = make_store(tmp_path)
    store = add_text(old, MORE)
    assert rows_of(store) == expected_rows(TEXT + MORE)
    assert intact(store)
    m = store.manifest
    assert (m.n_rows, m.next_row, m.dimension, m.generation) == (10, 10, 1000, 2)
    assert (m.labels, m.label_counts) == ([1.0, -1.0, 7.0], [5, 4, 1])
    assert [batch["name"] for batch in m.batches] == ["b1", "b2"]
    assert m.batches[1]["rows"] == 3
    assert m.batches[1]["sources"][0]["lines"] == 3
    assert all(block.batch == "b2" for block in m.blocks[3:])


def test_one_who_reads_the_old_store_goes_on(tmp_path):
    old = make_store(tmp_path)
    before = rows_of(old)
    new = remove(add_text(old, MORE), ["b1"])
    compact(new, LEAST)
    assert rows_of(old) == before
    assert old.verify().faults == []


@pytest.mark.parametrize("order", ["random", "file"])
def test_the_options_of_the_store_hold(tmp_path, order):
    options = {"dtype": "float32", "normalize": "l2", "order": order, "seed": 5}
    text, more = random_text(80), random_text(60, seed=1)
    store = make_store(tmp_path, text, compression="zstd:3", **options)
    store = add_text(store, more, blocks=2)
    whole = make_store(tmp_path, text + more, "whole", **options)
    assert rows_of(store) == rows_of(whole)
    assert store.manifest.labels == whole.manifest.labels
    assert store.manifest.label_counts == whole.manifest.label_counts
    assert len(store.manifest.blocks) == 5
    assert intact(store)


@pytest.mark.parametrize("base", [0, 1])
def test_the_index_base_of_the_store_holds(tmp_path, base):
    store = make_store(tmp_path, text_options=small_text_options(index_base=base))
    assert rows_of(add_text(store, MORE)) == expected_rows(TEXT + MORE, base)
    add_text(store, MORE, index_base=base, allow_duplicate=True)
    refused(MismatchError, 5, add_text, store, TEXT, index_base=1 - base, match="index base")


def test_an_index_below_that_of_the_store(tmp_path):
    store = make_store(tmp_path)
    refused(InputFormatError, 3, add_text, store, b"1 0:1\n", match=r"svm:1:3: index 0")


def test_hashing_holds(tmp_path):
    hashed = small_text_options(hash_bits=6)
    text, more = random_text(60, per_row=30), random_text(40, seed=1, per_row=30)
    store = add_text(make_store(tmp_path, text, text_options=hashed), more)
    whole = make_store(tmp_path, text + more, "whole", text_options=hashed)
    assert rows_of(store) == rows_of(whole)
    assert store.manifest.n_features == 64
    refused(MismatchError, 5, add_text, store, TEXT, hash_bits=7, match="hash bits")
    plain = make_store(tmp_path, TEXT, "plain")
    refused(MismatchError, 5, add_text, plain, text, hash_bits=7, match="hash bits")


def test_blocks_are_as_large_as_those_of_the_store(tmp_path):
    text = random_text(20_000, per_row=60)
    store = make_store(tmp_path, text, blocks=4)
    usual = usual_bytes(store.manifest.blocks)
    assert usual > 1 << 20
    store = add_text(store, random_text(20_000, seed=1, per_row=60))
    assert 4 <= len(store.manifest.blocks) - 4 <= 5
    assert len(add_text(store, MORE).manifest.blocks) == len(store.manifest.blocks) + 1
    assert len(add_text(store, TEXT, blocks=5).manifest.blocks) == len(store.manifest.blocks) + 6


def test_a_stream_makes_no_small_blocks(tmp_path):
    store, text = make_store(tmp_path), random_text(300)
    os.mkfifo(tmp_path / "fifo")
    writer = Thread(target=(tmp_path / "fifo").write_bytes, args=(text,), daemon=True)
    writer.start()
    store = add(store, [tmp_path / "fifo"], add_options())
    writer.join()
    assert len(store.manifest.blocks) == 4
    assert rows_of(store) == expected_rows(TEXT + text)
    assert numbers_of(store)[store.manifest.blocks[3].name] == list(range(7, 307))
    assert intact(store)
    assert store.verify().unused_files == []


def test_names_of_batches(tmp_path):
    store = make_store(tmp_path)
    store = add_text(store, MORE, batch="monday")
    store = add_text(store, b"1 1:1\n")
    store = remove(add_text(store, b"1 1:2\n"), ["b3"])
    store = add_text(store, b"1 1:3\n")  # b3 still lies there
    assert [batch["name"] for batch in store.manifest.batches] == ["b1", "monday", "b2", "b4"]
    refused(UsageError, 2, add_text, store, b"1 1:4\n", batch="monday", match="already")
    for name in ("../x", "", "a b", "x" * 65, "-x"):
        with pytest.raises(UsageError, match="plain name of at most 64 letters"):
            AddOptions(batch=name)


def test_new_labels_are_told(tmp_path):
    heard = []
    store = add_text(make_store(tmp_path), MORE, heard)
    told = [event.message for event in heard if isinstance(event, Warned)]
    assert told == ["labels that the store did not have: 7"]
    heard.clear()
    store = add_text(store, b"".join(b"%d 1:1\n" % i for i in range(10, 10 + MAX_LABELS)), heard)
    assert any("too many distinct labels" in str(event) for event in heard)
    assert store.manifest.labels is None
    assert intact(store)
    store = add_text(store, b"5 1:1\n")
    assert store.manifest.labels is None
    assert intact(store)


def test_the_same_content_is_refused(tmp_path):
    store = make_store(tmp_path)
    before = tree(store.folder)
    refused(MismatchError, 5, add, store, [tmp_path / "store.svm"], add_options(),
            match=r"batch b1 of 2026-01-01T00:00:00Z")  # fmt: skip
    (tmp_path / "copy").write_bytes(TEXT)
    refused(MismatchError, 5, add, store, [tmp_path / "copy"], add_options(), match="copy")
    (tmp_path / "more").write_bytes(MORE)
    refused(
        MismatchError, 5, add, store, 2 * [tmp_path / "more"], add_options(), match="this batch"
    )
    assert tree(store.folder) == before
    store = add(store, 2 * [tmp_path / "copy"], add_options(allow_duplicate=True))
    assert rows_of(store) == expected_rows(3 * TEXT)


def test_the_same_content_is_refused_by_a_store_of_version_0_1_0(tmp_path, monkeypatch):
    """Its sources are told by SHA-256 alone, so that is worked out of what comes in, too."""
    store = make_store(tmp_path)
    as_0_1_0(store, TEXT)
    (tmp_path / "copy").write_bytes(TEXT)
    refused(MismatchError, 5, add, store, [tmp_path / "copy"], add_options(), match="batch b1")
    with open(tmp_path / "copy") as stream:
        monkeypatch.setattr("sys.stdin", stream)
        refused(MismatchError, 5, add, store, ["-"], add_options(), match="batch b1")
    store = add_text(store, MORE)
    (source,) = store.manifest.batches[1]["sources"]
    assert source["sha256"] == hashlib.sha256(MORE).hexdigest()
    refused(MismatchError, 5, add_text, store, MORE, match="batch b2")


def test_what_was_removed_may_come_back(tmp_path):
    store = add_text(make_store(tmp_path), MORE)
    path = tmp_path / "added0.svm"
    refused(MismatchError, 5, add, store, [path], add_options())
    store = add(remove(store, ["b2"]), [path], add_options())
    assert len(rows_of(store)) == 10
    assert intact(store)


@pytest.mark.parametrize(
    ("text", "kind"),
    [(b"", InputError), (b"# no\n", InputError), (b"1 1:1\n1 x:1\n", InputFormatError)],
)
def test_a_bad_input_changes_nothing(tmp_path, text, kind):
    store = make_store(tmp_path)
    before = tree(store.folder)
    refused(kind, 3, add_text, store, text)
    refused(MemoryBudgetError, 7, add_text, store, b"1 9:1\n-1 999:1\n", max_features=9)
    refused(InputFormatError, 3, add_text, store, random_text(20_000) + text + b"1 x:1\n")
    assert tree(store.folder) == before


def test_skipped_lines_are_listed_by_batch(tmp_path):
    store, bad = make_store(tmp_path), b"1 1:1\nx\n"
    store = add_text(store, bad, on_error="skip")
    assert "label 'x'" in (store.folder / "skipped-b2.txt").read_text()
    refused(InputError, 3, add_text, store, b"x\n", on_error="skip")
    assert not (store.folder / "skipped-b3.txt").exists()
    collect_garbage(store)
    assert (store.folder / "skipped-b2.txt").exists()
    remove(store, ["b2"])
    collect_garbage(store)
    assert not (store.folder / "skipped-b2.txt").exists()


def test_a_failed_sync_of_an_add(tmp_path, monkeypatch):
    """Whichever fails: the batch is there whole, or nothing of it."""
    store = make_store(tmp_path)
    (tmp_path / "more").write_bytes(MORE)
    before, real = tree(store.folder), os.fsync
    for at in range(6):
        calls = []

        def fail(descriptor, at=at, calls=calls):
            calls.append(descriptor)
            if len(calls) > at:
                raise OSError(28, "No space left on device")
            real(descriptor)

        monkeypatch.setattr(os, "fsync", fail)
        refused(StorageError, 6, add, store, [tmp_path / "more"], add_options())
        monkeypatch.setattr(os, "fsync", real)
        if at < 5:  # a block, features, both folders, the manifest, its folder
            assert tree(store.folder) == before
        else:
            assert rows_of(BlockStore.open(store.folder)) == expected_rows(TEXT + MORE)


def test_files_that_a_killed_add_left(tmp_path):
    store = make_store(tmp_path)
    for name in ("b00000003.blk", "b00000005.blk", ".tmp-1"):
        (store.blocks_folder / name).write_bytes(b"left")
    (store.folder / ".tmp-2").touch()
    store = add_text(store, MORE)
    assert store.manifest.blocks[-1].name == "b00000006.blk"
    assert store.verify().unused_files == [".tmp-1", "b00000003.blk", "b00000005.blk"]
    assert not (store.folder / ".tmp-2").exists()
    assert collect_garbage(store).files == 3
    assert intact(store)
    (store.blocks_folder / "b99999999.blk").touch()
    refused(StorageError, 6, add_text, store, b"1 1:1\n", match="used up")


@pytest.mark.parametrize("n", [2**31, 2**32])
def test_row_numbers_and_counts_have_64_bits(n, tmp_path):
    """A store is made to believe that it held almost `n` rows, which were removed."""
    store = make_store(tmp_path)
    replace(store.manifest, next_row=n - 2).save(store.folder)
    store = remove(add_text(BlockStore.open(store.folder), MORE), ["b1"])
    count = store.manifest.n_rows
    numbers = [number for block in numbers_of(store).values() for number in block]
    assert sorted(numbers) == list(range(n - 2, n - 2 + count))
    assert count > 2
    assert not store.verify().faults
    assert compact(store).manifest.next_row == n - 2 + count
    assert train(store, TrainOptions()).metadata["certificate"]["gap"] <= 0.01
