import os
from dataclasses import replace

import pytest

from blocklinear import (
    AddOptions,
    BlockStore,
    SplitOptions,
    TextOptions,
    add,
    collect_garbage,
    compact,
    remove,
    split,
)
from blocklinear.errors import DamagedError, MismatchError, StorageError
from blocklinear.events import SplitProgress, Warned
from blocklinear.ingest.text_store import store_of
from blocklinear.store.manifest import FORMAT

from .build import tree
from .changing import as_0_1_0

OPTIONS = SplitOptions(blocks=2)


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "rows.svm"
    path.write_text("1 1:1\n-1 2:1\n")
    return path


def test_a_store_is_taken_as_it_is(source, tmp_path):
    made = store_of(source, OPTIONS)
    assert made.folder == tmp_path / "rows.svm.blocks"
    assert store_of(made.folder).manifest == made.manifest
    with pytest.raises(StorageError, match="not a store"):
        store_of(tmp_path / "nothing")


def test_it_is_reused_while_the_source_is_the_same(source):
    made = store_of(source, OPTIONS)
    before = (made.folder / "manifest.json").stat().st_ino
    assert store_of(source, OPTIONS).manifest == made.manifest
    assert (made.folder / "manifest.json").stat().st_ino == before


def test_a_store_of_version_0_1_0_is_reused(source):
    """Its source is told by SHA-256 alone."""
    made = store_of(source, OPTIONS)
    as_0_1_0(made, source.read_bytes())
    before = (made.folder / "manifest.json").stat().st_ino
    assert store_of(source, OPTIONS).manifest.batches[0]["sources"][0].get("xxh64") is None
    assert (made.folder / "manifest.json").stat().st_ino == before
    changed, times = source.read_text().replace("2:1", "2:2"), source.stat()
    source.write_text(changed)
    os.utime(source, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert store_of(source, OPTIONS).manifest.batches[0]["sources"][0].get("xxh64") is not None


@pytest.mark.parametrize("text", ["1 1:1\n-1 2:2\n", "1 1:1\n-1 2:1\n1 3:1\n"])
def test_a_changed_source_is_split_again(source, text):
    """Also when its size and time are as they were: only the digest tells."""
    store_of(source, OPTIONS)
    times = source.stat()
    source.write_text(text)
    os.utime(source, ns=(times.st_atime_ns, times.st_mtime_ns))
    heard = []
    store = store_of(source, OPTIONS, heard.append)
    assert store.manifest.n_rows == text.count("\n")
    assert any(isinstance(event, Warned) and "changed" in event.message for event in heard)


def test_a_folder_that_is_no_store_is_left_alone(source, tmp_path):
    (tmp_path / "rows.svm.blocks").mkdir()
    (tmp_path / "rows.svm.blocks" / "precious").write_text("x")
    with pytest.raises(MismatchError, match="not a store"):
        store_of(source, OPTIONS)
    assert (tmp_path / "rows.svm.blocks" / "precious").read_text() == "x"


def refused(source, match, kind=MismatchError, code=5, options=OPTIONS):
    """Ask for the store of a text; it must be refused, with the choice, and stay as it is."""
    store = source.with_name("rows.svm.blocks")
    before, heard = tree(store), []
    with pytest.raises(kind, match=match) as caught:
        store_of(source, options, heard.append)
    assert (caught.value.exit_code, heard) == (code, [])
    assert tree(store) == before
    assert os.listdir(source.parent).count(".rows.svm.blocks.splitting") == 0
    return caught.value.fix


def add_rows(store, folder, name="more.svm", text="1 3:1\n-1 1:2\n"):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    return add(store, [folder / name], AddOptions(batch="more"))


def change(source):
    source.write_text("1 1:1\n-1 2:1\n-1 5:1\n")


@pytest.mark.parametrize("changed", [False, True], ids=["same text", "changed text"])
@pytest.mark.parametrize(
    "history", ["added", "removed", "block removed", "collected", "merged", "of another folder"]
)
def test_rows_added_or_removed_since_are_never_replaced(source, tmp_path, history, changed):
    store = store_of(source, OPTIONS)
    if history in ("added", "removed", "merged"):
        store = add_rows(store, tmp_path)
    if history == "removed":
        remove(store, ["b1"])
    elif history == "merged":
        compact(store, merge_batches=("all", ["b1", "more"]))
    elif history in ("block removed", "collected"):
        remove(store, blocks=[next(k for k, b in enumerate(store.manifest.blocks) if b.rows)])
        if history == "collected":
            collect_garbage(store)
    elif history == "of another folder":  # another text, whose name is the same
        add_rows(store, tmp_path / "other", source.name)
        remove(store, ["b1"])
        collect_garbage(store)
    if changed:
        change(source)
    fix = refused(source, "batches were added or removed")
    assert "name rows.svm.blocks to train on what it holds; or remove it" in fix
    remaining = store_of(source.with_name("rows.svm.blocks")).manifest
    assert remaining.generation > 1


def test_a_store_that_was_compacted_only_is_still_that_of_its_text(source):
    store = compact(store_of(source, OPTIONS), block_bytes=1 << 20)
    assert len(store.manifest.blocks) == 1
    assert store_of(source, OPTIONS).manifest == store.manifest
    change(source)
    assert store_of(source, OPTIONS).manifest.n_rows == 3


def test_a_store_of_another_text_is_not_replaced(source, tmp_path):
    (tmp_path / "other").write_text("1 7:1\n-1 8:1\n")
    split([tmp_path / "other"], tmp_path / "rows.svm.blocks", OPTIONS)
    refused(source, "made from something else")


def test_a_text_and_its_store_may_be_renamed(source, tmp_path):
    store = store_of(source, OPTIONS)
    store.folder.rename(tmp_path / "new.svm.blocks")
    source.rename(tmp_path / "new.svm")
    assert store_of(tmp_path / "new.svm", OPTIONS).manifest == store.manifest


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("normalize", {"normalize": "l2"}), ("seed", {"seed": 7}), ("order", {"order": "file"}),
        ("dtype", {"dtype": "float32"}), ("index base", {"text": TextOptions(index_base=0)}),
        ("number of hash bits", {"text": TextOptions(hash_bits=5)}),
    ],
)  # fmt: skip
def test_what_was_made_in_another_way_is_not_made_anew_in_this(source, name, made):
    """It is taken as it is while the text is the same."""
    split([source], source.with_name("rows.svm.blocks"), SplitOptions(**({"blocks": 2} | made)))
    assert store_of(source, OPTIONS).manifest.n_rows == 2
    change(source)
    fix = refused(source, f"was made with another {name}, and rows.svm has changed")
    assert "remove rows.svm.blocks" in fix


def test_a_damaged_store_is_not_replaced(source):
    """Nobody knows what was added to it."""
    path = store_of(source, OPTIONS).folder / "manifest.json"
    path.write_bytes(path.read_bytes().replace(b'"seed":0', b'"seed":1'))
    refused(source, "damaged", DamagedError, 4)


def test_the_store_of_a_newer_version_is_not_replaced(source, monkeypatch):
    store = store_of(source, OPTIONS)
    replace(store.manifest, format=FORMAT + 1).save(store.folder)
    refused(source, f"format {FORMAT + 1}")


def test_a_store_with_files_of_somebody_is_not_replaced(source):
    (store_of(source, OPTIONS).folder / "notes.txt").write_text("x")
    assert store_of(source, OPTIONS).manifest.n_rows == 2
    change(source)
    refused(source, r"notes\.txt in it is not part of a store")


def test_rows_added_while_the_text_is_split_again(source, tmp_path):
    """What counts is what the store holds when it would be replaced."""
    store = store_of(source, OPTIONS)
    change(source)

    def listen(event):
        if isinstance(event, SplitProgress):
            add_rows(store, tmp_path)

    with pytest.raises(MismatchError, match="batches were added or removed"):
        store_of(source, OPTIONS, listen)
    assert sorted(os.listdir(tmp_path)) == ["more.svm", "rows.svm", "rows.svm.blocks"]
    assert BlockStore.open(store.folder).manifest.n_rows == 4
