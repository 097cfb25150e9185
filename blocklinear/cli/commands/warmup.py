"""``blocklinear warmup``."""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import blocklinear
from blocklinear.numerals import counted


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "warmup",
        help="compile everything for this machine ahead of the first use",
        description="Compile all kernels for this processor, and keep them for later commands, "
        "which otherwise compile what they need at its first use: some seconds each. Python's "
        "bytecode of this package is written, too, if its folder can be, whatever "
        "PYTHONDONTWRITEBYTECODE says. For images of containers, and for CI. NUMBA_CACHE_DIR names "
        "another folder to keep kernels in.",
        epilog="exit status: 0 all is compiled, now or before, 2 usage, 6 nothing can be kept, "
        "7 memory budget",
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress")
    parser.set_defaults(run=run)


def write_bytecode() -> None:
    """Compile the modules of this package for Python: without, each start does, for 0.15 s.

    A checkout has none where PYTHONDONTWRITEBYTECODE is set, as in many images of containers.
    """
    import compileall  # late: --help does without

    compileall.compile_dir(Path(blocklinear.__file__).parent, quiet=2)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from tqdm import tqdm

    from blocklinear.cli import ahead, overloads
    from blocklinear.cli.compiling import cache_folder
    from blocklinear.errors import MemoryBudgetError, StorageError

    started = time.perf_counter()
    write_bytecode()
    missing = overloads.not_kept(overloads.listed()) if ahead.compiles() else []
    if not missing:
        print("all is compiled")
        return 0
    if cache_folder() is None:
        raise StorageError(
            "compiled code cannot be kept: no folder for it can be written",
            "set NUMBA_CACHE_DIR to a folder that only you can write to",
        )
    if not args.quiet:
        print(
            f"compiling {counted(len(missing), 'kernel')} for this processor, so that no later "
            "command has to",
            file=sys.stderr,
        )
    bar = tqdm(total=len(missing), disable=args.quiet, unit=" kernels", leave=False)
    with bar:
        well = ahead.compile_in_processes(missing, bar.update)
    if not well:
        raise MemoryBudgetError(
            "a process that compiled kernels did not come to its end",
            "give the container 1 GB for this command",
        )
    print(f"compiled {counted(len(missing), 'kernel')} in {time.perf_counter() - started:.1f} s")
    return 0
