"""Stores written by released versions decode for ever; see golden/README.md."""

import shutil
from pathlib import Path

import pytest

from blocklinear.store.store import BlockStore

from .build import all_rows, load, tree
from .golden import make

GOLDEN = Path(__file__).parent / "golden"
ROWS = {
    0: (1.0, {0: 0.5, 2: -2.0, 6: 0.001}),
    1: (-1.0, {1: 3.14159}),
    2: (1.0, {}),
    3: (-1.0, {0: -1.0, 1: 0.12345678901234567, 65535: -12345.678}),
    4: (1.0, {3: 7.0, 4294967294: 1e100}),
    5: (-1.0, {0: 1.0, 1: 1.0, 2: 1.0}),
    6: (1.0, {899: -0.25}),
    7: (-1.5, {4: 1e-30}),
    8: (1.0, {0: 1e20}),
    9: (1.0, dict.fromkeys(range(100), 1.0)),
}
BLOCKS = [[2], [1, 3, 4, 5, 6, 9], [0, 7, 8]]


@pytest.mark.parametrize("name", ["none", "zstd"])
@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_every_version_decodes_for_ever(tmp_path, version, name):
    # a copy: reading must work without the right to write, and must not leave anything behind
    folder = shutil.copytree(GOLDEN / f"v{version}" / name, tmp_path / name)
    before = tree(folder)
    store = BlockStore.open(folder)
    manifest = store.manifest
    assert all_rows(folder, manifest) == ROWS
    for position, rows in enumerate(BLOCKS):
        group = load(folder, manifest, [position])
        assert group.row_numbers.tolist() == rows
        if version in (1, 3):
            assert group.weights is None
        else:
            assert group.weights.tolist() == [make.WEIGHTS[row] for row in rows]
    assert store.verify().faults == []
    assert (manifest.n_rows, manifest.nnz, manifest.dimension) == (10, 115, 4294967295)
    assert manifest.labels == [1.0, -1.0, -1.5]
    assert manifest.label_counts == [6, 3, 1]
    assert tree(folder) == before


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_today_every_version_is_still_written(tmp_path, version):
    make.write(tmp_path / "none", "none", version)
    assert tree(tmp_path / "none") == tree(GOLDEN / f"v{version}" / "none")
