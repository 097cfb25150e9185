"""Alpha between rounds: what was written is read, or refused."""

from dataclasses import replace

import numpy as np
import pytest

from blocklinear.errors import DamagedError, StorageError
from blocklinear.training.rounds import files as round_files
from blocklinear.training.rounds.files import AlphaFile, files_of_rounds

SIZES = [3, 0, 5, 1]


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(round_files, "SHOWS_UP_S", 0.0)


@pytest.fixture
def file(tmp_path):
    return AlphaFile(tmp_path, 7, 1, SIZES, 2)


@pytest.fixture
def alpha():
    rng = np.random.default_rng(0)
    return rng.normal(size=(2, sum(SIZES), 2))


def test_any_blocks_are_read(file, alpha):
    file.write(*alpha)
    stops = np.cumsum(SIZES)
    for places in ([0], [3, 0], [2, 1], [0, 1, 2, 3], []):
        found = file.read(places)
        for place, pair in zip(places, found, strict=True):
            rows = slice(stops[place] - SIZES[place], stops[place])
            np.testing.assert_array_equal(pair, alpha[:, rows])


@pytest.mark.parametrize(("outer", "number"), [(8, 1), (7, 0)])
def test_a_file_of_another_part_is_refused(file, alpha, tmp_path, outer, number):
    file.write(*alpha)
    (tmp_path / "alpha.7.1").rename(tmp_path / f"alpha.{outer}.{number}")
    with pytest.raises(DamagedError, match="not of this part"):
        replace(file, round=outer, part=number).read([0])


def test_a_file_of_other_blocks_is_refused(file, alpha):
    file.write(*alpha)
    with pytest.raises(DamagedError, match="of other blocks"):
        replace(file, sizes=[4, 0, 4, 1]).read([0])


def test_every_flipped_byte_is_noticed(file, alpha, tmp_path):
    file.write(*alpha)
    path = tmp_path / "alpha.7.1"
    raw = path.read_bytes()
    for at in range(len(raw)):
        path.write_bytes(raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :])
        with pytest.raises(DamagedError):
            file.read([0, 1, 2, 3])


def test_every_cut_is_noticed(file, alpha, tmp_path):
    file.write(*alpha)
    path = tmp_path / "alpha.7.1"
    raw = path.read_bytes()
    for length in range(len(raw)):
        path.write_bytes(raw[:length])
        with pytest.raises(DamagedError):
            file.read([0, 1, 2, 3])


def test_a_missing_file(file):
    with pytest.raises(StorageError, match="read failed"):
        file.read([0])


def test_files_of_rounds(file, alpha, tmp_path):
    for outer in (7, 10):
        replace(file, round=outer).write(*alpha)
    for name in ("alpha.0", "alpha-1.0", "alpha.7.work", "alpha.x.1", "w.7.1"):
        (tmp_path / name).touch()
    found = {path.name: outer for path, outer in files_of_rounds(tmp_path).items()}
    assert found == {"alpha.7.1": 7, "alpha.10.1": 10}
