"""Tasks on workers, each of which is done again where its worker dies."""

import threading
from collections.abc import Callable
from typing import Any

from blocklinear.cluster.engine import ATTEMPTS, NO_WORKERS_S, POLL_S, Engine
from blocklinear.errors import ClusterError
from blocklinear.numerals import counted


class Task:
    """A task that was handed to the cluster; see `Tasks.submit`.

    Parameters
    ----------
    submit : callable         hands it over, and returns its future
    """

    def __init__(self, submit: Callable[[], Any], engine: Engine) -> None:
        self._submit, self._engine = submit, engine
        self._attempts, self.future = 1, submit()
        self._value: Any = None
        self._error: BaseException | None = None
        self._ended = False

    def ended(self) -> bool:
        """Return whether there is a result, or an error that is not the cluster's."""
        if self._ended or not self.future.done():
            return self._ended
        try:
            self._value = self.future.result(timeout=NO_WORKERS_S)
        except Exception as error:
            if self._engine.is_of_cluster(error) and self._attempts < ATTEMPTS:
                self._attempts += 1
                self.future = self._submit()
                return False
            self._error = error
        self._ended, self.future = True, None
        return True

    @property
    def failed(self) -> bool:
        """Whether it has ended with an error."""
        return self._error is not None

    def result(self) -> Any:
        """Return what the function has returned; `ended` has returned true.

        Raises
        ------
        ClusterError
            If its workers have died again and again.
        BlocklinearError
            Whatever it has raised.
        """
        if self._error is None:
            return self._value
        if self._engine.is_of_cluster(self._error):
            raise ClusterError(
                f"the cluster has lost the work of a task {counted(self._attempts, 'time')}: "
                f"{type(self._error).__name__}",
                "see why its workers die (the memory they may take?), and give the command again",
            ) from self._error
        raise self._error


class Tasks:
    """Hands tasks to the cluster.

    Parameters
    ----------
    halt : callable           asked all the time: if it returns true, all is given up
    """

    def __init__(self, engine: Engine, halt: Callable[[], bool] = lambda: False) -> None:
        self._engine, self._changed = engine, threading.Event()
        self._watch = engine.watch(halt)
        self._under_way: set[Task] = set()

    def submit(self, function: Callable[..., Any], *arguments: Any, priority: int = 0) -> Task:
        """Hand over a task; of those that wait, the ones of larger priority are done first."""

        def begin() -> Any:
            future = self._engine.submit(function, *arguments, priority=priority)
            future.add_done_callback(lambda _: self._changed.set())
            return future

        self._under_way = {task for task in self._under_way if task.future is not None}
        task = Task(begin, self._engine)
        self._under_way.add(task)
        return task

    def wait(self) -> None:
        """Wait until some task ends, but not for long.

        ClusterError is raised if the cluster is gone.
        """
        self._changed.wait(POLL_S)
        self._changed.clear()
        self._watch()

    def cancel(self) -> None:
        """Take back all tasks that are under way."""
        self._engine.cancel([task.future for task in self._under_way if task.future is not None])
