"""Tasks of all parts on Dask's workers, and one result of them: whatever dies meanwhile."""

import contextlib
import inspect
import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import CancelledError
from typing import Any, TypeVar

from blocklinear.cluster.connect import check_versions
from blocklinear.cluster.job import Job
from blocklinear.errors import BlocklinearError, ClusterError
from blocklinear.solvers.protocol import Abandoned

POLL_S, ASK_S = 0.2, 5.0
"""Seconds between looks at whether to stop, and between questions to the scheduler."""
NO_WORKERS_S = 40.0
"""Seconds without a single worker after which a run ends: those that died are back by then."""
ATTEMPTS = 5
"""Times that a round is tried again where workers die: each costs a round at most."""
T = TypeVar("T")
_RESUME = "give the same command with --resume to go on from the last round"


class Engine:
    """Runs a function for every part, adds up what it returns, and waits for that.

    Parameters
    ----------
    client : distributed.Client
    name : str                of the run, in the names of tasks
    again : str               what to do where the cluster is gone

    Attributes
    ----------
    name : str
    n_workers : int           most workers seen so far
    """

    def __init__(self, client: Any, name: str, again: str = _RESUME) -> None:
        self._client, self.name, self._again, self._tasks = client, name, again, 0
        known = inspect.signature(client.scheduler_info).parameters
        self._all = {"n_workers": -1} if "n_workers" in known else {}  # newer ones list five
        self.n_workers = 0
        self._find_workers()

    def _find_workers(self) -> None:
        """Note the addresses of the workers, in a fixed order; none if nobody answers."""
        self._workers: list[str] = []
        with contextlib.suppress(OSError, TimeoutError):
            self._workers = sorted(self._client.scheduler_info(**self._all)["workers"])
        self.n_workers = max(self.n_workers, len(self._workers))

    def submit(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Return the future of a task, which runs once more if its worker dies."""
        self._tasks += 1
        key = f"{function.__name__}-{self.name}-{self._tasks}"
        return self._client.submit(function, *arguments, key=key, pure=False, **options)

    def sum_of_parts(
        self,
        work: Callable[..., T],
        job: Job,
        at: Any,
        add: Callable[[T, T], T],
        halt: Callable[[], bool],
        needs: Callable[[bool], Sequence[Any]],
    ) -> T:
        """Return what the tasks of all parts return, added up on the workers in order of number.

        Parameters
        ----------
        work : callable           task of a part, of `job`, where it is `at`, the number of the
                                  part, and what all parts need
        add : callable            returns the sum of two neighbours
        halt : callable           asked all the time: if it returns true, all is given up
        needs : callable          submits what all parts need, and returns its futures. It is called
                                  again, with True, if an attempt fails

        Raises
        ------
        Abandoned
            If `halt` returned true.
        ClusterError
            If the cluster is gone, or lost too many workers.
        BlocklinearError
            Whatever a task has raised.
        """
        for attempt in range(1, ATTEMPTS + 1):
            self._find_workers()
            try:
                shared = needs(attempt > 1)
                parts = sums = [
                    self.submit(work, job, at, number, *shared, **self._placed(number))
                    for number in range(job.n_parts)
                ]
                while len(sums) > 1:
                    pairs = zip(sums[::2], sums[1::2], strict=False)
                    sums = [self.submit(add, *pair) for pair in pairs] + sums[len(sums) & ~1 :]
                found: T = self._result(sums[0], halt)
                return found
            except Abandoned:
                self.cancel(parts)  # those that have begun end when the run does
                raise
            except Exception as error:
                if not self.is_of_cluster(error):
                    raise
                if attempt == ATTEMPTS or self._client.status != "running":
                    raise ClusterError(
                        f"the cluster has lost the work of a round: {_text(error)}", self._again
                    ) from error
        raise AssertionError("every attempt returns or raises")

    def _placed(self, number: int) -> dict[str, Any]:
        """Return where the task of a part is to run: in turn, or elsewhere if that worker dies."""
        if not self._workers:
            return {}
        worker = self._workers[number % len(self._workers)]
        return {"workers": [worker], "allow_other_workers": True}

    def _result(self, future: Any, halt: Callable[[], bool]) -> Any:
        """Wait for a task, as long as there is a cluster that can run it."""
        done = threading.Event()
        future.add_done_callback(lambda _: done.set())
        watch = self.watch(halt)
        while not done.wait(POLL_S):
            watch()
        return future.result(timeout=NO_WORKERS_S)

    def watch(self, halt: Callable[[], bool]) -> Callable[[], None]:
        """Return what is to be called again and again, and raises an error if there is no hope.

        Abandoned is raised if `halt` returned true; ClusterError if the scheduler is gone, or there
        have been no workers for a while.
        """
        seen = asked = time.monotonic()

        def look() -> None:
            nonlocal seen, asked
            if halt():
                raise Abandoned
            if self._client.status != "running":
                raise ClusterError("the scheduler of the cluster is gone", self._again)
            if time.monotonic() - asked < ASK_S:
                return
            asked = time.monotonic()
            self._find_workers()
            if self._workers:
                seen = asked
            elif asked - seen > NO_WORKERS_S:
                raise ClusterError(
                    f"the cluster has had no workers for {NO_WORKERS_S:.0f} seconds", self._again
                )

        return look

    def check_workers(self, fix: str, check: Callable[..., Any], *arguments: Any) -> None:
        """Refuse a cluster with a worker of other versions, or on which `check` raises an error.

        One that dies meanwhile is left out.

        Raises ClusterError.
        """
        self.await_workers()
        check_versions(self._client)
        for address, error in sorted(self._on_each_worker(check, *arguments).items()):
            if error is not None and not self.is_of_cluster(error):  # which others make up for
                raise ClusterError(
                    f"worker {address} cannot work on the store: {_text(error)}", fix
                )

    def is_of_cluster(self, error: BaseException) -> bool:
        """Return whether an error is not one of the work, but of the cluster that did it."""
        from distributed import KilledWorker
        from distributed.comm.core import CommClosedError

        if isinstance(error, BlocklinearError | Abandoned):
            return False
        of_cluster = (
            KilledWorker, CommClosedError, CancelledError, TimeoutError, ConnectionAbortedError,
        )  # fmt: skip
        return isinstance(error, of_cluster) or self._client.status != "running"

    def await_workers(self) -> None:
        """Wait until there is a worker, for a while.

        Raises ClusterError.
        """
        if self._workers:
            return
        try:
            self._client.wait_for_workers(1, timeout=NO_WORKERS_S)
        except TimeoutError as error:
            raise ClusterError(
                f"the cluster has had no workers for {NO_WORKERS_S:.0f} seconds",
                "start some with `dask worker ADDRESS`",
            ) from error
        self._find_workers()

    def _on_each_worker(self, function: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
        """Return what a function returns, or the error it raises, on each worker by address."""
        try:
            found: dict[str, Any] = self._client.run(function, *arguments, on_error="return")
        except (OSError, TimeoutError, CancelledError) as error:
            raise ClusterError(
                f"the scheduler does not answer: {_text(error)}", self._again
            ) from error
        return found

    def cancel(self, futures: Collection[Any]) -> None:
        """Take back tasks, as far as there is a cluster and they have not begun."""
        if futures and self._client.status == "running":
            with contextlib.suppress(Exception):
                self._client.cancel(list(futures), force=True)

    def end(self, forget: Callable[..., Any], name: str) -> None:
        """End tasks of a run, and free what it keeps on the workers, as far as there are any."""
        if self._client.status == "running":
            with contextlib.suppress(Exception):
                self._client.run(forget, name, on_error="ignore")


def _text(error: BaseException) -> str:
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
