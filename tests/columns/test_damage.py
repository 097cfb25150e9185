"""Columns that are not what was written, or are not of these rows, are never used."""

import json
import os
import shutil

import pytest

import blocklinear
from blocklinear.columns.store import open_columns
from blocklinear.columns.transpose import transpose
from blocklinear.errors import BusyError, DamagedError
from blocklinear.options import AddOptions, TextOptions
from blocklinear.store.changes import changing, remove
from blocklinear.store.contents import foreign

from .conftest import MEMORY, content, store_of, text_of, triplets_of_columns


@pytest.fixture
def store(tmp_path):
    return store_of(tmp_path, text_of(60), normalize="l2", compression="none")


def read_all(store):
    """Open the columns of a store and read all of them."""
    columns = open_columns(store)
    assert columns is not None
    return triplets_of_columns(columns)


def refused(store, path):
    with pytest.raises(DamagedError) as caught:
        read_all(store)
    assert str(path) in str(caught.value)
    assert "blocklinear transpose --force" in str(caught.value)


@pytest.fixture
def files(store, small_chunks):
    """The files of columns, to be spoiled and put back."""
    columns = transpose(store, MEMORY, 2)
    names = "columns.json", "norms.f64", "c00000000.blk", columns.blocks[-1].name
    return [columns.folder / name for name in names]


def test_every_flipped_bit_is_found(store, files):
    expected = read_all(store)
    for path in files:
        whole = path.read_bytes()
        for place in range(0, 8 * len(whole), 101):
            spoiled = bytearray(whole)
            spoiled[place // 8] ^= 1 << place % 8
            path.write_bytes(spoiled)
            refused(store, path)
        path.write_bytes(whole)
    assert read_all(store) == expected


def test_every_other_length_is_found(store, files):
    for path in files:
        whole = path.read_bytes()
        step = max(len(whole) // 40, 1)
        for data in [*(whole[:n] for n in range(0, len(whole) - 1, step)), whole + b"\0"]:
            if path.name == "columns.json" and data == whole + b"\0":
                continue
            path.write_bytes(data)
            refused(store, path)
        path.write_bytes(whole)


@pytest.mark.parametrize("kind", ["missing", "folder", "link", "pipe"])
def test_what_is_no_file_is_refused(store, files, kind, tmp_path):
    for path in files[1:]:
        kept = tmp_path / "kept"
        path.rename(kept)
        {
            "missing": lambda path: None, "folder": os.mkdir, "pipe": os.mkfifo,
            "link": lambda path, kept=kept: path.symlink_to(kept),
        }[kind](path)  # fmt: skip
        refused(store, path)
        if path.is_dir():
            path.rmdir()
        path.unlink(missing_ok=True)
        kept.rename(path)
    read_all(store)


def test_exchanged_files_are_found(store, files):
    first, last = files[2:]
    one, other = first.read_bytes(), last.read_bytes()
    first.write_bytes(other)
    refused(store, first)
    first.write_bytes(one)
    shutil.copy(store.blocks_folder / store.manifest.blocks[0].name, last)
    refused(store, last)


@pytest.mark.parametrize(
    "change",
    [
        {"n_rows": 61}, {"nnz": 1}, {"norms": None}, {"blocks": []}, {"blocks": 3}, {"more": 1},
        {"n_rows": 60.0}, {"norms": 7}, {"dtype": 1}, {"written_by": None},
        lambda inner: inner["blocks"][0].update(first=1),
        lambda inner: inner["blocks"][0].update(features=10**15),
        lambda inner: inner["blocks"][0].update(nnz=-1),
        lambda inner: inner["blocks"][1].update(name="../manifest.json"),
        lambda inner: inner["blocks"][1].update(name=inner["blocks"][0]["name"]),
        lambda inner: inner["blocks"][0].pop("table"),
        lambda inner: inner.pop("norms"),
    ],
)  # fmt: skip
def test_a_manifest_with_a_right_checksum_that_contradicts_itself_is_refused(store, files, change):
    import hashlib

    inner = json.loads(files[0].read_text())["columns"]
    if callable(change):
        change(inner)
    else:
        inner.update(change)
    body = json.dumps(inner, sort_keys=True, separators=(",", ":"))
    checksum = hashlib.sha256(body.encode()).hexdigest()
    files[0].write_text(f'{{"checksum":"{checksum}","columns":{body}}}')
    refused(store, files[0])


def test_columns_of_another_format_or_store_do_not_count(store, files, tmp_path):
    text = files[0].read_text()
    for found, other in (('"format":1', '"format":2'), ('"store":"', '"store":"0')):
        import hashlib

        inner = json.dumps(
            json.loads(text.replace(found, other, 1))["columns"],
            sort_keys=True, separators=(",", ":"),
        )  # fmt: skip
        checksum = hashlib.sha256(inner.encode()).hexdigest()
        files[0].write_text(f'{{"checksum":"{checksum}","columns":{inner}}}')
        assert open_columns(store) is None
    other = store_of(tmp_path, text_of(60, seed=1), "other", normalize="l2")
    shutil.copytree(store.folder / "columns", other.folder / "columns")
    assert open_columns(other) is None
    transpose(other, MEMORY, 2)
    assert read_all(other)


def test_damaged_columns_are_made_again(store, files):
    before = content(files[0].parent)
    files[0].write_bytes(b"{}")
    transpose(store, MEMORY, 2)
    assert content(files[0].parent) == before
    files[2].unlink()
    transpose(store, MEMORY, 2, force=True)
    assert content(files[0].parent) == before


def test_a_change_of_rows_deletes_columns(tmp_path):
    store = store_of(tmp_path, text_of(60))
    (tmp_path / "more.svm").write_text(text_of(20, seed=5))

    def add():
        blocklinear.add(store.folder, tmp_path / "more.svm", AddOptions(text=TextOptions()))

    def take_out():
        remove(store.folder, blocks=[store.manifest.blocks[0].name])

    def merge():
        blocklinear.compact(store.folder, block_bytes=1 << 20)

    for change in (add, take_out, merge):
        blocklinear.transpose(store.folder)
        assert (store.folder / "columns").is_dir()
        change()
        assert not (store.folder / "columns").exists()
        columns = blocklinear.transpose(store.folder)
        now = blocklinear.BlockStore.open(store.folder)
        assert (columns.n_rows, columns.manifest.nnz) == (now.manifest.n_rows, now.manifest.nnz)


def test_gc_keeps_columns_of_these_rows_and_deletes_others(tmp_path):
    store = store_of(tmp_path, text_of(60))
    folder = transpose(store, MEMORY, 2).folder
    shutil.copytree(folder, tmp_path / "old")
    before = content(folder)
    blocklinear.collect_garbage(store)
    assert content(folder) == before
    left = remove(store, blocks=[store.manifest.blocks[0].name])
    shutil.copytree(tmp_path / "old", folder)  # as if the process had been killed just before
    shutil.copytree(tmp_path / "old", store.folder / "columns.new")
    assert open_columns(left) is None
    assert blocklinear.collect_garbage(store).bytes > sum(map(len, before.values()))
    assert not folder.exists()
    assert not (store.folder / "columns.new").exists()


def test_a_store_with_columns_is_nothing_but_a_store(tmp_path):
    store = store_of(tmp_path, text_of(60), normalize="l2")
    folder = transpose(store, MEMORY, 2).folder
    shutil.copytree(folder, store.folder / "columns.new")
    (store.folder / "columns.new" / "bucket000001.tmp").touch()
    run = store.folder / "runs" / "default"
    run.mkdir(parents=True)
    (run / "alpha.17.3").touch()  # of the fourth part of a cluster, in round 17
    assert foreign(store.folder) is None
    (folder / "my notes").touch()
    assert foreign(store.folder) == "columns/my notes"
    (folder / "my notes").unlink()
    again = store_of(tmp_path, text_of(30), force=True)
    assert open_columns(again) is None
    assert again.verify().unused_files == []


def test_a_folder_that_is_a_link_is_not_followed(tmp_path):
    store = store_of(tmp_path, text_of(60))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "mine").write_text("mine")
    for name in ("columns", "columns.new"):
        (store.folder / name).symlink_to(elsewhere)
    with pytest.raises(DamagedError, match="is a link"):
        open_columns(store)
    transpose(store, MEMORY, 2, force=True)
    assert read_all(store)
    assert [path.name for path in elsewhere.iterdir()] == ["mine"]
    assert not (store.folder / "columns.new").is_symlink()


def test_a_file_of_somebody_else_is_not_deleted(tmp_path):
    store = store_of(tmp_path, text_of(60))
    folder = transpose(store, MEMORY, 2).folder
    (folder / "my notes").write_text("mine")
    remove(store, blocks=[store.manifest.blocks[0].name])
    assert [path.name for path in folder.iterdir()] == ["my notes"]
    columns = blocklinear.transpose(store.folder)
    blocklinear.transpose(store.folder, force=True)
    assert columns.verify() == []
    (found,) = store.folder.rglob("my notes")
    assert found.read_text() == "mine"


def test_one_at_a_time(tmp_path):
    store = store_of(tmp_path, text_of(60))
    with changing(store), pytest.raises(BusyError):
        blocklinear.transpose(store)


def test_a_damaged_block_is_reported_and_nothing_is_left(tmp_path):
    store = store_of(tmp_path, text_of(60))
    path = store.blocks_folder / store.manifest.blocks[1].name
    data = bytearray(path.read_bytes())
    data[60] ^= 1
    path.write_bytes(data)
    with pytest.raises(DamagedError, match=path.name):
        transpose(store, MEMORY, 2)
    assert not (store.folder / "columns").exists()
    assert not (store.folder / "columns.new").exists()
