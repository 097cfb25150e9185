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
