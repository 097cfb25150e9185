"""The rules of the code: what may import what, and what may be called where."""

import ast
import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "blocklinear"
BASE = {
    "arguments", "classes", "errors", "events", "markup", "memory", "names", "numerals", "options",
    "pages", "solver_types",
}  # fmt: skip
MAY_IMPORT = {
    # errors and numbers
    "errors": set(),
    "arguments": {"errors"},
    "classes": {"numerals"},
    "events": {"numerals"},
    "keywords": {"errors", "memory"},
    "markup": set(),
    "memory": {"errors"},
    "names": set(),
    "numerals": {"errors"},
    "options": {"arguments", "errors", "keywords", "memory", "numerals", "solver_types"},
    "pages": set(),
    "progress": {"events"},
    "solver_types": set(),
    "recipe": {"classes", "errors", "numerals", "store"},
    # rows: text to blocks, arrays to arrays
    "kernels": set(),
    "inputs": BASE,
    "text": BASE | {"inputs", "kernels"},
    "store": BASE | {"inputs", "text", "kernels"},
    "columns": BASE | {"kernels", "store"},
    "ingest": BASE | {"inputs", "text", "kernels", "store"},
    "batches": BASE | {"text", "kernels", "store", "ingest"},
    "outputs": BASE | {"inputs", "store"},
    # the method
    "objectives": BASE | {"store", "kernels"},
    "solvers": BASE | {"columns", "objectives", "store", "kernels"},
    "figures": BASE | {"outputs"},
    "model": BASE | {"figures", "inputs", "text", "kernels", "outputs", "recipe"},
    "training": BASE
    | {
        "columns",
        "inputs",
        "tables",
        "solvers",
        "objectives",
        "model",
        "text",
        "ingest",
        "store",
        "kernels",
    },
    "cluster": BASE
    | {
        "training",
        "solvers",
        "objectives",
        "model",
        "inputs",
        "text",
        "ingest",
        "store",
        "kernels",
    },
    "selection": BASE
    | {"figures", "training", "objectives", "model", "ingest", "store", "kernels"},
    "tables": BASE
    | {"batches", "inputs", "model", "outputs", "recipe", "text", "ingest", "store", "kernels"},
    "planning": BASE
    | {"inputs", "text", "ingest", "store", "solvers", "objectives", "training", "kernels"},
    # people
    "report": BASE | {"figures", "inputs", "model", "outputs"},
    "api": BASE
    | {
        "keywords",
        "planning",
        "progress",
        "report",
        "selection",
        "training",
        "model",
        "text",
        "ingest",
    }
    | {"cluster", "columns", "ingest", "store"},
    "estimators": BASE
    | {"api", "batches", "selection", "training", "objectives", "model", "store", "kernels"},
    "cli": BASE
    | {
        "cluster",
        "columns",
        "inputs",
        "selection",
        "planning",
        "training",
        "model",
        "recipe",
        "report",
        "tables",
        "text",
        "ingest",
        "store",
        "outputs",
        "kernels",
    },
    "__main__": {"cli"},
}
"""Which package, or module at the top, may import which others. There is no circle in it."""

MOST_MODULES, LONGEST_CHAIN = 16, 5

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


def module_of(name):
    """Return the dotted name of a file below the package: ``store`` of ``store/__init__.py``."""
    return ".".join(Path(name).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module_of(name): name for name in NAMES}


@functools.cache
def imported(name):
    """Return the modules of this package that a file imports anywhere, those of typing included.

    ``from blocklinear.text import reader`` is a module, ``from blocklinear.text import RowReader``
    is the package. ``blocklinear/__init__.py``, which binds the public names at their first use,
    is none of them.
    """
    found = set()
    for node in nodes_of(name):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{name}: write imports in full"
            for alias in node.names:
                module = f"{node.module}.{alias.name}"
                is_module = module.removeprefix("blocklinear.") in MODULES
                found.add(module if is_module else node.module)
    found = {module.removeprefix("blocklinear.") for module in found if "blocklinear." in module}
    assert found <= set(MODULES), f"{name} imports {found - set(MODULES)}"
    return frozenset(found)


def circles(graph):
    """Return the sets of modules each of which imports all others of its set, by any way."""
    reached = {}
    for start in graph:
        seen, waiting = set(), [start]
        while waiting:
            new = graph[waiting.pop()] - seen
            seen |= new
            waiting += new
        reached[start] = seen
    sets = {
        frozenset(other for other in reached[start] if start in reached[other])
        for start in graph
        if start in reached[start]
    }
    return sorted(map(sorted, sets))


def longest_chain(graph):
    """Return the longest chain of modules each of which imports the next, without a circle."""

    def chain_from(module, above):
        nexts = graph[module] - above - {module}
        chains = (chain_from(other, above | {module}) for other in nexts)
        return [module, *max(chains, key=len, default=[])]

    return max((chain_from(module, frozenset()) for module in sorted(graph)), key=len)


def packages():
    """Return the modules of each package by its name, the top level as ""."""
    found = {}
    for module, name in MODULES.items():
        package = ".".join(Path(name).parts[:-1])
        found.setdefault(package, set()).add(module)
    return found


GRAPH = {module: imported(name) for module, name in MODULES.items()}
each_package = pytest.mark.parametrize(
    "package", sorted(packages()), ids=lambda name: name or "top"
)


@everywhere
def test_packages_import_what_they_may(name):
    own = part_of(name)
    assert own in MAY_IMPORT, "say what the new package may import"
    for module in imported(name):
        other = module.split(".")[0]
        assert other == own or other in MAY_IMPORT[own], f"{name} imports {module}"


def test_the_table_of_packages_has_no_circle():
    assert set(MAY_IMPORT) == {part_of(name) for name in NAMES}
    assert not circles(MAY_IMPORT)


def test_no_import_circle():
    assert not circles(GRAPH)


@each_package
def test_a_package_has_few_modules(package):
    # commands have a file each, and as many files as there are commands
    assert package == "cli.commands" or len(packages()[package]) <= MOST_MODULES


@each_package
def test_chains_of_imports_are_short(package):
    modules = packages()[package]
    chain = longest_chain({module: GRAPH[module] & modules for module in modules})
    assert len(chain) <= LONGEST_CHAIN, chain


def test_circles_and_chains_are_found():
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}, "e": set(), "f": {"f"}}
    assert circles(graph) == [["b", "c"], ["f"]]
    assert longest_chain(graph) == ["d", "a", "b", "c"]


COMPILING = ("kernels/jit.py", "kernels/code/")
KERNELS = [name for name in NAMES if part_of(name) == "kernels" and not name.startswith(COMPILING)]


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_import_numpy_numba_and_each_other_only(name):
    for module in imports(name):
        known = module.split(".")[0] in ("numpy", "numba", "llvmlite")
        assert known or module.startswith("blocklinear.kernels"), module


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
        assert attribute not in ("TemporaryDirectory", "mkdtemp"), called  # nobody deletes them
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
    """The walk finds what is known to be there, so the tests above do not pass on nothing."""
    assert len(FILES) > 20
    assert "blocklinear.errors" in set(imports("store/codec.py"))
    assert "store.store" in imported("cli/commands/info.py")  # in a function
    assert "store.store" in imported("cli/stores.py")  # for typing
    assert "model" not in imported("model/files.py")  # its modules, by their names
    assert "fcntl" in set(imports("store/files.py"))
    assert {"os.fsync", "os.rename", "fcntl.flock"} <= set(calls("store/files.py"))
    assert "print" in set(calls("cli/commands/info.py"))
