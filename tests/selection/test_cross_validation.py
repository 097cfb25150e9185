"""Cross-validation trains what training on the rows outside of a fold would, all at once."""

import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from sklearn import metrics
from training.classes import several_classes
from training.small import Heard, Problem, long_problem, split_problem, split_text

from blocklinear.errors import InputError, MemoryBudgetError, StoppedError, UsageError
from blocklinear.events import OuterIteration, SlowlyConverging, Warned
from blocklinear.objectives.problems import label_order
from blocklinear.options import TrainOptions
from blocklinear.selection import cross_validation
from blocklinear.selection.cross_validation import cross_validate
from blocklinear.selection.folds import hashes
from blocklinear.store.features import to_input
from blocklinear.store.groups import GroupBuffer
from blocklinear.store.prefetch import GroupLoader
from blocklinear.store.store import BlockStore
from blocklinear.training import loop
from blocklinear.training.memory_plan import plan_memory

N_BLOCKS = 4
COSTS = (0.05, 0.5, 4.0)


def problem_of(kind):
    """Two classes, several, or values."""
    if kind == "several":
        return several_classes(4, n_rows=60)
    return replace(long_problem(13 if kind == "values" else 3, 60, 10), cost=1.0)


@pytest.fixture(scope="module", params=["two", "several", "values"])
def case(request, tmp_path_factory):
    problem = problem_of(request.param)
    return problem, split_problem(tmp_path_factory.mktemp("cv"), problem, N_BLOCKS)


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    problem = problem_of("two")
    return problem, split_problem(tmp_path_factory.mktemp("cv"), problem, N_BLOCKS)


@pytest.fixture
def trained(monkeypatch):
    """What cross-validation has trained: models and outcomes."""
    seen, before = [], cross_validation.optimise

    def spy(store, options, task, *rest, **more):
        outcome = before(store, options, task, *rest, **more)
        weights = to_input(outcome.weights, store.folder, store.manifest)
        seen.append((task, replace(outcome, weights=weights)))
        return outcome

    monkeypatch.setattr(cross_validation, "optimise", spy)
    return seen


def folds_of(problem, v, seed=0):
    return (hashes(seed, np.arange(len(problem.X))) % np.uint64(v)).astype(int)


def classes_of(problem):
    return () if problem.regression else label_order(list(dict.fromkeys(problem.labels.tolist())))


def columns(trained):
    """Yield the class, fold, C, weights and certificate of each model."""
    for models, outcome in trained:
        for k in range(len(models)):
            yield (
                int(models.positive[k]), int(models.held_out[k]), float(models.asked[k]),
                outcome.weights[:, k], outcome.certificates[k],
            )  # fmt: skip


def alone(problem, fold_of, code, fold, cost):
    """The problem of one model."""
    rows, labels = fold_of != fold, problem.labels
    if not problem.regression:
        labels = np.where(labels == classes_of(problem)[code], 1.0, -1.0)
    return replace(problem, X=problem.X[rows], labels=labels[rows], cost=cost)


@pytest.mark.parametrize("group", [1, 2, N_BLOCKS])
def test_every_model_is_the_one_trained_alone(case, trained, group):
    problem, store = case
    found = cross_validate(store, problem.options(gap=1e-5, group=group), n_folds=3, costs=COSTS)
    fold_of, gaps = folds_of(problem, 3), dict.fromkeys(COSTS, 0.0)
    models = list(columns(trained))
    n_classes = len(classes_of(problem))
    assert len(models) == 9 * (n_classes if n_classes > 2 else 1)
    for code, fold, cost, w, proof in models:
        one = alone(problem, fold_of, code, fold, cost)
        best, primal = one.optimum(), one.primal(w, 1.0)
        assert primal == pytest.approx(proof.primal, rel=1e-11)
        assert proof.gap <= 1e-5
        assert primal - best <= proof.gap * primal + 1e-9 * best
        assert proof.dual <= best * (1 + 1e-9)
        gaps[cost] = max(gaps[cost], proof.gap)
    assert {score.cost: score.gap for score in found.report.scores} == gaps


def decisions_of(problem, trained, fold_of, cost):
    """Out-of-fold decision values, float64[n, K]."""
    found = np.full((len(fold_of), max(1, len(classes_of(problem)))), np.nan)
    for code, fold, asked, w, _ in columns(trained):
        if asked == cost:
            found[fold_of == fold, code] = problem.rows[fold_of == fold] @ w
    return found


def predicted_of(problem, decisions):
    classes = np.array(classes_of(problem))
    if not len(classes):
        return decisions[:, 0]
    if len(classes) == 2:
        return np.where(decisions[:, 0] > 0, *classes)
    return classes[decisions.argmax(1)]


def expected_metrics(problem, labels, predicted, decisions):
    if problem.regression:
        return {
            "mean_squared_error": metrics.mean_squared_error(labels, predicted),
            "mean_absolute_error": metrics.mean_absolute_error(labels, predicted),
        }
    classes = classes_of(problem)
    expected = {"accuracy": metrics.accuracy_score(labels, predicted)}
    if len(classes) == 2:
        expected["auc"] = metrics.roc_auc_score(labels == classes[0], decisions[:, 0])
        expected["f1"] = metrics.f1_score(labels, predicted, pos_label=classes[0])
    else:
        expected["f1"] = metrics.f1_score(labels, predicted, average="macro")
    return expected


def test_predictions_and_metrics(case, trained):
    problem, store = case
    found = cross_validate(store, problem.options(gap=1e-5), n_folds=3, costs=COSTS)
    fold_of, means = folds_of(problem, 3), {}
    for score in found.report.scores:
        decisions = decisions_of(problem, trained, fold_of, score.cost)
        predicted = predicted_of(problem, decisions)
        for fold, own in enumerate(score.folds):
            rows = fold_of == fold
            expected = expected_metrics(
                problem, problem.labels[rows], predicted[rows], decisions[rows]
            )
            assert own.pop("rows") == rows.sum()
            assert own == pytest.approx(expected, rel=1e-12)
        means[score.cost] = np.mean([own[found.report.metric] for own in score.folds])
        if score is found.report.best:
            np.testing.assert_allclose(found.predicted, predicted, rtol=1e-12)
    sign = -1 if problem.regression else 1
    assert found.report.best.cost == max(means, key=lambda cost: (sign * means[cost], -cost))
    assert [score.cost for score in found.report.scores] == list(COSTS)


@pytest.mark.parametrize("positive", [None, 2.0, 1.0])
@pytest.mark.parametrize("classes", [(2.0, 1.0), (1.0, 2.0)])
def test_f1_does_not_depend_on_which_label_comes_first(trained, tmp_path, classes, positive):
    problem = problem_of("two")
    first = problem.labels == problem.labels[0]
    problem = replace(problem, labels=np.where(first, *classes))
    store = split_problem(tmp_path, problem, N_BLOCKS)
    found = cross_validate(
        store, problem.options(), n_folds=2, costs=[1.0], metric="f1", positive=positive
    )
    fold_of, asked = folds_of(problem, 2), positive or 2.0
    decisions = decisions_of(problem, trained, fold_of, 1.0)
    predicted = predicted_of(problem, decisions)
    for fold, own in enumerate(found.report.scores[0].folds):
        rows = fold_of == fold
        expected = metrics.f1_score(problem.labels[rows], predicted[rows], pos_label=asked)
        assert own["f1"] == pytest.approx(expected, rel=1e-12)
        expected = metrics.roc_auc_score(first[rows], decisions[rows, 0])
        assert own["auc"] == pytest.approx(expected, rel=1e-12)
    assert found.report.positive == asked
    assert f"; positive class {asked:g}" in found.report.table().splitlines()[0]


@pytest.mark.parametrize("order", [(1, -1, 5), (5, -1, 1), (-1, 1, 5)])
def test_auc_is_of_the_two_classes(trained, tmp_path, order):
    """Rows of a label whose rows all have weight 0 are of neither, whatever comes first."""
    rng = np.random.default_rng(4)
    labels = np.array(order * 12)
    lines = [f"{y} 1:{rng.normal() + y / 3:.3f} 2:{rng.normal():.3f}\n" for y in labels]
    (tmp_path / "weights").write_text("".join(f"{y != 5:d}\n" for y in labels))
    store = split_text(tmp_path, "".join(lines), weights=str(tmp_path / "weights"))
    found = cross_validate(store, TrainOptions(), n_folds=2, costs=[1.0])
    fold_of = (hashes(0, np.arange(36)) % np.uint64(2)).astype(int)
    X = np.array([[float(pair.split(":")[1]) for pair in line.split()[1:]] for line in lines])
    for models, outcome in trained:
        for k, fold in enumerate(models.held_out):
            rows = (fold_of == fold) & (labels != 5)
            decisions = X[rows] @ outcome.weights[:2, k]
            expected = metrics.roc_auc_score(labels[rows] == models.labels[0], decisions)
            assert found.report.scores[0].folds[fold]["auc"] == pytest.approx(expected, rel=1e-12)


def test_a_positive_class_that_is_none(case):
    problem, store = case
    with pytest.raises(UsageError, match=r"class 17 is not one of|is for two classes"):
        cross_validate(store, problem.options(), costs=[1.0], positive=17.0)
    assert not (store.folder / "runs" / "cv").exists()


# -- Folds


def test_folds_follow_from_seed_and_row_alone(two, trained, tmp_path):
    problem, _ = two
    for number, (blocks, seed) in enumerate(((1, 0), (6, 3))):
        store = split_problem(tmp_path, problem, blocks, name=f"s{number}", seed=seed)
        cross_validate(store, problem.options(max_outer=1, gap=0.5), n_folds=3, costs=[0.1])
    (first, _), (second, _) = trained
    counts = [np.bincount(models.folds.all, minlength=3).tolist() for models in (first, second)]
    assert counts[0] == counts[1] == np.bincount(folds_of(problem, 3)).tolist()
    assert (folds_of(problem, 3, seed=1) != folds_of(problem, 3)).any()


def test_stratified_folds_are_even(trained, tmp_path):
    problem = several_classes(4, n_rows=71)
    store = split_problem(tmp_path, problem, N_BLOCKS)
    options = problem.options(max_outer=1, gap=0.5)
    found = cross_validate(store, options, n_folds=5, costs=[0.1], stratify=True)
    folds = trained[0][0].folds.all
    for label in classes_of(problem):
        counts = np.bincount(folds[_labels_of(store) == label], minlength=5)
        assert counts.max() - counts.min() <= 1
    sizes = [own["rows"] for own in found.report.scores[0].folds]
    assert sum(sizes) == 71
    assert max(sizes) - min(sizes) <= 1


def _labels_of(store):
    from blocklinear.store.prefetch import GroupLoader

    with GroupLoader(store, 1, 1) as loader:
        order = [(block,) for block in range(len(store.manifest.blocks))]
        return np.concatenate([loaded.group.labels.copy() for loaded in loader.stream(order)])


def test_more_folds_than_rows_leave_one_out(tmp_path, trained):
    problem = problem_of("two")
    problem = replace(problem, X=problem.X[:9], labels=problem.labels[:9])
    store, heard = split_problem(tmp_path, problem), Heard()
    found = cross_validate(store, problem.options(), n_folds=20, costs=[1.0], listener=heard)
    assert heard.of(Warned)[0].message == "20 folds of 9 rows: each row is a fold"
    assert found.report.n_folds == 9
    assert [own["rows"] for own in found.report.scores[0].folds] == [1] * 9
    assert sorted(trained[0][0].folds.all) == list(range(9))
    assert np.isnan(found.report.scores[0].mean("auc"))


@pytest.mark.parametrize(("n_folds", "unknown"), [(20, 9), (2, 1)])
def test_folds_of_one_class_have_no_auc(tmp_path, n_folds, unknown):
    """By which the best C is to be found: of none it is the smallest, and that is said."""
    problem, heard = problem_of("two"), Heard()
    labels = np.where(np.arange(9) == 8, 1.0, -1.0)
    store = split_problem(tmp_path, replace(problem, X=problem.X[:9], labels=labels))
    found = cross_validate(
        store, problem.options(), n_folds=n_folds, costs=[1.0, 0.1], metric="auc", listener=heard
    )
    n = min(n_folds, 9)
    so = ": the smallest C is taken" if unknown == n else ""
    where = f"{unknown} of {n} folds, whose rows are of one class or weigh nothing"
    assert heard.of(Warned)[-1].message == f"auc is unknown in {where}{so}"
    if so:
        assert found.report.best.cost == 0.1


def test_a_fold_without_rows(tmp_path):
    problem = problem_of("two")
    problem = replace(problem, X=problem.X[:7], labels=np.resize([1.0, -1.0], 7))
    seed = next(s for s in range(99) if len(set(folds_of(problem, 4, s))) < 4)
    store, heard = split_problem(tmp_path, problem), Heard()
    options = problem.options(seed=seed)
    found = cross_validate(store, options, n_folds=4, costs=[1.0], listener=heard)
    n_empty = 4 - len(set(folds_of(problem, 4, seed)))
    assert heard.of(Warned)[0].message == f"folds without rows: {n_empty} of 4"
    score = found.report.scores[0]
    assert sum(own["rows"] == 0 for own in score.folds) == n_empty
    assert np.isfinite(score.mean("accuracy"))
    assert "NaN" not in found.report.to_json()


def test_a_class_that_only_one_fold_has(tmp_path, trained):
    problem = several_classes(3)
    labels = np.where(np.arange(90) == 89, 50.0, problem.labels)
    problem = replace(problem, labels=labels)
    store = split_problem(tmp_path, problem, N_BLOCKS)
    found = cross_validate(store, problem.options(gap=1e-5), n_folds=3, costs=[1.0])
    assert len(found.predicted) == 90
    fold_of = folds_of(problem, 3)
    for code, fold, cost, w, proof in columns(trained):
        one = alone(problem, fold_of, code, fold, cost)
        assert one.primal(w, 1.0) == pytest.approx(proof.primal, rel=1e-11)
        assert proof.gap <= 1e-5


def test_a_model_without_any_rows(tmp_path):
    seed = next(s for s in range(99) if len(set((hashes(s, np.arange(3)) % 2).tolist())) == 1)
    store = split_text(tmp_path, "1 1:1\n-1 1:2\n1 2:1\n")
    options = problem_of("two").options(seed=seed)
    found = cross_validate(store, options, n_folds=2, costs=[1.0])
    assert len(found.predicted) == 3


def test_one_class_only(tmp_path):
    store = split_text(tmp_path, "3 1:1\n3 1:2\n3 2:1\n")
    with pytest.raises(InputError, match="the one label 3"):
        cross_validate(store, problem_of("two").options())


# -- The course


def test_threads_do_not_matter(two):
    problem, store = two
    found = [
        cross_validate(store, problem.options(threads=threads, group=2), n_folds=3, costs=COSTS)
        for threads in (1, 2, 4)
    ]
    for other in found[1:]:
        assert other.report == found[0].report
        assert other.predicted.tobytes() == found[0].predicted.tobytes()


def test_a_budget_that_is_named_in_a_refusal_suffices_for_several_classes(tmp_path):
    problem = several_classes(4)
    X = np.zeros((len(problem.X), 60_000))
    X[:, ::5000] = problem.X
    X[0] += 0.5  # so that there are so many features
    problem = replace(problem, X=X)
    store = split_problem(tmp_path, problem, N_BLOCKS)
    options = problem.options(group=1, max_outer=1, memory_bytes=70 << 20)
    with pytest.raises(MemoryBudgetError) as caught:
        cross_validate(store, options, n_folds=2, costs=[1.0])
    assert "the budget of 70M is too small" in caught.value.what
    (named,) = re.findall(r"--memory (\d+)M", caught.value.fix)
    cross_validate(store, replace(options, memory_bytes=int(named) << 20), n_folds=2, costs=[1.0])


@pytest.mark.parametrize("stratify", [False, True])
def test_a_budget_holds_labels_and_predictions_of_all_rows(tmp_path, stratify):
    store = split_text(tmp_path, "1 1:1\n-1 2:1\n" * 60_000, 40)
    options = TrainOptions(max_outer=1, gap=0.9, memory_bytes=82 << 20)
    with pytest.raises(MemoryBudgetError, match="labels and predictions of 120000 rows") as caught:
        cross_validate(store, options, n_folds=5, costs=[1.0], stratify=stratify)
    (named,) = re.findall(r"--memory (\d+)M", caught.value.fix)
    assert int(named) == 84 + stratify
    options = replace(options, memory_bytes=int(named) << 20)
    found = cross_validate(store, options, n_folds=5, costs=[1.0], stratify=stratify)
    assert len(found.predicted) == 120_000


def test_what_a_store_on_a_url_takes_leaves_room_for_fewer_models(tmp_path, monkeypatch):
    problem = several_classes(4)
    X = np.zeros((len(problem.X), 60_000))
    X[:, ::5000] = problem.X
    X[0] += 0.5  # so that there are so many features
    store = split_problem(tmp_path, replace(problem, X=X), N_BLOCKS)
    options = problem.options(group=1, max_outer=1, memory_bytes=104 << 20)
    monkeypatch.setattr(BlockStore, "fetching_bytes", 8 << 20)
    heard = Heard()
    loop.train(store, replace(options, memory_bytes=94 << 20), heard)
    cross_validate(store, options, n_folds=3, costs=[1.0], listener=heard)
    said = [event.message for event in heard.of(Warned) if "do not fit" in event.message]
    assert [text.partition(" do")[0] for text in said] == ["4 models", "12 models"]


def test_nor_is_it_room_for_rows_while_folds_are_assigned(tmp_path, monkeypatch):
    store, made = split_text(tmp_path, "1 1:1\n-1 2:1\n" * 100, 4), []

    class Noted(GroupLoader):
        def __init__(self, store, group, threads, pin_bytes=0, **more):
            made.append(pin_bytes)
            super().__init__(store, group, threads, pin_bytes, **more)

    monkeypatch.setattr(cross_validation, "GroupLoader", Noted)
    options = TrainOptions(max_outer=1, memory_bytes=256 << 20)
    for taken in (0, 8 << 20):
        monkeypatch.setattr(BlockStore, "fetching_bytes", taken)
        cross_validate(store, options, n_folds=2, costs=[1.0])
    assert made[0] - made[1] == 8 << 20


def test_models_that_do_not_fit_together_are_trained_in_parts(tmp_path, trained):
    problem = problem_of("two")
    X = np.zeros((60, 30_000))
    X[:, ::3000] = problem.X
    X[0, -1] = 0.5  # so that there are so many features
    problem = replace(problem, X=X)
    store = split_problem(tmp_path, problem, N_BLOCKS)
    options = problem.options(gap=1e-5, group=1)
    whole = cross_validate(store, options, n_folds=3, costs=COSTS)
    low, high = 1 << 20, 1 << 30
    while high - low > 1 << 14:  # the least budget for four models
        middle = (low + high) // 2
        try:
            plan_memory(store.manifest, replace(options, memory_bytes=middle), 4)
            high = middle
        except MemoryBudgetError:
            low = middle
    heard = Heard()
    small = replace(options, memory_bytes=high)
    parts = cross_validate(store, small, n_folds=3, costs=COSTS, listener=heard)
    said = [event for event in heard.of(Warned) if not isinstance(event, SlowlyConverging)]
    assert [event.message for event in said] == [
        "9 models do not fit the memory budget together: they are trained in 3 parts, each with "
        "passes of its own"
    ]
    assert [len(models) for models, _ in trained] == [9, 3, 3, 3]
    fold_of = folds_of(problem, 3)
    for code, fold, cost, w, proof in columns(trained[1:]):
        one = alone(problem, fold_of, code, fold, cost)
        assert one.primal(w, 1.0) - one.optimum() <= 1e-5 * proof.primal
    for one, other in zip(whole.report.scores, parts.report.scores, strict=True):
        assert other.gap <= 1e-5
        assert other.mean("accuracy") == pytest.approx(one.mean("accuracy"), abs=1 / 60)


def test_models_leave_the_sweeps(two):
    problem, store = two
    heard = Heard()
    options = problem.options(gap=1e-5, group=2)
    cross_validate(store, options, n_folds=3, costs=[1e-3, 1.0, 100.0], listener=heard)
    counts = [event.n_models for event in heard.of(OuterIteration)]
    assert counts[0] == 9
    assert counts[-1] < 9


def test_nothing_is_left_behind(two):
    problem, store = two
    before = {path.name for path in (store.folder / "runs").glob("*")}
    options = problem.options(run="tidy")
    cross_validate(store, options, costs=[1.0])
    asked = iter(range(10**6))
    with pytest.raises(StoppedError):
        cross_validate(store, options, costs=[1.0], halt=lambda: next(asked) > 3)
    assert {path.name for path in (store.folder / "runs").glob("*")} == before


def test_a_search_ends_where_nothing_changes(tmp_path):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 5)).round(2)
    X[:, 0] = np.where(X[:, 0] > 0, X[:, 0] + 1, X[:, 0] - 1)
    problem = Problem(X, np.where(X[:, 0] > 0, 1.0, -1.0), 3, bias=1.0)
    store, heard = split_problem(tmp_path, problem), Heard()
    found = cross_validate(store, problem.options(gap=1e-6), n_folds=3, listener=heard)
    costs = [score.cost for score in found.report.scores]
    norm = (problem.rows**2).sum(1).max()
    assert costs[0] <= 1 / (2 * 60 * norm) < 2 * costs[0]
    assert all(after == 2 * before for before, after in pairwise(costs))
    assert 1 < costs[-1] < cross_validation.LARGEST_SEARCHED
    assert not heard.of(Warned)
    assert found.report.best.mean("accuracy") > 0.9


@pytest.mark.parametrize("solver", [5, 6])
def test_a_search_goes_on_while_all_weights_are_0(tmp_path, solver):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 5)).round(2)
    problem = Problem(X, np.where(X[:, 0] + 0.3 * X[:, 1] > 0, 1.0, -1.0), solver, bias=-1.0)
    store = split_problem(tmp_path, problem)
    found = cross_validate(store, problem.options(gap=1e-3), n_folds=3)
    assert found.report.scores[0].mean("auc") == 0.5
    assert found.report.best.mean("accuracy") > 0.9
    (tmp_path / "empty").mkdir()
    empty = split_problem(tmp_path / "empty", Problem(0.0 * X, problem.labels, solver, bias=-1.0))
    assert len(cross_validate(empty, problem.options(), n_folds=2).report.scores) < 20


@pytest.mark.parametrize("solver", [5, 6])
@pytest.mark.parametrize("bias", [0.5, 3.0])
def test_a_free_bias_takes_all_losses_away_where_a_class_has_no_rows(tmp_path, solver, bias):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 4)).round(2)
    labels = np.where(X[:, 0] > 0, 1.0, 2.0)
    labels[7] = 3.0  # in one fold, so that others learn it and this one cannot
    problem = Problem(X, labels, solver, cost=0.3, bias=bias)
    store, heard = split_problem(tmp_path, problem), Heard()
    options = problem.options(gap=1e-6, regularize_bias=False)
    found = cross_validate(store, options, costs=[0.3], n_folds=4, listener=heard)
    assert found.report.outer_iterations < 50
    assert found.report.best.gap <= 1e-6
    assert not heard.of(Warned)
    assert 3.0 not in found.predicted.tolist()


@pytest.mark.parametrize(("solver", "largest"), [(1, 2**10), (12, 2**20)])
def test_a_search_ends_at_the_largest_cost(two, solver, largest):
    problem, store = two
    heard = Heard()
    options = problem.options(gap=0.1, solver=solver)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cross_validation, "UNCHANGED", 100)
        found = cross_validate(store, options, n_folds=2, listener=heard, first_cost=largest / 8)
    assert [score.cost for score in found.report.scores] == [largest / 8 * 2**k for k in range(4)]
    assert f"the search ended at the largest C, {largest}" in heard.of(Warned)[-1].message


def test_a_search_from_the_smallest_cost(two):
    problem, store = two
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cross_validation, "UNCHANGED", 1)
        found = cross_validate(store, problem.options(gap=0.1), n_folds=2, first_cost=1e-307)
    assert found.report.scores[0].cost == 1e-307


@pytest.mark.parametrize(
    ("scale", "first"),
    [(0.0, 1.0), (1e-170, 1.0), (1e-158, 1024.0), (1e-5, 1024.0), (1e153, 2.0**-1022)],
)
@pytest.mark.parametrize("solver", [1, 3, 13])
def test_a_search_over_tiny_or_huge_rows_begins_within_its_limits(tmp_path, scale, first, solver):
    """The C at which all rows are at bound is above the largest searched, or no number at all."""
    if first == 1024.0 and solver == 13:
        first = 2.0**20
    rng = np.random.default_rng(2)
    X = scale * rng.normal(size=(24, 3))
    labels = np.where(rng.normal(size=24) > 0, 1.0, -1.0)
    store = split_problem(tmp_path, Problem(X, labels))
    options = Problem(X, labels, solver).options(gap=0.5, max_outer=1)
    if first < 1.0:
        with pytest.MonkeyPatch.context() as patch:  # 1,032 steps take long
            patch.setattr(cross_validation, "LARGEST_SEARCHED", 2.0**-1020)
            found = cross_validate(store, options, n_folds=2)
    else:
        found = cross_validate(store, options, n_folds=2)
    assert found.report.scores[0].cost == first


def test_rare_positive_rows_do_not_end_a_search(tmp_path):
    """While C is so small that all is predicted negative, no prediction changes."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(80, 4)).round(2)
    labels = np.where(X[:, 0] > 1.4, 1.0, -1.0)
    assert 2 < (labels > 0).sum() < 14
    store = split_problem(tmp_path, Problem(X, labels))
    options = Problem(X, labels).options(gap=1e-4, bias=1.0)
    found = cross_validate(store, options, n_folds=3, stratify=True)
    assert found.report.scores[-1].cost > 1.0


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"n_folds": 1}, "the number of folds is 1, but must be from 2 to 1000"),
        ({"n_folds": 2.5}, "the number of folds is 2.5, but must be from 2 to 1000"),
        ({"n_folds": "3"}, "the number of folds is '3', but must be from 2 to 1000"),
        ({"costs": 0.1}, "costs is float, but must be a list"),
        ({"costs": "0.1,1"}, "costs is str, but must be a list"),
        ({"metric": "mean_squared_error"}, "is not one of accuracy, auc, f1"),
        ({"costs": [0.0]}, r"C is 0\.0"),
        ({"costs": []}, "there are no costs"),
        ({"costs": [float("nan")]}, "C is nan"),
    ],
    ids=str,
)
def test_what_is_refused(two, how, message):
    problem, store = two
    with pytest.raises(UsageError, match=message):
        cross_validate(store, problem.options(), **how)


@pytest.mark.parametrize(
    "changes",
    [{"solver": 4}, {"method": "pegasos"}, {"average": True}, {"epochs": None},
     {"selection": "avsf"}, {"sample_blocks": 2}, {"resume": True}, {"warm_start": True}],
    ids=str,
)  # fmt: skip
def test_options_that_it_does_not_know(two, changes):
    problem, store = two
    with pytest.raises(UsageError):
        cross_validate(store, problem.options(**changes), costs=[1.0])


def test_no_auc_of_several_classes(tmp_path):
    problem = several_classes(3)
    store = split_problem(tmp_path, problem)
    with pytest.raises(UsageError, match="is not one of accuracy, f1"):
        cross_validate(store, problem.options(), metric="auc")


@pytest.fixture
def loads(monkeypatch):
    """Blocks that were read and decoded, one name for each time."""
    names, before = [], GroupBuffer._load_block

    def spy(self, folder, manifest, record, *rest):
        names.append(record.name)
        before(self, folder, manifest, record, *rest)

    monkeypatch.setattr(GroupBuffer, "_load_block", spy)
    return names


def test_blocks_that_fit_in_memory_are_loaded_once(two, loads):
    problem, store = two
    found = cross_validate(store, problem.options(gap=0.1), n_folds=2)
    assert len(found.report.scores) > cross_validation.SEARCHED_TOGETHER  # of several runs
    assert sorted(loads) == sorted(block.name for block in store.manifest.blocks)


def test_blocks_that_fit_for_folds_alone_are_given_back(two, loads, monkeypatch):
    """The models of all folds may leave no room for what one model has room for."""
    problem, store = two
    options = problem.options(gap=1e-9)
    expected = cross_validate(store, options, costs=[1.0], n_folds=3)
    loads.clear()
    plan, plans = cross_validation.plan_memory, []

    def planned(manifest, options, *rest):
        found = plan(manifest, options, *rest)
        plans.append(found if not plans else replace(found, group=1, pin_bytes=0))
        return plans[-1]

    emptied, before = [], GroupLoader.empty
    monkeypatch.setattr(GroupLoader, "empty", lambda self: emptied.append(before(self)))
    monkeypatch.setattr(loop, "plan_memory", planned)
    monkeypatch.setattr(cross_validation, "plan_memory", planned)
    found = cross_validate(store, options, costs=[1.0], n_folds=3)
    assert len(emptied) == 1
    assert len(loads) > 2 * N_BLOCKS
    assert found.report.scores[0].folds == expected.report.scores[0].folds
