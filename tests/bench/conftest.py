"""The programs in bench/ are not an installed package: load them by their path."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numba
import pytest

BENCH = Path(__file__).parents[2] / "bench"


def load(name: str) -> ModuleType:
    """Return bench/NAME.py as a module, once."""
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, BENCH / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


@pytest.fixture(scope="session")
def svmtext():
    return load("svmtext")


@pytest.fixture(scope="session")
def shapes():
    if numba.config.DISABLE_JIT:
        pytest.skip("random bits wrap around in uint64, of which NumPy warns without the JIT")
    load("row_kernels")
    return load("shapes")


@pytest.fixture(scope="session")
def make_file_names():
    return load("make_file_names")


@pytest.fixture(scope="session")
def make_flights():
    return load("make_flights")


@pytest.fixture(scope="session")
def make_source_text():
    return load("make_source_text")


@pytest.fixture(scope="session")
def generate(svmtext, shapes):
    return load("generate")


@pytest.fixture(scope="session")
def limits():
    return load("limits")


@pytest.fixture(scope="session")
def measuring(generate):
    return load("measuring")


@pytest.fixture(scope="session")
def bench_train(measuring, limits):
    for name in ("guard", "rivals", "models", "speed", "work", "convergence"):
        load(name)
    return load("train")


@pytest.fixture(scope="session")
def rivals(bench_train):
    return load("rivals")


@pytest.fixture(scope="session")
def guard(measuring):
    return load("guard")


@pytest.fixture(scope="session")
def make_clicks():
    return load("make_clicks")


@pytest.fixture(scope="session")
def clicks(limits, make_clicks):
    return load("clicks")
