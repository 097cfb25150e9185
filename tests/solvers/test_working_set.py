import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import reference
from training.small import (
    DUAL_SOLVERS,
    SELECTIONS,
    Problem,
    descent_alone,
    long_problem,
    split_problem,
    split_text,
)

from blocklinear.events import OuterIteration
from blocklinear.kernels import dual
from blocklinear.kernels.code.signatures import signature_of
from blocklinear.solvers import working_set as working_sets
from blocklinear.solvers.row_orders import turns
from blocklinear.solvers.weight_vectors import WeightVectors
from blocklinear.solvers.working_set import (
    MOST_EPOCHS,
    MOST_PASSES,
    WorkingSet,
    next_passes,
)
from blocklinear.store.prefetch import GroupLoader
from blocklinear.training import loop, train
from blocklinear.training.memory_plan import plan_memory

N_BLOCKS = 6


def entries(group, row):
    part = slice(group.indptr[row], group.indptr[row + 1])
    return group.indices[part].tolist(), group.values[part].tolist()


def rows_of(working_set, n_rows):
    """What is kept of each row, by its position in the store: entries, label and norm."""
    which = working_set.in_part(turns(1, 1, 0), np.ones(n_rows, np.uint16), 0.0, 1.0)
    return {
        int(rows.positions[i]): (
            rows.indices[rows.starts[i] : rows.stops[i]].tolist(),
            rows.values[rows.starts[i] : rows.stops[i]].tolist(),
            rows.labels[i], rows.sq_norm[i],
        )
        for rows, packed in working_set.rows(which)
        for run in working_sets.unpacked(rows, packed)
        for i in run
    }  # fmt: skip


def starts(store):
    return np.cumsum([0, *(block.rows for block in store.manifest.blocks)])


@pytest.mark.parametrize("share", [0.0, 0.1, 0.3, 0.6, 1.0])
@pytest.mark.parametrize("at_once", [1, 100, 1 << 18])
def test_rows_are_kept_whole_and_in_their_own_region(store, groups, monkeypatch, share, at_once):
    monkeypatch.setattr(working_sets, "ENTRIES_AT_ONCE", at_once)
    capacity, rng = int(share * store.manifest.nnz), np.random.default_rng(1)
    working_set, expected = WorkingSet(store.manifest, capacity), {}
    for blocks in [(3, 1), (0,), (5, 2, 4), (1, 4), (0, 3)]:
        group = groups(*blocks)
        chosen = np.flatnonzero(rng.random(group.n_rows) < 0.5)
        kept = working_set.replace(group, chosen, rng.random(len(chosen)).round(1))

        assert set(np.flatnonzero(kept)) <= set(chosen)
        for place, block in enumerate(blocks):
            first = starts(store)[block]
            last = first + store.manifest.blocks[block].rows
            expected = {k: row for k, row in expected.items() if not first <= k < last}
            for row in range(group.starts[place], group.starts[place + 1]):
                if kept[row]:
                    facts = group.labels[row], group.sq_norm[row]
                    expected[row - group.starts[place] + first] = (*entries(group, row), *facts)
        assert rows_of(working_set, store.manifest.n_rows) == expected
        working_set.divide_anew()
        assert rows_of(working_set, store.manifest.n_rows) == expected
    assert (len(expected) > 0) == (share > 0.0)


def kept_of(working_set, group, n, at_bound=0):
    """How many rows of a group stay, where the first ones are wanted and some are at a bound."""
    priority = np.where(np.arange(n + at_bound) < n, 1.0, -1.0)
    return int(working_set.replace(group, np.arange(n + at_bound), priority).sum())


def test_a_block_without_room_takes_what_others_do_not_use(store, groups):
    """All rows of one block, and few of the others, in a third of the room for all."""
    working_set = WorkingSet(store.manifest, store.manifest.nnz // 3)
    n_rows = [block.rows for block in store.manifest.blocks]
    for block in range(1, N_BLOCKS):
        assert kept_of(working_set, groups(block), 2) == 2
    before = kept_of(working_set, groups(0), n_rows[0])
    assert before < n_rows[0]
    working_set.divide_anew()
    assert kept_of(working_set, groups(0), n_rows[0]) == n_rows[0]
    # there is room for many others, too
    assert kept_of(working_set, groups(1), n_rows[1]) > n_rows[1] // 6


def test_blocks_without_room_share_what_there_is(store, groups):
    working_set = WorkingSet(store.manifest, store.manifest.nnz // 4)
    n_rows = [block.rows for block in store.manifest.blocks]
    for block in range(3, N_BLOCKS):
        assert kept_of(working_set, groups(block), 2) == 2
    before = [kept_of(working_set, groups(block), n_rows[block]) for block in range(3)]
    working_set.divide_anew()
    after = [kept_of(working_set, groups(block), n_rows[block]) for block in range(3)]
    assert all(more > 1.3 * less for less, more in zip(before, after, strict=True))
    assert all(kept_of(working_set, groups(block), 2) == 2 for block in range(3, N_BLOCKS))


def test_runs_do_not_depend_on_rows_seen_before(store, groups, monkeypatch):
    """A resumed run, which has not seen them, makes the same calls."""
    monkeypatch.setattr(working_sets, "ENTRIES_AT_ONCE", 10)
    longest = [int(groups(k).rows.lengths.max()) for k in range(N_BLOCKS)]
    block, other = int(np.argmin(longest)), int(np.argmax(longest))
    assert 10 < longest[block] < longest[other]
    found = []
    for before in ([], [other]):
        working_set = WorkingSet(store.manifest, store.manifest.nnz)
        for k in [*before, block]:
            group = groups(k)
            working_set.replace(group, np.arange(group.n_rows), np.ones(group.n_rows))
        ranges = np.zeros(store.manifest.n_rows, np.uint16)
        ranges[group.rows.positions] = 1
        which = working_set.in_part(turns(1, 1, 0), ranges, 0.0, 1.0)
        found.append(
            [
                run.tolist()
                for rows, packed in working_set.rows(which)
                for run in working_sets.unpacked(rows, packed)
            ]
        )
    assert found[0] == found[1]
    assert len(found[0]) > 1


@pytest.mark.parametrize("lent", [0, 1, 300, 1200, 1 << 20])
def test_memory_that_is_lent_is_that_of_the_first_rows(store, groups, lent):
    """What rows of other blocks have is as it was; there may be more than rows take."""
    working_set, n_rows = WorkingSet(store.manifest, store.manifest.nnz // 2, lent), []
    for block in range(N_BLOCKS):
        n_rows.append(store.manifest.blocks[block].rows)
        assert kept_of(working_set, groups(block), 9) == 9
    before = rows_of(working_set, sum(n_rows))
    memory, lost = working_set.lend(lent)
    assert len(memory) == lent
    assert not memory.any()
    memory[:] = np.nan
    assert lost in np.cumsum([0, *n_rows])
    assert (lost > 0) == (lent > 0)
    after = rows_of(working_set, sum(n_rows))
    assert after == {k: row for k, row in before.items() if k >= lost}
    assert bool(after) == (lent < 2000)
    for block in range(N_BLOCKS):
        assert kept_of(working_set, groups(block), 9) == 9
    assert rows_of(working_set, sum(n_rows)) == before


def test_rows_at_a_bound_want_no_room(store, groups):
    working_set = WorkingSet(store.manifest, store.manifest.nnz // 3)
    n_rows = [block.rows for block in store.manifest.blocks]
    assert kept_of(working_set, groups(0), 2, n_rows[0] - 2) < n_rows[0]
    regions = working_set.state
    working_set.divide_anew()
    assert working_set.state == regions
    size, used, wanted = regions[0]
    assert wanted < used <= size


def test_regions_are_those_of_the_state(store, groups):
    """Rows that were kept fit where they are restored, and what was wanted is known."""
    working_set, again = (WorkingSet(store.manifest, store.manifest.nnz // 3) for _ in range(2))
    group, n = groups(0), store.manifest.blocks[0].rows
    kept_of(working_set, group, n)
    working_set.divide_anew()
    assert kept_of(working_set, group, n) == n
    again.state = json.loads(json.dumps(working_set.state))
    assert again.state == working_set.state
    assert kept_of(again, group, n) == n


@pytest.mark.parametrize("at", [0, 1, 2])
def test_regions_that_do_not_fit_are_refused(store, at):
    working_set = WorkingSet(store.manifest, 1000)
    state = working_set.state
    for wrong in (state[:-1], [*state, [0, 0, 0]], [[0, 1, 1], *state[1:]]):
        with pytest.raises(ValueError, match="another working set"):
            working_set.state = wrong
    state[0][at] = state[1][at] = 1 << 62
    with pytest.raises(ValueError, match="another working set"):
        working_set.state = state


def test_rows_that_are_left_out_are_not_yielded(store, groups):
    working_set, group = WorkingSet(store.manifest, store.manifest.nnz), groups(0)
    assert working_set.replace(group, np.arange(group.n_rows), np.ones(group.n_rows)).all()
    ranges = np.zeros(store.manifest.n_rows, np.uint16)
    ranges[:7] = 1
    which = working_set.in_part(turns(1, 1, 0), ranges, 0.0, 1.0)
    ((rows, _),) = working_set.rows(which)
    assert sorted(rows.positions.tolist()) == list(range(7))


def test_rows_of_the_lowest_priority_are_dropped_first(store, groups):
    group, rng = groups(0), np.random.default_rng(2)
    priority, lengths = rng.random(group.n_rows), np.diff(group.indptr)
    n_kept = []
    for share in (0.05, 0.1, 0.2):
        working_set = WorkingSet(store.manifest, int(share * store.manifest.nnz))
        kept = working_set.replace(group, np.arange(group.n_rows), priority)
        assert 0 < kept.sum() < group.n_rows
        density = priority / lengths
        assert density[kept].min() > density[~kept].max()
        n_kept.append(kept.sum())
    assert n_kept == sorted(set(n_kept))


@pytest.mark.parametrize(("digits", "least"), [(6, 1.6), (16, 0.9)])
def test_decimal_numbers_take_half_the_memory(tmp_path, digits, least):
    """Others take no more than as they are loaded."""
    rng = np.random.default_rng(4)
    text = "".join(
        "1 " + " ".join(f"{j}:{x:.{digits}g}" for j, x in enumerate(rng.random(300), 1)) + "\n"
        for _ in range(100)
    )
    store = split_text(tmp_path, text, blocks=1)
    capacity = store.manifest.nnz // 3
    with GroupLoader(store, 1, 1) as loader:
        group = next(iter(loader.stream([(0,)]))).group
        kept = WorkingSet(store.manifest, capacity).replace(group, np.arange(100), np.ones(100))
    assert kept.sum() * 300 > least * capacity


def test_weights_of_rows_go_along(tmp_path):
    problem = replace(long_problem(3, 40, 9), weights=0.5 + np.arange(40))
    store = split_problem(tmp_path, problem)
    working_set = WorkingSet(store.manifest, store.manifest.nnz)
    with GroupLoader(store, 1, 1) as loader:
        for loaded in loader.stream([(0,), (1,)]):
            n = loaded.group.n_rows
            assert working_set.replace(loaded.group, np.arange(n), np.ones(n)).all()
    which = working_set.in_part(turns(1, 1, 0), np.ones(40, np.uint16), 0.0, 1.0)
    ((rows, _),) = working_set.rows(which)
    assert sorted(rows.weights.tolist()) == (0.5 + np.arange(40)).tolist()


def test_there_may_be_none(store, groups):
    working_set, group = WorkingSet(store.manifest, 1000), groups(0, 1)
    n_rows = store.manifest.n_rows
    assert not rows_of(working_set, n_rows)
    working_set.replace(group, np.arange(5), np.ones(5))
    assert rows_of(working_set, n_rows)
    assert not working_set.replace(group, np.zeros(0, np.int64), np.zeros(0)).any()
    assert not rows_of(working_set, n_rows)


def state(descent):
    (model,) = descent.vectors
    return model.alpha.all.copy(), model.W[:, 0].copy()


def seen_by(store, options, monkeypatch):
    """Train; yield the alpha, w and report of each outer iteration."""
    descents = []

    seen, make = [], loop.make_solver

    def watched(*args):
        descents.append(make(*args))
        return descents[0]

    monkeypatch.setattr(loop, "make_solver", watched)

    def listen(event):
        if isinstance(event, OuterIteration):
            seen.append((*state(descents[0]), event))

    train(store, options, listen)
    return seen


@pytest.mark.parametrize("group", [1, 2, N_BLOCKS])
@pytest.mark.parametrize("solver", DUAL_SOLVERS)
@pytest.mark.parametrize("selection", [*SELECTIONS, "average"])
def test_the_dual_value_is_exact_at_any_moment(tmp_path, monkeypatch, selection, solver, group):
    descent_alone(monkeypatch)
    problem = long_problem(solver, 60, 9)
    if not problem.regression:
        problem = replace(problem, class_weights=((1.0, 2.0),))
    store = split_problem(tmp_path, problem, N_BLOCKS, renumber=False)
    with GroupLoader(store, N_BLOCKS, 1) as loader:
        (loaded,) = loader.stream([tuple(range(N_BLOCKS))])
    order = loaded.group.row_numbers
    X, t, C = problem.rows[order], problem.labels[order], problem.costs()[order]
    epsilon = problem.epsilon if problem.regression else 0.0
    how = {"average": True} if selection == "average" else {"selection": selection}
    options = problem.options(**how, group=group, max_outer=4, gap=1e-12, epochs=2)
    seen = seen_by(store, options, monkeypatch)
    assert len(seen) >= 2
    for alpha, w, report in seen:
        low, high = reference.bounds(C, problem.kind)
        assert ((low <= alpha) & (alpha <= high)).all()
        dual = reference.dual_value(X, t, C, alpha, problem.kind, epsilon)
        assert report.dual == pytest.approx(dual, rel=1e-9)
        np.testing.assert_allclose(
            w, reference.weights(X, t, C, alpha, problem.kind), rtol=1e-9, atol=1e-9
        )
        assert report.n_sv == np.count_nonzero(alpha)


def test_the_working_set_saves_outer_iterations(store):
    outer = {
        selection: train(
            store, long_problem().options(selection=selection, group=1, gap=1e-4, max_outer=2000)
        ).metadata["outer_iterations"]
        for selection in ("active", "permute")
    }
    assert 2 * outer["active"] < outer["permute"]


def test_twice_as_many_passes_while_they_gain_more_for_each_entry():
    assert next_passes(4, (1.0, 100), (1.1, 100)) == 8
    assert next_passes(8, (1.0, 100), (0.3, 29)) == 16
    assert next_passes(16, (1.0, 100), (0.9, 100)) == 8


def test_passes_end_when_no_row_is_left(tmp_path, monkeypatch):
    """Of a thousand passes over 60 rows nearly all had none: they took nine tenths of the time."""
    rng = np.random.default_rng(0)
    problem = Problem(rng.normal(size=(60, 3)), rng.integers(0, 3, 60).astype(float), 3)
    n_rows, one_pass = [], WeightVectors._pass_over_group

    def counted(self, step, *of):
        n_rows.append(np.count_nonzero(step.ranges))
        return one_pass(self, step, *of)

    monkeypatch.setattr(WeightVectors, "_pass_over_group", counted)
    descent_alone(monkeypatch)
    store = split_problem(tmp_path, problem, blocks=2)
    passes = []
    train(
        store, problem.options(gap=1e-7, max_outer=60),
        lambda event: passes.append(event) if isinstance(event, OuterIteration) else None,
    )  # fmt: skip
    assert sum(n_rows) > 10 * len(passes)
    assert n_rows.count(0) <= 3 * len(passes)  # models


@pytest.mark.parametrize("solver", [1, 3, 4, 13])
def test_a_pass_has_all_rows_with_a_range_once_each(tmp_path, monkeypatch, solver):
    """Passes of many models take rows out, which may come in again in the next part."""
    rng = np.random.default_rng(0)
    problem = Problem(rng.normal(size=(90, 5)), rng.integers(0, 3, 90).astype(float), solver)
    one_pass, n_seen = WeightVectors._pass_over_group, []

    def checked(self, step, epoch, number, kept=None):
        if kept is not None:
            assert kept.tolist() == np.flatnonzero(step.ranges).tolist()
            n_seen.append(len(kept))
        return one_pass(self, step, epoch, number, kept)

    monkeypatch.setattr(WeightVectors, "_pass_over_group", checked)
    descent_alone(monkeypatch)
    store = split_problem(tmp_path, problem, blocks=2)
    train(store, problem.options(gap=1e-7, max_outer=30))
    assert len(set(n_seen)) > 1


def test_never_no_pass_and_never_more_than_a_limit():
    assert next_passes(1, (1.0, 100), (0.1, 100)) == 1
    assert next_passes(MOST_EPOCHS, (0.0, 100), (1.0, MOST_EPOCHS * 100)) == MOST_EPOCHS
    assert next_passes(MOST_PASSES, (0.0, 100), (1.0, 100)) == MOST_PASSES


def test_where_there_was_no_pass_their_number_stays():
    assert next_passes(4, (1.0, 100), (0.0, 0)) == 4


@pytest.mark.parametrize(
    ("options", "n_read"),
    [({}, 1), ({"selection": "permute"}, 1), ({"selection": "permute", "tolerance": 0.1}, 0)],
)
def test_rows_are_fetched_only_if_some_are_kept(store, groups, options, n_read):
    """Without passes and a gap none are, and a run that was resumed read all blocks."""
    options = long_problem().options(group=2, **options)
    task = loop.make_task(store.manifest, options)
    entries = plan_memory(store.manifest, options).working_set_entries
    method = loop.make_solver(store.manifest, options, task, store.folder, entries)
    read = []

    def stream():
        read.append(groups(0, 1))
        yield SimpleNamespace(group=read[-1])

    method.restore(stream)
    method.discard()
    assert len(read) == n_read


@pytest.mark.parametrize("options", [{"max_outer": 1}, {"gap": 1e-2}])
def test_kernels_are_compiled_once_for_a_look_and_a_certificate(tmp_path, options, monkeypatch):
    """Every eighth row of a group had another layout, for which a second copy was compiled."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(9000, 3)).round(1)
    problem = Problem(X, np.where(X[:, 0] > 0, 1.0, -1.0), 3, cost=0.01)
    seen: list[tuple[object, ...]] = []
    certify_rows = dual.certify_rows
    monkeypatch.setattr(
        dual, "certify_rows", lambda *args: (seen.append(args), certify_rows(*args))
    )
    train(split_problem(tmp_path, problem), problem.options(**options))
    assert len(seen) > 1
    assert len(set(map(signature_of, seen))) == 1


def test_some_rows_of_a_group_come_to_kernels_one_after_the_other(store, groups, monkeypatch):
    """On a cluster every eighth row of a group had another layout: each worker compiled a copy."""
    options = long_problem().options(group=2)
    task = loop.make_task(store.manifest, options)
    method = loop.make_solver(store.manifest, options, task, store.folder, 100)
    seen: list[np.ndarray] = []
    monkeypatch.setattr(dual, "certify_rows", lambda rows, data, *_: seen.extend((*rows, *data)))
    (vectors,) = method.vectors
    vectors.certify_group(groups(0, 1), vectors.proof(recompute=False), every=2)
    method.discard()
    assert all(array.flags.c_contiguous for array in seen)
    assert len(seen[0]) < groups(0, 1).n_rows
