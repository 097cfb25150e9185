"""Compiled kernels are kept, for one state of all sources."""

import os
import pickle
import re
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType

import numba
import numpy as np
import programs
import pytest

from blocklinear.kernels.code import kept, loader
from blocklinear.kernels.jit import kernel

pytestmark = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")

PERMUTE = """
import numpy as np
from blocklinear.kernels import orders
out = np.empty(9, np.int64)
orders.permutation(np.array([1, 2], np.uint64), out)
print(out.tolist(), getattr(orders.permutation, "n_loaded", 0))
"""


@pytest.fixture
def package(tmp_path):
    """Copy the kernels to a package of their own; return how to run them, and their folder."""
    folder = tmp_path / "blocklinear"
    shutil.copytree(kept.PACKAGE / "kernels", folder / "kernels")
    shutil.rmtree(folder / "kernels" / "__pycache__", ignore_errors=True)
    (folder / "__init__.py").touch()

    def run(**environment):
        environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")} | environment
        done = programs.run([sys.executable, "-c", PERMUTE], cwd=tmp_path, env=environment)
        assert done.returncode == 0, done.stderr
        return done.stdout.split("] ")

    return run, folder / "kernels"


def test_a_helper_that_changes_in_another_file_is_noticed(package):
    run, folder = package
    before = run()
    assert [run(), before[1]] == [[before[0], "1\n"], "0\n"]
    shared = (folder / "shared.py").read_text()
    changed = shared.replace("0xBF58476D1CE4E5B9", "0xBF58476D1CE4E5B7")
    assert changed != shared
    (folder / "shared.py").write_text(changed)
    after = run()
    assert after == [run(NUMBA_DISABLE_JIT="1")[0], "0\n"]
    assert after[0] != before[0]


def test_threads_of_numba_have_no_part_in_compiled_code(package):
    run, _ = package
    run()
    threads = {  # joblib sets the first one in its processes
        "NUMBA_NUM_THREADS": "1",
        "NUMBA_THREADING_LAYER": "workqueue",
        "NUMBA_THREADING_LAYER_PRIORITY": "omp tbb workqueue",
    }
    assert run(**threads)[1] == "1\n"
    assert run(NUMBA_BOUNDSCHECK="1")[1] == "0\n"


def test_every_file_with_a_part_in_compiled_code_counts():
    listed = {str(file.relative_to(kept.PACKAGE)) for file in kept.sources()}
    for file in kept.PACKAGE.rglob("*.py"):
        name = str(file.relative_to(kept.PACKAGE))
        uses = re.search(r"^\s*@(kernel|njit|intrinsic)\b", file.read_text(), re.MULTILINE)
        assert not uses or name in listed, name
    assert {"kernels/shared.py", "kernels/text/tokenizer.py"} <= listed
    assert "text/reader.py" not in listed


def twice(x):
    return x + x


def test_two_processes_that_compile_for_other_types_do_not_mix_them_up(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    one, other = kernel(twice), kernel(twice)
    assert (one(3), other(1.5)) == (6, 3.0)
    third = kernel(twice)
    assert (third(1.5), third(3)) == (3.0, 6)
    assert third.n_loaded == 2
    assert len(list(tmp_path.rglob("*.kernel"))) == 2


@pytest.mark.parametrize("content", [b"", b"\x80\x05", b"other"], ids=str)
def test_a_damaged_file_is_replaced(tmp_path, monkeypatch, content):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert kernel(twice)(3) == 6
    (file,) = tmp_path.rglob("*.kernel")
    file.write_bytes(content)
    assert kernel(twice)(3) == 6
    again = kernel(twice)
    assert again(3) == 6
    assert again.n_loaded == 1


def test_without_a_folder_kernels_are_compiled_and_not_kept(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setattr(kept, "folders", lambda: [tmp_path / "file" / "folder"])
    found = kernel(twice)
    assert found(np.float64(1.5)) == 3.0
    assert not found.is_kept("float64")
    assert [*tmp_path.iterdir()] == [tmp_path / "file"]


def test_llvm_that_the_system_does_not_load_is_no_fault_of_a_file(monkeypatch):
    class Unloaded(ModuleType):
        def __getattr__(self, name):
            raise OSError("no libllvmlite.so")

    monkeypatch.setitem(sys.modules, "llvmlite", Unloaded("llvmlite"))
    loader.machine.cache_clear()
    with pytest.raises(ImportError, match="LLVM cannot be loaded: no libllvmlite"):
        kernel(twice)(np.float64(1.5))


def test_what_an_image_has_is_read(package):
    """Kept next to the kernels by who made the image, and run by who may write elsewhere only."""
    run, folder = package
    image = run(NUMBA_CACHE_DIR="")
    assert image[1] == "0\n"
    assert [*folder.glob("__pycache__/orders.permutation*.kernel")]
    assert run() == [image[0], "1\n"]
    assert not [*folder.parents[1].glob("cache/*/orders.permutation*")]


def test_what_was_loaded_is_called_by_what_is_compiled_later(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert kernel(twice)(3) == 6
    loaded = kernel(twice)
    assert loaded(3) == 6
    assert loaded.n_loaded == 1
    assert numba.njit(lambda x: loaded(loaded(x)))(3) == 12


def refuse(x):
    if x > 3:
        raise ValueError("too large")
    return x


def test_what_was_loaded_raises_what_it_did(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    for function in (kernel(refuse), kernel(refuse), kernel(refuse)):
        assert function(3) == 3
        with pytest.raises(ValueError, match="too large"):
            function(4)
    assert function.n_loaded == 1


def whole(x, numbers):
    return x + numbers[0] + numbers.sum()


@pytest.mark.parametrize(
    "argument",
    [
        np.zeros(3, ">f8"), np.zeros(25, np.uint8)[1:].view(np.float64), np.zeros(()),
        np.zeros(3, object), np.zeros(3, complex), None, "x", [1.0],
    ],
    ids=repr,
)  # fmt: skip
def test_what_kernels_do_not_take_is_refused(argument):
    """Memory of another kind would be read as if it were what the machine code is for."""
    with pytest.raises(TypeError, match="kernels take no"):
        kernel(whole)(1.0, argument)


def test_arguments_of_other_types_are_other_overloads(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    for found in (kernel(whole), kernel(whole)):
        assert found(1.0, np.arange(3)) == 4.0
        assert found(1.0, np.arange(6)[::2]) == 7.0
        assert found(1, np.arange(3)) == 4
        assert found(1.0, np.arange(3.0)) == 4.0
        assert {*found.overloads} == {
            "float64, int64[::1]", "float64, int64[:]", "int64, int64[::1]",
            "float64, float64[::1]",
        }  # fmt: skip
    assert found.n_loaded == 4
    with pytest.raises(TypeError):
        found(1.0)


def test_threads_load_a_kernel_once(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert kernel(twice)(3) == 6
    found = kernel(twice)
    with ThreadPoolExecutor(8) as pool:
        assert [*pool.map(found, range(64))] == [2 * k for k in range(64)]
    assert found.n_loaded == 1


def test_a_kernel_is_pickled_by_its_name():
    from blocklinear.kernels import orders

    assert pickle.loads(pickle.dumps(orders.permutation)) is orders.permutation


LOAD = """
import sys
from blocklinear.cli import overloads
print(overloads.load(overloads.listed({"one", "split"}, "float64")))
print("numba" in sys.modules)
"""


def test_loading_imports_nothing_of_numba(tmp_path):
    environment = os.environ | {"NUMBA_CACHE_DIR": ""}
    done = programs.run([sys.executable, "-c", LOAD], cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[]\nFalse\n"
