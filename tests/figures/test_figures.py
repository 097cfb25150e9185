"""Figures hold the numbers they are made of, and leave pyplot alone."""

import importlib.util
import sys
from dataclasses import replace

import numpy as np
import programs
import pytest

from blocklinear.errors import UsageError
from blocklinear.figures import canvas
from blocklinear.figures.classification import draw_confusion
from blocklinear.figures.costs import plot_costs
from blocklinear.figures.weights import draw_weights
from blocklinear.model.evaluation import Evaluation
from blocklinear.model.linear import LinearModel
from blocklinear.model.paths import plot_path

if importlib.util.find_spec("matplotlib") is None:
    pytest.skip("matplotlib is not installed", allow_module_level=True)


@pytest.fixture
def evaluation():
    return Evaluation.from_decisions(
        ["a", "b", "b", "a", "b"], [-1.0, 2.0, 0.5, 0.25, -0.5], logistic=True
    )


def lines(figure):
    (ax,) = figure.axes
    return {line.get_label(): line for line in ax.get_lines()}


def legend(figure):
    (ax,) = figure.axes
    found = ax.get_legend() or figure.legends[0]
    return [text.get_text() for text in found.get_texts()]


def test_roc(evaluation):
    figure = evaluation.plot_roc()
    (curve,) = evaluation.roc()
    drawn = lines(figure)[f"b: area {curve.area:.4f}"]
    np.testing.assert_array_equal(drawn.get_xydata().T, (curve.x, curve.y))
    assert legend(figure)[-1] == "by chance"


def test_a_class_without_rows_has_no_curve():
    found = Evaluation.from_decisions(["a", "b"], [[1, 0, 0], [0, 1, 0]], classes=["a", "b", "c"])
    assert legend(found.plot_roc()) == ["a: area 1.0000", "b: area 1.0000", "c: no curve",
                                        "by chance"]  # fmt: skip
    assert legend(found.plot_precision_recall())[2] == "c: no curve"


def test_precision_and_recall(evaluation):
    figure = evaluation.plot_precision_recall()
    (curve,) = evaluation.precision_recall()
    drawn = lines(figure)[f"b: average {curve.area:.4f}"]
    np.testing.assert_array_equal(drawn.get_xydata().T, (curve.x, curve.y))
    assert lines(figure)["by chance"].get_ydata()[0] == 0.6


def test_calibration(evaluation):
    figure = evaluation.plot_calibration(bins=4)
    found = evaluation.calibration(bins=4)
    (points,) = figure.axes[0].collections
    np.testing.assert_array_equal(points.get_offsets().T, (found.predicted, found.observed))
    assert figure.axes[0].get_xlabel() == "predicted probability of b"


def test_confusion(evaluation):
    figure = evaluation.plot_confusion()
    (ax,) = figure.axes
    counts, labels, _ = evaluation.matrix()
    assert [text.get_text() for text in ax.texts] == [str(n) for n in counts.ravel()]
    assert [text.get_text() for text in ax.get_yticklabels()] == labels == ["a", "b"]
    figure.canvas.draw()
    (cells,) = ax.collections
    shares = counts / counts.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(np.asarray(cells.get_array())[..., 3], shares)


def test_many_classes_have_no_numbers_and_too_many_no_figure():
    names = [str(k) for k in range(16)]
    figure = draw_confusion(np.eye(16, dtype=np.int64), names, names)
    assert not figure.axes[0].texts
    labels = np.arange(61)
    found = Evaluation.from_decisions(labels, np.eye(61))
    with pytest.raises(UsageError, match="61 classes cannot be read"):
        found.plot_confusion()


def test_counts_are_short():
    counts = np.array([[99999, 100000, 999_600], [2_500_000_000, 31_000_000, 0]])
    figure = draw_confusion(counts, ["a", "b"], ["a", "b", "c"])
    shown = [text.get_text() for text in figure.axes[0].texts]
    assert shown == ["99999", "100k", "1M", "2.5G", "31M", "0"]


def test_weights_are_bars_with_names():
    figure = draw_weights(["first", "$x_1$ & <b>", "n" * 80], [2.0, -1.0, 0.5], "for class 1")
    (ax,) = figure.axes
    assert [bar.get_width() for bar in ax.patches] == [2.0, -1.0, 0.5]
    names = [text.get_text() for text in ax.get_yticklabels()]
    assert names[:2] == ["first", r"\$x_1\$ & <b>"]
    assert len(names[2]) == canvas.LONGEST_NAME
    assert ax.yaxis_inverted()
    draw_weights([], [], "").canvas.draw()


def test_costs_have_their_folds():
    found = {
        "metric": "auc", "best_C": 1.0, "costs": [
            {"C": 0.1, "folds": [{"auc": 0.5}, {"auc": 0.7}, {"auc": None}]},
            {"C": 1.0, "folds": [{"auc": 0.75}, {"auc": 0.75}, {}]},
        ],
    }  # fmt: skip
    figure = plot_costs(found)
    (ax,) = figure.axes
    folds, mean, best = ax.get_lines()
    np.testing.assert_allclose(mean.get_xydata(), [(0.1, 0.6), (1.0, 0.75)])
    assert best.get_xydata().tolist() == [[1.0, 0.75]]
    assert np.isfinite(folds.get_ydata()).sum() == 4
    (band,) = ax.collections
    spread = np.std([0.5, 0.7], ddof=1)
    assert band.get_paths()[0].vertices[:, 1].min() == pytest.approx(0.6 - spread)
    assert ax.get_ylabel() == "area under the ROC curve"


def test_a_path_has_a_line_for_each_of_the_largest_weights():
    weights = np.array([[0.0, 0.0, 0.0], [0.0, -2.0, 0.1], [0.5, -3.0, 0.1]])
    models = [
        LinearModel(row[:, None], np.zeros(1), -1.0, (1.0, -1.0), "L1R_LR", metadata={"C": cost})
        for row, cost in zip(weights, (0.1, 1.0, 10.0), strict=True)
    ]
    figure = plot_path(models[::-1], top=2, names=["a", "b", "c"])
    ax = figure.axes[0]
    found = {line.get_label(): line for line in ax.get_lines()}
    assert found["b"].get_xydata().tolist() == [[0.1, 0.0], [1.0, -2.0], [10.0, -3.0]]
    assert found["a"].get_ydata().tolist() == [0.0, 0.0, 0.5]
    assert "c" not in found
    figure.canvas.draw()
    (above,) = ax.child_axes
    assert [text.get_text() for text in above.get_xticklabels()] == ["0", "2", "3"]
    assert ax.get_ylabel() == "weight for class 1"
    without = replace(models[0], metadata={})  # as of LIBLINEAR's text
    for wrong, message in (
        ([], "no models"), (models + models[:1], "same C"), ([*models, without], "knows no C"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=message):
            plot_path(wrong)
    other = replace(models[0], weights=np.ones((2, 1)), metadata={"C": 3.0})
    with pytest.raises(UsageError, match="same features"):
        plot_path([*models, other])
    plot_path(models[:1]).canvas.draw()


def test_the_caller_may_give_axes(evaluation):
    from matplotlib.figure import Figure

    own = Figure()
    axes = own.subplots(2, 2).ravel()
    for ax, name in zip(axes, ("roc", "precision_recall", "calibration", "confusion"), strict=True):
        assert getattr(evaluation, f"plot_{name}")(ax=ax) is own
        assert ax.get_xlabel()


def test_notebooks_show_figures(evaluation):
    assert evaluation.plot_roc()._repr_png_().startswith(b"\x89PNG")


def test_pyplot_is_not_used():
    program = (
        "import sys\n"
        "from blocklinear.model.evaluation import Evaluation\n"
        "found = Evaluation.from_decisions([0, 1], [1.0, 2.0])\n"
        "assert 'matplotlib' not in sys.modules\n"
        "found.plot_roc().savefig('/dev/null', format='png')\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    done = programs.run([sys.executable, "-c", program])
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["roc", "precision_recall", "calibration", "confusion"])
def test_without_matplotlib(evaluation, name, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UsageError, match="figures need matplotlib") as caught:
        getattr(evaluation, f"plot_{name}")()
    assert caught.value.fix == "pip install 'blocklinear[plot]'"


@pytest.mark.parametrize(
    ("text", "drawn"),
    [("plain", "plain"), ("a\nb\tc", "a b c"), ("$5", r"\$5"), ("\u202ea", "a"), ("\ud800x", "x")],
)
def test_text_is_drawn_as_it_is(text, drawn):
    assert canvas.plain(text) == drawn


@pytest.mark.parametrize("name", [r"costs $\frac{1}{$ or more", "n" * 300, "two\nlines"])
def test_names_of_classes_are_text_in_every_figure(name):
    """What is between two dollars is no formula; and labels of axes end where the figure does."""
    found = Evaluation.from_decisions([name, "ham"], [0.5, -0.5], positive=name, logistic=True)
    for draw in (found.plot_roc, found.plot_precision_recall, found.plot_calibration,
                 found.plot_confusion):  # fmt: skip
        figure = draw()
        figure.set_size_inches(4.3, 3.2)  # as on a page
        figure.draw_without_rendering()
        for label in (figure.axes[0].xaxis.label, figure.axes[0].yaxis.label):
            assert "\n" not in label.get_text()
            box = label.get_window_extent()
            assert box.x0 >= 0
            assert box.x1 <= figure.bbox.x1


def test_the_middle_of_long_names_is_left_out():
    short = canvas.plain("beginning of a very long name, the end", 20)
    assert len(short) == 20
    assert short.startswith("beginning")
    assert short.endswith("the end")
