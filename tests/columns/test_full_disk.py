"""Columns on a disk that is too small for them: what is needed is said, and nothing is left."""

import errno
import os
import shutil
import sys

import programs
import pytest

from blocklinear.columns import transpose as transposing
from blocklinear.columns.store import open_columns
from blocklinear.columns.transpose import transpose
from blocklinear.errors import StorageError
from blocklinear.store.files import remove_tree

from .conftest import MEMORY, content, store_of, text_of
from .test_transpose import in_parts

FULL = """
import os, shutil, subprocess, sys
from pathlib import Path
import blocklinear
from blocklinear.errors import StorageError

start, disk = map(Path, sys.argv[1:])
n_bytes = sum(path.stat().st_size + 4096 for path in start.rglob("*")) + 40000
subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={n_bytes}", "none", disk], check=True)
print("mounted", flush=True)
shutil.copytree(start, disk / "store")
names = sorted(os.listdir(disk / "store"))
try:
    blocklinear.transpose(disk / "store")
except StorageError as error:
    assert "columns take about" in str(error), error
    assert "free some space" in str(error), error
else:
    raise AssertionError("there was room")
assert sorted(os.listdir(disk / "store")) == names
subprocess.run(["mount", "-o", "remount,size=100M", disk], check=True)
assert blocklinear.transpose(disk / "store").verify() == []
"""


def test_a_full_disk(tmp_path):
    store = store_of(tmp_path, text_of(3000))
    (tmp_path / "disk").mkdir()
    own = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-rm"]
    if shutil.which("unshare") is None or programs.run([*own, "true"]).returncode:
        pytest.skip("no namespace of mounts can be made here")
    done = programs.run([*own, sys.executable, "-c", FULL, store.folder, tmp_path / "disk"])
    if "mounted" not in done.stdout:
        pytest.skip(f"no file system can be mounted here: {done.stderr}")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("passes", [1, 1000])
def test_whichever_write_fails(tmp_path, monkeypatch, small_chunks, passes):
    store = store_of(tmp_path, text_of(100), normalize="l2")
    names = {path.name for path in store.folder.iterdir()}
    count = [0]

    def failing(real):
        def write(descriptor, data):
            count[0] -= 1
            if count[0] == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(descriptor, data)

        return write

    in_parts(monkeypatch, 100, passes)
    for name in ("write", "writev"):
        monkeypatch.setattr(os, name, failing(getattr(os, name)))
    transpose(store, MEMORY, 1)
    n_writes, n_tried = -count[0], 0
    remove_tree(store.folder / "columns")
    for at in range(1, n_writes + 1, max(n_writes // 12, 1)):
        count[0] = at
        n_tried += 1
        with pytest.raises(StorageError, match="columns take about"):
            transpose(store, MEMORY, 1)
        assert {path.name for path in store.folder.iterdir()} == names
        assert open_columns(store) is None
    assert n_tried > 8
    count[0] = 0
    folder = transpose(store, MEMORY, 1).folder
    before = content(folder)
    count[0] = 5
    with pytest.raises(StorageError):
        transpose(store, MEMORY, 1, force=True)
    assert content(folder) == before


def test_a_bucket_that_the_disk_changed_is_found(tmp_path, monkeypatch, small_chunks):
    store = store_of(tmp_path, text_of(100))
    in_parts(monkeypatch, 100)
    original = transposing.Bucket.append

    def append(self, data, rows, nnz):
        original(self, data, rows, nnz)
        with open(self._path, "r+b") as stream:
            stream.write(b"\xff")

    monkeypatch.setattr(transposing.Bucket, "append", append)
    with pytest.raises(StorageError, match="other bytes than were written"):
        transpose(store, MEMORY, 1)
    assert open_columns(store) is None
