"""Files that imports read, asked for ahead of them."""

import importlib
import os
import sys
import threading

import pytest

from blocklinear.cli import imports


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Start a command that imports a module; return the files it asked for."""
    folder, modules = tmp_path / "cache", tmp_path / "modules"
    folder.mkdir()
    modules.mkdir()
    monkeypatch.setattr(imports, "cache_folder", lambda: folder)
    monkeypatch.syspath_prepend(str(modules))
    advise = os.posix_fadvise

    def started(name):
        (modules / f"{name}.py").write_text("")
        importlib.invalidate_caches()
        asked = []

        def noting(descriptor, *how):
            asked.append(os.readlink(f"/proc/self/fd/{descriptor}"))
            advise(descriptor, *how)

        monkeypatch.setattr(os, "posix_fadvise", noting)
        with imports.asked_for("train"):
            for thread in threading.enumerate():
                if thread.name == "imports":
                    thread.join()
            importlib.import_module(name)
        return asked

    yield started
    for name in [name for name in sys.modules if name.startswith("imported_by_a_test_")]:
        del sys.modules[name]


def cached(tmp_path, name):
    return importlib.util.cache_from_source(str(tmp_path / "modules" / f"{name}.py"))


def test_a_start_asks_for_what_the_one_before_imported(start, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    name = "imported_by_a_test_first"
    assert start(name) == []
    listed = (tmp_path / "cache" / "imports-train.txt").read_text().splitlines()
    assert listed[-1] == cached(tmp_path, name)
    assert start("imported_by_a_test_second") == listed  # and the list stays as it is
    assert (tmp_path / "cache" / "imports-train.txt").read_text().splitlines() == listed


def test_the_list_is_made_anew_when_a_file_has_gone(start, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    start("imported_by_a_test_first")
    os.unlink(cached(tmp_path, "imported_by_a_test_first"))
    start("imported_by_a_test_third")
    listed = (tmp_path / "cache" / "imports-train.txt").read_text()
    assert listed == cached(tmp_path, "imported_by_a_test_third")


def test_a_command_that_fails_notes_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(imports, "cache_folder", lambda: tmp_path)
    with pytest.raises(ZeroDivisionError), imports.asked_for("train"):
        raise ZeroDivisionError
    assert not [*tmp_path.iterdir()]


def test_nothing_is_asked_for_where_nothing_can_be_kept(monkeypatch):
    monkeypatch.setattr(imports, "cache_folder", lambda: None)
    monkeypatch.setattr(threading, "Thread", None)
    with imports.asked_for("train"):
        pass
