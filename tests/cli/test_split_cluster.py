"""``split --dask``: what is refused at once, and splits on processes of this machine."""

import importlib.util
import os
import signal
import subprocess
import sys

import pytest
from programs import GUARD_S

from blocklinear.cli.main import main

ROWS = "".join(f"{k % 2} {k % 7 + 1}:0.5 9:{k}\n" for k in range(500))
with_dask = pytest.mark.skipif(
    importlib.util.find_spec("distributed") is None, reason="it belongs to an extra"
)


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "rows.svm"
    path.write_text(ROWS)
    return path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--dask", "here"], "neither an address nor local:N"),
        (["--dask", "local:0"], "neither an address nor local:N"),
        (["--dask", "local:2", "--weights", "w"], "--weights are not read on a cluster"),
        (["--dask", "local:2", "--target", "y"], "tables are not split on a cluster"),
        (["--dask", "local:2", "--blocks", "0"], "blocks is 0"),
    ],
)
def test_what_is_refused(tmp_path, rows, capsys, arguments, message):
    assert main(["split", str(rows), str(tmp_path / "store"), *arguments]) == 2
    assert message in capsys.readouterr().err
    assert os.listdir(tmp_path) == ["rows.svm"]


def test_standard_input_is_refused(tmp_path, capsys):
    assert main(["split", "-", str(tmp_path / "store"), "--dask", "local:2"]) == 2
    assert "standard input is read by one machine" in capsys.readouterr().err


@with_dask
def test_no_scheduler(tmp_path, rows, capsys, monkeypatch):
    monkeypatch.setattr("blocklinear.cluster.connect._CONNECT_S", 1)
    arguments = ["split", str(rows), str(tmp_path / "store"), "--dask", "tcp://127.0.0.1:1"]
    assert main(arguments) == 9
    assert "no scheduler answers at tcp://127.0.0.1:1" in capsys.readouterr().err


def command(*arguments):
    code = "from blocklinear.__main__ import program; program()"
    return [sys.executable, "-c", code, *map(str, arguments)]


@with_dask
def test_processes_of_this_machine(tmp_path, rows):
    for name, more in (("one", []), ("many", ["--dask", "local:2"])):
        arguments = ["split", rows, tmp_path / name, "--memory", "400M", "--blocks", "3", *more]
        done = subprocess.run(command(*arguments), capture_output=True, text=True, timeout=GUARD_S)
        assert done.returncode == 0, done.stderr
        assert "500 rows, 9 features" in done.stdout
    blocks = [sorted((tmp_path / name / "blocks").iterdir()) for name in ("one", "many")]
    assert [path.read_bytes() for path in blocks[0]] == [path.read_bytes() for path in blocks[1]]
    bad = tmp_path / "bad.svm"
    bad.write_text(ROWS + "1 x\n")
    arguments = ["split", bad, tmp_path / "bad", "--memory", "400M", "--dask", "local:1"]
    done = subprocess.run(command(*arguments), capture_output=True, text=True, timeout=GUARD_S)
    assert done.returncode == 3
    assert f"{bad}:501:3: no colon in 'x'" in done.stderr
    assert "Traceback" not in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "bad.svm", "many", "one", "rows.svm",
    ]  # fmt: skip


@with_dask
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_it(tmp_path, number, status):
    """It comes to the whole group, as from a terminal."""
    (tmp_path / "rows.svm").write_text(ROWS * 10_000)
    arguments = ["split", tmp_path / "rows.svm", tmp_path / "store", "--dask", "local:2"]
    process = subprocess.Popen(
        command(*arguments, "--memory", "400M"), stderr=subprocess.PIPE, start_new_session=True
    )
    while not (tmp_path / ".store.splitting" / "shuffle").exists():
        assert process.poll() is None
    os.killpg(process.pid, number) if number == signal.SIGINT else process.send_signal(number)
    _, told = process.communicate(timeout=GUARD_S)
    assert process.returncode == status, told
    assert sorted(os.listdir(tmp_path)) == ["rows.svm"]
