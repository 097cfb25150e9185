import importlib.util
import sys

import pytest

from blocklinear.errors import InputError, UsageError
from blocklinear.report.plots import figure_of, plot_logs
from blocklinear.report.records import read_log

from .conftest import outer

needs_matplotlib = pytest.mark.skipif(
    importlib.util.find_spec("matplotlib") is None, reason="matplotlib is not installed"
)


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
    # text is drawn as outlines, with a comment that has the text
    logs = [log(outer(1, 1, accuracy=0.5), name="fast.jsonl"), log(outer(1, 2), name="$low_x$.log")]
    plot_logs(logs, tmp_path / "a.svg")
    plot_logs(logs, tmp_path / "b.svg")
    drawn = (tmp_path / "a.svg").read_text()
    for text in ("fast", "low", "relative duality gap", "held-out accuracy", "seconds since"):
        assert text in drawn
    assert "mean squared error" not in drawn
    assert drawn == (tmp_path / "b.svg").read_text()


@needs_matplotlib
def test_a_pdf_is_the_same_each_time(log, tmp_path):
    logs = [log(outer(1, 1, violation=0.5), outer(2, 2, violation=0.25, violation_goal=0.1))]
    for name in ("a.pdf", "b.PDF"):
        plot_logs(logs, tmp_path / name, "violation")
    assert (tmp_path / "a.pdf").read_bytes().startswith(b"%PDF-")
    assert (tmp_path / "a.pdf").read_bytes() == (tmp_path / "b.PDF").read_bytes()


@needs_matplotlib
def test_every_cost_of_a_grid_and_its_goal(log, tmp_path):
    fields = {"costs": [0.1, 1.0, 1e100], "gap_goal": 0.01}
    grid = log(
        outer(1, 1, gaps=[0.5, 0.25, 0.125], **fields),
        outer(2, 2, gaps=[0.25, 1e-16, 0.0], certified=True, **fields),
        name="grid",
    )
    plot_logs([grid], tmp_path / "a.svg")
    drawn = (tmp_path / "a.svg").read_text()
    for text in ("C = 0.1 ", "C = 1 ", "C = 1e+100 ", "goal 0.01", "certified"):
        assert f"<!-- {text.strip()} -->" in drawn
    plot_logs([grid, log(outer(1, 1), name="one")], tmp_path / "b.svg")
    drawn = (tmp_path / "b.svg").read_text()
    for text in ("grid, C = 0.1", "grid, C = 1e+100", "one"):
        assert f"<!-- {text} -->" in drawn


@needs_matplotlib
def test_columns_for_several_axes(log, tmp_path):
    path = log(outer(1, 1, bytes_read=3 << 20, accuracy=0.5), outer(2, 2, accuracy=0.75))
    plot_logs([path], tmp_path / "a.svg", axes=["seconds", "passes", "bytes"])
    drawn = (tmp_path / "a.svg").read_text()
    for text in ("seconds since training began", "passes over the data", "MiB read from block"):
        assert text in drawn
    assert drawn.count("<!-- held-out accuracy -->") == 1


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


def legend_fits(figure, legend):
    figure.draw_without_rendering()
    box, whole = legend.get_window_extent(), figure.bbox
    return whole.x0 <= box.x0 and box.x1 <= whole.x1 and whole.y0 <= box.y0 and box.y1 <= whole.y1


@needs_matplotlib
@pytest.mark.parametrize("axes", [["passes"], ["seconds", "passes"]])
@pytest.mark.parametrize("length", [3, 38, 58, 200])
def test_the_legend_is_not_cut_off(log, axes, length):
    names = [f"{'n' * (length - 2)}{k:02d}" for k in range(14)]
    runs = [read_log(log(outer(1, 1), outer(2, 2, gap=0.01), name=name)) for name in names]
    figure = figure_of(runs, "gap", axes)
    assert legend_fits(figure, figure.legends[0])


@needs_matplotlib
def test_a_long_name_does_not_hide_the_axis_of_a_page(log):
    run = read_log(log(outer(1, 1), outer(2, 2, gap=0.01), name="W" * 200))
    figure = figure_of([run], width=4.8)
    (ax,) = figure.axes
    figure.draw_without_rendering()
    legend = ax.get_legend().get_window_extent()
    assert ax.bbox.x0 <= legend.x0
    assert legend.x1 <= ax.bbox.x1


@needs_matplotlib
@pytest.mark.parametrize("gap", [None, 0.0, -1e-17])
def test_nothing_to_show_is_said(log, tmp_path, gap):
    with pytest.raises(InputError, match="above 0 and finite"):
        plot_logs([log(outer(1, 1, gap=gap))], tmp_path / "a.png")
    assert not (tmp_path / "a.png").exists()


@pytest.mark.parametrize("name", ["figure.gif", "figure", ".png.txt"])
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
    with pytest.raises(UsageError, match="axis is 'rows'"):
        plot_logs([log(outer(1, 1))], tmp_path / "a.png", axes=["rows"])


def test_without_matplotlib_the_command_that_installs_it_is_said(log, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # an import fails
    with pytest.raises(UsageError, match="need matplotlib") as caught:
        plot_logs([log(outer(1, 1))], tmp_path / "a.png")
    assert caught.value.fix == "pip install 'blocklinear[plot]'"
    assert not (tmp_path / "a.png").exists()
