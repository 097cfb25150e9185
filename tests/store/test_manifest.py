import hashlib
import json
import os
import shutil

import pytest

from blocklinear.errors import DamagedError, MismatchError
from blocklinear.store import manifest as manifests
from blocklinear.store.manifest import Manifest
from blocklinear.text.digest import Digest

from .build import TEXT, make_store


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return make_store(tmp_path_factory.mktemp("whole")).folder / "manifest.json"


@pytest.fixture
def folder(whole, tmp_path):
    """A folder with the manifest of a store, and no blocks: these are not looked at."""
    shutil.copy(whole, tmp_path)
    return tmp_path


def inner(folder):
    return json.loads((folder / "manifest.json").read_bytes())["manifest"]


def seal(folder, content):
    """Write `content` as a manifest whose checksum is right."""
    body = json.dumps(content, sort_keys=True, separators=(",", ":"))
    checksum = hashlib.sha256(body.encode()).hexdigest()
    text = f'{{"checksum":"{checksum}","manifest":{body}}}\n'
    (folder / "manifest.json").write_text(text)


BATCH = {"name": "b1", "date": "2026-01-01T00:00:00Z", "rows": 7, "sources": []}


def refused(folder, match=None, kind=DamagedError, code=4):
    with pytest.raises(kind, match=match) as caught:
        Manifest.load(folder)
    assert caught.value.exit_code == code
    assert str(folder) in str(caught.value)
    assert "fix: " in str(caught.value)


def test_what_a_manifest_says(folder):
    manifest = Manifest.load(folder)
    assert (manifest.n_rows, manifest.nnz, manifest.n_features) == (7, 12, 900)
    assert (manifest.labels, manifest.label_counts) == ([1.0, -1.0], [4, 3])
    assert (manifest.next_row, manifest.next_block, manifest.generation) == (7, 3, 1)
    (source,) = manifest.batches[0]["sources"]
    digest = Digest()
    digest.update(TEXT)
    assert (source["xxh64"], source["sha256"]) == (digest.hexdigest(), None)
    assert (source["size"], source["rows"], source["lines"]) == (len(TEXT), 7, 7)


def test_saving_is_exact(folder):
    before = (folder / "manifest.json").read_bytes()
    Manifest.load(folder).save(folder)
    assert (folder / "manifest.json").read_bytes() == before
    seal(folder, inner(folder))
    assert (folder / "manifest.json").read_bytes() == before


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\n",
        b"{}",
        b"[]",
        b"null",
        b"\xff\xfe",
        b"\0" * 100,
        b"7" * 5000,
        b'{"checksum":1,"manifest":2}',
        b'{"checksum":"","manifest":NaN}',
        b'{"checksum":"","manifest":1e999}',
        b'{"checksum":"","manifest":{},"manifest":{}}',
        b'{"checksum":"","manifest":{},"more":{}}',
        b"[" * 10**6,
        b'{"manifest":' * 10**5,
        b'{"checksum":"","manifest":' + b"[" * 900 + b"]" * 900 + b"}",
    ],
    ids=lambda text: repr(text[:24]),
)
def test_no_manifest_at_all(folder, text):
    (folder / "manifest.json").write_bytes(text)
    refused(folder, "damaged")


def test_a_missing_manifest(folder):
    (folder / "manifest.json").unlink()
    refused(folder, "not a store")


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo], ids=["folder", "fifo"])
def test_something_else_in_its_place(folder, make):
    (folder / "manifest.json").unlink()
    make(folder / "manifest.json")
    refused(folder, r"manifest\.json: is a link, a folder or a device")


def test_a_giant_is_not_read(folder):
    with open(folder / "manifest.json", "wb") as stream:
        stream.truncate(manifests.MAX_BYTES + 1)
    refused(folder, "larger than any manifest")


def test_a_repeated_field_with_a_right_checksum(folder):
    path = folder / "manifest.json"
    path.write_bytes(path.read_bytes().replace(b'"seed":0', b'"seed":0,"seed":0'))
    refused(folder, "repeated")


def test_a_newer_format(folder):
    seal(
        folder,
        inner(folder) | {"format": manifests.FORMAT + 1, "written_by": "9.8.7", "future": [1]},
    )
    refused(folder, r"written by blocklinear 9\.8\.7", MismatchError, 5)


@pytest.mark.parametrize("field", sorted(Manifest.__dataclass_fields__))
def test_a_missing_field(folder, field):
    content = inner(folder)
    del content[field]
    seal(folder, content)
    refused(folder, "damaged")


@pytest.mark.parametrize("field", sorted(Manifest.__dataclass_fields__))
@pytest.mark.parametrize("value", ["x", -5, 1 << 80, 0.5, True, {}, [[]], [None], {"a": 1}])
def test_a_field_of_another_kind(folder, field, value):
    content = inner(folder)
    if type(value) is type(content[field]) is str:  # any text will do
        return
    if value == content[field] == {}:
        return
    seal(folder, content | {field: value})
    newer = field == "format" and type(value) is int and value > manifests.FORMAT
    refused(folder, *(("format", MismatchError, 5) if newer else ("damaged",)))


@pytest.mark.parametrize(
    "field",
    ["name", "batch", "rows", "nnz", "bytes", "max_index", "table", "sha256", "label_counts"],
)
@pytest.mark.parametrize("value", [None, -5, 1 << 80, 0.5, True, [], [-1, 1], ["1", "2"], "../x"])
def test_a_field_of_a_block_of_another_kind(folder, field, value):
    if field in ("table", "sha256") and isinstance(value, str):  # loading the block refuses it
        return
    if field == "max_index" and value == -5:  # it has no bound below
        return
    content = inner(folder)
    content["blocks"][0][field] = value
    seal(folder, content)
    refused(folder, "damaged")


@pytest.mark.parametrize("where", ["manifest", "block"])
def test_an_unknown_field(folder, where):
    content = inner(folder)
    (content if where == "manifest" else content["blocks"][1])["more"] = 1
    seal(folder, content)
    refused(folder, "fields")


@pytest.mark.parametrize(
    "name",
    [
        "../b00000000.blk",
        "/etc/passwd",
        "a/../b00000000.blk",
        "b00000000.blk\0",
        "b00000000.blk\n",
        "C:\\b00000000.blk",
        "b0000000\u0661.blk",  # a digit, but not of ours
        "b000000000.blk",
        "",
        "b00000001.blk",  # that of the second block
    ],
)
def test_a_name_that_is_no_block(folder, name):
    content = inner(folder)
    content["blocks"][0]["name"] = name
    seal(folder, content)
    refused(folder, "block name")


@pytest.mark.parametrize(
    "change",
    [
        {"n_rows": 8},
        {"nnz": 11},
        {"n_features": 899},
        {"n_features": 2**32 + 1},
        {"format": 0},
        {"index_base": 2},
        {"dtype": "float16"},
        {"next_row": 6},
        {"labels": None},
        {"labels": [1.0]},
        {"labels": [1.0, 1.0]},
        {"labels": [1.0, "-1"]},
        {"labels": "ab"},
        {"batches": []},
        {"batches": [BATCH | {"name": "other"}]},
        {"batches": [{"name": "b1"}]},
        {"batches": [BATCH | {"sources": [{}]}]},
        {"batches": [BATCH | {"rows": 6}]},
        {"batches": [BATCH | {"rows": 7.0}]},
        {"batches": [BATCH | {"date": 0}]},
        {"batches": [BATCH | {"more": 0}]},
        {"batches": [BATCH, BATCH]},
        {"batches": [BATCH, BATCH | {"name": "b2", "rows": 1}]},
        {"moved": {"b00000003.blk": ["b00000009.blk", 0]}},
        {"moved": {"b00000003.blk": ["b00000001.blk", 99]}},
        {"moved": {"b00000003.blk": ["b00000001.blk", -1]}},
        {"moved": {"b00000003.blk": ["b00000001.blk"]}},
        {"moved": {"b00000003.blk": [["b00000001.blk"], 0]}},
        {"moved": {"b00000001.blk": ["b00000002.blk", 0]}},
        {"moved": {"../b": ["b00000001.blk", 0]}},
    ],
    ids=str,
)
def test_parts_that_contradict_each_other(folder, change):
    seal(folder, inner(folder) | change)
    refused(folder, "damaged")


def test_where_rows_went(folder):
    content = inner(folder) | {"moved": {"b00000003.blk": ["b00000001.blk", 1]}}
    seal(folder, content)
    assert Manifest.load(folder).moved == content["moved"]


@pytest.mark.parametrize("change", [{}, {"name": "../x"}, {"rows": 1 << 70}, {"label_counts": []}])
def test_a_removed_block_is_checked_as_well(folder, change):
    content = inner(folder)
    content["removed"] = [content["blocks"][0] | {"name": "b00000007.blk"} | change]
    seal(folder, content)
    if change:
        refused(folder, "damaged")
    else:
        assert Manifest.load(folder).removed[0].name == "b00000007.blk"


def test_label_counts_that_do_not_add_up(folder):
    content = inner(folder)
    content["blocks"][0]["label_counts"][0] += 1
    seal(folder, content)
    refused(folder, "label counts")


@pytest.mark.parametrize("field", ["rows", "nnz"])
def test_more_than_the_bytes_can_hold(folder, field):
    """Nothing is allocated for a block that claims 2**40 rows in a few hundred bytes."""
    content = inner(folder) | {"labels": None, "next_row": 2**41}
    for block in content["blocks"]:
        block["label_counts"] = []
    content["blocks"][0][field] += 2**40
    content["n_rows" if field == "rows" else "nnz"] += 2**40
    seal(folder, content)
    refused(folder, "than its bytes can hold")
