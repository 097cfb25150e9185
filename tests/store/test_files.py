import errno
import fcntl
import os
import sys

import programs
import pytest

from blocklinear.errors import BusyError, StorageError
from blocklinear.store.files import Lock, atomic_write, replace_directory


def test_a_file_appears_whole(tmp_path):
    path = tmp_path / "name"
    path.write_bytes(b"old")
    with atomic_write(path) as stream:
        stream.write(b"new")
        stream.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["name"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_or_not_at_all(tmp_path, error):
    path = tmp_path / "name"

    def write():
        with atomic_write(path) as stream:
            stream.write(b"new")
            raise error

    with pytest.raises(error):
        write()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("call", ["fsync", "rename"])
def test_a_full_disk_leaves_nothing(tmp_path, monkeypatch, call):
    def fail(*args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, call, fail)
    with (
        pytest.raises(StorageError, match=r"name: write failed: No space") as caught,
        atomic_write(tmp_path / "name") as stream,
    ):
        stream.write(b"new")
    assert caught.value.exit_code == 6
    assert os.listdir(tmp_path) == []


def test_a_folder_takes_the_place_of_another(tmp_path):
    for name in ("new", "old"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    replace_directory(tmp_path / "new", tmp_path / "old")
    assert os.listdir(tmp_path) == ["old"]
    assert os.listdir(tmp_path / "old") == ["new"]


def test_a_lock_is_held_by_one(tmp_path):
    path = tmp_path / "lock"
    with Lock(path):
        with pytest.raises(BusyError, match=f"pid {os.getpid()}") as caught:
            Lock(path)
        assert caught.value.exit_code == 8
    Lock(path).release()


def test_a_lock_dies_with_its_process(tmp_path):
    path = tmp_path / "lock"
    script = "import os, sys; from pathlib import Path; from blocklinear.store.files import Lock;"
    script += "lock = Lock(Path(sys.argv[1])); os.kill(os.getpid(), 9)"
    done = programs.run([sys.executable, "-c", script, path])
    assert done.returncode == -9
    Lock(path).release()


@pytest.mark.parametrize("there", [True, False])
def test_a_lock_on_a_folder_that_was_replaced_meanwhile(tmp_path, monkeypatch, there):
    folder, real = tmp_path / "store", fcntl.flock
    folder.mkdir()

    def replaced(stream, how):
        real(stream, how)
        folder.rename(tmp_path / "old")
        if there:
            folder.mkdir()
            (folder / "lock").touch()

    monkeypatch.setattr(fcntl, "flock", replaced)
    with pytest.raises(BusyError, match="another process put something else there"):
        Lock(folder / "lock")
