import bz2

import pytest

from blocklinear.errors import InputError, StorageError, UsageError
from blocklinear.options import TextOptions
from blocklinear.planning import sample
from blocklinear.planning.sample import growth_of, sample_store, sample_text


def test_all_of_a_small_file(path, lines, tmp_path):
    found = sample_text([path], TextOptions(), 1 << 30, tmp_path / "sample")
    assert found.whole
    assert (found.rows, found.row_error) == (len(lines), 0.0)
    assert found.path.read_bytes() == path.read_bytes()


def test_lines_from_all_over_a_file(path, lines, tmp_path):
    found = sample_text([str(path), path], TextOptions(), 1 << 16, tmp_path / "sample")
    assert not found.whole
    assert found.spread
    assert found.total_bytes == found.input_bytes == 2 * path.stat().st_size
    assert found.bytes == found.path.stat().st_size
    assert found.bytes == pytest.approx(1 << 16, rel=0.1)
    taken = found.path.read_text().splitlines(keepends=True)
    assert set(taken) <= set(lines)
    assert taken[0] == lines[0]
    assert taken[-1] == lines[-1]
    assert found.rows * found.times == pytest.approx(2 * len(lines), rel=3 * found.row_error + 0.01)


def test_long_lines_are_as_likely_as_short_ones(tmp_path):
    """Long lines begin in few parts, and go beyond most: they are read to their end."""
    lines = [f"{1 if i % 2 else -1} 1:{'1' * (1 + 900 * (i % 2))}\n" for i in range(10_000)]
    (tmp_path / "rows.svm").write_text("".join(lines))
    found = sample_text([tmp_path / "rows.svm"], TextOptions(), 1 << 20, tmp_path / "sample")
    text = found.path.read_text()
    assert text.count("\n1 ") / found.rows == pytest.approx(0.5, abs=0.05)
    assert found.rows * found.times == pytest.approx(10_000, rel=0.05)
    few = sample_text([tmp_path / "rows.svm"], TextOptions(), 48 * 100, tmp_path / "few")
    assert few.path.read_text().count("\n1 ") >= 1
    assert set(few.path.read_text().splitlines()) <= {line[:-1] for line in lines}


def test_the_start_of_a_packed_file(path, lines, tmp_path, monkeypatch):
    monkeypatch.setattr(sample, "_READ_BYTES", 1 << 12)
    packed = tmp_path / "rows.svm.bz2"
    packed.write_bytes(bz2.compress(path.read_bytes()))
    size = packed.stat().st_size
    part = sample_text([packed], TextOptions(), size // 4, tmp_path / "sample")
    whole = sample_text([packed], TextOptions(), 10 * size, tmp_path / "sample")
    assert whole.whole
    assert whole.rows == len(lines)
    assert whole.total_bytes == pytest.approx(path.stat().st_size, rel=0.01)
    assert part.input_bytes == size
    assert set(part.path.read_text().splitlines()) <= {line[:-1] for line in lines} | {""}


def test_a_url(path, lines, tmp_path):
    memory = pytest.importorskip("fsspec").filesystem("memory")
    memory.pipe_file("/rows.svm", path.read_bytes())
    one = sample_text([path], TextOptions(), 1 << 14, tmp_path / "one").path.read_bytes()
    url = sample_text(["memory://rows.svm"], TextOptions(), 1 << 14, tmp_path / "url")
    assert url.path.read_bytes() == one


def test_what_cannot_be_sampled(tmp_path):
    with pytest.raises(UsageError, match="a stream cannot be read twice"):
        sample_text(["-"], TextOptions(), 1 << 20, tmp_path / "sample")
    (tmp_path / "empty").touch()
    with pytest.raises(InputError, match="no rows"):
        sample_text([tmp_path / "empty"], TextOptions(), 1 << 20, tmp_path / "sample")
    with pytest.raises(StorageError):
        sample_text([tmp_path / "none"], TextOptions(), 1 << 20, tmp_path / "sample")


def test_some_blocks_of_a_store(store, tmp_path):
    m = store.manifest
    part = sample_store(store, m.nnz // 3, tmp_path / "part")
    assert m.nnz / 3 <= part.manifest.nnz <= m.nnz / 3 + max(b.nnz for b in m.blocks)
    assert not part.verify().faults
    assert part.manifest.n_features == m.n_features
    assert sample_store(store, 10 * m.nnz, tmp_path / "all").manifest.n_rows == m.n_rows


def test_features_are_counted(store):
    growth = growth_of(store)
    assert growth.whole == store.manifest.n_features
    assert growth.quarter < growth.half < growth.whole
