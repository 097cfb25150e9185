"""Rows of one or more inputs, parsed in parallel, delivered in order."""

import math
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklinear.errors import InputError, InputFormatError, UsageError
from blocklinear.kernels.text.scan import count_marks
from blocklinear.memory import PROCESS_BYTES, enough, format_size
from blocklinear.options import LINE_FACTOR, SLAB_FACTOR, TextOptions
from blocklinear.text.faults import index_beyond, no_faults, places_of, too_many_features
from blocklinear.text.pages import ByteBudget, Pages
from blocklinear.text.reshape import SORT_BYTES, Reshaping
from blocklinear.text.rows import ParseBuffers, Rows, parse, rows_bytes
from blocklinear.text.slabs import LongLine, Slab, slabs
from blocklinear.text.sources import Source, name_of
from blocklinear.text.weights import WeightReader

_FETCH_AGAIN = "the input may be cut short: fetch it again"
_COUNTS = {
    "rows": "n_rows", "blank": "n_blank", "zeros": "n_zeros", "sorted_rows": "n_sorted",
    "merged_entries": "n_merged", "hash_collisions": "n_collisions", "ignored_qids": "n_qids",
}  # fmt: skip
"""What is added up for the provenance of an input, and the attributes of `Rows` it comes from."""


@dataclass(frozen=True)
class _Parsing:
    """A slab on its way, what its rows lie in, and the bytes that are held for both."""

    slab: Slab
    buffers: ParseBuffers
    held: int
    rows: Future[Rows]


class RowReader:
    """Iterate over the `Rows` of `paths`, in order; ``-`` is standard input.

    Parameters
    ----------
    paths : sequence of paths
    options : TextOptions
    on_skip : callable
        Told each refused line, in order, with ``on_error="skip"``.
    fleeting : bool
        Rows are done with when the next are asked for: their memory is used again.
    weights : WeightReader or None
        Has the weights of the rows of all inputs; those of refused lines are passed over.
    dtype : {"float64", "float32"}
        What values will be rounded to: a row whose squares add up to more than that holds is
        refused.
    look_up : callable or None
        Replaces indices of `Rows` by numbers of a store, in the threads that parse. Rows of a line
        that is longer than usual are left as they are: there is no memory for what is missing.

    Attributes
    ----------
    bytes_read : int              raw (compressed) bytes taken so far, for a progress bar
    bytes_total : int or None     their total, None when an input is a stream
    provenance : list[dict]       after an input ends: path, size, mtime_ns, xxh64, sha256 (None
                                  if not asked for), rows, lines, blank, zeros, skipped,
                                  sorted_rows, merged_entries, hash_collisions, ignored_qids,
                                  final_newline
    notes : list[str]             after an input ends: what is odd about it, in a sentence each
    skipped : int                 refused lines, with ``on_error="skip"``

    Raises
    ------
    UsageError
        If the index base is to be found in a stream, or a digest given for several inputs.
    InputFormatError
        For the first refused line, or the first past `max_errors`.
    InputError
        If a compressed stream is cut or damaged, a line is too long, or the inputs are not those
        expected.
    TooManyFeatures
        For the first index beyond `max_features`.
    StorageError
        If an input cannot be read or changes meanwhile.
    """

    def __init__(
        self,
        paths: Sequence[str | os.PathLike[str]],
        options: TextOptions,
        on_skip: Callable[[InputFormatError], None] = lambda error: None,
        fleeting: bool = False,
        weights: WeightReader | None = None,
        dtype: str = "float64",
        look_up: Callable[[Rows], Rows] | None = None,
    ) -> None:
        self._look_up = look_up
        self._options, self._on_skip, self._fleeting = options, on_skip, fleeting
        self._weights, self._dtype = weights, dtype
        self._paths = [name_of(path) for path in paths]
        if options.seeks_base:
            _refuse_streams(self._paths)
        if options.expect_sha256 is not None and len(self._paths) != 1:
            raise UsageError("--expect-sha256 is for an only input", "give the inputs one by one")
        if options.max_features is not None and 1 << options.hash_bits > options.max_features:
            raise too_many_features(
                f"{options.hash_bits} hash bits", -1, 1 << options.hash_bits, options
            )
        self._done_bytes = 0
        self._source: Source | None = None
        self.provenance: list[dict[str, Any]] = []
        self.notes: list[str] = []
        self.skipped = 0
        self._min_index = 1 << 32
        known = all(path != "-" and os.path.isfile(path) for path in self._paths)
        self.bytes_total = sum(map(os.path.getsize, self._paths)) if known else None

    @property
    def bytes_read(self) -> int:
        """Raw bytes taken so far."""
        return self._done_bytes + (self._source.raw.bytes_read if self._source else 0)

    @property
    def index_base(self) -> int:
        """Number of the first feature; if it was to be found, that of what was read so far."""
        if self._options.seeks_base:
            return 0 if self._min_index == 0 else 1
        return self._options.smallest_index

    def __iter__(self) -> Iterator[Rows]:
        with ThreadPoolExecutor(self._options.threads, "parse") as pool:
            for path in self._paths:
                yield from self._read_one(path, pool)
        found = sum(source["rows"] + source["skipped"] for source in self.provenance)
        expected = self._options.expect_rows
        if expected is not None and found != expected:
            names = ", ".join(self._paths)
            raise InputError(f"{names}: {found} rows, not the {expected} expected", _FETCH_AGAIN)
        if self._weights is not None:
            self._weights.finish(found)
            self.notes += self._weights.notes

    def _read_one(self, path: str, pool: ThreadPoolExecutor) -> Iterator[Rows]:
        totals = dict.fromkeys(("lines", "skipped", *_COUNTS), 0)
        cut = False
        with Source(path, self._options) as source:
            self._source = source
            try:
                for slab, rows in self._parsed(source, pool):
                    if self._options.seeks_base:
                        self._min_index = min(self._min_index, rows.min_index)
                    self._check_features(path, slab, rows, totals["lines"])
                    self._report_faults(path, rows, totals["lines"], slab.cut)
                    cut = slab.cut
                    totals["lines"] += rows.n_lines
                    totals["skipped"] += len(rows.faults)
                    for name, count in _COUNTS.items():
                        totals[name] += getattr(rows, count)
                    if self._weights is not None:
                        weights = self._weights_of(slab, rows)
                        if weights is None:
                            continue
                        rows = replace(rows, weights=weights)
                    if rows.faults:
                        rows = replace(rows, faults=no_faults())  # their text is going to change
                    if slab.long:
                        slab.memory.discard()
                    yield rows
            except LongLine as line:
                raise self._refused_line(path, totals["lines"] + 1, line) from None
            if cut and self._options.require_final_newline:
                raise InputError(f"{path}: no newline at the end", _FETCH_AGAIN)
            self._done_bytes += source.raw.bytes_read
            self._source = None
            self.provenance.append(source.raw.finish() | totals | {"final_newline": not cut})
            self._check_digest(path)
            self.notes += source.notes
            if cut:
                self.notes.append(f"{path}: no newline at the end: the last line may be cut short")

    def _refused_line(self, path: str, number: int, line: LongLine) -> InputFormatError:
        """Return the exception for a line that is too long, or has too many entries."""
        options = self._options
        lacking = PROCESS_BYTES - options.memory_bytes
        if line.n_entries:
            lacking += math.ceil(4 * line.n_bytes / LINE_FACTOR)
            return InputFormatError(
                path, number, 1,
                f"the line has {line.n_entries} entries: reading them takes "
                f"{format_size(line.n_bytes)}, more than --memory leaves",
                f"check the line ends, or give {enough(lacking)} more --memory",
            )  # fmt: skip
        limit, besides = options.line_limit, ""
        if lacking > 0:
            besides = f", and {enough(lacking)} besides"
        return InputFormatError(
            path, number, limit + 1,
            f"the line is longer than {format_size(limit)}",
            f"check the line ends, or give --max-line-bytes {2 * limit} or more, and eight times "
            f"that more --memory{besides}",
        )  # fmt: skip

    def _weights_of(self, slab: Slab, rows: Rows) -> NDArray[np.float64] | None:
        """Return the weights of rows; None if there are too few, and rows are only counted."""
        assert self._weights is not None
        wanted = rows.n_rows + len(rows.faults)
        weights = self._weights.take(wanted)
        if len(weights) < wanted:
            return None
        if rows.faults:
            weights = np.delete(weights, places_of(slab.text, rows.faults))
        return weights

    def _check_digest(self, path: str) -> None:
        expected, found = self._options.expect_sha256, self.provenance[-1]["sha256"]
        if expected is not None and found != expected.lower():
            raise InputError(f"{path}: the SHA-256 is {found}, not the one expected", _FETCH_AGAIN)

    def _check_features(self, path: str, slab: Slab, rows: Rows, lines_before: int) -> None:
        """Refuse an index that makes too many features; how many hashes make is known before."""
        options = self._options
        if options.max_features is None or options.hash_bits:
            return
        last = options.max_features + self.index_base - 1
        if rows.max_index > last:
            refused = {fault.line for fault in rows.faults}
            line, column, index = index_beyond(slab.text, last, refused)
            place = f"{path}:{lines_before + line + 1}:{column}"
            raise too_many_features(place, index, index - self.index_base + 1, options)

    def _parsed(self, source: Source, pool: ThreadPoolExecutor) -> Iterator[tuple[Slab, Rows]]:
        """Yield slabs in order with their rows; a failure to read comes after what precedes it."""
        options = self._options
        room_bytes = options.reading_bytes - source.window_bytes
        budget, free_buffers = ByteBudget(room_bytes), deque[ParseBuffers]()
        usual, spare = SLAB_FACTOR * options.slab_bytes, deque[Pages]()
        held = 0

        def reserve(n_bytes: int) -> None:
            nonlocal held
            held = budget.acquire(int(LINE_FACTOR * n_bytes), instead_of=held)

        pieces = slabs(source, options.slab_bytes, options.line_limit, spare, reserve)
        how = _how(options, self._dtype)

        def parsed(slab: Slab, buffers: ParseBuffers) -> Rows:
            rows = parse(slab.text, *how, buffers)
            return rows if slab.long or self._look_up is None else self._look_up(rows)

        def read() -> _Parsing | None:
            nonlocal held
            held = budget.acquire(usual)
            slab = next(pieces, None)
            if slab is None:
                return None
            if slab.long:
                held = budget.acquire(self._bytes_of_line(slab, room_bytes), instead_of=held)
            buffers = free_buffers.popleft() if free_buffers and not slab.long else ParseBuffers()
            return _Parsing(slab, buffers, held, pool.submit(parsed, slab, buffers))

        ahead = ThreadPoolExecutor(1, "read")  # reads, digests and decompresses meanwhile
        try:
            pending = deque(ahead.submit(read) for _ in range(options.threads + 1))
            while (found := pending.popleft().result()) is not None:
                pending.append(ahead.submit(read))
                yield found.slab, found.rows.result()
                if not found.slab.long:
                    spare.append(found.slab.memory)
                if self._fleeting:
                    found.buffers.discard() if found.slab.long else free_buffers.append(
                        found.buffers
                    )
                budget.release(found.held)
        finally:
            source.raw.stop()
            budget.close()
            ahead.shutdown(cancel_futures=True)

    def _bytes_of_line(self, slab: Slab, room_bytes: int) -> int:
        """Return what a long line takes in memory, with its row; refuse what does not fit."""
        options = self._options
        n_lines, n_entries = count_marks(slab.text)
        needed = len(slab.text) + rows_bytes(n_lines, n_entries)
        if options.unsorted == "sort" or options.hash_bits:
            needed += SORT_BYTES * n_entries
        if needed > room_bytes:
            raise LongLine(n_entries, needed + options.reading_bytes - room_bytes)
        return needed

    def _report_faults(self, path: str, rows: Rows, lines_before: int, cut: bool) -> None:
        for fault in rows.faults:
            error = fault.error(path, lines_before, cut, self._options.base_of)
            if self._options.on_error == "fail" or self.skipped >= self._options.max_errors:
                raise error
            self.skipped += 1
            self._on_skip(error)


def _how(options: TextOptions, dtype: str) -> tuple[int, int, Reshaping]:
    """Return the arguments of `parse` that follow the text."""
    max_faults = 1 if options.on_error == "fail" else options.max_errors + 1
    sort, merge = options.unsorted == "sort", options.duplicates == "sum"
    reshaping = Reshaping(sort, merge, options.hash_bits, options.ignore_qid, dtype)
    return options.smallest_index, max_faults, reshaping


def _refuse_streams(paths: Sequence[str]) -> None:
    for path in paths:
        if path == "-" or (os.path.exists(path) and not os.path.isfile(path)):
            raise UsageError(
                f"{path}: the index base of a stream is known only at its end",
                "give --index-base 0 or 1 instead of auto",
            )


def read_rows(paths: Sequence[str | os.PathLike[str]], options: TextOptions) -> Iterator[Rows]:
    """Yield the rows of `paths` in order; see `RowReader`."""
    return iter(RowReader(paths, options))
