import math
import os
import re
import threading
import tracemalloc

import numpy as np
import pytest

from blocklinear.errors import InputError, MemoryBudgetError, StorageError, UsageError
from blocklinear.events import BlockStep, OuterIteration, SlowlyConverging
from blocklinear.ingest.split import split
from blocklinear.memory import parse_size
from blocklinear.objectives.tasks import make_task
from blocklinear.options import SplitOptions, TextOptions, TrainOptions
from blocklinear.training import held_out, train
from blocklinear.training.held_out import HeldOut
from training.small import DUAL_SOLVERS, Heard, as_text, long_problem, split_problem, split_text

N_BLOCKS = 4


def held_out_text(problem):
    """Rows like those of a problem, with a feature more than it has."""
    rng = np.random.default_rng(11)
    X = problem.X[:90] + 0.8 * rng.normal(size=(90, problem.X.shape[1])).round(2)
    return as_text(np.hstack([X, rng.normal(size=(90, 1))]), problem.labels[:90])


@pytest.fixture
def make(tmp_path):
    """A problem, its store and the file to evaluate on."""

    def made(solver=3, **options):
        problem, path = long_problem(solver), tmp_path / "held_out.svm"
        path.write_text(held_out_text(problem))
        return problem, split_problem(tmp_path, problem, N_BLOCKS, **options), path

    return made


def score_of(model, path, **how):
    """The accuracy, or mean squared error, of what a model says of the rows of a file."""
    lines = [line.split() for line in path.read_text().splitlines()]
    labels = np.array([float(line[0]) for line in lines])
    X = np.zeros((len(lines), 200))
    for row, line in zip(X, lines, strict=True):
        for entry in line[1:]:
            index, value = entry.split(":")
            row[int(index) - 1] = float(value)
    if how.get("normalize"):
        norms = np.linalg.norm(X, axis=1, keepdims=True)
        X /= np.where(norms > 0, norms, 1.0)
    decisions = X[:, : model.n_features] @ model.weights[:, 0]
    decisions += max(model.bias, 0.0) * model.bias_weights[0]
    if not model.labels:
        return ((decisions - labels) ** 2).mean()
    return (np.where(decisions > 0, *model.labels) == labels).mean()


@pytest.mark.parametrize("method", ["dual", "pegasos"])
@pytest.mark.parametrize("normalize", ["none", "l2"])
def test_the_accuracy_last_told_is_that_of_the_model(make, normalize, method):
    problem, store, path = make(normalize=normalize)
    for max_outer in (1, 2, 5, 20):
        heard = Heard()
        options = problem.options(
            evaluate=str(path), group=1, max_outer=max_outer, gap=1e-9, method=method
        )
        model = train(store, options, heard)
        reports = heard.of(OuterIteration)
        assert None not in [report.accuracy for report in reports]
        assert [report.mean_squared_error for report in reports] == [None] * len(reports)
        assert reports[-1].accuracy == score_of(model, path, normalize=normalize == "l2")


@pytest.mark.parametrize("solver", [12, 13])
def test_regressions_have_a_mean_squared_error(make, solver):
    problem, store, path = make(solver)
    heard = Heard()
    model = train(store, problem.options(evaluate=str(path), group=2, max_outer=4), heard)
    last = heard.of(OuterIteration)[-1]
    assert last.accuracy is None
    assert last.mean_squared_error == pytest.approx(score_of(model, path), rel=1e-12)


@pytest.mark.parametrize("patience", [1, 2, 4])
@pytest.mark.parametrize("solver", DUAL_SOLVERS)
def test_patience_keeps_the_best_model(make, solver, patience):
    problem, store, path = make(solver)
    heard = Heard()
    options = problem.options(
        evaluate=str(path), patience=patience, group=1, gap=1e-12, cost=10.0, max_outer=400,
        selection="permute",
    )  # fmt: skip
    model = train(store, options, heard)
    reports = heard.of(OuterIteration)
    name = "mean_squared_error" if problem.regression else "accuracy"
    scores = [getattr(report, name) for report in reports[:-1]]  # the last tells of the model
    best = min(scores) if problem.regression else max(scores)
    waited = "1 outer iteration" if patience == 1 else f"{patience} outer iterations"
    ending = f"{waited} without a better score"
    assert model.metadata["stopped"] == ending
    said = heard.of(SlowlyConverging)[-1].message
    best_gap = f"{reports[-1].gap:.3g}"
    assert said == f"stopped after {ending}: the gap of the model that scored best is {best_gap}"
    assert score_of(model, path) == pytest.approx(best, rel=1e-12)
    assert getattr(reports[-1], name) == pytest.approx(best, rel=1e-12)
    assert model.metadata["outer_iterations"] == 1 + scores.index(best) + patience

    proof = model.metadata["certificate"]  # it is that of the model kept
    weighted = problem.primal_of(model) - 0.5 * (model.weights**2).sum()
    weighted -= 0.5 * (model.bias_weights**2).sum()
    norm = 0.5 * ((model.weights**2).sum() + (model.bias_weights**2).sum())
    assert 10.0 * weighted + norm == pytest.approx(proof["primal"], rel=1e-12)
    assert reports[-1].certified
    assert reports[-1].gap == proof["gap"]


@pytest.mark.parametrize("index_base", [0, 1])
def test_rows_are_read_as_the_store_was(tmp_path, index_base):
    text = "".join(f"{i % 2} {index_base + i % 2}:1\n" for i in range(20))

    path = tmp_path / "rows.svm"
    path.write_text(text)
    reading = TextOptions(index_base=index_base, threads=1, memory_bytes=256 << 20)
    for bits in (0, 8):
        how = SplitOptions(
            text=TextOptions(**(vars(reading) | {"hash_bits": bits})), blocks=2, force=True
        )
        store, heard = split([path], tmp_path / "store", how), Heard()
        train(store, TrainOptions(evaluate=str(path)), heard)
        assert heard.of(OuterIteration)[-1].accuracy == 1.0


def test_rows_that_do_not_fit(make):
    problem, store, path = make()
    made, options = make_task(store.manifest, problem.options()), problem.options()
    held_out = HeldOut(str(path), store, made, options, 1 << 20)
    with pytest.raises(MemoryBudgetError, match="take more than the") as caught:
        HeldOut(str(path), store, made, options, held_out.bytes - 1)
    assert caught.value.exit_code == 7


@pytest.fixture
def rows_of_a_label(tmp_path):
    """A store whose groups take 6 MB at most, and a file of rows that take 2 MB."""
    text = "".join(f"{k % 2} {k % 2 + 1}:1\n" for k in range(40_000))
    path = tmp_path / "held_out.svm"
    path.write_text(text + text[: len(text) // 2])
    return split_text(tmp_path, text, blocks=4), path


def steps_of(store, **options):
    """How many groups one outer iteration has; rows are scored at its end."""
    heard = Heard()
    how = TrainOptions(gap=1e-12, threads=1, **({"max_outer": 1} | options))
    train(store, how, heard)
    assert heard.of(OuterIteration)[-1].accuracy == 1.0
    return heard.of(BlockStep)[-1].total


def test_large_held_out_rows_make_groups_smaller_or_name_a_budget(rows_of_a_label):
    """No amount was named, and a larger budget went to larger groups."""
    store, path = rows_of_a_label
    with pytest.raises(MemoryBudgetError, match=r"held-out rows 2\.06M") as caught:
        steps_of(store, evaluate=str(path), memory_bytes=82 << 20)
    named = parse_size(re.search(r"give --memory (\S+) or more", caught.value.fix)[1])
    steps = [
        steps_of(store, evaluate=str(path), memory_bytes=named + (k << 20), restart=True)
        for k in range(8)
    ]
    assert steps == sorted(steps, reverse=True)
    assert steps[0] > steps[-1] == 1


def test_a_run_with_large_held_out_rows_is_resumed(rows_of_a_label):
    store, path = rows_of_a_label
    how = {"evaluate": str(path), "memory_bytes": 86 << 20, "max_outer": 2}
    steps = steps_of(store, **how)
    assert steps > 1
    assert steps_of(store, **(how | {"max_outer": 4}), resume=True) == steps


def test_large_held_out_rows_of_a_stream_are_refused(rows_of_a_label, tmp_path):
    """They cannot be read again, with smaller groups."""
    store, path = rows_of_a_label
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writing = threading.Thread(target=lambda: pipe.write_bytes(path.read_bytes()))
    writing.start()
    with pytest.raises(MemoryBudgetError, match=r"take more than the .*\n.*name a file"):
        steps_of(store, evaluate=str(pipe), memory_bytes=86 << 20)
    writing.join()


def test_reading_and_the_rows_share_the_budget(make, monkeypatch):
    problem, store, path = make()
    options, heard = problem.options(), []
    monkeypatch.setattr(held_out, "read_rows", lambda paths, how: heard.append(how) or ())
    with pytest.raises(InputError):
        HeldOut(str(path), store, make_task(store.manifest, options), options, 5 << 20)
    assert heard[0].memory_bytes == options.memory_bytes - (5 << 20)


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("", InputError, "has no rows to evaluate on|empty"),
        ("\n\n", InputError, "has no rows to evaluate on|empty"),
        ("1 2:1 1:1\n", InputError, "held_out.svm:1:"),
        (None, StorageError, "held_out.svm"),
    ],
    ids=str,
)
def test_files_that_cannot_be_used(make, text, error, message):
    problem, store, path = make()
    path.unlink()
    if text is not None:
        path.write_text(text)
    with pytest.raises(error, match=message):
        train(store, problem.options(evaluate=str(path)))
    assert not (store.folder / "runs").exists()


def test_labels_of_no_class_are_wrong(tmp_path):
    store = split_text(tmp_path, "1 1:1\n2 2:1\n1 1:1\n2 2:2\n")
    path, heard = tmp_path / "held_out", Heard()
    path.write_text("1 1:1\n3 1:1\n2 1:1\n2 2:1\n")
    train(store, TrainOptions(evaluate=str(path)), heard)
    assert heard.of(OuterIteration)[-1].accuracy == 0.5


def test_patience_needs_rows():
    with pytest.raises(UsageError, match="patience is 3, but must be used with --eval"):
        TrainOptions(patience=3)


def test_without_rows_there_is_no_score(make):
    problem, store, _ = make()
    heard = Heard()
    train(store, problem.options(max_outer=2), heard)
    for report in heard.of(OuterIteration):
        assert (report.accuracy, report.mean_squared_error) == (None, None)
        assert math.isfinite(report.gap)


def test_scores_of_many_classes_take_little_memory(tmp_path):
    """Decision values of all rows and classes were there at once, and no plan had room for them."""
    n = 500
    text = "".join(f"{k % n} {k % 7 + 1}:1\n" for k in range(20 * n))
    store = split_text(tmp_path, text)
    options = TrainOptions()
    path = tmp_path / "store.svm"
    task = make_task(store.manifest, options)
    found = HeldOut(str(path), store, task, options, 1 << 30)
    weights = np.random.default_rng(0).standard_normal((8, n))
    tracemalloc.start()
    try:
        score = found.score(weights, 0.0)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 4 << 20  # 40 MB
    chosen = weights[:7].argmax(axis=1)
    labels = np.array(task.labels)
    expected = sum(labels[chosen[k % 7]] == k % n for k in range(20 * n))
    assert (score.correct, score.rows) == (expected, 20 * n)
