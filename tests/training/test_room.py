"""Whatever there is room for, training comes to the optimum: memory decides on the way alone."""

from dataclasses import replace

import numpy as np
import pytest
from effort import EXTENSIVE

from blocklinear.training import loop, train
from blocklinear.training.memory_plan import plan_memory
from training.small import random_problem, split_problem

SOLVERS = (0, 1, 2, 3, 5, 6, 7, 11, 12, 13)


@pytest.mark.parametrize("seed", range(400 if EXTENSIVE else 60))
def test_the_optimum_is_reached_with_any_room(tmp_path, monkeypatch, seed):
    """Of columns or rows that are kept, from none to all, and one more or less than all."""
    rng = np.random.default_rng([seed, 7])
    problem = random_problem(seed, int(rng.choice(SOLVERS)))
    problem = replace(problem, cost=min(problem.cost, 3.0))
    store = split_problem(tmp_path, problem, int(rng.integers(1, 5)))
    rooms = [
        0,
        1,
        store.manifest.nnz - 1,
        store.manifest.nnz,
        int(rng.integers(store.manifest.nnz)),
    ]
    room = max(int(rng.choice(rooms)), 0)

    def plan(manifest, *args):
        return replace(plan_memory(manifest, *args), working_set_entries=room)

    monkeypatch.setattr(loop, "plan_memory", plan)
    free = bool(problem.bias > 0.0 and rng.random() < 0.5)
    options = problem.options(gap=1e-4, group=int(rng.integers(1, 4)), regularize_bias=not free)
    model = train(store, options)
    assert model.metadata["stopped"] == "converged"
    if not free:
        assert problem.primal_of(model) <= problem.optimum() * (1.0 + 1e-4) + 1e-12
