"""Arguments that would do harm, or mean something else another day."""

import json
import os
import sys

import programs
import pytest

from blocklinear.cli import compiling
from blocklinear.errors import UsageError
from blocklinear.events import Warned
from blocklinear.report.runlog import RunLog


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model"
    path.write_text(
        "solver_type L2R_L2LOSS_SVC_DUAL\nnr_class 2\nlabel 1 -1\nnr_feature 3\nbias -1\n"
        "w\n0.5\n-0.5\n0\n"
    )
    return path


# options are given by their whole names


@pytest.mark.parametrize(
    "arguments",
    [["split", "a", "b", "--mem", "1G"], ["check", "a", "--js"], ["info", "a", "--j"],
     ["predict", "a", "b", "c", "--dec"], ["train", "a", "b", "--max-out", "3"], ["--vers"]],
)  # fmt: skip
def test_no_abbreviations(arguments, cli):
    done = cli(*arguments)
    assert done.status == 2
    assert "usage:" in done.err


def test_an_unknown_option_shows_those_of_its_command(cli):
    done = cli("info", "store", "--jason")
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("usage: blocklinear info ")
    assert done.err.endswith("blocklinear info: error: unrecognized arguments: --jason\n")


@pytest.mark.parametrize("command", ["plot", "report", "train", "cv", "split", "plan"])
def test_help_fits_a_terminal(cli, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "80")
    assert max(map(len, cli(command, "--help").out.splitlines())) <= 80


# standard output is not a folder


def test_a_store_is_a_folder(refused, rows, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "it cannot go to standard output" in refused(2, "split", rows, "-")
    assert not os.path.exists("-")


@pytest.mark.parametrize(
    "command",
    ["info", "plan", "verify", "gc", "compact", "transpose", "cv", "train", "add", "remove"],
)
def test_what_is_not_there_cannot_be_read(refused, rows, tmp_path, command):
    more = {"train": [tmp_path / "m"], "add": [rows], "remove": ["--list"]}.get(command, [])
    message = refused(6, command, tmp_path / "none", *more).lower()
    assert f"{tmp_path / 'none'}: ".lower() in message
    assert "no such file or" in message


@pytest.mark.parametrize("name", [".", "/", ".."])
def test_a_folder_without_a_name_is_no_store(refused, tmp_path, monkeypatch, name):
    (tmp_path / "empty" / "inside").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "empty" / "inside")
    assert "not a store: it has no manifest.json" in refused(4, "info", name)


def test_a_store_is_the_current_folder(cli, store, rows, monkeypatch):
    monkeypatch.chdir(store)
    assert cli("info", ".").status == 0
    done = cli("split", rows, ".", "--force")  # which leaves the process in a folder that is gone
    assert (done.status, done.err) == (0, "")


# logs


def test_a_log_goes_on(tmp_path):
    path = tmp_path / "log"
    for message in ("one", "two"):
        with RunLog(path) as log:
            log(Warned(message))
    with open(path, "a") as stream:
        stream.write('{"event": "warn')  # a crash
    with RunLog(path) as log:
        log(Warned("three"))
    lines = path.read_text().splitlines()
    assert [json.loads(line)["message"] for line in lines if line.endswith("}")] == [
        "one", "two", "three",
    ]  # fmt: skip


def test_a_log_replaces_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = tmp_path / "data.svm"
    data.write_text("1 1:1\n")
    with pytest.raises(UsageError, match="exists and is not a log"):
        RunLog(data)
    assert data.read_text() == "1 1:1\n"
    assert os.listdir(tmp_path) == ["data.svm"]


# a store whose blocks lie elsewhere


@pytest.mark.parametrize("command", ["info", "verify"])
def test_a_linked_folder_of_blocks(command, refused, store, tmp_path):
    (store / "blocks").rename(tmp_path / "elsewhere")
    (store / "blocks").symlink_to(tmp_path / "elsewhere")
    assert "blocks: is a link" in refused(4, command, store)


# compiled code


NOWHERE = """
import sys
from blocklinear.cli import main
from blocklinear.kernels.code import kept

kept.folders = lambda: []
sys.exit(main.main())
"""


def test_without_a_place_for_compiled_code(tmp_path, rows):
    environment = os.environ | {
        "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
        "NUMBA_OPT": "0",  # how well it is compiled does not matter here
    }
    done = programs.run([sys.executable, "-c", NOWHERE, "check", rows], env=environment)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False)
    assert done.stderr.count("warning: compiled code cannot be kept") == 1
    assert not (tmp_path / "cache").exists()


def test_where_compiled_code_may_be_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: "closed" not in str(path))
    (tmp_path / "closed").mkdir()
    (tmp_path / "file").touch()
    assert compiling._can_be_made(tmp_path)
    assert compiling._can_be_made(tmp_path / "new" / "folder")
    assert not compiling._can_be_made(tmp_path / "closed")
    assert not compiling._can_be_made(tmp_path / "closed" / "new")
    assert not compiling._can_be_made(tmp_path / "file")


# predictions


def test_unknown_features_are_counted_or_refused(cli, refused, model, tmp_path):
    path, output = tmp_path / "new.svm", tmp_path / "out"
    path.write_text("1 1:1\n-1 2:1 4:7 5:1\n1\n")
    done = cli("predict", path, model, output)
    assert done.status == 0
    assert "2 values of features that the model does not know: ignored" in done.err
    assert output.read_text() == "1\n-1\n-1\n"
    output.unlink()
    err = refused(3, "predict", path, model, output, "--strict")
    assert f"{path}:2:8: index 4 is not one of the 3 features of the model" in err
    assert not output.exists()
    path.write_text("1 1:1\n-1 2:1 3:7\n5\n")
    done = cli("predict", path, model, output, "--strict")
    assert (done.status, output.read_text()) == (0, "1\n-1\n-1\n")
    assert "1 row has a label that the model does not know" in done.err


def test_rows_to_predict_may_be_cut(cli, refused, model, tmp_path):
    path, output = tmp_path / "new.svm", tmp_path / "out"
    path.write_text("1 1:1\n-1 2:1")
    done = cli("predict", path, model, output)
    assert (done.status, output.read_text()) == (0, "1\n-1\n")
    assert "warning: " in done.err
    assert "no newline at the end: the last line may be cut short" in done.err
    output.unlink()
    assert "no newline" in refused(3, "predict", path, model, output, "--require-final-newline")
    path.write_text("1 1:1\n")
    assert "1 row, not the 2" in refused(3, "predict", path, model, output, "--expect-rows", 2)
    assert not output.exists()


def test_stores_and_models_in_each_others_place(refused, store, model, tmp_path):
    output = tmp_path / "out"
    rows = tmp_path / "rows.svm"
    assert f"{store}: is a folder, not a model" in refused(6, "predict", rows, store, output)
    assert f"{store}: is a folder\n" in refused(6, "predict", store, model, output)
    assert "is a folder, not a model" in refused(6, "convert", store, output, "--to", "json")


def test_no_rows_to_predict(cli, model, tmp_path):
    path, output = tmp_path / "none.svm", tmp_path / "out"
    path.write_text("# nothing\n")
    for options in ((), ("--report",)):
        done = cli("predict", path, model, output, *options)
        assert (done.status, done.out, output.read_text()) == (0, "no rows\n", "")
        assert f"warning: {path}: no rows" in done.err
    facts = json.loads(cli("predict", path, model, output, "--report", "--json").out)
    assert (facts["accuracy"], facts["f1"], facts["rows"]) == (None, None, 0)


def test_rows_in_another_base(refused, model, tmp_path):
    path, output = tmp_path / "zero.svm", tmp_path / "out"
    path.write_text("1 0:1\n")
    assert "index 0 is below the index base" in refused(3, "predict", path, model, output)


def test_a_reader_of_predictions_that_went_away(model, tmp_path):
    path = tmp_path / "many.svm"
    path.write_text("1 1:1\n" * 200_000)
    program = f"{sys.executable} -m blocklinear predict {path} {model} -"
    shell = f"{program} | head -1; echo ${{PIPESTATUS[0]}}"
    for unbuffered in ("", "1"):
        environment = os.environ | {"PYTHONUNBUFFERED": unbuffered}
        done = programs.run(["bash", "-c", shell], env=environment)
        assert (done.stdout, done.stderr) == ("1\n141\n", "")


# labels that are no classes


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1.5 1:1\n-1 2:1\n", "label 1.5 is not an integer: not a class (first in line 1 of "),
        ("1 1:1\n1 2:1\n", "all rows have the one label 1"),
        (
            "".join(f"{k} 1:1\n" for k in range(10_001)),
            "these are not classes (such as 0, first in line 1 of ",
        ),
    ],
)
def test_labels_that_are_no_classes(text, said, cli, refused, tmp_path):
    path, store = tmp_path / "data.svm", tmp_path / "store"
    path.write_text(text)
    assert cli("split", path, store, "-q").status == 0  # labels are stored as read
    assert said in refused(3, "train", store, tmp_path / "model", "-s", 3)
    assert not (tmp_path / "model").exists()


def test_a_large_label_is_a_class_like_another(cli, tmp_path):
    path, store, model = tmp_path / "data.svm", tmp_path / "store", tmp_path / "model"
    path.write_text("1e10 1:1\n-1 2:1\n")
    assert cli("split", path, store, "-q").status == 0
    assert cli("train", store, model, "-q").status == 0
    assert cli("predict", path, model, tmp_path / "out").status == 0
    assert (tmp_path / "out").read_text() == "10000000000\n-1\n"
