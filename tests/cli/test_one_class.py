"""The one-class SVM from the command line: from text to outliers, and a page about the run."""

import json
import re

import numpy as np
import pytest
from report.pages import Page

from blocklinear.model.linear import LinearModel


@pytest.fixture
def text(tmp_path):
    """Rows on one side but for some, with labels 1 and -1."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 4)).round(3) + np.where(rng.random(80) < 0.9, 3.0, 0.5)[:, None]
    lines = [" ".join(f"{j}:{x!r}" for j, x in enumerate(row, 1)) for row in X.tolist()]
    path = tmp_path / "one.svm"
    which = np.where(X[:, 0] > 2, "1 ", "-1 ").tolist()
    path.write_text("".join(f"{a}{b}\n" for a, b in zip(which, lines, strict=True)))
    return path


@pytest.fixture
def model(cli, text, tmp_path):
    assert cli("split", text, tmp_path / "s", "--blocks", 4, "-q").status == 0
    done = cli("train", tmp_path / "s", tmp_path / "m", "-s", 21, "-n", 0.1, "-q")
    assert (done.status, done.err) == (0, "")
    assert re.match(r"primal -\S+, dual -\S+, certified gap \S+ after", done.out)
    return tmp_path / "m"


def labels(path, changed):
    path.with_name("others.svm").write_text(
        "".join(changed + line[line.index(" ") :] for line in path.read_text().splitlines(True))
    )
    return path.with_name("others.svm")


def test_outliers_are_minus_one(cli, model, text, tmp_path):
    done = cli("predict", text, model, tmp_path / "out")
    predicted = (tmp_path / "out").read_text().split()
    truth = [line.split()[0] for line in text.read_text().splitlines()]
    right = sum(p == t for p, t in zip(predicted, truth, strict=True))
    assert done.out == f"Accuracy = {100 * right / 80:g}% ({right}/80)\n"
    found = predicted.count("-1")
    assert 4 <= found <= 13
    done = cli("predict", labels(text, "7"), model, tmp_path / "out")
    assert (tmp_path / "out").read_text().split() == predicted
    assert (done.out, done.err) == (f"Outliers = {100 * found / 80:g}% ({found}/80)\n", "")
    done = cli("predict", labels(text, "7"), model, tmp_path / "out", "--json")
    facts = json.loads(done.out)
    assert (facts["outliers"], facts["rows"], facts["accuracy"]) == (found, 80, None)
    cli("predict", text, model, tmp_path / "values", "--decision")
    values = np.array((tmp_path / "values").read_text().split(), float)
    assert [("1" if value > 0 else "-1") for value in values] == predicted


def test_a_model_says_nu_and_rho(cli, model):
    done = cli("info", model)
    assert re.search(r"^nu +0\.1$", done.out, re.M)
    assert re.search(r"^rho +\d", done.out, re.M)
    assert not re.search(r"^C ", done.out, re.M)
    assert "nu 0.1" in repr(LinearModel.load(model))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["train", "s", "m2", "-s", 21, "-c", 2], "does not take -c: its parameter is nu"),
        (["train", "s", "m2", "-s", 21, "-c", "1,2"], "does not take -c: its parameter is nu"),
        (["train", "s", "m2", "-s", 21, "-w1", 2], "does not take weights of classes"),
        (["train", "s", "m2", "-s", 21, "-B", 1], "rho takes the place of a bias"),
        (["train", "s", "m2", "-s", 21, "-n", 3], "nu is 3.0, but must be above 0 and at most 1"),
        (["cv", "s", "-s", 21], "cross-validation compares predictions with labels"),
        (["predict", "one.svm", "m", "o", "--report"], "the model has no classes"),
        (["predict", "one.svm", "m", "o", "-b", 1], "probability output is only supported"),
    ],
)
def test_what_does_not_apply_is_refused(refused, model, tmp_path, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    assert said in refused(2, *arguments)


def test_a_page_about_a_run(cli, model, text, tmp_path):
    log = tmp_path / "log"
    command = ["train", tmp_path / "s", tmp_path / "m", "-s", 21, "-n", 0.1, "-q", "--restart"]
    assert cli(*command, "--log", log).status == 0
    assert cli("report", log, "--test", text, "-o", tmp_path / "page.html").status == 0
    page = Page((tmp_path / "page.html").read_text())
    facts = page.facts()
    assert (facts["loss"], facts["nu"]) == ("one-class (-s 21)", "0.1")
    assert "C" not in facts
    certificate = LinearModel.load(tmp_path / "m").metadata["certificate"]
    assert f"P = {certificate['primal']:.9g}" in page.text
    assert "above the optimum" in page.text


def test_what_is_said_where_no_plane_separates_the_rows(cli, text, tmp_path):
    lines = text.read_text().splitlines()
    mirrored = [re.sub(r":-?", lambda m: ":" if m[0] == ":-" else ":-", line) for line in lines]
    text.write_text("\n".join(lines + mirrored) + "\n")
    cli("split", text, tmp_path / "s", "-q")
    log = tmp_path / "log"
    done = cli("train", tmp_path / "s", tmp_path / "m", "-s", 21, "-q", "--log", log)
    assert done.status == 0
    assert "no plane separates 0 from enough of the rows" in done.err
    assert cli("report", log, "-o", tmp_path / "page.html").status == 0
    assert "no plane separates 0" in Page((tmp_path / "page.html").read_text()).text


def test_the_command_line_of_liblinear(cli, text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = cli("liblinear", "train", "-s", 21, "-n", 0.1, "-c", 5, text, "m")
    assert (done.status, done.err) == (0, "")
    last = done.out.splitlines()[-4:]
    assert re.fullmatch(r"\.*optimization finished, #iter = \d+", last[0])
    assert re.fullmatch(r"Objective value = \d+\.\d{6}", last[1])
    assert re.fullmatch(r"nSV = \d+", last[2])
    rho = LinearModel.load(tmp_path / "m").rho
    assert last[3] == f"rho = {rho:f}"
    done = cli("liblinear", "predict", text, "m", "out")
    assert re.fullmatch(r"Accuracy = \S+% \(\d+/80\)\n", done.out)
    done = cli("liblinear", "predict", labels(text, "7"), "m", "out")
    assert done.out == "Accuracy = 0% (0/80)\n"


def test_weights_of_which_the_squares_vanish(cli, refused, text, model, tmp_path):
    weights, store = tmp_path / "weights", tmp_path / "weighted"
    for weight in ("1e-200", "2e-147"):  # 1.6e-145 in all
        weights.write_text(f"{weight}\n" * 80)
        assert cli("split", text, store, "--weights", weights, "-q", "--force").status == 0
        train = ("train", store, tmp_path / "m2", "-s", 21, "-n", 0.1, "-q")
        if weight == "1e-200":
            said = refused(3, *train)
            assert "the rows weigh 8e-199 in all, of which nothing is left once squared" in said
    assert cli(*train).status == 0
    found, usual = LinearModel.load(tmp_path / "m2"), LinearModel.load(model)
    np.testing.assert_allclose(found.weights / 2e-147, usual.weights, rtol=0.1)
