"""Training on workers: the optimum of one machine, the same bits for any number of workers."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from training.small import (
    DUAL_SOLVERS,
    MEMORY_BYTES,
    Heard,
    descent_alone,
    long_problem,
    random_problem,
    split_problem,
)

import blocklinear
from blocklinear import TrainOptions
from blocklinear.cluster import job
from blocklinear.cluster.run import plan_worker
from blocklinear.errors import ClusterError, MemoryBudgetError, MismatchError, UsageError
from blocklinear.events import MethodChosen, OuterIteration, Warned
from blocklinear.objectives.tasks import make_task
from blocklinear.store.features import read_features
from blocklinear.store.store import BlockStore
from blocklinear.training.checkpoint import Checkpoint
from blocklinear.training.rounds.alpha import AlphaLeft


def trained(store, client, parts, problem, listener=None, **options):
    listener = Heard() if listener is None else listener
    chosen = problem.options(**({"gap": 1e-2, "restart": True} | options))
    return blocklinear.train(store, chosen, listener, client=client, parts=parts)


@pytest.mark.parametrize(("parts", "gap"), [(1, 1e-3), (2, 1e-3), (3, 1e-2), (4, 1e-2)])
@pytest.mark.parametrize("solver", DUAL_SOLVERS)
def test_it_is_the_optimum(two, tmp_path, solver, parts, gap):
    """Also with parts of a block each, which stay the same in all rounds."""
    problem = long_problem(solver, 120, 10)
    store = split_problem(tmp_path, problem, 4)
    heard = Heard()
    model = trained(store, two, parts, problem, heard, gap=gap)
    certificate = model.metadata["certificate"]
    assert certificate["gap"] <= gap
    primal, optimum = problem.primal_of(model), problem.optimum()
    assert primal == pytest.approx(certificate["primal"], rel=1e-9)
    assert certificate["dual"] <= optimum * (1 + 1e-9)
    assert primal <= optimum * (1 + 1.01 * gap)
    rounds = heard.of(OuterIteration)
    assert model.metadata["cluster"] == {"workers": 2, "parts": parts, "rounds": rounds[-1].outer}


def test_parts_are_as_many_as_workers_that_are_waited_for(two, stores):
    """A cluster that has just been started may have none yet."""
    addresses, two._addresses = two._addresses, []
    two.wait_for_workers = lambda n, timeout: two._addresses.extend(addresses)
    model = trained(stores[False], two, None, long_problem(1))
    assert model.metadata["cluster"]["parts"] == 2


def test_parts_have_two_blocks_at_least_unless_they_are_asked_for(serial, tmp_path):
    """As many parts as blocks would stay the same in all rounds: they do not converge."""
    problem, four = long_problem(1), serial(4)
    store = split_problem(tmp_path, problem, 4)
    model = trained(store, four, None, problem, heard := Heard(), gap=1e-2)
    assert model.metadata["cluster"]["parts"] == 2
    assert model.metadata["stopped"] == "converged"
    assert not heard.of(Warned)
    trained(store, four, 9, problem, heard := Heard(), max_outer=2)
    (warned,) = (event for event in heard.of(Warned) if "meet few others" in event.message)
    assert "4 blocks in 4 parts" in warned.message
    assert "at most 2 --parts" in warned.message


def test_a_resume_goes_on_with_the_parts_of_the_run(two, three, stores):
    problem = long_problem(1)
    with pytest.raises(RuntimeError, match="enough"):
        trained(stores[False], three, 3, problem, _stop_after(4), gap=1e-6)
    resumed = {"gap": 1e-6, "restart": False, "resume": True}
    with pytest.raises(MismatchError, match="parts was 3 and is 2"):
        trained(stores[False], two, 2, problem, **resumed)
    model = trained(stores[False], two, None, problem, **resumed)
    assert model.metadata["cluster"]["parts"] == 3
    with pytest.raises(MismatchError, match="parts was 3 and is None"):
        trained(stores[False], None, None, problem, **resumed)
    trained(stores[False], None, None, problem, max_outer=2)
    with pytest.raises(MismatchError, match="parts was None and is 'not given'"):
        trained(stores[False], two, None, problem, max_outer=2, restart=False, resume=True)


def _stop_after(outer):
    """A listener that breaks a run off after some outer iterations."""

    def listener(event):
        if isinstance(event, OuterIteration) and event.outer == outer:
            raise RuntimeError("enough")

    return listener


@pytest.mark.parametrize("solver", DUAL_SOLVERS)
def test_the_dual_never_falls(two, stores, solver, monkeypatch):
    descent_alone(monkeypatch)
    problem, heard = long_problem(solver), Heard()
    trained(stores[problem.regression], two, 8, problem, heard, max_outer=15)
    duals = [event.dual for event in heard.of(OuterIteration) if not event.certified]
    assert len(duals) > 2
    assert all(b >= a - 1e-12 * abs(a) for a, b in pairwise(duals))


@pytest.mark.parametrize("seed", range(12))
def test_odd_problems(two, tmp_path, seed):
    """Empty rows and features, a bias, weights of classes and of rows, fewer blocks than parts."""
    problem = random_problem(seed)
    store = split_problem(tmp_path, problem, 3)
    model = trained(store, two, 5, problem)
    assert model.metadata["cluster"]["parts"] == 3
    assert problem.primal_of(model) <= problem.optimum() * 1.0101 + 1e-12


@pytest.mark.parametrize("solver", [3, 13])
def test_bits_do_not_depend_on_workers(two, three, stores, solver):
    problem = long_problem(solver)
    store = stores[problem.regression]
    one, other = (trained(store, client, 4, problem, max_outer=6) for client in (two, three))
    assert one.weights.tobytes() == other.weights.tobytes()
    assert one.metadata["certificate"] == other.metadata["certificate"]
    assert (one.metadata["cluster"]["workers"], other.metadata["cluster"]["workers"]) == (2, 3)


@pytest.mark.parametrize("solver", [1, 3, 7, 13])
def test_one_part_takes_the_rounds_of_one_machine(two, stores, solver):
    """Each begins with the working set of the one before, and blocks stay in memory."""
    problem = long_problem(solver)
    seen = [Heard(), Heard()]
    options = problem.options(gap=1e-6, restart=True)
    blocklinear.train(stores[problem.regression], options, seen[0])
    trained(stores[problem.regression], two, 1, problem, seen[1], gap=1e-6)
    alone, cluster = ([event.outer for event in heard.of(OuterIteration)][-1] for heard in seen)
    assert cluster <= alone + 1
    loaded = [event.bytes_read for event in seen[1].of(OuterIteration)]
    assert loaded[0] > 0
    assert not any(loaded[1:])


def test_a_method_left_to_the_data_is_coordinate_descent(two, store):
    heard, problem = Heard(), long_problem(1)
    model = trained(store, two, 2, problem, heard, solver=2)
    assert [choice.method for choice in heard.of(MethodChosen)] == ["dual"]
    assert problem.primal_of(model) <= problem.optimum() * 1.0101


def test_groups_within_a_part(two, store):
    """Where the memory of a worker holds two of four blocks, with a working set of rows."""
    problem = long_problem(3)
    model = trained(store, two, 2, problem, group=2)
    assert model.metadata["certificate"]["gap"] <= 1e-2
    assert problem.primal_of(model) <= problem.optimum() * 1.0101


def test_values_of_single_precision(two, tmp_path):
    problem = long_problem(1)
    store = split_problem(tmp_path, problem, 6, dtype="float32")
    model = trained(store, two, 3, problem)
    assert model.metadata["certificate"]["gap"] <= 1e-2


def test_some_blocks(two, store):
    model = trained(store, two, 2, long_problem(3), sample_blocks=4)
    assert model.metadata["certificate"]["gap"] <= 1e-2


def test_row_weights(two, tmp_path):
    problem = long_problem(3)
    weights = np.linspace(0.0, 2.0, len(problem.labels)).round(2)
    weighted = type(problem)(
        problem.X, problem.labels, problem.solver, problem.cost, problem.bias, weights=weights
    )
    model = trained(split_problem(tmp_path, weighted, 6), two, 3, weighted)
    assert weighted.primal_of(model) <= weighted.optimum() * 1.0101


def test_the_limit_of_rounds_is_kept(two, store):
    heard = Heard()
    model = trained(store, two, 4, long_problem(3), heard, gap=1e-12, max_outer=2)
    assert model.metadata["outer_iterations"] == 2
    assert model.metadata["certificate"]["gap"] > 1e-12
    assert len(heard.of(OuterIteration)) == 2
    warning = next(w.message for w in heard.of(Warned) if "not converged" in w.message)
    assert "-s 1, which ends with Newton steps" in warning


def test_a_tolerance(two, store):
    heard = Heard()
    trained(store, two, 2, long_problem(1), heard, gap=None, tolerance=0.1)
    assert heard.of(OuterIteration)[-1].violation <= 0.1


def test_parts_as_many_as_workers_unless_given(three, store):
    model = trained(store, three, None, long_problem(3), gap=1e-2)
    assert model.metadata["cluster"]["parts"] == 3


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"solver": 5}, "L1 regularisation"),
        ({"solver": 21}, "one-class"),
        ({"solver": 4}, "Crammer and Singer"),
        ({"method": "pegasos"}, "pegasos"),
        ({"average": True}, "--average"),
        ({"epochs": None}, "--epochs auto"),
        ({"selection": "avsf"}, "--selection avsf"),
        ({"checkpoint_s": float("inf")}, "checkpoints"),
    ],
)
def test_what_is_not_supported_is_refused(two, store, options, what):
    with pytest.raises(UsageError, match=what):
        blocklinear.train(store, client=two, memory=MEMORY_BYTES, run="refused", **options)
    assert not (store.folder / "runs" / "refused" / "checkpoint.json").exists()


@pytest.mark.parametrize("parts", [0, -1])
def test_parts_are_positive(two, store, parts):
    with pytest.raises(UsageError, match="at least 1"):
        blocklinear.train(store, client=two, parts=parts)


def test_parts_need_a_cluster(store):
    with pytest.raises(UsageError, match="give a client"):
        blocklinear.train(store, parts=2)


def test_too_little_memory(two, store):
    with pytest.raises(MemoryBudgetError, match="a worker has 100M"):
        blocklinear.train(store, client=two, memory="100M", restart=True)


def test_a_part_may_have_many_rows_in_one_round_and_many_entries_in_another(store):
    one, options = store.manifest.blocks[0], TrainOptions(memory_bytes=1 << 30)
    short, long = replace(one, rows=100_000, nnz=100_000), replace(one, rows=2000, nnz=1 << 20)

    def left(blocks):
        n_rows, nnz = sum(block.rows for block in blocks), sum(block.nnz for block in blocks)
        manifest = replace(store.manifest, blocks=blocks, n_rows=n_rows, nnz=nnz)
        plan = plan_worker(manifest, options, make_task(store.manifest, options), 4)
        return plan.pin_bytes

    assert left([short, long] * 4) < min(left([short] * 8), left([long] * 8))


def test_so_it_is_with_what_fetching_a_store_on_a_url_takes(two, store, monkeypatch):
    blocklinear.train(store, client=two, memory="300M", max_outer=1, restart=True)
    monkeypatch.setattr(blocklinear.BlockStore, "fetching_bytes", 200 << 20)
    with pytest.raises(MemoryBudgetError, match="a worker has 300M"):
        blocklinear.train(store, client=two, memory="300M", restart=True)
    blocklinear.train(store, client=two, memory="500M", max_outer=1, restart=True)


def test_dask_does_the_same(cluster, two, store):
    problem = long_problem(3)
    one, other = (trained(store, client, 3, problem, max_outer=3) for client in (cluster, two))
    assert one.weights.tobytes() == other.weights.tobytes()
    assert one.metadata["cluster"] == other.metadata["cluster"]


def test_memory_unless_given(two, store):
    """Options that were given none have that of this machine, which is not that of a worker."""
    own, options = int(TrainOptions().memory_bytes), TrainOptions(max_outer=1)
    for how, least, most in (
        ({"max_outer": 1}, 1, own // 2),
        ({"options": options}, 1, own // 2),
        ({"options": replace(options, max_outer=2), "threads": 1}, 1, own // 2),
        ({"options": TrainOptions(max_outer=1, memory_bytes=own)}, own, own),
        ({"options": options, "memory": own}, own, own),
    ):
        model = blocklinear.train(store, client=two, restart=True, **how)
        assert least <= model.metadata["memory_bytes"] <= most


def test_a_run_of_one_machine_is_not_resumed(two, store):
    problem = long_problem(3)
    blocklinear.train(store, problem.options(restart=True, run="one"), lambda event: None)
    with pytest.raises(MismatchError, match="parts was None and is 2"):
        trained(store, two, 2, problem, restart=False, resume=True, run="one")


def test_a_run_of_a_cluster_is_not_resumed_by_one_machine(two, store):
    problem = long_problem(3)
    trained(store, two, 2, problem, run="many")
    with pytest.raises(MismatchError, match="parts was 2 and is None"):
        blocklinear.train(store, problem.options(resume=True, run="many"))


def test_a_store_that_workers_do_not_have(two, store, tmp_path, monkeypatch):
    """As where a path is of this machine alone: here, of this thread alone."""
    from blocklinear.cluster import worker

    def lacks(job):
        BlockStore.open(tmp_path)

    monkeypatch.setattr(worker, "can_read", lacks)
    with pytest.raises(ClusterError, match="cannot work on the store"):
        trained(store, two, 2, long_problem(3))


def test_alpha_go_as_far_as_weights_do(two, store, monkeypatch):
    """Where the changes of all parts together would go too far, a round goes some of the way."""
    monkeypatch.setattr(job, "STEPS", np.array([0.0, 0.5]))
    model = trained(store, two, 8, long_problem(3), max_outer=3)
    checkpoint = Checkpoint(store.folder / "runs" / "default")
    assert checkpoint.mapped("taken") == [0.5]
    blocks = pairwise(store.manifest.first_positions.tolist())
    alpha = np.concatenate([AlphaLeft(checkpoint).of_rows(slice(*rows)) for rows in blocks])
    X, y, _ = next(store.iter_csr(rows=store.manifest.n_rows))
    w = X.T @ (np.where(y == model.labels[0], 1.0, -1.0) * alpha[:, 0])
    features = read_features(store.folder, store.manifest) - store.manifest.index_base
    np.testing.assert_allclose(checkpoint.mapped("w-0")[: len(features)], w[features], atol=1e-12)
