import argparse
import io
import json
import subprocess
import sys

import numpy as np
import pytest
from liblinear import liblinear_program

from blocklinear.cli.commands import convert as convert_command
from blocklinear.cli.commands import predict as predict_command
from blocklinear.cli.main import main
from blocklinear.errors import (
    DamagedError,
    InputError,
    InputFormatError,
    MemoryBudgetError,
    StorageError,
    UsageError,
)
from blocklinear.model import liblinear, native
from blocklinear.model import predict as predict_module
from blocklinear.model.linear import LinearModel
from blocklinear.model.predict import predict_stream, text_memory
from blocklinear.text import TextOptions


def write_rows(path, labels, n_features=12, seed=3, noise=0.4):
    """Rows whose features predict their labels, mostly."""
    rng = np.random.default_rng(seed)
    labels = np.asarray(labels)
    centres = np.random.default_rng(0).normal(size=(len(np.unique(labels)), n_features))
    which = np.unique(labels, return_inverse=True)[1]
    rows = centres[which] + noise * rng.normal(size=(len(labels), n_features)) * 3
    rows[rng.random(rows.shape) < 0.4] = 0
    with open(path, "w") as stream:
        for label, row in zip(labels, rows, strict=True):
            cells = [f"{j + 1}:{row[j]:.6g}" for j in np.flatnonzero(row)]
            stream.write(" ".join([f"{label:g}", *cells]) + "\n")
    return path


def run_liblinear(name, *args):
    command = [liblinear_program(name), *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def command(*args):
    """Run a command as the program does, less the handling of errors."""
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers()
    predict_command.add_parser(commands)
    convert_command.add_parser(commands)
    arguments = parser.parse_args(list(map(str, args)))
    return arguments.run(arguments)


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "rows.svm"
    path.write_text("1 1:1\n-1 1:-1 4:1\n3\n1 2:2 9:9\n")
    return path


@pytest.fixture
def model(make_model):
    return make_model(n_features=3, weights=[[1.0], [0.5], [0.0]])


@pytest.fixture
def model_path(model, tmp_path):
    model.save(tmp_path / "m")
    return tmp_path / "m"


LABELS = [(0, 1), (1, -1), (-1, 1), (2, 7), (7, 2), (3, 1, 2), (-5, 0, 12, 4)]


@pytest.mark.parametrize("bias", [-1, 0, 1, 2.5])
@pytest.mark.parametrize("labels", LABELS, ids=str)
def test_liblinear_predicts_the_same_with_our_models(make_model, tmp_path, labels, bias):
    rows = write_rows(tmp_path / "t", np.resize(labels, 200), n_features=15)
    solver = "MCSVM_CS" if bias == 0 else "L2R_L1LOSS_SVC_DUAL"
    model = make_model(n_features=12, labels=labels, bias=bias, solver=solver)
    model.save(tmp_path / "m", format="liblinear")
    said = run_liblinear("liblinear-predict", rows, tmp_path / "m", tmp_path / "theirs")
    report = predict_stream(model, [str(rows)], tmp_path / "ours")
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()
    assert report.summary() + "\n" == said
    assert report.unknown_values > 0


@pytest.mark.parametrize("solver", [0, 1, 3, 4, 5, 7])
@pytest.mark.parametrize("labels", LABELS, ids=str)
def test_we_predict_the_same_with_models_of_liblinear(tmp_path, labels, solver):
    train = write_rows(tmp_path / "train", np.resize(labels, 150))
    test = write_rows(tmp_path / "test", np.resize(labels, 150), n_features=14, seed=4)
    run_liblinear("liblinear-train", "-q", "-s", solver, "-B", 1, train, tmp_path / "m")
    said = run_liblinear("liblinear-predict", test, tmp_path / "m", tmp_path / "theirs")
    model = LinearModel.load(tmp_path / "m")
    report = predict_stream(model, [str(test)], tmp_path / "ours")
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()
    assert report.summary() + "\n" == said
    model.save(tmp_path / "again", format="liblinear")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "m").read_bytes()


@pytest.mark.parametrize("solver", [11, 12, 13])
def test_regression_as_liblinear(tmp_path, solver):
    targets = np.random.default_rng(1).normal(size=80).round(3)
    rows = write_rows(tmp_path / "t", targets)
    run_liblinear("liblinear-train", "-q", "-s", solver, rows, tmp_path / "m")
    said = run_liblinear("liblinear-predict", rows, tmp_path / "m", tmp_path / "theirs")
    report = predict_stream(LinearModel.load(tmp_path / "m"), [str(rows)], tmp_path / "ours")
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()
    assert report.summary() + "\n" == said


@pytest.mark.parametrize("labels", [*LABELS, (4,)], ids=str)
@pytest.mark.parametrize("solver", ["L2R_LR", "L1R_LR", "L2R_LR_DUAL"])
def test_probabilities_as_liblinear(make_model, tmp_path, labels, solver):
    rows = write_rows(tmp_path / "t", np.resize(labels, 50))
    model = make_model(n_features=12, labels=labels, solver=solver, bias=1)
    model.save(tmp_path / "m", format="liblinear")
    run_liblinear("liblinear-predict", "-b", 1, rows, tmp_path / "m", tmp_path / "theirs")
    predict_stream(model, [str(rows)], tmp_path / "ours", probability=True)
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()


def test_labels_counts_and_progress(model, rows, tmp_path):
    seen = []
    report = predict_stream(
        model, [str(rows), str(rows)], tmp_path / "out", listener=lambda event: seen.append(event)
    )
    assert (tmp_path / "out").read_text() == "1\n-1\n-1\n1\n" * 2
    assert (report.rows, report.unknown_values, report.unknown_labels) == (8, 4, 2)
    assert report.summary() == "Accuracy = 75% (6/8)"
    assert seen[-1].rows == 8


def test_steps_do_not_show(make_model, rows, tmp_path, monkeypatch):
    model = make_model(labels=(1.0, 2.0, 3.0))
    predict_stream(model, [str(rows)], tmp_path / "whole", decision=True)
    monkeypatch.setattr(predict_module, "_VALUES_PER_STEP", 6)
    predict_stream(model, [str(rows)], tmp_path / "parts", decision=True)
    assert (tmp_path / "parts").read_bytes() == (tmp_path / "whole").read_bytes()


@pytest.mark.parametrize("labels", [(1.0, -1.0), (1.0, 2.0, 3.0)])
def test_decision_values_have_all_their_digits(make_model, rows, tmp_path, labels):
    model = make_model(labels=labels, bias=1)
    predict_stream(model, [str(rows)], tmp_path / "out", decision=True)
    dense = np.zeros((4, 9))
    dense[[0, 1, 1, 3, 3], [0, 0, 3, 1, 8]] = [1, -1, 1, 2, 9]
    values = np.loadtxt(tmp_path / "out").reshape(4, -1)
    np.testing.assert_allclose(values.squeeze(), model.decision_function(dense), rtol=1e-14)


@pytest.mark.parametrize("base", [0, 1])
def test_features_are_numbered_as_the_model_or_as_told(make_model, tmp_path, base):
    (tmp_path / "t").write_text("1 1:1\n")
    weights = [[10.0], [20.0]]
    model = make_model(n_features=2, weights=weights, index_base=base)
    predict_stream(model, [str(tmp_path / "t")], tmp_path / "out", decision=True)
    assert (tmp_path / "out").read_text() == ("20\n" if base == 0 else "10\n")
    options = TextOptions(index_base=1 - base)
    args = (model, [str(tmp_path / "t")], tmp_path / "out")
    predict_stream(*args, decision=True, text_options=options)
    assert (tmp_path / "out").read_text() == ("10\n" if base == 0 else "20\n")


def test_extreme_decisions_have_probabilities(make_model, tmp_path):
    (tmp_path / "t").write_text("1 1:1e5\n-1 1:-1e5\n")
    model = make_model(n_features=1, weights=[[1.0]], solver="L2R_LR")
    predict_stream(model, [str(tmp_path / "t")], tmp_path / "out", probability=True)
    assert (tmp_path / "out").read_text() == "labels 1 -1\n1 1 0\n-1 0 1\n"


def test_forms_the_model_cannot_give(model, make_model, rows, tmp_path):
    out = tmp_path / "out"
    with pytest.raises(UsageError, match="only supported for logistic regression"):
        predict_stream(model, [str(rows)], out, probability=True)
    logistic = make_model(solver="L2R_LR")
    with pytest.raises(UsageError, match="wanted at once"):
        predict_stream(logistic, [str(rows)], out, probability=True, decision=True)
    assert not out.exists()


def test_a_refused_line_leaves_the_output_as_it_was(model, rows, tmp_path):
    (tmp_path / "bad").write_text("1 1:1\n1 1:x\n")
    (tmp_path / "out").write_text("earlier\n")
    with pytest.raises(InputFormatError, match="bad:2:"):
        predict_stream(model, [str(rows), str(tmp_path / "bad")], tmp_path / "out")
    assert (tmp_path / "out").read_text() == "earlier\n"
    assert len(list(tmp_path.iterdir())) == 3


def test_the_input_is_never_the_output(model, rows, tmp_path):
    (tmp_path / "link").symlink_to(rows)
    before = rows.read_bytes()
    with pytest.raises(UsageError, match="both input and output"):
        predict_stream(model, [str(rows)], tmp_path / "link")
    assert rows.read_bytes() == before


def test_devices_are_written_not_replaced(model, rows):
    predict_stream(model, [str(rows)], "/dev/null")
    with pytest.raises(StorageError, match="/dev/full"):
        predict_stream(model, [str(rows)], "/dev/full")


class Stdout(io.BytesIO):
    """A standard output whose flush may fail."""

    def __init__(self, error=None):
        super().__init__()
        self.buffer, self.error = self, error

    def flush(self):
        if self.error is not None:
            raise self.error


def test_standard_output(model, rows, monkeypatch):
    stdout = Stdout()
    monkeypatch.setattr(sys, "stdout", stdout)
    predict_stream(model, [str(rows)], "-")
    assert stdout.getvalue() == b"1\n-1\n-1\n1\n"
    monkeypatch.setattr(sys, "stdout", Stdout(OSError(28, "No space left on device")))
    with pytest.raises(StorageError, match="standard output"):
        predict_stream(model, [str(rows)], "-")
    monkeypatch.setattr(sys, "stdout", Stdout(BrokenPipeError()))
    with pytest.raises(BrokenPipeError):
        predict_stream(model, [str(rows)], "-")


@pytest.mark.parametrize("format", ["native", "liblinear"])
def test_a_budget_is_refused_before_weights_are_read(model, tmp_path, monkeypatch, format, capsys):
    """A process whose memory is limited to the budget was killed meanwhile."""
    model.save(tmp_path / "m", format=format)
    (tmp_path / "rows").write_text("1 1:1\n")
    monkeypatch.setattr(native._Sparse, "fill", lambda *_: pytest.fail("weights are read"))
    monkeypatch.setattr(native._Members, "read", _only({"header", "bias_weights"}))
    monkeypatch.setattr(liblinear._Text, "numbers", lambda *_: pytest.fail("weights are read"))
    command = ["predict", str(tmp_path / "rows"), str(tmp_path / "m"), str(tmp_path / "o")]
    assert main([*command, "--memory", "90M"]) == 7
    assert "give it --memory" in capsys.readouterr().err


def _only(names, read=native._Members.read):
    """Return what reads such members of a file, and fails at others."""
    return lambda source, name, *rest: (
        read(source, name, *rest) if name in names else pytest.fail(f"{name} is read")
    )


def test_memory_left_for_text(model):
    assert 0 < text_memory(model.weights.nbytes, model.n_columns, 1 << 30) < 1 << 30
    with pytest.raises(MemoryBudgetError) as caught:
        text_memory(model.weights.nbytes, model.n_columns, 100 << 20)
    fix = str(caught.value).splitlines()[1]
    least = int(fix.split("--memory ")[1].split("M")[0]) << 20
    assert text_memory(model.weights.nbytes, model.n_columns, least) > 0


def test_command_predict(rows, model_path, tmp_path, capsys):
    assert command("predict", rows, model_path, tmp_path / "out", "--threads", 1) == 0
    captured = capsys.readouterr()
    assert captured.out == "Accuracy = 75% (3/4)\n"
    assert captured.err.splitlines() == [
        "blocklinear: 2 values of features that the model does not know: ignored",
        "blocklinear: 1 row has a label that the model does not know",
    ]
    assert (tmp_path / "out").read_text() == "1\n-1\n-1\n1\n"


@pytest.mark.parametrize("format", ["native", "liblinear"])
def test_a_budget_that_is_no_size_is_not_a_damaged_model(model, rows, tmp_path, capsys, format):
    model.save(tmp_path / "m", format=format)
    with pytest.raises(SystemExit) as left:
        command("predict", rows, tmp_path / "m", tmp_path / "out", "--memory", "5x")
    assert left.value.code == 2
    assert "argument --memory: size '5x' is not a number of bytes" in capsys.readouterr().err


def test_command_predict_quiet_and_json(rows, model_path, tmp_path, capsys):
    assert command("predict", "-q", rows, model_path, tmp_path / "out", "--memory", "1G") == 0
    assert capsys.readouterr() == ("", "")
    assert command("predict", "-q", "--json", rows, model_path, tmp_path / "out") == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert json.loads(captured.out) == {
        "accuracy": 0.75,
        "correct": 3,
        "rows": 4,
        "unknown_values": 2,
        "unknown_labels": 1,
    }


def test_command_predict_to_standard_output(rows, model_path, capfdbinary):
    assert command("predict", "--decision", rows, model_path, "-") == 0
    captured = capfdbinary.readouterr()
    assert captured.out == b"1\n-1\n0\n1\n"
    assert captured.err.startswith(b"Accuracy = 75% (3/4)\n")


def test_command_predict_never_replaces_the_model(rows, model_path):
    before = model_path.read_bytes()
    with pytest.raises(UsageError, match="both input and output"):
        command("predict", rows, model_path, model_path)
    assert model_path.read_bytes() == before


def test_command_convert(model, model_path, same, tmp_path, capsys):
    text, back = tmp_path / "text", tmp_path / "back"
    assert command("convert", model_path, text, "--to", "liblinear") == 0
    assert text.read_text().startswith("solver_type L2R_L1LOSS_SVC_DUAL\nnr_class 2\n")
    assert command("convert", text, back, "--to", "native") == 0
    assert same(LinearModel.load(back), model)
    assert capsys.readouterr() == ("", "")


def test_command_convert_of_something_else(rows, tmp_path):
    with pytest.raises(DamagedError, match="not a model"):
        command("convert", rows, tmp_path / "out", "--to", "native")
    assert not (tmp_path / "out").exists()


def test_decision_values_that_are_no_numbers_are_refused(tmp_path):
    """Weights of another program may be so large; such rows had got the second label."""
    weights = np.array([[1e300], [-1e300]])
    model = LinearModel(weights, np.zeros(1), -1.0, (1.0, 2.0), "L2R_L1LOSS_SVC_DUAL")
    rows, out = tmp_path / "rows", tmp_path / "out"
    rows.write_text("1 1:1\n" * 70000 + "2 1:1e38 2:1e38\n")
    with pytest.raises(InputError, match="row 70001: its decision value overflows"):
        predict_stream(model, [str(rows)], out)
    assert not out.exists()
