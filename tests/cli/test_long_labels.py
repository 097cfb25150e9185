"""Labels of more than six digits are printed in full."""

import json

import pytest

from blocklinear.model.linear import LinearModel

LABELS = (1234567, 1234568)
BOTH = {str(label) for label in LABELS}


@pytest.fixture
def long_rows(tmp_path):
    path = tmp_path / "long.svm"
    lines = [f"{LABELS[k % 2]} 1:{0.1 * k:.1f} {2 + k % 2}:1\n" for k in range(40)]
    path.write_text("".join(lines))
    return path


@pytest.fixture
def long_store(cli, long_rows, tmp_path):
    path = tmp_path / "long"
    done = cli("split", long_rows, path, "--blocks", 2)
    assert done.status == 0
    assert "labels: 1234567 (20 rows), 1234568 (20 rows)" in done.out
    return path


@pytest.fixture
def long_model(cli, long_store, tmp_path):
    path = tmp_path / "model"
    assert cli("train", long_store, path, "-s", 7, "-q").status == 0
    return path


def test_in_what_is_said_of_text_stores_and_models(cli, long_rows, long_store, long_model):
    for of in ("check", long_rows), ("info", long_store), ("info", long_model):
        assert set(cli(*of).out.replace(":", " ").split()) >= BOTH, of
    listed = cli("remove", long_store, "--list").out
    assert "1234567 (20 rows), 1234568 (20 rows)" in listed


def test_in_predictions(cli, long_rows, long_model, tmp_path):
    out = tmp_path / "out"
    assert cli("predict", long_rows, long_model, out, "-q").status == 0
    assert set(out.read_text().split()) == BOTH
    assert cli("predict", long_rows, long_model, out, "-b", 1, "-q").status == 0
    head, *lines = out.read_text().splitlines()
    assert head == "labels 1234567 1234568"
    assert {line.split()[0] for line in lines} == BOTH


def test_in_the_report_of_classes(cli, long_rows, long_model, tmp_path):
    lines = cli("predict", long_rows, long_model, tmp_path / "out", "--report").out.splitlines()
    first = [line.split()[0] for line in lines if line.strip()]
    shares, across, down = ["1234567", "1234568"], ["1234567"], ["1234567", "1234568"]
    assert [name for name in first if name in BOTH] == shares + across + down


def test_wide_labels_keep_the_table_in_columns(cli, tmp_path):
    labels = (9007199254740990, -9007199254740990)
    rows, out = tmp_path / "rows", tmp_path / "out"
    rows.write_text("".join(f"{label} {1 + (label > 0)}:1\n" for label in labels * 5))
    assert cli("split", rows, tmp_path / "s", "-q").status == 0
    assert cli("train", tmp_path / "s", tmp_path / "m", "-q").status == 0
    lines = cli("predict", rows, tmp_path / "m", out, "--report").out.splitlines()
    table = lines[1:5]
    assert len({line.index(word) + len(word) for line, word in zip(
        table, ["class", *map(str, sorted(labels)), "mean"], strict=True
    )}) == 1  # fmt: skip
    assert set(out.read_text().split()) == set(map(str, labels))


def test_in_predictions_out_of_fold(cli, long_store, tmp_path):
    done = cli("cv", long_store, "-v", 2, "-c", 1, "-q", "--predictions", tmp_path / "p")
    assert done.status == 0
    assert set((tmp_path / "p").read_text().split()) <= BOTH


def test_in_models_for_liblinear(cli, long_model, tmp_path, long_rows):
    text, out = tmp_path / "text", tmp_path / "out"
    assert cli("convert", long_model, text, "--to", "liblinear").status == 0
    assert "\nlabel 1234567 1234568\n" in text.read_text()
    assert LinearModel.load(text).labels == LABELS
    assert cli("predict", long_rows, text, out, "-q").status == 0
    assert set(out.read_text().split()) == BOTH


def test_in_messages(cli, refused, long_store, tmp_path):
    done = cli("train", long_store, tmp_path / "m", "-w1234569", 2, "-q")
    assert done.status == 0
    assert "class 1234569 has a weight, but no rows" in done.err
    done = cli("cv", long_store, "-v", 2, "-c", 1, "-w1234569", 2, "-q")
    assert "class 1234569 has a weight, but no rows" in done.err
    said = refused(2, "train", long_store, tmp_path / "m", "-w1234569", 0, "-q")
    assert "weight of class 1234569" in said
    more = tmp_path / "more"
    more.write_text("1234570 1:1\n")
    assert "labels that the store did not have: 1234570" in cli("add", long_store, more).err
    alone = cli("split", more, tmp_path / "alone", "-q")
    assert "all rows have the one label 1234570" in alone.err
    said = refused(3, "train", tmp_path / "alone", tmp_path / "m", "-q")
    assert "all rows have the one label 1234570" in said
    more.write_text("1234570.5 1:1\n1 1:1\n")
    assert cli("split", more, tmp_path / "half", "-q").status == 0
    said = refused(3, "train", tmp_path / "half", tmp_path / "m", "-q")
    assert "label 1234570.5 is not an integer" in said


def test_weights_of_classes_go_by_value(cli, long_store, tmp_path):
    weights = {}
    for spelling in ("1234568", "1234568.0", "1.234568e6", "+1234568"):
        done = cli("train", long_store, tmp_path / "m", f"-w{spelling}", 3, "-c", 0.001, "-q")
        assert (done.status, done.err) == (0, "")
        weights[spelling] = LinearModel.load(tmp_path / "m").weights.tobytes()
    assert len(set(weights.values())) == 1
    cli("train", long_store, tmp_path / "m", "-c", 0.001, "-q")
    assert LinearModel.load(tmp_path / "m").weights.tobytes() not in weights.values()


@pytest.mark.parametrize("label", ["nan", "inf", "x", "9007199254740993", "1_0"])
def test_a_weight_of_what_is_no_label(refused, long_store, tmp_path, label):
    said = refused(2, "train", long_store, tmp_path / "m", "--class-weight", f"{label}=2", "-q")
    assert "is not a number between -2**53 and 2**53" in said


def test_classes_that_share_a_float64_are_refused(cli, refused, tmp_path):
    rows = tmp_path / "rows"
    rows.write_text("9007199254740992 1:1\n9007199254740993 2:1\n1 3:1\n")
    assert cli("split", rows, tmp_path / "s", "-q").status == 0
    said = refused(3, "train", tmp_path / "s", tmp_path / "m", "-q")
    assert "label 9007199254740992 may stand for several integers" in said
    assert "line 1 of" in said


def test_costs_are_told_apart(cli, long_store, long_rows, tmp_path):
    costs = ("1.0000001", "1.0000002")
    done = cli("cv", long_store, "-v", 2, "-c", ",".join(costs), "-q")
    assert [line.split()[0] for line in done.out.splitlines()[2:]] == list(costs)
    done = cli("train", long_store, tmp_path / "m", "-c", ",".join(costs), "-q")
    assert [line.split()[1] for line in done.out.splitlines()] == [f"{cost}:" for cost in costs]
    more = ("--best-on", long_rows, "-c", ",".join(costs), "-q")
    done = cli("train", long_store, tmp_path / "best", *more)
    assert [line.split()[1] for line in done.out.splitlines()[:2]] == [f"{c}:" for c in costs]


def test_in_json(cli, long_rows, long_store, long_model, tmp_path):
    for of in ("check", long_rows), ("info", long_store):
        found = json.loads(cli(*of, "--json").out)["labels"]
        assert [own["label"] for own in found] == list(LABELS)
    assert json.loads(cli("info", long_model, "--json").out)["labels"] == list(LABELS)


@pytest.mark.parametrize("positive", LABELS)
def test_the_report_says_which_class_is_positive(cli, long_rows, long_model, tmp_path, positive):
    ask = ("predict", long_rows, long_model, tmp_path / "out", "--report")
    more = () if positive == max(LABELS) else ("--positive", positive)
    done = cli(*ask, *more)
    found = json.loads(cli(*ask, *more, "--json").out)
    own = next(own for own in found["classes"] if own["label"] == positive)
    assert (found["positive"], found["f1"]) == (positive, own["f1"])
    assert done.out.splitlines()[-1] == f"F1 = {own['f1']:g} (positive class {positive})"


def test_a_positive_class_is_one_of_the_report(refused, long_rows, long_model, tmp_path):
    ask = ("predict", long_rows, long_model, tmp_path / "out")
    assert "used with --report" in refused(2, *ask, "--positive", LABELS[0])
    said = refused(2, *ask, "--report", "--positive", 1)
    assert "class 1 is not one of 1234567, 1234568" in said
    assert not (tmp_path / "out").exists()
