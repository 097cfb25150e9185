"""What options do to a store: its base, its features, the scale of its rows, lines left out."""

import json
import os
from threading import Thread

import numpy as np
import pytest

from blocklinear.errors import DamagedError, InputFormatError, UsageError
from blocklinear.events import Warned
from blocklinear.ingest.split import split
from blocklinear.kernels.blocks.scaling import normalize_rows
from blocklinear.options import SplitOptions, TextOptions
from blocklinear.store.manifest import Manifest
from blocklinear.store.store import BlockStore

from .build import (
    TEXT,
    all_rows,
    expected_rows,
    make_store,
    random_text,
    small_text_options,
    tree,
)


def store_of(folder, text, name="store", heard=None, **options):
    text_options = small_text_options(**{
        key: options.pop(key) for key in list(options) if hasattr(TextOptions, key)
    })  # fmt: skip
    if heard is None:
        return make_store(folder, text, name, text_options, **options)
    (folder / name).with_suffix(".svm").write_bytes(text)
    options = SplitOptions(text=text_options, blocks=2, **options)
    return split([folder / f"{name}.svm"], folder / name, options, heard.append)


def source_of(store):
    (source,) = store.manifest.batches[0]["sources"]
    return source


# --index-base auto


@pytest.mark.parametrize(
    ("text", "base", "n_features"),
    [
        (b"1 1:1 5:2\n-1 2:3\n", 1, 5),
        (b"1 1:1 5:2\n-1 0:3\n", 0, 6),
        (b"1 1:1 5:2\n-1 0:0\n", 0, 6),  # an explicit zero
        (b"1 1:1 5:2\n-1 0:1e-324 2:1\n", 0, 6),  # one that only rounds to it
        (b"1 1:1 5:0\n-1 3:1\n", 1, 5),
        (b"1\n-1\n", 1, 0),
        (b"1 0:0\n-1\n", 0, 1),
    ],
)
@pytest.mark.parametrize("lenient", [{}, {"unsorted": "sort"}, {"duplicates": "sum"}], ids=str)
def test_the_base_is_found(tmp_path, text, base, n_features, lenient):
    store = store_of(tmp_path, text, index_base="auto", **lenient)
    assert (store.manifest.index_base, store.manifest.dimension) == (base, n_features)
    given = store_of(tmp_path, text, "given", index_base=base)
    auto, known = ({k: v for k, v in tree(s.folder).items() if k[0] == "b"} for s in (store, given))
    assert auto == known
    assert given.manifest.dimension == n_features
    assert all_rows(store.folder, store.manifest) == expected_rows(text, base)
    assert store.verify().faults == []


def test_a_skipped_line_does_not_tell_the_base(tmp_path):
    store = store_of(tmp_path, b"1 0:1 3:x\n1 3:1\n", index_base="auto", on_error="skip")
    assert (store.manifest.index_base, store.manifest.dimension) == (1, 3)


def test_the_base_of_several_inputs_is_one(tmp_path):
    for name, text in (("a", b"1 1:1\n"), ("b", b"-1 0:1 4:1\n")):
        (tmp_path / name).write_bytes(text)
    options = SplitOptions(text=small_text_options(index_base="auto"), blocks=1)
    store = split([tmp_path / "a", tmp_path / "b"], tmp_path / "s", options)
    assert all_rows(store.folder, store.manifest) == {0: (1.0, {1: 1.0}), 1: (-1.0, {0: 1, 4: 1})}


def test_the_base_of_a_stream_cannot_be_found(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for path in ("-", tmp_path / "fifo"):
        options = SplitOptions(text=small_text_options(index_base="auto"))
        with pytest.raises(UsageError, match="known only at its end"):
            split([path], tmp_path / "s", options)
    assert os.listdir(tmp_path) == ["fifo"]


# --unsorted, --duplicates


def test_sorted_and_merged_rows_are_those_written_so(tmp_path):
    text = b"1 3:1 1:2\n-1 2:1 2:0.5\n1 5:1 2:3 5:-1 5:0\n-1 7:1\n"
    store = store_of(tmp_path, text, unsorted="sort", duplicates="sum")
    clean = store_of(tmp_path, b"1 1:2 3:1\n-1 2:1.5\n1 2:3 5:0\n-1 7:1\n", "clean")
    assert store.manifest.fingerprint == clean.manifest.fingerprint
    source = source_of(store)
    assert (source["sorted_rows"], source["merged_entries"], source["zeros"]) == (2, 3, 1)
    assert (source_of(clean)["sorted_rows"], source_of(clean)["merged_entries"]) == (0, 0)
    assert "\n2 rows were sorted\n3 repeated entries were added up" in store.summary()


def test_a_duplicate_is_refused_unless_it_may_be_summed(tmp_path):
    with pytest.raises(InputFormatError, match=r"store\.svm:2:11: index 3 is repeated"):
        store_of(tmp_path, b"1 1:1\n1 3:1 2:1 3:1\n", unsorted="sort")
    assert os.listdir(tmp_path) == ["store.svm"]


# --hash-bits


@pytest.mark.parametrize("base", [0, 1, "auto"])
def test_a_hashed_store(tmp_path, base):
    text = random_text(60, per_row=30)
    store = store_of(tmp_path, text, hash_bits=6, index_base=base)
    manifest = store.manifest
    assert (manifest.hash_bits, manifest.n_features, manifest.index_base) == (6, 64, 0)
    rows = all_rows(store.folder, manifest)
    plain = expected_rows(text, 0)
    assert all(0 <= column < 64 for _, row in rows.values() for column in row)
    for number, (label, row) in rows.items():
        assert label == plain[number][0]
        assert sum(row.values()) == pytest.approx(sum(plain[number][1].values()))
    lost = sum(len(row) for _, row in plain.values()) - manifest.nnz
    assert source_of(store)["hash_collisions"] == lost > 0
    assert f"features hashed to 6 bits: {lost} collisions" in store.summary()
    assert store.describe()["hash_bits"] == 6
    assert store.verify().faults == []


def test_an_index_is_hashed_the_same_for_ever(tmp_path):
    text = b"1 0:1 1:2 4294967295:3\n"
    store = store_of(tmp_path, text, hash_bits=31, max_features=1 << 31)
    columns = {0xE220A8397B1DCDAF >> 33: 1.0, 0x910A2DEC89025CC1 >> 33: 2.0, 970497489: 3.0}
    assert all_rows(store.folder, store.manifest)[0][1] == columns


def test_a_hashed_stream_needs_no_base(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    options = SplitOptions(text=small_text_options(index_base="auto", hash_bits=4), blocks=1)
    text = b"1 0:1\n-1 9:1\n"
    writer = Thread(target=(tmp_path / "fifo").write_bytes, args=(text,), daemon=True)
    writer.start()
    store = split([tmp_path / "fifo"], tmp_path / "s", options)
    writer.join()
    assert (store.manifest.n_rows, store.manifest.dimension) == (2, 16)


# --normalize l2


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_rows_are_normalized_when_read(tmp_path, dtype):
    text = random_text(80) + b"1\n-1 3:0 4:1e-200 5:1e-200\n"
    store = store_of(tmp_path, text, normalize="l2", dtype=dtype)
    plain = store_of(tmp_path, text, "plain", dtype=dtype)
    assert store.manifest.fingerprint == plain.manifest.fingerprint  # kept as written
    assert store.manifest.normalize == "l2"
    found, as_written = (all_rows(s.folder, s.manifest) for s in (store, plain))
    for number, (label, row) in as_written.items():
        values = np.array(list(row.values()), dtype)
        normalize_rows(np.array([len(values)]), values, np.zeros(1))
        assert found[number] == (label, dict(zip(row, values.tolist(), strict=True)))
    assert store.verify().faults == []
    assert "rows are divided by their norm" in store.summary()


# --on-error skip


def test_skipped_lines_are_listed(tmp_path):
    bad = b"".join(b"x%d\n" % i for i in range(30))
    store = store_of(tmp_path, b"1 1:1\n" + bad + b"-1 2:1 1:1\n-1 2:1\n", on_error="skip")
    path = tmp_path / "store.svm"
    listed = (store.folder / "skipped.txt").read_text().splitlines()
    assert listed == [
        *(f"{path}:{i + 2}:1: label 'x{i}' is not a finite number" for i in range(30)),
        f"{path}:32:8: index 1 follows a larger one",
    ]
    assert source_of(store)["skipped"] == 31
    assert "31 lines were skipped" in store.summary()
    assert store.verify().unused_files == []


def test_without_skipped_lines_there_is_no_list(tmp_path):
    assert not (store_of(tmp_path, TEXT, on_error="skip").folder / "skipped.txt").exists()


def test_too_many_skipped_lines_leave_nothing(tmp_path):
    with pytest.raises(InputFormatError):
        store_of(tmp_path, b"1 1:1\nx\ny\n", on_error="skip", max_errors=1)
    assert os.listdir(tmp_path) == ["store.svm"]


# a warning of weights that no training could hold


def test_too_many_features_for_the_budget(tmp_path):
    last = (256 << 20) // 8 - 2  # two of them occur: so a model, and what it is made from, fit
    for name, index, warned in (("fits", last, False), ("more", last + 1, True)):
        heard = []
        store_of(tmp_path, b"1 1:1\n-1 %d:1\n" % index, name, heard, max_features=1 << 32)
        messages = [event.message for event in heard if isinstance(event, Warned)]
        assert [m.startswith(f"{index} features: ") for m in messages] == [True] * warned
        for message in messages:
            assert f"take {8 * (index + 2)} bytes (256M)" in message
            assert "--hash-bits" in message
            assert "--memory" in message


# the manifest


@pytest.mark.parametrize(
    "changes",
    [
        {"hash_bits": 32},
        {"hash_bits": -1},
        {"hash_bits": "6"},
        {"hash_bits": 5},
        {"index_base": 1},
        {"dimension": 63},
        {"normalize": "l1"},
        {"normalize": None},
    ],
    ids=str,
)
def test_impossible_options_are_refused(tmp_path, changes):
    from .test_manifest import seal

    store = store_of(tmp_path, TEXT, hash_bits=6)
    content = json.loads((store.folder / "manifest.json").read_bytes())["manifest"]
    assert Manifest.load(store.folder).hash_bits == 6
    seal(store.folder, content | changes)
    with pytest.raises(DamagedError):
        BlockStore.open(store.folder)


@pytest.mark.parametrize(
    "options",
    [
        {"index_base": 2}, {"index_base": "1"}, {"unsorted": "drop"}, {"duplicates": "last"},
        {"hash_bits": -1}, {"hash_bits": 32},
    ],
    ids=str,
)  # fmt: skip
def test_options_out_of_range(options):
    with pytest.raises(UsageError, match=next(iter(options)).replace("_", ".")):
        TextOptions(**options)
    with pytest.raises(UsageError, match="normalize"):
        SplitOptions(normalize="max")
