"""Write the golden stores of a format version; see README.md. ``python make.py v4``."""

import hashlib
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np

from blocklinear.ingest.numbering import Numbering
from blocklinear.ingest.writer import BatchWriter, Plan
from blocklinear.options import SplitOptions, TextOptions
from blocklinear.store.codec import compression_level
from blocklinear.store.features import write_features, write_names
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
CLASSES = {"1": "yes", "-1": "no", "-1.5": "vielleicht, oder nie"}
NAMES = ("length", "Länge", "")
TABLE = b"""\
1 1:0.5 3:1
2 2:1 4:1
1 1:-2.25 5:1
2 1:1e-30 3:1
1 1:7 4:1
2 1:0.12345678901234567 5:1
"""
# Features in the order of their numbers, which a writer may choose.
ORDER = (1, 2, 3, 4, 5, 7, 6, *range(8, 101), 900, 65536, 4294967295)
TABLE_ORDER = (1, 3, 4, 5, 2)
RECIPE = {
    "version": 1,
    "columns": [
        {"name": "age", "kind": "number", "mean": 1.5, "scale": 0.1},
        {"name": "city", "kind": "text", "mean": None, "scale": None},
    ],
    "target": {"name": "click", "kind": "number"},
    "weight": None,
    "hash": None,
    "hash_bits": 0,
    "dictionary": [[1, "Rome"], [1, "Zürich"], [1, "missing"]],
    "interactions": [],
}
DATE = "2026-01-01T00:00:00Z"
COMPRESSIONS = {"none": "none", "zstd": "zstd:1"}


def write(folder: Path, compression: str, version: int) -> None:
    """Write a store of three blocks, with nothing in it that depends on time or place."""
    weighted, renumbered, named, of_tables = (bool((version - 1) & bit) for bit in (1, 2, 4, 8))
    order = np.array(TABLE_ORDER if of_tables else ORDER, np.uint32)
    text = TextOptions(threads=1, memory_bytes=256 << 20, max_features=1 << 32)
    numbering = Numbering(text, order.copy()) if renumbered else None
    (folder / "blocks").mkdir(parents=True)
    options = SplitOptions(
        text=TextOptions(threads=1, memory_bytes=256 << 20),
        seed=1,
        compression=compression,
        weights="weights.txt" if weighted else None,
    )
    text = TABLE if of_tables else TEXT
    rows = parse(np.frombuffer(bytearray(text + b"\n"), np.uint8), 1)
    with ThreadPoolExecutor(1) as pool:
        writer = BatchWriter(
            folder / "blocks", Plan(3, 1e18, 2000), options, pool, numbering=numbering
        )
        writer.append(replace(rows, weights=np.array(WEIGHTS[: rows.n_rows])) if weighted else rows)
        blocks, labels = writer.finish()
    features, level = [], compression_level(compression)
    if numbering is not None:
        features = [write_features(folder, 0, order, level)]
    more = {}
    if named:
        more["classes"] = {"1": "yes", "2": "no"} if of_tables else CLASSES
        more["names"] = {} if of_tables else write_names(folder, NAMES)
    if of_tables:
        recipe = RECIPE | {"weight": "worth"} if weighted else RECIPE
        target = {"name": "click", "kind": "text" if named else "number"}
        content = json.dumps(recipe | {"target": target}).encode()
        (folder / "recipe.json").write_bytes(content)
        more["recipe"] = hashlib.sha256(content).hexdigest()
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
        **more,
    ).save(folder)


if __name__ == "__main__":
    for name, compression in COMPRESSIONS.items():
        write(Path(sys.argv[1]) / name, compression, int(sys.argv[1][1:]))
