import json
import sys

import numpy as np
import programs
import pytest

from blocklinear.model.linear import LinearModel

FLAGS = ["-v", 3, "-c", "0.01,1,10", "-q", "--threads", 2]


@pytest.fixture
def classes(cli, tmp_path):
    """A store of three classes."""
    rng = np.random.default_rng(0)
    lines = [
        f"{label} {label + 1}:{rng.uniform(0.5, 2):.2f} 4:{rng.normal():.2f}"
        for label in rng.integers(0, 3, 40)
    ]
    (tmp_path / "classes.svm").write_text("\n".join(lines) + "\n")
    path = tmp_path / "classes"
    assert cli("split", tmp_path / "classes.svm", path, "--blocks", 3, "-q").status == 0
    return path


def test_the_table(cli, store):
    done = cli("cv", store, *FLAGS)
    assert (done.status, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0] == "3-fold cross-validation of 60 rows; positive class 1"
    assert lines[1].split() == ["C", "accuracy", "auc", "f1"]
    assert [line.split()[0] for line in lines[2:]] == ["0.01", "1", "10"]
    assert sum(line.endswith("<- best") for line in lines[2:]) == 1
    assert max(map(len, lines)) <= 100


def test_json(cli, store):
    done = cli("cv", store, *FLAGS, "--json")
    found = json.loads(done.out)
    assert list(found) == [
        "metric", "positive", "best_C", "rows", "folds", "outer_iterations", "costs",
    ]  # fmt: skip
    assert (found["metric"], found["rows"], found["folds"]) == ("accuracy", 60, 3)
    assert [own["C"] for own in found["costs"]] == [0.01, 1.0, 10.0]
    for own in found["costs"]:
        assert list(own) == ["C", "gap", "folds", "mean", "spread"]
        assert own["gap"] <= 1e-3
        assert sum(fold["rows"] for fold in own["folds"]) == 60
        for fold in own["folds"]:
            assert list(fold) == ["rows", "accuracy", "auc", "f1"]
    best = max(found["costs"], key=lambda own: (own["mean"]["accuracy"], -own["C"]))
    assert found["best_C"] == best["C"]


@pytest.mark.parametrize("metric", ["auc", "f1"])
def test_another_metric(cli, store, metric):
    found = json.loads(cli("cv", store, *FLAGS, "--json", "--metric", metric).out)
    best = max(found["costs"], key=lambda own: (own["mean"][metric], -own["C"]))
    assert (found["metric"], found["best_C"]) == (metric, best["C"])


def test_f1_of_either_class(cli, store):
    found = {
        label: json.loads(
            cli("cv", store, *FLAGS, "--json", "--metric", "f1", "--positive", label).out
        )
        for label in ("1", "-1")
    }
    assert [own["positive"] for own in found.values()] == [1.0, -1.0]
    assert json.loads(cli("cv", store, *FLAGS, "--json").out)["positive"] == 1.0
    one, other = (own["costs"][0]["mean"]["f1"] for own in found.values())
    assert one != other


@pytest.mark.parametrize("label", ["7", "x", "nan"])
def test_a_positive_class_that_is_none(cli, store, label):
    done = cli("cv", store, *FLAGS, "--positive", label)
    assert (done.status, done.out) == (2, "")
    assert f"'{label}' is not a number" in done.err or "class 7 is not one of 1, -1" in done.err


def test_several_classes_have_no_positive_one(refused, classes):
    said = refused(2, "cv", classes, *FLAGS, "--positive", 1)
    assert "a positive class is for two classes, and there are 3" in said


def test_refit_is_train(cli, store, tmp_path):
    more = ["-w1", 2, "-B", 1, "--gap", "1e-4", "--seed", 3]
    done = cli("cv", store, *FLAGS, *more, "--json", "--refit", tmp_path / "refitted")
    best = json.loads(done.out)["best_C"]
    cli("train", store, tmp_path / "m", "-c", best, *more, "-q", "--threads", 2)
    assert (tmp_path / "refitted").read_bytes() == (tmp_path / "m").read_bytes()


def test_predictions_are_in_the_order_of_the_input(cli, store, rows, tmp_path):
    cli("cv", store, *FLAGS, "--predictions", tmp_path / "p", "--json")
    lines = (tmp_path / "p").read_text().splitlines()
    assert len(lines) == 60
    assert set(lines) == {"1", "-1"}
    labels = [line.split()[0] for line in rows.read_text().splitlines()]
    accuracy = np.mean([a == b for a, b in zip(lines, labels, strict=True)])
    assert accuracy > 0.9


def test_several_classes(cli, classes, tmp_path):
    done = cli("cv", classes, *FLAGS, "--stratify", "--predictions", tmp_path / "p")
    assert done.out.splitlines()[1].split() == ["C", "accuracy", "f1"]
    assert set((tmp_path / "p").read_text().split()) <= {"0", "1", "2"}


def test_regression(cli, store):
    done = cli("cv", store, *FLAGS, "-s", 12, "-p", 0.2)
    assert done.out.splitlines()[1].split() == ["C", "mean_squared_error", "mean_absolute_error"]


def test_search(cli, store):
    done = cli("cv", store, "-v", 2, "--search", "-q", "--gap", 0.1)
    assert done.status == 0
    assert len(done.out.splitlines()) > 8


def test_balanced(cli, classes, refused):
    assert cli("cv", classes, *FLAGS, "--balanced").status == 0
    refused(2, "cv", classes, *FLAGS, "--balanced", "-w1", 3)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["-v", 1], "the number of folds is 1, but must be from 2 to 1000"),
        (["-c", "1,x"], "costs '1,x' are not numbers"),
        (["-c", "0"], "C is 0.0"),
        (["--metric", "mean_squared_error"], "is not one of accuracy, auc, f1"),
        (["-s", 4], "does not know -s 4"),
        (["-s", 12, "--stratify"], "does not know --stratify of a regression"),
    ],
    ids=str,
)
def test_bad_usage(refused, store, tmp_path, flags, message):
    assert message in refused(2, "cv", store, *flags, "-q", "--log", tmp_path / "log")
    assert not (tmp_path / "log").exists()


def test_one_class_only(cli, refused, tmp_path):
    (tmp_path / "rows.svm").write_text("1 1:1\n1 1:2\n")
    assert cli("split", tmp_path / "rows.svm", tmp_path / "one", "-q").status == 0
    assert "the one label 1" in refused(3, "cv", tmp_path / "one", "-q")


def test_text_is_split_first_and_the_log(cli, rows, tmp_path):
    done = cli("cv", rows, *FLAGS, "--log", tmp_path / "log")
    assert done.status == 0
    assert programs.outers(tmp_path / "log")[0]["n_models"] == 9
    assert not list((tmp_path / "rows.svm.blocks" / "runs").glob("*"))


def test_a_signal(store):
    program = (
        "import os, signal, sys\n"
        "from blocklinear.cli import console, main\n"
        "from blocklinear.events import BlockStep\n"
        "before = console.Console.__call__\n"
        "def show(self, event):\n"
        "    if isinstance(event, BlockStep):\n"
        "        os.kill(os.getpid(), signal.SIGTERM)\n"
        "    before(self, event)\n"
        "console.Console.__call__ = show\n"
        f"sys.exit(main.main(['cv', {str(store)!r}, '--gap', '1e-12', '--group', '1']))\n"
    )
    ran = programs.run([sys.executable, "-c", program])
    assert ran.returncode == 143, ran.stderr
    assert ran.stderr.splitlines()[-1] == "blocklinear: stopped"
    assert ran.stdout == ""


def test_the_model_refitted_says_its_cost(cli, store, tmp_path):
    cli("cv", store, *FLAGS, "--refit", tmp_path / "m")
    assert LinearModel.load(tmp_path / "m").metadata["C"] in (0.01, 1.0, 10.0)


def test_the_tolerance_is_that_of_train(cli, store, tmp_path):
    log = tmp_path / "log"
    flags = ["-s", 13, "-e", 0.01, "-q", "--log", log]
    assert cli("cv", store, "-v", 2, "-c", 0.1, *flags).status == 0
    seen = [event["violation"] for event in programs.outers(log)]
    assert seen[0] == 1.0
    assert [violation <= 0.01 for violation in seen] == [False] * (len(seen) - 1) + [True]
