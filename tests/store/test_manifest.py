import hashlib
import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest
import xxhash
from json_faults import json_faults

from blocklinear.errors import DamagedError, MismatchError, StorageError
from blocklinear.ingest import writer
from blocklinear.ingest.add import add
from blocklinear.options import AddOptions, SplitOptions
from blocklinear.store import manifest as manifests
from blocklinear.store.manifest import Manifest

from .build import TEXT, make_store, rows_of, small_text_options


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


NAMES = {"file": "n00000000.zst", "names": 3, "size": 30, "bytes": 20, "sha256": "0"}
NAMED = {"format": 7, "classes": {"1": "spam"}, "names": NAMES}


def with_names(folder):
    """Make the manifest one with classes and names of features; return its content."""
    seal(folder, inner(folder) | NAMED)
    return inner(folder)


def with_all(folder):
    """Make the manifest one made of tables, too, which has every field there is."""
    seal(folder, with_names(folder) | {"format": 15, "recipe": "0" * 64})
    return inner(folder)


BATCH = {"name": "b1", "date": "2026-01-01T00:00:00Z", "rows": 7, "sources": []}


def refused(folder, match=None, kind=DamagedError, code=4):
    with pytest.raises(kind, match=match) as caught:
        Manifest.load(folder)
    assert caught.value.exit_code == code
    assert str(folder) in str(caught.value)
    assert "fix: " in str(caught.value)


def test_what_a_manifest_says(folder):
    manifest = Manifest.load(folder)
    assert (manifest.n_rows, manifest.nnz, manifest.dimension) == (7, 12, 900)
    assert manifest.n_features == 6  # those that occur
    assert (manifest.labels, manifest.label_counts) == ([1.0, -1.0], [4, 3])
    assert (manifest.next_row, manifest.next_block, manifest.generation) == (7, 3, 1)
    (source,) = manifest.batches[0]["sources"]
    assert (source["xxh64"], source["sha256"]) == (xxhash.xxh64_hexdigest(TEXT), None)
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
    content = with_all(folder)
    Manifest.load(folder)
    del content[field]
    seal(folder, content)
    refused(folder, "damaged")


@pytest.mark.parametrize("field", sorted(Manifest.__dataclass_fields__))
@pytest.mark.parametrize("value", ["x", -5, 1 << 80, 0.5, True, {}, [[]], [None], {"a": 1}])
def test_a_field_of_another_kind(folder, field, value):
    content = with_all(folder)
    if type(value) is type(content[field]) is str and field != "recipe":  # any text will do
        return
    if value == {} and (content[field] == {} or field in ("classes", "names")):
        return  # one of these may be empty
    seal(folder, content | {field: value})
    newer = field == "format" and type(value) is int and value > manifests.FORMAT
    refused(folder, *(("format", MismatchError, 5) if newer else ("damaged",)))


@pytest.mark.parametrize(
    "changes",
    [
        {"format": 3}, {"classes": {}, "names": {}}, {"classes": {"7": "spam"}},
        {"classes": {"1.0": "spam"}}, {"classes": {"1": "a", "-1": "a"}},
        {"classes": {"1": "a", "-1": 3}}, {"classes": {"nan": "a"}}, {"labels": None},
        {"names": NAMES | {"names": 901}}, {"names": NAMES | {"file": "../../n00000000.zst"}},
        {"names": NAMES | {"size": -1}}, {"names": NAMES | {"more": 1}},
    ],
)  # fmt: skip
def test_classes_and_names_that_cannot_be(folder, changes):
    with_all(folder)
    Manifest.load(folder)
    seal(folder, inner(folder) | changes)
    refused(folder, "damaged")


@pytest.mark.parametrize(
    "field",
    ["name", "batch", "rows", "nnz", "bytes", "max_index", "table", "sha256", "label_counts"],
)
@pytest.mark.parametrize("value", [None, -5, 1 << 80, 0.5, True, [], [-1, 1], ["1", "2"], "../x"])
def test_a_field_of_a_block_of_another_kind(folder, field, value):
    if field in ("table", "sha256") and isinstance(value, str):  # loading the block refuses it
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


def whole_manifest(weighted):
    """A manifest with everything that one can have: two batches, removed and moved blocks."""
    source = {
        "path": "x.svm", "size": 99, "mtime_ns": -7, "xxh64": "0" * 16, "sha256": None, "rows": 4,
        "lines": 5, "blank": 1, "zeros": 0, "skipped": 0, "sorted_rows": 0, "merged_entries": 0,
        "hash_collisions": 0, "ignored_qids": 0, "final_newline": True,
    }  # fmt: skip
    block = {
        "name": "b00000000.blk", "batch": "b1", "rows": 4, "nnz": 6, "bytes": 300, "max_index": 9,
        "table": "0" * 8, "sha256": "0" * 64, "label_counts": [3, 1],
    }  # fmt: skip
    batch = {"name": "b1", "date": "2026-01-01T00:00:00Z", "rows": 4, "sources": [source]}
    if weighted:
        file = {name: source[name] for name in ("path", "size", "mtime_ns", "xxh64", "sha256")}
        batch["weights"] = [file]
        block["weights"] = {
            "zeros": 1, "least": 0.5, "largest": 2.0, "total": 4.0, "sums": [3.5, 0.5]
        }  # fmt: skip
    return {
        "format": 1 + weighted, "generation": 3, "written_by": "0.1.0", "seed": 7,
        "order": "random", "index_base": 1, "hash_bits": 0, "n_features": 9, "n_rows": 8,
        "nnz": 12, "next_row": 12, "next_block": 5, "dtype": "float64", "compression": "zstd:1",
        "normalize": "none", "labels": [1.0, -1.0],
        "batches": [batch, batch | {"name": "b2"}],
        "blocks": [block, block | {"name": "b00000001.blk", "batch": "b2"}],
        "removed": [block | {"name": "b00000002.blk"}],
        "moved": {"b00000003.blk": ["b00000001.blk", 1]},
    }  # fmt: skip


def test_a_field_of_any_other_kind_is_refused(tmp_path):
    """Wherever it is; and one that is missing, or one more."""
    accepted, errors = set(), []
    for weighted in (False, True):
        content = whole_manifest(weighted)
        for where, changed in json_faults(content):
            seal(tmp_path, changed)
            try:
                Manifest.load(tmp_path)
                accepted.add(where)
            except (DamagedError, MismatchError) as error:
                errors.append(error)
        seal(tmp_path, content)
        assert len(Manifest.load(tmp_path).batches) == 2
    assert len(errors) > 1000
    assert {error.exit_code for error in errors} == {4, 5}
    assert {str(error).count("\n") for error in errors} == {1}
    assert max(len(str(error)) for error in errors) < len(str(tmp_path)) + 250
    # what not every version wrote, and what not every source has
    may = ["xxh64 missing", "mtime_ns = None", "sha256 = 'x'"]
    later = ("sorted_rows", "merged_entries", "hash_collisions", "ignored_qids")
    assert accepted == {"moved.b00000003.blk missing"} | {
        f"batches[{k}].{file}[0].{what}"
        for k in (0, 1)
        for file, more in (("sources", [f"{name} missing" for name in later]), ("weights", []))
        for what in may + more
    }


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


TOO_LARGE = "the manifest of .* blocks, with a count for each of .* labels, would take .* bytes"


@pytest.fixture
def small_manifests(monkeypatch):
    """As if none of more than 2000 bytes were read: that of 3 blocks and 2 labels has 1400."""
    monkeypatch.setattr(manifests, "MAX_BYTES", 2000)


def test_a_split_that_makes_too_large_a_manifest_leaves_nothing(tmp_path, small_manifests):
    with pytest.raises(StorageError, match=TOO_LARGE) as caught:
        make_store(tmp_path, TEXT, blocks=7)
    assert "fix: make fewer and larger blocks" in str(caught.value)
    assert os.listdir(tmp_path) == ["store.svm"]
    assert make_store(tmp_path, TEXT, blocks=3).verify().faults == []


def test_it_is_refused_when_blocks_are_opened(tmp_path, small_manifests):
    """A stream is not read to its end if there are too many blocks long before."""
    plan = writer.Plan(2, 100.0, 100)
    options = SplitOptions(small_text_options())
    rows = rows_of(20 * TEXT)
    with (
        ThreadPoolExecutor(1) as pool,
        writer.BatchWriter(tmp_path, plan, options, pool) as batch,
        pytest.raises(StorageError, match=TOO_LARGE),
    ):
        batch.append(rows)
    assert len(list(tmp_path.iterdir())) <= 12


@pytest.mark.parametrize("how", ["add", "relabel", "long path"])
def test_an_addition_that_makes_too_large_a_manifest_changes_nothing(
    tmp_path, small_manifests, how
):
    store = make_store(tmp_path, TEXT, blocks=3)
    before = {path: path.read_bytes() for path in store.folder.rglob("*") if path.is_file()}
    more = tmp_path / ("x" * 200 + ".svm" if how == "long path" else "more.svm")
    labels = range(300) if how == "relabel" else (1, 1)
    more.write_text("".join(f"{label} 1:1\n" for label in labels))
    options = AddOptions(small_text_options(index_base="auto"), blocks=1 if how != "add" else 9)
    with pytest.raises(StorageError, match=TOO_LARGE):
        add(store, [more], options)
    assert {p: p.read_bytes() for p in store.folder.rglob("*") if p.is_file()} == before
    assert Manifest.load(store.folder).n_rows == 7
