"""Stores written by released versions decode for ever; see golden/README.md."""

import shutil
from pathlib import Path

import pytest

from blocklinear.recipe import Recipe, Target
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


OF_TEXT, OF_TABLES = (1, 2, 3, 4, 5, 6, 7, 8), (11, 12, 15, 16)
TABLE_ROWS = {
    0: (1.0, {0: 0.5, 2: 1.0}),
    1: (2.0, {1: 1.0, 3: 1.0}),
    2: (1.0, {0: -2.25, 4: 1.0}),
    3: (2.0, {0: 1e-30, 2: 1.0}),
    4: (1.0, {0: 7.0, 3: 1.0}),
    5: (2.0, {0: 0.12345678901234567, 4: 1.0}),
}


@pytest.mark.parametrize("name", ["none", "zstd"])
@pytest.mark.parametrize("version", OF_TEXT)
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
        if version % 2:
            assert group.weights is None
        else:
            assert group.weights.tolist() == [make.WEIGHTS[row] for row in rows]
    assert store.verify().faults == []
    assert (manifest.n_rows, manifest.nnz, manifest.dimension) == (10, 115, 4294967295)
    assert manifest.labels == [1.0, -1.0, -1.5]
    assert manifest.label_counts == [6, 3, 1]
    if version > 4:
        given = {1.0: "yes", -1.0: "no", -1.5: "vielleicht, oder nie"}
        assert manifest.given == given
        assert store.feature_names() == ("length", "Länge", "")
    else:
        assert not manifest.given
        assert store.feature_names() is None
    assert tree(folder) == before


@pytest.mark.parametrize("name", ["none", "zstd"])
@pytest.mark.parametrize("version", OF_TABLES)
def test_every_version_of_tables_decodes_for_ever(tmp_path, version, name):
    folder = shutil.copytree(GOLDEN / f"v{version}" / name, tmp_path / name)
    before = tree(folder)
    store = BlockStore.open(folder)
    manifest = store.manifest
    assert all_rows(folder, manifest) == TABLE_ROWS
    weights = {}
    for position in range(3):
        group = load(folder, manifest, [position])
        if group.weights is not None:
            weights |= zip(group.row_numbers.tolist(), group.weights.tolist(), strict=True)
    assert weights == ({} if version % 2 else dict(enumerate(make.WEIGHTS[:6])))
    assert store.verify().faults == []
    assert (manifest.n_rows, manifest.nnz, manifest.dimension) == (6, 12, 5)
    assert manifest.given == ({1.0: "yes", 2.0: "no"} if version > 12 else {})
    recipe = Recipe.of_json(store.recipe)
    assert [recipe.feature_name(j) for j in range(5)] == [
        "age", "age=missing", "city=Rome", "city=Zürich", "city=missing",
    ]  # fmt: skip
    assert (recipe.columns[0].mean, recipe.columns[0].scale) == (1.5, 0.1)
    assert recipe.target == Target("click", "text" if version > 12 else "number")
    assert recipe.weight == (None if version % 2 else "worth")
    assert tree(folder) == before


@pytest.mark.parametrize("version", [*OF_TEXT, *OF_TABLES])
def test_today_every_version_is_still_written(tmp_path, version):
    make.write(tmp_path / "none", "none", version)
    found, expected = tree(tmp_path / "none"), tree(GOLDEN / f"v{version}" / "none")
    if version in (5, 6, 7, 8):  # names are always compressed, and a zstd release may do otherwise
        for name in ("manifest.json", "features/n00000000.zst"):
            del found[name], expected[name]
    assert found == expected
