"""Commands that only look must start at once: without Numba, SciPy and scikit-learn."""

import json
import sys

import numpy as np
import programs
import pytest

from blocklinear.cli.main import _parser
from blocklinear.ingest.split import split
from blocklinear.kernels.code.intrinsics import DISABLED as kernels_are_python
from blocklinear.model.linear import LinearModel
from blocklinear.options import SplitOptions, TextOptions

HEAVY = ("numba", "scipy", "sklearn", "tqdm", "matplotlib")
COMMANDS = next(list(action.choices) for action in _parser()._actions if action.dest == "command")
SCRIPT = """
import json, sys
from blocklinear.cli.main import main
try:
    status = main(sys.argv[1:])
except SystemExit as error:
    status = error.code
print(json.dumps([status, sorted(m for m in sys.modules if "." not in m)]))
"""


def run(*arguments):
    """Run a command; return its status, its output and the modules it imported."""
    done = programs.run([sys.executable, "-c", SCRIPT, *arguments], check=True)
    output, _, last = done.stdout.rstrip("\n").rpartition("\n")
    status, modules = json.loads(last)
    return status, output, set(modules)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("start")
    (folder / "rows").write_bytes(b"1 1:1\n-1 2:0.5\n")
    options = SplitOptions(text=TextOptions(memory_bytes=256 << 20), blocks=2)
    return split([folder / "rows"], folder / "store", options).folder


@pytest.fixture(scope="module", params=["native", "liblinear"])
def model(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("start") / "model"
    made = LinearModel(
        weights=np.ones((3, 1)), bias_weights=np.zeros(1), bias=-1.0, labels=(1.0, -1.0),
        solver="L2R_L1LOSS_SVC_DUAL",
    )  # fmt: skip
    made.save(path, format=request.param)
    return path


@pytest.mark.parametrize("arguments", [[], *([command] for command in COMMANDS)], ids=str)
def test_help(arguments):
    status, output, modules = run(*arguments, "--help")
    assert status == 0
    assert "usage: blocklinear" in output
    assert "exit status:" in output
    assert not modules & {*HEAVY, "numpy"}


def test_version():
    status, output, modules = run("--version")
    assert status == 0
    assert output.startswith("blocklinear ")
    assert not modules & {*HEAVY, "numpy"}


@pytest.mark.parametrize("flags", [[], ["--json"]], ids=str)
def test_info_of_a_store(store, flags):
    status, output, modules = run("info", store, *flags)
    assert status == 0
    assert json.loads(output)["rows"] == 2 if flags else "2 rows" in output
    assert not modules & set(HEAVY)


@pytest.mark.parametrize("flags", [[], ["--json"]], ids=str)
def test_info_of_a_model(model, flags):
    status, output, modules = run("info", model, *flags)
    assert status == 0
    assert output
    assert not modules & set(HEAVY)


@pytest.mark.skipif(kernels_are_python, reason="nothing is compiled")
def test_no_command_imports_numba(store, tmp_path):
    """It takes longer than the rest of a start: compiled kernels are called without it."""
    (tmp_path / "rows").write_bytes(b"1 1:1\n-1 2:0.5\n1 3:2\n")
    commands = [
        ("split", tmp_path / "rows", tmp_path / "other", "--blocks", "1", "-q"),
        ("train", store, tmp_path / "model", "-q"),
        ("cv", store, "-v", "2", "-q"),
        ("predict", tmp_path / "rows", tmp_path / "model", tmp_path / "out"),
    ]
    for command in commands:
        for _ in range(2):  # the first may compile
            status, _, modules = run(*command, *(["--force"] if command[0] == "split" else []))
        assert status == 0
        assert not modules & {"numba", "sklearn"}, command


@pytest.mark.parametrize(
    "arguments",
    [[], ["unknown"], ["--unknown"], *([command, "--unknown"] for command in COMMANDS)],
    ids=str,
)
def test_bad_usage(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        _parser().parse_args(arguments)
    assert caught.value.code == 2
    assert "usage: blocklinear" in capsys.readouterr().err
