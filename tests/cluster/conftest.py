import contextlib
import importlib.util
import warnings

import pytest
from training.small import long_problem, split_problem

from .serial import SerialClient

if importlib.util.find_spec("distributed") is None:  # it belongs to an extra
    collect_ignore_glob = ["test_*.py"]


@contextlib.contextmanager
def cluster_of(n_workers, processes=False):
    """A client of a cluster on this machine, of threads or processes."""
    import dask
    from distributed import Client, LocalCluster

    where = {"host": "127.0.0.1"} if processes else {}
    # The profiler asks for the frames of all threads: where that collects garbage, Python 3.11 may
    # wait for ever for a thread that is about to end.
    settings = {"worker.memory.terminate": False, "worker.profile.enabled": False}
    with (
        warnings.catch_warnings(),
        dask.config.set({f"distributed.{name}": value for name, value in settings.items()}),
    ):
        warnings.simplefilter("ignore")  # Dask's own, about sockets and tasks at its end
        with (
            LocalCluster(
                n_workers=n_workers,
                threads_per_worker=1,
                processes=processes,
                dashboard_address=None,
                memory_limit=None,
                silence_logs="CRITICAL",
                **where,
            ) as cluster,
            Client(cluster, set_as_default=False) as client,
        ):
            yield client  # fmt: skip


@pytest.fixture(scope="session")
def cluster():
    """Two workers in this process."""
    with cluster_of(2) as client:
        yield client


@pytest.fixture
def serial(tmp_path, monkeypatch):
    """Return a client of so many workers that do each task at once."""
    (tmp_path / "scratch").mkdir()
    return lambda n_workers: SerialClient(n_workers, tmp_path / "scratch", monkeypatch)


@pytest.fixture
def two(serial):
    """Two such workers."""
    return serial(2)


@pytest.fixture
def three(serial):
    """Three such workers."""
    return serial(3)


N_BLOCKS = 8


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """Stores of classes and of values."""
    return {
        regression: split_problem(
            tmp_path_factory.mktemp("cluster"), long_problem(13 if regression else 3), N_BLOCKS
        )
        for regression in (False, True)
    }


@pytest.fixture(scope="module")
def store(stores):
    return stores[False]
