"""The script of how-to/nightly-retraining.md does what the page says."""

import gzip
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
from datetime import date, timedelta

import programs
import pytest
from report.pages import Page

from blocklinear.store.store import BlockStore

from .pages import blocks_of, read

FIRST = date(2026, 2, 26)  # the window goes over the end of a month
COMMANDS = ["add", "remove", "train", "gc", "predict", "report"]
PROGRAM = f"""\
#!{sys.executable} -SE
import json, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect(bytes.fromhex("ADDRESS"))
    server.sendall((json.dumps(sys.argv[1:]) + "\\n").encode())
    status, text = json.loads(server.makefile().readline())
sys.stderr.write(text)
sys.exit(status)
"""


def script_of_page():
    """Return the script as the page shows it."""
    blocks = blocks_of(read("docs/how-to/nightly-retraining.md"))
    (found,) = [block.text for block in blocks if block.text.startswith("#!/bin/sh\n# slide.sh")]
    return found


def rows(seed):
    return "".join(
        f"{1 if i % 3 else -1} {1 + i % 5}:{(i * 7 + seed) % 11 / 10} 6:{(seed + i) % 13}\n"
        for i in range(40)
    )


class Window:
    """A folder with slide.sh in it, text of some days, and `blocklinear` on the path.

    The commands of the script are run by `serve`, in processes that start at once.
    """

    def __init__(self, folder, starter):
        self.folder, self.store, self._starter = folder, folder / "store", starter
        script = folder / "slide.sh"
        script.write_text(script_of_page())
        program = folder / "bin" / "blocklinear"
        program.parent.mkdir()
        self._address = b"\0" + secrets.token_hex(8).encode()
        program.write_text(PROGRAM.replace("ADDRESS", self._address.hex()))
        for path in (script, program):
            path.chmod(0o755)
        self._fail = ""
        self._commands = []
        (folder / "tomorrow.svm").write_text(rows(99))

    def serve(self, listening):
        """Run the commands that come, until somebody hangs up without one."""
        while True:
            with listening.accept()[0] as client, client.makefile("rw") as stream:
                line = stream.readline()
                if not line:
                    return
                arguments = json.loads(line)
                self._commands.append(arguments[0])
                status, text = 6, ""
                if self._fail != f"before {arguments[0]}":
                    signals = []
                    if self._fail == f"stopped in {arguments[0]}":
                        signals = [(self.store / "runs", 2, signal.SIGTERM)]
                    status, text = self._starter.run(*arguments, signals=signals, cwd=self.folder)
                if self._fail == f"after {arguments[0]}":
                    status = 6
                stream.write(json.dumps([status, text]) + "\n")

    def slide(self, *arguments, fail=""):
        """Run the script; return the commands it gave. It must fail if a command is to."""
        self._fail, self._commands = fail, []
        path = f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(self._address)
            listening.listen()
            server = threading.Thread(target=self.serve, args=[listening])
            server.start()
            try:
                command = [self.folder / "slide.sh", *arguments]
                done = programs.run(command, cwd=self.folder, env=os.environ | {"PATH": path})
            finally:
                with socket.socket(socket.AF_UNIX) as end:
                    end.connect(self._address)
                server.join()
        status = 143 if fail.startswith("stopped") else 6 if fail else 0
        assert done.returncode == status, done.stderr
        assert "Traceback" not in done.stderr
        return self._commands

    def write(self, day):
        (self.folder / f"{day}.svm.gz").write_bytes(
            gzip.compress(rows(day.toordinal()).encode(), mtime=0)
        )

    def batches(self):
        store = BlockStore.open(self.store)
        assert store.verify().faults == []
        assert store.manifest.removed == []
        assert store.manifest.n_rows == 40 * len(store.manifest.batches)
        return [batch["name"] for batch in store.manifest.batches]


@pytest.fixture
def window(tmp_path, starter):
    command = ["date", "-d", "2026-03-01 7 days ago", "+%F"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.stdout != "2026-02-22\n":
        pytest.skip("needs GNU date")
    return Window(tmp_path, starter)


def test_slide_from_an_empty_folder(window):
    """Its first weeks, some days given twice, some missing."""
    kept = {0: [0], 1: [0, 1], 7: [1, 7], 15: [15]}
    for number, left in kept.items():
        day = FIRST + timedelta(days=number)
        window.write(day)
        assert window.slide(day) == ["add" if number else "split", *COMMANDS[1:]]
        report = Page((window.folder / f"report-{day}.html").read_text())
        assert report.facts()["rows"] == str(40 * len(left))
        assert "Converged" in report.text
        warm = report.facts()["warm start"]
        assert warm.startswith("from an earlier run" if number else "asked for, but there was no")
        expected = [str(FIRST + timedelta(days=k)) for k in left]
        assert window.batches() == expected
        if number in (0, 7):
            (window.folder / "labels").unlink()
            assert window.slide(day) == COMMANDS
            assert window.batches() == expected
            assert (window.folder / "labels").read_text().count("\n") == 40


def test_slide_again_after_a_failure_on_the_first_day(window):
    window.write(FIRST)
    assert window.slide(FIRST, fail="before split") == ["split"]
    assert window.slide(FIRST, fail="after split") == ["split"]
    assert window.slide(FIRST) == COMMANDS
    assert window.batches() == [str(FIRST)]


@pytest.mark.parametrize(
    "fail", ["before add", "stopped in train", *(f"after {command}" for command in COMMANDS)]
)
def test_slide_again_after_a_failure(window, fail):
    """Wherever it ends, the next start finishes it."""
    old, new = FIRST, FIRST + timedelta(days=7)
    window.write(old)
    window.write(new)
    window.slide(old)
    assert window.slide(new, fail=fail)[-1] == fail.split()[-1]
    assert window.slide(new) == COMMANDS
    assert window.batches() == [str(new)]


def test_slide_takes_today(window):
    days = [date.today() + timedelta(days=k) for k in (0, 1)]  # midnight may come
    for day in days:
        window.write(day)
    window.slide()
    assert window.batches()[0] in map(str, days)
