"""Kernels compiled and loaded ahead of the work, so that they take no memory from it.

What a run needs takes Numba 100 MB and more to compile, the first time on a machine. A budget of
memory has no room for that, so processes of their own do it, side by side; the compiled kernels
stay in the cache.

To load them from there reads 50 MB of LLVM's code. In a container whose memory the data have
filled by then, these pages are read from disk again and again, for many seconds. So a command loads
what it may need before its work.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from blocklinear.cli import overloads
from blocklinear.cli.compiling import cache_folder, say_that_it_compiles, start_lightly
from blocklinear.errors import MemoryBudgetError
from blocklinear.memory import anonymous_bytes, available_bytes
from blocklinear.solver_types import CRAMMER_SINGER, ONE_CLASS, SOLVER_TYPES

if TYPE_CHECKING:
    from blocklinear.options import TextOptions, TrainOptions
    from blocklinear.store.manifest import Manifest

_PROCESS_BYTES = 400 << 20  # what a process takes that compiles
_PLENTY = 4  # times as much is there: no need to give back what kernels took before others
_TIGHT_BYTES = 64 << 20  # anonymous ones: 60 MB are Numba, a large kernel adds 70
_COMMAND = [sys.executable, "-P", "-m", __spec__.name]


def load_for_splitting(
    dtype: str, quiet: bool, reshaping: bool = False, tables: bool = False
) -> None:
    """Load the kernels that writing blocks needs; compile them before, the first time.

    Parameters
    ----------
    dtype : {"float64", "float32"}      of the values in the store
    quiet : bool              whether to keep silent about it
    reshaping : bool          whether rows are sorted, merged, hashed or normalised
    tables : bool             whether rows are of tables
    """
    parts = {"split"} | ({"reshape"} if reshaping or tables else set())
    _prepare(parts | ({"tables"} if tables else set()), dtype, quiet)


def load_for_columns(dtype: str, quiet: bool) -> None:
    """Load the kernels that columns need, to be made and to be read; compile them before.

    Parameters
    ----------
    dtype : {"float64", "float32"}      of the values in the store
    quiet : bool              whether to keep silent about it
    """
    _prepare({"transpose"}, dtype, quiet)


def reshapes(text: "TextOptions") -> bool:
    """Return whether rows of text are sorted, merged or hashed."""
    return text.hash_bits > 0 or (text.unsorted, text.duplicates) != ("fail", "fail")


def load_for_training(
    manifest: "Manifest",
    options: "TrainOptions",
    quiet: bool,
    several: bool = False,
    others: Collection[str] = (),
) -> None:
    """Load the kernels that training a store needs; compile them before, the first time.

    Parameters
    ----------
    several : bool            whether more than one model is trained, whatever the classes
    others : collection of str          steps that are taken whatever the options: "evaluate",
                              "text" for writing a large model for LIBLINEAR
    """
    many = several or (options.solver <= 7 and len(manifest.labels or ()) > 2)
    steps, newton, dual = {*others}, "newton-many" if many else "newton", "many" if many else "one"
    if options.solver == CRAMMER_SINGER:
        parts = {"crammer-singer"}
    elif options.solver == ONE_CLASS:
        parts = {"one-class"}
    elif SOLVER_TYPES[options.solver].l1:
        parts = {"l1"}
    elif options.method == "auto":
        parts = {newton, dual}
    elif options.method == "newton":
        parts = {newton}
    else:
        parts = {"pegasos" if options.method == "pegasos" else dual}
        steps |= {"newton"} if options.solver in (1, 7, 12) else set()
    steps |= {"evaluate"} if options.evaluate is not None else set()
    steps |= {"warm"} if options.warm_start else set()
    parts |= {f"{part}.{step}" for part in parts for step in steps}
    _prepare(parts, manifest.dtype, quiet)


def _prepare(parts: Collection[str], dtype: str, quiet: bool) -> None:
    if not compiles():
        return
    missing = overloads.load(overloads.listed(parts, dtype))
    if missing and cache_folder() is not None:
        if not quiet:
            say_that_it_compiles()
        compile_in_processes(missing)
        overloads.load(missing)


def compiles() -> bool:
    """Return whether there are compiled kernels at all."""
    return os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"


def compile_in_processes(
    missing: Collection[str], done: Callable[[], object] = lambda: None
) -> bool:
    """Compile overloads in processes of their own, which keep them in the cache.

    There is one a processor, as far as there is memory for them. Each takes the number of its next
    overload from one pipe, and reports in another that it is compiled.

    Parameters
    ----------
    done : callable           called after each overload

    Returns
    -------
    bool
        Whether all came to a good end: otherwise kernels are compiled when they are called.

    Raises
    ------
    MemoryBudgetError
        If one was killed, as this process would be if it compiled.
    """
    wanted = set(missing)
    numbers = [k for k, overload in enumerate(overloads.listed()) if overload in wanted]
    n = min(len(os.sched_getaffinity(0)), available_bytes() // _PROCESS_BYTES, len(numbers))
    (tasks, give), (reports, report) = os.pipe(), os.pipe()
    processes = []
    try:
        os.write(give, b"".join(k.to_bytes(2) for k in _longest_first(numbers)))
        os.close(give)
        for _ in range(max(n, 1)):
            processes.append(
                subprocess.Popen(
                    _COMMAND, stdin=tasks, stdout=report, stderr=subprocess.DEVNULL,
                    env=os.environ | {"MALLOC_ARENA_MAX": "1", "OPENBLAS_NUM_THREADS": "1"},
                )
            )  # fmt: skip
        os.close(report)
        while os.read(reports, 1):
            done()
        ends = [process.wait() for process in processes]
        if -signal.SIGKILL in ends:
            raise MemoryBudgetError(
                "a process that compiled kernels was killed, for want of memory most likely",
                "run `blocklinear warmup` first, with 1 GB of memory",
            )
        return not any(ends)
    finally:
        os.close(tasks)
        os.close(reports)
        for process in processes:
            process.kill()
            process.wait()


def _longest_first(numbers: list[int]) -> list[int]:
    listed = overloads.listed()
    return sorted(numbers, key=lambda k: -_length(overloads.resolve(listed[k])[0]))


def _length(kernel: Any) -> int:
    """Return how much code a kernel has with all that it calls: what takes longest begins first."""
    found = {kernel}
    while (
        new := {
            called
            for function in (known.py_func for known in found)
            for name in function.__code__.co_names
            if hasattr(called := function.__globals__.get(name), "py_func")
        }
        - found
    ):
        found |= new
    return sum(len(function.py_func.__code__.co_code) for function in found)


def main() -> None:
    """Compile what standard input asks for; the exit status says what ended early."""
    start_lightly()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # ended from the keyboard: without a traceback
    listed, tight = overloads.listed(), available_bytes() < _PLENTY * _PROCESS_BYTES
    while task := os.read(0, 2):
        kernel, signature = overloads.resolve(listed[int.from_bytes(task)])
        kernel.overload(signature)
        os.write(1, b".")
        if tight and anonymous_bytes() > _TIGHT_BYTES:  # Numba gives nothing back
            os.execv(sys.executable, _COMMAND)


if __name__ == "__main__":
    main()
