"""What workers do with a range of the input: count its rows, read them, digest all of a file."""

import sys
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklinear.cluster.pieces import FOLDER, PieceWriter, bytes_of, path_of
from blocklinear.cluster.place import alone
from blocklinear.errors import BlocklinearError, InputFormatError
from blocklinear.ingest.labels import LabelTable
from blocklinear.ingest.numbering import Numbering
from blocklinear.inputs.extents import Extent
from blocklinear.inputs.raw import READ_BYTES, RawFile
from blocklinear.kernels.text.scan import count_lines
from blocklinear.options import SplitOptions, TextOptions
from blocklinear.store.files import scratch_file, write_all
from blocklinear.text import RowReader, Rows
from blocklinear.text.provenance import InputCounts
from blocklinear.text.sources import Source

OF_FILE = ("path", "size", "mtime_ns", "xxh64", "sha256")
"""What is recorded of an input whatever its rows."""


@dataclass(frozen=True)
class SplitJob:
    """What all tasks of a split have in common."""

    folder: Path  # the store that is being made, which all workers reach
    options: SplitOptions
    slots: int  # blocks open at a time
    chunk_entries: int  # of blocks
    piece_entries: int  # of pieces

    @property
    def shuffle(self) -> Path:
        """The folder of pieces."""
        return self.folder / FOLDER


@dataclass(frozen=True)
class RangeReport:
    """What a range held."""

    n_rows: int = 0
    nnz: int = 0
    index_base: int = 1  # number of the first feature, as far as these rows tell
    max_index: int = -1  # of the input, explicit zeros included; -1 if there is none
    labels: list[float] | None = None  # distinct, by appearance; None if too many
    n_features: int = 0  # in ``features``
    # int64[n_pieces, 6]: see `pieces`
    pieces: NDArray[np.int64] = field(default_factory=lambda: np.empty((0, 6), np.int64))
    counts: InputCounts = field(default_factory=InputCounts)
    skipped: list[InputFormatError] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    # what is recorded of the file, if the range is all of it, else empty
    file: dict[str, Any] = field(default_factory=dict)
    error: BlocklinearError | None = None  # what reading ended with


def _reading(job: SplitJob, threads: int) -> TextOptions:
    """Return how a worker reads text; what is expected of all inputs is compared elsewhere."""
    text = job.options.text
    return replace(
        text, threads=threads, max_features=text.feature_limit, expect_rows=None,
        expect_sha256=None, record_sha256=text.takes_sha256,
    )  # fmt: skip


def can_split(job: SplitJob, extent: Extent) -> None:
    """Raise an error unless this worker finds an input, and can write to the folder of pieces."""
    RawFile(extent.path, extent=extent).close()
    with scratch_file(job.shuffle / "probe") as stream:
        write_all(stream, memoryview(b"."))


def count(job: SplitJob, extent: Extent) -> tuple[int, int]:
    """Return how many lines and rows a range has.

    BlocklinearError is raised if it cannot be read.
    """
    with alone() as place:
        options = replace(_reading(job, place.threads), record_sha256=False)
        if options.on_error == "fail":
            n_lines = _lines_of_rows(extent, options)
            if n_lines is not None:
                return n_lines, n_lines
        options = replace(options, on_error="skip", max_errors=sys.maxsize - 1)
        reader = RowReader(
            [extent.path], options, fleeting=True, dtype=job.options.dtype, extent=extent
        )
        n_rows = sum(rows.n_rows for rows in reader)
        return reader.counts.lines, n_rows


def _lines_of_rows(extent: Extent, options: TextOptions) -> int | None:
    """Return how many lines there are if each is a row, or is to be refused; None if not sure."""
    buffer, begins, n_lines = np.empty(READ_BYTES, np.uint8), True, 0
    with Source(extent.path, options, extent) as source, memoryview(buffer.data) as view:
        while n := source.readinto(view):
            newlines, odd, begins = count_lines(buffer[:n], begins)
            if odd:
                return None
            n_lines += newlines
        source.raw.finish()
    return n_lines + (not begins)


def digest(job: SplitJob, extent: Extent) -> dict[str, Any]:
    """Return what is recorded of a file, with its digests.

    Raises StorageError.
    """
    with closing(RawFile(extent.path, job.options.text.takes_sha256, extent=extent)) as raw:
        return raw.read_rest()


def read(
    job: SplitJob, number: int, extent: Extent, lines_before: int, first_row: int
) -> RangeReport:
    """Read the rows of range `number` and write them to pieces.

    StorageError is raised if pieces cannot be written.

    Parameters
    ----------
    lines_before : int        lines of the input before the range
    first_row : int           number of its first row
    """
    with alone() as place:
        return _RangeReader(job, number, extent, lines_before, place.threads).read(first_row)


class _RangeReader:
    def __init__(
        self, job: SplitJob, number: int, extent: Extent, lines_before: int, threads: int
    ) -> None:
        self._job, self._number = job, number
        options, self._skipped = _reading(job, threads), list[InputFormatError]()
        self._reader = RowReader(
            [extent.path], options, self._skipped.append, True, None, job.options.dtype, None,
            extent, lines_before,
        )  # fmt: skip
        self._whole, self._labels = extent.whole, LabelTable([])
        self._numbering: Numbering | None = None
        if job.options.renumber:
            none = np.empty(0, np.uint32)
            self._numbering = Numbering(options, none)
        self._n_rows, self._nnz, self._max_index = 0, 0, -1

    def read(self, first_row: int) -> RangeReport:
        job, error = self._job, None
        names = [path_of(job.shuffle, self._number, what) for what in ("rows", "entries")]
        with scratch_file(names[0]) as rows, scratch_file(names[1]) as entries:
            writer = PieceWriter(rows, job.options.seed, job.slots, job.piece_entries, first_row)
            try:
                for parsed in self._reader:
                    lengths = np.diff(parsed.indptr).astype(np.uint32)
                    write_all(entries, bytes_of(lengths))
                    self._count(parsed)
                    for numbered in self._numbered(parsed):
                        writer.append(numbered)
            except BlocklinearError as caught:
                error = caught
            pieces = writer.finish()
        return RangeReport(
            self._n_rows, self._nnz, self._reader.index_base, self._max_index, self._labels.labels,
            self._write_features(), pieces, self._reader.counts, self._skipped,
            self._reader.notes, self._file(error is None), error,
        )  # fmt: skip

    def _count(self, rows: Rows) -> None:
        self._n_rows, self._nnz = self._n_rows + rows.n_rows, self._nnz + rows.nnz
        self._max_index = max(self._max_index, rows.max_index)
        self._labels.note(rows.labels())

    def _numbered(self, rows: Rows) -> Iterable[Rows]:
        """Return rows with places in the list of features for indices."""
        return [rows] if self._numbering is None else self._numbering.numbered(rows)

    def _write_features(self) -> int:
        if self._numbering is None:
            return 0
        found = self._numbering.new_indices()
        with scratch_file(path_of(self._job.shuffle, self._number, "features")) as stream:
            write_all(stream, bytes_of(found))
        return len(found)

    def _file(self, ended: bool) -> dict[str, Any]:
        if not self._whole or not ended:
            return {}
        return {name: self._reader.provenance[-1][name] for name in OF_FILE}
