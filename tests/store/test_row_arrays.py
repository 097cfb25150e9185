import errno
import os
import resource

import numpy as np
import pytest
from training.small import split_text

from blocklinear.errors import StorageError
from blocklinear.store.row_arrays import RowArray


@pytest.fixture(scope="module")
def manifest(tmp_path_factory):
    text = "".join(f"{i % 2} 1:{i}\n" for i in range(1, 301))
    return split_text(tmp_path_factory.mktemp("rows"), text, blocks=4).manifest


@pytest.fixture
def make(tmp_path, manifest):
    return lambda *how: RowArray(tmp_path / "alpha.work", manifest, *how)


def lines_for(manifest, blocks, start=1.0):
    return start + np.arange(sum(manifest.blocks[b].rows for b in blocks), dtype=float)


def test_zero_at_first(tmp_path, make):
    (tmp_path / "alpha.work").write_bytes(b"\xff" * 5000)  # of an earlier run
    lines = make()
    assert not lines.read([0, 1, 2, 3]).any()
    assert not lines.all.any()


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint8])
def test_lines_stand_in_the_order_of_the_store(make, manifest, dtype):
    lines, first = make(dtype), lines_for(manifest, [2, 0]).astype(dtype)
    lines.write([2, 0], first)
    two, zero = np.split(first, [manifest.blocks[2].rows])
    assert lines.read([2, 0]).tolist() == first.tolist()
    assert lines.read([0, 2]).tolist() == [*zero.tolist(), *two.tolist()]
    assert not lines.read([1, 3]).any()
    assert lines.all.dtype == lines.read([1]).dtype == dtype
    starts = np.cumsum([0, *(block.rows for block in manifest.blocks)])
    assert lines.all[: starts[1]].tolist() == zero.tolist()
    assert lines.all[starts[2] : starts[3]].tolist() == two.tolist()


def test_several_numbers_a_row(make, manifest):
    lines = make(np.float64, 3)
    numbers = np.outer(lines_for(manifest, [3, 1]), [1.0, 10.0, 100.0])
    lines.write([3, 1], numbers)
    assert lines.all.shape == (300, 3)
    np.testing.assert_array_equal(lines.read([3, 1]), numbers)
    assert not lines.read([0, 2]).any()


@pytest.mark.parametrize("columns", [[0, 2], [1], [0, 1, 2]])
def test_some_columns(make, manifest, columns):
    lines, rows = make(np.float64, 3), slice(5, 9)
    numbers = np.outer(lines_for(manifest, [3, 1]), [1.0, 10.0, 100.0])[:, columns]
    lines.write_columns([3, 1], columns, numbers)
    found = lines.read_columns([3, 1], columns)
    assert found.flags.c_contiguous
    np.testing.assert_array_equal(found, numbers)
    np.testing.assert_array_equal(found, lines.read([3, 1])[:, columns])
    assert not np.delete(lines.all, columns, axis=1).any()
    np.testing.assert_array_equal(lines.at(rows, columns), lines.table[rows][:, columns])
    found[:] = 0.0
    np.testing.assert_array_equal(lines.read_columns([3, 1], columns), numbers)


def test_what_is_read_is_private(make):
    lines = make()
    lines.read([1])[:] = 5.0
    assert not lines.read([1]).any()


def test_eight_bytes_a_row_until_it_is_discarded(tmp_path, make):
    lines = make()
    assert {p.name: p.stat().st_size for p in tmp_path.iterdir()} == {"alpha.work": 2400}
    lines.discard()
    lines.discard()
    assert not list(tmp_path.iterdir())


def test_a_full_disk(tmp_path, make, monkeypatch):
    def full(*args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(StorageError, match=r"alpha\.work: allocate failed: No space left.* free\)"):
        make()
    assert not list(tmp_path.iterdir())


def test_a_file_size_limit(make):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(StorageError, match=r"alpha\.work: allocate failed: File too large"):
            make()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_missing_folder(tmp_path, manifest):
    with pytest.raises(StorageError, match=r"nowhere/alpha\.work: allocate failed"):
        RowArray(tmp_path / "nowhere" / "alpha.work", manifest)
