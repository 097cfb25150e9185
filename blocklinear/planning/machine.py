"""How fast this machine is, by a benchmark of some seconds whose result is kept."""

import json
import mmap
import os
import platform
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

import numpy as np

from blocklinear import __version__
from blocklinear.errors import StorageError, storage_errors
from blocklinear.store.files import atomic_write, sync_file
from blocklinear.store.remote.mirror import user_cache

_FORMAT = 1
_WEIGHT_BYTES = tuple(1 << power for power in range(16, 29, 2))
"""Sizes of weight vectors that entries are added up from: 64 KiB to 256 MiB."""
_LOOKUPS = 1 << 20
_DISK_BYTES = 128 << 20
_PIECE_BYTES = 4 << 20


@dataclass(frozen=True)
class Machine:
    """What was measured."""

    lookup_ns: dict[int, float]  # of a random weight, by bytes of the weight vector
    write_bytes_s: float  # of the disk of temporary files, without the page cache
    read_bytes_s: float  # of the same

    def lookup(self, n_bytes: float) -> float:
        """Return the nanoseconds to look up a weight in a vector of so many bytes."""
        sizes, times = list(self.lookup_ns), list(self.lookup_ns.values())
        return float(np.interp(np.log2(max(n_bytes, 1.0)), np.log2(sizes), times))

    @classmethod
    def measured(cls) -> Self:
        """Measure this machine, in about five seconds."""
        lookups = {size: _lookup_ns(size) for size in _WEIGHT_BYTES}
        write_s, read_s = _disk_seconds(Path(tempfile.gettempdir()))
        return cls(lookups, _DISK_BYTES / write_s, _DISK_BYTES / read_s)

    @classmethod
    def known(cls, anew: bool = False) -> Self:
        """Return what was measured before on this machine; measure it if it was not, or `anew`."""
        path = user_cache() / "machines" / f"{platform.node() or 'machine'}.json"
        key = [_FORMAT, __version__, platform.machine(), os.cpu_count(), tempfile.gettempdir()]
        if not anew:
            try:
                note = json.loads(path.read_bytes())
                if note["key"] == key:
                    lookups = {int(size): ns for size, ns in note["lookup_ns"].items()}
                    return cls(lookups, note["write_bytes_s"], note["read_bytes_s"])
            except (OSError, ValueError, TypeError, KeyError, AttributeError):
                pass  # it is measured again
        found = cls.measured()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(path) as stream:
                stream.write(json.dumps({"key": key, **asdict(found)}).encode())
        except (OSError, StorageError):
            pass  # then it is measured each time
        return found


def _lookup_ns(n_bytes: int) -> float:
    """Return the nanoseconds of `np.take` of random numbers out of a vector: the best of three."""
    weights = np.ones(n_bytes // 8)
    places = np.random.default_rng(0).integers(0, len(weights), _LOOKUPS)
    out, best = np.empty(_LOOKUPS), np.inf
    for _ in range(3):
        started = time.perf_counter()
        np.take(weights, places, out=out, mode="clip")
        best = min(best, time.perf_counter() - started)
    return float(best * 1e9 / _LOOKUPS)


def _disk_seconds(folder: Path) -> tuple[float, float]:
    """Return the seconds that writing and reading a file durably takes."""
    piece = mmap.mmap(-1, _PIECE_BYTES)  # begins with a page, as reading past the cache needs it
    piece.write(np.random.default_rng(0).bytes(_PIECE_BYTES))
    descriptor, name = tempfile.mkstemp(dir=folder)
    try:
        started = time.perf_counter()
        with storage_errors(name, "write"):
            for _ in range(_DISK_BYTES // _PIECE_BYTES):
                os.write(descriptor, piece)
        sync_file(Path(name))
        write_s = time.perf_counter() - started
        return write_s, _read_seconds(name, piece) or write_s
    finally:
        os.close(descriptor)
        os.unlink(name)


def _read_seconds(name: str, piece: mmap.mmap) -> float | None:
    """Return the seconds of reading past the page cache; None where that is not possible."""
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_DIRECT)
    except OSError:
        return None
    try:
        started = time.perf_counter()
        while os.readv(descriptor, [piece]):
            pass
        return time.perf_counter() - started
    except OSError:
        return None
    finally:
        os.close(descriptor)
