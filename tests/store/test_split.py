import errno
import os
import re
import sys
import tracemalloc
from itertools import chain, product

import numpy as np
import programs
import pytest

from blocklinear.errors import (
    BusyError,
    InputError,
    MemoryBudgetError,
    MismatchError,
    StorageError,
    UsageError,
)
from blocklinear.events import SplitProgress, Warned
from blocklinear.ingest.arena import SLOT_ENTRY_BYTES, draw_blocks
from blocklinear.ingest.split import split
from blocklinear.ingest.writer import (
    ARENA_SHARE,
    OPEN_BLOCKS,
    SPARE_SLOTS,
    Plan,
    decoded_bytes,
    make_plan,
)
from blocklinear.memory import PROCESS_BYTES, parse_size
from blocklinear.options import SplitOptions
from blocklinear.store.files import Lock
from blocklinear.store.manifest import MAX_LABELS
from blocklinear.store.store import BlockStore

from .build import (
    TEXT,
    all_rows,
    expected_rows,
    load,
    make_store,
    random_text,
    small_text_options,
    tree,
    write_batch,
)

LINES = random_text(150, n_features=60).splitlines(keepends=True)


def blocks_of(manifest, folder):
    """Return the row numbers of each block."""
    positions = range(len(manifest.blocks))
    return [load(folder, manifest, [b]).row_numbers.tolist() for b in positions]


# what is written depends on the rows, the seed and the plan alone


def test_neither_threads_nor_memory_change_a_byte(tmp_path):
    source = tmp_path / "rows.svm"
    source.write_bytes(3 * random_text(30_000, n_features=2000))
    stores = []
    for k, (threads, memory) in enumerate([(1, 200), (2, 200), (5, 200), (1, 512), (5, 2048)]):
        options = SplitOptions(
            text=small_text_options(threads=threads, memory_bytes=memory << 20), blocks=4, seed=3
        )
        stores.append(tree(split([source], tmp_path / f"s{k}", options).folder))
    slab_bytes = small_text_options(threads=5, memory_bytes=200 << 20).slab_bytes
    assert source.stat().st_size > 2 * slab_bytes  # there are many slabs
    assert all(store == stores[0] for store in stores)
    assert len(stores[0]) == 6


@pytest.mark.parametrize("order", ["random", "file"])
@pytest.mark.parametrize(
    "plan",
    [
        Plan(3, np.inf, 1000),
        Plan(3, np.inf, 40),  # rows are flushed often
        Plan(3, 3000.0, 60),  # generations
        Plan(1, 5000.0, 2000),
        Plan(2, 1.0, 100),  # a generation a row
        Plan(1, np.inf, 4),  # rows longer than a chunk
    ],
    ids=str,
)
def test_how_the_rows_are_cut_does_not_matter(tmp_path, plan, order):
    whole = write_batch(tmp_path / "whole", [b"".join(LINES)], plan, order=order)
    seconds = [b"".join(LINES[k : k + 17]) for k in range(0, len(LINES), 17)]
    cut = write_batch(tmp_path / "cut", seconds, plan, order=order, threads=1)
    assert tree(tmp_path / "whole") == tree(tmp_path / "cut")
    assert all_rows(tmp_path / "cut", cut) == expected_rows(b"".join(LINES))
    assert whole.n_rows == len(LINES)
    assert BlockStore.open(tmp_path / "cut").verify().faults == []


def test_rows_go_where_their_number_says(tmp_path):
    manifest = write_batch(tmp_path / "s", [b"".join(LINES)], Plan(5, np.inf, 1000), seed=9)
    block = draw_blocks(9, 0, len(LINES), 5)
    expected = [np.flatnonzero(block == b).tolist() for b in range(5)]
    assert blocks_of(manifest, tmp_path / "s") == expected


def test_generations_follow_each_other(tmp_path):
    limit = 3000.0
    manifest = write_batch(tmp_path / "s", [b"".join(LINES)], Plan(3, limit, 1000))
    blocks = blocks_of(manifest, tmp_path / "s")
    assert len(blocks) % 3 == 0
    generations = [sorted(chain(*blocks[k : k + 3])) for k in range(0, len(blocks), 3)]
    assert list(chain(*generations)) == list(range(len(LINES)))
    sizes = [
        sum(decoded_bytes(b.rows, b.nnz) for b in manifest.blocks[k : k + 3])
        for k in range(0, len(blocks), 3)
    ]
    longest = decoded_bytes(1, 8)
    beyond = np.cumsum(sizes) - limit * np.arange(1, len(sizes) + 1)
    assert all(beyond[:-1] >= 0)
    assert all(beyond < longest)


def test_file_order_keeps_it(tmp_path):
    store = make_store(tmp_path, b"".join(LINES), blocks=4, order="file")
    blocks = blocks_of(store.manifest, store.folder)
    assert list(chain(*blocks)) == list(range(len(LINES)))
    assert len(blocks) == 4
    sizes = [decoded_bytes(b.rows, b.nnz) for b in store.manifest.blocks]
    assert max(sizes) < 1.2 * min(sizes)


@pytest.mark.parametrize(("rows", "blocks"), [(100, 60), (100, 99), (64, 64), (7, 3)])
def test_file_order_fills_as_many_blocks_as_asked_for(tmp_path, rows, blocks):
    text = b"1 1:1 2:1\n-1 3:1\n" * (rows // 2) + b"1 2:1\n" * (rows % 2)
    store = make_store(tmp_path, text, blocks=blocks, order="file")
    size = sum(decoded_bytes(b.rows, b.nnz) for b in store.manifest.blocks)
    written = write_batch(tmp_path / "written", [text], Plan(1, size / blocks, 1000))
    for manifest, folder in [(store.manifest, store.folder), (written, tmp_path / "written")]:
        assert len(manifest.blocks) == blocks
        assert list(chain(*blocks_of(manifest, folder))) == list(range(rows))


def test_the_seed_decides(tmp_path):
    stores = [make_store(tmp_path, name=f"s{s}", seed=s // 2) for s in range(4)]
    prints = [store.manifest.fingerprint for store in stores]
    assert prints[0] == prints[1] != prints[2] == prints[3]


def test_long_rows(tmp_path):
    rng = np.random.default_rng(1)
    rows = [b"1", b"-1 5:1"] + [b"1 " + entries(rng, n) for n in (5000, 3, 2500, 2000, 1999)]
    text = b"\n".join(rows) + b"\n"
    manifest = write_batch(tmp_path / "s", [text], Plan(2, np.inf, 2000))
    assert all_rows(tmp_path / "s", manifest) == expected_rows(text)


def entries(rng, n):
    return b" ".join(b"%d:%.3f" % (i, v) for i, v in enumerate(rng.uniform(1, 2, n), 1))


# what the manifest says


def test_several_inputs_are_one_after_the_other(tmp_path):
    for name, part in (("a", LINES[:100]), ("b", LINES[100:])):
        (tmp_path / name).write_bytes(b"".join(part))
    options = SplitOptions(text=small_text_options(), blocks=3)
    store = split([tmp_path / "a", tmp_path / "b"], tmp_path / "s", options)
    assert all_rows(store.folder, store.manifest) == expected_rows(b"".join(LINES))
    sources = store.manifest.batches[0]["sources"]
    assert [source["rows"] for source in sources] == [100, 50]


def test_labels_in_order_of_first_appearance(tmp_path):
    store = make_store(tmp_path, b"3 1:1\n-1 1:1\n2.5 1:1\n3 1:1\n-1 2:1\n3 1:1\n")
    assert store.manifest.labels == [3.0, -1.0, 2.5]
    assert store.manifest.label_counts == [3, 2, 1]


def test_too_many_labels_are_not_tabulated(tmp_path):
    text = b"".join(b"%d.5 1:1\n" % i for i in range(MAX_LABELS + 1))
    store = make_store(tmp_path, text)
    assert store.manifest.labels is None
    assert store.verify().faults == []
    fewer = make_store(tmp_path, text[: text.rindex(b"\n", 0, -1) + 1], name="fewer")
    assert len(fewer.manifest.labels) == MAX_LABELS
    assert fewer.manifest.label_counts == [1] * MAX_LABELS


def test_labels_that_are_too_many_take_no_memory(tmp_path):
    def peak(n_rows):
        starts = range(0, n_rows, 10_000)
        pieces = (b"".join(b"%d 1:1\n" % i for i in range(k, k + 10_000)) for k in starts)
        tracemalloc.start()
        try:
            write_batch(tmp_path / f"s{n_rows}", pieces, Plan(2, 1e6, 10_000))
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(10_000)  # loads the kernels
    assert peak(300_000) - peak(100_000) < 1 << 20


def test_events(tmp_path):
    source, heard = tmp_path / "rows", []
    source.write_bytes(b"1 1:1\n1 2:1")
    split([source], tmp_path / "s", SplitOptions(text=small_text_options(), blocks=1), heard.append)
    warnings = [event.message for event in heard if isinstance(event, Warned)]
    assert any("no newline" in warning for warning in warnings)
    assert any("the one label 1" in warning for warning in warnings)
    assert [e.rows for e in heard if isinstance(e, SplitProgress)][-1] == 2


# refusals leave the world as it was


def refused(kind, code, call, *args, match=None, **kwargs):
    with pytest.raises(kind, match=match) as caught:
        call(*args, **kwargs)
    assert caught.value.exit_code == code


def test_a_target_that_exists(tmp_path):
    store = make_store(tmp_path)
    before = tree(store.folder)
    refused(MismatchError, 5, make_store, tmp_path, b"1 1:1\n", match="exists")
    assert tree(store.folder) == before
    replaced = make_store(tmp_path, b"1 1:1\n-1 1:1\n", force=True)
    assert replaced.manifest.n_rows == 2
    assert BlockStore.open(store.folder).manifest == replaced.manifest
    assert sorted(os.listdir(tmp_path)) == ["store", "store.svm"]


def test_an_empty_name_is_not_the_current_folder(tmp_path, monkeypatch):
    store = make_store(tmp_path)
    monkeypatch.chdir(store.folder)
    for use in (BlockStore.open, lambda name: split(["rows.svm"], name, SplitOptions(force=True))):
        with pytest.raises(UsageError, match="the name of the store is empty"):
            use("")
    assert BlockStore.open(".").manifest == store.manifest


@pytest.mark.parametrize("force", [False, True])
def test_what_is_no_store_is_not_replaced(tmp_path, force):
    """And nobody is told that force would do it."""
    told = "exists and is not a store\n  fix: choose another name$"
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "thesis.tex").touch()
    refused(MismatchError, 5, make_store, tmp_path, force=force, match=told)
    assert os.listdir(tmp_path / "store") == ["thesis.tex"]
    (tmp_path / "store" / "thesis.tex").rename(tmp_path / "thesis.tex")
    (tmp_path / "store").rmdir()
    (tmp_path / "store").write_text("1 1:1\n")
    refused(MismatchError, 5, make_store, tmp_path, force=force, match=told)
    assert (tmp_path / "store").read_text() == "1 1:1\n"


def test_a_target_that_appears_meanwhile(tmp_path):
    """A second split that began before the first ended must not replace its store."""
    source, target = tmp_path / "rows", tmp_path / "s"
    source.write_bytes(TEXT)

    def meanwhile(event):
        target.mkdir()
        (target / "manifest.json").touch()

    options = SplitOptions(text=small_text_options(), blocks=1)
    refused(MismatchError, 5, split, [source], target, options, meanwhile, match="exists")
    assert os.listdir(target) == ["manifest.json"]


def test_force_with_a_bad_input_keeps_the_old_store(tmp_path):
    store = make_store(tmp_path)
    before = tree(store.folder)
    refused(InputError, 3, make_store, tmp_path, b"1 1:1\n1 x:1\n", force=True)
    assert tree(store.folder) == before
    assert sorted(os.listdir(tmp_path)) == ["store", "store.svm"]


@pytest.mark.parametrize("text", [b"", b"\n\n", b"# nothing\n", b"1 1:1\n1 0:1\n"])
def test_a_bad_input_makes_no_store(tmp_path, text):
    refused(InputError, 3, make_store, tmp_path, text)
    assert os.listdir(tmp_path) == ["store.svm"]


def test_a_value_that_float32_cannot_hold(tmp_path):
    text = b"1 1:1\n-1 1:1e39\n"
    refused(InputError, 3, make_store, tmp_path, text, dtype="float32", match="float32")
    assert os.listdir(tmp_path) == ["store.svm"]
    assert make_store(tmp_path, text).verify().faults == []


def test_a_folder_that_does_not_exist(tmp_path):
    (tmp_path / "rows").write_bytes(TEXT)
    options = SplitOptions(text=small_text_options())
    refused(StorageError, 6, split, [tmp_path / "rows"], tmp_path / "no" / "s", options)


def test_two_splits_to_one_target(tmp_path):
    staging = tmp_path / ".store.splitting"
    staging.mkdir()
    with Lock(staging / "lock"):
        refused(BusyError, 8, make_store, tmp_path, match="this process")
    assert make_store(tmp_path).manifest.n_rows == 7


def test_a_store_in_use_is_not_replaced(tmp_path):
    store = make_store(tmp_path)
    before = tree(store.folder)
    with Lock(store.folder / "lock"):
        refused(BusyError, 8, make_store, tmp_path, force=True)
    assert tree(store.folder) == before
    assert sorted(os.listdir(tmp_path)) == ["store", "store.svm"]


def test_more_blocks_than_the_memory_holds(tmp_path):
    refused(MemoryBudgetError, 7, make_store, tmp_path, blocks=99_999, match="do not fit")
    assert os.listdir(tmp_path) == ["store.svm"]


def run_script(script, *args):
    return programs.run([sys.executable, "-c", script, *args])


def test_killed_in_the_middle(tmp_path):
    (tmp_path / "store.svm").write_bytes(TEXT)
    script = """
import os, sys
from blocklinear.options import SplitOptions
from blocklinear.ingest.split import split
os.fsync = lambda descriptor: os.kill(os.getpid(), 9)  # of the first file that is written
split(sys.argv[1:2], sys.argv[2], SplitOptions(blocks=2))
"""
    done = run_script(script, tmp_path / "store.svm", tmp_path / "store")
    assert done.returncode == -9, done.stderr
    assert sorted(os.listdir(tmp_path)) == [".store.splitting", "store.svm"]
    left = tmp_path / ".store.splitting"
    assert [*left.glob("blocks/*.blk"), *left.glob("features/*.map")]
    store = make_store(tmp_path)
    assert store.verify().faults == []
    assert sorted(os.listdir(tmp_path)) == ["store", "store.svm"]
    assert store.verify().unused_files == []


def test_no_space(tmp_path):
    (tmp_path / "rows").write_bytes(random_text(3000))
    script = """
import resource, sys
from blocklinear.cli.main import main
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
sys.exit(main(["split", *sys.argv[1:], "--blocks", "1", "--memory", "256M", "-q"]))
"""
    done = run_script(script, tmp_path / "rows", tmp_path / "store")
    assert done.returncode == 6, done.stderr
    assert "b00000000.blk: write failed: File too large" in done.stderr
    assert "fix: free some space" in done.stderr
    assert os.listdir(tmp_path) == ["rows"]


@pytest.mark.parametrize("at", range(1, 10))
def test_a_sync_that_fails(tmp_path, monkeypatch, at):
    """Whichever it is, of a block, the manifest, or a folder: the store is there whole or not."""
    real, calls = os.fsync, []

    def fail(descriptor):
        calls.append(descriptor)
        if len(calls) == at:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fail)
    refused(StorageError, 6, make_store, tmp_path, blocks=2, match="No space")
    left = sorted(os.listdir(tmp_path))
    if at < 9:
        assert left == ["store.svm"]
    else:  # the last makes the new name durable: by then the store is whole
        assert left == ["store", "store.svm"]
        assert BlockStore.open(tmp_path / "store").verify().faults == []


# plans


def plan(memory=1024, **options):
    return make_plan(SplitOptions(text=small_text_options(memory_bytes=memory << 20), **options))


def test_blocks_asked_for_are_all_open():
    assert plan(blocks=7) == Plan(7, np.inf, 100_000)


@pytest.mark.parametrize("memory", [200, 224, 256, 512, 4096])
def test_arenas_stay_within_the_budget(memory):
    chosen = plan(memory)
    arenas = (chosen.open_blocks + SPARE_SLOTS) * chosen.chunk_entries * SLOT_ENTRY_BYTES
    assert arenas <= ARENA_SHARE * ((memory << 20) - PROCESS_BYTES)
    assert chosen.open_blocks in OPEN_BLOCKS
    assert 1 << 20 <= chosen.block_bytes <= 32 << 20
    assert chosen.generation_bytes == chosen.open_blocks * chosen.block_bytes


@pytest.mark.parametrize("weights", [None, "w"])
def test_the_budget_that_a_refused_split_names_is_enough(weights):
    """It was rounded down to three digits."""
    asked = [None, *range(1, 400), *range(400, 100_000, 97)]
    for memory, blocks in product((1, 16, 111, 120, 150, 256, 1000), asked):
        try:
            plan(memory, blocks=blocks, weights=weights)
        except MemoryBudgetError as error:
            named = parse_size(re.search(r"give --memory (\S+) or more", error.fix)[1])
            assert named > memory << 20
            assert named & ((1 << 20) - 1) == 0
            chosen = plan(named >> 20, blocks=blocks, weights=weights)
            assert blocks in (None, chosen.open_blocks)
