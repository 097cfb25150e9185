"""Rows of one or more inputs, parsed in parallel, delivered in order."""

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np

from blocklinear.errors import InputFormatError
from blocklinear.inputs.extents import Extent
from blocklinear.inputs.raw import name_of, size_of
from blocklinear.inputs.urls import shown_name
from blocklinear.options import TextOptions
from blocklinear.text.faults import no_faults, places_of
from blocklinear.text.limits import Limits
from blocklinear.text.provenance import InputCounts
from blocklinear.text.rows import Rows
from blocklinear.text.scheduling import SlabParser
from blocklinear.text.slabs import LongLine, Slab
from blocklinear.text.sources import Source
from blocklinear.text.weights import WeightReader


class RowReader:
    """Iterate over the `Rows` of `paths`, in order; ``-`` is standard input.

    Parameters
    ----------
    on_skip : callable        called with the exception of each refused line, in order, with
                              ``on_error="skip"``
    fleeting : bool           rows are done with when the next are asked for: their memory is used
                              again
    weights : WeightReader or None      has the weights of the rows of all inputs; those of refused
                              lines are passed over
    dtype : {"float64", "float32"}      what values will be rounded to: a row whose squares add up
                              to more than that holds is refused
    look_up : callable or None          replaces indices of `Rows` by numbers of a store, in the
                              threads that parse. Rows of a line that is longer than usual are left
                              as they are: there is no memory for what is missing
    extent : Extent or None   which lines of the only path are to be read; None is all of them
    lines_before : int        lines of the input before these
    pool : ThreadPoolExecutor or None   threads that parse; its own ones if None

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
    counts : InputCounts          of the input that was read last

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
        extent: Extent | None = None,
        lines_before: int = 0,
        pool: ThreadPoolExecutor | None = None,
    ) -> None:
        self._options, self._dtype = options, dtype
        self._fleeting, self._look_up = fleeting, look_up
        self._weights, self._pool = weights, pool
        self._paths = [name_of(path) for path in paths]
        self._names = [shown_name(path) for path in self._paths]
        self._extent, self._lines_before = extent, lines_before
        self.counts = InputCounts(lines_before)
        self._limits = Limits(self._paths, options, on_skip)
        self._done_bytes = 0
        self._source: Source | None = None
        self.provenance: list[dict[str, Any]] = []
        self.notes: list[str] = []
        self._min_index, self._max_index = 1 << 32, -1
        sizes = [extent.size] if extent else [size_of(path) for path in self._paths]
        self.bytes_total = None if None in sizes else sum(size or 0 for size in sizes)

    @property
    def bytes_read(self) -> int:
        """Raw bytes taken so far."""
        return self._done_bytes + (self._source.raw.bytes_read if self._source else 0)

    @property
    def names(self) -> str:
        """The inputs, as messages name them."""
        return ", ".join(self._names)

    @property
    def skipped(self) -> int:
        """Refused lines, with ``on_error="skip"``."""
        return self._limits.skipped

    @property
    def index_base(self) -> int:
        """Number of the first feature; if it was to be found, that of what was read so far."""
        if self._options.seeks_base:
            return 0 if self._min_index == 0 else 1
        return self._options.smallest_index

    def __iter__(self) -> Iterator[Rows]:
        with contextlib.ExitStack() as stack:
            pool = self._pool or stack.enter_context(
                ThreadPoolExecutor(self._options.threads, "parse")
            )
            for path in self._paths:
                yield from self._read_one(path, pool)
        found = sum(source["rows"] + source["skipped"] for source in self.provenance)
        self._limits.check_rows(self._names, found)
        if self._weights is not None:
            self._weights.finish(found)
            self.notes += self._weights.notes

    def _read_one(self, path: str, pool: ThreadPoolExecutor) -> Iterator[Rows]:
        self.counts = counts = InputCounts(self._lines_before)
        with Source(path, self._options, self._extent) as source:
            self._source, path = source, source.raw.path
            parser = SlabParser(
                source, pool, self._options, self._dtype, self._fleeting, self._look_up
            )
            try:
                for slab, rows in parser:
                    self._check_limits(path, slab, rows, counts.lines)
                    counts.add(rows, slab.cut)
                    finished = self._finished(slab, rows)
                    if finished is not None:
                        yield finished
            except LongLine as line:
                raise self._limits.refused_line(path, counts.lines + 1, line) from None
            self._done_bytes += source.raw.bytes_read
            self._source = None
            self.provenance.append(counts.record(source.raw.finish()))
            self._limits.check_end(path, counts.final_newline)
            self._limits.check_digest(path, self.provenance[-1]["sha256"])
            self.notes += source.notes
            if not counts.final_newline:
                self.notes.append(f"{path}: no newline at the end: the last line may be cut short")

    def _check_limits(self, path: str, slab: Slab, rows: Rows, lines_before: int) -> None:
        if self._options.seeks_base:
            self._min_index = min(self._min_index, rows.min_index)
            self._max_index = max(self._max_index, rows.max_index)
        self._limits.check_features(path, slab, rows, lines_before, self.index_base)
        if self._options.seeks_base:
            self._limits.check_base(path, self._max_index, self.index_base)
        self._limits.check_faults(path, slab, rows, lines_before)

    def _finished(self, slab: Slab, rows: Rows) -> Rows | None:
        """Return rows with their weights; None if weights have ended, and rows are only counted."""
        if self._weights is not None:
            wanted = rows.n_rows + len(rows.faults)
            weights = self._weights.take(wanted)
            if len(weights) < wanted:
                return None
            if rows.faults:
                weights = np.delete(weights, places_of(slab.text, rows.faults))
            rows = replace(rows, weights=weights)
        if rows.faults:
            rows = replace(rows, faults=no_faults())  # their text is going to change
        if slab.long:
            slab.memory.discard()
        return rows


def read_rows(paths: Sequence[str | os.PathLike[str]], options: TextOptions) -> Iterator[Rows]:
    """Yield the rows of `paths` in order; see `RowReader`."""
    return iter(RowReader(paths, options))
