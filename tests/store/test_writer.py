"""How many blocks rows make: that follows from the rows, however they come."""

import gzip
import os
from itertools import chain
from threading import Thread

import numpy as np
import pytest

from blocklinear.ingest.arena import draw_blocks
from blocklinear.ingest.split import split
from blocklinear.ingest.writer import Plan, decoded_bytes
from blocklinear.options import SplitOptions
from blocklinear.store.store import BlockStore

from .build import (
    all_rows,
    expected_rows,
    load,
    random_text,
    small_text_options,
    tree,
    write_batch,
)

COMMENTS = b"# nothing but a remark on the rows that follow, all of them the same\n" * 16_000


def stored(folder, content, name="s", **options):
    source = folder / f"{name}.svm"
    source.write_bytes(content)
    text = small_text_options(memory_bytes=226 << 20)
    return split([source], folder / name, SplitOptions(text=text, **options))


def sizes(manifest):
    return [decoded_bytes(b.rows, b.nnz) for b in manifest.blocks]


def test_comments_before_the_rows_make_no_small_blocks(tmp_path):
    text = random_text(1500)
    assert len(COMMENTS) > 1 << 20
    store = stored(tmp_path, COMMENTS + text)
    assert len(store.manifest.blocks) == 1
    assert all_rows(store.folder, store.manifest) == expected_rows(text)


def test_blocks_in_the_order_of_the_input_count_no_comments(tmp_path):
    store = stored(tmp_path, COMMENTS + random_text(1500), blocks=5, order="file")
    blocks = [load(store.folder, store.manifest, [b]).row_numbers.tolist() for b in range(5)]
    assert list(chain(*blocks)) == list(range(1500))
    assert max(sizes(store.manifest)) < 1.1 * min(sizes(store.manifest))


def test_sorted_rows_in_a_small_gz_are_dealt_at_random(tmp_path):
    text = b"".join(b"%d 1:1\n" % (2 * (k // 150_000) - 1) for k in range(300_000))
    packed = gzip.compress(text, 6, mtime=0)
    assert len(packed) < 100_000
    store = stored(tmp_path, packed)
    assert len(store.manifest.blocks) == 3
    for block in store.manifest.blocks:
        assert block.label_counts == pytest.approx([50_000, 50_000], rel=0.02)


@pytest.mark.parametrize("n_rows", [1500, 40_000])
def test_the_same_rows_make_the_same_blocks_however_they_come(tmp_path, n_rows):
    text = random_text(n_rows, per_row=60)
    store = stored(tmp_path, text, "plain")
    assert len(store.manifest.blocks) == (1 if n_rows == 1500 else 3)
    os.mkfifo(tmp_path / "fifo")
    writer = Thread(target=(tmp_path / "fifo").write_bytes, args=(text,), daemon=True)
    writer.start()
    options = SplitOptions(text=small_text_options(threads=1, memory_bytes=226 << 20))
    others = [
        stored(tmp_path, gzip.compress(text, 1, mtime=0), "gz"),
        stored(tmp_path, COMMENTS + text, "comments"),
        split([tmp_path / "fifo"], tmp_path / "stream", options),
    ]
    writer.join()
    blocks = {name: data for name, data in tree(store.folder).items() if "manifest" not in name}
    assert len(blocks) == len(store.manifest.blocks) + 1  # features
    for other in others:
        assert other.manifest.blocks == store.manifest.blocks
        assert blocks.items() <= tree(other.folder).items()


@pytest.mark.parametrize("chunk_entries", [40, 300, 5000])
@pytest.mark.parametrize("n_rows", [1, 15, 100, 150, 160, 300])
def test_blocks_of_the_last_generation_are_joined(tmp_path, n_rows, chunk_entries):
    text, n_open, block_bytes = random_text(n_rows), 16, 2000.0
    plan = Plan(n_open, n_open * block_bytes, chunk_entries, block_bytes)
    manifest = write_batch(tmp_path / "s", [text], plan, seed=5)
    assert all_rows(tmp_path / "s", manifest) == expected_rows(text)
    assert BlockStore.open(tmp_path / "s").verify().faults == []
    assert len(os.listdir(tmp_path / "s" / "blocks")) == len(manifest.blocks)
    assert manifest.next_block == len(manifest.blocks)
    full = n_open * (sum(sizes(manifest)) // int(plan.generation_bytes))
    last = sizes(manifest)[full:]
    assert len(last) in (0, 1, 2, 4, 8, 16)
    if last:
        assert sum(last) / len(last) <= block_bytes
        assert len(last) == 1 or 2 * sum(last) / len(last) > block_bytes
    of_block = draw_blocks(5, 0, n_rows, max(len(last), 1))
    for b in range(full, len(manifest.blocks)):
        rows = load(tmp_path / "s", manifest, [b]).row_numbers
        assert np.all(of_block[rows] == b - full)


@pytest.mark.parametrize("chunk_entries", [40, 5000])
def test_joined_blocks_do_not_depend_on_threads(tmp_path, chunk_entries):
    text, plan = random_text(400), Plan(16, 1e9, chunk_entries, 1e4)
    lines = text.splitlines(keepends=True)
    write_batch(tmp_path / "whole", [text], plan, threads=1)
    pieces = [b"".join(lines[k : k + 7]) for k in range(0, len(lines), 7)]
    write_batch(tmp_path / "cut", pieces, plan, threads=5)
    assert tree(tmp_path / "whole") == tree(tmp_path / "cut")


def test_joined_blocks_keep_weights_and_labels(tmp_path):
    text = random_text(3000)
    (tmp_path / "w").write_text("".join(f"{k % 4}\n" for k in range(3000)))
    one = stored(tmp_path, text, "one", weights=tmp_path / "w", blocks=1)
    joined = stored(tmp_path, text, "joined", weights=tmp_path / "w")
    assert joined.manifest.blocks == one.manifest.blocks
    assert joined.verify().faults == []
