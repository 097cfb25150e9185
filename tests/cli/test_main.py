import errno
import itertools
import os
import resource
import shlex
import signal
import subprocess
import sys
import threading

import numba
import programs
import pytest

from blocklinear.cli import main
from blocklinear.cli.stopper import Stopper

PROGRAM = "import sys; from blocklinear.cli.main import main; sys.exit(main())"


@pytest.fixture
def start():
    """Start the program; none outlives the test."""
    started = []

    def run(*arguments, **streams):
        command = [sys.executable, "-c", PROGRAM, *map(str, arguments)]
        process = subprocess.Popen(command, **({"stderr": subprocess.PIPE} | streams))
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


def finish(process):
    """Return the exit status and stderr."""
    _, err = process.communicate(timeout=programs.GUARD_S)
    return process.returncode, programs.said(err)


@pytest.mark.parametrize(
    ("name", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 143)]
)
def test_a_signal_stops_training(cli, start, store, tmp_path, name, status):
    endless = ["--method", "pegasos", "--gap", 1e-12, "--max-outer", 10**12, "--group", 1]
    process = start("train", store, tmp_path / "m", *endless, stdout=subprocess.DEVNULL)
    heard = itertools.takewhile(lambda line: line.split()[0] != b"4", process.stderr)
    assert [line.split()[0] for line in heard][-3:] == [b"1", b"2", b"3"]  # it is under way
    process.send_signal(name)
    found, err = finish(process)
    assert found == status
    assert "blocklinear: stopped in outer iteration " in err
    assert err.endswith(
        ": a checkpoint is saved\n  fix: give the same command with --resume to go on\n"
    )
    assert "Traceback" not in err
    assert not (tmp_path / "m").exists()
    assert (
        cli("train", store, tmp_path / "m", "-q", "--restart").status == 0
    )  # the store is free again


@pytest.fixture
def run_instead(monkeypatch):
    """Have every command do something else."""
    return lambda instead: monkeypatch.setattr(main, "_run", instead)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_what_is_ignored_at_the_start_stays_ignored(cli, run_instead, number):
    """As SIGHUP under nohup, and SIGINT in the background of a script."""

    def run(args):
        signal.raise_signal(number)
        with Stopper() as stopper:
            signal.raise_signal(number)
        return 7 if stopper.asked() else 0

    run_instead(run)
    before = signal.signal(number, signal.SIG_IGN)
    try:
        assert cli("info", "store").status == 0
        assert signal.getsignal(number) is signal.SIG_IGN
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_that_is_taken_for_a_failure(cli, run_instead, number, status):
    def run(args):
        try:
            signal.raise_signal(number)
        except BaseException:
            raise ImportError("so NumPy says") from None

    run_instead(run)
    done = cli("info", "store")
    assert done.status == status
    assert done.err == f"blocklinear: {'interrupted' if status == 130 else 'terminated'}\n"


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_where_exceptions_are_dropped(cli, run_instead, number, status):
    class Dropped:
        def __del__(self):
            signal.raise_signal(number)

    def run(args):
        [Dropped()].clear()
        threading.Event().wait(programs.GUARD_S)  # until the signal comes again
        return 7

    run_instead(run)
    done = cli("info", "store")
    assert done.status == status
    assert done.err == f"blocklinear: {'interrupted' if status == 130 else 'terminated'}\n"


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_while_the_program_starts(number, status):
    code = (
        "import runpy, signal, sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, *_):\n"
        f"        if name == 'argparse': signal.raise_signal({number:d})\n"
        "sys.meta_path.insert(0, Finder())\n"
        "runpy.run_module('blocklinear', run_name='__main__')\n"
    )
    done = programs.run([sys.executable, "-c", code])
    assert (done.returncode, done.stdout) == (status, "")
    assert done.stderr == f"blocklinear: {'interrupted' if status == 130 else 'terminated'}\n"


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_while_kernels_are_loaded(store, tmp_path, number, status):
    code = (
        "import signal, sys\n"
        "from blocklinear.cli.main import main\n"
        "from blocklinear.kernels.code import loader\n"
        "load = loader.load\n"
        "def signalled(*args, **names):\n"
        f"    signal.raise_signal({number:d})\n"
        "    return load(*args, **names)\n"
        "loader.load = signalled\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    done = programs.run([sys.executable, "-c", code, "train", store, tmp_path / "m", "--quiet"])
    assert (done.returncode, done.stdout) == (status, "")
    assert done.stderr == f"blocklinear: {'interrupted' if status == 130 else 'terminated'}\n"


def test_a_signal_while_reading_stdin_leaves_nothing(start, tmp_path):
    process = start(
        "split", "-", tmp_path / "s", stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, bufsize=0
    )
    line = b"1 1:1 2:2 3:3 4:4 5:5 6:6 7:7\n"
    for _ in range(40):  # more than a pipe holds: it is under way when this has been written
        process.stdin.write(line * 1000)
    process.send_signal(signal.SIGTERM)
    status, err = finish(process)
    assert status == 143
    assert "Traceback" not in err
    assert not (tmp_path / "s").exists()


def test_a_signal_while_training_waits_for_rows_to_score_on(start, store, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    process = start("train", store, tmp_path / "m", "--eval", pipe, stdout=subprocess.DEVNULL)
    with open(pipe, "wb"):  # waits for the reader, and writes nothing
        process.send_signal(signal.SIGINT)
        assert finish(process) == (130, "blocklinear: interrupted\n")
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("command", ["info", "verify"])
def test_a_reader_that_went_away(start, store, command):
    reading, writing = os.pipe()
    os.close(reading)
    process = start(command, store, stdout=writing)
    os.close(writing)
    assert finish(process) == (141, "")


def test_a_reader_that_went_away_loses_no_model(cli, start, store, tmp_path):
    reading, writing = os.pipe()
    os.close(reading)
    process = start("train", store, tmp_path / "m", "-q", stdout=writing)
    os.close(writing)
    assert finish(process) == (141, "")
    assert cli("info", tmp_path / "m").status == 0


def test_a_full_disk_under_stdout(start, store):
    with open("/dev/full", "wb") as full:
        status, err = finish(start("info", store, stdout=full))
    assert status == 6
    assert err.startswith("blocklinear: standard output: No space left on device\n  fix: ")


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_closed_streams(store, tmp_path, closed):
    shell = f'exec "$0" -c "$1" train "$2" "$3" {closed}'
    command = ["sh", "-c", shell, sys.executable, PROGRAM, store, tmp_path / "m"]
    done = programs.run(command)
    assert done.returncode == 0
    assert (tmp_path / "m").exists()
    assert done.stdout.count("\n") == (closed == "2>&-")  # the result, and no stray progress
    assert done.stdout.startswith("primal" if closed == "2>&-" else "")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    ("line", "status"),
    [
        (["--help"], 6),
        (["train", "--help"], 6),
        (["--version"], 6),
        (["info", "STORE"], 6),
        (["train", "STORE", "m", "-q"], 6),
        (["train", "STORE", "-", "-q"], 6),
        (["train", "STORE", "m", "-q", "--log", "-"], 6),
        (["liblinear", "train"], 1),
        (["liblinear", "train", "t.svm", "m"], 1),
        (["liblinear", "train", "t.svm", "/dev/stdout"], 1),
        (["check", "bad.svm"], 6),
    ],
    ids=str,
)
def test_lost_output_is_no_success(store, tmp_path, line, status, unbuffered):
    (tmp_path / "t.svm").write_text("1 1:1\n-1 2:1\n")
    (tmp_path / "bad.svm").write_text("x\n")
    restart = ["--restart"] if line[0] == "train" and line[1] == "STORE" else []
    how = {"cwd": tmp_path, "env": os.environ | {"PYTHONUNBUFFERED": unbuffered}}
    command = [store if word == "STORE" else word for word in line] + restart
    with open("/dev/full", "wb") as full:
        done = programs.blocklinear(*command, stdout=full, **how)
    assert done.returncode == status
    assert done.stderr.count("No space left on device") == 1
    assert "Exception" not in done.stderr
    reading, writing = os.pipe()
    os.close(reading)
    done = programs.blocklinear(*command, stdout=writing, **how)
    os.close(writing)
    assert done.returncode == 141
    assert "Exception" not in done.stderr


def test_running_as_a_module():
    done = programs.blocklinear("--version", check=True)
    assert done.stdout.startswith("blocklinear ")


@pytest.mark.parametrize("arguments", [[], ["unknown"], ["--unknown"]], ids=str)
def test_bad_usage(cli, arguments):
    done = cli(*arguments)
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("usage: blocklinear")


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("train '' m", "STORE"), ("split rows.svm ''", "STORE"), ("add '' rows.svm", "STORE"),
        ("info ''", "STORE|MODEL"), ("cv s --refit ''", "--refit"), ("train s ''", "MODEL"),
    ],
)  # fmt: skip
def test_an_empty_argument_is_no_path(cli, line, name):
    done = cli(*shlex.split(line))
    assert (done.status, done.out) == (2, "")
    assert done.err.endswith(f"error: argument {name}: it is empty\n")


@pytest.mark.parametrize(
    ("option", "name"), [("-c--", "-c"), ("--gap=--", "--gap"), ("--dask=--", "--dask")]
)
def test_two_dashes_are_no_value(cli, option, name):
    done = cli("train", "s", "m", option)
    assert (done.status, done.out) == (2, "")
    assert done.err == f"blocklinear: argument {name}: '--' is no value\n"


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (MemoryError(), 7, "out of memory\n  fix: "),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), 7, "out of memory\n  fix: "),
        (RuntimeError("can't start new thread"), 6, "the system starts no more threads\n  fix: "),
        (KeyboardInterrupt(), 130, "interrupted\n"),
        (PermissionError(13, "Permission denied", "place"), 6, "place: Permission denied\n"),
    ],
)
def test_other_errors_end_in_a_sentence(refused, store, monkeypatch, error, status, said):
    def fail(path):
        raise error

    monkeypatch.setattr("blocklinear.store.store.BlockStore.open", fail)
    assert refused(status, "info", store).startswith(f"blocklinear: {said}")


@pytest.mark.parametrize("error", [ImportError, SystemError])
def test_what_is_not_loaded_for_want_of_addresses(refused, store, monkeypatch, error):
    def fail(path):
        raise error

    monkeypatch.setattr("blocklinear.store.store.BlockStore.open", fail)
    monkeypatch.setattr("resource.getrlimit", lambda of: (300_000 << 10, -1))
    text = refused(7, "info", store)
    assert text.startswith("blocklinear: out of memory\n  fix: raise the limit of addresses")
    assert "300000" in text


@pytest.mark.parametrize("mebibytes", range(32, 104, 8))
@pytest.mark.parametrize("command", ["info", "verify"])  # without and with a thread beside it
def test_few_addresses(store, command, mebibytes):
    """With some of these, OpenBLAS would end the process as it is imported, with status 1."""
    limit = mebibytes << 20

    def allow():
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    done = programs.blocklinear(command, store, preexec_fn=allow)
    said = f"raise the limit of addresses (ulimit -v), which is {limit >> 10}, or "
    assert (done.returncode, done.stdout) == (7, "")
    assert done.stderr == f"blocklinear: out of memory\n  fix: {said}give a smaller --memory\n"


@pytest.mark.parametrize("imported", [False, True])
@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_one_file_too_many(refused, store, monkeypatch, number, imported):
    def fail(path):
        error = OSError(number, os.strerror(number), "place")
        if imported:
            raise ImportError("LLVM cannot be loaded") from error
        raise error

    monkeypatch.setattr("blocklinear.store.store.BlockStore.open", fail)
    what = f"place: {os.strerror(number)}"
    said = f"blocklinear: {what}\n  fix: allow more open files (ulimit -n)\n"
    assert refused(6, "info", store) == said


@pytest.mark.parametrize("error", [ZeroDivisionError, ImportError, RuntimeError])
def test_a_bug_is_not_hidden(cli, store, monkeypatch, error):
    def fail(path):
        raise error

    monkeypatch.setattr("blocklinear.store.store.BlockStore.open", fail)
    monkeypatch.setattr("resource.getrlimit", lambda of: (-1, -1))
    with pytest.raises(error):
        cli("info", store)


_SIGNALLED = """
import signal, sys
from blocklinear.__main__ import program
from blocklinear.cli import main
from blocklinear.errors import UsageError

first, number, fail = sys.argv.pop() == "signal", int(sys.argv.pop()), main._fail

def run(args):
    if first:
        signal.raise_signal(number)
    raise UsageError("refused")

def failing(text, code):
    signal.raise_signal(number)
    return fail(text, code)

main._run, main._fail = run, failing
program()
"""


@pytest.mark.parametrize("first", ["signal", "error"])
@pytest.mark.parametrize(
    ("number", "said"),
    [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "terminated")],
    ids=["int", "term"],
)
def test_a_signal_while_the_command_says_why_it_ends(first, number, said):
    command = [sys.executable, "-c", _SIGNALLED, "info", "x", str(int(number)), first]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == f"blocklinear: {said}\n"
    assert done.returncode == 128 + number
