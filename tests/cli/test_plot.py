import importlib.util
import sys

import programs
import pytest

needs_matplotlib = pytest.mark.skipif(
    importlib.util.find_spec("matplotlib") is None, reason="matplotlib is not installed"
)


@pytest.fixture
def logs(cli, store, rows, tmp_path):
    """Logs of two runs, one of them scored."""
    paths = [tmp_path / "plain.jsonl", tmp_path / "scored.jsonl"]
    for path, options in zip(paths, ([], ["--eval", rows]), strict=True):
        model = tmp_path / "model"
        assert cli("train", store, model, "-q", "--log", path, *options).status == 0
    return paths


@needs_matplotlib
@pytest.mark.parametrize("quantity", [[], ["--quantity", "primal"]], ids=str)
def test_draws_logs_of_real_runs(cli, logs, tmp_path, quantity):
    done = cli("plot", *logs, "-o", tmp_path / "figure.svg", *quantity)
    assert (done.status, done.out, done.err) == (0, "", "")
    drawn = (tmp_path / "figure.svg").read_text()
    for text in ("plain", "scored", "held-out accuracy"):
        assert text in drawn


@needs_matplotlib
def test_replaces_a_figure(cli, logs, tmp_path):
    figure = tmp_path / "figure.png"
    figure.write_text("old")
    assert cli("plot", logs[0], "--output", figure).status == 0
    assert figure.read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib(refused, logs, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    said = refused(2, "plot", logs[0], "-o", tmp_path / "figure.png")
    assert "pip install 'blocklinear[plot]'" in said


def test_what_cannot_be_drawn(refused, rows, logs, tmp_path):
    assert "is not a line of a run log" in refused(3, "plot", rows, "-o", tmp_path / "f.png")
    assert "read failed" in refused(6, "plot", tmp_path / "none", "-o", tmp_path / "f.png")
    url = "https://host/log?signature=secret"
    assert "https://host/log: read failed" in refused(6, "plot", url, "-o", tmp_path / "f.png")
    assert "neither .png, .svg nor .pdf" in refused(2, "plot", logs[0], "-o", tmp_path / "f.gif")


@needs_matplotlib
def test_a_folder_that_is_not_there(refused, logs, tmp_path):
    assert "none" in refused(6, "plot", logs[0], "-o", tmp_path / "none" / "f.png")


def test_a_figure_must_be_named(cli, logs):
    done = cli("plot", logs[0])
    assert (done.status, done.out) == (2, "")
    assert "-o/--output" in done.err


@needs_matplotlib
def test_axes_and_formats(cli, logs, tmp_path):
    figure = tmp_path / "figure.pdf"
    assert cli("plot", *logs, "-o", figure, "--against", "passes", "bytes").status == 0
    assert figure.read_bytes().startswith(b"%PDF-")


def test_following_prints_the_table_of_training(cli, store, tmp_path):
    log = tmp_path / "log"
    trained = cli("train", store, tmp_path / "model", "-c", 0.05, "--log", log)
    done = cli("plot", "--follow", log)
    assert (done.status, done.err) == (0, "")
    assert done.out == trained.err
    assert done.out.count("\n") == 1 + len(programs.outers(log))


@needs_matplotlib
def test_following_draws_a_figure(cli, logs, tmp_path):
    done = cli("plot", "--follow", *logs, "-o", tmp_path / "f.svg")
    assert (done.status, done.out, done.err) == (0, "", "")
    assert "scored" in (tmp_path / "f.svg").read_text()


def test_following_several_logs_takes_a_figure(refused, logs):
    assert "--follow and one log" in refused(2, "plot", "--follow", *logs)


@pytest.mark.parametrize("option", [["--quantity", "primal"], ["--against", "bytes"]], ids=str)
def test_what_is_drawn_takes_a_figure(refused, logs, option):
    assert "--follow and one log alone" in refused(2, "plot", "--follow", logs[0], *option)


@needs_matplotlib
def test_the_costs_of_a_grid(cli, store, tmp_path):
    log, figure = tmp_path / "log", tmp_path / "figure.svg"
    flags = ["-c", "0.01,1", "--gap", 0.01, "-q", "--log", log]
    assert cli("train", store, tmp_path / "model", *flags).status == 0
    events = programs.outers(log)
    for event in events:
        assert (event["costs"], event["gap_goal"]) == ([0.01, 1.0], 0.01)
        assert all(0 <= gap < 1 for gap in event["gaps"])
        assert event["gap"] in event["gaps"]  # the largest of those that are trained
    assert max(events[-1]["gaps"]) == events[-1]["gap"] <= 0.01
    assert cli("plot", log, "-o", figure).status == 0
    for text in ("C = 0.01", "C = 1", "goal 0.01"):
        assert f"<!-- {text} -->" in figure.read_text()
