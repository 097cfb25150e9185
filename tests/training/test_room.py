"""Whatever there is room for, training comes to the optimum: memory decides on the way alone."""

from dataclasses import replace

import numpy as np
import pytest
from effort import EXTENSIVE

from blocklinear.training import loop, train
from blocklinear.training.memory_plan import plan_memory
from training.classes import against_the_rest, several_classes
from training.small import random_problem, split_problem

SOLVERS = (0, 1, 2, 3, 5, 6, 7, 11, 12, 13)
OF_CLASSES = (0, 1, 2, 3, 5, 6, 7)


def with_any_room(monkeypatch, store, rng):
    """Plan room for columns or rows from none to all, and for one more or less than all."""
    n = store.manifest.nnz
    room = max(int(rng.choice([0, 1, n - 1, n, int(rng.integers(n))])), 0)

    def plan(manifest, *args):
        return replace(plan_memory(manifest, *args), working_set_entries=room)

    monkeypatch.setattr(loop, "plan_memory", plan)


@pytest.mark.parametrize("seed", range(400 if EXTENSIVE else 60))
def test_the_optimum_is_reached_with_any_room(tmp_path, monkeypatch, seed):
    rng = np.random.default_rng([seed, 7])
    problem = random_problem(seed, int(rng.choice(SOLVERS)))
    problem = replace(problem, cost=min(problem.cost, 3.0))
    store = split_problem(tmp_path, problem, int(rng.integers(1, 5)))
    with_any_room(monkeypatch, store, rng)
    free = bool(problem.bias > 0.0 and rng.random() < 0.5)
    options = problem.options(gap=1e-4, group=int(rng.integers(1, 4)), regularize_bias=not free)
    model = train(store, options)
    assert model.metadata["stopped"] == "converged"
    if not free:
        assert problem.primal_of(model) <= problem.optimum() * (1.0 + 1e-4) + 1e-12


@pytest.mark.parametrize("seed", range(200 if EXTENSIVE else 30))
def test_every_class_comes_to_its_optimum_with_any_room(tmp_path, monkeypatch, seed):
    rng = np.random.default_rng([seed, 8])
    problem = several_classes(
        int(rng.integers(3, 7)), int(rng.choice(OF_CLASSES)), int(rng.integers(60, 150)),
        int(rng.integers(3, 15)), cost=float(10 ** rng.uniform(-2, 0.5)),
        bias=float(rng.choice([-1.0, 1.0, 3.0])),
    )  # fmt: skip
    n_blocks = int(rng.integers(2, 6))
    store = split_problem(tmp_path, problem, n_blocks)
    with_any_room(monkeypatch, store, rng)
    model = train(store, problem.options(gap=1e-4, group=int(rng.integers(1, n_blocks))))
    assert model.metadata["stopped"] == "converged"
    w = np.zeros(problem.rows.shape[1])  # features that never occur are none of the model
    for k, label in enumerate(model.labels):
        own = against_the_rest(problem, label)
        w[: model.n_features], w[-1] = model.weights[:, k], model.bias_weights[k]
        assert own.primal(w, 1.0) <= own.optimum() * (1.0 + 1e-4) + 1e-12
