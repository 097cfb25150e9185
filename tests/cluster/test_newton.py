"""Newton's method on workers: the passes of one machine, whatever the number of parts."""

import numpy as np
import pytest
from training.small import MEMORY_BYTES, Heard, long_problem, random_problem, split_problem

import blocklinear
from blocklinear.events import GoesOver, MethodChosen, OuterIteration


def trained(store, client, parts, problem, listener=None, **options):
    listener = Heard() if listener is None else listener
    chosen = problem.options(**({"gap": 1e-6, "restart": True, "method": "newton"} | options))
    return blocklinear.train(store, chosen, listener, client=client, parts=parts)


@pytest.mark.parametrize("parts", [1, 2, 4])
@pytest.mark.parametrize("solver", [0, 2, 3, 7, 11, 12, 13, 1])
def test_it_takes_the_passes_of_one_machine(two, tmp_path, solver, parts):
    problem = long_problem(solver, 200, 20)
    store = split_problem(tmp_path, problem, 8)
    here = trained(store, None, None, problem)
    there = trained(store, two, parts, problem)
    np.testing.assert_allclose(there.weights, here.weights, rtol=1e-6, atol=1e-9)
    print(here.metadata["outer_iterations"], there.metadata["outer_iterations"], there.metadata["certificate"])
