"""Python blocks of pages in processes of their own, forked from one that has loaded much.

A new interpreter takes a second to load scikit-learn alone, and there are dozens of blocks.
"""

import multiprocessing
import os

from programs import GUARD_S

_LOADED = [
    "blocklinear.estimators", "pandas", "sklearn.calibration", "sklearn.feature_extraction.text",
    "sklearn.linear_model", "sklearn.model_selection", "sklearn.pipeline",
]  # fmt: skip
_context = multiprocessing.get_context("forkserver")


def run_python(text, folder, printed):
    """Run a block in a folder; return its exit status. What it prints goes to a file."""
    _context.set_forkserver_preload(_LOADED)  # where it runs already, this has no effect
    process = _context.Process(target=_run, args=(text, str(folder), str(printed)))
    process.start()
    process.join(GUARD_S)
    process.kill()
    return process.exitcode


def _run(text, folder, printed):
    stream = os.open(printed, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    for number in (1, 2):
        os.dup2(stream, number)
    os.chdir(folder)
    exec(compile(text, "block", "exec"), {"__name__": "__main__"})
