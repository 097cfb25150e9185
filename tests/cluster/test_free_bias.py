"""A bias that is not regularised, on workers: the optimum of one machine, certified."""

import functools

import pytest
from training.classes import several_classes
from training.free_bias import far_problem, free_optimum, free_primal_of, free_problem
from training.small import DUAL_SOLVERS, Heard, descent_alone, split_problem

import blocklinear
from blocklinear.events import OuterIteration, WarmStarted

from .serial import SerialClient
from .test_faults import Broken, bits, failing_once


def trained(store, client, problem, parts=3, listener=None, **options):
    settings = {"gap": 1e-3, "regularize_bias": False} | options
    settings |= {"restart": not (options.get("resume") or options.get("warm_start"))}
    listener = Heard() if listener is None else listener
    chosen = problem.options(**settings)
    return blocklinear.train(store, chosen, listener, client=client, parts=parts)


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("solver", DUAL_SOLVERS)
def test_it_is_the_optimum(two, tmp_path, solver, seed, parts):
    problem = free_problem(solver, seed)
    store = split_problem(tmp_path, problem, 6)
    gap = 1e-3 if parts == 1 else 1e-2
    model = trained(store, two, problem, parts, gap=gap, max_outer=1000)
    certificate, primal = model.metadata["certificate"], free_primal_of(problem, model)
    optimum = free_optimum(problem)
    assert certificate["gap"] <= gap
    assert primal == pytest.approx(certificate["primal"], rel=1e-9)
    assert certificate["dual"] <= optimum * (1 + 1e-9)
    assert primal <= optimum * (1 + 1.01 * gap)


@pytest.mark.parametrize("solver", [1, 3, 7, 13])
@pytest.mark.parametrize("far", [False, True])
def test_one_part_takes_the_rounds_of_one_machine(two, tmp_path, monkeypatch, solver, far):
    descent_alone(monkeypatch)
    problem = far_problem(solver) if far else free_problem(solver, 2)
    store, heard = split_problem(tmp_path, problem, 6), [Heard(), Heard()]
    options = problem.options(gap=1e-4, regularize_bias=False)
    blocklinear.train(store, options, heard[0])
    trained(store, two, problem, 1, heard[1], gap=1e-4)
    alone, cluster = ([event.outer for event in of.of(OuterIteration)][-1] for of in heard)
    assert cluster <= alone + 2


@pytest.mark.parametrize("regularized", [False, True])
@pytest.mark.parametrize(("solver", "rounds"), [(1, 30), (7, 15), (12, 15)])
def test_few_rows_take_few_rounds(two, tmp_path, solver, rounds, regularized):
    """They took 127, 51 and 685 where a part passed over its 20 rows once or twice in each."""
    problem, heard = free_problem(solver, 3), Heard()
    store = split_problem(tmp_path, problem, 6)
    trained(store, two, problem, 3, heard, gap=1e-2, regularize_bias=regularized)
    assert heard.of(OuterIteration)[-1].outer <= rounds


@pytest.mark.parametrize(("solver", "several"), [(1, False), (7, False), (7, True)])
def test_a_bias_that_is_far_off_is_found_soon(two, tmp_path, solver, several):
    """It took 114 and 120 rounds where no step was longer than its pull."""
    problem, heard = far_problem(solver, several), Heard()
    store = split_problem(tmp_path, problem, 6)
    trained(store, two, problem, 3, heard, gap=1e-4)
    assert heard.of(OuterIteration)[-1].outer <= 40


@pytest.mark.parametrize("solver", [3, 13])
def test_bits_do_not_depend_on_workers(two, three, tmp_path, solver):
    problem = free_problem(solver, 1)
    store = split_problem(tmp_path, problem, 6)
    one, other = (trained(store, client, problem, max_outer=6) for client in (two, three))
    assert bits(one) == bits(other)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """Return a problem, its store, and what comes of a run of 4 rounds."""

    @functools.cache
    def of(make, parts):
        folder = tmp_path_factory.mktemp("undisturbed")
        problem = free_problem(3, 2) if make is free_problem else far_problem(7)
        store = split_problem(folder, problem, 6)
        with pytest.MonkeyPatch.context() as patch:
            client = SerialClient(2, folder, patch)
            model = trained(store, client, problem, parts, gap=1e-9, max_outer=4)
        return problem, store, bits(model)

    return of


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("at", [1, 5, 9, 14, 20, 27])
@pytest.mark.parametrize("make", [free_problem, far_problem])
def test_a_client_that_dies(serial, undisturbed, at, parts, make):
    problem, store, expected = undisturbed(make, parts)
    options, client = {"gap": 1e-9, "max_outer": 4, "parts": parts}, serial(2)
    client.before = failing_once(at, Broken("at a task"))
    if parts == 3 or at < 10:
        with pytest.raises(Broken):
            trained(store, client, problem, **options)
    assert bits(trained(store, serial(1), problem, resume=True, **options)) == expected


@pytest.mark.parametrize("parts", [1, 3])
def test_several_classes(two, tmp_path, parts):
    problem = several_classes(4, 1, n_rows=200)
    store = split_problem(tmp_path, problem, 6)
    options = problem.options(gap=1e-5, regularize_bias=False, run="here")
    here = blocklinear.train(store, options, Heard())
    there = trained(store, two, problem, parts)
    for found, best in zip(*(m.metadata["certificates"] for m in (there, here)), strict=True):
        assert found["gap"] <= 1e-3
        assert best["primal"] * (1 - 1e-5) <= found["primal"] <= best["primal"] * 1.0011


@pytest.mark.parametrize("solver", [1, 13])
def test_a_tolerance(two, tmp_path, solver):
    """How far alpha are from balanced counts, too."""
    problem, heard = free_problem(solver, 1), Heard()
    store = split_problem(tmp_path, problem, 6)
    model = trained(store, two, problem, listener=heard, gap=None, tolerance=0.01)
    assert heard.of(OuterIteration)[-1].violation <= 0.01
    assert model.metadata["certificate"]["gap"] <= 0.01


@pytest.mark.parametrize("before", ["cluster", "one machine"])
@pytest.mark.parametrize("after", ["cluster", "one machine"])
@pytest.mark.parametrize("regularized", [False, True])
def test_warm_starts(two, tmp_path, before, after, regularized):
    """The weight that the bias had is taken over: it is no sum over rows."""
    problem = free_problem(3, 2)
    store = split_problem(tmp_path, problem, 6)
    clients = {"cluster": {"client": two, "parts": 3}, "one machine": {}}
    options = {"gap": 1e-3, "max_outer": 1000}
    chosen = problem.options(regularize_bias=regularized, **options)
    blocklinear.train(store, chosen, Heard(), **clients[before])
    heard = Heard()
    chosen = problem.options(regularize_bias=False, warm_start=True, **options)
    warm = blocklinear.train(store, chosen, heard, **clients[after])
    assert heard.of(WarmStarted)
    assert warm.metadata["certificate"]["gap"] <= 1e-3
    assert free_primal_of(problem, warm) <= free_optimum(problem) * 1.00101
    if not regularized:
        chosen = problem.options(regularize_bias=False, run="cold", **options)
        cold = blocklinear.train(store, chosen, Heard(), **clients[after])
        ends = [model.metadata["outer_iterations"] for model in (cold, warm)]
        assert ends[1] <= max(ends[0], 3)
