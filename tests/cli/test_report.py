"""``blocklinear report``: pages from the files that other commands wrote."""

import importlib.util
import json
import shutil
import sys

import pytest
import servers
from report.pages import Page

from blocklinear.model.linear import LinearModel
from blocklinear.report import facts

needs_matplotlib = pytest.mark.skipif(
    importlib.util.find_spec("matplotlib") is None, reason="matplotlib is not installed"
)


@pytest.fixture
def run(cli, store, rows, tmp_path):
    """Return the log of a run; its model is there too."""
    log = tmp_path / "run.jsonl"
    flags = ["-s", 7, "--eval", rows, "--log", log, "-q"]
    assert cli("train", store, tmp_path / "model", *flags).status == 0
    return log


@pytest.fixture
def report(cli, tmp_path):
    def make(*arguments, err=""):
        done = cli("report", *arguments, "-o", tmp_path / "page.html")
        assert (done.status, done.out, done.err) == (0, "", err)
        return Page((tmp_path / "page.html").read_text())

    return make


def test_a_page_has_no_signature_of_a_url(report, run, rows):
    pytest.importorskip("fsspec")
    pytest.importorskip("aiohttp")
    with servers.http_files({"/rows.svm": rows.read_bytes()}) as server:
        page = report(run.with_name("model"), "--test", f"{server.url}/rows.svm?signature=a/secret")
    assert "rows.svm" in page.text
    assert "secret" not in page.text


@needs_matplotlib
def test_a_run_and_the_model_that_it_wrote(report, run, rows, tmp_path):
    page = report(run, "--test", rows)
    events = [json.loads(line) for line in run.read_text().splitlines()]
    model = LinearModel.load(tmp_path / "model")
    certificate = model.metadata["certificate"]
    assert f"P = {certificate['primal']:.9g}" in page.text
    assert f"D = {certificate['dual']:.9g}" in page.text
    percent = float(page.text.split("at most ")[1].split(" %")[0])
    assert percent == pytest.approx(100 * certificate["gap"] / (1 - certificate["gap"]), rel=0.01)
    facts = page.facts()
    assert facts["features"] in ("6 (numbered from 1)", "6")
    assert facts["loss"] == "logistic (-s 7)"
    assert float(facts["accuracy"]) == events[-2]["accuracy"]
    assert page.table("class", "rows", "share") == [["1", "30", "50.0 %"], ["-1", "30", "50.0 %"]]
    weights = {name: float(weight) for name, weight in page.table("feature", "weight")}
    assert weights == {
        f"feature {k + 1}": pytest.approx(weight, rel=1e-5)
        for k, weight in enumerate(model.weights[:, 0])
    }
    assert page.figures >= 6
    assert "On the rows of rows.svm" in page.headings


@needs_matplotlib
def test_another_model_is_not_taken_for_that_of_the_run(cli, report, run, store, tmp_path):
    assert "Largest weights" in report(run).headings
    (tmp_path / "model").unlink()
    assert "Largest weights" not in report(run).headings
    other = tmp_path / "other"
    assert cli("train", store, other, "-q", "--run", "other", "-c", 3).status == 0
    shutil.copy(other, tmp_path / "model")
    assert "Largest weights" not in report(run).headings
    done = cli("report", other, run, "-o", tmp_path / "page.html")
    assert done.status == 5
    assert "the model is not that of the run in the log" in done.err


@needs_matplotlib
def test_a_regression_has_no_classes(cli, report, store, tmp_path):
    log = tmp_path / "regression.jsonl"
    assert (
        cli("train", store, tmp_path / "r", "-q", "--restart", "-s", 12, "--log", log).status == 0
    )
    page = report(log)
    assert page.facts()["classes"] == facts.NONE
    assert ["class", "rows", "share"] not in [table[0] for table in page.tables]


@needs_matplotlib
@pytest.mark.parametrize("to", ["native", "liblinear"])
def test_a_model_alone(cli, report, run, tmp_path, to):
    assert cli("convert", tmp_path / "model", tmp_path / "m", "--to", to).status == 0
    page = report(tmp_path / "m", "--title", "<b>mine")
    assert page.text.startswith("<b>mine")
    assert ("Nothing is proven" in page.text) == (to == "liblinear")


@needs_matplotlib
def test_a_cross_validation_and_its_refit(cli, report, store, rows, tmp_path):
    log = tmp_path / "cv.jsonl"
    flags = ["-v", 3, "-c", "0.01,1", "--refit", tmp_path / "best", "--log", log, "-q", "--json"]
    found = json.loads(cli("cv", store, *flags).out)
    page = report(log, "--test", rows)
    header = ["C", "accuracy", "area under the ROC curve", "F1", "largest gap"]
    table = page.table(*header)
    assert [row[0] for row in table] == ["0.01", "1"]
    for row, cost in zip(table, found["costs"], strict=True):
        mean, _, spread = row[1].partition(" ± ")
        assert float(mean) == pytest.approx(cost["mean"]["accuracy"], abs=float(spread) / 10)
        assert float(spread) == pytest.approx(cost["spread"]["accuracy"], rel=0.05)
    assert f"The best C by accuracy is {found['best_C']:g}." in page.text
    assert page.facts()["C"] in (f"{found['best_C']:g}", f"{found['best_C']}")
    assert "Largest weights" in page.headings


def test_what_is_no_run_and_no_model(refused, cli, run, rows, store, tmp_path):
    page = tmp_path / "page.html"
    assert "neither a run log nor a model" in refused(3, "report", rows, "-o", page)
    assert "is a folder" in refused(2, "report", store, "-o", page)
    assert "read failed" in refused(6, "report", tmp_path / "none", "-o", page)
    assert "two logs" in refused(2, "report", run, run, "-o", page)
    model = tmp_path / "model"
    assert "two models" in refused(2, "report", model, model, "-o", page)
    (tmp_path / "empty").touch()
    assert "no run is in this log yet" in refused(3, "report", tmp_path / "empty", "-o", page)
    assert "--positive is used with --test" in refused(
        2, "report", model, "--positive", 1, "-o", page
    )
    before = model.read_bytes()
    assert "both input and output" in refused(2, "report", run, "-o", model)
    assert model.read_bytes() == before
    model.unlink()
    assert "name the model, too" in refused(2, "report", run, "--test", rows, "-o", page)
    assert "both input and output" in refused(2, "report", run, "-o", run)
    assert not page.exists()


def test_without_matplotlib_it_is_a_page_of_tables(report, run, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    said = "warning: no figures: figures need matplotlib, which cannot be imported (import of "
    said += "matplotlib halted; None in sys.modules): pip install 'blocklinear[plot]'\n"
    page = report(run, err=said)
    assert page.figures == 0
    assert page.facts()["loss"] == "logistic (-s 7)"


@needs_matplotlib
def test_standard_output(cli, run):
    done = cli("report", run, "-o", "-")
    assert done.status == 0
    assert Page(done.out).figures > 0
