"""Dask clusters: one that is there, by its address, or workers of this machine."""

import contextlib
import logging
import multiprocessing
import os
import re
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from multiprocessing import forkserver, resource_tracker
from typing import Any

from blocklinear.arguments import described
from blocklinear.errors import ClusterError, UsageError, WrongTypeError
from blocklinear.memory import default_budget
from blocklinear.numerals import counted
from blocklinear.store.files import temporary_folder

_LOCAL = re.compile(r"local:([1-9][0-9]{0,3})")
_CONNECT_S = 30
_STARTED_S = 60
DASK_BYTES = 90 << 20
"""What Dask takes on a worker, before any data (measured)."""
_ENVIRONMENT = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
"""Of workers, as Dask has it, but for memory that is given back to the system at once: there arrays
come from fresh pages each time (writing a block takes four times as long)."""
_HIDDEN = {"dashboard_address": "127.0.0.1:0"}
"""Of a scheduler or worker whose server of HTTP is not to be reached from outside."""
_LOGS = (
    "distributed.client", "distributed.comm", "distributed.core", "distributed.scheduler",
    "asyncio", "tornado.application",
)  # fmt: skip
_FROZEN_S = "30s"
"""A worker that has not been heard of for so long is taken for dead."""


def n_local_workers(where: str) -> int | None:
    """Return N of ``local:N``, None of an address.

    UsageError is raised if it is neither.
    """
    match = _LOCAL.fullmatch(where)
    if match:
        return int(match[1])
    if where.startswith("local") or ":" not in where:
        raise UsageError(
            f"--dask {where}: is neither an address nor local:N",
            "give tcp://HOST:PORT of a scheduler, or local:4 for four processes on this machine",
        )
    return None


@contextlib.contextmanager
def connected(
    where: str,
    meanwhile: Callable[[], object] = lambda: None,
    preload: str = "blocklinear.cluster.worker",
    inside: bool = True,
) -> Iterator[Any]:
    """Yield a client of the cluster at an address, or of ``local:N`` workers made for it.

    UsageError is raised if Dask is missing, or `where` is neither; ClusterError if nothing answers
    there.

    Parameters
    ----------
    meanwhile : callable      called before: processes start during the call
    preload : str             module that such processes have imported
    inside : bool             whether the only worker of ``local:1`` may be a thread of this
                              process. Its tasks must end when they are no longer needed, as nobody
                              can kill them; and its memory is that of all
    """
    n_workers = n_local_workers(where)
    if n_workers is not None:
        with _local(n_workers, preload, inside and n_workers == 1, meanwhile) as client:
            yield client
        return
    distributed = import_distributed()
    try:
        client = distributed.Client(where, timeout=_CONNECT_S, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ClusterError(
            f"no scheduler answers at {where}: {error}",
            "start one with `dask scheduler`, and workers with `dask worker ADDRESS`",
        ) from error
    with _silent_logs(), client:
        meanwhile()
        yield client


@contextlib.contextmanager
def _silent_logs() -> Iterator[None]:
    """Let Dask print no tracebacks of a cluster that is lost: what that means is said once."""
    logs = [logging.getLogger(name) for name in _LOGS]
    levels = [log.level for log in logs]
    for log in logs:
        log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for log, level in zip(logs, levels, strict=True):
            log.setLevel(level)


def run_on_workers(client: Any, function: Callable[..., object], *arguments: Any) -> None:
    """Call a function on each worker, which work does as well without."""
    with contextlib.suppress(Exception):
        client.run(function, *arguments, on_error="ignore")


def import_distributed() -> Any:
    """Return Dask's package.

    UsageError is raised if it is not installed.
    """
    try:
        import distributed
    except ImportError as error:
        raise UsageError(
            "training on several machines needs Dask", "pip install 'blocklinear[dask]'"
        ) from error
    return distributed


@contextlib.contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Block SIGINT: Ctrl-C is for the command, which then ends its processes one after the other.

    Otherwise it would end all processes of the terminal at once, and Dask wait for them.
    """
    resource_tracker.ensure_running()  # a process that would allow it again when it starts
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _signals_put_off() -> Iterator[None]:
    """Let signals that end the command wait: a client that is half made cannot be closed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    names = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {name: signal.signal(name, lambda number, _: came.append(number)) for name in names}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler or signal.SIG_DFL)
        for number in came[:1]:
            signal.raise_signal(number)


@contextlib.contextmanager
def _local(
    n_workers: int, preload: str, inside: bool, meanwhile: Callable[[], object]
) -> Iterator[Any]:
    """Start workers that nobody reaches from outside; they end with the block.

    They are a thread of this process, or processes. The latter are not waited for at the end.
    """
    with contextlib.ExitStack() as stack:
        if not inside:
            stack.enter_context(_forked(preload))
        distributed = import_distributed()
        stack.enter_context(_silent_logs())  # only now: Dask sets its levels when it is imported
        import dask

        folder = str(stack.enter_context(temporary_folder()))
        stack.enter_context(
            dask.config.set(
                {
                    "temporary-directory": folder,
                    "distributed.scheduler.worker-ttl": _FROZEN_S,
                    "distributed.admin.log-length": 0,
                    "distributed.admin.tick.interval": "1s",
                    "distributed.worker.multiprocessing-method": None,  # that of `_forked`
                    "distributed.worker.profile.enabled": False,
                    "distributed.nanny.pre-spawn-environ": {},
                }
            )
        )
        with _signals_put_off():
            with (
                _interrupts_blocked()
            ):  # in threads that start here, and so in processes they start
                cluster = stack.enter_context(
                    distributed.LocalCluster(
                        n_workers=int(inside),
                        threads_per_worker=max(len(os.sched_getaffinity(0)) // n_workers, 1),
                        processes=not inside,
                        host=None if inside else "127.0.0.1",
                        dashboard_address=None,
                        scheduler_kwargs=_HIDDEN,
                        worker_class=_thread_class(distributed) if inside else None,
                        memory_limit=None,
                        local_directory=folder,
                        silence_logs="CRITICAL",
                    )
                )
            if not inside:
                cluster.scale(n_workers)
        meanwhile()
        with _signals_put_off():
            client = stack.enter_context(distributed.Client(cluster, set_as_default=False))
        try:
            client.wait_for_workers(n_workers, timeout=_STARTED_S)
        except TimeoutError as error:
            raise ClusterError(
                f"{counted(n_workers, 'process has', 'processes have')} not started in "
                f"{_STARTED_S} seconds",
                "give --dask local:N with a smaller N",
            ) from error
        yield client


def _thread_class(distributed: Any) -> type:
    """Return the class of a worker of this process, which would otherwise serve its network."""

    class Hidden(distributed.Worker):  # type: ignore[misc]
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options | _HIDDEN)

    return Hidden


@contextlib.contextmanager
def _forked(preload: str) -> Iterator[None]:
    """Let processes start as forks of one that has imported what they need.

    It imports that while this process imports Dask. A run with four workers takes 2.6 seconds of
    processor time so, and 6.2 where each of them imports it.

    Parameters
    ----------
    preload : str             the module
    """
    before = multiprocessing.get_start_method(allow_none=True)
    environment = {name: os.environ.get(name) for name in _ENVIRONMENT}
    multiprocessing.set_start_method("forkserver", force=True)
    try:
        multiprocessing.set_forkserver_preload(["distributed", preload])
        os.environ.update(_ENVIRONMENT)
        with _interrupts_blocked():
            forkserver.ensure_running()
    finally:
        for name, value in environment.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value
    try:
        yield
    finally:
        multiprocessing.set_start_method(before, force=True)


def check_versions(client: Any) -> None:
    """Refuse workers that have other versions than this process of what results depend on.

    Tasks go to any of them, and are done again by another: parts would not fit each other, or a
    model have other bits than it has on one machine.

    Raises ClusterError.
    """
    import numba
    import numpy

    import blocklinear

    for module in (blocklinear, numba, numpy):
        version, name = module.__version__, module.__name__
        try:
            found = client.run(getattr, module, "__version__", on_error="return")
        except (OSError, TimeoutError, CancelledError) as error:
            raise _no_answer(error) from error
        for address, there in sorted(found.items()):
            if there == version or isinstance(there, OSError | CancelledError):  # or it has died
                continue
            has = f"{name} {there}" if isinstance(there, str) else f"no {name} ({there})"
            raise ClusterError(
                f"worker {address} has {has}, and this process {name} {version}",
                "install the same versions of blocklinear, numba and numpy everywhere",
            )


def check_client(client: Any) -> None:
    """Refuse what is no client, as the address of a scheduler.

    WrongTypeError is raised then; ClusterError if the client is closed.
    """
    if not callable(getattr(client, "scheduler_info", None)):  # a LocalCluster has facts there
        raise WrongTypeError(
            f"client is {described(client)}, but must be a distributed.Client",
            'give distributed.Client("tcp://HOST:PORT")',
        )
    if client.status in ("closing", "closed"):
        raise ClusterError("the client is closed", "make another one")


def budget_of_worker(client: Any) -> int:
    """Return half of the memory that each worker of a cluster has at least, in bytes.

    Those of one machine share its memory; a limit that Dask keeps a worker to counts, too.

    ClusterError is raised if there is no worker, or one with other versions.
    """
    check_versions(client)
    try:
        budgets = client.run(default_budget, on_error="ignore")
        limits = client.run(_limit_by_dask, on_error="ignore")
    except (OSError, TimeoutError) as error:
        raise _no_answer(error) from error
    if not budgets:
        raise ClusterError("the cluster has no workers", "start some with `dask worker ADDRESS`")
    hosts = Counter(_host(address) for address in budgets)
    shares = [budget // hosts[_host(address)] for address, budget in budgets.items()]
    shares += [limit // 2 for limit in limits.values() if limit]
    least: int = min(shares)
    return max(least >> 20, 1) << 20


def _no_answer(error: BaseException) -> ClusterError:
    return ClusterError(f"the scheduler does not answer: {error}", "start it again")


def _limit_by_dask(dask_worker: Any) -> int:
    """Return the limit of the worker that `Client.run` gives by this name, 0 for none."""
    return int(dask_worker.memory_manager.memory_limit or 0)


def _host(address: str) -> str:
    """Return the machine in ``tcp://HOST:PORT``, or all of an address of this process."""
    return address.rpartition(":")[0] if address.startswith("t") else "here"
