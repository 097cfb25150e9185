import importlib.util
import json
import math
import sys

import pytest

from blocklinear.errors import InputError, StorageError, UsageError
from blocklinear.report.plots import best_primal, plot_logs, read_log

needs_matplotlib = pytest.mark.skipif(
    importlib.util.find_spec("matplotlib") is None, reason="matplotlib is not installed"
)


def outer(number, seconds, primal=10.0, gap=0.1, certified=False, **scores):
    return {
        "event": "outer", "outer": number, "seconds": seconds, "primal": primal, "gap": gap,
        "certified": certified, **scores,
    }  # fmt: skip


@pytest.fixture
def log(tmp_path):
    def write(*events, name="run.jsonl"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        lines = [event if isinstance(event, str) else json.dumps(event) for event in events]
        path.write_text("".join(f"{line}\n" for line in lines))
        return path

    return write


def times(curve):
    return [(event["outer"], event["seconds"]) for event in curve.events]


def test_reads_the_outer_iterations(log):
    warning = {"event": "warning", "message": "slow"}
    curve = read_log(log(outer(1, 0.5), warning, outer(2, 1.0)))
    assert (curve.name, times(curve)) == ("run", [(1, 0.5), (2, 1.0)])


def test_of_several_runs_the_last_counts(log):
    curve = read_log(log(outer(1, 0.5), outer(2, 1.0), outer(1, 0.25), outer(2, 0.75)))
    assert times(curve) == [(1, 0.25), (2, 0.75)]


def test_a_resumed_run_goes_on_where_its_checkpoint_was(log):
    curve = read_log(log(outer(1, 1.0), outer(2, 2.0), outer(3, 3.0), outer(3, 0.5), outer(4, 1.5)))
    assert times(curve) == [(1, 1.0), (2, 2.0), (3, 2.5), (4, 3.5)]


def test_a_run_resumed_twice(log):
    curve = read_log(log(outer(1, 1.0), outer(2, 0.5), outer(3, 0.25), outer(4, 1.25)))
    assert times(curve) == [(1, 1.0), (2, 1.5), (3, 1.75), (4, 2.75)]


def test_a_line_that_a_crash_cut_short_is_passed_over(log):
    curve = read_log(log(outer(1, 0.5), '{"event": "outer", "ou', outer(2, 1.0)))
    assert times(curve) == [(1, 0.5), (2, 1.0)]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], "has no outer iteration"),
        (["1 1:0.5 2:1"], ":1: is not a line of a run log"),
        ([outer(1, 0.5), "", outer(2, 1.0)], ":2: is not a line of a run log"),
        ([{"event": "warning", "message": "x"}], "has no outer iteration"),
        (["{}"], "has no outer iteration"),
        ([outer(1, "soon")], ":1: 'seconds' is missing or not a number"),
        ([{"event": "outer", "outer": 1, "seconds": 1}], ":1: 'primal' is missing"),
        ([outer(1, None)], ":1: 'seconds' is missing"),
        ([json.dumps(outer(1, 2)).replace("2", "9" * 309)], ":1: 'seconds' is missing or not a"),
        ([json.dumps(outer(1, 2)).replace("2", "9" * 5000)], ":1: 'seconds' is missing or not a"),
        ([json.dumps(outer(1, 2)).replace("2", "1e999")], ":1: 'seconds' is missing or not a"),
        ([outer(1, True)], ":1: 'seconds' is missing or not a"),
        (['{"a":' + "[" * 100_000], "has no outer iteration"),
    ],
)
def test_what_is_no_log_is_refused(log, lines, said):
    with pytest.raises(InputError, match=said) as caught:
        read_log(log(*lines))
    assert caught.value.fix


def test_a_log_that_is_not_there(tmp_path):
    with pytest.raises(StorageError, match="none: read failed"):
        read_log(tmp_path / "none")


def test_the_best_primal_is_one_that_was_proven(log):
    first = read_log(log(outer(1, 1, primal=5.0), outer(2, 2, primal=8.0, certified=True)))
    second = read_log(log(outer(1, 1, primal=None), outer(2, 2, primal=7.0), name="b"))
    assert best_primal([first, second]) == 8.0
    assert best_primal([second]) == 7.0
    assert math.isnan(best_primal([]))


@needs_matplotlib
@pytest.mark.parametrize("quantity", ["gap", "primal"])
def test_draws_a_png(log, tmp_path, quantity):
    logs = [
        log(outer(1, 1.0, 12.0), outer(2, 2.0, 11.0, 0.01), outer(3, 3.0, 10.0, 0.0, True)),
        log(outer(1, 0.5, None, None, accuracy=0.5), outer(2, 1.0, 11.5, accuracy=0.75), name="b"),
    ]
    plot_logs(logs, tmp_path / "figure.png", quantity)
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG\r\n")


@needs_matplotlib
def test_an_svg_names_what_it_shows_and_is_the_same_each_time(log, tmp_path):
    # text is drawn as outlines, beside a comment that says what it is
    logs = [log(outer(1, 1, accuracy=0.5), name="fast.jsonl"), log(outer(1, 2), name="$low_x$.log")]
    plot_logs(logs, tmp_path / "a.svg")
    plot_logs(logs, tmp_path / "b.svg")
    drawn = (tmp_path / "a.svg").read_text()
    for text in ("fast", "low", "relative duality gap", "held-out accuracy", "seconds since"):
        assert text in drawn
    assert "mean squared error" not in drawn
    assert drawn == (tmp_path / "b.svg").read_text()


@needs_matplotlib
def test_logs_of_the_same_name_are_told_apart_by_their_folder(log, tmp_path):
    logs = [log(outer(1, 1), name=f"{folder}/run.jsonl") for folder in ("one", "two")]
    plot_logs(logs, tmp_path / "a.svg")
    drawn = (tmp_path / "a.svg").read_text()
    assert "one/run" in drawn
    assert "two/run" in drawn


@needs_matplotlib
def test_many_lines_have_their_legend_below(log, tmp_path):
    logs = [log(outer(1, 1 + k), outer(2, 2 + k, gap=0.01), name=f"run{k}") for k in range(13)]
    plot_logs(logs, tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 1000


@needs_matplotlib
@pytest.mark.parametrize("gap", [None, 0.0, -1e-17])
def test_nothing_to_show_is_said(log, tmp_path, gap):
    with pytest.raises(InputError, match="above 0 and finite"):
        plot_logs([log(outer(1, 1, gap=gap))], tmp_path / "a.png")
    assert not (tmp_path / "a.png").exists()


@pytest.mark.parametrize("name", ["figure.pdf", "figure", ".png.txt"])
def test_other_formats_are_refused(log, tmp_path, name):
    with pytest.raises(UsageError, match="is neither"):
        plot_logs([log(outer(1, 1))], tmp_path / name)


def test_a_log_is_not_overwritten(log, tmp_path):
    path = log(outer(1, 1), name="log.png")
    with pytest.raises(UsageError, match="is both input and output"):
        plot_logs([path], path)
    assert path.read_text().startswith("{")


def test_bad_arguments(log, tmp_path):
    with pytest.raises(UsageError, match="no log"):
        plot_logs([], tmp_path / "a.png")
    with pytest.raises(UsageError, match="quantity is 'dual'"):
        plot_logs([log(outer(1, 1))], tmp_path / "a.png", "dual")


def test_without_matplotlib_the_command_that_installs_it_is_said(log, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # an import fails
    with pytest.raises(UsageError, match="need matplotlib") as caught:
        plot_logs([log(outer(1, 1))], tmp_path / "a.png")
    assert caught.value.fix == "pip install 'blocklinear[plot]'"
    assert not (tmp_path / "a.png").exists()
