"""What is read from URLs is what is read from files."""

import pytest

import blocklinear
from blocklinear.inputs import ahead
from blocklinear.inputs.raw import RawFile, digest_of, size_of

from .packed import PACK, blocks_of


@pytest.mark.parametrize("suffix", PACK)
def test_a_split_of_s3_is_that_of_a_file(suffix, rows, path, s3, small_parts, tmp_path):
    s3.pipe_file(f"data/rows.svm{suffix}", PACK[suffix](rows))
    store = blocklinear.split(f"s3://data/rows.svm{suffix}", tmp_path / "store", blocks=4)
    local = blocklinear.split(path, tmp_path / "local", blocks=4)
    assert blocks_of(store) == blocks_of(local)
    source = store.manifest.batches[0]["sources"][0]
    assert source["path"] == f"s3://data/rows.svm{suffix}"
    assert source["mtime_ns"] is None
    assert source["size"] == len(PACK[suffix](rows))


@pytest.mark.parametrize("scheme", ["memory", "file"])
def test_a_split_of_other_systems(scheme, rows, path, memory, tmp_path):
    memory.pipe_file("/rows.svm", rows)
    url = "memory://rows.svm" if scheme == "memory" else f"file://{path}"
    store = blocklinear.split(url, tmp_path / "store", blocks=4)
    local = blocklinear.split(path, tmp_path / "local", blocks=4)
    assert blocks_of(store) == blocks_of(local)


def test_check_predict_add_and_evaluate(rows, path, memory, tmp_path):
    memory.pipe_file("/rows.svm.gz", PACK[".gz"](rows))
    url = "memory://rows.svm.gz"
    assert blocklinear.check(url).rows == 20_000
    store = blocklinear.split(path, tmp_path / "store", blocks=4)
    model = blocklinear.train(store, evaluate=url, max_outer=1)
    assert (blocklinear.predict(url, model) == blocklinear.predict(path, model)).all()
    assert blocklinear.add(store, url).manifest.n_rows == 40_000
    with pytest.raises(blocklinear.BlocklinearError, match="has the same content as an input"):
        blocklinear.add(store, url)


def test_weights_of_rows(rows, path, memory, tmp_path):
    memory.pipe_file("/weights.txt", b"2\n" * 20_000)
    store = blocklinear.split(path, tmp_path / "store", blocks=4, weights="memory://weights.txt")
    assert store.manifest.weights["total"] == 40_000
    assert store.manifest.batches[0]["weights"][0]["path"] == "memory://weights.txt"


def test_size_and_digest(rows, path, memory):
    memory.pipe_file("/rows.svm", rows)
    assert size_of("memory://rows.svm") == len(rows)
    for name in ("xxh64", "sha256"):
        assert digest_of("memory://rows.svm", name) == digest_of(path, name)


def test_an_empty_file(memory, tmp_path):
    memory.pipe_file("/empty", b"")
    with pytest.raises(blocklinear.BlocklinearError, match="memory://empty: no rows"):
        blocklinear.split("memory://empty", tmp_path / "store")


def test_parts_are_asked_for_ahead_and_in_order(rows, memory, monkeypatch, small_parts):
    asked = []
    of_memory = type(memory).cat_file

    def noted(self, path, start=None, end=None, **more):
        asked.append((start, end))
        return of_memory(self, path, start=start, end=end, **more)

    monkeypatch.setattr(type(memory), "cat_file", noted)
    memory.pipe_file("/rows.svm", rows)
    raw = RawFile("memory://rows.svm")
    assert raw.read(1) == rows[:1]
    assert len(asked) <= ahead._REQUESTS
    found = rows[:1]
    while piece := raw.read():
        found += piece
    assert found == rows
    raw.finish()
    starts = range(0, len(rows), 1 << 16)
    assert sorted(asked) == [(start, min(start + (1 << 16), len(rows))) for start in starts]


def test_memory_for_parts_is_bounded(rows, memory):
    memory.pipe_file("/rows.svm", rows)
    for ahead_bytes in (1, 1 << 20, 1 << 40):
        held = ahead.ReadAhead("memory://rows.svm", ahead_bytes)
        most = max(ahead_bytes, 5 << 18)
        assert held.memory_bytes - ahead.LIBRARY_BYTES <= min(most, 5 << 23)
        held.close()
