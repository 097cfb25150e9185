"""Progress and warnings for people, on stderr."""

import sys
from typing import TYPE_CHECKING

from blocklinear.errors import shown
from blocklinear.events import (
    Event,
    OuterIteration,
    SplitProgress,
    Visited,
    WarmStarted,
    Warned,
)

if TYPE_CHECKING:
    from tqdm import tqdm


class Console:
    """Draws events for people on stderr: a bar on a terminal, plain lines elsewhere.

    Parameters
    ----------
    quiet : bool
        Show warnings only.
    """

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self._bar: tqdm | None = None
        self._next_line_bytes = 0
        self._outer_seen = False

    def __call__(self, event: Event) -> None:
        """Show one event."""
        if isinstance(event, Warned):
            self._print(f"warning: {shown(event.message)}")
        elif self._quiet:
            return
        elif isinstance(event, SplitProgress):
            self._split(event)
        elif isinstance(event, WarmStarted):
            self._print(event.message)
        elif isinstance(event, Visited):
            self._visited(event)
        elif isinstance(event, OuterIteration):
            self._outer(event)

    def _print(self, line: str) -> None:
        if self._bar is not None:
            self._bar.clear()
        print(line, file=sys.stderr, flush=True)

    def _split(self, event: SplitProgress) -> None:
        if sys.stderr.isatty():
            if self._bar is None:
                from tqdm import tqdm

                self._bar = tqdm(
                    total=event.bytes_total, unit="B", unit_scale=True, desc="split", leave=False
                )
            self._bar.update(event.bytes_read - self._bar.n)
        elif event.bytes_read >= self._next_line_bytes:
            total = event.bytes_total
            share = f" ({100 * event.bytes_read / total:.0f} %)" if total else ""
            if self._next_line_bytes:
                self._print(f"split: {event.bytes_read >> 20} MiB{share}, {event.rows} rows")
            self._next_line_bytes = event.bytes_read + max((total or 0) // 10, 64 << 20)

    def _visited(self, event: Visited) -> None:
        if not sys.stderr.isatty() or event.visits == 1:
            return
        if self._bar is None:
            from tqdm import tqdm

            self._bar = tqdm(total=event.visits, unit="visit", leave=False)
        if event.done == 1:
            self._bar.reset(event.visits)
            self._bar.set_description(f"outer {event.outer}")
        self._bar.update(event.done - self._bar.n)

    def _outer(self, event: OuterIteration) -> None:
        score = event.accuracy if event.accuracy is not None else event.mean_squared_error
        if not self._outer_seen:
            self._outer_seen = True
            name = "" if score is None else "  accuracy" if event.accuracy is not None else "  mse"
            self._print(
                "outer  seconds     load     wait    solve           primal             dual"
                f"       gap  violation        SV{name}"
            )
        mark = "*" if event.certified else " "
        self._print(
            f"{event.outer:5d} {event.seconds:8.2f} {event.load_s:8.2f} {event.wait_s:8.2f} "
            f"{event.solve_s:8.2f} {event.primal:16.9g} {event.dual:16.9g} {event.gap:9.2e}{mark} "
            f"{event.violation:9.2e} {event.n_sv:9d}" + ("" if score is None else f" {score:9.6g}")
        )

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None
