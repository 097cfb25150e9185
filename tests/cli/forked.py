"""Commands in processes of their own that start at once: forked from one that has loaded all.

Run as a script, it forks a command for every line of stdin, a JSON list of its arguments, of the
signals that it sends itself (see steps.py: a prefix, a step and the signal's number), of the
largest size its files may have, or null, and of the folder it starts in. It answers with a line: a
JSON list of the exit status and of what the command printed on stderr.

It also forks one for every message to the socket that its argument names: a JSON list of its
arguments, of its folder, and of the numbers that its files have, with these files. The answer is
the exit status.
"""

import contextlib
import fcntl
import json
import os
import resource
import secrets
import select
import socket
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

_OUT_OF_THE_WAY = 300  # of the descriptors that a command has
_PROGRAM = f"""\
#!{sys.executable} -SE
import json, os, socket, sys
files = [int(name) for name in os.listdir("/proc/self/fd")]
files = [file for file in files if os.path.lexists(f"/proc/self/fd/{{file}}")]  # not of the list
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
    server.connect(bytes.fromhex("ADDRESS"))
    message = json.dumps([sys.argv[1:], os.getcwd(), files]).encode()
    socket.send_fds(server, [message], files)
    sys.exit(int(server.recv(9) or 70))
"""


class Starter:
    """Runs commands, one at a time, or has a program that does."""

    def __init__(self):
        self._address = b"\0" + secrets.token_hex(8).encode()
        self._server = subprocess.Popen(
            [sys.executable, __file__, self._address.hex()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._server.stdout.readline()  # it listens

    def write_program(self, path):
        """Write a program that runs its arguments as a command, with the files that it has."""
        path.write_text(_PROGRAM.replace("ADDRESS", self._address.hex()))
        path.chmod(0o755)

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


def take_over(client):
    """Take the files of who asks, and the folder; return the arguments."""
    message, received, *_ = socket.recv_fds(client, 1 << 16, 250)
    arguments, cwd, numbers = json.loads(message)
    moved = [fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, _OUT_OF_THE_WAY) for file in received]
    os.closerange(0, _OUT_OF_THE_WAY)
    for file, number in zip(moved, numbers, strict=True):
        os.dup2(file, number)
        os.close(file)
    os.chdir(cwd)
    return arguments


def answer(main, client):
    """Run the command that somebody asks for, and leave."""
    client = socket.socket(fileno=fcntl.fcntl(client, fcntl.F_DUPFD_CLOEXEC, _OUT_OF_THE_WAY))
    try:
        status = main(take_over(client))
    except SystemExit as leaving:
        status = leaving.code
    except BaseException:
        traceback.print_exc()
        status = 99
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    client.send(str(status).encode())
    os._exit(status)


def requests(listening):
    """Yield every line of stdin, and every client that connects."""
    ready = select.poll()
    ready.register(sys.stdin, select.POLLIN | select.POLLHUP)
    ready.register(listening, select.POLLIN)
    while True:
        for file, _ in ready.poll():
            if file == listening.fileno():
                yield listening.accept()[0]
            elif line := sys.stdin.readline():
                yield line
            else:
                return


def serve(address):
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from programs import have_said_that_it_compiles
    from steps import Steps, watch

    from blocklinear.cli.main import main

    have_said_that_it_compiles()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_RDWR), 1)
    warm_up(main)
    listening, children = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET), []
    listening.bind(address)
    listening.listen()
    print("listening", file=answers, flush=True)
    for request in requests(listening):
        children = [child for child in children if os.waitpid(child, os.WNOHANG) == (0, 0)]
        if isinstance(request, socket.socket):
            children.append(os.fork())
            if children[-1] == 0:
                answer(main, request)
            request.close()
            continue
        arguments, signals, file_bytes, cwd = json.loads(request)
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
    serve(bytes.fromhex(sys.argv[1]))
