"""Commands in processes of their own that start at once: forked from one that has loaded all.

Run as a script, it forks a command for every line of stdin, a JSON list of its arguments, of the
signals that it sends itself (see steps.py: a prefix, a step and the signal's number), of the
largest size its files may have, or null, and of the folder it starts in. It answers with a line: a
JSON list of the exit status and of what the command printed on stderr.
"""

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path


class Starter:
    """Runs commands, one at a time."""

    def __init__(self):
        self._server = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, *arguments, signals=(), file_bytes=None, cwd="."):
        """Run a command; return its exit status and its stderr.

        The status is minus the number of the signal it died of, if it did.
        """
        sent = [[str(prefix), at, number] for prefix, at, number in signals]
        request = [[str(argument) for argument in arguments], sent, file_bytes, str(cwd)]
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        return tuple(json.loads(self._server.stdout.readline()))

    def close(self):
        self._server.communicate()


def warm_up(main):
    """Train a little, so that all it takes is loaded."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "rows").write_text("1 1:1\n-1 1:2\n1 2:1\n")
        main(["split", f"{folder}/rows", f"{folder}/store", "--blocks", "3", "-q"])
        for flags in (["--group", "1"], ["--group", "1", "--method", "pegasos"]):
            main(["train", f"{folder}/store", f"{folder}/model", *flags, "-q"])


def status_of(main, arguments):
    """Run a command to its end, whatever that is."""
    try:
        return main(arguments)
    except BaseException:
        traceback.print_exc()
        return 99


def serve():
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from programs import have_said_that_it_compiles
    from steps import Steps, watch

    from blocklinear.cli.main import main

    signal.signal(signal.SIGINT, signal.default_int_handler)  # also if started in the background
    have_said_that_it_compiles()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_RDWR), 1)
    warm_up(main)
    for line in sys.stdin:
        arguments, signals, file_bytes, cwd = json.loads(line)
        with tempfile.TemporaryFile() as errors:
            process = os.fork()
            if process == 0:
                os.dup2(errors.fileno(), 2)
                os.chdir(cwd)
                if file_bytes is not None:
                    resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
                if signals:
                    watch(*(Steps(*one) for one in signals))
                os._exit(status_of(main, arguments))
            ended = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
            errors.seek(0)
            print(json.dumps([ended, errors.read().decode()]), file=answers, flush=True)


if __name__ == "__main__":
    serve()
