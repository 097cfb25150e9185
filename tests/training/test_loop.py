import contextlib
import gc
import threading
import weakref
from dataclasses import replace

import numpy as np
import pytest

from blocklinear.errors import BusyError, DamagedError, InputError, StorageError, UsageError
from blocklinear.events import BlockStep, OuterIteration, RunEnded, RunStarted, Warned
from blocklinear.solvers.block_descent import BlockDescent
from blocklinear.store.files import Lock
from blocklinear.store.prefetch import GroupLoader
from blocklinear.training import loop, train
from blocklinear.training.stopping import Stopping
from training.small import (
    DUAL_SOLVERS,
    MEMORY_BYTES,
    SELECTIONS,
    WITH_COST,
    Heard,
    Problem,
    descent_alone,
    outcome,
    random_problem,
    split_problem,
    split_text,
    without_pins,
)

N_BLOCKS = 5


@pytest.fixture(scope="module")
def problem():
    return replace(random_problem(21, solver=3), cost=1.0, bias=1.0)


@pytest.fixture(scope="module")
def store(problem, tmp_path_factory):
    return split_problem(tmp_path_factory.mktemp("loop"), problem, N_BLOCKS)


def trained(store, options):
    heard = Heard()
    return train(store, options, heard), heard.of(OuterIteration), heard.of(Warned)


@pytest.mark.parametrize("group", [1, 2, N_BLOCKS])
@pytest.mark.parametrize("solver", DUAL_SOLVERS)
@pytest.mark.parametrize("selection", SELECTIONS)
def test_the_same_bits_whatever_the_threads_and_the_memory(
    store, problem, monkeypatch, solver, group, selection
):
    descent_alone(monkeypatch)  # less memory may have no room for Newton steps
    options = replace(problem, solver=solver).options(
        group=group, max_outer=6, gap=1e-9, seed=3, selection=selection, epochs=2, tolerance=1e-12
    )
    results = set()
    for threads, pinned in ((1, True), (2, False), (4, True)):
        chosen = options if pinned else without_pins(store, options)
        results.add(repr(outcome(store, replace(chosen, threads=threads))))
    assert len(results) == 1


def test_another_seed_takes_another_way(store, problem):
    options = problem.options(group=2, max_outer=2)
    first, second = (trained(store, replace(options, seed=seed))[0] for seed in (0, 1))
    assert first.weights.tobytes() != second.weights.tobytes()


def test_weights_of_classes_have_no_effect_on_a_regression(store, problem):
    weights = ((1.0, 3.0), (-1.0, 0.5))
    options = replace(problem, solver=13).options(group=2, max_outer=2, gap=1e-9)
    plain, weighted = (
        trained(store, replace(options, class_weights=some)) for some in ((), weights)
    )
    assert plain[0].weights.tobytes() == weighted[0].weights.tobytes()
    said = [warned.message for warned in weighted[2]]
    assert said[0] == "weights of classes have no effect on a regression"


def test_every_block_is_read_once_an_outer_iteration(store, problem):
    total = sum(block.bytes for block in store.manifest.blocks)
    options = problem.options(group=2, max_outer=4, gap=1e-9, seed=1)
    events = trained(store, without_pins(store, options))[1]
    assert [event.bytes_read for event in events] == [total] * 4
    assert [event.outer for event in events] == [1, 2, 3, 4]


def test_spare_memory_keeps_blocks(store, problem):
    total = sum(block.bytes for block in store.manifest.blocks)
    events = trained(store, problem.options(group=2, max_outer=4, gap=1e-9))[1]
    assert [event.bytes_read for event in events] == [total, 0, 0, 0]
    events = trained(store, problem.options(max_outer=3, gap=1e-9))[1]
    assert [event.bytes_read for event in events] == [total, 0, 0]


def test_what_is_reported(store, problem):
    model, events, warned = trained(store, problem.options(group=2, gap=1e-3))
    assert not warned
    assert model.metadata["stopped"] == "converged"
    assert model.metadata["outer_iterations"] == events[-1].outer == len(events)
    assert [event.seconds for event in events] == sorted(event.seconds for event in events)
    for event in events:
        assert 0 <= event.n_sv <= len(problem.X)
        assert event.n_models == 1
        assert min(event.load_s, event.wait_s, event.solve_s, event.violation) >= 0
        assert event.rss_bytes > 1 << 20
    duals = [event.dual for event in events if not event.certified]
    assert duals == sorted(duals)  # dual coordinate descent only ever raises D


def test_each_visit_is_told_of(store, problem):
    heard = Heard()
    train(store, problem.options(group=2, gap=1e-12, max_outer=2), heard)
    assert heard.of(BlockStep) == [BlockStep(k, i, 3) for k in (1, 2) for i in (1, 2, 3)]
    assert [type(event) for event in heard[1:6]] == [BlockStep] * 3 + [OuterIteration, BlockStep]
    assert (type(heard[0]), type(heard[-1])) == (RunStarted, RunEnded)


@pytest.mark.parametrize(
    ("selection", "epochs"), [("permute", 1), ("permute", 3), ("online", 2), ("avsf", 1)]
)
def test_steps_are_the_rows_worked_on(store, problem, selection, epochs):
    options = problem.options(group=2, max_outer=2, selection=selection, epochs=epochs, gap=1e-12)
    _, events, _ = trained(store, options)
    assert [event.steps for event in events] == [epochs * len(problem.X)] * 2


@pytest.mark.parametrize("solver", [1, 3, 4])
@pytest.mark.parametrize("group", [2, None])
def test_entries_are_the_nonzeros_worked_on(store, problem, monkeypatch, group, solver):
    descent_alone(monkeypatch)
    options = problem.options(solver=solver, group=group, max_outer=3, gap=1e-12)
    nnz = store.manifest.nnz
    for event in trained(store, options)[1]:
        assert event.entries == nnz + event.pass_entries
        assert event.pass_entries > 0
    for event in trained(store, replace(options, selection="permute", epochs=2))[1]:
        assert (event.entries, event.pass_entries) == (2 * nnz, 0)


def test_certificates_that_are_given_up_are_counted(store, problem, monkeypatch):
    monkeypatch.setattr(Stopping, "wants_certificate", lambda self, report, seen: True)
    options = problem.options(group=2, max_outer=9, gap=1e-9)
    _, events, _ = trained(store, options)
    assert [event.certificates for event in events] == [1] * 9
    assert [event.certified for event in events] == [False] * 8 + [True]


def test_a_run_tries_few_certificates(store, problem):
    events = []
    for seed in range(8):  # two blocks of so few rows tell little of all
        options = problem.options(group=2, gap=1e-3, seed=seed, restart=True)
        events += trained(store, options)[1]
    assert sum(event.certificates for event in events) < len(events) / 4
    assert all(event.certificates >= event.certified for event in events)


def test_a_store_of_single_precision(tmp_path, problem):
    store = split_problem(tmp_path, problem, 3, dtype="float32")
    rounded = replace(problem, X=problem.X.astype(np.float32).astype(float))
    model = train(store, problem.options(gap=1e-6))
    proof = model.metadata["certificate"]
    assert proof["gap"] <= 1e-6
    assert rounded.primal_of(model) == pytest.approx(proof["primal"], rel=1e-12)


def test_the_gap_asked_for_is_certified(store, problem):
    model, events, _ = trained(store, problem.options(gap=1e-5))
    assert events[-1].certified
    assert events[-1].gap == model.metadata["certificate"]["gap"] <= 1e-5


def test_the_gap_is_a_thousandth_when_nothing_is_asked(store, problem):
    model, events, _ = trained(store, problem.options())
    assert events[-1].gap <= 1e-3
    assert model.metadata["stopped"] == "converged"


def test_the_tolerance_bounds_the_violation_at_first_touch(store, problem):
    model, events, _ = trained(store, problem.options(tolerance=0.1, group=2))
    assert [event.violation <= 0.1 for event in events] == [False] * (len(events) - 1) + [True]
    assert events[-1].certified  # however training ends, its model says how good it is
    assert model.metadata["certificate"]["gap"] > 0


@pytest.mark.parametrize("solver", [1, 3, 7, 11])
def test_estimates_out_of_core_are_of_all_rows(tmp_path, monkeypatch, solver):
    """Rows that wait for their turn add several times as much as those that just had it."""
    rng = np.random.default_rng(solver)
    X = rng.normal(size=(4000, 1000)) * (rng.random((4000, 1000)) < 0.01)
    value = X @ rng.normal(size=1000) + 0.5 * rng.normal(size=4000)
    many = Problem(X, value if solver == 11 else np.where(value > 0.0, 1.0, -1.0), solver)
    store, ratios, look = split_problem(tmp_path, many, 10), [], BlockDescent._look

    def compare(self, group, outer, last):
        look(self, group, outer, True)
        (vectors,) = self.vectors
        with GroupLoader(store, 10, 1) as loader:
            proof = vectors.proof(recompute=False)
            for loaded in loader.stream([tuple(range(10))]):
                vectors.certify_group(loaded.group, proof)
        exact = proof.remaining(4000)[0, 0]
        ratios.extend([vectors._remaining[0, 0] / exact] if outer > 1 else [])

    monkeypatch.setattr(BlockDescent, "_look", compare)
    monkeypatch.setattr(BlockDescent, "reached", False)
    descent_alone(monkeypatch)
    train(store, many.options(group=1, max_outer=6, gap=1e-9, method="dual"))
    assert len(ratios) == 50
    assert 0.9 < np.median(ratios) < 1.1
    assert 0.6 < min(ratios) < max(ratios) < 1.7


def test_estimates_of_the_gap_are_never_below_zero(tmp_path):
    """Also where the group that comes next had its turn later than others, and is close by chance.

    Such a gap was taken for 0, and a certificate was in vain.
    """
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(1500, 30)) * (rng.random((1500, 30)) < 0.3)
        y = np.where(X @ rng.normal(size=30) + rng.normal(size=1500) > 0.0, 1.0, -1.0)
        noisy = Problem(X, y, 3)
        store = split_problem(tmp_path, noisy, 5, name=f"store{seed}")
        _, events, _ = trained(store, noisy.options(group=1, gap=1e-4, max_outer=30))
        assert all(event.primal >= event.dual for event in events)
        assert all(event.gap > 0.0 for event in events)


@pytest.mark.parametrize("n_rows", [2, 3, 4, 5])
@pytest.mark.parametrize("seed", range(3))
def test_few_rows_do_not_look_solved(tmp_path, monkeypatch, n_rows, seed):
    """Violations of e = 1e-4 leave about n C e**2 of P - D, as they are those at first touch."""
    rng = np.random.default_rng(seed)
    labels = np.where(np.arange(n_rows) % 2, 1.0, -1.0)
    few = Problem(rng.normal(size=(n_rows, 2)), labels, 1, 1e2, bias=10.0)
    descent_alone(monkeypatch)
    options = few.options(tolerance=1e-4, max_outer=10_000)
    proof = train(split_problem(tmp_path, few, 1), options).metadata["certificate"]
    assert proof["primal"] - proof["dual"] <= 5 * n_rows * 1e2 * 1e-4**2


@pytest.mark.parametrize(
    ("gap", "tolerance"), [(0.5, 1e-3), (1e-6, 10.0), (1e-4, 0.01)], ids=["e", "gap", "both"]
)
def test_gap_and_tolerance_must_both_hold(store, problem, gap, tolerance):
    _, events, warned = trained(store, problem.options(gap=gap, tolerance=tolerance, group=2))
    assert not warned
    assert events[-1].certified
    assert events[-1].gap <= gap
    assert events[-1].violation <= tolerance
    for event in events[:-1]:
        assert not (event.certified and event.gap <= gap and event.violation <= tolerance)


def test_max_outer_warns_and_returns_the_best_so_far(store, problem):
    model, events, warned = trained(store, problem.options(gap=1e-9, max_outer=2))
    proof = model.metadata["certificate"]
    assert [warning.message for warning in warned] == [
        "reaching max number of iterations: not converged after 2 outer iterations: the gap is "
        f"{proof['gap']:.3g}; scale the data, lower C, give a larger "
        "--max-outer, or try -s 1, which ends with Newton steps where there are two classes, or "
        "few features"
    ]
    assert model.metadata["stopped"] == "2 outer iterations"
    assert len(events) == 2
    assert events[-1].certified


def test_the_last_iteration_allowed_may_converge(store, problem):
    model, _, warned = trained(store, problem.options(gap=0.999, max_outer=1))
    assert not warned
    assert model.metadata["stopped"] == "converged"


def test_the_time_limit_ends_after_an_outer_iteration(store, problem):
    model, events, warned = trained(store, problem.options(gap=1e-9, time_limit_s=1e-6))
    assert len(events) == len(warned) == 1
    assert model.metadata["stopped"] == "1e-06 seconds"


@pytest.mark.parametrize("group", [1, N_BLOCKS])
@pytest.mark.parametrize(
    "changes",
    [
        *({"solver": solver, "epochs": epochs} for solver in DUAL_SOLVERS for epochs in (1, 50)),
        *({"selection": selection, "epochs": 50} for selection in SELECTIONS),
        {"epochs": None, "inner_tolerance": 1e-300},
        {"average": True, "epochs": 50},
        {"method": "pegasos", "epochs": 50},
    ],
    ids=str,
)
def test_past_the_time_limit_an_outer_iteration_is_one_epoch(store, problem, changes, group):
    """A block step of a thousand epochs took as long as it takes, whatever the limit."""
    options = problem.options(gap=1e-12, time_limit_s=1e-9, group=group, **changes)
    model, (event,), warned = trained(store, options)
    assert event.certified
    assert event.entries - event.pass_entries < 1.5 * store.manifest.nnz  # drawn: not just once
    assert event.pass_entries <= (store.manifest.nnz if group == N_BLOCKS else 0)
    assert model.metadata["stopped"] == "1e-09 seconds"
    assert warned[-1].message.startswith("not converged after 1e-09 seconds: ")


def test_a_class_weight_without_rows_is_said(store, problem):
    weights = ((9.0, 5.0), (1.0, 2.0))
    _, _, warned = trained(store, problem.options(class_weights=weights))
    assert [warning.message for warning in warned] == ["class 9 has a weight, but no rows"]


HUGE = "1 1:1e150\n-1 1:-1e150\n1 2:1e150\n-1 2:0.5e150\n"
TINY = "1 1:1\n-1 1:-1\n1 2:1\n-1 2:0.5\n"


@pytest.mark.parametrize("solver", WITH_COST)
@pytest.mark.parametrize("text", [HUGE, TINY], ids=["huge", "tiny"])
@pytest.mark.parametrize("cost", [1e308, 1e300, 1.0, 1e-300, 5e-324])
def test_numbers_that_overflow_make_no_model(tmp_path, solver, text, cost, recwarn):
    store = split_text(tmp_path, text)
    options = random_problem(0).options(
        solver=solver, cost=cost, bias=-1.0, class_weights=(), max_outer=30
    )
    with contextlib.suppress(InputError, UsageError):
        model = train(store, options)
        assert np.isfinite(model.weights).all()
        assert None not in model.metadata["certificate"].values()
    assert not recwarn.list


@pytest.mark.parametrize(
    ("solver", "scale", "labels", "changes"),
    [
        (13, 1e153, (1.0, -1.0) * 3, {"cost": 1e307, "bias": 1.0, "group": 1}),
        (13, 1e-160, (1e150, -1e150) * 3, {"cost": 1e200}),
        (1, 1e-300, (1.0, -1.0) * 3, {"cost": 1e307, "bias": 1e150, "group": 1}),
    ],
    ids=str,
)
def test_overflows_are_told_without_warnings_of_numpy(
    tmp_path, solver, scale, labels, changes, recwarn
):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        rows = rng.normal(size=(len(labels), 2)) * scale
        huge = Problem(rows, np.array(labels), solver)
        store = split_problem(tmp_path, huge, 2, name=f"store{seed}")
        with contextlib.suppress(InputError):
            model = train(store, huge.options(max_outer=60, gap=1e-3, **changes))
            assert np.isfinite(model.weights).all()
            assert None not in model.metadata["certificate"].values()
    assert not recwarn.list


def test_a_relative_gap_that_overflows_makes_no_model(tmp_path):
    """P was 1e-279, and D -1e170."""
    rows = np.random.default_rng(0).normal(size=(2, 1)) * 1e140
    huge = Problem(rows, np.array([1.0, -1.0]), 2)
    options = huge.options(cost=1e200, group=1, max_outer=60, gap=1e-3)
    with pytest.raises(InputError, match=r"overflowed.*\n.*scale the data"):
        train(split_problem(tmp_path, huge, 2), options)


@pytest.mark.parametrize("group", [1, N_BLOCKS])
@pytest.mark.parametrize("solver", [*DUAL_SOLVERS, 0, 5])
def test_models_are_made_when_the_memory_of_training_is_free(
    store, problem, monkeypatch, solver, group
):
    runs, freed, converge = [], [], loop.converge

    def noting(run):
        runs.append(weakref.ref(run))
        return converge(run)

    monkeypatch.setattr(loop, "converge", noting)
    gc.disable()  # which would come too late
    try:
        options = replace(problem, solver=solver).options(group=group, max_outer=3)
        train(store, options, keep=lambda model: freed.append(runs[0]() is None))
    finally:
        gc.enable()
    assert freed == [True]


@pytest.mark.parametrize("solver", [1, 3])
def test_an_overflow_is_refused_as_input(tmp_path, solver):
    options = random_problem(0).options(
        solver=solver, cost=1e308, bias=-1.0, class_weights=(), max_outer=30
    )
    store = split_text(tmp_path, HUGE + "1 1:-1e150\n" * 5)
    with pytest.raises(InputError, match=r"overflowed.*\n.*lower C") as caught:
        train(store, options)
    assert caught.value.exit_code == 3


def damage(path, kind):
    data = bytearray(path.read_bytes())
    if kind == "flip":
        data[len(data) // 2] ^= 0x10
    path.unlink()
    if kind != "gone":
        path.write_bytes(data[:-7] if kind == "cut" else data)


@pytest.mark.parametrize("kind", ["flip", "cut", "gone"])
def test_a_block_damaged_in_mid_training(tmp_path, problem, kind):
    store = split_problem(tmp_path, problem, 4)
    options = without_pins(store, problem.options(group=1, gap=1e-12))
    name = store.manifest.blocks[2].name
    path, threads = store.blocks_folder / name, threading.active_count()
    intact = path.read_bytes()

    def listen(event):
        if event == BlockStep(2, 4, 4):
            damage(path, kind)

    with pytest.raises(DamagedError, match=name) as caught:
        train(store, options, listen)
    assert caught.value.exit_code == 4
    assert threading.active_count() == threads

    path.write_bytes(intact)  # the store is free again, and a new run starts afresh
    train(store, replace(options, gap=0.1))


def test_a_listener_that_fails_ends_training(store, problem):
    def listen(event):
        raise KeyboardInterrupt

    threads = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        train(store, without_pins(store, problem.options(group=1, gap=1e-12)), listen)
    assert threading.active_count() == threads
    train(store, problem.options(max_outer=1))


def test_one_run_at_a_time(store, problem):
    with Lock(store.folder / "lock"), pytest.raises(BusyError, match="pid") as caught:
        train(store, problem.options())
    assert caught.value.exit_code == 8


def test_each_run_has_its_own_folder(store, problem):
    assert problem.options().memory_bytes == MEMORY_BYTES
    train(store, problem.options(max_outer=1, run="other-1.2"))
    names = [path.name for path in (store.folder / "runs" / "other-1.2").iterdir()]
    assert names == ["checkpoint.json"]  # of so few rows all is in it, and the scratch is gone


def test_a_run_folder_that_cannot_be_made(tmp_path, problem):
    store = split_problem(tmp_path, problem, 2)
    (store.folder / "runs").write_text("in the way")
    with pytest.raises(StorageError, match="runs/default: create failed"):
        train(store, problem.options())
