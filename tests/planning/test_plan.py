import errno
import json
import shutil
import tempfile
from contextlib import nullcontext
from dataclasses import replace

import pytest

import blocklinear
from blocklinear.cli.main import main
from blocklinear.errors import (
    DamagedError,
    InputError,
    InputFormatError,
    MemoryBudgetError,
    StorageError,
    UsageError,
)
from blocklinear.planning import subject
from blocklinear.planning.growth import Range
from blocklinear.planning.sample import blocks_like
from blocklinear.planning.splits import SplitTrial, SplitTrials

MEMORY = 256 << 20


def check_ranges(report):
    for name in ("rows", "features", "entries", "store_bytes", "pass_s", "train_s", "disk_bytes"):
        found = getattr(report, name)
        assert 0 < found.low <= found.likely <= found.high, name


def test_a_small_file_is_known_exactly(path, store):
    report = blocklinear.plan(path, memory_bytes=MEMORY)
    m = blocklinear.split(path, store.folder, force=True, memory_bytes=MEMORY).manifest
    check_ranges(report)
    assert report.rows.likely == m.n_rows
    assert report.features.likely == m.n_features
    assert report.entries.likely == m.nnz
    size = sum(b.bytes for b in m.blocks) + sum(file.bytes for file in m.features)
    assert report.store_bytes == Range.exactly(size)
    assert report.split_s.likely > 0
    assert report.in_memory
    assert report.read_bytes.likely == path.stat().st_size
    assert report.network_bytes.likely == 0
    assert report.sample["share"] == 1.0


def test_a_large_file_is_estimated_from_a_part(path, lines, store, monkeypatch):
    monkeypatch.setattr(subject, "SAMPLE_BYTES", path.stat().st_size // 3)
    report = blocklinear.plan(path, memory_bytes=MEMORY)
    check_ranges(report)
    m = store.manifest
    assert report.sample["share"] == pytest.approx(1 / 3, rel=0.1)
    assert report.rows.low <= m.n_rows <= report.rows.high
    assert report.entries.likely == pytest.approx(m.nnz, rel=0.05)
    assert report.features.likely == pytest.approx(m.n_features, rel=0.15)
    assert "Heaps' law" in report.summary()
    assert "training grows as entries^" in report.summary()


@pytest.mark.parametrize(
    "text",
    [
        "1 1:1\n-1 1:2\n" * 4,
        "1 1:1 2:0.5\n" * 20_000 + "-1 1:1\n",
        "# a comment\n" * 20 + "1 1:1\n-1 1:2\n",
        "1\n" * 20 + "1 1:1\n-1 1:2\n",
    ],
)
def test_a_part_of_the_sample_may_have_no_rows_or_one_class(tmp_path, text):
    (tmp_path / "rows.svm").write_text(text)
    report = blocklinear.plan(tmp_path / "rows.svm", memory_bytes=MEMORY)
    assert report.train_s is not None
    assert report.summary().startswith("from all rows, in ")


def test_a_sample_of_one_class_says_nothing_of_training(tmp_path, monkeypatch):
    lines = ["1 1:1 2:0.5\n"] * 20_000
    lines[15_000] = "-1 1:1\n"
    (tmp_path / "rows.svm").write_text("".join(lines))
    monkeypatch.setattr(subject, "SAMPLE_BYTES", 12_000)
    report = blocklinear.plan(tmp_path / "rows.svm", memory_bytes=MEMORY)
    assert report.sample["share"] < 0.2
    assert report.train_s is None
    assert "note: training on the sample: all rows have the one label 1" in report.summary()


def test_a_store_is_known_but_for_times(store, monkeypatch):
    monkeypatch.setattr(subject, "SAMPLE_ENTRIES", store.manifest.nnz // 4)
    before = sorted(path.name for path in store.folder.rglob("*"))
    report = blocklinear.plan(store, memory_bytes=MEMORY)
    check_ranges(report)
    assert report.source == "store"
    assert report.split_s is None
    assert report.rows.low == report.rows.high == store.manifest.n_rows
    assert report.sample["blocks"] == 3
    assert sorted(path.name for path in store.folder.rglob("*")) == before


def test_the_least_memory_is_what_training_asks_for(store):
    report = blocklinear.plan(store.folder, memory_bytes=MEMORY)
    least = report.least_memory
    blocklinear.train(store, memory_bytes=least, max_outer=1)
    with pytest.raises(MemoryBudgetError):
        blocklinear.train(store, memory_bytes=least - (1 << 20), restart=True)
    assert least <= report.advised_memory


def test_it_is_with_what_fetching_a_store_on_a_url_takes(store, monkeypatch):
    least = blocklinear.plan(store, memory_bytes=MEMORY).least_memory
    monkeypatch.setattr(blocklinear.BlockStore, "fetching_bytes", 24 << 20)
    report = blocklinear.plan(store, memory_bytes=MEMORY)
    assert report.least_memory == least + (24 << 20)
    blocklinear.train(store, memory_bytes=report.least_memory, max_outer=1)
    assert not blocklinear.plan(store, memory_bytes=least).in_memory


def test_lines_that_are_longer_than_parts_of_the_sample(tmp_path, monkeypatch):
    """The memory is that of the split, too; a line that is all of the sample tells no rate."""
    line = " ".join(f"{j}:0.{j:09}" for j in range(1, 80_001))
    text = "".join(f"{k % 2} {line}\n" for k in range(6))
    (tmp_path / "rows.svm").write_text(text)
    monkeypatch.setattr(subject, "SAMPLE_BYTES", len(text) // 2)
    report = blocklinear.plan(tmp_path / "rows.svm", memory_bytes=MEMORY)
    assert report.rows.low >= report.sample["rows"]
    assert report.store_bytes.low > 0
    for memory, fails in ((report.least_memory, False), (report.least_memory - (1 << 20), True)):
        with pytest.raises(InputFormatError, match="longer") if fails else nullcontext():
            blocklinear.split(tmp_path / "rows.svm", tmp_path / "s", force=True, memory=memory)


def test_the_least_memory_of_models_that_do_not_fit_together(tmp_path):
    """They are trained in parts."""
    lines = (f"{i % 40} {1 + 12 * i}:1 {25_000 + 11 * i}:1\n" for i in range(2_000))
    (tmp_path / "rows.svm").write_text("".join(lines))
    store = blocklinear.split(tmp_path / "rows.svm", tmp_path / "store", blocks=4)
    report = blocklinear.plan(store, memory_bytes=110 << 20)
    blocklinear.train(store, memory_bytes=report.least_memory, max_outer=1)
    with pytest.raises(MemoryBudgetError):
        blocklinear.train(store, memory_bytes=report.least_memory - (1 << 20), restart=True)
    assert report.in_memory


def test_a_full_disk_is_named(path, tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    for name in ("os.write", "pathlib.Path.write_bytes"):
        with monkeypatch.context() as patch:
            patch.setattr(name, full)
            with pytest.raises(StorageError, match=f"{tempfile.gettempdir()}.*write failed: No sp"):
                blocklinear.plan(path, memory_bytes=MEMORY)


def test_a_budget_that_is_too_small_is_said(store):
    report = blocklinear.plan(store, memory_bytes=70 << 20)
    assert report.train_s is None
    assert any("the budget of 70M is too small" in note for note in report.notes)
    assert report.least_memory > 70 << 20


def test_no_training_converges(store):
    report = blocklinear.plan(store, gap=1e-12, max_outer=1, memory_bytes=MEMORY)
    assert report.train_s is None
    assert any("no training on the sample converged" in note for note in report.notes)


def test_several_machines(path):
    report = blocklinear.plan(path, workers=4, memory_bytes=MEMORY)
    assert report.workers["workers"] == 4
    assert report.workers["split_s"].likely == report.split_s.likely / 4
    assert report.workers["network_bytes"].likely > 0
    assert "with 4 machines, from simulations" in report.summary()


def test_a_url_counts_as_network(path, store):
    memory = pytest.importorskip("fsspec").filesystem("memory")
    memory.store.clear()
    memory.pipe_file("/rows.svm", path.read_bytes())
    report = blocklinear.plan("memory://rows.svm", memory_bytes=MEMORY)
    assert report.source == "text"
    assert report.network_bytes.likely == path.stat().st_size
    for file in store.folder.rglob("*.*"):
        memory.pipe_file(f"/store/{file.relative_to(store.folder)}", file.read_bytes())
    report = blocklinear.plan("memory://store", memory_bytes=MEMORY)
    assert report.source == "store"
    assert report.network_bytes == report.store_bytes
    memory.pipe_file("/store/manifest.json", b"{}")
    with pytest.raises(DamagedError, match=r"memory://store/manifest\.json: damaged"):
        blocklinear.plan("memory://store")
    with pytest.raises(StorageError, match=r"memory://none\.svm: there is no such file"):
        blocklinear.plan("memory://none.svm")


def test_more_blocks_of_the_same_totals(store):
    m = blocks_like(store.manifest, 7)
    assert len(m.blocks) == 7
    assert sum(block.nnz for block in m.blocks) == pytest.approx(m.nnz, abs=7)
    assert len({block.name for block in m.blocks}) == 7


def test_the_bytes_of_entries_and_features_grow_as_in_the_last_doubling():
    half = SplitTrial(50, 1.0, 1_000, 2_000, 100, 100)
    whole = replace(
        half, text_bytes=100, nnz=2_000, block_bytes=4_400, features=150, feature_bytes=250
    )
    trials = SplitTrials(half, whole)
    assert trials.entry_bytes(4.0, 0.5) == pytest.approx(2.2 + 2 * 0.2)
    assert trials.feature_bytes(250) == 250 + 100 * 3
    flat = SplitTrials(half, replace(half, nnz=2_000, block_bytes=4_000))
    assert flat.entry_bytes(4.0, 0.5) == pytest.approx(2.0 + 2 * 0.05)


def test_a_split_goes_on_as_in_the_last_doubling():
    half = SplitTrial(50, 3.0, 1_000, 2_000, 100, 100)
    whole = replace(half, text_bytes=100, seconds=5.0)
    assert SplitTrials(half, whole).seconds(100) == 5.0
    assert SplitTrials(half, whole).seconds(1_000) == pytest.approx(5.0 + 900 * 0.04)
    disturbed = SplitTrials(replace(half, seconds=4.9), whole)
    assert disturbed.seconds(1_000) == pytest.approx(5.0 + 900 * 0.025)
    one_line = SplitTrials(replace(whole, seconds=3.0), whole)
    assert one_line.seconds(1_000) == pytest.approx(5.0 + 900 * 0.1)


def test_the_command(path, store, capsys):
    assert main(["plan", str(path), "--memory", "256M", "-s", "1", "--gap", "0.01"]) == 0
    out = capsys.readouterr().out
    assert "with --memory 256M: rows stay in memory" in out
    assert "split" in out
    assert main(["plan", str(path), "-s", "auto"]) == 0
    capsys.readouterr()
    assert main(["plan", str(store.folder), "--json", "--workers", "2"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["rows"] == {"low": 8000.0, "likely": 8000.0, "high": 8000.0}
    assert facts["workers"]["workers"] == 2


def test_refusals(path, store, capsys, tmp_path):
    with pytest.raises(UsageError, match="workers is 0"):
        blocklinear.plan(path, workers=0)
    with pytest.raises(blocklinear.BlocklinearError, match="not a store"):
        blocklinear.plan(tmp_path)
    (tmp_path / "bad.svm").write_text("1 1:1\n1 2:x\n")
    with pytest.raises(InputError, match=r"bad\.svm:2:5: value 'x'"):
        blocklinear.plan(tmp_path / "bad.svm")
    (tmp_path / "good.svm").write_text("1 1:1\n-1 2:1\n")
    with pytest.raises(InputError, match=r"good\.svm, .*bad\.svm: a line of a sample cannot be"):
        blocklinear.plan([tmp_path / "good.svm", tmp_path / "bad.svm"])
    with pytest.raises(UsageError, match="is a folder"):
        blocklinear.plan([store.folder, tmp_path / "good.svm"])
    (tmp_path / "comment.svm").write_text("# a comment\n")
    with pytest.raises(InputError, match=f"^{tmp_path}/comment.svm: no rows"):
        blocklinear.plan(tmp_path / "comment.svm")
    (tmp_path / "none.svm").write_text("1\n-1\n1\n")
    with pytest.raises(InputError, match="no row has a feature"):
        blocklinear.plan(tmp_path / "none.svm")
    shutil.rmtree(store.folder / "blocks")
    assert main(["plan", str(store.folder)]) == 4
    assert main(["plan", "-c", "1,2", str(path)]) == 2
