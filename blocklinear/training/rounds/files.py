"""Files that another machine may have written a moment ago, on a file system that all share."""

import time
from collections.abc import Callable
from io import FileIO
from pathlib import Path
from typing import TypeVar

from blocklinear.store.files import opened

T = TypeVar("T")
SHOWS_UP_S = 10.0
"""Seconds after which a file that another machine wrote is visible on a shared file system."""


def once_there(read: Callable[[], T], missing: type[Exception]) -> T:
    """Return what was written, maybe on another machine a moment ago.

    What reads it is called again, for a while, if it raises an error of type `missing`.
    """
    until = time.monotonic() + SHOWS_UP_S
    while True:
        late = time.monotonic() > until
        try:
            return read()
        except missing:
            if late:
                raise
            time.sleep(0.1)


def opened_late(path: Path) -> FileIO:
    """Open a file as `opened` does, which may have been written elsewhere a moment ago."""
    return once_there(lambda: opened(path), FileNotFoundError)
