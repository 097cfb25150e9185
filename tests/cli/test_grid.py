"""Several costs in one run of `train`; weights that balance classes; reports by class."""

import json

import numpy as np
import pytest

from blocklinear.model.linear import LinearModel

TEXT = "".join(f"{i % 3} {1 + i % 3}:{1 + i % 5} 4:{i % 7}\n" for i in range(33)) + "2 1:1\n2 4:2\n"


@pytest.fixture
def classes(cli, tmp_path):
    (tmp_path / "classes.svm").write_text(TEXT)
    path = tmp_path / "classes"
    assert cli("split", tmp_path / "classes.svm", path, "--blocks", 3, "-q").status == 0
    return path


def objectives(model):
    proofs = model.metadata.get("certificates") or [model.metadata["certificate"]]
    return [(proof["dual"], proof["primal"]) for proof in proofs]


@pytest.mark.parametrize(
    "flags", [[], ["-s", 1, "-B", 1], ["-s", 13], ["-s", 7, "-w1", 3]], ids=str
)
@pytest.mark.parametrize("several", [False, True])
def test_each_cost_as_if_alone(cli, store, classes, tmp_path, flags, several):
    source = classes if several else store
    more = [*flags, "-q", "--gap", "1e-5", "--max-outer", 100_000]
    done = cli("train", source, tmp_path / "m", "-c", "0.1,1,12.5", *more)
    assert done.status == 0
    assert [line.split(":")[0] for line in done.out.splitlines()] == ["C 0.1", "C 1", "C 12.5"]
    assert not (tmp_path / "m").exists()
    for cost in ("0.1", "1", "12.5"):
        cli("train", source, tmp_path / "alone", "-c", cost, *more)
        alone = LinearModel.load(tmp_path / "alone")
        found = LinearModel.load(tmp_path / f"m.C={cost}")
        assert found.metadata["C"] == float(cost)
        assert found.labels == alone.labels
        assert found.weights.shape == alone.weights.shape
        assert found.metadata["certificate"]["gap"] <= 1e-5
        for (dual, primal), (low, high) in zip(objectives(found), objectives(alone), strict=True):
            assert max(dual, low) <= min(primal, high) * (1 + 1e-12)


def test_memory_to_choose_the_best_is_checked_before_training(refused, classes, tmp_path):
    """Next to all models there must be room for the rows on their way."""
    rows, how = tmp_path / "rows.svm", ["-c", "0.1,1", "--memory", "92M"]
    rows.write_text("1 1:1\n")
    error = refused(7, "train", classes, tmp_path / "m", *how, "--best-on", rows)
    assert "text at least 16M" in error
    assert "fix: give it --memory 101M or more" in error


def test_the_best_on_other_rows(cli, classes, tmp_path):
    rows, flags = tmp_path / "classes.svm", ["-c", "1e-5,0.1,10", "-q"]
    done = cli("train", classes, tmp_path / "m", *flags, "--best-on", rows)
    assert done.status == 0, done.err
    scores = [float(line.split()[4].rstrip("%")) for line in done.out.splitlines()[:3]]
    costs = (1e-5, 0.1, 10.0)
    best = max(range(3), key=lambda k: (scores[k], -costs[k]))
    assert LinearModel.load(tmp_path / "m").metadata["C"] == costs[best]
    assert not list(tmp_path.glob("m.C=*"))
    report = json.loads(cli("predict", rows, tmp_path / "m", tmp_path / "out", "--json").out)
    assert 100 * report["accuracy"] == pytest.approx(scores[best], rel=1e-5)


def test_a_grid_in_the_format_of_liblinear(cli, store, tmp_path):
    cli("train", store, tmp_path / "m", "-c", "1,2", "-q", "--format", "liblinear")
    assert (tmp_path / "m.C=2").read_text().startswith("solver_type L2R_L1LOSS_SVC_DUAL")


def test_a_grid_is_resumed(cli, store, refused, tmp_path):
    flags = ["-c", "0.1,1,10", "-q", "--gap", "1e-7"]
    cli("train", store, tmp_path / "whole", *flags, "--run", "whole", "--max-outer", 9)
    cli("train", store, tmp_path / "m", *flags, "--max-outer", 2)
    cli("train", store, tmp_path / "m", *flags, "--max-outer", 9, "--resume")
    for cost in ("0.1", "1", "10"):
        found = [LinearModel.load(tmp_path / f"{name}.C={cost}") for name in ("m", "whole")]
        assert found[0].weights.tobytes() == found[1].weights.tobytes()
    said = refused(5, "train", store, tmp_path / "m", "-c", "0.1,1,9", "-q", "--resume")
    assert "costs was [0.1, 1.0, 10.0] and is [0.1, 1.0, 9.0]" in said


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["-c", "1,1"], "without repetitions"),
        (["-c", "1,2", "-s", 4], "-s 4 takes one C"),
        (["-c", "1,2", "--method", "pegasos"], "trains one model, and here are 2 costs"),
        (["-c", "1,2", "--warm-start"], "used with one C"),
        (["-c", "1,"], "are not numbers"),
        (["--best-on", "x"], "--best-on chooses from several costs"),
        (["--balanced", "-w1", 2], "used without weights of classes"),
        (["--balanced", "-s", 13], "not for a regression"),
    ],
    ids=str,
)
def test_bad_usage(refused, store, tmp_path, flags, message):
    assert message in refused(2, "train", store, tmp_path / "m", *flags, "-q")


@pytest.mark.parametrize("solver", [1, 3, 4])
def test_balanced_is_to_give_the_weights(cli, classes, tmp_path, solver):
    counts = {0: 11, 1: 11, 2: 13}
    weights = [x for label, n in counts.items() for x in (f"-w{label}", repr(35 / (3 * n)))]
    for name, flags in (("a", ["--balanced"]), ("b", weights), ("c", [])):
        cli("train", classes, tmp_path / name, "-q", "-s", solver, "--gap", "1e-5", *flags)
    a, b, c = (LinearModel.load(tmp_path / name) for name in "abc")
    assert a.weights.tobytes() == b.weights.tobytes()
    assert not np.allclose(a.weights, c.weights, rtol=1e-3)
    assert a.metadata["balanced"] is True


def test_balanced_of_two_classes(cli, tmp_path):
    (tmp_path / "rows.svm").write_text("1 1:1\n-1 2:1\n-1 1:1 2:2\n-1 3:1\n")
    cli("train", tmp_path / "rows.svm", tmp_path / "a", "-q", "--balanced")
    cli("train", tmp_path / "rows.svm", tmp_path / "b", "-q", "-w1", "2", "-w-1", repr(4 / 6))
    a, b = (LinearModel.load(tmp_path / name) for name in "ab")
    assert a.weights.tobytes() == b.weights.tobytes()


def test_the_report_by_class(cli, classes, refused, tmp_path):
    cli("train", classes, tmp_path / "m", "-q")
    done = cli("predict", tmp_path / "classes.svm", tmp_path / "m", tmp_path / "out", "--report")
    lines = done.out.splitlines()
    assert lines[0].startswith("Accuracy = ")
    assert lines[1].split() == ["class", "precision", "recall", "F1", "rows"]
    assert [line.split()[0] for line in lines[2:6]] == ["0", "1", "2", "mean"]
    flags = ["--report", "--json"]
    done = cli("predict", tmp_path / "classes.svm", tmp_path / "m", tmp_path / "out", *flags)
    found = json.loads(done.out)
    assert [own["rows"] for own in found["classes"]] == [11, 11, 13]
    assert sum(count for _, _, count in found["confusion"]) == 35
    cli("train", classes, tmp_path / "r", "-q", "-s", 13)
    said = refused(2, "predict", tmp_path / "classes.svm", tmp_path / "r", tmp_path / "o", *flags)
    assert "has no classes" in said
