import bz2
import json
import os
from argparse import Namespace

import numpy as np
import pytest
from liblinear import liblinear_program

from blocklinear import SplitOptions, TrainOptions, split, train

ROWS = "".join(
    f"{label} {1 + i}:{0.5 * label} 8:{i + label} 9:1\n" for i in range(6) for label in (3, 1, 3, 2)
)
TWO = "".join(
    f"{label} {1 + i % 5}:{0.5 * label} 9:{i % 3}\n" for i in range(20) for label in (1, -1)
)


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "rows.svm"
    path.write_text(ROWS)
    return path


@pytest.fixture
def of_two(tmp_path):
    path = tmp_path / "two.svm"
    path.write_text(TWO)
    return path


@pytest.fixture
def small(tmp_path):
    """Options of a comparison of a second."""
    return ["--runs", "1", "--warm", "--out", str(tmp_path / "out"), "--folder", str(tmp_path)]


@pytest.mark.parametrize("solver", [1, 3, 4, 7, 12, 13])
@pytest.mark.parametrize("bias", [-1.0, 1.0])
def test_the_objective_is_that_of_the_certificate(rivals, text, of_two, tmp_path, solver, bias):
    for source in (text, of_two):
        store = split([source], tmp_path / source.stem, SplitOptions(blocks=2))
        options = TrainOptions(solver=solver, cost=2.0, bias=bias, max_outer=2)
        model = train(store, options)
        model.save(tmp_path / "model")
        found = rivals.objectives(tmp_path / "model", source, Namespace(solver=solver, cost=2.0))
        one_each = solver in (1, 3, 7) and source == text
        assert len(found) == (3 if one_each else 1)
        assert found.sum() == pytest.approx(model.metadata["certificate"]["primal"], rel=1e-12)


def test_the_largest_classes_are_kept(rivals, text, tmp_path):
    (tmp_path / "own").mkdir()
    kept = rivals.plain_text(text, tmp_path / "own", 2).read_text().splitlines()
    assert kept == [line for line in ROWS.splitlines() if line[0] in "31"]  # of equals the smaller
    with pytest.raises(SystemExit, match="has 3 classes, not 4"):
        rivals.plain_text(text, tmp_path, 4)


def test_text_is_unpacked_only_where_it_is_packed(rivals, text, tmp_path):
    assert rivals.plain_text(text, tmp_path, None) == text
    packed = tmp_path / "packed.svm.bz2"
    packed.write_bytes(bz2.compress(ROWS.encode()))
    (tmp_path / "own").mkdir()
    assert rivals.plain_text(packed, tmp_path / "own", None).read_text() == ROWS


def test_the_median_of_each_is_taken(rivals):
    results = {"a": [3.0, 1.0, 2.0], "b": [5.0, 50.0, 4.0]}
    taken = {name: [Namespace(wall_seconds=s) for s in some] for name, some in results.items()}
    assert rivals.medians(taken) == {"a": 2.0, "b": 5.0}


def test_the_ratio_is_that_of_turns(rivals):
    ours, theirs = ([Namespace(wall_seconds=s) for s in taken] for taken in ([1, 9, 2], [2, 10, 2]))
    assert rivals.ratio_to(ours, theirs) == 0.9


def test_commands_take_turns(rivals, monkeypatch, tmp_path):
    order = []

    def timed(rival, cold, clear):
        order.append(rival.name)
        return Namespace(wall_seconds=1.0)

    monkeypatch.setattr(rivals, "timed", timed)
    both = [rivals.Rival(name, [], tmp_path / name, None) for name in "ab"]
    both[0].log.write_text('{"event": "outer", "outer": 3, "seconds": 0.5}\n')
    before = os.sched_getaffinity(0)
    found, logs = rivals.in_turn(both, Namespace(runs=3, warm=True, threads=1), list)
    assert order == ["a", "b"] * 3
    assert [len(taken) for taken in found.values()] == [3, 3]
    assert rivals.median_of(logs["a"], "outer") == 3
    assert rivals.median_of(logs["b"], "outer") == "-"
    assert os.sched_getaffinity(0) == before


def test_how_far_above_the_best(rivals):
    best = np.array([10.0, 100.0])
    assert rivals.excess(np.array([11.0, 110.0]), best) == pytest.approx((0.1, 0.1))
    assert rivals.excess(np.array([15.0, 100.0]), best) == pytest.approx((5 / 110, 0.5))


def test_accuracies_of_both(rivals):
    report = {"costs": [{"C": 0.1, "mean": {"accuracy": 0.75}}, {"C": 1, "mean": {"accuracy": 1}}]}
    said = {
        "cv": json.dumps(report),
        "liblinear-train C = 0.1": "Cross Validation Accuracy = 74.5%\n",
        "liblinear-train C = 1": "Cross Validation Accuracy = 1e+02%\n",
    }
    assert rivals.cv_accuracies(said, ["0.1", "1"], 3) == {"0.1": (74.5, 75.0), "1": (100.0, 100.0)}


def test_errors_of_both(rivals):
    said = {
        "cv": json.dumps({"costs": [{"C": 1.0, "mean": {"mean_squared_error": 0.5}}]}),
        "liblinear-train C = 1": "Cross Validation Mean squared error = 0.25\n"
        "Cross Validation Squared correlation coefficient = 0.9\n",
    }
    assert rivals.cv_accuracies(said, ["1"], 12) == {"1": (0.25, 0.5)}


def test_without_liblinear_nothing_is_compared(bench_train, of_two, small, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    for command in ("total", "cv"):
        with pytest.raises(SystemExit, match="liblinear-train is not on the PATH"):
            bench_train.main([command, str(of_two), *small])


def test_text_to_model_is_compared(bench_train, of_two, small, tmp_path, capsys):
    liblinear_program("liblinear-train")
    options = [*small, "--gap", "0.1", "1e-6", "--asked", "1e-9", "--test", str(of_two)]
    assert bench_train.main(["total", str(of_two), *options]) == 1
    rows = json.loads((tmp_path / "out" / "total.json").read_text())["rows"]
    assert [row[0] for row in rows] == [
        "split + train --gap 0.1", "split + train --gap 1e-06", "liblinear-train -s 3",
    ]  # fmt: skip
    assert [row[-1] for row in rows] == ["MISSED", "ok", "ok"]
    assert rows[1][10] <= 1e-6
    assert "a certified bound is" in capsys.readouterr().out


def test_another_version_takes_turns_with_this_one(
    bench_train, monkeypatch, of_two, small, tmp_path
):
    """It is the one that Python finds first."""
    liblinear_program("liblinear-train")
    monkeypatch.setattr("rivals.compile_kernels", lambda version: None)
    package = tmp_path / "other" / "blocklinear"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text("raise SystemExit('the other one')")
    options = [*small, "--before", str(tmp_path / "other"), "--gap", "0.1"]
    for command in ("total", "cv"):
        with pytest.raises(SystemExit, match=r"before: .* failed: the other one"):
            bench_train.main([command, str(of_two), *options])


def test_classes_are_compared_in_the_format_of_liblinear(bench_train, text, small, tmp_path):
    liblinear_program("liblinear-train")
    options = [*small, "--classes", "3", "--format", "liblinear", "--threads", "1"]
    assert bench_train.main(["total", str(text), *options, "--gap", "1e-4"]) == 0
    rows = json.loads((tmp_path / "out" / "total.json").read_text())["rows"]
    assert max(rows[0][10:12]) <= 1e-4


def test_cross_validation_is_compared(bench_train, of_two, small, tmp_path):
    liblinear_program("liblinear-train")
    options = [*small, "--costs", "0.1,1", "--folds", "2", "--asked", "1e9"]
    assert bench_train.main(["cv", str(of_two), *options]) == 0
    figures = json.loads((tmp_path / "out" / "cv.json").read_text())
    assert len(figures["seconds"]) == 3
    assert not list(tmp_path.glob("*.blocks"))


def test_many_models_are_compared_with_one(bench_train, text, of_two, tmp_path, capsys):
    options = ["--outer", "4", "--out", str(tmp_path), "--selection", "permute"]
    assert bench_train.main(["models", str(text), *options]) == 0
    assert "permute         3" in capsys.readouterr().out
    options += ["--costs", "2", "--asked", "1e-9"]
    assert bench_train.main(["models", str(of_two), *options]) == 1
    assert "asked 1e-09" in capsys.readouterr().out


@pytest.mark.parametrize("memory", ["much", "0"])
def test_memory_is_a_size(bench_train, capsys, memory):
    with pytest.raises(SystemExit, match="2"):
        bench_train.main(["total", "rows.svm", "--memory", memory])
    assert "is not a size" in capsys.readouterr().err
