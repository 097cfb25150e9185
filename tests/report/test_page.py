"""Reports: what they say is what logs, models and test rows say."""

import importlib.util
import json
import math
import sys

import numpy as np
import pytest

from blocklinear.model.evaluation import Evaluation
from blocklinear.model.linear import LinearModel
from blocklinear.report.facts import NONE, certificate_text, seconds_text, size_text
from blocklinear.report.page import Subject, page_of, write_page
from blocklinear.report.pictures import Pictures
from blocklinear.report.records import RunRecords, read_events

from .conftest import outer
from .pages import Page

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("matplotlib") is None, reason="matplotlib is not installed"
)
EVIL = '<script>alert("1")</script>'
STORE = {
    "path": "store", "rows": 1234567, "features": 54321, "nnz": 12345670, "blocks": 8,
    "bytes": 5 << 20, "classes": 2, "hash_bits": 0, "normalize": "none", "weighted": False,
    "labels": [{"label": 1.0, "rows": 1000000}, {"label": -1.0, "rows": 234567}],
}  # fmt: skip
OPTIONS = {
    "solver": 3, "cost": 0.5, "gap": 0.01, "memory_bytes": 512 << 20, "seed": 7, "bias": -1.0,
    "class_weights": [[1.0, 2.0]], "resume": False,
}  # fmt: skip
START = {"event": "start", "task": "train", "store": STORE, "options": OPTIONS, "version": "1"}
END = {
    "event": "end", "stopped": "converged", "seconds": 5.0, "outer": 2, "primal": 10.0,
    "dual": 9.95, "gap": 0.005, "peak_bytes": 300 << 20,
}  # fmt: skip
WARM = {"event": "warm_start", "rows_kept": 1200, "rows_new": 34, "rows_gone": 5, "how": "kept"}
EVENTS = [
    outer(1, 1.0, 12.0, 0.2, wait_s=0.25, solve_s=0.5, load_s=0.75, bytes_read=1 << 20, n_sv=99),
    outer(
        2, 4.0, 10.0, 0.005, True, wait_s=0.5, solve_s=1.0, certify_s=1.5, dual=9.95,
        bytes_read=1 << 20, rss_bytes=200 << 20, gap_goal=0.01, violation_goal=None,
    ),
]  # fmt: skip


def page(subject):
    html, missing = page_of(subject)
    assert not missing
    return Page(html)


def model_of(n_features=6, n_classes=2, **fields):
    columns = 1 if n_classes == 2 else n_classes
    weights = np.arange(1.0, n_features * columns + 1).reshape(n_features, columns)
    how = {"labels": tuple(map(float, range(n_classes))), "solver": "L2R_LR_DUAL"} | fields
    return LinearModel(weights=weights, bias_weights=np.zeros(columns), bias=-1.0, **how)


LINES = ("outer", "time", "primal", "dual", "gap", "proven", "support vectors", "read")


@pytest.fixture
def run(log):
    return read_events(log(START, *EVENTS, {"event": "warning", "message": EVIL}, END))


def test_a_run_is_that_of_its_log(run):
    found = page(Subject("run", run))
    assert found.headings == [
        "Certificate", "Course of the run", "Time and memory", "Data and settings", "Warnings",
        "Outer iterations",
    ]  # fmt: skip
    assert "Converged: what was asked for is proven." in found.text
    assert "P = 10. No model can have less than D = 9.95" in found.text
    assert "at most 0.503 % above the optimum" in found.text
    facts = found.facts()
    assert facts["nonzeros"] == "12,345,670 (10 a row)"
    assert facts["blocks"] == "8, 5 MiB on disk"
    assert facts["loss"] == "hinge (-s 3)"
    assert facts["C"] == "0.5"
    assert facts["weights of classes"] == "1: 2"
    assert facts["memory budget"] == "512 MiB"
    assert facts["largest resident memory"] == "300 MiB"
    assert facts["of it anonymous, at most"] == "200 MiB"
    assert facts["read in outer iterations"] == "2 MiB"
    assert "bias feature" not in facts
    assert found.table("class", "rows", "share") == [
        ["1", "1,000,000", "81.0 %"], ["-1", "234,567", "19.0 %"],
    ]  # fmt: skip
    assert found.table("", "time", "share") == [
        ["working on rows", "1.5 s", "30.0 %"], ["waiting for blocks", "0.75 s", "15.0 %"],
        ["certifying the gap", "1.5 s", "30.0 %"], ["other", "1.25 s", "25.0 %"],
        ["all", "5 s", "100 %"],
    ]  # fmt: skip
    rows = found.table(*LINES)
    assert rows[0][:3] + rows[0][4:7] == ["1", "1.00", "12", "2.00e-01", "no", "99"]
    assert rows[1][2:6] == ["10", "9.95", "5.00e-03", "yes"]
    assert found.figures == 3  # the gap by seconds, passes and bytes
    assert EVIL in found.text
    assert "script" not in found.tags


def test_figures_take_the_colours_of_the_page(run):
    html, _ = page_of(Subject("run", run))
    pictures = html.partition("</style>")[2]
    assert "var(--series-0)" in pictures
    assert "#000000" not in pictures
    assert "#ffffff" not in pictures
    assert "DejaVu" not in pictures
    assert html == page_of(Subject("run", run))[0]


def test_a_warm_start_and_the_batches_of_a_store(log):
    batches = [{"name": f"day {k}", "rows": k} for k in range(1, 21)]
    start = START | {"store": STORE | {"batches": 30, "last_batches": batches}}
    facts = page(Subject("run", read_events(log(start, WARM, *EVENTS, END)))).facts()
    warm = "from an earlier run: 1,200 of its rows kept, 34 rows new, 5 gone"
    assert facts["warm start"] == warm
    assert facts["batches"].startswith("30: ... day 11 (11 rows), day 12")
    start["store"] = STORE | {"batches": 2, "last_batches": batches[:2]}
    facts = page(Subject("run", read_events(log(start, *EVENTS, END)))).facts()
    assert facts["batches"] == "2: day 1 (1 row), day 2 (2 rows)"
    assert "warm start" not in facts


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        ([START], "Not ended: 0 outer iterations so far. It goes on, or was killed."),
        ([START, EVENTS[0]], "Not ended: 1 outer iteration so far."),
        ([EVENTS[1]], "Reached its goal."),
        ([START, END | {"outer": None, "stopped": "out of memory"}], "without a model: out of mem"),
        ([START, *EVENTS, END | {"stopped": "9 seconds"}], "Not converged after 9 seconds."),
        (
            [START, *EVENTS, END | {"stopped": "3 outer iterations without a better score"}],
            "Stopped before its goal, after 3 outer iterations without a better score: the best "
            "model is kept.",
        ),
    ],
)
def test_runs_that_are_not_whole(log, lines, status):
    path = log(*lines)
    with path.open("a") as stream:
        stream.write('{"event": "outer", "ou')  # it is being written
    assert status in page(Subject("run", read_events(path))).text


def test_a_run_without_a_certificate_proves_nothing(log):
    found = page(Subject("run", read_events(log(START, EVENTS[0]))))
    assert "Nothing is proven yet" in found.text
    assert "estimated gap 0.2" in found.text


def test_a_log_of_an_earlier_version(log):
    found = page(Subject("run", read_events(log(outer(1, 1.0), outer(2, 2.0, gap=0.01)))))
    assert found.headings == ["Certificate", "Course of the run", "Time and memory",
                              "Outer iterations"]  # fmt: skip


@pytest.mark.parametrize("broken", ["options", "store", "result", "labels", "costs"])
@pytest.mark.parametrize("value", [None, 3, "text", [], [1], {}, {"a": 1}])
def test_lines_that_somebody_else_wrote(log, monkeypatch, broken, value):
    monkeypatch.setattr(Pictures, "of_run", lambda *_: [])  # of outer iterations, which are whole
    start = START | {broken: value} if broken in START else START
    if broken in ("labels", "costs"):
        start = START | {"store": STORE | {"labels": value}, "options": OPTIONS | {"costs": value}}
    validated = {"event": "cross_validation", "result": value}
    found = page(Subject("run", read_events(log(start, EVENTS[0], validated, END))))
    assert "Cross-validation" not in found.headings


def validated(n_costs=3):
    costs = [
        {
            "C": 10.0**k, "gap": 0.001, "folds": [{"rows": 5, "accuracy": 0.5 + 0.1 * k + 0.01 * f}
                                                  for f in range(4)],
            "mean": {"accuracy": 0.515 + 0.1 * k}, "spread": {"accuracy": 0.0129},
        }
        for k in range(n_costs)
    ]  # fmt: skip
    result = {"metric": "accuracy", "best_C": 10.0 ** (n_costs - 1), "rows": 20, "folds": 4,
              "outer_iterations": 3, "costs": costs}  # fmt: skip
    return {"event": "cross_validation", "result": result}


@pytest.mark.parametrize("refit", [False, True])
def test_a_cross_validation(log, refit):
    start = START | {"task": "cross-validation"}
    end = END | {"stopped": "ended", "primal": None, "dual": None}
    lines = [start, EVENTS[0], validated(), end]
    lines += [START, *EVENTS, END] if refit else []
    found = page(Subject("cv", read_events(log(*lines))))
    assert found.headings[:2] == ["Certificate", "Cross-validation"]
    assert found.table("C", "accuracy", "largest gap") == [
        ["1", "0.515 ± 0.013", "0.001"], ["10", "0.615 ± 0.013", "0.001"],
        ["100", "0.715 ± 0.013", "0.001"],
    ]  # fmt: skip
    assert "4 folds of 20 rows. The best C by accuracy is 100." in found.text
    assert ("The model has the objective" if refit else "The objective of each model") in found.text
    assert ("C" in found.facts()) == refit


def test_another_run_has_no_cross_validation(log):
    lines = [START | {"task": "cross-validation"}, validated(), END, START, *EVENTS, END]
    history = read_events(log(*lines, START, *EVENTS, END))
    assert history.validated is None
    assert "Cross-validation" not in page(Subject("x", history)).headings


def test_a_model_alone():
    certificate = {"primal": 10.0, "dual": 9.9, "gap": 0.01}
    metadata = {"certificate": certificate, "C": 2.5, "outer_iterations": 7, "stopped": EVIL}
    model = model_of(labels=(1.0, -1.0), metadata=metadata, feature_names=(EVIL, "b"))
    found = page(Subject(EVIL, model=model))
    assert found.headings == ["Certificate", "Largest weights", "Data and settings"]
    assert found.table("feature", "weight") == [
        ["feature 6", "6"], ["feature 5", "5"], ["feature 4", "4"], ["feature 3", "3"], ["b", "2"],
        [EVIL, "1"],
    ]  # fmt: skip
    assert found.facts()["outer iterations"] == "7"
    assert found.facts()["C"] == "2.5"
    assert "Weights above 0 are for class 1, below 0 for class -1." in found.text
    assert "script" not in found.tags


@pytest.mark.parametrize(
    ("solver", "words"),
    [("MCSVM_CS", "The model has the objective"), ("L2R_LR_DUAL", "The objective of each model")],
)
def test_the_classes_of_crammer_and_singer_are_one_problem(solver, words):
    metadata = {"certificate": {"primal": 10.0, "dual": 9.9, "gap": 0.01}}
    found = page(Subject("m", model=model_of(n_classes=3, solver=solver, metadata=metadata)))
    assert words in found.text


def test_a_model_without_a_certificate_or_weights():
    model = model_of(n_features=2)
    model.weights[:] = 0.0
    found = page(Subject("m", model=model))
    assert "Nothing is proven" in found.text
    assert "All weights are 0." in found.text


def test_a_thousand_classes_are_not_all_shown():
    names = {float(k): f"{EVIL} {k}" for k in range(1000)}
    model = model_of(4, 1000, solver="L2R_L1LOSS_SVC_DUAL", classes=names)
    labels = np.arange(1000.0)
    found = Evaluation(model)
    decisions = np.zeros((1000, 1000))
    decisions[np.arange(1000), (np.arange(1000) + (np.arange(1000) < 30)) % 1000] = 1.0
    found.add(labels, decisions)
    html, _ = page_of(Subject("many", model=model, evaluation=found))
    shown = Page(html)
    assert len(html) < 200_000
    assert shown.facts()["accuracy"] == "0.97"
    assert "The first 20 of 1,000 classes." in shown.text
    wrong = shown.table("class", "predicted as", "rows")
    assert len(wrong) == 20
    assert all(row[2] == "1" for row in wrong)


def test_a_run_of_a_thousand_classes(log):
    labels = [{"label": f"class {k}", "rows": 1000 - k} for k in range(100)]
    start = START | {"store": STORE | {"classes": 1000, "labels": labels}}
    found = page(Subject("run", read_events(log(start, *EVENTS, END))))
    assert len(found.table("class", "rows", "share")) == 20
    assert "The 20 classes with the most rows, of 1,000." in found.text


def test_long_runs_are_thinned(log):
    events = [outer(k, float(k), 10.0, 1.0 / k) for k in range(1, 1001)]
    html, _ = page_of(Subject("run", read_events(log(START, *events))))
    found = Page(html)
    rows = found.table(*LINES)
    assert [row[0] for row in rows[:6]] == ["1", "2", "3", "4", "5", "966"]
    assert rows[-1][0] == "1,000"
    assert len(html) < 600_000


def test_of_a_wide_model_few_features_are_looked_up():
    """A name is made for each feature that is shown, not for each of the model."""

    class Names:
        asked = 0

        def __len__(self):
            return 3_000_000

        def __getitem__(self, number):
            Names.asked += 1
            return f"<{number}>"

    model = model_of(3_000_000)
    found = page(Subject("wide", model=model, names=Names()))
    assert found.table("feature", "weight")[0] == ["<2999999>", "3e+06"]
    assert Names.asked == 40  # the figure and the table


def test_test_rows():
    model = model_of(labels=(1.0, -1.0))
    labels = np.array([1.0, 1.0, -1.0, -1.0, 1.0, -1.0])
    decisions = np.array([[2.0], [-0.5], [-1.0], [0.5], [1.0], [-2.0]])
    found = Evaluation(model)
    found.add(labels, decisions)
    shown = page(Subject("m", model=model, evaluation=found, test=EVIL))
    facts = shown.facts()
    assert (facts["rows"], facts["correct"], facts["accuracy"]) == ("6", "4", "0.666667")
    assert facts["area under the ROC curve"] == f"{8 / 9:.6g}"
    assert facts["F1"] == "0.666667 (positive class 1)"
    assert shown.table("class", "precision", "recall", "F1", "rows") == [
        ["-1", "0.667", "0.667", "0.667", "3"], ["1", "0.667", "0.667", "0.667", "3"],
    ]  # fmt: skip
    assert shown.figures == 5  # ROC, precision and recall, calibration, confusion, weights
    for title in ("ROC curve", "Precision and recall", "Calibration", "Rows by class"):
        assert title in shown.text


def test_test_rows_of_one_class_have_no_curves():
    """Their charts would be empty, and their legends would say nan."""
    model = model_of(labels=(1.0, -1.0))
    found = Evaluation(model)
    found.add(np.array([-1.0, -1.0]), np.array([[2.0], [-0.5]]))
    shown = page(Subject("m", model=model, evaluation=found))
    assert shown.facts()["area under the ROC curve"] == NONE
    assert "ROC curve" not in shown.captions
    assert "Precision and recall" not in shown.captions
    assert "nan" not in shown.text


def test_a_figure_says_how_many_weights_it_has():
    assert "All weights that are not 0" in page(Subject("m", model=model_of(6))).captions
    assert "All weights that are not 0" in page(Subject("m", model=model_of(20))).captions
    assert "The 20 largest weights" in page(Subject("m", model=model_of(21))).captions


@pytest.mark.filterwarnings("error")
def test_names_that_fonts_of_this_machine_lack():
    """Text of a page is drawn by its reader, who may have the font."""
    model = model_of(2, feature_names=("北", "b"))
    assert "北" in page(Subject("m", model=model)).text


def test_a_run_that_did_not_end_wrote_no_model(log, run):
    words = "This is outer iteration 2: no model is written yet."
    assert words not in page(Subject("run", run)).text
    late = EVENTS[1] | {"gap_goal": 1e-9}
    assert words in page(Subject("run", read_events(log(START, EVENTS[0], late)))).text
    older = model_of(metadata={"certificate": {"primal": 10.0, "dual": 9.9, "gap": 0.01}})
    begun = read_events(log(START, EVENTS[0]))
    assert "no model is written" not in page(Subject("run", begun, model=older)).text
    stopped = {"event": "end", "stopped": "stopped in outer iteration 2", "seconds": 5.0}
    found = page(Subject("run", read_events(log(START, EVENTS[0], late, stopped))))
    assert "Ended without a model" in found.text
    assert words in found.text


def test_blocks_that_were_decoded_before_training(log):
    event = EVENTS[1] | {"load_s": 0.0, "bytes_read": 0}
    assert "Reading and decoding" not in page(Subject("run", read_events(log(START, event)))).text


def test_a_regression():
    model = model_of(labels=(), solver="L2R_L2LOSS_SVR_DUAL", n_classes=2)
    found = Evaluation(model)
    found.add(np.array([1.0, 2.0, 4.0]), np.array([[1.0], [2.0], [3.0]]))
    shown = page(Subject("m", model=model, evaluation=found))
    assert shown.facts()["mean squared error"] == f"{1 / 3:.6g}"
    assert "Weights above 0 raise the decision value." in shown.text


def test_without_matplotlib_there_are_tables(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    html, missing = page_of(Subject("run", run, model_of()))
    assert "pip install 'blocklinear[plot]'" in missing
    found = Page(html)
    assert found.figures == 0
    assert "There are no figures" in found.text
    assert found.facts()["C"] == "0.5"


def test_bytes_that_are_no_text(run, tmp_path):
    write_page(Subject("a\udcff\x00\u202eb", run), tmp_path / "page.html")
    assert "a���b" in Page((tmp_path / "page.html").read_text("utf-8")).text


def test_what_listeners_hear_is_what_logs_have(tmp_path):
    """A history collected by a program equals that of the log of the same run."""
    from blocklinear.events import OuterIteration, RunEnded, RunStarted, Warned
    from blocklinear.report.runlog import RunLog

    events = [
        RunStarted("train", {"rows": 3}, {"gap": math.inf}, "1"),
        OuterIteration(1, 1.0, 0.5, 0.25, 0.5, 9, 1.0, 2.0, 0.5, False, math.inf, 1, 1, 1, 1,
                       gaps=((0.1, 0.25), (1.0, 0.5))),
        Warned("slow"),
        RunEnded("converged", 2.0, 1, 2.0, 1.5, 0.25, 77),
    ]  # fmt: skip
    heard = RunRecords("log")
    with RunLog(tmp_path / "log", 0.01, models=["m"]) as log:
        for event in events:
            log(event)
            heard.hear(event, {"gap_goal": 0.01})
    read = read_events(tmp_path / "log")
    assert read.ended == heard.ended | {"models": ["m"]}
    assert read.warnings == heard.warnings == ["slow"]
    assert read.values("violation") == heard.values("violation") == [None]
    assert read.spent == heard.spent
    assert [(c.cost, c.values("gap")) for c in heard.by_cost()] == [(0.1, [0.25]), (1.0, [0.5])]
    assert [(c.cost, c.values("gap")) for c in read.by_cost()] == [(0.1, [0.25]), (1.0, [0.5])]
    assert read.peak_bytes == heard.peak_bytes == 77
    assert json.loads((tmp_path / "log").read_text().splitlines()[0])["options"] == {"gap": None}


@pytest.mark.parametrize("primal", [1.0, 3.7, 1e9])
@pytest.mark.parametrize("gap", [1e-12, 1e-3, 0.00123456, 0.5, 0.999, 0.0])
def test_the_bound_in_words_holds(primal, gap):
    """However good the best model may be, the primal objective is not further above it."""
    dual = primal * (1 - gap)
    words = certificate_text(primal, dual, gap)
    percent = float(words.split("at most ")[1].split(" %")[0])
    assert 1.01 * (primal - dual) / dual + 1e-12 >= percent / 100 >= gap / (1 - gap)


def test_a_gap_of_one_proves_nothing():
    assert "proves nothing" in certificate_text(1.0, -1.0, 2.0)
    assert "no certificate" in certificate_text(1.0, 1.0, None)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1.39e-5, "< 0.001 s"), (0.0123, "0.0123 s"), (12.345, "12.3 s"), (99.6, "1 min 40 s"),
     (3725, "1 h 2 min")],
)  # fmt: skip
def test_times_for_people(seconds, text):
    assert seconds_text(seconds) == text


def test_sizes_for_people():
    assert [size_text(n) for n in (12, 2048, 3 << 30)] == ["12 bytes", "2 KiB", "3 GiB"]
