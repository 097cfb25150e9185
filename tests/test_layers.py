"""The house rules: who may import whom, and who may touch what."""

import ast
import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "blocklinear"
TIERS = {
    "cli": 9, "estimators": 9, "selection": 8, "training": 7, "solvers": 6, "objectives": 5,
    "model": 4, "report": 4, "outputs": 4,
    "store": 2, "kernels": 2, "text": 1, "arguments": 0, "errors": 0, "options": 0, "events": 0,
    "memory": 0, "numerals": 0,
}  # fmt: skip
FILES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")
NAMES = [str(path.relative_to(ROOT)) for path in FILES]
everywhere = pytest.mark.parametrize("name", NAMES)


@functools.cache
def tree_of(name):
    return ast.parse((ROOT / name).read_text())


@functools.cache
def nodes_of(name):
    return list(ast.walk(tree_of(name)))


def part_of(name):
    """Return the first word below the package: ``store`` of ``store/codec.py``."""
    return Path(name).parts[0].removesuffix(".py")


def imports(name):
    """Yield the dotted name of every module imported anywhere in a file, functions included."""
    package = ["blocklinear", *Path(name).parts[:-1]]
    for node in nodes_of(name):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join(base + ([node.module] if node.module else []))
            if module == "blocklinear":  # `from blocklinear import options`, or a name it binds
                yield from (f"blocklinear.{alias.name}" for alias in node.names)
            else:
                yield module


def calls(name):
    """Yield the name of everything called: ``print``, ``os.rename``, ``.rename``."""
    for node in nodes_of(name):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func)


@everywhere
def test_labels_and_costs_are_written_in_full(name):
    """The format g keeps six digits: `numerals.format_number` keeps them all."""
    for node in nodes_of(name):
        if isinstance(node, ast.FormattedValue) and node.format_spec is not None:
            value, form = ast.unparse(node.value), ast.unparse(node.format_spec)
            cut = form.rstrip("'\"").endswith("g") and ".17g" not in form
            assert not (cut and re.search(r"label|cost|'C'|bias", value)), value


@everywhere
def test_arrows_point_down(name):
    own = part_of(name)
    assert own in TIERS, "give the new part a tier"
    for module in imports(name):
        _, _, rest = module.partition("blocklinear.")
        other = rest.split(".")[0]
        if not module.startswith("blocklinear.") or other == "__version__" or other == own:
            continue
        assert other in TIERS, f"{name} imports {module}"
        assert TIERS[other] <= TIERS[own], f"{name} imports {module}"
        assert (own, other) not in {
            ("model", "train"), ("model", "training"), ("report", "train"), ("report", "training"),
            ("kernels", "store"), ("cli", "estimators"), ("estimators", "cli"),
        }, f"{name} imports {module}"  # fmt: skip


@pytest.mark.parametrize("name", [name for name in NAMES if part_of(name) == "kernels"])
def test_kernels_import_numpy_and_numba_only(name):
    """Numba's cache of a kernel does not notice a helper that changes in another file."""
    assert {module.split(".")[0] for module in imports(name)} <= {"numpy", "numba", "llvmlite"}


@pytest.mark.parametrize("name", [name for name in NAMES if part_of(name) != "cli"])
def test_the_library_never_prints(name):
    used = set(calls(name))
    assert not used & {"print", "sys.stdout.write", "sys.stderr.write", "input"}


@pytest.mark.parametrize("name", [name for name in NAMES if name != "store/files.py"])
def test_only_one_file_renames_syncs_and_locks(name):
    assert "fcntl" not in set(imports(name))
    forbidden = {"rename", "renames", "fsync", "fdatasync", "sync", "flock", "lockf"}
    for called in calls(name):
        module, _, attribute = called.rpartition(".")
        assert attribute not in forbidden or module not in ("os", "fcntl"), called
        assert called != "os.replace"
        assert attribute not in ("rename", "flock", "lockf"), called  # of a Path, or of an alias
    for node in nodes_of(name):
        if isinstance(node, ast.ImportFrom) and node.module == "os":
            assert not {alias.name for alias in node.names} & {*forbidden, "replace"}


BLAS = {
    "dot", "vdot", "inner", "matmul", "tensordot", "einsum", "norm", "multi_dot", "lstsq",
    "solve", "corrcoef", "cov", "polyfit", "correlate", "convolve",
}  # fmt: skip


def products(tree):
    """Yield whatever may be summed by BLAS, in an order that depends on its threads."""
    for node in ast.walk(tree):
        operator = getattr(node, "op", None)
        if isinstance(operator, ast.MatMult) or getattr(node, "attr", None) in BLAS | {"linalg"}:
            yield ast.unparse(node)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "model/linear.py"])
def test_no_sum_but_of_dense_rows_to_predict_depends_on_the_threads_of_blas(name):
    assert not list(products(tree_of(name)))


def test_products_of_blas_are_found():
    for text in ("a @ b", "a @= b", "np.vdot(a, b)", "a.dot(b)", "np.linalg.norm(a)"):
        assert list(products(ast.parse(text))), text
    assert not list(products(ast.parse("from m import dot\ndot(a, b) + a * b")))


@everywhere
def test_nothing_that_runs_what_it_reads(name):
    modules = {module.split(".")[0] for module in imports(name)}
    assert not modules & {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "yaml"}
    assert not set(calls(name)) & {"eval", "exec", "compile", "__import__", "os.system"}
    for node in nodes_of(name):
        if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            assert isinstance(node.value, ast.Constant)
            assert node.value.value is False


@everywhere
def test_np_load_refuses_pickles(name):
    for node in nodes_of(name):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("np.load", "numpy.load"):
            assert "allow_pickle" in {keyword.arg for keyword in node.keywords}


def test_the_rules_see_something():
    """The walk finds what is known to be there: the tests above do not pass for want of sight."""
    assert len(FILES) > 20
    assert "blocklinear.errors" in set(imports("store/codec.py"))
    assert "blocklinear.store.store" in set(
        imports("cli/commands/info.py")
    )  # imported in a function
    assert "fcntl" in set(imports("store/files.py"))
    assert {"os.fsync", "os.rename", "fcntl.flock"} <= set(calls("store/files.py"))
    assert "print" in set(calls("cli/commands/info.py"))
