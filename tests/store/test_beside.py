import os

import pytest

from blocklinear import SplitOptions
from blocklinear.errors import DamagedError, MismatchError
from blocklinear.events import Warned
from blocklinear.store.beside import store_of

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
    with pytest.raises(DamagedError, match="not a store"):
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
