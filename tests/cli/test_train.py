import json
import subprocess
from pathlib import Path

import programs
import pytest
from liblinear import liblinear_program

from blocklinear.memory import default_budget
from blocklinear.model.linear import LinearModel

DATA = Path(__file__).parents[1] / "data"
LOG_NAMES = [
    "event", "outer", "seconds", "load_s", "wait_s", "solve_s", "bytes_read", "dual", "primal",
    "gap", "certified", "violation", "n_sv", "n_models", "steps", "rss_bytes", "entries",
    "pass_entries", "parts", "certificates", "certify_s", "score_s", "save_s", "peak_bytes",
    "gap_goal",
]  # fmt: skip


def metadata(path):
    return LinearModel.load(path).metadata


def test_the_result_and_the_progress(cli, store, tmp_path):
    done = cli("train", store, tmp_path / "m", "--threads", 2, "-c", 0.05)
    proof = metadata(tmp_path / "m")["certificate"]
    outer = metadata(tmp_path / "m")["outer_iterations"]
    assert done.status == 0
    assert done.out == (
        f"primal {proof['primal']:.9g}, dual {proof['dual']:.9g}, "
        f"certified gap {proof['gap']:.3g} after {outer} outer iterations "
        f"with --memory {default_budget() >> 20}M\n"
    )
    lines = done.err.splitlines()
    assert lines[0].split() == (
        ["outer", "seconds", "load", "wait", "solve", "primal", "dual", "gap", "violation", "SV"]
    )
    assert [int(line.split()[0]) for line in lines[1:]] == list(range(1, outer + 1))
    assert "*" in lines[-1]
    assert proof["gap"] <= 1e-3


def test_quiet_has_no_progress_but_warns(cli, store, tmp_path):
    done = cli("train", store, tmp_path / "m", "-q")
    assert (done.status, done.err) == (0, "")
    done = cli("train", store, tmp_path / "m", "-q", "--max-outer", 1, "--gap", 1e-12)
    assert done.status == 0  # a model, though not converged
    assert done.err.startswith(
        "warning: reaching max number of iterations: not converged after 1 outer iteration: the "
    )
    assert done.err.endswith(
        "; scale the data, lower C, give a larger --max-outer, or try -s 1, which ends with Newton "
        "steps where there are two classes, or few features\n"
    )
    assert metadata(tmp_path / "m")["outer_iterations"] == 1


def test_that_newton_steps_go_on_is_told_and_logged_but_no_warning(cli, tmp_path):
    store, flags = tmp_path / "store", ["-c", 100, "--gap", 1e-6, "--log", tmp_path / "log"]
    assert cli("split", DATA / "heart_scale.train.svm.bz2", store, "-q").status == 0
    assert cli("train", store, tmp_path / "quiet", *flags, "-q").err == ""
    (tmp_path / "log").unlink()
    done = cli("train", store, tmp_path / "m", *flags)
    assert "warning" not in done.err
    (said,) = [line for line in done.err.splitlines() if "going on with" in line]
    events = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert [event["message"] for event in events if event["event"] == "goes_over"] == [said]


def test_the_log(cli, store, tmp_path):
    log = tmp_path / "log.jsonl"
    cli("train", store, tmp_path / "m", "-q", "--log", log, "--max-outer", 3, "--gap", 1e-12)
    events = [json.loads(line) for line in log.read_text().splitlines()]
    names = ["start", "outer", "outer", "outer", "warning", "end"]
    assert [event["event"] for event in events] == names
    for event in events[1:4]:
        assert list(event) == LOG_NAMES
    assert [event["outer"] for event in events[1:4]] == [1, 2, 3]
    assert [event["certified"] for event in events[1:4]][-1] is True


def test_the_accuracy_in_the_log_is_that_of_predict(cli, store, rows, tmp_path):
    log = tmp_path / "log"
    flags = ["--eval", rows, "--log", log, "--max-outer", 3, "--gap", 1e-12]
    done = cli("train", store, tmp_path / "m", *flags)
    assert done.err.splitlines()[0].split()[-1] == "accuracy"
    events = programs.outers(log)
    for event in events:
        assert sorted(event) == sorted([*LOG_NAMES, "accuracy"])
    report = json.loads(cli("predict", rows, tmp_path / "m", tmp_path / "out", "--json").out)
    assert report["accuracy"] == events[2]["accuracy"]


def test_the_error_of_a_regression_in_the_log_is_that_of_predict(cli, store, rows, tmp_path):
    log, flags = tmp_path / "log", ["-s", 13, "-p", 0.2, "--max-outer", 3]
    cli("train", store, tmp_path / "m", *flags, "-q", "--eval", rows, "--log", log)
    last = programs.outers(log)[-1]
    assert sorted(last) == sorted([*LOG_NAMES, "mean_squared_error"])
    report = json.loads(cli("predict", rows, tmp_path / "m", tmp_path / "out", "--json").out)
    assert report["mean_squared_error"] == pytest.approx(last["mean_squared_error"], rel=1e-12)


def test_patience(cli, store, rows, tmp_path):
    flags = ["--eval", rows, "--patience", 2, "--gap", 1e-12]
    done = cli("train", store, tmp_path / "m", "-q", *flags)
    assert done.status == 0
    ending = "2 outer iterations without a better score"
    said = f"warning: stopped after {ending}: the gap of the model that scored best is "
    assert done.err.startswith(said)
    assert metadata(tmp_path / "m")["stopped"] == ending


def test_the_time_limit(cli, store, tmp_path):
    done = cli("train", store, tmp_path / "m", "-q", "--time-limit", 1e-9, "--gap", 1e-12)
    assert done.status == 0
    assert done.err.startswith("warning: not converged after 1e-09 seconds")


@pytest.mark.parametrize(
    "flags",
    [
        ["--selection", "active"],
        ["--selection", "permute"],
        ["--selection", "shrink", "--epochs", 3],
        ["--selection", "avsf", "--epochs", "auto", "--inner-tol", 0.01],
        ["--selection", "online"],
        ["--average"],
        ["--sample-blocks", 2],
        ["--method", "pegasos"],
        ["--method", "pegasos", "--pegasos-batch", "block"],
        ["--method", "pegasos", "--pegasos-batch", 7, "--epochs", 2],
        ["-s", 1],
        ["-s", 7],
        ["-s", 12],
        ["-s", 13, "-p", 0],
    ],
    ids=str,
)
def test_ways_to_train(cli, store, tmp_path, flags):
    for group in (1, 3):
        command = ["train", store, tmp_path / "m", "-q", "--group", group, "--max-outer", 30]
        assert cli(*command, *flags).status == 0
        proof = metadata(tmp_path / "m")["certificate"]
        assert proof["dual"] <= proof["primal"] * (1 + 1e-12)
        assert 0 < proof["gap"] < 1


def test_the_flags_of_liblinear(cli, store, tmp_path):
    flags = ["-s", 1, "-c", 2.5, "-e", 0.01, "-B", 1, "-w1", 5, "-w-1", 0.5, "-q"]
    assert cli("train", *flags, store, tmp_path / "m").status == 0
    model = LinearModel.load(tmp_path / "m")
    assert (model.solver, model.bias) == ("L2R_L2LOSS_SVC_DUAL", 1.0)
    assert model.metadata["C"] == 2.5
    assert model.metadata["class_weights"] == [[1.0, 5.0], [-1.0, 0.5]]
    assert cli("train", "-B", -1, store, tmp_path / "m", "-q").status == 0
    model = LinearModel.load(tmp_path / "m")
    assert (model.solver, model.bias) == ("L2R_L1LOSS_SVC_DUAL", -1.0)


def test_all_spellings_of_a_class_weight(cli, store, tmp_path):
    cli("train", store, tmp_path / "a", "-q", "-w-1", 3)
    cli("train", store, tmp_path / "b", "-q", "--class-weight=-1=3")
    cli("train", store, tmp_path / "c", "-q", "--class-weight", "-1=3")
    a, b, c = (LinearModel.load(tmp_path / name) for name in "abc")
    assert a.weights.tobytes() == b.weights.tobytes() == c.weights.tobytes()


def test_the_tolerance_stops(cli, store, tmp_path):
    log = tmp_path / "log"
    cli("train", store, tmp_path / "m", "-q", "-e", 0.05, "--log", log, "-c", 0.05)
    assert programs.outers(log)[-1]["violation"] <= 0.05


@pytest.mark.parametrize(
    ("flags", "word"),
    [
        (["-s", 8], "solver"),
        (["-c", 0], "C is 0.0"),
        (["-c", "nan"], "C is nan"),
        (["-e", 0], "tolerance"),
        (["--gap", -1], "gap"),
        (["-B", "inf"], "bias"),
        (["-B", "1e200"], "bias is 1e+200, but must be finite and below 1e153"),
        (["-w1", 0], "weight of class 1"),
        (["-w1", "x"], "'1=x' is not LABEL=W"),
        (["-w1"], "'1=' is not LABEL=W"),
        (["--class-weight", "3"], "'3' is not LABEL=W"),
        (["-p", -1], "epsilon"),
        (["--group", 0], "group"),
        (["--epochs", "many"], "epochs 'many' is not a number\n  fix: give one, or auto"),
        (["--pegasos-batch", "all"], "fix: give one, or block"),
        (["--pegasos-batch", 0], "pegasos-batch"),
        (["--pegasos-batch", 7], "used with --method pegasos"),
        (["--inner-tol", 0], "inner-tol"),
        (["--inner-tol", 0.01, "--epochs", 3], "used with --epochs auto"),
        (["--sample-blocks", 0], "sample-blocks"),
        (["--patience", 2], "--eval"),
        (["--checkpoint-s", 0], "checkpoint-s"),
        (["--method", "pegasos", "-s", 1], "3 for pegasos"),
        (["--method", "pegasos", "--average"], "average"),
        (["--epochs", 0], "epochs"),
        (["--max-outer", 0], "max-outer"),
        (["--time-limit", 0], "time-limit"),
        (["--run", "../x"], "run"),
        (["--threads", 999], "threads"),
        (["-c", 1e200, "-w1", 1e200], "C of class 1"),
    ],
    ids=str,
)
def test_values_out_of_range(refused, store, tmp_path, flags, word):
    assert word in refused(2, "train", store, tmp_path / "m", *flags)
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    "flags",
    [
        ["-B", "one"],
        ["--selection", "best"],
        ["--method", "sgd"],
        ["--format", "xml"],
        ["--unknown"],
        ["-v", 5],
        ["third"],
    ],
    ids=str,
)
def test_flags_that_cannot_be_read(cli, store, tmp_path, flags):
    done = cli("train", store, tmp_path / "m", *flags)
    assert (done.status, done.out) == (2, "")
    assert "usage: blocklinear" in done.err


def test_no_store(refused, rows, tmp_path):
    assert "not a store" in refused(6, "train", tmp_path / "none", tmp_path / "m")
    assert "not a store" in refused(4, "train", tmp_path, tmp_path / "m")


def test_too_little_memory(refused, store, tmp_path):
    text = refused(7, "train", store, tmp_path / "m", "--memory", "70M")
    assert "the budget of 70M is too small" in text
    assert "fix: give --memory 8" in text


def test_one_class(cli, refused, tmp_path):
    (tmp_path / "one.svm").write_text("1 1:1\n1 2:1\n")
    cli("split", tmp_path / "one.svm", tmp_path / "s", "-q")
    assert "one label 1" in refused(3, "train", tmp_path / "s", tmp_path / "m", "-q")


@pytest.mark.parametrize("target", ["rows.svm", "store", "none/m"])
def test_a_model_that_could_not_be_written_is_refused_before_training(
    refused, store, rows, tmp_path, target
):
    before = rows.read_bytes()
    refused(6 if target == "none/m" else 2, "train", store, tmp_path / target)
    assert rows.read_bytes() == before
    assert not (store / "runs").exists()


def test_a_log_that_cannot_be_written_is_refused_before_training(refused, store, tmp_path):
    refused(6, "train", store, tmp_path / "m", "--log", tmp_path / "none" / "log")
    assert not (store / "runs").exists()


def test_an_older_model_is_replaced_only_by_a_finished_one(cli, refused, store, tmp_path):
    cli("train", store, tmp_path / "m", "-q")
    before = (tmp_path / "m").read_bytes()
    refused(7, "train", store, tmp_path / "m", "-q", "--memory", "1M")
    assert (tmp_path / "m").read_bytes() == before
    cli("train", store, tmp_path / "m", "-q", "-c", 0.001)
    assert (tmp_path / "m").read_bytes() != before


def write_rows(path, labels):
    lines = []
    for i in range(120):
        side = i % 2 if i % 7 else (i + 1) % 2
        value = (side - 0.5) * (1 + i % 4) + 0.3 * (i % 5 - 2)
        lines.append(f"{labels[i % 2]} {1 + i % 6}:{value:.3f} {7 + i % 11}:{0.1 * (i % 9):.1f}\n")
    path.write_text("".join(lines))
    return path


@pytest.mark.parametrize("labels", [(0, 1), (1, 0), (-1, 1), (1, -1), (2, 7), (-3, 5)], ids=str)
@pytest.mark.parametrize("bias", [-1, 1])
def test_liblinear_predicts_the_same_with_a_model_trained_here(cli, tmp_path, labels, bias):
    program = liblinear_program("liblinear-predict")
    data, model = write_rows(tmp_path / "data", labels), tmp_path / "m"
    assert cli("split", data, tmp_path / "s", "--blocks", 3, "-q").status == 0
    flags = ["-q", "--format", "liblinear", "-B", bias]
    assert cli("train", tmp_path / "s", model, *flags).status == 0
    ours = cli("predict", data, model, tmp_path / "ours")
    theirs = subprocess.run(
        [program, data, model, tmp_path / "theirs"], capture_output=True, text=True, check=True
    )
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()
    assert ours.out == theirs.stdout
    assert len(set((tmp_path / "ours").read_text().split())) == 2


@pytest.mark.parametrize("labels", [(0, 1), (-1, 1), (2, 7)], ids=str)
@pytest.mark.parametrize("solver", [1, 3])
def test_a_model_of_liblinear_trained_as_well_has_the_same_labels(cli, tmp_path, labels, solver):
    data = write_rows(tmp_path / "data", labels)
    flags = ["-s", solver, "-e", 1e-6, "-B", 1, "-w1", 5, "-q"]
    command = [liblinear_program("liblinear-train"), *map(str, flags), data, tmp_path / "theirs"]
    subprocess.run(command, capture_output=True, check=True)
    assert cli("split", data, tmp_path / "s", "--blocks", 3, "-q").status == 0
    assert cli("train", tmp_path / "s", tmp_path / "ours", *flags, "--gap", 1e-8).status == 0
    for model in ("ours", "theirs"):
        assert cli("predict", data, tmp_path / model, tmp_path / f"{model}.out", "-q").status == 0
    assert (tmp_path / "ours.out").read_bytes() == (tmp_path / "theirs.out").read_bytes()
    models = [LinearModel.load(tmp_path / name) for name in ("ours", "theirs")]
    assert models[0].labels == models[1].labels


@pytest.mark.parametrize(("solver", "status"), [(12, 0), (21, 0), (1, 2)])
def test_fractions_are_no_labels_of_liblinear_but_targets(cli, tmp_path, solver, status):
    data = write_rows(tmp_path / "data", (1.5, 2.5))
    assert cli("split", data, tmp_path / "s", "-q").status == 0
    done = cli("train", tmp_path / "s", tmp_path / "m", "-s", solver, "-q", "--format", "liblinear")
    assert done.status == status
    assert ("label 1.5 is no 32-bit integer" in done.err) == (status != 0)


@pytest.mark.parametrize(
    ("labels", "fix"),
    [
        (
            (1.5, 2.5),
            "fix: number the classes by 32-bit integers",
        ),  # native models are refused, too
        ((3e9, 4e9), "fix: save as 'native', or number the classes by 32-bit integers"),
    ],
)
def test_labels_that_liblinear_cannot_hold_are_advised_what_can_be_done(cli, tmp_path, labels, fix):
    data = write_rows(tmp_path / "data", labels)
    assert cli("split", data, tmp_path / "s", "-q").status == 0
    done = cli("train", tmp_path / "s", tmp_path / "m", "-q", "--format", "liblinear")
    assert (done.status, done.err.split("\n")[1].strip()) == (2, fix)
    done = cli("train", tmp_path / "s", tmp_path / "m", "-q")
    assert (done.status == 0) == ("native" in fix)
