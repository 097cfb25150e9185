"""A store made to do harm: links in it, or folders in its way, never cost a file outside of it."""

import json
import os
from dataclasses import replace

import numpy as np
import pytest

from blocklinear.errors import DamagedError, MismatchError
from blocklinear.ingest.split import split
from blocklinear.options import SplitOptions, TrainOptions
from blocklinear.selection.cross_validation import cross_validate
from blocklinear.store.changes import remove
from blocklinear.store.files import Lock, created, write_whole
from blocklinear.store.store import BlockStore
from blocklinear.training import train
from blocklinear.training.checkpoint import Checkpoint, _checksum
from blocklinear.training.garbage import collect_garbage

from .build import TEXT, make_store, small_text_options
from .changing import MORE, add_text, refused

PRECIOUS = "years of work\n"
OPTIONS = TrainOptions(memory_bytes=1 << 30, threads=1, group=2, max_outer=2)
ROWS = "".join(f"{1 if i % 3 else -1} {1 + i % 7}:{0.1 * (i % 11):.2f}\n" for i in range(200))


@pytest.fixture
def victim(tmp_path):
    path = tmp_path / "victim"
    path.write_text(PRECIOUS)
    return path


@pytest.fixture
def home(tmp_path):
    """A folder of somebody, with names in it that a run uses too."""
    path = tmp_path / "home"
    (path / "default").mkdir(parents=True)
    for folder in (path, path / "default"):
        for name in ("libz.so.1", "thesis.0", "a.work", "checkpoint.json", ".tmp-1", "lock"):
            (folder / name).write_text(PRECIOUS)
    (path / "blocks").mkdir()
    (path / "blocks" / "photo").write_text(PRECIOUS)
    return path


def state(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture
def store(tmp_path):
    return make_store(tmp_path, ROWS.encode())


@pytest.mark.parametrize("how", [os.symlink, os.link])
def test_a_lock_that_is_another_file(tmp_path, store, victim, how):
    (store.folder / "lock").unlink()
    how(victim, store.folder / "lock")
    for work in (remove, collect_garbage, train, lambda store: add_text(store, MORE)):
        refused(DamagedError, 4, work, store, match="lock: ")
        assert victim.read_text() == PRECIOUS
    with pytest.raises((DamagedError, MismatchError), match="lock"):
        make_store(tmp_path, force=True)
    assert victim.read_text() == PRECIOUS


def test_a_lock_that_is_a_pipe(store):
    (store.folder / "lock").unlink()
    os.mkfifo(store.folder / "lock")
    refused(DamagedError, 4, remove, store, ["b1"], match="lock: ")


def test_a_lock_is_not_left_to_other_programs(tmp_path):
    with Lock(tmp_path / "lock") as lock:
        assert not os.get_inheritable(lock.fileno())


def test_the_folder_of_a_split_that_is_a_link(tmp_path, home):
    before = state(home)
    (tmp_path / ".store.splitting").symlink_to(home)
    refused(MismatchError, 5, make_store, tmp_path, match=r"\.store\.splitting")
    assert state(home) == before
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("name", ["thesis", "blocks/photo", "runs/default/photo", "lock/photo"])
def test_a_folder_in_the_way_of_a_split_that_no_split_made(tmp_path, name):
    path = tmp_path / ".store.splitting" / name
    path.parent.mkdir(parents=True)
    path.write_text(PRECIOUS)
    message = refused(MismatchError, 5, make_store, tmp_path, match=r"\.store\.splitting")
    assert name in str(message) or name.split("/")[0] in str(message)
    assert state(tmp_path / ".store.splitting") == {path: PRECIOUS.encode()}


def test_what_a_killed_split_left_is_cleared_away(tmp_path):
    staging = tmp_path / ".store.splitting"
    (staging / "blocks").mkdir(parents=True)
    for name in ("lock", "skipped.txt", "manifest.json", ".tmp-0123456789abcdef"):
        (staging / name).touch()
    (staging / "blocks" / "b00000017.blk").write_bytes(b"half")
    assert make_store(tmp_path).verify().unused_files == []
    assert sorted(os.listdir(tmp_path)) == ["store", "store.svm"]


def cross_validated(store, options):
    cross_validate(store, options, n_folds=2, costs=[1.0])


@pytest.mark.parametrize(
    ("level", "work"),
    [
        ("runs", train), ("runs/default", train),
        ("runs", cross_validated), ("runs/default.cv", cross_validated),
    ],
)  # fmt: skip
def test_runs_that_lead_elsewhere(store, home, level, work):
    before = state(home)
    link = store.folder / level
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(home)
    refused(DamagedError, 4, work, store, OPTIONS, match="runs")
    assert state(home) == before
    remove(store, blocks=[0])
    collect_garbage(store)
    assert state(home) == before


@pytest.mark.parametrize("how", [os.symlink, os.link])
def test_arrays_of_a_checkpoint_that_are_other_files(tmp_path, victim, how):
    run = tmp_path / "run"
    run.mkdir()
    for name in ("alpha.0", "alpha.1", "alpha.work", "near.work"):
        how(victim, run / name)
    for _ in range(2):
        Checkpoint(run).save({"blocks": []}, {"alpha": np.arange(100.0)})
    assert victim.read_text() == PRECIOUS


def test_a_file_of_a_run_replaces_a_link(tmp_path, victim):
    (tmp_path / "link").symlink_to(victim)
    write_whole(tmp_path / "link", [b"new"])
    assert (tmp_path / "link").read_bytes() == b"new"
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to(victim)
    created(tmp_path / "link").close()
    assert (tmp_path / "link").read_bytes() == b""
    assert victim.read_text() == PRECIOUS


@pytest.mark.parametrize("name", ["checkpoint.json", "alpha.0"])
@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_a_checkpoint_that_is_no_regular_file(tmp_path, victim, name, kind):
    Checkpoint(tmp_path).save({"blocks": []}, {"alpha": np.arange(100.0)})
    (tmp_path / name).rename(tmp_path / "real")
    if kind == "link":
        (tmp_path / name).symlink_to(tmp_path / "real")
    elif kind == "pipe":
        os.mkfifo(tmp_path / name)
    else:
        (tmp_path / name).mkdir()

    def read():
        Checkpoint(tmp_path).load({"alpha": np.zeros(100)})

    def mapped():
        Checkpoint(tmp_path).mapped("alpha", np.dtype(np.float64))

    refused(DamagedError, 4, read)
    refused(DamagedError, 4, mapped)


@pytest.mark.parametrize("change", ["name", "generation"])
def test_a_checkpoint_that_names_files_elsewhere(tmp_path, victim, change):
    run = tmp_path / "run"
    (run / "alpha-").mkdir(parents=True)
    Checkpoint(run).save({"blocks": []}, {"alpha": np.arange(100.0)})
    body = json.loads((run / "checkpoint.json").read_text())["checkpoint"]
    if change == "name":
        body["files"]["alpha-/../../victim"] = body["files"]["alpha"]
    else:
        body["generation"] = "0/../../victim"
    text = json.dumps({"checksum": _checksum(body), "checkpoint": body})
    (run / "checkpoint.json").write_text(text)
    why = "names files that no run has" if change == "name" else "not a checkpoint"
    refused(DamagedError, 4, Checkpoint, run, match=why)


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_a_manifest_that_is_no_regular_file(store, tmp_path, kind):
    path = store.folder / "manifest.json"
    path.rename(tmp_path / "real")
    if kind == "link":
        path.symlink_to(tmp_path / "real")
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    refused(DamagedError, 4, BlockStore.open, store.folder, match=r"manifest\.json")


def test_only_a_store_is_replaced(tmp_path):
    """A manifest.json is not enough: other programs have such files too."""
    site = tmp_path / "store"
    site.mkdir()
    for name in ("manifest.json", "index.html"):
        (site / name).write_text(PRECIOUS)
    refused(MismatchError, 5, make_store, tmp_path, force=True, match="not a store")
    assert len(state(site)) == 2


@pytest.mark.parametrize("name", ["notes.txt", "blocks/notes.txt", "runs/default/notes.txt"])
def test_a_store_with_files_of_somebody_is_not_replaced(tmp_path, name):
    store = make_store(tmp_path)
    path = store.folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(PRECIOUS)
    before = state(store.folder)
    refused(MismatchError, 5, make_store, tmp_path, force=True, match=name)
    assert state(store.folder) == before


def test_the_name_of_a_store_may_be_a_link(tmp_path):
    """The link stays, and what it leads to is made or replaced."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "rows").write_bytes(TEXT)
    (tmp_path / "store").symlink_to(tmp_path / "disk" / "real")
    options = SplitOptions(text=small_text_options(), blocks=2)
    for force in (False, True):
        made = split([tmp_path / "rows"], tmp_path / "store", replace(options, force=force))
        assert made.verify().faults == []
        assert (tmp_path / "store").is_symlink()
        assert sorted(os.listdir(tmp_path / "disk")) == ["real"]
        assert sorted(os.listdir(tmp_path)) == ["disk", "rows", "store"]


def test_a_store_stays_known_when_the_folder_of_work_changes(tmp_path, monkeypatch):
    (tmp_path / "rows").write_bytes(TEXT)
    monkeypatch.chdir(tmp_path)
    made = split(["rows"], "store", SplitOptions(text=small_text_options(), blocks=2))
    monkeypatch.chdir("/")
    assert made.verify().faults == []


def test_a_link_that_leads_nowhere_is_refused_at_once(tmp_path):
    (tmp_path / "store").symlink_to(tmp_path / "store")
    heard = []
    options = SplitOptions(text=small_text_options())
    refused(MismatchError, 5, split, ["-"], tmp_path / "store", options, heard.append, match="link")
    assert heard == []
