"""What a certificate in vain teaches."""

from dataclasses import replace
from itertools import chain

import numpy as np
import pytest

from blocklinear.errors import StoppedError
from blocklinear.events import BlockStep, OuterIteration
from blocklinear.solvers.block_descent import BlockDescent
from blocklinear.solvers.weight_vectors import WeightVectors
from blocklinear.store.prefetch import GroupLoader
from blocklinear.training import train
from blocklinear.training.stopping import Stopping
from training.small import (
    Heard,
    Problem,
    descent_alone,
    outcome,
    random_problem,
    split_problem,
)

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


@pytest.mark.parametrize(
    ("heavy", "light"),
    [
        ([], []), ([], [0, 3]), ([], range(N_BLOCKS)), (range(N_BLOCKS), []), ([2], [0, 1, 4, 5]),
        ([0, 1, 2, 4], [3]),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("group", [1, 2])
def test_blocks_that_may_be_the_reason_come_first_and_have_their_turn(
    tmp_path, monkeypatch, steps, heavy, light, group
):
    """The next outer iteration ended early again, and did not come to them.

    Blocks that the certificate did not come to may be the reason if they had no turn.
    """

    def certify(self, stream, enough=None):
        self.heavy = dict.fromkeys(heavy, True) | dict.fromkeys(light, False)
        return 2.0 if enough is not None else real(self, stream, enough)

    real = BlockDescent.certify
    monkeypatch.setattr(BlockDescent, "certify", certify)
    monkeypatch.setattr(BlockDescent, "reached", True)
    monkeypatch.setattr(Stopping, "wants_certificate", lambda *_: True)
    problem = random_problem(3, solver=3)
    store = split_problem(tmp_path, problem, N_BLOCKS)
    train(store, problem.options(group=group, max_outer=3, gap=1e-9, method="dual"))
    assert len(steps[1]) == 1
    done = list(chain.from_iterable(steps[1]))
    for outer in (2, 3):
        had_turn = set(done) if len(done) < N_BLOCKS else set()
        wanted = set(range(N_BLOCKS)) - set(light) - (had_turn - set(heavy))
        assert len(steps[outer]) == max(-(-len(wanted) // group), 1)
        done = list(chain.from_iterable(steps[outer]))
        assert set(done[: len(wanted)]) == wanted


def test_what_a_certificate_sees_of_blocks(tmp_path, monkeypatch):
    """Heavy are those that add more than their share, by rows, of what was asked for."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(90, 6)).round(2)
    labels = np.where(X @ rng.normal(size=6) + rng.normal(size=90) > 0.0, 1.0, -1.0)
    problem = Problem(X, labels, 3, cost=1.0, bias=1.0)
    store, certify, found = split_problem(tmp_path, problem, N_BLOCKS), BlockDescent.certify, []
    order = [(b,) for b in (4, 2, 0, 5, 3, 1)]

    def compare(self, stream, enough=None):
        if enough is None:
            return certify(self, stream)
        (vectors,), gaps = self.vectors, [0.0]
        with GroupLoader(store, 1, 1) as loader:
            proof = vectors.proof()
            for loaded in loader.stream(order):
                vectors.certify_group(loaded.group, proof)
                gaps += vectors.relative_gaps(vectors.duals, proof.least()).tolist()
            for enough in np.linspace(0.2, 2.0, 19) * gaps[-1]:
                wanted = {}
                for (block,), before, after in zip(order, gaps[:-1], gaps[1:], strict=True):
                    if before <= enough:
                        share = enough * store.manifest.blocks[block].rows / len(X)
                        wanted[block] = after - before > share
                assert isinstance(certify(self, loader.stream(order), enough), float) == (
                    gaps[-1] > enough
                )
                assert self.heavy == wanted
                found.append(len(wanted) - sum(wanted.values()))
        return certify(self, stream)

    monkeypatch.setattr(BlockDescent, "certify", compare)
    monkeypatch.setattr(WeightVectors, "averaged", False)
    monkeypatch.setattr(Stopping, "wants_certificate", lambda *_: True)
    train(store, problem.options(group=1, max_outer=3, gap=1e-12, method="dual"))
    assert min(found) < 2 < 4 < max(found)


def test_a_resumed_run_knows_which_blocks_come_first(tmp_path, monkeypatch):
    descent_alone(monkeypatch)
    rng = np.random.default_rng(8)
    X = rng.normal(size=(600, 20)).round(2) * (rng.random((600, 20)) < 0.3)
    labels = np.where(X @ rng.normal(size=20) + 2.0 * rng.normal(size=600) > 0.0, 1.0, -1.0)
    problem = Problem(X, labels, 3, cost=1.0, bias=1.0)
    store, heard = split_problem(tmp_path, problem, 150, order="file"), Heard()
    options = problem.options(gap=1e-3, group=1, method="dual")
    wants, certify = Stopping.wants_certificate, BlockDescent.certify

    def in_part(self, stream, enough=None):
        found = certify(self, stream, enough)
        self.heavy = dict.fromkeys(range(0, 150, 2), False)
        return found

    def second_too(self, report, seen):
        return report.outer == 2 or wants(self, report, seen)

    monkeypatch.setattr(BlockDescent, "certify", in_part)
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
