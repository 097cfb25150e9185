"""Compare the tokenizer with the reference on generated lines; a script for long runs."""

import argparse
import random
import struct
import time

import numpy as np

from blocklinear.text.rows import Rows, parse

if __package__:
    from . import lines, reference
else:  # run as a script
    import lines
    import reference


def as_text(raw: bytes) -> np.ndarray:
    """What `parse` takes: whole lines and a guard newline."""
    return np.frombuffer(bytearray(raw + b"\n"), np.uint8)


def bits(number: float) -> bytes:
    return struct.pack("<d", number)


def tokenized(rows: Rows) -> list[tuple]:
    """The rows as (bits of the label, [(index, bits of the value), ...])."""
    indptr, indices = rows.indptr.tolist(), rows.indices.tolist()
    values = [bits(value) for value in rows.values().tolist()]
    return [
        (bits(label), list(zip(indices[start:stop], values[start:stop], strict=True)))
        for label, start, stop in zip(rows.labels().tolist(), indptr[:-1], indptr[1:], strict=True)
    ]


def referenced(batch: list[bytes], base: int) -> tuple[list[tuple], list[int], int]:
    """The same from the reference: rows, line numbers refused, lines without a row."""
    rows, refused, blank = [], [], 0
    for k, line in enumerate(batch):
        try:
            row = reference.read_line(line, base)
        except reference.Refused:
            refused.append(k)
            continue
        if row is None:
            blank += 1
        else:
            rows.append((bits(row[0]), [(index, bits(value)) for index, value in row[1]]))
    return rows, refused, blank


def compare(batch: list[bytes], base: int) -> int:
    """Raise unless both read `batch` alike; return how many lines were refused."""
    rows = parse(as_text(b"".join(line + b"\n" for line in batch)), base, len(batch) + 1)
    expected, refused, blank = referenced(batch, base)
    found = [fault.line for fault in rows.faults]
    if found != refused:
        k = min(set(found) ^ set(refused))
        raise AssertionError(f"{'refused' if k in found else 'accepted'}: {batch[k]!r}")
    got = tokenized(rows)
    if got != expected:
        k = next(k for k, (a, b) in enumerate(zip(got, expected, strict=True)) if a != b)
        kept = [line for i, line in enumerate(batch) if i not in set(refused)]
        kept = [line for line in kept if reference.read_line(line, base) is not None]
        raise AssertionError(f"{kept[k]!r} read as {got[k]}, not {expected[k]}")
    if (rows.n_lines, rows.n_blank) != (len(batch), blank):
        raise AssertionError(f"{rows.n_lines} lines, {rows.n_blank} blank: {len(batch)}, {blank}")
    return len(refused)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    rng, started, refused = random.Random(args.seed), time.perf_counter(), 0
    for done in range(0, args.lines, 1000):
        size = min(1000, args.lines - done)
        refused += compare([lines.line(rng) for _ in range(size)], rng.choice((0, 1)))
    seconds = time.perf_counter() - started
    print(f"{args.lines} lines alike, {refused} of them refused, in {seconds:.0f} s")


if __name__ == "__main__":
    main()
