"""Warm starts that need not read all blocks: rows near the margin, and passes cut short."""

import errno
import shutil
from dataclasses import replace

import numpy as np
import pytest

from blocklinear.events import OuterIteration
from blocklinear.store.changes import remove
from blocklinear.store.merging import compact
from blocklinear.store.prefetch import GroupLoader
from blocklinear.store.store import BlockStore
from blocklinear.training import near, train
from blocklinear.training.active import ActiveRows
from blocklinear.training.checkpoint import Checkpoint
from blocklinear.training.garbage import collect_garbage
from blocklinear.training.margin import MarginDescent
from blocklinear.training.previous import find_previous
from training.small import Heard, outcome, split_text
from training.test_resume import broken_off
from training.warm import check, how, more, rows, trained

WIDTHS = {"preference": "f4", "active": "u1"}


def grow(tmp_path, n_rows, n_new):
    """A store of 12 blocks that was trained on, and to which 2 came since."""
    store = split_text(tmp_path, rows(1, n_rows, 30), 12)
    train(store, how(3, gap=5e-3, group=1))
    return more(store, rows(2, n_new, 30), "more", 2)


@pytest.fixture
def grown(tmp_path):
    """One whose run left rows near the margin."""
    return grow(tmp_path, 2400, 200)


@pytest.fixture
def forgetful(tmp_path):
    """One whose run could not keep them."""
    store = grow(tmp_path, 800, 80)
    checkpoint = Checkpoint(store.folder / "runs" / "default")
    names = [name for name in checkpoint.names if not name.startswith("near")]
    assert len(names) == len(checkpoint.names) - 1
    kept = {name: checkpoint.mapped(name, np.dtype(WIDTHS.get(name, "f8"))) for name in names}
    checkpoint.save(checkpoint.facts, kept)
    return store


def loaded_blocks(monkeypatch):
    loads, original = [], GroupLoader._load
    monkeypatch.setattr(
        GroupLoader, "_load", lambda self, blocks: loads.append(blocks) or original(self, blocks)
    )
    return loads


def test_rows_near_the_margin_spare_reading_all_blocks_for_them(grown, monkeypatch):
    loads = loaded_blocks(monkeypatch)
    found = trained(grown, how(3, gap=5e-3, group=1, warm_start=True))
    assert found.model.metadata["outer_iterations"] == 1
    assert found.started.near_bytes > 2 * found.started.near_rows > 200
    facts = Checkpoint(grown.folder / "runs" / "default").facts
    assert facts["method"]["primed"]
    # new blocks come first, twice; then the certificate takes all
    assert set(loads[:2]) == set(loads[2:4]) == {(12,), (13,)}
    assert 4 <= facts["cut"] < 10
    assert len(loads) == facts["cut"] + 14
    assert sorted(loads[-14:]) == [(k,) for k in range(14)]


def test_new_blocks_come_first_and_no_block_is_loaded_in_vain(forgetful, monkeypatch):
    loads = loaded_blocks(monkeypatch)
    model = train(forgetful, how(3, gap=5e-3, group=1, warm_start=True))
    assert set(loads[:2]) == {(12,), (13,)}
    facts = Checkpoint(forgetful.folder / "runs" / "default").facts
    assert facts["new_blocks"] == [12, 13]
    assert model.metadata["outer_iterations"] == 2
    # the first outer iteration and the certificate take all, the second some that both know
    assert facts["cut"] is not None
    assert len(loads) == 14 + facts["cut"] + 14
    assert sorted(loads[-14:]) == [(k,) for k in range(14)]


@pytest.fixture
def squared(tmp_path):
    """One that was trained on with squared hinge loss, and to which 2 blocks came since."""
    store = split_text(tmp_path, rows(1, 2400, 30), 12)
    train(store, SQUARED)
    return more(store, rows(2, 200, 30), "more", 2)


SQUARED = how(1, gap=1e-3, group=1, warm_start=True)


def test_where_most_alpha_move_new_rows_are_held_and_their_blocks_come_last(squared, monkeypatch):
    loads, tried = loaded_blocks(monkeypatch), MarginDescent._others
    monkeypatch.setattr(MarginDescent, "_others", lambda *args: max(tried(*args), 1e3))  # no cut
    found = trained(squared, replace(SQUARED, max_outer=2))
    facts = Checkpoint(squared.folder / "runs" / "default").facts
    assert found.started.near_rows > 100
    assert facts["method"]["primed"]
    assert set(loads[:2]) == set(loads[26:28]) == {(12,), (13,)}
    assert loads[2:14] == loads[14:26]
    descent = facts["method"]
    assert descent["settling"]
    assert descent["new"] == [12, 13]


def test_held_rows_are_all_of_their_blocks(squared, monkeypatch):
    seen, settle = [], MarginDescent._settle

    def settled(self, *args):
        flags = [self._active.read((block,)) for block in range(14)]
        seen.append((all(flags[12]) and all(flags[13]), np.mean(np.concatenate(flags[:12]))))
        settle(self, *args)

    monkeypatch.setattr(MarginDescent, "_settle", settled)
    trained(squared, SQUARED)
    assert all(held for held, _ in seen)
    assert 0.1 < seen[0][1] < 0.9


def test_new_blocks_end_the_first_outer_iteration_where_they_are_not_held(squared, monkeypatch):
    monkeypatch.setattr(ActiveRows, "hold", lambda *_: False)
    loads = loaded_blocks(monkeypatch)
    found = check(squared, SQUARED)
    assert found.model.metadata["certificate"]["gap"] <= 1e-3
    assert set(loads[:2]) == set(loads[14:16]) == {(12,), (13,)}


@pytest.mark.parametrize("held", [True, False])
def test_squared_hinge_loss_is_resumed_to_the_same_bits(squared, tmp_path, monkeypatch, held):
    if not held:
        monkeypatch.setattr(ActiveRows, "hold", lambda *_: False)
    shutil.copytree(squared.folder, tmp_path / "again")
    unbroken, _ = outcome(squared, SQUARED)
    (found, _), n_breaks = broken_off(BlockStore.open(tmp_path / "again"), SQUARED, 1)
    assert n_breaks >= (2 if held else 4)
    assert found == unbroken


def test_a_full_disk_leaves_no_rows_and_says_so(grown, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(near.codec, "encode", full)
    found = trained(grown, how(3, gap=5e-3, group=1, warm_start=True))
    (warning,) = found.warnings
    assert "near.work: write failed: No space left on device" in warning
    assert "a warm start from this run will read more blocks" in warning
    assert "near" not in Checkpoint(grown.folder / "runs" / "default").names
    assert found.model.metadata["certificate"]["gap"] <= 5e-3


@pytest.mark.parametrize("kind", ["grown", "forgetful"])
def test_an_outer_iteration_cut_short_is_resumed_to_the_same_bits(kind, request, tmp_path):
    store = request.getfixturevalue(kind)
    shutil.copytree(store.folder, tmp_path / "again")
    options = how(3, gap=5e-3, group=1, warm_start=True)
    unbroken, _ = outcome(store, options)
    (found, _), n_breaks = broken_off(BlockStore.open(tmp_path / "again"), options, 1)
    assert n_breaks >= (15 if kind == "forgetful" else 4)
    assert Checkpoint(tmp_path / "again" / "runs" / "default").facts["cut"] is not None
    assert found == unbroken


def whole_rows(store):
    """What every row of a store is: its norm, label, indices and values, by its position."""
    blocks = tuple(range(len(store.manifest.blocks)))
    with GroupLoader(store, len(blocks), 1) as loader:
        (loaded,) = loader.stream([blocks])
    group = loaded.group
    ends = zip(group.indptr[:-1].tolist(), group.indptr[1:].tolist(), strict=True)
    return [
        (n, label, group.indices[a:b].tolist(), group.values[a:b].tolist())
        for n, label, (a, b) in zip(
            group.sq_norm.tolist(), group.labels.tolist(), ends, strict=True
        )
    ]


@pytest.mark.parametrize("change", ["add", "remove", "compact"])
def test_rows_near_the_margin_are_found_where_they_went(grown, monkeypatch, change):
    options = how(3, gap=5e-3, group=1, warm_start=True)
    train(grown, options)
    store = grown
    if change == "add":
        store = more(store, rows(3, 60, 30), "last", 1)
    elif change == "remove":
        store = remove(store, blocks=[3, 12])
    else:
        compact(store.folder)
        store = BlockStore.open(store.folder)
    duals, prime, whole = [], MarginDescent.prime, whole_rows(store)

    def primed(self, terms, found):
        found = list(found)
        prime(self, terms, found)
        ends = np.cumsum([0, *(block.rows for block in store.manifest.blocks)])
        kept, positions = self._kept.rows(), [ends[block] + part.positions for block, part in found]
        assert sum(map(len, positions)) > 100
        assert set(kept.positions) <= set(np.concatenate(positions))
        assert (np.flatnonzero(self._active.all) == kept.positions).all()
        copies = [*(part for _, part in found), kept]
        for copy, where in zip(copies, [*positions, kept.positions], strict=True):
            for k in range(len(where)):
                span = slice(copy.starts[k], copy.stops[k])
                entries = copy.indices[span].tolist(), copy.values[span].tolist()
                assert (copy.sq_norm[k], copy.labels[k], *entries) == whole[where[k]]
        with GroupLoader(store, 1, 1) as loader:
            blocks = range(len(store.manifest.blocks))
            duals.append((self._dual(), self.certify(loader.stream([(b,) for b in blocks])).dual))

    monkeypatch.setattr(MarginDescent, "prime", primed)
    train(store, replace(options, max_outer=1))
    ((kept_up, computed),) = duals
    assert kept_up == pytest.approx(computed, rel=1e-10)  # the latter is a bound


@pytest.mark.parametrize("kind", ["normalized", "float32", "weighted", "as is"])
@pytest.mark.parametrize("solver", [1, 3])
def test_rows_left_near_the_margin_come_back_to_the_last_bit(tmp_path, kind, solver):
    options = {"normalized": {"normalize": "l2"}, "float32": {"dtype": "float32"}}.get(kind, {})
    if kind == "weighted":
        (tmp_path / "w").write_text("".join(f"{k % 7 / 3!r}\n" for k in range(900)))
        options = {"weights": str(tmp_path / "w")}
    store = split_text(tmp_path, rows(1, 900, 30), 5, **options)
    train(store, how(solver, gap=1e-3, group=2))
    previous = find_previous(store.folder / "runs" / "default", how(solver), Heard())
    whole, start, n_left = whole_rows(store), 0, 0
    for number, block in enumerate(store.manifest.blocks):
        for part in previous.near.of_block(number, store.manifest):
            weights = part.weights if part.weights is not None else np.ones(len(part.labels))
            assert (weights > 0.0).all()
            for k, line in enumerate(part.positions.tolist()):
                span = slice(part.starts[k], part.stops[k])
                sq_norm, *others = whole[start + line]
                entries = part.indices[span].tolist(), part.values[span].tolist()
                assert [part.labels[k], *entries] == others
                assert part.sq_norm[k] == pytest.approx(sq_norm, rel=1e-15)
            n_left += len(part.labels)
        start += block.rows
    assert 0.1 < n_left / store.manifest.n_rows < {1: 0.8, 3: 0.4}[solver]


def test_nothing_of_removed_rows_is_left_after_gc(grown):
    options = how(3, gap=5e-3, group=1, warm_start=True)
    train(grown, options)
    folder = grown.folder / "runs" / "default"
    assert list(folder.glob("near*"))
    remove(grown, blocks=[12])
    collect_garbage(grown)
    assert not list(folder.glob("near*"))
    found = check(BlockStore.open(grown.folder), how(3, gap=5e-3, group=1))
    assert found.started.how == "recomputed"


@pytest.mark.parametrize("damage", ["flip", "cut", "gone"])
def test_damaged_rows_near_the_margin_are_done_without(grown, damage):
    (path,) = (grown.folder / "runs" / "default").glob("near.*")
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.unlink()
    if damage != "gone":
        path.write_bytes(raw if damage == "flip" else raw[:-100])
    found = trained(grown, how(3, gap=5e-3, group=1, warm_start=True))
    assert not found.warnings
    assert not Checkpoint(grown.folder / "runs" / "default").facts["method"]["primed"]
    assert found.started.how == "kept"
    assert found.model.metadata["certificate"]["gap"] <= 5e-3


def test_rows_left_by_another_version_are_no_crash(grown):
    checkpoint = Checkpoint(grown.folder / "runs" / "default")
    del checkpoint.facts["method"]["places"]
    arrays = {
        name: checkpoint.mapped(name, np.dtype(WIDTHS.get(name, "u1" if name == "near" else "f8")))
        for name in checkpoint.names
    }
    checkpoint.save(checkpoint.facts, arrays)
    found = trained(grown, how(3, gap=5e-3, group=1, warm_start=True))
    (warning,) = found.warnings
    assert "was saved by another version: training starts from the beginning" in warning
    assert found.model.metadata["certificate"]["gap"] <= 5e-3


def test_where_an_outer_iteration_was_cut_too_early_the_next_is_not(grown, monkeypatch):
    """Else the same blocks would be left out for ever."""
    monkeypatch.setattr(MarginDescent, "_others", lambda self, group: 0.0)  # foresees too little
    monkeypatch.setattr(MarginDescent, "_settle", lambda self, *_: vars(self).update(_settled=0.0))
    heard = Heard()
    train(grown, how(3, gap=1e-3, group=1, warm_start=True, max_outer=60), heard)
    seen = heard.of(OuterIteration)
    tries = [event.gap for event in seen if event.certified]
    assert seen[0].certified
    assert tries[0] > 1e-3 >= tries[-1]
    assert Checkpoint(grown.folder / "runs" / "default").facts["cut"] is None
