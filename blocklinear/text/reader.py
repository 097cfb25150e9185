"""Rows of one or more inputs, parsed in parallel, delivered in order."""

import contextlib
import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from blocklinear.errors import InputError, InputFormatError
from blocklinear.memory import format_size
from blocklinear.options import TextOptions
from blocklinear.text.rows import Rows, parse
from blocklinear.text.slabs import LongLine, Slab, slabs
from blocklinear.text.sources import Source

SAMPLE_BYTES = 1 << 20


class RowReader:
    """Iterate over the `Rows` of `paths`, in order; ``-`` is standard input.

    Attributes
    ----------
    bytes_read : int              raw (compressed) bytes taken so far, for a progress bar
    bytes_total : int or None     their total, None when an input is a stream
    provenance : list[dict]       after an input ends: path, size, mtime_ns, sha256, rows, lines,
                                  blank, zeros, skipped, final_newline
    skipped : list[InputFormatError]     refused lines, with ``on_error="skip"``

    Raises
    ------
    InputFormatError
        For the first refused line, or the first past `max_errors`.
    InputError
        If a compressed stream is cut or damaged, or a line is too long.
    StorageError
        If an input cannot be read or changes meanwhile.
    """

    def __init__(self, paths: Sequence[str | os.PathLike[str]], options: TextOptions) -> None:
        self._options = options
        self._paths = [os.fspath(path) for path in paths]
        self._done_bytes = 0
        self._source: Source | None = None
        self.provenance: list[dict[str, Any]] = []
        self.skipped: list[InputFormatError] = []
        known = all(path != "-" and os.path.isfile(path) for path in self._paths)
        self.bytes_total = sum(map(os.path.getsize, self._paths)) if known else None

    @property
    def bytes_read(self) -> int:
        """Raw bytes taken so far."""
        return self._done_bytes + (self._source.raw.bytes_read if self._source else 0)

    def __iter__(self) -> Iterator[Rows]:
        with ThreadPoolExecutor(self._options.threads, "parse") as pool:
            for path in self._paths:
                yield from self._read_one(path, pool)

    def _read_one(self, path: str, pool: ThreadPoolExecutor) -> Iterator[Rows]:
        totals = {"rows": 0, "lines": 0, "blank": 0, "zeros": 0, "skipped": 0}
        cut = False
        with Source(path) as source:
            self._source = source
            try:
                for slab, rows in self._parsed(source, pool):
                    self._report_faults(path, rows, totals["lines"], slab.cut)
                    cut = slab.cut
                    totals["rows"] += rows.n_rows
                    totals["lines"] += rows.n_lines
                    totals["blank"] += rows.n_blank
                    totals["zeros"] += rows.n_zeros
                    totals["skipped"] += len(rows.faults)
                    yield rows
            except LongLine:
                limit = self._options.max_line_bytes
                raise InputFormatError(
                    path, totals["lines"] + 1, limit + 1,
                    f"the line is longer than {format_size(limit)}",
                    "check the line ends, or raise --memory",
                ) from None  # fmt: skip
            if cut and self._options.require_final_newline:
                raise InputError(
                    f"{path}: no newline at the end", "the file may be cut: fetch it again"
                )
            self._done_bytes += source.raw.bytes_read
            self._source = None
            self.provenance.append(source.raw.finish() | totals | {"final_newline": not cut})

    def _parsed(self, source: Source, pool: ThreadPoolExecutor) -> Iterator[tuple[Slab, Rows]]:
        """Yield slabs in order with their rows; a failure to read comes after what precedes it."""
        options = self._options
        pieces = slabs(source, options.slab_bytes, options.max_line_bytes)
        max_faults = _max_faults(options)

        def read() -> tuple[Slab, Future[Rows]] | None:
            slab = next(pieces, None)
            if slab is None:
                return None
            return slab, pool.submit(parse, slab.text, options.index_base, max_faults)

        ahead = ThreadPoolExecutor(1, "read")  # reads, digests and decompresses meanwhile
        try:
            pending = deque(ahead.submit(read) for _ in range(options.threads + 1))
            while (found := pending.popleft().result()) is not None:
                pending.append(ahead.submit(read))
                slab, rows = found
                yield slab, rows.result()
        finally:
            source.raw.stop()
            ahead.shutdown(cancel_futures=True)

    def _report_faults(self, path: str, rows: Rows, lines_before: int, cut: bool) -> None:
        for fault in rows.faults:
            error = fault.error(path, lines_before, cut)
            if self._options.on_error == "fail" or len(self.skipped) >= self._options.max_errors:
                raise error
            self.skipped.append(error)


def _max_faults(options: TextOptions) -> int:
    return 1 if options.on_error == "fail" else options.max_errors + 1


@dataclass(frozen=True)
class Sample:
    """The head of a file: its rows, and the raw (compressed) bytes they came from."""

    rows: Rows
    raw_bytes: int


def sample(path: str | os.PathLike[str], options: TextOptions) -> Sample:
    """Read the head of a regular file, to tell what the rest is like; faults do not matter yet."""
    with Source(os.fspath(path)) as source:
        slab_bytes = SAMPLE_BYTES if source.kind == "plain" else 4 * SAMPLE_BYTES
        slab = None
        with contextlib.suppress(LongLine):
            slab = next(slabs(source, slab_bytes, options.max_line_bytes), None)
        text = slab.text if slab else np.full(1, 10, np.uint8)
        raw_bytes = len(text) - 1 if source.kind == "plain" else source.raw.bytes_read
    return Sample(parse(text, options.index_base, _max_faults(options)), raw_bytes)


def read_rows(paths: Sequence[str | os.PathLike[str]], options: TextOptions) -> Iterator[Rows]:
    """Yield the rows of `paths` in order; see `RowReader`."""
    return iter(RowReader(paths, options))
