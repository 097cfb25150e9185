"""A rehearsal on a few rows, so that kernels take no memory beside the work.

What a run needs takes Numba 100 MB and more to compile, the first time on a machine. A budget of
memory has no room for that, so a command first goes through its motions on a few rows, in a process
of its own; the compiled kernels stay in Numba's cache.

To load them from there touches 50 MB of LLVM's code. In a container whose memory the data have
filled by then, these pages are read from disk again and again, for many seconds. So the rehearsal
also records which kernels each of its steps called, and a command loads those before its work.
"""

import contextlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator
from dataclasses import replace
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blocklinear.cli import overloads
from blocklinear.cli.compiling import cache_folder, say_that_it_compiles

if TYPE_CHECKING:
    from blocklinear.options import TrainOptions
    from blocklinear.store.manifest import Manifest

_LABELS = {"one": (-1, 1), "many": (1, 2, 3), "crammer-singer": (1, 2, 3)}
_ODD_ROWS = (
    "1:1 2:0.25 3:-3e-7 # a comment",
    "1:1 3:0.1234567890123456789 70000:12345.678",
    "1:2 2:1e17",
)
_DUAL_SOLVERS = (3, 1, 7)
_LITTLE: Any = {"memory_bytes": 160 << 20, "threads": 1}


def rehearse(part: str, dtype: str, quiet: bool) -> dict[str, overloads.Recorded]:
    """Compile what a part of the program needs, unless that was done before on this machine.

    Parameters
    ----------
    part : {"split", "one", "pegasos", "many", "crammer-singer"}
        Splitting, or training one model, by Pegasos, several at once, or all classes together.
    dtype : str
        Of the values in the store.
    quiet : bool
        Whether to keep silent about it.

    Returns
    -------
    dict
        The kernels that each step of it calls, those of the steps before left out; empty if they
        cannot be compiled ahead. The steps are "work" and, of training, "evaluate", "warm" and
        "text", to write a large model for LIBLINEAR.
    """
    folder = cache_folder()
    if folder is None or os.environ.get("NUMBA_DISABLE_JIT", "0") != "0":
        return {}
    record = folder / f"rehearsed-{part}-{dtype}-{_state_of_the_sources()}.json"
    with contextlib.suppress(OSError, ValueError):
        return dict(json.loads(record.read_bytes()))
    if not quiet:
        say_that_it_compiles()
    command = [sys.executable, "-P", "-m", __name__, part, dtype]
    result = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, check=False,
        env=os.environ | {"MALLOC_ARENA_MAX": "1", "OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip
    if result.returncode != 0:  # kernels are compiled when they are needed
        return {}
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = record.with_suffix(f".{os.getpid()}")
        unfinished.write_bytes(result.stdout)
        unfinished.replace(record)
    return dict(json.loads(result.stdout))


def load_for_splitting(dtype: str, quiet: bool) -> None:
    """Load the kernels that writing blocks of text needs; compile them before, the first time."""
    overloads.load(rehearse("split", dtype, quiet).get("work", []))


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
    manifest : Manifest
    options : TrainOptions
    quiet : bool
    several : bool
        Whether more than one model is trained, whatever the classes.
    others : collection of str
        Steps that are taken whatever the options: "evaluate", "text".
    """
    if options.solver == 4:
        part = "crammer-singer"
    elif several or (options.solver <= 7 and len(manifest.labels or ()) > 2):
        part = "many"
    else:
        part = "pegasos" if options.method == "pegasos" else "one"
    rehearse("split", manifest.dtype, quiet)  # the rows of the rehearsal are split, too
    steps = rehearse(part, manifest.dtype, quiet)
    taken = {"work", *others}
    taken |= {"evaluate"} if options.evaluate is not None else set()
    taken |= {"warm"} if options.warm_start else set()
    for step, kernels in steps.items():
        if step in taken:
            overloads.load(kernels)


def _state_of_the_sources() -> str:
    """Tell by size and time of change, as Numba does, whether other kernels may be called."""
    files = sorted(Path(__file__).parents[1].rglob("*.py"))
    numba = importlib.util.find_spec("numba")
    files += [Path(numba.origin)] if numba and numba.origin else []
    stats = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    return sha256(repr((sys.version, stats)).encode()).hexdigest()[:16]


def _text(labels: tuple[int, ...], odd: bool = False) -> str:
    """Return rows whose values have many exponents, or odd ones beside them."""
    rows = (
        f"{label} 1:{k} 2:0.5 {3 + k}:{k / 3:.6g} 40:{k / 700:.6g} 41:1e-9 42:1e-8 43:1e-7"
        for k, label in enumerate(labels * 8, 1)
    )
    others = (f"{label} {row}" for label, row in product(labels, _ODD_ROWS if odd else ()))
    return "\n".join((*rows, *others)) + "\n"


def _split(folder: Path, dtype: str) -> None:
    from blocklinear.options import SplitOptions, TextOptions
    from blocklinear.store.split import split

    plain, odd = folder / "plain.svm", folder / "odd.svm"
    plain.write_text(_text((1, 2)))
    odd.write_text(_text((3,), odd=True) + "3 3:1 1:2 1:7\n")
    for k, (normalize, hash_bits, order) in enumerate(
        product(("none", "l2"), (0, 4), ("random", "file"))
    ):
        text = TextOptions(hash_bits=hash_bits, unsorted="sort", duplicates="sum", **_LITTLE)
        options = SplitOptions(text=text, dtype=dtype, normalize=normalize, order=order, blocks=2)
        store = split([plain, odd], folder / f"store{k}", options)
        store.verify()
    split([plain], folder / "store", SplitOptions(text=TextOptions(**_LITTLE), dtype=dtype))


def _make_stores(folder: Path, dtype: str, part: str) -> None:
    """Split the rows of a rehearsal of training: into `store`, `odd`, and `scaled`."""
    from blocklinear.options import AddOptions, SplitOptions, TextOptions
    from blocklinear.store.adding import add
    from blocklinear.store.split import split

    source, odd, labels = folder / "rows.svm", folder / "odd.svm", _LABELS.get(part, (1, 2))
    source.write_text(_text(labels))
    odd.write_text(_text(labels, odd=True))
    few = SplitOptions(text=TextOptions(**_LITTLE), dtype=dtype, blocks=2)
    split([odd], folder / "odd", few)
    split([source], folder / "scaled", replace(few, normalize="l2"))
    again = AddOptions(text=TextOptions(index_base="auto", **_LITTLE), allow_duplicate=True)
    add(split([source], folder / "store", few), [source], again)


def _train(folder: Path, dtype: str, part: str) -> Iterator[str]:
    """Train as a part of the program does; yield the name of each step when it is done."""
    import multiprocessing

    from blocklinear.model import liblinear
    from blocklinear.options import TrainOptions
    from blocklinear.selection.cross_validation import cross_validate
    from blocklinear.store.changes import remove
    from blocklinear.store.store import BlockStore
    from blocklinear.training import loop

    # a process of its own splits: the kernels that only that needs are not loaded for training
    splitting = multiprocessing.get_context("fork").Process(
        target=_make_stores, args=(folder, dtype, part)
    )
    splitting.start()
    splitting.join()
    loop.NEWTON_AFTER = 2
    store, *others = (BlockStore.open(folder / name) for name in ("store", "odd", "scaled"))
    common: Any = {"max_outer": 4, "gap": 1e-12, "bias": 1.0, **_LITTLE}
    common |= {"solver": 4} if part == "crammer-singer" else {}
    common |= {"method": "pegasos"} if part == "pegasos" else {}
    for group in (1, 2, 3):
        steps = common | {"group": group}
        if part == "one":
            for rows, solver in product((store, *others), _DUAL_SOLVERS):  # left to a warm start
                loop.train(rows, TrainOptions(solver=solver, **steps))
            for selection in ("avsf", "online"):
                loop.train(store, TrainOptions(selection=selection, epochs=2, **steps))
            loop.train(store, TrainOptions(average=True, group=group, **_LITTLE))
        elif part == "pegasos":
            loop.train(store, TrainOptions(pegasos_batch=3, **steps))
        loop.train(store, TrainOptions(**steps))
        if part == "many":
            cross_validate(store, TrainOptions(**steps), n_folds=2, costs=(0.1, 1.0))
    yield "work"
    loop.train(store, TrainOptions(evaluate=str(folder / "rows.svm"), **common))
    yield "evaluate"
    loop.train(store, TrainOptions(group=1, **common))
    store = remove(store, blocks=[store.manifest.blocks[0].name])
    model = loop.train(store, TrainOptions(warm_start=True, group=1, **common))
    yield "warm"
    liblinear.LARGE = 0
    model.save(folder / "model", format="liblinear")
    yield "text"


def main(part: str, dtype: str) -> dict[str, overloads.Recorded]:
    """Go through the motions of a part of the program; return what each step calls."""
    recorder = overloads.Recorder()
    with tempfile.TemporaryDirectory() as name, recorder.recording():
        if part == "split":
            _split(Path(name), dtype)
            return {"work": recorder.take()}
        return {step: recorder.take() for step in _train(Path(name), dtype, part)}


if __name__ == "__main__":  # the process of its own
    print(json.dumps(main(*sys.argv[1:])))
