"""Write the golden stores of a format version; see README.md. ``python make.py v4``."""

import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np

from blocklinear.ingest.numbering import Numbering
from blocklinear.ingest.writer import BatchWriter, Plan
from blocklinear.options import SplitOptions, TextOptions
from blocklinear.store.codec import compression_level
from blocklinear.store.features import write_features
from blocklinear.store.manifest import Manifest
from blocklinear.text.rows import parse

TEXT = b"""\
1 1:0.5 3:-2 7:1e-3
-1 2:3.14159
1
-1 1:-1 2:0.12345678901234567 65536:-12345.678
1 4:7 4294967295:1e100
-1 1:1 2:1 3:1
1 900:-0.25
-1.5 5:1e-30
1 1:100000000000000000000
"""
TEXT += b"1 " + b" ".join(b"%d:1" % i for i in range(1, 101)) + b"\n"  # worth compressing
WEIGHTS = (1.0, 0.5, 2.0, 0.0, 1 / 3, 1e-100, 7.0, 1e100, 1.5, 0.1)
DATE = "2026-01-01T00:00:00Z"
NAMES = {"none": "none", "zstd": "zstd:1"}


def write(folder: Path, compression: str, version: int) -> None:
    """Write TEXT as a store of three blocks, with nothing in it that depends on time or place."""
    weighted, renumbered = version in (2, 4), version in (3, 4)
    numbering = Numbering(256 << 20, 1 << 32) if renumbered else None
    (folder / "blocks").mkdir(parents=True)
    options = SplitOptions(
        text=TextOptions(threads=1, memory_bytes=256 << 20),
        seed=1,
        compression=compression,
        weights="weights.txt" if weighted else None,
    )
    rows = parse(np.frombuffer(bytearray(TEXT + b"\n"), np.uint8), 1)
    with ThreadPoolExecutor(1) as pool:
        writer = BatchWriter(
            folder / "blocks", "b1", Plan(3, 1e18, 2000), options, pool, numbering=numbering
        )
        writer.append(replace(rows, weights=np.array(WEIGHTS)) if weighted else rows)
        blocks, labels = writer.finish()
    features, level = [], compression_level(compression)
    if numbering is not None:
        features = [write_features(folder, 0, numbering.new_indices(), level)]
    batch = {"name": "b1", "date": DATE, "rows": writer.n_rows, "sources": []}
    Manifest(
        format=version,
        generation=1,
        written_by="0.1.0",
        seed=1,
        order="random",
        index_base=1,
        hash_bits=0,
        n_features=len(numbering) if renumbered else writer.max_index,
        n_rows=writer.n_rows,
        nnz=writer.nnz,
        next_row=writer.next_row,
        next_block=writer.next_block,
        dtype="float64",
        compression=compression,
        normalize="none",
        labels=labels,
        batches=[batch | ({"weights": []} if weighted else {})],
        blocks=blocks,
        dimension=writer.max_index,
        features=features,
    ).save(folder)


if __name__ == "__main__":
    for name, compression in NAMES.items():
        write(Path(sys.argv[1]) / name, compression, int(sys.argv[1][-1]))
