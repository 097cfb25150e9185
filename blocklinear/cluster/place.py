"""The worker that a task runs on."""

import contextlib
import threading
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Place:
    """The worker that a task runs on."""

    address: str
    scratch: Path  # a folder on its own disk
    threads: int


def here() -> Place:
    """Return the worker that this task runs on."""
    from distributed import get_worker  # late: it belongs to an extra

    worker = get_worker()
    return Place(worker.address, Path(worker.local_directory), worker.state.nthreads)


_locks: dict[str, threading.Lock] = defaultdict(threading.Lock)  # by worker


@contextlib.contextmanager
def alone() -> Iterator[Place]:
    """Yield the place of this task, whose memory and threads no other task has meanwhile."""
    place = here()
    with _locks[place.address]:
        yield place
