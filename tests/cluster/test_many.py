"""Several classes, a grid of C and cross-validation on workers: each model as on one machine."""

import functools
from dataclasses import replace

import numpy as np
import pytest
from effort import EXTENSIVE
from training.classes import several_classes
from training.small import Heard, long_problem, split_problem

import blocklinear
from blocklinear.errors import MismatchError, StoppedError
from blocklinear.events import OuterIteration

from .test_faults import Broken, bits, failing_once

COSTS = (0.003, 0.03, 0.1, 0.3)
PROBLEM = long_problem(3, 120, 20)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return split_problem(tmp_path_factory.mktemp("grid"), PROBLEM, 8)


@pytest.fixture(scope="module")
def classes(tmp_path_factory):
    """Return a problem of several classes for a number of them, and its store."""
    made = {}

    def of(n_classes, solver=3):
        problem = several_classes(n_classes, solver, n_rows=200, n_features=6)
        if n_classes not in made:
            folder = tmp_path_factory.mktemp(f"classes{n_classes}")
            made[n_classes] = split_problem(folder, problem, 6)
        return problem, made[n_classes]

    return of


@pytest.fixture(scope="module")
def alone(classes):
    """Return what one machine makes of a problem of several classes."""

    @functools.cache
    def of(n_classes, solver):
        problem, store = classes(n_classes, solver)
        return blocklinear.train(store, problem.options(gap=1e-6, restart=True), Heard())

    return of


def trained(store, client, problem, listener=None, parts=3, **options):
    chosen = problem.options(**({"gap": 1e-3, "restart": not options.get("resume")} | options))
    listener = Heard() if listener is None else listener
    return blocklinear.train(store, chosen, listener, client=client, parts=parts)


def grid(store, client, listener=None, halt=lambda: False, costs=COSTS, parts=3, **options):
    settings = {"gap": 1e-3, "restart": not options.get("resume")} | options
    chosen = PROBLEM.options(costs=costs, **settings)
    listener = Heard() if listener is None else listener
    models = blocklinear.train_grid(store, chosen, listener, halt, client=client, parts=parts)
    return [bits(model) for model in models], models


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize(("n_classes", "solver"), [(3, 3), (3, 1), (3, 7), (9, 3), (22, 1)])
def test_each_class_is_at_its_optimum(two, classes, alone, n_classes, solver, parts):
    """With 22 classes, columns of weights are padded on workers."""
    problem, store = classes(n_classes, solver)
    here = alone(n_classes, solver)
    there = trained(store, two, problem, parts=parts)
    assert there.metadata["certificate"]["gap"] <= 1e-3
    optimum, primal = (m.metadata["certificate"]["primal"] for m in (here, there))
    assert optimum * (1 - 1e-5) <= primal <= optimum * 1.0011
    for model in (here, there):
        assert model.weights.shape[1] == n_classes
    values = [problem.primal(w, k) for k, w in columns(problem, there)]
    best = [problem.primal(w, k) for k, w in columns(problem, here)]
    assert sum(values) == pytest.approx(primal, rel=1e-9)
    assert all(v <= b * 1.0011 for v, b in zip(values, best, strict=True))


def test_models_trained_in_parts_say_of_which_cluster(two, classes, monkeypatch):
    problem, store = classes(9)
    monkeypatch.setattr(
        "blocklinear.training.parts.split_to_fit",
        lambda store, options, n, *rest, **more: [slice(0, 4), slice(4, n)],
    )
    model = trained(store, two, problem, gap=0.1)
    rounds = model.metadata["outer_iterations"]
    assert model.metadata["cluster"] == {"workers": 2, "parts": 3, "rounds": rounds}


def columns(problem, model):
    """Yield the class and the weights of each model, with that of the bias at the end."""
    for j, label in enumerate(model.labels):
        yield label, np.append(model.weights[:, j], model.bias_weights[j])


@pytest.mark.parametrize("parts", [1, 3])
def test_a_grid(two, store, parts):
    """Models of a small C are dropped, and keep what was certified."""
    heard = Heard()
    _, models = grid(store, two, heard, parts=parts)
    rounds = [event.n_models for event in heard.of(OuterIteration)]
    assert rounds[0] == len(COSTS)
    assert rounds[-1] < len(COSTS)
    for cost, model in zip(COSTS, models, strict=True):
        problem = replace(PROBLEM, cost=cost)
        certificate = model.metadata["certificate"]
        assert certificate["gap"] <= 1e-3
        assert problem.primal_of(model) == pytest.approx(certificate["primal"], rel=1e-9)
        assert problem.primal_of(model) <= problem.optimum() * 1.00101


@pytest.fixture(scope="module")
def expected(store, tmp_path_factory):
    """Return what comes of a grid, and how many tasks it takes, for a number of parts."""
    from .serial import SerialClient

    def of(parts):
        with pytest.MonkeyPatch.context() as patch:
            client = SerialClient(2, tmp_path_factory.mktemp("s"), patch)
            return grid(store, client, parts=parts)[0], len(client.ran)

    return {parts: of(parts) for parts in (1, 3)}


def test_bits_do_not_depend_on_workers(two, three, store, expected, classes):
    assert grid(store, three)[0] == expected[3][0]
    problem, store = classes(9)
    one, other = (bits(trained(store, client, problem)) for client in (two, three))
    assert one == other


def test_dask_does_the_same(cluster, store, expected):
    assert grid(store, cluster)[0] == expected[3][0]


@pytest.mark.parametrize("share", np.linspace(0.0, 0.999, 16 if EXTENSIVE else 5).round(3))
@pytest.mark.parametrize("parts", [1, 3])
def test_a_client_that_dies_anywhere(serial, store, expected, parts, share):
    """Models were dropped before, or are dropped after."""
    found, tasks = expected[parts]
    client = serial(2)
    client.before = failing_once(int(tasks * share), Broken("at a task"))
    with pytest.raises(Broken):
        grid(store, client, parts=parts)
    assert grid(store, serial(1), parts=parts, resume=True)[0] == found


def test_a_client_that_dies_as_models_are_dropped(serial, store, expected, monkeypatch):
    from blocklinear.cluster.run import DistributedRun

    save, wanted = DistributedRun.save, [0, 1]

    def failing(self):
        if self.solver.unsaved and wanted and wanted.pop(0):
            raise Broken("before it is saved")
        save(self)

    monkeypatch.setattr(DistributedRun, "save", failing)
    with pytest.raises(Broken):
        grid(store, serial(2))
    assert grid(store, serial(2), resume=True)[0] == expected[3][0]


def test_a_grid_that_is_stopped(serial, store, expected):
    seen = []

    def stop():
        return len(seen) > 4

    with pytest.raises(StoppedError):
        grid(store, serial(2), seen.append, stop)
    assert grid(store, serial(2), resume=True)[0] == expected[3][0]


def test_models_that_were_dropped_are_not_trained_further(serial, store):
    client = serial(2)
    n_models = []

    def listen(event):
        if isinstance(event, OuterIteration):
            n_models.append(event.n_models)

    with pytest.raises(StoppedError):
        grid(store, client, listen, lambda: bool(n_models) and n_models[-1] < len(COSTS) - 1)
    with pytest.raises(MismatchError, match="were finished with gaps up to"):
        grid(store, client, resume=True, gap=1e-7)


@pytest.mark.parametrize("solver", [3, 13])
def test_cross_validation(two, three, tmp_path, solver):
    """The folds of one machine, and scores of models that are as good."""
    problem = long_problem(solver, 120, 10)
    store = split_problem(tmp_path, problem, 6)
    options = {"solver": solver, "costs": (0.1, 1.0), "folds": 3, "gap": 1e-3, "memory": "2G"}
    here = blocklinear.cross_validate(store, **options)
    found = [
        blocklinear.cross_validate(store, client=client, parts=3, **options)
        for client in (two, three)
    ]
    assert found[0].to_dict() == found[1].to_dict()
    np.testing.assert_array_equal(found[0].predicted, found[1].predicted)
    assert max(found[0].to_dict()["gap"]) <= 1e-3
    for one, other in zip(here.report.scores, found[0].report.scores, strict=True):
        assert [fold["rows"] for fold in one.folds] == [fold["rows"] for fold in other.folds]
        metric = found[0].report.metric
        assert one.mean(metric) == pytest.approx(other.mean(metric), rel=0.05)
    assert not (store.folder / "runs" / "default.cv").exists()


def test_cross_validation_on_a_store_where_one_was_killed(two, three, store):
    def fail(name):
        if name == "certify":
            raise Broken("at a certificate")

    two.before = fail
    options = {"costs": (0.1,), "folds": 3, "gap": 1e-2, "memory": "2G", "parts": 2}
    with pytest.raises(Broken):
        blocklinear.cross_validate(store, client=two, **options)
    (store.folder / "runs" / "default.cv").mkdir(parents=True, exist_ok=True)
    (store.folder / "runs" / "default.cv" / "w-0.1").write_bytes(b"what a kill leaves")
    blocklinear.cross_validate(store, client=three, **options)
    assert not (store.folder / "runs" / "default.cv").exists()


def test_held_out_rows_are_scored(two, tmp_path):
    problem = PROBLEM
    store, heard = split_problem(tmp_path, problem, 6), Heard()
    held_out = tmp_path / "held_out.svm"
    held_out.write_bytes(next(tmp_path.glob("*.svm")).read_bytes())
    trained(store, two, problem, heard, gap=1e-3, evaluate=str(held_out))
    assert all(event.accuracy > 0.5 for event in heard.of(OuterIteration))


@pytest.mark.parametrize("parts", [1, 3])
def test_patience(two, tmp_path, parts):
    """The model that scored best is certified, though workers never had its weights in a file."""
    problem = long_problem(3)
    store, heard = split_problem(tmp_path, problem, 6), Heard()
    rows = str(next(tmp_path.glob("*.svm")))
    options = {"gap": 1e-9, "evaluate": rows, "patience": 2}
    model = trained(store, two, problem, heard, parts, **options)
    scores = [event.accuracy for event in heard.of(OuterIteration)]
    assert scores[-1] == max(scores)
    primal = problem.primal_of(model)
    assert primal == pytest.approx(model.metadata["certificate"]["primal"], rel=1e-9)
    assert primal <= problem.optimum() / (1 - model.metadata["certificate"]["gap"])
    again = trained(store, two, problem, None, parts, resume=True, **options)
    assert bits(again) == bits(model)
