"""Signals that end a run: its state is saved first."""

import signal
from types import FrameType, TracebackType
from typing import Any, Self


class Stopper:
    """Notes the first SIGINT, SIGTERM or SIGHUP, so that work can save its state and end.

    The second signal has its usual effect.
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
        """Return whether a signal came."""
        return self._number != 0

    def send_again(self) -> None:
        """Send the signal that came to this process, now that it has its usual effect."""
        if self._number:
            signal.raise_signal(self._number)

    @property
    def status(self) -> int:
        """The exit status for the signal: 130 or 143."""
        return 130 if self._number == signal.SIGINT else 143
