"""Full disks: `gc` deletes before it writes, and what cannot begin leaves nothing."""

import errno
import itertools
import os
import shutil
import sys
from dataclasses import replace

import numpy as np
import programs
import pytest

from blocklinear import train_grid
from blocklinear.errors import StorageError
from blocklinear.events import WarmStarted
from blocklinear.ingest.compact import compact
from blocklinear.ingest.split import split
from blocklinear.options import SplitOptions, TextOptions, TrainOptions
from blocklinear.selection.cross_validation import cross_validate
from blocklinear.store.changes import remove
from blocklinear.store.store import BlockStore
from blocklinear.training import train
from blocklinear.training.checkpoint import ROW_ARRAYS, Checkpoint
from blocklinear.training.garbage import collect_garbage
from training.small import long_problem, split_problem

ROWS = "".join(f"{1 if i % 3 else -1} {1 + i % 7}:{i}.25 {9 + i % 50}:0.{i}\n" for i in range(8000))
FULL = """
import json, os, shutil, subprocess, sys
from pathlib import Path
from blocklinear.errors import StorageError
from blocklinear.training.garbage import collect_garbage

start, disk = map(Path, sys.argv[1:])
n_bytes = sum(path.stat().st_size + 8192 for path in start.rglob("*"))
subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={n_bytes}", "none", disk], check=True)
print("mounted", flush=True)
shutil.copytree(start, disk / "store")
with open(disk / "ballast", "wb", buffering=0) as ballast:
    try:
        while True:
            ballast.write(bytes(4096))
    except OSError:
        pass
assert shutil.disk_usage(disk).free == 0
collected = collect_garbage(disk / "store")
assert collected.bytes > 0
(disk / "ballast").unlink()
shutil.copytree(disk / "store", disk.with_name("after"))
"""


def make_store(folder, saves):
    """Make a store that lost and merged blocks, with a run that was saved some times."""
    (folder / "rows").write_text(ROWS)
    options = SplitOptions(text=TextOptions(memory_bytes=1 << 30, threads=1), blocks=20)
    store = split([folder / "rows"], folder / "store", options)
    run = store.folder / "runs" / "default"
    blocks = [[block.name, block.rows] for block in store.manifest.blocks]
    lines = np.arange(float(store.manifest.n_rows))
    arrays = {"alpha-0": lines, "w": np.ones(100_000), "average": np.ones(400_000)}
    for _ in range(saves):
        run.mkdir(parents=True, exist_ok=True)
        Checkpoint(run).save({"blocks": blocks}, arrays)
        (run / "alpha.work").write_bytes(bytes(100_000))
    (store.folder / "blocks" / "b00000999.blk").write_bytes(bytes(100_000))
    gone = sum(block.rows for block in store.manifest.blocks[:2])
    remove(store, blocks=[0, 1])
    compact(store, block_bytes=1 << 20)
    return BlockStore.open(store.folder), lines[gone:]


def check(folder, before, alpha):
    """Nothing is left but what is needed: blocks, and the alpha of their rows."""
    store = BlockStore.open(folder)
    m = store.manifest
    assert store.verify().faults == []
    assert (m.n_rows, m.removed) == (before.n_rows, [])
    assert sorted(os.listdir(store.blocks_folder)) == sorted(block.name for block in m.blocks)
    for run in (folder / "runs").glob("*"):
        checkpoint, found = Checkpoint(run), np.zeros(m.n_rows)
        assert checkpoint.facts["warm_only"]
        assert {name.partition("-")[0] for name in checkpoint.names} <= set(ROW_ARRAYS)
        names = [path.name.partition(".")[0] for path in run.iterdir()]
        assert sorted(names) == sorted(
            ["checkpoint", *(name for name in checkpoint.names if name != "preference-0")]
        )
        checkpoint.load({"alpha-0": found})
        assert (found == alpha).all()


def in_own_namespace(*command):
    """Run a program that may mount file systems, which nobody else sees and which end with it."""
    own = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-rm"]
    if shutil.which("unshare") is None or programs.run([*own, "true"]).returncode:
        pytest.skip("no namespace of mounts can be made here")
    return programs.run([*own, *command])


@pytest.mark.parametrize("saves", [0, 1, 2])
def test_gc_on_a_full_disk(tmp_path, saves):
    store, alpha = make_store(tmp_path, saves)
    (tmp_path / "disk").mkdir()
    done = in_own_namespace(sys.executable, "-c", FULL, store.folder, tmp_path / "disk")
    if "mounted" not in done.stdout:
        pytest.skip(f"no file system can be mounted here: {done.stderr}")
    assert done.returncode == 0, done.stderr
    check(tmp_path / "after", store.manifest, alpha)


def test_gc_deletes_before_it_writes(tmp_path, monkeypatch):
    """Alpha, the one thing that may be large, is written when nothing else is left to delete."""
    store, alpha = make_store(tmp_path, 2)
    needed = {block.name for block in store.manifest.blocks}
    needed |= {"checkpoint.json", "manifest.json", "lock", "f00000000.map"}
    real, left = os.open, []

    def opened(path, how, *args, **kwargs):
        if how & os.O_CREAT and "alpha" in os.path.basename(path):
            there = {found.name for found in store.folder.rglob("*") if found.is_file()}
            left.append(sorted(there - needed))
        return real(path, how, *args, **kwargs)

    monkeypatch.setattr(os, "open", opened)
    collect_garbage(store)
    check(store.folder, store.manifest, alpha)
    assert left in ([["alpha-0.0"]], [["alpha-0.1"]])


@pytest.mark.parametrize("at", range(11))
def test_gc_that_cannot_write_is_finished_by_the_next(tmp_path, monkeypatch, at):
    """Whichever file it is; and until then, what is there can be used."""
    (tmp_path / "rows").write_text(ROWS)
    text = TextOptions(memory_bytes=1 << 30, threads=1)
    store = split([tmp_path / "rows"], tmp_path / "store", SplitOptions(text=text, blocks=8))
    options = TrainOptions(memory_bytes=1 << 30, threads=1, group=2, max_outer=1)
    train(store, options)
    alpha = np.zeros(store.manifest.n_rows)
    Checkpoint(store.folder / "runs" / "default").load({"alpha-0": alpha})
    alpha = alpha[store.manifest.blocks[0].rows :]
    store = remove(store, blocks=[0])
    count = itertools.count()

    def fsync(descriptor):
        if next(count) == at:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fsync)
    if at < 10:
        with pytest.raises(StorageError, match="No space"):
            collect_garbage(store)
    else:
        assert collect_garbage(store).runs == 1
        assert next(count) == 10
    assert BlockStore.open(store.folder).verify().faults == []
    shutil.copytree(store.folder, tmp_path / "copy")
    heard, again = [], replace(options, warm_start=True)
    train(BlockStore.open(tmp_path / "copy"), again, heard.append)
    (started,) = [event for event in heard if isinstance(event, WarmStarted)]
    assert (started.how, started.rows_new) == ("recomputed", 0)
    collect_garbage(store)
    check(store.folder, store.manifest, alpha)


@pytest.mark.parametrize("at", range(9))
def test_what_cannot_begin_leaves_nothing(tmp_path, monkeypatch, at):
    """Whichever scratch file finds no room, those before it give theirs back."""
    store = split_problem(tmp_path, long_problem(), 3)
    options = TrainOptions(memory_bytes=1 << 30, threads=1, gap=0.5, max_outer=1, restart=True)
    real = os.posix_fallocate

    def failing(count):
        def allocate(*args):
            if next(count) == at:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(*args)

        return allocate

    tried = (
        lambda: train(store, options),
        lambda: train(store, replace(options, method="newton", solver=1)),
        lambda: train_grid(store, replace(options, costs=tuple(2.0**k for k in range(40)))),
        lambda: cross_validate(store, replace(options, restart=False), costs=(0.1, 1.0), n_folds=2),
    )
    for attempt in tried:
        with monkeypatch.context() as patched:
            patched.setattr(os, "posix_fallocate", failing(itertools.count()))
            try:
                attempt()
            except StorageError:
                assert not (store.folder / "runs").exists()
        assert not list(store.folder.rglob("*.work"))
        shutil.rmtree(store.folder / "runs", ignore_errors=True)


def test_gc_counts_what_runs_left(tmp_path):
    store = split_problem(tmp_path, long_problem(), 3)
    run = store.folder / "runs" / "killed"
    run.mkdir(parents=True)
    for name in ("alpha-0.work", "w.1"):
        (run / name).write_bytes(bytes(1000))
    collected = collect_garbage(store)
    assert (collected.files, collected.bytes, collected.runs) == (2, 2000, 0)
    assert not list(run.iterdir())
