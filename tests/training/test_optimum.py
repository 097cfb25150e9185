"""Every solver reaches the optimum of LIBLINEAR's own program, whichever way it goes."""

import subprocess
from dataclasses import replace

import numpy as np
import pytest
from liblinear import liblinear_program

from blocklinear.model.linear import LinearModel
from blocklinear.training import train
from training.small import DUAL_SOLVERS, SELECTIONS, as_text, long_problem, split_text

N_BLOCKS = 5
PRIMAL = {1: 2, 3: 3, 7: 0, 12: 11, 13: 13}
"""LIBLINEAR's solver of the same problem: on the primal where there is one, which is exact."""


@pytest.fixture(scope="module", params=DUAL_SOLVERS)
def case(request, tmp_path_factory):
    """A problem, its store, and P of the model that `liblinear-train` makes."""
    solver, folder = request.param, tmp_path_factory.mktemp("optimum")
    problem = replace(long_problem(solver, 80, 12), cost=0.5)
    store = split_text(folder, as_text(problem.X, problem.labels), N_BLOCKS)
    flags = ["-s", PRIMAL[solver], "-c", problem.cost, "-p", problem.epsilon, "-B", problem.bias]
    command = [liblinear_program("liblinear-train"), *map(str, flags), "-e", "1e-9", "-q"]
    subprocess.run([*command, folder / "store.svm", folder / "m"], check=True)
    return problem, store, problem.primal_of(LinearModel.load(folder / "m"))


@pytest.mark.parametrize("group", [1, 2, N_BLOCKS])
@pytest.mark.parametrize("epochs", [1, 3, None])
@pytest.mark.parametrize("selection", SELECTIONS)
def test_the_optimum_is_reached_within_the_certified_gap(case, selection, epochs, group):
    problem, store, optimum = case
    options = problem.options(
        selection=selection, epochs=epochs, group=group, gap=1e-4, max_outer=20_000
    )
    model = train(store, options)
    proof = model.metadata["certificate"]
    assert model.metadata["stopped"] == "converged"
    assert proof["gap"] <= 1e-4
    assert problem.primal_of(model) == pytest.approx(proof["primal"], rel=1e-12)
    assert proof["primal"] - optimum <= proof["gap"] * proof["primal"]
    assert proof["dual"] <= optimum * (1 + 1e-12)
    assert np.isfinite(model.weights).all()


@pytest.mark.parametrize(("solver", "n_classes"), [(3, 2), (3, 3), (4, 3), (13, 0)])
def test_a_huge_row_hides_nothing_of_the_gap(tmp_path, solver, n_classes):
    problem = long_problem(3 if n_classes else 13, 80, 12)
    labels = np.arange(80.0) % n_classes if n_classes else problem.labels
    huge = np.zeros((1, 13))
    huge[0, -1] = 1e60  # a weight of 1e-60 does it, so that the optimum is what it was
    X = np.vstack([np.hstack([problem.X, np.zeros((80, 1))]), huge])
    options = problem.options(solver=solver, gap=1e-6, group=1)
    alone = split_text(tmp_path, as_text(problem.X, labels), N_BLOCKS, "alone")
    optimum = train(alone, options).metadata["certificate"]["primal"]
    store = split_text(tmp_path, as_text(X, np.append(labels, labels[0])), N_BLOCKS)
    for outer in (1, 2, 3):
        model = train(store, replace(options, max_outer=outer, restart=True))
        assert model.metadata["certificate"]["dual"] <= optimum * (1 + 1e-9)
