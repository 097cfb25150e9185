"""One model for each class, all in the same passes: each as good as if it were trained alone."""

import re
from dataclasses import replace

import numpy as np
import pytest
from effort import EXTENSIVE
from training.classes import against_the_rest, by_liblinear, columns, scores_of, several_classes
from training.small import Heard, outcome, split_problem, split_text, without_pins
from training.test_resume import Breaks, broken_off

from blocklinear.errors import (
    InputError,
    MemoryBudgetError,
    MismatchError,
    StoppedError,
    UsageError,
)
from blocklinear.events import BlockStep, OuterIteration, SlowlyConverging, Warned
from blocklinear.memory import exact_size, parse_size
from blocklinear.options import TrainOptions
from blocklinear.solvers.sharing import models_by_pass, padded
from blocklinear.solvers.sharing import n_columns as room_for
from blocklinear.solvers.weight_vectors import WeightVectors
from blocklinear.training import train
from blocklinear.training.memory_plan import plan_memory
from blocklinear.training.stopping import FORESIGHT

N_BLOCKS = 5
SOLVERS = (1, 3, 7)
CLASSES = (3, 4, 10)


@pytest.fixture(scope="module")
def store_of(tmp_path_factory):
    """Return the store of a number of classes."""
    stores = {}

    def find(n_classes):
        if n_classes not in stores:
            folder = tmp_path_factory.mktemp("many")
            stores[n_classes] = split_problem(folder, several_classes(n_classes), N_BLOCKS)
        return stores[n_classes]

    return find


def check_certificates(problem, model, gap=None):
    """Each certificate is true of its model, and bounds the optimum of its problem."""
    proofs = model.metadata["certificates"]
    assert len(proofs) == len(model.labels)
    for label, w, proof in zip(model.labels, columns(model), proofs, strict=True):
        alone = against_the_rest(problem, label)
        optimum = alone.optimum()
        assert alone.primal(w, 1.0) == pytest.approx(proof["primal"], rel=1e-11)
        assert proof["dual"] <= optimum * (1 + 1e-9)
        assert proof["primal"] - optimum <= proof["gap"] * proof["primal"] + 1e-9 * optimum
        assert gap is None or proof["gap"] <= gap
    whole = model.metadata["certificate"]
    for name in ("primal", "dual"):
        assert whole[name] == pytest.approx(sum(proof[name] for proof in proofs), rel=1e-12)
    assert whole["gap"] == max(proof["gap"] for proof in proofs)


@pytest.mark.parametrize("n_classes", CLASSES)
@pytest.mark.parametrize("solver", SOLVERS)
def test_every_class_reaches_its_optimum(store_of, solver, n_classes, tmp_path):
    problem, store = several_classes(n_classes, solver), store_of(n_classes)
    model = train(store, problem.options(gap=1e-6, group=2))
    check_certificates(problem, model, 1e-6)
    theirs = by_liblinear(problem, store.folder.with_suffix(".svm"), tmp_path)
    assert model.labels == theirs.labels
    mine, other = scores_of(model, problem), scores_of(theirs, problem)
    # LIBLINEAR ends -s 3 after 300 iterations, converged or not
    np.testing.assert_allclose(mine, other, atol=0.1 if solver == 3 else 0.01)
    best = np.sort(other, axis=1)
    clear = best[:, -1] - best[:, -2] > 0.05
    assert clear.mean() > 0.7
    assert (mine.argmax(1) == other.argmax(1))[clear].all()


@pytest.mark.parametrize("selection", ["active", "permute"])
@pytest.mark.parametrize("epochs", [1, 3])
@pytest.mark.parametrize("group", [1, 2, N_BLOCKS])
def test_whichever_way_they_go(store_of, group, epochs, selection):
    problem = several_classes(4)
    options = problem.options(gap=1e-5, group=group, epochs=epochs, selection=selection)
    check_certificates(problem, train(store_of(4), options), 1e-5)


@pytest.mark.parametrize("max_outer", [1, 2, 3, 4])
@pytest.mark.parametrize("solver", SOLVERS)
def test_certificates_are_true_wherever_training_stops(store_of, solver, max_outer):
    problem = several_classes(4, solver)
    model = train(store_of(4), problem.options(gap=1e-12, max_outer=max_outer, group=2))
    check_certificates(problem, model)


@pytest.mark.parametrize("bias", [-1.0, 0.0, 2.5])
@pytest.mark.parametrize("solver", SOLVERS)
def test_weights_of_classes_multiply_the_positive_side_only(store_of, solver, bias, tmp_path):
    weights = ((7.0, 5.0), (0.0, 0.2), (7.0, 2.0))  # given twice: they multiply
    problem = several_classes(4, solver, bias=bias, class_weights=weights, cost=0.3)
    store = store_of(4)
    model = train(store, problem.options(gap=1e-6))
    check_certificates(problem, model, 1e-6)
    theirs = by_liblinear(problem, store.folder.with_suffix(".svm"), tmp_path)
    mine, other = scores_of(model, problem), scores_of(theirs, problem)
    np.testing.assert_allclose(mine, other, atol=0.1 if solver == 3 else 0.01)


def test_a_tolerance_holds_for_every_model(store_of):
    """Also for those that leave early: their violation was small enough when they did."""
    problem, heard = several_classes(10), Heard()
    options = problem.options(gap=0.05, tolerance=1e-3, group=2)
    model = train(store_of(10), options, heard)
    assert model.metadata["stopped"] == "converged"
    alone = train(store_of(10), replace(options, gap=None))
    assert alone.metadata["stopped"] == "converged"
    check_certificates(problem, model, 0.05)


# -- The same bits


def test_threads_and_pins_do_not_matter(store_of):
    problem, store = several_classes(10), store_of(10)
    options = problem.options(gap=1e-4, group=2, threads=1)
    expected = outcome(store, options)
    for threads in (2, 4):
        assert outcome(store, replace(options, threads=threads)) == expected
    tight = replace(options, memory_bytes=without_pins(store, options).memory_bytes + (1 << 20))
    assert outcome(store, tight) == expected


def test_models_leave_when_they_are_good_enough(store_of):
    heard = Heard()
    problem = several_classes(10)
    model = train(store_of(10), problem.options(gap=1e-5, group=2), heard)
    reports = heard.of(OuterIteration)
    counts = [report.n_models for report in reports]
    assert counts[0] == 10
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] < 5  # so that all of one thread have left
    last = reports[-1]
    assert (last.primal, last.dual) == tuple(
        model.metadata["certificate"][name] for name in ("primal", "dual")
    )
    check_certificates(problem, model, 1e-5)


@pytest.mark.parametrize(
    "changes",
    [{}, {"group": 1}, {"group": N_BLOCKS}, {"solver": 1}, {"solver": 7, "epochs": 2},
     {"selection": "permute"}, {"gap": 1e-4, "max_outer": 12}, {"gap": None, "tolerance": 0.1},
     {"max_outer": 3}],
    ids=str,
)  # fmt: skip
def test_broken_off_and_resumed(store_of, changes):
    store = store_of(10)
    given = {"gap": 1e-2, "group": 2, "max_outer": 40, "run": "whole"} | changes  # models leave
    options = several_classes(10).options(**given)
    unbroken = outcome(store, options)
    for every in (1, 3, 7) if EXTENSIVE or not changes else (2, 7):
        found, n_breaks = broken_off(store, replace(options, run=f"every{every}"), every)
        assert found == unbroken
        assert n_breaks > 0 or every > 1


def test_models_that_have_left_are_not_worked_on(store_of):
    heard, problem = Heard(), several_classes(10)
    options = problem.options(gap=1e-3, group=2, selection="permute", run="permuted")
    train(store_of(10), options, heard)
    reports = heard.of(OuterIteration)
    assert reports[-1].n_models < 10
    assert all(report.steps <= report.n_models * len(problem.X) for report in reports)
    assert reports[0].steps == 10 * len(problem.X)


def test_a_run_that_came_to_its_last_iteration_may_have_more(store_of):
    """Later ones, once the limit would come before the goal, are left to Newton's method."""
    store, heard = store_of(10), Heard()
    options = several_classes(10).options(gap=1e-4, group=2, run="more")
    whole = outcome(store, replace(options, run="whole"))
    n_outer = min(len(whole[1]), FORESIGHT)
    for max_outer in range(1, n_outer, 3 if EXTENSIVE else -(-n_outer // 5)):
        train(store, replace(options, max_outer=max_outer))
        assert outcome(store, replace(options, resume=True), listener=heard)[0] == whole[0]


def test_a_finished_run_ends_at_once(store_of):
    options = several_classes(10).options(gap=1e-4, group=2, run="finished")
    unbroken = outcome(store_of(10), options)
    assert outcome(store_of(10), replace(options, resume=True))[0] == unbroken[0]


def test_models_that_have_left_cannot_be_made_better(store_of):
    options = several_classes(10).options(gap=1e-3, group=2, run="better")
    heard = Heard()
    train(store_of(10), options, heard)
    assert heard.of(OuterIteration)[-1].n_models < 10
    with pytest.raises(MismatchError, match="were finished with gaps up to") as caught:
        train(store_of(10), replace(options, gap=1e-6, resume=True))
    assert "--gap" in caught.value.fix


def test_a_stop_is_heeded_by_all_threads(store_of, monkeypatch):
    monkeypatch.setattr("blocklinear.training.run.GRACE_S", 0.0)
    options = several_classes(10).options(gap=1e-9, group=2, run="stopped", epochs=50)
    breaks = Breaks(4)
    with pytest.raises(StoppedError, match="a checkpoint is saved"):
        train(store_of(10), options, breaks.listen, breaks.halt)
    assert not list((store_of(10).folder / "runs" / "stopped").glob("*.work"))


def test_nothing_is_left_in_the_folder_of_the_run(store_of):
    train(store_of(4), several_classes(4).options(max_outer=1, run="tidy"))
    assert not list((store_of(4).folder / "runs" / "tidy").glob("*.work"))


def test_models_are_dealt_by_their_number_alone():
    for n in (1, 2, 3, 15, 16, 17, 30, 32, 33, 52, 1000):
        dealt = models_by_pass(n)
        assert sorted(np.concatenate(dealt).tolist()) == list(range(n))
        assert max(map(len, dealt)) <= 16
        assert len(dealt) >= min(n, 2)
        for numbers in dealt:
            assert len(numbers) <= padded(len(numbers)) <= 1.2 * len(numbers)
        assert n <= 4 or sum(len(numbers) % 4 > 0 for numbers in dealt) <= 1
        for some in range(0, n, 16):  # of models next to each other each part has its share
            shares = [np.sum((some <= part) & (part < some + 16)) / len(part) for part in dealt]
            assert max(shares) - min(shares) <= 2 / min(map(len, dealt))
        assert n <= room_for(n) <= 1.2 * n


# -- Odd data


def test_a_class_that_first_comes_in_the_last_row(tmp_path, store_of):
    problem = several_classes(3)
    labels = problem.labels.copy()
    labels[-1] = 99.0
    problem = replace(problem, labels=labels)
    store = split_problem(tmp_path, problem, N_BLOCKS)
    model = train(store, problem.options(gap=1e-5))
    assert model.labels[-1] == 99.0
    check_certificates(problem, model, 1e-5)


def test_one_class_only(tmp_path):
    store = split_text(tmp_path, "3 1:1\n3 1:2\n3 2:1\n")
    with pytest.raises(InputError, match="the one label 3"):
        train(store, several_classes(3).options())


def test_three_hundred_classes(tmp_path):
    rng = np.random.default_rng(0)
    labels = np.concatenate([np.arange(300), rng.integers(0, 300, 300)]).astype(float)
    X = np.zeros((600, 50))
    X[np.arange(600), rng.integers(0, 50, 600)] = rng.normal(size=600).round(2)
    X[:, 0] = 1.0
    problem = replace(several_classes(3), X=X, labels=labels)
    store = split_problem(tmp_path, problem, 3)
    model = train(store, problem.options(gap=1e-2))
    assert model.weights.shape == (50, 300)
    assert model.metadata["stopped"] == "converged"
    for k in (0, 17, 299):
        alone = against_the_rest(problem, model.labels[k])
        assert alone.primal(columns(model)[k], 1.0) <= 1.0102 * alone.optimum()


def test_a_weight_of_a_class_without_rows(store_of):
    heard = Heard()
    options = several_classes(4).options(max_outer=1, class_weights=((55.0, 2.0),), run="absent")
    train(store_of(4), options, heard)
    assert heard.of(Warned)[0].message == "class 55 has a weight, but no rows"


@pytest.mark.parametrize(
    "changes",
    [{"method": "pegasos"}, {"average": True}, {"epochs": None}, {"selection": "avsf"}],
    ids=str,
)
def test_what_is_for_one_model_alone(store_of, changes):
    with pytest.raises(UsageError, match="trains one model, and here are 4 classes"):
        train(store_of(4), several_classes(4).options(**changes))


# -- Parts


@pytest.fixture
def wide(tmp_path):
    """Return a problem of six classes and 30,000 features, its store, and a budget for two."""
    problem = several_classes(6)
    X = np.zeros((len(problem.labels), 30_000))
    X[:, : problem.X.shape[1]] = problem.X
    X[0, -1] = 0.5  # so that there are so many features
    problem = replace(problem, X=X)
    store = split_problem(tmp_path, problem, N_BLOCKS, renumber=False)  # w has them all
    options = problem.options(gap=1e-5, group=1)
    low, high = 1 << 20, 1 << 30
    while high - low > 1 << 14:
        middle = (low + high) // 2
        try:
            plan_memory(store.manifest, replace(options, memory_bytes=middle), 2, others=6)
            high = middle
        except MemoryBudgetError:
            low = middle
    return problem, store, replace(options, memory_bytes=high)


def test_classes_that_do_not_fit_together_are_trained_in_parts(wide):
    problem, store, options = wide
    heard = Heard()
    model = train(store, options, heard)
    said = [event for event in heard.of(Warned) if not isinstance(event, SlowlyConverging)]
    assert [event.message for event in said] == [
        "6 models do not fit the memory budget together: they are trained in 3 parts, each with "
        "passes of its own"
    ]
    assert {event.n_models for event in heard.of(OuterIteration)} <= {1, 2}
    check_certificates(problem, model, 1e-5)
    with pytest.raises(MemoryBudgetError):
        train(store, replace(options, memory_bytes=options.memory_bytes // 2))


def test_parts_are_resumed(wide):
    _, store, options = wide
    options = replace(options, gap=1e-2)
    whole = train(store, options)
    heard = Heard()

    def in_the_second_part():
        return len([e for e in heard.of(OuterIteration) if e.outer == 1]) > 1

    with pytest.raises(StoppedError):
        train(store, replace(options, run="again"), heard, in_the_second_part)
    model = train(store, replace(options, run="again", resume=True))
    assert columns(model).tobytes() == columns(whole).tobytes()


def test_the_budget_named_for_parts_to_resume_is_enough(tmp_path):
    """It left out the weight vectors that are kept for all parts."""
    rng = np.random.default_rng(0)
    rows = "".join(
        f"{k % 6} {k % 6 + 1}:{rng.normal():.2f} 9:1 " + " ".join(f"{j}:1" for j in range(10, 2000))
        + " 900000:1\n" for k in range(300)
    )  # fmt: skip
    store = split_text(tmp_path, rows, blocks=4, renumber=False)
    options = TrainOptions(max_outer=2)

    def smallest(fits):
        low, high = 1 << 20, 1 << 30
        while high - low > 1:
            middle = (low + high) // 2
            try:
                found = plan_memory(
                    store.manifest, replace(options, memory_bytes=middle), 2, others=6
                )
                low, high = (low, middle) if fits(found) else (middle, high)
            except MemoryBudgetError:
                low = middle
        return high

    roomy, tight = smallest(lambda plan: plan.group == 4), smallest(lambda plan: True)
    assert roomy > tight
    heard = Heard()
    with pytest.raises(StoppedError):
        train(store, replace(options, memory_bytes=roomy), heard, lambda: bool(heard.of(BlockStep)))
    again = replace(options, resume=True)
    with pytest.raises(MemoryBudgetError, match="the run to resume needs") as caught:
        train(store, replace(again, memory_bytes=tight))
    assert f"the budget of {exact_size(tight)} is less" in str(caught.value)
    named = parse_size(re.search(r"give --memory (\S+) or more", caught.value.fix)[1])
    assert roomy <= named < roomy + (1 << 20)
    model = train(store, replace(again, memory_bytes=named))
    assert columns(model).tobytes() == columns(
        train(store, replace(options, run="whole", memory_bytes=roomy))
    ).tobytes()  # fmt: skip


def test_models_that_share_a_certificate_have_each_the_candidate_seen_to_be_better(
    store_of, monkeypatch
):
    """Both were certified of all, where the average was better for any."""
    problem, passes, sample = several_classes(4), [], WeightVectors.sample_gap

    def sample_and_set(self, *args, **how):
        sample(self, *args, **how)
        if not self.averaged:  # it is too early
            return
        better = self.places % 2 == 0
        self._remaining[:, better], self._remaining[:, ~better] = [[2e-9], [1e-9]], [[1e-9], [2e-9]]

    def count(self, group, proof):
        passes.append(len(proof.candidates))
        certify(self, group, proof)

    certify = WeightVectors.certify_group
    monkeypatch.setattr(WeightVectors, "sample_gap", sample_and_set)
    monkeypatch.setattr(WeightVectors, "certify_group", count)
    model = train(store_of(4), problem.options(gap=0.5, selection="permute"))
    assert set(passes) == {1}
    check_certificates(problem, model)
    found = [proof["average"] for proof in model.metadata["certificates"]]
    assert found == [(number // 2) % 2 == 0 for number in range(4)]
