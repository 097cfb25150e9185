"""Kernels are compiled ahead, in a process of its own."""

import json
import sys
from types import SimpleNamespace

import programs
import pytest

from blocklinear import SplitOptions, TrainOptions, split
from blocklinear.cli import rehearsal

WORK = {
    "split": """
split(["rows"], "a", SplitOptions(dtype=dtype, blocks=3))
split(["rows"], "b", SplitOptions(dtype=dtype, normalize="l2", text=TextOptions(hash_bits=3)))
""",
    "one": """
for solver in (1, 3, 7, 12, 13):
    for selection in ("active", "permute", "shrink", "avsf"):
        for group in (1, 3):
            options = TrainOptions(solver=solver, selection=selection, epochs=2, group=group)
            train(store, options)
train(split(["rows"], "b", SplitOptions(dtype=dtype, normalize="l2")), TrainOptions(group=1))
train(store, TrainOptions(solver=3, average=True))
loop.NEWTON_AFTER = 1
train(store, TrainOptions(solver=1, gap=1e-9))
""",
}
PROGRAM = """
import json, os, sys
from numba.core.dispatcher import Dispatcher
from blocklinear import SplitOptions, TextOptions, TrainOptions, split
from blocklinear.cli import rehearsal
from blocklinear.training import loop
from blocklinear.training.loop import train

def called():
    found = set()
    for name, module in list(sys.modules.items()):
        if name.startswith("blocklinear."):
            for f in vars(module).values():
                if isinstance(f, Dispatcher) and f.__name__[0] != "_":  # kernels call the others
                    found |= {f"{f.__module__}.{f.__name__}{types}" for types in f.overloads}
    return sorted(found)

dtype, *pieces = sys.argv[1:]
for work in pieces:
    process = os.fork()  # each starts with what is imported, and no kernel loaded
    if not process:
        exec(work)
        print(json.dumps(called()), flush=True)
        os._exit(0)
    assert os.waitpid(process, 0)[1] == 0
"""
OPEN = """
from blocklinear import BlockStore
store = BlockStore.open("store")
"""


def kernels(folder, dtype, *pieces):
    """Return the kernels, with the types of their arguments, that each piece of work calls."""
    done = programs.run([sys.executable, "-c", PROGRAM, dtype, *pieces], cwd=folder)
    assert done.returncode == 0, done.stderr
    return [set(json.loads(line)) for line in done.stdout.splitlines()]


@pytest.mark.parametrize(("part", "dtype"), [("one", "float64"), ("split", "float32")])
def test_a_rehearsal_calls_what_the_work_calls(tmp_path, part, dtype):
    """What the commands do, test_overloads.py has; here are options that few give."""
    lines = (f"{y} 1:0.{k} {2 + k % 5}:{k * y}" for k in range(1, 12) for y in (1, -1))
    (tmp_path / "rows").write_text("\n".join(lines) + "\n")
    if part != "split":
        split([tmp_path / "rows"], tmp_path / "store", SplitOptions(dtype=dtype, blocks=3))
    work = (OPEN if part != "split" else "") + WORK[part]
    motions = "".join(f"rehearsal.main({name!r}, dtype)\n" for name in {"split", part})
    called, rehearsed = kernels(tmp_path, dtype, work, motions)
    assert len(called) > 5
    assert sorted(called - rehearsed) == []


@pytest.fixture
def processes(monkeypatch, tmp_path):
    """Have compiled code kept in a folder; list the rehearsals, of which the first one fails."""
    begun = []

    def begin(command, **how):
        begun.append(command[-2:])
        return SimpleNamespace(returncode=len(begun) == 1, stdout=b"{}")

    monkeypatch.setattr(rehearsal, "cache_folder", lambda: tmp_path / "cache")
    monkeypatch.setattr(rehearsal.subprocess, "run", begin)
    monkeypatch.delenv("NUMBA_DISABLE_JIT", raising=False)
    return begun


def test_it_is_done_once(processes):
    for _ in range(3):
        rehearsal.rehearse("split", "float32", quiet=True)
    assert processes == [["split", "float32"]] * 2


@pytest.mark.parametrize(
    ("options", "several", "labels", "part"),
    [
        ({}, False, {1.0: 5, 2.0: 5}, "one"),
        ({}, False, {1.0: 5, 2.0: 5, 3.0: 5}, "many"),
        ({}, True, {1.0: 5, 2.0: 5}, "many"),
        ({"solver": 13}, False, {1.0: 5, 2.0: 5, 3.0: 5}, "one"),
        ({"solver": 13}, False, None, "one"),
        ({"solver": 4}, False, {1.0: 5, 2.0: 5}, "crammer-singer"),
        ({"method": "pegasos"}, False, {1.0: 5, 2.0: 5}, "pegasos"),
    ],
)
def test_what_is_rehearsed(processes, options, several, labels, part):
    manifest = SimpleNamespace(dtype="float64", labels=labels)
    rehearsal.load_for_training(manifest, TrainOptions(**options), True, several)
    assert processes == [["split", "float64"], [part, "float64"]]


def test_not_without_compilation(processes, monkeypatch):
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    rehearsal.rehearse("split", "float64", quiet=True)
    monkeypatch.delenv("NUMBA_DISABLE_JIT")
    monkeypatch.setattr(rehearsal, "cache_folder", lambda: None)
    rehearsal.rehearse("split", "float64", quiet=True)
    assert not processes
