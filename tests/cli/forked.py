"""Commands in processes of their own that start at once: forked from one that has loaded all.

Run as a script, it forks a command for every line of stdin, a JSON list of its arguments and of the
processor seconds after which it is killed or null, and answers with a line that says how it ended.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path


class Starter:
    """Runs commands, one at a time."""

    def __init__(self):
        self._server = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, *arguments, kill_after_s=None):
        """Run a command; return its exit status, or minus the number of the signal it died of."""
        request = [[str(argument) for argument in arguments], kill_after_s]
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        return int(self._server.stdout.readline())

    def close(self):
        self._server.communicate()


def warm_up(main):
    """Train a little, so that all it takes is loaded."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "rows").write_text("1 1:1\n-1 1:2\n1 2:1\n")
        main(["split", f"{folder}/rows", f"{folder}/store", "--blocks", "3", "-q"])
        for flags in (["--group", "1"], ["--group", "1", "--method", "pegasos"]):
            main(["train", f"{folder}/store", f"{folder}/model", *flags, "-q"])


def serve():
    from blocklinear.cli.main import main

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_RDWR), 1)
    warm_up(main)
    for line in sys.stdin:
        arguments, kill_after_s = json.loads(line)
        process = os.fork()
        if process == 0:
            # of processor time, so that a busy machine does not change how far it comes; and as
            # nothing handles SIGPROF, it ends the process as SIGKILL does
            signal.setitimer(signal.ITIMER_PROF, kill_after_s or 0)
            os._exit(main(arguments))
        ended = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        print(ended, file=answers, flush=True)


if __name__ == "__main__":
    serve()
