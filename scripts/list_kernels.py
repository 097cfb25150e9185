#!/usr/bin/env python
"""Writes ``blocklinear/cli/kernels.txt``: the kernels that commands call, with which types.

Run it when the arguments of a kernel, or the kernels that a command calls, have changed:
`tests/cli/test_overloads.py` fails then.
Every part of the program goes through its motions on a few rows, in a process of its own.
"""

import contextlib
import gc
import json
import math
import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from blocklinear.cli import overloads

PARTS = (
    "split", "transpose", "one", "pegasos", "many", "crammer-singer", "newton", "newton-many", "l1",
    "one-class",
)  # fmt: skip
DTYPES = ("float64", "float32")
_LABELS = {"one": (-1, 1), "newton": (-1, 1), "l1": (-1, 1), "pegasos": (1, 2)}
"""Of the rows that a part of training is rehearsed with, where they are not 1, 2 and 3."""
_ODD_ROWS = (
    "1:1 2:0.25 3:-3e-7 # a comment",
    "1:1 3:0.1234567890123456789 70000:12345.678",
    "1:2 2:1e17",
)
_DUAL_SOLVERS = (3, 1, 7)
_LITTLE: Any = {"memory_bytes": 256 << 20, "threads": 1}


class Recorder:
    """Records the overloads that Python calls."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def take(self) -> list[str]:
        """Return what was added since this was called before."""
        from blocklinear.kernels.jit import Kernel

        found = {
            overloads.describe(kernel, signature)
            for kernel in [found for found in gc.get_objects() if isinstance(found, Kernel)]
            for signature in list(kernel.overloads)
        }
        new = sorted(found - self._taken)
        self._taken |= found
        return new


def _text(labels: tuple[int, ...], odd: bool = False) -> str:
    """Return rows whose values have many exponents, or odd ones among them."""
    rows = (
        f"{label} 1:{k} 2:0.5 {3 + k}:{k / 3:.6g} 40:{k / 700:.6g} 41:1e-9 42:1e-8 43:1e-7"
        for k, label in enumerate(labels * 8, 1)
    )
    others = (f"{label} {row}" for label, row in product(labels, _ODD_ROWS if odd else ()))
    return "\n".join((*rows, *others)) + "\n"


def _split(folder: Path, dtype: str) -> Iterator[str]:
    """Split as the program does; yield the name of each step when it is done."""
    import numpy as np

    from blocklinear.ingest.add import add
    from blocklinear.ingest.split import split
    from blocklinear.kernels.blocks import features
    from blocklinear.kernels.text.scan import count_lines
    from blocklinear.options import AddOptions, SplitOptions, TextOptions

    plain, odd, unsorted = folder / "plain.svm", folder / "odd.svm", folder / "unsorted.svm"
    plain.write_text(_text((1, 2)))
    odd.write_text(_text((3,), odd=True))
    long = " ".join(f"{k}:1" for k in range(features.TILE + 1, 0, -1))
    unsorted.write_text(_text((3,), odd=True) + f"3 3:1 1:2 1:7\n3 {long}\n")
    few = SplitOptions(text=TextOptions(**_LITTLE), dtype=dtype, blocks=2)
    count_lines(np.zeros(64, np.uint8), True)  # on clusters
    for k, order in enumerate(("random", "file")):
        store = split([plain, odd], folder / f"store{k}", replace(few, order=order))
        store.verify()
    again = AddOptions(text=TextOptions(index_base="auto", **_LITTLE), allow_duplicate=True)
    add(split([plain], folder / "store", replace(few, blocks=None)), [plain, odd], again)
    yield "split"
    for k, (normalize, hash_bits) in enumerate(product(("none", "l2"), (0, 4))):
        text = TextOptions(hash_bits=hash_bits, unsorted="sort", duplicates="sum", **_LITTLE)
        options = replace(few, text=text, normalize=normalize)
        add(split([plain, unsorted], folder / f"reshaped{k}", options), [plain], again)
    yield "reshape"
    for hash_bits, normalize in product((0, 4), ("none", "l2")):
        _split_tables(folder, hash_bits, replace(few, normalize=normalize), again)
    yield "tables"


def _transpose(folder: Path, dtype: str) -> Iterator[str]:
    """Make columns of stores and read them; yield the name of the step."""
    from blocklinear.columns import transpose
    from blocklinear.store.store import BlockStore

    _in_another_process(_make_stores, folder, dtype, "transpose")
    transpose.CHUNK_ENTRIES, transpose.MOST_PASSES = 10, 1
    for room in (1 << 30, 0):  # at once, and in buckets
        transpose._Transposition._require = (  # type: ignore[method-assign]
            lambda self, n_bytes, room=room: n_bytes + room
        )
        for name in ("store", "odd", "scaled"):
            store = BlockStore.open(folder / name)
            transpose.transpose(store, 1 << 30, 1, force=True).verify()
    yield "transpose"


def _split_tables(folder: Path, hash_bits: int, options: Any, again: Any) -> None:
    """Split a table with columns of all kinds, and add it once more."""
    import pyarrow
    import pyarrow.parquet

    from blocklinear.tables.infer import TableOptions
    from blocklinear.tables.split import add_tables, split_tables

    path, store = folder / "table.parquet", folder / "table"
    n = 1000
    columns = {
        "number": [None if k % 7 == 0 else k / 3 for k in range(n)],
        "whole": [k % 5 for k in range(n)],
        "few": [f"value {k % 3}" for k in range(n)],
        "list": [["a" * 300] * (k % 3) for k in range(n)],
        "y": [k % 2 for k in range(n)],
        "half": [k / 2 for k in range(n)],
    }
    many = pyarrow.array([f"{k * k:030}" for k in range(n)])
    table = pyarrow.table(columns).append_column("many", many)
    pyarrow.parquet.write_table(table, path, use_dictionary=["few", "list.list.element"])
    crosses = (("few", "many"), ("many", "number")) if hash_bits else ()
    for standardize, label in ((False, "half"), (True, "y")):
        how = TableOptions(
            label, hash_bits=hash_bits, interactions=crosses, standardize=standardize
        )
        split_tables([str(path)], store, how, replace(options, force=True))
    add_tables(store, [str(path)], again)


def _in_another_process(do: Callable[..., None], *arguments: object) -> None:
    """Do something where the kernels that only it needs are not loaded for what follows."""
    process = multiprocessing.get_context("fork").Process(target=do, args=arguments)
    process.start()
    process.join()


def _make_stores(folder: Path, dtype: str, part: str) -> None:
    """Split the rows of a rehearsal of training: into `store`, `odd`, and `scaled`."""
    from blocklinear.ingest.add import add
    from blocklinear.ingest.split import split
    from blocklinear.options import AddOptions, SplitOptions, TextOptions

    source, odd, labels = (
        folder / "rows.svm",
        folder / "odd.svm",
        _LABELS.get(part, (1, 2) if part == "pegasos" else (1, 2, 3)),
    )
    source.write_text(_text(labels))
    odd.write_text(_text(labels, odd=True))
    few = SplitOptions(text=TextOptions(**_LITTLE), dtype=dtype, blocks=2)
    split([odd], folder / "odd", few)
    split([source], folder / "scaled", replace(few, normalize="l2"))
    again = AddOptions(text=TextOptions(index_base="auto", **_LITTLE), allow_duplicate=True)
    add(split([source], folder / "store", few), [source], again)


@contextlib.contextmanager
def _without_newton() -> Iterator[None]:
    """Let Newton's method not take over until the end of the block, however slow descent is."""
    from blocklinear.training.run import Run

    may_switch = Run.may_switch
    Run.may_switch = property(lambda self: False)  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        Run.may_switch = may_switch  # type: ignore[method-assign]


def _shorten_steps() -> None:
    """Let descent on columns go on as if it had been cut short, whatever its steps were."""
    from blocklinear.solvers.l1.descent import Descent

    always = property(lambda self: True, lambda self, value: None)
    Descent.shortened = always  # type: ignore[assignment]


def _hurry_to_newton() -> None:
    """Let Newton's method take over after two outer iterations, whatever their rate."""
    from blocklinear.training.stopping import Stopping

    Stopping.remaining = lambda self, *about: math.inf  # type: ignore[method-assign]
    Stopping.too_many = (  # type: ignore[method-assign]
        lambda self, report, *about: report.outer >= 2
    )


def _train(folder: Path, dtype: str, part: str) -> Iterator[str]:
    """Train as a part of the program does; yield the name of each step when it is done."""
    import numpy as np

    from blocklinear.kernels.blocks.scaling import scale_columns
    from blocklinear.model import liblinear
    from blocklinear.options import TrainOptions
    from blocklinear.selection.cross_validation import cross_validate
    from blocklinear.solvers.l1 import descent
    from blocklinear.store.changes import remove
    from blocklinear.store.store import BlockStore
    from blocklinear.training import loop

    _in_another_process(_make_stores, folder, dtype, part)
    store, *others = (BlockStore.open(folder / name) for name in ("store", "odd", "scaled"))
    common: Any = {"max_outer": 4, "gap": 1e-12, "bias": 1.0, **_LITTLE}
    common |= {"solver": 4} if part == "crammer-singer" else {}
    common |= {"method": "pegasos"} if part == "pegasos" else {}
    common |= {"solver": 0, "max_outer": 12} if part.startswith("newton") else {}
    common |= {"solver": 6} if part == "l1" else {}
    common |= {"solver": 21, "bias": -1.0} if part == "one-class" else {}
    least = 2 if part == "one-class" else 1  # blocks in a group
    if part == "one":  # of several parts: all else is called on one machine, too
        no_rows, ones = np.zeros(1, np.int64), np.ones(1)
        nothing = np.zeros(0, np.uint32), np.zeros(0, dtype)
        scale_columns(no_rows, *nothing, ones, np.zeros(0))
        yield "cluster"
    for group in (least, 2, 3):
        steps = common | {"group": group}
        if part == "one":
            for rows, solver in product((store, *others), _DUAL_SOLVERS):  # left to a warm start
                with _without_newton():
                    loop.train(rows, TrainOptions(solver=solver, **steps))
            for selection in ("avsf", "online"):
                loop.train(store, TrainOptions(selection=selection, epochs=2, **steps))
            loop.train(store, TrainOptions(average=True, group=group, **_LITTLE))
        elif part == "pegasos":
            loop.train(store, TrainOptions(pegasos_batch=3, **steps))
        elif part == "l1":  # with columns in single precision, and in double
            _shorten_steps()
            for gap, outer in product((1e-3, 1e-6), (2, 20)):
                more = {"cost": 10.0, "gap": gap, "max_outer": outer, "resume": outer > 2}
                loop.train(store, TrainOptions(**(steps | more)))
            far = {"solver": 5, "cost": 1e4, "max_outer": 20}  # some steps are cut short
            loop.train(store, TrainOptions(**(steps | far)))
            descent._STEPS_INSIDE = 0  # by the interior point method at once
            for rows, gap in product((store, *others), (1e-3, 1e-12)):
                loop.train(rows, TrainOptions(**(steps | far | {"gap": gap})))
        loop.train(store, TrainOptions(**steps))
        if part in ("many", "newton-many", "l1"):
            cross_validate(store, TrainOptions(**steps), n_folds=2, costs=(0.1, 1.0))
    if part == "many":  # some of which reach what is asked for before others
        steps = common | {"gap": 1e-2, "max_outer": 50, "group": 1}
        cross_validate(store, TrainOptions(**steps), n_folds=2, costs=(1e-3, 100.0))
    yield part
    if part in ("one", "many"):
        _hurry_to_newton()
        for rows in (store, *others) if part == "one" else (store,):
            loop.train(rows, TrainOptions(**(common | {"solver": 1, "max_outer": 12, "group": 1})))
        yield f"{part}.newton"
    if part != "one-class":
        loop.train(store, TrainOptions(evaluate=str(folder / "rows.svm"), **common))
        yield f"{part}.evaluate"
    loop.train(store, TrainOptions(group=least, **common))
    store = remove(store, blocks=[store.manifest.blocks[0].name])
    model = loop.train(store, TrainOptions(warm_start=True, group=least, **common))
    yield f"{part}.warm"
    liblinear.LARGE = 0
    model.save(folder / "model", format="liblinear")
    yield f"{part}.text"


def rehearse(part: str, dtype: str) -> dict[str, list[str]]:
    """Go through the motions of a part of the program; return what each step calls."""
    recorder = Recorder()
    with tempfile.TemporaryDirectory() as name:
        others = {"split": _split, "transpose": _transpose}
        if part in others:
            steps = others[part](Path(name), dtype)
        else:
            steps = _train(Path(name), dtype, part)
        return {step: recorder.take() for step in steps}


def _rehearsed(part: str, dtype: str) -> dict[str, list[str]]:
    """Rehearse a part of the program in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, part, dtype], check=True, stdout=subprocess.PIPE,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


def main() -> None:
    """Rehearse all parts for all types of values, and write the list."""
    users: dict[str, list[str]] = {}
    for part, dtype in product(PARTS, DTYPES):
        for step, found in _rehearsed(part, dtype).items():
            for overload in found:
                users.setdefault(overload, []).append(f"{step}:{dtype}")
    lines = []
    for overload, found in sorted(users.items()):
        steps = dict.fromkeys(user.partition(":")[0] for user in found)
        names = [
            name
            for step in steps
            for name in (
                [step]
                if all(f"{step}:{dtype}" in found for dtype in DTYPES)
                else [user for user in found if user.startswith(f"{step}:")]
            )
        ]
        lines.append(f"{overload} # {' '.join(names)}\n")
    overloads.LIST.write_text("".join(lines))


if __name__ == "__main__":
    if sys.argv[1:]:  # a process of its own
        print(json.dumps(rehearse(*sys.argv[1:])))
    else:
        main()
