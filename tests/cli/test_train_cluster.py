"""``train --dask local:N``: a thread of the command, or processes, which end with it."""

import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from programs import GUARD_S, outers

import blocklinear

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("distributed") is None, reason="it belongs to an extra"
)
ROWS = "".join(f"{k % 2} {k % 7 + 1}:0.5 {k % 5 + 8}:{k % 11}.5 20:{k}\n" for k in range(400))
FOR_LONG = ("--gap", "1e-12", "--max-outer", "1000000000")


@pytest.fixture
def store(tmp_path):
    (tmp_path / "rows.svm").write_text(ROWS)
    blocklinear.split(tmp_path / "rows.svm", tmp_path / "store", blocks=4)
    return tmp_path / "store"


def command(*arguments):
    code = "from blocklinear.__main__ import program; program()"
    return [sys.executable, "-c", code, "train", *map(str, arguments), "--memory", "512M"]


@pytest.mark.parametrize("parts", [1, 2])
def test_a_thread_and_processes_do_the_same(tmp_path, store, parts):
    found = []
    for workers in (1, 2):
        model = tmp_path / f"m{workers}"
        more = ["--dask", f"local:{workers}", "--parts", parts, "--restart", "-q", "--max-outer", 4]
        done = subprocess.run(
            command(store, model, *more), capture_output=True, text=True, timeout=GUARD_S
        )
        assert done.returncode == 0, done.stderr
        found.append(blocklinear.LinearModel.load(model))
    one, two = found
    assert one.weights.tobytes() == two.weights.tobytes()
    assert one.metadata["certificate"] == two.metadata["certificate"]


def started(tmp_path, store, workers):
    """Return a command that trains, after its first round."""
    log = tmp_path / "log"
    process = subprocess.Popen(
        command(store, tmp_path / "m", "--dask", f"local:{workers}", "--log", log, *FOR_LONG),
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    wait_for(process, log, 1)
    return process, log


def wait_for(process, log, rounds):
    while not log.exists() or len(outers(log)) < rounds:
        assert process.poll() is None, process.stderr.read()


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_it(tmp_path, store, workers, number, status):
    """An interrupt comes to the whole group, as from a terminal."""
    process, _ = started(tmp_path, store, workers)
    os.killpg(process.pid, number) if number == signal.SIGINT else process.send_signal(number)
    _, told = process.communicate(timeout=GUARD_S)  # until no process has the stream any more
    assert process.returncode == status, told
    assert b"a checkpoint is saved" in told
    assert b"Traceback" not in told


def workers_of(process):
    """Return the processes that were forked of one that the command has started."""
    parents = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        parents[int(entry.parent.name)] = int(fields[1])
    return [pid for pid, parent in parents.items() if parents.get(parent) == process.pid]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked up there")
def test_a_worker_that_dies_is_replaced(tmp_path, store):
    process, log = started(tmp_path, store, 2)
    for killed in range(3):
        before = workers_of(process)
        os.kill(before[0], signal.SIGKILL)
        while len(set(workers_of(process)) - set(before)) == 0:
            assert process.poll() is None
        wait_for(process, log, len(outers(log)) + 1 + killed)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=GUARD_S)
    assert process.returncode == 130, told


def test_workers_end_where_the_command_is_killed(tmp_path, store):
    process, _ = started(tmp_path, store, 2)
    process.kill()
    process.communicate(timeout=GUARD_S)
    assert process.returncode == -signal.SIGKILL
