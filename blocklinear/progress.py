"""A progress bar on stderr, for programs in Python and notebooks."""

import math
import sys
from typing import TYPE_CHECKING, Self

from blocklinear.events import Event, OuterIteration, TextProgress, TransposeProgress

if TYPE_CHECKING:
    from tqdm import tqdm

_BAR = "{l_bar}{bar}| [{elapsed}{postfix}]"


class ProgressBar:
    """Shows events as a bar: bytes read, or how far the gap has come to the one asked for.

    Parameters
    ----------
    goal : float or None
        The relative duality gap to reach; without one outer iterations are counted.
    """

    def __init__(self, goal: float | None = None) -> None:
        self._goal, self._first = goal, 0.0
        self._bar: tqdm | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def __call__(self, event: Event) -> None:
        """Move the bar."""
        if isinstance(event, TextProgress):
            bar = self._shown("read", event.bytes_total, unit="B", unit_scale=True)
            bar.update(event.bytes_read - bar.n)
        elif isinstance(event, TransposeProgress):
            bar = self._shown("transpose", event.total, unit=" entries", unit_scale=True)
            bar.total = event.total  # it grows by a pass where memory is short
            bar.update(event.done - bar.n)
        elif isinstance(event, OuterIteration):
            bar = self._shown("train", self._goal and 100, bar_format=self._goal and _BAR)
            done = event.outer if self._goal is None else self._percent(event.gap, self._goal)
            bar.set_postfix_str(f"outer iteration {event.outer}, gap {event.gap:.2g}", False)
            bar.update(max(done - bar.n, 0))

    def _shown(self, task: str, total: float | None, **how: object) -> "tqdm":
        from tqdm import tqdm

        if self._bar is None:
            closed = sys.stderr is None  # as in a service whose output goes nowhere
            self._bar = tqdm(total=total, desc=task, file=sys.stderr, disable=closed, **how)
        return self._bar

    def _percent(self, gap: float, goal: float) -> int:
        """Return how much of the way from the first gap is done, on a logarithmic scale."""
        if gap <= goal:
            return 100
        self._first = max(self._first, gap)
        return min(int(100 * math.log(self._first / gap) / math.log(self._first / goal)), 99)
