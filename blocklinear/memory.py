"""The memory budget: sizes as text, and how many bytes there are."""

import contextlib
import math
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from blocklinear.errors import UsageError, quoted

_UNITS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?)(i?b)?", re.IGNORECASE | re.ASCII)
_LONGEST_SIZE = 100  # characters; int() refuses numbers of more than 4300 digits
PROCESS_BYTES = 80 << 20
"""For the interpreter, NumPy, LLVM and compiled kernels, which hold 30 MiB, with as much of their
code that is in use (in containers the pages of files count too), and for 20 MiB that are counted
nowhere else: what splitting leaves behind, page tables, and files on their way."""
WEIGHT_VECTORS = 3
"""What training keeps: w, the running average of w, and the w recomputed by a certificate."""


@dataclass(frozen=True)
class RowsHeldOut:
    """What rows need on which a model is scored while it is trained."""

    bytes: int  # while it is trained
    reading_bytes: int  # and before, next to the program


def parse_size(text: str) -> int:
    """Read ``512M``, ``4G``, ``1.5GiB`` as bytes; units are powers of 1024.

    UsageError is raised if `text` is not a size from 1 to 2**63 - 1 bytes.
    """
    match = _SIZE.fullmatch(text.strip()) if len(text) <= _LONGEST_SIZE else None
    size = 0
    if match:
        whole, _, digits = match[1].partition(".")
        scale = 10 ** len(digits)  # in integers, as large sizes are no float64
        size = (int(whole + digits) * 1024 ** _UNITS[match[2].lower()] + scale // 2) // scale
    if not 0 < size < 1 << 63:
        raise UsageError(
            f"size {quoted(text)} is not a number of bytes from 1 to 2**63 - 1", "write 512M or 4G"
        )
    return size


def format_size(n_bytes: float) -> str:
    """Return `n_bytes` as text of three digits: ``1.5G``, ``1020M``, ``12K``.

    `parse_size` reads it, as a size that is up to half a percent smaller or larger: for advice that
    is followed, see `enough`.
    """
    text, unit = f"{n_bytes:.0f}", "B"
    for power, larger in enumerate("KMGT", 1):
        if float(text) < 1024:
            break
        value, unit = n_bytes / 1024**power, larger
        text = f"{value:.3g}" if value < 999.5 else f"{value:.0f}"
    return text + unit


def enough(n_bytes: float) -> str:
    """Return a size of whole MiB that is not less than `n_bytes`, as `parse_size` reads it."""
    return f"{-(-math.ceil(n_bytes) >> 20)}M"


def exact_size(n_bytes: int) -> str:
    """Return `n_bytes` so that `parse_size` reads the same number: ``4G``, ``3912M``."""
    for unit in reversed(_UNITS):
        whole, rest = divmod(n_bytes, 1024 ** _UNITS[unit])
        if not rest:
            break
    return f"{whole}{unit.upper()}"


def spare_bytes(budget: int) -> int:
    """Return what of a budget is available for data: all but what the program itself takes."""
    return max(budget - PROCESS_BYTES, 0)


def default_budget() -> int:
    """Return half of the memory of the machine, or of the least limit of a cgroup, in whole MiB.

    Block sizes and groups follow from the budget, and with them the model: so it does not depend on
    what other processes take at the moment.
    """
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(min([machine, *_cgroup_limits()]) // 2 >> 20, 1) << 20


def available_bytes() -> int:
    """Return the bytes available to this process: of the machine, within its cgroups' limits."""
    available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        found = re.search(r"MemAvailable:\s+(\d+) kB", meminfo.read_text())
        available = int(found[1]) * 1024 if found else available
    return min([available, *_cgroup_limits()])


def _cgroup_limits(
    membership: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")
) -> Iterator[int]:
    """Yield the limits in bytes on this process's memory: of its cgroup and those around it.

    In version 2 each level up to `root` has a limit of its own. In version 1 a level also has the
    least limit of the levels above it, even of those that a container cannot see. A group that is
    not below `root` is named as outside of the container, which then sees its own as `root`.
    """
    groups = {"": "/", "memory": "/"}
    with contextlib.suppress(OSError):
        for line in membership.read_text().splitlines():
            _, controllers, group = line.split(":", 2)
            groups |= {name: group for name in controllers.split(",")}
    for level in _levels(root, groups[""]):
        for name in ("memory.max", "memory.high"):  # above high the kernel slows a process down
            yield from _number_in(level / name)
    for level in _levels(root / "memory", groups["memory"]):
        yield from _number_in(level / "memory.limit_in_bytes")
        yield from _number_in(level / "memory.stat", "hierarchical_memory_limit ")


def _levels(root: Path, group: str) -> list[Path]:
    """Return the folder of a cgroup and of each one it lies in, `root` last."""
    folder = root / group.lstrip("/")
    return [folder, *folder.parents[: len(folder.parts) - len(root.parts)]]


def _number_in(path: Path, name: str = "") -> Iterator[int]:
    """Yield the number that follows `name` at the start of a line of a file, if there is one."""
    with contextlib.suppress(OSError):
        found = re.search(rf"^{name}(\d+)$", path.read_text(), re.MULTILINE)
        if found:
            yield int(found[1])


def anonymous_bytes() -> int:
    """Return the resident anonymous memory of this process (RssAnon), 0 where unknown."""
    return _status("RssAnon")


def peak_bytes() -> int:
    """Return the largest resident memory of this process so far (VmHWM), 0 where unknown.

    Files that are mapped, as the code of libraries is, count too: the kernel notes no peak of
    anonymous memory alone.
    """
    return _status("VmHWM")


def _status(name: str) -> int:
    """Return the bytes of an entry of /proc/self/status."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return 0
    found = re.search(rf"{name}:\s+(\d+) kB", status)
    return int(found[1]) * 1024 if found else 0
