"""Splitting on workers: the very store of one machine, or nothing at all."""

import gzip
import json
import os
import shutil
from concurrent.futures import CancelledError
from itertools import count

import numpy as np
import pytest

import blocklinear
from blocklinear.cluster import ranges, split
from blocklinear.errors import (
    BlocklinearError,
    ClusterError,
    InputError,
    InputFormatError,
    MemoryBudgetError,
    MismatchError,
    StorageError,
    UsageError,
)
from blocklinear.events import SplitProgress, Warned
from blocklinear.ingest import writer
from blocklinear.options import SplitOptions, TextOptions
from blocklinear.training.rounds import files as round_files

from .conftest import cluster_of

MEMORY = 400 << 20


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Ranges of a few lines, chunks of a few rows, and blocks of a few chunks."""
    monkeypatch.setattr(split, "RANGE_BYTES", 1500)
    monkeypatch.setattr(writer, "CHUNK_ENTRIES", 120)
    monkeypatch.setattr(writer, "MIN_CHUNK_ENTRIES", 10)
    monkeypatch.setattr(writer, "MAX_BLOCK_BYTES", 6000)


def line(rng, n_features=400, longest=12, first=1):
    n = int(rng.integers(0, longest))
    if rng.random() < 0.01:
        n = 150  # longer than a chunk
    indices = np.sort(rng.choice(n_features, min(n, n_features), replace=False)) + first
    values = rng.choice(["1", "0.5", "-2.25", "3e-7", "0.12345678901234567891", "0"], len(indices))
    entries = " ".join(f"{i}:{v}" for i, v in zip(indices, values, strict=True))
    return f"{rng.integers(0, 3)} {entries}".rstrip()


def text_of(seed, n_rows=900, odd=True, **options):
    rng = np.random.default_rng(seed)
    lines = []
    for _ in range(n_rows):
        lines.append(line(rng, **options))
        if odd and rng.random() < 0.02:
            lines.append(str(rng.choice(["", "# a comment", "  ", "\t1 2:3"])))
    return "\n".join(lines) + "\n"


def files_of(store):
    """Return what a store holds, but for the date of its batch."""
    found = {}
    for folder, _, names in os.walk(store):
        for name in names:
            path = os.path.join(folder, name)
            with open(path, "rb") as stream:
                found[os.path.relpath(path, store)] = stream.read()
    del found["lock"]
    manifest = json.loads(found.pop("manifest.json"))
    del manifest["checksum"]
    for batch in manifest["manifest"]["batches"]:
        del batch["date"]
    return found | {"manifest": manifest}


def options(**settings):
    return {"memory_bytes": MEMORY, "threads": 2} | settings


def both(tmp_path, client, inputs, **settings):
    """Split on one machine and on a cluster; return what was told, or the error, of each."""
    heard = []
    for name, by in (("one", None), ("many", client)):
        events = []
        try:
            blocklinear.split(
                inputs, tmp_path / name, listener=events.append, client=by, **options(**settings)
            )
        except BlocklinearError as error:
            heard.append((type(error), str(error)))
        else:
            heard.append([event for event in events if isinstance(event, Warned)])
    left = {name for name in os.listdir(tmp_path) if ".splitting" in name}
    assert not left
    return heard


def assert_same(tmp_path, client, inputs, **settings):
    one, many = both(tmp_path, client, inputs, **settings)
    assert one == many
    assert files_of(tmp_path / "one") == files_of(tmp_path / "many")


CASES = {
    "plain": {},
    "as numbered": {"renumber": False},
    "blocks": {"blocks": 3},
    "more blocks than rows": {"blocks": 400, "n_rows": 200},
    "in order": {"order": "file"},
    "blocks in order": {"order": "file", "blocks": 4},
    "hashed": {"hash_bits": 7},
    "seed": {"seed": 5, "batch": "monday", "normalize": "l2", "dtype": "float32"},
    "base": {"index_base": "auto", "text": {"first": 0}},
    "base of one": {"index_base": "auto"},
    "uncompressed": {"compression": "none", "record_sha256": True},
    "few rows": {"n_rows": 3},
    "many rows of few": {"n_rows": 4000, "text": {"longest": 3}},
}


@pytest.mark.parametrize("case", CASES)
def test_the_store_is_that_of_one_machine(tmp_path, two, case):
    settings = dict(CASES[case])
    text = text_of(1, settings.pop("n_rows", 900), **settings.pop("text", {}))
    (tmp_path / "rows.svm").write_text(text)
    assert_same(tmp_path, two, tmp_path / "rows.svm", **settings)


@pytest.mark.parametrize("n_workers", [1, 2, 4])
def test_whatever_the_number_of_workers(tmp_path, serial, n_workers):
    (tmp_path / "rows.svm").write_text(text_of(2))
    assert_same(tmp_path, serial(n_workers), tmp_path / "rows.svm")


def test_several_files_some_of_them_compressed(tmp_path, two):
    """An empty one, one of few rows, one without a newline at its end."""
    parts = ["", text_of(3, 4), text_of(4), text_of(5, 200).rstrip("\n"), text_of(6, 700)]
    inputs = []
    for k, part in enumerate(parts):
        path = tmp_path / f"part{k}.svm"
        path.write_bytes(gzip.compress(part.encode(), mtime=0) if k in (1, 4) else part.encode())
        inputs.append(path)
    assert_same(tmp_path, two, inputs, expect_rows=None)


def test_lines_that_are_refused_are_skipped_and_listed(tmp_path, two):
    rng = np.random.default_rng(7)
    lines = text_of(7).splitlines()
    for at in sorted(rng.choice(len(lines), 25, replace=False)):
        lines[at] = "1 2:x"
    (tmp_path / "rows.svm").write_text("\n".join(lines) + "\n")
    assert_same(tmp_path, two, tmp_path / "rows.svm", on_error="skip")
    shutil.rmtree(tmp_path / "one")
    shutil.rmtree(tmp_path / "many")
    one, many = both(tmp_path, two, tmp_path / "rows.svm", on_error="skip", max_errors=11)
    assert one == many
    assert one[0] is InputFormatError


def test_rows_that_are_mended(tmp_path, two):
    rng = np.random.default_rng(8)
    lines = [line(rng) for _ in range(300)]
    lines[40] = "1 7:1 3:2 7:0.5"
    (tmp_path / "rows.svm").write_text("\n".join(lines) + "\n")
    assert_same(tmp_path, two, tmp_path / "rows.svm", unsorted="sort", duplicates="sum")


def test_too_many_labels_to_be_classes(tmp_path, two):
    rng = np.random.default_rng(9)
    rows = [f"{x:.6f} 1:1 {k % 50 + 2}:1" for k, x in enumerate(rng.normal(size=2500))]
    (tmp_path / "rows.svm").write_text("\n".join(rows) + "\n")
    assert_same(tmp_path, two, tmp_path / "rows.svm")


@pytest.mark.parametrize("at", [0, 1, 450, 899])
@pytest.mark.parametrize(
    "fault", ["1 2:x", "a 1:1", "1 0:1", "1 2:1 1:1", "1 9999999:1", "1 1:1e200", '{"a": 1}']
)
def test_a_line_that_is_refused_is_the_same_one(tmp_path, two, fault, at):
    lines = text_of(10, odd=False).splitlines()
    lines[at] = lines[-1] = fault
    (tmp_path / "rows.svm").write_text("\n".join(lines) + "\n")
    one, many = both(tmp_path, two, str(tmp_path / "rows.svm"), max_features=1000)
    assert one == many
    assert f":{at + 1}:" in one[1]
    assert not (tmp_path / "many").exists()


@pytest.mark.parametrize(
    "change",
    [
        {"expect_rows": 17}, {"expect_sha256": "0" * 64}, {"require_final_newline": True},
        {"max_line_bytes": 1 << 16}, {"hash_bits": 31, "max_features": 10},
    ],
)  # fmt: skip
def test_an_input_that_is_refused(tmp_path, two, change):
    text = text_of(11) + "1 " + " ".join(f"{k}:1" for k in range(1, 20000))
    (tmp_path / "rows.svm").write_text(text)
    one, many = both(tmp_path, two, str(tmp_path / "rows.svm"), **change)
    assert one == many
    assert isinstance(one, tuple)


@pytest.mark.parametrize("text", ["", "\n# nothing\n"])
def test_no_rows(tmp_path, two, text):
    (tmp_path / "rows.svm").write_text(text)
    one, many = both(tmp_path, two, str(tmp_path / "rows.svm"))
    assert one == many
    assert one[0] is InputError


def test_a_compressed_input_that_is_cut(tmp_path, two):
    (tmp_path / "rows.svm.gz").write_bytes(gzip.compress(text_of(12).encode(), mtime=0)[:-40])
    one, many = both(tmp_path, two, str(tmp_path / "rows.svm.gz"))
    assert one == many
    assert one[0] is InputError


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "rows.svm"
    path.write_text(text_of(13, 500))
    return path


def failing(client, at, error):
    tasks = count()

    def before(name):
        if next(tasks) in at:
            raise error

    client.before = before
    return client


N_TASKS = 60
"""Of `rows`, at least."""


@pytest.mark.parametrize("at", range(0, N_TASKS, 7))
def test_a_task_that_is_lost_is_done_again(tmp_path, serial, rows, at):
    client = failing(serial(2), {at, at + 1}, CancelledError("lost"))
    assert_same(tmp_path, client, rows)
    assert len(client.ran) > N_TASKS


def test_a_task_that_is_lost_again_and_again(tmp_path, serial, rows):
    client = failing(serial(2), range(30, 1000), CancelledError("lost"))
    with pytest.raises(ClusterError, match="has lost the work of a task 5 times"):
        blocklinear.split(rows, tmp_path / "many", client=client, **options())
    assert os.listdir(tmp_path) == ["rows.svm", "scratch"]


@pytest.mark.parametrize("at", range(0, N_TASKS, 11))
def test_nothing_is_left_when_the_command_ends_early(tmp_path, serial, rows, at):
    for error in (KeyboardInterrupt, OSError(28, "No space left on device")):
        client = failing(serial(2), {at}, error)
        if error is KeyboardInterrupt:
            client.before = interrupted(at)
        with pytest.raises((KeyboardInterrupt, OSError)):
            blocklinear.split(rows, tmp_path / "many", client=client, **options())
        assert sorted(os.listdir(tmp_path)) == ["rows.svm", "scratch"]


def interrupted(at):
    tasks = count()

    def before(name):
        if next(tasks) == at:
            raise KeyboardInterrupt

    return before


@pytest.mark.parametrize("at", range(3, N_TASKS, 15))
def test_a_folder_that_vanishes(tmp_path, serial, rows, at, monkeypatch):
    monkeypatch.setattr(round_files, "SHOWS_UP_S", 0.0)
    client, tasks = serial(2), count()

    def before(name):
        if next(tasks) == at:
            shutil.rmtree(tmp_path / ".many.splitting")

    client.before = before
    with pytest.raises(StorageError):
        blocklinear.split(rows, tmp_path / "many", client=client, **options())
    assert sorted(os.listdir(tmp_path)) == ["rows.svm", "scratch"]


@pytest.mark.parametrize("name", ["count", "read", "digest"])
def test_an_input_that_changes(tmp_path, serial, rows, name):
    client = serial(2)

    def before(task):
        if task == name:
            with open(rows, "a") as stream:
                stream.write("1 2:1\n")

    client.before = before
    with pytest.raises(StorageError, match="changed"):
        blocklinear.split(rows, tmp_path / "many", client=client, **options())


def test_a_worker_that_reads_other_rows_than_were_counted(tmp_path, two, rows, monkeypatch):
    monkeypatch.setattr(ranges, "count", lambda job, extent: (1, 1))
    with pytest.raises(StorageError, match="changed"):
        blocklinear.split(rows, tmp_path / "many", client=two, **options())


def test_a_worker_that_does_not_reach_the_folder(tmp_path, two, rows, monkeypatch):
    def can_split(job, extent):
        raise StorageError("no such folder")

    monkeypatch.setattr(ranges, "can_split", can_split)
    with pytest.raises(ClusterError, match="worker tcp://here:0 cannot work on the store"):
        blocklinear.split(rows, tmp_path / "many", client=two, **options())
    assert sorted(os.listdir(tmp_path)) == ["rows.svm", "scratch"]


def test_what_is_refused(tmp_path, two, rows):
    def refused(error, inputs=rows, **settings):
        with pytest.raises(error):
            blocklinear.split(inputs, tmp_path / "many", client=two, **(options() | settings))
        assert not two.ran

    refused(UsageError, inputs="-")
    refused(UsageError, weights=str(rows))
    refused(StorageError, inputs=tmp_path / "nothing")
    refused(MemoryBudgetError, memory_bytes=150 << 20)
    os.mkfifo(tmp_path / "pipe")
    refused(UsageError, inputs=tmp_path / "pipe")
    (tmp_path / "many").mkdir()
    refused(MismatchError)
    refused(MismatchError, force=True)


def test_memory_unless_given(two, monkeypatch):
    """Options that were given none have that of this machine, which is not that of a worker."""
    monkeypatch.setattr(split, "split", lambda client, inputs, store, options, tell: options.text)
    own = int(TextOptions().memory_bytes)
    given = SplitOptions(text=TextOptions(memory_bytes=own))
    for how in {}, {"options": SplitOptions()}, {"options": SplitOptions(blocks=4), "threads": 1}:
        text = blocklinear.split("rows", "many", client=two, **how)
        assert text.memory_bytes <= own // 2
    for how in {"memory": own}, {"options": given}:
        assert blocklinear.split("rows", "many", client=two, **how).memory_bytes == own


def test_a_budget_that_was_advised_is_enough(tmp_path, two, rows):
    with pytest.raises(MemoryBudgetError) as caught:
        blocklinear.split(rows, tmp_path / "many", client=two, memory="200M")
    advised = caught.value.fix.split()[2]
    blocklinear.split(rows, tmp_path / "many", client=two, memory=advised)


def test_a_store_is_replaced_when_the_new_one_is_whole(tmp_path, two, rows):
    blocklinear.split(rows, tmp_path / "many", blocks=2, **options())
    before = files_of(tmp_path / "many")
    bad = tmp_path / "bad.svm"
    bad.write_text("1 1:1\n1 x\n")
    with pytest.raises(InputError):
        blocklinear.split(bad, tmp_path / "many", client=two, force=True, **options())
    assert files_of(tmp_path / "many") == before
    store = blocklinear.split(rows, tmp_path / "many", client=two, force=True, **options())
    assert store.manifest.n_rows == 500 + rows.read_text().count("\t1 2:3")
    assert files_of(tmp_path / "many") != before


def test_progress_is_told(tmp_path, two, rows):
    heard = []
    blocklinear.split(rows, tmp_path / "many", client=two, listener=heard.append, **options())
    told = [event for event in heard if isinstance(event, SplitProgress)]
    assert len(told) > 5
    assert told[-1].bytes_read == told[-1].bytes_total == rows.stat().st_size


def test_what_a_killed_split_left_is_replaced(tmp_path, two, rows):
    left = tmp_path / ".many.splitting" / "shuffle" / "block-0a"
    left.mkdir(parents=True)
    (left / "b00000001.blk").write_bytes(b"half")
    (left.parent / "r00000001.rows").write_bytes(b"half")
    assert_same(tmp_path, two, rows)


@pytest.mark.usefixtures("rows")
def test_a_worker_that_is_killed(tmp_path, rows):
    """Real processes: one dies as soon as a range was taken in."""
    with cluster_of(2, processes=True) as client:
        killed = []

        def listener(event):
            if isinstance(event, SplitProgress) and not killed:
                killed.append(1)
                client.submit(os._exit, 1, key="end", pure=False)

        blocklinear.split(rows, tmp_path / "many", client=client, listener=listener, **options())
        blocklinear.split(rows, tmp_path / "one", **options())
    assert killed
    assert files_of(tmp_path / "one") == files_of(tmp_path / "many")


@pytest.mark.parametrize("at", [0, 700])
def test_byte_order_marks(tmp_path, two, at):
    """One at the start is passed over, and one in the middle is refused, range or not."""
    lines = text_of(14, odd=False).splitlines()
    lines[at:] = (
        ["\ufeff" + line for line in lines[at:]] if at else ["\ufeff" + lines[0], *lines[1:]]
    )
    (tmp_path / "rows.svm").write_text("\n".join(lines) + "\n", encoding="utf-8")
    one, many = both(tmp_path, two, str(tmp_path / "rows.svm"))
    assert one == many
    assert isinstance(one, tuple) == (at > 0)


def test_files_on_urls(tmp_path, two):
    fsspec = pytest.importorskip("fsspec")
    files = fsspec.filesystem("memory")
    files.pipe("/split/rows.svm", text_of(15).encode())
    files.pipe("/split/more.svm.gz", gzip.compress(text_of(16, 100).encode(), mtime=0))
    inputs = ["memory://split/rows.svm", "memory://split/more.svm.gz"]
    assert_same(tmp_path, two, inputs)
    files.pipe("/split/rows.svm", text_of(15).encode() + b"1 x:1\n")
    for name in ("one", "many"):
        shutil.rmtree(tmp_path / name)
    one, many = both(tmp_path, two, inputs)
    assert one == many
    assert one[1].startswith("memory://split/rows.svm:")
