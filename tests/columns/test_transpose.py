"""Columns hold what rows hold, whatever the memory and the threads."""

import numpy as np
import pytest

from blocklinear.columns import transpose as transposing
from blocklinear.columns.buckets import Bucket
from blocklinear.columns.store import open_columns
from blocklinear.columns.transpose import transpose
from blocklinear.errors import MemoryBudgetError
from blocklinear.events import TransposeProgress
from blocklinear.store.changes import remove

from .conftest import MEMORY, content, store_of, text_of, triplets_of_columns, triplets_of_rows


def in_parts(monkeypatch, entries, passes=1):
    """Let no more than so many entries be sorted at a time, in buckets or passes over the rows."""
    monkeypatch.setattr(
        transposing._Transposition, "_require", lambda self, n_bytes: n_bytes + 13 * entries
    )
    monkeypatch.setattr(transposing, "_PIECE_ENTRIES", 50)
    monkeypatch.setattr(transposing, "MOST_PASSES", passes)


def test_columns_hold_the_entries_of_the_rows(store, small_chunks):
    columns = transpose(store, MEMORY, 2)
    assert len(columns.blocks) > 3
    rows, found = triplets_of_rows(store), triplets_of_columns(columns)
    assert found.keys() == rows.keys()
    assert all(found[key] == rows[key] for key in rows)  # to the last bit
    assert columns.verify() == []
    assert [block.first for block in columns.blocks[1:]] == [b.stop for b in columns.blocks[:-1]]
    assert columns.blocks[-1].stop == columns.n_features == store.manifest.n_features


def test_the_bytes_depend_neither_on_memory_nor_on_threads(store, small_chunks, monkeypatch):
    folder = transpose(store, MEMORY, 1).folder
    expected = content(folder)
    transpose(store, MEMORY, 3, force=True)
    assert content(folder) == expected
    for entries in (1, 200, 700):
        with monkeypatch.context() as patch:
            in_parts(patch, entries)
            made = []
            patch.setattr(
                transposing, "Bucket", lambda path, made=made: made.append(path) or Bucket(path)
            )
            transpose(store, MEMORY, 2, force=True)
            assert len(made) > 1
        assert content(folder) == expected
    with monkeypatch.context() as patch:
        in_parts(patch, 700, passes=1000)
        patch.setattr(transposing, "Bucket", None)
        events = []
        transpose(store, MEMORY, 2, events.append, force=True)
        assert events[-1].total > 2 * store.manifest.nnz
        assert events[-1].done == events[-1].total
    assert content(folder) == expected


def test_what_is_there_is_not_made_again(store):
    first = transpose(store, MEMORY, 2)
    before = (first.folder / "columns.json").stat()
    events = []
    assert transpose(store, MEMORY, 2, events.append).manifest == first.manifest
    after = (first.folder / "columns.json").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert not events
    transpose(store, MEMORY, 2, events.append, force=True)
    assert (first.folder / "columns.json").stat().st_ino != before.st_ino
    assert events[-1] == TransposeProgress(2 * store.manifest.nnz, 2 * store.manifest.nnz)


def test_one_feature_in_all_rows_and_many_in_one(tmp_path, small_chunks):
    lines = [f"{1 - 2 * (i % 2)} 1:{i + 1} {i + 2}:0.5" for i in range(150)]
    lines.append("1 " + " ".join(f"{j}:{j}" for j in range(1, 400)))
    store = store_of(tmp_path, "\n".join(lines) + "\n")
    columns = transpose(store, MEMORY, 2)
    assert triplets_of_columns(columns) == triplets_of_rows(store)
    longest = int(np.argmax([b.nnz / b.features for b in columns.blocks]))
    part = columns.read(longest, np.array([columns.blocks[longest].first]))
    assert (part.n_columns, len(part.rows)) == (1, 151)  # a chunk of its own


def test_features_without_entries_have_empty_columns(tmp_path, small_chunks):
    text = text_of(60, numbers="few") + "1 5000:1\n"
    store = store_of(tmp_path, text)
    left = remove(store, blocks=[store.manifest.blocks[0].name])
    columns = transpose(left, MEMORY, 2)
    features = np.concatenate(
        [columns.read(block).features for block in range(len(columns.blocks))]
    )
    assert np.array_equal(features, np.arange(left.manifest.n_features))
    assert triplets_of_columns(columns) == triplets_of_rows(left)


def test_rows_without_entries(tmp_path):
    store = store_of(tmp_path, "1\n-1\n1\n", blocks=2)
    columns = transpose(store, MEMORY, 2)
    assert (columns.n_features, columns.n_rows, columns.blocks) == (0, 3, [])
    assert columns.verify() == []
    assert open_columns(store) is not None
    one = store_of(tmp_path, "1 7:2\n-1\n", "one", blocks=2)
    assert triplets_of_columns(transpose(one, MEMORY, 2)) == triplets_of_rows(one)


def test_a_budget_that_is_too_small_is_refused_with_one_that_is_not(tmp_path):
    store = store_of(tmp_path, text_of(50))
    with pytest.raises(MemoryBudgetError, match=r"give --memory ([0-9]+)M or more") as refused:
        transpose(store, 1 << 20, 2)
    enough = int(str(refused.value).rpartition("--memory ")[2].split("M")[0]) << 20
    transpose(store, enough, 2)


def test_an_interrupt_leaves_nothing(tmp_path):
    store = store_of(tmp_path, text_of(300))
    names = {path.name for path in store.folder.iterdir()}
    calls = iter(range(100))

    def interrupt(event):
        if next(calls) == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        transpose(store, MEMORY, 2, interrupt)
    assert {path.name for path in store.folder.iterdir()} == names
    assert open_columns(store) is None
