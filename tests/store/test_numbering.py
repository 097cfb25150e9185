"""Which numbers features get in a store, and the files that tell what they mean."""

import errno
import hashlib
import json
import os
import random
import re
import tracemalloc
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import zstandard

from blocklinear import AddOptions, add, collect_garbage, compact, remove
from blocklinear.errors import DamagedError, InputFormatError, MemoryBudgetError
from blocklinear.ingest import numbering
from blocklinear.ingest.numbering import COUNTED_ROWS, Numbering
from blocklinear.ingest.split import split
from blocklinear.ingest.writer import Plan
from blocklinear.kernels.blocks import features as kernels
from blocklinear.options import SplitOptions
from blocklinear.store.features import any_twice, read_features, write_features
from blocklinear.store.store import BlockStore
from blocklinear.training import train

from .build import (
    TEXT,
    all_rows,
    expected_rows,
    make_store,
    random_text,
    rows_of,
    small_text_options,
    tree,
    write_batch,
)
from .test_manifest import inner, seal

MEMORY = 256 << 20
ANY = small_text_options(memory_bytes=MEMORY, max_features=1 << 32)


def features_of(store):
    return read_features(store.folder, store.manifest).tolist()


def by_counts(lines, n_rows=COUNTED_ROWS):
    """The order of features, the slow way."""
    rows = [[int(word.split(b":")[0]) for word in line.split()[1:]] for line in lines]
    counts = Counter(index for row in rows[:n_rows] for index in row)
    first = sorted(counts, key=lambda index: -counts[index])
    return list(dict.fromkeys(first + [index for row in rows for index in row]))


def growing_text(n_rows, seed=0):
    """Rows of features of all frequencies, among which new ones come up to the end."""
    rng = random.Random(seed)
    lines = []
    for k in range(n_rows):
        chosen = {int(rng.paretovariate(0.7)) % 200_000 + 1 for _ in range(12)}
        chosen |= {10**6 + 37 * k, 4 * 10**9 - 5 * k}
        lines.append(b"%d %s\n" % (k % 2, b" ".join(b"%d:1.5" % i for i in sorted(chosen))))
    return lines


# the order


def test_features_are_ordered_by_counts_then_as_they_appear(tmp_path):
    lines = growing_text(COUNTED_ROWS + 500)
    text = small_text_options(max_features=1 << 32)
    store = make_store(tmp_path, b"".join(lines), text_options=text)
    assert features_of(store) == by_counts(lines)
    assert store.manifest.n_features == len(features_of(store)) < store.manifest.dimension


@pytest.mark.parametrize("hash_bits", [0, 13])
@pytest.mark.parametrize("n_rows", [40, COUNTED_ROWS, 20_000])
def test_threads_change_no_byte(tmp_path, n_rows, hash_bits):
    source = tmp_path / "rows.svm"
    source.write_bytes(b"".join(growing_text(n_rows)))
    stores = []
    for threads in (1, 2, 5):
        text = small_text_options(
            threads=threads, memory_bytes=160 << 20, hash_bits=hash_bits, max_features=1 << 32
        )
        options = SplitOptions(text=text, blocks=3)
        stores.append(tree(split([source], tmp_path / f"s{threads}", options).folder))
    assert stores[1] == stores[0]
    assert stores[2] == stores[0]


@pytest.mark.parametrize("looked_up", [False, True])
@pytest.mark.parametrize("most_held", [1, 60, 1 << 20])
def test_how_rows_are_cut_into_pieces_does_not_matter(looked_up, most_held):
    lines = growing_text(60)
    expected = None
    for size in (60, 1, 7):
        numbers = Numbering(ANY, None, most_held)
        found = []
        for start in range(0, len(lines), size):
            rows = rows_of(b"".join(lines[start : start + size]))
            found += numbers.numbered(numbers.look_up(rows) if looked_up else rows)
        found += numbers.rest()
        columns = np.concatenate([rows.indices for rows in found])
        assert sum(rows.n_rows for rows in found) == 60
        assert expected in (None, columns.tolist())
        expected = columns.tolist()
        ends = rows_of(b"".join(lines)).indptr[1:]
        n_counted = int(np.searchsorted(ends, most_held, "right"))
        assert numbers.new_indices().tolist() == by_counts(lines, n_counted)
        indices = rows_of(b"".join(lines)).indices
        assert numbers.new_indices()[columns].tolist() == indices.tolist()


def test_what_was_numbered_since_it_was_looked_up():
    """Others read the table while it grows: what they miss is found by the one who writes."""
    numbers = Numbering(ANY, np.array([7], np.uint32))
    early = [numbers.look_up(rows_of(b"1 3:1 7:1 9:1\n")) for _ in range(2)]
    assert early[1].missing.tolist() == [0, 2]
    found = [rows for piece in early for rows in numbers.numbered(piece)]
    assert [rows.indices.tolist() for rows in found] == [[1, 0, 2]] * 2
    assert numbers.new_indices().tolist() == [3, 9]


@pytest.mark.parametrize("chunk_entries", [3, 1000])
def test_rows_that_are_longer_than_a_chunk(tmp_path, chunk_entries):
    """They are sorted where they lie."""
    lines = growing_text(50)
    numbers = Numbering(ANY)
    manifest = write_batch(
        tmp_path / "s", [b"".join(lines)], Plan(2, np.inf, chunk_entries), numbering=numbers
    )
    assert all_rows(tmp_path / "s", manifest) == expected_rows(b"".join(lines))


# the budget


def test_a_table_that_the_budget_does_not_hold(tmp_path):
    spread = b"".join(b"1 %d:1\n" % (4096 * k + 1) for k in range(300))
    text = small_text_options(memory_bytes=82 << 20, max_features=1 << 32)
    with pytest.raises(MemoryBudgetError, match="table of their numbers takes 1M") as caught:
        make_store(tmp_path, spread, text_options=text, blocks=1)
    assert caught.value.exit_code == 7
    assert "--hash-bits" in caught.value.fix
    assert os.listdir(tmp_path) == ["store.svm"]
    dense = b"".join(b"1 %d:1\n" % (k + 1) for k in range(300))
    store = make_store(tmp_path, dense, "dense", text_options=text, blocks=1)
    (tmp_path / "more").write_bytes(spread)
    before = tree(store.folder)
    more = AddOptions(text=replace(text, index_base="auto"), blocks=1)
    with pytest.raises(MemoryBudgetError, match=r"after 55\d features"):
        add(store, [tmp_path / "more"], more)
    assert tree(store.folder) == before
    roomy = make_store(tmp_path, spread, "roomy", blocks=1,
                       text_options=replace(text, memory_bytes=MEMORY))  # fmt: skip
    with pytest.raises(MemoryBudgetError, match="after 300 features"):
        add(roomy, [tmp_path / "store.svm"], replace(more, allow_duplicate=True))


def test_a_system_that_gives_no_addresses(tmp_path, monkeypatch):
    def refuse(n_bytes, sparse=False):
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    monkeypatch.setattr(numbering, "Pages", refuse)
    with pytest.raises(MemoryBudgetError, match="no addresses for the numbers of 901") as caught:
        make_store(tmp_path, text_options=small_text_options(max_features=900))
    assert "--max-features" in caught.value.fix


# changes


def added(tmp_path, store, text, **options):
    (tmp_path / "more").write_bytes(text)
    how = small_text_options(index_base="auto", max_features=1 << 32)
    return add(store, [tmp_path / "more"], AddOptions(text=how, blocks=1, **options))


def test_add_appends_and_others_change_nothing(tmp_path):
    store = make_store(tmp_path)
    assert features_of(store) == [1, 2, 3, 900, 7, 4]
    first = tree(store.folder)["features/f00000000.map"]
    store = added(tmp_path, store, b"1 5:1 900:1 4000000000:1\n-1 2:1 5:2\n", batch="more")
    assert features_of(store) == [1, 2, 3, 900, 7, 4, 5, 4000000000]
    assert [file.features for file in store.manifest.features] == [6, 2]
    assert (store.manifest.n_features, store.manifest.dimension) == (8, 4_000_000_000)
    store = added(tmp_path, store, b"1 7:1\n", batch="known")
    assert len(store.manifest.features) == 2
    assert tree(store.folder)["features/f00000000.map"] == first
    rows = all_rows(store.folder, store.manifest)
    store = compact(store, block_bytes=10_000)
    assert all_rows(store.folder, store.manifest) == rows
    store = remove(store, ["more"])
    collect_garbage(store)
    store = BlockStore.open(store.folder)
    assert features_of(store) == [1, 2, 3, 900, 7, 4, 5, 4000000000]
    assert all_rows(store.folder, store.manifest) == {
        k: row for k, row in rows.items() if k not in (7, 8)
    }
    report = store.verify()
    assert (report.faults, report.unused_files) == ([], [])


def test_what_a_killed_add_left_goes(tmp_path):
    store = make_store(tmp_path)
    stray = store.folder / "features" / "f00000001.map"
    stray.write_bytes(b"left behind")
    assert store.verify().unused_files == ["f00000001.map"]
    collect_garbage(store)
    assert not stray.exists()
    stray.write_bytes(b"left behind")
    with pytest.raises(InputFormatError):
        added(tmp_path, store, b"1 5:1\nx\n")
    assert not stray.exists()
    stray.write_bytes(b"left behind")
    store = added(tmp_path, store, b"1 5:1\n")
    assert features_of(store)[-1] == 5


def test_a_store_of_an_earlier_format_keeps_it(tmp_path):
    store = make_store(tmp_path, renumber=False)
    assert (store.manifest.format, store.manifest.dimension) == (1, 900)
    assert read_features(store.folder, store.manifest) is None
    more = b"1 5:1 1000:1\n"
    store = added(tmp_path, store, more)
    assert (store.manifest.format, store.manifest.n_features) == (1, 1000)
    assert not (store.folder / "features").exists()
    assert all_rows(store.folder, store.manifest) == expected_rows(TEXT + more)
    assert store.verify().faults == []


# damage


@pytest.mark.parametrize("compression", ["none", "zstd:1"])
@pytest.mark.parametrize("n", [1, 2, 5000])
def test_a_file_reads_back(tmp_path, n, compression):
    store = make_store(tmp_path)
    indices = np.random.default_rng(n).choice(2**32, n, replace=False).astype(np.uint32)
    indices[: n // 2].sort()
    record = write_features(store.folder, 0, indices.copy(), 1 if compression == "zstd:1" else None)
    m = replace(store.manifest, n_features=n, dimension=2**32 - 1, features=[record])
    assert read_features(store.folder, m).tolist() == indices.tolist()


def test_a_frame_as_long_as_its_planes_is_not_taken_for_them(tmp_path):
    """Two in three of these sets have frames of just 32 bytes."""
    store, rng, lengths = make_store(tmp_path), np.random.default_rng(0), Counter()
    for _ in range(1000):
        indices = rng.choice(40_000, 8, replace=False).astype(np.uint32)
        record = write_features(store.folder, 0, indices.copy(), 1)
        m = replace(store.manifest, n_features=8, dimension=40_000, features=[record])
        m = replace(m, index_base=0)
        assert read_features(store.folder, m).tolist() == indices.tolist()
        lengths[record.bytes] += 1
    assert max(lengths) == 24 + 32  # no frame is longer than the planes


def test_such_a_frame_of_an_earlier_version_is_read(tmp_path):
    store, n_found = make_store(tmp_path), 0
    rng = np.random.default_rng(0)
    for _ in range(1000):
        indices = rng.choice(40_000, 8, replace=False).astype(np.uint32)
        record = write_features(store.folder, 0, indices.copy(), None)
        path = store.folder / "features" / record.name
        data = path.read_bytes()
        packer = zstandard.ZstdCompressor(level=1).compressobj(size=32)
        frame = b"".join(packer.compress(data[k : k + 8]) for k in range(24, 56, 8))
        frame += packer.flush()
        if len(frame) != 32:
            continue
        n_found += 1
        path.write_bytes(data[:24] + frame)
        record = replace(record, sha256=hashlib.sha256(path.read_bytes()).hexdigest())
        m = replace(store.manifest, n_features=8, dimension=40_000, index_base=0, features=[record])
        assert read_features(store.folder, m).tolist() == indices.tolist()
    assert n_found > 0


def refused(store, match):
    with pytest.raises(DamagedError, match=match) as caught:
        read_features(store.folder, store.manifest)
    assert caught.value.exit_code == 4
    (fault,) = store.verify().faults
    assert fault == str(caught.value)
    with pytest.raises(DamagedError, match=match):
        train(store)
    with pytest.raises(DamagedError, match=match):
        add(store, [store.folder.with_name("store.svm")], AddOptions(allow_duplicate=True))


@pytest.fixture
def store(tmp_path):
    return make_store(tmp_path, random_text(40))


@pytest.fixture
def file(store):
    return store.folder / "features" / "f00000000.map"


def test_any_byte_that_is_changed_or_missing(store, file):
    data = file.read_bytes()
    for at in range(0, len(data), 37):
        spoiled = bytearray(data)
        spoiled[at] ^= 16
        file.write_bytes(spoiled)
        with pytest.raises(DamagedError, match="not the file that the manifest names"):
            read_features(store.folder, store.manifest)
    file.write_bytes(data[:-1])
    refused(store, "not the file that the manifest names")
    file.write_bytes(data + b"x")
    refused(store, "larger than any")


def test_no_file_or_something_else(store, file, tmp_path):
    data = file.read_bytes()
    file.unlink()
    refused(store, "it is missing")
    (tmp_path / "elsewhere").write_bytes(data)
    file.symlink_to(tmp_path / "elsewhere")
    refused(store, "is a link")
    file.unlink()
    file.parent.rmdir()
    refused(store, "it is missing")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / file.name).write_bytes(data)
    file.parent.symlink_to(tmp_path / "folder")
    refused(store, "is a link")


def sealed(store, indices, **changes):
    """Write a file of these features into a store, every checksum right."""
    record = write_features(store.folder, 0, np.array(indices, np.uint32), None)
    content = inner(store.folder)
    content["features"] = [vars(record) | changes]
    content["n_features"] = changes.get("features", record.features)
    seal(store.folder, content)
    return BlockStore.open(store.folder)


@pytest.mark.parametrize("base", [0, 1])
@pytest.mark.parametrize("dimension", [1, 50, 400, 401, 10**9])
def test_an_index_that_comes_twice(dimension, base):
    rng = random.Random(dimension)
    for n in range(min(dimension, 100) + 1):
        indices = base + np.array(rng.sample(range(dimension), n), np.uint32)
        assert not any_twice(indices.astype(np.uint32), base, dimension)
        if n > 1:
            indices[rng.randrange(n - 1)] = indices[-1]
            assert any_twice(indices.astype(np.uint32), base, dimension)


def test_features_that_cannot_be(store):
    good = features_of(store)
    refused(sealed(store, [*good[:-1], good[0]]), "a feature has two numbers")
    refused(sealed(store, [*good[:-1], 0]), "a feature is out of range")
    refused(sealed(store, [*good[:-1], store.manifest.dimension + 1]), "a feature is out of range")
    refused(sealed(store, [*good, 2**32 - 1], features=len(good)), "its header is not that")


def test_a_body_of_another_length(store, file):
    header = file.read_bytes()[:24]
    for body in (zstandard.compress(b"123"), b"123", b""):
        data = header + body
        file.write_bytes(data)
        content = inner(store.folder)
        content["features"][0] |= {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        seal(store.folder, content)
        with pytest.raises(DamagedError):
            read_features(store.folder, BlockStore.open(store.folder).manifest)


@pytest.mark.parametrize(
    "changes",
    [
        {"features": []},
        {"features": [{"name": "f00000000.map"}]},
        {"features": {}},
        {"dimension": -1},
        {"dimension": 2**32 + 1},
        {"dimension": 5},
        {"dimension": "900"},
        {"n_features": 7},
        {"format": 1},
        {"format": 4},
    ],
    ids=str,
)
def test_a_manifest_that_contradicts_itself(tmp_path, changes):
    store = make_store(tmp_path)
    seal(store.folder, inner(store.folder) | changes)
    with pytest.raises(DamagedError):
        BlockStore.open(store.folder)


@pytest.mark.parametrize(
    "changes",
    [{"features": 0}, {"features": 2**62}, {"bytes": -1}, {"name": "../f00000000.map"},
     {"name": "f0.map"}, {"sha256": 5}, {"more": 1}],
    ids=str,
)  # fmt: skip
def test_a_record_of_a_file_that_cannot_be(tmp_path, changes):
    store = make_store(tmp_path)
    content = inner(store.folder)
    content["features"][0] |= changes
    seal(store.folder, content)
    with pytest.raises(DamagedError):
        BlockStore.open(store.folder)


def test_info_tells_it(tmp_path):
    store = make_store(tmp_path)
    facts = json.loads(json.dumps(store.describe()))
    assert (facts["features"], facts["renumbered"], facts["format"]) == (900, True, 3)
    assert "7 rows, 900 features, 12 entries" in store.summary()
    assert "6 features occur, and are renumbered in the blocks" in store.summary()
    assert numbering.UNKNOWN == 2**32 - 1
    assert kernels.PAGE == 1024


def test_writing_the_numbers_of_many_features_takes_little_memory(tmp_path):
    indices = np.arange(1 << 21, dtype=np.uint32)
    tracemalloc.start()
    try:
        write_features(tmp_path, 0, indices, 1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 3 * len(indices)  # two planes of bytes; with four times that for one, 6


def test_a_budget_that_is_named_holds_the_features_of_the_store():
    """One that held twice as much as the last one was named, again and again."""
    known = np.arange(0, 5_000_000, 9, dtype=np.uint32)
    text = small_text_options(memory_bytes=90 << 20, max_features=10_000_000)
    with pytest.raises(MemoryBudgetError, match="after 555556 features the table") as caught:
        Numbering(text, known.copy())
    least = int(re.search(r"--memory (\d+)M", caught.value.fix)[1])
    assert 160 < least < 200
    text = replace(text, memory_bytes=least << 20)
    assert len(Numbering(text, known.copy())) == len(known)


@pytest.mark.parametrize("limits", [{}, {"max_features": 2_000_000}, {"hash_bits": 21}], ids=str)
def test_a_budget_that_is_named_holds_all_features_that_there_may_be(limits):
    """Each one that was named held twice as much as the last one, where hashes are all there."""
    text = small_text_options(memory_bytes=82 << 20, **limits)
    with pytest.raises(MemoryBudgetError) as caught:
        Numbering(text).extend(np.arange(text.index_stop, dtype=np.uint32))
    named = re.search(r"(\d+)M(?:, which)? holds the numbers of all", caught.value.fix)[1]
    assert ("or more" in caught.value.fix) == (not text.hash_bits)
    text = replace(text, memory_bytes=int(named) << 20)
    numbers = Numbering(text)
    numbers.extend(np.arange(text.index_stop, dtype=np.uint32))
    assert len(numbers) == text.index_stop
