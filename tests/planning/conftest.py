import math

import pytest

import blocklinear
from blocklinear.planning import machine, plan, trials


@pytest.fixture(autouse=True)
def _no_clock(monkeypatch):
    """Trainings on a sample end by themselves, however slow the machine is; passes are few."""
    monkeypatch.setattr(plan, "_TRIAL_S", math.inf)
    monkeypatch.setattr(trials, "_PASSES_S", 0.0)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """The cache of the user; a small benchmark fills it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(machine, "_WEIGHT_BYTES", (1 << 12, 1 << 14))
    monkeypatch.setattr(machine, "_LOOKUPS", 1 << 10)
    monkeypatch.setattr(machine, "_DISK_BYTES", 1 << 22)
    return tmp_path / "cache" / "blocklinear" / "machines"


@pytest.fixture(scope="session")
def lines():
    """Rows whose features grow with their number, in two classes that a line separates."""
    found = []
    for i in range(8_000):
        a, b, c = 1 + i % 7, 8 + i * 37 % 90, 100 + int((i * 2654435761 % 4096) ** 2) % (1 + i)
        found.append(f"{1 if a < 4 else -1} {a}:1 {b}:0.5 {c}:0.{1 + i % 9}\n")
    return found


@pytest.fixture
def path(lines, tmp_path):
    path = tmp_path / "rows.svm"
    path.write_text("".join(lines))
    return path


@pytest.fixture
def store(path, tmp_path):
    return blocklinear.split(path, tmp_path / "store", blocks=10)
