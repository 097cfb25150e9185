"""Runs, models and cross-validations draw themselves, and are reported on."""

import importlib.util
import sys

import numpy as np
import pytest
from report.pages import Page

import blocklinear
from blocklinear.errors import StorageError, UsageError, WrongTypeError
from blocklinear.report.runlog import RunLog

if importlib.util.find_spec("matplotlib") is None:
    pytest.skip("matplotlib is not installed", allow_module_level=True)


@pytest.fixture
def model(store):
    return blocklinear.train(store, C=0.5, gap=1e-4)


def test_a_model_has_the_history_of_its_training(store, tmp_path):
    with RunLog(tmp_path / "log.jsonl", 1e-4) as log:
        model = blocklinear.train(store, C=0.5, gap=1e-4, listener=log)
    read, own = blocklinear.read_log(tmp_path / "log.jsonl"), model.history
    certificate = model.metadata["certificate"]
    for history in (read, own):
        assert isinstance(history, blocklinear.RunHistory)
        assert history.goal("gap") == 1e-4
        assert history.ended["gap"] == certificate["gap"] == history.values("gap")[-1]
        assert history.ended["primal"] == certificate["primal"]
        assert history.store["rows"] == 60
        assert history.store["labels"] == [{"label": 1.0, "rows": 40}, {"label": -1.0, "rows": 20}]
        assert history.options["cost"] == 0.5
        assert history.peak_bytes > 0
        spent = history.spent
        assert 0 < spent["solve_s"] + spent["certify_s"] <= spent["seconds"]
    assert read.events == own.events
    assert read.started == own.started
    assert "Converged" in own._repr_html_()


def test_training_is_drawn(model):
    figure = model.plot_training(against=["seconds", "passes"])
    line = figure.axes[0].get_lines()[0]
    np.testing.assert_allclose(line.get_ydata(), model.history.values("gap"))
    np.testing.assert_allclose(line.get_xdata(), model.history.positions("seconds"))
    assert len(figure.axes) == 2
    np.testing.assert_allclose(
        model.history.plot(against="passes").axes[0].get_lines()[0].get_xdata(),
        model.history.positions("passes"),
    )
    with pytest.raises(UsageError, match="quantity is 'dual'"):
        model.plot_training("dual")


def test_a_model_from_a_file_has_no_history(model, tmp_path):
    model.save(tmp_path / "m")
    loaded = blocklinear.LinearModel.load(tmp_path / "m")
    assert loaded.history is None
    with pytest.raises(UsageError, match="keep no history"):
        loaded.plot_training()


def test_models_of_a_grid_have_a_line_for_each_cost(store):
    models = blocklinear.train_grid(store, costs=[0.1, 1.0])
    assert models[0].history is models[1].history
    handles = models[0].plot_training().axes[0].get_legend().get_texts()
    assert [text.get_text() for text in handles[:2]] == ["C = 0.1", "C = 1"]


def test_weights_are_drawn(model):
    figure = model.plot_weights(names=["a", "b", "c", "d"], top=2)
    (ax,) = figure.axes
    size = np.abs(model.weights[:, 0])
    two = np.argsort(-size)[:2]
    np.testing.assert_array_equal([bar.get_width() for bar in ax.patches], model.weights[two, 0])
    assert [text.get_text() for text in ax.get_yticklabels()] == ["abcd"[k] for k in two]
    assert ax.get_xlabel() == "weight for class 1"
    negative = model.plot_weights(top=2, label=-1).axes[0]
    assert negative.get_xlabel() == "weight for class -1"
    widths = [bar.get_width() for bar in negative.patches]
    np.testing.assert_array_equal(widths, -model.weights[two, 0])


def test_a_cross_validation_is_drawn(store):
    found = blocklinear.cross_validate(store, costs=[0.1, 1.0], folds=3)
    _, mean, best = found.plot("f1").axes[0].get_lines()
    np.testing.assert_allclose(mean.get_ydata(), found.to_dict()["f1"])
    assert best.get_xdata().tolist() == [found.best_cost]
    assert found.plot().axes[0].get_ylabel() == "accuracy"
    assert found.history.validated == found.report.as_dict()
    with pytest.raises(UsageError, match="'recall' is not one of accuracy, auc, f1"):
        found.plot("recall")


def test_text_and_arrays_are_evaluated_alike(store, rows):
    model = blocklinear.train(store, solver=7)
    from_text = blocklinear.evaluate(rows, model)
    X, y, _ = next(store.iter_csr())
    from_arrays = blocklinear.evaluate(X, model, y)
    assert str(from_text) == str(from_arrays)
    assert from_text.confusion.as_dict() == from_arrays.confusion.as_dict()
    share = np.mean(blocklinear.predict(X, model) == y)
    assert from_text.to_dict()["accuracy"] == share
    assert blocklinear.evaluate(rows, model, positive=-1).roc()[0].name == "-1"
    with pytest.raises(UsageError, match="with y"):
        blocklinear.evaluate(X, model)
    with pytest.raises(UsageError, match="labels of its own"):
        blocklinear.evaluate(rows, model, y)
    with pytest.raises(StorageError, match="none"):
        blocklinear.evaluate(rows.with_name("none"), model)


def test_a_report_of_a_model_that_was_trained_here(model, rows, tmp_path):
    blocklinear.write_report(tmp_path / "r.html", model=model, test=rows, names=["<a>", "b"])
    page = Page((tmp_path / "r.html").read_text())
    assert page.facts()["rows"] in ("60", "60 (60)")
    certificate = model.metadata["certificate"]
    assert f"P = {certificate['primal']:.9g}" in page.text
    assert f"D = {certificate['dual']:.9g}" in page.text
    accuracy = np.mean(blocklinear.predict(rows, model) == blocklinear.predict(rows, model))
    assert accuracy == 1.0
    assert float(page.facts()["accuracy"]) == pytest.approx(
        blocklinear.evaluate(rows, model).score.accuracy, rel=1e-5
    )
    weights = dict(page.table("feature", "weight"))
    assert float(weights["<a>"]) == pytest.approx(model.weights[0, 0], rel=1e-5)
    rows_of_page = page.table(
        "outer", "time", "primal", "dual", "gap", "proven", "support vectors", "read"
    )
    events = model.history.events
    assert [row[2] for row in rows_of_page] == [f"{event['primal']:.9g}" for event in events]


def test_a_report_needs_a_subject(tmp_path, model, rows):
    with pytest.raises(UsageError, match="nothing to report on"):
        blocklinear.write_report(tmp_path / "r.html")
    with pytest.raises(WrongTypeError, match="run is LinearModel, but must be a RunHistory"):
        blocklinear.write_report(tmp_path / "r.html", run=model)
    with pytest.raises(WrongTypeError, match="model is RunHistory, but must be a LinearModel"):
        blocklinear.write_report(tmp_path / "r.html", model=model.history)
    with pytest.raises(UsageError, match="give the model"):
        blocklinear.write_report(tmp_path / "r.html", run=blocklinear.RunHistory("x"), test=rows)
    assert not (tmp_path / "r.html").exists()


def test_without_matplotlib_it_is_said(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for draw in (model.plot_training, model.plot_weights):
        with pytest.raises(UsageError, match="figures need matplotlib"):
            draw()
