"""Progress and warnings for people, on stderr."""

import sys
from typing import TYPE_CHECKING, Self

from blocklinear.errors import shown
from blocklinear.events import (
    BlockProgress,
    BlockStep,
    Event,
    GoesOver,
    MethodChosen,
    OuterIteration,
    SplitProgress,
    TextProgress,
    TransposeProgress,
    WarmStarted,
    Warned,
)
from blocklinear.numerals import counted
from blocklinear.report import table

if TYPE_CHECKING:
    from tqdm import tqdm


class Console:
    """Shows events on stderr: a progress bar on a terminal, plain lines elsewhere.

    Parameters
    ----------
    quiet : bool              show warnings only
    task : str                name of the bar for text and blocks
    """

    def __init__(self, quiet: bool, task: str = "split") -> None:
        self._quiet, self._task = quiet, task
        self._bar: tqdm | None = None
        self._next_line_bytes = 0
        self._has_header = False

    def __call__(self, event: Event) -> None:
        """Show one event."""
        if isinstance(event, Warned):
            self._print(f"warning: {shown(event.message)}")
        elif self._quiet:
            return
        elif isinstance(event, WarmStarted | MethodChosen | GoesOver):
            self._print(event.message)
        elif isinstance(event, OuterIteration):
            self._outer(event)
        elif sys.stderr.isatty():
            self._draw(event)
        elif isinstance(event, SplitProgress):
            self._split(event)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _print(self, line: str) -> None:
        if self._bar is not None:
            self._bar.clear()
        print(line, file=sys.stderr, flush=True)

    def _draw(self, event: Event) -> None:
        """Move the bar, and make it first if there is none."""
        if isinstance(event, TextProgress):
            self._move(event.bytes_read, event.bytes_total, self._task, "B")
        elif isinstance(event, TransposeProgress):
            self._move(event.done, event.total, "transpose", " entries")
        elif isinstance(event, BlockProgress):
            self._move(event.done, event.total, self._task, " blocks")
        elif isinstance(event, BlockStep) and event.total > 1:
            if event.done == 1 and self._bar is not None:
                self._bar.reset(event.total)
            self._move(event.done, event.total, f"outer {event.outer}", " block steps")

    def _move(self, done: int, total: int | None, task: str, unit: str) -> None:
        if self._bar is None:
            from tqdm import tqdm

            self._bar = tqdm(
                total=total, initial=done, desc=task, unit=unit,
                unit_scale=unit in ("B", " entries"), leave=False,
            )  # fmt: skip
        if self._bar.desc != f"{task}: ":
            self._bar.set_description(task)
            self._bar.unit = unit
        self._bar.total = total
        self._bar.update(done - self._bar.n)

    def _split(self, event: SplitProgress) -> None:
        """Print a line for each tenth of the text, or each 64 MiB of a stream."""
        if event.bytes_read >= self._next_line_bytes:
            total = event.bytes_total
            share = f" ({100 * event.bytes_read / total:.0f} %)" if total else ""
            if self._next_line_bytes:
                read = f"{event.bytes_read >> 20} MiB{share}"
                self._print(f"{self._task}: {read}, {counted(event.rows, 'row')}")
            self._next_line_bytes = event.bytes_read + max((total or 0) // 10, 64 << 20)

    def _outer(self, event: OuterIteration) -> None:
        if not self._has_header:
            self._has_header = True
            self._print(table.header(event))
        self._print(table.line(event))

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None
