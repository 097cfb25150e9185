"""Run a command with little memory or a slow disk, and measure it.

    python bench/limits.py --memory 256M --read-bps 100M -- blocklinear train STORE

or, from Python, `with limited(memory="256M") as run: result = run(["blocklinear", ...])`.

Limits are cgroups of this module's own making, version 1 if mounted, else version 2, and need
root. Page cache counts against the memory limit, so data larger than it is read again and again.
Units are powers of 1024, as the kernel reads them.
"""

import argparse
import contextlib
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
SAMPLE_SECONDS = 0.02
_numbers = itertools.count()


class LimitsUnavailable(RuntimeError):
    """The machine cannot set the limit; the text says why. A test skips with it."""


@dataclass(frozen=True)
class Result:
    """What a command did.

    `returncode` is negative for a signal (-9: probably out of memory, see `oom_kills`).
    `cpu_seconds`, user and system, and `bytes_read` from disk, page cache not counted, include
    children that the command waited for. `peak_anonymous_bytes` is the largest sum of RssAnon
    over the process tree, sampled every 20 ms, so a shorter peak may be missed; unlike ru_maxrss
    it does not count mapped files. `cold` says whether page caches were dropped before.
    """

    returncode: int
    wall_seconds: float
    cpu_seconds: float
    peak_anonymous_bytes: int
    oom_kills: int
    bytes_read: int
    cold: bool
    timed_out: bool = False
    stdout: str = ""
    stderr: str = ""


Run = Callable[..., Result]


def parse_limit(text: str | int) -> int:
    """Read ``256M`` or ``1.5G`` as bytes."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kmgt]?)(?:i?b)?", str(text).strip().lower())
    size = int(float(match[1]) * 1024 ** " kmgt".index(match[2] or " ")) if match else 0
    if size <= 0:
        raise ValueError(f"{text!r} is not a size; write 256M or 1.5G")
    return size


@contextlib.contextmanager
def limited(
    memory: str | int | None = None,
    read_bps: str | int | None = None,
    disk_of: str | Path = ".",
    cold: bool = True,
) -> Iterator[Run]:
    """Give a function `run(cmd, ...)` that runs commands within the limits; see `run_in`.

    Parameters
    ----------
    memory
        Bytes of anonymous memory and page cache together, without swap; None: no limit.
    read_bps
        Bytes a second read from the disk that holds `disk_of`; None: no limit.
    disk_of
        A path on the disk to slow down.
    cold
        Drop page caches before each run if possible (only root can).

    Raises
    ------
    LimitsUnavailable
        If a limit cannot be set here.
    """
    groups: list[Path] = []
    try:
        if memory is not None:
            groups.append(_memory_group(parse_limit(memory)))
        if read_bps is not None:
            groups.append(_disk_group(parse_limit(read_bps), _disk_number(Path(disk_of)), groups))
        groups = list(dict.fromkeys(groups))  # version 2 has both limits in one group

        def run(cmd: Sequence[str | Path], **options: object) -> Result:
            return run_in(groups, cmd, cold=cold, **options)  # type: ignore[arg-type]

        yield run
    finally:
        for group in groups:
            _remove(group)


def run_in(
    groups: Sequence[Path],
    cmd: Sequence[str | Path],
    *,
    cold: bool = True,
    capture: bool = False,
    timeout: float | None = None,
    cwd: str | Path | None = None,
    env: dict[str, str] | None = None,
) -> Result:
    """Run `cmd` inside these cgroups and measure it.

    Parameters
    ----------
    groups
        Directories of cgroups, which the command joins before it starts.
    cmd, cwd, env
        As for `subprocess.Popen`.
    cold
        Drop page caches first, if possible.
    capture
        Return what the command prints instead of letting it through.
    timeout
        Seconds after which the command and its process group are killed.
    """

    def join_groups() -> None:
        for group in groups:
            (group / "cgroup.procs").write_text(str(os.getpid()))

    dropped = cold and drop_caches()
    kills_before = _oom_kills(groups)
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(2 * capture)]
        began = time.perf_counter()
        process = subprocess.Popen(
            list(map(str, cmd)), cwd=cwd, env=env, preexec_fn=join_groups, process_group=0,
            stdout=files[0] if capture else None, stderr=files[1] if capture else None,
        )  # fmt: skip
        try:
            status, usage, peak, timed_out = _watch(process.pid, began, timeout)
            wall = time.perf_counter() - began
            process.returncode = os.waitstatus_to_exitcode(status)
        finally:
            if process.returncode is None:  # interrupted: leave nothing behind
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        for file in files:
            file.seek(0)
        texts = [file.read().decode(errors="replace") for file in files] or ["", ""]
    return Result(
        returncode=process.returncode,
        wall_seconds=round(wall, 3),
        cpu_seconds=round(usage.ru_utime + usage.ru_stime, 3),
        peak_anonymous_bytes=peak,
        oom_kills=_oom_kills(groups) - kills_before,
        bytes_read=usage.ru_inblock * 512,
        cold=dropped,
        timed_out=timed_out,
        stdout=texts[0],
        stderr=texts[1],
    )


def drop_caches() -> bool:
    """Write out and forget the page cache of the machine; return whether that was allowed."""
    os.sync()
    try:
        Path("/proc/sys/vm/drop_caches").write_text("1")
    except OSError:
        return False
    return True


def _watch(pid: int, began: float, timeout: float | None):
    """Sample a child until it ends; return its status, usage, peak memory, if it timed out."""
    peak, timed_out = 0, False
    while True:
        ended, status, usage = os.wait4(pid, os.WNOHANG)
        if ended:
            return status, usage, peak, timed_out
        peak = max(peak, sum(map(anonymous_bytes, process_tree(pid))))
        if timeout is not None and not timed_out and time.perf_counter() - began > timeout:
            timed_out = True
            os.killpg(pid, signal.SIGKILL)
        time.sleep(SAMPLE_SECONDS)


def process_tree(pid: int) -> list[int]:
    """Return `pid` and its living descendants."""
    found = [pid]
    for parent in found:  # grows while it is walked
        with contextlib.suppress(OSError):
            for children in Path(f"/proc/{parent}/task").glob("*/children"):
                found.extend(map(int, children.read_text().split()))
    return found


def anonymous_bytes(pid: int) -> int:
    """Return RssAnon of a process, 0 if it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    match = re.search(r"^RssAnon:\s+(\d+) kB", status, re.MULTILINE)
    return int(match[1]) * 1024 if match else 0


def _memory_group(limit: int) -> Path:
    if (CGROUPS / "memory" / "memory.limit_in_bytes").exists():
        group = _new_group(CGROUPS / "memory")
        # The limit with swap may never be below the one without.
        settings = {"memory.limit_in_bytes": limit, "memory.memsw.limit_in_bytes": limit}
    else:
        group = _new_group(_version_2("memory"))
        settings = {"memory.max": limit, "memory.swap.max": 0}
    for name, value in settings.items():
        if "sw" not in name or (group / name).exists():
            _set(group, name, str(value))
    return group


def _disk_group(limit: int, disk: str, groups: list[Path]) -> Path:
    if (CGROUPS / "blkio" / "blkio.throttle.read_bps_device").exists():
        group = _new_group(CGROUPS / "blkio")
        _set(group, "blkio.throttle.read_bps_device", f"{disk} {limit}")
        return group
    root = _version_2("io")
    group = next((g for g in groups if g.parent == root), None) or _new_group(root)
    _set(group, "io.max", f"{disk} rbps={limit}")
    return group


def _version_2(controller: str) -> Path:
    """Return the root of cgroup version 2, with a controller handed to its children."""
    try:
        offered = (CGROUPS / "cgroup.controllers").read_text().split()
    except OSError:
        offered = []
    if controller not in offered:
        raise LimitsUnavailable(f"no {controller} controller below {CGROUPS}, version 1 or 2")
    try:
        (CGROUPS / "cgroup.subtree_control").write_text(f"+{controller}")
    except OSError as error:
        raise LimitsUnavailable(f"cannot delegate the {controller} controller: {error}") from error
    return CGROUPS


def _new_group(root: Path) -> Path:
    group = root / f"blocklinear-bench-{os.getpid()}-{next(_numbers)}"
    try:
        group.mkdir()
    except OSError as error:
        raise LimitsUnavailable(f"cannot make a cgroup (are you root?): {error}") from error
    return group


def _set(group: Path, name: str, value: str) -> None:
    try:
        (group / name).write_text(value)
    except OSError as error:
        _remove(group)
        raise LimitsUnavailable(f"cannot write {value} to {group / name}: {error}") from error


def _remove(group: Path) -> None:
    """End what is left inside a group of ours and remove it."""
    for attempt in range(100):
        if not group.exists():
            return
        with contextlib.suppress(OSError):
            for pid in (group / "cgroup.procs").read_text().split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            group.rmdir()  # busy for a moment after its last process ended
            return
        time.sleep(0.001 * attempt)
    print(f"{group}: cannot be removed; rmdir it later", file=sys.stderr)


def _oom_kills(groups: Sequence[Path]) -> int:
    for group in groups:
        for name in ("memory.oom_control", "memory.events"):
            with contextlib.suppress(OSError):
                match = re.search(r"^oom_kill (\d+)", (group / name).read_text(), re.MULTILINE)
                if match:
                    return int(match[1])
    return 0


def _disk_number(path: Path) -> str:
    """Return ``major:minor`` of the whole disk that holds `path`."""
    device = path.stat().st_dev
    entry = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}")
    if not entry.exists():
        raise LimitsUnavailable(f"{path} is not on a disk of its own that could be slowed down")
    entry = entry.resolve()
    if (entry / "partition").exists():
        entry = entry.parent
    return (entry / "dev").read_text().strip()


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="exit status: the command's; 128 + N after signal N; 125 if a limit cannot be set",
    )
    parser.add_argument("--memory", help="for example 256M")
    parser.add_argument("--read-bps", help="bytes a second, for example 100M")
    parser.add_argument("--disk-of", default=".", help="path on the disk to slow down")
    parser.add_argument("--timeout", type=float, help="seconds")
    parser.add_argument("--warm", action="store_true", help="leave the page cache as it is")
    parser.add_argument("command", nargs="+", help="after --: the command and its arguments")
    options = parser.parse_args(argv)
    try:
        with limited(
            options.memory, options.read_bps, options.disk_of, cold=not options.warm
        ) as run:
            result = run(options.command, timeout=options.timeout)
    except (LimitsUnavailable, ValueError, FileNotFoundError) as error:
        print(error, file=sys.stderr)
        return 125
    fields = asdict(result)
    del fields["stdout"], fields["stderr"]
    print(json.dumps(fields), file=sys.stderr)
    return result.returncode if result.returncode >= 0 else 128 - result.returncode


if __name__ == "__main__":
    sys.exit(main())
