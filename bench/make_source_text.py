"""Write LIBSVM text of a tree of source code: a row for some lines of a file, of words and pairs.

    python bench/make_source_text.py TREE OUT --of FOLDER [--rows 253000] [--seed 0]

The label is 1 for files in a folder of the tree, -1 for others. Words and pairs of words that
stand in four rows or more are the features, in alphabetical order; values are tf-idf, and rows have
length 1. Takes some minutes, and 6 GB of memory for 250,000 rows.
"""

import argparse
import json
import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np

ENDINGS = (".c", ".h", ".S", ".rst", ".py", ".cc", ".cpp", ".java", ".go", ".rs")
LINES, WORDS, LEAST_ROWS = 95, (30, 900), 4
"""Lines of a row; words it has at least and at most; rows that have a feature, at least."""
_WORD = re.compile(r"[A-Za-z_]\w+")


def pieces(path: Path) -> Iterator[Counter[str]]:
    """Yield how often words and pairs of words are in some lines of a file after the others."""
    lines = path.read_text(errors="replace").split("\n")
    for start in range(0, len(lines), LINES):
        words = _WORD.findall("\n".join(lines[start : start + LINES]))[: WORDS[1]]
        if len(words) >= WORDS[0]:
            yield Counter(words) + Counter(map(" ".join, pairwise(words)))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tree", type=Path, metavar="TREE")
    parser.add_argument("out", type=Path, metavar="OUT")
    parser.add_argument("--of", required=True, metavar="FOLDER", help="of the tree: label 1")
    parser.add_argument("--rows", type=int, default=253_000, help="at most (default 253000)")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    files = sorted(path for path in args.tree.rglob("*") if path.suffix in ENDINGS)
    rng = np.random.default_rng(args.seed)
    numbers: dict[str, int] = {}
    rows: list[tuple[int, np.ndarray, np.ndarray]] = []
    for k in rng.permutation(len(files)):
        label = 1 if files[k].is_relative_to(args.tree / args.of) else -1
        for counts in pieces(files[k]) if len(rows) < args.rows and files[k].is_file() else ():
            own = [numbers.setdefault(word, len(numbers)) for word in counts]
            rows.append((label, np.array(own, np.int32), np.array([*counts.values()], np.int32)))
    del rows[args.rows :]
    found = write(args.out, rows, numbers, rng)
    print(json.dumps(found | {"bytes": args.out.stat().st_size}))


def write(
    out: Path,
    rows: list[tuple[int, np.ndarray, np.ndarray]],
    numbers: dict[str, int],
    rng: np.random.Generator,
) -> dict[str, int]:
    """Write rows, the numbers and counts of their words, in random order."""
    in_rows = np.zeros(len(numbers), np.int64)
    for _, own, _ in rows:
        in_rows[own] += 1
    words = list(numbers)
    kept = sorted(np.flatnonzero(in_rows >= LEAST_ROWS).tolist(), key=words.__getitem__)
    feature = np.zeros(len(numbers), np.int64)
    feature[kept] = np.arange(1, len(kept) + 1)
    rarity, nonzeros, positive = np.log(len(rows) / np.maximum(in_rows, 1)), 0, 0
    with open(out, "w") as stream:
        for k in rng.permutation(len(rows)):
            label, own, counts = rows[k]
            values = (1.0 + np.log(counts)) * rarity[own] * (feature[own] > 0)
            values /= np.sqrt(values @ values) or 1.0
            order = np.argsort(feature[own])
            order = order[values[order] > 0.0]
            pairs = zip(feature[own[order]].tolist(), values[order].tolist(), strict=True)
            stream.write(" ".join([str(label), *(f"{j}:{value:.6g}" for j, value in pairs)]) + "\n")
            nonzeros, positive = nonzeros + len(order), positive + (label > 0)
    return {"rows": len(rows), "of 1": positive, "features": len(kept), "nonzeros": nonzeros}


if __name__ == "__main__":
    main()
