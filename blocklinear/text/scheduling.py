"""Slabs of an input, parsed by several threads within a budget of bytes, delivered in order."""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from blocklinear.kernels.text.scan import count_marks
from blocklinear.options import LINE_FACTOR, SLAB_FACTOR, TextOptions
from blocklinear.pages import ByteBudget, Pages
from blocklinear.text.reshape import SORT_BYTES, Reshaping
from blocklinear.text.rows import ParseBuffers, Rows, parse, rows_bytes
from blocklinear.text.slabs import LongLine, Slab, slabs
from blocklinear.text.sources import Source


@dataclass(frozen=True)
class _Parsing:
    """A slab on its way, what its rows lie in, and the bytes that are held for both."""

    slab: Slab
    buffers: ParseBuffers
    held: int
    rows: Future[Rows]


class SlabParser:
    """Parse the slabs of one input.

    A thread of its own reads, digests and decompresses, as far ahead as the budget of bytes allows;
    the threads of `pool` parse.

    Parameters
    ----------
    dtype, fleeting, look_up  as for `RowReader`
    """

    def __init__(
        self,
        source: Source,
        pool: ThreadPoolExecutor,
        options: TextOptions,
        dtype: str,
        fleeting: bool,
        look_up: Callable[[Rows], Rows] | None,
    ) -> None:
        self._source, self._pool, self._options = source, pool, options
        self._fleeting, self._look_up = fleeting, look_up
        self._max_faults = 1 if options.on_error == "fail" else options.max_errors + 1
        self._reshaping = Reshaping(
            options.unsorted == "sort",
            options.duplicates == "sum",
            options.hash_bits,
            options.ignore_qid,
            dtype,
        )
        self._capacity = options.reading_bytes - source.memory_bytes
        self._budget = ByteBudget(self._capacity)
        self._held = 0  # bytes, for the slab that is being read
        self._free_pages, self._free_buffers = deque[Pages](), deque[ParseBuffers]()
        self._slabs = slabs(
            source, options.slab_bytes, options.line_limit, self._free_pages, self._reserve,
            source.at_start,
        )  # fmt: skip

    def __iter__(self) -> Iterator[tuple[Slab, Rows]]:
        """Yield slabs with their rows; a failure to read comes after what precedes it."""
        reading = ThreadPoolExecutor(1, "read")
        try:
            ahead = self._options.threads + 1
            pending = deque(reading.submit(self._begin_next) for _ in range(ahead))
            while (parsing := pending.popleft().result()) is not None:
                pending.append(reading.submit(self._begin_next))
                yield parsing.slab, parsing.rows.result()
                self._use_again(parsing)
        except BaseException:  # also where nobody asks for the rest
            self._source.raw.stop()
            raise
        finally:
            self._budget.close()
            reading.shutdown(cancel_futures=True)

    def _begin_next(self) -> _Parsing | None:
        """Read the next slab and have it parsed; None at the end of the input."""
        self._held = self._budget.acquire(int(SLAB_FACTOR * self._options.slab_bytes))
        slab = next(self._slabs, None)
        if slab is None:
            return None
        if slab.long:
            self._held = self._budget.acquire(self._bytes_of_line(slab), instead_of=self._held)
        reusable = self._free_buffers and not slab.long
        buffers = self._free_buffers.popleft() if reusable else ParseBuffers()
        rows = self._pool.submit(self._parse, slab, buffers)
        return _Parsing(slab, buffers, self._held, rows)

    def _reserve(self, n_bytes: int) -> None:
        self._held = self._budget.acquire(int(LINE_FACTOR * n_bytes), instead_of=self._held)

    def _parse(self, slab: Slab, buffers: ParseBuffers) -> Rows:
        smallest = self._options.smallest_index
        rows = parse(slab.text, smallest, self._max_faults, self._reshaping, buffers)
        return rows if slab.long or self._look_up is None else self._look_up(rows)

    def _use_again(self, parsing: _Parsing) -> None:
        """Give back the memory of a slab whose rows are done with."""
        if not parsing.slab.long:
            self._free_pages.append(parsing.slab.memory)
        if self._fleeting and parsing.slab.long:
            parsing.buffers.discard()
        elif self._fleeting:
            self._free_buffers.append(parsing.buffers)
        self._budget.release(parsing.held)

    def _bytes_of_line(self, slab: Slab) -> int:
        """Return what a long line takes in memory, with its row; refuse what does not fit."""
        n_lines, n_entries = count_marks(slab.text)
        needed = len(slab.text) + rows_bytes(n_lines, n_entries)
        if self._options.unsorted == "sort" or self._options.hash_bits:
            needed += SORT_BYTES * n_entries
        if needed > self._capacity:
            raise LongLine(n_entries, needed + self._options.reading_bytes - self._capacity)
        return needed
