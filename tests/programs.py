"""Programs in processes of their own.

No test may depend on how fast they are, nor on what was compiled before.
"""

import contextlib
import io
import json
import subprocess
import sys

from blocklinear.cli.compiling import COMPILING, say_that_it_compiles

COMMAND = [sys.executable, "-m", "blocklinear"]
GUARD_S = 1800
"""A program that takes longer hangs: a thousand times what it takes on an idle machine."""


def said(err):
    """Return what a program printed on stderr, less what it says if kernels are not compiled."""
    text = err.decode() if isinstance(err, bytes) else err
    return text.replace(f"{COMPILING}\n", "")


def outers(log):
    """Return the outer iterations in a run log."""
    events = [json.loads(line) for line in log.read_text().splitlines() if line]
    return [event for event in events if event["event"] == "outer"]


def have_said_that_it_compiles():
    """Keep this process from saying so, which it does once, if kernels are not compiled."""
    with contextlib.redirect_stderr(io.StringIO()):
        say_that_it_compiles()


def run(command, **how):
    """Run a program to its end; return it, with its streams as text, stderr as `said` has it."""
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | how
    command = [*map(str, command)]
    done = subprocess.run(command, **({"check": False, "timeout": GUARD_S} | streams))
    out = None if done.stdout is None else done.stdout.decode()
    err = None if done.stderr is None else said(done.stderr)
    return subprocess.CompletedProcess(command, done.returncode, out, err)


def blocklinear(*arguments, **how):
    """Run the program; see `run`."""
    return run([*COMMAND, *arguments], **how)
