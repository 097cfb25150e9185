"""A rehearsal on a few rows, so that compiling takes no memory beside the work.

What a run needs takes Numba 100 MB and more to compile, the first time on a machine. A budget of
memory has no room for that, so a command first goes through its motions on a few rows, in a process
of its own; the compiled kernels stay in Numba's cache.
"""

import contextlib
import ctypes
import gc
import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blocklinear.cli.compiling import cache_folder, say_that_it_compiles

if TYPE_CHECKING:
    from blocklinear.options import TrainOptions
    from blocklinear.store.manifest import Manifest

_LABELS = {"one": (-1, 1), "many": (1, 2, 3), "crammer-singer": (1, 2, 3)}
_ODD_LINES = (
    "1 1:1 2:0.25 3:-3e-7 # a comment",
    "2 1:1 3:0.1234567890123456789 70000:12345.678",
    "3 1:2 2:1e17",
)
_DUAL_SOLVERS = (3, 1, 7)
_LITTLE: Any = {"memory_bytes": 160 << 20, "threads": 1}


def rehearse(part: str, dtype: str, quiet: bool) -> None:
    """Compile what a part of the program needs, unless that was done before on this machine.

    Parameters
    ----------
    part : {"split", "one", "pegasos", "many", "crammer-singer"}
        Splitting, or training one model, by Pegasos, several at once, or all classes together.
    dtype : str
        Of the values in the store.
    quiet : bool
        Whether to keep silent about it.
    """
    folder = cache_folder()
    if folder is None or os.environ.get("NUMBA_DISABLE_JIT", "0") != "0":
        return
    done = folder / f"rehearsed-{part}-{dtype}-{_state_of_the_sources()}"
    if done.exists():
        return
    if not quiet:
        say_that_it_compiles()
    command = [sys.executable, "-P", "-m", __name__, part, dtype]
    result = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, check=False,
        env=os.environ | {"MALLOC_ARENA_MAX": "1", "OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip
    if result.returncode == 0:  # otherwise kernels are compiled when they are needed
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            done.touch()


def rehearse_training(
    manifest: "Manifest", options: "TrainOptions", quiet: bool, several: bool = False
) -> None:
    """Compile what training a store needs.

    Parameters
    ----------
    manifest : Manifest
    options : TrainOptions
    quiet : bool
    several : bool
        Whether more than one model is trained, whatever the classes.
    """
    if options.solver == 4:
        part = "crammer-singer"
    elif several or (options.solver <= 7 and len(manifest.labels or ()) > 2):
        part = "many"
    else:
        part = "pegasos" if options.method == "pegasos" else "one"
    rehearse("split", manifest.dtype, quiet)  # the rows of the rehearsal are split, too
    rehearse(part, manifest.dtype, quiet)


def _state_of_the_sources() -> str:
    """Tell by size and time of change, as Numba does, whether kernels must be compiled again."""
    folder = Path(__file__).parents[1]
    files = sorted(path for part in ("kernels", "text") for path in (folder / part).glob("*.py"))
    numba = importlib.util.find_spec("numba")
    files += [Path(numba.origin)] if numba and numba.origin else []
    stats = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    return sha256(repr((sys.version, stats)).encode()).hexdigest()[:16]


def _text(labels: tuple[int, ...]) -> str:
    rows = (
        f"{label} 1:{k} 2:0.5 {3 + k}:{k / 3:.6g} 40:{k / 700:.6g}"
        for k, label in enumerate(labels * 8, 1)
    )
    return "\n".join(rows) + "\n"


def _split(folder: Path, dtype: str) -> None:
    from blocklinear.options import SplitOptions, TextOptions
    from blocklinear.store.split import split

    plain, odd = folder / "plain.svm", folder / "odd.svm"
    plain.write_text(_text((1, 2)))
    odd.write_text("\n".join(_ODD_LINES) + "\n3 3:1 1:2 1:7\n")
    for k, (normalize, hash_bits, order) in enumerate(
        product(("none", "l2"), (0, 4), ("random", "file"))
    ):
        text = TextOptions(hash_bits=hash_bits, unsorted="sort", duplicates="sum", **_LITTLE)
        options = SplitOptions(text=text, dtype=dtype, normalize=normalize, order=order, blocks=2)
        store = split([plain, odd], folder / f"store{k}", options)
        store.verify()
    split([plain], folder / "store", SplitOptions(text=TextOptions(**_LITTLE), dtype=dtype))


def _train(folder: Path, dtype: str, part: str) -> None:
    from blocklinear.options import SplitOptions, TextOptions, TrainOptions
    from blocklinear.store.split import split
    from blocklinear.training import loop
    from blocklinear.training.crossval import cross_validate

    loop.NEWTON_AFTER = 2
    source = folder / "rows.svm"
    source.write_text(_text(_LABELS.get(part, (1, 2))))
    few = SplitOptions(text=TextOptions(**_LITTLE), dtype=dtype, blocks=2)
    store = split([source], folder / "store", few)
    for group in (1, 2):
        steps: Any = {"group": group, "max_outer": 4, "gap": 1e-12, "bias": 1.0, **_LITTLE}
        if part == "one":
            odd = split([source], folder / f"odd{group}", replace(few, normalize="l2"))
            loop.train(odd, TrainOptions(**steps))  # leaves rows that are no short decimals
            for solver, selection in product(_DUAL_SOLVERS, ("active", "avsf", "online")):
                loop.train(store, TrainOptions(solver=solver, selection=selection, **steps))
            loop.train(store, TrainOptions(average=True, group=group, **_LITTLE))
        elif part == "pegasos":
            for batch in (1, 3):
                loop.train(store, TrainOptions(method="pegasos", pegasos_batch=batch, **steps))
        else:
            solver = 4 if part == "crammer-singer" else 3
            loop.train(store, TrainOptions(solver=solver, **steps))
        if part == "many":
            cross_validate(store, TrainOptions(**steps), n_folds=2, costs=(0.1, 1.0))


@contextlib.contextmanager
def _compiling_in_little_memory() -> Iterator[None]:
    """Give back what compiling a kernel took before the next one is compiled."""
    from numba.core import event

    class GiveBack(event.Listener):
        depth = 0  # what a kernel calls is compiled while the kernel is

        def on_start(self, event: object) -> None:
            self.depth += 1

        def on_end(self, event: object) -> None:
            self.depth -= 1
            if not self.depth:
                gc.collect()
                with contextlib.suppress(AttributeError):  # not the GNU library
                    ctypes.CDLL(None).malloc_trim(0)

    listener = GiveBack()
    event.register("numba:compile", listener)  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        event.unregister("numba:compile", listener)  # type: ignore[no-untyped-call]


def main(part: str, dtype: str) -> None:
    """Go through the motions of a part of the program; this is the process of its own."""
    with tempfile.TemporaryDirectory() as name, _compiling_in_little_memory():
        if part == "split":
            _split(Path(name), dtype)
        else:
            _train(Path(name), dtype, part)


if __name__ == "__main__":
    main(*sys.argv[1:])
