"""Stores whose rows have weights: each row keeps its own, whatever is done to the store."""

import gzip
import json
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from blocklinear.errors import DamagedError, InputError, MismatchError, UsageError
from blocklinear.ingest.add import add
from blocklinear.ingest.compact import compact
from blocklinear.ingest.split import split
from blocklinear.ingest.text_store import store_of
from blocklinear.ingest.writer import BatchWriter, Plan
from blocklinear.options import AddOptions, SplitOptions
from blocklinear.store import blocks, codec
from blocklinear.store.changes import remove
from blocklinear.store.manifest import Manifest
from blocklinear.store.store import BlockStore
from blocklinear.training.garbage import collect_garbage

from .build import (
    HandMadeChunk,
    load,
    make_store,
    random_text,
    rows_of,
    small_text_options,
    store_of_chunk,
    tree,
)
from .changing import intact

N = 3000
WEIGHTS = (0.0, 0.25, 1.0, 2.0, 7.5)


def weights_of(n, seed=0):
    rng = np.random.default_rng(seed)
    return np.where(rng.random(n) < 0.8, rng.choice(WEIGHTS, n), rng.random(n) * 10)


def write(path, weights):
    path.write_text("".join(f"{x!r}\n" for x in weights.tolist()))
    return str(path)


def weighted_store(folder, text, weights, name="store", text_options=None, **options):
    path = write(folder / f"{name}.weights", weights)
    return make_store(folder, text, name, text_options, weights=path, **options)


def found_in(store):
    """Return {row number: weight}."""
    m = store.manifest
    group = load(store.folder, m, range(len(m.blocks)))
    return dict(zip(group.row_numbers.tolist(), group.weights.tolist(), strict=True))


@pytest.fixture(scope="module")
def text():
    return random_text(N)


@pytest.mark.parametrize(
    "options",
    [{}, {"blocks": None}, {"order": "file"}, {"normalize": "l2", "dtype": "float32"}, {"seed": 9}],
    ids=str,
)
def test_each_row_has_its_weight(tmp_path, text, options):
    weights = weights_of(N)
    store = weighted_store(tmp_path, text, weights, compression="zstd:1", **options)
    assert found_in(store) == dict(enumerate(weights.tolist()))
    assert intact(store)
    m = store.manifest
    assert (m.weighted, m.format) == (True, 4)
    assert m.weights["zeros"] == (weights == 0.0).sum()
    assert (m.weights["least"], m.weights["largest"]) == (weights[weights > 0].min(), weights.max())
    assert m.weights["total"] == pytest.approx(weights.sum(), rel=1e-12)
    labels = np.array([float(line.split()[0]) for line in text.decode().splitlines()])
    sums = [weights[labels == label].sum() for label in m.labels]
    assert m.weights["sums"] == pytest.approx(sums, rel=1e-12)


def test_hashed_rows_have_theirs(tmp_path, text):
    weights = weights_of(N)
    how = small_text_options(hash_bits=6, unsorted="sort")
    store = weighted_store(tmp_path, text, weights, text_options=how)
    assert found_in(store) == dict(enumerate(weights.tolist()))


def test_generations_of_blocks_and_long_rows(tmp_path):
    text = random_text(400) + b"1 " + b" ".join(b"%d:1" % k for k in range(1, 3000)) + b"\n"
    weights = weights_of(401)
    (tmp_path / "blocks").mkdir()
    options = SplitOptions(text=small_text_options(), weights="w")
    plan = Plan(open_blocks=3, generation_bytes=9000, chunk_entries=2000)
    with ThreadPoolExecutor(2) as pool:
        writer = BatchWriter(tmp_path / "blocks", plan, options, pool)
        writer.append(replace(rows_of(text), weights=weights))
        records, _ = writer.finish()
    assert len(records) > 6
    empty = [record for record in records if not record.rows]
    assert all(record.weights["zeros"] == 0 == record.weights["largest"] for record in empty)
    assert sum(record.weights["total"] for record in records) == pytest.approx(weights.sum())


def test_threads_change_nothing(tmp_path, text):
    trees = []
    for threads in (1, 2, 5):
        folder = tmp_path / str(threads)
        folder.mkdir()
        how = small_text_options(threads=threads)
        weighted_store(folder, text, weights_of(N), text_options=how, blocks=7)
        made = tree(folder / "store")
        body = re.sub(rb'"(checksum|path)":"[^"]*"|"mtime_ns":\d+', b"", made.pop("manifest.json"))
        trees.append((made, body))
    assert trees[0] == trees[1] == trees[2]


def test_weights_are_all_that_is_other(tmp_path, text):
    plain = make_store(tmp_path, text, "plain")
    weighted = weighted_store(tmp_path, text, weights_of(N))
    assert plain.manifest.weights["total"] == N
    group = load(plain.folder, plain.manifest, [0, 1, 2])
    assert group.weights is None
    other = load(weighted.folder, weighted.manifest, [0, 1, 2])
    for name in ("indptr", "indices", "values", "labels", "row_numbers"):
        assert getattr(group, name).tolist() == getattr(other, name).tolist()
    assert b'"weights"' not in (plain.folder / "manifest.json").read_bytes()
    assert plain.manifest.fingerprint != weighted.manifest.fingerprint


def test_several_inputs_with_skipped_lines(tmp_path):
    (tmp_path / "a").write_text("1 1:1\n\nx 1:1\n-1 2:1\n# nothing\n")
    (tmp_path / "b").write_text("1 1:x\n1 3:1\n")
    weights = tmp_path / "w.gz"
    weights.write_bytes(gzip.compress(b"1\n99\n2\n99\n3\n", mtime=0))
    text = small_text_options(on_error="skip")
    options = SplitOptions(text=text, blocks=2, weights=str(weights))
    store = split([tmp_path / "a", tmp_path / "b"], tmp_path / "s", options)
    assert found_in(store) == {0: 1.0, 1: 2.0, 2: 3.0}
    (batch,) = store.manifest.batches
    (file,) = batch["weights"]
    assert (file["path"], file["size"]) == (str(weights), weights.stat().st_size)
    assert len(file["xxh64"]) == 16


@pytest.mark.parametrize("data", ["1\n2\n", "1\n2\n3\n4\n", "1\n-2\n3\n"], ids=repr)
def test_nothing_is_left_of_a_refused_split(tmp_path, data):
    (tmp_path / "a").write_text("1 1:1\n-1 2:1\n1 3:1\n")
    (tmp_path / "w").write_text(data)
    options = SplitOptions(text=small_text_options(), weights=str(tmp_path / "w"))
    with pytest.raises(InputError, match="weight"):
        split([tmp_path / "a"], tmp_path / "s", options)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "w"]
    with pytest.raises(UsageError, match="both"):
        split(["-"], tmp_path / "s", replace(options, weights="-"))


def more(store, text, weights, **options):
    k = len(store.manifest.batches)
    path = store.folder.parent / f"more{k}.svm"
    path.write_bytes(text)
    file = None if weights is None else write(path.with_suffix(".w"), weights)
    how = small_text_options(index_base="auto")
    return add(store, [path], AddOptions(how, weights=file, **options))


def test_weights_follow_their_rows_through_changes(tmp_path, text):
    first, second, third = weights_of(N), weights_of(50, 1), weights_of(40, 2)
    store = weighted_store(tmp_path, text, first, blocks=6)
    store = more(store, random_text(50, 1), second, batch="two", blocks=4)
    store = more(store, b"9 1:1\n" + random_text(39, 2), third, batch="three")
    expected = dict(enumerate([*first.tolist(), *second.tolist(), *third.tolist()]))
    assert found_in(store) == expected
    sums = store.manifest.weights["sums"]
    assert (len(sums), sums[3]) == (4, third[0])
    store = compact(store, block_bytes=1 << 30, merge_batches=("rest", ["two", "three"]))
    assert len(store.manifest.blocks) == 2
    assert found_in(store) == expected
    assert store.manifest.weights["sums"] == pytest.approx(sums, rel=1e-12)
    assert len(store.manifest.batches[1]["weights"]) == 2
    store = remove(store, ["b1"])
    collect_garbage(store)
    store = BlockStore.open(store.folder)
    assert found_in(store) == {row: w for row, w in expected.items() if row >= N}
    assert intact(store)


def test_a_store_has_weights_or_has_none(tmp_path, text):
    plain = make_store(tmp_path, text, "plain")
    weighted = weighted_store(tmp_path, text, weights_of(N))
    for store, weights, match in (
        (plain, weights_of(3), "have no weights"),
        (weighted, None, "have weights"),
    ):
        before = tree(store.folder)
        with pytest.raises(MismatchError, match=match) as caught:
            more(store, b"1 1:1\n2 1:1\n1\n", weights)
        assert "--weights" in caught.value.fix
        assert tree(store.folder) == before


def test_a_store_beside_its_text_has_none(tmp_path):
    make_store(tmp_path, b"1 1:1\n-1 2:1\n", "t")
    weights = write(tmp_path / "w", np.ones(2))
    options = SplitOptions(text=small_text_options(), weights=weights)
    split([tmp_path / "t.svm"], tmp_path / "t.svm.blocks", options)
    with pytest.raises(MismatchError, match="its rows have weights"):
        store_of(tmp_path / "t.svm")
    assert BlockStore.open(tmp_path / "t.svm.blocks").manifest.weighted
    assert store_of(tmp_path / "t.svm.blocks").manifest.weighted


def chunk_with(weights):
    rows = np.arange(3)
    one = np.ones(3, np.int64)
    zero = np.zeros(3, np.uint8)
    return codec.encode(
        codec.Chunk(
            rows, one.copy(), one.copy(), zero.copy(), one.astype(np.uint32), one.copy(),
            zero.copy(), None if weights is None else np.array(weights),
        ),
        None,
    )  # fmt: skip


def store_with(folder, chunk, **changes):
    """A store of one chunk of format 2, every checksum right."""
    manifest = store_of_chunk(folder, chunk)
    weights = {"zeros": 0, "least": 1.0, "largest": 3.0, "total": 6.0, "sums": []} | changes
    (batch,), (block,) = manifest.batches, manifest.blocks
    manifest = replace(
        manifest,
        format=2,
        batches=[batch | {"weights": []}],
        blocks=[replace(block, weights=weights)],
    )
    manifest.save(folder)
    return manifest


def test_a_weighted_chunk_by_hand(tmp_path):
    chunk = HandMadeChunk()
    chunk.fields["flags"] = 4
    weights = np.array([1.0, 0.0, 0.3])
    planes = weights.view(np.uint8).reshape(3, 8).T.tobytes()
    whole = bytes(chunk)
    # the frame comes last: one length more in the header, one frame more at the end
    at = 4 + 16 + 8 + 6 + 1 + 1
    count = int.from_bytes(whole[at : at + 2], "little")
    start = at + 2 + len(chunk.exponents) + 4 * count
    data = whole[:at] + (count + 1).to_bytes(2, "little") + whole[at + 2 : start]
    data += len(planes).to_bytes(4, "little") + whole[start:] + planes
    manifest = store_with(tmp_path / "s", data, zeros=1, least=0.3, largest=1.0, total=1.3)
    assert load(tmp_path / "s", manifest, [0]).weights.tolist() == [1.0, 0.0, 0.3]
    assert BlockStore.open(tmp_path / "s").verify().faults == []


@pytest.mark.parametrize("weight", [-1.0, np.nan, np.inf, -np.inf])
def test_weights_that_cannot_be_are_refused(tmp_path, weight):
    manifest = store_with(tmp_path / "s", chunk_with([1.0, weight, 3.0]))
    with pytest.raises(DamagedError, match="a weight is impossible"):
        load(tmp_path / "s", manifest, [0])


def test_chunks_fit_the_store(tmp_path):
    manifest = store_with(tmp_path / "a", chunk_with(None))
    with pytest.raises(DamagedError, match="has none, or the other way round"):
        load(tmp_path / "a", manifest, [0])
    manifest = store_of_chunk(tmp_path / "b", chunk_with([1.0, 2.0, 3.0]))
    with pytest.raises(DamagedError, match="has none, or the other way round"):
        load(tmp_path / "b", manifest, [0])


@pytest.mark.parametrize(
    "wrong", [{"zeros": 1}, {"least": 0.5}, {"largest": 4.0}, {"total": 6.1}], ids=str
)
def test_verify_adds_them_up(tmp_path, wrong):
    store_with(tmp_path / "s", chunk_with([1.0, 2.0, 3.0]))
    assert BlockStore.open(tmp_path / "s").verify().faults == []
    store_with(tmp_path / "t", chunk_with([1.0, 2.0, 3.0]), **wrong)
    (fault,) = BlockStore.open(tmp_path / "t").verify().faults
    assert "its weights are not those added up" in fault


def test_damage_to_a_weight_is_seen(tmp_path):
    store = weighted_store(tmp_path, b"1 1:1\n-1 2:1\n", np.array([1.5, 2.5]), blocks=1)
    (path,) = store.blocks_folder.iterdir()
    data = bytearray(path.read_bytes())
    end = len(data) - blocks.TRAILER_BYTES - 28
    data[end - 1] ^= 1
    path.write_bytes(data)
    with pytest.raises(DamagedError, match="does not match its checksum"):
        load(store.folder, store.manifest, [0])


@pytest.mark.parametrize(
    "change",
    [
        {}, {"zeros": -1}, {"zeros": 9}, {"zeros": 0.5}, {"least": -1.0},
        {"least": 4.0}, {"least": 0.0}, {"least": 1}, {"largest": "3"}, {"total": -1.0},
        {"sums": 1.0}, {"sums": [1.0]}, {"sums": [1.0, -2.0]}, {"sums": [1, 2.0]}, {"more": 1},
    ],
    ids=str,
)  # fmt: skip
def test_what_a_manifest_cannot_say_of_weights(tmp_path, change):
    store = weighted_store(tmp_path, b"1 1:1\n-1 2:1\n1\n", np.array([1.0, 2.0, 0.0]), blocks=1)
    m = store.manifest
    (block,) = m.blocks
    weights = block.weights | change if change else {}
    replace(m, blocks=[replace(block, weights=weights)]).save(store.folder)
    with pytest.raises(DamagedError, match="damaged"):
        Manifest.load(store.folder)


@pytest.mark.parametrize("where", ["block", "batch", "format"])
def test_weights_and_format_belong_together(tmp_path, where):
    m = weighted_store(tmp_path, b"1 1:1\n-1 2:1\n", np.ones(2), blocks=1).manifest
    plain = make_store(tmp_path, b"1 1:1\n-1 2:1\n", "plain", blocks=1).manifest
    wrong = {
        "block": replace(plain, blocks=m.blocks),
        "batch": replace(plain, batches=m.batches),
        "format": replace(m, format=1, batches=plain.batches),
    }[where]
    with pytest.raises(ValueError):  # noqa: PT011
        wrong.check()


def test_info(tmp_path):
    weights = np.array([0.5, 2.0, 0.0])
    store = weighted_store(tmp_path, b"1 1:1\n-1 2:1\n1\n", weights)
    assert "weights of rows: 0.5 to 2, 2.5 in all; 1 row has weight 0" in store.summary()
    assert "with weights from " in store.summary()
    facts = json.loads(json.dumps(store.describe()))
    assert facts["weights"] == {"zeros": 1, "least": 0.5, "largest": 2.0, "total": 2.5}
    plain = make_store(tmp_path, b"1 1:1\n-1 2:1\n", "plain")
    assert "weight" not in plain.summary()
    assert plain.describe()["weights"] is None
