"""What dies costs a round at most, and never a bit of the model."""

import os
import re
import signal
import threading
from concurrent.futures import CancelledError
from dataclasses import replace
from itertools import count
from types import SimpleNamespace

import pytest
from training.small import long_problem

import blocklinear
from blocklinear.cluster import engine, place, worker
from blocklinear.errors import (
    ClusterError,
    DamagedError,
    MismatchError,
    StoppedError,
    StorageError,
)
from blocklinear.events import OuterIteration
from blocklinear.training.rounds import files as round_files

from .conftest import cluster_of
from .serial import SerialClient

ROUNDS, PARTS = 4, 3
SUM = PARTS + PARTS - 1
TASKS = 1 + ROUNDS * (1 + SUM + 2 + SUM) + SUM
"""First weights; of each round curvatures, changes, weights with average, samples; certificates."""
PROBLEM = long_problem(3)


def trained(store, client, listener=lambda event: None, halt=lambda: False, parts=PARTS, **options):
    options = {"gap": 1e-9, "max_outer": ROUNDS, "restart": not options.get("resume")} | options
    chosen = PROBLEM.options(**options)
    return blocklinear.train(store, chosen, listener, halt, client=client, parts=parts)


def bits(model):
    return model.weights.tobytes(), model.bias_weights.tobytes(), model.metadata["certificate"]


@pytest.fixture(scope="module")
def expected(store, tmp_path_factory):
    return _undisturbed(store, tmp_path_factory, PARTS)


@pytest.fixture(scope="module")
def expected_of_one_part(store, tmp_path_factory):
    return _undisturbed(store, tmp_path_factory, 1)


def _undisturbed(store, tmp_path_factory, parts):
    with pytest.MonkeyPatch.context() as patch:
        client = SerialClient(2, tmp_path_factory.mktemp("s"), patch)
        return bits(trained(store, client, parts=parts))


class Broken(Exception):
    """What nothing is prepared for: as good as a kill."""


def failing_once(at, error):
    """Return what raises an error at the task of this number."""
    tasks = count()

    def before(name):
        if next(tasks) == at:
            raise error

    return before


@pytest.mark.parametrize("at", range(TASKS))
def test_a_client_that_dies_anywhere(serial, store, expected, at):
    client = serial(2)
    client.before = failing_once(at, Broken("at a task"))
    with pytest.raises(Broken):
        trained(store, client)
    assert bits(trained(store, serial(1), resume=True)) == expected


@pytest.mark.parametrize("at", range(1 + ROUNDS * 3 + 1))
def test_a_client_that_dies_anywhere_with_one_part(serial, store, expected_of_one_part, at):
    expected, client = expected_of_one_part, serial(2)
    client.before = failing_once(at, Broken("at a task"))
    with pytest.raises(Broken):
        trained(store, client, parts=1)
    assert bits(trained(store, serial(1), parts=1, resume=True)) == expected


@pytest.mark.parametrize("at", range(0, TASKS, 3))
def test_a_cluster_that_loses_a_task(serial, store, expected, at):
    client = serial(2)
    client.before = failing_once(at, CancelledError("lost"))
    assert bits(trained(store, client)) == expected


def test_a_cluster_that_loses_every_task(serial, store):
    client = serial(2)

    def before(name):
        raise CancelledError("lost")

    client.before = before
    with pytest.raises(ClusterError, match="has lost the work of a round") as caught:
        trained(store, client)
    assert "--resume" in caught.value.fix


def test_a_scheduler_that_goes(serial, store, expected):
    client = serial(2)

    def before(name):
        if len(client.ran) > 20:
            client.status = "closed"
            raise CancelledError("lost")

    client.before = before
    with pytest.raises(ClusterError):
        trained(store, client)
    assert bits(trained(store, serial(1), resume=True)) == expected


def test_a_scheduler_that_is_not_there_from_the_start(serial, store, monkeypatch):
    client = serial(2)

    def run(function, *arguments, on_error):
        raise OSError("timed out")

    monkeypatch.setattr(client, "run", run)
    with pytest.raises(ClusterError, match="does not answer"):
        trained(store, client)
    with pytest.raises(ClusterError, match="does not answer"):
        blocklinear.train(store, client=client)


@pytest.mark.parametrize("there", ["0.0.1", Exception("ImportError('none')")])
@pytest.mark.parametrize("package", ["blocklinear", "numba", "numpy"])
@pytest.mark.parametrize("options", [{}, {"memory_bytes": 1 << 30}], ids=str)
def test_a_worker_of_another_version_is_refused(
    serial, store, tmp_path, monkeypatch, package, there, options
):
    client, rows = serial(2), tmp_path / "rows.svm"
    rows.write_text("1 1:1\n")
    real = client.run

    def run(function, *arguments, on_error):
        found = real(function, *arguments, on_error=on_error)
        if function is getattr and arguments[0].__name__ == package:
            found["tcp://here:1"] = there
        return found

    monkeypatch.setattr(client, "run", run)
    has = f"{package} 0.0.1" if there == "0.0.1" else f"no {package} (ImportError('none'))"
    said = re.escape(f"worker tcp://here:1 has {has}, and this process {package} ")
    with pytest.raises(ClusterError, match=said):
        blocklinear.train(store, client=client, restart=True, **options)
    with pytest.raises(ClusterError, match=said):
        blocklinear.split(rows, tmp_path / "store", client=client, **options)
    assert not client.ran
    assert not (tmp_path / "store").exists()


def test_a_client_that_is_closed(serial, store):
    """What Dask raises where a task is submitted then is of several kinds."""
    client = serial(2)
    submit = client.submit

    def closed(*arguments, **options):
        if len(client.ran) > 20:
            client.status = "closed"
            raise RuntimeError("cannot schedule new futures")
        return submit(*arguments, **options)

    client.submit = closed
    with pytest.raises(ClusterError, match="cannot schedule new futures"):
        trained(store, client)


@pytest.mark.parametrize("outer", range(1, ROUNDS))
def test_a_run_that_is_stopped(serial, store, expected, outer):
    seen = []

    def listen(event):
        if isinstance(event, OuterIteration):
            seen.append(event.outer)

    with pytest.raises(StoppedError, match=f"outer iteration {outer}: a checkpoint is saved"):
        trained(store, serial(2), listen, lambda: outer in seen)
    assert bits(trained(store, serial(3), resume=True)) == expected


def test_a_finished_run_is_resumed(serial, store, expected):
    assert bits(trained(store, serial(2))) == expected
    assert bits(trained(store, serial(2), resume=True)) == expected


def test_other_parts_are_not_resumed(serial, store):
    trained(store, serial(2))
    with pytest.raises(MismatchError, match="parts was 3 and is 2"):
        blocklinear.train(store, PROBLEM.options(resume=True), client=serial(2), parts=2)


@pytest.mark.parametrize("change", ["damaged", "gone"])
def test_alpha_that_is_lost(serial, store, monkeypatch, change):
    monkeypatch.setattr(round_files, "SHOWS_UP_S", 0.0)
    trained(store, serial(2), max_outer=2)
    for path in (store.folder / "runs" / "default").glob("alpha.*"):
        if change == "gone":
            path.unlink()
        else:
            path.write_bytes(path.read_bytes()[:-1] + b"x")
    kind = StorageError if change == "gone" else DamagedError
    with pytest.raises(kind, match=r"worker tcp://here:\d: .*alpha\.2\."):
        trained(store, serial(2), resume=True)


def test_a_disk_that_a_worker_loses(serial, store, monkeypatch):
    def unreadable(job, manifest, at, blocks):
        raise StorageError(f"{store.folder}: read failed: Stale file handle")

    monkeypatch.setattr(worker, "alpha_after", unreadable)
    with pytest.raises(StorageError, match=r"worker tcp://here:0: .*Stale file handle"):
        trained(store, serial(2))


def test_a_worker_that_is_closed_while_it_works(serial, store, expected, monkeypatch):
    """Its folder of scratch files goes first: that is no fault of the disk."""
    client, closed = serial(2), []
    real = worker.make_descent

    def closing(*arguments):
        at = place.here()
        if not closed:
            closed.append(at.address)
            monkeypatch.setattr(
                place, "here", lambda: place.Place(at.address, at.scratch / "gone", 1)
            )
            raise StorageError("no such folder")
        return real(*arguments)

    here = place.here
    monkeypatch.setattr(worker, "make_descent", closing)
    client.before = lambda name: monkeypatch.setattr(place, "here", here)
    assert bits(trained(store, client)) == expected
    assert closed


def test_restart_deletes_what_was_there(serial, store):
    trained(store, serial(2), max_outer=3)
    trained(store, serial(2), max_outer=1)
    names = {path.name for path in (store.folder / "runs" / "default").glob("alpha.*")}
    assert names == {f"alpha.1.{number}" for number in range(PARTS)}


class Slow:
    """A cluster whose task never ends."""

    def __init__(self, workers=("tcp://here:0",)):
        self.status, self._workers = "running", workers

    def scheduler_info(self):
        return {"workers": dict.fromkeys(self._workers)}

    def submit(self, function, *arguments, **options):
        return self

    def add_done_callback(self, call):
        pass


def waited(client, halt=lambda: False):
    made = engine.Engine(client, "run")
    return made.sum_of_parts(waited, SimpleNamespace(n_parts=1), None, None, halt, lambda anew: [])


def test_waiting_ends_when_it_is_to(monkeypatch):
    monkeypatch.setattr(engine, "POLL_S", 0.001)
    with pytest.raises(engine.Abandoned):
        waited(Slow(), lambda: True)


def test_waiting_ends_without_a_scheduler(monkeypatch):
    monkeypatch.setattr(engine, "POLL_S", 0.001)
    client = Slow()

    def halt():
        client.status = "closed"
        return False

    with pytest.raises(ClusterError, match="scheduler of the cluster is gone"):
        waited(client, halt)


def test_waiting_ends_without_workers(monkeypatch):
    for name in ("POLL_S", "ASK_S", "NO_WORKERS_S"):
        monkeypatch.setattr(engine, name, 0.001)
    with pytest.raises(ClusterError, match="has had no workers"):
        waited(Slow(()))


def test_a_run_whose_worker_works_for_another_one_says_so(store, two, expected, monkeypatch):
    """Two runs at once: a worker with several threads has tasks of both."""
    step, taken = worker.DescentPart._step, []

    def interrupted(part, group, place):
        if not taken:
            taken.append(part)
            worker._session(replace(part._job, name="another"))
        step(part, group, place)

    monkeypatch.setattr(worker.DescentPart, "_step", interrupted)
    with pytest.raises(ClusterError, match="works for another run, too") as error:
        trained(store, two)
    assert "--resume" in str(error.value)
    assert bits(trained(store, two, resume=True)) == expected


def test_killed_processes(store, expected):
    """Real workers, one of which is killed in each round; their nannies start others."""
    with cluster_of(2, processes=True) as client:
        killed = threading.Event()

        def kill(event):
            if isinstance(event, OuterIteration) and event.outer < ROUNDS:
                victim = sorted(client.run(os.getpid, on_error="ignore").values())[0]
                os.kill(victim, signal.SIGKILL)
                killed.set()

        assert bits(trained(store, client, kill)) == expected
        assert killed.is_set()
