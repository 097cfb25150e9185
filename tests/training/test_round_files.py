"""Alpha between rounds: what was written is read, or refused."""

from dataclasses import replace

import numpy as np
import pytest

from blocklinear.errors import DamagedError, StorageError
from blocklinear.training.checkpoint import files_of_rounds
from blocklinear.training.rounds import files as round_files
from blocklinear.training.rounds.alpha import RoundAlpha

SIZES = [3, 0, 5, 1]
PARTS = [(5, 4), (0, 1, 2, 3)]
BEFORE, AFTER = np.zeros(2), np.ones(2)


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(round_files, "SHOWS_UP_S", 0.0)


@pytest.fixture
def files(tmp_path):
    return RoundAlpha(tmp_path, 7, PARTS, [*SIZES, 1, 1], [0, 4])


@pytest.fixture
def alpha():
    rng = np.random.default_rng(0)
    return rng.normal(size=(2, sum(SIZES), 2))


def test_any_blocks_are_read(files, alpha):
    files.write(1, *alpha)
    stops = np.cumsum(SIZES)
    for places in ([0], [3, 0], [2, 1], [0, 1, 2, 3], []):
        for steps, written in ((BEFORE, alpha[0]), (AFTER, alpha[1])):
            found = files.of_blocks(places, steps)
            for place, own in zip(places, found, strict=True):
                rows = slice(stops[place] - SIZES[place], stops[place])
                np.testing.assert_array_equal(own, written[rows])


@pytest.mark.parametrize(("number", "part"), [(8, 1), (7, 0)])
def test_a_file_of_another_part_is_refused(files, alpha, tmp_path, number, part):
    files.write(1, *alpha)
    (tmp_path / "alpha.7.1").rename(tmp_path / f"alpha.{number}.{part}")
    with pytest.raises(DamagedError, match="not of this part"):
        replace(files, number=number, parts=PARTS[1 - part :]).of_blocks([0], AFTER)


def test_a_file_of_other_blocks_is_refused(files, alpha):
    files.write(1, *alpha)
    with pytest.raises(DamagedError, match="of other blocks"):
        replace(files, rows=[4, 0, 4, 1, 1, 1]).of_blocks([0], AFTER)


def test_every_flipped_byte_is_noticed(files, alpha, tmp_path):
    files.write(1, *alpha)
    path = tmp_path / "alpha.7.1"
    raw = path.read_bytes()
    for at in range(len(raw)):
        path.write_bytes(raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :])
        with pytest.raises(DamagedError):
            files.of_blocks([0, 1, 2, 3], AFTER)


def test_every_cut_is_noticed(files, alpha, tmp_path):
    files.write(1, *alpha)
    path = tmp_path / "alpha.7.1"
    raw = path.read_bytes()
    for length in range(len(raw)):
        path.write_bytes(raw[:length])
        with pytest.raises(DamagedError):
            files.of_blocks([0, 1, 2, 3], AFTER)


def test_a_missing_file(files):
    with pytest.raises(StorageError, match="read failed"):
        files.of_blocks([0], AFTER)


def test_files_of_rounds(files, alpha, tmp_path):
    for outer in (7, 10):
        replace(files, number=outer).write(1, *alpha)
    for name in ("alpha.0", "alpha-1.0", "alpha.7.work", "alpha.x.1", "w.7.1"):
        (tmp_path / name).touch()
    found = {path.name: outer for path, outer in files_of_rounds(tmp_path).items()}
    assert found == {"alpha.7.1": 7, "alpha.10.1": 10}
