import bz2
import json

import pytest

from blocklinear import SplitOptions, TrainOptions, split, train
from blocklinear.report.runlog import RunLog

ROWS = "".join(f"{label} {1 + i}:{0.5 * label} 9:1\n" for i in range(6) for label in (3, 1, 3, 2))


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "rows.svm.bz2"
    path.write_bytes(bz2.compress(ROWS.encode()))
    return path


@pytest.fixture
def text(measuring, rows, tmp_path):
    return measuring.two_classes(rows, tmp_path / "text.svm")


def test_the_largest_class_against_the_rest(measuring, rows, text, tmp_path):
    labels = [line.split()[0] for line in text.read_text().splitlines()]
    assert labels == ["+1", "-1"] * 12
    by_class = measuring.two_classes(rows, tmp_path / "sorted.svm", by_class=True)
    assert sorted(by_class.read_text().splitlines()) == sorted(text.read_text().splitlines())
    assert [line[0] for line in by_class.read_text().splitlines()] == ["+"] * 12 + ["-"] * 12


def test_what_outer_iterations_cost(measuring, bench_train, text, tmp_path):
    store = split([text], tmp_path / "store", SplitOptions(blocks=4))
    with RunLog(tmp_path / "log") as log:
        train(store, TrainOptions(group=1, gap=1e-12, max_outer=4, selection="permute"), log)
    events = measuring.logged(tmp_path / "log")
    found = bench_train.outer_seconds(events)
    uncertified = [event["outer"] for event in events if not event["certified"]]
    assert [one["outer"] for one in found] == uncertified
    total = sum(one["seconds"] for one in found)
    assert total <= events[-1]["seconds"]
    for one in found:
        larger = max(one["load_s"], one["solve_s"])
        assert one["ok"] == (one["seconds"] <= bench_train.OVERLAP * larger)


def test_the_speed_of_an_epoch_and_a_certificate(bench_train, text, tmp_path, capsys):
    options = ["--runs", "2", "--epochs", "3", "--out", str(tmp_path)]
    assert bench_train.main(["speed", str(text), *options]) in (0, 1)
    assert "10^6 nonzeros/s" in capsys.readouterr().out
    figures = json.loads((tmp_path / "speed.json").read_text())
    assert (len(figures["epochs"]), len(figures["certificates"])) == (4, 2)
    assert min(figures["epochs"] + figures["certificates"]) > 0


def test_selections_are_compared(bench_train, tmp_path, capsys):
    options = ["--data", "heart_scale", "--cost", "1", "--gap", "0.01", "--time-limit", "1e9"]
    assert bench_train.main(["selection", *options, "--out", str(tmp_path)]) == 0
    assert "heart_scale  avsf" in capsys.readouterr().out
    runs = json.loads((tmp_path / "selection.json").read_text())["runs"]
    assert [run["reached"] for run in runs] == [True] * 12  # by the gap, and by two tolerances


def test_the_work_of_runs_is_told(bench_train, text, tmp_path, capsys):
    options = ["--data", str(text), "heart_scale", "--cost", "1", "--gap", "1e-2", "1e-3"]
    assert bench_train.main(["work", *options, "--out", str(tmp_path)]) == 0
    assert "8 runs, 0 not to the gap" in capsys.readouterr().out
    runs = json.loads((tmp_path / "work.json").read_text())["runs"]
    permuted = [run for run in runs if run["selection"] == "permute"]
    assert [run["solved"] == run["outer"] for run in permuted] == [True] * 4


def test_groups_are_compared_with_memory(bench_train, text, tmp_path, capsys):
    options = ["--blocks", "10", "--seeds", "1", "--gap", "0.01", "--out", str(tmp_path)]
    assert bench_train.main(["regroup", str(text), *options]) in (0, 1)
    assert "by class  permute" in capsys.readouterr().out
    runs = json.loads((tmp_path / "regroup.json").read_text())["runs"]
    assert {run["group"] for run in runs} >= {10, 1}  # random blocks may be empty


@pytest.mark.parametrize("arguments", [[], ["unknown"], ["overlap", "s", "--memory", "much"]])
def test_bad_usage(bench_train, arguments, capsys):
    with pytest.raises(SystemExit, match="2"):
        bench_train.main(arguments)
    assert "usage:" in capsys.readouterr().err
