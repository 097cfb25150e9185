"""Write LIBSVM text of any size, in the shape of a known data set.

    python bench/generate.py kddcup /tmp/kdd.svm --bytes 1G
    python bench/generate.py text /tmp/text.svm --rows 100000 --sorted-by-class

Features are numbered at random, as those of real files are as good as; --by-frequency numbers them
from the most frequent one on, which spares caches and compresses better than real data do.

The same shape, seed and size give the same bytes, whatever --jobs is. Sizes are those of disks:
1G is 10^9 bytes, 1Gi is 2^30. A summary is printed as one JSON object.
"""

import argparse
import contextlib
import json
import re
import shutil
import sys
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from shapes import Rows, Shape, ShapeError, make_shape
from svmtext import POWERS_OF_TEN, put_rows, rows_capacity


@dataclass
class Summary:
    """What was written, and how fast."""

    rows: int = 0
    nonzeros: int = 0
    max_index: int = 0
    bytes: int = 0
    bytes_per_nonzero: float = 0.0
    seconds: float = 0.0
    megabytes_per_second: float = 0.0


@dataclass(frozen=True)
class Chunk:
    """Some rows and their text, class by class."""

    rows: Rows
    lengths: np.ndarray
    by_class: dict[int, memoryview]


def parse_bytes(text: str) -> int:
    """Read ``300M``, ``1.5G`` (powers of 1000) or ``1Gi`` (powers of 1024) as bytes."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kmgt]?)(i?)b?", text.strip().lower())
    size = 0.0
    if match:
        size = float(match[1]) * (1024 if match[3] else 1000) ** " kmgt".index(match[2] or " ")
    if size < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size; write 300M, 1.5G or 1Gi")
    return int(size)


def make_chunk(shape: Shape, first: int, count: int, split: bool) -> Chunk:
    """Draw `count` rows and print them; under key 0 when the classes are not to be `split`."""
    return print_rows(shape.rows(first, count), signed=not shape.n_classes, split=split)


def print_rows(rows: Rows, signed: bool, split: bool) -> Chunk:
    """Return the rows and their text."""
    count = rows.labels.shape[0]
    order = np.argsort(rows.labels, kind="stable") if split else np.arange(count)
    text = np.empty(rows_capacity(count, rows.indices.shape[0]), dtype=np.uint8)
    lengths = np.zeros(count, dtype=np.int64)
    put_rows(rows.labels, signed, *rows[1:], order, POWERS_OF_TEN, text, lengths)
    by_class, start = {}, 0
    for label in np.unique(rows.labels) if split else [0]:
        size = int(lengths[rows.labels == label].sum() if split else lengths.sum())
        by_class[int(label)] = memoryview(text[start : start + size])
        start += size
    return Chunk(rows, lengths, by_class)


def first_rows(chunk: Chunk, count: int, signed: bool, split: bool) -> Chunk:
    """Return the first `count` rows of a chunk, printed again."""
    labels, indptr, indices, values = chunk.rows
    nnz = indptr[count]
    cut = Rows(labels[:count], indptr[: count + 1], indices[:nnz], values[:nnz])
    return print_rows(cut, signed, split)


def chunks(shape: Shape, n_rows: int | None, split: bool, jobs: int) -> Iterator[Chunk]:
    """Yield chunks in the order of their rows, made by `jobs` threads a little ahead."""
    first, waiting = 0, deque()
    with ThreadPoolExecutor(jobs) as pool:
        while True:
            while len(waiting) <= jobs and (n_rows is None or first < n_rows):
                count = shape.chunk_rows
                if n_rows is not None:
                    count = min(count, n_rows - first)
                waiting.append(pool.submit(make_chunk, shape, first, count, split))
                first += count
            if not waiting:
                return
            yield waiting.popleft().result()


class ClassFiles:
    """The output, or while classes are sorted one file for each, joined at the end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.files: dict[int, BinaryIO] = {}

    def write(self, by_class: dict[int, memoryview]) -> None:
        """Append the text of each class; class 0 is all of them."""
        for label, text in by_class.items():
            if label not in self.files:
                part = self.path if label == 0 else self._part(label)
                self.files[label] = part.open("wb")
            self.files[label].write(text)

    def join(self) -> None:
        """Make one file of all classes, in ascending order of the label."""
        for file in self.files.values():
            file.close()
        labels = sorted(label for label in self.files if label)
        if not labels:
            return
        with self.path.open("wb") as out:
            for label in labels:
                with self._part(label).open("rb") as part:
                    shutil.copyfileobj(part, out, 1 << 20)
                self._part(label).unlink()

    def discard_parts(self) -> None:
        """Close what is open and remove what `join` did not."""
        for label, file in self.files.items():
            file.close()
            if label:
                self._part(label).unlink(missing_ok=True)

    def _part(self, label: int) -> Path:
        return self.path.with_name(f"{self.path.name}.class{label}")


def generate(
    shape: Shape,
    path: Path,
    n_rows: int | None = None,
    n_bytes: int | None = None,
    sorted_by_class: bool = False,
    jobs: int = 2,
) -> Summary:
    """Write `n_rows` rows, or as many as first reach `n_bytes`, to `path`.

    Rows do not depend on `sorted_by_class`: it only puts those of the smallest label first.
    """
    summary, began = Summary(), time.perf_counter()
    out = ClassFiles(path)
    with contextlib.closing(chunks(shape, n_rows, sorted_by_class, jobs)) as made:
        try:
            for chunk in made:
                if n_bytes is not None and summary.bytes + chunk.lengths.sum() >= n_bytes:
                    reached = np.cumsum(chunk.lengths) + summary.bytes
                    count = int(np.searchsorted(reached, n_bytes)) + 1
                    chunk = first_rows(chunk, count, not shape.n_classes, sorted_by_class)
                out.write(chunk.by_class)
                summary.rows += chunk.lengths.shape[0]
                summary.nonzeros += chunk.rows.indices.shape[0]
                summary.max_index = max(summary.max_index, int(chunk.rows.indices.max()))
                summary.bytes += int(chunk.lengths.sum())
                if n_bytes is not None and summary.bytes >= n_bytes:
                    break
            out.join()
        finally:
            out.discard_parts()
    summary.seconds = round(time.perf_counter() - began, 3)
    summary.bytes_per_nonzero = round(summary.bytes / summary.nonzeros, 3)
    summary.megabytes_per_second = round(summary.bytes / 1e6 / summary.seconds, 1)
    return summary


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("shape", choices=["kddcup", "webspam", "epsilon", "text"])
    parser.add_argument("out", type=Path, help="file to write")
    size = parser.add_mutually_exclusive_group(required=True)
    size.add_argument("--bytes", type=parse_bytes, help="stop with the row that reaches this size")
    size.add_argument("--rows", type=int, help="number of rows")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--features", type=int, help="number of features (default: the shape's)")
    parser.add_argument(
        "--by-frequency", action="store_true", help="number frequent features first"
    )
    parser.add_argument("--classes", type=int, default=0, help="labels 1..K instead of +1 and -1")
    parser.add_argument("--sorted-by-class", action="store_true", help="smallest label first")
    parser.add_argument("--jobs", type=int, default=2, help="threads (default: 2)")
    return parser


def main(argv: list[str] | None = None) -> int:
    parser = make_parser()
    options = parser.parse_args(argv)
    for name, least in (("rows", 1), ("jobs", 1), ("seed", 0)):
        given = getattr(options, name)
        if given is not None and given < least:
            parser.error(f"--{name} must be at least {least}, not {given}")
    try:
        shape = make_shape(
            options.shape, options.seed, options.classes, options.features, options.by_frequency
        )
    except ShapeError as error:
        print(error, file=sys.stderr)
        return 2
    summary = generate(
        shape, options.out, options.rows, options.bytes, options.sorted_by_class, options.jobs
    )
    print(json.dumps(asdict(summary)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
