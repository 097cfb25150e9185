"""Kernels are loaded before the work: where memory is short by then, loading takes many seconds."""

import ctypes
import json
import mmap
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

from blocklinear.cli import overloads
from blocklinear.kernels.code import signatures

ROOT = Path(__file__).parents[2]
SCRIPT = """
import gc, json, os, sys
import blocklinear.selection.cross_validation, blocklinear.ingest.add
from blocklinear.cli import overloads
from blocklinear.cli.main import main
from blocklinear.model import liblinear

def loaded():
    from blocklinear.kernels.jit import Kernel

    kernels = [found for found in gc.get_objects() if isinstance(found, Kernel)]
    return {overloads.describe(kernel, of) for kernel in kernels for of in kernel.overloads}

def run(command):
    before = set()

    def load(wanted):
        missing = loading(wanted)
        before.update(loaded())
        return missing

    loading, overloads.load = overloads.load, load
    status = main(command)
    answer = [status, bool(before), sorted(loaded() - before), "numba" in sys.modules]
    print(json.dumps(answer), file=answers, flush=True)

answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
liblinear.LARGE = 0
for line in sys.stdin:
    process = os.fork()
    if not process:
        run(json.loads(line))
        os._exit(0)
    os.waitpid(process, 0)
"""
CHUNK = [1.0, 2.5e-3, 1e-9, 0.1234567890123456789, 1e17]


def rows(labels, seed, odd=False):
    rng = np.random.default_rng(seed)
    for _ in range(15):
        for label in labels:
            pairs = [f"{j}:{rng.normal() + label * (j == 3):.6g}" for j in range(1, 6)]
            pairs += [f"{7 + j}:{value!r}" for j, value in enumerate(CHUNK) if odd]
            yield f"{label} " + " ".join(pairs)


@pytest.fixture(scope="module")
def commands(tmp_path_factory):
    """Run commands, one after the other, each in a process that has loaded no kernel yet."""
    folder = tmp_path_factory.mktemp("loaded")
    for name, labels in (("two", (1, -1)), ("three", (1, 2, 3))):
        (folder / name).write_text("\n".join(rows(labels, seed=1)) + "\n")
        (folder / f"{name}.odd").write_text("\n".join(rows(labels, seed=2, odd=True)) + "\n")

    def run(*lines):
        requests = "".join(json.dumps(line.split()) + "\n" for line in lines)
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT], input=requests, cwd=folder, capture_output=True,
            text=True, env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
        )  # fmt: skip
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        assert len(answers) == len(lines), done.stderr
        for line, (status, loads, later, able_to_compile) in zip(lines, answers, strict=True):
            assert (status, loads) == (0, True), (line, done.stderr)
            assert later == [], f"{line}: run scripts/list_kernels.py"
            assert not able_to_compile, f"{line}: imported what only compiling needs"

    return run


def test_of_a_split(commands):
    commands(
        "split two two.odd a --blocks 3 -q",
        "split two.odd b --normalize l2 --hash-bits 3 -q",
        "add a two --allow-duplicate",
    )


def test_of_tables(commands, tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = {
        "few": [f"value {k % 3}" for k in range(50)],
        "many": [str(k * k) for k in range(50)],
        "number": [None if k % 7 == 0 else k / 3 for k in range(50)],
        "words": [["a"] * (k % 3) for k in range(50)],
        "y": [k % 2 for k in range(50)],
    }
    parquet.write_table(pa.table(columns), tmp_path / "t", use_dictionary=["few"])
    commands(
        f"split {tmp_path}/t tables --target y -q --hash-bits 9 --interactions few*many,few*number",
        f"add tables {tmp_path}/t --allow-duplicate -q",
        f"split {tmp_path}/t tables --target y -q --force --standardize --normalize l2",
    )


@pytest.mark.parametrize(
    "flags",
    ["-s 3", "-s 1 -B 1 --selection avsf --epochs 2", "--method pegasos"],
    ids=str,
)
def test_of_one_model(commands, flags):
    commands(
        "split two two.odd s --blocks 3 -q --force",
        f"train s m {flags} --group 1 -q --max-outer 3 --gap 1e-9 --eval two --format liblinear",
        f"train s m {flags} --group 1 -q --max-outer 5 --gap 1e-9 --resume",
        "add s two --allow-duplicate",
        f"train s m {flags} --group 1 -q --max-outer 3 --gap 1e-4 --warm-start",
    )


@pytest.mark.parametrize("flags", ["-s 3", "-s 7 -c 0.1,1 --best-on three", "-s 4"], ids=str)
def test_of_many_models(commands, flags):
    commands(
        "split three t --blocks 3 -q --force",
        f"train t m {flags} --group 1 -q --max-outer 3 --gap 1e-9 --format liblinear",
        f"train t m {flags} --group 1 -q --max-outer 5 --gap 1e-9 --resume",
    )


def test_of_cross_validation(commands):
    commands(
        "split two c --blocks 3 -q",
        "cv c -v 3 -c 0.1,1 --stratify --predictions p --refit m -q",
        "cv c -v 2 --search -s 1 -q",
    )


@pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="not Linux")
def test_llvm_is_set_aside(monkeypatch):
    advised = []

    class Library:
        def __init__(self, name):
            pass

        def madvise(self, start, length, advice):
            advised.append((start.value, length.value, advice))

    monkeypatch.setattr(ctypes, "CDLL", Library)
    overloads.load([])
    with open("/proc/self/maps") as maps:
        lines = [line for line in maps if "libllvmlite" in line and " r-" in line]
    for advice, wanted in ((20, " r-"), (mmap.MADV_DONTNEED, " r-x")):
        ranges = [(start, length) for start, length, given in advised if given == advice]
        assert [f"{start:x}-{start + length:x}" for start, length in ranges] == [
            line.split()[0] for line in lines if wanted in line
        ]
        assert sum(length for _, length in ranges) > 1 << 20


def read_only(array):
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    "argument",
    [
        1, 1.0, True, (1, 2, 3), (1, 2.0), (np.zeros(3), np.zeros((2, 3), np.uint8)),
        np.zeros(3), np.zeros((2, 3), np.uint8), np.zeros((4, 4))[:, 1],
        np.zeros((4, 4, 4), np.float32)[:, 1:2], read_only(np.zeros(3, np.uint32)),
        np.uint64(3), np.zeros(2, np.bool_),
    ],
    ids=repr,
)  # fmt: skip
def test_types_are_written_as_numba_has_them(argument):
    assert signatures.numba_types(signatures.signature_of((argument,))) == (numba.typeof(argument),)


def test_a_bool_is_known_to_every_numba(monkeypatch):
    """Numba 0.62, the oldest that is allowed, prints the name of a type that it does not define."""
    monkeypatch.delattr(numba.types, "bool", raising=False)
    assert signatures.numba_types("bool") == (numba.typeof(True),)


def test_what_is_listed_can_be_called_so():
    lines = overloads.LIST.read_text().splitlines()
    assert lines == sorted(set(lines)), "run scripts/list_kernels.py"
    for overload in overloads.listed():
        kernel, signature = overloads.resolve(overload)
        function = getattr(kernel, "py_func", kernel)
        assert len(signatures.numba_types(signature)) == function.__code__.co_argcount, overload
        assert overloads.describe(kernel, signature) == overload


def test_what_is_listed_for_a_part_and_a_type(tmp_path, monkeypatch):
    monkeypatch.setattr(overloads, "LIST", tmp_path / "list")
    overloads.LIST.write_text("a.b(x) # one many:float32\nc.d(y, z) # many\n")
    assert overloads.listed() == ["a.b(x)", "c.d(y, z)"]
    assert overloads.listed({"one"}, "float64") == ["a.b(x)"]
    assert overloads.listed({"many", "two"}, "float64") == ["c.d(y, z)"]
    assert overloads.listed({"many"}, "float32") == ["a.b(x)", "c.d(y, z)"]


RECORDED = """
import sys
import numpy as np
sys.path.append(sys.argv[1])
from list_kernels import Recorder
recorder = Recorder()
from blocklinear.kernels import orders
orders.permutation(np.ones(2, np.uint64), np.empty(3, np.int64))
print(*recorder.take(), sep="\\n")
"""


def test_what_kernels_call_is_not_listed_whatever_the_cache_has(tmp_path):
    """Helpers are compiled with a kernel that is compiled, and are a part of it."""
    package, cache = tmp_path / "blocklinear", tmp_path / "cache"
    shutil.copytree(ROOT / "blocklinear", package, ignore=shutil.ignore_patterns("__pycache__"))

    def recorded():
        done = subprocess.run(
            [sys.executable, "-P", "-c", RECORDED, ROOT / "scripts"], check=True, text=True,
            stdout=subprocess.PIPE,
            env=os.environ | {"NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": str(tmp_path)},
        )  # fmt: skip
        return done.stdout.splitlines()

    called = "kernels.orders.permutation(uint64[::1], int64[::1])"
    assert recorded() == [called]
    (file,) = cache.rglob("orders.*")
    assert recorded() == [called]
    assert [*cache.rglob("*.kernel")] == [file]
