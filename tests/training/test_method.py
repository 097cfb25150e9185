"""The method that follows from the data."""

import json
from dataclasses import replace

import numpy as np
import pytest

from blocklinear import train_grid
from blocklinear.cli.main import main
from blocklinear.errors import StoppedError, UsageError
from blocklinear.events import MethodChosen
from blocklinear.memory import PROCESS_BYTES
from blocklinear.options import TrainOptions
from blocklinear.selection.cross_validation import cross_validate
from blocklinear.store.store import BlockStore
from blocklinear.training import method, train
from training.classes import several_classes
from training.small import Heard, Problem, split_problem


def dense(solver=1, cost=1.0, features=10):
    """Rows of few features, all of which they have."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, features)).round(2)
    value = X @ rng.normal(size=features) + rng.normal(size=400)
    labels = value.round(1) if solver > 10 else np.where(value > 0, 1.0, -1.0)
    return Problem(X, labels, solver, cost)


def wide(solver=1, cost=1.0):
    """Rows of so many features that a Hessian costs much."""
    return dense(solver, cost, 60)


def sparse(solver=1, cost=1.0):
    """Rows of few of many features."""
    rng = np.random.default_rng(2)
    X = np.zeros((60, 400))
    for row in X:
        row[rng.integers(0, 400, 5)] = 0.45
    return Problem(X, np.where(rng.random(60) > 0.5, 1.0, -1.0), solver, cost)


def chosen(folder, problem, run=train, **options):
    heard = Heard()
    found = run(split_problem(folder, problem), problem.options(method="auto", **options), heard)
    (choice,) = heard.of(MethodChosen)
    return found, choice


@pytest.mark.parametrize("solver", [1, 2, 7, 0, 12, 11])
@pytest.mark.parametrize(
    ("make", "cost", "newton"), [(dense, 100.0, True), (wide, 1e-3, False), (sparse, 50.0, False)]
)
def test_it_follows_from_features_and_cost(tmp_path, solver, make, cost, newton):
    problem = make(solver, cost)
    model, choice = chosen(tmp_path, problem)
    assert choice.method == ("newton" if newton else "dual")
    assert "weights" in choice.why
    assert model.metadata["method_chosen"] == choice.why
    assert model.metadata["method"] == choice.method
    # it is the model of that method, and that of the other one
    (tmp_path / "own").mkdir()
    own = train(split_problem(tmp_path / "own", problem), problem.options(method=choice.method))
    assert np.array_equal(model.weights, own.weights)
    (tmp_path / "other").mkdir()
    other = train(
        split_problem(tmp_path / "other", problem),
        problem.options(method="dual" if newton else "newton", gap=1e-7, max_outer=5000),
    )
    primals = [found.metadata["certificate"]["primal"] for found in (model, other)]
    np.testing.assert_allclose(*primals, rtol=1.1e-3)


@pytest.mark.parametrize("solver", [1, 7, 12])
def test_instead_of_a_violation_newton_ends_at_a_gap(tmp_path, solver):
    """Gradients may be small, relative to the first one, far from the optimum."""
    model, choice = chosen(tmp_path, dense(solver, cost=1e4), gap=None, tolerance=1e-3)
    assert choice.method == "newton"
    assert model.metadata["certificate"]["gap"] <= 1e-3


@pytest.mark.parametrize("solver", [1, 7, 12])
def test_so_it_does_in_cross_validation(tmp_path, solver):
    problem = dense(solver, cost=1e4)
    options = problem.options(method="auto", gap=None, tolerance=1e-1)
    found = cross_validate(split_problem(tmp_path, problem), options, costs=[1e4], n_folds=3)
    assert found.report.best.gap <= 1e-3


def test_squares_of_rows_whose_sum_overflows(tmp_path, recwarn):
    """Their mean was infinite, whatever C."""
    rows = np.full((40, 1), 9e153)
    huge, heard = Problem(rows, np.resize([1.0, -1.0], 40), 2, cost=1e-308), Heard()
    store = split_problem(tmp_path, huge, 1)
    train(store, huge.options(max_outer=4), heard)
    assert heard.of(MethodChosen)[0].why.endswith("coordinate descent as much as 743")
    assert not recwarn.list


def test_large_rows_and_their_weights_count_as_cost(tmp_path):
    assert chosen(tmp_path, dense(cost=1e-3))[1].method == "dual"
    (tmp_path / "large").mkdir()
    large = dense(cost=1e-3)
    large = replace(large, X=100.0 * large.X)
    assert chosen(tmp_path / "large", large)[1].method == "newton"
    (tmp_path / "heavy").mkdir()
    heavy = replace(dense(cost=1e-3), weights=np.full(400, 1e4))
    assert chosen(tmp_path / "heavy", heavy)[1].method == "newton"


@pytest.mark.parametrize(
    ("solver", "method"), [(1, "dual"), (2, "dual"), (12, "dual"), (7, "newton")]
)
def test_a_hessian_of_rows_with_a_loss_needs_many_of_them(tmp_path, solver, method):
    """400 rows of 20 features, C = 10,000: Newton's method took up to 1,000 passes on such rows."""
    model, choice = chosen(tmp_path, dense(solver, cost=1e4, features=20), gap=1e-2, max_outer=200)
    assert choice.method == method
    assert ("400 rows" in choice.why) is (method == "dual")
    assert model.metadata["certificate"]["gap"] <= 1e-2


@pytest.mark.parametrize("solver", [7, 0])
def test_without_memory_for_the_hessian_it_is_the_dual(tmp_path, solver):
    problem, how = sparse(solver, cost=1e6), {"max_outer": 3}
    assert chosen(tmp_path, problem, **how)[1].method == "newton"
    (tmp_path / "little").mkdir()
    how["memory_bytes"] = PROCESS_BYTES + (300 << 10)
    model, choice = chosen(tmp_path / "little", problem, **how)
    assert choice.method == "dual"
    assert "no memory" in choice.why
    assert model.solver == ("L2R_LR_DUAL" if solver == 7 else "L2R_LR")
    (tmp_path / "given").mkdir()
    given = problem.options(method="dual", **how)
    assert np.array_equal(
        train(split_problem(tmp_path / "given", problem), given).weights, model.weights
    )


def test_nor_is_there_where_fetching_a_store_on_a_url_takes_it(tmp_path, monkeypatch):
    problem = sparse(7, cost=1e6)
    how = {"max_outer": 3, "memory_bytes": PROCESS_BYTES + (8 << 20)}
    assert chosen(tmp_path, problem, **how)[1].method == "newton"
    monkeypatch.setattr(BlockStore, "fetching_bytes", (8 << 20) - (300 << 10))
    (tmp_path / "url").mkdir()
    _, choice = chosen(tmp_path / "url", problem, **how)
    assert choice.method == "dual"
    assert "no memory" in choice.why


@pytest.mark.parametrize(
    ("solver", "features", "cost", "changes", "found"),
    [
        (7, 10, 100.0, {}, "products"), (1, 10, 100.0, {}, "products"),
        (7, 60, 100.0, {}, "no memory"), (7, 10, 100.0, {"group": 1}, "no memory"),
        (1, 10, 1e-4, {}, "weights, products"), (1, 20, 100.0, {}, "too few"),
    ],
)  # fmt: skip
def test_products_do_without_a_hessian_where_many_rows_stay_in_memory(
    tmp_path, monkeypatch, solver, features, cost, changes, found
):
    """As conjugate gradients do on 330,000 flights, in a fortieth of the time at C = 100."""
    plan = method.plan_that_fits

    def without(*which, **more):
        return replace(plan(*which, **more), hessian=False, **changes)

    monkeypatch.setattr(method, "plan_that_fits", without)
    problem = dense(solver, cost, features)
    model, choice = chosen(tmp_path, problem, gap=1e-4, max_outer=2000)
    assert found in choice.why
    assert choice.method == ("newton" if found == "products" else "dual")
    assert model.metadata["certificate"]["gap"] <= 1e-4


@pytest.mark.parametrize(("solver", "memory"), [(1, 1 << 30), (2, PROCESS_BYTES + (300 << 10))])
def test_a_run_that_is_resumed_keeps_its_method(tmp_path, solver, memory):
    problem, calls = dense(solver, cost=100.0) if solver == 1 else sparse(solver, cost=1e6), []
    store = split_problem(tmp_path, problem, 3)
    options = problem.options(method="auto", gap=1e-9, group=1, memory_bytes=memory)

    def halt():
        calls.append(1)
        return len(calls) > 8

    with pytest.raises(StoppedError):
        train(store, options, halt=halt)
    heard = Heard()
    # what more memory would lead to is no matter: the checkpoint has it
    model = train(store, replace(options, resume=True, memory_bytes=1 << 30), heard)
    (choice,) = heard.of(MethodChosen)
    assert choice.method == ("newton" if solver == 1 else "dual")
    whole = train(store, replace(options, run="whole"))
    assert np.array_equal(model.weights, whole.weights)
    assert model.metadata == whole.metadata | {"memory_bytes": 1 << 30}


@pytest.mark.parametrize(("method", "cost"), [("dual", 100.0), ("newton", 1e-3)])
def test_a_run_that_was_given_its_method_is_resumed_by_it(tmp_path, method, cost):
    """That there is no memory, or that another method costs less, is not why."""
    problem, calls = dense(cost=cost), []
    store = split_problem(tmp_path, problem, 3)
    options = problem.options(method=method, gap=1e-3, group=1)
    with pytest.raises(StoppedError):
        train(store, options, halt=lambda: calls.append(1) or len(calls) > 2)
    heard = Heard()
    train(store, replace(options, method="auto", resume=True), heard)
    (choice,) = heard.of(MethodChosen)
    assert choice == MethodChosen(method, "the run to go on from was trained by it")


def test_many_models(tmp_path):
    problem = replace(several_classes(3, 7, 300, 5), cost=100.0)
    model, choice = chosen(tmp_path, problem)
    assert (model.solver, choice.method) == ("L2R_LR_DUAL", "newton")
    (tmp_path / "grid").mkdir()
    models, choice = chosen(tmp_path / "grid", dense(), train_grid, costs=(1e-4, 100.0))
    assert choice.method == "newton"
    assert [model.metadata["method_chosen"] for model in models] == [choice.why] * 2
    (tmp_path / "cv").mkdir()
    heard = Heard()
    cross_validate(
        split_problem(tmp_path / "cv", wide()), wide().options(method="auto"), costs=[1e-4, 1e-3],
        n_folds=3, listener=heard,
    )  # fmt: skip
    assert heard.of(MethodChosen)[0].method == "dual"


@pytest.mark.parametrize(("solver", "method"), [(3, "dual"), (13, "dual"), (5, "newton")])
def test_where_there_is_one_solver_it_is_that(solver, method):
    assert TrainOptions(solver=solver, method="auto").method == method


@pytest.mark.parametrize("option", [{"epochs": 2}, {"selection": "permute"}, {"average": True}])
def test_what_is_for_coordinate_descent_is_refused(option):
    with pytest.raises(UsageError, match="method is 'auto', but must be dual"):
        TrainOptions(solver=1, method="auto", **option)


@pytest.mark.parametrize(
    ("solver", "method", "other"),
    [(4, "newton", "dual"), (21, "newton", "dual"), (5, "dual", "newton"), (6, "dual", "newton")],
)
def test_a_method_that_a_solver_has_not_is_refused(solver, method, other):
    with pytest.raises(UsageError, match=f"method is '{method}', but must be {other} for solver"):
        TrainOptions(solver=solver, method=method)


@pytest.mark.parametrize("solver", [0, 2, 11])
def test_a_tolerance_is_of_the_gradient(solver):
    assert TrainOptions(solver=solver).method == "auto"
    assert TrainOptions(solver=solver, tolerance=0.1).method == "newton"


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["-s", "5", "--method", "dual"], "newton for solver 5"),
        (["-s", "auto", "--method", "dual"], "leave one of them out"),
        (["-s", "one"], "is neither a number nor auto"),
    ],
)
def test_what_contradicts_itself_is_refused(tmp_path, capsys, flags, said):
    split_problem(tmp_path, dense())
    for command in (["cv"], ["train"]):
        where = [str(tmp_path / "store")] + [str(tmp_path / "model")] * (command == ["train"])
        try:
            status = main([*command, *where, *flags])
        except SystemExit as ended:
            status = ended.code
        assert status == 2
        assert said in capsys.readouterr().err


def test_the_command_shows_and_logs_it(tmp_path, capsys):
    split_problem(tmp_path, dense(cost=100.0))
    model, log = tmp_path / "model", tmp_path / "log"
    command = ["train", str(tmp_path / "store"), str(model), "-s", "auto", "-c", "100"]
    assert main([*command, "--log", str(log)]) == 0
    assert "Newton's method: with 11 weights" in capsys.readouterr().err
    line = next(json.loads(line) for line in log.read_text().splitlines() if '"method"' in line)
    assert (line["event"], line["method"]) == ("method", "newton")
    assert main([*command, "--method", "pegasos"]) == 2
    assert "leave one of them out" in capsys.readouterr().err
    assert main(["cv", str(tmp_path / "store"), "-s", "7", "--method", "auto", "-c", "100"]) == 0
    assert "Newton's method: " in capsys.readouterr().err
