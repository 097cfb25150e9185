import errno
import os
import resource

import numpy as np
import pytest

from blocklinear.errors import StorageError
from blocklinear.training.duals import Duals
from training.small import split_text


@pytest.fixture(scope="module")
def manifest(tmp_path_factory):
    text = "".join(f"{i % 2} 1:{i}\n" for i in range(1, 301))
    return split_text(tmp_path_factory.mktemp("duals"), text, blocks=4).manifest


def alpha_for(manifest, blocks, start):
    return start + np.arange(sum(manifest.blocks[b].rows for b in blocks), dtype=float)


def test_zero_at_first(tmp_path, manifest):
    (tmp_path / "alpha.0").write_bytes(b"\xff" * 5000)  # of an earlier run
    assert not Duals(tmp_path, manifest).read([0, 1, 2, 3]).any()


def test_reads_see_the_committed_slot(tmp_path, manifest):
    duals = Duals(tmp_path, manifest)
    first = alpha_for(manifest, [2, 0], 1.0)
    duals.write([2, 0], first)
    assert not duals.read([2, 0]).any()
    duals.commit()
    assert duals.read([2, 0]).tolist() == first.tolist()
    assert duals.read([0]).tolist() == first[manifest.blocks[2].rows :].tolist()

    second = alpha_for(manifest, [2, 0], 1000.0)
    duals.write([2, 0], second)
    assert duals.read([2, 0]).tolist() == first.tolist()
    duals.commit()
    assert duals.read([2, 0]).tolist() == second.tolist()


def test_what_is_read_is_private(tmp_path, manifest):
    duals = Duals(tmp_path, manifest)
    duals.read([1])[:] = 5.0
    assert not duals.read([1]).any()


def test_two_files_of_eight_bytes_a_row(tmp_path, manifest):
    Duals(tmp_path, manifest)
    assert {p.name: p.stat().st_size for p in tmp_path.iterdir()} == {
        "alpha.0": 2400,
        "alpha.1": 2400,
    }


def test_a_full_disk(tmp_path, manifest, monkeypatch):
    def full(*args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(StorageError, match=r"alpha\.0: allocate failed: No space left.* free\)"):
        Duals(tmp_path, manifest)


def test_a_file_size_limit(tmp_path, manifest):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(StorageError, match=r"alpha\.0: allocate failed: File too large"):
            Duals(tmp_path, manifest)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_missing_folder(tmp_path, manifest):
    with pytest.raises(StorageError, match=r"nowhere/alpha\.0: allocate failed"):
        Duals(tmp_path / "nowhere", manifest)
