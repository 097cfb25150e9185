from dataclasses import dataclass

import pytest

from blocklinear.cli.compiling import COMPILING
from blocklinear.cli.main import main

from .forked import Starter

ROWS = "".join(
    f"{label} 1:{0.1 * i:.1f} {2 + i % 5}:{label * (0.5 + i % 3)}\n"
    for i in range(1, 31)
    for label in (1, -1)
)


@dataclass(frozen=True)
class Outcome:
    """What a command did: its exit status, and what it printed."""

    status: int
    out: str
    err: str


@pytest.fixture
def cli(capsys):
    """Run a command as the program does."""

    def run(*arguments):
        capsys.readouterr()
        try:
            status = main([str(argument) for argument in arguments])
        except SystemExit as leaving:
            status = leaving.code
        out, err = capsys.readouterr()
        err = err.replace(f"{COMPILING}\n", "")  # said where the cache of kernels is cold
        assert "Traceback" not in err
        return Outcome(status, out, err)

    return run


@pytest.fixture(scope="session")
def starter():
    made = Starter()
    yield made
    made.close()


@pytest.fixture
def refused(cli):
    """Run a command that must say, in two lines, what is wrong and what to do."""

    def run(status, *arguments):
        done = cli(*arguments)
        assert (done.status, done.out) == (status, ""), done.err
        assert done.err.startswith("blocklinear: ")
        return done.err

    return run


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "rows.svm"
    path.write_text(ROWS)
    return path


@pytest.fixture
def store(cli, rows, tmp_path):
    path = tmp_path / "store"
    assert cli("split", rows, path, "--blocks", 4, "-q", "--threads", 2).status == 0
    return path
