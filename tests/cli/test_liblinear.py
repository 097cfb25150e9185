"""LIBLINEAR's command lines: those of its README through both programs, and what is refused."""

import bz2
import errno
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import programs
import pytest
from liblinear import liblinear_program

from blocklinear.cli.liblinear.arguments import RefusedArguments, read_train
from blocklinear.model.linear import LinearModel

DATA = Path(__file__).parents[1] / "data"
OBJECTIVE = re.compile(r"^Objective value = (-?[0-9]+\.[0-9]{6})$", re.M)


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch):
    """Work in a folder with the data of LIBLINEAR's README; temporary stores go elsewhere."""
    folder = tmp_path / "work"
    folder.mkdir()
    (tmp_path / "stores").mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "stores"))
    for name, kind in (("data_file", "train"), ("test_file", "test")):
        text = bz2.decompress((DATA / f"heart_scale.{kind}.svm.bz2").read_bytes())
        (folder / name).write_bytes(text)
    draw = np.random.default_rng(7)
    for name, labels in (("four_class_data_file", (3, 1, 4, 2)), ("two_class_data_file", (2, 3))):
        lines = []
        for i in range(120):
            label = labels[i % len(labels)]
            x = draw.normal(size=4) + np.eye(4)[label - 1]
            lines.append(f"{label} " + " ".join(f"{k}:{v:.3f}" for k, v in enumerate(x, 1)))
        (folder / name).write_text("\n".join(lines) + "\n")
    yield
    assert not list((tmp_path / "stores").iterdir())  # nothing stays
    assert not list(folder.glob("*.blocks"))


@dataclass
class Ran:
    """What a program printed and wrote."""

    status: int
    out: str
    err: str
    files: dict


@pytest.fixture
def both(cli, tmp_path):
    """Run a command line through LIBLINEAR's program and through ours."""

    def run(line):
        program, *arguments = line.split()
        work = Path.cwd()
        own_place = tmp_path / "theirs"
        shutil.rmtree(own_place, ignore_errors=True)
        shutil.copytree(work, own_place)
        path = liblinear_program(f"liblinear-{program}")
        done = programs.run([path, *arguments], cwd=own_place)
        theirs = Ran(done.returncode, done.stdout, done.stderr, changed(own_place, work))
        before = {p.name: p.read_bytes() for p in work.iterdir()}
        done = cli("liblinear", *line.split())
        after = {p.name: p.read_bytes() for p in work.iterdir()}
        files = {name: text for name, text in after.items() if before.get(name) != text}
        return theirs, Ran(done.status, done.out, done.err, files)

    return run


def changed(folder, before):
    found = {}
    for path in folder.iterdir():
        known = before / path.name
        if not known.exists() or known.read_bytes() != path.read_bytes():
            found[path.name] = path.read_bytes()
    return found


def header(text):
    return text.partition(b"\nw\n")[0]


def objectives(printed):
    return np.array([float(found) for found in OBJECTIVE.findall(printed)])


def number(printed, name):
    (found,) = re.findall(rf"^{name} = (\S+?)%?$", printed, re.M)
    return float(found)


@pytest.mark.parametrize(
    "line",
    [
        "train data_file",
        "train -s 3 data_file",
        "train -s 7 -B 1 data_file",
        "train -s 12 data_file",
        "train -s 13 data_file",
        "train -c 10 -w1 2 -w2 5 -w3 2 four_class_data_file",
        "train -c 10 -w3 1 -w2 5 two_class_data_file",
        "train -s 4 four_class_data_file its.model",
        "train -s 5 data_file",
        "train -s 6 -B 1 data_file",
        "train -s 6 four_class_data_file",
    ],
)
def test_training(both, line):
    theirs, ours = both(line)
    assert (theirs.status, ours.status) == (0, 0), ours.err
    assert set(ours.files) == set(theirs.files)  # one model, in the current folder
    for name in theirs.files:
        assert header(ours.files[name]) == header(theirs.files[name])
    assert re.search(r"\noptimization finished, #iter = [0-9]+\nObjective value = ", ours.out)
    found, expected = objectives(ours.out), objectives(theirs.out)
    assert len(found) == len(expected)
    assert np.all(found <= expected + 1e-3 * abs(expected))  # both minimise it
    assert np.all(found >= expected - 0.02 * abs(expected))  # to a tolerance of 0.1
    assert ("\nnSV = " in ours.out) == ("\nnSV = " in theirs.out and len(expected) == 1)
    nonzeros = re.compile(r"^#nonzeros/#features = [0-9]+/([0-9]+)$", re.M)
    assert nonzeros.findall(ours.out) == nonzeros.findall(theirs.out)


@pytest.mark.parametrize("solver", [1, 3, 4, 7, 12, 13])
def test_the_objective_at_a_tight_tolerance(both, solver):
    theirs, ours = both(f"train -s {solver} -e 1e-6 data_file")
    assert objectives(ours.out) == pytest.approx(objectives(theirs.out), rel=1e-4)


@pytest.mark.parametrize(
    ("solver", "name"), [(0, "L2R_LR"), (2, "L2R_L2LOSS_SVC"), (11, "L2R_L2LOSS_SVR")]
)
def test_primal_solvers(both, solver, name):
    theirs, ours = both(f"train -s {solver} -e 0.0001 data_file")
    assert ours.err == ""
    text = ours.files["data_file.model"]
    assert text.startswith(f"solver_type {name}\n".encode())
    assert header(text) == header(theirs.files["data_file.model"])
    found, expected = (
        np.array(ran.files["data_file.model"].partition(b"\nw\n")[2].split(), float)
        for ran in (ours, theirs)
    )
    assert np.abs(found - expected).max() <= 1e-3 * np.abs(expected).max()


def test_cross_validation(both):
    theirs, ours = both("train -v 5 -e 0.001 data_file")
    found, expected = (number(ran.out, "Cross Validation Accuracy") for ran in (ours, theirs))
    assert found == pytest.approx(expected, abs=5)  # the folds are others
    assert not ours.files
    theirs, ours = both("train -q -s 12 -v 3 data_file")
    names = ["Mean squared error", "Squared correlation coefficient"]
    assert re.fullmatch("".join(rf"Cross Validation {name} = \S+\n" for name in names), ours.out)
    for name in names:
        found, expected = (number(ran.out, f"Cross Validation {name}") for ran in (ours, theirs))
        assert found == pytest.approx(expected, abs=0.1)


def test_a_search(both):
    best = re.compile(r"^Best C = (\S+)  CV accuracy = (\S+)%$", re.M)
    theirs, ours = both("train -C data_file")
    assert ours.err.startswith(theirs.err)  # Solver not specified. Using -s 2
    assert ours.out.startswith("Doing parameter search with 5-fold cross validation.\nlog2c=")
    assert not ours.files
    steps = [re.findall(r"^log2c= *(\S+)\trate=\S+$", ran.out, re.M) for ran in (ours, theirs)]
    assert steps[0][:10] == steps[1][:10]
    rates = [float(best.search(ran.out)[2]) for ran in (ours, theirs)]
    assert rates[0] == pytest.approx(rates[1], abs=3)
    theirs, ours = both(f"train -c {best.search(ours.out)[1]} data_file")
    assert objectives(ours.out) == pytest.approx(objectives(theirs.out), rel=0.02)


def test_a_search_with_logistic_loss_begins_at_twice_the_cost(both):
    theirs, ours = both("train -C -s 0 -v 2 data_file")
    first = [re.search(r"^log2c= *(\S+)\t", ran.out, re.M)[1] for ran in (ours, theirs)]
    assert first[0] == first[1]


def test_a_search_from_a_cost(both):
    theirs, ours = both("train -C -s 0 -v 3 -c 0.5 -e 0.0001 data_file")
    assert "search with 3-fold cross validation.\nlog2c=  -1.00\t" in ours.out
    assert "search with 3-fold cross validation.\nlog2c=  -1.00\t" in theirs.out
    quiet = both("train -q -C -s 2 -c 512 data_file")[1]
    assert len(quiet.out.splitlines()) == 2


@pytest.mark.parametrize(("solver", "largest"), [(0, 1024), (11, 1048576)])
def test_a_search_from_beyond_the_largest_cost_tries_that_one(both, solver, largest):
    theirs, ours = both(f"train -q -C -s {solver} -p 0.001 -c {2 * largest} -v 2 data_file")
    assert (theirs.status, ours.status) == (0, 0), ours.err
    for ran in (theirs, ours):
        assert f"\nBest C = {largest:g} " in ran.out


def test_a_search_of_two(cli):
    done = cli("liblinear", "train", "-C", "-s", 11, "-p", 0.1, "-c", 512, "-v", 2, "data_file")
    assert done.status == 0, done.err
    first, *steps, last = done.out.splitlines()
    assert first == "Doing parameter search with 2-fold cross validation."
    form = r"log2c= +(9|1[0-4])\.00\tp= +0\.(10|05|00)\tMean squared error=\S+"
    assert len(steps) == 18  # beyond 1024, where a search for classes ends
    assert all(re.fullmatch(form, step) for step in steps)
    assert re.fullmatch(r"Best C = \S+ Best p = \S+  CV MSE = \S+", last)


def test_prediction(both):
    both("train -s 0 data_file")
    for line in ("predict", "predict -b 1", "predict -b 1 --"):
        theirs, ours = both(f"{line} test_file data_file.model output_file")
        assert ours.out == theirs.out  # Accuracy = 84.4444% (228/270)
        assert ours.files == theirs.files
    assert not both("predict -q test_file data_file.model output_file")[1].out
    both("train -s 11 data_file")
    theirs, ours = both("predict test_file data_file.model output_file")
    assert ours.out == theirs.out
    assert ours.out.startswith("Mean squared error = ")


FAULTS = """\
train
train -q
train -s
train -c 4
train -x 3 data_file
train -c4 data_file
train -C -s 3 data_file
train -C -s 5 data_file
train -C -s 6 data_file
train -v 1 data_file
train -c 0 data_file
train -e -1 data_file
train -s 12 -p -1 data_file
train -s 99 data_file
train nothing_there
train wrong_file
train -- data_file
train -q -- data_file
predict
predict data_file
predict -x
predict -b
predict nothing_there model output_file
predict data_file nothing_there output_file
predict data_file data_file.model no/such/folder
predict wrong_file data_file.model output_file
predict -b 1 data_file data_file.model output_file
"""


@pytest.mark.parametrize("line", FAULTS.splitlines())
def test_what_both_refuse(both, line):
    Path("wrong_file").write_text("1 1:1\n-1 2:1 1:1\n")
    both("train -q data_file")
    theirs, ours = both(line)
    assert (theirs.status, ours.status) == (1, 1)
    assert ours.out.startswith("Usage: ") == theirs.out.startswith("Usage: ")
    if not line.endswith(("predict -x", "-b")):  # there, what the C library says
        said = theirs.err.partition("\n")[0]
        assert ours.err.startswith(said)
    assert "output_file" not in ours.files


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("-s 21 -B 1 data_file", "ERROR: prob->bias >=0, but this is ignored in ONECLASS_SVM"),
        ("-s 21 -n 0 data_file", "ERROR: nu <= 0 or nu > 1"),
        ("-s 21 -v 5 data_file", "ERROR: -v with -s 21 is not available: it does not learn"),
        ("-s 0 -R data_file", "ERROR: To not regularize bias, must specify -B 1 along with -R"),
        ("-s 3 -B 1 -R data_file", "ERROR: -R option supported only for solver L2R_LR, L2R_L2LOSS"),
        ("-s 4 -v 5 data_file", "ERROR: -v with -s 4 is not available: use -s 3"),
    ],
)
def test_what_is_not_available(cli, line, said):
    done = cli("liblinear", "train", *line.split())
    assert (done.status, done.out) == (1, "")
    assert done.err.startswith(said)


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("train", ""), "open input"), (("train", "data_file", ""), "save model to"),
        (("predict", "", "model", "out"), "open input"),
        (("predict", "data_file", "model", ""), "open output"),
    ],
)  # fmt: skip
def test_an_empty_argument_is_no_file(cli, arguments, what):
    done = cli("liblinear", *arguments)
    assert (done.status, done.out) == (1, "")
    assert done.err.startswith(f"can't {what} file ")


@pytest.mark.parametrize(("other", "native"), [("4e9", True), ("1.5", False)])
def test_labels_that_a_model_cannot_hold(cli, monkeypatch, other, native):
    Path("large").write_text(f"3e9 1:1\n{other} 2:1\n" * 5)
    assert cli("split", "large", "store", "-q").status == 0
    assert (cli("train", "store", "model", "-q").status == 0) == native
    assert cli("liblinear", "train", "-q", "-s", 12, "large").status == 0
    Path("large.model").unlink()
    monkeypatch.setattr("blocklinear.training.loop.train", None)  # refused before
    done = cli("liblinear", "train", "large")
    assert (done.status, done.out) == (1, "")
    assert "label 3000000000 is no 32-bit integer" in done.err
    advised = "or use `blocklinear train`, whose native models hold these" in done.err
    assert advised == native
    assert not Path("large.model").exists()


@pytest.mark.parametrize(
    "line", ["-q data_file -s 3", "a b c", "-c one data_file", "-s 1.5 data_file", "-w 3 data_file"]
)
def test_what_liblinear_takes_for_something_else(cli, line):
    done = cli("liblinear", "train", *line.split())
    assert done.status == 1
    assert done.out.startswith("Usage: ")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("train -s", "-s has no value"),
        ("predict -b 2 data_file m out", "-b 2: neither 0 nor 1"),
        ("predict -b", "-b has no value"),
        ("train -c 1_0 data_file", "-c 1_0: not a finite number"),
        ("train -c inf data_file", "-c inf: not a finite number"),
        ("train -e \u0663 data_file", "-e \u0663: not a finite number"),
        ("train -s 0_1 data_file", "-s 0_1: not an integer"),
        ("train -w1 1_0 data_file", "-w1 1_0: write -wLABEL WEIGHT, the label an integer"),
        ("train -w1_0 1 data_file", "-w1_0 1: write -wLABEL WEIGHT, the label an integer"),
    ],
)
def test_a_value_that_is_none_is_named(cli, line, why):
    done = cli("liblinear", *line.split())
    assert (done.status, done.err.strip()) == (1, why)
    assert done.out.startswith("Usage: ")


@pytest.mark.parametrize("line", ["", "svm-train", "--memory much train", "--unknown train"])
def test_a_command_line_that_cannot_be_read(cli, line):
    done = cli("liblinear", *line.split())
    assert (done.status, done.out) == (1, "")
    assert "usage: blocklinear" in done.err


def test_warnings_go_to_stderr(both):
    theirs, ours = both("train -w1 2 -w7 3 data_file")
    assert ours.err == theirs.err == "WARNING: class label 7 specified in weight is not found\n"
    Path("few").write_text("1 1:1\n-1 1:-1\n1 1:2\n-1 1:-3\n")
    theirs, ours = both("train -q -v 9 few")
    assert ours.err.startswith(theirs.err)
    assert "# folds > # data" in ours.err


def test_a_warning_is_given_once(cli):
    Path("few").write_text("1 1:1\n-1 1:-1\n1 1:2\n-1 1:-3\n2 1:2\n0 1:1\n")
    done = cli("liblinear", "train", "-q", "-C", "-s", 11, "few")  # of 20 epsilons
    assert done.status == 0
    assert done.err == "WARNING: folds without rows: 1 of 5\n"
    done = cli("liblinear", "train", "-q", "-C", "-s", 11, "-v", 9, "few")
    assert done.status == 0
    assert done.err.count("WARNING: # folds > # data") == done.err.count("WARNING") == 1


@pytest.mark.parametrize("line", ["-s 21", "-s 13"])
def test_one_label_is_no_fault_where_there_are_no_classes(cli, line):
    Path("one").write_text("1 1:1\n1 1:2\n1 1:3\n")
    done = cli("liblinear", "train", "-q", *line.split(), "one")
    assert (done.status, done.out, done.err) == (0, "", "")


def test_one_label_of_a_classifier_is_refused_once(cli):
    Path("one").write_text("1 1:1\n1 1:2\n1 1:3\n")
    done = cli("liblinear", "train", "-q", "one")
    assert done.status == 1
    assert done.err.count("all rows have the one label 1") == 1


def test_advice_names_the_command_that_takes_the_option(cli):
    Path("turned").write_text("1 2:1 1:1\n")
    assert cli("liblinear", "train", "-q", "data_file", "model").status == 0
    lines = {"split": ("train", "turned"), "predict": ("predict", "turned", "model", "out")}
    for own, arguments in lines.items():
        done = cli("liblinear", *arguments)
        assert done.status == 1
        advice = f"pass --unsorted sort; the options are those of `blocklinear {own}`\n"
        assert done.err.endswith(advice)
        assert "--unsorted" in cli(own, "--help").out


def test_one_row_has_no_folds(cli):
    Path("one").write_text("1 1:1\n")
    done = cli("liblinear", "train", "-q", "-v", 2, "-s", 12, "one")
    assert (done.status, done.out) == (1, "")
    assert done.err.startswith("a cross-validation needs 2 rows at least, and there is 1\n")


def test_a_model_never_replaces_something_else(cli):
    Path("data_file.model").write_text("notes\n")
    done = cli("liblinear", "train", "data_file")
    assert (done.status, done.out) == (1, "")
    assert done.err.startswith("can't save model to file data_file.model: ")
    assert Path("data_file.model").read_text() == "notes\n"


@pytest.mark.parametrize(("text", "named"), [(".", False), ("data_file", True)])
def test_tmpdir_is_named_where_the_store_cannot_be_written(cli, monkeypatch, text, named):
    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    if named:
        monkeypatch.setattr("blocklinear.store.files.os.fsync", full)
    done = cli("liblinear", "train", "-q", text, "a.model")
    assert (done.status, done.out) == (1, "")
    assert ("TMPDIR" in done.err) == named, done.err


@pytest.mark.parametrize("line", [("train", "-q"), ("predict",)], ids=str)
def test_a_url_is_no_file_and_is_shown_without_its_signature(cli, line):
    done = cli("liblinear", *line, "https://h/rows?signature=secret", *["m", "o"][: 3 - len(line)])
    assert (done.status, done.out) == (1, "")
    assert done.err.startswith("can't open input file https://h/rows\n")


def test_the_letter_decides():
    assert read_train(["-cost", "4", "f"]).cost == 4.0
    assert read_train(["-w-1", "0.5", "f"]).class_weights == ((-1.0, 0.5),)
    with pytest.raises(RefusedArguments, match="unknown option: --"):
        read_train(["--", "f"])


def test_a_store_that_is_kept(cli):
    for _ in range(2):
        done = cli("liblinear", "--keep-store", "--memory", "300M", "train", "-q", "data_file")
        assert (done.status, done.out) == (0, "")
    assert LinearModel.load("data_file.model").labels == (1.0, -1.0)
    assert not Path("data_file.blocks/runs/default").exists()  # where `train` keeps what it reached
    shutil.rmtree("data_file.blocks")  # it was kept


def test_the_usage_names_every_option(cli):
    usage = cli("liblinear", "train").out
    for letter in "scpneBRvCq":
        assert re.search(rf"^-{letter}\b", usage, re.M), letter
    assert "\n-wi weight" in usage
