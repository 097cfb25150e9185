"""What a certificate in vain teaches."""

from dataclasses import replace
from itertools import chain

import numpy as np
import pytest

from blocklinear.errors import StoppedError
from blocklinear.events import BlockStep, OuterIteration
from blocklinear.solvers.block_descent import BlockDescent
from blocklinear.training import train
from blocklinear.training.stopping import Stopping
from training.small import Heard, Problem, outcome, random_problem, split_problem

N_BLOCKS = 6


@pytest.fixture
def steps(monkeypatch):
    """Return the groups of each outer iteration, as they had their turn."""
    found, step = {}, BlockDescent.step

    def noting(self, group, outer, *rest):
        found.setdefault(outer, []).append(group.blocks)
        step(self, group, outer, *rest)

    monkeypatch.setattr(BlockDescent, "step", noting)
    return found


@pytest.mark.parametrize("group", [1, 2])
def test_all_blocks_have_their_turn_after_a_certificate_in_vain(
    tmp_path, monkeypatch, steps, group
):
    """Else the next outer iteration may end early again, before those that are the reason."""

    def certify(self, stream, enough=None):
        return 2.0 if enough is not None else real(self, stream, enough)

    real = BlockDescent.certify
    monkeypatch.setattr(BlockDescent, "certify", certify)
    monkeypatch.setattr(BlockDescent, "reached", True)
    monkeypatch.setattr(Stopping, "wants_certificate", lambda _, report, seen: report.outer != 3)
    problem = random_problem(3, solver=3)
    store = split_problem(tmp_path, problem, N_BLOCKS)
    train(store, problem.options(group=group, max_outer=5, gap=1e-9, method="dual"))
    whole = N_BLOCKS // group
    assert [len(steps[outer]) for outer in range(1, 6)] == [1, whole, whole, 1, whole]
    assert set(chain.from_iterable(steps[2])) == set(range(N_BLOCKS))


def test_a_resumed_run_knows_that_all_blocks_have_their_turn(tmp_path, monkeypatch):
    rng = np.random.default_rng(8)
    X = rng.normal(size=(600, 20)).round(2) * (rng.random((600, 20)) < 0.3)
    labels = np.where(X @ rng.normal(size=20) + 2.0 * rng.normal(size=600) > 0.0, 1.0, -1.0)
    problem = Problem(X, labels, 3, cost=1.0, bias=1.0)
    store, heard = split_problem(tmp_path, problem, 150, order="file"), Heard()
    options = problem.options(gap=1e-3, group=1, method="dual")
    wants = Stopping.wants_certificate

    def second_too(self, report, seen):
        return report.outer == 2 or wants(self, report, seen)

    monkeypatch.setattr(Stopping, "wants_certificate", second_too)
    whole, steps = outcome(store, options, listener=heard), heard.of(BlockStep)
    assert next(event.outer for event in heard.of(OuterIteration) if event.certificates) == 2
    second = sum(step.outer <= 2 for step in steps)
    for stop in (second - 1, second, second + 1, second + 30, len(steps) - 1):
        some, left, seen = replace(options, run=f"stopped{stop}"), [stop], {}

        def listen(event, left=left):
            left[0] -= isinstance(event, BlockStep)

        with pytest.raises(StoppedError):
            outcome(store, some, lambda left=left: left[0] < 0, listen, seen)
        assert outcome(store, replace(some, resume=True), heard=seen) == whole
