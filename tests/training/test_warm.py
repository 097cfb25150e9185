"""Warm starts: the same optimum as from scratch, from whatever an earlier run left."""

import math
import shutil
from dataclasses import replace

import numpy as np
import pytest

from blocklinear.errors import StoppedError, UsageError
from blocklinear.events import OuterIteration, WarmStarted
from blocklinear.ingest.compact import compact
from blocklinear.kernels import dual, losses
from blocklinear.objectives.problems import SOLVERS as SOLVERS_BY_NUMBER
from blocklinear.options import TrainOptions
from blocklinear.solvers import weight_vectors
from blocklinear.solvers.block_descent import BlockDescent
from blocklinear.solvers.working_set import WARM_PASSES
from blocklinear.store.changes import remove
from blocklinear.store.prefetch import GroupLoader
from blocklinear.store.store import BlockStore
from blocklinear.training import loop, memory_plan, train
from blocklinear.training.checkpoint import Checkpoint
from blocklinear.training.garbage import collect_garbage
from blocklinear.training.run import GroupRun
from blocklinear.training.stopping import Stopping
from blocklinear.training.warm_start import _Start
from training.classes import several_classes
from training.small import (
    Heard,
    as_text,
    descent_alone,
    newton_after,
    outcome,
    random_problem,
    split_problem,
    split_text,
)
from training.test_resume import broken_off
from training.warm import DRIFT, check, how, more, rows, trained

SOLVERS = {"hinge": 3, "squared hinge": 1, "logistic": 7, "values": 13, "squared values": 12}
each_solver = pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS)
each_group = pytest.mark.parametrize("group", [2, None], ids=["groups", "resident"])


@pytest.fixture
def store(tmp_path):
    return split_text(tmp_path, rows(1), 4)


@pytest.mark.parametrize("several", [False, True], ids=["two classes", "several"])
@pytest.mark.parametrize("solver", [0, 2, 5, 6])
def test_violations_are_compared_with_those_at_zero(tmp_path, solver, several):
    """With those where a warm start begins, which are all but 0, they would never be small."""
    problem = several_classes(4) if several else random_problem(3, 1)
    problem = replace(problem, solver=solver)
    store = split_problem(tmp_path, problem, 3)
    options = problem.options(gap=None, tolerance=1e-5, method="newton", max_outer=100)
    cold = train(store, options)
    assert cold.metadata["stopped"] == "converged"
    for _ in range(2):
        warm = train(store, replace(options, warm_start=True))
        assert (warm.metadata["stopped"], warm.metadata["outer_iterations"]) == ("converged", 1)
    other = train(store, replace(options, warm_start=True, cost=2.0 * problem.cost, max_outer=1))
    assert other.metadata["stopped"] == "1 outer iteration"  # of another problem


@each_group
@each_solver
def test_rows_added_and_removed(tmp_path, monkeypatch, solver, group):
    descent_alone(monkeypatch)  # Newton's method keeps no sum
    values = solver in (12, 13)
    store = split_text(tmp_path, rows(1, 80, 6, values=values), 6)
    options = how(solver, group=group, bias=1.0)
    train(store, options)
    more(store, rows(2, 20, 6, values=values), "more", 1)
    found = check(store, options)
    assert (found.started.rows_kept, found.started.rows_new) == (80, 20)
    assert (found.started.rows_gone, found.started.how) == (0, "kept")
    gone = remove(store, blocks=[0])
    found = check(store, options)
    assert found.started.rows_kept == gone.manifest.n_rows
    assert found.started.rows_gone == 100 - gone.manifest.n_rows
    assert found.started.how == ("recomputed" if group is None else "changed")
    assert found.started.blocks_read == (0 if group is None else 1)


def test_what_w_is_recomputed_from_is_reported_as_read(store):
    options = how(3, group=None, gap=1e-12, max_outer=3, method="dual")
    train(store, options)
    collect_garbage(remove(store, blocks=[0]))
    heard, store = Heard(), BlockStore.open(store.folder)
    train(store, replace(options, warm_start=True), heard)
    read = [event.bytes_read for event in heard.of(OuterIteration)]
    assert read == [sum(block.bytes for block in store.manifest.blocks), 0, 0]


def test_the_larger_part_removed_is_recomputed(store):
    train(store, how())
    more(store, rows(2, 30), "more", 4)
    train(store, how(warm_start=True))
    remove(store, ["b1"])
    found = check(store, how())
    assert (found.started.how, found.started.blocks_read) == ("recomputed", 4)


@pytest.mark.parametrize("pinned", [True, False], ids=["roomy", "tight"])
def test_a_removed_block_is_only_read_where_memory_was_planned_for_it(
    tmp_path, monkeypatch, pinned
):
    """It is three times as large as all others; out of 119 MiB one such took 134."""
    descent_alone(monkeypatch)
    store = split_text(tmp_path, rows(1, 80), 8)
    more(store, rows(2, 30), "large", 1)
    train(store, how(group=1))
    remove(store, ["large"])
    plan = memory_plan.plan_memory

    def planned(*given):
        found = plan(*given)
        return found if pinned else replace(found, pin_bytes=0)

    monkeypatch.setattr(loop, "plan_memory", planned)
    assert check(store, how(group=1)).started.how == ("changed" if pinned else "recomputed")


@each_group
@pytest.mark.parametrize("cost", [0.01, 0.3, 20.0])
@each_solver
def test_another_cost(tmp_path, monkeypatch, solver, cost, group):
    descent_alone(monkeypatch)
    store = split_text(tmp_path, rows(1, values=solver in (12, 13)), 4)
    train(store, how(solver, group=group))
    found = check(store, how(solver, group=group, cost=cost, gap=1e-5))
    clipped = cost < 1 and solver in (3, 7, 13)
    assert found.started.how == ("recomputed" if clipped else "kept")


def test_other_weights_of_classes(tmp_path):
    store = split_text(tmp_path, rows(1, 400), 40)
    train(store, how(3, cost=0.05, class_weights=((1.0, 2.0),)))
    found = check(store, how(3, cost=0.05, class_weights=((-1.0, 2.0),), gap=1e-5))
    assert found.started.how == "recomputed"
    found = check(store, how(3, cost=0.05, class_weights=((-1.0, 4.0), (1.0, 2.0)), gap=1e-5))
    assert found.started.how == "kept"


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 1), (1, 7), (7, 3), (12, 13), (13, 12)])
def test_another_loss(tmp_path, before, after):
    store = split_text(tmp_path, rows(1, values=before > 7), 4)
    train(store, how(before))
    assert check(store, how(after, gap=1e-5)).started is not None


@pytest.mark.parametrize("bias", [-1.0, 2.5])
def test_another_bias_is_recomputed(store, bias):
    train(store, how(bias=1.0))
    assert check(store, how(bias=bias)).started.how == "recomputed"


@pytest.mark.parametrize(("before", "after"), [(1, 12), (12, 1), (3, 4), (4, 3)])
def test_alpha_of_another_kind_is_not_taken(tmp_path, before, after):
    store = split_text(tmp_path, rows(1), 4)
    train(store, how(before, gap=0.01))
    found = check(store, how(after, gap=1e-4))
    assert found.started is None
    assert "another kind" in found.warnings[0]


def test_nothing_to_start_from(store):
    found = check(store, how(gap=0.01))
    assert found.started is None
    assert found.warnings == ["run 'default' has no checkpoint: training starts from the beginning"]


@pytest.mark.parametrize("solver", [1, 4])
def test_a_damaged_checkpoint_is_not_started_from(store, solver):
    train(store, how(solver, gap=0.01))
    path = store.folder / "runs" / "default" / "checkpoint.json"
    path.write_bytes(path.read_bytes().replace(b'"outer"', b'"inner"'))
    found = check(store, how(solver, gap=0.01))
    assert (found.started, "damaged" in found.warnings[0]) == (None, True)


def test_damaged_alpha_is_not_started_from(tmp_path):
    store = split_text(tmp_path, rows(1, 200), 4)
    train(store, how(gap=0.01))
    (path,) = (store.folder / "runs" / "default").glob("alpha-0.*")
    raw = bytearray(path.read_bytes())
    raw[5] ^= 1
    path.write_bytes(raw)
    found = check(store, how(gap=0.01))
    assert (found.started, "damaged" in found.warnings[0]) == (None, True)


@pytest.mark.parametrize("solver", [1, 3, 4])
def test_rows_that_were_merged_and_collected(tmp_path, solver):
    store = split_text(tmp_path, rows(1, 120), 12)
    more(store, rows(2, 30), "b", 3)
    train(store, how(solver, gap=1e-5))
    compact(store, 1500)
    assert check(store, how(solver, gap=1e-5)).started.rows_kept == 150
    compact(store, 3000)
    assert len(BlockStore.open(store.folder).manifest.blocks) > 3
    remove(store, ["b"])
    found = check(store, how(solver, gap=1e-5))
    assert (found.started.rows_kept, found.started.rows_gone) == (120, 30)
    assert found.started.how == "changed"
    more(store, rows(3, 30), "c", 3)
    train(store, how(solver, gap=1e-5, warm_start=True))
    remove(store, ["c"])
    compact(store, 20_000)
    collect_garbage(store)
    found = check(store, how(solver, gap=1e-5))
    assert (found.started.rows_kept, found.started.how) == (120, "recomputed")


def test_what_newton_steps_left(store, monkeypatch):
    newton_after(monkeypatch, 1)
    train(store, how(gap=1e-9))
    assert check(store, how(gap=1e-9)).started.how == "recomputed"


@pytest.mark.parametrize("solver", [1, 3, 7])
def test_descent_lasts_no_longer_than_in_a_run_that_went_over(store, monkeypatch, solver):
    """It took 504 outer iterations, where the run before had gone over after 32."""
    with monkeypatch.context() as early:
        newton_after(early, 2)
        train(store, how(solver, gap=1e-5, group=None))
    monkeypatch.setattr(Stopping, "too_many", lambda *numbers: False)
    options = how(solver, gap=1e-11, group=None, cost=3.0, warm_start=True, max_outer=8)
    for loss, descended in ((solver, [1, 2]), ({1: 3, 3: 1, 7: 3}[solver], list(range(1, 9)))):
        copy = BlockStore.open(shutil.copytree(store.folder, store.folder.parent / str(loss)))
        heard = Heard()
        whole = outcome(copy, replace(options, solver=loss), listener=heard)
        assert [e.outer for e in heard.of(OuterIteration) if e.steps > 0] == descended
        again = BlockStore.open(shutil.copytree(store.folder, store.folder.parent / f"{loss}-2"))
        found, n_breaks = broken_off(again, replace(options, solver=loss), 1)
        assert n_breaks > 2
        assert found == whole


@pytest.mark.parametrize("cost", [0.1, 1.0])
@pytest.mark.parametrize("solver", [1, 3, 7])
def test_a_warm_start_is_no_worse_than_w_0(tmp_path, monkeypatch, solver, cost):
    """Features of all scales: D was far below that of alpha = 0."""
    descent_alone(monkeypatch)
    rng = np.random.default_rng(3)
    X = rng.normal(size=(400, 8)) * np.logspace(0, 3, 8)
    labels = np.sign(X @ (rng.normal(size=8) / np.logspace(0, 3, 8)) + rng.normal(size=400))
    store = split_text(tmp_path, as_text(X[:360], labels[:360]), 4)
    store = more(store, as_text(X[360:], labels[360:]), "more", 1)
    train(store, how(solver, gap=1e-2))
    store, carry, started = remove(store, ["more"]), _Start.carry, list[float]()

    def carry_on(self):
        (part,) = self._parts
        kind = SOLVERS_BY_NUMBER[solver].kind
        terms = (losses.dual_term(kind, 0.0, 1.0, cost, a) for a in part.alpha.ravel().tolist())
        started.append(sum(terms) - 0.5 * float((part.W**2).sum()))
        carry(self)

    monkeypatch.setattr(_Start, "carry", carry_on)
    train(store, how(solver, gap=1e-2, cost=cost, warm_start=True, max_outer=1))
    assert started[0] >= 0.0


@pytest.mark.parametrize("cost", [0.01, 20.0])
@each_solver
def test_another_cost_than_newton_steps_left(tmp_path, monkeypatch, solver, cost):
    store = split_text(tmp_path, rows(1, values=solver in (12, 13)), 4)
    with monkeypatch.context() as early:
        newton_after(early, 2)
        train(store, how(solver, group=None))
    found = check(store, how(solver, group=None, cost=cost, gap=1e-5))
    assert found.started.how == "recomputed"  # its w is no sum


def test_a_sample_of_blocks(tmp_path):
    store = split_text(tmp_path, rows(1, 100), 10)
    train(store, how(sample_blocks=6))
    kept = sum(n for _, n in Checkpoint(store.folder / "runs" / "default").facts["blocks"])
    found = check(store, how())
    assert (found.started.rows_kept, found.started.rows_new) == (kept, 100 - kept)
    train(store, how())
    found = trained(store, how(sample_blocks=5, warm_start=True))
    assert found.started.rows_kept < 100
    assert found.model.metadata["certificate"]["drift"] <= DRIFT


@pytest.mark.parametrize("group", [2, None])
@pytest.mark.parametrize("solver", [1, 3, 4, 13])
def test_a_warm_run_broken_off_and_resumed_ends_with_the_same_bits(tmp_path, solver, group):
    values, classes = solver == 13, (1.0, 2.0, 3.0) if solver in (1, 4) else (1.0, -1.0)
    stores = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        store = split_text(tmp_path / name, rows(1, 100, 30, classes, values), 6)
        train(store, how(solver, group=group, gap=1e-4))
        more(store, rows(2, 40, 30, classes, values), "more", 2)
        stores.append(remove(store, blocks=[1]))
    options = how(solver, group=group, gap=1e-9, max_outer=4, warm_start=True)
    unbroken, _ = outcome(stores[0], options)
    (found, _), n_breaks = broken_off(stores[1], options, 1)
    assert n_breaks > 0
    assert found == unbroken


@pytest.mark.parametrize("classes", [(1.0, -1.0), (1.0, 2.0, 3.0)])
@pytest.mark.parametrize("solver", [1, 3])
def test_a_first_outer_iteration_that_ends_early_is_resumed_with_the_same_bits(
    tmp_path, monkeypatch, solver, classes
):
    monkeypatch.setattr(weight_vectors, "PAUSE", 0)
    (tmp_path / "a").mkdir()
    store = split_text(tmp_path / "a", rows(1, 150, 12, classes), 10)
    train(store, how(solver, group=1))
    store = more(store, rows(2, 15, 12, classes), "more", 1)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    stores, early = [store, BlockStore.open(tmp_path / "b" / store.folder.name)], []
    for gap in (0.6, 0.3, 0.1, 0.03):
        options = how(solver, group=1, gap=gap, warm_start=True, run=f"warm{gap}")
        for store in stores:
            shutil.copytree(store.folder / "runs/default", store.folder / "runs" / options.run)
        unbroken, _ = outcome(stores[0], options)
        (found, _), n_breaks = broken_off(stores[1], options, 1)
        assert n_breaks > 0
        assert found == unbroken
        facts = Checkpoint(stores[0].folder / "runs" / options.run).facts
        early.append(facts["outer"] == 1 and facts["early"])
    assert any(early)


def test_the_first_outer_iteration_out_of_core_ends_early_only_after_a_warm_start(
    tmp_path, monkeypatch
):
    """In a cold run rows that add nothing tell nothing: alpha of the others are still 0."""
    monkeypatch.setattr(weight_vectors, "PAUSE", 0)
    labels = np.where(np.arange(64) % 2 == 0, 1.0, -1.0)
    X = np.linspace(3.0, 4.0, 64).round(3) * labels
    X[-2:] = 0.5 * labels[-2:]
    store = split_text(tmp_path, as_text(X[:, None], labels), 8)
    worked_on = {}
    for warm in (False, True):
        heard = Heard()
        model = train(store, how(3, group=1, cost=100.0, gap=1e-6, warm_start=warm), heard)
        first, last = heard.of(OuterIteration)[0], heard.of(OuterIteration)[-1]
        worked_on[warm] = first.entries - first.pass_entries
        assert model.metadata["certificate"]["gap"] <= 1e-6
        alpha = Checkpoint(store.folder / "runs" / "default").mapped(
            "alpha-0", np.dtype(np.float64)
        )
        assert last.n_sv == np.count_nonzero(alpha)
    assert worked_on[False] == 64
    assert worked_on[True] < 64


@pytest.mark.parametrize("given_up", [True, False])
@pytest.mark.parametrize("solver", [3, 4])
def test_rows_that_had_no_turn_are_counted_when_they_are_seen(
    tmp_path, monkeypatch, solver, given_up
):
    """What an outer iteration that ends early says of the dual is an estimate, the next exact."""
    store = split_text(tmp_path, rows(1, 150, 12), 6)
    train(store, how(solver, group=2))
    store = more(store, rows(2, 30, 12), "more", 2)
    wrong, counted, report, certify = [], [], GroupRun.report, BlockDescent.certify

    def noting(self):
        found, seen = report(self)
        (vectors,) = self.solver.vectors
        terms = np.zeros_like(vectors.terms)
        for loaded in self.loader.stream(self.block_groups(self.outer)):
            terms += vectors.dual_terms(loaded.group.rows, vectors.lines(loaded.group))
        exact = terms[:, dual.DUAL].sum() - 0.5 * (vectors.W**2).sum()
        n_sv = int(terms[:, dual.N_SUPPORT].sum())
        wrong.append((abs(found.dual / exact - 1.0), abs(found.n_sv - n_sv)))
        return found, seen

    def failing(self, stream, enough=None):
        found = certify(self, stream, 0.0 if given_up and enough else None)
        counted.append(self.counted.mean())
        return 1.0 if enough else found

    monkeypatch.setattr(GroupRun, "report", noting)
    monkeypatch.setattr(BlockDescent, "certify", failing)
    monkeypatch.setattr(BlockDescent, "reached", property(lambda self: not self.counted.all()))
    monkeypatch.setattr(Stopping, "wants_certificate", lambda self, report, seen: report.outer < 2)
    train(store, how(solver, group=2, gap=1e-12, max_outer=4, warm_start=True))
    (first, n_first), *others = wrong
    assert 0.0 < first < 0.2
    assert n_first < 20
    assert all(found < 1e-12 and not n for found, n in others)
    assert (counted[0] < 1.0) == given_up


def test_blocks_with_new_rows_are_noted_for_the_first_outer_iteration(tmp_path):
    store = split_text(tmp_path, rows(1, 100, 30), 6)
    train(store, how(3, group=2, max_outer=1))
    facts = Checkpoint(store.folder / "runs" / "default").facts
    assert (facts["first"], facts["started_warm"]) == ([0, []], False)
    store = more(store, rows(2, 40, 30), "more", 2)
    train(store, how(3, group=2, max_outer=1, warm_start=True))
    facts = Checkpoint(store.folder / "runs" / "default").facts
    number, blocks = facts["first"]
    assert (number, facts["started_warm"]) == (1, True)
    assert len(set(blocks)) == 4
    assert {blocks[0], blocks[2]} == {6, 7}  # by turns with others
    train(store, how(3, group=2, max_outer=1, warm_start=True))
    assert Checkpoint(store.folder / "runs" / "default").facts["first"] == [1, []]


def test_the_first_outer_iterations_after_a_warm_start_have_one_order(tmp_path, monkeypatch):
    """What had its turn first, as new rows have, knows the least of the others."""
    descent_alone(monkeypatch)
    orders, stream = [], GroupLoader.stream

    def noting(self, groups, following=None):
        orders.append([*groups])
        return stream(self, groups, following)

    monkeypatch.setattr(GroupLoader, "stream", noting)
    store = split_text(tmp_path, rows(1, 200, 30), 8)
    train(store, how(3, group=2))
    store = more(store, rows(2, 40, 30), "more", 2)
    orders.clear()
    train(store, how(3, group=2, gap=1e-12, max_outer=4, warm_start=True))
    first, second, third, fourth = (order for order in orders[:8] if len(order) == 5)
    assert first == second
    assert all(block in {8, 9} for block, other in first[:2])  # by turns with others
    assert not any(other in {8, 9} for block, other in first[:2])
    assert len({tuple(order) for order in (second, third, fourth)}) == 3


@pytest.mark.parametrize("group", [None, 2])
def test_near_the_optimum_there_are_more_passes(tmp_path, monkeypatch, group):
    """Out of core twice as many, and again in the second outer iteration: loading is dear.

    Or the geometric mean of that number and what the run before ended with, if that is more.
    """
    begun, begin, least = [], BlockDescent.begin, WARM_PASSES * (1 if group is None else 2)

    def noting(self, goal, learns=True):
        begin(self, goal, learns)
        begun.append(int(self.passes[0]))

    monkeypatch.setattr(BlockDescent, "begin", noting)
    store = split_text(tmp_path, rows(1, 300, 30), 6)
    for gap in (0.9, 1e-3, 1e-3):
        passes = int(math.sqrt(least * max(begun[-1], least))) if begun else 1
        begun.clear()
        train(store, how(3, group=group, gap=gap, warm_start=True))
        assert begun[0] == passes
    assert begun[0] > least
    passes = int(math.sqrt(least * max(begun[-1], least)))
    store = more(store, rows(2, 40, 30), "more", 2)
    begun.clear()
    train(store, how(3, group=group, gap=1e-12, max_outer=2, warm_start=True))
    assert begun[0] == passes
    assert begun[1] <= passes if group is None else begun[1] == 2 * passes


@pytest.mark.parametrize(("solver", "cost"), [(1, 0.1), (7, 1.0)])
def test_new_rows_in_memory_are_passed_over_from_the_first_on(tmp_path, solver, cost):
    """They waited for their turn among all others: the first blocks of a store did more."""
    rng, gaps = np.random.default_rng(5), []
    X = 0.5 * (rng.random((1100, 200)) < 0.05)
    value = X @ rng.normal(size=200) + 0.3 * rng.normal(size=1100)
    labels = np.where(value > 0.0, 1.0, -1.0)
    for group in (None, 4):
        folder, heard = tmp_path / str(group), Heard()
        folder.mkdir()
        store = split_text(folder, as_text(X[:1000], labels[:1000]), 16)
        train(store, how(solver, group=group, gap=1e-3, cost=cost))
        store = more(store, as_text(X[1000:], labels[1000:]), "more")
        again = how(solver, group=group, gap=1e-9, cost=cost, warm_start=True, max_outer=1)
        train(store, again, heard)
        gaps.append(heard.of(OuterIteration)[-1].gap)
    assert gaps[0] < 0.1 * gaps[1]


@pytest.mark.parametrize("cost", [0.1, 1.0])
def test_a_warm_start_in_memory_ends_as_soon_as_the_goal_is_reached(tmp_path, cost):
    """Its first outer iteration went on to a gap of 7e-8, with 1.4 times the work of a cold run."""
    rng, entries = np.random.default_rng(5), []
    X = 0.5 * (rng.random((8800, 400)) < 0.05)
    value = X @ rng.normal(size=400) + 0.3 * rng.normal(size=8800)
    labels = np.where(value > 0.0, 1.0, -1.0)
    store = split_text(tmp_path, as_text(X[:8000], labels[:8000]), 4)
    options = how(7, group=None, gap=1e-2, cost=cost)
    train(store, options)
    store = more(store, as_text(X[8000:], labels[8000:]), "more")
    for own in ({"warm_start": True}, {"run": "cold"}):
        heard = Heard()
        model = train(store, replace(options, **own), heard)
        assert model.metadata["certificate"]["gap"] <= 1e-2
        entries.append(sum(event.entries for event in heard.of(OuterIteration)))
    assert entries[0] < 0.7 * entries[1]


def test_stopped_before_anything_was_saved_the_old_checkpoint_is_left(tmp_path):
    store = split_text(tmp_path, rows(1, 100, 30), 6)
    train(store, how(3, cost=5.0))
    with pytest.raises(StoppedError, match="before there was anything to save"):
        train(store, how(3, cost=0.01, warm_start=True), halt=lambda: True)
    assert not list((store.folder / "runs" / "default").glob("*.work"))
    facts = Checkpoint(store.folder / "runs" / "default").facts
    assert facts["course"]["cost"] == 5.0
    assert check(store, how(3, cost=0.01)).started.rows_kept == 100


def test_not_with_resume_and_not_with_average():
    for other in ("resume", "average"):
        with pytest.raises(UsageError, match=other):
            TrainOptions(warm_start=True, **{other: True})


def test_the_message():
    facts = {"rows_kept": 5, "rows_new": 2, "rows_gone": 1, "bytes_read": 7}
    said = [
        WarmStarted(**facts, how=how, blocks_read=n).message
        for how, n in (("kept", 0), ("changed", 3), ("recomputed", 4), ("recomputed", 0))
    ]
    assert said == [
        "warm start: alpha of 5 rows kept, 2 rows new, 1 gone; " + way
        for way in (
            "w as it was",
            "w by Eq. (16) over 3 changed blocks",
            "w recomputed in one pass over 4 blocks",
            "w recomputed from the blocks in memory",
        )
    ]


@pytest.mark.parametrize("solver", [1, 3, 7])
def test_warm_starts_take_fewer_outer_iterations_than_cold_ones(tmp_path, solver):
    warm, cold = Heard(), Heard()
    options = how(solver, gap=1e-3)
    for seed in range(0, 60, 10):  # one alone may be lucky
        folder = tmp_path / str(seed)
        folder.mkdir()
        store = split_text(folder, rows(seed, 2000, 30), 12)
        train(store, options)
        more(store, rows(seed + 1, 200, 30), "more", 2)
        train(store, replace(options, warm_start=True), warm)
        assert warm.of(OuterIteration)[-1].certified
        train(store, replace(options, run="cold"), cold)
    fewest = 6 if solver == 7 else 1
    assert len(warm.of(OuterIteration)) + fewest <= len(cold.of(OuterIteration))
