import ctypes
import errno
import fcntl
import os
import sys
from io import FileIO

import programs
import pytest

from blocklinear.errors import BusyError, StorageError
from blocklinear.store import files
from blocklinear.store.files import (
    Lock,
    atomic_write,
    place_folder,
    recover_name,
    temporary_folder,
    write_whole,
)


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


class BadDisk(FileIO):
    """A file whose data turn out, when it is closed, not to have been written."""

    def close(self):
        was_open = not self.closed
        super().close()
        if was_open:
            raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_nor_does_a_file_that_cannot_be_closed(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "FileIO", BadDisk)
    with pytest.raises(StorageError, match=r"name: write failed: Input/output error"):
        write_whole(tmp_path / "name", [b"new"])
    assert os.listdir(tmp_path) == []


KILLED = """
import os, pathlib, sys
from blocklinear.store.files import atomic_write
with atomic_write(sys.argv[1]) as stream:
    stream.write(bytes(100_000))
    stream.flush()
    os.kill(os.getpid(), 9)
"""


def test_what_a_killed_process_left_is_deleted_by_the_next(tmp_path):
    path = tmp_path / "model"
    for _ in range(2):
        assert programs.run([sys.executable, "-c", KILLED, path]).returncode == -9
        assert len(os.listdir(tmp_path)) == 1
    with atomic_write(tmp_path / "other"):
        pass
    assert len(os.listdir(tmp_path)) == 2  # only what was to be the same file
    for name in (".tmp-00", ".tmp-0123456789abcdef", "model.tmp"):
        (tmp_path / name).write_text("of somebody")
    with atomic_write(path) as stream:
        stream.write(b"new")
    left = {"model", "other", ".tmp-00", ".tmp-0123456789abcdef", "model.tmp"}
    assert set(os.listdir(tmp_path)) == left


KILLED_IN_FOLDER = """
import os, sys
from blocklinear.store.files import temporary_folder
with temporary_folder(sys.argv[1]) as folder:
    (folder / "store").mkdir()
    (folder / "store" / "block").write_bytes(bytes(100_000))
    os.kill(os.getpid(), 9)
"""


def test_a_folder_of_a_killed_process_is_deleted_by_the_next(tmp_path):
    for _ in range(2):
        command = [sys.executable, "-c", KILLED_IN_FOLDER, tmp_path]
        assert programs.run(command).returncode == -9
        (left,) = os.listdir(tmp_path)
    kept = {"blocklinear-mine", left[:-8], f"{left[:-9]}x-12345678"}
    for name in kept:
        (tmp_path / name).mkdir()
    (tmp_path / left[:-8]).rmdir()
    (tmp_path / left[:-8]).write_text("no folder")
    (tmp_path / f"{left[:-8]}link").symlink_to(tmp_path / "blocklinear-mine")
    with temporary_folder(tmp_path) as folder, temporary_folder(tmp_path) as other:
        found = set(os.listdir(tmp_path))
        assert found == kept | {f"{left[:-8]}link", folder.name, other.name}
    assert set(os.listdir(tmp_path)) == kept | {f"{left[:-8]}link"}


@pytest.mark.parametrize("moment", ["before it is opened", "before the lock", "locked", "none"])
def test_a_folder_is_taken_for_left_before_it_is_locked(tmp_path, monkeypatch, moment):
    """Then another one is made; where there are no locks, the first one does."""
    flock, mkdtemp, made = fcntl.flock, files.tempfile.mkdtemp, []

    def make(**how):
        made.append(mkdtemp(**how))
        if moment == "before it is opened" and len(made) == 1:
            os.rmdir(made[0])
        return made[-1]

    def lock(descriptor, operation):
        if moment == "none":
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))
        if moment == "locked" and len(made) == 1:
            raise BlockingIOError(errno.EWOULDBLOCK, os.strerror(errno.EWOULDBLOCK))
        if moment == "before the lock" and len(made) == 1:
            os.rmdir(made[0])
        flock(descriptor, operation)

    monkeypatch.setattr(files.tempfile, "mkdtemp", make)
    monkeypatch.setattr(files.fcntl, "flock", lock)
    with temporary_folder(tmp_path) as folder:
        assert str(folder) == made[-1]
        assert folder.is_dir()
        assert len(made) == (1 if moment == "none" else 2)
    assert not folder.exists()


def test_what_another_process_writes_is_not_taken_for_left(tmp_path):
    path = tmp_path / "model"
    with atomic_write(path) as first:
        first.write(b"first")
        with atomic_write(path) as second:
            second.write(b"second")
        assert path.read_bytes() == b"second"
    assert path.read_bytes() == b"first"
    assert os.listdir(tmp_path) == ["model"]


@pytest.mark.parametrize("moment", ["before the lock", "while it is locked"])
def test_a_file_taken_for_left_before_it_is_locked(tmp_path, monkeypatch, moment):
    real, calls = fcntl.flock, []

    def flock(stream, how):
        calls.append(how)
        if len(calls) == 1:
            (temporary,) = tmp_path.iterdir()
            if moment == "before the lock":
                temporary.unlink()
            else:
                temporary.unlink()
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        real(stream, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    with atomic_write(tmp_path / "model") as stream:
        stream.write(b"new")
    assert len(calls) == 2
    assert (tmp_path / "model").read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["model"]


def test_a_file_system_without_locks(tmp_path, monkeypatch):
    assert programs.run([sys.executable, "-c", KILLED, tmp_path / "model"]).returncode == -9

    def flock(stream, how):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", flock)
    with atomic_write(tmp_path / "model") as stream:
        stream.write(b"new")
    assert len(os.listdir(tmp_path)) == 2


@pytest.fixture
def folders(tmp_path):
    """A new folder and an old one, each with a file of its name, in a folder of their own."""
    for name in ("new", "old"):
        (tmp_path / "here" / name).mkdir(parents=True)
        (tmp_path / "here" / name / name).touch()
    return tmp_path / "here"


def names_in(folder):
    return {path.name: os.listdir(path) for path in folder.iterdir()}


def cannot_exchange(monkeypatch):
    monkeypatch.setattr(files, "_exchange_at_once", lambda source, target: False)


@pytest.mark.parametrize("at_once", [True, False])
def test_a_folder_takes_the_place_of_another(folders, monkeypatch, at_once):
    if not at_once:
        cannot_exchange(monkeypatch)
    place_folder(folders / "new", folders / "old")
    assert names_in(folders) == {"old": ["new"], "new": ["old"]}
    (folders / "old" / "new").unlink()
    place_folder(folders / "new", folders / "third")
    assert names_in(folders) == {"old": [], "third": ["old"]}


def test_names_are_exchanged_at_once_here(folders):
    """The file systems that tests run on can do it; else they would try the other way only."""
    assert files._exchange_at_once(folders / "new", folders / "old")
    assert names_in(folders) == {"old": ["new"], "new": ["old"]}


def test_an_exchange_that_is_refused(folders):
    with pytest.raises(OSError, match="No such file"):
        files._exchange_at_once(folders / "new", folders / "nothing")


def test_a_system_that_knows_no_exchange(folders, monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda *args, **kwargs: object())
    assert not files._exchange_at_once(folders / "new", folders / "old")
    place_folder(folders / "new", folders / "old")
    assert names_in(folders) == {"old": ["new"], "new": ["old"]}


@pytest.mark.parametrize("failing", [1, 2, 3])
def test_a_rename_that_fails_leaves_all_names_as_they_were(folders, monkeypatch, failing):
    cannot_exchange(monkeypatch)
    before, real, calls = names_in(folders), os.rename, []

    def rename(*args):
        calls.append(args)
        if len(calls) == failing:
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))
        real(*args)

    monkeypatch.setattr(os, "rename", rename)
    with pytest.raises(StorageError, match="old: rename failed: Permission denied"):
        place_folder(folders / "new", folders / "old")
    assert names_in(folders) == before


@pytest.mark.parametrize("at_once", [True, False])
def test_a_name_that_may_not_last_is_given_back(folders, monkeypatch, at_once):
    """A power cut could undo it, when the folder that had it is deleted already."""
    if not at_once:
        cannot_exchange(monkeypatch)
    before, real = names_in(folders), os.fsync

    def fsync(descriptor):
        if os.path.samestat(os.fstat(descriptor), os.stat(folders)):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(StorageError, match="sync failed"):
        place_folder(folders / "new", folders / "old")
    assert names_in(folders) == before


@pytest.mark.parametrize("renames", [0, 1, 2, 3])
def test_killed_between_renames(folders, renames):
    script = """
import os, pathlib, sys
from blocklinear.store import files
files._exchange_at_once = lambda source, target: False
real, left = os.rename, int(sys.argv[1])
def rename(*args):
    global left
    if not left:
        os.kill(os.getpid(), 9)
    left -= 1
    real(*args)
os.rename = rename
files.place_folder(pathlib.Path("new"), pathlib.Path("old"))
"""
    done = programs.run([sys.executable, "-c", script, renames], cwd=folders)
    assert done.returncode == (-9 if renames < 3 else 0)
    lost = recover_name(folders / "old")
    assert recover_name(folders / "old") == lost  # it may itself be killed
    if renames < 2:
        assert (names_in(folders), lost) == ({"new": ["new"], "old": ["old"]}, None)
    elif renames == 2:
        assert lost == folders / ".old.replaced"
        assert names_in(folders) == {"old": ["new"], ".old.replaced": ["old"]}
    else:
        assert (names_in(folders), lost) == ({"new": ["old"], "old": ["new"]}, None)


def test_a_lock_is_held_by_one(tmp_path):
    path = tmp_path / "lock"
    with Lock(path):
        with pytest.raises(BusyError, match=rf"this process .*pid {os.getpid()} .*\n.* end what"):
            Lock(path)
        path.write_text("pid 1 on another machine")
        with pytest.raises(BusyError, match=r"another process .*pid 1 on .*\n.* wait") as caught:
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


def test_a_lock_on_a_full_disk(tmp_path, monkeypatch):
    """Who it is that holds it need not be written."""

    def fail(*args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", fail)
    with Lock(tmp_path / "lock"), pytest.raises(BusyError, match="unknown"):
        Lock(tmp_path / "lock")
