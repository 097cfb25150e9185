import errno
import json
import os
from dataclasses import replace

import numpy as np
import pytest

from blocklinear.errors import DamagedError, StorageError
from blocklinear.training import checkpoint, train
from blocklinear.training.checkpoint import FORMAT, Checkpoint, discard
from training.small import long_problem, outcome, split_problem

FACTS = {"outer": 3, "ratio": 0.1, "best": None, "course": {"labels": [1.0, -1.0]}}


def arrays(scale=1.0):
    """Arrays of several kinds, some of them long; one is longer than a piece."""
    rng = np.random.default_rng(0)
    return {
        "w": scale * rng.normal(size=1000),
        "alpha": scale * rng.random(1 << 18),
        "active": (rng.random(300) < 0.5).astype(np.uint8),
        "preference": (scale * rng.normal(size=(70, 2))).astype(np.float32),
        "touch": np.array([np.inf, -np.inf, 5e-324, -0.0, 0.1 * scale]),
        "empty": np.zeros(0),
    }


def loaded(folder):
    found = {name: np.full_like(array, 9) for name, array in arrays().items()}
    saved = Checkpoint(folder)
    saved.load(found)
    return saved.facts, found


def assert_same(found, expected):
    for name, array in expected.items():
        assert found[name].tobytes() == array.tobytes()


def test_what_was_saved_last_is_loaded_to_the_bit(tmp_path):
    saving = Checkpoint(tmp_path)
    assert saving.facts is None
    for outer in range(4):
        saving.save(FACTS | {"outer": outer}, arrays(1.0 + outer))
        facts, found = loaded(tmp_path)
        assert facts == saving.facts == FACTS | {"outer": outer}
        assert_same(found, arrays(1.0 + outer))
    Checkpoint(tmp_path).save(FACTS, arrays(9.0))  # by another process
    assert_same(loaded(tmp_path)[1], arrays(9.0))
    assert len(list(tmp_path.iterdir())) == 1 + 4  # of one generation


def test_a_crash_while_saving_leaves_the_one_before(tmp_path, monkeypatch):
    """Whatever file operation is the last."""
    saving = Checkpoint(tmp_path)
    saving.save(FACTS, arrays(1.0))
    saving.save(FACTS, arrays(2.0))
    calls = []

    def crash_at(last, name):
        original = getattr(os, name)

        def called(*args):
            calls.append(name)
            if len(calls) > last:
                raise KeyboardInterrupt
            return original(*args)

        monkeypatch.setattr(os, name, called)

    for last in range(8):
        calls.clear()
        with monkeypatch.context() as monkeypatch:
            for name in ("fsync", "rename"):
                crash_at(last, name)
            try:
                Checkpoint(tmp_path).save(FACTS | {"outer": 4}, arrays(3.0))
            except KeyboardInterrupt:
                crashed = True
            else:
                crashed = False
        facts, found = loaded(tmp_path)
        renamed = "rename" in calls[:last]
        assert facts["outer"] == (4 if renamed else 3)
        assert_same(found, arrays(3.0 if renamed else 2.0))
        if not crashed:
            break
    else:
        pytest.fail("it never ended")
    assert last == 7  # four arrays, the checkpoint, its new name, its folder


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
@pytest.mark.parametrize("call", range(5))
def test_a_full_disk_leaves_the_one_before(tmp_path, monkeypatch, call, number):
    saving = Checkpoint(tmp_path)
    saving.save(FACTS, arrays(1.0))
    calls = []

    def full(descriptor):
        calls.append(descriptor)
        if len(calls) > call:
            raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(StorageError) as caught:
            saving.save(FACTS, arrays(2.0))
    assert caught.value.exit_code == 6
    assert os.strerror(number) in str(caught.value)
    facts, found = loaded(tmp_path)
    assert facts == saving.facts == FACTS
    assert_same(found, arrays(1.0))
    assert not list(tmp_path.glob(".tmp*"))
    if call < len(list(tmp_path.glob("*.0"))):  # else all arrays of the new one were written
        assert not list(tmp_path.glob("*.1"))

    saving.save(FACTS, arrays(3.0))  # there is room again
    assert_same(loaded(tmp_path)[1], arrays(3.0))


def test_every_flipped_bit_of_the_checkpoint_is_found(tmp_path):
    Checkpoint(tmp_path).save(FACTS, arrays())
    path = tmp_path / "checkpoint.json"
    raw, found = path.read_bytes(), 0
    body = json.loads(raw)
    for place in range(len(raw)):
        data = bytearray(raw)
        data[place] ^= 1 << (place % 8)
        path.write_bytes(data)
        try:
            Checkpoint(tmp_path)
        except DamagedError:
            found += 1
        else:
            assert json.loads(bytes(data)) == body
    assert found > 0.99 * len(raw)


@pytest.mark.parametrize("name", ["w", "alpha", "active", "preference"])
@pytest.mark.parametrize("damage", ["flip", "cut", "longer", "gone", "folder"])
def test_damaged_arrays_are_found(tmp_path, name, damage):
    Checkpoint(tmp_path).save(FACTS, arrays())
    path = tmp_path / f"{name}.0"
    raw = path.read_bytes()
    path.unlink()
    if damage == "flip":
        for place in np.random.default_rng(0).integers(len(raw), size=20).tolist():
            data = bytearray(raw)
            data[place] ^= 1 << (place % 8)
            path.write_bytes(data)
            with pytest.raises(DamagedError, match=rf"{name}\.0: its checksum is wrong"):
                loaded(tmp_path)
        return
    if damage == "folder":
        path.mkdir()
    elif damage != "gone":
        path.write_bytes(raw[:-1] if damage == "cut" else raw + b"\0")
    with pytest.raises(DamagedError, match=rf"{name}\.0: is missing or not") as caught:
        loaded(tmp_path)
    assert caught.value.exit_code == 4
    assert "train with --restart" in caught.value.fix


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[]", b"null", b"[" * 10**5, b"\xff", b'{"a":1e999}']
)
def test_what_is_no_checkpoint_is_damaged(tmp_path, data):
    (tmp_path / "checkpoint.json").write_bytes(data)
    with pytest.raises(DamagedError, match="it is not a checkpoint"):
        Checkpoint(tmp_path)


def test_a_checkpoint_that_is_too_long_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "MAX_BYTES", 100)
    (tmp_path / "checkpoint.json").write_bytes(b" " * 101)
    with pytest.raises(DamagedError, match="larger than any checkpoint"):
        Checkpoint(tmp_path)


def test_one_of_another_format(tmp_path, monkeypatch):
    Checkpoint(tmp_path).save(FACTS, {})
    monkeypatch.setattr(checkpoint, "FORMAT", FORMAT + 1)
    with pytest.raises(DamagedError, match=f"{FORMAT} of an older .*, not {FORMAT + 1}"):
        Checkpoint(tmp_path)


@pytest.mark.parametrize("name", ["w", "touch", "more"])
def test_arrays_of_another_length(tmp_path, name):
    Checkpoint(tmp_path).save(FACTS, arrays())
    wanted = arrays()
    wanted[name] = np.zeros(len(wanted.get(name, [])) + 1)
    what = f"its {name} does not have" if name in arrays() else f"it has no {name}"
    with pytest.raises(DamagedError, match=what):
        Checkpoint(tmp_path).load(wanted)


def test_discarding(tmp_path):
    for k in range(2):
        Checkpoint(tmp_path).save(FACTS, arrays(k))
    (tmp_path / "checkpoint.json").write_bytes(b"damaged")
    (tmp_path / "notes").touch()
    discard(tmp_path)
    discard(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]


def test_training_goes_on_after_a_disk_was_full(tmp_path, monkeypatch):
    problem, saves, save = long_problem(), [], Checkpoint.save
    store = split_problem(tmp_path, problem, 4)
    options = problem.options(group=1, gap=1e-9, max_outer=4, checkpoint_s=1e-9)
    unbroken = outcome(store, options)

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def failing(self, *what):
        saves.append(what)
        if len(saves) == 6:
            monkeypatch.setattr(os, "fsync", full)
        save(self, *what)

    monkeypatch.setattr(Checkpoint, "save", failing)
    with pytest.raises(StorageError, match="No space left"):
        train(store, options)
    monkeypatch.undo()
    assert outcome(store, replace(options, resume=True))[0] == unbroken[0]
