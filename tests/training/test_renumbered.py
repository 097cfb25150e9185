"""Training on features renumbered: whatever people see has the numbers of the input."""

from dataclasses import replace

import numpy as np
import pytest

from blocklinear import train_grid
from blocklinear.errors import MemoryBudgetError, StoppedError
from blocklinear.events import OuterIteration, WarmStarted
from blocklinear.ingest.add import add
from blocklinear.ingest.split import split
from blocklinear.model.linear import LinearModel
from blocklinear.options import AddOptions, SplitOptions, TextOptions, TrainOptions
from blocklinear.store.features import read_features
from blocklinear.training import train
from blocklinear.training.memory_plan import plan_memory
from training.classes import columns, several_classes
from training.small import Heard, as_text, long_problem, random_problem, split_problem, split_text

TEXT = TextOptions(threads=1, memory_bytes=256 << 20, index_base="auto", max_features=1 << 32)


def is_another_order(store):
    found = read_features(store.folder, store.manifest)
    return sorted(found) != found.tolist()


@pytest.mark.parametrize("solver", [1, 3, 7, 12, 13])
def test_the_optimum_is_that_of_features_as_they_were(tmp_path, solver):
    problem = replace(long_problem(solver), bias=1.0)
    store = split_problem(tmp_path, problem, 3)
    assert is_another_order(store)
    as_is = split_problem(tmp_path, problem, 3, name="as_is", renumber=False)
    models = [train(s, problem.options(gap=1e-6)) for s in (store, as_is)]
    found, other = (problem.primal_of(model) for model in models)
    proof = models[0].metadata["certificate"]
    assert found == pytest.approx(proof["primal"], rel=1e-11)
    assert found == pytest.approx(other, rel=1e-6)
    assert found <= problem.optimum() * (1 + 1e-6)


@pytest.mark.parametrize("seed", range(20))
def test_certificates_are_of_the_model(tmp_path, seed):
    problem = random_problem(seed)
    model = train(split_problem(tmp_path, problem, 2), problem.options(gap=1e-4))
    proof = model.metadata["certificate"]
    assert problem.primal_of(model) == pytest.approx(proof["primal"], rel=1e-9)


@pytest.mark.parametrize("solver", [3, 4])
def test_several_classes_and_costs(tmp_path, solver):
    problem = several_classes(4, solver)
    store = split_problem(tmp_path, problem, 2)
    as_is = split_problem(tmp_path, problem, 2, name="as_is", renumber=False)
    assert is_another_order(store)
    options = problem.options(gap=1e-7)
    if solver == 4:
        pairs = [(train(store, options), train(as_is, options))]
    else:
        grid = replace(options, costs=(0.1, 1.0))
        pairs = list(zip(train_grid(store, grid), train_grid(as_is, grid), strict=True))
    for found, other in pairs:
        np.testing.assert_allclose(columns(found), columns(other), atol=2e-2)


def test_features_that_nothing_was_learned_about_are_ignored_in_evaluation(tmp_path):
    store = split_text(tmp_path, "1 3:2 9:1\n-1 5:1 9:-1\n", 1)
    held_out = tmp_path / "held_out"
    held_out.write_text("1 4:50 9:1 4000000000:9\n-1 1:7 9:-1\n1 5:1 2000000:3\n-1 3:1\n")
    heard = Heard()
    options = TrainOptions(evaluate=str(held_out), evaluate_text=TEXT, gap=1e-6)
    model = train(store, options, heard)
    assert heard.of(OuterIteration)[-1].accuracy == 0.5
    assert model.n_features == 9
    assert np.flatnonzero(model.weights[:, 0]).tolist() == [2, 4, 8]


def test_the_base_and_hashes(tmp_path):
    rows = "1 0:1 7:2\n-1 3:1 7:-2\n1 0:2\n-1 3:1\n"
    for name, changes, n in (("zero", {"index_base": 0}, 8), ("hashed", {"hash_bits": 5}, 32)):
        (tmp_path / "rows").write_text(rows)
        text = replace(TEXT, **({"index_base": 1} | changes))
        store = split([tmp_path / "rows"], tmp_path / name, SplitOptions(text, blocks=1))
        model = train(store, TrainOptions(gap=1e-6))
        assert (model.n_features, store.manifest.n_features) == (n, 3)
        assert np.count_nonzero(model.weights) == 3
        if name == "zero":
            assert np.flatnonzero(model.weights[:, 0]).tolist() == [0, 3, 7]
            model.save(tmp_path / "model")
            assert LinearModel.load(tmp_path / "model").predict(np.eye(8)[[0, 3]]).tolist() == [
                1.0, -1.0,
            ]  # fmt: skip


def test_a_warm_start_after_features_were_added(tmp_path):
    problem = long_problem()
    half = len(problem.X) // 2
    first = replace(problem, X=problem.X[:half].copy(), labels=problem.labels[:half])
    first.X[:, 40:] = 0.0
    X = np.vstack([first.X, problem.X[half:]])
    whole = replace(problem, X=X)
    store = split_problem(tmp_path, first, 3)
    train(store, problem.options(gap=1e-5))
    (tmp_path / "more").write_text(as_text(problem.X[half:], problem.labels[half:]))
    store = add(store, [tmp_path / "more"], AddOptions(text=TEXT, blocks=2))
    assert [file.features for file in store.manifest.features] == [40, 40]
    heard = Heard()
    model = train(store, problem.options(gap=1e-6, warm_start=True), heard)
    (started,) = heard.of(WarmStarted)
    assert (started.rows_kept, started.how) == (half, "kept")
    assert whole.primal_of(model) == pytest.approx(model.metadata["certificate"]["primal"])
    assert whole.primal_of(model) <= whole.optimum() * (1 + 1e-5)


def test_resumed_runs_end_with_the_same_bits(tmp_path):
    problem = long_problem()
    store = split_problem(tmp_path, problem, 4)
    options = problem.options(gap=1e-6, group=1)
    whole, heard = train(store, options), Heard()
    with pytest.raises(StoppedError):
        train(store, replace(options, run="r"), heard, lambda: len(heard.of(OuterIteration)) > 2)
    again = train(store, replace(options, run="r", resume=True))
    assert again.weights.tobytes() == whole.weights.tobytes()


def test_a_model_that_the_budget_does_not_hold(tmp_path):
    """W is as long as the features that occur, but a model has all of the input."""
    (tmp_path / "rows").write_text("1 1:1\n-1 30000000:1\n")
    store = split([tmp_path / "rows"], tmp_path / "s", SplitOptions(TEXT, blocks=1, seed=1))
    assert store.manifest.n_features == 2
    with pytest.raises(MemoryBudgetError, match="30000000 features 229M") as caught:
        train(store, TrainOptions(memory_bytes=256 << 20))
    assert "give --memory 309M or more" in caught.value.fix
    options = TrainOptions(memory_bytes=309 << 20)
    plan = plan_memory(store.manifest, options)
    facts = {"group": plan.group, "newton": False, "hessian": False, "working_set_entries": 0}
    assert plan_memory(store.manifest, options, facts=facts).group == plan.group
    with pytest.raises(MemoryBudgetError, match="the run to resume needs"):
        plan_memory(store.manifest, replace(options, memory_bytes=256 << 20), facts=facts)
    url_bytes = 5 << 20  # of a store on a URL
    with pytest.raises(MemoryBudgetError, match="give --memory 314M or more"):
        plan_memory(store.manifest, replace(options, memory_bytes=256 << 20), 1, 0, url_bytes)
    model = train(store, options)
    assert np.flatnonzero(model.weights[:, 0]).tolist() == [0, 29_999_999]
