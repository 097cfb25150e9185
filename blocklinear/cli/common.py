"""What several commands share: argument types, progress bars."""

import argparse
import sys
from typing import TYPE_CHECKING

from blocklinear.errors import UsageError
from blocklinear.events import Event, OuterIteration, SplitProgress, Warned
from blocklinear.memory import parse_size

if TYPE_CHECKING:
    from tqdm import tqdm


def size(text: str) -> int:
    """Read a SIZE argument."""
    try:
        return parse_size(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(error.what) from error


def add_budget(parser: argparse.ArgumentParser) -> None:
    """Add ``--memory`` and ``--threads``."""
    parser.add_argument(
        "--memory",
        type=size,
        metavar="SIZE",
        help="budget of the whole process, as 512M or 4G (default: half of what is available)",
    )
    parser.add_argument(
        "--threads", type=int, metavar="T", help="worker threads (default: one a processor)"
    )


def add_row_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--unsorted`` and ``--duplicates``."""
    parser.add_argument(
        "--unsorted",
        default="fail",
        choices=("fail", "sort"),
        help="rows out of order (default fail)",
    )
    parser.add_argument(
        "--duplicates",
        default="fail",
        choices=("fail", "sum"),
        help="indices repeated in a row (default fail)",
    )


def add_index_base(parser: argparse.ArgumentParser) -> None:
    """Add ``--index-base``."""
    parser.add_argument(
        "--index-base",
        type=_index_base,
        default=1,
        metavar="0|1|auto",
        help="smallest index (default 1); auto: 0 if there is an index 0, else 1 (files only)",
    )


def _index_base(text: str) -> int | str:
    return text if text == "auto" else int(text)


def given(**options: object) -> dict[str, object]:
    """Return the options that are not None, so that the library's defaults hold for the rest."""
    return {name: value for name, value in options.items() if value is not None}


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
            self._print(f"warning: {event.message}")
        elif self._quiet:
            return
        elif isinstance(event, SplitProgress):
            self._split(event)
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

    def _outer(self, event: OuterIteration) -> None:
        if not self._outer_seen:
            self._outer_seen = True
            self._print(
                "outer  seconds     load     wait    solve           primal             dual"
                "       gap  violation        SV"
            )
        mark = "*" if event.certified else " "
        self._print(
            f"{event.outer:5d} {event.seconds:8.2f} {event.load_s:8.2f} {event.wait_s:8.2f} "
            f"{event.solve_s:8.2f} {event.primal:16.9g} {event.dual:16.9g} {event.gap:9.2e}{mark} "
            f"{event.violation:9.2e} {event.n_sv:9d}"
        )

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None
