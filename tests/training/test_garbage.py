"""What `gc` leaves of runs: alpha of the rows there are, and nothing that came from others."""

import json
import os
from dataclasses import replace

import numpy as np
import pytest

from blocklinear.errors import DamagedError, MismatchError
from blocklinear.events import Warned
from blocklinear.ingest.compact import compact
from blocklinear.ingest.split import split
from blocklinear.options import SplitOptions, TextOptions, TrainOptions
from blocklinear.store.changes import remove
from blocklinear.store.store import BlockStore
from blocklinear.training import train
from blocklinear.training.checkpoint import FORMAT, Checkpoint, _checksum
from blocklinear.training.garbage import Collected, collect_garbage

TEXT = "".join(
    f"{1 if i % 3 else -1} {1 + i % 7}:{0.1 * (i % 11) - 0.4:.2f} {9 + i % 5}:{i % 4 - 1.5}\n"
    for i in range(300)
)
MEMORY = 1 << 30


@pytest.fixture
def store(tmp_path):
    (tmp_path / "rows").write_text(TEXT)
    options = SplitOptions(text=TextOptions(memory_bytes=MEMORY, threads=1), blocks=6)
    return split([tmp_path / "rows"], tmp_path / "store", options)


def run_of(store, name="r"):
    folder = store.folder / "runs" / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def save(store, name="r", times=1, columns=1, **facts):
    """Save a checkpoint whose alpha tells block and row, in both generations if `times` is 2."""
    blocks = [[block.name, block.rows] for block in store.manifest.blocks]
    lines = np.concatenate([1000 * k + np.arange(rows) for k, (_, rows) in enumerate(blocks)])
    alpha = np.stack([lines + column / 8 for column in range(columns)], axis=1).squeeze()
    arrays = {
        "alpha": alpha, "ranges-0": (lines % 3).astype(np.uint16), "preference": np.zeros(0),
        "preference-1": lines.astype(np.float32), "w": lines / 7, "average": np.ones(3),
    }  # fmt: skip
    for _ in range(times):
        Checkpoint(run_of(store, name)).save({"blocks": blocks} | facts, arrays)
    return alpha


def kept(store, alpha, gone):
    parts, start = [], 0
    for k, block in enumerate(store.manifest.blocks):
        if k not in gone:
            parts.append(alpha[start : start + block.rows])
        start += block.rows
    return np.concatenate(parts)


@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("gone", [[2], [0, 5], [0, 1, 2, 3, 4]], ids=str)
def test_lines_of_removed_rows_are_dropped(store, columns, gone):
    alpha = save(store, times=2, columns=columns, outer=7)
    for name in ("alpha.work", ".tmp-1"):
        (run_of(store) / name).write_bytes(b"scratch")
    remove(store, blocks=gone)
    assert collect_garbage(store).runs == 1
    checkpoint = Checkpoint(run_of(store))
    left = [[b.name, b.rows] for k, b in enumerate(store.manifest.blocks) if k not in gone]
    assert checkpoint.facts == {"blocks": left, "warm_only": True, "outer": 7}
    expected = kept(store, alpha, gone)
    found, spans = np.zeros_like(expected), np.zeros(len(expected), np.uint16)
    preference = np.zeros(len(expected), np.float32)
    checkpoint.load({"alpha": found, "ranges-0": spans, "preference-1": preference})
    assert (found == expected).all()
    rows = np.trunc(expected.reshape(len(expected), -1)[:, 0])
    assert (spans == rows % 3).all()
    assert (preference == rows).all()
    names = set(os.listdir(run_of(store)))
    assert not any(name.startswith(("w", "average", ".tmp")) for name in names)
    assert len({name.rpartition(".")[2] for name in names - {"checkpoint.json"}}) <= 1
    before = (run_of(store) / "checkpoint.json").read_bytes()
    assert collect_garbage(store).runs == 0
    assert (run_of(store) / "checkpoint.json").read_bytes() == before


def test_a_run_of_removed_rows_alone_is_gone(store):
    save(store, times=2)
    remove(store, blocks=[0])
    manifest = BlockStore.open(store.folder).manifest
    half = [[b.name, b.rows] for b in store.manifest.blocks[:1]]
    folder = run_of(store, "half")
    Checkpoint(folder).save({"blocks": half}, {"alpha": np.ones(half[0][1])})
    collect_garbage(store)
    assert not folder.exists()
    assert Checkpoint(run_of(store)).facts["blocks"] == [[b.name, b.rows] for b in manifest.blocks]


def test_files_of_a_run_that_goes_are_counted(store):
    remove(store, blocks=[0])
    name, rows = store.manifest.blocks[0].name, store.manifest.blocks[0].rows
    folder = run_of(store, "half")
    Checkpoint(folder).save({"blocks": [[name, rows]]}, {"alpha": np.ones(rows)})
    gone = [*folder.iterdir(), store.folder / "blocks" / name]
    collected = Collected(len(gone), sum(path.stat().st_size for path in gone), 1)
    assert collect_garbage(store) == collected
    assert not any(path.exists() for path in gone)


def test_other_runs_stay_as_they_are(store):
    save(store)
    before = {path.name: path.read_bytes() for path in run_of(store).iterdir()}
    (run_of(store) / "w.1").write_bytes(b"of a save that was killed")
    (run_of(store) / "notes.txt").write_bytes(b"of somebody")
    (store.blocks_folder / "b00000099.blk").write_bytes(b"left")
    collect_garbage(store)
    (run_of(store) / "notes.txt").unlink()
    assert {path.name: path.read_bytes() for path in run_of(store).iterdir()} == before


def test_alpha_follows_merged_blocks(store):
    save(store)
    compact(store)
    collect_garbage(store)
    assert Checkpoint(run_of(store)).facts["blocks"][0][0] == store.manifest.blocks[0].name
    moved = BlockStore.open(store.folder).manifest.moved
    assert set(moved) == {block.name for block in store.manifest.blocks}
    for path in run_of(store).iterdir():
        path.unlink()
    collect_garbage(store)
    assert BlockStore.open(store.folder).manifest.moved == {}


@pytest.mark.parametrize("damage", ["json", "alpha", "facts"])
def test_a_damaged_checkpoint_is_deleted(store, damage):
    save(store, times=2)
    path = run_of(store) / "checkpoint.json"
    if damage == "json":
        path.write_bytes(path.read_bytes()[:-7])
    elif damage == "facts":
        Checkpoint(run_of(store)).save({"blocks": 3}, {"alpha": np.zeros(100)})
    else:
        for alpha in run_of(store).glob("alpha.*"):
            alpha.write_bytes(alpha.read_bytes()[:-8] + b"12345678")
    heard = []
    remove(store, blocks=[1])
    collect_garbage(store, heard.append)
    assert os.listdir(run_of(store)) == []
    assert [type(event) for event in heard] == [Warned]
    assert str(run_of(store)) in heard[0].message


@pytest.mark.parametrize("removed", [False, True])
def test_a_run_of_a_newer_version_stays_unless_rows_are_to_go(store, removed):
    save(store)
    path = run_of(store) / "checkpoint.json"
    body = json.loads(path.read_bytes())["checkpoint"] | {"format": FORMAT + 1}
    content = json.dumps({"checksum": _checksum(body), "checkpoint": body}).encode()
    path.write_bytes(content)
    if removed:
        remove(store, blocks=[store.manifest.blocks[0].name])
    compact(store)
    heard = []
    collect_garbage(store, heard.append)
    assert bool(BlockStore.open(store.folder).manifest.moved) == (not removed)
    if removed:
        assert os.listdir(run_of(store)) == []
        assert "is newer than" in heard[0].message
        return
    assert heard == []
    assert path.read_bytes() == content


def test_what_is_of_no_store_stays(store):
    strange = [store.blocks_folder / "notes.txt", store.folder / "features/names.csv"]
    for path in strange:
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
    (store.blocks_folder / "b00000099.blk").write_bytes(b"left")
    (store.folder / "features/f00000099.map").write_bytes(b"left")
    assert collect_garbage(store).files == 2
    assert [path.read_text() for path in strange] == ["mine", "mine"]


def test_an_array_of_another_length_is_damage(store):
    save(store)
    checkpoint = Checkpoint(run_of(store))
    checkpoint.save(checkpoint.facts, {"alpha": np.zeros(store.manifest.n_rows + 1)})
    with pytest.raises(DamagedError, match="a line for each of 300 rows"):
        checkpoint.keep_rows({store.manifest.blocks[0].name})


def test_a_real_run(store):
    options = TrainOptions(memory_bytes=MEMORY, threads=1, group=2, max_outer=3, run="real")
    train(store, options)
    facts = Checkpoint(run_of(store, "real")).facts
    collect_garbage(store)  # nothing was removed: it can be resumed
    assert Checkpoint(run_of(store, "real")).facts == facts
    left = remove(store, blocks=[3])
    collect_garbage(store)
    checkpoint = Checkpoint(run_of(store, "real"))
    assert checkpoint.facts["warm_only"]
    alpha = np.zeros(left.manifest.n_rows)
    checkpoint.load({"alpha-0": alpha})
    assert alpha.any()
    with pytest.raises(MismatchError, match="changed"):
        train(left, replace(options, resume=True))
