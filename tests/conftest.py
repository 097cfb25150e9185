import gc
import os
import signal
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from effort import EXTENSIVE
from hypothesis import HealthCheck, settings
from programs import have_said_that_it_compiles

from blocklinear.text import sources

os.environ["SOURCE_DATE_EPOCH"] = "1767225600"  # the date of every commit: 2026-01-01

for number in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(number) is signal.SIG_IGN:
        # in the background of a script, or under nohup: programs would ignore it, too
        signal.signal(number, lambda *_: None)

# No example takes too long: the machine may be busy, and kernels may have to be compiled.
settings.register_profile(
    "any machine",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=not EXTENSIVE,
)
settings.load_profile("any machine")


PROCESSORS = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()


def pytest_configure(config):
    """Keep each worker of pytest-xdist, and what it starts, on a processor of its own.

    Threads of a training run hand over to each other thousands of times, and it takes an eighth of
    the time of the tests to wake one on another processor that has fallen asleep.
    """
    worker = getattr(config, "workerinput", {}).get("workerid", "")
    if worker and PROCESSORS:
        number = int(worker.removeprefix("gw")) % len(PROCESSORS)
        os.sched_setaffinity(0, {sorted(PROCESSORS)[number]})


def pytest_collection(session):
    """Collect no garbage where modules are imported and tests are listed: a third of the time."""
    gc.disable()


def pytest_collection_finish(session):
    """Look for garbage in what tests make alone: of a million objects the listing leaves none."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="module")
def all_processors():
    """Let the tests of a module run on all processors: threads at the same time."""
    if not PROCESSORS:
        yield
        return
    one = os.sched_getaffinity(0)
    os.sched_setaffinity(0, PROCESSORS)
    yield
    os.sched_setaffinity(0, one)


@pytest.fixture(scope="module")
def disk():
    """A folder on disk: in a cgroup, what is written to one in memory would count."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        yield Path(folder)


@pytest.fixture(autouse=True)
def _wrapping_integers():
    """With NUMBA_DISABLE_JIT=1 NumPy warns where the kernels mean integers to wrap around."""
    with np.errstate(over="ignore"):
        yield


@pytest.fixture(autouse=True, scope="session")
def _no_waiting_for_the_disk():
    """No test of ours cuts the power: processes that are killed lose nothing without `fsync`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(autouse=True, scope="session")
def _silence_about_compiling():
    """What a command prints does not depend on what was compiled before."""
    have_said_that_it_compiles()


@pytest.fixture
def without_zlib_ng(monkeypatch):
    """As if zlib-ng were not installed."""
    monkeypatch.setitem(sys.modules, "zlib_ng", None)
    sources.inflating.cache_clear()
    yield
    sources.inflating.cache_clear()


@pytest.fixture(params=["gz", "gz-zlib", "bz2", "xz", "zst"])
def kind(request):
    """A kind of compressed input; gz also as it is read without zlib-ng."""
    name, _, fallback = request.param.partition("-")
    if fallback:
        request.getfixturevalue("without_zlib_ng")
    return name
