"""A sample of all rows tells what these add to P - D."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from training.small import Heard, Problem, long_problem, split_problem

from blocklinear.events import OuterIteration
from blocklinear.options import TrainOptions
from blocklinear.solvers import weight_vectors, working_set
from blocklinear.solvers.block_descent import BlockDescent
from blocklinear.solvers.weight_vectors import WeightVectors
from blocklinear.solvers.working_set import (
    Sample,
    WorkingSet,
    one_in_few,
    sample_entries,
    total,
)
from blocklinear.store.prefetch import GroupLoader
from blocklinear.training import loop, train

N_BLOCKS = 6
ALL = np.ones(N_BLOCKS, np.bool_)


def entries(rows):
    """Return position, label and entries of rows."""
    return [
        (
            int(rows.positions[i]), float(rows.labels[i]), float(rows.sq_norm[i]),
            rows.indices[rows.starts[i] : rows.stops[i]].tolist(),
            rows.values[rows.starts[i] : rows.stops[i]].tolist(),
        )
        for i in range(len(rows))
    ]  # fmt: skip


def drawn(strata):
    """Return for each stratum how many rows it stands for, and those it has."""
    found = []
    for of in strata:
        rows = [row for part, _ in of.parts for row in entries(part)]
        assert len(rows) == of.drawn
        found.append((of.n, sorted(rows)))
    return found


@pytest.mark.parametrize("least", [1, 20, 10_000])
def test_so_many_rows_of_all_blocks(store, groups, least):
    manifest = store.manifest
    sample, empty = Sample(manifest, manifest.nnz), WorkingSet(manifest, 0)
    sample.size = least
    ranges, expected = np.zeros(manifest.n_rows, np.uint16), []
    for blocks in ((3, 0), (1, 5), (4,), (2,), (3,)):
        group = groups(*blocks)
        sample.take(group, ALL)
        expected += entries(group.rows) if blocks != (3,) else []
    ((n, rows),) = drawn(sample.strata(empty, ranges, manifest.n_rows))
    assert n == manifest.n_rows
    assert len(rows) == pytest.approx(min(least, n), abs=3.0 * least**0.5)
    assert set(map(str, rows)) <= set(map(str, expected))


def test_rows_of_the_working_set_stand_for_it_and_others_for_the_others(store, groups):
    manifest = store.manifest
    sample, working_set = Sample(manifest, manifest.nnz), WorkingSet(manifest, manifest.nnz)
    ranges = np.zeros(manifest.n_rows, np.uint16)
    for block in range(N_BLOCKS):
        group = groups(block)
        sample.take(group, ALL)
        own = np.flatnonzero(group.rows.positions % 3 == 0)
        working_set.replace(group, own, np.zeros(len(own)))
        ranges[group.rows.positions[own]] = 1
    (n_within, within), (n_others, others) = drawn(
        sample.strata(working_set, ranges, manifest.n_rows)
    )
    assert (n_others, n_within) == (int((ranges == 0).sum()), int((ranges > 0).sum()))
    assert [row[0] for row in others] == np.flatnonzero(ranges == 0).tolist()
    assert [row[0] for row in within] == np.flatnonzero(ranges > 0).tolist()


def test_only_blocks_that_are_wanted_and_rows_that_fit(store, groups):
    manifest, ranges = store.manifest, np.zeros(store.manifest.n_rows, np.uint16)
    empty = WorkingSet(manifest, 0)
    sample, small = Sample(manifest, manifest.nnz), Sample(manifest, manifest.nnz // 4)
    wanted = np.arange(N_BLOCKS) == 4
    for of in (sample, small):
        of.take(groups(4, 1), wanted)
    first, last = manifest.first_positions[4:6]
    (_, rows), (_, fewer) = (drawn(of.strata(empty, ranges, 9))[0] for of in (sample, small))
    assert [row[0] for row in rows] == list(range(first, last))
    assert 0 < len(fewer) < len(rows)
    assert set(map(str, fewer)) <= set(map(str, rows))
    none = Sample(manifest, 0)
    none.take(groups(4), ALL)
    assert none.strata(empty, ranges, 9) == []


@pytest.mark.parametrize(("n", "expected"), [(1, 1), (700, 700), (3000, 1500), (20_000, 2500)])
def test_of_rows_in_memory_an_eighth_and_at_least_a_thousand(groups, n, expected):
    rows = groups(0).rows
    many = rows.some(np.arange(n) % len(rows))
    many = replace(many, sq_norm=np.ones(n))
    (of,) = one_in_few(many, np.arange(n)[:, None] * 1.0)
    rows, alpha = zip(*of.parts, strict=True)
    assert sum(map(len, rows)) == of.drawn == expected
    assert of.n == n
    assert sorted(np.concatenate(alpha)[:, 0].tolist()) == list(range(0, n, n // expected))


def test_rows_much_larger_than_the_mean_are_all_drawn(groups):
    """Of counts of words in files, ten of 25,000 rows add nearly all to P - D."""
    rows, sizes = groups(0).rows, np.ones(20_000)
    sizes[[77, 4001, 19_999]] = 50.0, 9.0, 7.0
    many = replace(rows.some(np.arange(20_000) % len(rows)), sq_norm=sizes**2)
    large, others = one_in_few(many, np.arange(20_000)[:, None] * 1.0)
    assert sorted(np.concatenate([alpha for _, alpha in large.parts])[:, 0]) == [77, 4001]
    assert (large.n, large.drawn) == (2, 2)
    assert (others.n, others.drawn) == (19_998, 2500)


@pytest.mark.parametrize("room", [1.0, 0.25])
def test_large_rows_of_all_blocks_are_drawn_first(tmp_path, monkeypatch, room):
    """And sampled apart, those of the working set and the others; even where few rows fit."""
    monkeypatch.setattr(working_set, "SAMPLED_ROWS", 200)
    rng = np.random.default_rng(4)
    X = rng.integers(1, 9, (3000, 20)) * 1.0
    large = np.sort(rng.choice(3000, 30, replace=False))
    X[large] *= 1000.0
    store = split_problem(tmp_path, Problem(X, rng.choice([-1.0, 1.0], 3000), 3), N_BLOCKS)
    manifest = store.manifest
    sample, unwanted = Sample(manifest, int(room * 4000)), Sample(manifest, int(room * 4000))
    within = WorkingSet(manifest, manifest.nnz)
    ranges, positions = np.zeros(3000, np.uint16), []
    with GroupLoader(store, 1, 1) as loader:
        for loaded in loader.stream([(k,) for k in range(N_BLOCKS)]):
            group = loaded.group
            sample.take(group, ALL)
            positions += group.rows.positions[group.sq_norm > 1e7].tolist()
            own = np.flatnonzero(group.rows.positions % 2 == 0)
            within.replace(group, own, np.zeros(len(own)))
            ranges[group.rows.positions[own]] = 1
            unwanted.take(group, np.arange(N_BLOCKS) != 2)
    assert len(positions) == 30
    first, last = manifest.first_positions[2:4]
    even = [p for p in positions if p % 2 == 0]
    known = [p for p in even if not first <= p < last]
    of_known, *_ = drawn(unwanted.strata(within, ranges, 3000 - int(last - first)))
    assert of_known[0] == len(known) < len(even)
    strata = drawn(sample.strata(within, ranges, 3000))
    (n_large_within, large_within), _, (n_large, large_others), _ = strata
    assert [row[0] for row in large_within] == sorted(even)
    assert [row[0] for row in large_others] == sorted(set(positions) - set(even))
    assert n_large_within + n_large == 30
    assert [n for n, _ in strata] == [len(even), 1500 - len(even), 30 - len(even), 1470 + len(even)]


def test_rows_that_do_not_fit_are_of_all_parts_of_a_block(tmp_path, monkeypatch):
    """Values that are no decimals take more than half of the room; which rows go depends on them.

    And on nothing else: not on the groups in which blocks come.
    """
    monkeypatch.setattr(working_set, "SAMPLED_ROWS", 3000)
    rng = np.random.default_rng(2)
    X = rng.normal(size=(3000, 20))
    problem = Problem(X, np.repeat([1.0, -1.0], 1500), 3)
    store = split_problem(tmp_path, problem, N_BLOCKS)
    manifest = store.manifest
    ranges, found = np.zeros(3000, np.uint16), []
    for group in (1, N_BLOCKS - 1):
        sample, empty = Sample(manifest, manifest.nnz // 2), WorkingSet(manifest, 0)
        with GroupLoader(store, group, 1) as loader:
            order = [tuple(range(k, min(k + group, N_BLOCKS))) for k in range(0, N_BLOCKS, group)]
            for loaded in loader.stream(order):
                sample.take(loaded.group, ALL)
        ((_, rows),) = drawn(sample.strata(empty, ranges, 3000))
        found.append(rows)
    assert found[0] == found[1]
    assert 0.3 * 3000 < len(rows) < 0.9 * 3000
    of_first = np.mean([label == 1.0 for _, label, *_ in rows])
    assert of_first == pytest.approx(0.5, abs=0.05)


def parts_of(rng, sums, n_parts):
    """Cut what rows add, float64[n], into parts as `total` takes them; of two candidates."""
    cut = np.array_split(rng.permutation(sums), n_parts)
    return [(len(part), np.array([[part.sum()], [2.0 * part.sum()]])) for part in cut]


def test_strata_count_as_much_as_they_have_rows():
    rng = np.random.default_rng(5)
    few, many = rng.exponential(size=200), rng.exponential(9.0, size=50)
    heard = [(k, *part) for k, of in enumerate((few, many)) for part in parts_of(rng, of, 7)]
    found = total([3000, 50], heard, np.inf)
    expected = 15.0 * few.sum() + many.sum()
    np.testing.assert_allclose(found, [[expected], [2.0 * expected]], rtol=1e-13)


@pytest.mark.parametrize("n_models", [1, 3])
def test_what_few_parts_tell_is_doubted_by_how_much_they_differ(n_models):
    """Of one part nothing is known; then the least candidate of any of the models decides."""
    sizes = (100, 300, 100, 100)

    def asked(sums, enough):
        """Return after how many parts it is given up, and what it tells else."""
        heard = []

        def parts():
            for n, add in zip(sizes, sums, strict=True):
                heard.append(n)
                added = np.full((2, n_models), n * min(add, 1.0))
                added[:, -1] = n * add, n * add + 1.0
                yield 0, n, added

        return total([6000], parts(), enough), len(heard)

    assert asked([2.0, 2.0, 2.0, 2.0], 6000 * 1.9) == (None, 2)
    found, heard = asked([2.0, 0.1, 2.0, 2.0], 6000 * 0.5)
    assert heard == 4
    np.testing.assert_allclose(found[0, -1], 6000 * 630 / 600)
    found, heard = asked([2.0, 2.0, 2.0, 2.0], 6000 * 2.1)
    assert heard == 4
    np.testing.assert_allclose(found[:, -1], [12_000, 12_000 + 6000 * 4 / 600])


def test_of_all_rows_nothing_is_doubted():
    (half,) = total([2], [(0, 1, np.ones((1, 1))), (0, 1, np.full((1, 1), 3.0))], 4.0)
    assert half.tolist() == [4.0]
    assert total([2], [(0, 1, np.ones((1, 1))), (0, 1, np.full((1, 1), 3.0))], 3.9) is None
    assert total([1], [(0, 1, np.ones((1, 1)))], 0.9) is None


@pytest.mark.parametrize("solver", [1, 3, 7, 11, 13])
def test_it_is_given_up_as_soon_as_the_gap_is_too_large(tmp_path, monkeypatch, solver):
    """And tells the same as the whole sample where it is much smaller."""
    monkeypatch.setattr(weight_vectors, "PAUSE", 0)
    rng = np.random.default_rng(solver)
    X = rng.normal(size=(3000, 40)) * (rng.random((3000, 40)) < 0.2)
    value = X @ rng.normal(size=40) + 0.5 * rng.normal(size=3000)
    labels = value if solver in (11, 13) else np.where(value > 0.0, 1.0, -1.0)
    problem, real, given_up = Problem(X, labels, solver), WeightVectors.sample_gap, []

    def both(self, strata, unseen=0, whole=False):
        for scale in (1.0,) if whole else (2.0, 0.5):
            real(self, strata, unseen, whole=True)
            told, goals = self._remaining.copy(), self.goals.copy()
            self.goals[:] = scale * np.fmin(*told)
            real(self, strata, unseen, whole)
            if whole or scale >= 1.0:
                np.testing.assert_array_equal(self._remaining, told)
            else:
                assert not self.reached
                given_up.append(np.isnan(self._remaining).all())
            self.goals[:] = goals

    monkeypatch.setattr(WeightVectors, "sample_gap", both)
    store = split_problem(tmp_path, problem, N_BLOCKS)
    train(store, problem.options(group=N_BLOCKS, gap=1e-4, method="dual", max_outer=8))
    assert np.mean(given_up) > 0.5


@pytest.mark.parametrize("options", [{}, {"selection": "permute"}, {"method": "pegasos"}], ids=str)
def test_without_room_for_one_nothing_is_told(store, monkeypatch, options):
    """Then rows tell as they were when they were first worked on, which is more."""
    plan, looks = loop.plan_memory, []

    def no_room(*args):
        return replace(plan(*args), working_set_entries=0)

    def look(self, *args, **how):
        real(self, *args, **how)
        looks.extend(vectors._remaining.copy() for vectors in self.vectors)

    real = BlockDescent._look
    monkeypatch.setattr(loop, "plan_memory", no_room)
    monkeypatch.setattr(BlockDescent, "_look", look)
    heard, gap = Heard(), 0.3 if "method" in options else 1e-3
    asked = long_problem().options(group=2, gap=gap, max_outer=200, run="none", **options)
    model = train(store, replace(asked, restart=True), heard)
    assert model.metadata["certificate"]["gap"] <= gap
    assert looks
    assert all(np.isnan(found).all() for found in looks)
    assert sum(event.certificates for event in heard.of(OuterIteration)) <= 2


@pytest.mark.parametrize(
    ("selection", "n_rows", "room", "expected"),
    [
        ("permute", 1000, 5000, 5000),  # of few rows all, as far as there is room
        ("permute", 1000, 20_000, 10_000),
        ("permute", 8192, 20_000, 10_000 // 8),  # one in four of them, packed
        ("active", 8192, 9000, 9000 // 8),
        ("active", 8192, 15_000, 10_000 // 8),
        ("active", 8192, 80_000, 80_000 // 16),
        ("active", 8192, 0, 0),
    ],
)
def test_how_many_entries_it_has(selection, n_rows, room, expected):
    manifest = SimpleNamespace(n_rows=n_rows, nnz=10_000)
    assert sample_entries(manifest, room, TrainOptions(selection=selection)) == expected
