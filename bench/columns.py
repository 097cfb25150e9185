"""What columns cost, and how much of them the features of a sparse model need, by size of chunks.

The store is split again from the text, in a folder that is deleted. Features are those with a
weight in a model of LIBLINEAR, such as one of `liblinear-train -s 5 -c 0.1`.

    python bench/columns.py TEXT [--model MODEL] [--chunks 8192 32768] [--memory 256M]
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
from measuring import print_table

from blocklinear import BlockStore, LinearModel, split
from blocklinear.columns import transpose as transposing
from blocklinear.columns.store import ColumnStore
from blocklinear.memory import parse_size
from blocklinear.store.features import read_features

REPEATS = 3


def used_features(store: BlockStore, model: str) -> np.ndarray:
    """Return the numbers that the features of a model have in the store."""
    weights = LinearModel.load(model).weights
    used = np.flatnonzero(np.asarray(weights).reshape(len(weights), -1).any(axis=1))
    indices = read_features(store.folder, store.manifest)
    if indices is None:
        return used
    return np.flatnonzero(np.isin(indices - np.uint32(store.manifest.index_base), used))


def seconds(work) -> tuple[float, float]:
    """Return the medians of the seconds, and of the processor's seconds, that something takes."""
    wall, own = [], []
    for _ in range(REPEATS):
        started, own_started = time.perf_counter(), time.process_time()
        work()
        wall.append(time.perf_counter() - started)
        own.append(time.process_time() - own_started)
    return statistics.median(wall), statistics.median(own)


def needed(columns: ColumnStore, features: np.ndarray) -> float:
    """Return the share of the bytes that has to be read for some features."""
    blocks = range(len(columns.blocks))
    return columns.select(blocks, features).bytes / columns.select(blocks).bytes


def main() -> None:
    """Print a line for each size of chunks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text")
    parser.add_argument("--model", help="of LIBLINEAR")
    parser.add_argument("--chunks", type=int, nargs="+", default=[4096, 8192, 16384, 32768])
    parser.add_argument("--memory", default="2G")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=".") as folder:
        started = time.perf_counter()
        store = split(arguments.text, Path(folder, "store"))
        size = sum(block.bytes for block in store.manifest.blocks)
        print(f"split: {time.perf_counter() - started:.2f} s, {size / 1e6:.1f} MB of rows")
        features = used_features(store, arguments.model) if arguments.model else np.arange(0)
        lines = []
        for entries in arguments.chunks:
            transposing.CHUNK_ENTRIES = transposing.CHUNK_FEATURES = entries
            made: list[ColumnStore] = []
            how = parse_size(arguments.memory), 2

            def make(made=made, how=how) -> None:
                made.append(transposing.transpose(store, *how, force=True))

            wall, own = seconds(make)
            read = seconds(made[-1].verify)[1]
            share = f"{100 * needed(made[-1], features):.1f} %"
            megabytes = f"{made[-1].bytes / 1e6:.1f}"
            lines.append([entries, megabytes, f"{wall:.2f}", f"{own:.2f}", f"{read:.2f}", share])
        names = ["entries a chunk", "MB", "made in s", "CPU s", "read in CPU s"]
        print_table([*names, f"needed for {len(features)} features"], lines)


if __name__ == "__main__":
    main()
