"""The house rules of tests: none depends on how fast the machine is, or on when it runs."""

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
NAMES = sorted(str(path.relative_to(TESTS)) for path in TESTS.rglob("*.py"))
CLOCKS = {"sleep", "monotonic", "perf_counter", "time_ns", "setitimer", "alarm"}
GUARDS = ("GUARD_S", "programs.GUARD_S", "1e-09")  # very long, or over at once


def found(source):
    """Yield what a test may not do."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        given = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
        if called.rpartition(".")[2] in CLOCKS or called == "time.time":
            yield called
        if given.get("timeout", GUARDS[0]) not in GUARDS:
            yield f"timeout={given['timeout']}"
        if given.get("deadline", "None") != "None":
            yield f"deadline={given['deadline']}"
        if called == "gzip.compress" and "mtime" not in given:
            yield called  # it would hold the time


@pytest.mark.parametrize("name", [name for name in NAMES if name != "text/differential.py"])
def test_no_test_looks_at_the_clock(name):
    assert not list(found((TESTS / name).read_text()))


@pytest.mark.parametrize(
    "source",
    ["time.sleep(1)", "sleep(0.1)", "run(c, timeout=0.1)", "run(c, timeout=60)", "time.time()",
     "settings(deadline=200)", "gzip.compress(b'')", "signal.setitimer(0, 1)"],
)  # fmt: skip
def test_what_looks_at_the_clock_is_found(source):
    assert len(list(found(source))) == 1


def test_what_does_not_look_at_the_clock_is_not_found():
    source = "run(c, timeout=GUARD_S); settings(deadline=None); gzip.compress(b'', mtime=0)"
    assert not list(found(source))
