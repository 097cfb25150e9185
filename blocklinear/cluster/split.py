"""`split` on the workers of a cluster: the very store that one machine makes.

Ranges of the input are counted, so that each knows the numbers of its rows; then they are read, and
their rows written to pieces by the slot of their block (see `pieces`). What depends on the order of
the input is small, and done here, range by range: numbers of features, the table of labels, where
generations of blocks end, which line is the first that is refused. Blocks are written as soon as
all of their rows are known.
"""

import os
import secrets
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blocklinear.arguments import Path as AnyPath
from blocklinear.arguments import check_options, path_list
from blocklinear.cluster import assembly, ranges
from blocklinear.cluster.assembly import BlockReport, Share
from blocklinear.cluster.connect import DASK_BYTES
from blocklinear.cluster.engine import Engine
from blocklinear.cluster.pieces import FOLDER, SLOT, bytes_of, path_of, read_column
from blocklinear.cluster.ranges import RangeReport, SplitJob
from blocklinear.cluster.tasks import Task, Tasks
from blocklinear.errors import (
    InputFormatError,
    MemoryBudgetError,
    StoppedError,
    StorageError,
    UsageError,
)
from blocklinear.events import Listener, SplitProgress, Warned, ignore
from blocklinear.ingest.arena import SLOT_ENTRY_BYTES
from blocklinear.ingest.generations import Generations, NewBlock
from blocklinear.ingest.ingest import (
    Batch,
    SkippedLines,
    Written,
    batch_of,
    new_features,
    no_rows,
)
from blocklinear.ingest.labels import LabelTable
from blocklinear.ingest.numbering import Numbering
from blocklinear.ingest.split import check_new, new_store, save
from blocklinear.ingest.writer import (
    ARENA_SHARE,
    ENCODING_SHARE,
    MIN_CHUNK_ENTRIES,
    OPEN_BLOCKS,
    Plan,
    decoded_bytes,
    make_plan,
)
from blocklinear.inputs.extents import Extent, cut, whole
from blocklinear.inputs.raw import name_of
from blocklinear.memory import PROCESS_BYTES, enough, exact_size, format_size, spare_bytes
from blocklinear.numerals import counted
from blocklinear.options import SplitOptions
from blocklinear.solvers.protocol import Abandoned
from blocklinear.store.changes import skipped_name
from blocklinear.store.files import (
    make_folder,
    remove_files,
    retire_folder,
    scratch_file,
    write_all,
)
from blocklinear.store.store import BlockStore
from blocklinear.text import RowReader
from blocklinear.text.faults import too_many_features
from blocklinear.text.limits import Limits
from blocklinear.text.provenance import InputCounts
from blocklinear.text.sources import Source

RANGE_BYTES = 64 << 20
"""Text of a range: 304 MB of blogs take 2.7, 2.0, 1.6, 1.4 and 1.4 seconds of processor time in all
with 8, 16, 32, 64 and 128 MiB, as pieces are longer then."""
_FIRST, _THEN, _LAST = 2, 1, 0
"""Priorities: blocks, so that pieces can go; counts, which reading waits for; reading."""


def check_supported(inputs: Sequence[str], options: SplitOptions) -> None:
    """Refuse what is not split on a cluster.

    Raises UsageError.
    """
    if options.weights is not None:
        raise UsageError(
            "--weights are not read on a cluster", "split on one machine, without --dask"
        )
    for path in inputs:
        if path == "-":
            raise UsageError(
                "standard input is read by one machine", "give files, or split without --dask"
            )


def split(
    client: Any,
    inputs: AnyPath | Sequence[AnyPath],
    store: str | os.PathLike[str],
    options: SplitOptions | None = None,
    listener: Listener = ignore,
    halt: Callable[[], bool] = lambda: False,
) -> BlockStore:
    """Split LIBSVM text on the workers of a client, as `ingest.split.split` does on one machine.

    Parameters
    ----------
    client : distributed.Client
    inputs, store, options, listener
        As there; `options.text.memory_bytes` is the budget of each worker.
    halt : callable
        Asked all the time: if it returns true, the split ends, and nothing is left.

    Raises
    ------
    StoppedError
        If `halt` returned true.
    ClusterError
        If the cluster cannot do the work, or is gone.
    BlocklinearError
        Whatever `ingest.split.split` raises.
    """
    options = options or SplitOptions()
    check_options(options, SplitOptions)
    paths = [name_of(path) for path in path_list(inputs)]
    check_supported(paths, options)
    text = replace(options.text, max_features=options.text.feature_limit)
    limits = Limits(paths, text, lambda error: None)
    wholes = [whole(path) for path in paths]
    plan = make_plan(options, 1.0)  # but for the size of blocks, if that follows from all rows
    piece_entries = _piece_entries(options, plan)
    with new_store(store, lambda target: check_new(target, options)) as staging:
        job = SplitJob(staging, options, plan.open_blocks, plan.chunk_entries, piece_entries)
        engine = Engine(client, secrets.token_hex(4), "give the same command again")
        tasks = Tasks(engine, halt)
        with _shuffling(job, tasks):
            engine.check_workers(
                "all workers need this version of blocklinear, and the inputs and the folder of "
                "the store by the same paths",
                ranges.can_split, job, wholes[0],
            )  # fmt: skip
            try:
                with _Split(job, plan, paths, wholes, tasks, engine, limits, listener) as run:
                    batch = run.finish()
            except Abandoned:
                raise StoppedError("stopped: nothing is left of the split") from None
        save(staging, options, batch)
    return BlockStore.open(Path(store).absolute())


def _piece_entries(options: SplitOptions, plan: Plan) -> int:
    """Return how many entries a slot may gather in a worker.

    MemoryBudgetError is raised if the budget leaves no room for the slots.
    """
    memory = options.text.memory_bytes
    share = ARENA_SHARE + ENCODING_SHARE  # nothing is encoded meanwhile
    room = share * spare_bytes(memory) - DASK_BYTES
    entries = int(room / ((plan.open_blocks + 1) * SLOT_ENTRY_BYTES))
    if entries < MIN_CHUNK_ENTRIES:
        most_slots = max(plan.open_blocks, OPEN_BLOCKS[-1]) + 1  # with more memory
        least = MIN_CHUNK_ENTRIES * most_slots * SLOT_ENTRY_BYTES
        needed = PROCESS_BYTES + (DASK_BYTES + least) / share
        raise MemoryBudgetError(
            f"{counted(plan.open_blocks, 'open block does', 'open blocks do')} not fit in the "
            f"{exact_size(memory)} of a worker, of which Dask takes {format_size(DASK_BYTES)}",
            f"give --memory {enough(needed)} or more, or fewer --blocks",
        )
    return min(entries, plan.chunk_entries)


@contextmanager
def _shuffling(job: SplitJob, tasks: Tasks) -> Iterator[None]:
    """Make the folder of pieces, and delete it when the block ends, whoever still writes to it."""
    make_folder(job.shuffle, job.folder)
    try:
        yield
    except BaseException:
        tasks.cancel()
        raise
    finally:
        retire_folder(job.shuffle, job.folder / f"{FOLDER}.gone")


@dataclass
class _Input:
    """An input, and what is known of it so far."""

    extent: Extent
    left: int = 0  # ranges that have not been taken in
    lines: int = 0  # in the ranges that were counted
    counts: InputCounts = field(default_factory=InputCounts)
    file: Task | dict[str, Any] | None = None


@dataclass
class _TextRange:
    """A range, and what it waits for."""

    number: int
    extent: Extent
    input: _Input
    counting: Task | None = None
    reading: Task | None = None
    n_rows: int = 0
    report: RangeReport = field(default_factory=RangeReport)
    stop_row: int = 0


class _Split:
    """A split under way; used with `with`."""

    def __init__(
        self,
        job: SplitJob,
        plan: Plan,
        paths: Sequence[str],
        wholes: Sequence[Extent],
        tasks: Tasks,
        engine: Engine,
        limits: Limits,
        listener: Listener,
    ) -> None:
        self._job, self._plan, self._tasks, self._engine = job, plan, tasks, engine
        self._options, self._limits, self._listener = job.options, limits, listener
        self._paths, self._inputs = paths, [_Input(extent) for extent in wholes]
        self._generations: Generations | None = Generations(plan)
        if self._options.order == "file" and self._options.blocks is not None:
            self._generations = None  # how large blocks are follows from all rows
        self._skipped = SkippedLines(job.folder / skipped_name(self._options.batch))
        self._n_skipped = 0
        self._labels = LabelTable([])
        self._numbering: Numbering | None = None
        self._n_rows = self._nnz = self._bytes = 0
        self._max_index, self._index_base = -1, 1
        self._notes: list[str] = []
        self._counting, self._reading = deque[_TextRange](), deque[_TextRange]()
        self._counted_rows = 0
        self._failed: Task | None = None  # a count: nothing after it is read
        self._kept = deque[_TextRange]()  # whose pieces are needed
        self._writing: list[tuple[NewBlock, Task]] = []
        self._written: dict[int, BlockReport] = {}

    def __enter__(self) -> "_Split":
        self._skipped.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._skipped.__exit__(*error)

    def finish(self) -> Batch:
        """Do all the work; return what was read and written.

        Raises BlocklinearError.
        """
        if self._options.renumber:
            self._number_first()
        coming = self._ranges()
        while self._count_ahead(coming) or self._counting or self._reading:
            if not (self._read_next() or self._take_next() or self._collect()):
                self._tasks.wait()
        self._end_generations()
        while self._writing:
            if not self._collect():
                self._tasks.wait()
        return self._batch()

    @property
    def _n_ahead(self) -> int:
        """Ranges to read at a time: one for each worker, and one that waits for it."""
        return 2 * max(self._engine.n_workers, 1)

    def _count_ahead(self, coming: Iterator["_TextRange"]) -> bool:
        """Have rows of the next range counted, if few are; return whether that is so."""
        if self._failed or len(self._counting) + len(self._reading) >= 2 * self._n_ahead:
            return False
        text_range = next(coming, None)
        if text_range is None:
            return False
        text_range.counting = self._submit(_THEN, ranges.count, text_range.extent)
        self._counting.append(text_range)
        return True

    def _submit(self, priority: int, function: Callable[..., Any], *arguments: Any) -> Task:
        return self._tasks.submit(function, self._job, *arguments, priority=priority)

    def _number_first(self) -> None:
        """Count the features of the first rows, and number them."""
        text = self._options.text
        numbering = Numbering(text, None, self._plan.held_entries)
        self._numbering = numbering
        options = replace(
            text, max_features=text.feature_limit, expect_rows=None, expect_sha256=None,
            record_sha256=False,
        )  # fmt: skip
        reading = iter(RowReader(self._paths, options, fleeting=True, dtype=self._options.dtype))
        while not numbering.counted and (rows := next(reading, None)) is not None:
            for _ in numbering.numbered(rows):
                pass
        del reading  # it ends its threads
        for _ in numbering.rest():
            pass

    def _ranges(self) -> Iterator[_TextRange]:
        """Yield all ranges in order; compressed files are one each."""
        number = 0
        for text_input in self._inputs:
            with Source(text_input.extent.path, self._options.text, text_input.extent) as source:
                plain = source.kind == "plain"
            parts = cut(text_input.extent, RANGE_BYTES) if plain else [text_input.extent]
            text_input.left = len(parts)
            if len(parts) > 1:
                text_input.file = self._submit(_THEN, ranges.digest, text_input.extent)
            for extent in parts:
                yield _TextRange(number, extent, text_input)
                number += 1

    def _read_next(self) -> bool:
        """Have the next range read, once it is known which rows it has."""
        if len(self._reading) >= self._n_ahead or not self._counting:
            return False
        text_range = self._counting[0]
        counting, text_input, first_row = text_range.counting, text_range.input, self._counted_rows
        if counting is None or not counting.ended():
            return False
        self._counting.popleft()
        text_range.reading = self._submit(
            _LAST, ranges.read, text_range.number, text_range.extent, text_input.lines, first_row
        )
        self._reading.append(text_range)
        if counting.failed:  # reading it is going to say what is wrong, and where
            self._failed = counting
            self._counting.clear()
            return True
        n_lines, text_range.n_rows = counting.result()
        text_input.lines += n_lines
        self._counted_rows += text_range.n_rows
        return True

    def _take_next(self) -> bool:
        """Take in the next range in order, once it is read."""
        reading = self._reading[0].reading if self._reading else None
        if reading is None or not reading.ended():
            return False
        text_range = self._reading.popleft()
        self._take(text_range, reading.result())
        return True

    def _take(self, text_range: _TextRange, report: RangeReport) -> None:
        text_input, text_range.report = text_range.input, report
        self._take_skipped(report.skipped)
        if report.error is not None:
            raise report.error
        if self._failed and not self._reading:
            self._failed.result()
        if report.n_rows != text_range.n_rows:
            raise StorageError(
                f"{text_input.extent.name}: the file changed meanwhile", "split it again"
            )
        self._check_features(text_range)
        self._number(text_range)
        text_input.counts.follow(report.counts)
        text_input.file = report.file or text_input.file
        self._notes += report.notes
        if report.labels is None:
            self._labels.labels = None
        else:
            self._labels.note(np.array(report.labels))
        self._n_rows, self._nnz = self._n_rows + report.n_rows, self._nnz + report.nnz
        self._bytes += text_range.extent.stop - text_range.extent.start
        text_range.stop_row = self._n_rows
        self._kept.append(text_range)
        total = sum(one.extent.size for one in self._inputs)
        self._listener(SplitProgress(self._bytes, total, self._n_rows, self._nnz))
        if self._generations is not None:
            self._follow(self._generations, text_range)

    def _take_skipped(self, errors: Sequence[InputFormatError]) -> None:
        for error in errors:
            if self._n_skipped >= self._options.text.max_errors:
                raise error
            self._n_skipped += 1
            self._skipped.add(error)

    def _check_features(self, text_range: _TextRange) -> None:
        """Refuse an index that is too large only since features begin at 0 in earlier ranges."""
        report, text = text_range.report, self._options.text
        self._index_base = min(self._index_base, report.index_base)
        self._max_index = max(self._max_index, report.max_index)
        n_features = self._max_index - self._index_base + 1
        if text.seeks_base and n_features > text.feature_limit:
            allowed = replace(text, max_features=text.feature_limit)
            raise too_many_features(text_range.extent.name, self._max_index, n_features, allowed)

    def _number(self, text_range: _TextRange) -> None:
        """Give numbers to the features of a range, and tell those who write its rows."""
        if self._numbering is None:
            return
        folder, number = self._job.shuffle, text_range.number
        numbers = read_column(folder, number, "features", text_range.report.n_features)
        self._numbering.extend(numbers)
        numbers += 1
        with scratch_file(path_of(folder, number, "numbers")) as stream:
            write_all(stream, bytes_of(numbers))
        remove_files([path_of(folder, number, "features")])

    def _follow(self, generations: Generations, text_range: _TextRange) -> None:
        """Have the blocks written that are complete with a range."""
        report, labels = text_range.report, self._labels.labels

        def lengths() -> NDArray[np.uint32]:
            return read_column(self._job.shuffle, text_range.number, "entries", report.n_rows)

        for block in generations.take(report.n_rows, report.nnz, lengths, len(labels or ())):
            self._write(block)

    def _end_generations(self) -> None:
        """Have the last blocks written: all rows are known."""
        if self._n_rows == 0:
            raise no_rows(self._paths)
        if self._generations is None:
            total = float(decoded_bytes(self._n_rows, self._nnz))
            self._plan = make_plan(self._options, total)
            self._generations = Generations(self._plan)
            for text_range in self._kept:
                self._follow(self._generations, text_range)
        for block in self._generations.end():
            self._write(block)

    def _write(self, block: NewBlock) -> None:
        overlapping = [
            text_range
            for text_range in self._kept
            if block.first_row < text_range.stop_row
            and text_range.stop_row - text_range.report.n_rows < block.stop_row
        ]
        slots = [[_share(text_range, slot) for text_range in overlapping] for slot in block.slots]
        task = self._submit(
            _FIRST, assembly.assemble, block.number, slots, block.first_row, block.stop_row,
            self._labels.labels is not None, not self._plan.block_bytes,
        )  # fmt: skip
        self._writing.append((block, task))

    def _collect(self) -> bool:
        """Note which blocks are written, and delete pieces that are not needed any more."""
        left = []
        for block, task in self._writing:
            if not task.ended():
                left.append((block, task))
            elif (report := task.result()) is not None:
                self._written[block.number] = report
        if len(left) == len(self._writing):
            return False
        self._writing = left
        assert self._generations is not None
        needed = [self._generations.first_row, *(block.first_row for block, _ in self._writing)]
        while self._kept and self._kept[0].stop_row <= min(needed):
            gone = self._kept.popleft()
            names = ("rows", "entries", "numbers")
            remove_files(path_of(self._job.shuffle, gone.number, what) for what in names)
        return True

    def _batch(self) -> Batch:
        options, sources = self._options, []
        for text_input in self._inputs:
            file = text_input.file
            if isinstance(file, Task):
                while not file.ended():
                    self._tasks.wait()
                file = file.result()
            assert file is not None
            sources.append(text_input.counts.record(dict(file)))
            self._limits.check_digest(text_input.extent.name, sources[-1]["sha256"])
        names = [text_input.extent.name for text_input in self._inputs]
        self._limits.check_rows(names, self._n_rows + self._n_skipped)
        for note in self._notes:
            self._listener(Warned(note))
        self._skipped.tell(self._n_skipped, self._listener)
        features = new_features(self._numbering, self._job.folder, [], options)
        assert self._generations is not None
        blocks = [
            self._labels.record(report.record, report.counts, {})
            for _, report in sorted(self._written.items())
        ]
        written = Written(
            blocks, self._labels.labels, self._n_rows, self._nnz, self._max_index, self._n_rows,
            self._generations.next_block,
        )  # fmt: skip
        base = self._index_base if options.text.seeks_base else options.text.smallest_index
        return batch_of(written, features, base, sources, None, options, self._listener)


def _share(text_range: _TextRange, slot: int) -> Share:
    pieces = text_range.report.pieces
    return Share(text_range.number, text_range.report.n_features, pieces[pieces[:, SLOT] == slot])
