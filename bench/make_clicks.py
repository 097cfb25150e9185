"""Write a Parquet table of clicks, like that of Criteo: 13 columns of numbers, 26 of categories.

    python bench/make_clicks.py FOLDER --rows 10000000 [--rows-a-file 2500000] [--seed 0]

Categories are skewed, five of their columns have millions of values, and both kinds of columns
have missing values. The label follows a logistic model of some of them.
"""

import argparse
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

CARDINALITIES = (
    1460, 583, 10_131_227, 2_202_608, 305, 24, 12_517, 633, 3, 93_145, 5683, 8_351_593, 3194, 27,
    14_992, 5_461_306, 10, 5652, 2173, 4, 7_046_547, 18, 15, 286_181, 105, 142_572,
)  # fmt: skip
ROWS_A_GROUP = 250_000
HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
MASK = np.uint64(0xFFFFFFFFFFFFFFFF)


def mixed(x: np.ndarray) -> np.ndarray:
    """Return numbers that look random, of 64 bits (SplitMix64)."""
    x = (x + np.uint64(0x9E3779B97F4A7C15)) & MASK
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def hexadecimal(x: np.ndarray) -> pa.Array:
    """Return the last 8 hexadecimal digits of numbers, as Arrow strings."""
    digits = np.empty((len(x), 8), np.uint8)
    for k in range(8):
        digits[:, k] = HEX[(x >> np.uint64(4 * k)).astype(np.int64) & 15]
    offsets = pa.py_buffer(np.arange(0, 8 * len(x) + 1, 8, dtype=np.int32))
    return pa.Array.from_buffers(pa.string(), len(x), [None, offsets, pa.py_buffer(digits)])


def with_missing(array: pa.Array, missing: np.ndarray) -> pa.Array:
    """Return an array with nulls where `missing` is set."""
    return pa.compute.if_else(pa.array(missing), pa.scalar(None, array.type), array)


def make_part(rng: np.random.Generator, n: int) -> pa.Table:
    """Return some rows."""
    score = rng.normal(-1.4, 0.5, n)
    columns: dict[str, pa.Array] = {}
    for j in range(13):
        values = np.floor(np.exp(rng.normal(1.0 + j % 4, 1.2, n))).astype(np.int64)
        score += 0.15 * np.cos(j) * np.log1p(values)
        columns[f"i{j + 1}"] = with_missing(pa.array(values), rng.random(n) < 0.03 * (j % 5))
    for j, cardinality in enumerate(CARDINALITIES):
        rank = (cardinality * rng.random(n) ** 4).astype(np.uint64)
        code = mixed(rank + np.uint64(j << 32))
        score += 0.3 * ((code >> np.uint64(40)).astype(np.float64) / (1 << 24) - 0.5)
        missing = rng.random(n) < (0.4 if j % 7 == 6 else 0.0)
        columns[f"c{j + 1}"] = with_missing(hexadecimal(code), missing)
    click = (rng.random(n) < 1 / (1 + np.exp(-score))).astype(np.int8)
    return pa.table({"click": pa.array(click), **columns})


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rows-a-file", type=int, default=2_500_000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    rng, written, k = np.random.default_rng(args.seed), 0, 0
    while written < args.rows:
        in_file = min(args.rows_a_file, args.rows - written)
        writer, done = None, 0
        while done < in_file:
            part = make_part(rng, min(ROWS_A_GROUP, in_file - done))
            if writer is None:
                writer = pq.ParquetWriter(args.folder / f"part-{k:03}.parquet", part.schema)
            writer.write_table(part)
            done += len(part)
        writer.close()
        written, k = written + in_file, k + 1


if __name__ == "__main__":
    main()
