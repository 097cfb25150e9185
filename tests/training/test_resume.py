"""A run that was broken off and resumed ends with the bits of one that was not."""

from dataclasses import replace
from itertools import chain, count

import numpy as np
import pytest
from effort import EXTENSIVE

from blocklinear.errors import DamagedError, MismatchError, StoppedError
from blocklinear.events import BlockStep, OuterIteration, Warned
from blocklinear.ingest.add import add
from blocklinear.options import AddOptions, TextOptions, TrainOptions
from blocklinear.solvers import weight_vectors
from blocklinear.solvers.block_descent import BlockDescent
from blocklinear.solvers.protocol import Abandoned
from blocklinear.solvers.weight_vectors import WeightVectors
from blocklinear.solvers.working_set import WorkingSet
from blocklinear.store.prefetch import GroupLoader
from blocklinear.store.store import BlockStore
from blocklinear.training import loop, run, train
from blocklinear.training.memory_plan import plan_memory
from blocklinear.training.permutations import block_groups
from blocklinear.training.stopping import Stopping
from training.small import (
    DUAL_SOLVERS,
    SELECTIONS,
    Heard,
    Problem,
    as_text,
    descent_alone,
    long_problem,
    newton_after,
    outcome,
    split_problem,
)

N_BLOCKS = 5


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """Stores of classes and of values."""
    return {
        regression: split_problem(
            tmp_path_factory.mktemp("resume"), long_problem(13 if regression else 3), N_BLOCKS
        )
        for regression in (False, True)
    }


@pytest.fixture(scope="module")
def store(stores):
    return stores[False]


@pytest.fixture(scope="module")
def held_out(tmp_path_factory):
    problem = long_problem()
    path = tmp_path_factory.mktemp("held_out") / "rows.svm"
    path.write_text(as_text(problem.X[:70] + 0.5, problem.labels[:70]))
    return str(path)


class Breaks:
    """Asks to stop after every `every` visits, or Newton steps, that were not made before."""

    def __init__(self, every):
        self._every, self._seen, self._made = every, set(), 0

    def listen(self, event):
        if isinstance(event, BlockStep):
            key = (event.outer, event.done)
        elif isinstance(event, OuterIteration) and event.steps == 0:
            key = event.outer
        else:
            return
        self._made += key not in self._seen
        self._seen.add(key)

    def halt(self):
        return self._made >= self._every

    def go_on(self):
        self._made = 0


def broken_off(store, options, every):
    """Stop and resume a run until it ends; return its outcome, and how often it was stopped."""
    breaks, heard, folder = Breaks(every), {}, store.folder / "runs" / options.run
    for n_breaks in count():
        try:
            found, seen = outcome(store, options, breaks.halt, breaks.listen, heard)
        except StoppedError:
            assert not list(folder.glob("*.work"))
            breaks.go_on()
            options = replace(options, resume=True, warm_start=False)
        else:
            return (found, seen), n_breaks


def check(store, options):
    unbroken = outcome(store, options)
    for every in (1, 2, 5) if EXTENSIVE else (1, 5):
        found, n_breaks = broken_off(store, replace(options, run=f"every{every}"), every)
        assert found == unbroken
        assert n_breaks > 0 or every > 1
    return unbroken


@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize("solver", DUAL_SOLVERS)
def test_each_solver_and_selection(stores, solver, selection):
    problem = long_problem(solver)
    options = problem.options(
        selection=selection, group=2, max_outer=5, gap=1e-9, seed=4, epochs=2, run="whole"
    )
    check(stores[problem.regression], options)


@pytest.mark.parametrize(
    "changes",
    [
        {"group": 1},
        {"group": N_BLOCKS},
        {"group": N_BLOCKS + 2},
        {"epochs": None},
        {"epochs": None, "selection": "shrink", "inner_tolerance": 0.01},
        {"epochs": 1},
        {"gap": 0.05, "max_outer": 100},  # with certificates that fail on the way
        {"gap": None, "tolerance": 0.1, "max_outer": 100},
        {"sample_blocks": 3},
        {"average": True, "epochs": None, "max_outer": 1, "group": 1},
        {"method": "pegasos", "pegasos_batch": 1},
        {"method": "pegasos", "pegasos_batch": 7, "epochs": 2},
        {"method": "pegasos", "pegasos_batch": None},
        {"class_weights": ((1.0, 3.0),), "bias": -1.0},
    ],
    ids=str,
)
def test_other_options(store, changes):
    options = {"group": 2, "max_outer": 6, "gap": 1e-9, "run": "whole"} | changes
    check(store, long_problem().options(**options))


@pytest.mark.parametrize("n_pairs", [1, 2])
def test_a_working_set_that_is_too_small(tmp_path, monkeypatch, n_pairs):
    """Its regions are divided anew, as some blocks have rows that are far from the margin."""
    problem = long_problem()
    pairs = 1 + np.arange(len(problem.X)) % n_pairs
    problem = replace(problem, labels=problem.labels * pairs)
    store = split_problem(tmp_path, problem, N_BLOCKS)
    far = "".join(f"{label} {83 + label}:100\n" for label in problem.labels.astype(int))
    (tmp_path / "far.svm").write_text(far)
    text = TextOptions(threads=1, memory_bytes=256 << 20)
    store = add(store, [tmp_path / "far.svm"], AddOptions(text=text, blocks=2))
    plan, moves, move = loop.plan_memory, [], WorkingSet._move

    def small(*args):
        return replace(plan(*args), working_set_entries=3 * store.manifest.nnz // 5)

    def counted(self, bounds, blocks):
        moves.append(np.abs(self._bounds - bounds).max())
        move(self, bounds, blocks)

    monkeypatch.setattr(loop, "plan_memory", small)
    monkeypatch.setattr(WorkingSet, "_move", counted)
    check(store, problem.options(group=1, max_outer=6, gap=1e-9, run="whole"))
    assert np.count_nonzero(moves) > 6


@pytest.mark.parametrize("n_pairs", [1, 2])
@pytest.mark.parametrize("share", [0.5, 0.1])
def test_rows_that_a_certificate_in_vain_took_the_memory_of(tmp_path, monkeypatch, n_pairs, share):
    """In a resumed run they are gone, too, until their blocks have their turn."""
    problem = long_problem()
    pairs = 1 + np.arange(len(problem.X)) % n_pairs
    problem = replace(problem, labels=problem.labels * pairs)
    store, plan, certify = split_problem(tmp_path, problem, N_BLOCKS), loop.plan_memory, []

    def small(*args):
        return replace(plan(*args), working_set_entries=int(share * store.manifest.nnz))

    def lend(self, n):
        before = int(self._counts.sum())
        memory, n_rows = lent(self, n)
        certify.append((before, int(self._counts.sum())))
        return memory, n_rows

    lent = WorkingSet.lend
    monkeypatch.setattr(loop, "plan_memory", small)
    monkeypatch.setattr(WorkingSet, "lend", lend)
    monkeypatch.setattr(Stopping, "wants_certificate", lambda *_: True)
    check(store, problem.options(group=1, max_outer=6, gap=1e-9, run="whole", method="dual"))
    lost = [after < before for before, after in certify]
    assert np.mean(lost) > 0.8


@pytest.mark.parametrize("group", [1, N_BLOCKS])
def test_an_outer_iteration_that_ends_before_all_rows(store, monkeypatch, group):
    monkeypatch.setattr(weight_vectors, "PAUSE", 0)
    first = set()
    for number, gap in enumerate(np.geomspace(0.05, 1e-4, 6).tolist()):
        options = long_problem().options(group=group, gap=gap, max_outer=100, run=f"whole{number}")
        heard = Heard()
        model = train(store, replace(options, run="heard", restart=True), heard)
        assert model.metadata["certificate"]["gap"] <= gap
        first |= {event.entries - event.pass_entries for event in heard.of(OuterIteration)}
        check(store, options)
    assert max(first) == store.manifest.nnz > min(first)


@pytest.mark.parametrize("patience", [None, 1, 3])
@pytest.mark.parametrize("method", ["dual", "pegasos"])
def test_with_held_out_rows(store, held_out, method, patience):
    options = long_problem().options(
        evaluate=held_out, patience=patience, method=method, group=2, max_outer=12, gap=1e-9,
        run="whole",
    )  # fmt: skip
    check(store, options)


@pytest.mark.parametrize("patience", [None, 2])
@pytest.mark.parametrize("group", [2, N_BLOCKS])
@pytest.mark.parametrize("gap", [1e-7, 0.002, 1e-12])
def test_across_the_switch_to_newton_steps(store, held_out, monkeypatch, group, gap, patience):
    newton_after(monkeypatch, 4)
    problem = replace(long_problem(1), cost=100.0)
    evaluate = held_out if patience else None
    options = problem.options(
        gap=gap, group=group, max_outer=60, run="whole", patience=patience, evaluate=evaluate,
        epochs=1,
    )  # fmt: skip
    _, seen = check(store, options)
    assert patience or any(report[-2] == 0 for report in seen.values())  # a step, not rows


@pytest.mark.parametrize("solver", [1, 3])
def test_a_stop_while_it_is_certified_before_it_goes_over(store, monkeypatch, solver):
    newton_after(monkeypatch, 4)
    problem = replace(long_problem(1), solver=solver, cost=100.0)
    options = problem.options(gap=1e-7, group=2, max_outer=60, run="whole", epochs=1)
    unbroken, outers = outcome(store, options), []

    def listen(event):
        if isinstance(event, OuterIteration):
            outers.append(event.outer)

    certify, tried = run.GroupRun.certify, []

    def certified(self, enough=None):
        if self.goes_over:
            tried.append(self.outer)
        return certify(self, enough)

    monkeypatch.setattr(run.GroupRun, "certify", certified)
    again = replace(options, run="again")
    with pytest.raises(StoppedError):
        train(store, again, listen, lambda: bool(tried))
    assert outers == [*range(1, 5)]
    assert outcome(store, replace(again, resume=True))[0] == unbroken[0]
    assert tried == [4, 4]


def test_memory_and_threads_may_change(store):
    options = long_problem().options(max_outer=5, gap=1e-9, group=2, run="whole")
    unbroken = outcome(store, options)
    breaks = Breaks(4)
    with pytest.raises(StoppedError):
        outcome(store, replace(options, run="other"), breaks.halt, breaks.listen)
    spare = plan_memory(store.manifest, options).pin_bytes
    less = options.memory_bytes - spare
    options = replace(options, memory_bytes=less, threads=1, run="other", resume=True)
    assert outcome(store, options)[0] == unbroken[0]


def test_a_group_that_followed_from_the_memory_is_kept(store):
    small = long_problem().options(max_outer=5, gap=1e-9, group=2, run="small")
    unbroken, breaks = outcome(store, replace(small, run="whole")), Breaks(3)
    with pytest.raises(StoppedError):
        train(store, small, breaks.listen, breaks.halt)
    small = replace(small, group=None, resume=True)
    breaks.go_on()
    with pytest.raises(StoppedError):
        train(store, small, breaks.listen, breaks.halt)
    assert outcome(store, replace(small, group=2))[0] == unbroken[0]


def test_a_finished_run_ends_at_once(store):
    options = long_problem().options(gap=1e-4, group=2, run="finished")
    unbroken = outcome(store, options)
    heard = Heard()
    assert outcome(store, replace(options, resume=True), listener=heard)[0] == unbroken[0]
    assert not heard.of(BlockStep)


def test_a_finished_run_goes_on_to_a_smaller_gap(store):
    options = long_problem().options(gap=1e-2, group=2, run="further")
    train(store, options)
    found = train(store, replace(options, gap=1e-5, resume=True))
    whole = train(store, replace(options, gap=1e-5, run="whole"))
    assert found.metadata["certificate"]["gap"] <= 1e-5
    assert abs(found.metadata["outer_iterations"] - whole.metadata["outer_iterations"]) <= 3


@pytest.mark.parametrize("max_outer", [1, 3, 6])
@pytest.mark.parametrize("selection", ["active", "permute"])
def test_a_run_that_came_to_its_last_iteration_may_have_more(store, max_outer, selection):
    options = long_problem().options(gap=1e-3, group=2, run="more", selection=selection)
    train(store, replace(options, max_outer=max_outer))
    found = outcome(store, replace(options, resume=True))
    whole = outcome(store, replace(options, run="whole"))
    assert found[0] == whole[0]


@pytest.mark.parametrize("method", ["dual", "pegasos"])
@pytest.mark.parametrize("group", [1, N_BLOCKS])
def test_every_epoch_is_a_chance_to_stop(store, group, method):
    options = long_problem().options(
        epochs=100, group=group, max_outer=1, method=method, selection="permute", run="chance"
    )
    asked = count()
    train(store, options, halt=lambda: next(asked) < 0)
    assert next(asked) >= 99 * N_BLOCKS / group


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"solver": 4},
        {"solver": 6, "gap": 0.1},
        {"method": "newton"},
        {"method": "pegasos"},
        {"average": True, "epochs": None, "max_outer": 1},
        {"regularize_bias": False, "bias": 1.0},
    ],
    ids=str,
)
def test_stopped_while_a_group_is_waited_for(store, monkeypatch, changes):
    """As when a server is silent; what was reached between two block steps is saved."""
    check_stops_while_waiting(store, monkeypatch, changes)


@pytest.mark.parametrize("done", [1, 2, 3])
def test_stopped_after_an_outer_iteration_that_may_be_the_last(store, monkeypatch, done):
    """Its certificate begins with the groups in memory, also when it is resumed."""
    groups, (ahead, *_) = (block_groups(4, k, len(store.manifest.blocks), 2) for k in (1, 2))
    ended = property(lambda self: bool(self.counted.sum() >= 2 * done))
    monkeypatch.setattr(BlockDescent, "reached", ended)
    orders, stream = [], GroupLoader.stream

    def noting(self, groups, following=None):
        orders.append([*groups])
        return stream(self, groups, following)

    monkeypatch.setattr(GroupLoader, "stream", noting)
    check_stops_while_waiting(store, monkeypatch, {"max_outer": 1})
    first, certificate = orders[:2]
    assert first == groups
    if done < 3:
        others = [group for group in groups if group not in groups[done - 1 : done + 1]]
        assert certificate == [*groups[done - 1 : done + 1], *others]
    else:
        assert certificate[:2] == [groups[2], tuple(b for b in ahead if b not in groups[2])]
        assert sorted(chain.from_iterable(certificate)) == sorted(chain.from_iterable(first))


class Checked(Exception):
    pass


@pytest.mark.parametrize("solver", [3, 4, 13])
def test_a_certificate_that_is_stopped_changes_nothing(store, monkeypatch, solver):
    """After an early end it counts the rows that had no turn, from which estimates follow."""
    ended = property(lambda self: bool(self.counted.sum() >= 2))
    monkeypatch.setattr(BlockDescent, "reached", ended)
    monkeypatch.setattr(Stopping, "wants_certificate", lambda *_: True)
    certify, seen = BlockDescent.certify, []

    def stopped(self, stream, enough=None):
        def some():
            for number, loaded in enumerate(stream):
                if number == 2:
                    seen.append((self.counted.sum(), self.estimate().gap))
                    raise Abandoned
                yield loaded

        before = self.counted.copy(), self.estimate()
        with pytest.raises(Abandoned):
            certify(self, some())
        assert (self.counted == before[0]).all()
        assert self.estimate() == before[1]
        assert seen[0][0] > before[0].sum()
        raise Checked

    monkeypatch.setattr(BlockDescent, "certify", stopped)
    with pytest.raises(Checked):
        train(store, long_problem().options(solver=solver, group=2, gap=1e-9))


@pytest.mark.parametrize("solver", [3, 4])
def test_epochs_end_where_the_gap_is_small_enough(tmp_path, monkeypatch, solver):
    """Where all rows are in memory the rest of the epochs, and what follows them, is left out."""
    entries, epochs, epoch = [], [], WeightVectors._epoch

    def noting(self, step, number, order):
        epoch(self, step, number, order)
        epochs.append(number)
        entries.append((step.outer, self.reached))

    monkeypatch.setattr(WeightVectors, "_epoch", noting)
    rng = np.random.default_rng(1)
    X = rng.normal(size=(5000, 20)).round(2)
    value = X @ rng.normal(size=20) + 2 * rng.normal(size=5000)
    labels = np.where(value > 0, 1.0, -1.0) if solver == 3 else np.digitize(value, [-3, 0, 3]) * 1.0
    problem = Problem(X, labels, solver, cost=0.3)
    train(split_problem(tmp_path, problem, 2), problem.options(gap=1e-2, epochs=4, method="dual"))
    assert max(epochs) == 3
    last = entries[-1][0]
    told = [reached for outer, reached in entries if outer == last]
    assert told.index(True) == len(told) - 1


@pytest.mark.parametrize("done", [1, 2, 3])
def test_what_is_loaded_ahead_of_a_resume_is_worked_on_next(store, monkeypatch, done):
    options = long_problem().options(group=2, max_outer=3, gap=1e-9, checkpoint_s=1e-9)
    heard = Heard()
    with pytest.raises(StoppedError):
        train(store, options, heard, halt=lambda: len(heard.of(BlockStep)) >= done)
    streams, stream = [], GroupLoader.stream

    def noting(self, groups, following=None):
        streams.append(([*groups], following))
        return stream(self, groups, following)

    monkeypatch.setattr(GroupLoader, "stream", noting)
    train(store, replace(options, resume=True))
    (_, ahead), (first, _) = streams[:2]
    assert ahead == first[0]


def check_stops_while_waiting(store, monkeypatch, changes):
    asked = {"group": 2, "max_outer": 3, "gap": 1e-9, "seed": 4} | changes
    options = long_problem().options(**asked, run="waits")
    unbroken = outcome(store, options)
    monkeypatch.setattr(run, "GRACE_S", 0.0)
    real, left, saved = GroupLoader._await, [0], []

    def await_(self, coming):
        left[0] -= 1
        self._while_waiting()
        return real(self, coming)

    monkeypatch.setattr(GroupLoader, "_await", await_)
    restart, resume = replace(options, restart=True), replace(options, resume=True)
    for waits in count():
        left[0], heard = waits, {}
        try:
            outcome(store, restart, lambda: left[0] < 0, heard=heard)
        except StoppedError as stopped:
            saved.append(bool(stopped.fix))
        else:
            break
        assert outcome(store, resume, heard=heard) == unbroken
    assert saved[:3] == [False, True, True]  # there are three groups


@pytest.mark.parametrize(
    ("before", "after"),
    [(None, 2), (2, None), (2, 5)],
    ids=str,
)
def test_patience_may_change(store, held_out, before, after):
    options = long_problem().options(
        evaluate=held_out, patience=before, group=2, max_outer=3, gap=1e-9, run="patience"
    )
    train(store, options)
    options = replace(options, patience=after, max_outer=40 if after else 6, resume=True)
    stopped = train(store, options).metadata["stopped"]
    assert stopped == (
        f"{after} outer iterations without a better score" if after else "6 outer iterations"
    )


def test_held_out_rows_may_be_given_up(store, held_out):
    options = long_problem().options(
        evaluate=held_out, patience=9, group=2, max_outer=3, gap=1e-9, run="given-up"
    )
    train(store, options)
    train(store, replace(options, evaluate=None, patience=None, resume=True, max_outer=5))
    train(store, replace(options, resume=True, max_outer=7))


@pytest.fixture
def stopped(store):
    """Options of a run that has a checkpoint."""
    options, breaks = long_problem().options(gap=1e-9, group=2, run="stopped"), Breaks(4)
    with pytest.raises(StoppedError, match="in outer iteration 2: a checkpoint is saved") as caught:
        train(store, replace(options, restart=True), breaks.listen, breaks.halt)
    assert caught.value.fix == "give the same command with --resume instead of --restart to go on"
    return replace(options, resume=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cost": 2.0}, r"cost was 1\.0 and is 2\.0"),
        ({"solver": 1}, "solver was 3 and is 1"),
        ({"seed": 5}, "seed was 0 and is 5"),
        ({"bias": -1.0}, r"bias was 1\.0 and is -1\.0"),
        ({"group": 3}, "group was 2 and is 3"),
        ({"epochs": None}, "epochs was 1 and is None"),
        ({"selection": "avsf"}, "selection was 'active' and is 'avsf'"),
        ({"class_weights": ((1.0, 2.0),)}, r"class_weights was \[\] and is \[\[1\.0, 2\.0\]\]"),
        ({"sample_blocks": 4}, "sample_blocks was None and is 4\n"),
        ({"method": "pegasos"}, "method was 'dual' and is 'pegasos'"),
        ({"cost": 2.0, "seed": 5}, r"cost was 1\.0 and is 2\.0; seed was 0 and is 5"),
    ],
    ids=str,
)
def test_other_options_are_refused(store, stopped, change, message):
    with pytest.raises(MismatchError, match=message) as caught:
        train(store, replace(stopped, **change))
    assert caught.value.exit_code == 5
    assert "--restart to delete what it reached" in caught.value.fix


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sample_blocks": 4}, "sample_blocks was 3 and is 4\n"),
        ({"seed": 1}, "seed was 0 and is 1\n"),
    ],
    ids=str,
)
def test_blocks_that_are_drawn_otherwise_have_not_changed(store, change, message):
    options, breaks = long_problem().options(gap=1e-9, sample_blocks=3, run="few"), Breaks(2)
    with pytest.raises(StoppedError):
        train(store, replace(options, restart=True), breaks.listen, breaks.halt)
    with pytest.raises(MismatchError, match=message):
        train(store, replace(options, resume=True, **change))


def test_an_option_that_was_not_known_yet_had_its_default(store, monkeypatch):
    options, breaks = long_problem().options(gap=1e-6, group=2, run="older"), Breaks(4)
    newer = TrainOptions.course
    with monkeypatch.context() as older:
        older.setattr(
            TrainOptions,
            "course",
            lambda self: {k: v for k, v in newer(self).items() if k != "l1_ratio"},
        )
        with pytest.raises(StoppedError):
            train(store, replace(options, restart=True), breaks.listen, breaks.halt)
    assert train(store, replace(options, resume=True)).metadata["stopped"] == "converged"


def test_another_store_is_refused(tmp_path):
    problem, breaks = long_problem(), Breaks(4)
    store = split_problem(tmp_path, problem, N_BLOCKS)
    with pytest.raises(StoppedError):
        train(store, problem.options(group=2), breaks.listen, breaks.halt)
    other = split_problem(tmp_path, problem, N_BLOCKS, seed=1, name="other")
    (store.folder / "runs").rename(other.folder / "runs")
    with pytest.raises(MismatchError, match="the blocks of the store have changed") as caught:
        train(BlockStore.open(other.folder), problem.options(group=2, resume=True))
    assert caught.value.exit_code == 5
    assert "the options it had" not in caught.value.fix


def test_rows_were_added_to_what_was_trained_on(tmp_path):
    problem, breaks = long_problem(), Breaks(4)
    store = split_problem(tmp_path, problem, N_BLOCKS)
    options = problem.options(group=2)
    with pytest.raises(StoppedError):
        train(store, options, breaks.listen, breaks.halt)
    (tmp_path / "more").write_text("1 1:1\n-1 1:-1\n")
    store = add(store, [tmp_path / "more"], AddOptions())
    with pytest.raises(MismatchError, match="the blocks of the store have changed") as caught:
        train(store, replace(options, resume=True))
    assert caught.value.fix.startswith("give --warm-start to start from its alpha, --restart")
    assert train(store, replace(options, warm_start=True)).metadata["stopped"] == "converged"


def test_nothing_to_resume(store):
    heard, options = Heard(), long_problem().options(max_outer=3, gap=1e-9, run="none")
    found = outcome(store, replace(options, resume=True), listener=heard)
    assert (
        heard.of(Warned)[0].message == "run 'none' has no checkpoint: it starts from the beginning"
    )
    assert found == outcome(store, options)


def test_a_stop_before_anything_was_saved(store, monkeypatch):
    monkeypatch.setattr(run, "GRACE_S", 0.0)
    options = long_problem().options(epochs=None, group=N_BLOCKS, run="early", gap=1e-9)
    with pytest.raises(StoppedError, match="before there was anything to save"):
        train(store, options, halt=lambda: True)
    train(store, replace(options, max_outer=1))  # leaves the checkpoint of another run
    with pytest.raises(StoppedError, match="before there was anything to save"):
        train(store, options, halt=lambda: True)


@pytest.mark.parametrize(
    "changes",
    [{}, {"method": "pegasos", "epochs": 100}, {"solver": 1}, {"group": 1, "epochs": 100}],
    ids=str,
)
@pytest.mark.parametrize("grace_s", [0.0, 60.0])
def test_a_stop_is_heeded_wherever_it_comes(store, changes, monkeypatch, grace_s):
    """At the k-th question, for every k: nothing goes on for long, and the bits are the same."""
    newton_after(monkeypatch, 2)
    monkeypatch.setattr(run, "GRACE_S", grace_s)
    options = {"max_outer": 4, "gap": 1e-9, "group": N_BLOCKS, "run": "whole"} | changes
    options = long_problem().options(**options)
    asked = count()
    unbroken = outcome(store, options, lambda: next(asked) < 0)
    total, options = next(asked), replace(options, run="asked")
    assert total > 10
    for k in range(1, total, -(-total // 12)):
        questions = count()
        try:
            found = outcome(store, options, lambda at=k, questions=questions: next(questions) >= at)
        except StoppedError as stopped:
            resumed = "--resume" in stopped.fix
            assert resumed or grace_s == 0.0
            found = outcome(store, replace(options, resume=resumed))
        assert found[0] == unbroken[0]


def test_a_damaged_checkpoint_does_not_stop_a_new_run(store, stopped):
    path = store.folder / "runs" / stopped.run / "checkpoint.json"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DamagedError, match="not a checkpoint"):
        train(store, stopped)
    train(store, replace(stopped, resume=False, max_outer=1))
    train(store, replace(stopped, max_outer=2))


def test_an_outer_iteration_whose_end_was_decided_is_not_decided_again(tmp_path, monkeypatch):
    """After models had left, or a certificate was in vain, a resumed run went another way."""
    descent_alone(monkeypatch)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 30)).round(2) * (rng.random((600, 30)) < 0.5)
    X[:, 0] *= 8
    X[:, 1] *= 4
    scores = X @ rng.normal(size=(30, 8)) * rng.uniform(0.2, 3, 8) + 3 * rng.normal(size=(600, 8))
    problem = Problem(X, scores.argmax(1).astype(float), 3, cost=1.0, bias=1.0)
    store, heard = split_problem(tmp_path, problem, 6), Heard()
    options = problem.options(gap=1e-3, group=2, threads=1, max_outer=200)
    whole = outcome(store, options, listener=heard)[0]
    certified = [event.outer for event in heard.of(OuterIteration) if event.certificates]
    assert len(certified) >= 3
    for last in certified[:-1]:
        some, stop = replace(options, run=f"stopped{last}"), []

        def listen(event, last=last, stop=stop):
            stop += [event] if isinstance(event, OuterIteration) and event.outer == last else []

        with pytest.raises(StoppedError):
            train(store, some, listen, halt=lambda stop=stop: bool(stop))
        assert outcome(store, replace(some, resume=True))[0] == whole
