"""Signals that end a run: its state is saved first."""

import signal
from collections.abc import Callable
from types import FrameType
from typing import Any, Self

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def heed(handler: Callable[[int, FrameType | None], object]) -> dict[int, Any]:
    """Call a function on each signal that is to end this process; return the handlers before.

    A signal that the process was started to ignore, as SIGHUP by nohup, stays ignored.
    """
    heeded = [n for n in _ENDING if signal.getsignal(n) not in (signal.SIG_IGN, None)]
    return {number: signal.signal(number, handler) for number in heeded}


def restore(before: dict[int, Any]) -> None:
    """Have signals handled as before `heed`."""
    for number, handler in before.items():
        signal.signal(number, handler)


class Stopper:
    """Notes the first signal that is heeded, so that work can save its state and end.

    The second signal has its usual effect.

    Parameters
    ----------
    until_asked : bool
        The first one has it, too, until somebody asks whether one came: the work that prepares for
        what can be saved may wait for a pipe or a server, and need not be saved.
    """

    def __init__(self, until_asked: bool = False) -> None:
        self._number, self._heeds = 0, not until_asked
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        self._before = heed(self._ask)
        return self

    def __exit__(self, *error: object) -> None:
        self.end()

    def end(self) -> None:
        """Have signals their usual effect from now on: nobody asks any more."""
        restore(self._before)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        restore(self._before)
        if self._heeds:
            self._number = number
        else:
            signal.raise_signal(number)

    def asked(self) -> bool:
        """Return whether a signal came."""
        self._heeds = True
        return self._number != 0

    def send_again(self) -> None:
        """Send the signal that came to this process, now that it has its usual effect."""
        if self._number:
            signal.raise_signal(self._number)

    @property
    def status(self) -> int:
        """The exit status for the signal: 130 or 143."""
        return 130 if self._number == signal.SIGINT else 143
