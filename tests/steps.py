"""Signals that a process sends itself at a given one of the things it does to files.

So a test kills a process at the same place on any machine, however fast that is.
"""

import itertools
import os
import signal
import sys
import threading

_EVENTS = {
    "open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.listdir", "os.scandir",
    "os.truncate", "os.link", "os.symlink",
}  # fmt: skip
_METHODS = {"write", "truncate", "flush", "__exit__"}  # of a file that was opened by its path


class Steps:
    """Counts what is done to paths that begin with `prefix`; sends a signal before step `at`.

    `prefix` may be a tuple of some.
    The first step is number 0. Of reading, only opening counts.
    """

    def __init__(self, prefix, at=None, number=signal.SIGKILL):
        self.count, self._numbers = 0, itertools.count()
        self._at, self._number = at, number
        self._prefix = prefix if isinstance(prefix, tuple) else os.fspath(prefix)

    def see(self, path):
        if isinstance(path, str | os.PathLike) and os.fspath(path).startswith(self._prefix):
            step = next(self._numbers)
            self.count = step + 1
            if step == self._at:
                os.kill(os.getpid(), self._number)


def watch(*counters):
    """Let these `Steps` see what this process does to files, from now to its end."""

    def see(path):
        for counter in counters:
            counter.see(path)

    def audit(event, arguments):
        if event in _EVENTS:
            see(arguments[0])

    def profile(frame, event, function):
        if event == "c_call" and function.__name__ in _METHODS:
            see(getattr(getattr(function, "__self__", None), "name", None))

    def fsync(descriptor):  # a process that is killed loses nothing without it
        see(os.readlink(f"/proc/self/fd/{descriptor}"))

    os.fsync = fsync
    sys.addaudithook(audit)
    threading.setprofile(profile)
    sys.setprofile(profile)
