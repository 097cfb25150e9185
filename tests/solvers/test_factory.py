"""The other ways to a model: averaged blocks, some of the blocks, Pegasos."""

from dataclasses import replace

import numpy as np
import pytest
from training.small import (
    DUAL_SOLVERS,
    Heard,
    Problem,
    long_problem,
    random_problem,
    split_problem,
    split_text,
)

from blocklinear.errors import UsageError
from blocklinear.events import OuterIteration, Warned
from blocklinear.options import TrainOptions
from blocklinear.store.prefetch import GroupLoader
from blocklinear.training import train
from blocklinear.training.permutations import sampled

N_BLOCKS = 5


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return split_problem(tmp_path_factory.mktemp("methods"), long_problem(), N_BLOCKS)


def rows_of(store, blocks):
    """The numbers of the rows in blocks of a store."""
    with GroupLoader(store, len(store.manifest.blocks), 1) as loader:
        (loaded,) = loader.stream([tuple(range(len(store.manifest.blocks)))])
    group = loaded.group
    parts = [group.row_numbers[group.starts[b] : group.starts[b + 1]] for b in blocks]
    return np.concatenate(parts)


def subproblem(problem, rows):
    return replace(problem, X=problem.X[rows], labels=problem.labels[rows])


def assert_certified(problem, model, events, optimum):
    proof = model.metadata["certificate"]
    assert problem.primal_of(model) == pytest.approx(proof["primal"], rel=1e-12)
    assert proof["primal"] - optimum <= proof["gap"] * proof["primal"]
    assert proof["dual"] <= optimum * (1 + 1e-12)
    assert events[-1].certified
    assert (events[-1].primal, events[-1].dual) == (proof["primal"], proof["dual"])


def trained(store, options):
    heard = Heard()
    return train(store, options, heard), heard.of(OuterIteration)


@pytest.mark.parametrize("seed", range(20))
def test_averages_are_certified(tmp_path, seed):
    problem, rng = random_problem(seed), np.random.default_rng(seed)
    n_blocks, optimum = int(rng.integers(1, 6)), problem.optimum()
    store = split_problem(tmp_path, problem, n_blocks)
    for max_outer in (1, 3):
        options = problem.options(
            average=True, epochs=None, group=int(rng.integers(1, n_blocks + 1)), max_outer=max_outer
        )
        model, events = trained(store, options)
        assert_certified(problem, model, events, optimum)
        assert events[-1].dual > 0


@pytest.mark.parametrize("solver", DUAL_SOLVERS)
def test_the_average_is_that_of_the_models_of_the_visits(tmp_path, solver):
    """And the dual value is that of alpha over their number."""
    problem = long_problem(solver)
    store = split_problem(tmp_path, problem, N_BLOCKS)
    options = problem.options(
        average=True, epochs=None, inner_tolerance=1e-7, group=1, gap=1e-12, max_outer=1
    )
    model = train(store, options)
    total = np.zeros(problem.X.shape[1])
    for block in range(N_BLOCKS):
        alone = subproblem(problem, rows_of(store, [block]))
        part = split_problem(tmp_path, alone, 1, name=f"alone{block}")
        how = {"average": False, "group": None, "epochs": 100, "max_outer": 100}
        found = train(part, replace(options, inner_tolerance=0.1, **how))
        total[: found.n_features] += found.weights[:, 0] / N_BLOCKS
    if not model.metadata["certificate"]["average"]:
        np.testing.assert_allclose(model.weights[:, 0], total, rtol=1e-4, atol=1e-5)
    assert model.metadata["certificate"]["drift"] < 1e-11


def test_an_average_of_one_group_is_the_whole_problem(store):
    options = long_problem().options(
        average=True, epochs=None, inner_tolerance=1e-6, group=N_BLOCKS, gap=0.01
    )
    assert trained(store, options)[0].metadata["stopped"] == "converged"


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("wanted", [1, 2, 4])
def test_so_many_blocks_are_trained_on(store, wanted, seed):
    options = long_problem().options(sample_blocks=wanted, gap=1e-6, seed=seed, group=1)
    manifest = sampled(store.manifest, options)
    names = [block.name for block in store.manifest.blocks]
    chosen = [names.index(block.name) for block in manifest.blocks]
    assert len(chosen) == wanted
    assert chosen == sorted(set(chosen))
    problem = subproblem(long_problem(), rows_of(store, chosen))
    assert (manifest.n_rows, manifest.nnz) == (len(problem.X), np.count_nonzero(problem.X))
    model, events = trained(store, options)
    assert_certified(problem, model, events, problem.optimum())
    assert model.metadata["certificate"]["gap"] <= 1e-6


def test_every_block_has_its_turn_in_a_sample(store):
    drawn = [sampled(store.manifest, TrainOptions(sample_blocks=2, seed=s)) for s in range(40)]
    counts = np.unique([block.name for m in drawn for block in m.blocks], return_counts=True)[1]
    assert len(counts) == N_BLOCKS
    assert counts.min() >= 8


@pytest.mark.parametrize("wanted", [None, N_BLOCKS, 99])
def test_a_sample_of_all_is_the_store(store, wanted):
    assert sampled(store.manifest, TrainOptions(sample_blocks=wanted)) is store.manifest
    heard = Heard()
    train(store, long_problem().options(sample_blocks=wanted, max_outer=1, gap=0.9), heard)
    too_many = [f"--sample-blocks 99 of {N_BLOCKS} blocks: all are trained on"]
    assert [event.message for event in heard.of(Warned)] == (too_many if wanted == 99 else [])


@pytest.mark.parametrize("batch", [1, 7, None])
@pytest.mark.parametrize("seed", range(8))
def test_pegasos_is_certified(tmp_path, seed, batch):
    problem, rng = random_problem(seed, solver=3), np.random.default_rng(seed)
    n_blocks, optimum = int(rng.integers(1, 6)), problem.optimum()
    store = split_problem(tmp_path, problem, n_blocks)
    for max_outer, epochs in ((1, 1), (5, 1), (4, 3)):
        options = problem.options(
            method="pegasos", pegasos_batch=batch, group=int(rng.integers(1, n_blocks + 1)),
            max_outer=max_outer, epochs=epochs,
        )  # fmt: skip
        model, events = trained(store, options)
        assert_certified(problem, model, events, optimum)
        assert events[-1].steps == epochs * len(problem.X)


def test_pegasos_converges(store):
    problem = replace(long_problem(), cost=0.01)
    gaps = []
    for max_outer in (1, 10, 100):
        options = problem.options(method="pegasos", group=2, max_outer=max_outer, gap=1e-9)
        gaps.append(train(store, options).metadata["certificate"]["gap"])
    assert gaps[0] > 2 * gaps[1] > 4 * gaps[2]
    assert gaps[2] < 0.01


@pytest.mark.parametrize(("method", "batch"), [("dual", 1), ("pegasos", 1), ("pegasos", None)])
def test_blocks_without_rows(tmp_path, method, batch):
    store = split_text(tmp_path, "1 1:1\n-1 2:1\n1 1:2\n", blocks=12)
    assert min(block.rows for block in store.manifest.blocks) == 0
    for group in (1, 3, 12):
        options = TrainOptions(
            method=method, pegasos_batch=batch, group=group, max_outer=3, gap=1e-9
        )
        proof = train(store, options).metadata["certificate"]
        assert 0 <= proof["dual"] <= proof["primal"] <= 3.0


@pytest.mark.parametrize("solver", [1, 7, 12, 13])
def test_pegasos_is_for_hinge_loss(solver):
    with pytest.raises(UsageError, match=f"solver is {solver}, but must be 3 for pegasos"):
        TrainOptions(method="pegasos", solver=solver)


def test_pegasos_does_not_average():
    with pytest.raises(UsageError, match="average"):
        TrainOptions(method="pegasos", average=True)


def test_pegasos_with_classes_of_unequal_cost(tmp_path):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 4)).round(2)
    problem = Problem(
        X, np.where(X[:, 0] + rng.normal(size=60) > 0, 1.0, -1.0), solver=3, cost=0.1, bias=1.0,
        class_weights=((1.0, 10.0), (-1.0, 0.1)),
    )  # fmt: skip
    store = split_problem(tmp_path, problem, 3)
    options = problem.options(method="pegasos", max_outer=100, gap=0.02, group=1)
    model, events = trained(store, options)
    assert_certified(problem, model, events, problem.optimum())
    assert model.metadata["certificate"]["gap"] < 0.1
