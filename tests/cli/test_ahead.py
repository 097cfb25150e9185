"""Kernels are compiled ahead, in processes of their own."""

import json
import shutil
import sys
from types import SimpleNamespace

import programs
import pytest

from blocklinear import SplitOptions, TextOptions, TrainOptions, split
from blocklinear.cli import ahead, overloads
from blocklinear.errors import MemoryBudgetError
from blocklinear.kernels.code import kept

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
Stopping.remaining = lambda self, report, took: 1e9
Stopping.too_many = lambda self, report, remaining, took, instead: True
train(store, TrainOptions(solver=1, gap=1e-9))
""",
}
PROGRAM = """
import json, os, sys
from blocklinear import SplitOptions, TextOptions, TrainOptions, split
from blocklinear.cli import overloads
from blocklinear.kernels.jit import Kernel
from blocklinear.training.stopping import Stopping
from blocklinear.training.loop import train

def called():
    found = set()
    for name, module in list(sys.modules.items()):
        if name.startswith("blocklinear."):
            for f in vars(module).values():
                if isinstance(f, Kernel):
                    found |= {overloads.describe(f, signature) for signature in f.overloads}
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
def test_what_the_work_calls_is_listed(tmp_path, part, dtype):
    """What the commands do, test_overloads.py has; here are options that few give."""
    lines = (f"{y} 1:0.{k} {2 + k % 5}:{y}" for k in range(1, 12) for y in (1, -1))
    (tmp_path / "rows").write_text("\n".join(lines) + "\n")
    if part != "split":
        split([tmp_path / "rows"], tmp_path / "store", SplitOptions(dtype=dtype, blocks=3))
    (called,) = kernels(tmp_path, dtype, (OPEN if part != "split" else "") + WORK[part])
    assert len(called) > 5
    assert (
        sorted(called - {*overloads.listed({part, f"{part}.newton", "split", "reshape"}, dtype)})
        == []
    )


@pytest.fixture
def loads(monkeypatch, tmp_path):
    """List the parts that are loaded, and their type of values."""
    found = []
    monkeypatch.setattr(ahead, "cache_folder", lambda: tmp_path / "cache")
    monkeypatch.setattr(overloads, "listed", lambda *asked: found.append(asked) or [])
    monkeypatch.delenv("NUMBA_DISABLE_JIT", raising=False)
    return found


@pytest.mark.parametrize(
    ("options", "several", "labels", "parts"),
    [
        ({}, False, {1.0: 5, 2.0: 5}, {"one"}),
        ({}, False, {1.0: 5, 2.0: 5, 3.0: 5}, {"many"}),
        ({}, True, {1.0: 5, 2.0: 5}, {"many"}),
        ({"solver": 13}, False, {1.0: 5, 2.0: 5, 3.0: 5}, {"one"}),
        ({"solver": 13}, False, None, {"one"}),
        ({"solver": 4}, False, {1.0: 5, 2.0: 5}, {"crammer-singer"}),
        ({"method": "pegasos"}, False, {1.0: 5, 2.0: 5}, {"pegasos"}),
        ({"warm_start": True}, False, {1.0: 5, 2.0: 5}, {"one", "one.warm"}),
        ({"evaluate": "x"}, True, {1.0: 5, 2.0: 5}, {"many", "many.evaluate"}),
    ],
)
def test_what_training_loads(loads, options, several, labels, parts):
    manifest = SimpleNamespace(dtype="float64", labels=labels)
    ahead.load_for_training(manifest, TrainOptions(**options), True, several)
    assert loads == [(parts, "float64")]


def test_what_splitting_loads(loads):
    for text in (TextOptions(), TextOptions(hash_bits=2), TextOptions(duplicates="sum")):
        ahead.load_for_splitting("float32", True, ahead.reshapes(text))
    assert loads == [(parts, "float32") for parts in ({"split"}, *[{"split", "reshape"}] * 2)]


def test_not_without_compilation(loads, monkeypatch):
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    ahead.load_for_splitting("float64", quiet=True)
    assert not loads


SMALL = (
    "kernels.blocks.codec.zigzag(int64[::1]) # split\n"
    "kernels.orders.draws(uint64[::1], int64[::1]) # x\n"
)
PREPARE = """
import sys
from pathlib import Path
from blocklinear.cli import ahead, overloads
overloads.LIST = Path("list")
ahead.load_for_splitting("float64", quiet=False)
print([len(overloads.resolve(overload)[0].overloads) for overload in overloads.listed()])
"""


@pytest.fixture
def cold(tmp_path, monkeypatch):
    """Return a folder with a list of two kernels, and an empty cache."""
    (tmp_path / "list").write_text(SMALL)
    package = tmp_path / "package" / "blocklinear"
    shutil.copytree(kept.PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "cli" / "kernels.txt").write_text(SMALL)
    monkeypatch.setenv("PYTHONPATH", str(package.parent))
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("NUMBA_DISABLE_JIT", raising=False)
    return tmp_path


def test_what_is_missing_is_compiled_in_other_processes(cold):
    for _ in range(2):
        done = programs.run([sys.executable, "-P", "-c", PREPARE], cwd=cold)
        assert (done.returncode, done.stderr, done.stdout) == (0, "", "[1, 0]\n")
    assert len([*cold.glob("cache/*/blocks.codec.zigzag*")]) == 1


def test_warmup(cold):
    first, second = (programs.blocklinear("warmup", cwd=cold) for _ in range(2))
    assert (first.returncode, second.returncode) == (0, 0)
    assert first.stderr.startswith("compiling 2 kernels for this processor, so that no later ")
    assert first.stdout.startswith("compiled 2 kernels in ")
    assert (second.stdout, second.stderr) == ("all is compiled\n", "")
    assert {path.name.split("-")[0] for path in cold.glob("cache/*/*")} == {
        "blocks.codec.zigzag", "orders.draws",
    }  # fmt: skip
    assert programs.blocklinear("warmup", "--quiet", cwd=cold).stderr == ""


def test_warmup_writes_bytecode_where_python_does_not(cold, monkeypatch):
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    assert programs.blocklinear("warmup", "--quiet", cwd=cold).returncode == 0
    package = cold / "package" / "blocklinear"
    modules = {path.relative_to(package).with_suffix("") for path in package.rglob("*.py")}
    kept = [path.relative_to(package) for path in package.rglob("*.pyc")]
    assert modules == {path.parents[1] / path.name.split(".")[0] for path in kept}


def test_warmup_whose_processes_end_early(cold):
    wrong = "kernels.blocks.codec.zigzag(float64) # x\n"
    (cold / "package/blocklinear/cli/kernels.txt").write_text(wrong)
    done = programs.blocklinear("warmup", "--quiet", cwd=cold)
    assert done.returncode == 7
    assert "fix: give the container 1 GB" in done.stderr


@pytest.mark.parametrize("end", ["kill", "other"])
def test_where_a_process_that_compiles_is_killed_nothing_else_compiles(monkeypatch, end):
    """This process would be killed, too; and it compiles where others ended in another way."""
    program = "import os; os.kill(os.getpid(), 9)" if end == "kill" else "raise SystemExit(1)"
    monkeypatch.setattr(ahead, "_COMMAND", [sys.executable, "-c", program])
    if end == "other":
        assert not ahead.compile_in_processes(overloads.listed()[:1])
        return
    with pytest.raises(MemoryBudgetError, match=r"was killed.*\n.*`blocklinear warmup` first"):
        ahead.compile_in_processes(overloads.listed()[:1])
