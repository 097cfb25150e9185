"""What several commands share: argument types, progress bars."""

import argparse
import signal
import sys
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Self

from blocklinear.cli.rehearsal import load_for_splitting
from blocklinear.errors import UsageError, shown
from blocklinear.events import (
    Event,
    OuterIteration,
    SplitProgress,
    Visited,
    WarmStarted,
    Warned,
)
from blocklinear.memory import parse_size
from blocklinear.numerals import parse_label

if TYPE_CHECKING:
    from tqdm import tqdm

    from blocklinear.store.store import BlockStore


def size(text: str) -> int:
    """Read a SIZE argument."""
    try:
        return parse_size(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(error.what) from error


def add_budget(parser: Any) -> None:
    """Add ``--memory`` and ``--threads``."""
    parser.add_argument(
        "--memory",
        type=size,
        metavar="SIZE",
        help="budget of the whole process, as 512M or 4G (default: half of the memory of the "
        "machine, or of its cgroup)",
    )
    parser.add_argument(
        "--threads", type=int, metavar="T", help="worker threads (default: one a processor)"
    )


def add_restart(parser: Any) -> None:
    """Add ``--restart``."""
    parser.add_argument(
        "--restart",
        action="store_true",
        help="start anew where the run was broken off, and delete what it reached (else refused)",
    )


def add_class_weights(parser: Any) -> None:
    """Add ``--class-weight`` and ``--balanced``."""
    parser.add_argument(
        "--class-weight",
        action="append",
        default=[],
        metavar="LABEL=W",
        help="multiply C for rows of a class; also written -wLABEL W",
    )
    parser.add_argument(
        "--balanced",
        action="store_true",
        help="weight each class by rows / (classes * rows of the class)",
    )


def _label(text: str) -> float:
    """Read a LABEL argument."""
    try:
        return parse_label(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(error.what) from error


def add_positive(parser: argparse.ArgumentParser) -> None:
    """Add ``--positive``."""
    parser.add_argument(
        "--positive",
        type=_label,
        metavar="LABEL",
        help="the class of two that F1 is that of (default: the larger label)",
    )


def add_row_options(parser: Any) -> None:
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


def add_index_base(parser: Any, default: int | None = 1, meaning: str = "default 1") -> None:
    """Add ``--index-base``."""
    parser.add_argument(
        "--index-base",
        type=_index_base,
        default=default,
        metavar="0|1|auto",
        help=f"smallest index ({meaning}); auto: 0 if there is an index 0, else 1 (files only)",
    )


def _index_base(text: str) -> int | str:
    return text if text == "auto" else int(text)


def class_weight(text: str) -> tuple[float, float]:
    """Read ``LABEL=W``."""
    label, _, weight = text.partition("=")
    try:
        times = float(weight)
    except ValueError:
        raise UsageError(f"class weight {text!r} is not LABEL=W", "write -w1 5") from None
    return parse_label(label), times


def costs_of(text: str) -> tuple[float, ...]:
    """Read ``C`` or ``C,C,...``."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"costs {text!r} are not numbers", "write -c 1, or -c 0.1,1,10") from None


def given(**options: object) -> dict[str, object]:
    """Return the options that are not None, so that the library's defaults hold for the rest."""
    return {name: value for name, value in options.items() if value is not None}


class Stopper:
    """Turns the first SIGINT, SIGTERM or SIGHUP into an answer to `asked`, for work that can save.

    A second one does what it did before.
    """

    def __init__(self) -> None:
        self._number = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            self._before[number] = signal.signal(number, self._ask)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self._number = number
        self._restore()

    def asked(self) -> bool:
        """Say whether a signal came."""
        return self._number != 0

    @property
    def status(self) -> int:
        """The exit status that tells of the signal: 130 or 143."""
        return 130 if self._number == signal.SIGINT else 143


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


def open_store(args: argparse.Namespace, console: Console) -> "BlockStore":
    """Open the store that `args.store` names, or the one beside the LIBSVM text there."""
    from blocklinear.cli.reading import reading
    from blocklinear.errors import MismatchError
    from blocklinear.options import SplitOptions, TextOptions
    from blocklinear.store.beside import store_of

    text: Any = given(threads=args.threads, memory_bytes=args.memory, index_base=args.index_base)
    options = SplitOptions(text=TextOptions(**reading(args), **text))
    if Path(args.store).is_file():
        load_for_splitting(options.dtype, args.quiet)
    try:
        store = store_of(args.store, options, console)
    finally:
        console.close()
    base, manifest = args.index_base, store.manifest
    if base in (0, 1) and not manifest.hash_bits and manifest.index_base != base:
        raise MismatchError(
            f"{store.folder}: the index base of the store is {manifest.index_base}, not {base}",
            f"leave out --index-base, or split again with --index-base {base} --force",
        )
    return store
